//! Whole copies of a SQLite database: opened with suspicion, and what is in them.
//!
//! Mechanics: a copy is opened as a file that nobody writes: no lock, no log, nothing beside it. How it is made is in
//! [`copying`], whether it is what the original is now in [`compare`].
//!
//! Policy: a copy may have been killed half-way, in which case it opens, has no tables and passes every check of SQLite:
//! what counts is what was counted in it.
//!
//! [`copying`]: self::copying
//! [`compare`]: self::compare

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use sha2::{Digest as _, Sha256};

use super::anew::is_of_the_application;
use super::copies::{CopyError, hex};
use super::sqlite::{self, Access};
use super::vec0;
use crate::durable;

mod compare;
mod copying;
#[cfg(test)]
mod tests;

pub use compare::{Stamp, same};
pub use copying::{Fixed, Made, compact, copy, settle, stage};

/// Opens a copy: nothing in its schema is trusted, and no file beside it is looked at or made.
///
/// # Errors
///
/// When it is no database.
pub fn open_copy(path: &Path) -> Result<Connection, CopyError> {
    // SQLite would refuse a link anywhere in the path, and the folder may be reached by one.
    if let Err(error) = durable::open_plain(path)
        && error.kind() == io::ErrorKind::InvalidData
    {
        return Err(CopyError::Damaged(format!("{}: {error}", path.display())));
    }
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_PRIVATE_CACHE;
        vec0::register();
        let conn = Connection::open_with_flags(uri(path), flags)?;
        for (config, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false),
        ] {
            conn.set_db_config(config, on)?;
        }
        conn.pragma_update(None, "cell_size_check", true)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(conn)
    };
    open().map_err(failed(format!("open {}", path.display())))
}

/// The path as a URI of a file that does not change.
fn uri(path: &Path) -> PathBuf {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' => uri.extend(b"%25"),
            b'?' => uri.extend(b"%3f"),
            b'#' => uri.extend(b"%23"),
            byte => uri.push(*byte),
        }
    }
    uri.extend(b"?immutable=1");
    PathBuf::from(std::ffi::OsString::from(std::ffi::OsStr::from_bytes(&uri)))
}

/// Reads every page of a copy and says what is wrong with it; `None` when nothing is.
///
/// # Errors
///
/// When the check could not be run.
pub fn damage(copy: &Connection) -> Result<Option<String>, CopyError> {
    quick_check(copy).map_err(failed("check the copy for damage"))
}

/// Reads every page and says what is wrong first; `None` when nothing is. A table that only the application can check is
/// passed over.
///
/// # Errors
///
/// When the check could not be run.
pub fn quick_check(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let check = |sql: &str| {
        let first: String = conn.query_row(sql, [], |row| row.get(0))?;
        Ok((first != "ok").then_some(first))
    };
    match check("PRAGMA quick_check(1)") {
        Err(error) if is_of_the_application(&error) => {}
        result => return result,
    }
    for name in table_names(conn)? {
        match check(&format!("PRAGMA quick_check({})", quoted(&name))) {
            Ok(None) => {}
            Err(error) if is_of_the_application(&error) => {}
            result => return result,
        }
    }
    Ok(None)
}

/// The number of rows of every ordinary table, by name.
///
/// # Errors
///
/// When one cannot be read.
pub fn tables(conn: &Connection) -> Result<BTreeMap<String, u64>, CopyError> {
    let count = || {
        let names = table_names(conn)?;
        let count = |name: String| {
            let sql = format!("SELECT count(*) FROM {}", quoted(&name));
            let rows: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
            Ok((name, rows.unsigned_abs()))
        };
        names
            .into_iter()
            .map(count)
            .collect::<rusqlite::Result<BTreeMap<_, _>>>()
    };
    count().map_err(failed("count the rows of the tables"))
}

/// Every table that holds rows of its own, those of text indexes and the like included.
fn table_names(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    conn.prepare(
        "SELECT name FROM pragma_table_list
         WHERE schema = 'main' AND type IN ('table', 'shadow') AND name <> 'sqlite_schema' ORDER BY name",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A fingerprint of the schema: tables, indexes, triggers, views and the numbers that the application gave it.
///
/// # Errors
///
/// When it cannot be read.
pub fn schema(conn: &Connection) -> Result<String, CopyError> {
    let read = || {
        let mut hash = Sha256::new();
        let mut statement = conn.prepare(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema
             WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..4 {
                let text: Option<String> = row.get(column)?;
                let text = text.unwrap_or_default();
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text);
            }
        }
        for pragma in ["user_version", "application_id"] {
            let number: i64 = conn.pragma_query_value(None, pragma, |row| row.get(0))?;
            hash.update(number.to_le_bytes());
        }
        Ok(hex(&hash.finalize()))
    };
    read().map_err(failed("read the schema"))
}

/// The journal mode of a live database, in lower case.
///
/// # Errors
///
/// When it cannot be read.
pub fn journal_mode(path: &Path) -> Result<String, CopyError> {
    let conn = sqlite::open(path, Access::Read)?;
    conn.pragma_query_value(None, "journal_mode", |row| row.get(0))
        .map_err(failed("ask for the journal mode"))
}

fn failed(doing: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> CopyError {
    let doing = doing.into();
    move |source| CopyError::Sqlite {
        doing,
        // What a trigger or a constraint says may quote a row: the code says enough.
        source: match source {
            rusqlite::Error::SqliteFailure(code, _) => rusqlite::Error::SqliteFailure(code, None),
            other => other,
        },
    }
}
