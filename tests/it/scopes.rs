//! The same words under another agent, document, source or tag: whoever asks by that must still find them.

use std::collections::BTreeSet;

use rusqlite::params;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::support::points_only::{NewPoint, PointStore};
use crate::support::qdrant::{rest_url, url};
use crate::support::row_stores::RowStore;
use crate::support::{DAY, now, vector};

/// What is said beside the same words, and which of them stay.
type Case = (&'static [&'static str], &'static [usize]);

fn id(case: usize, place: usize) -> String {
    Uuid::from_u64_pair(case as u64, 0x4000_9000 + place as u64).to_string()
}

fn text(case: usize) -> String {
    format!("thing {case} costs {} at place {}", case * 13, case * 7)
}

/// Those of the cases that stay, as [`id`] calls them.
fn staying(cases: &[Case]) -> BTreeSet<String> {
    let of = |(case, (_, stay)): (usize, &Case)| {
        let stay: Vec<usize> = stay.to_vec();
        stay.into_iter().map(move |place| id(case, place))
    };
    cases.iter().enumerate().flat_map(of).collect()
}

/// Payloads of a case: an owner of its own, and what is said beside.
fn payload(kind: &str, case: usize, more: &str) -> Value {
    let more: Map<String, Value> = serde_json::from_str(more).unwrap();
    let (owner, text) = (format!("owner{case}"), text(case));
    let mut metadata = json!({"user_id": owner, "created_at": "2026-06-01T10:00:00+00:00"});
    metadata.as_object_mut().unwrap().extend(more);
    match kind {
        "mem0-qdrant" => {
            metadata["data"] = text.into();
            metadata["hash"] = format!("{case:032x}").into();
            metadata
        }
        "langchain" => json!({"page_content": text, "metadata": metadata}),
        "llamaindex" => {
            let node = json!({"metadata": metadata, "text": text}).to_string();
            metadata["_node_content"] = node.into();
            metadata["_node_type"] = "TextNode".into();
            metadata
        }
        _ => json!({"id": text, "content": text, "meta": metadata}),
    }
}

#[test]
fn points_of_another_scope_stay() {
    let mem0: &[Case] = &[
        (&[r#"{"agent_id": "a"}"#, r#"{"agent_id": "b"}"#], &[0, 1]),
        (&[r#"{"agent_id": "a"}"#, r#"{"run_id": "r1"}"#], &[0, 1]),
        (&[r#"{"actor_id": "x"}"#, r#"{"actor_id": "y"}"#], &[0, 1]),
        (
            &[r#"{"category": "private"}"#, r#"{"category": "work"}"#],
            &[0, 1],
        ),
        (&[r#"{"agent_id": "a"}"#, "{}"], &[0]),
        (&["{}", r#"{"agent_id": "a"}"#], &[1]),
        (
            &[
                r#"{"agent_id": "a", "run_id": "r1", "hash": "y"}"#,
                r#"{"agent_id": "a"}"#,
                r#"{"run_id": "r1", "updated_at": "2026-06-02T10:00:00+00:00"}"#,
            ],
            &[0],
        ),
    ];
    let sources: &[Case] = &[
        (
            &[
                r#"{"source": "a.pdf"}"#,
                r#"{"source": "b.pdf"}"#,
                r#"{"source": "c.pdf"}"#,
            ],
            &[0, 1, 2],
        ),
        (&[r#"{"source": "a.pdf"}"#, r#"{"page": 1}"#], &[0, 1]),
        (
            &[
                "{}",
                r#"{"source": "a.pdf", "created_at": "2026-06-02T10:00:00+00:00"}"#,
            ],
            &[1],
        ),
        (
            &[r#"{"loc": {"a": 1, "b": 2}}"#, r#"{"loc": {"a": 1}}"#],
            &[0],
        ),
    ];
    let documents: &[Case] = &[
        (
            &[
                r#"{"doc_id": "doc-A", "ref_doc_id": "doc-A"}"#,
                r#"{"doc_id": "doc-B", "ref_doc_id": "doc-B"}"#,
            ],
            &[0, 1],
        ),
        (
            &[
                r#"{"doc_id": "None", "ref_doc_id": "None"}"#,
                r#"{"doc_id": "doc-B", "ref_doc_id": "doc-B"}"#,
            ],
            &[1],
        ),
    ];
    for (kind, cases) in [
        ("mem0-qdrant", mem0.to_vec()),
        ("langchain", sources.to_vec()),
        ("haystack", sources.to_vec()),
        ("llamaindex", [sources, documents].concat()),
    ] {
        let mut store = PointStore::at(&url(), &rest_url());
        store.create_any(None);
        let collection = store.collection().to_owned();
        let mut points = Vec::new();
        for (case, (said, _)) in cases.iter().enumerate() {
            for (place, more) in said.iter().enumerate() {
                let payload = payload(kind, case, more);
                let vector = vector(i64::try_from(case).unwrap());
                points.push(NewPoint::new(id(case, place), payload, vector));
            }
            // One that is said twice in one scope, to the letter.
            let case = 100 + case;
            for place in 0..2 {
                let payload = payload(kind, case, said[0]);
                points.push(NewPoint::new(id(case, place), payload, vector(7)));
            }
        }
        store.put(&collection, &points);
        store.configure(&format!("preset = \"{kind}\""), "");
        let night = store.night().expect(0);
        let (twice, left): (BTreeSet<_>, BTreeSet<_>) =
            store.memories().into_keys().partition(|left| {
                (0..cases.len()).any(|case| (0..2).any(|place| *left == id(100 + case, place)))
            });
        assert_eq!(left, staying(&cases), "{kind}: {night:#?}");
        assert_eq!(twice.len(), cases.len(), "{kind}: {night:#?}");
        // Nobody is asked whether those of two scopes are one.
        let actions = &night.pass("duplicates")["applied"];
        assert!(actions.get("queue").is_none(), "{kind}: {night:#?}");
        let _ = store.night().expect(0).all_passes("idle");
    }
}

#[test]
fn rows_of_another_scope_stay() {
    let tags: &[Case] = &[
        (&["user:nate", "user:evan,work"], &[0, 1]),
        (&["work,user:nate", "user:nate, work"], &[1]),
        (&["untagged", "user:nate"], &[1]),
        (&["", "quoted \"x\""], &[1]),
    ];
    let values: &[Case] = &[
        (
            &[r#"{"kind": "semantic"}"#, r#"{"kind": "episodic"}"#],
            &[0, 1],
        ),
        (&[r#"{"text": "x"}"#, r#"{"text": "y"}"#], &[0, 1]),
        (&["{}", r#"{"kind": "semantic"}"#], &[1]),
    ];
    let lists: &[Case] = &[
        (&[r#"["a"]"#, r#"["b"]"#], &[0, 1]),
        (&[r#"["a"]"#, r#"["b", "a"]"#], &[1]),
    ];
    for (preset, cases, insert, left) in [
        (
            "mcp-memory-service",
            tags,
            "INSERT INTO memories(content_hash, content, tags, memory_type, metadata, created_at, updated_at)
             VALUES (?1, ?2, ?3, 'note', '{}', ?4 + 0.5, ?4 + 0.5)",
            "SELECT content_hash FROM memories WHERE superseded_by IS NULL",
        ),
        (
            "langgraph-sqlite",
            values,
            "INSERT INTO store(prefix, key, value, created_at, updated_at)
             VALUES ('memories', ?1, CAST(json_patch(?3, json_object('content', ?2)) AS BLOB),
               datetime(?4, 'unixepoch'), datetime(?4, 'unixepoch'))",
            "SELECT key FROM store",
        ),
        (
            "openmemory-cavira",
            lists,
            "INSERT INTO memories(id, user_id, content, tags, primary_sector, created_at, updated_at, last_seen_at, salience, decay_lambda)
             VALUES (?1, 'ana', ?2, ?3, 'semantic', ?4 * 1000, ?4 * 1000, ?4 * 1000, 0.5, 0.02)",
            "SELECT id FROM memories",
        ),
    ] {
        let store = RowStore::new(preset);
        let db = store.db();
        for (case, (said, _)) in cases.iter().enumerate() {
            for (place, more) in said.iter().enumerate() {
                // The later one of two that are asked by alike stays.
                let at = now() - DAY + i64::try_from(place).unwrap();
                db.execute(insert, params![id(case, place), text(case), more, at])
                    .unwrap();
            }
        }
        drop(db);
        let before = store.whole();
        let runs = store.nights();
        assert_eq!(store.strings(left), staying(cases), "{preset}");
        store.undo(&runs);
        assert_eq!(store.whole(), before, "{preset}");
    }
}
