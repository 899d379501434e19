//! How a command fails: a message, what to do about it, and the exit code.

use std::error::Error;
use std::io;
use std::iter::successors;

use rusqlite::ErrorCode;

use crate::exit::Exit;
use crate::snapshot::SnapshotError;
use crate::state::StateError;
use crate::store::copies::CopyError;
use crate::store::rows::{RowError, RowErrorKind};
use crate::store::sqlite::OpenError;
use crate::store::vectors::VectorError;

/// A failure of a whole command.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong, causes included.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// Several failures as one: the gravest exit code, every message, every hint once. `None` when there are none.
    #[must_use]
    pub fn of_all(failures: &[Self]) -> Option<Self> {
        let exit = failures
            .iter()
            .map(|failure| failure.exit)
            .max_by_key(|exit| exit.gravity())?;
        let messages: Vec<&str> = failures
            .iter()
            .map(|failure| failure.message.as_str())
            .collect();
        let mut hints: Vec<&str> = Vec::new();
        for hint in failures
            .iter()
            .filter_map(|failure| failure.hint.as_deref())
        {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        Some(Self {
            exit,
            message: messages.join("; "),
            hint: (!hints.is_empty()).then(|| hints.join("; ")),
        })
    }

    /// The same failure, saying what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The same failure, saying first what was being done.
    #[must_use]
    pub fn while_doing(self, doing: &str) -> Self {
        Self {
            message: format!("{doing}: {}", self.message),
            ..self
        }
    }
}

/// An error and its causes, in one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some libraries repeat their cause in their own message.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

/// Whether another program has locked a database of the store: somewhere in the causes `SQLite` says so, and not of a
/// state file, which is hypnos' own.
#[must_use]
pub fn is_locked(error: &(dyn Error + 'static)) -> bool {
    if error.is::<StateError>() {
        return false;
    }
    if let Some(error) = error.downcast_ref::<rusqlite::Error>() {
        return matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        );
    }
    error.source().is_some_and(is_locked)
}

/// What a person can do where a disk is full, by what was being written when `SQLite` or the file system said so; `None`
/// where that is not the cause.
#[must_use]
pub fn advice_on_room(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if causes(error).any(lacks_shared_memory) {
        return Some(
            "SQLite finds no room for the -shm file beside a database: the disk of the store is full, make room there",
        );
    }
    let advice = |error: &(dyn Error + 'static)| {
        if error.is::<StateError>() {
            Some("the disk of state_dir is full: make room there")
        } else if error.is::<CopyError>() {
            Some("the disk of the file that was to be written is full: make room there")
        } else if error.is::<VectorError>() {
            Some("the disk of the vector database (store.vectors.path) is full: make room there")
        } else if error.is::<RowError>() {
            Some("the disk of the row database (store.rows.path) is full: make room there")
        } else {
            None
        }
    };
    let is_full = causes(error).any(is_full);
    is_full.then(|| {
        let named = causes(error).find_map(advice);
        named.unwrap_or("a disk is full: make room there")
    })
}

/// An error, its cause, the cause of that.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error| (*error).source())
}

fn is_full(error: &(dyn Error + 'static)) -> bool {
    let sqlite = error.downcast_ref::<rusqlite::Error>();
    let io = error.downcast_ref::<io::Error>();
    sqlite.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::DiskFull)
        || io.is_some_and(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            )
        })
}

/// Whether the file that readers of a write-ahead log share could not be made as large as it has to be.
fn lacks_shared_memory(error: &(dyn Error + 'static)) -> bool {
    let code = error
        .downcast_ref::<rusqlite::Error>()
        .and_then(rusqlite::Error::sqlite_error);
    code.is_some_and(|code| code.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

impl From<&RowError> for Failure {
    fn from(error: &RowError) -> Self {
        let exit = match error.kind() {
            // What is no database at all is the wrong file; a damaged one is the right one.
            _ if matches!(error, RowError::Open(OpenError::NotADatabase { .. })) => Exit::NoStore,
            RowErrorKind::Missing | RowErrorKind::Schema => Exit::NoStore,
            RowErrorKind::Busy | RowErrorKind::Corrupt | RowErrorKind::Other => Exit::Failed,
        };
        Self {
            exit,
            message: chain(error),
            hint: error
                .hint()
                .or_else(|| advice_on_room(error))
                .map(Into::into),
        }
    }
}

impl From<&VectorError> for Failure {
    fn from(error: &VectorError) -> Self {
        let exit = match error {
            VectorError::Interrupted => Exit::Interrupted,
            error if error.is_missing() => Exit::NoStore,
            _ => Exit::Failed,
        };
        Self {
            exit,
            message: chain(error),
            hint: error
                .hint()
                .or_else(|| advice_on_room(error))
                .map(Into::into),
        }
    }
}

impl From<&SnapshotError> for Failure {
    fn from(error: &SnapshotError) -> Self {
        Self {
            exit: exit_of(error),
            message: chain(error),
            hint: error.hint().map(Into::into),
        }
    }
}

fn exit_of(error: &SnapshotError) -> Exit {
    match error {
        error if error.is_interruption() => Exit::Interrupted,
        SnapshotError::NoPair { .. } => Exit::Usage,
        SnapshotError::OpenIntents { .. }
        | SnapshotError::OtherStore(_)
        | SnapshotError::Foreign(_)
        | SnapshotError::StateLost { .. }
        | SnapshotError::TooLate { .. }
        | SnapshotError::Half {
            source: CopyError::InUse { .. } | CopyError::Changed(_),
            ..
        } => Exit::LeftOver,
        SnapshotError::Pending { source, .. } => exit_of(source),
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::ApplyError;

    #[derive(Debug, thiserror::Error)]
    #[error("open the store")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("no such file")]
    struct Inner;

    #[test]
    fn a_chain_reads_from_the_deed_to_the_cause() {
        assert_eq!(chain(&Outer(Inner)), "open the store: no such file");
    }

    #[test]
    fn a_full_disk_is_named_by_what_was_written() {
        let sqlite = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let copy = |source| SnapshotError::Half {
            half: "rows of main".into(),
            source: CopyError::Sqlite {
                doing: "copy a to b".into(),
                source,
            },
        };
        let full = || sqlite(rusqlite::ffi::SQLITE_FULL);
        let cases: [(ApplyError, Option<&str>); 6] = [
            (copy(full()).into(), Some("file that was to be written")),
            (
                copy(sqlite(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)).into(),
                Some("-shm"),
            ),
            (
                VectorError::Sqlite {
                    doing: "remove points",
                    source: full(),
                }
                .into(),
                Some("store.vectors.path"),
            ),
            (
                RowError::Sqlite {
                    doing: "begin",
                    source: full(),
                }
                .into(),
                Some("store.rows.path"),
            ),
            (
                SnapshotError::io("create x")(io::ErrorKind::StorageFull.into()).into(),
                Some("a disk is full"),
            ),
            (copy(sqlite(rusqlite::ffi::SQLITE_IOERR_READ)).into(), None),
        ];
        for (error, expected) in cases {
            let advice = advice_on_room(&error);
            match expected {
                Some(part) => assert!(
                    advice.is_some_and(|it| it.contains(part)),
                    "{error}: {advice:?}"
                ),
                None => assert_eq!(advice, None, "{error}"),
            }
        }
    }

    #[test]
    fn a_store_that_cannot_be_opened_for_want_of_room_is_not_taken_for_broken_hardware() {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
        let error = || OpenError::Sqlite(rusqlite::Error::SqliteFailure(code, None));
        for failure in [
            Failure::from(&RowError::Open(error())),
            Failure::from(&VectorError::Open(error())),
        ] {
            let hint = failure.hint.unwrap_or_default();
            assert!(hint.contains("-shm"), "{hint}");
        }
    }

    #[test]
    fn a_lock_is_found_among_the_causes_unless_it_is_of_a_state_file() {
        let sqlite = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let rows = |code| {
            ApplyError::Rows(RowError::Sqlite {
                doing: "begin",
                source: sqlite(code),
            })
        };
        for (code, expected) in [
            (rusqlite::ffi::SQLITE_BUSY, true),
            (rusqlite::ffi::SQLITE_BUSY_SNAPSHOT, true),
            (rusqlite::ffi::SQLITE_LOCKED, true),
            (rusqlite::ffi::SQLITE_FULL, false),
        ] {
            assert_eq!(is_locked(&rows(code)), expected, "{code}");
        }
        let own = StateError::Sqlite {
            doing: "begin the run",
            path: "main.db".into(),
            source: sqlite(rusqlite::ffi::SQLITE_BUSY),
        };
        assert!(!is_locked(&ApplyError::State(own)));
        assert!(!is_locked(&Outer(Inner)));
    }
}
