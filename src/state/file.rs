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
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::super::testing::*;
    use super::super::{Settled, StateDir};
    use super::*;
    use crate::pass::PassName;

    /// Every file of the store's folder with its bytes.
    fn files(world: &World) -> BTreeMap<String, Vec<u8>> {
        fs::read_dir(world.file(""))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read(path).unwrap())
            })
            .collect()
    }

    fn read(dir: &StateDir) -> Result<Option<StateReader>, StateError> {
        dir.read(Partition::Main)
    }

    /// A state with one open intent, closed.
    fn closed() -> World {
        let world = World::new();
        world.main().intend_one(deletion(1));
        world
    }

    fn edit(world: &World, sql: &str) {
        let conn = Connection::open(world.file("main.db")).unwrap();
        conn.execute_batch(sql).unwrap();
    }

    #[test]
    fn what_was_written_is_durable_and_its_settings_are_as_promised() {
        let world = World::new();
        let state = world.main();
        let setting = |name: &str| {
            let sql = format!("PRAGMA {name}");
            let value: rusqlite::types::Value =
                state.one("read", &sql, [], |row| row.get(0)).unwrap();
            format!("{value:?}")
        };
        assert_eq!(setting("journal_mode"), "Text(\"wal\")");
        for (name, value) in [
            ("synchronous", 2),
            ("secure_delete", 1),
            ("foreign_keys", 1),
            ("busy_timeout", 5_000),
            ("user_version", 8),
            ("application_id", schema::APPLICATION_ID),
            ("auto_vacuum", 2),
            ("trusted_schema", 0),
        ] {
            assert_eq!(setting(name), format!("Integer({value})"), "{name}");
        }
    }

    #[test]
    fn reading_changes_no_byte_and_leaves_no_file() {
        let world = closed();
        let before = files(&world);
        assert_eq!(before.keys().collect::<Vec<_>>(), ["main.db"]);
        let reader = read(&world.dir).unwrap().unwrap();
        assert_eq!(reader.count_open_intents().unwrap(), 1);
        let refused = reader.conn.execute("DELETE FROM acceptances", []);
        assert!(refused.is_err());
        drop(reader);
        assert_eq!(files(&world), before);
    }

    #[test]
    fn reading_leaves_the_log_of_a_killed_run_where_it_is() {
        let world = World::new();
        let state = world.main();
        state.intend_one(deletion(1));
        // What a kill leaves: the files as they are, and nobody who has them open.
        let killed = World::new();
        for name in ["main.db", "main.db-wal", "main.db-shm"] {
            fs::copy(world.file(name), killed.file(name)).unwrap();
        }
        let before = files(&killed);
        assert!(!before["main.db-wal"].is_empty());
        for _ in 0..2 {
            let reader = read(&killed.dir).unwrap().unwrap();
            assert_eq!(reader.count_open_intents().unwrap(), 1);
        }
        let mut after = files(&killed);
        assert_eq!(
            after.keys().collect::<Vec<_>>(),
            before.keys().collect::<Vec<_>>()
        );
        // The index of the log is shared memory, not data.
        after.insert("main.db-shm".into(), before["main.db-shm"].clone());
        assert_eq!(after, before);
        assert_eq!(killed.main().count_open_intents().unwrap(), 1);
    }

    #[test]
    fn reading_beside_a_writer_sees_what_is_committed() {
        let world = World::new();
        let state = world.main();
        state.intend_one(deletion(1));
        let reader = read(&world.dir).unwrap().unwrap();
        state.intend_one(deletion(2));
        assert_eq!(reader.count_open_intents().unwrap(), 2);
        drop(reader);
        state.intend_one(deletion(3));
        assert_eq!(state.count_open_intents().unwrap(), 3);
    }

    /// Both ways to open fail in the same way, and leave the files as they are.
    #[track_caller]
    fn refused(world: &World, message: &str, hint: &str) {
        let before = files(world);
        let ways = [
            read(&world.dir).map(|_| ()).unwrap_err(),
            world.dir.open(Partition::Main).map(|_| ()).unwrap_err(),
        ];
        for error in ways {
            assert!(error.to_string().contains(message), "{error}");
            assert!(error.hint().unwrap_or_default().contains(hint), "{error:?}");
        }
        assert_eq!(files(world), before);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_is_never_made_anew() {
        for (damage, message) in [
            ("empty", "damaged: it is empty"),
            ("noise", "damaged"),
            ("header", "damaged"),
        ] {
            let world = closed();
            let path = world.file("main.db");
            let mut bytes = fs::read(&path).unwrap();
            match damage {
                "empty" => bytes.clear(),
                "noise" => bytes = vec![0xa5; 40_000],
                _ => bytes[..16].fill(0),
            }
            durable::replace(&path, &bytes, durable::PRIVATE).unwrap();
            refused(&world, message, "memories are not");
        }
        let world = closed();
        edit(&world, "PRAGMA user_version = 0");
        refused(&world, "damaged: it has version 0", "memories are not");
        let world = closed();
        edit(&world, "DELETE FROM identity");
        refused(
            &world,
            "damaged: it does not say whose it is",
            "memories are not",
        );
    }

    #[test]
    fn damage_found_later_is_named_as_such() {
        let world = closed();
        let path = world.file("main.db");
        let mut bytes = fs::read(&path).unwrap();
        // All but the first page, which holds the header and the schema.
        bytes[4096..].fill(0xff);
        durable::replace(&path, &bytes, durable::PRIVATE).unwrap();
        let state = world
            .dir
            .open(Partition::Main)
            .and_then(|state| state.open_intents(None, 9));
        let error = state.unwrap_err();
        assert!(matches!(error, StateError::Damaged { .. }), "{error:?}");
    }

    #[test]
    fn a_foreign_or_newer_file_or_that_of_another_is_an_error() {
        let world = World::new();
        edit(&world, "CREATE TABLE users(id)");
        refused(&world, "not a state file", "move the file away");
        let world = closed();
        edit(&world, "PRAGMA user_version = 9");
        refused(
            &world,
            "has version 9, this hypnos knows 8",
            "or a newer one",
        );
        let world = World::new();
        drop(world.dir.open(Partition::Tenant("ana")).unwrap());
        fs::rename(world.file("ana.db"), world.file("main.db")).unwrap();
        refused(&world, "belongs to another partition", "move the file away");
    }

    #[test]
    fn a_log_without_its_database_is_not_read_into_a_new_one() {
        let world = World::new();
        let frames = b"frames of a file that was moved away";
        durable::replace(&world.file("main.db-wal"), frames, durable::PRIVATE).unwrap();
        let error = world.dir.open(Partition::Main).unwrap_err();
        assert!(matches!(error, StateError::StrayLog { .. }), "{error:?}");
        assert!(read(&world.dir).unwrap().is_none());
        assert_eq!(files(&world).keys().collect::<Vec<_>>(), ["main.db-wal"]);
    }

    #[test]
    fn an_older_file_is_migrated_by_the_writer_and_refused_to_the_reader() {
        let world = closed();
        let path = world.file("main.db");
        let steps = [schema::STEPS, &["CREATE TABLE added(x) STRICT; INVALID"]].concat();
        State::open_with(&path, Partition::Main, &steps).unwrap_err();
        assert_eq!(
            world.main().count_open_intents().unwrap(),
            1,
            "a step that fails changes nothing"
        );

        let steps = [schema::STEPS, &["CREATE TABLE added(x INTEGER) STRICT"]].concat();
        let conn = connect_to_read(&path).unwrap();
        assert_eq!(check(&conn, &path, &steps).unwrap(), Some(8));
        drop(conn);
        for _ in 0..2 {
            let state = State::open_with(&path, Partition::Main, &steps).unwrap();
            assert_eq!(state.count_open_intents().unwrap(), 1);
            state
                .conn
                .execute("INSERT INTO added VALUES (1)", [])
                .unwrap();
        }
        refused(&world, "has version 9", "or a newer one");
    }

    #[test]
    fn two_that_create_at_once_end_in_one_file() {
        let world = World::new();
        let open = || {
            let state = world.dir.open(Partition::Tenant("ana")).unwrap();
            let partition = Arc::clone(state.partition());
            let intent = super::super::Intent {
                partition,
                ..deletion(1)
            };
            state.intend("run-1", PassName::Ttl, &[intent]).unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(open);
            }
        });
        let state = world.dir.open(Partition::Tenant("ana")).unwrap();
        assert_eq!(state.count_open_intents().unwrap(), 8);
        drop(state);
        assert_eq!(files(&world).keys().collect::<Vec<_>>(), ["ana.db"]);
    }

    #[test]
    fn tidying_empties_the_log_unless_somebody_reads_it() {
        let world = World::new();
        let state = world.main();
        state.conn.busy_timeout(Duration::from_millis(10)).unwrap();
        let id = state.intend_one(deletion(1));
        let reader = read(&world.dir).unwrap().unwrap();
        reader
            .conn
            .execute_batch("BEGIN; SELECT count(*) FROM intents")
            .unwrap();
        state.settle(&[(id, Settled::Done)], at(1)).unwrap();
        assert!(!state.tidy().unwrap());
        drop(reader);
        assert!(state.tidy().unwrap());
        assert_eq!(fs::metadata(world.file("main.db-wal")).unwrap().len(), 0);
    }

    #[test]
    fn tidying_gives_back_much_free_space() {
        let world = World::new();
        let state = world.main();
        let mut big = deletion(1);
        big.images[0].body = vec![7; 20 * 1024 * 1024];
        let id = state.intend_one(big);
        assert!(state.tidy().unwrap());
        let size = || fs::metadata(world.file("main.db")).unwrap().len();
        let full = size();
        state.settle(&[(id, Settled::Done)], at(0)).unwrap();
        assert_eq!(state.prune(at(1)).unwrap(), 1);
        assert!(state.tidy().unwrap());
        assert!(size() < full / 10, "{} of {full}", size());
    }
}
