//! What the state files of a store say: totals, outcomes, the queue. The metrics and `hypnos status` are made of it.
//!
//! The engine writes the report of every run there, of the daemon and of one-shot runs alike, so figures taken from it
//! do not depend on how hypnos is run, and do not go back when a process ends.

use std::collections::BTreeMap;

use serde_json::Value;

use super::names::Drift;
use crate::clock::Timestamp;
use crate::pass::PassName;
use crate::plan::{ActionKind, Finding, QuestionKind};
use crate::state::{
    ActionResult, Entry, Partition, PassRow, StateDir, StateError, StateReader, Total,
};

/// What the state files of a store say.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// When a run of all enabled passes last left nothing over.
    pub last_success: Option<Timestamp>,
    /// When each pass that is switched on last left nothing over.
    pub successes: BTreeMap<PassName, Timestamp>,
    /// How often each pass ended in each outcome.
    pub outcomes: BTreeMap<(PassName, String), u64>,
    /// How many plans of each pass the guard refused.
    pub refusals: BTreeMap<PassName, u64>,
    /// How many actions there were.
    pub actions: BTreeMap<(PassName, ActionKind, ActionResult), u64>,
    /// What each pass that is switched on did when it last looked at the stores.
    pub looks: BTreeMap<PassName, PassRow>,
    /// The open questions, oldest first.
    pub questions: Vec<Waiting>,
}

/// A question that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// What is asked.
    pub kind: QuestionKind,
    /// Since when.
    pub since: Timestamp,
    /// Until when it was put off.
    pub snoozed_until: Option<Timestamp>,
}

impl Journal {
    /// Reads the main state file of a store in which these passes are switched on, as of `now`.
    ///
    /// # Errors
    ///
    /// When it is there and cannot be read.
    pub fn read(dir: &StateDir, enabled: &[PassName], now: Timestamp) -> Result<Self, StateError> {
        match dir.read(Partition::Main)? {
            Some(state) => Self::of(&state, enabled, now),
            None => Ok(Self::default()),
        }
    }

    fn of(state: &StateReader, enabled: &[PassName], now: Timestamp) -> Result<Self, StateError> {
        let mut journal = Self {
            last_success: state.last_successful_run(enabled, now)?,
            refusals: state.refusals()?.into_iter().collect(),
            questions: state.open_entries()?.iter().map(Waiting::of).collect(),
            ..Self::default()
        };
        for pass in enabled {
            if let Some(at) = state.last_success(*pass, now)? {
                journal.successes.insert(*pass, at);
            }
            if let Some(look) = state.last_look(*pass)? {
                journal.looks.insert(*pass, look);
            }
        }
        for (pass, outcome, count) in state.pass_outcomes()? {
            journal.outcomes.insert((pass, outcome), count);
        }
        for total in state.totals()? {
            let Total {
                pass,
                action,
                result,
                count,
            } = total;
            journal.actions.insert((pass, action, result), count);
        }
        Ok(journal)
    }

    /// How many actions of a pass had a result, over all kinds.
    #[must_use]
    pub fn results(&self, pass: PassName, result: ActionResult) -> u64 {
        let of_pass = |action| self.actions.get(&(pass, action, result));
        ActionKind::ALL.into_iter().filter_map(of_pass).sum()
    }

    /// How many disagreements of a kind the passes last saw. Several passes may see the same one, so the highest count
    /// is taken.
    #[must_use]
    pub fn drift(&self, kind: Drift) -> u64 {
        let looks = self.looks.iter();
        let seen = looks.map(|(pass, look)| {
            let found = count(&look.findings, kind.finding().as_str());
            match kind {
                Drift::PointWithoutRow => {
                    found + left(look, ActionKind::DropPoint) - left_unlinked(look)
                }
                Drift::UnlinkedPoint => found + left_unlinked(look),
                // What other passes plan of lists follows from their removals.
                Drift::DeadLink if *pass == PassName::Orphans => {
                    let [unlink, drop] = [ActionKind::Unlink, ActionKind::DropEntity];
                    found + left(look, unlink) + left(look, drop)
                }
                _ => found,
            }
        });
        seen.max().unwrap_or_default()
    }

    /// The questions of a kind that wait at `now`: how many, and since when the oldest of them.
    #[must_use]
    pub fn waiting(&self, kind: QuestionKind, now: Timestamp) -> (u64, Option<Timestamp>) {
        let waiting = self.questions.iter().filter(|question| {
            question.kind == kind && question.snoozed_until.is_none_or(|until| until <= now)
        });
        let since = waiting.clone().map(|question| question.since).min();
        (waiting.count() as u64, since)
    }
}

impl Waiting {
    fn of(entry: &Entry) -> Self {
        Self {
            kind: entry.question.kind,
            since: entry.queued_at,
            snoozed_until: entry.snoozed_until,
        }
    }
}

/// Planned actions of a kind that were not carried out.
fn left(look: &PassRow, action: ActionKind) -> u64 {
    let [planned, applied] = [&look.planned, &look.applied].map(|n| count(n, action.as_str()));
    planned.saturating_sub(applied)
}

/// Points among those to be dropped that name no row, as far as they were not: where some went and some did not, the
/// others are taken to have gone first.
fn left_unlinked(look: &PassRow) -> u64 {
    let planned = count(&look.findings, Finding::UnlinkedToDrop.as_str());
    planned.min(left(look, ActionKind::DropPoint))
}

/// A figure of the journal; one that is not there is zero.
#[must_use]
pub fn count(counts: &Value, name: &str) -> u64 {
    counts.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// All figures of a count together.
#[must_use]
pub fn sum(counts: &Value) -> u64 {
    let counts = counts.as_object().into_iter().flat_map(|map| map.values());
    counts.filter_map(Value::as_u64).sum()
}

/// How many actions of a store are begun and not finished, over its state files; and those files that cannot be read.
///
/// # Errors
///
/// When the main state file cannot be read, or the folder cannot be listed.
pub fn open_intents(dir: &StateDir) -> Result<(u64, Vec<(String, StateError)>), StateError> {
    let mut open = open_intents_of(dir, Partition::Main)?;
    let tenants = dir.tenants()?;
    let mut damaged = tenants.damaged;
    for tenant in tenants.names {
        match open_intents_of(dir, Partition::Tenant(&tenant)) {
            Ok(count) => open += count,
            Err(error) => damaged.push((tenant, error)),
        }
    }
    Ok((open, damaged))
}

fn open_intents_of(dir: &StateDir, partition: Partition<'_>) -> Result<u64, StateError> {
    let state = dir.read(partition)?;
    state.map_or(Ok(0), |state| state.count_open_intents())
}
