//! Files that are whole after a power cut: either the old one or the new one, never half of one.
//!
//! A file is written beside its final name, synced, renamed over it, and the folder is synced, because a rename that
//! is not in the folder's own blocks did not happen. Temporary names begin with a dot and end in `.tmp`; a killed
//! process may leave one behind, and nothing ever reads it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::failpoint::{Failpoint, hit};

/// Mode of files that only their owner may read.
pub const PRIVATE: u32 = 0o600;

/// Replaces the file at `path` with `contents`, with exactly the permission bits `mode` whatever the umask.
///
/// A symbolic link at `path` is replaced, not followed.
///
/// # Errors
///
/// When a step fails; then the old file stands as it was and no temporary one is left.
pub fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = write_new(&temporary, contents, mode)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_dir(folder_of(path)));
    if written.is_err() {
        remove_if_there(&temporary)?;
    }
    written
}

/// Puts `contents` where a person wants them. A symbolic link is followed, and a file is replaced as [`replace`] does it.
/// What is there and no file, such as a device or a pipe, is written into and stays what it is.
///
/// # Errors
///
/// When a link leads nowhere, or a step fails; then an old file stands as it was.
pub fn put(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => replace(&fs::canonicalize(path)?, contents, mode),
        Ok(_) => OpenOptions::new()
            .write(true)
            .open(path)?
            .write_all(contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            replace(path, contents, mode)
        }
        Err(error) => Err(error),
    }
}

/// Makes a new file with exactly the permission bits `mode`, holding `contents`, and syncs it (but not its folder).
///
/// # Errors
///
/// When there is anything at `path`, a dangling link included, or it cannot be written.
pub fn write_new(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let mut file = create_new(path, mode)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Makes a new file with exactly the permission bits `mode`, to be written and synced by the caller.
///
/// # Errors
///
/// When there is anything at `path`, a dangling link included, or it cannot be made.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Gives the finished file at `temporary` its final name, unless something has that name by now: then that stays.
/// Either way `temporary` is gone afterwards.
///
/// # Errors
///
/// When the contents cannot be synced, or the name cannot be given.
pub fn publish(temporary: &Path, path: &Path) -> io::Result<()> {
    File::open(temporary)?.sync_all()?;
    match fs::hard_link(temporary, path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    fs::remove_file(temporary)?;
    sync_dir(folder_of(path))
}

/// Creates `path` and every missing folder above it, each for its owner only (0700), durably. A folder that exists is
/// left as it is.
///
/// # Errors
///
/// When a folder cannot be created, or something else has its name.
pub fn create_dir(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = folder_of(path);
    create_dir(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => sync_dir(parent),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Syncs the entries of a folder.
///
/// # Errors
///
/// When it cannot be opened or synced.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    hit(Failpoint::FolderSynced).map_err(io::Error::other)
}

/// A name in the folder of `path` that no other writer uses: `.NAME.PID-N.tmp`.
///
/// # Errors
///
/// When `path` has no file name.
pub fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(
        ".{}-{}.tmp",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    let temporary = path.with_file_name(temporary);
    // Left by a killed process that had this pid.
    remove_if_there(&temporary)?;
    Ok(temporary)
}

/// Opens a file to read it that is what it seems: no link is followed at its end, and no device or pipe is waited for.
///
/// # Errors
///
/// When it cannot be opened; of the kind `InvalidData` when it is no file.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidData, "it is a link, or no file");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP | Errno::NXIO) => return Err(no_file()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(no_file())
    }
}

/// Removes a file that may not be there.
///
/// # Errors
///
/// When it is there and cannot be removed.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The folder that holds `path`; the current one for a bare name.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_with_exact_permissions_and_nothing_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hypnos.prom");
        for (contents, mode) in [("old", 0o600), ("", 0o644), ("newer than that", 0o666)] {
            replace(&path, contents.as_bytes(), mode).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
            assert_eq!(mode_of(&path), mode, "{mode:o}");
        }
        assert_eq!(names_in(dir.path()), ["hypnos.prom"]);
    }

    #[test]
    fn a_link_is_replaced_and_its_target_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        replace(&target, b"theirs", PRIVATE).unwrap();
        symlink(&target, &link).unwrap();
        replace(&link, b"ours", PRIVATE).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "theirs");
        assert!(!link.is_symlink());
    }

    #[test]
    fn what_a_person_names_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        replace(&at("target"), b"old", PRIVATE).unwrap();
        symlink("target", at("link")).unwrap();
        for name in ["link", "target", "new"] {
            put(&at(name), name.as_bytes(), 0o644).unwrap();
            assert_eq!(fs::read_to_string(at(name)).unwrap(), name);
        }
        assert!(at("link").is_symlink());
        assert_eq!(mode_of(&at("target")), 0o644);

        symlink("nowhere", at("dangling")).unwrap();
        put(&at("dangling"), b"x", PRIVATE).unwrap_err();
        assert!(at("dangling").is_symlink());
        create_dir(&at("folder")).unwrap();
        put(&at("folder"), b"x", PRIVATE).unwrap_err();

        symlink("/dev/null", at("null")).unwrap();
        put(&at("null"), b"x", PRIVATE).unwrap();
        assert!(at("null").is_symlink());
        let pipe = rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        );
        pipe.unwrap();
        let reader = std::thread::spawn({
            let pipe = at("pipe");
            move || fs::read_to_string(pipe).unwrap()
        });
        put(&at("pipe"), b"through", PRIVATE).unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(!at("pipe").is_file());
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_and_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let occupied = dir.path().join("folder");
        create_dir(&occupied.join("child")).unwrap();
        replace(&occupied, b"x", PRIVATE).unwrap_err();
        assert_eq!(names_in(dir.path()), ["folder"]);
        assert_eq!(names_in(&occupied), ["child"]);
        replace(Path::new("/"), b"x", PRIVATE).unwrap_err();
        replace(&dir.path().join("missing/file"), b"x", PRIVATE).unwrap_err();
    }

    #[test]
    fn a_new_file_takes_nobody_elses_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        symlink(dir.path().join("nowhere"), &path).unwrap();
        let refused = write_new(&path, b"x", PRIVATE).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names_in(dir.path()), ["file"]);
    }

    #[test]
    fn only_a_file_itself_is_opened_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write_new(&at("file"), b"x", PRIVATE).unwrap();
        let mut text = String::new();
        open_plain(&at("file"))
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "x");
        symlink("file", at("link")).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), fifo, mode, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, kind) in [
            ("link", io::ErrorKind::InvalidData),
            ("pipe", io::ErrorKind::InvalidData),
            ("socket", io::ErrorKind::InvalidData),
            (".", io::ErrorKind::InvalidData),
            ("missing", io::ErrorKind::NotFound),
        ] {
            let error = open_plain(&at(name)).unwrap_err();
            assert_eq!(error.kind(), kind, "{name}: {error}");
        }
        // A folder may be reached by a link.
        symlink(".", at("by_link")).unwrap();
        open_plain(&at("by_link/file")).unwrap();
    }

    #[test]
    fn publishing_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("main.db");
        for contents in ["first", "second"] {
            let temporary = temporary_beside(&path).unwrap();
            write_new(&temporary, contents.as_bytes(), PRIVATE).unwrap();
            publish(&temporary, &path).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(names_in(dir.path()), ["main.db"]);
    }

    #[test]
    fn folders_are_private_and_existing_ones_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, deep) = (dir.path().join("a"), dir.path().join("a/b/c"));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        create_dir(&deep).unwrap();
        create_dir(&deep).unwrap();
        assert_eq!([mode_of(&shared), mode_of(&deep)], [0o755, 0o700]);
        assert_eq!(mode_of(&dir.path().join("a/b")), 0o700);
        let file = dir.path().join("file");
        replace(&file, b"", PRIVATE).unwrap();
        create_dir(&file).unwrap_err();
        create_dir(&file.join("below")).unwrap_err();
    }
}
