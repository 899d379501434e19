//! Taking a run back: both stores as they were, or the memory is named that is not.

use std::collections::BTreeMap;
use std::path::Path;

use hypnos::failpoint::Failpoint;
use hypnos::memory::{Memory, MemoryId, Namespace};
use hypnos::pass::member::member;
use hypnos::plan::{Question, QuestionKind, Reason};
use hypnos::state::{ActionResult, Partition, StateDir};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    BACKENDS, Backend, DAY, Output, Point, World, dump, files, hypnos, now, open, point_id,
};

mod demo;
mod marks;

const FTS: &str = "
    CREATE VIRTUAL TABLE memories_fts USING fts5(content, content='memories', content_rowid='id');
    CREATE TRIGGER memories_ai AFTER INSERT ON memories BEGIN
      INSERT INTO memories_fts(rowid, content) VALUES (new.id, new.content); END;
    CREATE TRIGGER memories_ad AFTER DELETE ON memories BEGIN
      INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.id, old.content); END;
    CREATE TRIGGER memories_au AFTER UPDATE ON memories BEGIN
      INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.id, old.content);
      INSERT INTO memories_fts(rowid, content) VALUES (new.id, new.content); END;";

/// Ana has two live memories, three expired ones with tags, one of them with another hidden behind it, and a point
/// without a row; zoe's account was closed.
fn world(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.rows().execute_batch(FTS).unwrap();
    world.user("ana", None);
    world.user("zoe", Some(now() - 30 * DAY));
    world.memory("zoe", now(), None);
    for _ in 0..2 {
        world.memory("ana", now(), None);
    }
    for _ in 0..3 {
        let id = world.memory("ana", now() - 40 * DAY, Some(7));
        let tag = "INSERT INTO memory_tags VALUES(?1, 'a'), (?1, 'b')";
        world.rows().execute(tag, [id]).unwrap();
    }
    let hidden = world.memory("ana", now() - 50 * DAY, None);
    let hide = "UPDATE memories SET superseded_by = 6 WHERE id = ?1";
    world.rows().execute(hide, [hidden]).unwrap();
    world.ghost("user:ana");
    world
}

fn rows_of(world: &World, owner: &str) -> Vec<String> {
    let db = world.rows();
    let mut rows = Vec::new();
    for sql in [
        "SELECT rowid, * FROM memories WHERE user_id = ?1 ORDER BY id",
        "SELECT t.rowid, t.* FROM memory_tags t JOIN memories m ON m.id = t.memory_id WHERE m.user_id = ?1 ORDER BY 1",
    ] {
        let mut read = db.prepare(sql).unwrap();
        let columns = read.column_count();
        let found = read.query_map([owner], |row| {
            let values = (0..columns).map(|i| format!("{:?}", row.get_ref(i).unwrap()));
            Ok(values.collect::<Vec<_>>().join(" "))
        });
        rows.extend(found.unwrap().map(Result::unwrap));
    }
    rows
}

fn points_of(world: &World, namespace: &str) -> BTreeMap<Uuid, Point> {
    let mut points = world.all_points();
    points.retain(|_, point| point.namespace.as_deref() == Some(namespace));
    points
}

/// Where the text index finds a word.
fn found(world: &World, word: &str) -> Vec<i64> {
    let db = world.rows();
    let mut read = db
        .prepare("SELECT rowid FROM memories_fts WHERE memories_fts MATCH ?1 ORDER BY rowid")
        .unwrap();
    let ids = read.query_map([word], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

fn report(output: &Output) -> Value {
    output.objects("undo").remove(0)
}

fn undo(world: &World, args: &[&str]) -> Output {
    world.run(&[&["undo", "last", "--json"], args].concat())
}

fn run_of(night: &Output) -> String {
    night.objects("run")[0]["run"].as_str().unwrap().to_owned()
}

fn state(world: &World) -> hypnos::state::State {
    StateDir::new(&world.path("state"), "agent")
        .open(Partition::Main)
        .unwrap()
}

#[test]
fn a_night_comes_back_as_it_was_but_for_what_was_erased() {
    for backend in BACKENDS {
        let world = world(backend);
        let (rows, points) = (rows_of(&world, "ana"), points_of(&world, "user:ana"));
        let night = world.night().expect(0);
        assert_eq!(rows_of(&world, "ana").len(), 2, "{night:#?}");
        assert_eq!(points_of(&world, "user:ana").len(), 2);
        let before = files(world.dir.path());

        let dry = report(&undo(&world, &["--dry-run"]).expect(3));
        assert_eq!(dry["put_back"], json!({"delete": 3, "drop_point": 1}));
        assert_eq!(dry["actions"].as_array().unwrap().len(), 4);
        assert!(files(world.dir.path()) == before, "a dry run wrote");

        let undone = report(&undo(&world, &[]).expect(3));
        assert_eq!(undone["run"], json!(run_of(&night)));
        assert_eq!(undone["put_back"], dry["put_back"], "{undone:#}");
        assert_eq!(undone["erased"], json!({"delete": 1}), "{undone:#}");
        assert_eq!(undone["left"], json!([]));
        assert_eq!(undone["incomplete"], json!([]));
        assert_eq!(rows_of(&world, "ana"), rows, "{backend:?}");
        assert_eq!(points_of(&world, "user:ana"), points, "{backend:?}");
        assert_eq!(found(&world, "ana"), [2, 3, 4, 5, 6, 7]);
        assert_eq!(rows_of(&world, "zoe").len(), 0);
        assert_eq!(points_of(&world, "user:zoe").len(), 0);
        let again: Vec<_> = undone["again"].as_array().unwrap().clone();
        let reasons: Vec<_> = again.iter().map(|again| &again["reason"]).collect();
        assert_eq!(reasons, [&json!("expired"), &json!("row_gone")]);

        let twice = report(&undo(&world, &[]).expect(3));
        assert_eq!(twice["put_back"], json!({}));
        assert_eq!(twice["already"], undone["put_back"]);
        assert_eq!(rows_of(&world, "ana"), rows);
        assert_eq!(points_of(&world, "user:ana"), points);

        let totals = state(&world).totals().unwrap();
        let undone: u64 = totals
            .iter()
            .filter(|total| total.result == ActionResult::Undone)
            .map(|total| total.count)
            .sum();
        assert_eq!(undone, 4);
        let status = world.run(&["status", "--json"]).expect(0);
        let reversals = &status.objects("status")[0]["reversals"];
        assert_eq!(
            reversals[0],
            json!({"pass": "ttl", "applied": 3, "undone": 3, "rate": 1.0}),
            "{status:#?}"
        );
        // Its deadline is past: it goes again, as it was said.
        let next = world.night().expect(0);
        assert_eq!(next.pass("ttl")["applied"], json!({"delete": 3}));
        assert_eq!(rows_of(&world, "ana").len(), 2);
    }
}

#[test]
fn what_was_changed_since_is_left_and_named() {
    for backend in BACKENDS {
        let world = world(backend);
        let points = points_of(&world, "user:ana");
        let _ = world.night().expect(0);
        let db = world.rows();
        let insert = "INSERT INTO memories(id, user_id, content, content_hash, created_at) VALUES(?1, 'ana', 'new', ?2, ?3)";
        // The key of a memory that expired, and that of the one that was hidden behind another.
        for id in [4, 7] {
            db.execute(insert, params![id, format!("new {id}"), now()])
                .unwrap();
        }
        // The point of another was written anew.
        world.put_as("user:ana", 5, 99);
        let rewritten = points_of(&world, "user:ana");
        let undone = report(&undo(&world, &[]).expect(3));
        assert_eq!(undone["put_back"], json!({"delete": 2, "drop_point": 1}));
        let left: Vec<_> = undone["left"].as_array().unwrap().clone();
        assert_eq!(left.len(), 1, "{undone:#}");
        assert_eq!(
            (&left[0]["id"], &left[0]["why"]),
            (&json!("4"), &json!("changed"))
        );
        let mut incomplete: Vec<_> = undone["incomplete"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| (line["id"].to_string(), line["why"].to_string()))
            .collect();
        incomplete.sort();
        let expected = [
            ("\"5\"", "\"point_rewritten\""),
            ("\"6\"", "\"changed\""),
            ("\"6\"", "\"point_unclear\""),
        ];
        let expected = expected.map(|(id, why)| (id.to_owned(), why.to_owned()));
        assert_eq!(incomplete, expected, "{undone:#}");
        let now = points_of(&world, "user:ana");
        let (four, five, six, seven) = (
            point_id("user:ana", 4),
            point_id("user:ana", 5),
            point_id("user:ana", 6),
            point_id("user:ana", 7),
        );
        assert!(!now.contains_key(&four) && !now.contains_key(&seven));
        assert_eq!(now.get(&five), rewritten.get(&five));
        assert_eq!(now.get(&six), points.get(&six));
        let content: String = world
            .rows()
            .query_row(
                "SELECT group_concat(content) FROM memories WHERE id IN (4, 7)",
                [],
                |r| r.get(0),
            )
            .unwrap();
        assert_eq!(content, "new,new");
        // Once the way is free, what was left can still come back.
        world
            .rows()
            .execute("DELETE FROM memories WHERE id = 4", [])
            .unwrap();
        let undone = report(&undo(&world, &["--id", "4"]).expect(0));
        assert_eq!(undone["put_back"], json!({"delete": 1}));
        assert_eq!(points_of(&world, "user:ana").get(&four), points.get(&four));
    }
}

#[test]
fn one_memory_comes_back_alone_and_what_nothing_was_done_to_is_said() {
    let world = world(Backend::Sqlite);
    let night = world.night().expect(0);
    let undone = report(&undo(&world, &["--id", "5"]).expect(0));
    assert_eq!(undone["put_back"], json!({"delete": 1}));
    assert_eq!(world.ids(), [2, 3, 5].into());
    // One that was hidden behind another comes back with it.
    let undone = report(&undo(&world, &["--id", "7"]).expect(0));
    assert_eq!(undone["put_back"], json!({"delete": 1}));
    assert_eq!(world.ids(), [2, 3, 5, 6, 7].into());
    let run = run_of(&night);
    for wrong in [
        &["undo", "last", "--id", "2"][..],
        &["undo", "nonsense"],
        &["undo", &run, "--store", "other"],
        &["undo", &run, "--namespace", "nobody"],
    ] {
        let refused = world.run(wrong).expect(2);
        assert!(!refused.stderr.is_empty(), "{refused:#?}");
    }
    let why = world.run(&["why", "5", "--json"]).expect(0);
    let history = &why.objects("why")[0]["history"][0];
    assert!(history["undone_at"].is_string(), "{history:#}");
    let undo_run = undone["by"].as_str().unwrap();
    assert_ne!(history["undone_by"], json!(undo_run));
    let told = world.run(&["why", "6"]).expect(0).stdout;
    assert!(told.contains(&format!("by run {undo_run}")), "{told}");
}

#[test]
fn without_a_run_there_is_nothing_to_undo() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    let refused = world.run(&["undo", "last"]).expect(2);
    assert!(
        refused.stderr.contains("no run has changed anything"),
        "{refused:#?}"
    );
    let night = world.night().expect(0);
    let _ = world.run(&["undo", "last"]).expect(2);
    let undone = world.run(&["undo", &run_of(&night)]).expect(0);
    assert!(undone.stdout.contains("nothing to put back"), "{undone:#?}");
    let _held = {
        let holder = hypnos::state::Holder {
            pid: 1,
            run: "other".into(),
            host: "here".into(),
            since: jiff::Timestamp::UNIX_EPOCH,
            command: "test".into(),
        };
        StateDir::new(&world.path("state"), "agent")
            .lock(&holder)
            .unwrap()
    };
    let _ = world.run(&["undo", &run_of(&night)]).expect(11);
}

#[test]
fn an_id_to_which_the_run_did_nothing_is_an_error_and_no_report() {
    let world = world(Backend::Sqlite);
    let night = world.night().expect(0);
    let runs = |world: &World| world.run(&["status", "--json"]).expect(0).stdout;
    let before = runs(&world);
    for args in [&["--json"][..], &[]] {
        let refused = world.run(&[&["undo", "last", "--id", "2"], args].concat());
        let refused = refused.expect(2);
        assert!(!refused.stdout.contains("undo"), "{refused:#?}");
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains("did nothing to 2"), "{refused:#?}");
        assert!(said.contains(&run_of(&night)), "{refused:#?}");
    }
    assert_eq!(runs(&world), before, "nothing was begun");
}

#[test]
fn what_a_restore_has_brought_back_is_not_said_to_be_put_back() {
    for backend in BACKENDS {
        let world = world(backend);
        let _ = world.run(&["snapshot", "now"]).expect(0);
        let listed = world.run(&["snapshot", "list", "--json"]).expect(0);
        let pair = listed.objects("pair")[0]["pair"].clone();
        let night = run_of(&world.night().expect(0));
        let pair = [
            "snapshot",
            "restore",
            pair.as_str().unwrap(),
            "--bring-back",
        ];
        let _ = world
            .run(&[&pair[..], &["--no-safety-pair"]].concat())
            .expect(3);
        let (rows, points) = (rows_of(&world, "ana"), points_of(&world, "user:ana"));
        let all = json!({"delete": 3, "drop_point": 1});
        for args in [&["--dry-run"][..], &[]] {
            let undone = world.run(&[&["undo", &night, "--json"], args].concat());
            let undone = report(&undone.expect(3));
            assert_eq!(undone["put_back"], json!({}), "{backend:?} {undone:#}");
            assert_eq!(undone["there"], all, "{backend:?} {undone:#}");
            assert_eq!(undone["left"], json!([]), "{backend:?} {undone:#}");
        }
        assert_eq!(rows_of(&world, "ana"), rows);
        assert_eq!(points_of(&world, "user:ana"), points);
        let twice = report(&world.run(&["undo", &night, "--json"]).expect(3));
        assert_eq!((&twice["there"], &twice["already"]), (&json!({}), &all));
    }
}

#[test]
fn a_part_that_a_restore_did_not_bring_back_is_put_back() {
    let world = world(Backend::Sqlite);
    let (rows, points) = (rows_of(&world, "ana"), points_of(&world, "user:ana"));
    let _ = world.run(&["snapshot", "now"]).expect(0);
    let listed = world.run(&["snapshot", "list", "--json"]).expect(0);
    let pair = listed.objects("pair")[0]["pair"].clone();
    let night = run_of(&world.night().expect(0));
    let restore = [
        "snapshot",
        "restore",
        pair.as_str().unwrap(),
        "--bring-back",
    ];
    let _ = world.run(&restore).expect(3);
    // A tag of one, the point of another.
    let delete = "DELETE FROM memory_tags WHERE memory_id = 4 AND tag = 'a'";
    world.rows().execute(delete, []).unwrap();
    let point = point_id("user:ana", 5).to_string();
    open(&world.path("vectors.db"))
        .execute("DELETE FROM points WHERE id = ?1", [point])
        .unwrap();
    for args in [&["--dry-run"][..], &[]] {
        let undone = world.run(&[&["undo", &night, "--json"], args].concat());
        let undone = report(&undone.expect(3));
        assert_eq!(undone["put_back"], json!({"delete": 2}), "{undone:#}");
        let there = json!({"delete": 1, "drop_point": 1});
        assert_eq!(undone["there"], there, "{undone:#}");
    }
    assert_eq!(rows_of(&world, "ana").len(), rows.len());
    assert_eq!(points_of(&world, "user:ana"), points);
}

#[test]
fn a_long_list_of_what_goes_again_says_how_many_it_leaves_out() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for _ in 0..23 {
        world.memory("ana", now() - 40 * DAY, Some(7));
    }
    let _ = world.night().expect(0);
    let told = world.run(&["undo", "last", "--dry-run"]).expect(0).stdout;
    assert!(told.contains("23 of them would be back, but "), "{told}");
    assert!(told.contains(" and 3 more\n"), "{told}");
}

#[test]
fn what_is_older_than_is_kept_is_counted() {
    let mut world = world(Backend::Sqlite);
    let night = run_of(&world.night().expect(0));
    world.config.insert_str(0, "undo.keep = \"1s\"\n");
    world.write_config();
    let _ = world.run(&["undo", "last", "--dry-run"]).expect(3);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let _ = world.night().expect(0);
    let told = world.run(&["undo", "last"]).expect(3);
    for part in [
        night.as_str(),
        "nothing to put back",
        "3 delete, 1 drop_point are not kept any more",
        "1 delete were erasures",
    ] {
        assert!(told.stdout.contains(part), "{part}: {told:#?}");
    }
    let undone = report(&undo(&world, &[]).expect(3));
    let lost = json!({"delete": 3, "drop_point": 1});
    assert_eq!(undone["not_kept"], lost, "{undone:#}");
    let refused = world.run(&["undo", "last", "--id", "5"]).expect(2);
    assert!(
        refused.stderr.contains("is not kept any more"),
        "{refused:#?}"
    );
}

#[test]
fn who_was_forgotten_since_is_counted_and_the_forgetting_is_the_last_run() {
    let mut world = world(Backend::Sqlite);
    world.user("bea", None);
    world.memory("bea", now() - 40 * DAY, Some(7));
    let night = run_of(&world.night().expect(0));
    let _ = world.run(&["forget", "user:ana", "--yes"]).expect(0);
    let undone = report(&undo(&world, &[]).expect(3));
    assert_ne!(undone["run"], json!(night), "{undone:#}");
    assert_eq!(undone["erased"], json!({"delete": 2}), "{undone:#}");
    let undone = report(&world.run(&["undo", &night, "--json"]).expect(3));
    assert_eq!(undone["put_back"], json!({"delete": 1}), "{undone:#}");
    let erased = json!({"delete": 4, "drop_point": 1});
    assert_eq!(undone["erased"], erased, "{undone:#}");
    assert_eq!(undone["not_kept"], json!({}), "{undone:#}");
}

#[test]
fn who_left_since_is_not_brought_back() {
    for (sql, why) in [
        (
            "UPDATE users SET deleted_at = 1700000000 WHERE id = 'ana'",
            "owner_deleted",
        ),
        ("DELETE FROM users WHERE id = 'ana'", "owner_unknown"),
    ] {
        let world = world(Backend::Sqlite);
        world.user("bea", None);
        let _ = world.night().expect(0);
        world.rows().execute(sql, []).unwrap();
        let undone = report(&undo(&world, &[]).expect(3));
        assert_eq!(undone["put_back"], json!({}), "{undone:#}");
        let left = undone["left"].as_array().unwrap();
        assert!(
            left.len() == 4 && left.iter().all(|line| line["why"] == why),
            "{undone:#}"
        );
        assert_eq!(rows_of(&world, "ana").len(), 2);
    }
}

#[test]
fn what_was_done_on_other_stores_is_left() {
    let mut world = world(Backend::Sqlite);
    let night = world.night().expect(0);
    std::fs::copy(world.path("memory.db"), world.path("other.db")).unwrap();
    world.configure("path = \"memory.db\"", "path = \"other.db\"");
    let before = dump(&world.path("other.db"));
    let refused = world.run(&["undo", &run_of(&night)]).expect(78);
    assert_eq!(dump(&world.path("other.db")), before);
    // The store has moved, a person says. What was done where it was is done there.
    let (_, hash) = refused.stderr.split_once("--accept ").unwrap();
    let hash = hash.split_whitespace().next().unwrap();
    let _ = world.run(&["--run-now", "--only", "decay", "--accept", hash]);
    let before = dump(&world.path("other.db"));
    let undone = report(&world.run(&["undo", &run_of(&night), "--json"]).expect(3));
    assert_eq!(undone["put_back"], json!({}));
    assert_eq!(undone["left"][0]["why"], "other_stores");
    assert_eq!(dump(&world.path("other.db")), before);
}

#[test]
fn an_undo_that_is_cut_off_is_open_and_the_next_run_finishes_it() {
    for backend in BACKENDS {
        for point in [
            Failpoint::UndoBegun,
            Failpoint::RowsCommitted,
            Failpoint::PutBackDone,
            Failpoint::UndoSettled,
        ] {
            let world = world(backend);
            let (rows, points) = (rows_of(&world, "ana"), points_of(&world, "user:ana"));
            let _ = world.night().expect(0);
            let cut = Output::of(
                world
                    .command(&["undo", "last"])
                    .env("FAILPOINTS", format!("{}=return(kill)", point.as_str())),
            );
            assert_eq!(cut.code, None, "{point}: {cut:#?}");
            let open = world.run(&["status", "--json"]).expect(0);
            let open = open.objects("status")[0]["open_intents"].as_u64().unwrap();
            assert_eq!(open > 0, point != Failpoint::UndoSettled, "{point}");
            let dry = world
                .run(&["--dry-run", "--only", "decay", "--json"])
                .expect(0);
            let begun: usize = dry
                .objects("replay")
                .iter()
                .flat_map(|replay| replay["actions"].as_array().unwrap().clone())
                .filter(|action| action["undo"].is_string())
                .count();
            assert_eq!(begun as u64, open, "{point}: {dry:#?}");
            let next = world
                .run(&["--run-now", "--only", "decay", "--json"])
                .expect(0);
            assert_eq!(next.objects("run")[0]["replayed"], json!(open), "{point}");
            assert_eq!(rows_of(&world, "ana"), rows, "{backend:?} {point}");
            assert_eq!(points_of(&world, "user:ana"), points, "{backend:?} {point}");
        }
    }
}

#[test]
fn a_tenant_is_undone_in_its_own_file() {
    let mut world = World::new(Backend::Sqlite);
    for name in ["ana", "bea"] {
        world.user(name, None);
        std::fs::create_dir_all(world.path(&format!("users/{name}"))).unwrap();
        let db = open(&world.path(&format!("users/{name}/memory.db")));
        db.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, created_at INTEGER, ttl_days INTEGER)",
        )
        .unwrap();
        let insert = "INSERT INTO memories VALUES(?1, 'x', ?2, ?3)";
        db.execute(insert, params![1, now() - 40 * DAY, 7]).unwrap();
        db.execute(insert, params![2, now(), None::<i64>]).unwrap();
        world.put(&[1, 2].map(|id| (format!("user:{name}"), id)));
    }
    let from = world.config.find("[store.rows]").unwrap();
    let to = world.config.find("[store.owners]").unwrap();
    let rows = "[store.rows]\npath = \"users/{tenant}/memory.db\"\ntable = \"memories\"\nid = \"id\"\n\
                content = \"content\"\ncreated_at = \"created_at:epoch_s\"\nttl_days = \"ttl_days\"\n";
    world.config.replace_range(from..to, rows);
    world.configure("scope = \"user\"", "scope = \"user\"\npath = \"memory.db\"");
    let of = |name: &str| dump(&world.path(&format!("users/{name}/memory.db")));
    let (ana, points) = (of("ana"), world.all_points());
    let _ = world.night().expect(0);
    let bea = of("bea");
    assert_eq!(world.all_points().len(), 2);
    let undone = report(&undo(&world, &["--id", "1", "--namespace", "user:ana"]).expect(0));
    assert_eq!(undone["put_back"], json!({"delete": 1}), "{undone:#}");
    assert_eq!((of("ana"), of("bea")), (ana, bea));
    let undone = report(&undo(&world, &[]).expect(0));
    assert_eq!(undone["put_back"], json!({"delete": 1}));
    assert_eq!(undone["already"], json!({"delete": 1}));
    assert_eq!(world.all_points(), points);
}
