//! What a person asks for: the life of a memory, an undo, a forgetting.

use super::*;

#[test]
fn the_life_of_a_memory_tells_of_the_lists_it_was_taken_from() {
    let linked = small(&[entity(1, &json!([id(5), id(1)]), &ana())], "");
    let dry = linked.store.run(&["--dry-run"]).expect(0);
    let line = format!("unlink  user:ana  {} without {}", entity_id(1), id(5));
    assert!(dry.stdout.contains(&line), "{dry:#?}");
    let told = linked.store.run(&["why", &id(5)]).expect(0);
    assert!(
        told.stdout.contains(&format!("unlink {}", entity_id(1))),
        "{told:#?}"
    );
    let night = linked.store.night().expect(0);
    assert_eq!(
        night.pass("ttl")["applied"],
        json!({"delete": 2, "unlink": 1})
    );
    let told = linked.store.run(&["why", &id(5), "--json"]).expect(0);
    let history = told.objects("why")[0]["history"].clone();
    let unlinked = history
        .as_array()
        .unwrap()
        .iter()
        .find(|deed| deed["action"] == "unlink");
    let unlinked = unlinked.unwrap_or_else(|| panic!("{history:#}"));
    assert_eq!(unlinked["from"], entity_id(1), "{history:#}");
    assert_eq!(unlinked["outcome"], "done", "{history:#}");
    // Taken back alone, the memory is listed again.
    let _ = linked
        .store
        .run(&["undo", &run_of(&night), "--id", &id(5)])
        .expect(0);
    assert!(linked.store.memories().contains_key(&id(5)));
    assert!(!linked.store.memories().contains_key(&id(6)));
    assert_eq!(linked.lists()[&entity_id(1)], json!([id(5), id(1)]));
}

#[test]
fn what_of_an_undo_was_changed_since_is_left_and_told() {
    let entities = [
        entity(1, &json!([id(5), id(1)]), &ana()),
        entity(2, &json!([id(5)]), &ana()),
        entity(3, &json!([id(6), id(1), id(2)]), &ana()),
    ];
    let linked = small(&entities, "");
    let night = linked.store.night().expect(0);
    assert_eq!(linked.lists().len(), 2, "{night:#?}");
    // The first is gone, the second is another one by now, and the third has a new memory.
    linked.store.delete(&linked.entities, &[&entity_id(1)]);
    linked.store.put(
        &linked.entities,
        &[
            entity(2, &json!([id(3)]), &ana()),
            entity(3, &json!([id(1), id(2), id(4)]), &ana()),
        ],
    );
    let undone = linked
        .store
        .run(&["undo", &run_of(&night), "--json"])
        .expect(3);
    let report = &undone.objects("undo")[0];
    let left: BTreeMap<&str, &str> = report["left"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            (
                line["point"].as_str().unwrap(),
                line["why"].as_str().unwrap(),
            )
        })
        .collect();
    let [first, second] = [1, 2].map(entity_id);
    let expected = [
        (first.as_str(), "gone"),
        (second.as_str(), "point_rewritten"),
    ];
    assert_eq!(left, expected.into(), "{report:#}");
    let lists = linked.lists();
    assert_eq!(lists[&second], json!([id(3)]));
    assert_eq!(lists[&entity_id(3)], json!([id(1), id(2), id(4), id(6)]));
}

#[test]
fn an_owner_is_forgotten_in_what_lists_the_memories_too() {
    const MARKER: &str = "zanzibar4477";
    let mut marked = entity(1, &json!([id(1), id(5)]), &ana());
    marked.payload["data"] = MARKER.into();
    let mut idle = entity(2, &json!("no list"), &ana());
    idle.payload["data"] = MARKER.into();
    let entities = [marked, idle, entity(3, &json!([id(11)]), &ben())];
    let linked = small(&entities, "[store.log]\npath = \"history.db\"");
    let history = linked.store.dir.path().join("history.db");
    let log = rusqlite::Connection::open(&history).unwrap();
    log.execute_batch("CREATE TABLE history(memory_id TEXT, is_deleted INTEGER)")
        .unwrap();
    let of_ben = linked.entities()[&entity_id(3)].clone();
    // An earlier night has copied one.
    let _ = linked.store.night();

    let foreseen = linked
        .store
        .run(&["forget", "user:ana", "--dry-run", "--json"])
        .expect(0);
    let certificate = linked
        .store
        .run(&["forget", "user:ana", "--yes", "--json"])
        .expect(0);
    for output in [&foreseen, &certificate] {
        let store = &output.objects("certificate")[0]["stores"][0];
        let removed = store["removed"].as_array().unwrap();
        let entities = removed.iter().find(|copy| copy["what"] == "entities");
        let entities = entities.unwrap_or_else(|| panic!("{store:#}"));
        assert_eq!(entities["count"], 2, "{store:#}");
        let place = format!("collection {}", linked.entities);
        assert_eq!(entities["place"], place, "{store:#}");
        let remaining = store["remaining"].as_array().unwrap();
        let named = remaining.iter().find(|it| it["what"] == "history");
        let place = named.unwrap_or_else(|| panic!("{store:#}"))["place"]
            .as_str()
            .unwrap();
        assert!(place.ends_with("history.db"), "{store:#}");
    }
    assert_eq!(linked.entities(), Whole::from([(entity_id(3), of_ben)]));
    let left = linked.store.memories();
    assert_eq!(left.into_keys().collect::<Vec<_>>(), [id(11), id(12)]);
    let state = linked.store.dir.path().join("state");
    for (path, bytes) in crate::support::files(&state) {
        assert!(!crate::support::holds(&bytes, MARKER), "{path:?}");
    }
}

#[test]
fn an_owner_who_is_marked_deleted_leaves_no_entity() {
    let entities = [
        entity(1, &json!([id(1), id(5)]), &ana()),
        entity(2, &json!([]), &ana()),
        entity(3, &json!([id(11)]), &ben()),
    ];
    let owners = "[store.owners]\nscope = \"user\"\npath = \"catalog.db\"\ntable = \"users\"\nid = \"id\"\ndeleted_at = \"gone\"";
    let linked = small(&entities, owners);
    let catalog = linked.store.dir.path().join("catalog.db");
    let catalog = rusqlite::Connection::open(&catalog).unwrap();
    catalog
        .execute_batch("CREATE TABLE users(id TEXT, gone INTEGER); INSERT INTO users VALUES('ana', 1700000000), ('ben', NULL)")
        .unwrap();
    let of_ben = linked.entities()[&entity_id(3)].clone();
    let night = linked.store.night().expect(0);
    let orphans = night.pass("orphans");
    assert_eq!(orphans["applied"]["drop_entity"], 2, "{night:#?}");
    assert_eq!(linked.entities(), Whole::from([(entity_id(3), of_ben)]));
    let undone = linked.store.run(&["undo", &run_of(&night), "--json"]);
    let erased = &undone.objects("undo")[0]["erased"];
    assert_eq!(erased["drop_entity"], 2, "{undone:#?}");
    assert_eq!(linked.entities().len(), 1);
}
