//! Stores whose points are their rows.

use std::collections::BTreeSet;

use hypnos::failpoint::Failpoint;
use qdrant_peer::Peer;
use serde_json::{Value, json};
use tonic::Code;
use uuid::Uuid;

use crate::support::held::Held;
use crate::support::points_only::{NewPoint, PointStore, Whole};
use crate::support::qdrant::{rest_url, url};
use crate::support::{DAY, Output, files, holds, now, vector, write};

const ROWS: &str = r#"kind = "points"
tenant = "payload:json($.user_id)"
content = "payload:json($.data)"
created_at = "payload:json($.created_at):text"
expires_at = "payload:json($.expires_at):epoch_s""#;

const PASSES: &str = "namespace = \"user:{tenant}\"\n[pass.decay]\nenabled = false\n\
     [pass.contradictions]\nenabled = false\n[pass.review]\nenabled = false\n";

/// The id of a memory by its number.
fn id(number: u32) -> String {
    Uuid::from_u64_pair(number.into(), 7).to_string()
}

fn memory(number: u32, owner: &str, text: &str, more: &Value) -> NewPoint {
    let mut payload = json!({
        "user_id": owner, "data": text, "created_at": "2026-05-01T10:00:00+00:00",
        "custom": {"nested": [1, 2.5, null, true, {"ключ": "значение"}], "big": 9_007_199_254_740_993_i64},
    });
    payload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    NewPoint {
        sparse: Some((vec![7, 900_000 + number], vec![0.5, 1.25])),
        ..NewPoint::new(id(number), payload, vector(number.into()))
    }
}

/// Ana and ben have ten memories each that say different things; two of ana's have expired, and three copies of one.
fn store() -> PointStore {
    store_on(PointStore::at(&url(), &rest_url()))
}

fn store_on(mut store: PointStore) -> PointStore {
    store.create_any(Some("bm25"));
    store.configure(ROWS, PASSES);
    let mut points = Vec::new();
    for number in 1..=20 {
        let owner = if number <= 10 { "ana" } else { "ben" };
        points.push(memory(
            number,
            owner,
            &format!("{owner} keeps thing {number} of {}", number * 7),
            &json!({}),
        ));
    }
    for number in [21, 22] {
        points.push(memory(
            number,
            "ana",
            &format!("ana needs thing {number} only for now"),
            &json!({"expires_at": now() - DAY}),
        ));
    }
    for number in [31, 32, 33] {
        points.push(memory(
            number,
            "ana",
            "ana plays the cello on Sundays",
            &json!({}),
        ));
    }
    // The same words of another person, and of nobody.
    points.push(memory(
        41,
        "ben",
        "ana plays the cello on Sundays",
        &json!({}),
    ));
    let mut nobodys = memory(51, "", "ana plays the cello on Sundays", &json!({}));
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
    assert_eq!(store.left_in_tmp(), 0);
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

    let _ = store.run(&["undo", &run_of(&night), "--json"]).expect(0);
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
    assert_eq!(store.left_in_tmp(), 0);
    let _ = store.night().expect(0);
    let state = files(&store.dir.path().join("state"));
    let _ = store.run(&["--run-now", "--dry-run", "--json"]).expect(0);
    let check = store.run(&["check", "--json"]);
    assert_eq!(check.objects("check")[0]["memories"], 23, "{check:#?}");
    let _ = store.run(&["status", "--json"]).expect(0);
    assert_eq!(files(&store.dir.path().join("state")), state);
    assert!(is_done(&gone(&before, &store.memories())));
}

/// What a run said of what it did.
/// Only ana's points are memories; what else is in the collection could expire and be merged, and stays.
#[test]
fn a_night_over_points_of_one_kind_leaves_all_others() {
    for (rows, vectors) in [
        (String::new(), "where = { user_id = \"ana\" }"),
        (
            "where = \"sql(payload ->> '$.user_id' = 'ana')\"".to_owned(),
            "",
        ),
    ] {
        let mut store = store();
        store.configure(&format!("{ROWS}\n{rows}"), &format!("{vectors}\n{PASSES}"));
        let expired = json!({"expires_at": now() - DAY});
        let others = [61, 62, 63].map(|number| memory(number, "ben", "ben has a dog", &json!({})));
        store.put(store.collection(), &others);
        let list = json!({"expires_at": now() - DAY, "user_id": ["ana", "ben"]});
        store.put(
            store.collection(),
            &[
                memory(64, "ben", "ben needs this only for now", &expired),
                memory(65, "", "both need this only for now", &list),
            ],
        );
        let before = store.memories();
        let check = store.run(&["check", "--json"]).expect(0);
        assert_eq!(check.objects("check")[0]["memories"], 15, "{check:#?}");
        let night = store.night().expect(0);
        assert!(is_done(&gone(&before, &store.memories())), "{night:#?}");
        let undo = store.run(&["undo", &run_of(&night)]).expect(0);
        assert_eq!(store.memories(), before, "{undo:#?}");
        // An owner is erased from what is ours, and nobody else's points are.
        let forget = store.run(&["forget", "user:ben", "--yes", "--json"]);
        assert_eq!(store.memories(), before, "{forget:#?}");
    }
}

fn run_of(output: &Output) -> String {
    output.objects("run")[0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn an_interrupted_scroll_removes_nothing() {
    let peer = Peer::start();
    let store = store_on(PointStore::at(&peer.url(), &peer.rest_url()));
    let before = store.memories();
    peer.faults()
        .fail_always("Points/Scroll", Code::Internal, "disk on fire");
    let night = store.night().expect(1);
    assert_eq!(night.pass("ttl")["outcome"], "failed", "{night:#?}");
    peer.faults().clear();
    assert_eq!(store.memories(), before);
    let _ = store.night().expect(0);
    assert!(is_done(&gone(&before, &store.memories())));
}

/// Between the plan and the removal the agent writes one of the expired anew, and another run removes the other.
#[test]
fn a_point_that_was_written_since_the_plan_is_left() {
    let store = store();
    let before = store.memories();
    // The first pair is taken after the plan was made and before anything is looked at again.
    let night = Held::start(
        &mut store.command(&["--run-now", "--json", "--only", "ttl,snapshot"]),
        "pair.published=1*return(hold)",
        store.dir.path().join("hold"),
    );
    let edited = memory(21, "ana", "ana needs it for ever", &json!({}));
    store.put(store.collection(), &[edited]);
    store.delete(store.collection(), &[&id(22)]);
    let night = night.let_go();
    let ttl = night.pass("ttl");
    assert_eq!(ttl["skipped"], json!({"delete": 1}), "{night:#?}");
    let after = store.memories();
    assert_eq!(before.len() - 1, after.len());
    assert!(after[&id(21)].contains("for ever"));
}

#[test]
fn a_pair_is_put_back_but_for_what_was_removed() {
    let store = store();
    let before = store.memories();
    let taken = store.run(&["snapshot", "now", "--json"]).expect(0);
    let pair = taken.objects("pair")[0]["pair"]
        .as_str()
        .unwrap()
        .to_owned();
    let _ = store
        .run(&["snapshot", "verify", &pair, "--json"])
        .expect(0);
    let _ = store.night().expect(0);
    let after = store.memories();
    store.put(
        store.collection(),
        &[memory(5, "ana", "overwritten by mistake", &json!({}))],
    );
    store.delete(store.collection(), &[&id(7), &id(12)]);
    // One memory names no owner, which the check at the end says.
    let restored = store
        .run(&["snapshot", "restore", &pair, "--json"])
        .expect(3);
    assert_eq!(store.memories(), after, "{restored:#?}");
    no_mirror_left(&store);
    let _ = store
        .run(&["snapshot", "restore", &pair, "--bring-back", "--json"])
        .expect(3);
    assert_eq!(store.memories(), before);
}

#[test]
fn a_person_asks_forgets_and_answers() {
    let mut store = store();
    let config = store.config.replace(
        "[pass.review]\nenabled = false",
        "[pass.review]\nstale_after = \"1d\"",
    );
    write(&store.dir.path().join("hypnos.toml"), &config);
    store.config = config;
    let before = store.memories();
    let _ = store.night().expect(0);
    let why = store.run(&["why", &id(3), "--json"]).expect(0);
    assert!(why.stdout.contains("ana keeps thing 3"), "{why:#?}");
    let why = store.run(&["why", &id(21), "--json"]).expect(0);
    assert!(why.stdout.contains("expired"), "{why:#?}");
    let list = store.run(&["review", "--json"]).expect(0);
    assert!(list.stdout.contains("keeps thing"), "{list:#?}");
    let entry = &list.objects("entry")[0];
    let number = entry["entry"].to_string();
    let answered = store
        .run(&["review", "forget", &number, "--json"])
        .expect(0);
    let went = gone(&before, &store.memories());
    assert_eq!(went.len(), 5, "{answered:#?}");

    let forgotten = store.run(&["forget", "user:ana", "--yes", "--json"]);
    let certificate = &forgotten.objects("certificate")[0]["stores"][0];
    assert!(!forgotten.stdout.contains("mirror"), "{forgotten:#?}");
    let removed = certificate["removed"].as_array().unwrap();
    let points: Vec<_> = removed.iter().filter(|it| it["what"] == "points").collect();
    assert_eq!(points.len(), 1, "{certificate:#}");
    assert!(
        removed.iter().all(|it| it["what"] != "rows"),
        "{certificate:#}"
    );
    let left = store.memories();
    assert!(
        left.values()
            .all(|whole| !whole.contains("\"user_id\":\"ana\"")),
        "{forgotten:#?}"
    );
    assert!(left.len() >= 11, "{left:#?}");
    let text = files(&store.dir.path().join("state"));
    assert!(!text.values().any(|bytes| holds(bytes, "ana needs thing")));
}

#[test]
fn what_makes_no_sense_with_points_is_refused() {
    let mut store = store();
    for (rows, rest, told) in [
        (
            format!("{ROWS}\npath = \"m.db\""),
            PASSES.to_owned(),
            "rows.path",
        ),
        (
            format!("{ROWS}\nid = \"key\""),
            PASSES.to_owned(),
            "rows.id",
        ),
        (
            ROWS.to_owned(),
            format!("point_id = \"uuid(id)\"\n{PASSES}"),
            "vectors.point_id",
        ),
        (
            ROWS.replace("\"points\"", "\"dots\""),
            PASSES.to_owned(),
            "rows.kind",
        ),
        (
            ROWS.replace("payload:json($.data)", "content"),
            PASSES.to_owned(),
            "\"content\"",
        ),
        (
            ROWS.to_owned(),
            format!("where = {{ kind = {{ is = 1 }} }}\n{PASSES}"),
            "vectors.where",
        ),
    ] {
        store.configure(&rows, &rest);
        let check = store.run(&["check"]);
        assert!(matches!(check.code, Some(10 | 78)), "{check:#?}");
        let all = format!("{}{}", check.stdout, check.stderr);
        assert!(all.contains(told), "{told}: {check:#?}");
    }
}

/// Killed, or failed, at every step that a night comes by; the next one finishes, and undo puts everything back.
#[test]
fn a_night_that_is_cut_off_anywhere_is_finished_by_the_next() {
    let tells: Vec<String> = Failpoint::ALL
        .iter()
        .map(|point| format!("{}=return(tell)", point.as_str()))
        .collect();
    let told = store().night_with(&tells.join(";")).expect(0);
    let hits: Vec<&str> = Failpoint::ALL
        .iter()
        .map(|point| point.as_str())
        .filter(|point| told.stderr.contains(point))
        .collect();
    assert!(hits.contains(&"points.removed") && hits.contains(&"rows.committed"));
    let removing = hits.iter().filter(|point| {
        ["intent.", "points.", "rows.", "settle."]
            .iter()
            .any(|part| point.starts_with(part))
    });
    for point in removing {
        for (how, action) in [("kill", "1*return(kill)"), ("error", "1*return(error)")] {
            let store = store();
            let before = store.memories();
            let first = store.night_with(&format!("{point}={action}"));
            // Where nobody would look for it: a mirror that was cut off is swept away beside the state.
            assert_eq!(store.left_in_tmp(), 0, "{point} {how}");
            let meanwhile = gone(&before, &store.memories());
            let allowed = [21, 22, 31, 32, 33].map(id);
            assert!(
                meanwhile.iter().all(|id| allowed.contains(id)) && meanwhile.len() <= 4,
                "{point} {how}: {meanwhile:?}"
            );
            let next = store.night().expect(0);
            let after = store.memories();
            assert!(is_done(&gone(&before, &after)), "{point} {how}: {next:#?}");
            let _ = store.night().expect(0).all_passes("idle");
            no_mirror_left(&store);
            for run in [run_in(&store, 2), run_in(&store, 1)] {
                let _ = store.run(&["undo", &run, "--json"]);
            }
            assert_eq!(store.memories(), before, "{point} {how}: {first:#?}");
        }
    }
}

/// The id of the nth run before the last.
fn run_in(store: &PointStore, nth: usize) -> String {
    let status = store.run(&["status", "--json"]);
    let runs: Vec<String> = status.objects("status")[0]["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["run"].as_str().unwrap().to_owned())
        .collect();
    assert!(runs.len() > nth, "{status:#?}");
    runs[nth].clone()
}
