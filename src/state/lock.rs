//! One run at a time on a store, across the daemon, the timer and the command line.
//!
//! The lock is the kernel's (`flock`), not the file's existence: it ends with the process however that ends. The file
//! only says who holds it, and what it says counts for nothing once the lock is free.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StateError;
use crate::clock::{self, Timestamp};
use crate::durable;

/// How often a taken lock is tried again, in case somebody only looks at it, and how long to wait in between.
const LOOKERS: u32 = 5;
const LOOK: Duration = Duration::from_millis(20);

/// Who holds a run lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its run, a UUID.
    pub run: String,
    /// The machine it is on.
    pub host: String,
    /// When it took the lock.
    pub since: Timestamp,
    /// What it was started as, such as `serve` or `run`.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pid,
            run,
            host,
            since,
            command,
        } = self;
        write!(
            f,
            "{command}, pid {pid} on {host}, run {run}, since {since:.0}"
        )
    }
}

/// A run lock, held until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is free again when this is dropped"]
pub struct RunLock {
    file: File,
}

impl RunLock {
    pub(super) fn take(path: &Path, holder: &Holder) -> Result<Self, StateError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(durable::PRIVATE)
            .open(path)
            .map_err(|source| StateError::io("open the lock file", path, source))?;
        match lock_patiently(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(&mut file).map(Box::new);
                return Err(StateError::Held { holder });
            }
            Err(TryLockError::Error(source)) => {
                return Err(StateError::io("lock", path, source));
            }
        }
        write_holder(&mut file, holder)
            .map_err(|source| StateError::io("write the lock file", path, source))?;
        Ok(Self { file })
    }
}

impl Drop for RunLock {
    /// Empties the file before the lock goes with it; should that fail, the next holder overwrites it.
    fn drop(&mut self) {
        drop(self.file.set_len(0));
    }
}

/// Somebody who looks at the lock ([`current`]) has a share of it for an instant: that is no run.
fn lock_patiently(file: &File) -> Result<(), TryLockError> {
    for _ in 0..LOOKERS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => clock::pause(LOOK),
            result => return result,
        }
    }
    file.try_lock()
}

/// Who holds the lock at `path`, if anybody does.
pub(super) fn current(path: &Path) -> Result<Option<Holder>, StateError> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|source| StateError::io("open the lock file", path, source))?,
    };
    // A shared lock is refused only while somebody holds the exclusive one, and goes with the file at once.
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(read_holder(&mut file)),
        Err(TryLockError::Error(source)) => Err(StateError::io("look at the lock", path, source)),
    }
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&serde_json::to_vec(holder)?)
}

/// Who the file says it is; `None` while the holder has not written it yet.
fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use super::super::StateDir;
    use super::super::testing::*;
    use super::*;

    /// Names the state folder that the child process locks.
    const FOLDER: &str = "HYPNOS_TEST_LOCK_FOLDER";

    #[test]
    /// The other half of the tests below, in a process of its own; without the variable it has nothing to do.
    fn holds_the_lock_until_killed() {
        let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
            return;
        };
        let _lock = StateDir::new(&folder, "agent")
            .lock(&holder("child"))
            .unwrap();
        println!("locked");
        clock::pause(Duration::from_mins(1));
    }

    fn child_that_holds(folder: &Path) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("state::lock::tests::holds_the_lock_until_killed")
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let locked = stdout.lines().any(|line| line.unwrap().contains("locked"));
        assert!(locked, "the child ended without the lock");
        child
    }

    fn held_by(refused: StateError) -> Option<Holder> {
        match refused {
            StateError::Held { holder } => holder.map(|holder| *holder),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_killed_holder_is_named_while_it_lives_and_leaves_no_stale_lock() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(temp.path(), "agent");
        let mut child = child_that_holds(temp.path());
        let refused = dir.lock(&holder("second")).unwrap_err();
        assert_eq!(held_by(refused), Some(holder("child")));
        child.kill().unwrap();
        child.wait().unwrap();
        let file = fs::read_to_string(temp.path().join("agent/lock")).unwrap();
        assert!(file.contains("child"), "{file}");
        let _lock = dir.lock(&holder("third")).unwrap();
        let refused = dir.lock(&holder("fourth")).unwrap_err();
        assert_eq!(held_by(refused), Some(holder("third")));
    }

    #[test]
    fn a_dropped_lock_is_free_and_says_nothing() {
        let world = World::new();
        drop(world.dir.lock(&holder("a")).unwrap());
        assert_eq!(fs::read(world.file("lock")).unwrap(), b"");
        let _again = world.dir.lock(&holder("b")).unwrap();
        OpenOptions::new()
            .write(true)
            .open(world.file("lock"))
            .and_then(|mut file| file.write_all(b"{half"))
            .unwrap();
        assert_eq!(held_by(world.dir.lock(&holder("c")).unwrap_err()), None);
    }

    #[test]
    fn stores_do_not_lock_each_other() {
        let temp = tempfile::tempdir().unwrap();
        let _one = StateDir::new(temp.path(), "one")
            .lock(&holder("a"))
            .unwrap();
        let _two = StateDir::new(temp.path(), "two")
            .lock(&holder("b"))
            .unwrap();
    }

    #[test]
    fn the_message_names_the_holder() {
        let held = |holder| StateError::Held { holder }.to_string();
        assert_eq!(held(None), "another run holds the lock");
        let named = Holder {
            pid: 4711,
            run: "0192-7".into(),
            host: "night".into(),
            since: "2026-01-02T03:00:00.25Z".parse().unwrap(),
            command: "serve".into(),
        };
        assert_eq!(
            held(Some(Box::new(named))),
            "another run holds the lock (serve, pid 4711 on night, run 0192-7, since 2026-01-02T03:00:00Z)"
        );
    }
}
