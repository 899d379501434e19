//! Stores whose points are their rows.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::points_only::{NewPoint, PointStore, Whole};
use crate::support::{DAY, files, now, vector};

const ROWS: &str = r#"kind = "points"
tenant = "payload:json($.user_id)"
content = "payload:json($.data)"
created_at = "payload:json($.created_at):text"
expires_at = "payload:json($.expires_at):epoch_s""#;

const PASSES: &str = "namespace = \"user:{tenant}\"\n[pass.decay]\nenabled = false\n\
     [pass.contradictions]\nenabled = false\n[pass.review]\nenabled = false\n";

/// The id of a memory by its number.
fn id(number: u64) -> String {
    Uuid::from_u64_pair(number, number).to_string()
}

fn memory(number: u64, owner: &str, text: &str, more: Value) -> NewPoint {
    let mut payload = json!({
        "user_id": owner, "data": text, "created_at": "2026-05-01T10:00:00+00:00",
        "custom": {"nested": [1, 2.5, null, true, {"ключ": "значение"}], "big": 9_007_199_254_740_993_i64},
    });
    payload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    NewPoint {
        sparse: Some((vec![7, 900_000 + number as u32], vec![0.5, 1.25])),
        ..NewPoint::new(id(number), payload, vector(i64::try_from(number).unwrap()))
    }
}

/// Ana and ben have ten memories each that say different things; two of ana's have expired, and three copies of one.
fn store() -> PointStore {
    let mut store = PointStore::new(Some("bm25"));
    store.configure(ROWS, PASSES);
    let mut points = Vec::new();
    for number in 1..=20 {
        let owner = if number <= 10 { "ana" } else { "ben" };
        points.push(memory(
            number,
            owner,
            &format!("{owner} keeps thing {number} of {}", number * 7),
            json!({}),
        ));
    }
    for number in [21, 22] {
        points.push(memory(
            number,
            "ana",
            &format!("ana needs thing {number} only for now"),
            json!({"expires_at": now() - DAY}),
        ));
    }
    for number in [31, 32, 33] {
        points.push(memory(
            number,
            "ana",
            "ana plays the cello on Sundays",
            json!({}),
        ));
    }
    // The same words of another person, and of nobody.
    points.push(memory(
        41,
        "ben",
        "ana plays the cello on Sundays",
        json!({}),
    ));
    let mut nobodys = memory(51, "", "ana plays the cello on Sundays", json!({}));
    nobodys.payload.as_object_mut().unwrap().remove("user_id");
    points.push(nobodys);
    store.put(store.collection(), &points);
    store
}

/// Which of the memories are gone, and nothing else has changed.
#[track_caller]
fn gone(before: &Whole, after: &Whole) -> BTreeSet<String> {
    for (id, whole) in after {
        assert_eq!(before.get(id), Some(whole), "{id}");
    }
    before
        .keys()
        .filter(|id| !after.contains_key(*id))
        .cloned()
        .collect()
}

fn no_mirror_left(store: &PointStore) {
    let state = store.dir.path().join("state/agent");
    let left = std::fs::read_dir(state).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().starts_with("mirror-")
    });
    assert_eq!(left.count(), 0);
}

/// Two expired, and two of three copies.
fn is_done(gone: &BTreeSet<String>) -> bool {
    let copies = [31, 32, 33].map(id);
    gone.len() == 4
        && [21, 22].map(id).iter().all(|id| gone.contains(id))
        && copies.iter().filter(|id| gone.contains(*id)).count() == 2
}

#[test]
fn a_night_removes_what_has_expired_and_copies_and_nothing_else() {
    let store = store();
    let before = store.memories();
    let night = store.night().expect(0);
    let after = store.memories();
    assert!(is_done(&gone(&before, &after)), "{night:#?}");
    assert_eq!(night.pass("ttl")["applied"], json!({"delete": 2}));
    assert_eq!(night.pass("duplicates")["applied"], json!({"delete": 2}));
    let _ = store.night().expect(0).all_passes("idle");
    assert_eq!(store.memories(), after);
    no_mirror_left(&store);

    let run = night.objects("run")[0]["run"].as_str().unwrap().to_owned();
    let _ = store.run(&["undo", &run, "--json"]).expect(0);
    assert_eq!(store.memories(), before);
    no_mirror_left(&store);
}

#[test]
fn a_dry_run_and_a_check_leave_no_trace() {
    let store = store();
    let before = store.memories();
    let dry = store.run(&["--run-now", "--dry-run", "--json"]).expect(0);
    assert_eq!(
        dry.plan("ttl")["actions"].as_array().map(Vec::len),
        Some(2),
        "{dry:#?}"
    );
    let _ = store.run(&["check", "--json"]);
    assert!(!store.dir.path().join("state").exists());
    let _ = store.night().expect(0);
    let state = files(&store.dir.path().join("state"));
    let _ = store.run(&["--run-now", "--dry-run", "--json"]).expect(0);
    let check = store.run(&["check", "--json"]);
    assert_eq!(check.objects("check")[0]["memories"], 23, "{check:#?}");
    let _ = store.run(&["status", "--json"]).expect(0);
    assert_eq!(files(&store.dir.path().join("state")), state);
    assert!(is_done(&gone(&before, &store.memories())));
}
