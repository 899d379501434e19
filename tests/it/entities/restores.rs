//! A pair that is put back, and the lists beside it: they are in no pair.

use super::*;

/// Takes a pair and answers its name.
fn pair(store: &PointStore) -> String {
    let taken = store.run(&["snapshot", "now", "--json"]).expect(0);
    let pair = &taken.objects("pair")[0]["pair"];
    pair.as_str().unwrap().to_owned()
}

fn restore(store: &PointStore, pair: &str, flags: &[&str]) -> Output {
    let mut args = vec!["snapshot", "restore", pair, "--json"];
    args.extend(flags);
    store.run(&args)
}

fn ids(store: &PointStore) -> Vec<String> {
    store.memories().into_keys().collect()
}

fn said_of_ana(number: u32) -> NewPoint {
    let mut payload = with(memory(number), &ana());
    let keys = payload.as_object_mut().unwrap();
    keys.retain(|key, _| !matches!(key.as_str(), "agent_id" | "run_id"));
    point(id(number), number, payload)
}

/// Since the pair was taken hypnos has removed two memories, and the agent one; the agent has written a new one.
fn changed_since() -> (Linked, String, String) {
    let entities = [
        entity(1, &json!([id(1), id(5), id(2)]), &ana()),
        entity(2, &json!([id(5), id(6)]), &ana()),
        entity(3, &json!([id(2), id(3)]), &ana()),
        entity(4, &json!([id(11)]), &ben()),
    ];
    let linked = small(&entities, "");
    let pair = pair(&linked.store);
    let night = linked.store.night().expect(0);
    assert_eq!(
        night.pass("ttl")["applied"],
        json!({"delete": 2, "unlink": 1, "drop_entity": 1})
    );
    linked.store.delete(linked.store.collection(), &[&id(2)]);
    linked
        .store
        .put(linked.store.collection(), &[said_of_ana(7)]);
    linked.store.put(
        &linked.entities,
        &[
            entity(1, &json!([id(1), id(7)]), &ana()),
            entity(3, &json!([id(3)]), &ana()),
            entity(5, &json!([id(7)]), &ana()),
        ],
    );
    (linked, pair, run_of(&night))
}

#[test]
fn the_lists_stay_and_lose_what_the_pair_does_not_have() {
    let (linked, pair, _) = changed_since();
    let store = &linked.store;
    let before = linked.entities();
    let restored = restore(store, &pair, &[]);
    let line = &restored.objects("restored")[0];
    assert_eq!(
        line["taken_out"],
        json!({"memories": 2, "marked": 0, "points": 2}),
        "{restored:#?}"
    );
    assert_eq!(ids(store), [1, 2, 3, 4, 11, 12].map(id), "{restored:#?}");
    assert_eq!(linked.entities(), before, "they are in no pair");
    // It says so, and what is dead in them.
    assert_eq!(restored.code, Some(3), "{restored:#?}");
    let check = &restored.objects("check")[0];
    assert_eq!(check["drift"]["dead_link"], 2, "{restored:#?}");

    is_idle(&store.night().expect(0));
    store.shift_clock(NIGHT);
    let night = store.night().expect(0);
    assert_eq!(
        night.pass("orphans")["applied"],
        json!({"unlink": 1, "drop_entity": 1}),
        "{night:#?}"
    );
    let lists = linked.lists();
    assert_eq!(lists[&entity_id(1)], json!([id(1)]));
    assert_eq!(lists[&entity_id(3)], json!([id(3)]));
    assert_eq!(lists[&entity_id(4)], json!([id(11)]));
    assert_eq!(lists.len(), 3);
    store.shift_clock(2 * NIGHT);
    is_idle(&store.night().expect(0));
    assert_eq!(linked.drift(), 0);
}

/// A link to what stays removed is dead however it comes back, and goes the same night.
#[test]
fn what_stays_removed_leaves_the_lists_at_once() {
    let (linked, pair, _) = changed_since();
    let store = &linked.store;
    let _ = restore(store, &pair, &[]).expect(3);
    let back = [
        entity(1, &json!([id(1), id(5), id(2)]), &ana()),
        entity(2, &json!([id(5), id(6)]), &ana()),
        entity(5, &json!([id(3)]), &ana()),
    ];
    // As an agent does that had read them before, or a copy of the collection that somebody puts back.
    store.put(&linked.entities, &back);
    let night = store.night().expect(0);
    assert_eq!(
        night.pass("orphans")["applied"],
        json!({"unlink": 1, "drop_entity": 1}),
        "{night:#?}"
    );
    let lists = linked.lists();
    assert_eq!(lists[&entity_id(1)], json!([id(1), id(2)]));
    assert!(!lists.contains_key(&entity_id(2)));
    is_idle(&store.night().expect(0));
}

#[test]
fn what_is_brought_back_is_listed_again_by_an_undo() {
    let (linked, pair, run) = changed_since();
    let store = &linked.store;
    let _ = restore(store, &pair, &["--bring-back"]).expect(3);
    assert_eq!(ids(store), [1, 2, 3, 4, 5, 6, 11, 12].map(id));
    let undone = store.run(&["undo", &run, "--json"]);
    let report = &undone.objects("undo")[0];
    assert_eq!(report["left"], json!([]), "{report:#}");
    let listed = json!({"unlink": 1, "drop_entity": 1});
    assert_eq!(report["put_back"], listed, "{report:#}");
    assert_eq!(report["there"], json!({"delete": 2}), "{report:#}");
    let lists = linked.lists();
    assert_eq!(lists[&entity_id(1)], json!([id(1), id(7), id(5)]));
    assert_eq!(lists[&entity_id(2)], json!([id(5), id(6)]));
    assert_eq!(ids(store), [1, 2, 3, 4, 5, 6, 11, 12].map(id));
    // They have expired, so that the next night takes them again, from the lists too.
    let night = store.night().expect(0);
    assert_eq!(
        night.pass("ttl")["applied"],
        json!({"delete": 2, "unlink": 1, "drop_entity": 1}),
        "{night:#?}"
    );
    assert_eq!(linked.lists()[&entity_id(1)], json!([id(1), id(7)]));
}

/// Who was forgotten is in no list and no entity, whatever is put back.
#[test]
fn who_was_forgotten_is_back_in_no_list() {
    let (linked, pair, _) = changed_since();
    let store = &linked.store;
    let _ = store.run(&["forget", "user:ana", "--yes"]);
    let left = linked.entities();
    assert_eq!(left.keys().cloned().collect::<Vec<_>>(), [entity_id(4)]);
    for flags in [&[][..], &["--bring-back"]] {
        let restored = restore(store, &pair, flags);
        assert!(matches!(restored.code, Some(0 | 3)), "{restored:#?}");
        assert_eq!(ids(store), [11, 12].map(id), "{restored:#?}");
        assert_eq!(linked.entities(), left);
        is_idle(&store.night().expect(0));
    }
}
