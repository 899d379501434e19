//! What a killed run leaves in the folder of a store's state: files under a temporary name, which nothing ever reads.
//!
//! Whoever writes one holds the lock of the store. So under the lock those go whose process is gone; a process that
//! lives keeps its own, and so does whoever made a name that is none of ours. A link goes as what it is, or stays.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::partition;
use super::{EPOCH, RESTORE};

/// What `SQLite` may put behind the name of a database.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Removes them, as far as they can be removed: they stand in nobody's way.
pub(super) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let writer = name.to_str().and_then(writer_of);
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file
            && writer.is_some_and(|pid| !is_alive(pid))
            && let Err(error) = fs::remove_file(entry.path())
        {
            let path = entry.path();
            tracing::warn!(%error, "what a killed run left cannot be removed: {}", path.display());
        }
    }
}

/// The process that made a temporary file of the state, by its name: `.NAME.PID-N.tmp`.
fn writer_of(file: &str) -> Option<Pid> {
    let file = BESIDE
        .iter()
        .find_map(|end| file.strip_suffix(end))
        .unwrap_or(file);
    let (name, writer) = file
        .strip_prefix('.')?
        .strip_suffix(".tmp")?
        .rsplit_once('.')?;
    let is_ours = [EPOCH, RESTORE].contains(&name) || partition::from_file_name(name).is_some();
    let (pid, number) = writer.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_ours && is_number(pid) && is_number(number))
        .then(|| pid.parse().ok().and_then(Pid::from_raw))
        .flatten()
}

/// Whether a process of that number may be there: what cannot be told counts as alive.
fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::super::Partition;
    use super::super::testing::{World, holder};
    use super::*;
    use crate::durable::{PRIVATE, write_new};

    /// The number of a process that is gone.
    fn dead() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn only_what_a_dead_process_left_under_a_name_of_ours_goes() {
        let world = World::new();
        drop(world.dir.open(Partition::Main).unwrap());
        let (dead, own) = (dead(), std::process::id());
        let tenant = Partition::Tenant("Zoë/2").file_name();
        let gone = [
            format!(".restore.json.{dead}-0.tmp"),
            format!(".main.db.{dead}-12.tmp"),
            format!(".main.db.{dead}-12.tmp-wal"),
            format!(".epoch.{dead}-3.tmp"),
            format!(".{tenant}.{dead}-0.tmp"),
        ];
        let stays = [
            format!(".restore.json.{own}-0.tmp"),
            ".main.db.1-0.tmp".to_owned(),
            format!(".notes.txt.{dead}-0.tmp"),
            format!("restore.json.{dead}-0.tmp"),
            format!(".main.db.{dead}-.tmp"),
            format!(".main.db.{dead}.tmp"),
            format!(".main.db.-{dead}-0.tmp"),
            ".main.db.0-0.tmp".to_owned(),
            ".main.db.99999999999-0.tmp".to_owned(),
        ];
        for name in gone.iter().chain(&stays) {
            write_new(&world.file(name), b"x", PRIVATE).unwrap();
        }
        let link = world.file(&format!(".main.db.{dead}-7.tmp"));
        symlink(world.file("main.db"), &link).unwrap();
        let folder = world.file(&format!(".main.db.{dead}-8.tmp"));
        fs::create_dir(&folder).unwrap();
        let _lock = world.dir.lock(&holder("run-1")).unwrap();
        for name in &gone {
            assert!(!world.file(name).exists(), "{name}");
        }
        for name in &stays {
            assert!(world.file(name).exists(), "{name}");
        }
        assert!(link.is_symlink() && folder.is_dir() && world.file("main.db").exists());
    }
}
