//! What is printed, and what becomes of the exit code when it cannot be.

use std::fs::OpenOptions;

use crate::support::{Backend, DAY, World, now, write};

#[test]
fn a_full_device_is_an_error_after_the_work_was_done() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now() - 40 * DAY, Some(7));
    for args in [
        &["--run-now"][..],
        &["--run-now", "--json"],
        &["status"],
        &["check"],
        &["presets"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = world.command(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("write the output"), "{args:?}: {stderr}");
    }
    assert_eq!(world.ids().len(), 0, "the work was done");
    let status = world.run(&["status", "--json"]).expect(0);
    let runs = status.objects("status")[0]["runs"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(runs.len(), 2);
    assert!(
        runs.iter().all(|run| run["exit"] == 0),
        "and journalled: {runs:#?}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = World::new(Backend::Sqlite);
    let mut child = world
        .command(&["presets"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_pass_that_is_asked_for_and_skipped_is_a_usage_error() {
    let world = World::new(Backend::Sqlite);
    for args in [
        &["--run-now", "--only", "ttl", "--skip", "ttl"][..],
        &["--dry-run", "--only", "ttl,orphans", "--skip", "orphans"],
    ] {
        let refused = world.run(args).expect(2);
        assert!(refused.stderr.contains("--skip"), "{refused:#?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_a_store_that_is_missing() {
    for name in ["memory.db", "vectors.db"] {
        let world = World::new(Backend::Sqlite);
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(world.path(&format!("{name}{suffix}")));
        }
        write(&world.path(name), &"this is no database ".repeat(500));
        for args in [&["--run-now"][..], &["--dry-run"], &["check"]] {
            let output = world.run(args).expect(10);
            let told = format!("{}{}", output.stdout, output.stderr);
            assert!(told.contains(name), "{output:#?}");
        }
        assert!(!world.path("state").exists(), "{name}: nothing is written");
    }
}

#[test]
fn a_night_without_its_store_is_in_the_journal_of_a_store_that_had_nights() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world.night().expect(0);
    world.configure("type = \"memory_type\"", "type = \"memory_typo\"");
    world.night().expect(10);
    let status = world.run(&["status", "--json"]).expect(0);
    let run = &status.objects("status")[0]["runs"][0];
    assert_eq!(
        (&run["exit"], &run["outcome"]),
        (&10.into(), &"failed".into()),
        "{status:#?}"
    );
}
