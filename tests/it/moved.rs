//! Whose state it is: another store under the same name, and a store that has moved.

use std::fs;

use crate::support::{Backend, DAY, Output, World, dump, files, hypnos, now, open, write};

/// A store of which the first night only reports, with an expired memory; and a copy of it in `b`, configured in `b.toml`
/// with the same name and the same folder of states.
fn two_of_one_name() -> World {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now() - 20 * DAY, Some(7));
    world.memory("ana", now(), None);
    world.configure(
        "name = \"agent\"",
        "name = \"agent\"\nfirst_run = \"report\"",
    );
    let other = world.copied_to("b");
    write(&world.path("b.toml"), &other);
    world
}

fn other(world: &World, args: &[&str]) -> Output {
    let mut command = hypnos();
    command.arg("--config").arg(world.path("b.toml")).args(args);
    Output::of(&mut command)
}

fn hash(night: &Output) -> String {
    let refusal = night.pass("ttl")["refusal"].clone();
    assert_eq!(refusal["limit"], "first_run", "{night:#?}");
    refusal["accept"].as_str().unwrap().to_owned()
}

/// The first store, with its pass ttl accepted.
fn accepted(world: &World) {
    let hash = hash(&world.night().expect(3));
    let night = world
        .run(&["--run-now", "--json", "--accept", &hash])
        .expect(0);
    assert_eq!(night.pass("ttl")["applied"]["delete"], 1);
}

#[test]
fn what_was_accepted_for_one_store_removes_nothing_from_another_of_its_name() {
    let world = two_of_one_name();
    accepted(&world);
    let whole = || {
        (
            dump(&world.path("state/agent/main.db")),
            dump(&world.path("b/memory.db")),
            dump(&world.path("b/vectors.db")),
        )
    };
    let before = whole();
    for args in [
        &["--run-now"] as &[&str],
        &["--run-now", "--accept", "0123456789abcdef"],
        &["--dry-run"],
        &["review", "keep", "1"],
        &["review", "snooze", "1"],
        &["undo", "last"],
        &["undo", "last", "--dry-run"],
        &["forget", "user:ana", "--yes"],
        &["forget", "user:ana", "--dry-run"],
        &["snapshot", "now"],
    ] {
        let refused = other(&world, args).expect(78);
        for part in ["another store of the name \"agent\"", "rows.path was"] {
            let is_named = [&refused.stdout, &refused.stderr].map(|said| said.contains(part));
            assert!(is_named.contains(&true), "{args:?} {refused:#?}");
        }
        assert_eq!(whole(), before, "{args:?}");
    }
    // A name of its own, and it waits like the first one did.
    let own = fs::read_to_string(world.path("b.toml")).unwrap();
    write(
        &world.path("b.toml"),
        &own.replace("\"agent\"", "\"second\""),
    );
    let _ = hash(&other(&world, &["--run-now", "--json"]).expect(3));
    assert_eq!(dump(&world.path("b/memory.db")), before.1);
    assert_eq!(world.night().expect(0).pass("ttl")["outcome"], "idle");
}

#[test]
fn a_store_that_has_moved_goes_on_once_a_person_says_so_and_each_pass_is_asked_anew() {
    let world = two_of_one_name();
    accepted(&world);
    let refused = other(&world, &["--run-now"]).expect(78);
    let rows = dump(&world.path("b/memory.db"));
    let (_, after) = refused.stdout.split_once("--accept ").unwrap();
    let moved = after.split_whitespace().next().unwrap();
    let night = other(&world, &["--run-now", "--json", "--accept", moved]).expect(3);
    assert!(!night.stderr.contains("accepted hash"), "{night:#?}");
    let ttl = hash(&night);
    assert_eq!(dump(&world.path("b/memory.db")), rows);
    let night = other(&world, &["--run-now", "--json", "--accept", &ttl]).expect(0);
    assert_eq!(night.pass("ttl")["applied"]["delete"], 1);
    // The place that it has left is another store by now.
    let before = files(&world.path("state"));
    let _ = world.night().expect(78);
    assert_eq!(files(&world.path("state")).len(), before.len());
}

#[test]
fn a_state_of_before_counts_for_the_store_of_its_newest_intents_and_is_accepted_anew() {
    let mut world = two_of_one_name();
    accepted(&world);
    open(&world.path("state/agent/main.db"))
        .execute_batch(
            "DROP TABLE place; DROP TABLE counted; DROP TABLE snoozes; ALTER TABLE runs DROP COLUMN accounted; PRAGMA user_version = 6",
        )
        .unwrap();
    let _ = other(&world, &["--run-now"]).expect(78);
    world.memory("ana", now() - 20 * DAY, Some(7));
    let _ = hash(&world.night().expect(3));
}

#[test]
fn no_pair_is_put_back_by_the_removals_of_another_store() {
    let world = two_of_one_name();
    accepted(&world);
    let states = |name: &str| world.path("state").join(name);
    // A pair of the other store from before it got this state.
    fs::rename(states("agent"), states("aside")).unwrap();
    let pair = other(&world, &["--json", "snapshot", "now"]).expect(0);
    let pair = pair.objects("pair")[0]["pair"].as_str().unwrap().to_owned();
    fs::rename(states("agent"), states("own")).unwrap();
    fs::rename(states("aside"), states("agent")).unwrap();
    let whole = || {
        ["b/memory.db", "b/vectors.db", "state/agent/main.db"].map(|file| dump(&world.path(file)))
    };
    let before = whole();
    let restore = ["snapshot", "restore", &pair, "--without-state"];
    let refused = other(&world, &restore).expect(78);
    for part in ["another store of the name", "nothing of pair"] {
        assert!(refused.stderr.contains(part), "{refused:#?}");
    }
    assert_eq!(whole(), before);
    // By its own state it is put back.
    fs::rename(states("agent"), states("aside")).unwrap();
    fs::rename(states("own"), states("agent")).unwrap();
    let restored = other(&world, &["snapshot", "restore", &pair]).expect(3);
    let expected = format!("pair {pair} is put back");
    assert!(restored.stderr.contains(&expected), "{restored:#?}");
}

#[test]
fn what_is_told_of_another_store_says_so_in_a_line() {
    let world = two_of_one_name();
    accepted(&world);
    for args in [&["status"] as &[&str], &["review"], &["why", "1"]] {
        for (told, times) in [(other(&world, args), 1), (world.run(args), 0)] {
            let told = told.expect(0);
            let said = told.stderr.lines();
            let said = said.filter(|line| line.contains("another store of the name \"agent\""));
            assert_eq!(said.count(), times, "{args:?} {told:#?}");
        }
    }
}

#[test]
fn a_command_by_hand_makes_a_new_state_that_of_its_store() {
    let world = two_of_one_name();
    let _ = world.run(&["forget", "user:nobody", "--yes"]).expect(0);
    let _ = other(&world, &["--run-now"]).expect(78);
    let _ = hash(&world.night().expect(3));
}
