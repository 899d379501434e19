//! Row databases with something in their schema that a removal could trip over: either it works, and undo puts back every
//! byte, or the store is refused before anything is written.

use serde_json::json;

use crate::support::{BACKENDS, Backend, DAY, World, files, now};

fn drifted(backend: Backend, ddl: &str) -> World {
    let mut world = World::new(backend);
    world.rows().execute_batch(ddl).unwrap();
    world.user("ana", None);
    for _ in 0..6 {
        world.memory("ana", now() - 3 * DAY, None);
    }
    for _ in 0..4 {
        world.memory("ana", now() - 40 * DAY, Some(7));
    }
    world.ghost("user:ana");
    world
}

#[test]
fn a_night_and_its_undoing_leave_no_trace_in_odd_schemas() {
    for (what, ddl) in [
        (
            "generated columns",
            "ALTER TABLE memories ADD COLUMN shout AS (upper(content));
             CREATE INDEX shouted ON memories(shout);",
        ),
        (
            "partial unique indexes",
            "CREATE UNIQUE INDEX one ON memories(user_id, content) WHERE superseded_by IS NULL;
             CREATE UNIQUE INDEX short ON memories(content_hash) WHERE ttl_days IS NOT NULL;",
        ),
        (
            "an index over an expression",
            "CREATE INDEX by_length ON memories(length(content), coalesce(ttl_days, -1));",
        ),
        (
            "a check and a generated key of a child",
            "CREATE TABLE notes(memory_id INTEGER REFERENCES memories(id) ON DELETE CASCADE, body TEXT CHECK(body <> ''),
               size INTEGER GENERATED ALWAYS AS (length(body)) STORED UNIQUE);",
        ),
    ] {
        for backend in BACKENDS {
            let world = drifted(backend, ddl);
            if ddl.contains("notes") {
                let notes = "INSERT INTO notes(memory_id, body) SELECT id, substr('abcdefghijkl', 1, id) FROM memories";
                world.rows().execute_batch(notes).unwrap();
            }
            let before = (world.dump(), world.all_points());
            let night = world.night().expect(0);
            assert_eq!(night.pass("ttl")["applied"], json!({"delete": 4}), "{what}: {night:#?}");
            assert_eq!(world.ids(), (1..=6).collect(), "{what}");
            assert_eq!(world.point_rows(), (1..=6).collect(), "{what}");
            let _ = world.night().expect(0).all_passes("idle");
            let undo = world.run(&["undo", "last", "--json"]).expect(0);
            assert!(
                (world.dump(), world.all_points()) == before,
                "{what}: {undo:#?}"
            );
        }
    }
}

/// What the place of a removed memory was given to meanwhile stays; the memory is named as one that cannot come back.
#[test]
fn a_partial_unique_index_that_bars_a_memory_from_its_place_is_told() {
    for backend in BACKENDS {
        let mut world = drifted(
            backend,
            "CREATE UNIQUE INDEX one ON memories(user_id, content) WHERE superseded_by IS NULL;",
        );
        let night = world.night().expect(0);
        assert_eq!(night.pass("ttl")["applied"], json!({"delete": 4}));
        let taken = world.memory("ana", now(), None);
        let sql = "UPDATE memories SET content = 'canary ana 7' WHERE id = ?1";
        world.rows().execute(sql, [taken]).unwrap();
        let undo = world.run(&["undo", "last", "--json"]).expect(3);
        let left = &undo.objects("undo")[0]["left"];
        assert_eq!(left.as_array().map(Vec::len), Some(1), "{undo:#?}");
        assert_eq!(
            (&left[0]["id"], &left[0]["why"]),
            (&json!("7"), &json!("refused")),
            "{undo:#?}"
        );
        let there = [1, 2, 3, 4, 5, 6, 8, 9, 10, taken];
        assert_eq!(world.ids(), there.into(), "{undo:#?}");
        assert!(
            !world.point_rows().contains(&7),
            "a point without its row: {undo:#?}"
        );
    }
}

/// The same of a memory that was hidden behind another.
#[test]
fn a_partial_unique_index_that_keeps_a_memory_hidden_is_told() {
    let mut world = World::new(Backend::Sqlite);
    world
        .rows()
        .execute_batch(
            "ALTER TABLE memories ADD COLUMN slug TEXT;
             CREATE UNIQUE INDEX one ON memories(user_id, slug) WHERE superseded_by IS NULL;",
        )
        .unwrap();
    world.user("ana", None);
    let ids = [1, 2].map(|_| world.memory("ana", now() - 3 * DAY, None));
    let say = "UPDATE memories SET content = 'canary of the coal mine', slug = 's' || id";
    world.rows().execute_batch(say).unwrap();
    let night = world.night().expect(0);
    assert_eq!(
        night.pass("duplicates")["applied"],
        json!({"supersede": 1}),
        "{night:#?}"
    );
    let hidden: i64 = world
        .rows()
        .query_row(
            "SELECT id FROM memories WHERE superseded_by IS NOT NULL",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(ids.contains(&hidden));
    let taken = world.memory("ana", now(), None);
    let sql = "UPDATE memories SET slug = 's' || ?1 WHERE id = ?2";
    world.rows().execute(sql, [hidden, taken]).unwrap();
    let before = world.dump();
    let undo = world.run(&["undo", "last", "--json"]).expect(3);
    let left = &undo.objects("undo")[0]["left"];
    assert_eq!(
        (&left[0]["id"], &left[0]["why"]),
        (&json!(hidden.to_string()), &json!("refused")),
        "{undo:#?}"
    );
    assert_eq!(world.dump(), before, "{undo:#?}");
}

/// An index of libSQL that SQLite cannot keep: every delete would fail.
#[test]
fn an_index_of_libsql_is_refused_before_anything_is_written() {
    for backend in BACKENDS {
        let world = drifted(backend, "");
        let db = world.rows();
        db.execute_batch(
            "PRAGMA writable_schema = ON;
             INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql)
             SELECT 'index', 'near', 'memories', 2, 'CREATE INDEX near ON memories(libsql_vector_idx(content))';",
        )
        .unwrap();
        drop(db);
        let (before, points) = (files(world.dir.path()), world.all_points());
        for args in [&["--run-now"][..], &["--dry-run"], &["check"]] {
            let refused = world.run(args).expect(10);
            let said = format!("{}{}", refused.stdout, refused.stderr);
            assert!(said.contains("libsql_vector_idx"), "{refused:#?}");
        }
        let mut after = files(world.dir.path());
        after.retain(|name, _| !name.starts_with("state"));
        assert!(after == before && world.all_points() == points);
    }
}
