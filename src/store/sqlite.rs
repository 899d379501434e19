//! Opening somebody else's database without leaving a trace.
//!
//! A reader changes no byte of the main file and leaves no file beside it. How depends on the journal mode: outside WAL
//! mode the file is opened read-only. In WAL mode even reading needs the `-wal` and `-shm` files, so the file is opened
//! for writing with `query_only` on; the last connection to close would checkpoint what somebody else left in the
//! `-wal` file, so that is switched off when there was one. (The one trace left: a `-shm` file beside a `-wal` file that
//! was copied without its own. `SQLite` discards it at the next open.)
//!
//! The journal mode is asked of `SQLite` and never read from the file: closing a descriptor of one's own drops every
//! POSIX lock that other connections of this process hold on that file.
//!
//! The journal mode is never changed, no file is ever created, and a rollback journal that a dead writer left is not
//! rolled back by a reader.
//!
//! `foreign_keys` is off on every connection, although the bundled library has it on by default. What a schema cascades
//! hypnos removes itself, explicitly and in the same transaction: an application that never enforced its foreign keys
//! has old violations on which an enforced delete fails, and enforcement scans an unindexed child column once per row.
//!
//! Double-quoted strings are off, so that a misspelt column is an error and not a text. `trusted_schema` keeps its
//! default: the schema is the application's own, its triggers and generated columns may use its functions; of these hypnos
//! has only those of sqlite-vec. Plans of prepared statements do not depend on what is bound to them (QPSG): they would
//! be made anew for every row.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::vec0;
use crate::failpoint;

/// Page cache of a writer, in KiB: keys of points are scattered over their index, which is read again and again else.
const WRITER_CACHE_KIB: i64 = 32 * 1024;
/// How long a reader waits for a lock.
const READER_PATIENCE: Duration = Duration::from_secs(2);
/// How long a writer waits for a lock: a run that is asked to stop must end within five seconds.
const WRITER_PATIENCE: Duration = Duration::from_secs(4);

/// What a database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only: leaves no trace.
    Read,
    /// Reading and writing.
    Write,
    /// The same, overwriting what is deleted with zeros.
    Erase,
}

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing is there.
    #[error("no such file: {}", path.display())]
    Missing {
        /// Where.
        path: PathBuf,
    },
    /// A folder, a socket or the like.
    #[error("not a regular file: {}", path.display())]
    NotAFile {
        /// What.
        path: PathBuf,
    },
    /// A file without a byte.
    #[error("empty: not a database: {}", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// Its header is none, or it is encrypted.
    #[error("not a SQLite database: {}", path.display())]
    NotADatabase {
        /// Which file.
        path: PathBuf,
    },
    /// Writing was asked for, and the file or its file system allows only reading.
    #[error("read-only: {}", path.display())]
    ReadOnly {
        /// Which file.
        path: PathBuf,
    },
    /// A writer died in the middle of a transaction, and nobody has played its journal back since.
    #[error("play back the journal beside {}", path.display())]
    HotJournal {
        /// Which file.
        path: PathBuf,
    },
    /// The system does not let this user open the file, or a file that `SQLite` needs beside it.
    #[error("open {}: the system refuses", path.display())]
    Denied {
        /// Which file.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("open {}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// `SQLite` refuses: it is locked, damaged, or not readable.
    #[error("read the schema")]
    Sqlite(#[source] rusqlite::Error),
}

/// Opens an existing database and reads its schema once: a locked, damaged or encrypted file is found here, not in the
/// middle of a pass.
///
/// # Errors
///
/// When there is none, or it cannot be opened in that way.
pub fn open(path: &Path, access: Access) -> Result<Connection, OpenError> {
    inspect(path)?;
    let open = || match access {
        Access::Read => open_for_reading(path),
        Access::Write => open_for_writing(path),
        Access::Erase => {
            let conn = open_for_writing(path)?;
            conn.pragma_update(None, "secure_delete", true)?;
            Ok(conn)
        }
    };
    let conn = open()
        .and_then(|conn| touch(&conn).map(|()| conn))
        .map_err(|error| explain(path, error))?;
    if access != Access::Read && conn.is_readonly("main").map_err(OpenError::Sqlite)? {
        return Err(OpenError::ReadOnly {
            path: path.to_owned(),
        });
    }
    Ok(conn)
}

/// Says what is wrong with the file, as far as the code of `SQLite` and the files beside it tell.
fn explain(path: &Path, error: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
            if beside(&path, "-journal").exists() =>
        {
            OpenError::HotJournal { path }
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => OpenError::Denied { path },
        _ => OpenError::Sqlite(error),
    }
}

/// Looks at the file before `SQLite` does, which would call a missing file unable to open and an empty one a database
/// without tables.
fn inspect(path: &Path) -> Result<(), OpenError> {
    let here = || path.to_owned();
    let metadata = path.metadata().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            OpenError::Missing { path: here() }
        }
        _ => OpenError::Io {
            path: here(),
            source,
        },
    })?;
    match (metadata.is_file(), metadata.len()) {
        (false, _) => Err(OpenError::NotAFile { path: here() }),
        (true, 0) => Err(OpenError::Empty { path: here() }),
        (true, _) => Ok(()),
    }
}

fn open_for_reading(path: &Path) -> rusqlite::Result<Connection> {
    let had_wal = beside(path, "-wal").exists();
    // A rollback journal says that the database is not in WAL mode without a look at it.
    if !beside(path, "-journal").exists() {
        let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, READER_PATIENCE)?;
        conn.pragma_update(None, "query_only", true)?;
        if had_wal {
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        }
        let mode: String = conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode == "wal" {
            return Ok(conn);
        }
    }
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, READER_PATIENCE)?;
    conn.pragma_update(None, "query_only", true)?;
    Ok(conn)
}

fn open_for_writing(path: &Path) -> rusqlite::Result<Connection> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, WRITER_PATIENCE)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    Ok(conn)
}

fn connect(path: &Path, mode: OpenFlags, patience: Duration) -> rusqlite::Result<Connection> {
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_PRIVATE_CACHE;
    vec0::register();
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(failpoint::patience(patience))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}

fn touch(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// The path of a file that `SQLite` keeps beside the database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
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
        let error = open(&dead, Access::Read).unwrap_err();
        assert!(matches!(error, OpenError::HotJournal { .. }), "{error:?}");
        assert_eq!(files(folder.path()), before);
    }

    #[test]
    fn what_is_no_database_is_named_and_nothing_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            crate::durable::replace(&path, bytes, 0o600).unwrap();
            path
        };
        let mut damaged = b"SQLite format 3\0".to_vec();
        damaged.extend([0x10, 0x00, 1, 1, 0, 64, 32, 32]);
        damaged.resize(8192, 0xab);
        let plain = write("plain", b"x");
        for (path, message) in [
            (folder.path().join("none.db"), "no such file"),
            (plain.join("below"), "no such file"),
            (folder.path().to_path_buf(), "not a regular file"),
            (write("empty.db", b""), "empty: not a database"),
            (
                write("short.db", b"SQLite format 3"),
                "not a SQLite database",
            ),
            (write("cipher.db", &[0x5a; 4096]), "not a SQLite database"),
            (write("damaged.db", &damaged), "read the schema"),
        ] {
            for access in [Access::Read, Access::Write] {
                let error = open(&path, access).unwrap_err();
                assert!(error.to_string().contains(message), "{error:?}");
            }
        }
        assert!(!folder.path().join("none.db").exists());
    }

    #[test]
    fn a_locked_database_is_busy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        let owner = database(&path, "delete");
        owner.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let error = open(&path, Access::Read).unwrap_err();
        assert!(
            matches!(&error, OpenError::Sqlite(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)),
            "{error:?}"
        );
    }

    #[test]
    fn a_writer_syncs_every_commit_and_enforces_no_foreign_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        drop(database(&path, "wal"));
        let writer = open(&path, Access::Write).unwrap();
        let pragma = |name| {
            writer
                .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!((pragma("synchronous"), pragma("foreign_keys")), (2, 0));
    }

    #[test]
    fn opening_keeps_the_locks_of_the_other_connections() {
        for access in [Access::Read, Access::Write] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("v.db");
            let owner = database(&path, "delete");
            owner.execute_batch("BEGIN IMMEDIATE").unwrap();
            assert_eq!(steady_locks(&path), 2, "one to read, one to write");
            drop(open(&path, access).unwrap());
            assert_eq!(steady_locks(&path), 2, "{access:?}");
        }
    }

    /// The number of locks of this process on a file, as soon as the kernel's table shows two, which are never more. The
    /// table is handed out in parts, between which the locks of other tests come and go: it may miss one that is there, so
    /// that a smaller number is believed when it stays. A lock that was lost does not come back.
    fn steady_locks(path: &Path) -> usize {
        let watch = crate::clock::Stopwatch::start();
        loop {
            let found = locks(path);
            if found >= 2 || watch.elapsed() > Duration::from_secs(10) {
                return found;
            }
            std::thread::yield_now();
        }
    }

    /// The number of ranges of a file that the kernel says this process has locked.
    fn locks(path: &Path) -> usize {
        use std::os::unix::fs::MetadataExt;
        let inode = format!(":{}", path.metadata().unwrap().ino());
        let own = std::process::id().to_string();
        let table = std::fs::read_to_string("/proc/locks").unwrap();
        // "1: POSIX ADVISORY READ 4711 fd:01:3021 1073741826 1073742335"
        let ranges = table.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_here = fields.get(4) == Some(&own.as_str()) && fields.get(5)?.ends_with(&inode);
            is_here.then(|| fields[6..].join(" "))
        });
        ranges.collect::<std::collections::BTreeSet<_>>().len()
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
