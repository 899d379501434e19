//! Why a row store could not do what it was asked.
//!
//! An error says what was being done and what to do about it. It never says in which partition: whoever asked knows.

use std::fmt;
use std::io;
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::failpoint::Injected;
use crate::store::sqlite::OpenError;
use crate::store::vectors::VectorError;

/// Why a row store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// The file could not be opened.
    #[error("open the row database")]
    Open(#[from] OpenError),
    /// Two tenants have one file: no row of it can be said to belong to either.
    #[error("open the row database: it is the same file as that of tenant {tenant:?}")]
    Shared {
        /// The other tenant.
        tenant: Arc<str>,
    },
    /// The table of the mapping is not there.
    #[error("find table {table:?}: the database has {}", Listed(has))]
    NoTable {
        /// What the mapping names.
        table: String,
        /// The tables that are there.
        has: Vec<String>,
    },
    /// A column of the mapping is not there.
    #[error("find column {column:?} of table {table:?}: it has {}", Listed(has))]
    NoColumn {
        /// The table.
        table: String,
        /// What the mapping names.
        column: String,
        /// The columns that are there.
        has: Vec<String>,
    },
    /// Several columns of the mapping are not there.
    #[error(
        "find columns {} of table {table:?}: it has {}",
        Listed(columns),
        Listed(has)
    )]
    NoColumns {
        /// The table.
        table: String,
        /// What the mapping names.
        columns: Vec<String>,
        /// The columns that are there.
        has: Vec<String>,
    },
    /// The schema is there, and is not one that hypnos can work with.
    #[error("{what}")]
    Schema {
        /// What is wrong, with the names.
        what: String,
    },
    /// SQLite cannot compile a statement that hypnos would run: a trigger, view or index needs an extension, or the
    /// mapping names something that is not there.
    #[error("prepare to {verb} table {table:?}: {message}")]
    Probe {
        /// `read`, `delete from`, `update` or `insert into`.
        verb: &'static str,
        /// The table of the statement.
        table: String,
        /// What SQLite said.
        message: String,
    },
    /// The owners table says that nobody exists, which is never believed.
    #[error("read owners from table {table:?}: it names nobody")]
    NoOwners {
        /// The table.
        table: String,
    },
    /// The owners table names someone in a way that no namespace can spell.
    #[error("read owners from table {table:?}: {count} ids are neither text, integer nor UUID")]
    UnreadableOwners {
        /// The table.
        table: String,
        /// How many.
        count: u64,
    },
    /// The owners table is not where the mapping says, or not as it says.
    #[error(transparent)]
    Owners(Box<Self>),
    /// The points that are the rows could not be read.
    #[error("read the points that are the rows")]
    Points(#[source] Box<VectorError>),
    /// The file system refused.
    #[error("{doing}")]
    Io {
        /// Verb and object.
        doing: String,
        /// The cause.
        source: io::Error,
    },
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
    /// SQLite refused.
    #[error("{doing}")]
    Sqlite {
        /// Verb and object.
        doing: &'static str,
        /// The cause.
        source: rusqlite::Error,
    },
}

/// What kind of trouble a [`RowError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowErrorKind {
    /// There is no store at the path, or what is there is no database.
    Missing,
    /// The schema does not match the mapping.
    Schema,
    /// Another connection holds the lock: later it may work.
    Busy,
    /// The file is damaged.
    Corrupt,
    /// Everything else: permissions, full disk, failing disk.
    Other,
}

impl RowError {
    /// Wraps an error of SQLite with what was being done.
    ///
    /// Of what SQLite said while a statement ran only the code is kept: the message may be a trigger's own, with the
    /// text of a memory in it.
    pub(super) fn sqlite(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Sqlite {
            doing,
            source: match source {
                rusqlite::Error::SqliteFailure(code, _) => {
                    rusqlite::Error::SqliteFailure(code, None)
                }
                other => other,
            },
        }
    }

    /// Wraps an error of the file system with what was being done.
    pub(super) fn io(doing: String) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// A schema that hypnos cannot work with.
    pub(super) fn schema(what: impl Into<String>) -> Self {
        Self::Schema { what: what.into() }
    }

    /// Whether a stop was the cause.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Points(error) if matches!(**error, VectorError::Interrupted))
    }

    /// The kind of trouble.
    #[must_use]
    pub fn kind(&self) -> RowErrorKind {
        match self {
            Self::Open(
                OpenError::Missing { .. }
                | OpenError::NotAFile { .. }
                | OpenError::Empty { .. }
                | OpenError::NotADatabase { .. },
            ) => RowErrorKind::Missing,
            Self::NoTable { .. }
            | Self::NoColumn { .. }
            | Self::NoColumns { .. }
            | Self::Schema { .. }
            | Self::Probe { .. } => RowErrorKind::Schema,
            Self::Owners(error) => error.kind(),
            Self::Points(error) if error.is_missing() => RowErrorKind::Missing,
            Self::Points(_)
            | Self::Open(
                OpenError::ReadOnly { .. }
                | OpenError::HotJournal { .. }
                | OpenError::Denied { .. }
                | OpenError::Io { .. },
            )
            | Self::Shared { .. }
            | Self::Injected(_)
            | Self::NoOwners { .. }
            | Self::UnreadableOwners { .. } => RowErrorKind::Other,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => RowErrorKind::Missing,
                _ => RowErrorKind::Other,
            },
            Self::Open(OpenError::Sqlite(source)) | Self::Sqlite { source, .. } => kind_of(source),
        }
    }

    /// What an operator can do about it, where there is something to say beyond the message.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Owners(error) => match **error {
                Self::Open(OpenError::Missing { .. } | OpenError::NotAFile { .. }) => {
                    Some("check store.owners.path")
                }
                Self::NoTable { .. } | Self::NoColumn { .. } | Self::NoColumns { .. } => {
                    Some("check the mapping in store.owners against the schema")
                }
                _ => error.hint(),
            },
            Self::Open(OpenError::Missing { .. } | OpenError::NotAFile { .. }) => {
                Some("check store.rows.path; hypnos never creates a row database")
            }
            Self::Open(OpenError::Empty { .. }) => Some(
                "a failed copy leaves such a file: restore it, or let the application create its tables",
            ),
            Self::Open(OpenError::NotADatabase { .. }) => Some(
                "check store.rows.path; an encrypted database cannot be read, a damaged one has to be restored",
            ),
            Self::Open(OpenError::HotJournal { .. }) => {
                Some("the application was killed while it wrote: let it open the database once")
            }
            Self::Open(
                OpenError::Denied { .. } | OpenError::ReadOnly { .. } | OpenError::Io { .. },
            ) => Some(ACCESS),
            Self::Shared { .. } => Some(
                "a symbolic or hard link makes one database the file of two tenants: remove the link",
            ),
            Self::NoTable { .. } | Self::NoColumn { .. } | Self::NoColumns { .. } => Some(
                "check the mapping in store.rows against the schema; a column that may be missing is written `name?`",
            ),
            Self::Probe { .. } => Some(
                "a trigger, view or index of the table needs an extension that hypnos does not load",
            ),
            Self::NoOwners { .. } | Self::UnreadableOwners { .. } => {
                Some("check store.owners; nothing is swept until it can be read")
            }
            Self::Points(error) => error.hint(),
            Self::Schema { .. } | Self::Injected(_) => None,
            Self::Io { source, .. } => {
                (source.kind() == io::ErrorKind::PermissionDenied).then_some(ACCESS)
            }
            Self::Open(OpenError::Sqlite(source)) | Self::Sqlite { source, .. } => match source
                .sqlite_error_code()?
            {
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                    Some("another program holds the lock; hypnos tries again on its next run")
                }
                ErrorCode::DatabaseCorrupt => Some("restore it from a verified pair"),
                ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => Some(
                    "hypnos needs to read and write the file and its folder; after a crash of the application, it has to open the database once",
                ),
                ErrorCode::DiskFull => Some("free space on the disk of the database"),
                _ => None,
            },
        }
    }
}

/// What hypnos must be allowed to do.
const ACCESS: &str = "hypnos needs to read and write the file and its folder";

/// A list of names, as a sentence has it.
struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        f.write_str(&self.0.join(", "))
    }
}

fn kind_of(error: &rusqlite::Error) -> RowErrorKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => RowErrorKind::Busy,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => RowErrorKind::Corrupt,
        Some(ErrorCode::SchemaChanged) => RowErrorKind::Schema,
        _ => RowErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn what_a_trigger_says_is_not_repeated() {
        let code = ffi::Error::new(ffi::SQLITE_CONSTRAINT_TRIGGER);
        let source = rusqlite::Error::SqliteFailure(code, Some("kept: my secret".into()));
        let error = RowError::sqlite("change memories")(source);
        assert_eq!(
            crate::error::chain(&error),
            "change memories: Error code 1811: constraint failed"
        );
        assert!(!format!("{error:?}").contains("secret"));
        assert_eq!(error.kind(), RowErrorKind::Other);
    }
}
