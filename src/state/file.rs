//! Opening a state file: made whole or not at all, checked before it is believed, and left alone by readers.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Params, Row, Transaction, TransactionBehavior};

use super::error::Fault;
use super::schema::{self, Stamp};
use super::{Partition, StateError};
use crate::durable;
use crate::failpoint::{Failpoint, hit};
use crate::store::identity::Identity;

/// How long a statement waits for another process, such as a `status`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepared statements that are kept.
const STATEMENTS: usize = 64;

/// Pages of the write-ahead log at which it is written back: 16 MiB, some batches of intents.
const CHECKPOINT_PAGES: u32 = 4096;

/// Free bytes from which [`State::tidy`] gives space back to the file system.
const WORTH_SHRINKING: i64 = 16 * 1024 * 1024;

/// The state of one partition, to read.
#[derive(Debug)]
pub struct StateReader {
    pub(super) conn: Connection,
    path: PathBuf,
    partition: Arc<str>,
}

/// The state of one partition, to read and write. One process writes at a time: hold the store's [`super::RunLock`].
#[derive(Debug)]
pub struct State {
    reader: StateReader,
    stores: Identity,
}

impl Deref for State {
    type Target = StateReader;

    fn deref(&self) -> &StateReader {
        &self.reader
    }
}

impl StateReader {
    pub(super) fn open(path: &Path, partition: Partition<'_>) -> Result<Option<Self>, StateError> {
        if !is_there(path)? {
            return Ok(None);
        }
        let conn = connect_to_read(path)?;
        if let Some(found) = check(&conn, path, schema::STEPS)? {
            let path = path.to_owned();
            return Err(StateError::Older { path, found });
        }
        Self::new(conn, path, partition).map(Some)
    }

    fn new(conn: Connection, path: &Path, partition: Partition<'_>) -> Result<Self, StateError> {
        let tenant = tenant_of(&conn, path)?;
        if tenant.as_deref() != partition.tenant() {
            let path = path.to_owned();
            return Err(StateError::WrongPartition { path });
        }
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(Self {
            conn,
            path: path.to_owned(),
            partition: partition.name().into(),
        })
    }

    /// The name of the partition: `main`, or the tenant.
    #[must_use]
    pub fn partition(&self) -> &Arc<str> {
        &self.partition
    }

    /// The state file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn rows<T>(
        &self,
        doing: &'static str,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StateError> {
        let all = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.conn.prepare_cached(sql)?;
            statement.query_map(params, read)?.collect()
        };
        all().map_err(|source| StateError::sqlite(doing, &self.path, source))
    }

    pub(super) fn one<T>(
        &self,
        doing: &'static str,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StateError> {
        let one = || self.conn.prepare_cached(sql)?.query_row(params, read);
        one().map_err(|source| StateError::sqlite(doing, &self.path, source))
    }
}

impl State {
    pub(super) fn open(path: &Path, partition: Partition<'_>) -> Result<Self, StateError> {
        Self::open_with(path, partition, schema::STEPS)
    }

    fn open_with(
        path: &Path,
        partition: Partition<'_>,
        steps: &[&str],
    ) -> Result<Self, StateError> {
        if !is_there(path)? {
            create(path, partition, steps)?;
        }
        let conn = connect(path)?;
        let older = check(&conn, path, steps)?;
        prepare_to_write(&conn, path)?;
        if older.is_some() {
            schema::migrate(&conn, steps)
                .map_err(|source| StateError::sqlite("migrate the tables", path, source))?;
        }
        let reader = StateReader::new(conn, path, partition)?;
        Ok(Self {
            reader,
            stores: Identity::default(),
        })
    }

    /// The same, writing its intents for these stores.
    #[must_use]
    pub fn for_stores(self, stores: Identity) -> Self {
        Self { stores, ..self }
    }

    /// The stores that intents are written for.
    pub(super) fn stores(&self) -> &Identity {
        &self.stores
    }

    /// Runs `change` in one IMMEDIATE transaction, durable when this returns.
    pub(super) fn write<T>(
        &self,
        doing: &'static str,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StateError> {
        let all = || {
            let tx = Transaction::new_unchecked(&self.conn, TransactionBehavior::Immediate)?;
            let done = change(&tx)?;
            hit(Failpoint::StateUncommitted)?;
            tx.commit()?;
            Ok(done)
        };
        all().map_err(|fault: Fault| fault.at(doing, &self.path))
    }

    /// Empties the write-ahead log, in which erased text would linger, and gives back space once there is much of it.
    /// To be called when a run ends.
    ///
    /// Answers whether the log is empty: a process that reads at the moment keeps it, until the next time.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn tidy(&self) -> Result<bool, StateError> {
        let pragma = |name| self.one("measure the file", name, [], |row| row.get::<_, i64>(0));
        let free = pragma("PRAGMA freelist_count")? * pragma("PRAGMA page_size")?;
        if free >= WORTH_SHRINKING {
            // Each row that it returns is a page given back.
            self.rows("shrink the file", "PRAGMA incremental_vacuum", [], |_| {
                Ok(())
            })?;
        }
        self.one(
            "empty the log",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            [],
            |row| Ok(row.get::<_, i64>(0)? == 0),
        )
    }
}

/// The tenant that the state file at `path` says it is of, for those whose name does not fit into a file name.
pub(super) fn tenant_inside(path: &Path) -> Result<Option<String>, StateError> {
    let conn = connect_to_read(path)?;
    check(&conn, path, schema::STEPS)?;
    tenant_of(&conn, path)
}

fn tenant_of(conn: &Connection, path: &Path) -> Result<Option<String>, StateError> {
    conn.query_row("SELECT tenant FROM identity", [], |row| row.get(0))
        .map_err(|source| match source {
            rusqlite::Error::QueryReturnedNoRows => damaged(path, "it does not say whose it is"),
            source => StateError::sqlite("read the identity", path, source),
        })
}

fn is_there(path: &Path) -> Result<bool, StateError> {
    path.try_exists()
        .map_err(|source| StateError::io("look for", path, source))
}

fn damaged(path: &Path, problem: impl Into<String>) -> StateError {
    StateError::Damaged {
        path: path.to_owned(),
        problem: problem.into(),
    }
}

/// The write-ahead log that belongs to a database.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Makes a state file under a temporary name and gives it its own once it is whole, so that a file that is there but
/// empty or half made is always damage. Should another process make one meanwhile, that one stays.
fn create(path: &Path, partition: Partition<'_>, steps: &[&str]) -> Result<(), StateError> {
    let log = log_of(path);
    if is_there(&log)? {
        // SQLite would read the old log into the new database.
        return Err(StateError::StrayLog { path: log });
    }
    hit(Failpoint::StateCreateBefore)?;
    let making = |source| StateError::io("create", path, source);
    let temporary = durable::temporary_beside(path).map_err(making)?;
    durable::create_new(&temporary, durable::PRIVATE).map_err(making)?;
    let fill = || {
        let conn = Connection::open_with_flags(&temporary, flags())?;
        conn.pragma_update(None, "journal_mode", "OFF")?;
        conn.pragma_update(None, "synchronous", "OFF")?;
        schema::create(&conn, partition.tenant(), steps)?;
        // Later it would fail where two open the new file at once: the lock that it takes is not waited for.
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        conn.close().map_err(|(_, error)| error)
    };
    fill().map_err(|source| StateError::sqlite("create the tables", path, source))?;
    hit(Failpoint::StateFilled)?;
    durable::publish(&temporary, path).map_err(making)?;
    Ok(hit(Failpoint::StateCreated)?)
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn connect(path: &Path) -> Result<Connection, StateError> {
    let connect = || {
        let conn = Connection::open_with_flags(path, flags())?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // Else every new value for an id prepares the statement again, because of the partial index: settling then
        // takes four times as long.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(conn)
    };
    connect().map_err(|source| StateError::sqlite("open the database", path, source))
}

/// Connects so that nothing of the database changes. A database in WAL mode cannot be read without its log and the
/// log's index, so they are made for the time of the connection; a log that is there already stays as it is.
fn connect_to_read(path: &Path) -> Result<Connection, StateError> {
    let had_log = is_there(&log_of(path))?;
    let conn = connect(path)?;
    let restrain = || {
        conn.pragma_update(None, "query_only", true)?;
        if had_log {
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        }
        Ok(())
    };
    restrain().map_err(|source| StateError::sqlite("open the database", path, source))?;
    Ok(conn)
}

/// Checks that the file is a state file of a version that can be used; gives the version if it is an older one.
fn check(conn: &Connection, path: &Path, steps: &[&str]) -> Result<Option<i64>, StateError> {
    let size = path
        .metadata()
        .map_err(|source| StateError::io("look at", path, source))?
        .len();
    if size == 0 {
        return Err(damaged(path, "it is empty"));
    }
    let stamp =
        Stamp::of(conn).map_err(|source| StateError::sqlite("read the header", path, source))?;
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    match stamp {
        Stamp { application, .. } if application != schema::APPLICATION_ID => {
            let path = path.to_owned();
            Err(StateError::Foreign { path })
        }
        Stamp { version, .. } if version > known => Err(StateError::Newer {
            path: path.to_owned(),
            found: version,
            known,
        }),
        Stamp { version, .. } if version < 1 => {
            Err(damaged(path, format!("it has version {version}")))
        }
        Stamp { version, .. } => Ok((version < known).then_some(version)),
    }
}

fn prepare_to_write(conn: &Connection, path: &Path) -> Result<(), StateError> {
    let prepare = || {
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "secure_delete", true)?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        Ok(mode)
    };
    let mode =
        prepare().map_err(|source| StateError::sqlite("prepare the database", path, source))?;
    if mode == "wal" {
        return Ok(());
    }
    let path = path.to_owned();
    Err(StateError::NoLog { path, mode })
}

#[cfg(test)]
mod tests;
