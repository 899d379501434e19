//! mem0 2.2 on a Qdrant server, with every drift that such stores are known for.

use std::collections::{BTreeMap, BTreeSet};

use hypnos::config::presets;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::points_only::{NewPoint, PointStore, Whole};
use crate::support::qdrant::{rest_url, url};
use crate::support::{DAY, now, open, vector};

const OWNERS: u32 = 12;
const EACH: u32 = 45;

fn id(number: u32) -> String {
    Uuid::from_u64_pair(number.into(), 0x4000_8000).to_string()
}

/// `YYYY-MM-DD` so many days from an instant, in UTC.
fn day(at: i64, offset: i64) -> String {
    jiff::Timestamp::from_second(at + offset * DAY)
        .unwrap()
        .strftime("%Y-%m-%d")
        .to_string()
}

fn point(number: u32, payload: Value) -> NewPoint {
    NewPoint {
        sparse: Some((vec![number, 5_000_000], vec![1.5, 0.25])),
        ..NewPoint::new(id(number), payload, vector(number.into()))
    }
}

fn text(number: u32) -> String {
    format!(
        "thing {number} costs {} at place {}",
        number * 13,
        number * 7
    )
}

/// A memory as Python or TypeScript writes it, with whatever keys it may have.
fn memory(number: u32) -> Value {
    let owner = format!("owner{}", number % OWNERS);
    let mut payload = json!({
        "user_id": owner, "data": text(number), "hash": format!("{number:032x}"), "role": "user",
    });
    let more = match number % 5 {
        0 => {
            json!({"createdAt": "2026-06-01T10:00:00.123Z", "updatedAt": "2026-06-01T10:00:00.123Z", "textLemmatized": "thing"})
        }
        1 => {
            json!({"created_at": "2025-12-01T02:00:00.000001-08:00", "topic": {"deep": [1, null]}})
        }
        2 => {
            json!({"created_at": "2026-06-01T10:00:00+00:00", "text_lemmatized": "thing", "expiration_date": null})
        }
        3 => {
            json!({"created_at": "2026-06-01T10:00:00+00:00", "attributed_to": "assistant", "agent_id": "helper"})
        }
        _ => json!({"created_at": "yesterday", "run_id": "r1", "memory_type": "procedural_memory"}),
    };
    payload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    payload
}

/// A store, and what of it is to go: each inner set but one, and all of the last.
struct Drifted {
    store: PointStore,
    copies: Vec<BTreeSet<String>>,
    expired: BTreeSet<String>,
}

/// How the keys of a payload are written.
#[derive(Debug, Clone, Copy)]
enum Spelling {
    /// As Python does, and TypeScript does now.
    Snake,
    /// As older TypeScript did.
    Camel,
    /// One memory so, the next one otherwise: the client was replaced.
    Mixed,
}

impl Spelling {
    fn write(self, point: &mut NewPoint, number: usize) {
        let is_camel = match self {
            Self::Snake => false,
            Self::Camel => true,
            Self::Mixed => number % 2 == 1,
        };
        let payload = point.payload.as_object_mut().unwrap();
        for (snake, camel) in [
            ("user_id", "userId"),
            ("agent_id", "agentId"),
            ("run_id", "runId"),
            ("created_at", "createdAt"),
        ] {
            if let Some(value) = payload.remove(snake) {
                let key = if is_camel { camel } else { snake };
                payload.insert(key.to_owned(), value);
            }
        }
    }
}

fn drifted(spelling: Spelling) -> Drifted {
    let mut store = PointStore::at(&url(), &rest_url());
    store.create_any(Some("bm25"));
    let collection = store.collection().to_owned();
    for key in ["user_id", "agent_id", "run_id", "actor_id"] {
        store.index(&collection, key);
    }
    let mut points: Vec<NewPoint> = (1..=OWNERS * EACH)
        .map(|number| point(number, memory(number)))
        .collect();
    let mut next = 10_000;
    let mut add = |payload: Value, points: &mut Vec<NewPoint>| {
        next += 1;
        points.push(point(next, payload));
        id(next)
    };
    // Copies of a memory, one of them of the owner's agent.
    let mut copies = Vec::new();
    for number in (7..=OWNERS * EACH).step_by(30) {
        let mut copy = memory(number);
        copy["agent_id"] = "another".into();
        copies.push([id(number), add(copy, &mut points)].into());
    }
    // Decoys: the same words of another owner, of an agent and of a run that have the owner's name, and of nobody.
    let said = text(7);
    let of = |key: &str, name: &str| json!({key: name, "data": said, "hash": "x", "created_at": "2026-06-01T10:00:00+00:00"});
    for (key, name) in [
        ("user_id", "somebody else"),
        ("agent_id", "owner7"),
        ("run_id", "owner7"),
        ("custom", "owner7"),
    ] {
        add(of(key, name), &mut points);
    }
    // It is noon, so that no midnight comes before the end.
    let noon = now().div_euclid(DAY) * DAY + DAY / 2;
    store.shift_clock(noon - now());
    let expiring = |days: i64, number: u32| {
        let mut payload = memory(number);
        payload["data"] = format!("until day {days} number {number} holds").into();
        payload["expiration_date"] = day(noon, days).into();
        payload
    };
    let expired = (1..=40).map(|n| add(expiring(-i64::from(n), 5000 + n), &mut points));
    let expired: BTreeSet<String> = expired.collect();
    // Today still counts, and what is no date is kept.
    add(expiring(0, 6000), &mut points);
    add(expiring(1, 6001), &mut points);
    let mut odd = expiring(0, 6002);
    odd["expiration_date"] = "next week".into();
    add(odd, &mut points);
    for (number, point) in points.iter_mut().enumerate() {
        spelling.write(point, number);
    }
    store.put(&collection, &points);

    // What it links to, and what else is on the server.
    let entities = format!("{collection}_entities");
    store.create(&entities, 32, Some("bm25"));
    let entity = |number: u32, links: Value| {
        let payload = json!({"data": format!("entity {number}"), "entity_type": "PERSON",
            "linked_memory_ids": links, "user_id": "owner1"});
        point(20_000 + number, payload)
    };
    store.put(
        &entities,
        &[
            entity(1, json!([id(1), id(2)])),
            entity(2, json!([id(1), id(99_999)])),
            entity(3, json!([id(99_998)])),
            entity(4, json!([])),
        ],
    );
    store.configure("preset = \"mem0-qdrant\"", "[pass.review]\nenabled = false");
    Drifted {
        store,
        copies,
        expired,
    }
}

#[track_caller]
fn gone(before: &Whole, after: &Whole) -> BTreeSet<String> {
    for (id, whole) in after {
        assert_eq!(before.get(id), Some(whole), "{id}");
    }
    let gone = before.keys().filter(|id| !after.contains_key(*id));
    gone.cloned().collect()
}

#[test]
fn two_nights_bring_a_store_with_every_drift_to_none() {
    two_nights(Spelling::Snake);
}

#[test]
fn two_nights_do_so_in_the_spelling_of_older_typescript_and_in_both_at_once() {
    for spelling in [Spelling::Camel, Spelling::Mixed] {
        two_nights(spelling);
    }
}

fn two_nights(spelling: Spelling) {
    let Drifted {
        store,
        copies,
        expired,
    } = drifted(spelling);
    let entities = store.collections[1].clone();
    let (before, linked) = (store.memories(), store.whole(&entities));
    let check = store.run(&["check", "--json"]);
    let check = &check.objects("check")[0];
    assert_eq!(check["drift"]["dead_link"], 2, "{check:#}");
    assert_eq!(
        check["backlog"]["ttl"]["delete"],
        expired.len(),
        "{check:#}"
    );
    assert_eq!(
        check["backlog"]["duplicates"]["delete"],
        copies.len(),
        "{check:#}"
    );

    let night = store.night().expect(0);
    let after = store.memories();
    let mut went = gone(&before, &after);
    for ids in &copies {
        assert_eq!(ids.difference(&went).count(), 1, "{ids:?}: {night:#?}");
        went.retain(|id| !ids.contains(id));
    }
    assert_eq!(went, expired);
    let _ = store.night().expect(0).all_passes("idle");
    assert_eq!(store.memories(), after);
    assert_eq!(
        store.whole(&entities),
        linked,
        "nothing dead in a list has settled"
    );

    let run = night.objects("run")[0]["run"].as_str().unwrap().to_owned();
    let _ = store.run(&["undo", &run, "--json"]).expect(0);
    assert_eq!(store.memories(), before);
}

/// The log of mem0, in the form of its Python or its TypeScript version.
const LOGS: [&str; 2] = [
    "CREATE TABLE history(id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
       created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)",
    "CREATE TABLE memory_history(id INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT NOT NULL, previous_value TEXT,
       new_value TEXT, action TEXT, created_at TEXT, updated_at TEXT, is_deleted INTEGER)",
];

/// Writes down what became of a memory: `None` is that it was deleted.
fn log(db: &Connection, table: &str, number: u32, texts: &[Option<&str>]) {
    let sql = format!(
        "INSERT INTO {table} VALUES (?1, ?2, NULL, ?3, ?4, NULL, NULL, ?5 {})",
        if table == "history" {
            ", NULL, NULL"
        } else {
            ""
        }
    );
    for text in texts {
        let event = if text.is_some() { "UPDATE" } else { "DELETE" };
        let entries: i64 = db
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .unwrap();
        let values = params![entries, id(number), text, event, text.is_none()];
        db.execute(&sql, values).unwrap();
    }
}

/// A log says what it says: where it differs from the points is counted, and nothing is done about it.
#[test]
fn what_a_log_says_otherwise_is_counted_and_left() {
    for ddl in LOGS {
        let mut store = PointStore::at(&url(), &rest_url());
        store.create_any(None);
        let said = |number: u32, text: &str| {
            let payload = json!({"data": text, "hash": format!("{number:032x}"), "user_id": "ana",
                "created_at": "2026-06-01T10:00:00+00:00"});
            NewPoint::new(id(number), payload, vector(number.into()))
        };
        let mut expired = said(6, "ana is in Rome until spring");
        expired.payload["expiration_date"] = "2026-01-31".into();
        let collection = store.collection().to_owned();
        store.put(
            &collection,
            &[
                said(1, "ana has a cat"),
                said(2, "ana lives in Porto"),
                said(3, "Ana plays chess."),
                said(4, "ana drinks tea"),
                said(5, "ana reads maps"),
                expired,
            ],
        );
        let (database, table) = if ddl.contains("TABLE history") {
            ("history.db", "history")
        } else {
            ("vector_store.db", "memory_history")
        };
        let db = open(&store.dir.path().join(database));
        db.execute_batch(ddl).unwrap();
        log(
            &db,
            table,
            1,
            &[Some("ana has a dog"), Some("ana has a cat")],
        );
        log(&db, table, 2, &[Some("ana lives in Porto"), None]);
        log(&db, table, 3, &[Some("Ana plays chess.")]);
        // To a letter.
        log(&db, table, 3, &[Some("ana plays chess")]);
        log(&db, table, 5, &[None, Some("ana reads maps")]);
        log(&db, table, 6, &[Some("ana is in Rome until spring")]);
        log(&db, table, 7, &[Some("lost")]);
        log(&db, table, 8, &[Some("deleted"), None]);
        let last = presets::find("mem0-qdrant")
            .unwrap()
            .with_table("history", table);
        let last = match last.iter().find(|(section, ..)| *section == "log") {
            Some((_, key, query)) if table != "history" => format!("{key} = {query:?}\n"),
            _ => String::new(),
        };
        let rest =
            format!("[pass.review]\nenabled = false\n[store.log]\npath = {database:?}\n{last}");
        store.configure("preset = \"mem0-qdrant\"", &rest);
        let before = store.memories();
        let check = store.run(&["check", "--json"]).expect(0);
        let check = &check.objects("check")[0];
        let expected = BTreeMap::from([
            ("logged_without_point", 1),
            ("point_without_log", 1),
            ("logged_deleted", 1),
            ("logged_otherwise", 1),
        ]);
        for (kind, count) in &expected {
            assert_eq!(check[*kind], *count, "{table} {kind}: {check:#}");
        }
        let said = store.run(&["check"]).expect(0);
        assert!(
            said.stdout
                .contains("another text than the application's log"),
            "{said:#?}"
        );
        let night = store.night().expect(0);
        let orphans = night.pass("orphans");
        assert_eq!(orphans["outcome"], "idle", "{orphans:#}");
        // The log does not hear of what hypnos removes, and that is no difference.
        assert_eq!(orphans["findings"], json!(expected), "{orphans:#}");
        assert_eq!(gone(&before, &store.memories()), [id(6)].into());
    }
}
