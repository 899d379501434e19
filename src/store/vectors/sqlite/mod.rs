//! A plain table of points in SQLite: `points(id, namespace, vector, payload)` and whatever other columns it has.
//!
//! Mechanics: rows are identified by their rowid (or by the primary key of a table without one); a point id is looked
//! up under every spelling of [`keys`]. Reads go page by page in the order of the key, each page a statement of its
//! own, so that no lock is held while a page is being looked at. Removal goes by small IMMEDIATE transactions with
//! pauses between them, see [`mod@write`].
//!
//! Policy: a row whose key no point id can name, and rows that are the same point, are never touched; they are counted,
//! and keep no other row from being read or removed. Points whose namespace is not text belong to nobody.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use crate::config::VectorTable;
use crate::memory::PointId;
use crate::pace::Pace;
use crate::stop::Stop;
use crate::store::image::SqlValue;
use crate::store::sqlite::Access;

pub use copies::SqliteCopies;

use super::VectorError;
use schema::Table;

mod copies;
mod keys;
mod locate;
mod read;
mod schema;
mod write;

#[cfg(test)]
mod tests;

/// Steps of the virtual machine between two looks at the stop flag: about a millisecond.
const STEPS_PER_LOOK: i32 = 10_000;

/// A table of points in a SQLite database.
pub struct SqliteVectors {
    connection: Connection,
    table: Table,
    stop: Stop,
    /// Whether a batch is being written: it is finished although a stop was requested.
    is_writing: Arc<AtomicBool>,
    /// Dimensions of the vectors, once one was seen.
    dimensions: Cell<Option<u64>>,
    /// Whether points were put back: they may be of a form that the table had no key of any more.
    putting_back: Cell<bool>,
    /// Which forms of UUIDs there are, see [`keys::forms`].
    forms: OnceCell<Vec<bool>>,
    /// The keys in a spelling that no index leads to, once they were needed.
    irregular: OnceCell<HashMap<PointId, Vec<SqlValue>>>,
    pace: Cell<Pace>,
    /// Rows written since the WAL was folded in.
    unfolded: Cell<usize>,
}

impl SqliteVectors {
    /// Opens the database and checks every configured name against its schema, and that the statements which hypnos
    /// will run can be run (a trigger may need an extension).
    ///
    /// # Errors
    ///
    /// When the file is missing or refuses, or its schema is not what the configuration says.
    pub fn open(
        config: &VectorTable,
        namespace_column: &str,
        access: Access,
        stop: Stop,
    ) -> Result<Self, VectorError> {
        let connection = crate::store::sqlite::open(&config.path, access)?;
        Self::over(connection, config, namespace_column, access, stop)
    }

    /// The same over a connection to the database, or to a copy of it.
    pub(super) fn over(
        mut connection: Connection,
        config: &VectorTable,
        namespace_column: &str,
        access: Access,
        stop: Stop,
    ) -> Result<Self, VectorError> {
        let is_writing = Arc::new(AtomicBool::new(false));
        let (watched, writing) = (stop.clone(), Arc::clone(&is_writing));
        let is_to_end = move || watched.is_requested() && !writing.load(Ordering::Relaxed);
        connection
            .progress_handler(STEPS_PER_LOOK, Some(is_to_end))
            .map_err(failed("watch for a stop"))?;
        let table = Table::read(&connection, config, namespace_column)?;
        let store = Self {
            connection,
            table,
            stop,
            is_writing,
            dimensions: Cell::new(None),
            putting_back: Cell::new(false),
            forms: OnceCell::new(),
            irregular: OnceCell::new(),
            pace: Cell::new(Pace::up_to(write::LARGEST_BATCH)),
            unfolded: Cell::new(0),
        };
        store.check_namespaces(namespace_column)?;
        if access != Access::Read {
            store
                .connection
                .pragma_update(None, "wal_autocheckpoint", 0)
                .map_err(failed("take over checkpoints"))?;
            store
                .connection
                .prepare(&store.delete_sql())
                .map_err(failed("prepare the removal of points"))?;
        }
        Ok(store)
    }

    /// When the namespace is read from the payload, some point must have it: else the name is misspelt.
    fn check_namespaces(&self, namespace_column: &str) -> Result<(), VectorError> {
        let Table {
            name,
            namespace,
            plain_name,
            namespace_is_column,
            ..
        } = &self.table;
        let is_fine = *namespace_is_column
            || self
                .connection
                .query_row(
                    &format!(
                        "SELECT EXISTS (SELECT 1 FROM {name} WHERE {namespace} IS NOT NULL) \
                         OR NOT EXISTS (SELECT 1 FROM {name})"
                    ),
                    [],
                    |row| row.get(0),
                )
                .map_err(failed("look for namespaces"))?;
        if is_fine {
            return Ok(());
        }
        Err(VectorError::Missing {
            what: format!(
                "column {namespace_column:?} of table {plain_name:?}, or a payload with that key,"
            ),
        })
    }

    fn check_stop(&self) -> Result<(), VectorError> {
        if self.stop.is_requested() && !self.is_writing.load(Ordering::Relaxed) {
            return Err(VectorError::Interrupted);
        }
        Ok(())
    }

    /// Runs `work` to its end, whether a stop is requested meanwhile or not: for a batch, which takes a second at most.
    fn to_the_end<T>(
        &self,
        work: impl FnOnce() -> Result<T, VectorError>,
    ) -> Result<T, VectorError> {
        self.is_writing.store(true, Ordering::Relaxed);
        let result = work();
        self.is_writing.store(false, Ordering::Relaxed);
        result
    }

    /// Begins a read of several statements that all see the same state; inside a transaction they do already.
    fn read_transaction(&self) -> Result<Option<Transaction<'_>>, VectorError> {
        self.connection
            .is_autocommit()
            .then(|| Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred))
            .transpose()
            .map_err(failed("begin reading points"))
    }
}

/// The values of some columns of a row.
fn values(
    row: &rusqlite::Row<'_>,
    columns: impl Iterator<Item = usize>,
) -> rusqlite::Result<Vec<SqlValue>> {
    columns
        .map(|column| Ok(row.get_ref(column)?.into()))
        .collect()
}

/// A count, as SQLite gives it.
fn unsigned(count: i64) -> u64 {
    count.unsigned_abs()
}

/// Says what was being done when SQLite failed; a statement ended by the stop flag is an interruption.
fn failed(doing: &'static str) -> impl Fn(rusqlite::Error) -> VectorError {
    move |source| {
        if source.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return VectorError::Interrupted;
        }
        // What a trigger raises may quote a row: the code says enough.
        let source = match source {
            rusqlite::Error::SqliteFailure(code, Some(_)) => {
                rusqlite::Error::SqliteFailure(code, None)
            }
            other => other,
        };
        VectorError::Sqlite { doing, source }
    }
}
