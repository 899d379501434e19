//! A disk that is full, read-only, or not ours: the error is clear, nothing is lost, and once it is mended the next run
//! does what was left.
//!
//! These need a file system of their own, and so root; without it each says so in one line and is done.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::checker::{after_one_more_run, at_any_time};
use crate::seed::{self, Case};
use crate::support::{BACKENDS, Backend, Output, World, files, hypnos, now, write};

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
        Self::of(SIZE)
    }

    fn of(bytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={bytes},mode=0755");
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

/// A store with half a megabyte of live rows and two of free pages, which a night vacuums and copies; its state and its
/// pairs are on a disk of their own.
fn hollow(folder: TempDir, apart: &Path) -> World {
    let mut world = World::in_folder(Backend::Sqlite, folder);
    let bounds = "[pass.vacuum]\nmin_free_bytes = \"64KiB\"\n[[store]]";
    let (state, pairs) = (apart.join("state"), apart.join("snapshots"));
    world
        .configure("[pass.snapshot]\nenabled = false\n", "")
        .configure("[[store]]", bounds)
        .configure("\"state\"", &format!("{:?}", state.display().to_string()))
        .configure(
            "\"snapshots\"",
            &format!("{:?}", pairs.display().to_string()),
        );
    world.user("ana", None);
    for _ in 0..20 {
        world.memory("ana", now(), None);
    }
    let fill = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                SELECT randomblob(?1) FROM n";
    let db = world.rows();
    for (table, bytes) in [("ballast", 1000), ("junk", 4000)] {
        db.execute_batch(&format!("CREATE TABLE {table}(x)"))
            .unwrap();
        let _ = db
            .execute(&format!("INSERT INTO {table} {fill}"), [bytes])
            .unwrap();
    }
    db.execute_batch("DROP TABLE junk").unwrap();
    drop(db);
    world
}

/// What a night on a full disk did, and what holds afterwards: clear words, every pair good, nothing left behind, nothing
/// lost, and the next night does the rest.
fn harmless(world: &World, night: &Output, pairs: &Path, before: &str, mend: impl FnOnce()) {
    let says = |word: &&str| night.stdout.contains(*word) || night.stderr.contains(*word);
    if night.code != Some(0) {
        assert_eq!(night.code, Some(1), "{night:#?}");
        assert!(["full", "No space"].iter().any(says), "{night:#?}");
    }
    let hidden = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with('.'))
            .collect::<Vec<_>>()
    };
    assert_eq!(hidden(pairs), [""; 0], "{night:#?}");
    assert_eq!(hidden(world.dir.path()), [""; 0]);
    mend();
    let _ = world.run(&["snapshot", "verify"]).expect(0);
    assert_eq!(world.dump(), before);
    let _ = world.night().expect(0);
    assert_eq!(world.dump(), before);
    assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");
    let _ = world.run(&["check"]).expect(0);
}

#[test]
fn a_pair_that_finds_no_room_costs_no_other_and_leaves_nothing() {
    let mut failed = 0;
    // Room for nothing, for a part of the rows, for them and a part of the points, for all but the manifest, for all.
    for kib in (0..60).step_by(4).chain((60..800).step_by(60)) {
        let Some(disk) = Disk::of(SIZE) else { return };
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut world = hollow(folder, state.path());
        let pairs = disk.folder.path().join("snapshots");
        let old = state.path().join("snapshots").display().to_string();
        world.configure(&old, &pairs.display().to_string());
        let _ = world.run(&["snapshot", "now"]).expect(0);
        world.memory("ana", now(), None);
        let before = world.dump();
        disk.fill(kib << 10);
        let night = world.run(&["--run-now", "--only", "snapshot", "--json"]);
        failed += u32::from(night.code != Some(0));
        harmless(&world, &night, &pairs.join("agent"), &before, || {
            disk.empty();
        });
    }
    println!("{failed} pairs that found no room");
    assert!(failed > 10, "only {failed} pairs met the full disk");
}

#[test]
fn a_forget_that_finds_no_room_for_a_pair_without_the_owner_drops_none_and_says_why() {
    let Some(disk) = Disk::of(SIZE) else { return };
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut world = hollow(folder, state.path());
    world.user("bea", None);
    world.memory("bea", now(), None);
    let pairs = disk.folder.path().join("snapshots");
    let old = state.path().join("snapshots").display().to_string();
    world.configure(&old, &pairs.display().to_string());
    let _ = world.run(&["snapshot", "now"]).expect(0);
    disk.fill(60 << 10);
    let before = files(&pairs);
    let refused = world.run(&["snapshot", "now"]).expect(1);
    let args = ["forget", "user:bea", "--snapshots", "--yes"];
    let told = world.run(&args).expect(1);
    let last = |output: &Output| output.stderr.lines().last().map(str::to_owned);
    assert_eq!(last(&told), last(&refused), "the advice is the same");
    assert!(told.stderr.contains("is full"), "{told:#?}");
    assert!(told.stdout.contains("REMAINS"), "{told:#?}");
    assert!(files(&pairs) == before, "a pair went");
    disk.empty();
    let _ = world.run(&args).expect(0);
    assert_eq!(
        world
            .run(&["snapshot", "list", "--json"])
            .expect(0)
            .objects("pair")
            .len(),
        1
    );
}

/// A vacuum asks for room first; here the disk fills up after that, while it is about to begin.
#[test]
fn a_vacuum_that_finds_no_room_changes_nothing() {
    let mut failed = 0;
    for kib in [0, 4, 16, 64, 256, 400, 520, 600] {
        let Some(disk) = Disk::of(16 << 20) else {
            return;
        };
        let folder = tempfile::tempdir_in(disk.folder.path()).unwrap();
        let apart = tempfile::tempdir().unwrap();
        let world = hollow(folder, apart.path());
        let _ = world.run(&["snapshot", "now"]).expect(0);
        let before = world.dump();
        let night = world.held(
            &["--run-now", "--only", "vacuum", "--json"],
            "vacuum.before=1*return(hold)",
        );
        disk.fill(kib << 10);
        let night = night.let_go();
        failed += u32::from(night.code != Some(0));
        let pairs = apart.path().join("snapshots/agent");
        harmless(&world, &night, &pairs, &before, || disk.empty());
        assert_eq!(
            world
                .rows()
                .pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0)),
            Ok(0)
        );
    }
    println!("{failed} vacuums that found no room");
    assert!(failed > 0, "no vacuum met the full disk");
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
