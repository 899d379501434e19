//! Points that list memories, in a collection beside them: a night, an undo and a forgetting are cut off at every durable
//! step, and nothing but dead ids ever leaves a list.

use std::collections::{BTreeMap, BTreeSet};

use hypnos::failpoint::Failpoint;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::census::on_threads;
use crate::support::points_only::{NewPoint, PointStore, Whole};
use crate::support::qdrant::{rest_url, url};
use crate::support::{Output, vector};

/// The steps of taking memories out of lists, and of dropping what lists none any more.
const NIGHT: [Failpoint; 10] = [
    Failpoint::ListIntentBefore,
    Failpoint::ListIntentWritten,
    Failpoint::ListsBefore,
    Failpoint::ListCompared,
    Failpoint::ListConfirmed,
    Failpoint::PointsCompared,
    Failpoint::PointsConfirmed,
    Failpoint::ListsDone,
    Failpoint::ListSettleBefore,
    Failpoint::ListSettleWritten,
];

const UNDO: [Failpoint; 8] = [
    Failpoint::UndoBefore,
    Failpoint::UndoBegun,
    Failpoint::PutBackBefore,
    Failpoint::PutBackDone,
    Failpoint::ListCompared,
    Failpoint::ListConfirmed,
    Failpoint::UndoSettleBefore,
    Failpoint::UndoSettled,
];

const FORGET: [Failpoint; 7] = [
    Failpoint::ListIntentBefore,
    Failpoint::ListIntentWritten,
    Failpoint::ListsBefore,
    Failpoint::PointsConfirmed,
    Failpoint::ListsDone,
    Failpoint::ListSettleBefore,
    Failpoint::ListSettleWritten,
];

const ACTIONS: [&str; 3] = ["kill", "error", "delay"];

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

fn memory(number: u32, owner: &str, said: u32, has_expired: bool) -> NewPoint {
    let mut payload = json!({
        "user_id": owner, "data": format!("thing {said} costs {}", said * 13),
        "hash": format!("{said:032x}"), "created_at": "2026-06-01T10:00:00+00:00",
    });
    if has_expired {
        payload["expiration_date"] = "2026-01-31".into();
    }
    point(id(number), number, payload)
}

fn entity(number: u32, owner: &str, list: &Value) -> NewPoint {
    let payload =
        json!({"data": format!("person {number}"), "user_id": owner, "linked_memory_ids": list});
    point(entity_id(number), 20_000 + number, payload)
}

/// A store, both of its collections as they were, and those ids that may ever leave a list.
struct Case {
    store: PointStore,
    memories: Whole,
    entities: Whole,
    dead: BTreeSet<String>,
}

/// Ana has ten memories, three that have expired and a copy; ben has two. What lists them lists dead ids, too.
fn case() -> Case {
    let mut store = PointStore::at(&url(), &rest_url());
    store.create_any(Some("bm25"));
    let collection = store.collection().to_owned();
    let name = format!("{collection}_entities");
    store.create(&name, 32, Some("bm25"));
    let mut memories: Vec<NewPoint> = (1..=10).map(|n| memory(n, "ana", n, false)).collect();
    memories.extend((11..=13).map(|n| memory(n, "ana", n, true)));
    memories.extend([memory(14, "ana", 10, false), memory(15, "ana", 10, false)]);
    memories.extend((21..=22).map(|n| memory(n, "ben", n, false)));
    store.put(&collection, &memories);
    let [gone, away] = [id(98), id(99)];
    store.put(
        &name,
        &[
            entity(1, "ana", &json!([id(1), id(11), id(2)])),
            entity(2, "ana", &json!([id(11), id(12)])),
            entity(3, "ana", &json!([id(3), gone, id(13), id(4)])),
            entity(4, "ana", &json!([gone, away])),
            entity(5, "ana", &json!([id(12), gone])),
            entity(6, "ana", &json!([id(10), id(14), id(15), id(11)])),
            entity(7, "ana", &json!([id(5)])),
            entity(8, "ben", &json!([id(21), id(22)])),
            entity(9, "ben", &json!([])),
        ],
    );
    store.configure(
        "preset = \"mem0-qdrant\"",
        "[pass.orphans]\nsettle = \"0s\"\nmin_age = \"0s\"\n[pass.review]\nenabled = false\n\
         [pass.contradictions]\nenabled = false",
    );
    let dead = [11, 12, 13, 10, 14, 15, 98, 99].map(id).into();
    Case {
        memories: store.memories(),
        entities: store.whole(&name),
        dead,
        store,
    }
}

/// The payload of a point, its list and the rest of it.
fn taken_apart(whole: &str) -> (Vec<String>, String) {
    let mut values = serde_json::Deserializer::from_str(whole).into_iter::<Value>();
    let mut payload = values.next().unwrap().unwrap();
    let list = payload["linked_memory_ids"].take();
    let list = list.as_array().unwrap().iter();
    let list = list.map(|id| id.as_str().unwrap().to_owned()).collect();
    (list, format!("{payload}{}", &whole[values.byte_offset()..]))
}

impl Case {
    fn lists(&self) -> Whole {
        self.store.whole(&self.store.collections[1])
    }

    /// What holds at any instant: who lives is whole, nothing but a dead id has left a list, in whatever order, and
    /// nothing else of an entity has changed; one is gone only where nothing of its list lives.
    fn at_any_time(&self) -> Result<(), String> {
        let memories = self.store.memories();
        for (id, whole) in &self.memories {
            let is_dead = self.dead.contains(id);
            if !is_dead && memories.get(id) != Some(whole) {
                return Err(format!("the live memory {id} is gone or changed"));
            }
        }
        let now = self.lists();
        for (id, whole) in &self.entities {
            let (list, rest) = taken_apart(whole);
            let lives: BTreeSet<&String> =
                list.iter().filter(|id| !self.dead.contains(*id)).collect();
            let Some(now) = now.get(id) else {
                if !lives.is_empty() || list.is_empty() {
                    return Err(format!("the entity {id} is gone"));
                }
                continue;
            };
            let (list_now, rest_now) = taken_apart(now);
            let listed: BTreeSet<&String> = list_now.iter().collect();
            if rest_now != rest || listed.len() != list_now.len() {
                return Err(format!("the entity {id} was changed: {now}"));
            }
            if !listed.is_superset(&lives) || !list_now.iter().all(|id| list.contains(id)) {
                return Err(format!("the list of {id} was {list:?} and is {list_now:?}"));
            }
        }
        match now.keys().find(|id| !self.entities.contains_key(*id)) {
            Some(id) => Err(format!("nobody wrote the entity {id}")),
            None => Ok(()),
        }
    }

    /// What holds once a night has come to its end: every list names only memories that are there.
    fn after_a_night(&self) -> Result<(), String> {
        self.at_any_time()?;
        let memories = self.store.memories();
        let gone = [11, 12, 13].map(id);
        if gone.iter().any(|id| memories.contains_key(id)) {
            return Err("an expired memory is there".to_owned());
        }
        let copies = [10, 14, 15].map(id);
        if copies
            .iter()
            .filter(|id| memories.contains_key(*id))
            .count()
            != 1
        {
            return Err("not one of the copies is left".to_owned());
        }
        let now = self.lists();
        for (id, whole) in &now {
            let (list, _) = taken_apart(whole);
            if let Some(dead) = list.iter().find(|id| !memories.contains_key(*id)) {
                return Err(format!("the entity {id} lists {dead}"));
            }
        }
        let left: BTreeSet<String> = now.into_keys().collect();
        let expected: BTreeSet<String> = [1, 3, 6, 7, 8, 9].map(entity_id).into();
        match left == expected {
            true => Ok(()),
            false => Err(format!("the entities are {left:?}")),
        }
    }

    fn is_as_it_was(&self) -> Result<(), String> {
        let is_so = self.store.memories() == self.memories && self.lists() == self.entities;
        is_so.then_some(()).ok_or_else(|| {
            let lists: BTreeMap<_, _> = self.lists();
            format!("not all is back: {lists:#?}")
        })
    }

    fn open(&self) -> u64 {
        let status = self.store.run(&["status", "--json"]);
        status.objects("status")[0]["open_intents"]
            .as_u64()
            .unwrap()
    }

    fn disturbed(&self, args: &[&str], failpoints: &str) -> Output {
        Output::of(self.store.command(args).env("FAILPOINTS", failpoints))
    }
}

type Step = (Failpoint, usize, &'static str);

/// Each point at its first hit and, where there may be one, at its second.
fn steps(points: &[Failpoint]) -> Vec<Step> {
    let hits = points.iter().flat_map(|point| [(*point, 0), (*point, 1)]);
    hits.flat_map(|(point, nth)| ACTIONS.map(|action| (point, nth, action)))
        .collect()
}

fn armed(&(point, nth, action): &Step) -> String {
    let point = point.as_str();
    match nth {
        0 => format!("{point}=1*return({action})"),
        n => format!("{point}={n}*off->1*return({action})"),
    }
}

fn ended_so(output: &Output, action: &str, whole: i32) -> bool {
    match (action, output.code) {
        ("kill", code) => code.is_none(),
        ("error", code) => code == Some(1),
        (_, code) => code == Some(whole),
    }
}

#[test]
fn lists_are_mended_whatever_step_a_night_is_cut_off_at() {
    on_threads(&steps(&NIGHT), |step| {
        let story = |why: String| format!("{}: {why}", armed(step));
        let case = case();
        let night = case.disturbed(&["--run-now", "--json"], &armed(step));
        if !ended_so(&night, step.2, 0) {
            return Err(story(format!("{night:#?}")));
        }
        case.at_any_time().map_err(story)?;
        let next = case.store.night();
        if next.code != Some(0) || case.open() != 0 {
            return Err(story(format!("the next run: {next:#?}")));
        }
        case.after_a_night().map_err(story)
    });
}

#[test]
fn lists_are_put_back_whatever_step_an_undo_is_cut_off_at() {
    let steps: Vec<Step> = steps(&UNDO)
        .into_iter()
        .filter(|step| step.1 == 0)
        .collect();
    on_threads(&steps, |step| {
        let story = |why: String| format!("{}: {why}", armed(step));
        let case = case();
        let night = case.store.night();
        if night.code != Some(0) {
            return Err(story(format!("{night:#?}")));
        }
        case.after_a_night().map_err(story)?;
        let run = night.objects("run")[0]["run"].as_str().unwrap().to_owned();
        let undo = case.disturbed(&["undo", &run], &armed(step));
        if !ended_so(&undo, step.2, 0) {
            return Err(story(format!("{undo:#?}")));
        }
        case.at_any_time().map_err(story)?;
        // A run that finishes what was begun and does nothing of its own.
        let next = case.store.run(&["--run-now", "--only", "decay"]);
        if next.code != Some(0) || case.open() != 0 {
            return Err(story(format!("the next run: {next:#?}")));
        }
        let again = case.store.run(&["undo", &run]);
        if again.code != Some(0) {
            return Err(story(format!("{again:#?}")));
        }
        case.is_as_it_was().map_err(story)
    });
}

#[test]
fn what_lists_the_memories_of_an_owner_is_forgotten_whatever_step_it_is_cut_off_at() {
    let steps: Vec<Step> = steps(&FORGET)
        .into_iter()
        .filter(|step| step.1 == 0)
        .collect();
    on_threads(&steps, |step| {
        let story = |why: String| format!("{}: {why}", armed(step));
        let case = case();
        let forget = ["forget", "user:ana", "--yes"];
        let cut = case.disturbed(&forget, &armed(step));
        if !ended_so(&cut, step.2, 0) {
            return Err(story(format!("{cut:#?}")));
        }
        let next = case.store.run(&["--run-now", "--only", "decay"]);
        if next.code != Some(0) || case.open() != 0 {
            return Err(story(format!("the next run: {next:#?}")));
        }
        let is_of_ben = |id: &String| [8, 9].map(entity_id).contains(id);
        let mut expected = case.entities.clone();
        expected.retain(|id, _| is_of_ben(id));
        let memories: Vec<String> = case.store.memories().into_keys().collect();
        if case.lists() != expected || memories != [21, 22].map(id) {
            return Err(story(format!("{memories:?} {:#?}", case.lists())));
        }
        Ok(())
    });
}

/// What a killed run was about to take out is a memory again by now.
#[test]
fn a_memory_that_is_back_is_listed_again() {
    for point in ["list.intent.written", "list.confirmed", "lists.done"] {
        let case = case();
        let killed = case.store.night_with(&format!("{point}=1*return(kill)"));
        assert_eq!(killed.code, None, "{killed:#?}");
        let back: Vec<NewPoint> = (11..=13).map(|n| memory(n, "ana", n, false)).collect();
        case.store.put(case.store.collection(), &back);
        let next = case.store.run(&["--run-now", "--only", "decay"]);
        assert_eq!(next.code, Some(0), "{point}: {next:#?}");
        assert_eq!(case.open(), 0, "{point}");
        assert_eq!(case.lists(), case.entities, "{point}");
    }
}
