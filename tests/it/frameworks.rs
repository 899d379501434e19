//! Points of `LangChain`, `LlamaIndex` and Haystack, five hundred of each, with every drift that such collections are known
//! for: exact copies, and much that is nobody's.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::points_only::{NewPoint, PointStore};
use crate::support::qdrant::{rest_url, url};
use crate::support::vector;

const OWNERS: u32 = 12;
const MEMORIES: u32 = 540;

fn id(number: u32) -> String {
    Uuid::from_u64_pair(number.into(), 0x4000_8001).to_string()
}

fn text(number: u32) -> String {
    format!(
        "thing {number} costs {} at place {}",
        number * 13,
        number * 7
    )
}

/// The payload of a framework: whose it is, where it is said, and what else there may be.
fn payload(kind: &str, owner: &Value, text: &str, number: u32) -> Value {
    let created = ["2026-05-01T10:00:00+00:00", "2026-05-01", "yesterday"]
        [usize::try_from(number % 3).unwrap()];
    let metadata = json!({"user_id": owner, "created_at": created, "ref": number});
    match kind {
        "langchain" => json!({"page_content": text, "metadata": metadata}),
        // As JavaScript and n8n call it.
        "langchain-js" => {
            json!({"content": text, "metadata": metadata, "customPayload": {"a": [1, null]}})
        }
        "llamaindex" => {
            let node = json!({"id_": id(number), "metadata": metadata, "text": text}).to_string();
            let mut payload = metadata;
            payload["_node_content"] = json!(node);
            payload["_node_type"] = json!("TextNode");
            for key in ["doc_id", "document_id", "ref_doc_id"] {
                payload[key] = json!("None");
            }
            payload
        }
        _ => {
            json!({"id": format!("{number:064x}"), "content": text, "meta": metadata, "blob": null, "score": null})
        }
    }
}

#[test]
fn two_nights_leave_one_of_each_copy_and_everything_else() {
    for (kind, preset) in [
        ("langchain", "langchain"),
        ("langchain-js", "langchain"),
        ("llamaindex", "llamaindex"),
        ("haystack", "haystack"),
    ] {
        let mut store = PointStore::at(&url(), &rest_url());
        store.create_any(None);
        let collection = store.collection().to_owned();
        let owner = |number: u32| json!(format!("owner{}", number % OWNERS));
        let point = |id: u32, owner: &Value, of: u32| {
            NewPoint::new(
                self::id(id),
                payload(kind, owner, &text(of), of),
                vector(of.into()),
            )
        };
        let mut points: Vec<_> = (1..=MEMORIES).map(|n| point(n, &owner(n), n)).collect();
        // Said two and three times.
        let mut copies: Vec<BTreeSet<String>> = Vec::new();
        for number in (7..=MEMORIES).step_by(19) {
            let mut same = BTreeSet::from([id(number)]);
            for copy in 0..=number % 2 {
                let other = 10_000 + 2 * number + copy;
                points.push(point(other, &owner(number), number));
                same.insert(id(other));
            }
            copies.push(same);
        }
        // Of somebody else, of nobody, of several, and what has no text at all.
        let others = [
            json!("somebody"),
            Value::Null,
            json!(""),
            json!(["owner1", "owner2"]),
            json!({"a": 1}),
        ];
        for (number, other) in (20_000..).zip(&others) {
            points.push(point(number, other, 7));
            points.push(point(number + 100, other, 7));
        }
        points.push(NewPoint::new(
            id(30_000),
            json!({"user_id": "owner1", "metadata": "owner1"}),
            vector(1),
        ));
        points.push(NewPoint::new(id(30_001), json!({}), vector(1)));
        // Nobody's are left; copies of one person are copies, and so are those of the same several.
        for other in [20_000, 20_003, 20_004] {
            copies.push([id(other), id(other + 100)].into());
        }
        store.put(&collection, &points);
        let sibling = format!("{collection}_old");
        store.create(&sibling, 32, None);
        store.put(&sibling, &points[..40]);
        store.configure(&format!("preset = \"{preset}\""), "");

        let (before, beside) = (store.memories(), store.whole(&sibling));
        let expected: usize = copies.iter().map(|same| same.len() - 1).sum();
        let check = store.run(&["check", "--json"]);
        let backlog = &check.objects("check")[0]["backlog"];
        assert_eq!(
            backlog["duplicates"]["delete"], expected,
            "{kind}: {check:#?}"
        );
        let night = store.night();
        let after = store.memories();
        let gone: BTreeSet<String> = before
            .keys()
            .filter(|id| !after.contains_key(*id))
            .cloned()
            .collect();
        assert_eq!(gone.len(), expected, "{kind}: {night:#?}");
        for same in &copies {
            assert_eq!(same.difference(&gone).count(), 1, "{kind}: {same:?}");
        }
        assert!(
            after.iter().all(|(id, whole)| before[id] == *whole),
            "{kind}"
        );
        let second = store.night();
        assert_eq!(
            second.pass("duplicates")["outcome"],
            "idle",
            "{kind}: {second:#?}"
        );
        assert_eq!(
            (store.memories(), store.whole(&sibling)),
            (after, beside),
            "{kind}"
        );
        let run = night.objects("run")[0]["run"].as_str().unwrap().to_owned();
        let _ = store.run(&["undo", &run, "--json"]).expect(0);
        assert_eq!(store.memories(), before, "{kind}");
    }
}

/// A person gets to know once what several passes saw, and nothing of times that no pass needs.
#[test]
fn check_says_once_what_is_of_nobody_and_misses_no_time() {
    for kind in ["langchain", "llamaindex", "haystack"] {
        let mut store = PointStore::at(&url(), &rest_url());
        store.create_any(None);
        let collection = store.collection().to_owned();
        let timeless = |number: u32, owner: &Value| {
            let mut payload = payload(kind, owner, &text(number), number);
            for place in ["", "/metadata", "/meta"] {
                let metadata = payload.pointer_mut(place).and_then(Value::as_object_mut);
                if let Some(metadata) = metadata {
                    let _ = metadata.remove("created_at");
                }
            }
            NewPoint::new(id(number), payload, vector(number.into()))
        };
        let mut points: Vec<_> = (1..=20).map(|n| timeless(n, &json!("ana"))).collect();
        points.push(timeless(21, &Value::Null));
        store.put(&collection, &points);
        store.configure(&format!("preset = \"{kind}\""), "");
        let check = store.run(&["check", "--json"]).expect(3);
        let check = &check.objects("check")[0];
        assert_eq!(check["drift"]["unreadable_time"], 0, "{kind}: {check:#}");
        let problems = check["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{kind}: {check:#}");
    }
}

/// Of copies the one stays that says more of itself.
#[test]
fn the_copy_with_more_beside_its_text_stays() {
    for kind in ["langchain", "llamaindex", "haystack"] {
        for richer in [1, 2] {
            let mut store = PointStore::at(&url(), &rest_url());
            store.create_any(None);
            let collection = store.collection().to_owned();
            let points: Vec<_> = (1..=2)
                .map(|number| {
                    let mut payload = payload(kind, &json!("ana"), &text(9), 9);
                    if number == richer {
                        let place = match kind {
                            "langchain" => "/metadata",
                            "haystack" => "/meta",
                            _ => "",
                        };
                        let metadata = payload.pointer_mut(place).unwrap();
                        metadata["source"] = json!("a letter of the bank");
                    }
                    NewPoint::new(id(number), payload, vector(9))
                })
                .collect();
            store.put(&collection, &points);
            store.configure(&format!("preset = \"{kind}\""), "");
            let night = store.night().expect(0);
            let left: Vec<String> = store.memories().into_keys().collect();
            assert_eq!(left, [id(richer)], "{kind}: {night:#?}");
        }
    }
}
