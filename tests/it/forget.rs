//! Forgetting an owner: nothing of it is left in any file that hypnos reaches, and nobody else loses anything.

use std::collections::BTreeMap;
use std::path::Path;

use hypnos::failpoint::Failpoint;
use hypnos::state::{Partition, StateDir};
use rusqlite::params;
use serde_json::{Value, json};

use crate::support::{
    BACKENDS, Backend, DAY, Output, Points, World, dump, files, holds, now, open,
};

mod pairs;

use pairs::pair;

/// What must not be found in any file.
const MARKER: &str = "zanzibar4477";
/// What an earlier night removed: only hypnos' own copy of it can be overwritten.
const EXPIRED: &str = "montevideo8811";

const FTS: &str = "
    CREATE VIRTUAL TABLE memories_fts USING fts5(content, content='memories', content_rowid='id');
    CREATE TRIGGER memories_ai AFTER INSERT ON memories BEGIN
      INSERT INTO memories_fts(rowid, content) VALUES (new.id, new.content); END;
    CREATE TRIGGER memories_ad AFTER DELETE ON memories BEGIN
      INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.id, old.content); END;";

/// Ana has memories with the marker, tags, one hidden behind another, a point without a row, and one that the night
/// has removed; bea and a team called ana have memories and points of their own.
fn world(backend: Backend) -> World {
    let world = World::new(backend);
    let mut db = world.rows();
    db.execute_batch(FTS).unwrap();
    for user in ["ana", "bea", "an"] {
        world.user(user, None);
    }
    let tx = db.transaction().unwrap();
    {
        let mut insert = tx
            .prepare(
                "INSERT INTO memories(id, user_id, content, content_hash, created_at, ttl_days, superseded_by)
                 VALUES(?1, ?2, ?3, ?1, ?4, ?5, ?6)",
            )
            .unwrap();
        let none = None::<i64>;
        for (id, user, word, age, ttl, behind) in [
            (1, "ana", MARKER, 0, none, none),
            (2, "ana", MARKER, 0, none, none),
            (3, "ana", MARKER, 1, none, Some(1)),
            (4, "ana", EXPIRED, 40, Some(7), none),
            (5, "bea", "hers", 0, none, none),
            (6, "an", "theirs", 0, none, none),
        ] {
            let text = format!("{word} is number {id}");
            insert
                .execute(params![id, user, text, now() - age * DAY, ttl, behind])
                .unwrap();
            tx.execute("INSERT INTO memory_tags VALUES(?1, ?2)", params![id, word])
                .unwrap();
        }
    }
    tx.commit().unwrap();
    let points = [
        ("user:ana", 1),
        ("user:ana", 2),
        ("user:ana", 4),
        ("user:ana", 77),
        ("user:bea", 5),
        ("user:an", 6),
        ("team:ana", 1),
    ];
    let points = points.map(|(namespace, id)| (namespace.to_owned(), id));
    world.put(&points);
    match &world.points {
        Points::Qdrant(collection) => {
            collection.say(&crate::support::point_id("user:ana", 1), MARKER);
        }
        Points::Sqlite(path) => {
            let payload = format!(r#"{{"namespace": "user:ana", "row": 1, "text": "{MARKER}"}}"#);
            let set = "UPDATE points SET payload = ?1 WHERE id = ?2";
            let id = crate::support::point_id("user:ana", 1).to_string();
            open(path).execute(set, params![payload, id]).unwrap();
        }
    }
    let night = world
        .run(&["--run-now", "--only", "ttl", "--json"])
        .expect(0);
    assert_eq!(night.pass("ttl")["applied"], json!({"delete": 1}));
    world
}

/// The files in which a text stands.
fn found(world: &World, text: &str) -> Vec<String> {
    let all = files(world.dir.path()).into_iter();
    all.filter(|(_, bytes)| holds(bytes, text))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

fn certificate(output: &Output) -> Value {
    output.objects("certificate").remove(0)
}

/// What was removed, by kind, over all places.
fn removed(certificate: &Value) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for copy in certificate["stores"][0]["removed"].as_array().unwrap() {
        let what = copy["what"].as_str().unwrap().to_owned();
        *counts.entry(what).or_default() += copy["count"].as_u64().unwrap();
    }
    counts
}

fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    all.iter()
        .map(|(what, count)| ((*what).to_owned(), *count))
        .collect()
}

/// What the others have: memories with their tags.
fn theirs(world: &World) -> Vec<(String, String, String)> {
    let db = world.rows();
    let mut read = db
        .prepare(
            "SELECT m.user_id, m.content, t.tag FROM memories m JOIN memory_tags t ON t.memory_id = m.id
             WHERE m.user_id <> 'ana' ORDER BY m.id",
        )
        .unwrap();
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

const FORGET: [&str; 4] = ["forget", "user:ana", "--yes", "--json"];

#[test]
fn nothing_is_left_in_any_file_and_nobody_else_is_touched() {
    for backend in BACKENDS {
        let world = world(backend);
        assert!(!found(&world, MARKER).is_empty());
        assert!(found(&world, EXPIRED).iter().any(|f| f.contains("state")));
        // The agent is there, and its log is not empty.
        let agent = world.rows();
        agent
            .execute("UPDATE memories SET last_used_at = 1 WHERE id = 1", [])
            .unwrap();
        let before = theirs(&world);
        assert_eq!(before.len(), 2);
        let dry = certificate(
            &world
                .run(&["forget", "user:ana", "--dry-run", "--json"])
                .expect(0),
        );
        let done = world
            .run(&[&FORGET[..], &["--certificate", "proof.json"]].concat())
            .expect(0);
        let done = certificate(&done);
        let expected = counts(&[
            ("rows", 3),
            ("points", 3),
            ("actions", 1),
            ("pre_images", 1),
        ]);
        assert_eq!(removed(&dry), expected, "{dry:#}");
        assert_eq!(removed(&done), expected, "{done:#}");
        assert_eq!(world.ids(), [5, 6].into(), "{backend:?}");
        let left: Vec<_> = world.all_points().into_values().collect();
        let mut left: Vec<_> = left.into_iter().filter_map(|p| p.namespace).collect();
        left.sort();
        assert_eq!(left, ["team:ana", "user:an", "user:bea"]);
        assert_eq!(theirs(&world), before);

        assert_eq!(found(&world, MARKER), [""; 0], "{backend:?}: {done:#}");
        let in_state: Vec<_> = found(&world, EXPIRED)
            .into_iter()
            .filter(|file| file.starts_with("state"))
            .collect();
        assert_eq!(in_state, [""; 0], "{backend:?}");
        let named: Vec<_> = found(&world, "user:ana")
            .into_iter()
            .filter(|file| file.starts_with("state"))
            .collect();
        assert_eq!(named, [""; 0], "{backend:?}");
        // Only the certificate names whose it was.
        let proof: Value =
            serde_json::from_slice(&std::fs::read(world.path("proof.json")).unwrap()).unwrap();
        assert_eq!(proof["namespace"], "user:ana");
        assert_eq!(proof["stores"], done["stores"]);
        assert!(proof["beyond"].as_array().unwrap().len() >= 3);

        let state = StateDir::new(&world.path("state"), "agent")
            .open(Partition::Main)
            .unwrap();
        let stones = state.tombstones(jiff::Timestamp::UNIX_EPOCH).unwrap();
        assert!(
            stones.len() >= 4 && stones.iter().all(|stone| stone.erased),
            "{stones:?}"
        );
        assert_eq!(state.erased_namespaces().unwrap().len(), 1);
        assert_eq!(state.count_open_intents().unwrap(), 0);
        drop(state);

        // The night that had removed one of them cannot be undone for it.
        let undone = world.run(&["undo", "last", "--json"]);
        assert!(matches!(undone.code, Some(2 | 3)), "{undone:#?}");
        assert_eq!(world.ids(), [5, 6].into());
        let twice = certificate(&world.run(&FORGET).expect(0));
        assert_eq!(removed(&twice), counts(&[]));
        drop(agent);
    }
}

#[test]
fn nothing_is_erased_unless_it_is_meant() {
    let world = world(Backend::Sqlite);
    let before = files(world.dir.path());
    for (args, code, words) in [
        (&["forget", "user:ana"][..], 2, "--yes"),
        (&["forget", "ana", "--yes"], 2, "scope:owner"),
        (
            &[
                "forget",
                "user:ana",
                "--yes",
                "--certificate",
                "no/such/folder.json",
            ],
            2,
            "--certificate",
        ),
        (
            &["forget", "user:ana", "--yes", "--store", "other"],
            2,
            "no store named",
        ),
        (&["forget", "user:ana", "--dry-run"], 0, ""),
    ] {
        let output = world.run(args).expect(code);
        assert!(output.stderr.contains(words), "{output:#?}");
        assert!(files(world.dir.path()) == before, "{args:?} wrote");
    }
}

#[test]
fn what_a_reader_keeps_in_the_log_is_said_and_erased_the_next_time() {
    let world = world(Backend::Sqlite);
    let reader = world.rows();
    reader.execute_batch("BEGIN").unwrap();
    let seen: i64 = reader
        .query_row("SELECT count(*) FROM memories", [], |row| row.get(0))
        .unwrap();
    assert_eq!(seen, 5);
    let first = certificate(&world.run(&FORGET).expect(3));
    let remaining = first["stores"][0]["remaining"].as_array().unwrap().clone();
    let unfinished: Vec<_> = remaining
        .iter()
        .filter(|remaining| remaining["unfinished"] == true)
        .map(|remaining| remaining["what"].as_str().unwrap())
        .collect();
    assert_eq!(unfinished, ["log"], "{first:#}");
    assert_eq!(world.ids(), [5, 6].into());
    reader.execute_batch("COMMIT").unwrap();
    let _ = world.run(&FORGET).expect(0);
    assert_eq!(found(&world, MARKER), [""; 0]);
}

#[test]
fn a_memory_that_another_owner_refers_to_remains_and_is_said() {
    let world = world(Backend::Sqlite);
    let db = world.rows();
    db.execute("UPDATE memories SET superseded_by = 2 WHERE id = 5", [])
        .unwrap();
    let done = certificate(&world.run(&FORGET).expect(3));
    assert_eq!(world.ids(), [2, 5, 6].into(), "{done:#}");
    assert!(world.point_rows().contains(&2), "its point stays with it");
    let remaining = done["stores"][0]["remaining"].to_string();
    assert!(remaining.contains("1 rows"), "{done:#}");
    db.execute("UPDATE memories SET superseded_by = NULL WHERE id = 5", [])
        .unwrap();
    // It was said, and stays to be done.
    let status = world.run(&["status", "--json"]).expect(0);
    assert_eq!(status.objects("status")[0]["forgetting"], 1);
    let _ = world.run(&["--run-now", "--only", "decay"]).expect(0);
    assert_eq!(world.ids(), [5, 6].into());
    let status = world.run(&["status", "--json"]).expect(0);
    assert_eq!(status.objects("status")[0]["forgetting"], Value::Null);
}

#[test]
fn what_a_killed_run_left_is_erased_by_the_next_night() {
    for backend in BACKENDS {
        for point in [
            Failpoint::ForgetBegun,
            Failpoint::IntentWritten,
            Failpoint::PointsRemoved,
            Failpoint::RowsCommitted,
            Failpoint::ForgetStateBefore,
            Failpoint::ForgetStateDone,
            Failpoint::ForgetOverwritten,
        ] {
            let world = world(backend);
            let killed = Output::of(
                world
                    .command(&FORGET)
                    .env("FAILPOINTS", format!("{}=return(kill)", point.as_str())),
            );
            assert_eq!(killed.code, None, "{point}: {killed:#?}");
            let status = world.run(&["status", "--json"]).expect(0);
            let status = &status.objects("status")[0];
            assert_eq!(status["forgetting"], 1, "{point}: {status:#}");
            let _ = world.run(&["--run-now", "--only", "decay"]).expect(0);
            assert_eq!(world.ids(), [5, 6].into(), "{backend:?} {point}");
            assert_eq!(world.all_points().len(), 3, "{backend:?} {point}");
            assert_eq!(found(&world, MARKER), [""; 0], "{backend:?} {point}");
            let status = world.run(&["status", "--json"]).expect(0);
            assert_eq!(status.objects("status")[0]["forgetting"], Value::Null);
        }
    }
}

fn tenant(world: &World, name: &str, word: &str) -> std::path::PathBuf {
    world.user(name, None);
    std::fs::create_dir_all(world.path(&format!("users/{name}"))).unwrap();
    let path = world.path(&format!("users/{name}/memory.db"));
    let db = open(&path);
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, created_at INTEGER, ttl_days INTEGER)",
    )
    .unwrap();
    let insert = "INSERT INTO memories VALUES(?1, ?2, ?3, ?4)";
    db.execute(insert, params![1, word, now(), None::<i64>])
        .unwrap();
    db.execute(insert, params![2, EXPIRED, now() - 40 * DAY, 7])
        .unwrap();
    world.put(&[1, 2].map(|id| (format!("user:{name}"), id)));
    path
}

fn rows(path: &Path) -> i64 {
    open(path)
        .query_row("SELECT count(*) FROM memories", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn of_a_store_with_a_file_per_tenant_the_one_file_is_emptied() {
    let mut world = World::new(Backend::Sqlite);
    let (ana, bea) = (tenant(&world, "ana", MARKER), tenant(&world, "bea", "hers"));
    let from = world.config.find("[store.rows]").unwrap();
    let to = world.config.find("[store.owners]").unwrap();
    let config = "[store.rows]\npath = \"users/{tenant}/memory.db\"\ntable = \"memories\"\nid = \"id\"\n\
                  content = \"content\"\ncreated_at = \"created_at:epoch_s\"\nttl_days = \"ttl_days\"\n";
    world.config.replace_range(from..to, config);
    world.configure("scope = \"user\"", "scope = \"user\"\npath = \"memory.db\"");
    let _ = world
        .run(&["--run-now", "--only", "ttl", "--json"])
        .expect(0);
    let theirs = dump(&bea);
    // Even when the owners table has forgotten her first.
    world
        .rows()
        .execute("DELETE FROM users WHERE id = 'ana'", [])
        .unwrap();
    let done = certificate(&world.run(&FORGET).expect(0));
    assert_eq!(rows(&ana), 0, "{done:#}");
    assert_eq!(dump(&bea), theirs);
    assert_eq!(found(&world, MARKER), [""; 0]);
    let expected = counts(&[
        ("rows", 1),
        ("points", 1),
        ("actions", 1),
        ("pre_images", 1),
    ]);
    assert_eq!(removed(&done), expected);
    let in_state: Vec<_> = found(&world, EXPIRED)
        .into_iter()
        .filter(|file| file.contains("ana.db"))
        .collect();
    assert_eq!(in_state, [""; 0]);
    let left: Vec<_> = world.all_points().into_values().collect();
    assert!(left.len() == 1 && left[0].namespace.as_deref() == Some("user:bea"));
}

#[test]
fn of_nobody_nothing_is_said_to_be_erased() {
    let world = world(Backend::Sqlite);
    let told = world.run(&["forget", "user:zed", "--yes"]).expect(0).stdout;
    assert!(
        told.starts_with("user:zed: nothing was found, nothing was erased\n"),
        "{told}"
    );
    assert!(!told.contains("erased user:zed"), "{told}");
}

#[test]
fn what_a_restore_kept_aside_is_named() {
    let world = world(Backend::Sqlite);
    let old = pair(&world);
    let restore = ["snapshot", "restore", &old, "--no-safety-pair"];
    let _ = world.run(&restore);
    let kept = |world: &World, args: &[&str]| -> Vec<String> {
        let certificate = certificate(&world.run(args));
        let remaining = certificate["stores"][0]["remaining"].as_array().unwrap();
        let kept = remaining.iter().filter(|it| it["what"] == "kept");
        kept.map(|it| it["place"].as_str().unwrap().to_owned())
            .collect()
    };
    let dry = ["forget", "user:ana", "--dry-run", "--json"];
    let named = kept(&world, &dry);
    assert_eq!(named.len(), 2, "{named:?}");
    for file in ["memory.db.before-", "vectors.db.before-"] {
        assert!(named.iter().any(|it| it.contains(file)), "{named:?}");
    }
    assert_eq!(kept(&world, &FORGET), named);
    for file in &named {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!(kept(&world, &FORGET), [""; 0]);
}
