//! Why a state file could not be used, and what a person can do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::lock::Holder;
use crate::failpoint::Injected;

const FULL: &str = "free space on the disk of state_dir";
const OTHERS: &str =
    "does it belong to another user? run every command as the user that hypnos runs as";

/// Why a state file could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Another run has the lock.
    #[error("another run holds the lock{}", .holder.as_ref().map(|h| format!(" ({h})")).unwrap_or_default())]
    Held {
        /// Who, when the lock file says so.
        holder: Option<Box<Holder>>,
    },
    /// The file system refused.
    #[error("{doing} {}", .path.display())]
    Io {
        /// Verb and object.
        doing: &'static str,
        /// File or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// SQLite refused.
    #[error("{doing} in the state file {}", .path.display())]
    Sqlite {
        /// Verb and object.
        doing: &'static str,
        /// The state file.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The file is not what was written.
    #[error("the state file {} is damaged: {problem}", .path.display())]
    Damaged {
        /// The state file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A SQLite database that hypnos did not make.
    #[error("{} is not a state file of hypnos", .path.display())]
    Foreign {
        /// The file in the place of the state file.
        path: PathBuf,
    },
    /// The state file of another partition.
    #[error("the state file {} belongs to another partition", .path.display())]
    WrongPartition {
        /// The state file.
        path: PathBuf,
    },
    /// Written by a newer hypnos.
    #[error("the state file {} has version {found}, this hypnos knows {known}", .path.display())]
    Newer {
        /// The state file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// Written by an older hypnos, and opened only to read.
    #[error("the state file {} has the older version {found}", .path.display())]
    Older {
        /// The state file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// A write-ahead log without its database.
    #[error("{} stands without its state file", .path.display())]
    StrayLog {
        /// The log.
        path: PathBuf,
    },
    /// The file system does not let SQLite keep a write-ahead log.
    #[error("the state file {} cannot have a write-ahead log (journal mode stays {mode})", .path.display())]
    NoLog {
        /// The state file.
        path: PathBuf,
        /// The mode that it has instead.
        mode: String,
    },
    /// A value that this program cannot read.
    #[error("{doing} in the state file {}: {problem}", .path.display())]
    Unreadable {
        /// Verb and object.
        doing: &'static str,
        /// The state file.
        path: PathBuf,
        /// Which value, and why.
        problem: String,
    },
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
    /// The record is not there, or not in the state that the change is for.
    #[error("{doing}: {what}")]
    Refused {
        /// Verb and object.
        doing: &'static str,
        /// Which record, and what is wrong with it.
        what: String,
    },
}

impl StateError {
    /// What a person can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Damaged { .. } | Self::Foreign { .. } | Self::WrongPartition { .. } => Some(
                "put back a copy of it, or move the file away, with its -wal and -shm: undo, queue, unfinished work and who was erased are lost then, memories are not",
            ),
            Self::StrayLog { .. } => Some(
                "put its state file back, or move the log away too: what it holds is lost, memories are not",
            ),
            Self::Newer { .. } | Self::Unreadable { .. } => {
                Some("use the version of hypnos that wrote it, or a newer one")
            }
            Self::Older { .. } => Some("start a run once: it brings the state file up to date"),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some(OTHERS)
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(FULL),
            Self::Sqlite { source, .. } => match source.sqlite_error_code()? {
                ErrorCode::DiskFull => Some(FULL),
                ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
                    Some(OTHERS)
                }
                _ => None,
            },
            Self::NoLog { .. } => Some("keep state_dir on a local file system"),
            Self::Held { .. } | Self::Io { .. } | Self::Injected(_) | Self::Refused { .. } => None,
        }
    }

    /// What went wrong and what a person can do about it, in one line.
    #[must_use]
    pub fn advice(&self) -> String {
        let problem = crate::error::chain(self);
        match self.hint() {
            Some(hint) => format!("{problem}: {hint}"),
            None => problem,
        }
    }

    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }

    /// Sorts out what SQLite said: damage and values that cannot be read are not mere failures.
    pub(super) fn sqlite(doing: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::Error as E;
        let path = path.to_owned();
        match source {
            E::SqliteFailure(failure, _)
                if matches!(
                    failure.code,
                    ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase
                ) =>
            {
                Self::Damaged {
                    path,
                    problem: failure.to_string(),
                }
            }
            E::FromSqlConversionFailure(..)
            | E::InvalidColumnType(..)
            | E::IntegralValueOutOfRange(..)
            | E::Utf8Error(..) => Self::Unreadable {
                doing,
                path,
                problem: source.to_string(),
            },
            source => Self::Sqlite {
                doing,
                path,
                source,
            },
        }
    }
}

/// What may go wrong inside a transaction, before it is known in which file.
pub(super) enum Fault {
    Sql(rusqlite::Error),
    Injected(Injected),
    Refused(String),
}

impl From<Injected> for Fault {
    fn from(error: Injected) -> Self {
        Self::Injected(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    pub(super) fn at(self, doing: &'static str, path: &Path) -> StateError {
        match self {
            Self::Sql(source) => StateError::sqlite(doing, path, source),
            Self::Injected(error) => error.into(),
            Self::Refused(what) => StateError::Refused { doing, what },
        }
    }
}
