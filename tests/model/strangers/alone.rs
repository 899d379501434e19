//! Points that are the memories: mem0 and the frameworks.

use serde_json::{Value, json};

use super::{Case, Recipe, holds, id, vector};
use crate::support::points_only::NewPoint;

const CREATED: &str = "2026-05-01T10:00:00+00:00";

/// The payload that a system gives to a memory.
fn payload(preset: &str, text: &str, of: &Value) -> Value {
    match preset {
        "mem0-qdrant" => json!({"data": text, "hash": text, "user_id": of, "created_at": CREATED}),
        "langchain" => {
            json!({"page_content": text, "metadata": {"user_id": of, "created_at": CREATED}})
        }
        "llamaindex" => {
            let node = json!({"text": text, "metadata": {}}).to_string();
            json!({"_node_content": node, "_node_type": "TextNode", "doc_id": "None", "user_id": of, "created_at": CREATED})
        }
        _ => {
            json!({"id": text, "content": text, "meta": {"user_id": of, "created_at": CREATED}, "blob": null})
        }
    }
}

fn put(case: &Case, collection: &str, id: &str, payload: Value, seed: usize) {
    let point = NewPoint {
        sparse: Some((vec![3, 70_000], vec![0.5, 1.5])),
        ..NewPoint::new(id, payload, vector(seed))
    };
    case.put_point(collection, point);
}

fn thing(case: &mut Case, preset: &str, number: usize, kind: u8, of: u8) {
    let (memory, own) = (id("memory", number), "memories");
    let text = format!("thing {number} is said of somebody");
    let owner = json!(format!("owner{of}"));
    let whole = |of: &Value| payload(preset, &text, of);
    match kind % 7 {
        0 | 1 => put(case, own, &memory, whole(&owner), number),
        2 => {
            let twin = id("twin", number);
            put(case, own, &memory, whole(&owner), number);
            put(case, own, &twin, whole(&owner), number);
            case.twins("memories/", [&memory, &twin], &[]);
        }
        // The same words of two people, and of nobody.
        3 => {
            let others = [json!("somebody"), Value::Null, json!("")];
            put(case, own, &memory, whole(&owner), number);
            put(
                case,
                own,
                &id("other", number),
                whole(&others[number % 3]),
                number,
            );
        }
        4 if preset == "mem0-qdrant" => {
            let mut whole = whole(&owner);
            // A day counts until it is over; the nights are those of the 1st and of the 2nd of June.
            let day = [
                "2026-05-30",
                "2026-05-31",
                "2026-06-02",
                "2026-07-01",
                "soon",
            ][number % 5];
            whole["expiration_date"] = json!(day);
            put(case, own, &memory, whole, number);
            if day < "2026-06" {
                case.doom("memories/", &memory);
            }
        }
        4 => put(
            case,
            own,
            &memory,
            json!({"something": "else", "user_id": owner}),
            number,
        ),
        5 => {
            // The same twice, and next to what is ours.
            for memory in [memory, id("twin", number)] {
                let sibling = ["memories_old", "memories2", "mymemories"][number % 3];
                put(case, sibling, &memory, whole(&owner), number);
            }
        }
        _ => {
            let links = json!({"data": text, "linked_memory_ids": [id("nobody", number)], "user_id": owner});
            let sibling = ["memories_entities_old", "mem0migrations", "entities"][number % 3];
            put(case, sibling, &memory, links, number);
        }
    }
}

fn build(case: &mut Case, recipe: &Recipe, preset: &str) {
    for name in [
        "memories",
        "memories_entities",
        "memories_entities_old",
        "memories_old",
        "memories2",
        "mymemories",
        "mem0migrations",
        "entities",
    ] {
        case.store.create(name, 32, Some("bm25"));
    }
    let links =
        json!({"data": "Ana", "linked_memory_ids": [id("memory", 1000)], "user_id": "owner0"});
    put(case, "memories_entities", &id("entity", 0), links, 1);
    case.configure(preset, "", "collection = \"memories\"", "");
    for number in 0..4 {
        thing(case, preset, 1000 + number, 0, 0);
    }
    for (number, (kind, of)) in recipe.iter().enumerate() {
        thing(case, preset, number, *kind, *of);
    }
}

#[test]
fn mem0() {
    holds(4, |case, recipe| build(case, recipe, "mem0-qdrant"), true);
}

#[test]
fn frameworks() {
    for preset in ["langchain", "llamaindex", "haystack"] {
        holds(3, |case, recipe| build(case, recipe, preset), true);
    }
}
