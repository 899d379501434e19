//! Taking a run back: under the same lock, journal and machinery as a night.
//!
//! ```text
//! lock -> run id -> replay open intents -> take back, latest first -> what the next night is told -> Report
//! ```
//!
//! What was changed since is left and named; what was erased cannot come back. Undoing twice finds nothing to do. The
//! run that undoes is in the journal like any other, and is not itself undone: the next night does its work again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use crate::apply::Job;
use crate::apply::undo::{self as taking_back, Fate, Rest, Returned, Scope, Undone, Why};
use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::engine::{self, Options, by_hand};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::forget;
use crate::pass::{Cx, PassName};
use crate::plan::{ActionKind, Reason, Tally, Unread};
use crate::state::{
    Dropped, Gone, Partition, RunRecord, StateDir, StateError, StateReader, Tombstone,
};
use crate::store::Stores;
use crate::store::sqlite::Access;

/// Ids that a note names.
const NAMED: usize = 20;

/// What became of the actions of a run in one store.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The store.
    pub store: Arc<str>,
    /// The run that was taken back.
    pub run: String,
    /// The run that did it; `None` when it would only have been done.
    pub by: Option<String>,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What is back.
    pub put_back: Tally<ActionKind>,
    /// What is as it was although nobody took it back: a restore did.
    pub there: Tally<ActionKind>,
    /// What had been taken back before.
    pub already: Tally<ActionKind>,
    /// What was erased, and comes back for nobody.
    pub erased: Tally<ActionKind>,
    /// What is older than is kept.
    pub not_kept: Tally<ActionKind>,
    /// What was left as it is.
    pub left: Vec<Line>,
    /// What is back without something that belonged to it.
    pub incomplete: Vec<Line>,
    /// What the next night takes again, since its reason still stands.
    pub again: Vec<Again>,
    /// Questions that are open as they were: an answer, or that they were put off, was taken back.
    pub reopened: Vec<i64>,
    /// Row databases of which not everything could be read or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    /// Each action that would be taken back, in a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Line>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Whether the run was so long ago that what it removed was dropped.
    pub expired: bool,
}

/// One action, or a part of it, that is told apart.
#[derive(Debug, Serialize)]
pub struct Line {
    /// What had been done.
    pub action: ActionKind,
    /// By which pass.
    pub pass: PassName,
    /// The row database.
    pub partition: Arc<str>,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The point: one without a memory, or one that did not come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    /// The table of a row that did not come back with the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The memory that this row is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// Why it was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// The same, for a person.
    #[serde(skip)]
    pub words: Option<&'static str>,
}

/// Actions that the next night does again.
#[derive(Debug, Serialize)]
pub struct Again {
    /// The pass that does it.
    pub pass: PassName,
    /// For which reason: `expired`, `history`, `owner_unknown`, `row_gone`, `unlinked`, `memory_gone`.
    pub reason: &'static str,
    /// How many.
    pub actions: u64,
    /// Some of the memories or points.
    pub ids: Vec<String>,
    /// What would keep it from it.
    pub advice: &'static str,
}

impl Report {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let is_all = self.left.is_empty()
            && self.incomplete.is_empty()
            && self.erased.is_empty()
            && self.not_kept.is_empty()
            && self.unread.is_empty();
        match (self.interrupted, is_all) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::Done,
            (false, false) => Exit::LeftOver,
        }
    }

    /// Whether there was nothing to take back, now or before.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let tallies = [&self.put_back, &self.there, &self.already, &self.erased];
        tallies.iter().all(|tally| tally.is_empty())
            && self.left.is_empty()
            && self.reopened.is_empty()
    }

    fn outcome(&self) -> &'static str {
        let is_idle = self.put_back.is_empty() && self.reopened.is_empty();
        match (self.exit(), is_idle) {
            (Exit::Interrupted, _) => "interrupted",
            (Exit::LeftOver, _) => "partial",
            (_, true) => "idle",
            (_, false) => "applied",
        }
    }

    fn of(stores: &Stores, scope: &Scope<'_>, by: Option<&str>, undone: Undone) -> Self {
        let mut report = Self {
            store: Arc::clone(&stores.name),
            run: scope.run.to_owned(),
            by: by.map(str::to_owned),
            dry_run: by.is_none(),
            put_back: Tally::new(),
            there: Tally::new(),
            already: Tally::new(),
            erased: Tally::new(),
            not_kept: Tally::new(),
            left: Vec::new(),
            incomplete: Vec::new(),
            again: again(&undone.actions),
            reopened: undone.reopened.into_iter().collect(),
            unread: undone.unread,
            actions: Vec::new(),
            interrupted: undone.interrupted,
            expired: false,
        };
        for action in &undone.actions {
            report.add(action);
        }
        report
    }

    /// Adds what the run did that the state has forgotten.
    fn add_dropped(&mut self, dropped: Dropped) {
        let Dropped { erased, pruned } = dropped;
        for (tally, more) in [(&mut self.erased, erased), (&mut self.not_kept, pruned)] {
            for (kind, count) in more {
                *tally.entry(kind).or_default() += count;
            }
        }
    }

    fn add(&mut self, action: &Returned) {
        let count = |tally: &mut Tally<ActionKind>| *tally.entry(action.kind).or_default() += 1;
        match action.fate {
            Fate::Back => count(&mut self.put_back),
            Fate::There => count(&mut self.there),
            Fate::Already => count(&mut self.already),
            Fate::Erased => count(&mut self.erased),
            Fate::Left(why) => self.left.push(Line::of(action).left(why)),
        }
        if self.dry_run && action.fate == Fate::Back {
            self.actions.push(Line::of(action));
        }
        let rest = action.rest.iter().map(|rest| Line::of_rest(action, rest));
        self.incomplete.extend(rest);
    }
}

impl Line {
    fn of(action: &Returned) -> Self {
        Self {
            action: action.kind,
            pass: action.pass,
            partition: Arc::clone(&action.partition),
            namespace: action.namespace.as_ref().map(ToString::to_string),
            id: action.memory.as_ref().map(ToString::to_string),
            point: action.point.as_ref().map(ToString::to_string),
            table: None,
            row: None,
            why: None,
            words: None,
        }
    }

    fn left(self, why: Why) -> Self {
        Self {
            why: Some(why.as_str()),
            words: Some(why.explain()),
            ..self
        }
    }

    fn of_rest(action: &Returned, rest: &Rest) -> Self {
        let line = Self::of(action);
        match rest {
            Rest::Row(row) => Self {
                table: Some(row.table.clone()),
                row: row.memory.as_ref().map(ToString::to_string),
                ..line.left(row.reason.into())
            },
            Rest::Point(point, why) => Self {
                point: Some(point.to_string()),
                ..line.left(*why)
            },
        }
    }
}

/// What of that which is back the next night takes again.
fn again(actions: &[Returned]) -> Vec<Again> {
    let mut all: BTreeMap<&'static str, Again> = BTreeMap::new();
    for action in actions.iter().filter(|action| action.fate.is_back()) {
        let Some((reason, advice)) = standing_reason(action.reason) else {
            continue;
        };
        let again = all.entry(reason).or_insert_with(|| Again {
            pass: action.pass,
            reason,
            actions: 0,
            ids: Vec::new(),
            advice,
        });
        again.actions += 1;
        if again.ids.len() < NAMED {
            let memory = action.memory.as_ref().map(ToString::to_string);
            let point = || action.point.as_ref().map(ToString::to_string);
            again.ids.extend(memory.or_else(point));
        }
    }
    all.into_values().collect()
}

/// A reason that taking the action back does not remove, and what would.
fn standing_reason(reason: Reason) -> Option<(&'static str, &'static str)> {
    match reason {
        Reason::Expired { .. } => Some((
            "expired",
            "their deadline is past: the next run takes them again unless it is moved",
        )),
        Reason::History { .. } => Some((
            "history",
            "they are older history than is kept: the next run takes them again unless superseded_retention is raised",
        )),
        Reason::OwnerUnknown => Some((
            "owner_unknown",
            "nobody knows their owner: after the settling time a run takes them again unless the owner is back",
        )),
        Reason::RowGone => Some((
            "row_gone",
            "no row stands behind them: after the settling time a run takes them again unless the row is back",
        )),
        Reason::Unlinked => Some((
            "unlinked",
            "they name no row: after the settling time a run takes them again unless the application writes them anew",
        )),
        Reason::MemoryGone => Some((
            "memory_gone",
            "no memory has the ids that they list: after the settling time a run takes those out again",
        )),
        Reason::MemoryRemoved
        | Reason::OwnerDeleted { .. }
        | Reason::Duplicate { .. }
        | Reason::Faded { .. }
        | Reason::Unconfirmed { .. }
        | Reason::Unused { .. }
        | Reason::Contradiction { .. }
        | Reason::Similar { .. }
        | Reason::Void
        | Reason::Answered { .. }
        | Reason::Forgotten => None,
    }
}

/// Whether the journal of a store knows a run.
///
/// # Errors
///
/// When the state file cannot be read.
pub fn knows(config: &Config, store: &config::Store, run: &str) -> Result<bool, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let known = || match dir.read(Partition::Main)? {
        Some(main) => main.has_run(run),
        None => Ok(false),
    };
    known().map_err(engine::state_failure)
}

/// What a store still knows of what a run did to one memory or point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Nothing was done to it.
    Nothing,
    /// It went, and nothing is kept of it.
    Gone,
    /// What was done.
    Deed,
}

/// What a store still knows of that which a scope with an id names.
///
/// # Errors
///
/// When a state file cannot be read.
pub fn known_of(
    config: &Config,
    store: &config::Store,
    scope: &Scope<'_>,
) -> Result<Known, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let look = || {
        let mut known = Known::Nothing;
        let began = began(&dir, scope.run)?;
        for_each_state(&dir, |state| {
            if taking_back::concerns(state, scope)? {
                known = Known::Deed;
            }
            let stones = began.map_or(Ok(Vec::new()), |at| state.tombstones(at))?;
            let is_of_run = |stone: &&Tombstone| Some(stone.at) == began;
            let is_meant = |stone: &Tombstone| {
                let id = match &stone.gone {
                    Gone::Memory(id) => id.to_string(),
                    Gone::Point(id) => id.to_string(),
                };
                scope.id == Some(id.as_str())
            };
            if stones.iter().filter(is_of_run).any(is_meant) {
                known = known.max(Known::Gone);
            }
            Ok(())
        })?;
        Ok(known)
    };
    look().map_err(engine::state_failure)
}

/// When a run began.
fn began(dir: &StateDir, run: &str) -> Result<Option<Timestamp>, StateError> {
    let runs = match dir.read(Partition::Main)? {
        Some(main) => main.runs(u32::MAX)?,
        None => Vec::new(),
    };
    let record = runs.into_iter().find(|record| record.row.run == run);
    Ok(record.map(|record| record.row.started_at))
}

/// Reads every state file of a store that is there.
fn for_each_state(
    dir: &StateDir,
    mut look: impl FnMut(&StateReader) -> Result<(), StateError>,
) -> Result<(), StateError> {
    let tenants = dir.tenants()?.names;
    let tenants = tenants.iter().map(|name| Partition::Tenant(name));
    for partition in std::iter::once(Partition::Main).chain(tenants) {
        if let Some(state) = dir.read(partition)? {
            look(&state)?;
        }
    }
    Ok(())
}

/// The last run of a store that changed something, taken back or not, still remembered or not, and when it began.
///
/// # Errors
///
/// When a state file cannot be read.
pub fn last_run(
    config: &Config,
    store: &config::Store,
) -> Result<Option<(Timestamp, String)>, Failure> {
    find_last(&StateDir::new(&config.state_dir, &store.name)).map_err(engine::state_failure)
}

fn find_last(dir: &StateDir) -> Result<Option<(Timestamp, String)>, StateError> {
    let Some(main) = dir.read(Partition::Main)? else {
        return Ok(None);
    };
    let (mut runs, mut instants) = (BTreeSet::new(), BTreeSet::new());
    for_each_state(dir, |state| {
        runs.append(&mut state.runs_with_deeds()?);
        instants.append(&mut state.instants_of_removals()?);
        Ok(())
    })?;
    let mut known = main.runs(u32::MAX)?.into_iter();
    let last = known.find(|RunRecord { row, .. }| {
        runs.contains(&row.run) || instants.contains(&row.started_at)
    });
    Ok(last.map(|record| (record.row.started_at, record.row.run)))
}

/// Takes back what a run did in one store.
///
/// # Errors
///
/// When another run holds the lock, or a store cannot be opened or changed: what was begun is finished by the next run.
pub fn undo(
    config: &Config,
    store: &config::Store,
    scope: &Scope<'_>,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Report, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let stores = Stores::open(store, &config.state_dir, forget::access(&dir), cx.stop)?;
    let end = |report: &Report| (report.outcome(), report.exit());
    by_hand::in_a_run(dir, store, options, end, |states| {
        let job = Job {
            stores: &stores,
            states,
            run: &options.run,
            pass: PassName::Review,
            now: options.now,
            cx: *cx,
        };
        by_hand::finish_earlier(&job)?;
        let undone = taking_back::undo(&job, scope).map_err(|error| failed(&error))?;
        let report = Report::of(&stores, scope, Some(&options.run), undone);
        with_what_is_lost(config, &stores.state, scope, options.now, report)
    })
}

/// Says what [`undo`] would do, and writes nothing.
///
/// # Errors
///
/// When a store cannot be opened or read.
pub fn foresee(
    config: &Config,
    store: &config::Store,
    scope: &Scope<'_>,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Report, Failure> {
    let stores = Stores::open(store, &config.state_dir, Access::Read, cx.stop)?;
    let undone = taking_back::foresee(&stores, cx, scope).map_err(|error| failed(&error))?;
    let report = Report::of(&stores, scope, None, undone);
    with_what_is_lost(config, &stores.state, scope, options.now, report)
}

fn failed(error: &crate::apply::ApplyError) -> Failure {
    let exit = if error.is_interruption() {
        Exit::Interrupted
    } else {
        Exit::Failed
    };
    Failure::new(exit, chain(error)).with_hint("what was begun is finished by the next run")
}

/// Adds what the run did that nothing is kept of, and whether nothing is found because it was so long ago.
fn with_what_is_lost(
    config: &Config,
    dir: &StateDir,
    scope: &Scope<'_>,
    now: Timestamp,
    mut report: Report,
) -> Result<Report, Failure> {
    let Some(began) = began(dir, scope.run).map_err(engine::state_failure)? else {
        return Ok(report);
    };
    if scope.is_whole() {
        let add = |state: &StateReader| {
            report.add_dropped(state.dropped(began)?);
            Ok(())
        };
        for_each_state(dir, add).map_err(engine::state_failure)?;
    }
    let horizon = now.checked_sub(config.undo_keep).unwrap_or(Timestamp::MIN);
    report.expired = report.is_empty() && began < horizon;
    Ok(report)
}
