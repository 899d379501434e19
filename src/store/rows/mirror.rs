//! Points that are the rows: a collection of which there is no table, mirrored into one.
//!
//! Mechanics: every point becomes a row `points(id, payload)` of a database of hypnos' own, its payload as JSON text in
//! one order of the keys. The mapping, the passes and the pairs work on that as on any table. A mirror belongs to one
//! [`super::RowStore`] and goes with it; what a killed process left is swept away by the next one that makes a mirror
//! in the same folder. That is the folder of the state, which a run makes before it reads; what only looks at a store that
//! has none yet has its mirror among the temporary files.
//!
//! Policy: a mirror is whole or it is none. It is read when it is first needed, and anew once it was [`Mirror::expire`]d:
//! before every plan. What is decided on it is checked against the points themselves before one is touched, see
//! `apply::rows`: a point that was written since is left alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::Connection;
use rustix::fs::{Access, FlockOperation};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::RowError;
use crate::config;
use crate::durable;
use crate::memory::PointId;
use crate::stop::Stop;
use crate::store::vectors::VectorError;
use crate::store::vectors::qdrant::QdrantVectors;

/// How the folders of mirrors begin, and what stands in each of them.
const PREFIX: &str = "mirror-";
const DATABASE: &str = "points.db";
const FRESH: &str = "points.new";
const LOCK: &str = "lock";

/// The columns of a mirror: the id of the point, and its payload.
pub const ID: &str = "id";
/// See [`ID`].
pub const PAYLOAD: &str = "payload";
/// The table of a mirror. Without rowids: a row is the same whenever it was read.
const SCHEMA: &str =
    "CREATE TABLE points(id TEXT NOT NULL PRIMARY KEY, payload TEXT NOT NULL) WITHOUT ROWID;";

/// The mirror of one collection.
#[derive(Debug)]
pub(super) struct Mirror {
    points: config::Qdrant,
    /// The folder of the state of the store.
    state: PathBuf,
    place: OnceLock<Place>,
    stop: Stop,
    held: Mutex<Held>,
}

/// Where a mirror is.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    /// Whether the folder is beside the state of the store, where nobody else cleans up.
    is_beside: bool,
}

/// What there is of a mirror.
#[derive(Debug, Default)]
struct Held {
    /// Says to others that somebody works on the folder.
    lock: Option<File>,
    is_read: bool,
}

/// The JSON text of a payload, as a mirror has it.
#[must_use]
pub fn text_of(payload: Map<String, Value>) -> String {
    let mut payload = Value::Object(payload);
    // The server sends the keys in any order.
    payload.sort_all_objects();
    payload.to_string()
}

/// A database with the schema of a mirror and no row.
pub(super) fn empty() -> rusqlite::Result<Connection> {
    let conn = Connection::open_in_memory()?;
    conn.execute_batch(SCHEMA)?;
    Ok(conn)
}

impl Mirror {
    /// A mirror of the points of a store. Nothing is made or read yet; it is read until a stop is requested.
    pub(super) fn new(rows: &config::Rows, stop: &Stop) -> Option<Self> {
        let points = rows.points.as_deref()?;
        Some(Self {
            points: points.clone(),
            state: durable::folder_of(Path::new(&rows.path)).to_owned(),
            place: OnceLock::new(),
            stop: stop.clone(),
            held: Mutex::default(),
        })
    }

    /// Where the database is, once it was read: beside the state of the store, if that can be written when this is first
    /// asked.
    pub(super) fn path(&self) -> PathBuf {
        self.place().folder.join(DATABASE)
    }

    fn place(&self) -> &Place {
        self.place.get_or_init(|| {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            let is_beside = rustix::fs::access(&self.state, access).is_ok();
            let base = if is_beside {
                self.state.clone()
            } else {
                std::env::temp_dir()
            };
            Place {
                folder: base.join(format!("{PREFIX}{}", Uuid::now_v7())),
                is_beside,
            }
        })
    }

    /// Lets the next reader read the points anew.
    pub(super) fn expire(&self) {
        self.held().is_read = false;
    }

    /// Reads the points, if that was not done since the mirror expired.
    ///
    /// # Errors
    ///
    /// When not all of them can be read; then there is no mirror.
    pub(super) fn read(&self) -> Result<(), RowError> {
        let mut held = self.held();
        if held.is_read {
            return Ok(());
        }
        if held.lock.is_none() {
            held.lock = Some(self.make_folder()?);
        }
        durable::remove_if_there(&self.path()).map_err(RowError::io(self.doing("remove")))?;
        let fresh = self.place().folder.join(FRESH);
        self.fill(&fresh)?;
        fs::rename(&fresh, self.path()).map_err(RowError::io(self.doing("name")))?;
        held.is_read = true;
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        // What a panic left is read anew.
        self.held.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
            let mut held = poisoned.into_inner();
            held.is_read = false;
            held
        })
    }

    fn doing(&self, verb: &str) -> String {
        format!(
            "{verb} the mirror of the points in {}",
            self.place().folder.display()
        )
    }

    /// Makes the folder and takes its lock, and sweeps away what others left. One process at a time: a folder that has
    /// no lock yet looks like one that was left.
    fn make_folder(&self) -> Result<File, RowError> {
        let failed = || RowError::io(self.doing("make"));
        let Place { folder, is_beside } = self.place();
        let base = durable::folder_of(folder);
        let gate = File::open(base).map_err(failed())?;
        if *is_beside {
            rustix::fs::flock(&gate, FlockOperation::LockExclusive)
                .map_err(|error| failed()(error.into()))?;
            sweep(base).map_err(failed())?;
        }
        DirBuilder::new()
            .mode(0o700)
            .create(folder)
            .map_err(failed())?;
        let lock = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.join(LOCK))
            .map_err(failed())?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed()(error.into()))?;
        Ok(lock)
    }

    /// Writes every point into a new database at `path`.
    fn fill(&self, path: &Path) -> Result<(), RowError> {
        let failed = || RowError::sqlite("mirror the points");
        durable::remove_if_there(path).map_err(RowError::io(self.doing("remove")))?;
        let mut conn = Connection::open(path).map_err(failed())?;
        // A file that is not whole is never given its name, and none outlives the process.
        conn.pragma_update(None, "journal_mode", "OFF")
            .and_then(|()| conn.pragma_update(None, "synchronous", "OFF"))
            .and_then(|()| conn.execute_batch(SCHEMA))
            .map_err(failed())?;
        let vectors = QdrantVectors::connect(&self.points, "", self.stop.clone())?;
        let transaction = conn.transaction().map_err(failed())?;
        let mut written = Ok(());
        vectors.payloads(&mut |page| {
            written = insert(&transaction, page);
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        written.map_err(failed())?;
        transaction.commit().map_err(failed())?;
        conn.close().map_err(|(_, error)| failed()(error))
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if self.held().lock.is_some()
            && let Err(error) = fs::remove_dir_all(&self.place().folder)
        {
            tracing::warn!(folder = %self.place().folder.display(), %error, "a mirror of points was left behind");
        }
    }
}

/// A point that was moved while the pages were read may come twice: the later one counts.
fn insert(conn: &Connection, page: Vec<(PointId, Map<String, Value>)>) -> rusqlite::Result<()> {
    let mut statement =
        conn.prepare_cached("INSERT OR REPLACE INTO points(id, payload) VALUES (?1, ?2)")?;
    for (id, payload) in page {
        statement.execute([id.to_string(), text_of(payload)])?;
    }
    Ok(())
}

/// Removes the mirrors in a folder that nobody works on any more.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_mirror = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        let is_held = || {
            File::open(entry.path().join(LOCK)).is_ok_and(|lock| {
                rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
            })
        };
        if is_mirror && !is_held() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

impl From<VectorError> for RowError {
    fn from(error: VectorError) -> Self {
        Self::Points(Box::new(error))
    }
}
