//! Reading memories.
//!
//! Everything that a decision rests on is read inside one [`Snapshot`], a single read transaction: the decision and the
//! row versions that it expects come from the same state of the file.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::bound::Bound;
use super::snapshot::{Snapshot, count_at};
use super::{Partition, RowError, open, schema};
use crate::config;
use crate::store::database;

/// A row database, opened for reading.
#[derive(Debug)]
pub struct Reader {
    rows: Arc<config::Rows>,
    tenant: Option<Arc<str>>,
    snapshot: Snapshot,
}

impl Reader {
    /// Opens a partition, and compiles every statement that will read from it.
    pub(super) fn open(partition: &Partition, rows: Arc<config::Rows>) -> Result<Self, RowError> {
        Self::over(open::reader(&partition.path)?, partition, rows)
    }

    /// Reads a partition over a connection to it, or to a copy of it.
    pub(super) fn over(
        conn: Connection,
        partition: &Partition,
        rows: Arc<config::Rows>,
    ) -> Result<Self, RowError> {
        let tenant = partition.tenant.clone();
        let bound = Bound::new(&conn, &rows, tenant.as_ref())?;
        bound.probe_reads(&conn)?;
        let bound = RefCell::new(Arc::new(bound));
        Ok(Self {
            rows,
            tenant,
            snapshot: Snapshot { conn, bound },
        })
    }

    /// Runs `f` inside one read transaction.
    ///
    /// # Errors
    ///
    /// What `f` returns; also when the transaction cannot begin, or the schema has changed into one that does not fit
    /// the mapping.
    pub fn snapshot<T, E: From<RowError>>(
        &self,
        f: impl FnOnce(&Snapshot) -> Result<T, E>,
    ) -> Result<T, E> {
        let conn = &self.snapshot.conn;
        let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)
            .map_err(RowError::sqlite("begin a read transaction"))?;
        // The first read fixes the state that all others see.
        let cookie = schema::cookie(conn)?;
        if self.snapshot.bound().cookie != cookie {
            let bound = Bound::new(conn, &self.rows, self.tenant.as_ref())?;
            bound.probe_reads(conn)?;
            *self.snapshot.bound.borrow_mut() = Arc::new(bound);
        }
        let result = f(&self.snapshot)?;
        transaction
            .finish()
            .map_err(RowError::sqlite("end a read transaction"))?;
        Ok(result)
    }

    /// Compiles every statement that would remove, end or put back memories, triggers included, and runs none: what
    /// needs an extension is found before the first write.
    ///
    /// # Errors
    ///
    /// [`RowError::Probe`] with the table and what `SQLite` said; [`RowError::Schema`] when `valid_to` cannot be set.
    pub fn explain(&self) -> Result<(), RowError> {
        self.snapshot.bound().probe_writes(&self.snapshot.conn)
    }

    /// A number that changes when another connection commits to the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn data_version(&self) -> Result<i64, RowError> {
        self.pragma("data_version")
    }

    /// The journal mode, in lower case: `delete`, `wal` and so on.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn journal_mode(&self) -> Result<String, RowError> {
        self.pragma("journal_mode")
    }

    /// How many bytes of the file are free pages, which `VACUUM` would give back.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn free_bytes(&self) -> Result<u64, RowError> {
        let pages: u32 = self.pragma("freelist_count")?;
        let size: u32 = self.pragma("page_size")?;
        Ok(u64::from(pages) * u64::from(size))
    }

    /// How many rows of the whole file violate a foreign key, enforced or not; those of the table of `points` are points
    /// without a row, and counted as such. `None` when a key names columns of its parent that are no key there, so that
    /// `SQLite` cannot check it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn foreign_key_check(&self, points: Option<&str>) -> Result<Option<u64>, RowError> {
        let sql = "SELECT count(*) FROM pragma_foreign_key_check
                   WHERE ?1 IS NULL OR \"table\" <> ?1 COLLATE NOCASE";
        match self
            .snapshot
            .conn
            .query_row(sql, [points], |row| count_at(row, 0))
        {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => Ok(None),
            Err(error) => Err(RowError::sqlite("check the foreign keys")(error)),
        }
    }

    /// Checks the file for damage; returns the first that was found.
    ///
    /// # Errors
    ///
    /// When the check could not be run.
    pub fn integrity(&self) -> Result<Option<String>, RowError> {
        database::quick_check(&self.snapshot.conn)
            .map_err(RowError::sqlite("check the database for damage"))
    }

    fn pragma<T: rusqlite::types::FromSql>(&self, name: &str) -> Result<T, RowError> {
        self.snapshot
            .conn
            .pragma_query_value(None, name, |row| row.get(0))
            .map_err(RowError::sqlite("ask the database about itself"))
    }
}
