//! Opening somebody else's database without leaving a trace.
//!
//! A reader changes no byte of the main file and leaves no file beside it. How depends on the journal mode, which the
//! header of the file tells: outside WAL mode the file is opened read-only. In WAL mode even reading needs the `-wal`
//! and `-shm` files, so the file is opened for writing with `query_only` on; the last connection to close would
//! checkpoint what somebody else left in the `-wal` file, so that is switched off when there was one. (The one trace
//! left: a `-shm` file beside a `-wal` file that was copied without its own. `SQLite` discards it at the next open.)
//!
//! The journal mode is never changed, no checkpoint is ever asked for, and no file is ever created.
//!
//! `foreign_keys` is off on every connection, although the bundled library has it on by default. What a schema cascades
//! hypnos removes itself, explicitly and in the same transaction: an application that never enforced its foreign keys
//! has old violations on which an enforced delete fails, and enforcement scans an unindexed child column once per row.
//!
//! Double-quoted strings are off, so that a misspelt column is an error and not a text. `trusted_schema` keeps its
//! default: the schema is the application's own, its triggers and generated columns may use its functions, and hypnos
//! registers none.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::RowError;

/// How long a reader waits for a lock.
const READER_PATIENCE: Duration = Duration::from_secs(2);
/// How long a writer waits for a lock.
const WRITER_PATIENCE: Duration = Duration::from_secs(5);
/// Prepared statements kept by a connection: a few for every table that hangs on the memories.
const STATEMENTS: usize = 256;
/// The bytes with which every database begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Opens a database for reading only.
///
/// # Errors
///
/// When nothing is there, or it is no database.
pub(super) fn reader(path: &Path) -> Result<Connection, RowError> {
    let in_wal_mode = inspect(path)?;
    let conn = connect(path, in_wal_mode)?;
    if in_wal_mode && beside(path, "-wal").exists() {
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(RowError::sqlite("configure the connection"))?;
    }
    prepare(&conn, READER_PATIENCE)?;
    conn.pragma_update(None, "query_only", true)
        .map_err(RowError::sqlite("configure the connection"))?;
    touch(&conn)?;
    Ok(conn)
}

/// Opens a database for writing.
///
/// # Errors
///
/// When nothing is there, or it is no database.
pub(super) fn writer(path: &Path) -> Result<Connection, RowError> {
    inspect(path)?;
    let conn = connect(path, true)?;
    prepare(&conn, WRITER_PATIENCE)?;
    touch(&conn)?;
    conn.pragma_update(None, "synchronous", "FULL")
        .map_err(RowError::sqlite("configure the connection"))?;
    Ok(conn)
}

/// Looks at the file before `SQLite` does, which would call a missing file unable to open and an empty one a
/// database without tables. Returns whether it is in WAL mode.
fn inspect(path: &Path) -> Result<bool, RowError> {
    let doing = || format!("open {}", path.display());
    let missing = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    };
    let path_buf = || path.to_path_buf();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if missing(&error) => return Err(RowError::Missing { path: path_buf() }),
        Err(source) => return Err(RowError::io(doing())(source)),
    };
    if !metadata.is_file() {
        return Err(RowError::NotAFile { path: path_buf() });
    }
    if metadata.len() == 0 {
        return Err(RowError::Empty { path: path_buf() });
    }
    let mut header = Vec::with_capacity(100);
    File::open(path)
        .and_then(|file| file.take(100).read_to_end(&mut header))
        .map_err(RowError::io(doing()))?;
    match header.get(..20) {
        Some(start) if start.starts_with(MAGIC) => Ok(start[18..] == [2, 2]),
        _ => Err(RowError::NotADatabase { path: path_buf() }),
    }
}

fn connect(path: &Path, writable: bool) -> Result<Connection, RowError> {
    let access = if writable {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_PRIVATE_CACHE;
    Connection::open_with_flags(path, flags).map_err(RowError::sqlite("open the database"))
}

fn prepare(conn: &Connection, patience: Duration) -> Result<(), RowError> {
    let configure = || -> rusqlite::Result<()> {
        conn.busy_timeout(patience)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(())
    };
    configure().map_err(RowError::sqlite("configure the connection"))
}

/// Reads the schema once: a locked, damaged or encrypted file is found here, not in the middle of a pass.
fn touch(conn: &Connection) -> Result<(), RowError> {
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(RowError::sqlite("read the schema"))
}

/// A path with something after its file name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tempfile::TempDir;

    use super::*;
    use crate::store::rows::RowErrorKind;

    const SCHEMA: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
        INSERT INTO t(b) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500)
        SELECT hex(zeroblob(50)) FROM n;";

    fn folder(mode: &str) -> (TempDir, PathBuf, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.db");
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update(None, "journal_mode", mode).unwrap();
        conn.execute_batch(SCHEMA).unwrap();
        (dir, path, conn)
    }

    /// Every file beside the database with its bytes; of the `-shm` file only that it is there, since its bytes are
    /// locks and read marks.
    fn listing(dir: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let bytes = if name.ends_with("-shm") {
                Vec::new()
            } else {
                fs::read(entry.path()).unwrap()
            };
            (name, bytes)
        });
        entries.collect()
    }

    fn read_all(path: &Path) -> i64 {
        let conn = reader(path).unwrap();
        conn.query_row("SELECT count(*) FROM t WHERE b <> ''", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_reader_leaves_a_database_in_delete_mode_as_it_was() {
        let (dir, path, conn) = folder("DELETE");
        drop(conn);
        let before = listing(dir.path());
        assert_eq!(read_all(&path), 500);
        assert_eq!(listing(dir.path()), before);
        assert_eq!(before.len(), 1);
    }

    #[test]
    fn a_reader_leaves_a_wal_database_without_a_wal_file_as_it_was() {
        let (dir, path, conn) = folder("WAL");
        drop(conn);
        let before = listing(dir.path());
        assert_eq!(
            before.len(),
            1,
            "the last connection should have checkpointed"
        );
        assert_eq!(read_all(&path), 500);
        assert_eq!(listing(dir.path()), before);
    }

    #[test]
    fn a_reader_leaves_frames_in_the_wal_of_a_live_application() {
        let (dir, path, conn) = folder("WAL");
        let before = listing(dir.path());
        assert_eq!(before.len(), 3);
        assert_eq!(read_all(&path), 500);
        assert_eq!(listing(dir.path()), before);
        drop(conn);
    }

    #[test]
    fn a_reader_leaves_frames_in_the_wal_of_a_dead_application() {
        let (live, _, conn) = folder("WAL");
        let dead = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(live.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dead.path().join(entry.file_name())).unwrap();
        }
        drop(conn);
        let before = listing(dead.path());
        assert_eq!(before.len(), 3);
        assert_eq!(read_all(&dead.path().join("memory.db")), 500);
        assert_eq!(listing(dead.path()), before);
    }

    #[test]
    fn a_reader_cannot_write() {
        for mode in ["DELETE", "WAL"] {
            let (_dir, path, conn) = folder(mode);
            let reader = reader(&path).unwrap();
            let error = reader.execute("DELETE FROM t", []).unwrap_err();
            assert_eq!(
                error.sqlite_error_code(),
                Some(rusqlite::ErrorCode::ReadOnly)
            );
            drop(conn);
        }
    }

    #[test]
    fn foreign_keys_and_double_quoted_strings_are_off() {
        let (_dir, path, _conn) = folder("WAL");
        for conn in [reader(&path).unwrap(), writer(&path).unwrap()] {
            let on: bool = conn
                .pragma_query_value(None, "foreign_keys", |row| row.get(0))
                .unwrap();
            assert!(!on);
            assert!(conn.prepare("SELECT \"misspelt\" FROM t").is_err());
        }
    }

    #[test]
    fn a_writer_syncs_every_commit() {
        let (_dir, path, _conn) = folder("WAL");
        let level: i64 = writer(&path)
            .unwrap()
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap();
        assert_eq!(level, 2);
    }

    #[test]
    fn what_is_no_database_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            io::Write::write_all(&mut file, bytes).unwrap();
            path
        };
        let mut damaged = MAGIC.to_vec();
        damaged.extend([0x10, 0x00, 1, 1, 0, 64, 32, 32]);
        damaged.resize(8192, 0xab);
        let file = write("plain", b"x");
        for (path, kind, message) in [
            (
                dir.path().join("none.db"),
                RowErrorKind::Missing,
                "no such file",
            ),
            (file.join("below"), RowErrorKind::Missing, "no such file"),
            (
                dir.path().to_path_buf(),
                RowErrorKind::Missing,
                "not a regular file",
            ),
            (
                write("empty.db", b""),
                RowErrorKind::Missing,
                "empty: not a database",
            ),
            (
                write("short.db", b"SQLite format 3"),
                RowErrorKind::Corrupt,
                "not a SQLite database",
            ),
            (
                write("cipher.db", &[0x5a; 4096]),
                RowErrorKind::Corrupt,
                "not a SQLite database",
            ),
            (
                write("damaged.db", &damaged),
                RowErrorKind::Corrupt,
                "read the schema",
            ),
        ] {
            for error in [reader(&path).unwrap_err(), writer(&path).unwrap_err()] {
                assert_eq!(error.kind(), kind, "{error:?}");
                assert!(error.to_string().contains(message), "{error}");
            }
            assert!(!dir.path().join("none.db").exists());
        }
    }

    #[test]
    fn a_locked_database_is_busy() {
        let (_dir, path, conn) = folder("DELETE");
        conn.execute_batch("BEGIN EXCLUSIVE").unwrap();
        assert_eq!(reader(&path).unwrap_err().kind(), RowErrorKind::Busy);
    }
}
