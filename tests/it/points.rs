//! Whose point is it? A removal takes the point of its own memory and no other.

use rusqlite::params;

use crate::support::{BACKENDS, Backend, DAY, Points, World, now, open};

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
