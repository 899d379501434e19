//! mem0 for TypeScript calls the list of an entity otherwise.

use super::*;

const OTHER: &str = "linkedMemoryIds";

/// An entity as mem0 for TypeScript writes it.
fn spelled(number: u32, list: &Value) -> NewPoint {
    let payload = json!({"data": format!("person {number}"), "entityType": "PERSON", OTHER: list});
    point(entity_id(number), 20_000 + number, with(payload, &ana()))
}

/// One entity of each spelling with a memory that is gone and one that expires, one that lists nothing else, and one
/// that has both keys, of which nobody can tell which is meant.
#[test]
fn a_list_is_mended_under_the_key_that_it_has() {
    let list = json!([id(1), id(99), id(5)]);
    let mut both = spelled(4, &list);
    both.payload["linked_memory_ids"] = list.clone();
    let entities = [
        entity(1, &list, &ana()),
        spelled(2, &list),
        spelled(3, &json!([id(6)])),
        both,
    ];
    let linked = small(&entities, AT_ONCE);
    let (memories, before) = (linked.store.memories(), linked.entities());
    let night = linked.store.night().expect(0);
    let after = linked.entities();
    let payload_of = |number: u32| taken_apart(&after[&entity_id(number)]).0;
    assert!(!after.contains_key(&entity_id(3)), "{night:#?}");
    let left = json!([id(1)]);
    let (one, other) = (payload_of(1), payload_of(2));
    assert_eq!(
        (&one["linked_memory_ids"], &one[OTHER]),
        (&left, &Value::Null)
    );
    assert_eq!(
        (&other[OTHER], &other["linked_memory_ids"]),
        (&left, &Value::Null)
    );
    assert_eq!(
        after[&entity_id(4)],
        before[&entity_id(4)],
        "it has two lists"
    );
    assert_eq!(linked.drift(), 1);
    is_idle(&linked.store.night().expect(0));
    let _ = linked
        .store
        .run(&["undo", &run_of(&night), "--json"])
        .expect(0);
    assert_eq!(
        (linked.store.memories(), linked.entities()),
        (memories, before)
    );
}
