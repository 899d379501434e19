//! A disk that is full, read-only, or not ours: the error is clear, nothing is lost, and once it is mended the next run
//! does what was left.
//!
//! These need a file system of their own, and so root; without it each says so in one line and is done.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::checker::{after_one_more_run, at_any_time};
use crate::seed::{self, Case};
use crate::support::{BACKENDS, Backend, Output, files, hypnos, write};

/// A small file system in memory, gone when this is dropped.
struct Disk {
    folder: TempDir,
}

/// Bytes of a [`Disk`].
const SIZE: usize = 4 << 20;
/// User and group of nobody.
const NOBODY: &str = "65534";

impl Disk {
    /// `None`, and a line that says so, where nothing can be mounted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={SIZE},mode=0755");
        let mounted = mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], folder.path());
        if !mounted {
            println!("not checked: only root can mount the small file system that this needs");
        }
        mounted.then_some(Self { folder })
    }

    fn case(&self, backend: Backend) -> Case {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap();
        seed::full_on(backend, folder)
    }

    /// Leaves so many bytes free.
    fn fill(&self, free: usize) {
        let filler = self.filler();
        let status = rustix::fs::statvfs(self.folder.path()).unwrap();
        let left = usize::try_from(status.f_bavail * status.f_frsize).unwrap();
        write(&filler, &"x".repeat(left.saturating_sub(free)));
    }

    fn empty(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }

    fn remount(&self, how: &str) {
        assert!(mount(
            &["-o", &format!("remount,{how}")],
            self.folder.path()
        ));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .status();
    }
}

fn mount(options: &[&str], folder: &Path) -> bool {
    let mounted = Command::new("mount").args(options).arg(folder).output();
    mounted.is_ok_and(|output| output.status.success())
}

/// What holds after a night on a sick disk, and after the next one on a sound one.
fn check(case: &Case, sick: &Output, mend: impl FnOnce()) -> Result<(), String> {
    let words = ["full", "No space", "disk I/O error", "ead-only", "refuses"];
    let says = |word: &&str| sick.stdout.contains(*word) || sick.stderr.contains(*word);
    if sick.code != Some(0) && !words.iter().any(says) {
        return Err(format!("no clear error: {sick:#?}"));
    }
    if !matches!(sick.code, Some(0 | 1 | 3 | 10)) {
        return Err(format!("{sick:#?}"));
    }
    // Nobody can open a database there before.
    mend();
    let seen = at_any_time(case)?;
    let next = case.world.night();
    if next.code != Some(0) {
        return Err(format!("after the disk was mended: {next:#?}"));
    }
    after_one_more_run(case, &seen)
}

#[test]
fn a_full_disk_loses_nothing() {
    for backend in BACKENDS {
        let mut failed = 0;
        for kib in [0, 4, 20, 60, 100, 140, 200, 280, 400] {
            let Some(disk) = Disk::mount() else { return };
            let case = disk.case(backend);
            disk.fill(kib << 10);
            let night = case.world.night();
            failed += u32::from(night.code != Some(0));
            check(&case, &night, || disk.empty())
                .unwrap_or_else(|why| panic!("{backend:?}, {kib} KiB free: {why}"));
        }
        assert!(
            failed > 3,
            "{backend:?}: only {failed} nights met the full disk"
        );
        println!("{backend:?}: {failed} nights on a full disk");
    }
}

#[test]
fn a_read_only_store_stays_as_it_is() {
    for backend in BACKENDS {
        let Some(disk) = Disk::mount() else { return };
        let case = disk.case(backend);
        let before = files(case.world.dir.path());
        disk.remount("ro");
        let night = case.world.night();
        assert_ne!(night.code, Some(0), "{night:#?}");
        assert!(
            files(case.world.dir.path()) == before,
            "{backend:?}: something was written"
        );
        check(&case, &night, || disk.remount("rw"))
            .unwrap_or_else(|why| panic!("{backend:?}: {why}"));
    }
}

/// Another user may read the store, or not even that: nothing is changed, and the owner's next run does the work.
#[test]
fn a_store_of_somebody_else_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    for backend in BACKENDS {
        for mode in [0o755, 0o700] {
            let Some(disk) = Disk::mount() else { return };
            let case = disk.case(backend);
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(case.world.dir.path(), permissions).unwrap();
            let before = files(case.world.dir.path());
            let night = as_nobody(&case, &disk);
            assert_ne!(night.code, Some(0), "{night:#?}");
            assert!(
                files(case.world.dir.path()) == before,
                "{backend:?}: something was written"
            );
            let Some(0..=78) = night.code else {
                panic!("{night:#?}")
            };
            let seen = at_any_time(&case).unwrap();
            let _ = case.world.night().expect(0);
            after_one_more_run(&case, &seen).unwrap_or_else(|why| panic!("{backend:?}: {why}"));
        }
    }
}

/// A night of a user who owns nothing.
fn as_nobody(case: &Case, disk: &Disk) -> Output {
    // The folder of the binary may be closed to others.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hypnos");
    let _ = std::fs::copy(hypnos().get_program(), &program).unwrap();
    for open in [folder.path(), disk.folder.path()] {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(program)
        .arg("--config")
        .arg(case.world.path("hypnos.toml"))
        .args(["--run-now", "--json"]);
    Output::of(&mut command)
}
