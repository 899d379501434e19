//! The journal of a restore: a small file beside the state of the store, written before the first step and removed after
//! the last, so that one that was cut off is dealt with before anything else.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Home, Request, SnapshotError, swaps};
use crate::durable;
use crate::state::StateDir;
use crate::store::identity::Identity;

/// The name of the file.
const FILE: &str = "restore.json";
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
    /// It is decided: what was cut off is finished.
    Switching,
}

/// A file that takes the place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Swap {
    pub(super) staged: PathBuf,
    pub(super) live: PathBuf,
}

impl Journal {
    /// The journal of a restore that begins.
    pub(super) fn begin(request: Request<'_>, homes: &[Home<'_>], epoch: u64) -> Self {
        let digits: String = request
            .run
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        let tag = digits[digits.len().saturating_sub(TAG)..].to_lowercase();
        Self {
            phase: Phase::Staging,
            // Points that are the rows have no file to put in the place of another.
            rows: if request.store.rows.are_points() {
                Vec::new()
            } else {
                swaps(homes, &tag)
            },
            tag,
            pair: request.pair.name.clone(),
            identity: Identity::of(request.store),
            keep_old: request.keep_old,
            epoch,
        }
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
