//! The preset of mem0's OpenMemory on a store with everything that goes wrong there.

use std::collections::BTreeSet;

use hypnos::config::presets;
use rusqlite::params;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::site::{Site, id};
use crate::support::{DAY, now};

const COLLECTION: &str = "openmemory";
const USERS: usize = 4;

fn user(number: usize) -> String {
    format!("person-{number}")
}

fn hex(id: Uuid) -> String {
    id.simple().to_string()
}

/// `YYYY-MM-DD HH:MM:SS.ffffff`, as `SQLAlchemy` writes a time without a zone.
fn time(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap();
    at.strftime("%Y-%m-%d %H:%M:%S.000000").to_string()
}

fn payload(text: &str, of: usize) -> Value {
    json!({"data": text, "user_id": user(of), "hash": "h", "source_app": "openmemory", "mcp_client": "cursor", "created_at": "2026-08-01T10:00:00-07:00"})
}

fn site() -> Site {
    let ddl = presets::find("mem0-openmemory").unwrap().ddl;
    let site = Site::new("openmemory.db", ddl, "mem0-openmemory", "");
    let db = site.rows();
    for number in 0..USERS {
        let key = hex(id("user", number));
        db.execute(
            "INSERT INTO users(id, user_id) VALUES(?1, ?2)",
            [&key, &user(number)],
        )
        .unwrap();
        let app = "INSERT INTO apps(id, owner_id, name) VALUES(?1, ?2, 'cursor')";
        db.execute(app, [&hex(id("app", number)), &key]).unwrap();
    }
    let category = "INSERT INTO categories(id, name) VALUES(?1, 'work')";
    db.execute(category, [hex(id("category", 1))]).unwrap();
    site.collection(COLLECTION, &["user_id"]);
    for sibling in ["openmemory_entities", "mem0migrations"] {
        site.collection(sibling, &[]);
        let one = |number| {
            (
                id(sibling, number),
                json!({"user_id": user(0), "linked_memory_ids": []}),
            )
        };
        site.put(sibling, &(0..5).map(one).collect::<Vec<_>>());
    }
    site
}

/// Writes the row of a memory, with rows in every table that refers to it.
fn row(site: &Site, memory: Uuid, of: usize, state: &str, created: i64, used: i64) {
    let db = site.rows();
    let (key, owner, app) = (hex(memory), hex(id("user", of)), hex(id("app", of)));
    let deleted = (state == "deleted").then(|| time(created));
    db.execute(
        "INSERT INTO memories(id, user_id, app_id, content, metadata, state, created_at, updated_at, deleted_at)
         VALUES(?1, ?2, ?3, ?4, '{}', ?5, ?6, ?6, ?7)",
        params![key, owner, app, format!("fact {memory}"), state, time(created), deleted],
    )
    .unwrap();
    let log = "INSERT INTO memory_access_logs(id, memory_id, app_id, accessed_at, access_type) VALUES(?1, ?2, ?3, ?4, 'search')";
    db.execute(
        log,
        params![hex(id(&format!("log/{memory}"), 0)), key, app, time(used)],
    )
    .unwrap();
    db.execute(
        "INSERT INTO memory_categories VALUES(?1, ?2)",
        [&key, &hex(id("category", 1))],
    )
    .unwrap();
    let history = "INSERT INTO memory_status_history VALUES(?1, ?2, ?3, 'active', ?4, ?5)";
    let change = hex(id(&format!("change/{memory}"), 0));
    db.execute(history, params![change, key, owner, state, time(created)])
        .unwrap();
}

fn memory(number: usize) -> Uuid {
    id("memory", number)
}

#[test]
fn points_of_deleted_memories_go_and_those_of_paused_ones_stay() {
    let site = site();
    let mut doomed = BTreeSet::new();
    let mut points = Vec::new();
    let mut stale = 0;
    for number in 0..560 {
        let of = number % USERS;
        let state = match number / USERS % 10 {
            0 => "paused",
            1 => "archived",
            2 => "deleted",
            _ => "active",
        };
        row(
            &site,
            memory(number),
            of,
            state,
            now() - 30 * DAY,
            now() - 2 * DAY,
        );
        // Half of the deleted ones have left their points; texts that were changed have not reached theirs.
        let text = if number % 50 == 3 {
            stale += u64::from(state == "active");
            "before it was changed".to_owned()
        } else {
            format!("fact {}", memory(number))
        };
        if state != "deleted" || number / USERS % 20 == 2 {
            points.push((memory(number), payload(&text, of)));
        }
        if state == "deleted" {
            doomed.insert(memory(number));
        }
    }
    for number in 0..24 {
        points.push((id("leftover", number), payload("deleted", number % USERS)));
        doomed.insert(id("leftover", number));
    }
    site.put(COLLECTION, &points);
    let before = site.everything();
    let drift = site.drift(3);
    assert_eq!(drift["point_without_row"], 24 + 28, "{drift}");
    assert!(stale > 5 && drift["stale_point"] == stale, "{drift}");

    let _ = site.night().expect(0).all_passes("idle");
    let second = site.at(21).night().expect(0);
    let after = site.everything();
    let mut expected = before.clone();
    let all = expected.1.get_mut(COLLECTION).unwrap();
    all.retain(|id, _| !doomed.contains(id));
    assert!(after == expected, "{second:#?}");
    let _ = site.at(42).night().expect(0).all_passes("idle");
    assert!(site.everything() == expected);
    // What only the application can embed again is left.
    let drift = site.drift(3);
    assert_eq!(
        (&drift["point_without_row"], &drift["row_without_point"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(drift["stale_point"], stale, "{drift}");
    let run = second.objects("run")[0]["run"].as_str().unwrap().to_owned();
    let undone = site.run(&["undo", &run, "--json"]);
    assert!(site.everything() == before, "{undone:#?}");
}

/// What another application remembered is that application's, whatever the words.
#[test]
fn the_same_words_of_another_application_stay() {
    let site = site();
    let mut points = Vec::new();
    for number in 0..25 {
        row(
            &site,
            memory(number),
            0,
            "active",
            now() - 30 * DAY,
            now() - 2 * DAY,
        );
        points.push((
            memory(number),
            payload(&format!("fact {}", memory(number)), 0),
        ));
    }
    for (number, app) in [(0, 0), (1, 1), (2, 0)] {
        let change = "UPDATE memories SET content = 'likes green tea', app_id = ?1 WHERE id = ?2";
        site.rows()
            .execute(change, [hex(id("app", app)), hex(memory(number))])
            .unwrap();
        points[number].1 = payload("likes green tea", 0);
    }
    site.put(COLLECTION, &points);
    let night = site.night().expect(0);
    let left = "SELECT count(*), count(DISTINCT app_id) FROM memories WHERE content LIKE 'likes%'";
    let left: (i64, i64) = site
        .rows()
        .query_row(left, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(left, (2, 2), "{night:#?}");
}

/// The log of accesses tells when a memory was last used; what goes takes its rows in other tables along.
#[test]
fn what_nobody_has_read_for_long_fades_with_all_that_refers_to_it() {
    let site = site();
    let (long_ago, lately) = (now() - 500 * DAY, now() - DAY);
    let mut points = Vec::new();
    for number in 0..25 {
        row(
            &site,
            memory(number),
            0,
            "active",
            long_ago,
            if number == 7 { long_ago } else { lately },
        );
        points.push((memory(number), payload("x", 0)));
    }
    site.put(COLLECTION, &points);
    let before = site.everything();
    let night = site.night().expect(0);
    assert_eq!(
        night.pass("decay")["applied"],
        json!({"delete": 1}),
        "{night:#?}"
    );
    let db = site.rows();
    for (table, left) in [
        ("memories", 24),
        ("memory_access_logs", 24),
        ("memory_categories", 24),
        ("memory_status_history", 24),
        ("categories", 1),
    ] {
        let count: i64 = db
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(count, left, "{table}: {night:#?}");
    }
    assert!(!site.points()[COLLECTION].contains_key(&memory(7)));
    let undone = site.run(&["undo", "last", "--json"]);
    assert!(site.everything() == before, "{undone:#?}");
}

/// `SQLite` takes an id of digits for a number: neither that row nor any point of its user that could be its own goes.
#[test]
fn an_id_that_became_a_number_is_left_alone() {
    let site = site();
    let numbers = [
        "12345678-1234-4123-8123-123456789012",
        "12345678-9012-4e12-8123-123456789012",
    ];
    let mut points = Vec::new();
    for text in numbers {
        let memory: Uuid = text.parse().unwrap();
        row(&site, memory, 0, "active", now() - DAY, now());
        points.push((memory, payload("x", 0)));
    }
    let kinds: Vec<String> = {
        let db = site.rows();
        let mut read = db.prepare("SELECT typeof(id) FROM memories").unwrap();
        let kinds = read.query_map([], |row| row.get(0)).unwrap();
        kinds.map(Result::unwrap).collect()
    };
    assert_eq!(kinds, ["real", "real"]);
    for number in 0..8 {
        row(
            &site,
            memory(number),
            number % 2,
            "active",
            now() - DAY,
            now(),
        );
        points.push((memory(number), payload(&format!("y {number}"), number % 2)));
    }
    // Nobody knows whether this one is of a row whose id is lost; that of the other user is certainly not.
    points.push((id("leftover", 0), payload("z", 0)));
    points.push((id("leftover", 1), payload("z", 1)));
    site.put(COLLECTION, &points);
    let (rows, mut all) = site.everything();
    let _ = site.night();
    let _ = site.at(21).night();
    let night = site.at(42).night();
    all.get_mut(COLLECTION).unwrap().remove(&id("leftover", 1));
    assert!(site.everything() == (rows, all), "{night:#?}");
}
