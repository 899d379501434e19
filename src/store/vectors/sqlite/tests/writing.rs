//! Removing points and putting them back.

use super::*;

#[test]
fn only_what_is_as_it_was_copied_is_removed() {
    let world = World::new(
        "CREATE TABLE points(id TEXT PRIMARY KEY COLLATE NOCASE, namespace TEXT COLLATE NOCASE,
           vector BLOB, payload TEXT, extra);
         CREATE INDEX i ON points(namespace)",
    );
    for change in [
        "vector = x'00000040'",
        "vector = NULL",
        "payload = '{\"a\": 2}'",
        "payload = NULL",
        "namespace = 'USER:A'",
        "extra = '1'",
        "extra = 0.5",
        "id = 'A'",
    ] {
        world.run(
            "DELETE FROM points; INSERT INTO points VALUES
               ('a', 'user:a', x'0000803f', '{\"a\": 1}', 1), ('b', NULL, NULL, NULL, 9e999)",
        );
        let store = world.open();
        let points = ["a", "A", "b"].map(|id| PointId::Text(id.into()));
        let images = copies(&store, &points);
        assert_eq!(images.len(), 2);
        world.run(&format!("UPDATE points SET {change} WHERE id = 'a'"));
        let changed = world.dump()[0].clone();
        let is_other = !change.starts_with("id");
        let expected = points[..usize::from(is_other)].iter().cloned().collect();
        assert_eq!(store.changed(&images).unwrap(), expected, "{change}");
        store.remove(&images).unwrap();
        assert_eq!(world.dump(), [changed], "{change}");
        if is_other {
            store.put_back(&images).unwrap();
            let left = store.remove(&images).unwrap();
            assert_eq!(left, [points[0].clone()].into(), "{change}");
        }
    }
}

#[test]
fn what_is_put_back_is_what_was_taken() {
    let world = World::new(
        "CREATE TABLE points(
             \"odd \"\"name\" REAL, id TEXT UNIQUE COLLATE NOCASE, namespace TEXT, vector BLOB, payload TEXT,
             extra INTEGER DEFAULT 9, doubled INTEGER GENERATED ALWAYS AS (extra * 2) STORED,
             raw BLOB, words);
         CREATE TABLE log(x); CREATE TRIGGER gone AFTER DELETE ON points BEGIN INSERT INTO log VALUES (old.id); END;
         INSERT INTO points(rowid, \"odd \"\"name\", id, namespace, vector, payload, extra, raw, words) VALUES
           (5, 0.1, 'a', 'user:a', x'0000803f', '{\"a\":1.0}', 3, x'00', CAST(x'ff' AS TEXT)),
           (9, 9e999, 'b', NULL, NULL, 'no json', NULL, NULL, -1)",
    );
    let before = world.dump();
    let store = world.open();
    let ids = ["a", "b", "absent"].map(|id| PointId::Text(id.into()));
    let images = take(&store, &ids);
    assert_eq!(images.len(), 2);
    assert_eq!(world.dump().len(), 0);
    let logged: i64 = world
        .owner
        .query_row("SELECT count(*) FROM log", [], |row| row.get(0))
        .unwrap();
    assert_eq!(logged, 2, "triggers of the owner run");

    world.run("INSERT INTO points(rowid, id, extra) VALUES (5, 'A', 0), (6, 'c', 0), (9, 'd', 0)");
    let error = store.put_back(&images).unwrap_err();
    assert!(
        matches!(&error, VectorError::Sqlite { .. }),
        "another key in the way: {error}"
    );
    assert_eq!(world.dump().len(), 3, "nothing half done");

    world.run("DELETE FROM points; INSERT INTO points(rowid, id, extra) VALUES (2, 'a', 0)");
    let newer = world.dump()[0].clone();
    store.put_back(&images).unwrap();
    assert_eq!(world.dump()[0], newer, "the newer one is left");
    assert_eq!(world.dump()[1], before[1]);

    world.run("DELETE FROM points");
    store.put_back(&images).unwrap();
    assert_eq!(world.dump(), before);

    world.run("DELETE FROM points; INSERT INTO points(rowid, id) VALUES (5, 'other')");
    store.put_back(&images[..1]).unwrap();
    let rows = world.dump_columns("id, rowid <> 5, raw");
    assert_eq!(rows.len(), 2, "a rowid that is taken is left: {rows:?}");
}

#[test]
fn a_copy_that_does_not_fit_is_refused() {
    let world = World::new(POINTS);
    fill(&world, 3);
    let store = world.open();
    let images = copies(&store, &numbers([1, 2]));
    world.run("ALTER TABLE points DROP COLUMN payload");
    let store = world.open();
    let left = store.remove(&images).unwrap();
    assert_eq!(
        left,
        numbers([1, 2]).into_iter().collect(),
        "not to be compared"
    );
    take(&store, &numbers([1]));
    let error = store.put_back(&images).unwrap_err();
    assert!(error.to_string().contains("\"payload\""), "{error}");
    let damaged = PointImage {
        id: PointId::Number(1),
        namespace: None,
        body: images[0].body[..10].to_vec(),
    };
    let error = store.put_back(&[damaged]).unwrap_err();
    assert!(matches!(&error, VectorError::Malformed(_)), "{error}");
    assert_eq!(ids(&store, Selector::All), numbers([2, 3]));
}

#[test]
fn ids_that_do_not_exist_are_no_error() {
    let world = World::new(POINTS);
    fill(&world, 3);
    let store = world.open();
    let absent = [
        PointId::Number(99),
        PointId::Number(u64::MAX),
        PointId::Text("x".into()),
        uuid("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    ];
    assert_eq!(take(&store, &absent), []);
    assert_eq!(store.vectors(&absent).unwrap(), []);
    assert_eq!(store.heads(&absent, &["a"]).unwrap(), []);
    let some = [absent.to_vec(), numbers(2..=3)].concat();
    assert_eq!(
        store.heads(&some, &["n"]).unwrap(),
        heads(&store, Selector::All, &["n"])[1..]
    );
    store.put_back(&[]).unwrap();
    assert_eq!(world.dump().len(), 3);
}

#[test]
fn a_point_that_comes_back_is_left() {
    let world = World::new(POINTS);
    fill(&world, 3);
    world.run(
        "CREATE TRIGGER back AFTER DELETE ON points WHEN old.id = 2
         BEGIN INSERT INTO points(id) VALUES (2); END",
    );
    let store = world.open();
    let left = store.remove(&copies(&store, &numbers(1..=3))).unwrap();
    assert_eq!(left, numbers([2]).into_iter().collect());
    assert_eq!(ids(&store, Selector::All), numbers([2]));
}

#[test]
fn other_writers_get_in_while_points_are_removed() {
    let world = World::new(POINTS);
    world.run("PRAGMA journal_mode = wal");
    fill(&world, 20_000);
    let store = world.open();
    let path = world.config().path;
    let stop = Stop::default();
    let stopped = stop.clone();
    let writer = std::thread::spawn(move || {
        let other = Connection::open(path).unwrap();
        let mut written = 0_u64;
        while !stopped.is_requested() {
            other
                .execute(
                    "INSERT INTO points(id) VALUES (?1)",
                    [100_000 + written.cast_signed()],
                )
                .unwrap();
            written += 1;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        written
    });
    take(&store, &numbers(1..=20_000));
    stop.request();
    let written = writer.join().unwrap();
    assert!(written > 10, "only {written} writes got in");
    assert_eq!(store.count(Selector::All).unwrap(), written);
}
