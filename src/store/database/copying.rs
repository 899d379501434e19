//! Making a copy, and putting it in a place.
//!
//! VACUUM INTO writes a copy of one state of the database beside a live writer, keeps every rowid, and holds no lock that a
//! writer in WAL mode would wait for. It leaves nothing of what was deleted, as a copy of the pages would. It follows links
//! and makes its file for everybody, so the file is made first. Where the application has given a table or an index a
//! function or collation of its own, nobody else can write those anew: then the pages are copied as they are, and what had
//! been deleted is said to be still in them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::thread;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{failed, journal_mode, open_copy, schema};
use crate::durable;
use crate::failpoint::{Failpoint, hit};
use crate::panics::joined;
use crate::stop::Stop;
use crate::store::anew::is_of_the_application;
use crate::store::copies::{CopiedFile, CopyError};
use crate::store::sqlite::{self, Access};
use crate::store::swap;

/// Steps of the virtual machine between two looks at the stop flag.
const STEPS_PER_LOOK: i32 = 10_000;
/// Pages that are copied between two looks at the stop flag.
const PAGES_PER_LOOK: i32 = 1_000;

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
