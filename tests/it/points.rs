//! Whose point is it? A removal takes the point of its own memory and no other.

use std::collections::BTreeSet;

use rusqlite::params;

use crate::support::held::Held;
use crate::support::{BACKENDS, Backend, DAY, Points, World, now, open, point_id};

/// Memories that are removed at once, at the most.
const AT_ONCE: usize = 500;

fn vectors(world: &World) -> rusqlite::Connection {
    match &world.points {
        Points::Sqlite(path) => open(path),
        Points::Qdrant(_) => panic!("a world with a vector table"),
    }
}

/// Two memories that name the same point: the one that stays keeps it.
#[test]
fn a_point_that_another_memory_names_stays() {
    let mut world = World::new(Backend::Sqlite);
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN vector_id TEXT")
        .unwrap();
    let rule = "point_id = \"uuid5(dns, {namespace}::{id})\"";
    world.configure(rule, "point_id = \"column(vector_id)\"");
    world.user("ana", None);
    world.user("bob", None);
    let (expired, alone) = (
        world.memory("ana", now() - 40 * DAY, Some(7)),
        world.memory("ana", now() - 40 * DAY, Some(7)),
    );
    let (shares, foreign) = (
        world.row("ana", now(), None),
        world.memory("bob", now(), None),
    );
    let name = |row: i64, point: i64, namespace: &str| {
        let id = crate::support::point_id(namespace, point).to_string();
        world
            .rows()
            .execute(
                "UPDATE memories SET vector_id = ?2 WHERE id = ?1",
                params![row, id],
            )
            .unwrap();
    };
    name(expired, expired, "user:ana");
    name(shares, expired, "user:ana");
    // This one names the point of somebody else, which nobody of its own namespace calls for.
    name(alone, foreign, "user:bob");
    name(foreign, foreign, "user:bob");
    world.night().expect(0);
    assert_eq!(world.ids(), [shares, foreign].into());
    let left = world.all_points();
    assert!(
        left.contains_key(&crate::support::point_id("user:ana", expired)),
        "{shares} calls for it"
    );
    assert!(
        left.contains_key(&crate::support::point_id("user:bob", foreign)),
        "it is bob's"
    );
}

/// The namespace of a point in a table is its column, whatever its payload says.
#[test]
fn the_column_says_whose_a_point_is() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.user("zed", Some(now() - 30 * DAY));
    let keeps = world.memory("ana", now(), None);
    world.memory("zed", now(), None);
    let ghost = world.ghost("user:zed");
    let db = vectors(&world);
    db.execute("UPDATE points SET payload = '{\"namespace\": \"user:zed\", \"row\": 1}' WHERE namespace = 'user:ana'", []).unwrap();
    db.execute(
        "UPDATE points SET payload = 'no json' WHERE namespace = 'user:zed'",
        [],
    )
    .unwrap();
    world.night().expect(0);
    assert_eq!(world.ids(), [keeps].into());
    let left: Vec<String> = db
        .prepare("SELECT namespace FROM points")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        left,
        ["user:ana"],
        "the ghost {ghost} of a deleted owner went without a payload that says so"
    );
}

/// Forty points that no row calls for, beside forty rows: that is a wrong rule, not forty orphans.
#[test]
fn a_wrong_rule_drops_nothing_and_check_says_so() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.user("ana", None);
        for _ in 0..40 {
            world.memory("ana", now(), None);
        }
        world.configure("uuid5(dns, ", "uuid5(url, ");
        world.night().expect(0).all_passes("idle");
        assert_eq!(world.all_points().len(), 40);
        let check = world.run(&["check"]).expect(3);
        assert!(
            check.stdout.contains("point_id in [store.vectors]"),
            "{check:#?}"
        );
    }
}

#[test]
fn a_row_without_an_owner_keeps_its_point() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world.ghost("user:ghost");
    world
        .rows()
        .execute_batch(
            "CREATE TABLE m AS SELECT * FROM memories; DROP TABLE memory_tags; DROP TABLE memories;
             CREATE TABLE memories(id INTEGER PRIMARY KEY, user_id TEXT, content TEXT, content_hash TEXT,
               memory_type TEXT, created_at INTEGER, last_used_at INTEGER, ttl_days INTEGER, superseded_by INTEGER);
             INSERT INTO memories SELECT * FROM m; DROP TABLE m;
             INSERT INTO memories(id, user_id, content, created_at) VALUES(77, NULL, 'x', 1800000000);",
        )
        .unwrap();
    world.point("user:None", 77);
    world.night().expect(0);
    assert_eq!(
        world.all_points().len(),
        3,
        "whose point is whose cannot be told"
    );
}

/// Starts a night that is held between the pre-images and the removal of the points, and waits until it is.
fn held_before_the_points_go(world: &World, pass: &str) -> Held {
    world.held(
        &["--run-now", "--json", "--only", pass],
        "points.before=1*return(hold);drops.before=1*return(hold)",
    )
}

/// The agent gives a memory a new vector after hypnos has copied the old one: the new one stays, and with it the row.
#[test]
fn a_vector_written_between_the_copy_and_the_removal_stays() {
    for backend in BACKENDS {
        for edits_the_row in [false, true] {
            let story = format!("{backend:?}, the row is edited too: {edits_the_row}");
            let mut world = World::new(backend);
            world.user("ana", None);
            let stays = world.memory("ana", now() - 40 * DAY, Some(7));
            let goes = world.memory("ana", now() - 40 * DAY, Some(7));
            let lives = world.memory("ana", now(), None);
            let night = held_before_the_points_go(&world, "ttl");
            world.put_as("user:ana", stays, 777);
            if edits_the_row {
                let edit = "UPDATE memories SET ttl_days = NULL WHERE id = ?1";
                world.rows().execute(edit, [stays]).unwrap();
            }
            let new = world.all_points();
            let ttl = night.let_go().expect(3).pass("ttl");
            assert_eq!(ttl["skipped"]["delete"], 1, "{story}: {ttl:#}");
            assert_eq!(ttl["applied"]["delete"], 1, "{story}: {ttl:#}");
            assert_eq!(world.ids(), [stays, lives].into(), "{story}");
            let id = point_id("user:ana", stays);
            let left = world.all_points();
            assert_eq!(left.get(&id), new.get(&id), "{story}: the new vector");
            assert_eq!(left.len(), 2, "{story}: that of {goes} went");

            // Whoever looks again sees the new point, and what has expired goes with it.
            world.night().expect(0);
            let rest: BTreeSet<i64> = if edits_the_row {
                [stays, lives].into()
            } else {
                [lives].into()
            };
            assert_eq!((world.ids(), world.point_rows()), (rest.clone(), rest));
        }
    }
}

/// A memory gets another owner by a row of another table, after it was planned and before its removal, or is used: it
/// stays, and so does its point.
#[test]
fn a_memory_whose_owner_changes_elsewhere_stays() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.configure(
            "type = \"memory_type\"\n",
            "type = \"memory_type\"\ntenant = \"sql((SELECT o.user_id FROM owning o WHERE o.memory_id = m.id))\"\n\
             uses = \"sql((SELECT count(*) FROM reads r WHERE r.memory_id = m.id))\"\n",
        );
        for user in ["ana", "bea"] {
            world.user(user, None);
        }
        world.configure(
            "[pass.orphans]",
            "[guard]\nmax_fraction = 1.0\n[pass.orphans]",
        );
        let many: Vec<i64> = (0..=AT_ONCE)
            .map(|_| world.row("ana", now() - 40 * DAY, Some(7)))
            .collect();
        let points: Vec<_> = many.iter().map(|id| ("user:ana".to_owned(), *id)).collect();
        world.put(&points);
        let db = world.rows();
        db.execute_batch(
            "CREATE TABLE owning(memory_id INTEGER PRIMARY KEY, user_id TEXT); CREATE TABLE reads(memory_id INTEGER);
             INSERT INTO owning SELECT id, user_id FROM memories",
        )
        .unwrap();
        let before = world.all_points();
        let night = held_before_the_points_go(&world, "ttl");
        // Two of which the points are about to go, and the one that is looked at later.
        let [gets_another, is_nobodys, is_used] = [many[0], many[1], many[AT_ONCE]];
        let moves = "UPDATE owning SET user_id = 'bea' WHERE memory_id = ?1";
        db.execute(moves, [gets_another]).unwrap();
        db.execute("DELETE FROM owning WHERE memory_id = ?1", [is_nobodys])
            .unwrap();
        db.execute("INSERT INTO reads VALUES (?1)", [is_used])
            .unwrap();
        let ttl = night.let_go().expect(3).pass("ttl");
        assert_eq!(ttl["skipped"]["delete"], 3, "{backend:?}: {ttl:#}");
        let left: BTreeSet<i64> = [gets_another, is_nobodys, is_used].into();
        assert_eq!(world.ids(), left, "{backend:?}: {ttl:#}");
        let after = world.all_points();
        assert_eq!(after.len(), 3, "{backend:?}");
        assert!(
            after
                .iter()
                .all(|(id, point)| before.get(id) == Some(point))
        );
    }
}

/// The same for a point that no row stands behind.
#[test]
fn an_orphan_written_anew_before_its_removal_stays() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.user("ana", None);
        world.memory("ana", now(), None);
        let (written, other) = (world.ghost("user:ghost"), world.ghost("user:ghost"));
        let night = held_before_the_points_go(&world, "orphans");
        world.put_as("user:ghost", written, 777);
        let new = world.all_points();
        let orphans = night.let_go().expect(3).pass("orphans");
        assert_eq!(orphans["skipped"]["drop_point"], 1, "{orphans:#}");
        assert_eq!(orphans["applied"]["drop_point"], 1, "{orphans:#}");
        let left = world.all_points();
        assert!(!left.contains_key(&point_id("user:ghost", other)));
        let id = point_id("user:ghost", written);
        assert_eq!(left.get(&id), new.get(&id), "{backend:?}");
    }
}

/// An agent that writes a point again as soon as it is gone: that memory is skipped, the rest is done.
#[test]
fn a_point_that_is_there_again_after_its_removal_stays_with_its_row() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let back = world.memory("ana", now() - 40 * DAY, Some(7));
    let goes = world.memory("ana", now() - 40 * DAY, Some(7));
    let lives = world.memory("ana", now(), None);
    world.ghost("user:ghost");
    let id = point_id("user:ana", back).to_string();
    vectors(&world)
        .execute_batch(&format!(
            "CREATE TRIGGER agent AFTER DELETE ON points WHEN old.id = '{id}' BEGIN
               INSERT INTO points VALUES(old.id, old.namespace, x'0000803f', old.payload); END"
        ))
        .unwrap();
    let night = world.night().expect(3);
    assert_eq!(night.pass("ttl")["skipped"]["delete"], 1, "{night:#?}");
    assert_eq!(night.pass("ttl")["applied"]["delete"], 1, "{night:#?}");
    assert_eq!(night.pass("orphans")["outcome"], "applied", "{night:#?}");
    assert_eq!(world.ids(), [back, lives].into(), "{goes} went");
    let left = world.all_points();
    assert_eq!(left[&point_id("user:ana", back)].vector, [1.0]);
    assert_eq!(left.len(), 2);
}

/// A key that names no point, and one point under two spellings of its id, stop nothing but themselves.
#[test]
fn malformed_and_doubled_keys_stay_and_stop_nothing_else() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.user("zed", Some(now() - 30 * DAY));
    let doubled = world.memory("ana", now() - 40 * DAY, Some(7));
    world.memory("ana", now() - 40 * DAY, Some(7));
    let lives = world.memory("ana", now(), None);
    world.memory("zed", now(), None);
    let (ghost, _) = (world.ghost("user:ghost"), world.ghost("user:ghost"));
    let db = vectors(&world);
    let add = |key: &dyn rusqlite::ToSql, namespace: &str| {
        let insert = "INSERT INTO points VALUES(?1, ?2, x'0000803f', '{}')";
        db.execute(insert, params![key, namespace]).unwrap();
    };
    let twin = |namespace: &str, id: i64| point_id(namespace, id).simple().to_string();
    add(&twin("user:ana", doubled).to_uppercase(), "user:ana");
    add(
        &format!("{{{}}}", point_id("user:ghost", ghost)),
        "user:ghost",
    );
    for namespace in ["user:ana", "user:zed", "user:ghost", "team:x", ""] {
        add(&rusqlite::types::Null, namespace);
        add(&namespace.as_bytes().to_vec(), namespace);
    }
    let night = world.night().expect(3);
    let (ttl, orphans) = (night.pass("ttl"), night.pass("orphans"));
    assert_eq!(ttl["skipped"]["delete"], 1, "{night:#?}");
    assert_eq!(ttl["applied"]["delete"], 1, "{night:#?}");
    assert_eq!(orphans["outcome"], "applied", "{night:#?}");
    assert_eq!(orphans["applied"]["drop_point"], 1, "{night:#?}");
    // The malformed, for few namespaces are read in one go, and two spellings of the ghost.
    assert_eq!(orphans["findings"]["point_without_key"], 12, "{night:#?}");
    assert_eq!(world.ids(), [doubled, lives].into());
    let keys: i64 = db
        .query_row("SELECT count(*) FROM points", [], |row| row.get(0))
        .unwrap();
    assert_eq!(keys, 10 + 2 + 2 + 1, "malformed, twice two, and the living");
    let check = world.run(&["check"]).expect(3);
    assert!(
        check.stdout.contains("points have no usable key"),
        "{check:#?}"
    );
}

/// A vector of an odd number of bytes, a payload that is NULL or no JSON: copied and removed like any other.
#[test]
fn malformed_vectors_and_payloads_stop_nothing() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let mut lives = BTreeSet::new();
    for _ in 0..5 {
        lives.insert(world.memory("ana", now(), None));
    }
    let oddities = [
        "vector = x'0000803f00'",
        "vector = x''",
        "vector = 'text'",
        "payload = NULL",
        "payload = 'no json'",
        "payload = '[1]'",
        "payload = x'ff00'",
        "payload = CAST(x'7b22ff' AS TEXT)",
    ];
    let db = vectors(&world);
    let spoil = |namespace: &str, id: i64, oddity: &str| {
        let sql = format!("UPDATE points SET {oddity} WHERE id = ?1");
        let id = point_id(namespace, id).to_string();
        assert_eq!(db.execute(&sql, [id]).unwrap(), 1);
    };
    for oddity in oddities {
        let expired = world.memory("ana", now() - 40 * DAY, Some(7));
        spoil("user:ana", expired, oddity);
        let ghost = world.ghost("user:ghost");
        spoil("user:ghost", ghost, oddity);
        let living = world.memory("ana", now(), None);
        lives.insert(living);
        spoil("user:ana", living, oddity);
    }
    let night = world.night().expect(0);
    assert_eq!(night.pass("ttl")["applied"]["delete"], 8, "{night:#?}");
    assert_eq!(
        night.pass("orphans")["applied"]["drop_point"],
        8,
        "{night:#?}"
    );
    assert_eq!(world.ids(), lives);
    let left: i64 = db
        .query_row("SELECT count(*) FROM points", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 5 + 8, "those of the living");
    let _ = world.night().expect(0).all_passes("idle");
}

/// Each way in which the file of the points cannot be used says what to do, and none speaks of a server.
#[test]
fn a_vector_file_that_cannot_be_used_says_what_to_do() {
    let world = World::new(Backend::Sqlite);
    let path = world.path("vectors.db");
    for (content, code, hint) in [
        (
            Some("this is no database, whatever its name says"),
            10,
            "encrypted",
        ),
        (Some(""), 10, "a failed copy"),
        (None, 10, "never creates a vector database"),
    ] {
        for file in ["vectors.db-wal", "vectors.db-shm", "vectors.db"] {
            let _ = std::fs::remove_file(world.path(file));
        }
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let night = world.night().expect(code);
        let errors = night.objects("error");
        let told = errors[0]["hint"].as_str().unwrap_or_default();
        assert!(told.contains(hint), "{night:#?}");
        assert!(!told.contains("gRPC"), "{night:#?}");
        assert_eq!(path.exists(), content.is_some(), "nothing is created");
    }
}
