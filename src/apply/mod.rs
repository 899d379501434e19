//! Applying a plan: the only module that changes a store.
//!
//! For every batch, in this order (a crash between any two steps is finished by [`replay`]):
//!
//! 1. read what will go, and check that it is still what the plan expects;
//! 2. write intents with pre-images to the state file, durably;
//! 3. remove the points, and see them gone;
//! 4. remove the rows, in IMMEDIATE transactions that check once more;
//! 5. give back the points of rows that changed meanwhile;
//! 6. mark the intents as done.
//!
//! No transaction is held across a call to the vector store, and each is short, see [`crate::pace`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::failpoint::Injected;
use crate::guard::Approved;
use crate::pass::{Cx, PassName};
use crate::plan::{Action, ActionKind, Reason, Tally, Unread};
use crate::report::Applied;
use crate::state::{self, State, StateDir, StateError};
use crate::store::rows::{OwnerBook, Partition, RowError};
use crate::store::vectors::{VectorError, VectorStore};
use crate::store::{MAIN, Stores};

mod finish;
mod kept;
mod points;
mod questions;
mod recheck;
pub mod replay;
mod rows;

/// Actions that share one round of intents, point removals and row transactions.
const BATCH: usize = 500;
/// Rows that one transaction removes at the most.
const LARGEST_TRANSACTION: usize = 500;

/// What applying needs to know.
pub struct Job<'a> {
    /// The store.
    pub stores: &'a Stores,
    /// Its state files.
    pub states: &'a States,
    /// The run.
    pub run: &'a str,
    /// The pass.
    pub pass: PassName,
    /// The instant of the run.
    pub now: Timestamp,
    /// Whether to stop, and where to show progress.
    pub cx: Cx<'a>,
}

impl Job<'_> {
    fn vectors(&self) -> Option<&dyn VectorStore> {
        self.stores.vectors.as_deref()
    }

    /// The owners, read anew, where one of the reasons is about them.
    fn owners_for(
        &self,
        mut reasons: impl Iterator<Item = Reason>,
    ) -> Result<Option<OwnerBook>, RowError> {
        if reasons.any(|reason| matches!(reason, Reason::OwnerDeleted { .. })) {
            self.stores.owners()
        } else {
            Ok(None)
        }
    }
}

/// Applies a plan that the guard approved. What was done before an error is counted all the same.
pub fn apply(approved: Approved, job: &Job<'_>) -> (Applied, Result<(), ApplyError>) {
    let plan = approved.into_plan();
    let planned = plan.counts();
    let mut done = Applied::default();
    job.cx.progress.begin(
        &job.stores.name,
        job.pass,
        "apply",
        Some(plan.actions.len() as u64),
    );
    let result = apply_all(plan.actions, job, &mut done);
    job.cx.progress.end();
    if result.is_err() || !done.unread.is_empty() {
        done.failed = if done.interrupted {
            Tally::new()
        } else {
            rest(&planned, &done)
        };
    }
    (done, result)
}

/// What of the plan was neither done nor skipped.
#[must_use]
pub fn rest(planned: &Tally<ActionKind>, done: &Applied) -> Tally<ActionKind> {
    let of = |tally: &Tally<ActionKind>, kind| tally.get(kind).copied().unwrap_or_default();
    let left = |kind, n: u64| n.saturating_sub(of(&done.applied, kind) + of(&done.skipped, kind));
    planned
        .iter()
        .map(|(kind, n)| (*kind, left(kind, *n)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

fn apply_all(actions: Vec<Action>, job: &Job<'_>, done: &mut Applied) -> Result<(), ApplyError> {
    for (name, work) in by_partition(actions) {
        if job.cx.stop.is_requested() {
            done.interrupted = true;
            return Ok(());
        }
        let partition = partition(job.stores, &name);
        let result = rows::apply(job, partition.as_ref(), &work.rows, done)
            .and_then(|()| points::apply(job, &name, partition.as_ref(), work.points, done))
            .and_then(|()| questions::apply(job, &work.questions, done));
        match result {
            // A tenant's file that cannot be changed fails alone.
            Err(ApplyError::Rows(error))
                if partition.as_ref().is_some_and(|p| p.tenant.is_some()) =>
            {
                done.unread.push(Unread {
                    partition: name,
                    problem: crate::error::chain(&error),
                });
            }
            Err(error) if error.is_interruption() => {
                done.interrupted = true;
                return Ok(());
            }
            other => other?,
        }
        if done.interrupted {
            return Ok(());
        }
    }
    Ok(())
}

/// What is to be done about one row database.
#[derive(Default)]
struct Work {
    rows: Vec<Action>,
    points: Vec<Action>,
    questions: Vec<Action>,
}

fn by_partition(actions: Vec<Action>) -> BTreeMap<Arc<str>, Work> {
    let mut work: BTreeMap<Arc<str>, Work> = BTreeMap::new();
    for action in actions {
        let work = work.entry(Arc::clone(action.partition())).or_default();
        match action {
            Action::Delete { .. }
            | Action::Hide { .. }
            | Action::Merge { .. }
            | Action::Confirm { .. } => {
                work.rows.push(action);
            }
            Action::DropPoint { .. } => work.points.push(action),
            Action::Queue { .. } | Action::Close { .. } => work.questions.push(action),
        }
    }
    work
}

/// The row database of that name; `None` for what belongs to no file of a store with one file per tenant.
fn partition(stores: &Stores, name: &str) -> Option<Partition> {
    if !stores.config.rows.is_per_tenant() {
        return Some(stores.rows.main());
    }
    if name == MAIN {
        None
    } else {
        stores.rows.partition(name)
    }
}

/// The state files of one store: the main one stays open, a tenant's is opened when it is needed.
pub struct States {
    dir: StateDir,
    main: State,
}

impl States {
    /// Opens the main state file, creating it if need be.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or is not what it should be.
    pub fn open(dir: StateDir) -> Result<Self, StateError> {
        let main = dir.open(state::Partition::Main)?;
        Ok(Self { dir, main })
    }

    /// The main state file.
    #[must_use]
    pub fn main(&self) -> &State {
        &self.main
    }

    /// Works on the state file of one row database.
    fn with<T, E: From<StateError>>(
        &self,
        partition: &str,
        work: impl FnOnce(&State) -> Result<T, E>,
    ) -> Result<T, E> {
        match partition {
            MAIN => work(&self.main),
            tenant => work(&self.dir.open(state::Partition::Tenant(tenant))?),
        }
    }

    /// Drops what is too old to be undone from every state file; what could be erased text is overwritten.
    ///
    /// # Errors
    ///
    /// When a state file cannot be read or written.
    pub fn prune(&self, before: Timestamp) -> Result<(), StateError> {
        self.main.prune(before)?;
        for tenant in self.tenants()? {
            let state = self.dir.open(state::Partition::Tenant(&tenant))?;
            state.prune(before)?;
            state.tidy()?;
        }
        Ok(())
    }

    /// The tenants that have a state file.
    ///
    /// # Errors
    ///
    /// When the folder cannot be listed.
    pub fn tenants(&self) -> Result<Vec<String>, StateError> {
        self.dir.tenants()
    }
}

/// Why applying stopped before its end. What was begun stays as an open intent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The row store.
    #[error("change rows")]
    Rows(#[from] RowError),
    /// The vector store.
    #[error("change points")]
    Vectors(#[from] VectorError),
    /// The state file.
    #[error("write state")]
    State(#[from] StateError),
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
}

impl ApplyError {
    /// Whether a stop was the cause.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Vectors(VectorError::Interrupted))
    }
}
