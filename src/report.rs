//! What a run did: counted once, and used for the journal, the output, the metrics and the exit code alike.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::exit::Exit;
use crate::guard::Refusal;
use crate::pass::PassName;
use crate::plan::{ActionKind, Finding, Levels, Plan, PlanHash, Tally, Unread};
use crate::snapshot::restore::Resumed;

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// There was nothing to do.
    Idle,
    /// Everything planned was done, and planning again finds nothing.
    Applied,
    /// Something was skipped, left over or could not be read; the rest was done.
    Partial,
    /// The guard refused the plan, or the stores gave no ground to act on: nothing was changed.
    Refused,
    /// The pass did not run, because an earlier one was interrupted or panicked, or because the daemon gave up its store;
    /// or it put all of its work off, because the files were in use.
    Skipped,
    /// The pass failed; what it had begun is finished by the next run.
    Failed,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::Idle,
        Self::Applied,
        Self::Partial,
        Self::Refused,
        Self::Skipped,
        Self::Failed,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Applied => "applied",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    /// The exit code that this outcome alone would give.
    #[must_use]
    pub fn exit(self) -> Exit {
        match self {
            Self::Idle | Self::Applied => Exit::Done,
            Self::Partial | Self::Refused | Self::Skipped => Exit::LeftOver,
            Self::Failed => Exit::Failed,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What became of the actions of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Done in both stores.
    pub applied: Tally<ActionKind>,
    /// Left alone, because the memory or its owner was no longer as planned.
    pub skipped: Tally<ActionKind>,
    /// Not done, because a store refused or failed.
    pub failed: Tally<ActionKind>,
    /// Row databases that could not be changed.
    pub unread: Vec<Unread>,
    /// Why a database refused to change some of its rows, each reason once.
    pub refused: BTreeSet<String>,
    /// How many bytes the files have become smaller.
    pub freed_bytes: u64,
    /// Whether a stop was requested before the end.
    pub interrupted: bool,
}

impl Applied {
    /// Adds the counts of another part of the same plan.
    pub fn merge(&mut self, other: Self) {
        let Self {
            applied,
            skipped,
            failed,
            unread,
            refused,
            freed_bytes,
            interrupted,
        } = other;
        self.refused.extend(refused);
        add(&mut self.applied, applied);
        add(&mut self.skipped, skipped);
        add(&mut self.failed, failed);
        self.unread.extend(unread);
        self.freed_bytes += freed_bytes;
        self.interrupted |= interrupted;
    }
}

/// Adds counts to others.
pub fn add(into: &mut Tally<ActionKind>, from: Tally<ActionKind>) {
    for (kind, count) in from {
        *into.entry(kind).or_default() += count;
    }
}

/// Counts actions of a kind.
pub fn count(tally: &mut Tally<ActionKind>, kind: ActionKind, actions: usize) {
    if actions > 0 {
        *tally.entry(kind).or_default() += actions as u64;
    }
}

/// What one pass did in one store.
#[derive(Debug, Clone, Serialize)]
pub struct PassReport {
    /// The store.
    pub store: Arc<str>,
    /// The pass.
    pub pass: PassName,
    /// How it ended.
    pub outcome: Outcome,
    /// Actions in the plan.
    pub planned: Tally<ActionKind>,
    /// Actions done.
    pub applied: Tally<ActionKind>,
    /// Actions left alone because the store had moved on.
    pub skipped: Tally<ActionKind>,
    /// Actions that a store refused or failed.
    pub failed: Tally<ActionKind>,
    /// Actions that planning again still found.
    pub residue: Tally<ActionKind>,
    /// What else was seen.
    pub findings: Tally<Finding>,
    /// Row databases that could not be read or changed; nothing of theirs was touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<Unread>,
    /// The thresholds that were used, by a pass that compares vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
    /// Why the pass could do only a part of what it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Why the guard refused, and what would accept the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The name of the plan, when it had actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<PlanHash>,
    /// What went wrong, when the pass failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
    /// Whether it failed because another program has locked the rows, so that the daemon tries the store again.
    #[serde(skip)]
    pub is_locked: bool,
    /// How many bytes the files have become smaller.
    #[serde(skip_serializing_if = "is_zero")]
    pub freed_bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl PassReport {
    /// The report of a plan, before anything was done with it.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        Self {
            planned: plan.counts(),
            findings: plan.findings.clone(),
            unread: plan.unread.clone(),
            degraded: plan.degraded.clone(),
            levels: plan.levels,
            hash: (!plan.actions.is_empty()).then(|| plan.hash()),
            ..Self::new(Arc::clone(&plan.store), plan.pass, Outcome::Idle)
        }
    }

    /// A report without any counts.
    #[must_use]
    pub fn new(store: Arc<str>, pass: PassName, outcome: Outcome) -> Self {
        Self {
            store,
            pass,
            outcome,
            planned: Tally::new(),
            applied: Tally::new(),
            skipped: Tally::new(),
            failed: Tally::new(),
            residue: Tally::new(),
            findings: Tally::new(),
            unread: Vec::new(),
            degraded: Vec::new(),
            levels: None,
            refusal: None,
            hash: None,
            error: None,
            hint: None,
            is_locked: false,
            freed_bytes: 0,
            seconds: 0.0,
        }
    }

    /// The outcome that the counts speak of: honest, in that anything left over makes it [`Outcome::Partial`], also what
    /// should go and is forbidden to. What was merely seen does not.
    #[must_use]
    pub fn judge(&self) -> Outcome {
        let any = |tally: &Tally<ActionKind>| tally.values().any(|count| *count > 0);
        let is_blocked = self.findings.get(&Finding::Blocked).is_some_and(|n| *n > 0);
        let is_put_off = self.pass == PassName::Vacuum && self.planned == self.skipped;
        if is_put_off && any(&self.skipped) && self.unread.is_empty() {
            return Outcome::Skipped;
        }
        let is_left = any(&self.skipped) || any(&self.failed) || any(&self.residue);
        if is_left || is_blocked || !self.unread.is_empty() {
            Outcome::Partial
        } else if any(&self.applied) {
            Outcome::Applied
        } else {
            Outcome::Idle
        }
    }
}

/// What a run did over all its stores.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The run.
    pub run: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Stores that could not be opened at all.
    pub unopened: Vec<Unopened>,
    /// Restores that were cut off, and what became of them first.
    pub restores: Vec<Resumed>,
    /// Intents of earlier runs that were finished first, over all stores.
    pub replayed: u64,
    /// Row databases in which an earlier run's intents could not be finished.
    pub unfinished: Vec<Unread>,
    /// What a person accepted to say that a store has moved.
    pub moved: Vec<PlanHash>,
    /// Each pass in each store, in the order in which they ran.
    pub passes: Vec<PassReport>,
    /// Stores of which something was left because another program has locked a database, so that the daemon tries them
    /// again.
    pub locked: Vec<Arc<str>>,
    /// Whether a stop was requested before the end.
    pub interrupted: bool,
    /// How long it took.
    pub seconds: f64,
}

/// A store that could not be opened.
#[derive(Debug, Clone, Serialize)]
pub struct Unopened {
    /// The store.
    pub store: Arc<str>,
    /// Why.
    pub error: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The exit code that follows.
    #[serde(skip)]
    pub exit: Exit,
    /// What was in the way, as far as trying again goes.
    #[serde(skip)]
    pub cause: Cause,
}

/// What was in the way of a store, as far as trying again goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The store is missing, does not answer, or is locked by another program: it may be there again later.
    Away,
    /// Another run is at work on it.
    Held,
    /// What time does not mend: the configuration, hypnos' own files, a full disk, the program itself.
    Lasting,
}

impl RunReport {
    /// A run in which nothing has happened yet.
    #[must_use]
    pub fn new(run: &str, started_at: Timestamp) -> Self {
        Self {
            run: run.to_owned(),
            started_at,
            unopened: Vec::new(),
            restores: Vec::new(),
            replayed: 0,
            unfinished: Vec::new(),
            moved: Vec::new(),
            passes: Vec::new(),
            locked: Vec::new(),
            interrupted: false,
            seconds: 0.0,
        }
    }

    /// Adds what the same run did in one more store.
    pub fn absorb(&mut self, store: Self) {
        let Self {
            run: _,
            started_at: _,
            unopened,
            restores,
            replayed,
            unfinished,
            moved,
            passes,
            locked,
            interrupted,
            seconds: _,
        } = store;
        self.unopened.extend(unopened);
        self.restores.extend(restores);
        self.replayed += replayed;
        self.unfinished.extend(unfinished);
        self.moved.extend(moved);
        self.passes.extend(passes);
        self.locked.extend(locked);
        self.interrupted |= interrupted;
    }

    /// Whether another program kept something from being done by a lock: all of a pass, or one row database.
    #[must_use]
    pub fn met_a_lock(&self) -> bool {
        let of_passes = self.passes.iter().flat_map(|pass| &pass.unread);
        let mut files = of_passes.chain(&self.unfinished);
        self.passes.iter().any(|pass| pass.is_locked) || files.any(|unread| unread.is_locked)
    }

    /// The exit code of the run: the gravest of what happened.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.interrupted {
            return Exit::Interrupted;
        }
        let passes = self.passes.iter().map(|pass| pass.outcome.exit());
        let stores = self.unopened.iter().map(|store| store.exit);
        let unfinished = self.unfinished.iter().map(|_| Exit::LeftOver);
        let restores = self.restores.iter().filter(|it| it.needs_attention());
        passes
            .chain(stores)
            .chain(unfinished)
            .chain(restores.map(|_| Exit::LeftOver))
            .max_by_key(|exit| exit.gravity())
            .unwrap_or(Exit::Done)
    }

    fn are_all(&self, outcome: Outcome) -> bool {
        self.passes.iter().all(|pass| pass.outcome == outcome)
    }

    /// The outcome of the run in a word.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self.exit() {
            Exit::Interrupted => "interrupted",
            Exit::Done if self.are_all(Outcome::Idle) => "idle",
            Exit::Done => "applied",
            Exit::LeftOver if self.are_all(Outcome::Refused) => "refused",
            Exit::LeftOver if self.are_all(Outcome::Skipped) => "skipped",
            Exit::LeftOver => "partial",
            _ => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_one_file_of_many_is_a_lock() {
        let file = |is_locked| Unread {
            is_locked,
            ..Unread::new("ana", "cannot be read")
        };
        for (of_pass, of_replay, of_all, expected) in [
            (false, false, false, false),
            (true, false, false, true),
            (false, true, false, true),
            (false, false, true, true),
        ] {
            let mut run = RunReport::new("run", Timestamp::UNIX_EPOCH);
            run.unfinished.extend([file(false), file(of_replay)]);
            run.passes.push(PassReport {
                unread: vec![file(false), file(of_pass)],
                is_locked: of_all,
                ..PassReport::new("agent".into(), PassName::Ttl, Outcome::Partial)
            });
            assert_eq!(run.met_a_lock(), expected);
        }
    }
}
