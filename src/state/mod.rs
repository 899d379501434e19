//! What hypnos remembers between runs, in files of its own: nothing is ever added to the user's database.
//!
//! One folder per store, `<state_dir>/<store>/`:
//!
//! | file | holds |
//! | --- | --- |
//! | `lock` | who is running; held by `flock`, so that a killed holder leaves nothing stale |
//! | `main.db` | whose state it is, runs and pass results, acceptances, counters, the queue; and the work on a store that is one row database |
//! | `epoch` | how often the store was restored; made by the first restore |
//! | `<tenant>.db` | the work on one tenant's row database; made only when there is something to write |
//!
//! The work is intents with their pre-images, tombstones and sightings. Losing a file loses undo, the queue, and who was
//! erased, never a memory; so a file that is damaged, foreign or newer is an error that says so, and is never made anew
//! by itself.
//!
//! Durability: WAL with `synchronous=FULL`, so that what a method wrote is on disk when it returns; each method is one
//! IMMEDIATE transaction unless it says otherwise. Privacy: files are 0600 in a folder of 0700, freed bytes are
//! overwritten (`secure_delete`), and [`State::tidy`] empties the WAL at the end of a run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::durable;
use crate::failpoint::{Failpoint, hit};

mod account;
mod bookmark;
mod compared;
mod error;
mod file;
mod forget;
mod intent;
mod ledger;
mod leftovers;
mod lock;
mod partition;
mod place;
mod queue;
mod runs;
mod schema;
mod settle;
mod sightings;
mod snooze;
mod sql;
#[cfg(test)]
mod testing;
mod undo;

pub use account::{Deeds, Unaccounted};
pub use bookmark::Bookmark;
pub use compared::Compared;
pub use error::StateError;
pub use file::{State, StateReader};
pub use forget::{Begun, Forgetting, Forgotten, Held};
pub use intent::{Intent, IntentId, IntentRecord, Settled, SkipReason};
pub use ledger::{ActionResult, Gone, NamespaceHash, Tombstone, Total};
pub use lock::{Holder, RunLock};
pub use partition::Partition;
pub use queue::{Answer, Entry, key_of};
pub use runs::{PassRow, RunEnd, RunRecord, RunRow};
pub use undo::{Dropped, Folded, TakenBack};

/// The file that says how often the store has been restored.
const EPOCH: &str = "epoch";
/// The journal of a restore that is under way, see [`crate::snapshot::restore::journal`].
pub const RESTORE: &str = "restore.json";

/// The tenants that have a state file.
#[derive(Debug, Default)]
pub struct Tenants {
    /// Those whose file can be told, sorted.
    pub names: Vec<String>,
    /// Files that hold their tenant's name inside and cannot be read: the name of each, and why.
    pub damaged: Vec<(String, StateError)>,
}

/// The folder of one store's state.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// The folder of `store` in `state_dir`; nothing is created yet. The name of a store was checked by the
    /// configuration and is used as it is.
    #[must_use]
    pub fn new(state_dir: &Path, store: &str) -> Self {
        Self {
            path: state_dir.join(store),
        }
    }

    /// Where it is; it need not be there yet.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the store's run lock, or says who has it, and removes what killed runs left half made in the folder. Held
    /// until the value is dropped or the process ends.
    ///
    /// # Errors
    ///
    /// [`StateError::Held`] when another run has it; else when the folder or the file cannot be written.
    pub fn lock(&self, holder: &Holder) -> Result<RunLock, StateError> {
        self.create()?;
        hit(Failpoint::LockBefore)?;
        let lock = RunLock::take(&self.path.join("lock"), holder)?;
        leftovers::sweep(&self.path);
        hit(Failpoint::LockTaken)?;
        Ok(lock)
    }

    /// Who holds the run lock; `None` when nobody does. Takes nothing and creates nothing.
    ///
    /// # Errors
    ///
    /// When the lock file is there and cannot be read.
    pub fn holder(&self) -> Result<Option<Holder>, StateError> {
        lock::current(&self.path.join("lock"))
    }

    /// Opens the state of a partition to write, creating it when there is none and migrating it when it is older.
    ///
    /// # Errors
    ///
    /// When the file is damaged, foreign, newer, or cannot be written.
    pub fn open(&self, partition: Partition<'_>) -> Result<State, StateError> {
        self.create()?;
        State::open(&self.file(partition), partition)
    }

    /// Opens the state of a partition to read; `None` when it has none. Changes no byte of the database or its log and
    /// leaves no file behind that was not there (but the index of a log that was found without one).
    ///
    /// # Errors
    ///
    /// When the file is damaged, foreign, of another version, or cannot be read.
    pub fn read(&self, partition: Partition<'_>) -> Result<Option<StateReader>, StateError> {
        StateReader::open(&self.file(partition), partition)
    }

    /// Whether a partition has a state file.
    ///
    /// # Errors
    ///
    /// When the folder cannot be looked at.
    pub fn exists(&self, partition: Partition<'_>) -> Result<bool, StateError> {
        let path = self.file(partition);
        path.try_exists()
            .map_err(|source| StateError::io("look for", &path, source))
    }

    /// The tenants that have a state file. [`Partition::Main`] is not among them: ask [`StateDir::read`].
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn tenants(&self) -> Result<Tenants, StateError> {
        let listing = |source| StateError::io("list the state folder", &self.path, source);
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Tenants::default());
            }
            entries => entries.map_err(listing)?,
        };
        let mut tenants = Tenants::default();
        for entry in entries {
            let name = entry.map_err(listing)?.file_name();
            match name.to_str().and_then(partition::from_file_name) {
                Some(partition::Named::Tenant(tenant)) => tenants.names.push(tenant),
                Some(partition::Named::Inside) => {
                    match file::tenant_inside(&self.path.join(&name)) {
                        Ok(tenant) => tenants.names.extend(tenant),
                        Err(error) => {
                            let name = name.to_string_lossy().into_owned();
                            tenants.damaged.push((name, error));
                        }
                    }
                }
                Some(partition::Named::Main) | None => {}
            }
        }
        tenants.names.sort();
        Ok(tenants)
    }

    /// The open intents of the store, over all its partitions.
    ///
    /// # Errors
    ///
    /// When a state file is damaged, or cannot be read.
    pub fn count_open_intents(&self) -> Result<u64, StateError> {
        let mut open = 0;
        self.each(&mut |_, state| {
            open += state.count_open_intents()?;
            Ok(())
        })?;
        Ok(open)
    }

    /// Reads every state file of the store.
    ///
    /// # Errors
    ///
    /// When one is damaged, or cannot be read.
    pub fn each(
        &self,
        visit: &mut dyn FnMut(Partition<'_>, &StateReader) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let tenants = self.tenants()?;
        if let Some((_, error)) = tenants.damaged.into_iter().next() {
            return Err(error);
        }
        let tenants = tenants.names.iter().map(|name| Partition::Tenant(name));
        for partition in std::iter::once(Partition::Main).chain(tenants) {
            if let Some(state) = self.read(partition)? {
                visit(partition, &state)?;
            }
        }
        Ok(())
    }

    /// How often the store has been restored.
    ///
    /// # Errors
    ///
    /// When the file that says so cannot be read.
    pub fn epoch(&self) -> Result<u64, StateError> {
        let path = self.path.join(EPOCH);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            text => text.map_err(|source| StateError::io("read", &path, source))?,
        };
        text.trim().parse().map_err(|_| {
            let source = std::io::Error::from(std::io::ErrorKind::InvalidData);
            StateError::io("read", &path, source)
        })
    }

    /// Writes down how often the store has been restored, durably.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn set_epoch(&self, epoch: u64) -> Result<(), StateError> {
        self.create()?;
        let path = self.path.join(EPOCH);
        durable::replace(&path, format!("{epoch}\n").as_bytes(), durable::PRIVATE)
            .map_err(|source| StateError::io("write", &path, source))
    }

    /// A file of the store's state folder.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn file(&self, partition: Partition<'_>) -> PathBuf {
        self.path.join(partition.file_name())
    }

    fn create(&self) -> Result<(), StateError> {
        durable::create_dir(&self.path)
            .map_err(|source| StateError::io("create the state folder", &self.path, source))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::testing::*;
    use super::*;

    #[test]
    fn nothing_is_made_before_something_is_written() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(&temp.path().join("state"), "agent");
        assert!(dir.read(Partition::Main).unwrap().is_none());
        assert_eq!(dir.tenants().unwrap().names, [""; 0]);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_and_folders_are_for_their_owner_only() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(&temp.path().join("state"), "agent");
        let _lock = dir.lock(&holder("a")).unwrap();
        let _state = dir.open(Partition::Main).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&temp.path().join("state")), 0o700);
        assert_eq!(mode(&dir.path), 0o700);
        let files: Vec<_> = fs::read_dir(&dir.path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{file:?}");
        }
    }

    #[test]
    fn every_tenant_is_listed_under_its_own_name() {
        let world = World::new();
        let long = "ñ".repeat(300);
        let mut tenants = [
            "ana", "Ana", "main", "MAIN", "lock", "a/b", "..", "", ".x", "%61", &long,
        ];
        world.dir.open(Partition::Main).unwrap();
        for tenant in tenants {
            let state = world.dir.open(Partition::Tenant(tenant)).unwrap();
            state.accept(crate::pass::PassName::Ttl, at(0)).unwrap();
        }
        for theirs in ["notes.txt", "Copy of ana.db"] {
            durable::replace(&world.file(theirs), b"mine", durable::PRIVATE).unwrap();
        }
        tenants.sort_unstable();
        assert_eq!(world.dir.tenants().unwrap().names, tenants);
        let main = world.dir.read(Partition::Main).unwrap().unwrap();
        assert!(!main.is_accepted(crate::pass::PassName::Ttl).unwrap());
    }
}
