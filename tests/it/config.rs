//! Wrong configurations: every problem in one message, and nothing written.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::support::{Backend, Output, World, files, now};

fn world() -> World {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", 1_800_000_000, None);
    world
}

/// Runs with a broken configuration: the exit code and the words of the message, and no file changed or made.
#[track_caller]
fn refused(world: &World, code: i32, words: &[&str]) {
    for args in [&["--run-now"][..], &["--dry-run"], &["check"]] {
        let before = files(world.dir.path());
        let output = world.run(args).expect(code);
        let told = format!("{}{}", output.stdout, output.stderr);
        for word in words {
            assert!(told.contains(word), "{word:?} is not in {output:#?}");
        }
        assert!(
            files(world.dir.path()) == before,
            "{args:?} wrote something"
        );
    }
}

#[test]
fn every_problem_of_a_configuration_is_in_one_message() {
    let mut world = world();
    world.configure("settle = \"0s\"", "settle = \"soon\"\nsetle = \"1s\"");
    world.configure("state_dir", "[schedule]\ncron = \"0 3 * *\"\ntimezone = \"Mars/Olympus\"\n[guard]\nmax_fraction = nan\n[x]\nstate_dir");
    world.configure(
        "[x]\nstate_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n",
        "",
    );
    refused(
        &world,
        78,
        &[
            "settle",
            "soon",
            "setle",
            "cron",
            "0 3 * *",
            "Mars/Olympus",
            "max_fraction",
            "nan",
        ],
    );
}

#[test]
fn two_stores_of_one_name_are_refused() {
    let mut world = world();
    world.config.push_str(
        "\n[[store]]\nname = \"agent\"\n[store.rows]\npath = \"other.db\"\npreset = \"ttl-days\"\n",
    );
    world.write_config();
    refused(&world, 78, &["agent"]);
}

#[test]
fn a_misspelt_column_stops_before_any_write() {
    let mut world = world();
    world.configure(
        "superseded_by = \"superseded_by\"",
        "superseded_by = \"superceded_by\"",
    );
    refused(&world, 10, &["superceded_by", "superseded_by"]);
}

#[test]
fn everything_that_does_not_fit_the_schema_is_in_one_message() {
    let mut world = world();
    world.configure(
        "superseded_by = \"superseded_by\"",
        "superseded_by = \"superceded_by\"\ncontent = \"contnet\"",
    );
    world.configure("table = \"users\"", "table = \"usres\"");
    world.configure(
        "path = \"vectors.db\"",
        "path = \"vectors.db\"\ntable = \"pionts\"",
    );
    refused(&world, 10, &["superceded_by", "contnet", "usres", "pionts"]);
}

#[test]
fn a_misspelt_owners_table_stops_before_any_write() {
    for (right, wrong) in [
        ("table = \"users\"", "table = \"usres\""),
        ("deleted_at = \"deleted_at", "deleted_at = \"delted_at"),
    ] {
        let mut world = world();
        world.memory("ana", 1_600_000_000, Some(7));
        world.configure(right, wrong);
        refused(
            &world,
            10,
            &[wrong
                .rsplit('"')
                .find(|part| part.contains("res") || part.contains("delted"))
                .unwrap()],
        );
    }
}

#[test]
fn a_missing_table_file_or_collection_stops_before_any_write() {
    let mut world = world();
    world.configure(
        "type = \"memory_type\"",
        "type = \"memory_type\"\ntable = \"memoires\"",
    );
    refused(&world, 10, &["memoires"]);
    world.configure("table = \"memoires\"", "table = \"memories\"");
    world.configure(
        "path = \"vectors.db\"",
        "path = \"vectors.db\"\ntable = \"pionts\"",
    );
    refused(&world, 10, &["pionts"]);
    world.configure("table = \"pionts\"", "table = \"points\"");
    world.configure("path = \"memory.db\"", "path = \"memroy.db\"");
    refused(&world, 10, &["memroy.db"]);
}

#[test]
fn a_missing_configuration_says_where_it_was_looked_for() {
    let world = world();
    std::fs::remove_file(world.path("hypnos.toml")).unwrap();
    let output = world.run(&["--run-now"]).expect(78);
    assert!(output.stderr.contains("hypnos.toml"), "{output:#?}");
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused() {
    let world = world();
    for args in [
        &["--run-now", "check"][..],
        &["--at", "+1d"],
        &["--frobnicate"],
        &["nap"],
        &["--only", "ttl"],
        &["--accept", "0123"],
        &["--run-now", "--accept", "HASH"],
        &["--run-now", "--accept", "0123456789abcde"],
        &["run"],
    ] {
        world.run(args).expect(2);
    }
}

/// `--store` before a command would be read by nobody: what was meant for one store would be done to all.
#[test]
fn what_narrows_a_run_is_refused_before_a_command() {
    let mut world = world();
    world.memory("ana", now(), None);
    let before = (world.dump(), world.all_points());
    for option in [
        ["--store", "agent"],
        ["--only", "ttl"],
        ["--skip", "ttl"],
        ["--accept", "0123456789abcdef"],
    ] {
        for command in [
            &["forget", "user:ana", "--yes"][..],
            &["undo", "last"],
            &["snapshot", "now"],
            &["status"],
            &["check"],
        ] {
            let args = [&option[..], command].concat();
            let refused = world.run(&args).expect(2);
            assert!(refused.stderr.contains(option[0]), "{refused:#?}");
            assert!(
                refused.stderr.contains("behind the command"),
                "{refused:#?}"
            );
        }
    }
    assert_eq!((world.dump(), world.all_points()), before);
    assert!(!world.path("snapshots").exists());
}

/// What keeps a run from writing is found by whoever only looks, too.
#[test]
fn a_trigger_that_cannot_run_is_found_by_check_and_dry_run() {
    let world = world();
    world
        .rows()
        .execute_batch(
            "CREATE TRIGGER needs_extension AFTER DELETE ON memories BEGIN SELECT no_such_function(old.id); END",
        )
        .unwrap();
    refused(&world, 10, &["no_such_function", "memories"]);
}

#[test]
fn a_folder_in_place_of_a_configuration_says_so() {
    let world = world();
    let folder = world.path("folder.toml");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let mut command = crate::support::hypnos();
    let output = Output::of(command.args(["--config", folder, "check"])).expect(78);
    assert!(output.stderr.contains("not the folder"), "{output:#?}");
}

/// Runs hypnos as somebody who may not do everything, whoever runs the tests.
fn unprivileged(world: &World, args: &[&str]) -> Output {
    let copy = world.path("hypnos");
    std::fs::copy(env!("CARGO_BIN_EXE_hypnos"), &copy).unwrap();
    set_permissions(world.dir.path(), Permissions::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(copy);
    command
        .arg("--config")
        .arg(world.path("hypnos.toml"))
        .args(args);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    Output::of(&mut command)
}

#[test]
fn what_may_not_be_read_is_named_with_what_to_do() {
    for (file, args, code, words) in [
        (
            "hypnos.toml",
            "check",
            78,
            ["Permission denied", "must be able to read"],
        ),
        (
            "memory.db",
            "check",
            1,
            ["memory.db", "needs to read and write"],
        ),
        (
            "memory.db",
            "--dry-run",
            1,
            ["memory.db", "needs to read and write"],
        ),
    ] {
        let world = world();
        set_permissions(world.path(file), Permissions::from_mode(0o000)).unwrap();
        let output = unprivileged(&world, &[args]).expect(code);
        let told = format!("{}{}", output.stdout, output.stderr);
        for word in words {
            assert!(told.contains(word), "{word:?} is not in {output:#?}");
        }
    }
}
