//! The space of a SQLite file: how much of it is free, and giving that back.
//!
//! Mechanics: VACUUM writes the database anew, in one transaction that keeps every other writer out until it ends; so it
//! is interrupted once it has taken longer than it may, which undoes it. A file that is kept in incremental mode gives
//! its pages back in short transactions instead. Neither changes the journal mode. In WAL mode
//! the file shrinks when the log is written back, which is done as far as nobody would wait for it: a reader can put it
//! off.
//!
//! Policy: VACUUM may number rows anew where they have no number of their own. Where something else knows rows by that
//! number (a text index, an index of vectors, a trigger), the file is left as it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

use super::anew::{self, is_of_the_application};
use super::sqlite::{self, Access, OpenError};
use crate::clock::Stopwatch;
use crate::failpoint::{Failpoint, Injected, hit};
use crate::pace::Pace;
use crate::stop::Stop;

/// Steps of the virtual machine between two looks at the clock and the stop flag: about a millisecond.
const STEPS_PER_LOOK: i32 = 10_000;
/// Pages given back by one transaction in incremental mode.
const PAGES_AT_ONCE: usize = 256;

/// What a SQLite file says of its own space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Size of the database, in bytes.
    pub bytes: u64,
    /// How much of it is in free pages, in bytes.
    pub free_bytes: u64,
    /// Whether free pages can be given back a few at a time.
    pub is_incremental: bool,
    /// A table whose rows VACUUM may number anew although something knows them by their number.
    pub keyed_by_rowid: Option<String>,
    /// Why nobody but the application can write it anew, where that is so.
    pub of_the_application: Option<String>,
}

/// Measures a database. `mapped` are the tables that the configuration names in it. Nothing is written.
///
/// # Errors
///
/// When it cannot be opened or read.
pub fn measure(path: &Path, mapped: &[&str]) -> Result<Space, SpaceError> {
    let conn = sqlite::open(path, Access::Read)?;
    let read = || {
        let page_size = pragma(&conn, "page_size")?;
        Ok(Space {
            bytes: pragma(&conn, "page_count")? * page_size,
            free_bytes: pragma(&conn, "freelist_count")? * page_size,
            is_incremental: pragma(&conn, "auto_vacuum")? == 2,
            keyed_by_rowid: keyed_by_rowid(&conn, mapped)?,
            of_the_application: anew::obstacle(&conn)?,
        })
    };
    read().map_err(SpaceError::sqlite("measure the database"))
}

/// Free bytes of the file system that a file is on, as far as this user may have them.
///
/// # Errors
///
/// When the file system cannot be asked.
pub fn disk_free(path: &Path) -> Result<u64, SpaceError> {
    let stat = rustix::fs::statvfs(path).map_err(|error| SpaceError::Disk {
        path: path.to_owned(),
        source: error.into(),
    })?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Writes a database anew without its free pages. Answers how many bytes its file and its log have become smaller.
///
/// # Errors
///
/// [`SpaceError::TooLong`] or [`SpaceError::Interrupted`] when it was ended early; [`SpaceError::Busy`] when another
/// connection holds the lock; [`SpaceError::OfTheApplication`] when only the application can. Whatever the error, the
/// database is as it was.
pub fn vacuum(path: &Path, limit: Duration, stop: &Stop) -> Result<u64, SpaceError> {
    let mut conn = open(path)?;
    let watch = Stopwatch::start();
    let asked = stop.clone();
    let is_to_end = move || asked.is_requested() || watch.elapsed() > limit;
    conn.progress_handler(STEPS_PER_LOOK, Some(is_to_end))
        .map_err(SpaceError::sqlite("watch the clock"))?;
    let before = size_with_log(path)?;
    hit(Failpoint::VacuumBefore)?;
    let result = conn.execute_batch("VACUUM");
    if let Err(error) = result {
        return Err(match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if stop.is_requested() => SpaceError::Interrupted,
            Some(ErrorCode::OperationInterrupted) => SpaceError::TooLong {
                seconds: limit.as_secs_f64(),
            },
            _ if is_of_the_application(&error) => SpaceError::OfTheApplication,
            _ => SpaceError::sqlite("vacuum the database")(error),
        });
    }
    write_back(&conn)?;
    hit(Failpoint::VacuumDone)?;
    drop(conn);
    Ok(before.saturating_sub(size_with_log(path)?))
}

/// Gives free pages back a few at a time, until none are left or a stop is requested. Answers like [`vacuum`].
///
/// # Errors
///
/// As [`vacuum`]; what was given back before is.
pub fn shrink(path: &Path, stop: &Stop) -> Result<u64, SpaceError> {
    let conn = open(path)?;
    let before = size_with_log(path)?;
    let mut pace = Pace::up_to(PAGES_AT_ONCE);
    hit(Failpoint::VacuumBefore)?;
    let free = || pragma(&conn, "freelist_count").map_err(SpaceError::sqlite("count free pages"));
    let mut left = free()?;
    while left > 0 {
        if stop.is_requested() {
            return Err(SpaceError::Interrupted);
        }
        let pages = pace.size();
        pace.run(|| give_back(&conn, pages))
            .map_err(SpaceError::sqlite("give pages back"))?;
        let now = free()?;
        if now >= left {
            // Somebody frees pages as fast: the rest is for another night.
            break;
        }
        left = now;
    }
    write_back(&conn)?;
    hit(Failpoint::VacuumDone)?;
    drop(conn);
    Ok(before.saturating_sub(size_with_log(path)?))
}

/// Writes the log back into the file as far as no reader needs it, which nobody waits for: what is left is for the next
/// commit.
fn write_back(conn: &Connection) -> Result<(), SpaceError> {
    match conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(()),
        result => result.map_err(SpaceError::sqlite("write the log back")),
    }
}

/// Gives pages back: each row that the pragma returns is one.
fn give_back(conn: &Connection, pages: usize) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn open(path: &Path) -> Result<Connection, SpaceError> {
    let conn = sqlite::open(path, Access::Write)?;
    // What an application once wrote with text in double quotes has to be read again when it is written anew.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, true)
        .and_then(|_| conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, true))
        .map_err(SpaceError::sqlite("open the database"))?;
    Ok(conn)
}

fn pragma(conn: &Connection, name: &str) -> rusqlite::Result<u64> {
    conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
}

/// The bytes of the database file and of its write-ahead log.
fn size_with_log(path: &Path) -> Result<u64, SpaceError> {
    let size = |path: &Path| match path.metadata() {
        Ok(file) => Ok(file.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(SpaceError::Disk {
            path: path.to_owned(),
            source,
        }),
    };
    Ok(size(path)? + size(&sqlite::beside(path, "-wal"))?)
}

/// A table without a number of its own for each row, whose rows something may know by the number that SQLite gave them.
///
/// That is so when the file has an index that is a virtual table, and the table is one that the configuration names,
/// one that a virtual table or a trigger names beside it, or a part of an index whose module is not loaded; and when a
/// trigger, view or index speaks of rowids.
fn keyed_by_rowid(conn: &Connection, mapped: &[&str]) -> rusqlite::Result<Option<String>> {
    let objects = conn
        .prepare("SELECT type, name, tbl_name, lower(coalesce(sql, '')) FROM sqlite_schema")?
        .query_map([], |row| {
            Ok(Object {
                kind: row.get(0)?,
                name: row.get(1)?,
                table: row.get(2)?,
                sql: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let indexes: Vec<&Object> = objects
        .iter()
        .filter(|object| object.is_virtual())
        .collect();
    let tables = conn
        .prepare(
            "SELECT name FROM pragma_table_list
             WHERE schema = 'main' AND type = 'table' AND NOT wr AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
             ORDER BY name",
        )?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for table in tables {
        let is_named = indexes.iter().any(|index| {
            let prefix = format!("{}_", index.name);
            index.speaks_of(&table)
                || mapped
                    .iter()
                    .any(|mapped| mapped.eq_ignore_ascii_case(&table))
                || table
                    .get(..prefix.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(&prefix))
        });
        let is_used = objects.iter().any(|object| {
            object.kind != "table"
                && (object.table.eq_ignore_ascii_case(&table) || object.speaks_of(&table))
                && object.speaks_of_rowids()
        });
        if (is_named || is_used) && !has_numbers(conn, &table)? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// Whether a table has an INTEGER PRIMARY KEY, which VACUUM keeps.
fn has_numbers(conn: &Connection, table: &str) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT (SELECT count(*) = 1 AND max(type) = 'INTEGER' COLLATE NOCASE
                 FROM pragma_table_xinfo(?1) WHERE pk > 0)
            AND NOT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk')",
        [table],
        |row| row.get(0),
    )
}

/// A line of the schema.
struct Object {
    kind: String,
    name: String,
    table: String,
    /// In lower case.
    sql: String,
}

impl Object {
    fn is_virtual(&self) -> bool {
        self.kind == "table" && self.sql.trim_start().starts_with("create virtual")
    }

    fn speaks_of(&self, word: &str) -> bool {
        has_word(&self.sql, &word.to_lowercase())
    }

    fn speaks_of_rowids(&self) -> bool {
        ["rowid", "_rowid_", "oid"]
            .iter()
            .any(|word| has_word(&self.sql, word))
    }
}

/// Whether a text has a word that is no part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Why the space of a file could not be measured or given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// The database could not be opened.
    #[error("open the database")]
    Open(#[from] OpenError),
    /// Another connection holds the lock.
    #[error("{doing}: another connection holds the lock")]
    Busy {
        /// Verb and object.
        doing: &'static str,
    },
    /// It took longer than it may, and was undone.
    #[error("vacuum the database: not done after {seconds:.1} s, and taken back")]
    TooLong {
        /// How long it may take.
        seconds: f64,
    },
    /// A table or an index has a function or a collation of the application's own.
    #[error(
        "vacuum the database: it needs a function or a collation that only the application has"
    )]
    OfTheApplication,
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
    /// SQLite refused.
    #[error("{doing}")]
    Sqlite {
        /// Verb and object.
        doing: &'static str,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The file system could not be asked.
    #[error("measure {}", path.display())]
    Disk {
        /// What.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
}

impl SpaceError {
    fn sqlite(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { doing },
            // What a trigger or a constraint says may quote a row: the code says enough.
            _ => Self::Sqlite {
                doing,
                source: match source {
                    rusqlite::Error::SqliteFailure(code, _) => {
                        rusqlite::Error::SqliteFailure(code, None)
                    }
                    other => other,
                },
            },
        }
    }

    /// Whether the file may be free another time.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let code = match self {
            Self::Busy { .. } => return true,
            Self::Open(OpenError::Sqlite(source)) => source.sqlite_error_code(),
            _ => None,
        };
        matches!(
            code,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(schema: &str) -> Option<String> {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(schema).unwrap();
        keyed_by_rowid(&conn, &["memories"]).unwrap()
    }

    #[test]
    fn a_table_is_keyed_by_rowid_when_something_may_know_its_rows_by_it() {
        const FTS: &str = "CREATE VIRTUAL TABLE words USING fts5(body);";
        for (schema, expected) in [
            // Nothing could know.
            ("CREATE TABLE memories(id TEXT PRIMARY KEY, body)", None),
            ("CREATE TABLE memories(body); CREATE TABLE tags(t)", None),
            // An index beside it: the configured table is what it is about.
            ("CREATE TABLE memories(id TEXT PRIMARY KEY, body); FTS", Some("memories")),
            ("CREATE TABLE MEMORIES(body); FTS", Some("MEMORIES")),
            ("CREATE TABLE memories(id INT PRIMARY KEY, body); FTS", Some("memories")),
            ("CREATE TABLE memories(id INTEGER PRIMARY KEY, body); CREATE TABLE tags(t); FTS", None),
            ("CREATE TABLE memories(id TEXT PRIMARY KEY) WITHOUT ROWID; FTS", None),
            // Named by an index or a trigger.
            (
                "CREATE TABLE notes(body); CREATE VIRTUAL TABLE w USING fts5(body, content = 'notes')",
                Some("notes"),
            ),
            (
                "CREATE TABLE notes(body); CREATE TABLE log(n); CREATE TRIGGER t AFTER DELETE ON notes BEGIN
                   INSERT INTO log VALUES (old.RowID); END",
                Some("log"),
            ),
            ("CREATE TABLE notes(body); CREATE VIEW v AS SELECT rowid FROM notes", Some("notes")),
            ("CREATE TABLE notes(body); CREATE VIEW v AS SELECT rowids FROM (SELECT 1 AS rowids), notes", None),
            // A part of an index whose module is not loaded looks like any table.
            ("FTS CREATE TABLE words_more(x)", Some("words_more")),
        ] {
            let schema = schema.replace("FTS", FTS);
            assert_eq!(keyed(&schema).as_deref(), expected, "{schema}");
        }
    }
}
