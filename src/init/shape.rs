//! What a database holds, as far as fingerprints ask.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use rusqlite::Connection;

use super::recognise;
use crate::config::fingerprint::{Shape, normal_sql};
use crate::config::presets::{self, Foreign};
use crate::error::{Failure, chain, is_locked};
use crate::exit::Exit;
use crate::store::sqlite::{self, Access, OpenError};

/// The smallest page of a database, of which its size is a multiple.
const SMALLEST_PAGE: u64 = 512;

/// Opens a database for reading, without leaving a trace.
///
/// # Errors
///
/// When there is none, or it is of a kind that is known and not touched.
pub fn open(path: &Path) -> Result<Connection, Failure> {
    if path.is_dir() {
        let has_all = |foreign: &Foreign| {
            let files = foreign.fingerprint.files();
            !files.is_empty() && files.iter().all(|file| path.join(file).exists())
        };
        let foreign = presets::foreign().into_iter().find(has_all);
        return Err(foreign.map_or_else(
            || {
                Failure::new(Exit::NoStore, format!("{} is a folder", path.display()))
                    .with_hint("name the database in it")
            },
            |foreign| recognise::refused(&foreign, path),
        ));
    }
    sqlite::open(path, Access::Read).map_err(|error| match error {
        OpenError::NotADatabase { .. } if is_encrypted(path) => {
            let foreign = presets::foreign()
                .into_iter()
                .find(|foreign| foreign.fingerprint.is_encrypted());
            foreign.map_or_else(
                || missing(&error),
                |foreign| recognise::refused(&foreign, path),
            )
        }
        OpenError::Empty { .. } => recognise::unknown(path, None),
        error => missing(&error),
    })
}

fn missing(error: &OpenError) -> Failure {
    // It is there, and another program does not let anybody look.
    let exit = if is_locked(error) {
        Exit::Failed
    } else {
        Exit::NoStore
    };
    Failure::new(exit, chain(error))
}

/// Whether a file without the header of SQLite looks like an encrypted database: whole pages that begin with no text.
fn is_encrypted(path: &Path) -> bool {
    let begin = || -> std::io::Result<([u8; 64], u64)> {
        let mut file = std::fs::File::open(path)?;
        let mut begin = [0; 64];
        file.read_exact(&mut begin)?;
        Ok((begin, file.metadata()?.len()))
    };
    begin().is_ok_and(|(begin, length)| {
        let is_text = std::str::from_utf8(&begin).is_ok();
        let has_gap = begin.windows(4).any(|bytes| bytes == [0; 4]);
        !is_text && !has_gap && length % SMALLEST_PAGE == 0
    })
}

/// The shape of the database in a file.
///
/// # Errors
///
/// As [`open`]; also when the schema cannot be read.
pub fn of(path: &Path) -> Result<Shape, Failure> {
    let database = open(path)?;
    read(&database).map_err(|error| {
        let doing = format!("read the schema of {}", path.display());
        Failure::new(Exit::Failed, error.to_string()).while_doing(&doing)
    })
}

/// Reads the tables, their columns, and the statements of the schema.
///
/// # Errors
///
/// When the schema cannot be read.
pub fn read(conn: &Connection) -> rusqlite::Result<Shape> {
    let mut shape = Shape::default();
    let mut objects = conn.prepare("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")?;
    let objects = objects.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
        ))
    })?;
    for object in objects {
        let (kind, name, sql) = object?;
        if kind == "table" {
            shape
                .tables
                .insert(name.to_lowercase(), columns(conn, &name));
        }
        shape.statements.push(normal_sql(&sql));
    }
    Ok(shape)
}

/// The columns of a table; none for a virtual table whose module is not there.
fn columns(conn: &Connection, table: &str) -> BTreeMap<String, String> {
    let read = || -> rusqlite::Result<BTreeMap<String, String>> {
        let mut statement =
            conn.prepare("SELECT lower(name), lower(type) FROM pragma_table_xinfo(?1)")?;
        let columns = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
        columns.collect()
    };
    read().unwrap_or_default()
}
