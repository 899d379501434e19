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

mod answers;
mod cut_off;

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

#[test]
fn an_entry_is_written_as_no_memory_is_and_may_be_typed_so() {
    let mut world = world(Backend::Sqlite);
    for _ in 0..2 {
        world.memory("ana", now() - 200 * DAY, None);
    }
    world.night().expect(0);
    let list = world.run(&["review"]).expect(0).stdout;
    assert!(list.contains("    #1  stale"), "{list}");
    let kept = world.run(&["review", "keep", "#1"]).expect(0).stdout;
    assert!(kept.contains("entry #1 kept"), "{kept}");
    world.run(&["review", "keep", "2"]).expect(0);
    for wrong in ["##2", "#", "two", ""] {
        let refused = world.run(&["review", "keep", wrong]).expect(2);
        assert!(refused.stderr.contains("12 or #12"), "{refused:#?}");
    }
}
