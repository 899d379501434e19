//! Snapshots: pairs of rows and vectors that belong together.
//!
//! A pair is one dated folder of its store in `snapshot_dir`:
//!
//! | file | holds |
//! | --- | --- |
//! | `rows-1.db` and so on | a copy of each row database |
//! | `vectors.db`, or what the vector store makes of itself | the points |
//! | `manifest.json` | what the two hold, counted in the copies, and what binds them |
//!
//! A pair is built under a hidden name and renamed when it is whole, its manifest written last and everything synced:
//! what has a pair's name is a pair. What a killed run of this store left under a hidden name is dropped, never used.
//!
//! | module | holds |
//! | --- | --- |
//! | [`manifest`] | what is written down about a pair |
//! | [`shelf`] | the folder of a store's pairs |
//! | `claim` | whose what was never finished is |
//! | [`holders`] | which pairs hold memories of a namespace |
//! | [`retention`] | which pairs are kept |
//! | [`current`] | whether the stores are still as a pair describes them |
//! | [`mod@take`] | making a pair |
//! | [`mod@verify`] | reading a pair again, trusting nothing |
//! | [`restore`] | putting a pair back |

use std::io;
use std::path::PathBuf;

use crate::error::advice_on_room;
use crate::failpoint::Injected;
use crate::state::StateError;
use crate::store::copies::CopyError;
use crate::store::rows::RowError;
use crate::store::vectors::VectorError;

mod claim;
pub mod current;
pub mod holders;
pub mod manifest;
pub mod restore;
pub mod retention;
pub mod shelf;
pub mod take;
pub mod verify;

pub use manifest::Manifest;
pub use shelf::{Pair, Shelf};
pub use take::{Order, take};
pub use verify::verify;

/// Why a pair could not be made, read or put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A half could not be copied, read or put back.
    #[error("{half}")]
    Half {
        /// Which half, and of which tenant.
        half: String,
        /// Why.
        source: CopyError,
    },
    /// The row databases could not be listed.
    #[error("list the row databases")]
    Rows(#[from] RowError),
    /// The vector store could not be reached.
    #[error("reach the points")]
    Vectors(#[from] VectorError),
    /// The state file.
    #[error("use the state file")]
    State(#[from] StateError),
    /// The file system.
    #[error("{doing}")]
    Io {
        /// Verb and object.
        doing: String,
        /// The cause.
        source: io::Error,
    },
    /// There is no such pair.
    #[error("no pair {name:?} in {}", folder.display())]
    NoPair {
        /// What was asked for.
        name: String,
        /// Where.
        folder: PathBuf,
    },
    /// What an earlier run has begun is not finished: a memory may be in one half only.
    #[error("copy the stores: {open} actions of an earlier run are not finished")]
    OpenIntents {
        /// How many.
        open: u64,
    },
    /// No pair of the present state can be taken before it is replaced.
    #[error("take a safety pair of the present state: {reason}")]
    NoSafety {
        /// Why.
        reason: String,
    },
    /// The state that knows what was removed since is lost: an owner who was erased could come back.
    #[error(
        "{} is not the state file that was there when the pair was taken, or an older copy of it: what was removed since is not known",
        path.display()
    )]
    StateLost {
        /// The state file.
        path: PathBuf,
    },
    /// A restore has replaced something, or may have, and is not finished.
    #[error("the restore of pair {pair} is not finished")]
    Pending {
        /// The pair.
        pair: String,
        /// Why.
        source: Box<SnapshotError>,
    },
    /// A restore that is to be given up has replaced something already, or may have.
    #[error("give up the restore of pair {pair}: a part of the store is replaced already")]
    TooLate {
        /// The pair.
        pair: String,
    },
    /// The pair is not what it should be.
    #[error("{0}")]
    Damaged(String),
    /// The pair is of other stores than those that are configured.
    #[error("{0}")]
    OtherStore(String),
    /// The pair, or what was begun, does not fit what is there now.
    #[error("{0}")]
    Foreign(String),
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
}

impl SnapshotError {
    /// An error of the file system while `doing` something.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// An error of one half.
    pub(crate) fn half(half: impl Into<String>) -> impl FnOnce(CopyError) -> Self {
        let half = half.into();
        move |source| match source {
            error if error.is_interruption() => Self::Interrupted,
            CopyError::Injected(injected) => Self::Injected(injected),
            source => Self::Half { half, source },
        }
    }

    /// What an operator can do about it, where there is something to say beyond the message.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoPair { .. } => Some("hypnos snapshot list shows the pairs"),
            Self::OtherStore(_) => Some(
                "configure the store as it was then and restore the pair there, or stop the agent and copy the files out \
                 of the pair's folder by hand",
            ),
            Self::NoSafety { .. } => Some(
                "--no-safety-pair goes on without one, and keeps the present files beside the new ones",
            ),
            Self::StateLost { .. } => Some(
                "put the folder of the state back as it was last; or --without-state puts back everything the pair has, and \
                 who was erased has to be forgotten again",
            ),
            Self::OpenIntents { .. } => Some("hypnos --run-now finishes them"),
            Self::Half {
                source: CopyError::InUse { .. },
                ..
            } => Some("stop the agent, and whatever else has the store open"),
            Self::Half {
                source: CopyError::Changed(_),
                ..
            } => Some("stop the agent, and whatever else writes to the store, and restore again"),
            Self::Pending { .. } => Some(
                "one half may be put back and the other not: keep the agent stopped, mend the cause, and let hypnos \
                 --run-now finish it",
            ),
            Self::TooLate { .. } => Some(
                "keep the agent stopped, and let hypnos --run-now finish it; the newest safety pair of hypnos snapshot list \
                 has what was there before: restore that then",
            ),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(
                "does it belong to another user? run every command as the user that hypnos runs as",
            ),
            Self::Vectors(error) => error.hint(),
            Self::Rows(error) => error.hint(),
            _ => advice_on_room(self),
        }
    }

    /// Whether it says something of the pair, and not of what could not be reached or read to look at it.
    #[must_use]
    pub fn is_verdict(&self) -> bool {
        match self {
            Self::Half { source, .. } => source.is_verdict(),
            Self::Io { source, .. } => is_of_the_file(source),
            Self::Damaged(_) | Self::OtherStore(_) | Self::Foreign(_) => true,
            _ => false,
        }
    }

    /// Whether a stop was the cause.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        match self {
            Self::Interrupted | Self::Vectors(VectorError::Interrupted) => true,
            Self::Rows(error) => error.is_interruption(),
            Self::Pending { source, .. } => source.is_interruption(),
            _ => false,
        }
    }
}

/// Whether a file is missing, a link, or no file: anything else may pass.
fn is_of_the_file(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, IsADirectory, NotADirectory, NotFound, UnexpectedEof};
    matches!(
        error.kind(),
        NotFound | NotADirectory | IsADirectory | UnexpectedEof | InvalidData
    )
}
