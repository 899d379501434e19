//! From the decision of a restore to its end, or back.
//!
//! Mechanics: row databases are replaced one by one, then the points. A file whose new one is not staged any more was
//! replaced before. The journal holds what each live place was before the safety pair was taken, so that whatever is as
//! it was is in that pair.
//!
//! Policy: as long as nothing was replaced, a restore that is refused or fails, or meets something that was written to
//! since, is taken back: then nothing has happened. Once something was, the other half has to follow, and what was
//! written to since is kept beside it. What somebody wrote to a new file stays: that is not replaced again. As long as
//! nothing was replaced a person may give it up, too.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::SnapshotError;
use super::journal::{Journal, Phase, Swap};
use crate::config::{self, Config};
use crate::error::chain;
use crate::failpoint::{Failpoint, hit};
use crate::pass::Cx;
use crate::state::StateDir;
use crate::store::copies::{CopyError, Keep, PointCopies, Switched};
use crate::store::identity::Identity;
use crate::store::swap::{self, Old};
use crate::store::vectors;

/// What became of a restore that was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resumed {
    /// The store.
    pub store: String,
    /// The pair that was to be put back.
    pub pair: String,
    /// Which of the two it was.
    pub outcome: Ending,
    /// What was written to since it began, and where that is now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Why it was taken back although it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a restore that was cut off ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The pair is put back.
    Finished,
    /// Nothing was replaced: the store is what it was.
    TakenBack,
}

impl Resumed {
    /// Whether a person has to look at it.
    #[must_use]
    pub fn needs_attention(&self) -> bool {
        !self.kept.is_empty() || self.reason.is_some()
    }
}

/// For people, in one line.
impl fmt::Display for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, pair, .. } = self;
        write!(
            f,
            "{store}  the restore of pair {pair} was cut off, and is "
        )?;
        match (self.outcome, &self.reason) {
            (Ending::Finished, _) => f.write_str("finished now")?,
            (Ending::TakenBack, None) => f.write_str("discarded: it was not decided")?,
            (Ending::TakenBack, Some(reason)) => {
                write!(f, "taken back, nothing was put back: {reason}")?;
            }
        }
        for kept in &self.kept {
            write!(f, "; {kept}")?;
        }
        Ok(())
    }
}

/// A restore that a person gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GivenUp {
    /// The store.
    pub store: String,
    /// The pair that is not put back; `None` when no restore was to be given up.
    pub pair: Option<String>,
    /// Whether it was decided: the next run would have finished it.
    pub was_decided: bool,
    /// Why what was staged for it could not be removed: the next run does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// How the switch of a restore ended.
pub(super) enum End {
    /// Both halves are the new ones.
    Finished {
        /// What was written to since it began, and where that is now.
        kept: Vec<String>,
    },
    /// Nothing was replaced, and nothing will be.
    TakenBack(SnapshotError),
}

/// Deals with a restore that was cut off: discards one that was not decided, finishes or takes back one that was. Answers
/// what it did when there was one. The caller holds the lock of the store.
///
/// # Errors
///
/// When it cannot be dealt with now; it stays to be.
pub fn resume(
    config: &Config,
    store: &config::Store,
    cx: Cx<'_>,
) -> Result<Option<Resumed>, SnapshotError> {
    let state = StateDir::new(&config.state_dir, &store.name);
    let Some(journal) = Journal::read(&state)? else {
        return Ok(None);
    };
    require_same_stores(store, &journal)?;
    let copies = vectors::copies(store, cx.stop)?;
    let mut resumed = Resumed {
        store: store.name.clone(),
        pair: journal.pair.clone(),
        outcome: Ending::TakenBack,
        kept: Vec::new(),
        reason: None,
    };
    if journal.phase == Phase::Staging {
        discard(&journal, copies.as_deref())?;
        Journal::remove(&state)?;
        return Ok(Some(resumed));
    }
    match finish(journal, &state, copies.as_deref())? {
        End::Finished { kept } => {
            resumed.outcome = Ending::Finished;
            resumed.kept = kept;
        }
        End::TakenBack(error) => resumed.reason = Some(chain(&error)),
    }
    Ok(Some(resumed))
}

/// Gives up a restore that was cut off and has replaced nothing yet: the store stays what it is. Answers what it did. The
/// caller holds the lock of the store.
///
/// # Errors
///
/// [`SnapshotError::TooLate`] when something was replaced, or may have been: the restore stays to be finished.
pub fn give_up(
    config: &Config,
    store: &config::Store,
    cx: Cx<'_>,
) -> Result<GivenUp, SnapshotError> {
    let state = StateDir::new(&config.state_dir, &store.name);
    let mut given_up = GivenUp {
        store: store.name.clone(),
        pair: None,
        was_decided: false,
        left: None,
    };
    let Some(mut journal) = Journal::read(&state)? else {
        return Ok(given_up);
    };
    require_same_stores(store, &journal)?;
    let is_decided = journal.phase != Phase::Staging;
    if journal.phase == Phase::Points || (is_decided && !are_rows_untouched(&journal)) {
        return Err(SnapshotError::TooLate { pair: journal.pair });
    }
    // A new file that is gone would count as one that has replaced another.
    journal.enter(Phase::Staging, &state)?;
    hit(Failpoint::RestoreGivenUp)?;
    let tidied = vectors::copies(store, cx.stop)
        .map_err(SnapshotError::from)
        .and_then(|copies| discard(&journal, copies.as_deref()))
        .and_then(|()| Journal::remove(&state));
    given_up.pair = Some(journal.pair);
    given_up.was_decided = is_decided;
    given_up.left = tidied.err().map(|error| chain(&error));
    Ok(given_up)
}

fn require_same_stores(store: &config::Store, journal: &Journal) -> Result<(), SnapshotError> {
    let changes = Identity::of(store).changes_since(&journal.identity);
    if changes.is_empty() {
        return Ok(());
    }
    Err(SnapshotError::Foreign(format!(
        "a restore was cut off on other stores, and can be finished, or given up, only there: {}",
        changes.join("; ")
    )))
}

/// Makes the new places the live ones, and tidies up; or takes the restore back.
///
/// # Errors
///
/// [`SnapshotError::Pending`] when neither can be done now.
pub(super) fn finish(
    mut journal: Journal,
    state: &StateDir,
    copies: Option<&dyn PointCopies>,
) -> Result<End, SnapshotError> {
    match switch(&mut journal, state, copies) {
        Ok(kept) => Ok(End::Finished { kept }),
        Err(error) if is_untouched(&journal, &error) => {
            take_back(journal, state, copies, error).map(End::TakenBack)
        }
        Err(error) => Err(pending(&journal, error)),
    }
}

/// Takes a restore back of which nothing was replaced, and answers why.
///
/// # Errors
///
/// [`SnapshotError::Pending`] when that cannot be written down.
pub(super) fn take_back(
    mut journal: Journal,
    state: &StateDir,
    copies: Option<&dyn PointCopies>,
    why: SnapshotError,
) -> Result<SnapshotError, SnapshotError> {
    // A new file that is gone would count as one that has replaced another.
    if journal.enter(Phase::Staging, state).is_err() {
        return Err(pending(&journal, why));
    }
    let tidied = discard(&journal, copies).and_then(|()| Journal::remove(state));
    if let Err(error) = tidied {
        let error = chain(&error);
        tracing::warn!(%error, "nothing was put back; the next run discards what was staged for it");
    }
    Ok(why)
}

fn pending(journal: &Journal, source: SnapshotError) -> SnapshotError {
    SnapshotError::Pending {
        pair: journal.pair.clone(),
        source: Box::new(source),
    }
}

/// Whether nothing was replaced when the switch failed like this.
fn is_untouched(journal: &Journal, error: &SnapshotError) -> bool {
    let is_refusal = matches!(
        error,
        SnapshotError::Half {
            source: CopyError::InUse { .. } | CopyError::Changed(_),
            ..
        }
    );
    are_rows_untouched(journal) && (journal.phase == Phase::Switching || is_refusal)
}

fn are_rows_untouched(journal: &Journal) -> bool {
    journal.rows.iter().all(|swap| swap.staged.exists())
}

/// Replaces both halves, and tidies up. Each step may have been done before. Answers what was kept.
fn switch(
    journal: &mut Journal,
    state: &StateDir,
    copies: Option<&dyn PointCopies>,
) -> Result<Vec<String>, SnapshotError> {
    let is_begun = journal.phase == Phase::Points || !are_rows_untouched(journal);
    if !is_begun {
        journal.require_ready(copies)?;
    }
    let mut keep = match (journal.keep_old, is_begun) {
        (true, _) => Keep::Always,
        (false, true) => Keep::Changed,
        (false, false) => Keep::Never,
    };
    let mut kept = Vec::new();
    for Swap { staged, live, was } in &journal.rows {
        let old = Old {
            was: was.as_ref(),
            aside: &swap::aside_path(live, &journal.tag),
            keep,
        };
        let what = format!("rows at {}", live.display());
        let switched = swap::swap(staged, live, old).map_err(SnapshotError::half(what.clone()))?;
        kept.extend(describe(&what, switched));
        keep = keep.further();
    }
    hit(Failpoint::RestoreSwitched)?;
    if let Some(copies) = copies {
        journal.enter(Phase::Points, state)?;
        let switched = copies
            .switch(&journal.tag, &journal.points, keep)
            .map_err(SnapshotError::half("points"))?;
        kept.extend(describe("points", switched));
    }
    state.set_epoch(journal.epoch)?;
    discard(journal, copies)?;
    Journal::remove(state)?;
    hit(Failpoint::RestoreFinished)?;
    Ok(kept)
}

/// Says where something is that was written to since the restore began.
fn describe(what: &str, switched: Switched) -> Option<String> {
    match switched {
        Switched::Kept(place) => Some(format!(
            "{what} were written to since the restore began: what was there is {place}"
        )),
        Switched::Before | Switched::Now => None,
    }
}

/// Removes what is left of the new places.
fn discard(journal: &Journal, copies: Option<&dyn PointCopies>) -> Result<(), SnapshotError> {
    for Swap { staged, .. } in &journal.rows {
        if staged.parent().is_some_and(Path::exists) {
            swap::discard(staged)
                .map_err(SnapshotError::half(format!("rows at {}", staged.display())))?;
        }
    }
    copies.map_or(Ok(()), |copies| {
        copies
            .discard(&journal.tag)
            .map_err(SnapshotError::half("points"))
    })
}
