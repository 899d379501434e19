//! Pages, searches and vectors.

use super::*;
use crate::store::copies::{Count, count_points};

#[test]
fn vectors_are_read_exactly_or_left_out() {
    let world = World::new(POINTS);
    world.run(
        "INSERT INTO points(id, vector) VALUES
           (1, x'0000803f000000c0'), (2, NULL), (3, x'0000803f'), (4, x'0000803f00'), (5, x''),
           (6, '[1, 2]'), (7, x'0000c07f00000080')",
    );
    let store = world.open();
    assert_eq!(
        store.vectors(&numbers([1, 2, 99])).unwrap(),
        [(PointId::Number(1), vec![1.0, -2.0])]
    );
    let odd = &store.vectors(&numbers([7])).unwrap()[0].1;
    assert!(odd[0].is_nan() && odd[1].is_sign_negative());
    for id in [4, 5, 6] {
        assert_eq!(store.vectors(&numbers([1, id])).unwrap().len(), 1, "{id}");
    }
    assert_eq!(ids(&store, Selector::All).len(), 7);
    take(&store, &numbers(3..=6));
    assert_eq!(ids(&store, Selector::All), numbers([1, 2, 7]));
}

/// Each is found by the statement of its own spelling and by that of the other one.
#[test]
fn ids_that_are_one_to_the_index_are_two_points() {
    let world = World::new(
        "CREATE TABLE points(id TEXT COLLATE NOCASE, namespace TEXT, vector BLOB, payload TEXT);
         CREATE INDEX by_id ON points(id);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
         INSERT INTO points(id, vector) SELECT 'K' || i, x'0000803f' FROM n
                              UNION ALL SELECT 'k' || i, x'00000040' FROM n;",
    );
    let store = world.open();
    let id = |letter: char, at: u32| PointId::Text(format!("{letter}{at}").into());
    let ids: Vec<PointId> = (1..=120)
        .flat_map(|at| [id('K', at), id('k', at)])
        .collect();
    let vectors = store.vectors(&ids).unwrap();
    assert_eq!(vectors.len(), ids.len());
    for (id, vector) in vectors {
        let expected = if id.to_string().starts_with('K') {
            1.0
        } else {
            2.0
        };
        assert_eq!(vector, [expected], "{id}");
    }
    assert_eq!(copies(&store, &ids).len(), ids.len());
    world.run("INSERT INTO points(id, vector) VALUES ('K7', x'0000803f')");
    assert_eq!(store.vectors(&ids).unwrap().len(), ids.len() - 1);
    let ambiguous = store.capture(&ids).unwrap().ambiguous;
    assert_eq!(ambiguous, [id('K', 7)].into());
}

#[test]
fn a_table_without_a_vector_has_no_dimensions() {
    let world = World::new(POINTS);
    let store = world.open();
    assert_eq!(store.describe().unwrap().dimensions, None);
    world.run("INSERT INTO points(id, vector) VALUES (1, NULL), (2, '[1]')");
    assert_eq!(store.vectors(&numbers([1])).unwrap(), []);
    assert_eq!(store.vectors(&numbers([2])).unwrap(), []);
    world.run("INSERT INTO points(id, vector) VALUES (3, x'00'), (4, x''), (5, x'0000803f')");
    assert_eq!(world.open().describe().unwrap().dimensions, Some(1));
}

#[test]
fn payload_is_searched_by_text_and_integer_inside_one_namespace() {
    let world = World::new(POINTS);
    world.run(
        r#"INSERT INTO points(id, namespace, payload) VALUES
           (1, 'user:a', '{"doc_id": "7", "metadata": {"doc_id": "x"}}'), (2, 'user:a', '{"doc_id": 7}'),
           (3, 'user:a', '{"doc_id": 7.0}'), (4, 'user:a', '{"doc_id": "07"}'), (5, 'user:a', 'not json'),
           (6, 'user:a', NULL), (7, 'user:b', '{"doc_id": "7"}'), (8, 'user:a', '{"doc_id": ["7"]}'),
           (9, 'user:a', '[7]'), (10, NULL, '{"doc_id": "7"}'), (11, 'user:a', jsonb('{"doc_id": "j"}')),
           (12, 'user:a', '{"it''s": {"a b": "q"}}')"#,
    );
    let store = world.open();
    for (key, value, expected) in [
        ("doc_id", "7", &[1, 2][..]),
        ("doc_id", "07", &[4]),
        ("doc_id", "j", &[11]),
        ("metadata.doc_id", "x", &[1]),
        ("it's.a b", "q", &[12]),
        ("none", "7", &[]),
    ] {
        let values = [value.to_owned(), "absent".to_owned()];
        let found = store.find("user:a", key, &values).unwrap();
        let expected: Vec<_> = expected
            .iter()
            .map(|id| (value.to_owned(), Some(PointId::Number(*id))))
            .collect();
        assert_eq!(found, expected, "{key}");
    }
    assert!(store.find("user:a", "a\"b", &[]).is_err());
    let heads = heads(&store, Selector::Namespace("user:a"), &["metadata.doc_id"]);
    let payloads: Vec<Value> = heads
        .into_iter()
        .filter(|head| !head.payload.is_empty())
        .map(|head| Value::Object(head.payload))
        .collect();
    assert_eq!(payloads, [json!({"metadata.doc_id": "x"})]);
}

#[test]
fn the_namespace_may_stand_in_the_payload() {
    let world =
        World::new("CREATE TABLE points(id INTEGER PRIMARY KEY, vector BLOB, payload TEXT)");
    world.run(
        r#"INSERT INTO points(id, payload) VALUES (1, '{"namespace": "user:a"}'), (2, '{"namespace": ""}'),
           (3, '{}'), (4, NULL), (5, 'no json'), (6, '{"namespace": 5}'), (7, '{"namespace": ["user:a"]}')"#,
    );
    let store = world.open();
    assert_eq!(ids(&store, Selector::Namespace("user:a")), numbers([1]));
    assert_eq!(ids(&store, Selector::WithoutNamespace), numbers(2..=5));
    assert!(!store.describe().unwrap().namespace_indexed);
}

#[test]
fn namespaces_are_told_apart_to_the_letter() {
    let world = World::new(
        "CREATE TABLE points(id INTEGER PRIMARY KEY, namespace TEXT COLLATE NOCASE, vector BLOB);
         CREATE INDEX i ON points(namespace);
         INSERT INTO points(id, namespace) VALUES (1, 'user:a'), (2, 'user:A'), (3, 'user:a '),
           (4, x'757365723a61'), (5, CAST(x'ff3a61' AS TEXT))",
    );
    let store = world.open();
    let names: Vec<String> = store
        .namespaces()
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["user:A", "user:a", "user:a "]);
    assert_eq!(ids(&store, Selector::Namespace("user:a")), numbers([1]));
    assert_eq!(ids(&store, Selector::All).len(), 5);
}

#[test]
fn a_page_of_a_namespace_uses_its_index() {
    let world = World::new(POINTS);
    fill(&world, 10);
    let store = world.open();
    let plan: String = world
        .owner
        .query_row(
            "EXPLAIN QUERY PLAN SELECT id FROM points WHERE (namespace = ?1 AND namespace = ?1 COLLATE BINARY) \
             AND (id) > (?2) ORDER BY id LIMIT 1000",
            ["user:a", "5"],
            |row| row.get(3),
        )
        .unwrap();
    assert!(plan.contains("points_namespace"), "{plan}");
    assert!(store.table.namespace_indexed);
}

#[test]
fn a_stop_ends_every_read_and_lets_a_batch_be_finished() {
    let world = World::new(POINTS);
    fill(&world, 5_000);
    let stop = Stop::default();
    let store = world.open_with(stop.clone());
    let images = copies(&store, &numbers([1]));
    let mut pages = 0;
    let result = store.scroll(Selector::All, &[], &mut |_| {
        pages += 1;
        stop.request();
        ControlFlow::Continue(())
    });
    assert!(
        matches!(result, Err(VectorError::Interrupted)),
        "{result:?}"
    );
    assert_eq!(pages, 1);
    let one = numbers([1]);
    for result in [
        store.count(Selector::All).map(|_| ()),
        store.namespaces().map(|_| ()),
        store.capture(&one).map(|_| ()),
        store.vectors(&one).map(|_| ()),
    ] {
        assert!(
            matches!(result, Err(VectorError::Interrupted)),
            "{result:?}"
        );
    }
    assert_eq!(world.dump().len(), 5_000);
    assert_eq!(store.remove(&images).unwrap(), BTreeSet::new());
    assert_eq!(world.dump().len(), 4_999, "what was begun is done");
}

#[test]
fn a_visitor_ends_a_scroll() {
    let world = World::new(POINTS);
    fill(&world, 5_000);
    let mut seen = 0;
    world
        .open()
        .scroll(Selector::All, &[], &mut |page| {
            seen += page.len();
            if seen >= 2_000 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert_eq!(seen, 2_000);
}

#[test]
fn a_table_rebuilt_under_a_scroll_fails_it() {
    let world = World::new(POINTS);
    fill(&world, 2_000);
    let result = world.open().scroll(Selector::All, &[], &mut |_| {
        world.run("DELETE FROM points WHERE id < 500; VACUUM");
        ControlFlow::Continue(())
    });
    assert!(
        matches!(result, Err(VectorError::Refused { .. })),
        "{result:?}"
    );
}

#[test]
fn a_reader_sees_everything_and_writes_nothing() {
    for journal_mode in ["delete", "wal"] {
        let world = World::new(POINTS);
        world.run(&format!("PRAGMA journal_mode = {journal_mode}"));
        fill(&world, 50);
        let config = world.config();
        let before = std::fs::read(&config.path).unwrap();
        let store =
            SqliteVectors::open(&config, "namespace", Access::Read, Stop::default()).unwrap();
        assert_eq!(ids(&store, Selector::All).len(), 50, "{journal_mode}");
        let images = copies(&store, &numbers([1]));
        assert!(store.remove(&images).is_err(), "{journal_mode}");
        drop(store);
        assert_eq!(
            std::fs::read(&config.path).unwrap(),
            before,
            "{journal_mode}"
        );
        assert_eq!(world.dump().len(), 50);
    }
}

#[test]
fn the_rows_of_a_copy_are_counted_as_the_points_of_a_live_table_are() {
    const ODD: &str = "INSERT INTO points(id) VALUES
        ('6BA7B810-9dad-11d1-80b4-00c04fd430c8'), (x'00'), (NULL), (1.5)";
    for (id, rest) in [
        ("INTEGER PRIMARY KEY", "namespace TEXT, payload"),
        ("TEXT PRIMARY KEY", "namespace TEXT, payload"),
        ("TEXT PRIMARY KEY", "namespace TEXT COLLATE NOCASE, payload"),
        ("TEXT PRIMARY KEY", "payload"),
        ("", "namespace, payload"),
    ] {
        let world = World::new(&format!(
            "CREATE TABLE points(id {id}, vector BLOB, {rest})"
        ));
        let is_column = rest.starts_with("namespace");
        if is_column {
            world.run("CREATE INDEX points_namespace ON points(namespace)");
        }
        let as_live = || {
            let points = world.open();
            let counted = points.count_rows().unwrap();
            assert_eq!(counted, count_points(&points).unwrap(), "{id}, {rest}");
            counted
        };
        assert_eq!(as_live(), Count::default());
        let names = [
            "'user:a'",
            "'USER:A'",
            "NULL",
            "''",
            "7",
            "CAST(x'75ff' AS TEXT)",
        ];
        for (key, name) in (1..).zip(names) {
            world.run(&if is_column {
                format!("INSERT INTO points(id, namespace) VALUES ({key}, {name})")
            } else {
                format!("INSERT INTO points(id, payload) VALUES ({key}, '{{\"namespace\":' || json_quote({name}) || '}}')")
            });
        }
        let counted = as_live();
        assert_eq!((counted.total, counted.namespaces["user:a"]), (6, 1));
        if id != "INTEGER PRIMARY KEY" {
            world.run(ODD);
            let counted = as_live();
            assert_eq!(counted.total, 10, "{id}, {rest}");
        }
    }
}

#[test]
fn a_count_of_ids_and_one_of_namespaces_leave_the_vectors_unread() {
    let world = World::new(
        "CREATE TABLE points(id TEXT PRIMARY KEY, namespace TEXT, vector BLOB, payload TEXT);
         CREATE INDEX points_namespace ON points(namespace)",
    );
    for column in ["id", "namespace"] {
        let sql = format!("EXPLAIN QUERY PLAN SELECT \"{column}\" FROM points");
        let plan: String = world.owner.query_row(&sql, [], |row| row.get(3)).unwrap();
        assert!(plan.contains("COVERING INDEX"), "{plan}");
    }
}
