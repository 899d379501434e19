//! What an application wrote down of its memories, beside points that are the rows: read, and never believed against
//! them.

use super::{RowError, open, value};
use crate::config;

/// The ids of the memories that live by the log, each once.
///
/// # Errors
///
/// When it cannot be read, or its query is none that only reads one column.
pub fn alive(log: &config::MemoryLog) -> Result<Vec<String>, RowError> {
    let conn = open::reader(&log.path)?;
    let mut statement = conn.prepare(&log.alive).map_err(|error| RowError::Probe {
        verb: "read",
        table: "the log".into(),
        message: error.to_string(),
    })?;
    if !statement.readonly() || statement.column_count() != 1 {
        return Err(RowError::schema(
            "log.alive is no query that reads the ids of memories and nothing else",
        ));
    }
    let mut read = || -> rusqlite::Result<Vec<String>> {
        let mut ids = Vec::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            ids.extend(value::text_of(row.get_ref(0)?).map(std::borrow::Cow::into_owned));
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    };
    read().map_err(RowError::sqlite("read the log"))
}
