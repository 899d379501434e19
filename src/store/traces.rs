//! What is left of removed rows and points in the files of a store, and how much of it can be overwritten.
//!
//! With `secure_delete` a deletion overwrites its own bytes. The write-ahead log still has older versions of the pages
//! until it is folded in and cut off; that is tried a few times, each for a moment only, since a writer would have to
//! wait. What was deleted *before* without `secure_delete` stays in free pages and gaps until a VACUUM.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;

use crate::clock;

/// How long each attempt to cut off the log waits for its readers: as long as a writer has to stand still.
const PATIENCE: Duration = Duration::from_millis(100);
/// Attempts, and the pause between two of them.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A place where removed text can still be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "place")]
pub enum Trace {
    /// The write-ahead log: a reader or a writer kept it from being cut off.
    Log,
    /// Free pages: what was deleted before, and not overwritten.
    FreePages {
        /// How much room they take.
        bytes: u64,
    },
    /// Gaps in pages that are in use: what was changed or moved before, and not overwritten.
    Gaps,
    /// A rollback journal that stays beside the database.
    Journal,
    /// A text index that could not be folded into one.
    TextIndex {
        /// Its table.
        table: String,
    },
    /// Segments and log of a Qdrant server, until it rewrites them.
    Segments,
}

impl Trace {
    /// Whether trying again later is all it takes: then the erasure is not complete.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        match self {
            Self::Log | Self::TextIndex { .. } => true,
            Self::FreePages { .. } | Self::Gaps | Self::Journal | Self::Segments => false,
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log => f.write_str(
                "the write-ahead log, which somebody was reading: run it again, or stop the agent for a moment",
            ),
            Self::FreePages { bytes } => write!(
                f,
                "{bytes} bytes of free pages, if the text was deleted or moved there before: until a VACUUM"
            ),
            Self::Gaps => f.write_str(
                "gaps in pages in use, if the text was changed or moved there before: until a VACUUM",
            ),
            Self::Journal => f.write_str("the rollback journal beside it: until it is overwritten or deleted"),
            Self::TextIndex { table } => write!(f, "the text index {table:?}, which could not be folded into one"),
            Self::Segments => f.write_str(
                "segments and log of the server: until its optimizer rewrites them, and in its own snapshots",
            ),
        }
    }
}

/// Cuts off the log of a database that was written with [`super::sqlite::Access::Erase`], and names what is left.
///
/// # Errors
///
/// When the file cannot be read or written.
pub(super) fn settle(conn: &Connection, path: &Path) -> rusqlite::Result<Vec<Trace>> {
    let mut traces = Vec::new();
    if !cut_off_log(conn)? {
        traces.push(Trace::Log);
    }
    let pragma = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let bytes = pragma("freelist_count")? * pragma("page_size")?;
    if bytes > 0 {
        let bytes = bytes.unsigned_abs();
        traces.push(Trace::FreePages { bytes });
    }
    traces.push(Trace::Gaps);
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    if Path::new(&journal).exists() {
        traces.push(Trace::Journal);
    }
    Ok(traces)
}

/// Whether the log is empty, or there is none.
fn cut_off_log(conn: &Connection) -> rusqlite::Result<bool> {
    let patience: i64 = conn.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    conn.busy_timeout(PATIENCE)?;
    let mut is_empty = false;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            clock::pause(PAUSE);
        }
        let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        });
        is_empty = match busy {
            Ok(busy) => busy == 0,
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                false
            }
            Err(error) => return Err(error),
        };
        if is_empty {
            break;
        }
    }
    conn.busy_timeout(Duration::from_millis(patience.unsigned_abs()))?;
    Ok(is_empty)
}
