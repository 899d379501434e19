//! Opening a database that belongs to someone else.
//!
//! Mechanics: the file is never created and its journal mode never changed. A reader of a database in WAL mode needs
//! write access to the files beside it (the shared memory of the readers), so it is opened for writing with
//! `query_only` on; any other database is opened read-only.
//!
//! Policy: a reader leaves the main file as it was, byte for byte, and no file that was not there. Where a WAL already
//! lies beside the database, folding it in is left to its owner.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// How long to wait for a lock that someone else holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(4);

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only: leaves no trace.
    Read,
    /// Reading and writing.
    Write,
}

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is missing, or is no file.
    #[error("find the database file")]
    Io(#[from] io::Error),
    /// Writing was asked for, and the file or its file system allows only reading.
    #[error("the database is read-only")]
    ReadOnly,
    /// SQLite refuses it.
    #[error("open the database")]
    Sqlite(#[from] rusqlite::Error),
}

/// Opens an existing database.
///
/// # Errors
///
/// When there is none, or it cannot be opened in that way.
pub fn open(path: &Path, access: Access) -> Result<Connection, OpenError> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    match access {
        Access::Read => open_for_reading(path),
        Access::Write => {
            let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            if connection.is_readonly("main")? {
                return Err(OpenError::ReadOnly);
            }
            Ok(connection)
        }
    }
}

/// Whether the database is in WAL mode is asked of SQLite and never read from the file: closing a file descriptor of
/// one's own drops every lock that other connections of the process hold on that file. A rollback journal answers it
/// without a look, and is not to be rolled back by a reader.
fn open_for_reading(path: &Path) -> Result<Connection, OpenError> {
    let had_wal = beside(path, "-wal").exists();
    if !beside(path, "-journal").exists() {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "query_only", true)?;
        if had_wal {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        }
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode == "wal" {
            return Ok(connection);
        }
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn connect(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
    Ok(connection)
}

/// The path of a file that SQLite keeps beside the database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn database(path: &Path, journal_mode: &str) -> Connection {
        let owner = Connection::open(path).unwrap();
        owner
            .pragma_update(None, "journal_mode", journal_mode)
            .unwrap();
        owner
            .execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
            .unwrap();
        owner
    }

    /// Every file of the folder but the shared memory, whose bytes belong to whoever reads.
    fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let is_shared_memory = path.to_string_lossy().ends_with("-shm");
                let bytes = std::fs::read(&path).unwrap();
                (path, if is_shared_memory { vec![] } else { bytes })
            })
            .collect()
    }

    fn read(path: &Path) -> i64 {
        let reader = open(path, Access::Read).unwrap();
        let refused = reader.execute("INSERT INTO t VALUES (3)", []);
        assert!(refused.is_err(), "a reader must not write");
        reader
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_reader_leaves_every_file_as_it_was() {
        for journal_mode in ["delete", "truncate", "persist", "wal"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("v.db");
            drop(database(&path, journal_mode));
            let before = files(folder.path());
            assert_eq!(read(&path), 2);
            assert_eq!(files(folder.path()), before, "{journal_mode}");
        }
    }

    #[test]
    fn a_reader_beside_a_live_writer_leaves_the_wal_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        let owner = database(&path, "wal");
        let before = files(folder.path());
        assert_eq!(before.len(), 3);
        assert_eq!(read(&path), 2);
        assert_eq!(files(folder.path()), before);
        drop(owner);
    }

    #[test]
    fn a_reader_does_not_fold_in_the_wal_of_a_dead_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        let owner = database(&path, "wal");
        owner
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .unwrap();
        drop(owner);
        let before = files(folder.path());
        assert!(before[&beside(&path, "-wal")].len() > 32);
        assert_eq!(read(&path), 2);
        assert_eq!(files(folder.path()), before);
    }

    #[test]
    fn a_reader_does_not_roll_back_the_journal_of_a_dead_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        let owner = database(&path, "delete");
        owner
            .execute_batch(
                "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE;
                 INSERT INTO t SELECT zeroblob(5000) FROM t, t, t, t, t, t",
            )
            .unwrap();
        let dead = folder.path().join("dead.db");
        std::fs::copy(&path, &dead).unwrap();
        std::fs::copy(beside(&path, "-journal"), beside(&dead, "-journal")).unwrap();
        drop(owner);
        let before = files(folder.path());
        let opened = open(&dead, Access::Read);
        let read = opened.map(|reader| reader.query_row("SELECT 1 FROM t", [], |_| Ok(())));
        assert!(matches!(read, Ok(Err(_)) | Err(_)), "{read:?}");
        assert_eq!(files(folder.path()), before);
    }

    #[test]
    fn nothing_is_created() {
        let folder = tempfile::tempdir().unwrap();
        for access in [Access::Read, Access::Write] {
            let missing = folder.path().join("missing.db");
            let error = open(&missing, access).unwrap_err();
            assert!(
                matches!(&error, OpenError::Io(e) if e.kind() == io::ErrorKind::NotFound),
                "{error:?}"
            );
            assert!(!missing.exists());
            assert!(open(folder.path(), access).is_err(), "a folder");
        }
    }

    #[test]
    fn opening_keeps_the_locks_of_the_other_connections() {
        for access in [Access::Read, Access::Write] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("v.db");
            let owner = database(&path, "delete");
            owner.execute_batch("BEGIN IMMEDIATE").unwrap();
            let before = locks(&path);
            assert!(before > 0);
            drop(open(&path, access).unwrap());
            assert_eq!(locks(&path), before, "{access:?}");
        }
    }

    /// The number of locks that the kernel knows on a file.
    fn locks(path: &Path) -> usize {
        use std::os::unix::fs::MetadataExt;
        let inode = format!(":{} ", path.metadata().unwrap().ino());
        let table = std::fs::read_to_string("/proc/locks").unwrap();
        table.lines().filter(|line| line.contains(&inode)).count()
    }

    #[test]
    fn double_quotes_never_make_a_string() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        drop(database(&path, "delete"));
        let reader = open(&path, Access::Read).unwrap();
        assert!(reader.prepare("SELECT \"y\" FROM t").is_err());
    }
}
