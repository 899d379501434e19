//! The journal of a restore: a small file beside the state of the store, written before the first step and removed after
//! the last, so that one that was cut off is dealt with before anything else.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Home, Request, SnapshotError};
use crate::durable;
use crate::state::{RESTORE as FILE, StateDir};
use crate::store::copies::{CopyError, PointCopies};
use crate::store::database::Stamp;
use crate::store::identity::Identity;
use crate::store::swap;

/// Digits of a tag: those of a run's id that are random.
const TAG: usize = 12;

/// A restore that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) phase: Phase,
    /// The word from which the names of the new places are made.
    pub(super) tag: String,
    pub(super) pair: String,
    /// The stores that it is about.
    pub(super) identity: Identity,
    pub(super) rows: Vec<Swap>,
    /// The mark of the live points from before the restore, see [`PointCopies::mark`].
    #[serde(default)]
    pub(super) points: Value,
    /// Whether the present files are kept beside the new ones.
    pub(super) keep_old: bool,
    /// How often the store will have been restored.
    pub(super) epoch: u64,
}

/// How far a restore is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// The live store is untouched: what was cut off is discarded.
    Staging,
    /// It is decided: what was cut off is finished, or taken back as long as no live file was replaced.
    Switching,
    /// The points are being replaced, or are: what was cut off is finished.
    Points,
}

/// A file that takes the place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Swap {
    pub(super) staged: PathBuf,
    pub(super) live: PathBuf,
    /// What the live file was before the restore; `None` when there was none.
    #[serde(default)]
    pub(super) was: Option<Stamp>,
}

impl Swap {
    /// Where the row database of a pair goes, as it is now.
    fn of(home: &Home<'_>, tag: &str) -> Result<Self, SnapshotError> {
        let live = PathBuf::clone(&home.partition.path);
        let was = swap::stamp(&live).map_err(super::half(&home.partition))?;
        Ok(Self {
            staged: home.staged(tag).path,
            live,
            was,
        })
    }
}

impl Journal {
    /// The journal of a restore that begins: of the live places as they are, to which nobody is to write from now on.
    pub(super) fn begin(
        request: Request<'_>,
        homes: &[Home<'_>],
        copies: Option<&dyn PointCopies>,
        epoch: u64,
    ) -> Result<Self, SnapshotError> {
        let digits: String = request
            .run
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        let tag = digits[digits.len().saturating_sub(TAG)..].to_lowercase();
        // Points that are the rows have no file to put in the place of another.
        let files = if request.store.rows.are_points() {
            &[]
        } else {
            homes
        };
        let swaps = files.iter().map(|home| Swap::of(home, &tag));
        Ok(Self {
            phase: Phase::Staging,
            rows: swaps.collect::<Result<_, _>>()?,
            points: mark(copies, request.keep_old)?,
            tag,
            pair: request.pair.name.clone(),
            identity: Identity::of(request.store),
            keep_old: request.keep_old,
            epoch,
        })
    }

    /// Makes sure that nobody has a live place open, or has written to it since the restore began: no copy would have
    /// that.
    pub(super) fn require_ready(
        &self,
        copies: Option<&dyn PointCopies>,
    ) -> Result<(), SnapshotError> {
        for Swap { live, was, .. } in &self.rows {
            let half = || SnapshotError::half(format!("rows at {}", live.display()));
            swap::require_idle(live).map_err(half())?;
            if swap::is_changed(live, was.as_ref()).map_err(half())? {
                return Err(half()(CopyError::Changed(live.display().to_string())));
            }
        }
        let half = || SnapshotError::half("points");
        copies
            .map_or(Ok(()), PointCopies::require_idle)
            .map_err(half())?;
        let now = mark(copies, self.keep_old)?;
        if now.is_null() || now == self.points {
            return Ok(());
        }
        Err(half()(CopyError::Changed("the vector store".to_owned())))
    }

    /// Enters a phase, durably.
    pub(super) fn enter(&mut self, phase: Phase, state: &StateDir) -> Result<(), SnapshotError> {
        self.phase = phase;
        self.write(state)
    }

    /// Writes it, durably.
    pub(super) fn write(&self, state: &StateDir) -> Result<(), SnapshotError> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| SnapshotError::Damaged(format!("write the journal: {error}")))?;
        durable::replace(&state.beside(FILE), &text, durable::PRIVATE)
            .map_err(SnapshotError::io("write the journal of the restore"))
    }

    /// Reads it; `None` when no restore is under way.
    pub(super) fn read(state: &StateDir) -> Result<Option<Self>, SnapshotError> {
        let path = state.beside(FILE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(SnapshotError::io(format!("read {}", path.display())))?,
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            SnapshotError::Damaged(format!("{} is no journal: {error}", path.display()))
        })
    }

    /// Removes it, durably.
    pub(super) fn remove(state: &StateDir) -> Result<(), SnapshotError> {
        let path = state.beside(FILE);
        durable::remove_if_there(&path)
            .and_then(|()| durable::sync_dir(durable::folder_of(&path)))
            .map_err(SnapshotError::io("remove the journal of the restore"))
    }
}

/// The mark of the live points. Points that are lost or damaged are put back on request, and have none.
fn mark(copies: Option<&dyn PointCopies>, keep_old: bool) -> Result<Value, SnapshotError> {
    match copies.map_or(Ok(Value::Null), PointCopies::mark) {
        Err(error) if keep_old && !error.is_interruption() => Ok(Value::Null),
        mark => mark.map_err(SnapshotError::half("points")),
    }
}
