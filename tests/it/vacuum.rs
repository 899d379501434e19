//! `vacuum`: free pages given back, where it is worth it and safe, and never behind the agent's back.

use rusqlite::Connection;
use serde_json::json;

use crate::support::{Backend, World, now};

const BOUNDS: &str = "[pass.vacuum]\nmin_free_bytes = \"64KiB\"\n[[store]]";

/// A store whose row database has some two megabytes of free pages.
fn hollow(prepare: &str) -> World {
    let mut world = World::new(Backend::Sqlite);
    world.configure("[[store]]", BOUNDS);
    world.user("ana", None);
    world.memory("ana", now() - 100, None);
    let db = world.rows();
    db.execute_batch(prepare).unwrap();
    db.execute_batch(
        "CREATE TABLE junk(x); INSERT INTO junk
         WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 500)
         SELECT randomblob(4000) FROM n;
         DROP TABLE junk",
    )
    .unwrap();
    drop(db);
    world
}

fn free_pages(world: &World) -> i64 {
    world
        .rows()
        .query_row("PRAGMA freelist_count", [], |row| row.get(0))
        .unwrap()
}

fn size(world: &World) -> u64 {
    world.path("memory.db").metadata().unwrap().len()
}

fn journal_mode(db: &Connection) -> String {
    db.query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn free_pages_are_given_back_and_nothing_else_changes() {
    for mode in ["wal", "delete"] {
        let world = hollow(&format!("PRAGMA journal_mode = {mode}"));
        let (before, dump) = (size(&world), world.dump());
        let dry = world.run(&["--dry-run", "--json"]).expect(0);
        let upkeep = &dry.plan("vacuum")["upkeep"];
        assert_eq!(upkeep[0]["action"], "vacuum", "{dry:#?}");
        assert_eq!(upkeep[0]["half"], "rows");
        assert_eq!(upkeep.as_array().unwrap().len(), 1);
        assert_eq!(size(&world), before, "a dry run writes nothing");

        let night = world.night().expect(0);
        let pass = night.pass("vacuum");
        assert_eq!(pass["outcome"], "applied", "{night:#?}");
        assert_eq!(pass["applied"], json!({"vacuum": 1}));
        assert_eq!(pass["residue"], json!({}));
        let freed = pass["freed_bytes"].as_u64().unwrap();
        assert!(freed > 1_000_000, "{freed}");
        assert_eq!(
            before - size(&world),
            freed,
            "{mode}: told is what the file became smaller"
        );
        assert_eq!((free_pages(&world), world.dump()), (0, dump));
        assert_eq!(journal_mode(&world.rows()), mode);
        assert_eq!(world.night().expect(0).pass("vacuum")["outcome"], "idle");
    }
}

#[test]
fn under_either_bound_nothing_is_done() {
    for bounds in [
        "min_free_bytes = \"4MiB\"",
        "min_free_bytes = \"64KiB\"\nmin_free_fraction = 1.0",
    ] {
        let mut world = hollow("");
        world.configure("min_free_bytes = \"64KiB\"", bounds);
        assert_eq!(world.night().expect(0).pass("vacuum")["outcome"], "idle");
        assert!(free_pages(&world) > 400);
    }
}

#[test]
fn an_incremental_file_gives_its_pages_back_in_small_steps() {
    let world = hollow("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
    assert!(free_pages(&world) > 400);
    let before = size(&world);
    let night = world.night().expect(0);
    let freed = night.pass("vacuum")["freed_bytes"].as_u64().unwrap();
    assert_eq!(freed, before - size(&world), "{night:#?}");
    assert_eq!(free_pages(&world), 0);
    assert_eq!(world.night().expect(0).pass("vacuum")["outcome"], "idle");
}

#[test]
fn a_file_in_use_is_put_off_and_that_is_told() {
    let world = hollow("");
    let agent = world.rows();
    agent.execute_batch("BEGIN IMMEDIATE").unwrap();
    let night = world
        .run(&["--run-now", "--json", "--only", "vacuum"])
        .expect(3);
    let pass = night.pass("vacuum");
    assert_eq!(pass["outcome"], "skipped", "{night:#?}");
    assert_eq!(pass["skipped"], json!({"vacuum": 1}));
    assert!(free_pages(&world) > 400);
    agent.execute_batch("ROLLBACK").unwrap();
    drop(agent);
    assert_eq!(world.night().expect(0).pass("vacuum")["outcome"], "applied");
}

#[test]
fn beside_a_reader_nothing_comes_back_and_nothing_is_claimed() {
    let world = hollow("");
    let reader = world.rows();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM memories")
        .unwrap();
    let night = world.night().expect(3);
    let pass = night.pass("vacuum");
    assert_eq!(pass["outcome"], "skipped", "{night:#?}");
    assert_eq!(pass["freed_bytes"], json!(null));
    let live: i64 = reader
        .query_row("SELECT count(*) FROM memories", [], |row| row.get(0))
        .unwrap();
    assert_eq!(live, 1);
}

#[test]
fn rows_that_a_text_index_knows_by_number_are_not_numbered_anew() {
    let indexed = "CREATE TABLE notes(body TEXT);
         CREATE VIRTUAL TABLE notes_text USING fts5(body, content = 'notes');
         CREATE TRIGGER notes_in AFTER INSERT ON notes
           BEGIN INSERT INTO notes_text(rowid, body) VALUES (new.rowid, new.body); END;
         INSERT INTO notes(body) VALUES ('one'), ('two'), ('three');
         DELETE FROM notes WHERE body = 'one'";
    let world = hollow(indexed);
    let night = world.night().expect(3);
    let pass = night.pass("vacuum");
    assert_eq!(pass["outcome"], "refused", "{night:#?}");
    assert!(
        pass["error"].as_str().unwrap().contains("\"notes\""),
        "{pass}"
    );
    assert!(free_pages(&world) > 400);
    let found: String = world
        .rows()
        .query_row("SELECT body FROM notes WHERE rowid = 3", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(found, "three");

    let numbered = indexed.replace(
        "notes(body TEXT)",
        "notes(id INTEGER PRIMARY KEY, body TEXT)",
    );
    let world = hollow(&numbered);
    assert_eq!(world.night().expect(0).pass("vacuum")["outcome"], "applied");
}

/// A collation that nobody but the application has: only it can write the file anew. Night after night that is said, and
/// no night fails of it.
#[test]
fn what_only_the_application_can_write_anew_is_refused_and_fails_no_night() {
    for mode in ["wal", "delete"] {
        let world = hollow(&format!("PRAGMA journal_mode = {mode}"));
        world
            .rows()
            .execute_batch(
                "CREATE TABLE own(x TEXT); CREATE INDEX own_x ON own(x COLLATE binary); INSERT INTO own VALUES ('a');
                 PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(sql, 'binary', 'mine') WHERE name = 'own_x'",
            )
            .unwrap();
        let size_before = size(&world);
        for _ in 0..2 {
            let night = world.night().expect(3);
            let pass = night.pass("vacuum");
            assert_eq!(pass["outcome"], "refused", "{night:#?}");
            let error = pass["error"].as_str().unwrap();
            assert!(
                error.contains("no such collation sequence: mine")
                    && error.contains("let the application"),
                "{error}"
            );
        }
        assert_eq!(size(&world), size_before);
        assert!(free_pages(&world) > 400);
    }
    // A few pages at a time need nothing of the application's.
    let world = hollow("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
    world
        .rows()
        .execute_batch(
            "CREATE TABLE own(x TEXT COLLATE binary); PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(sql, 'binary', 'mine') WHERE name = 'own'",
        )
        .unwrap();
    assert_eq!(world.night().expect(0).pass("vacuum")["outcome"], "applied");
}

#[test]
fn a_stall_over_its_bound_is_refused_with_what_to_do() {
    let mut world = hollow("CREATE TABLE more(x); INSERT INTO more VALUES (zeroblob(2000000))");
    world.configure(
        "min_free_bytes = \"64KiB\"",
        "min_free_bytes = \"64KiB\"\nmax_stall = \"1ms\"",
    );
    let night = world.night().expect(3);
    let error = night.pass("vacuum")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("maintenance window"), "{error}");
}

#[test]
fn a_failure_before_or_after_leaves_a_sound_database() {
    for point in ["vacuum.before", "vacuum.done"] {
        for action in ["error", "kill"] {
            let world = hollow("");
            let dump = world.dump();
            let night = world.night_with(&format!("{point}=return({action})"));
            let code = if action == "kill" { None } else { Some(1) };
            assert_eq!(night.code, code, "{point} {action}: {night:#?}");
            assert_eq!(world.dump(), dump);
            world.night().expect(0);
            assert_eq!((world.dump(), free_pages(&world)), (dump, 0));
        }
    }
}
