//! Points of others in the collection, sent by a server that filters nothing: as one would with a stale index.

use super::*;
use crate::config::{PayloadFilter, Scalar};

/// Points 1 and 2 are memories; the others are of another kind, or say nothing of it.
fn shared() -> (Fake, QdrantVectors) {
    let fake = Fake::start();
    index(&fake, "namespace");
    fake.state().facets = vec![("user:a".into(), 6), ("user:files".into(), 1)];
    let kinds = json!([
        "memory",
        ["memory"],
        "file",
        ["memory", "file"],
        "memory files"
    ]);
    for (number, kind) in (1..).zip(kinds.as_array().unwrap()) {
        let payload = json!({"namespace": "user:a", "doc": "d", "m": {"kind": kind}});
        fake.add([number], &payload);
    }
    fake.add([6], &of_user("a"));
    fake.add(
        [7],
        &json!({"namespace": "user:files", "m": {"kind": "file"}}),
    );
    fake.add([8], &json!({"m": {"kind": "file"}}));
    for point in fake.state().points.values_mut() {
        let vectors = vectors_output::VectorsOptions::Vector(dense(&[0.6, 0.8]));
        point.vectors = Some(VectorsOutput {
            vectors_options: Some(vectors),
        });
    }
    let config = config::Qdrant {
        filter: PayloadFilter {
            keys: vec![("m.kind".into(), vec![Scalar::Text("memory".into())])],
        },
        ..fake.config()
    };
    let store = QdrantVectors::connect(&config, "namespace", Stop::default()).unwrap();
    (fake, store)
}

fn seen_of(store: &QdrantVectors) -> serde_json::Map<String, Value> {
    heads(store, Selector::All, &["doc"]).remove(0).payload
}

#[test]
fn points_of_another_kind_are_in_no_answer() {
    let (fake, store) = shared();
    let ours = numbers([1, 2]);
    for of in [Selector::All, Selector::Namespace("user:a")] {
        let seen = heads(&store, of, &["doc"]);
        let ids: Vec<_> = seen.iter().map(|head| head.id.clone()).collect();
        assert_eq!(ids, ours);
        assert_eq!(store.count(of).unwrap(), 2);
        // What was asked for beside the keys is not shown.
        assert_eq!(Value::Object(seen[0].payload.clone()), json!({"doc": "d"}));
    }
    assert_eq!(store.namespaces().unwrap(), [("user:a".to_owned(), 2)]);
    assert_eq!(store.describe().unwrap().points, 2);
    let found = store.find("user:a", "doc", &["d".to_owned()]).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    let all = numbers(1..=8);
    let vectors = store.vectors(&all).unwrap();
    let ids: Vec<_> = vectors.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ours);
    let captured: Vec<_> = copies(&store, &all).into_iter().map(|i| i.id).collect();
    assert_eq!(captured, ours);
    let looked = store.heads(&all, &["doc"]).unwrap();
    assert!(looked.iter().all(|head| head.payload == seen_of(&store)));
    let looked: Vec<_> = looked.into_iter().map(|head| head.id).collect();
    assert_eq!(looked, ours);
    let mut payloads = Vec::new();
    store
        .payloads(&mut |page| {
            payloads.extend(page.into_iter().map(|(id, _)| id));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(payloads, ours);
    assert_eq!(fake.state().count_calls("facet"), 0);
}

#[test]
fn a_point_that_became_one_of_others_is_neither_removed_nor_overwritten() {
    let (fake, store) = shared();
    let images = copies(&store, &numbers([1, 2]));
    fake.add([1], &json!({"namespace": "user:a", "m": {"kind": "file"}}));
    assert_eq!(
        store.changed(&images).unwrap(),
        numbers([1]).into_iter().collect()
    );
    assert_eq!(
        store.remove(&images).unwrap(),
        numbers([1]).into_iter().collect()
    );
    let left = fake.state().points.clone();
    assert_eq!(left.len(), 7);
    store.put_back(&images).unwrap();
    let now = fake.state().points.clone();
    assert_eq!(now.len(), 8);
    assert!(left.iter().all(|(id, point)| now.get(id) == Some(point)));
}

#[test]
fn the_server_is_asked_for_nothing_else() {
    let (fake, store) = shared();
    for of in [
        Selector::All,
        Selector::Namespace("user:a"),
        Selector::WithoutNamespace,
    ] {
        heads(&store, of, &[]);
        let filter = fake.state().filter.take().unwrap();
        let last = format!("{:?}", filter.must.last());
        assert!(
            last.contains("m.kind") && last.contains("Keyword(\"memory\")"),
            "{last}"
        );
    }
}
