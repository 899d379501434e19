//! A folder that appears whole or not at all: built under another name beside its place, then renamed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{CONFIG, DemoError, MEMORY, VECTORS, io_error, is_demo};

/// What SQLite may leave beside a database when its process is killed.
const SIDE_FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// A folder in the making. Dropped before it is published, it is gone.
pub(super) struct Staging {
    /// Where it is built.
    path: PathBuf,
    /// Where it will stand.
    target: PathBuf,
    /// The folder itself, locked while this process builds in it; the lock dies with the process.
    folder: File,
    published: bool,
}

impl Staging {
    /// Starts a folder that will stand at `target`, in place of nothing or of an empty folder. What a killed process
    /// left of its own attempt is discarded.
    pub(super) fn begin(target: &Path) -> Result<Self, DemoError> {
        let target = resolve(target)?;
        refuse_if_taken(&target, std::env::current_dir().ok().as_deref())?;
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".building");
        let path = target.with_file_name(name);
        let folder = lock(&path)?;
        let staging = Self {
            path,
            target,
            folder,
            published: false,
        };
        discard_files(&staging.path).map_err(io_error("clear", &staging.path))?;
        if is_empty(&staging.path)? {
            Ok(staging)
        } else {
            Err(DemoError::NotEmpty {
                dir: staging.path.clone(),
            })
        }
    }

    /// Where a file of the folder is written.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Puts the folder in its place, and waits until the disk has it.
    pub(super) fn publish(mut self) -> Result<(), DemoError> {
        self.folder
            .sync_all()
            .map_err(io_error("write", &self.path))?;
        fs::rename(&self.path, &self.target).map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty => DemoError::NotEmpty {
                dir: self.target.clone(),
            },
            _ => io_error("create", &self.target)(error),
        })?;
        self.published = true;
        let parent = parent(&self.target);
        File::open(parent)
            .and_then(|parent| parent.sync_all())
            .map_err(io_error("write", parent))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: the next build discards what is left.
            drop(discard_files(&self.path).and_then(|()| fs::remove_dir(&self.path)));
        }
    }
}

/// The absolute path of a folder that may not exist yet; its parent does afterwards.
fn resolve(dir: &Path) -> Result<PathBuf, DemoError> {
    match fs::canonicalize(dir) {
        Ok(found) => Ok(found),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name = dir
                .file_name()
                .ok_or_else(|| io_error("create", dir)(ErrorKind::InvalidInput.into()))?;
            let parent = parent(dir);
            fs::create_dir_all(parent).map_err(io_error("create", parent))?;
            let parent = fs::canonicalize(parent).map_err(io_error("find", parent))?;
            Ok(parent.join(name))
        }
        Err(error) => Err(io_error("find", dir)(error)),
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Refuses everything but nothing and an empty folder.
fn refuse_if_taken(target: &Path, current: Option<&Path>) -> Result<(), DemoError> {
    if !target.exists() {
        return Ok(());
    }
    let dir = target.to_path_buf();
    if is_demo(target) {
        return Err(DemoError::Exists { dir });
    }
    if !is_empty(target)? {
        return Err(DemoError::NotEmpty { dir });
    }
    // Its replacement would pull the ground from under the shell that stands in it.
    if current == Some(target) {
        return Err(DemoError::CurrentFolder);
    }
    Ok(())
}

fn is_empty(dir: &Path) -> Result<bool, DemoError> {
    let mut entries = fs::read_dir(dir).map_err(io_error("read", dir))?;
    Ok(entries.next().is_none())
}

/// Makes the folder (or finds it, left by a killed process) and locks it, so that no other process builds in it.
fn lock(path: &Path) -> Result<File, DemoError> {
    let busy = || DemoError::Busy {
        dir: path.to_path_buf(),
    };
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(io_error("create", path)(error));
        }
        _ => {}
    }
    let folder = File::open(path).map_err(io_error("open", path))?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Err(busy()),
        Err(fs::TryLockError::Error(error)) => return Err(io_error("lock", path)(error)),
    }
    // Another process may have published the very folder between the opening and the lock.
    let locked = folder.metadata().map_err(io_error("read", path))?;
    let here = fs::symlink_metadata(path).map_err(|_| busy())?;
    if (locked.dev(), locked.ino()) == (here.dev(), here.ino()) {
        Ok(folder)
    } else {
        Err(busy())
    }
}

/// Removes the files that a demo is made of, and nothing else.
fn discard_files(dir: &Path) -> io::Result<()> {
    let databases = [MEMORY, VECTORS].into_iter();
    let files = databases.flat_map(|name| SIDE_FILES.map(|side| format!("{name}{side}")));
    for name in files.chain([CONFIG.to_owned()]) {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn touch(path: &Path) {
        drop(
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .unwrap(),
        );
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_appears_whole_and_private() {
        let world = tempfile::tempdir().unwrap();
        let target = world.path().join("new/demo");
        let staging = Staging::begin(&target).unwrap();
        touch(&staging.file(CONFIG));
        assert!(!target.exists());
        staging.publish().unwrap();
        assert_eq!(names(&target), [CONFIG]);
        assert_eq!(
            fs::metadata(&target).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(names(&world.path().join("new")), ["demo"]);
    }

    #[test]
    fn an_abandoned_folder_is_gone() {
        let world = tempfile::tempdir().unwrap();
        let staging = Staging::begin(&world.path().join("demo")).unwrap();
        touch(&staging.file(MEMORY));
        touch(&staging.file("memory.db-wal"));
        drop(staging);
        assert_eq!(names(world.path()), [""; 0]);
    }

    #[test]
    fn what_a_killed_process_left_is_discarded() {
        let world = tempfile::tempdir().unwrap();
        let left = world.path().join(".demo.building");
        fs::create_dir(&left).unwrap();
        for name in [MEMORY, "memory.db-shm", "vectors.db-journal", CONFIG] {
            touch(&left.join(name));
        }
        let staging = Staging::begin(&world.path().join("demo")).unwrap();
        assert_eq!(names(&left), [""; 0]);
        staging.publish().unwrap();
        assert_eq!(names(world.path()), ["demo"]);
    }

    #[test]
    fn a_foreign_file_in_the_way_is_left_alone() {
        let world = tempfile::tempdir().unwrap();
        let left = world.path().join(".demo.building");
        fs::create_dir(&left).unwrap();
        touch(&left.join("thesis.tex"));
        let refused = Staging::begin(&world.path().join("demo"));
        assert!(matches!(refused, Err(DemoError::NotEmpty { .. })));
        assert_eq!(names(&left), ["thesis.tex"]);
    }

    #[test]
    fn two_processes_do_not_build_in_one_folder() {
        let world = tempfile::tempdir().unwrap();
        let target = world.path().join("demo");
        let first = Staging::begin(&target).unwrap();
        let second = Staging::begin(&target);
        assert!(matches!(second, Err(DemoError::Busy { .. })));
        drop(second);
        touch(&first.file(CONFIG));
        first.publish().unwrap();
        assert_eq!(names(&target), [CONFIG]);
    }

    #[test]
    fn a_place_that_was_taken_meanwhile_is_not_overwritten() {
        let world = tempfile::tempdir().unwrap();
        let target = world.path().join("demo");
        let staging = Staging::begin(&target).unwrap();
        touch(&staging.file(CONFIG));
        fs::create_dir(&target).unwrap();
        touch(&target.join("thesis.tex"));
        assert!(matches!(staging.publish(), Err(DemoError::NotEmpty { .. })));
        assert_eq!(names(world.path()), ["demo"]);
        assert_eq!(names(&target), ["thesis.tex"]);
    }

    #[test]
    fn only_nothing_and_an_empty_folder_are_replaced() {
        let world = tempfile::tempdir().unwrap();
        let empty = world.path().join("empty");
        fs::create_dir(&empty).unwrap();
        refuse_if_taken(&world.path().join("missing"), None).unwrap();
        refuse_if_taken(&empty, Some(world.path())).unwrap();
        assert!(matches!(
            refuse_if_taken(&empty, Some(&empty)),
            Err(DemoError::CurrentFolder)
        ));
        assert!(matches!(
            refuse_if_taken(world.path(), None),
            Err(DemoError::NotEmpty { .. })
        ));
        touch(&world.path().join("file"));
        assert!(matches!(
            refuse_if_taken(&world.path().join("file"), None),
            Err(DemoError::Io { .. })
        ));
    }
}
