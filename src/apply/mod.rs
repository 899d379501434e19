//! Applying a plan: the only module that changes a store.
//!
//! For every batch, in this order (a crash between any two steps is finished by [`replay`]):
//!
//! 1. read what will go, and check that it is still what the plan expects;
//! 2. write intents with pre-images to the state file, durably;
//! 3. remove the points that are as they were read, and see them gone; a memory with another point by now stays;
//! 4. remove the rows, in IMMEDIATE transactions that check once more: the rows, and who still exists;
//! 5. give back the points of rows that changed meanwhile;
//! 6. mark the intents as done.
//!
//! Points that list memories come after the memories, in the same way: see [`entities`].
//!
//! No transaction is held across a call to the vector store, and each is short, see [`crate::pace`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{chain, is_locked};
use crate::failpoint::Injected;
use crate::guard::Approved;
use crate::pass::{Cx, PassName};
use crate::plan::{Action, ActionKind, Reason, Tally, Unread};
use crate::report::Applied;
use crate::snapshot::SnapshotError;
use crate::state::{self, StateError};
use crate::store::rows::{OwnerBook, OwnerWatch, RowError};
use crate::store::space::SpaceError;
use crate::store::vectors::{VectorError, VectorStore};
use crate::store::{Stores, place};

pub mod begun;
mod entities;
mod files;
mod finish;
mod foreign;
mod kept;
mod mirrored;
mod points;
mod questions;
mod recheck;
pub mod replay;
mod rows;
mod states;
pub mod undo;
mod upkeep;

pub use states::{PruneError, Pruned, States};

use files::{Files, Home};

/// Actions that share one round of intents, point removals and row transactions.
const BATCH: usize = 500;
/// Rows that one transaction removes at the most.
const LARGEST_TRANSACTION: usize = 500;
/// Open intents read at once, each with its pre-image.
const AT_ONCE: u32 = 1000;

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
        reasons: impl Iterator<Item = Reason>,
    ) -> Result<Option<OwnerBook>, RowError> {
        if any_of_owner(reasons) {
            self.stores.owners()
        } else {
            Ok(None)
        }
    }

    /// The same, to be looked at once more when the rows are removed.
    fn watch_owners_for(
        &self,
        reasons: impl Iterator<Item = Reason>,
    ) -> Result<Option<OwnerWatch>, RowError> {
        if any_of_owner(reasons) {
            self.stores.watch_owners()
        } else {
            Ok(None)
        }
    }
}

fn any_of_owner(mut reasons: impl Iterator<Item = Reason>) -> bool {
    reasons.any(|reason| matches!(reason, Reason::OwnerDeleted { .. } | Reason::OwnerUnknown))
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
    let result = apply_all(plan.actions, job, &mut done)
        .and_then(|()| upkeep::apply(plan.upkeep, job, &mut done));
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
    let files = Files::list(job.stores)?;
    for (name, work) in by_partition(actions) {
        if job.cx.stop.is_requested() {
            done.interrupted = true;
            return Ok(());
        }
        let place = place(&name, job.stores.config.rows.is_per_tenant());
        let file = match files.home(place) {
            Home::File(file) => Some(file),
            Home::None => None,
            // A question needs no file.
            Home::Missing if work.is_questions() => None,
            Home::Missing => {
                done.unread.push(unfinished(place, is_missing()));
                continue;
            }
        };
        let result = rows::apply(job, file, &work.rows, done)
            .and_then(|()| points::apply(job, &name, file, work.points, done))
            .and_then(|()| entities::apply(job, &name, &work.lists, done))
            .and_then(|()| questions::apply(job, &work.questions, done));
        match result {
            // A tenant whose file, or whose state file, cannot be changed fails alone.
            Err(error) if error.is_of_one_file() && place.tenant().is_some() => {
                done.unread.push(failed(place, &error));
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
    lists: Vec<Action>,
    questions: Vec<Action>,
}

impl Work {
    /// Whether no store is touched.
    fn is_questions(&self) -> bool {
        self.rows.is_empty() && self.points.is_empty() && self.lists.is_empty()
    }
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
            Action::Unlink { .. } => work.lists.push(action),
            Action::Queue { .. } | Action::Close { .. } => work.questions.push(action),
        }
    }
    work
}

/// A row database of which something is left undone.
fn unfinished(partition: state::Partition<'_>, problem: String) -> Unread {
    Unread::new(partition.name(), problem)
}

/// A row database in which something failed.
fn failed(partition: state::Partition<'_>, error: &ApplyError) -> Unread {
    Unread {
        is_locked: is_locked(error),
        ..unfinished(partition, error.advice())
    }
}

fn is_missing() -> String {
    "its file is missing".into()
}

/// State files of which it is not even known whose they are.
fn damaged(files: &[(String, StateError)]) -> impl Iterator<Item = Unread> {
    files
        .iter()
        .map(|(name, error)| Unread::new(name.as_str(), error.advice()))
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
    /// The pairs.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The space of a file.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
}

impl ApplyError {
    /// Whether it is about one row database or its state file, and not about what all of them share.
    fn is_of_one_file(&self) -> bool {
        matches!(self, Self::Rows(_) | Self::State(_))
    }

    /// What went wrong, and what a person can do about it where that is not plain.
    fn advice(&self) -> String {
        match self {
            Self::Rows(error) => chain(error),
            Self::State(error) => error.advice(),
            other => chain(other),
        }
    }

    /// Whether a stop was the cause.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        match self {
            Self::Vectors(error) => matches!(error, VectorError::Interrupted),
            Self::Rows(error) => error.is_interruption(),
            _ => false,
        }
    }
}
