use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::store::image::PointImage;
use crate::store::vectors::{PointHead, Selector, VectorReader, VectorStore};

const POINTS: &str = "CREATE TABLE points(
    id INTEGER PRIMARY KEY, namespace TEXT, vector BLOB, payload TEXT);
    CREATE INDEX points_namespace ON points(namespace);";

/// A database with a vector table, in a folder of its own.
struct World {
    folder: tempfile::TempDir,
    owner: Connection,
}

impl World {
    fn new(schema: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let owner = Connection::open(folder.path().join("v.db")).unwrap();
        owner
            .set_db_config(
                rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY,
                false,
            )
            .unwrap();
        owner.execute_batch(schema).unwrap();
        Self { folder, owner }
    }

    fn config(&self) -> VectorTable {
        VectorTable {
            path: self.folder.path().join("v.db"),
            table: "points".into(),
            id: vec!["id".into()],
            vector: "vector".into(),
            payload: Some("payload".into()),
        }
    }

    fn open(&self) -> SqliteVectors {
        self.open_with(Stop::default())
    }

    fn open_with(&self, stop: Stop) -> SqliteVectors {
        SqliteVectors::open(&self.config(), "namespace", Access::Write, stop).unwrap()
    }

    fn refusal(&self) -> VectorError {
        SqliteVectors::open(&self.config(), "namespace", Access::Write, Stop::default())
            .err()
            .expect("a refusal")
    }

    fn run(&self, sql: &str) {
        self.owner.execute_batch(sql).unwrap();
    }

    /// Every row of the table as text, rowid and storage classes included.
    fn dump(&self) -> Vec<String> {
        self.dump_columns("rowid, *")
    }

    fn dump_columns(&self, columns: &str) -> Vec<String> {
        let sql = format!("SELECT {columns} FROM points ORDER BY 1, 2");
        let mut statement = self.owner.prepare(&sql).unwrap();
        let count = statement.column_count();
        statement
            .query_map([], |row| {
                let values: Vec<SqlValue> = (0..count)
                    .map(|column| row.get_ref(column).unwrap().into())
                    .collect();
                Ok(format!("{values:?}"))
            })
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }
}

fn uuid(text: &str) -> PointId {
    PointId::Uuid(Uuid::try_parse(text).unwrap())
}

fn numbers(ids: impl IntoIterator<Item = u64>) -> Vec<PointId> {
    ids.into_iter().map(PointId::Number).collect()
}

fn heads(store: &SqliteVectors, of: Selector<'_>, keys: &[&str]) -> Vec<PointHead> {
    let mut heads = Vec::new();
    store
        .scroll(of, keys, &mut |page| {
            heads.extend(page);
            ControlFlow::Continue(())
        })
        .unwrap();
    heads
}

fn ids(store: &SqliteVectors, of: Selector<'_>) -> Vec<PointId> {
    heads(store, of, &[])
        .into_iter()
        .map(|head| head.id)
        .collect()
}

/// Copies of points, of which none is ambiguous.
fn copies(store: &SqliteVectors, ids: &[PointId]) -> Vec<PointImage> {
    let captured = store.capture(ids).unwrap();
    assert_eq!(captured.ambiguous, BTreeSet::new());
    captured.images
}

/// Copies points and removes them all.
fn take(store: &SqliteVectors, ids: &[PointId]) -> Vec<PointImage> {
    let images = copies(store, ids);
    assert_eq!(store.remove(&images).unwrap(), BTreeSet::new());
    images
}

/// Points 1.. of two namespaces in turn, and every tenth of nobody.
fn fill(world: &World, count: u32) {
    world.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO points(id, namespace, vector, payload)
         SELECT i, CASE WHEN i % 10 = 0 THEN NULL WHEN i % 2 THEN 'user:a' ELSE 'user:b' END,
                zeroblob(16), json_object('n', i) FROM n"
    ));
}

const TABLES: [(&str, &str); 6] = [
    ("rowid alias", "id INTEGER PRIMARY KEY"),
    ("text key", "id TEXT PRIMARY KEY"),
    ("no index at all", "id"),
    ("strict", "id TEXT NOT NULL UNIQUE"),
    ("without rowid", "id ANY PRIMARY KEY"),
    ("composite key", "id INTEGER"),
];

fn table(kind: &str, id: &str, is_namespace_indexed: bool) -> World {
    let (constraint, options) = match kind {
        "strict" => ("", "STRICT"),
        "without rowid" => ("", "WITHOUT ROWID"),
        "composite key" => (", PRIMARY KEY (namespace, id)", "WITHOUT ROWID"),
        _ => ("", ""),
    };
    let index = if is_namespace_indexed {
        "CREATE INDEX i ON points(namespace, payload)"
    } else {
        ""
    };
    let null = if kind == "composite key" {
        "NOT NULL DEFAULT ''"
    } else {
        ""
    };
    World::new(&format!(
        "CREATE TABLE points({id}, namespace TEXT {null}, vector BLOB, payload TEXT {constraint}) {options};
         {index}"
    ))
}

#[test]
fn every_table_shape_is_listed_counted_and_emptied() {
    for (kind, id) in TABLES {
        for is_indexed in [true, false] {
            let world = table(kind, id, is_indexed);
            if kind == "composite key" {
                world.run(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4500)
                     INSERT INTO points SELECT i, CASE WHEN i % 10 = 0 THEN '' WHEN i % 2 THEN 'user:a'
                     ELSE 'user:b' END, zeroblob(16), json_object('n', i) FROM n",
                );
            } else {
                fill(&world, 4_500);
            }
            let what = format!("{kind}, namespace indexed: {is_indexed}");
            let store = world.open();
            let described = store.describe().unwrap();
            assert_eq!(
                (described.points, described.dimensions),
                (4_500, Some(4)),
                "{what}"
            );
            let counts = [("user:a".to_owned(), 2_250), ("user:b".to_owned(), 1_800)];
            assert_eq!(store.namespaces().unwrap(), counts, "{what}");
            for (of, expected) in [
                (Selector::All, numbers(1..=4_500)),
                (
                    Selector::Namespace("user:a"),
                    numbers((1..=4_500).step_by(2)),
                ),
                (
                    Selector::WithoutNamespace,
                    numbers((10..=4_500).step_by(10)),
                ),
                (Selector::Namespace("user:A"), vec![]),
            ] {
                assert_eq!(
                    store.count(of).unwrap(),
                    expected.len() as u64,
                    "{what} {of:?}"
                );
                let mut listed = ids(&store, of);
                listed.sort();
                assert_eq!(listed, expected, "{what} {of:?}");
                let mut listed = heads(&store, of, &["n", "none"]);
                listed.sort_by(|a, b| a.id.cmp(&b.id));
                for (head, id) in listed.iter().zip(&expected) {
                    let n = head.payload["n"].as_u64().map(PointId::Number);
                    assert_eq!(
                        (n.as_ref(), head.payload.len()),
                        (Some(id), 1),
                        "{what} {of:?}"
                    );
                }
            }
            take(&store, &numbers(1..=1_200));
            assert_eq!(ids(&store, Selector::All).len(), 3_300, "{what}");
        }
    }
}

#[test]
fn an_id_is_found_in_every_spelling() {
    let spelt = [
        "'6ba7b810-9dad-11d1-80b4-00c04fd430c1'",
        "'6ba7b8109dad11d180b400c04fd430c2'",
        "'6BA7B810-9DAD-11D1-80B4-00C04FD430C3'",
        "'6BA7B8109DAD11D180B400C04FD430C4'",
        "x'6ba7b8109dad11d180b400c04fd430c5'",
        "'{6ba7b810-9dad-11d1-80b4-00c04fd430c6}'",
        "'urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c7'",
        "'6bA7b810-9dad-11d1-80b4-00c04fd430c8'",
        "'note-7'",
        "'007'",
        "7",
        "'8'",
    ];
    for kind in ["id TEXT PRIMARY KEY", "id PRIMARY KEY", "id"] {
        let world = World::new(&format!(
            "CREATE TABLE points({kind}, namespace TEXT, vector BLOB, payload TEXT)"
        ));
        for id in spelt {
            world.run(&format!(
                "INSERT INTO points VALUES ({id}, 'user:a', x'0000803f', NULL)"
            ));
        }
        let before = world.dump();
        let mut expected: Vec<PointId> = (1..=8)
            .map(|i| uuid(&format!("6ba7b810-9dad-11d1-80b4-00c04fd430c{i}")))
            .collect();
        expected.extend([PointId::Text("note-7".into()), PointId::Text("007".into())]);
        expected.extend(numbers([7, 8]));
        expected.sort();

        let store = world.open();
        let mut listed = ids(&store, Selector::All);
        listed.sort();
        assert_eq!(listed, expected, "{kind}");
        // A store that has listed nothing yet finds them as well.
        let store = world.open();
        assert_eq!(store.vectors(&expected).unwrap().len(), 12, "{kind}");
        let images = take(&store, &expected);
        assert_eq!(world.dump(), Vec::<String>::new(), "{kind}");
        store.put_back(&images).unwrap();
        assert_eq!(world.dump(), before, "{kind}");
    }
}

#[test]
fn a_number_never_finds_the_row_of_another_text() {
    let world = World::new(
        "CREATE TABLE points(id INTEGER UNIQUE, namespace TEXT, vector BLOB, payload TEXT);
         INSERT INTO points VALUES (7, 'user:a', NULL, NULL)",
    );
    let store = world.open();
    let lookalikes = ["007", "7.0", "+7", " 7", "7e0"].map(|text| PointId::Text(text.into()));
    assert_eq!(copies(&store, &lookalikes), []);
    take(&store, &numbers([7]));
    assert_eq!(world.dump().len(), 0);
}

#[test]
fn rows_that_are_one_point_are_left_and_keep_no_other() {
    let uuid = uuid("6ba7b810-9dad-11d1-80b4-00c04fd430c1");
    for kind in ["id PRIMARY KEY", "id"] {
        for (twins, id) in [
            ("'7'), (7", PointId::Number(7)),
            (
                "'6ba7b810-9dad-11d1-80b4-00c04fd430c1'), ('6BA7B810-9DAD-11D1-80B4-00C04FD430C1'",
                uuid.clone(),
            ),
            (
                "'6ba7b810-9dad-11d1-80b4-00c04fd430c1'), ('{6ba7b810-9dad-11d1-80b4-00c04fd430c1}'",
                uuid.clone(),
            ),
            (
                "'6ba7b8109dad11d180b400c04fd430c1'), (x'6ba7b8109dad11d180b400c04fd430c1'",
                uuid.clone(),
            ),
        ] {
            let world = World::new(&format!(
                "CREATE TABLE points({kind}, namespace TEXT, vector BLOB, payload TEXT)"
            ));
            world.run("INSERT INTO points(id) VALUES (8)");
            let store = world.open();
            let before_its_twin = copies(&world.open(), &numbers([8]));
            world.run(&format!("INSERT INTO points(id) VALUES ({twins})"));
            let both = [id.clone(), PointId::Number(8)];
            let captured = store.capture(&both).unwrap();
            assert_eq!(captured.ambiguous, [id.clone()].into(), "{kind} {twins}");
            assert_eq!(captured.images, before_its_twin);
            assert_eq!(store.vectors(&both).unwrap(), []);
            let of_one = PointImage {
                id: id.clone(),
                ..before_its_twin[0].clone()
            };
            let left = store.remove(&[of_one, before_its_twin[0].clone()]).unwrap();
            assert_eq!(left, [id].into(), "{kind} {twins}");
            assert_eq!(world.dump().len(), 2, "{kind} {twins}");
        }
    }
}

#[test]
fn a_key_that_names_no_point_is_counted_and_not_shown() {
    for key in ["NULL", "-1", "1.5", "x'00ff'"] {
        let world = World::new(
            "CREATE TABLE points(id UNIQUE, namespace TEXT, vector BLOB, payload TEXT);
             INSERT INTO points(id, namespace, payload) VALUES (1, 'user:a', '{\"n\": 5}')",
        );
        world.run(&format!(
            "INSERT INTO points(id, namespace, payload) VALUES ({key}, 'user:a', '{{\"n\": 5}}')"
        ));
        let store = world.open();
        for keys in [&[][..], &["n"]] {
            let mut shown = Vec::new();
            let unnamed = store
                .scroll(Selector::All, keys, &mut |page| {
                    shown.extend(page.into_iter().map(|head| head.id));
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert_eq!((unnamed, shown), (1, numbers([1])), "{key}");
        }
        let mut found = store.find("user:a", "n", &["5".to_owned()]).unwrap();
        found.sort();
        let five = |id| ("5".to_owned(), id);
        assert_eq!(found, [five(None), five(Some(PointId::Number(1)))], "{key}");
    }
}

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
fn wrong_names_stop_at_the_start() {
    let columns = "id INTEGER PRIMARY KEY, namespace TEXT, vector BLOB, payload TEXT";
    for (schema, what) in [
        ("CREATE TABLE other(id)".to_owned(), "table \"points\""),
        (
            columns.replace("id ", "key "),
            "column \"id\" of table \"points\"",
        ),
        (columns.replace("vector", "v"), "column \"vector\""),
        (
            columns
                .replace("namespace TEXT, ", "")
                .replace(", payload TEXT", ""),
            "column \"namespace\"",
        ),
    ] {
        let schema = if schema.starts_with("CREATE") {
            schema
        } else {
            format!("CREATE TABLE points({schema})")
        };
        let error = World::new(&schema).refusal();
        assert!(matches!(&error, VectorError::Missing { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    let misspelt =
        World::new(&format!("CREATE TABLE points({columns})").replace("namespace", "ns"));
    misspelt.run(r#"INSERT INTO points(id, payload) VALUES (1, '{"namespaces": "user:a"}')"#);
    let error = misspelt.refusal();
    assert!(matches!(&error, VectorError::Missing { .. }), "{error}");

    let view =
        World::new("CREATE TABLE t(id, namespace, vector); CREATE VIEW points AS SELECT * FROM t");
    assert!(view.refusal().to_string().contains("view"));
    let trigger = World::new(&format!(
        "CREATE TABLE points({columns});
         CREATE TRIGGER gone AFTER DELETE ON points BEGIN SELECT from_an_extension(old.id); END"
    ));
    let error = trigger.refusal();
    assert!(matches!(&error, VectorError::Sqlite { .. }), "{error}");
}

#[test]
fn a_missing_file_is_missing_and_stays_so() {
    let config = VectorTable {
        path: PathBuf::from("/nonexistent/v.db"),
        ..World::new(POINTS).config()
    };
    let error = SqliteVectors::open(&config, "namespace", Access::Read, Stop::default())
        .err()
        .expect("a refusal");
    assert!(error.is_missing(), "{error}");
}

#[test]
fn names_are_found_in_either_case() {
    let world =
        World::new("CREATE TABLE Points(ID INTEGER PRIMARY KEY, NameSpace TEXT, Vector BLOB)");
    world.run("INSERT INTO points VALUES (1, 'user:a', x'0000803f')");
    let store = world.open();
    let images = take(&store, &numbers([1]));
    store.put_back(&images).unwrap();
    assert_eq!(ids(&store, Selector::Namespace("user:a")), numbers([1]));
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
