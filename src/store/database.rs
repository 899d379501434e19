//! Whole copies of a SQLite database: made, opened with suspicion, and compared with the original.
//!
//! Mechanics: VACUUM INTO writes a copy of one state of the database beside a live writer, keeps every rowid, and holds
//! no lock that a writer in WAL mode would wait for. It leaves nothing of what was deleted, as a copy of the pages would.
//! It follows links and makes its file for everybody, so the file is made first. Where the application has given a table
//! or an index a function or collation of its own, nobody else can write those anew: then the pages are copied as they are,
//! and what had been deleted is said to be still in them. A copy is opened as a file that nobody writes: no lock, no log, nothing beside it.
//!
//! Policy: a copy may have been killed half-way, in which case it opens, has no tables and passes every check of SQLite:
//! what counts is what was counted in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::anew::is_of_the_application;
use super::copies::{CopiedFile, CopyError, hex};
use super::sqlite::{self, Access};
use super::{swap, vec0};
use crate::clock::Timestamp;
use crate::durable;
use crate::failpoint::{Failpoint, hit};
use crate::panics::joined;
use crate::stop::Stop;

/// Steps of the virtual machine between two looks at the stop flag.
const STEPS_PER_LOOK: i32 = 10_000;
/// Pages that are copied between two looks at the stop flag.
const PAGES_PER_LOOK: i32 = 1_000;
/// A file that was written this shortly before it was looked at may be written once more without another time of
/// change: its stamp proves nothing. In nanoseconds.
const RACY: i64 = 2_000_000_000;

/// Copies one state of the database at `source` to the new file `target`, for its owner only. It is not on the disk yet:
/// [`settle`] is what makes it a copy. `fixed` is told when that state stands, so that whatever is read from then on is
/// read later than it.
///
/// # Errors
///
/// When the database cannot be read, or the copy cannot be written; then no copy is left.
pub fn copy(source: &Path, target: &Path, stop: &Stop, fixed: &Fixed) -> Result<Made, CopyError> {
    let made = match into_new(target, || vacuum_into(source, target, stop, fixed)) {
        Err(CopyError::Sqlite { source: error, .. }) if is_of_the_application(&error) => {
            into_new(target, || copy_pages(source, target, stop, fixed))?;
            Made::Pages
        }
        made => {
            made?;
            Made::Anew
        }
    };
    Ok(made)
}

/// How a copy was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Every row written anew: of what was deleted nothing is left.
    Anew,
    /// Page by page: what was deleted can still be in it.
    Pages,
}

/// Makes a new file for `write`, which goes again when that fails.
fn into_new(target: &Path, write: impl FnOnce() -> Result<(), CopyError>) -> Result<(), CopyError> {
    durable::create_new(target, durable::PRIVATE)
        .map_err(CopyError::io(format!("create {}", target.display())))?;
    let written = write();
    if written.is_err() {
        durable::remove_if_there(target)
            .map_err(CopyError::io(format!("remove {}", target.display())))?;
    }
    written
}

/// Who is told that the state which is copied stands; nobody by default.
#[derive(Debug, Clone, Default)]
pub struct Fixed(Option<Sender<()>>);

impl Fixed {
    /// Tells the other end of a channel.
    #[must_use]
    pub fn telling(sender: Sender<()>) -> Self {
        Self(Some(sender))
    }

    /// Tells it, if it has not.
    fn tell(&mut self) {
        if let Some(sender) = self.0.take() {
            // Nobody may be there any more to hear it.
            let _ = sender.send(());
        }
    }
}

fn vacuum_into(source: &Path, target: &Path, stop: &Stop, fixed: &Fixed) -> Result<(), CopyError> {
    let mut conn = sqlite::open(source, Access::Read)?;
    let doing = format!("copy {} to {}", source.display(), target.display());
    let name = target
        .to_str()
        .ok_or_else(|| CopyError::Damaged(format!("{}: not UTF-8", target.display())))?;
    let run = |conn: &mut Connection| {
        let (asked, mut telling) = (stop.clone(), fixed.clone());
        let look = move || {
            // So many steps are taken by copying a table, and by nothing before the state was fixed.
            telling.tell();
            asked.is_requested()
        };
        conn.progress_handler(STEPS_PER_LOOK, Some(look))?;
        // What an application once wrote with text in double quotes has to be read again.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, true)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, true)?;
        conn.pragma_update(None, "query_only", false)?;
        unsynced(conn, |conn| conn.execute("VACUUM INTO ?1", [name]))
    };
    match run(&mut conn) {
        Ok(_) => {
            fixed.clone().tell();
            Ok(())
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Err(CopyError::Interrupted)
        }
        Err(source) => Err(failed(doing)(source)),
    }
}

/// Copies the pages of one state, a few at a time; a transaction keeps that state together.
fn copy_pages(source: &Path, target: &Path, stop: &Stop, fixed: &Fixed) -> Result<(), CopyError> {
    let conn = sqlite::open(source, Access::Read)?;
    let doing = || {
        failed(format!(
            "copy the pages of {} to {}",
            source.display(),
            target.display()
        ))
    };
    let state = conn.unchecked_transaction().map_err(doing())?;
    schema(&state)?;
    fixed.clone().tell();
    let mut copy =
        Connection::open_with_flags(target, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(doing())?;
    copy.pragma_update(None, "synchronous", "OFF")
        .map_err(doing())?;
    let pages = Backup::new(&state, &mut copy).map_err(doing())?;
    loop {
        if stop.is_requested() {
            return Err(CopyError::Interrupted);
        }
        match pages.step(PAGES_PER_LOOK).map_err(doing())? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => return Err(CopyError::Damaged("somebody writes to the copy".into())),
        }
    }
}

/// Runs `write` without a sync of what it writes, which is of no worth before the whole of it is synced. Closing the
/// connection may fold in what another process has left in the log: that is synced again, or not done.
fn unsynced<T>(
    conn: &Connection,
    write: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let no_fold = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    let was = conn.db_config(no_fold)?;
    conn.set_db_config(no_fold, true)?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    let written = write(conn);
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.set_db_config(no_fold, was)?;
    written
}

/// Makes a new copy one that counts: on the disk, hashed, and read by `read`. All three at once, for each goes through
/// the whole file and none waits for what another finds.
///
/// # Errors
///
/// When one of the three fails.
pub fn settle<T>(
    folder: &Path,
    name: &str,
    made: Made,
    read: impl FnOnce(Connection) -> Result<T, CopyError>,
) -> Result<(CopiedFile, T), CopyError> {
    let path = folder.join(name);
    thread::scope(|scope| {
        let synced = scope.spawn(|| sync(&path));
        let hashed = scope.spawn(|| CopiedFile::of(folder, name));
        let read = open_copy(&path).and_then(read);
        joined(synced)?;
        let file = joined(hashed).map_err(CopyError::io(format!("hash {}", path.display())))?;
        let keeps_deleted = made == Made::Pages;
        let file = CopiedFile {
            keeps_deleted,
            ..file
        };
        Ok((file, read?))
    })
}

fn sync(path: &Path) -> Result<(), CopyError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(CopyError::io(format!("sync {}", path.display())))?;
    Ok(hit(Failpoint::CopySynced)?)
}

/// Opens a copy: nothing in its schema is trusted, and no file beside it is looked at or made.
///
/// # Errors
///
/// When it is no database.
pub fn open_copy(path: &Path) -> Result<Connection, CopyError> {
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

/// Whether a live database holds exactly what a copy of it holds: the same schema, and the same rows in the same order.
///
/// # Errors
///
/// When one of the two cannot be read to the end, or a stop was requested.
pub fn same(live: &Path, copy: &Path, stop: &Stop) -> Result<bool, CopyError> {
    let live = sqlite::open(live, Access::Read)?;
    let copy = open_copy(copy)?;
    let transaction = live
        .unchecked_transaction()
        .map_err(failed("begin to read"))?;
    if schema(&live)? != schema(&copy)? || tables(&live)? != tables(&copy)? {
        return Ok(false);
    }
    let names = table_names(&live).map_err(failed("list the tables"))?;
    for name in names {
        if !same_rows(&live, &copy, &name, stop)? {
            return Ok(false);
        }
    }
    drop(transaction);
    Ok(true)
}

fn same_rows(
    live: &Connection,
    copy: &Connection,
    table: &str,
    stop: &Stop,
) -> Result<bool, CopyError> {
    let sql = format!("SELECT * FROM {}", quoted(table));
    let doing = || failed("compare the tables");
    let (mut ours, mut theirs) = match (live.prepare(&sql), copy.prepare(&sql)) {
        // Nobody but the application can tell.
        (Err(error), _) | (_, Err(error)) if is_of_the_application(&error) => return Ok(false),
        (ours, theirs) => (ours.map_err(doing())?, theirs.map_err(doing())?),
    };
    let columns = ours.column_count();
    let (mut ours, mut theirs) = (
        ours.query([]).map_err(doing())?,
        theirs.query([]).map_err(doing())?,
    );
    loop {
        if stop.is_requested() {
            return Err(CopyError::Interrupted);
        }
        match (
            ours.next().map_err(doing())?,
            theirs.next().map_err(doing())?,
        ) {
            (None, None) => return Ok(true),
            (Some(ours), Some(theirs)) => {
                for column in 0..columns {
                    let (a, b) = (ours.get_ref(column), theirs.get_ref(column));
                    if a.map_err(doing())? != b.map_err(doing())? {
                        return Ok(false);
                    }
                }
            }
            _ => return Ok(false),
        }
    }
}

/// Puts a copy into a new place beside the live database, synced; it is in WAL mode there if the original was.
///
/// # Errors
///
/// When it cannot be put there; then nothing is left.
pub fn stage(copy: &Path, staged: &Path, is_wal: bool) -> Result<(), CopyError> {
    swap::discard(staged)?;
    let put = put(copy, staged, is_wal);
    if put.is_err() {
        swap::discard(staged)?;
    }
    put
}

fn put(copy: &Path, staged: &Path, is_wal: bool) -> Result<(), CopyError> {
    let doing = || CopyError::io(format!("write {}", staged.display()));
    let mut to = durable::create_new(staged, durable::PRIVATE).map_err(doing())?;
    let mut from = File::open(copy).map_err(doing())?;
    io::copy(&mut from, &mut to).map_err(doing())?;
    to.sync_all().map_err(doing())?;
    drop(to);
    if is_wal {
        set_wal(staged)?;
    }
    durable::sync_dir(durable::folder_of(staged)).map_err(doing())
}

/// Writes a database that nobody else knows of anew: what was deleted from it is in no page any more. Every rowid stays.
/// One that cannot be written anew stays as it is: what was deleted from it has to have been overwritten.
///
/// # Errors
///
/// When it cannot be written; then it is as it was.
pub fn compact(path: &Path, stop: &Stop) -> Result<(), CopyError> {
    let is_wal = journal_mode(path)? == "wal";
    let anew = sqlite::beside(path, swap::ANEW);
    durable::remove_if_there(&anew).map_err(CopyError::io(format!("remove {}", anew.display())))?;
    if copy(path, &anew, stop, &Fixed::default())? == Made::Pages {
        let removed = durable::remove_if_there(&anew);
        return removed.map_err(CopyError::io(format!("remove {}", anew.display())));
    }
    sync(&anew)?;
    let doing = || CopyError::io(format!("replace {}", path.display()));
    for log in ["-wal", "-shm"] {
        durable::remove_if_there(&sqlite::beside(path, log)).map_err(doing())?;
    }
    std::fs::rename(&anew, path)
        .and_then(|()| durable::sync_dir(durable::folder_of(path)))
        .map_err(doing())?;
    if is_wal { set_wal(path) } else { Ok(()) }
}

fn set_wal(path: &Path) -> Result<(), CopyError> {
    let conn = sqlite::open(path, Access::Write)?;
    conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
        .map_err(failed("set the journal mode of the new file"))
}

/// What tells without opening it that nobody has written to a database since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    changed_ns: i64,
    /// Size of the write-ahead log, and when it was written; zero when it is empty or there is none.
    log_bytes: u64,
    log_changed_ns: i64,
}

impl Stamp {
    /// Looks at a database and its log. Neither is opened, see [`crate::store::sqlite`].
    ///
    /// # Errors
    ///
    /// When there is no database.
    pub fn of(path: &Path) -> Result<Self, CopyError> {
        let doing = || CopyError::io(format!("look at {}", path.display()));
        let file = path.metadata().map_err(doing())?;
        let log = match sqlite::beside(path, "-wal").metadata() {
            Ok(log) => Some(log).filter(|log| log.len() > 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(doing()(error)),
        };
        let time = |file: &std::fs::Metadata| {
            file.mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(file.mtime_nsec())
        };
        Ok(Self {
            inode: file.ino(),
            bytes: file.len(),
            changed_ns: time(&file),
            log_bytes: log.as_ref().map_or(0, std::fs::Metadata::len),
            log_changed_ns: log.as_ref().map_or(0, time),
        })
    }

    /// Whether what was stamped is sure to be what `now` is a stamp of, when it was stamped at `at`.
    #[must_use]
    pub fn proves(&self, now: &Self, at: Timestamp) -> bool {
        let latest = self.changed_ns.max(self.log_changed_ns);
        let at = i64::try_from(at.as_nanosecond()).unwrap_or(i64::MIN);
        self == now && latest.saturating_add(RACY) < at
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "PRAGMA user_version = 7; CREATE TABLE t(a, b TEXT); CREATE TABLE k(x TEXT PRIMARY KEY) WITHOUT ROWID;
         INSERT INTO t VALUES (1, 'one'), (2.5, NULL), (x'00', 'three'); INSERT INTO k VALUES ('b'), ('a');
         CREATE VIRTUAL TABLE words USING fts5(b); INSERT INTO words VALUES ('one two')";

    fn database(folder: &Path, mode: &str) -> (PathBuf, Connection) {
        let path = folder.join("100% live?#.db");
        let owner = Connection::open(&path).unwrap();
        owner.pragma_update(None, "journal_mode", mode).unwrap();
        owner.execute_batch(SCHEMA).unwrap();
        (path, owner)
    }

    #[test]
    fn a_copy_holds_what_is_committed_and_is_found_to_be_the_same() {
        for mode in ["wal", "delete"] {
            let dir = tempfile::tempdir().unwrap();
            let (live, owner) = database(dir.path(), mode);
            let target = dir.path().join("copy?.db");
            copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
            let counts = tables(&open_copy(&target).unwrap()).unwrap();
            assert_eq!((counts["t"], counts["k"]), (3, 2));
            assert_eq!(damage(&open_copy(&target).unwrap()).unwrap(), None);
            let is_same = || same(&live, &target, &Stop::default()).unwrap();
            assert!(is_same());
            for (change, back) in [
                ("INSERT INTO t VALUES (4, 'x')", "DELETE FROM t WHERE a = 4"),
                (
                    "UPDATE t SET a = '1' WHERE a = 1",
                    "UPDATE t SET a = 1 WHERE a = '1'",
                ),
                (
                    "UPDATE t SET b = 'ONE' WHERE a = 1",
                    "UPDATE t SET b = 'one' WHERE a = 1",
                ),
                ("INSERT INTO k VALUES ('c')", "DELETE FROM k WHERE x = 'c'"),
                ("PRAGMA user_version = 8", "PRAGMA user_version = 7"),
                ("CREATE VIEW v AS SELECT 1", "DROP VIEW v"),
            ] {
                owner.execute_batch(change).unwrap();
                assert!(!is_same(), "{mode}: {change}");
                owner.execute_batch(back).unwrap();
                assert!(is_same(), "{mode}: {back}");
            }
            owner.execute_batch("UPDATE words SET b = 'three'").unwrap();
            assert!(!is_same(), "{mode}: what a text index holds counts");
        }
    }

    /// What is written between two looks of the copying is not in the copy, and the copying tells that its state stands
    /// before it is done.
    #[test]
    fn a_copy_tells_when_its_state_stands() {
        const MANY: &str = "CREATE TABLE many(x); INSERT INTO many
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) SELECT x FROM n";
        for few_or_many in ["", MANY] {
            let dir = tempfile::tempdir().unwrap();
            let (live, owner) = database(dir.path(), "wal");
            owner.execute_batch(few_or_many).unwrap();
            let target = dir.path().join("copy.db");
            let (sender, told) = std::sync::mpsc::channel();
            let writer = thread::spawn(move || {
                told.recv().unwrap();
                owner
                    .execute_batch("INSERT INTO t VALUES (4, 'x')")
                    .unwrap();
            });
            let fixed = Fixed::telling(sender);
            copy(&live, &target, &Stop::default(), &fixed).unwrap();
            drop(fixed);
            writer.join().unwrap();
            assert_eq!(tables(&open_copy(&target).unwrap()).unwrap()["t"], 3);
            assert_eq!(tables(&Connection::open(&live).unwrap()).unwrap()["t"], 4);
        }
    }

    /// What an application can give its tables that only it can write anew: `binary` and `upper` stand for its own.
    const OWN: [&str; 5] = [
        "CREATE TABLE own(x TEXT); CREATE INDEX own_x ON own(x COLLATE binary)",
        "CREATE TABLE own(x TEXT COLLATE binary PRIMARY KEY)",
        "CREATE TABLE own(x TEXT); CREATE INDEX own_x ON own(upper(x))",
        "CREATE TABLE own(x TEXT CHECK (upper(x) = x))",
        "CREATE TABLE own(x TEXT, y TEXT GENERATED ALWAYS AS (upper(x)) VIRTUAL)",
    ];

    /// A database with such a table, whose functions are not known to anybody who opens it from now on.
    fn database_of_its_own(folder: &Path, mode: &str, own: &str) -> PathBuf {
        let (path, owner) = database(folder, mode);
        owner.execute_batch(own).unwrap();
        owner
            .execute_batch(
                "INSERT INTO own(x) VALUES ('A'), ('B'); PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(replace(sql, 'binary', 'mine'), 'upper', 'mine')",
            )
            .unwrap();
        path
    }

    #[test]
    fn what_only_the_application_can_write_anew_is_copied_page_by_page() {
        let modes = ["wal", "delete"].into_iter();
        for (mode, own) in modes.flat_map(|mode| OWN.map(|own| (mode, own))) {
            let dir = tempfile::tempdir().unwrap();
            let live = database_of_its_own(dir.path(), mode, own);
            let target = dir.path().join("copy.db");
            let made = copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
            assert_eq!(made, Made::Pages, "{mode}: {own}");
            let read = |copy: Connection| Ok((tables(&copy)?, damage(&copy)?));
            let (file, (counts, damage)) = settle(dir.path(), "copy.db", made, read).unwrap();
            assert_eq!((counts["t"], counts["own"]), (3, 2), "{own}");
            assert_eq!((damage, file.keeps_deleted), (None, true), "{own}");
            assert!(!sqlite::beside(&target, "-wal").exists(), "{mode}");
            // Whether it is the same cannot always be told, and is never an error.
            same(&live, &target, &Stop::default()).unwrap();
            let owner = Connection::open(&live).unwrap();
            owner.execute_batch("DELETE FROM t").unwrap();
            assert!(!same(&live, &target, &Stop::default()).unwrap(), "{own}");
        }
    }

    #[test]
    fn a_table_that_can_be_checked_is_checked_beside_one_that_cannot() {
        let dir = tempfile::tempdir().unwrap();
        let live = database_of_its_own(dir.path(), "delete", OWN[0]);
        let target = dir.path().join("copy.db");
        copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
        let root: i64 = open_copy(&target)
            .unwrap()
            .query_row(
                "SELECT rootpage FROM sqlite_schema WHERE name = 't'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        let mut bytes = std::fs::read(&target).unwrap();
        // The number of cells of the page.
        bytes[usize::try_from(root - 1).unwrap() * 4096 + 3] = 0xff;
        durable::replace(&target, &bytes, durable::PRIVATE).unwrap();
        assert!(damage(&open_copy(&target).unwrap()).unwrap().is_some());
    }

    #[test]
    fn a_copy_takes_nobody_elses_place_and_leaves_none_when_it_fails() {
        let dir = tempfile::tempdir().unwrap();
        let (live, _owner) = database(dir.path(), "wal");
        let target = dir.path().join("copy.db");
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &target).unwrap();
        copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap_err();
        assert!(target.is_symlink());
        let target = dir.path().join("other.db");
        copy(
            &dir.path().join("none.db"),
            &target,
            &Stop::default(),
            &Fixed::default(),
        )
        .unwrap_err();
        assert!(!target.exists());
    }

    #[test]
    fn a_copy_that_was_cut_off_opens_and_has_no_tables() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut.db");
        durable::write_new(&path, b"", durable::PRIVATE).unwrap();
        let conn = open_copy(&path).unwrap();
        assert_eq!(damage(&conn).unwrap(), None, "SQLite finds nothing wrong");
        assert!(tables(&conn).unwrap().is_empty());
    }

    #[test]
    fn a_stamp_proves_nothing_about_a_file_that_was_just_written() {
        let dir = tempfile::tempdir().unwrap();
        let (path, owner) = database(dir.path(), "wal");
        let stamp = Stamp::of(&path).unwrap();
        let at = |seconds: i64| {
            let latest = stamp.changed_ns.max(stamp.log_changed_ns);
            Timestamp::from_nanosecond((latest + seconds * 1_000_000_000).into()).unwrap()
        };
        assert!(stamp.log_bytes > 0);
        assert!(!stamp.proves(&stamp, at(1)));
        assert!(stamp.proves(&stamp, at(3)));
        owner.execute_batch("INSERT INTO t VALUES (9, 9)").unwrap();
        let later = Stamp::of(&path).unwrap();
        assert!(!stamp.proves(&later, at(3)));
        drop(owner);
        assert_eq!(Stamp::of(&path).unwrap().log_bytes, 0);
    }

    #[test]
    fn a_staged_file_is_in_the_mode_of_the_original() {
        let dir = tempfile::tempdir().unwrap();
        let (live, _owner) = database(dir.path(), "wal");
        let target = dir.path().join("copy.db");
        copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
        for (is_wal, mode) in [(true, "wal"), (false, "delete")] {
            let staged = dir.path().join("staged.db");
            stage(&target, &staged, is_wal).unwrap();
            assert_eq!(journal_mode(&staged).unwrap(), mode);
            assert!(same(&staged, &target, &Stop::default()).unwrap());
            assert!(!sqlite::beside(&staged, "-wal").exists());
        }
    }

    #[test]
    fn what_is_written_anew_keeps_every_rowid_and_nothing_that_was_deleted() {
        for mode in ["wal", "delete"] {
            let dir = tempfile::tempdir().unwrap();
            let (live, owner) = database(dir.path(), mode);
            owner
                .execute_batch(
                    "INSERT INTO t VALUES (4, 'the marker'); INSERT INTO t VALUES (5, 'five');
                     DELETE FROM t WHERE a IN (1, 4)",
                )
                .unwrap();
            drop(owner);
            let holds = || {
                let bytes = std::fs::read(&live).unwrap();
                bytes.windows(10).any(|window| window == b"the marker")
            };
            assert!(holds(), "there is something to get rid of");
            compact(&live, &Stop::default()).unwrap();
            assert!(!holds());
            let rowids: String = Connection::open(&live)
                .unwrap()
                .query_row("SELECT group_concat(rowid) FROM t", [], |row| row.get(0))
                .unwrap();
            assert_eq!(rowids, "2,3,5");
            assert_eq!(journal_mode(&live).unwrap(), mode);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}
