//! Putting another SQLite file in the place of a live one.
//!
//! Mechanics: the new file is renamed over the old one, so that either is there at every instant. Before that, what is
//! still in the log of the old one is folded in and the log goes: left beside the new file, it would be played into it.
//! Nobody may have the old one open, or would go on writing to a file without a name: `SQLite`'s exclusive lock tells of
//! open transactions and, in WAL mode, of open connections; the table of open files of the system tells of the rest, as
//! far as this user may see it; and a lock on the whole file keeps newcomers out until the rename.
//!
//! Policy: a file that somebody has written to since it was looked at is in no copy, and no rename destroys it, see
//! [`Keep`].

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rustix::fs::{FlockOperation, fcntl_lock};

use super::copies::{CopyError, Keep, Switched};
use super::database::Stamp;
use super::files::same_file;
use super::sqlite::{self, Access, OpenError};
use crate::durable;
use crate::failpoint::{Failpoint, hit};

/// What follows the name of a staged file while it is written anew.
pub(super) const ANEW: &str = "-anew";

/// The new place of a database in one restore: beside the live one, so that a rename can move it.
#[must_use]
pub fn staged_path(live: &Path, tag: &str) -> PathBuf {
    suffixed(live, ".hypnos-", tag)
}

/// Where the old file is kept in one restore, when it could not be copied.
#[must_use]
pub fn aside_path(live: &Path, tag: &str) -> PathBuf {
    suffixed(live, ".before-", tag)
}

/// The old files of a place that restores have kept, as far as their folder can be listed.
///
/// # Errors
///
/// When it cannot.
pub fn kept_aside(live: &Path) -> io::Result<Vec<PathBuf>> {
    let aside = aside_path(live, "");
    let is_tag = |tag: &[u8]| !tag.is_empty() && tag.iter().all(u8::is_ascii_hexdigit);
    let mut kept = Vec::new();
    for entry in fs::read_dir(durable::folder_of(live))? {
        let path = entry?.path();
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let before = aside.file_name().map(OsStr::as_bytes).unwrap_or_default();
        if name.strip_prefix(before).is_some_and(is_tag) {
            kept.push(path);
        }
    }
    kept.sort();
    Ok(kept)
}

fn suffixed(path: &Path, suffix: &str, tag: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.push(tag);
    name.into()
}

/// Makes sure that nobody has a database open, and folds its log in. What is not there, or is no database, has no log
/// that could be folded in, and is in nobody's use as far as `SQLite` goes.
///
/// # Errors
///
/// [`CopyError::InUse`] when somebody has.
pub fn require_idle(path: &Path) -> Result<(), CopyError> {
    if !exists(path)? {
        return Ok(());
    }
    if let Some(by) = opened_by(path) {
        return Err(in_use(path, format!(", by pid {by}")));
    }
    match fold_in(path) {
        Err(error) if is_busy(&error) => Err(in_use(path, String::new())),
        Err(CopyError::Open(OpenError::NotADatabase { .. } | OpenError::Empty { .. })) => Ok(()),
        Err(CopyError::Sqlite { source, .. } | CopyError::Open(OpenError::Sqlite(source)))
            if is_damage(&source) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Takes the database for itself, folds its log in, and lets go.
fn fold_in(path: &Path) -> Result<(), CopyError> {
    let conn = sqlite::open(path, Access::Write)?;
    let doing = |source| CopyError::Sqlite {
        doing: format!("take {} for itself", path.display()),
        source,
    };
    conn.busy_timeout(std::time::Duration::ZERO)
        .map_err(doing)?;
    drop(conn);
    let conn = rusqlite::Connection::open_with_flags(
        path,
        rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(doing)?;
    conn.pragma_update(None, "locking_mode", "EXCLUSIVE")
        .map_err(doing)?;
    conn.execute_batch("BEGIN EXCLUSIVE; COMMIT")
        .map_err(doing)?;
    let is_blocked: bool = conn
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(doing)?;
    if is_blocked {
        return Err(in_use(path, String::new()));
    }
    conn.close().map_err(|(_, error)| doing(error))
}

fn is_busy(error: &CopyError) -> bool {
    let code = match error {
        CopyError::Sqlite { source, .. } | CopyError::Open(OpenError::Sqlite(source)) => {
            source.sqlite_error_code()
        }
        _ => None,
    };
    matches!(
        code,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn in_use(path: &Path, by: String) -> CopyError {
    CopyError::InUse {
        path: path.to_owned(),
        by,
    }
}

/// A process other than this one that has a file open, as far as this user may see it.
fn opened_by(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    let own = std::process::id();
    let processes = fs::read_dir("/proc").ok()?;
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let has_open = |pid: &u32| {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        open.filter_map(Result::ok).any(|entry| {
            fs::metadata(entry.path())
                .is_ok_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
        })
    };
    pids.filter(|pid| *pid != own).find(has_open)
}

/// What is known of the file whose place another takes.
#[derive(Debug, Clone, Copy)]
pub struct Old<'a> {
    /// What it was when it was looked at; `None` when there was none.
    pub was: Option<&'a Stamp>,
    /// Where it stays, when it does.
    pub aside: &'a Path,
    /// When it does.
    pub keep: Keep,
}

/// Renames `staged` over `live`, with the mode and the owner of the old file. When there is nothing at `staged`, it was
/// done before.
///
/// # Errors
///
/// [`CopyError::InUse`] when somebody has the old file open, and [`CopyError::Changed`] as [`Keep`] says; then nothing was
/// changed. After another error, there is something at `staged` as long as nothing was.
pub fn swap(staged: &Path, live: &Path, old: Old<'_>) -> Result<Switched, CopyError> {
    if !exists(staged)? {
        return Ok(Switched::Before);
    }
    require_idle(live)?;
    let held = hold(live)?;
    let is_changed = is_changed(live, old.was)?;
    let kept = old.keep.decide(is_changed, live.display())? && held.is_some();
    if kept {
        keep(live, old.aside)?;
    }
    clear_logs(live, kept.then_some(old.aside))?;
    if let Some(held) = &held {
        inherit(staged, held)?;
    }
    hit(Failpoint::SwapBefore)?;
    fs::rename(staged, live).map_err(CopyError::io(format!("replace {}", live.display())))?;
    sync_folder(live)?;
    hit(Failpoint::SwapDone)?;
    drop(held);
    Ok(if is_changed {
        Switched::Kept(old.aside.display().to_string())
    } else {
        Switched::Now
    })
}

/// What a database is; `None` when there is none.
///
/// # Errors
///
/// When it cannot be looked at.
pub fn stamp(live: &Path) -> Result<Option<Stamp>, CopyError> {
    exists(live)?.then(|| Stamp::of(live)).transpose()
}

/// Whether there is a database that is not what it was.
///
/// # Errors
///
/// When it cannot be looked at.
pub fn is_changed(live: &Path, was: Option<&Stamp>) -> Result<bool, CopyError> {
    Ok(stamp(live)?.is_some_and(|now| was != Some(&now)))
}

/// Locks the whole file, which keeps every new connection of `SQLite` out; `None` when there is none.
fn hold(live: &Path) -> Result<Option<File>, CopyError> {
    let file = match OpenOptions::new().read(true).write(true).open(live) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CopyError::io(format!("open {}", live.display()))(error)),
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            Err(in_use(live, String::new()))
        }
        Err(error) => Err(CopyError::io(format!("lock {}", live.display()))(
            error.into(),
        )),
    }
}

/// Keeps the old file under another name, too. What has that name already has to be the same file: another one is in no
/// copy either.
fn keep(live: &Path, aside: &Path) -> Result<(), CopyError> {
    match fs::hard_link(live, aside) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && same_file(live, aside) => {
            Ok(())
        }
        kept => kept.map_err(CopyError::io(format!(
            "keep {} as {}",
            live.display(),
            aside.display()
        ))),
    }
}

/// Removes what would be played into the new file. A log with something in it is somebody's, unless the old file is
/// kept: then it goes with that.
fn clear_logs(live: &Path, aside: Option<&Path>) -> Result<(), CopyError> {
    for suffix in ["-wal", "-journal"] {
        let log = sqlite::beside(live, suffix);
        let is_empty = log.metadata().map_or(true, |log| log.len() == 0);
        match aside {
            Some(aside) if !is_empty => fs::rename(&log, sqlite::beside(aside, suffix))
                .map_err(CopyError::io(format!("keep {}", log.display())))?,
            _ if is_empty => remove(&log)?,
            _ => return Err(in_use(live, String::new())),
        }
    }
    remove(&sqlite::beside(live, "-shm"))
}

/// Gives the new file the mode and, where that is allowed, the owner of the old one.
fn inherit(staged: &Path, old: &File) -> Result<(), CopyError> {
    let doing = || CopyError::io(format!("set the mode of {}", staged.display()));
    let old = old.metadata().map_err(doing())?;
    fs::set_permissions(staged, old.permissions()).map_err(doing())?;
    match std::os::unix::fs::chown(staged, Some(old.uid()), Some(old.gid())) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(doing()(error)),
        _ => Ok(()),
    }
}

/// Removes the new place of a restore, and whatever `SQLite` left beside it.
///
/// # Errors
///
/// When something is there and cannot be removed.
pub fn discard(staged: &Path) -> Result<(), CopyError> {
    for suffix in ["", "-wal", "-shm", "-journal", ANEW] {
        remove(&sqlite::beside(staged, suffix))?;
    }
    sync_folder(staged)
}

fn remove(path: &Path) -> Result<(), CopyError> {
    durable::remove_if_there(path).map_err(CopyError::io(format!("remove {}", path.display())))
}

fn sync_folder(path: &Path) -> Result<(), CopyError> {
    let folder = durable::folder_of(path);
    durable::sync_dir(folder).map_err(CopyError::io(format!("sync {}", folder.display())))
}

fn exists(path: &Path) -> Result<bool, CopyError> {
    path.try_exists()
        .map_err(CopyError::io(format!("look for {}", path.display())))
}
