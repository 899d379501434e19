//! Overwriting what removed rows leave behind in their file.
//!
//! A row of an FTS5 table is deleted by writing down that it is; its words stay in the index until that is folded into
//! one. This is done in steps that each hold the write lock for a moment. (The option `secure-delete` of FTS5 would do
//! without, and leave a table that no SQLite before 3.42 can read.)

use rusqlite::Connection;

use super::RowError;
use super::refusal::refused;
use super::schema::quoted;
use super::writer::Writer;
use crate::pace::Pace;
use crate::store::traces::{self, Trace};

/// Pages of an index that one step writes.
const PAGES: i64 = 64;
/// Steps after which an index that does not come to an end is given up.
const MOST_STEPS: u32 = 100_000;

impl Writer {
    /// Folds the text indexes and cuts off the log, and names where removed text can still be.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn scrub(&mut self) -> Result<Vec<Trace>, RowError> {
        let doing = || RowError::sqlite("overwrite what was removed");
        let mut found = Vec::new();
        for table in text_indexes(&self.conn).map_err(doing())? {
            if !fold(&self.conn, &table).map_err(doing())? {
                found.push(Trace::TextIndex { table });
            }
        }
        let path = self.conn.path().unwrap_or_default().to_owned();
        found.extend(traces::settle(&self.conn, path.as_ref()).map_err(doing())?);
        Ok(found)
    }
}

/// The FTS5 tables of a database.
fn text_indexes(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut read = conn.prepare(
        "SELECT name FROM sqlite_schema
         WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING%fts5%' ORDER BY name",
    )?;
    read.query_map([], |row| row.get(0))?.collect()
}

/// Folds an index into one segment, step by step. False when the index refuses.
fn fold(conn: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = format!(
        "INSERT INTO {0}({0}, rank) VALUES ('merge', ?1)",
        quoted(table)
    );
    let mut pace = Pace::up_to(1);
    // The first step, by its sign, takes up all segments there are; the others go on with it.
    let mut pages = -PAGES;
    for _ in 0..MOST_STEPS {
        let before = conn.total_changes();
        let step = pace.calmly(|| conn.prepare_cached(&sql)?.execute([pages]));
        match step {
            Ok(_) => {}
            Err(error) if refused(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        // Less than two changes: nothing was left to do.
        if conn.total_changes() - before < 2 {
            return Ok(true);
        }
        pages = PAGES;
    }
    Ok(false)
}
