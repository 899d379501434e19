//! The points of mem0 that list memories: what is gone goes from their lists, and nothing else changes.

use std::collections::{BTreeMap, BTreeSet};

use qdrant_peer::Peer;
use serde_json::{Value, json};
use uuid::Uuid;

use hypnos::config::{Env, ListKey, parse};
use hypnos::memory::PointId;
use hypnos::stop::Stop;
use hypnos::store::Stores;
use hypnos::store::sqlite::Access;
use hypnos::store::vectors::VectorReader as _;
use hypnos::store::vectors::qdrant::{Relist, Relisted};

use crate::support::points_only::{NewPoint, PointStore, Whole};
use crate::support::qdrant::{rest_url, url};
use crate::support::{DAY, Output, vector};

mod asked;
mod beside;
mod emptied;
mod restores;
mod spellings;

/// Longer than what is absent has to settle.
const NIGHT: i64 = DAY;
const OWNERS: u32 = 9;
const EACH: u32 = 60;
const CALM: &str = "[pass.review]\nenabled = false\n[pass.contradictions]\nenabled = false";

fn id(number: u32) -> String {
    Uuid::from_u64_pair(number.into(), 0x4000_8000).to_string()
}

fn entity_id(number: u32) -> String {
    Uuid::from_u64_pair(number.into(), 0x9000_8000).to_string()
}

fn point(id: String, number: u32, payload: Value) -> NewPoint {
    NewPoint {
        sparse: Some((vec![number, 5_000_000], vec![1.5, 0.25])),
        ..NewPoint::new(id, payload, vector(number.into()))
    }
}

fn owner_of(number: u32) -> Value {
    match number % OWNERS {
        0 => json!({"agent_id": "helper"}),
        1 => json!({"run_id": "run-1"}),
        n => json!({"user_id": format!("owner{n}")}),
    }
}

fn with(mut payload: Value, more: &Value) -> Value {
    let more = more.as_object().unwrap().clone();
    payload.as_object_mut().unwrap().extend(more);
    payload
}

fn memory(number: u32) -> Value {
    let said = json!({
        "data": format!("thing {number} costs {} at place {}", number * 13, number * 7),
        "hash": format!("{number:032x}"), "created_at": "2026-06-01T10:00:00+00:00",
    });
    with(said, &owner_of(number))
}

fn entity(number: u32, list: &Value, owner: &Value) -> NewPoint {
    let payload = json!({
        "data": format!("person {number}"), "entity_type": "PERSON", "linked_memory_ids": list,
        "custom": {"deep": [1, null, 2.5]},
    });
    point(entity_id(number), 20_000 + number, with(payload, owner))
}

/// A store of mem0, its second collection, and what is known of both.
struct Linked {
    store: PointStore,
    entities: String,
}

impl Linked {
    fn new(store: PointStore, memories: &[NewPoint], entities: &[NewPoint]) -> Self {
        Self::configured(store, memories, entities, CALM)
    }

    fn configured(
        mut store: PointStore,
        memories: &[NewPoint],
        entities: &[NewPoint],
        config: &str,
    ) -> Self {
        store.create_any(Some("bm25"));
        let collection = store.collection().to_owned();
        let name = format!("{collection}_entities");
        store.create(&name, 32, Some("bm25"));
        store.put(&collection, memories);
        store.put(&name, entities);
        store.configure("preset = \"mem0-qdrant\"", config);
        Self {
            store,
            entities: name,
        }
    }

    fn entities(&self) -> Whole {
        self.store.whole(&self.entities)
    }

    fn lists(&self) -> BTreeMap<String, Value> {
        let entities = self.entities().into_iter();
        let lists = entities.map(|(id, whole)| {
            let (payload, _) = taken_apart(&whole);
            (id, payload["linked_memory_ids"].clone())
        });
        lists.collect()
    }

    fn drift(&self) -> Value {
        let check = self.store.run(&["check", "--json"]);
        check.objects("check")[0]["drift"]["dead_link"].clone()
    }
}

/// What is to be left of the entities once these memories are gone from the lists of their owners.
fn without(before: &Whole, is_gone: impl Fn(&str, &Value) -> bool) -> Whole {
    let mut left = Whole::new();
    for (id, whole) in before {
        let (mut payload, vectors) = taken_apart(whole);
        let is_list = |list: &Vec<Value>| {
            let is_id = |id: &Value| id.as_str().is_some_and(|id| Uuid::parse_str(id).is_ok());
            list.iter().all(is_id)
        };
        let has_owner = ["user_id", "agent_id", "run_id"]
            .iter()
            .any(|key| payload[key].is_string());
        let list = payload["linked_memory_ids"].as_array().cloned();
        if let Some(list) = list.filter(|list| has_owner && is_list(list)) {
            let canonical = |id: &Value| Uuid::parse_str(id.as_str().unwrap()).unwrap();
            let stays: Vec<Value> = list
                .iter()
                .filter(|id| !is_gone(&canonical(id).to_string(), &payload))
                .cloned()
                .collect();
            if stays.is_empty() && !list.is_empty() {
                continue;
            }
            payload["linked_memory_ids"] = stays.into();
        }
        let _ = left.insert(id.clone(), format!("{payload}{vectors}"));
    }
    left
}

/// The payload of a point, and the rest of it.
fn taken_apart(whole: &str) -> (Value, &str) {
    let mut values = serde_json::Deserializer::from_str(whole).into_iter();
    let payload = values.next().unwrap().unwrap();
    (payload, &whole[values.byte_offset()..])
}

/// That a night had nothing to do but with its pairs.
#[track_caller]
fn is_idle(night: &Output) {
    for pass in night.objects("pass") {
        let is_idle = pass["outcome"] == "idle" || pass["pass"] == "snapshot";
        assert!(is_idle, "{night:#?}");
    }
}

fn run_of(night: &Output) -> String {
    night.objects("run")[0]["run"].as_str().unwrap().to_owned()
}

/// Every memory of an owner, by number, that a list may name.
fn numbers(owner: u32) -> impl Iterator<Item = u32> {
    (1..=OWNERS * EACH).filter(move |number| number % OWNERS == owner)
}

/// Five hundred memories and more, of which some expire and some are copies; a hundred and eighty entities that list
/// them, and what mem0 forgot to take out of the lists. With `odd`, also what nobody can mend.
fn drifted(odd: bool) -> Linked {
    let mut memories: Vec<NewPoint> = (1..=OWNERS * EACH)
        .map(|number| point(id(number), number, memory(number)))
        .collect();
    let mut entities = Vec::new();
    let mut next = 0;
    let mut add = |list: Value, owner: &Value| {
        next += 1;
        entities.push(entity(next, &list, owner));
    };
    for owner in 0..OWNERS {
        let (named, own) = (owner_of(owner), numbers(owner).collect::<Vec<_>>());
        for (at, number) in own.iter().enumerate() {
            let expired = 30_000 + number;
            let copy = 40_000 + number;
            if at % 12 == 0 {
                let until = json!({"data": format!("{number} until then"), "expiration_date": "2026-01-31"});
                memories.push(point(id(expired), expired, with(memory(*number), &until)));
                memories.push(point(id(copy), copy, memory(*number)));
            }
            let [dead, other] = [id(50_000 + number), id(60_000 + number)];
            let [live, after] = [id(*number), id(own[(at + 1) % own.len()])];
            match at % 12 {
                0 => add(json!([live, id(expired), id(copy)]), &named),
                1 => add(json!([live, after]), &named),
                2 => add(json!([after, dead, live, other]), &named),
                3 => add(json!([dead, other]), &named),
                4 => add(json!([dead.to_uppercase(), live, dead]), &named),
                5 => add(json!([]), &named),
                // Only what goes tonight.
                6 => add(json!([id(30_000 + own[at - 6])]), &named),
                // What goes tonight, and what is dead already.
                7 => add(json!([id(30_000 + own[at - 7]), dead]), &named),
                // The live memory of somebody else.
                8 => add(json!([id(number + 1)]), &named),
                // Most lists are as they should be.
                _ => add(own[..12].iter().map(|number| id(*number)).collect(), &named),
            }
        }
    }
    if odd {
        let (dead, ana) = (id(99_999), json!({"user_id": "owner2"}));
        for list in [
            json!([dead, 7]),
            json!(dead),
            json!([dead, "a name"]),
            json!({"0": dead}),
        ] {
            add(list, &ana);
        }
        add(json!([dead]), &json!({"custom": "nobody's"}));
        add(Value::Null, &ana);
    }
    let store = PointStore::at(&url(), &rest_url());
    Linked::new(store, &memories, &entities)
}

/// What a plan would do to the lists: each point with the kind of the action, and the ids.
fn planned(output: &Output) -> BTreeMap<String, Vec<(String, Value)>> {
    let mut planned: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for plan in output.objects("plan") {
        for action in plan["actions"].as_array().unwrap() {
            let kind = action["action"].as_str().unwrap();
            if matches!(kind, "unlink" | "drop_entity") {
                let point = action["point"].as_str().unwrap().to_owned();
                let of_point = planned.entry(point).or_default();
                of_point.push((kind.to_owned(), action["ids"].clone()));
            }
        }
    }
    planned
}

/// That what a dry run says of the lists is what became of them.
#[track_caller]
fn as_said(dry: &Output, before: &Whole, after: &Whole) {
    let said = planned(dry);
    for (point, whole) in before {
        let kinds: Vec<&str> = said
            .get(point)
            .map(|actions| actions.iter().map(|(kind, _)| kind.as_str()).collect())
            .unwrap_or_default();
        let is_dropped = kinds.last() == Some(&"drop_entity");
        assert_eq!(is_dropped, !after.contains_key(point), "{point}: {kinds:?}");
        let is_changed = after.get(point) != Some(whole);
        assert_eq!(is_changed, !kinds.is_empty(), "{point}: {kinds:?}");
    }
}

#[test]
fn two_nights_mend_every_list_and_undo_restores_all() {
    let linked = drifted(true);
    let store = &linked.store;
    let (memories, before) = (store.memories(), linked.entities());
    assert!(memories.len() > 500, "{}", memories.len());
    // Four of each dozen, and five odd ones.
    let dead = linked.drift().as_u64().unwrap();
    assert_eq!(dead, u64::from(OWNERS * EACH / 12) * 4 + 5);

    let dry = store.run(&["--dry-run", "--json"]).expect(0);
    let first = store.night().expect(0);
    let left = store.memories();
    let went: BTreeSet<String> = memories
        .keys()
        .filter(|id| !left.contains_key(*id))
        .cloned()
        .collect();
    assert_eq!(went.len(), 2 * (OWNERS * EACH / 12) as usize, "{first:#?}");
    let after = linked.entities();
    assert_eq!(after, without(&before, |id, _| went.contains(id)));
    as_said(&dry, &before, &after);
    let orphans = first.pass("orphans");
    assert_eq!(
        orphans["outcome"], "idle",
        "nothing has settled: {orphans:#}"
    );
    assert!(orphans["findings"]["settling"].as_u64() > Some(0));

    store.shift_clock(NIGHT);
    let dry = store.run(&["--dry-run", "--json"]).expect(0);
    let second = store.night().expect(0);
    assert_eq!(store.memories(), left);
    let mended = linked.entities();
    let all_gone = without(&before, |id, _| !left.contains_key(id));
    assert_eq!(mended, all_gone, "{second:#?}");
    as_said(&dry, &after, &mended);
    let orphans = second.pass("orphans");
    assert_eq!(orphans["outcome"], "applied", "{orphans:#}");
    assert_eq!(orphans["findings"]["dead_link"], 5, "{orphans:#}");
    assert_eq!(linked.drift(), 5);

    store.shift_clock(2 * NIGHT);
    is_idle(&store.night().expect(0));
    assert_eq!(linked.entities(), mended);

    let foreseen = store
        .run(&["undo", &run_of(&second), "--dry-run", "--json"])
        .expect(0);
    let undone = store.run(&["undo", &run_of(&second), "--json"]).expect(0);
    for output in [&foreseen, &undone] {
        let report = &output.objects("undo")[0];
        assert_eq!(report["put_back"], orphans["applied"], "{report:#}");
        assert_eq!(report["again"][0]["reason"], "memory_gone", "{report:#}");
    }
    assert_eq!(linked.entities(), after);
    let _ = store.run(&["undo", &run_of(&first)]).expect(0);
    assert_eq!(store.memories(), memories);
    assert_eq!(linked.entities(), before);
    let again = store.run(&["undo", &run_of(&first), "--json"]).expect(0);
    assert_eq!(again.objects("undo")[0]["put_back"], json!({}));
}

#[test]
fn a_store_whose_lists_can_all_be_mended_has_no_drift_after_two_nights() {
    let linked = drifted(false);
    let _ = linked.store.run(&["check"]).expect(3);
    let _ = linked.store.night().expect(0);
    linked.store.shift_clock(NIGHT);
    let _ = linked.store.night().expect(0);
    let check = linked.store.run(&["check", "--json"]).expect(0);
    let check = &check.objects("check")[0];
    assert_eq!(check["ok"], true, "{check:#}");
    assert_eq!(check["drift"]["dead_link"], 0, "{check:#}");
}

/// Six memories of ana and two of ben, and entities that list them.
fn small(entities: &[NewPoint], config: &str) -> Linked {
    let said = |number: u32, owner: &str| {
        let payload = with(memory(number), &json!({"user_id": owner}));
        let payload = match number {
            5 | 6 => with(payload, &json!({"expiration_date": "2026-01-31"})),
            _ => payload,
        };
        point(id(number), number, payload)
    };
    let mut memories: Vec<NewPoint> = (1..=6).map(|number| said(number, "ana")).collect();
    for memory in &mut memories {
        let payload = memory.payload.as_object_mut().unwrap();
        let _ = payload.remove("agent_id");
        let _ = payload.remove("run_id");
    }
    memories.push(point(
        id(11),
        11,
        with(json!({"data": "ben has a cat", "hash": "b"}), &ben()),
    ));
    memories.push(point(
        id(12),
        12,
        with(json!({"data": "ben has a dog", "hash": "d"}), &ben()),
    ));
    let store = PointStore::at(&url(), &rest_url());
    Linked::configured(store, &memories, entities, &format!("{CALM}\n{config}"))
}

fn ana() -> Value {
    json!({"user_id": "ana"})
}

fn ben() -> Value {
    json!({"user_id": "ben"})
}

const AT_ONCE: &str = "[pass.orphans]\nsettle = \"0s\"\nmin_age = \"0s\"";

#[test]
fn a_guard_holds_back_what_would_change_too_many_lists() {
    let mut entities: Vec<NewPoint> = (1..=60)
        .map(|number| entity(number, &json!([id(900 + number)]), &ana()))
        .collect();
    entities.push(entity(70, &json!([id(1)]), &ana()));
    let linked = small(&entities, AT_ONCE);
    let before = linked.entities();
    let night = linked.store.night().expect(3);
    let refusal = night.pass("orphans")["refusal"].clone();
    assert_eq!(
        (&refusal["removing"], &refusal["of"]),
        (&60.into(), &61.into()),
        "{night:#?}"
    );
    assert_eq!(linked.entities(), before);
    let accept = refusal["accept"].as_str().unwrap();
    let _ = linked
        .store
        .run(&["--run-now", "--accept", accept])
        .expect(0);
    assert_eq!(
        linked.lists().into_keys().collect::<Vec<_>>(),
        [entity_id(70)]
    );
}

#[test]
fn a_first_run_that_reports_takes_out_nothing_that_it_did_not_remove() {
    let list = json!([id(1), id(99)]);
    let entities = [entity(1, &list, &ana())];
    let linked = small(&entities, AT_ONCE);
    let config = linked.store.config.replacen(
        "name = \"agent\"",
        "name = \"agent\"\nfirst_run = \"report\"",
        1,
    );
    crate::support::write(&linked.store.dir.path().join("hypnos.toml"), &config);
    let night = linked.store.night().expect(3);
    let refusal = &night.pass("orphans")["refusal"];
    assert_eq!(refusal["limit"], "first_run", "{night:#?}");
    assert_eq!(linked.lists()[&entity_id(1)], list);
}

#[test]
fn a_list_that_was_changed_meanwhile_keeps_what_is_new_in_it() {
    let new = id(3);
    for point in ["list.intent.written", "list.confirmed", "lists.done"] {
        let linked = small(&[entity(1, &json!([id(5), id(1), id(6)]), &ana())], "");
        let killed = linked.store.night_with(&format!("{point}=1*return(kill)"));
        assert_eq!(killed.code, None, "{killed:#?}");
        let mut list = linked.lists()[&entity_id(1)].as_array().unwrap().clone();
        list.push(new.clone().into());
        linked
            .store
            .put(&linked.entities, &[entity(1, &list.into(), &ana())]);
        let next = linked.store.night();
        assert!(matches!(next.code, Some(0 | 3)), "{point}: {next:#?}");
        assert_eq!(
            linked.lists()[&entity_id(1)],
            json!([id(1), new]),
            "{point}: {next:#?}"
        );
        let status = linked.store.run(&["status", "--json"]);
        assert_eq!(status.objects("status")[0]["open_intents"], 0, "{point}");
    }
}

/// The server writes a list only where it is as it was read.
#[test]
fn a_list_is_written_on_the_condition_that_it_is_as_it_was() {
    let linked = small(&[entity(1, &json!([id(1), id(99)]), &ana())], "");
    let text = linked.store.config.clone();
    let config = parse(
        &text,
        &linked.store.dir.path().join("hypnos.toml"),
        &Env::default(),
    )
    .unwrap();
    let stop = Stop::default();
    let dir = linked.store.dir.path().join("elsewhere");
    let stores = Stores::open(&config.stores[0], &dir, Access::Write, &stop).unwrap();
    let lists = stores.lists(&stop).unwrap().unwrap();
    let point = PointId::from_text(&entity_id(1));
    let capture = || {
        lists
            .capture(std::slice::from_ref(&point))
            .unwrap()
            .images
            .pop()
            .unwrap()
    };
    let key = ListKey::parse("linked_memory_ids").unwrap();
    let relist = |now, only: String| {
        let list = vec![only.into()];
        let ends = lists.relist(&key, &[Relist { now, list }]);
        ends.unwrap()[&point]
    };
    let stale = capture();
    for other in [
        json!([id(1), id(99), id(2)]),
        json!([id(1), id(98)]),
        json!([id(1)]),
        json!([]),
        json!(null),
    ] {
        linked
            .store
            .put(&linked.entities, &[entity(1, &other, &ana())]);
        let before = linked.entities();
        let relisted = relist(stale.clone(), id(2));
        assert_eq!(relisted, Relisted::Changed, "{other}");
        assert_eq!(linked.entities(), before, "{other}");
    }
    linked.store.put(
        &linked.entities,
        &[entity(1, &json!([id(99), id(1)]), &ana())],
    );
    let relisted = relist(capture(), id(1));
    assert_eq!(relisted, Relisted::Done);
    assert_eq!(linked.lists()[&entity_id(1)], json!([id(1)]));
    linked.store.delete(&linked.entities, &[&entity_id(1)]);
    let relisted = relist(stale.clone(), id(1));
    assert_eq!(relisted, Relisted::Gone);
}

#[test]
fn a_store_without_the_collection_has_no_lists_to_mend() {
    let linked = small(&[], "");
    let gone = format!("{}_entities", linked.store.collection());
    crate::support::qdrant::block_on(
        crate::support::qdrant::client_of(&linked.store.url).delete_collection(gone),
    )
    .unwrap();
    let night = linked.store.night().expect(0);
    assert_eq!(
        night.pass("ttl")["applied"],
        json!({"delete": 2}),
        "{night:#?}"
    );
    linked.store.shift_clock(NIGHT);
    is_idle(&linked.store.night().expect(0));
    let _ = linked.store.run(&["undo", &run_of(&night)]).expect(0);
}

/// Whichever page of either collection does not come: nothing is taken out of a list that was not read, or on the word of
/// memories that were not.
#[test]
fn a_scroll_that_fails_takes_nothing_out() {
    let peer = Peer::start();
    let mut store = PointStore::at(&peer.url(), &peer.rest_url());
    store.create_any(None);
    let name = format!("{}_entities", store.collection());
    store.create(&name, 32, None);
    let collection = store.collection().to_owned();
    let bare = |point: NewPoint| NewPoint {
        sparse: None,
        ..point
    };
    store.put(&collection, &[bare(point(id(2), 2, memory(2)))]);
    store.configure("preset = \"mem0-qdrant\"", &format!("{CALM}\n{AT_ONCE}"));
    let entities = [bare(entity(1, &json!([id(2), id(99)]), &owner_of(2)))];
    let mut failed = 0;
    for method in ["Points/Scroll", "Points/Get"] {
        for nth in 1..=3 {
            store.put(&name, &entities);
            let before = store.whole(&name);
            let error = tonic::Code::InvalidArgument;
            peer.faults().fail_nth(method, nth, error, "not now");
            let night = store.run(&["--run-now", "--only", "orphans", "--json"]);
            peer.faults().clear();
            if night.code == Some(1) {
                failed += 1;
                assert_eq!(night.pass("orphans")["outcome"], "failed", "{night:#?}");
            }
            let is_left = store.whole(&name) == before;
            assert_eq!(is_left, night.code == Some(1), "{method} {nth}: {night:#?}");
            let _ = store.run(&["--run-now", "--only", "orphans"]).expect(0);
            assert!(!store.whole(&name)[&entity_id(1)].contains(&id(99)));
        }
    }
    assert!(failed >= 4, "{failed}");
}
