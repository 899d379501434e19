use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::store::image::PointImage;
use crate::store::vectors::{PointHead, Selector, VectorReader, VectorStore};

mod keys;
mod reading;
mod writing;

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
