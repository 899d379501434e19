//! `snapshot restore`: both halves or none, nothing back that was removed later, and never under an agent's feet.

use std::collections::BTreeMap;
use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{BACKENDS, Backend, DAY, Output, Point, World, holds, now};

mod cut_off;

fn world() -> World {
    world_on(Backend::Sqlite)
}

fn world_on(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.configure("[pass.snapshot]\nenabled = false\n", "");
    world.user("ana", None);
    world.user("bob", None);
    for user in ["ana", "ana", "bob"] {
        world.memory(user, now() - 5 * DAY, None);
    }
    world
        .rows()
        .execute("INSERT INTO memory_tags VALUES(1, 'tag')", [])
        .unwrap();
    world
}

/// Takes a pair and answers its name.
fn pair(world: &World) -> String {
    let taken = world.run(&["snapshot", "now", "--json"]).expect(0);
    taken.objects("pair")[0]["pair"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn restore(world: &World, pair: &str, flags: &[&str]) -> Output {
    let mut args = vec!["snapshot", "restore", pair, "--json"];
    args.extend(flags);
    world.run(&args)
}

type State = (String, BTreeMap<Uuid, Point>);

fn state(world: &World) -> State {
    (world.dump(), world.all_points())
}

/// Changes both halves so that nothing is as it was.
fn upset(world: &mut World) {
    let added = world.memory("ana", now(), None);
    assert!(added > 3);
    world
        .rows()
        .execute_batch("UPDATE memories SET content = 'changed' WHERE id = 1; DELETE FROM memory_tags; DELETE FROM memories WHERE id = 2")
        .unwrap();
    world.put_as("user:ana", 1, 3);
}

fn restored(output: &Output) -> Value {
    output.objects("restored").pop().unwrap()
}

/// What is beside the live files and is none of them.
fn left_overs(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.dir.path()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".hypnos-") || name.contains(".before-"))
        .collect();
    names.extend(
        ["restore.json"]
            .into_iter()
            .filter(|name| world.path("state/agent").join(name).exists())
            .map(str::to_owned),
    );
    names.sort();
    names
}

#[test]
fn both_halves_are_as_they_were_and_what_was_there_became_a_pair() {
    let cases = [
        (Backend::Sqlite, "wal"),
        (Backend::Sqlite, "delete"),
        (Backend::Qdrant, "wal"),
    ];
    for (backend, mode) in cases {
        let mut world = world_on(backend);
        world
            .rows()
            .pragma_update(None, "journal_mode", mode)
            .unwrap();
        let then = state(&world);
        let pair = pair(&world);
        upset(&mut world);
        let before = state(&world);
        assert_ne!(then, before);
        let output = restore(&world, &pair, &[]);
        let line = restored(&output);
        assert_eq!((&line["memories"], &line["points"]), (&json!(3), &json!(3)));
        // The other journal modes are a problem that a check tells of.
        let code = if mode == "wal" { 0 } else { 3 };
        assert_eq!(output.code, Some(code), "{output:#?}");
        assert_eq!(output.objects("check")[0]["ok"], code == 0, "{output:#?}");
        assert_eq!(state(&world), then);
        let is: String = world
            .rows()
            .query_row("PRAGMA journal_mode", [], |row| row.get(0))
            .unwrap();
        assert_eq!(is, mode);
        assert_eq!(left_overs(&world), [""; 0]);
        // And back again.
        let safety = line["safety_pair"].as_str().unwrap();
        // A point whose row was gone then is so again, and told.
        restore(&world, safety, &[]).expect(3);
        assert_eq!(state(&world), before);
    }
}

/// The last line on stderr of a restore.
fn last_words(output: &Output) -> String {
    output.stderr.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn what_is_put_back_with_drift_is_told_from_what_is_refused_under_the_same_code() {
    let mut world = world();
    world.ghost("user:ana");
    let pair = pair(&world);
    let done = restore(&world, &pair, &[]).expect(3);
    assert_eq!(done.objects("restored").len(), 1, "{done:#?}");
    assert_eq!(done.objects("error"), [json!(null); 0], "{done:#?}");
    let told = last_words(&done);
    assert!(told.contains(&format!("pair {pair} is put back")), "{told}");
    let agent = world.rows();
    agent.execute_batch("BEGIN; SELECT * FROM users").unwrap();
    let refused = restore(&world, &pair, &[]).expect(3);
    assert_eq!(refused.objects("restored").len(), 0, "{refused:#?}");
    assert_eq!(refused.objects("error")[0]["exit"], 3, "{refused:#?}");
    let told = last_words(&refused);
    let nothing = format!("nothing of pair {pair} was put back: stop the agent");
    assert!(told.contains(&nothing), "{told}");
    drop(agent);
    // Without an advice, too.
    let missing = restore(&world, "2020-01-01T00-00-00Z", &[]).expect(2);
    assert!(last_words(&missing).contains("list shows"), "{missing:#?}");
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN more")
        .unwrap();
    let other = restore(&world, &pair, &[]).expect(3);
    let nothing = format!("nothing of pair {pair} was put back");
    assert!(last_words(&other).ends_with(&nothing), "{other:#?}");
}

#[test]
fn what_was_removed_later_stays_removed_unless_a_person_wants_it() {
    for backend in BACKENDS {
        let mut world = world_on(backend);
        let expired = world.memory("ana", now() - 40 * DAY, Some(7));
        let ghost = world.ghost("user:ana");
        let pair = pair(&world);
        let night = world.night().expect(0);
        assert_eq!(night.pass("ttl")["applied"], json!({"delete": 1}));
        assert_eq!(night.pass("orphans")["applied"], json!({"drop_point": 1}));
        upset(&mut world);
        let line = restored(&restore(&world, &pair, &[]).expect(0));
        assert_eq!(
            line["taken_out"],
            json!({"memories": 1, "marked": 0, "points": 2})
        );
        assert_eq!(world.ids(), [1, 2, 3].into());
        assert_eq!(world.point_rows(), [1, 2, 3].into());
        let line = restored(&restore(&world, &pair, &["--bring-back"]).expect(3));
        assert_eq!(
            line["taken_out"],
            json!({"memories": 0, "marked": 0, "points": 0})
        );
        assert_eq!(world.ids(), [1, 2, 3, expired].into());
        assert_eq!(world.point_rows(), [1, 2, 3, expired, ghost].into());
    }
}

#[test]
fn an_owner_who_was_erased_never_comes_back() {
    let cases = [
        (Backend::Sqlite, &[][..]),
        (Backend::Sqlite, &["--bring-back"]),
        (Backend::Qdrant, &["--bring-back"]),
    ];
    for (backend, flags) in cases {
        let mut world = world_on(backend);
        world
            .rows()
            .execute_batch(
                "CREATE VIRTUAL TABLE words USING fts5(content, content = 'memories', content_rowid = 'id');
                 INSERT INTO words(words) VALUES ('rebuild');
                 CREATE TRIGGER words_out AFTER DELETE ON memories BEGIN
                   INSERT INTO words(words, rowid, content) VALUES ('delete', old.id, old.content); END",
            )
            .unwrap();
        world.ghost("user:bob");
        let pair = pair(&world);
        world
            .rows()
            .execute(
                "UPDATE users SET deleted_at = ?1 WHERE id = 'bob'",
                [now() - DAY],
            )
            .unwrap();
        let night = world.night().expect(0);
        assert_eq!(night.pass("orphans")["applied"]["delete"], 1, "{night:#?}");
        upset(&mut world);
        let line = restored(&restore(&world, &pair, flags).expect(0));
        assert_eq!(line["taken_out"]["memories"], 1, "{line}");
        assert_eq!(line["taken_out"]["points"], 2, "{line}");
        assert_eq!(world.ids(), [1, 2].into());
        assert_eq!(world.point_rows(), [1, 2].into());
        let found: i64 = world
            .rows()
            .query_row(
                "SELECT count(*) FROM words WHERE words MATCH 'bob'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(found, 0);
        let bytes = fs::read(world.path("memory.db")).unwrap();
        let marker = "canary bob 3";
        let is_there = holds(&bytes, marker);
        assert!(!is_there, "the text is still in the file");
    }
}

/// A second, or a day, that the clock is set back between a pair and an erasure changes nothing.
#[test]
fn an_owner_who_was_erased_under_another_clock_never_comes_back() {
    let forget: &[&str] = &["forget", "user:bob", "--yes"];
    for (backend, erase) in BACKENDS
        .into_iter()
        .flat_map(|backend| [(backend, forget), (backend, &["--run-now"])])
    {
        let mut world = world_on(backend);
        let shifted = |args: &[&str], seconds: i64| {
            fs::write(world.path("clock"), seconds.to_string()).unwrap();
            let clock = world.path("clock");
            Output::of(world.command(args).env("HYPNOS_TEST_CLOCK", clock))
        };
        let before = shifted(&["snapshot", "now", "--json"], 5).expect(0);
        let before = before.objects("pair")[0]["pair"].clone();
        world
            .rows()
            .execute(
                "UPDATE users SET deleted_at = ?1 WHERE id = 'bob'",
                [now() - 3 * DAY],
            )
            .unwrap();
        shifted(erase, -DAY).expect(0);
        assert_eq!(world.ids(), [1, 2].into(), "{erase:?}");
        upset(&mut world);
        let line =
            restored(&restore(&world, before.as_str().unwrap(), &["--bring-back"]).expect(0));
        assert_eq!(line["taken_out"]["memories"], 1, "{erase:?}: {line}");
        assert_eq!(world.ids(), [1, 2].into());
        assert_eq!(world.point_rows(), [1, 2].into());
    }
}

/// Who came back after the erasure is in a pair that was taken since then, and comes back with it.
#[test]
fn an_owner_who_is_there_again_is_put_back() {
    let mut world = world();
    world.run(&["forget", "user:bob", "--yes"]).expect(0);
    let again = world.memory("bob", now(), None);
    let pair = pair(&world);
    upset(&mut world);
    restore(&world, &pair, &[]).expect(0);
    assert_eq!(world.ids(), [1, 2, again].into());
}

/// Nobody knows any more who was erased: a person has to say that he may come back.
#[test]
fn without_the_state_nothing_is_put_back_but_on_request() {
    let mut world = world();
    let pair = pair(&world);
    let old = world.path("state.old");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        fs::create_dir_all(to.join("agent")).unwrap();
        for entry in fs::read_dir(from.join("agent")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join("agent").join(entry.file_name())).unwrap();
        }
    };
    copy(&world.path("state"), &old);
    world.run(&["forget", "user:bob", "--yes"]).expect(0);
    let later = self::pair(&world);
    upset(&mut world);
    let present = state(&world);
    let refuses = |pair: &str| {
        let refused = restore(&world, pair, &[]);
        assert_eq!(refused.code, Some(3), "{refused:#?}");
        assert!(refused.stdout.contains("--without-state"), "{refused:#?}");
        assert_eq!(state(&world), present);
    };
    // Put back to what it was before the erasure: of the second pair it knows that something is missing.
    fs::remove_dir_all(world.path("state")).unwrap();
    copy(&old, &world.path("state"));
    refuses(&later);
    fs::remove_dir_all(world.path("state")).unwrap();
    for _ in 0..2 {
        refuses(&pair);
    }
    restore(&world, &pair, &["--without-state"]).expect(0);
    assert_eq!(world.ids(), [1, 2, 3].into());
}

/// A table beside the memories has a collation of the application's: nobody else can write the file anew. Its pages are
/// copied, and what a restore takes out is overwritten.
#[test]
fn a_database_that_cannot_be_written_anew_is_copied_and_put_back() {
    let mut world = world();
    world
        .rows()
        .execute_batch(
            "CREATE TABLE own(x TEXT COLLATE binary PRIMARY KEY); INSERT INTO own VALUES('a'); PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, 'binary', 'mine') WHERE name = 'own'",
        )
        .unwrap();
    let before = state(&world);
    let night = world.night().expect(0);
    assert_eq!(night.pass("snapshot")["outcome"], "applied", "{night:#?}");
    let _ = world.night().expect(0).all_passes("idle");
    let pair = pair(&world);
    let _ = world.run(&["snapshot", "verify"]).expect(0);
    upset(&mut world);
    let _ = restore(&world, &pair, &[]).expect(0);
    assert_eq!(state(&world), before);

    let _ = world.run(&["forget", "user:bob", "--yes"]).expect(0);
    let left = state(&world);
    upset(&mut world);
    let line = restored(&restore(&world, &pair, &[]).expect(0));
    assert_eq!(line["taken_out"]["memories"], 1, "{line}");
    assert_eq!(state(&world), left);
    let bytes = fs::read(world.path("memory.db")).unwrap();
    let marker = "canary bob 3";
    let is_there = holds(&bytes, marker);
    assert!(!is_there, "the text is still in the file");
    let manifest = world
        .path("snapshots/agent")
        .join(&pair)
        .join("manifest.json");
    let manifest = fs::read_to_string(manifest).unwrap();
    assert!(manifest.contains("\"keeps_deleted\": true"), "{manifest}");
}

#[test]
fn a_memory_that_was_written_after_the_removal_is_another_one() {
    let mut world = world();
    let expired = world.memory("ana", now() - 40 * DAY, Some(7));
    let first = pair(&world);
    world.night().expect(0);
    // The key is used again, and a later pair has that memory.
    world
        .rows()
        .execute(
            "INSERT INTO memories(id, user_id, content, content_hash, created_at) VALUES (?1, 'ana', 'new', 'h', ?2)",
            [expired, now() + 60],
        )
        .unwrap();
    world.point("user:ana", expired);
    let second = pair(&world);
    assert_ne!(first, second);
    restore(&world, &second, &[]).expect(0);
    assert!(world.ids().contains(&expired));
    restore(&world, &first, &[]).expect(0);
    assert!(!world.ids().contains(&expired));
}

#[test]
fn nothing_is_put_back_under_the_feet_of_an_agent() {
    for mode in ["wal", "delete"] {
        for file in ["memory.db", "vectors.db"] {
            let mut world = world();
            let pair = pair(&world);
            upset(&mut world);
            let before = state(&world);
            // Open, and idle.
            let agent = Connection::open(world.path(file)).unwrap();
            agent.pragma_update(None, "journal_mode", mode).unwrap();
            agent
                .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
                .unwrap();
            let refused = restore(&world, &pair, &[]).expect(3);
            assert!(
                refused.stdout.contains("in use") || refused.stderr.contains("in use"),
                "{refused:#?}"
            );
            drop(agent);
            assert_eq!(state(&world), before);
            assert_eq!(left_overs(&world), [""; 0]);
            restore(&world, &pair, &[]).expect(0);
        }
    }
}

#[test]
fn a_pair_that_cannot_be_trusted_changes_nothing() {
    type Spoil = fn(&World, &std::path::Path);
    let cases: [(Spoil, i32); 4] = [
        (
            |_, pair| fs::remove_file(pair.join("vectors.db")).unwrap(),
            1,
        ),
        (|_, pair| fs::write(pair.join("rows-1.db"), "").unwrap(), 1),
        (
            |_, pair| fs::write(pair.join("manifest.json"), "{}").unwrap(),
            1,
        ),
        (
            |world, _| {
                world
                    .rows()
                    .execute_batch("ALTER TABLE memories ADD COLUMN later")
                    .unwrap();
            },
            3,
        ),
    ];
    for (index, (spoil, code)) in cases.into_iter().enumerate() {
        let mut world = world();
        let pair = pair(&world);
        upset(&mut world);
        spoil(&world, &world.path("snapshots/agent").join(&pair));
        let before = state(&world);
        let refused = restore(&world, &pair, &[]);
        assert_eq!(refused.code, Some(code), "{index}: {refused:#?}");
        assert_eq!(state(&world), before, "{index}");
        assert_eq!(left_overs(&world), [""; 0], "{index}");
    }
}

#[test]
fn what_is_lost_or_damaged_is_put_back_on_request_and_kept_aside() {
    type Spoil = fn(&std::path::Path);
    let spoils: [(&str, Spoil); 3] = [
        ("memory.db", |path| fs::remove_file(path).unwrap()),
        ("memory.db", |path| {
            fs::write(path, "not a database").unwrap();
        }),
        ("vectors.db", |path| fs::write(path, vec![7; 8192]).unwrap()),
    ];
    for (file, spoil) in spoils {
        let world = world();
        let then = state(&world);
        let pair = pair(&world);
        spoil(&world.path(file));
        let was_there = world.path(file).exists();
        let refused = restore(&world, &pair, &[]);
        assert!(matches!(refused.code, Some(1 | 10)), "{refused:#?}");
        assert!(
            refused.stdout.contains("--no-safety-pair")
                || refused.stderr.contains("--no-safety-pair"),
            "{refused:#?}"
        );
        let line = restored(&restore(&world, &pair, &["--no-safety-pair"]).expect(0));
        assert_eq!(line["safety_pair"], json!(null));
        assert_eq!(state(&world), then);
        let kept = left_overs(&world);
        let is_kept = kept
            .iter()
            .any(|name| name.starts_with(&format!("{file}.before-")));
        assert_eq!(is_kept, was_there, "{kept:?}");
    }
}

#[test]
fn a_half_restored_store_is_opened_by_nobody() {
    let mut world = world();
    let pair = pair(&world);
    upset(&mut world);
    let killed = Output::of(
        world
            .command(&["snapshot", "restore", &pair])
            .env("FAILPOINTS", "restore.switched=return(kill)"),
    );
    assert_eq!(killed.code, None);
    for args in [&["check"][..], &["--dry-run"], &["snapshot", "now"]] {
        let refused = world.run(args);
        assert_eq!(refused.code, Some(3), "{args:?}: {refused:#?}");
    }
    world.night().expect(0);
    world.run(&["check"]).expect(0);
    assert_eq!(left_overs(&world), [""; 0]);
}

#[test]
fn a_pair_is_named_and_known() {
    let world = world();
    pair(&world);
    for unknown in ["2020-01-01T00-00-00Z", "..", "../agent", ""] {
        let refused = restore(&world, unknown, &[]);
        assert_eq!(refused.code, Some(2), "{unknown}: {refused:#?}");
    }
}
