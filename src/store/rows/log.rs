//! What an application wrote down of its memories, beside points that are the rows: read, and never believed against
//! them.

use std::borrow::Cow;

use rusqlite::Row;

use super::{RowError, open, value};
use crate::config;

/// What a log says last of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// The memory.
    pub id: String,
    /// Whether it was deleted.
    pub is_deleted: bool,
    /// Its text; `None` where the log does not say it.
    pub text: Option<String>,
}

/// Visits the memories that the log knows, in its order.
///
/// # Errors
///
/// When it cannot be read, or its query is none that only reads one to three columns.
pub fn scan(log: &config::MemoryLog, visit: &mut dyn FnMut(Logged)) -> Result<(), RowError> {
    let conn = open::reader(&log.path)?;
    let mut statement = conn.prepare(&log.last).map_err(|error| RowError::Probe {
        verb: "read",
        table: "the log".into(),
        message: error.to_string(),
    })?;
    let columns = statement.column_count();
    if !statement.readonly() || !(1..=3).contains(&columns) {
        return Err(RowError::schema(
            "log.last is no query that reads the id of a memory, whether it was deleted, and its text",
        ));
    }
    let mut scan = || -> rusqlite::Result<()> {
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(logged) = entry(row, columns)? {
                visit(logged);
            }
        }
        Ok(())
    };
    scan().map_err(RowError::sqlite("read the log"))
}

/// What a row says; `None` where it names no memory.
fn entry(row: &Row<'_>, columns: usize) -> rusqlite::Result<Option<Logged>> {
    let Some(id) = value::text_of(row.get_ref(0)?) else {
        return Ok(None);
    };
    let is_deleted = match columns {
        1 => None,
        _ => row.get::<_, Option<bool>>(1)?,
    };
    let text = match columns {
        3 => value::text_of(row.get_ref(2)?).map(Cow::into_owned),
        _ => None,
    };
    Ok(Some(Logged {
        id: id.into_owned(),
        is_deleted: is_deleted.unwrap_or(false),
        text,
    }))
}
