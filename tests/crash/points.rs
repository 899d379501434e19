//! A store whose points are its rows: every step of its night, as abort, error and delay.
//!
//! There is one half, so that nothing can be in one and not in the other: what is there is there whole, byte for byte.

use std::collections::{BTreeMap, BTreeSet};

use hypnos::failpoint::Failpoint;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::census::{ACTIONS, disturbance, on_threads, tell_all, told_by};
use crate::checker::{Verdict, the_journal_in_is_honest};
use crate::setting;
use crate::support::points_only::{NewPoint, PointStore, Whole};
use crate::support::qdrant::{rest_url, url};
use crate::support::{DAY, Output, files, now, open, vector};

const CONFIG: &str = r#"kind = "points"
tenant = "payload:json($.user_id)"
content = "payload:json($.data)"
created_at = "payload:json($.created_at):text"
expires_at = "payload:json($.expires_at):epoch_s"
[store.owners]
scope = "user"
path = "owners.db"
table = "users"
id = "id"
deleted_at = "deleted_at""#;

const PASSES: &str = "namespace = \"user:{tenant}\"\n[pass.orphans]\nsettle = \"0s\"\nmin_age = \"0s\"\n\
     [pass.decay]\nenabled = false\n[pass.contradictions]\nenabled = false\n[pass.review]\nenabled = false\n\
     [pass.snapshot]\nenabled = false\n";

/// Memories that stay, by their number.
const LIVES: [u32; 9] = [1, 2, 3, 4, 5, 11, 12, 13, 41];
/// Expired, and of an owner who is gone.
const GOES: [u32; 4] = [21, 22, 51, 52];
/// Copies of one memory, of which one stays.
const COPIES: [u32; 3] = [31, 32, 33];

/// The id of a memory by its number.
pub(crate) fn id(number: u32) -> String {
    Uuid::from_u64_pair(number.into(), 7).to_string()
}

/// A memory with a payload that is not plain, and two vectors.
pub(crate) fn memory(number: u32, owner: &str, text: &str, more: &Value) -> NewPoint {
    let mut payload = json!({
        "user_id": owner, "data": text, "created_at": "2026-05-01T10:00:00+00:00",
        "custom": {"nested": [1, 2.5, null, true], "big": 9_007_199_254_740_993_i64},
    });
    let more = more.as_object().unwrap().clone();
    payload.as_object_mut().unwrap().extend(more);
    NewPoint {
        sparse: Some((vec![7, 900_000 + number], vec![0.5, 1.25])),
        ..NewPoint::new(id(number), payload, vector(number.into()))
    }
}

/// Ana and ben are there, zoe is gone. Ana has two memories that have expired and three copies of one; ben's twin of those
/// is his own.
pub(crate) fn store() -> PointStore {
    let mut store = PointStore::at(&url(), &rest_url());
    store.create_any(Some("bm25"));
    store.configure(CONFIG, PASSES);
    let owners = "CREATE TABLE users(id TEXT PRIMARY KEY, deleted_at INTEGER);
         INSERT INTO users VALUES('ana', NULL), ('ben', NULL), ('zoe', 1750000000)";
    let path = store.dir.path().join("owners.db");
    open(&path).execute_batch(owners).unwrap();
    let of = |owner: &'static str, numbers: std::ops::RangeInclusive<u32>, more: Value| {
        numbers.map(move |number| {
            let text = format!("{owner} keeps thing {number} of {}", number * 7);
            memory(number, owner, &text, &more)
        })
    };
    let cello = |number, owner| memory(number, owner, "ana plays the cello on Sundays", &json!({}));
    let points: Vec<NewPoint> = of("ana", 1..=5, json!({}))
        .chain(of("ben", 11..=13, json!({})))
        .chain(of("ana", 21..=22, json!({"expires_at": now() - DAY})))
        .chain(COPIES.map(|number| cello(number, "ana")))
        .chain([cello(41, "ben")])
        .chain(of("zoe", 51..=52, json!({})))
        .collect();
    store.put(store.collection(), &points);
    store
}

/// Which memories are there; each is as it was written.
fn there(before: &Whole, store: &PointStore) -> Verdict<BTreeSet<String>> {
    let now = store.memories();
    if let Some((id, _)) = now
        .iter()
        .find(|(id, whole)| before.get(*id) != Some(whole))
    {
        return Err(format!("nobody wrote the memory {id} as it is"));
    }
    Ok(now.into_keys().collect())
}

/// What holds at any time: who lives is there, and so is one of the copies.
fn at_any_time(there: &BTreeSet<String>) -> Verdict<()> {
    if let Some(lost) = LIVES.iter().find(|number| !there.contains(&id(**number))) {
        return Err(format!("promise 1: memory {lost} is lost"));
    }
    if COPIES.iter().all(|number| !there.contains(&id(*number))) {
        return Err("promise 3: no copy is left".to_owned());
    }
    Ok(())
}

/// What holds once a run came to its end.
fn in_the_end(there: &BTreeSet<String>) -> Verdict<()> {
    at_any_time(there)?;
    if let Some(left) = GOES.iter().find(|number| there.contains(&id(**number))) {
        return Err(format!("promise 1: memory {left} is still there"));
    }
    match COPIES
        .iter()
        .filter(|number| there.contains(&id(**number)))
        .count()
    {
        1 => Ok(()),
        copies => Err(format!("promise 3: {copies} copies are left")),
    }
}

fn night(store: &PointStore, failpoints: &str) -> Output {
    store.night_with(failpoints)
}

/// Disturbs a night, and lets the next one finish it.
fn disturb(point: Failpoint, nth: usize, action: &str) -> Verdict<()> {
    let store = store();
    let before = store.memories();
    let disturbed = night(&store, &disturbance(point, nth, action));
    let ended_so = match action {
        "kill" => disturbed.code.is_none(),
        "error" => disturbed.code.is_some_and(|code| code != 0),
        _ => disturbed.code == Some(0),
    };
    if !ended_so {
        return Err(format!("{disturbed:#?}"));
    }
    let folder = store.dir.path();
    the_journal_in_is_honest(folder, disturbed.code)?;
    let seen = there(&before, &store)?;
    at_any_time(&seen)?;
    if action == "kill" {
        // Apart from the copy of the points that the killed run left: whoever makes one sweeps it away.
        let held = || {
            let mut files = files(folder);
            files.retain(|path, _| !path.to_string_lossy().contains("/mirror-"));
            (files, store.memories())
        };
        let before = held();
        let dry = store.run(&["--dry-run"]);
        if held() != before || dry.code != Some(0) {
            return Err(format!("promise 7: {dry:#?}"));
        }
    }
    let next = store.night();
    if next.code != Some(0) {
        return Err(format!("the next run: {next:#?}"));
    }
    the_journal_in_is_honest(folder, next.code)?;
    let left = there(&before, &store)?;
    if let Some(back) = left.difference(&seen).next() {
        return Err(format!("promise 1: memory {back} is back"));
    }
    in_the_end(&left)
}

#[test]
fn every_promise_holds_at_every_failpoint_of_points_that_are_rows() {
    let calm = store();
    let before = calm.memories();
    let told = night(&calm, &tell_all()).expect(0);
    in_the_end(&there(&before, &calm).unwrap()).unwrap();
    let mut hits: BTreeMap<Failpoint, usize> = BTreeMap::new();
    for point in told_by(&told) {
        *hits.entry(point).or_default() += 1;
    }
    for removing in [Failpoint::PointsRemoved, Failpoint::RowsCommitted] {
        assert!(hits.contains_key(&removing), "{removing} is not reached");
    }
    let mut steps = Vec::new();
    for (turn, (point, hits)) in hits.iter().enumerate() {
        let nths = match setting("HYPNOS_EVERY_STEP") {
            Some(_) => (0..*hits).collect(),
            None => vec![(turn % 2) * (hits - 1)],
        };
        let of_nth = |nth| ACTIONS.map(|action| (*point, nth, action));
        steps.extend(nths.into_iter().flat_map(of_nth));
    }
    on_threads(&steps, |(point, nth, action)| {
        let story = |why| format!("FAILPOINTS='{}': {why}", disturbance(*point, *nth, action));
        disturb(*point, *nth, action).map_err(story)
    });
    println!(
        "points that are rows: {} failpoints x {} actions, {} disturbed runs: every promise held",
        hits.len(),
        ACTIONS.len(),
        steps.len()
    );
}
