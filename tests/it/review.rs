//! The queue: what is put into it, and what each answer does to both stores.

use std::collections::BTreeSet;

use hypnos::failpoint::Failpoint;
use hypnos::memory::{Memory, MemoryId, Namespace};
use hypnos::pass::member::member;
use hypnos::plan::{Question, QuestionKind, Reason};
use hypnos::state::{Partition, State, StateDir};
use rusqlite::params;
use serde_json::Value;

use crate::support::{BACKENDS, Backend, DAY, Output, World, now, open};

/// A store whose rows can be confirmed, with the review pass switched on.
fn world(backend: Backend) -> World {
    let world = bare(backend);
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN confirmed_at INTEGER")
        .unwrap();
    world.user("bea", None);
    world
}

/// The same without a column for it.
fn bare(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nenabled = true",
    );
    world.user("ana", None);
    world
}

fn state(world: &World) -> State {
    StateDir::new(&world.path("state"), "agent")
        .open(Partition::Main)
        .unwrap()
}

/// Puts a question as a pass would.
fn put(world: &World, kind: QuestionKind, ids: &[i64]) -> u64 {
    let members = ids.iter().map(|id| {
        let (content, memory_type) = world
            .rows()
            .query_row(
                "SELECT content, memory_type FROM memories WHERE id = ?1",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        let mut memory = Memory::new(Some(MemoryId::Integer(*id)));
        memory.content = Some(content);
        memory.kind = Some(memory_type);
        member(&memory).unwrap()
    });
    let question = Question {
        kind,
        partition: "main".into(),
        namespace: Namespace::parse("user:ana").unwrap(),
        members: members.collect(),
    };
    let reason = match kind {
        QuestionKind::Contradiction => Reason::Contradiction { score: 50 },
        _ => Reason::Similar { members: 2 },
    };
    let at = jiff::Timestamp::from_second(now()).unwrap();
    state(world)
        .enqueue("test", &[(&question, reason)], at)
        .unwrap()
}

fn entries(output: &Output) -> Vec<Value> {
    output.objects("entry")
}

fn queue(world: &World) -> Vec<Value> {
    entries(&world.run(&["review", "--json"]).expect(0))
}

/// The ids of the memories that wait, in the order of their entries.
fn waiting(world: &World) -> Vec<i64> {
    let ids = queue(world).into_iter().flat_map(|entry| {
        let memories = entry["memories"].as_array().unwrap().clone();
        memories
            .into_iter()
            .map(|memory| memory["id"].as_str().unwrap().parse().unwrap())
    });
    ids.collect()
}

fn entry_of(world: &World, id: i64) -> String {
    let id = id.to_string();
    let entry = queue(world).into_iter().find(|entry| {
        let mut memories = entry["memories"].as_array().unwrap().iter();
        memories.any(|memory| memory["id"] == *id)
    });
    entry.unwrap()["entry"].to_string()
}

fn column<T: rusqlite::types::FromSql>(world: &World, column: &str, id: i64) -> T {
    let sql = format!("SELECT {column} FROM memories WHERE id = ?1");
    world
        .rows()
        .query_row(&sql, [id], |row| row.get(0))
        .unwrap()
}

#[test]
fn a_night_asks_about_the_oldest_of_everybody_and_the_next_one_about_nothing() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.configure("enabled = true", "enabled = true\nper_week = 5");
        let ana: Vec<i64> = (0..8)
            .map(|i| world.memory("ana", now() - (200 - i) * DAY, None))
            .collect();
        let bea = world.memory("bea", now() - 100 * DAY, None);
        world.memory("bea", now() - 89 * DAY, None);
        let before = world.dump();
        let night = world.night().expect(0);
        assert_eq!(night.pass("review")["applied"]["queue"], 5, "{night:#?}");
        assert_eq!(waiting(&world), [ana[0], bea, ana[1], ana[2], ana[3]]);
        let _ = world.night().expect(0).all_passes("idle");
        assert_eq!(world.dump(), before, "nothing but a question");

        let first = &queue(&world)[0];
        assert_eq!(first["kind"], "stale");
        assert_eq!(first["namespace"], "user:ana");
        assert_eq!(
            first["memories"][0]["text"],
            format!("canary ana {}", ana[0])
        );
        let of_bea = world.run(&["review", "--json", "--namespace", "user:bea"]);
        assert_eq!(entries(&of_bea.expect(0)).len(), 1);
        let unused = world.run(&["review", "--json", "--kind", "unused,similar"]);
        assert_eq!(entries(&unused.expect(0)).len(), 0);
        let text = world.run(&["review"]).expect(0);
        assert!(text.stdout.contains("canary bea"), "{text:#?}");

        // A week later there is room for the rest.
        let later = world.run(&["--dry-run", "--json", "--at", "+8d"]).expect(0);
        assert_eq!(later.plan("review")["planned"]["queue"], 5, "{later:#?}");
    }
}

#[test]
fn what_never_fades_is_asked_about_when_it_is_not_used() {
    let mut world = world(Backend::Sqlite);
    let unused = world.memory("ana", now() - 300 * DAY, None);
    let used = world.memory("ana", now() - 300 * DAY, None);
    let fact = world.memory("ana", now() - 300 * DAY, None);
    let set =
        "UPDATE memories SET confirmed_at = ?1, last_used_at = ?2, memory_type = ?3 WHERE id = ?4";
    for (id, used, kind) in [
        (unused, 200, "preference"),
        (used, 100, "preference"),
        (fact, 200, "fact"),
    ] {
        world
            .rows()
            .execute(set, params![now() - DAY, now() - used * DAY, kind, id])
            .unwrap();
    }
    world.night().expect(0);
    assert_eq!(waiting(&world), [unused]);
    assert_eq!(queue(&world)[0]["kind"], "unused");
    world
        .rows()
        .execute("UPDATE memories SET last_used_at = ?1", [now()])
        .unwrap();
    let night = world.night().expect(0);
    assert_eq!(night.pass("review")["applied"]["close"], 1);
    assert!(waiting(&world).is_empty());
}

#[test]
fn a_time_that_cannot_be_read_asks_nothing() {
    let mut world = world(Backend::Sqlite);
    let noise = world.memory("ana", now() - 200 * DAY, None);
    world
        .rows()
        .execute(
            "UPDATE memories SET confirmed_at = 'soon' WHERE id = ?1",
            [noise],
        )
        .unwrap();
    let night = world.night().expect(0);
    assert_eq!(night.pass("review")["findings"]["unreadable"], 1);
    assert!(waiting(&world).is_empty());
}

#[test]
fn questions_about_what_is_gone_hidden_or_changed_are_taken_back() {
    let mut world = world(Backend::Sqlite);
    let ids: Vec<i64> = (0..4)
        .map(|i| world.memory("ana", now() - (200 - i) * DAY, None))
        .collect();
    put(&world, QuestionKind::Similar, &ids[..2]);
    world.night().expect(0);
    assert_eq!(queue(&world).len(), 5);
    let db = world.rows();
    db.execute(
        "UPDATE memories SET content = 'edited' WHERE id = ?1",
        [ids[0]],
    )
    .unwrap();
    db.execute(
        "UPDATE memories SET superseded_by = ?1 WHERE id = ?2",
        [ids[3], ids[1]],
    )
    .unwrap();
    db.execute("DELETE FROM memories WHERE id = ?1", [ids[2]])
        .unwrap();
    let night = world.night().expect(0);
    let review = night.pass("review");
    assert_eq!(review["applied"]["close"], 4, "{night:#?}");
    assert_eq!(review["applied"]["queue"], 1, "asked anew: {night:#?}");
    assert_eq!(review["residue"], serde_json::json!({}), "{night:#?}");
    let mut left = waiting(&world);
    left.sort_unstable();
    assert_eq!(left, [ids[0], ids[3]]);
    let _ = world.night().expect(0).all_passes("idle");
}

/// A file that was replaced by an empty one is no night on which everything has been answered.
#[test]
fn a_file_without_a_row_takes_no_question_back() {
    let mut world = world(Backend::Sqlite);
    let ids: Vec<i64> = (0..12).map(|_| world.memory("ana", now(), None)).collect();
    for pair in ids.chunks(2) {
        put(&world, QuestionKind::Contradiction, pair);
    }
    for id in &ids[..6] {
        put(&world, QuestionKind::Similar, &[*id]);
    }
    assert_eq!(queue(&world).len(), 12);
    let rows = world.rows();
    rows.execute_batch("CREATE TABLE kept AS SELECT * FROM memories; DELETE FROM memories;")
        .unwrap();
    let night = world.run(&["--run-now", "--only", "review", "--json"]);
    let pass = night.pass("review");
    assert!(
        pass["degraded"].to_string().contains("not a single row"),
        "{pass:#}"
    );
    assert_eq!(queue(&world).len(), 12);
    rows.execute_batch("INSERT INTO memories SELECT * FROM kept; DROP TABLE kept;")
        .unwrap();
    world.run(&["--run-now", "--only", "review"]).expect(0);
    assert_eq!(queue(&world).len(), 12, "nothing was asked anew");
}

#[test]
fn a_confirmed_memory_says_so_in_its_row_and_keeps_its_point() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let old = world.memory("ana", now() - 200 * DAY, None);
        let other = world.memory("ana", now() - 150 * DAY, None);
        world.night().expect(0);
        let points = world.all_points();
        let entry = entry_of(&world, old);
        let answer = world
            .run(&["review", "confirm", &entry, "--json"])
            .expect(0);
        let answer = &answer.objects("answer")[0];
        assert_eq!(answer["answer"], "confirmed");
        assert_eq!(answer["applied"]["confirm"], 1);
        let confirmed: i64 = column(&world, "confirmed_at", old);
        assert!((now() - confirmed) < 60, "{confirmed}");
        assert_eq!(column::<Option<i64>>(&world, "confirmed_at", other), None);
        assert_eq!(world.all_points(), points);
        let _ = world.night().expect(0).all_passes("idle");
        assert_eq!(waiting(&world), [other]);
        let status = world.run(&["status", "--json"]).expect(0);
        let run = &status.objects("status")[0]["runs"][1];
        assert_eq!(run["command"], format!("review confirm {entry}"));
        assert_eq!(run["run"], answer["run"]);
    }
}

#[test]
fn where_the_row_cannot_say_so_the_answer_itself_counts() {
    let mut world = bare(Backend::Sqlite);
    let old = world.memory("ana", now() - 200 * DAY, None);
    world.night().expect(0);
    let before = world.dump();
    world.run(&["review", "confirm", "1"]).expect(0);
    let _ = world.night().expect(0).all_passes("idle");
    assert_eq!(world.dump(), before);
    let later = world
        .run(&["--dry-run", "--json", "--at", "+89d"])
        .expect(0);
    assert_eq!(later.plan("review")["planned"], serde_json::json!({}));
    let later = world
        .run(&["--dry-run", "--json", "--at", "+91d"])
        .expect(0);
    assert_eq!(
        later.plan("review")["actions"][0]["ids"][0],
        old.to_string()
    );
}

#[test]
fn a_memory_that_is_forgotten_goes_from_both_stores() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.memory("ana", now() - 200 * DAY, None);
        let stays = world.memory("ana", now(), None);
        world.night().expect(0);
        world.run(&["review", "forget", "1"]).expect(0);
        assert_eq!(
            (world.ids(), world.point_rows()),
            ([stays].into(), [stays].into())
        );
        let _ = world.night().expect(0).all_passes("idle");
        let answered = world.run(&["review", "--all", "--json"]).expect(0);
        let entry = &entries(&answered)[0];
        assert_eq!(
            (&entry["answer"], &entry["memories"][0]["standing"]),
            (&"forgotten".into(), &"gone".into())
        );
    }
}

#[test]
fn one_stands_for_the_others() {
    for (backend, kind) in BACKENDS
        .into_iter()
        .zip([QuestionKind::Contradiction, QuestionKind::Similar])
    {
        let mut world = world(backend);
        let old = world.memory("ana", now() - 20 * DAY, None);
        let new = world.memory("ana", now() - 10 * DAY, None);
        let (a, b) = (
            world.memory("ana", now() - 20 * DAY, None),
            world.memory("ana", now() - 10 * DAY, None),
        );
        put(&world, kind, &[old, new]);
        put(&world, kind, &[a, b]);
        world.run(&["review", "replace", "1"]).expect(0);
        let keep = a.to_string();
        world
            .run(&["review", "replace", "2", "--keep", &keep])
            .expect(0);
        assert_eq!(
            column::<Option<i64>>(&world, "superseded_by", old),
            Some(new)
        );
        assert_eq!(column::<Option<i64>>(&world, "superseded_by", new), None);
        assert_eq!(column::<Option<i64>>(&world, "superseded_by", b), Some(a));
        assert_eq!(world.point_rows(), [new, a].into());
        // Who says the same has been known for longer; who says otherwise has not.
        let created: i64 = column(&world, "created_at", new);
        let earliest = if kind == QuestionKind::Similar {
            20
        } else {
            10
        };
        assert!((now() - earliest * DAY - created).abs() < 60, "{kind}");
        let _ = world.night().expect(0).all_passes("idle");
    }
}

#[test]
fn a_stale_memory_is_replaced_by_the_one_that_a_person_names() {
    let mut world = world(Backend::Sqlite);
    let old = world.memory("ana", now() - 200 * DAY, None);
    let new = world.memory("ana", now(), None);
    let foreign = world.memory("bea", now(), None);
    world.night().expect(0);
    let before = world.dump();
    for wrong in [None, Some(foreign), Some(old), Some(999)] {
        let wrong = wrong.map(|id| id.to_string());
        let mut args = vec!["review", "replace", "1"];
        args.extend(wrong.iter().flat_map(|id| ["--keep", id]));
        let refused = world.run(&args).expect(2);
        assert!(refused.stderr.contains("--keep"), "{refused:#?}");
    }
    assert_eq!(world.dump(), before);
    let new_id = new.to_string();
    world
        .run(&["review", "replace", "1", "--keep", &new_id])
        .expect(0);
    assert_eq!(
        column::<Option<i64>>(&world, "superseded_by", old),
        Some(new)
    );
    assert_eq!(world.point_rows(), [new, foreign].into());
}

#[test]
fn without_a_column_for_it_what_is_replaced_is_deleted() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.configure("superseded_by = \"superseded_by\"", "superseded_by = \"\"");
        let old = world.memory("ana", now() - 20 * DAY, None);
        let new = world.memory("ana", now() - 10 * DAY, None);
        put(&world, QuestionKind::Contradiction, &[old, new]);
        world.run(&["review", "replace", "1"]).expect(0);
        assert_eq!(
            (world.ids(), world.point_rows()),
            ([new].into(), [new].into())
        );
    }
}

#[test]
fn what_is_kept_is_not_asked_again_unless_a_side_changes() {
    let mut world = world(Backend::Sqlite);
    let pair = [
        world.memory("ana", now() - 20 * DAY, None),
        world.memory("ana", now() - 10 * DAY, None),
    ];
    assert_eq!(put(&world, QuestionKind::Contradiction, &pair), 1);
    let before = world.dump();
    world.run(&["review", "keep", "1"]).expect(0);
    assert_eq!(put(&world, QuestionKind::Contradiction, &pair), 0);
    assert_eq!(world.dump(), before);
    world
        .rows()
        .execute("UPDATE memories SET content = 'x' WHERE id = ?1", [pair[0]])
        .unwrap();
    assert_eq!(put(&world, QuestionKind::Contradiction, &pair), 1);
}

#[test]
fn a_snoozed_question_waits_out_of_sight() {
    let mut world = world(Backend::Sqlite);
    world.memory("ana", now() - 200 * DAY, None);
    world.night().expect(0);
    world
        .run(&["review", "snooze", "1", "--for", "3d"])
        .expect(0);
    assert!(queue(&world).is_empty());
    let all = world.run(&["review", "--all", "--json"]).expect(0);
    assert_eq!(entries(&all).len(), 1, "{all:#?}");
    let _ = world.night().expect(0).all_passes("idle");
    world
        .run(&["review", "snooze", "1", "--for", "0s"])
        .expect(0);
    assert_eq!(queue(&world).len(), 1);
    world
        .run(&["review", "snooze", "1", "--for", "soon"])
        .expect(2);
}

#[test]
fn an_answer_that_does_not_fit_changes_nothing() {
    let mut world = world(Backend::Sqlite);
    let none = world.run(&["review", "confirm", "1"]).expect(2);
    assert!(none.stderr.contains("no entry 1"), "{none:#?}");
    assert!(!world.path("state").exists(), "nothing is made for it");
    let ids = [
        world.memory("ana", now() - 200 * DAY, None),
        world.memory("ana", now() - 150 * DAY, None),
    ];
    put(&world, QuestionKind::Similar, &ids);
    world.night().expect(0);
    let (before, points) = (world.dump(), world.all_points());
    for args in [
        &["confirm", "1"][..],
        &["forget", "1"],
        &["forget", "1", "--id", "999"],
        &["replace", "1", "--keep", "999"],
        &["replace", "2"],
        &["keep", "99"],
        &["snooze", "99"],
        &["keep", "1", "--store", "other"],
        &["keep", "one"],
        &["ponder", "1"],
    ] {
        world.run(&[&["review"], args].concat()).expect(2);
    }
    // Edited meanwhile: the answer is about something else than what was asked.
    world
        .rows()
        .execute("UPDATE memories SET content = 'edited'", [])
        .unwrap();
    let edited = world.dump();
    for verb in ["confirm", "forget", "keep"] {
        let refused = world.run(&["review", verb, "2"]).expect(3);
        assert!(refused.stderr.contains("has changed"), "{refused:#?}");
    }
    assert_eq!((world.dump(), world.all_points()), (edited, points));
    assert_ne!(world.dump(), before);
    world.night().expect(0);
    let answered = world.run(&["review", "keep", "1"]).expect(2);
    assert!(answered.stderr.contains("void"), "{answered:#?}");
}

#[test]
fn the_newest_is_not_guessed() {
    let mut world = world(Backend::Sqlite);
    let ids = [
        world.memory("ana", now() - 20 * DAY, None),
        world.memory("ana", now() - 20 * DAY, None),
    ];
    world
        .rows()
        .execute("UPDATE memories SET created_at = ?1", [now() - 20 * DAY])
        .unwrap();
    put(&world, QuestionKind::Similar, &ids);
    let refused = world.run(&["review", "replace", "1"]).expect(2);
    assert!(refused.stderr.contains("newest"), "{refused:#?}");
}

#[test]
fn an_answer_waits_for_the_lock() {
    let mut world = world(Backend::Sqlite);
    world.memory("ana", now() - 200 * DAY, None);
    world.night().expect(0);
    let holder = hypnos::state::Holder {
        pid: std::process::id(),
        run: "other".into(),
        host: "here".into(),
        since: jiff::Timestamp::from_second(now()).unwrap(),
        command: "test".into(),
    };
    let _lock = StateDir::new(&world.path("state"), "agent")
        .lock(&holder)
        .unwrap();
    for verb in ["confirm", "forget", "keep", "snooze"] {
        world.run(&["review", verb, "1"]).expect(11);
    }
    assert_eq!(queue(&world).len(), 1, "reading needs no lock");
}

#[test]
fn confirming_needs_no_vectors_and_forgetting_does() {
    let mut world = world(Backend::Sqlite);
    let old = world.memory("ana", now() - 200 * DAY, None);
    world.memory("ana", now() - 150 * DAY, None);
    world.night().expect(0);
    std::fs::rename(world.path("vectors.db"), world.path("away.db")).unwrap();
    let entry = entry_of(&world, old);
    world.run(&["review", "confirm", &entry]).expect(0);
    world.run(&["review", "forget", "2"]).expect(10);
    assert_eq!(queue(&world).len(), 1);
}

#[test]
fn what_a_memory_says_cannot_harm_the_terminal_and_is_printed_nowhere_else() {
    let mut world = world(Backend::Sqlite);
    let old = world.memory("ana", now() - 200 * DAY, None);
    world
        .rows()
        .execute(
            "UPDATE memories SET content = ?1 WHERE id = ?2",
            params!["canary\u{1b}[2J\u{202e}x\ny", old],
        )
        .unwrap();
    let night = world.run(&["--run-now", "-vv"]).expect(0);
    assert!(!format!("{night:?}").contains("canary"), "{night:#?}");
    for args in [
        &["review"][..],
        &["review", "--json"],
        &["review", "--new-since", "9999d"],
    ] {
        let shown = world.run(args).expect(0);
        assert!(shown.stdout.contains("canary [2J x y"), "{shown:#?}");
        assert!(!shown.stderr.contains("canary"), "{shown:#?}");
    }
    let answer = world.run(&["review", "forget", "1", "-vv"]).expect(0);
    assert!(!format!("{answer:?}").contains("canary"), "{answer:#?}");
}

#[test]
fn the_new_memories_of_the_day_are_listed_with_their_source() {
    let mut world = world(Backend::Sqlite);
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN source TEXT")
        .unwrap();
    let new = world.memory("ana", now() - 3600, None);
    let newer = world.memory("bea", now() - 60, None);
    let hidden = world.memory("ana", now() - 60, None);
    world.memory("ana", now() - 2 * DAY, None);
    let db = world.rows();
    db.execute("UPDATE memories SET source = 'mail' WHERE id = ?1", [new])
        .unwrap();
    db.execute(
        "UPDATE memories SET superseded_by = ?1 WHERE id = ?2",
        [new, hidden],
    )
    .unwrap();
    let digest = world
        .run(&["review", "--new-since", "1d", "--json"])
        .expect(0);
    let memories = digest.objects("memory");
    let ids: Vec<_> = memories.iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [new.to_string(), newer.to_string()]);
    assert_eq!(
        (&memories[0]["source"], &memories[0]["namespace"]),
        (&"mail".into(), &"user:ana".into())
    );
    let text = world
        .run(&["review", "--new-since", "1d", "--namespace", "user:ana"])
        .expect(0);
    assert!(
        text.stdout.contains("mail") && !text.stdout.contains("bea"),
        "{text:#?}"
    );
    world
        .run(&["review", "--new-since", "1d", "--all"])
        .expect(2);
}

#[test]
fn the_questions_of_all_tenants_are_in_one_queue() {
    let mut world = bare(Backend::Sqlite);
    world.user("bea", None);
    for (user, age) in [("ana", 200), ("bea", 100)] {
        std::fs::create_dir_all(world.path(&format!("users/{user}"))).unwrap();
        let db = open(&world.path(&format!("users/{user}/memory.db")));
        db.execute_batch(
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, created_at INTEGER, last_used_at INTEGER,
               ttl_days INTEGER, content_hash TEXT)",
        )
        .unwrap();
        let insert = "INSERT INTO memories(id, content, created_at) VALUES(1, ?1, ?2)";
        db.execute(insert, params![format!("canary {user}"), now() - age * DAY])
            .unwrap();
        world.point(&format!("user:{user}"), 1);
    }
    world.configure(
        "path = \"memory.db\"\npreset",
        "path = \"users/{tenant}/memory.db\"\npreset",
    );
    world.configure(
        "type = \"memory_type\"\nsuperseded_by = \"superseded_by\"\n",
        "tenant = \"\"\n",
    );
    world.configure("scope = \"user\"", "scope = \"user\"\npath = \"memory.db\"");
    world.night().expect(0);
    let all = queue(&world);
    let said: Vec<_> = all
        .iter()
        .map(|e| e["memories"][0]["text"].clone())
        .collect();
    assert_eq!(said, ["canary ana", "canary bea"]);
    assert_eq!(all[1]["partition"], "bea");
    world.run(&["review", "forget", "2"]).expect(0);
    assert_eq!(world.all_points().len(), 1);
    // A file that cannot be read takes no question back.
    std::fs::rename(
        world.path("users/ana/memory.db"),
        world.path("users/ana/away"),
    )
    .unwrap();
    world.night().expect(3);
    let unread = world.run(&["review", "--json"]).expect(3);
    assert_eq!(entries(&unread)[0]["memories"][0]["standing"], "unread");
    // An owner who is gone, with the file, does.
    std::fs::remove_dir_all(world.path("users/ana")).unwrap();
    world
        .rows()
        .execute("DELETE FROM users WHERE id = 'ana'", [])
        .unwrap();
    let night = world.night();
    assert_eq!(night.pass("review")["applied"]["close"], 1, "{night:#?}");
}

/// The durable steps of an answer.
const STEPS: [Failpoint; 12] = [
    Failpoint::RunBegun,
    Failpoint::IntentBefore,
    Failpoint::IntentWritten,
    Failpoint::PointsBefore,
    Failpoint::PointsRemoved,
    Failpoint::RowsBefore,
    Failpoint::RowsCommitted,
    Failpoint::MarksBefore,
    Failpoint::MarksCommitted,
    Failpoint::SettleWritten,
    Failpoint::AnswerBefore,
    Failpoint::AnswerWritten,
];

/// Killed at every durable step of an answer, the next night leaves the memory either as it was and asked about, or as
/// the answer says in both stores.
#[test]
fn an_answer_that_was_killed_is_given_whole_or_not_at_all() {
    for backend in BACKENDS {
        for verb in ["confirm", "forget"] {
            for point in STEPS {
                let story = format!("{backend:?} {verb} {point}");
                let mut world = world(backend);
                let old = world.memory("ana", now() - 200 * DAY, None);
                let stays = world.memory("ana", now(), None);
                world.night().expect(0);
                let answer = Output::of(
                    world
                        .command(&["review", verb, "1"])
                        .env("FAILPOINTS", format!("{point}=return(kill)")),
                );
                assert!(
                    matches!(answer.code, None | Some(0)),
                    "{story}: {answer:#?}"
                );
                world.night().expect(0);
                let _ = world.night().expect(0).all_passes("idle");
                let is_asked = waiting(&world) == [old];
                let ids = world.ids();
                assert_eq!(ids, world.point_rows(), "{story}");
                if verb == "forget" {
                    let expected: BTreeSet<i64> = if is_asked {
                        [old, stays].into()
                    } else {
                        [stays].into()
                    };
                    assert_eq!(ids, expected, "{story}");
                } else {
                    let confirmed: Option<i64> = column(&world, "confirmed_at", old);
                    assert_eq!(confirmed.is_none(), is_asked, "{story}");
                    assert_eq!(ids.len(), 2, "{story}");
                }
            }
        }
    }
}

/// What stands for another memory must still stand when that one goes, also when an earlier run is finished.
#[test]
fn a_memory_is_not_hidden_behind_one_that_has_gone() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let old = world.memory("ana", now() - 3 * DAY, None);
        let new = world.memory("ana", now() - DAY, None);
        put(&world, QuestionKind::Contradiction, &[old, new]);
        let points = world.all_points();
        let killed = world
            .command(&["review", "replace", "1"])
            .env("FAILPOINTS", "points.removed=1*return(kill)")
            .output()
            .unwrap();
        assert_eq!(killed.status.code(), None, "{killed:?}");
        assert!(world.all_points().len() < points.len(), "the point went");
        world
            .rows()
            .execute("DELETE FROM memories WHERE id = ?1", [new])
            .unwrap();
        world.night().expect(0);
        let hidden: i64 = world
            .rows()
            .query_row(
                "SELECT count(*) FROM memories WHERE superseded_by IS NOT NULL",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!((world.ids(), hidden), ([old].into(), 0));
        let point = crate::support::point_id("user:ana", old);
        assert!(world.all_points().contains_key(&point), "its point is back");
    }
}
