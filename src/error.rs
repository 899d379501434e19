//! How a command fails: a message, what to do about it, and the exit code.

use std::error::Error;

use rusqlite::ErrorCode;

use crate::exit::Exit;
use crate::snapshot::SnapshotError;
use crate::state::StateError;
use crate::store::copies::CopyError;
use crate::store::rows::{RowError, RowErrorKind};
use crate::store::sqlite::OpenError;
use crate::store::vectors::VectorError;

/// A failure of a whole command.
#[derive(Debug)]
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
            hint: error.hint().map(Into::into),
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
            hint: error.hint().map(Into::into),
        }
    }
}

impl From<&SnapshotError> for Failure {
    fn from(error: &SnapshotError) -> Self {
        let exit = match error {
            error if error.is_interruption() => Exit::Interrupted,
            SnapshotError::NoPair { .. } => Exit::Usage,
            SnapshotError::OpenIntents { .. }
            | SnapshotError::OtherStore(_)
            | SnapshotError::Foreign(_)
            | SnapshotError::StateLost { .. }
            | SnapshotError::Half {
                source: CopyError::InUse { .. },
                ..
            } => Exit::LeftOver,
            _ => Exit::Failed,
        };
        Self {
            exit,
            message: chain(error),
            hint: error.hint().map(Into::into),
        }
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
