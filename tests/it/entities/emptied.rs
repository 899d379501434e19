//! Lists of which not one id is a memory's: of a collection that is empty, or of another one.

use super::*;

/// A store whose six memories were deleted by somebody else, and lists of them.
fn emptied() -> Linked {
    let entities = [
        entity(1, &json!([id(1), id(99)]), &ana()),
        entity(2, &json!([id(11)]), &ben()),
        entity(3, &json!([]), &ana()),
        entity(4, &json!([id(1), 7]), &ana()),
    ];
    let linked = small(&entities, "");
    delete_all(&linked.store);
    linked
}

fn delete_all(store: &PointStore) {
    let ids: Vec<String> = store.memories().into_keys().collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    store.delete(store.collection(), &ids);
}

#[test]
fn nothing_is_taken_out_on_the_word_of_an_empty_collection_until_a_person_agrees() {
    let linked = emptied();
    let (store, before) = (&linked.store, linked.entities());
    let mut accept = String::new();
    for night in 0..3 {
        store.shift_clock(night * NIGHT);
        let output = store.night().expect(3);
        let orphans = output.pass("orphans");
        assert_eq!(orphans["outcome"], "refused", "{orphans:#}");
        let refusal = &orphans["refusal"];
        assert_eq!(refusal["limit"], "unproven", "{orphans:#}");
        // Of the four ids that can be read.
        let figures = (&refusal["removing"], &refusal["of"]);
        assert_eq!(figures, (&3.into(), &3.into()), "{orphans:#}");
        refusal["accept"].as_str().unwrap().clone_into(&mut accept);
        assert_eq!(linked.entities(), before);
    }
    let dry = store.run(&["--dry-run"]);
    let said = "not one of the 3 ids in lists is a memory";
    assert!(dry.stdout.contains(said), "{dry:#?}");
    assert!(dry.stdout.contains(&accept), "{dry:#?}");
    let check = store.run(&["check"]).expect(3);
    assert!(check.stdout.contains("--accept"), "{check:#?}");

    let night = store.run(&["--run-now", "--json", "--accept", &accept]);
    let orphans = night.pass("orphans");
    assert_eq!(orphans["applied"], json!({"drop_entity": 2}), "{orphans:#}");
    let left: Vec<String> = linked.entities().into_keys().collect();
    assert_eq!(left, [entity_id(3), entity_id(4)]);
    is_idle(&store.night().expect(0));
    let _ = store.run(&["undo", &run_of(&night)]).expect(0);
    assert_eq!(linked.entities(), before);
}

#[test]
fn an_acceptance_counts_for_the_lists_as_they_were_and_nothing_that_came_since_goes() {
    let linked = emptied();
    let store = &linked.store;
    let accept = store.night().pass("orphans")["refusal"]["accept"].clone();
    let accept = accept.as_str().unwrap();
    // Another memory is listed now.
    store.put(
        &linked.entities,
        &[entity(2, &json!([id(11), id(12)]), &ben())],
    );
    let before = linked.entities();
    let night = store.run(&["--run-now", "--json", "--accept", accept]);
    assert_eq!(night.expect(3).pass("orphans")["outcome"], "refused");
    assert_eq!(linked.entities(), before);
}

/// What hypnos removed itself needs nobody's word.
#[test]
fn lists_of_what_hypnos_removed_are_mended_in_a_store_that_is_empty() {
    let mut said: Vec<NewPoint> = (1..=3)
        .map(|number| point(id(number), number, with(memory(number), &ana())))
        .collect();
    for memory in &mut said {
        memory.payload = with(
            memory.payload.clone(),
            &json!({"expiration_date": "2026-01-31"}),
        );
        let payload = memory.payload.as_object_mut().unwrap();
        payload.retain(|key, _| !matches!(key.as_str(), "agent_id" | "run_id"));
    }
    let list = json!([id(1), id(2)]);
    let store = PointStore::at(&url(), &rest_url());
    let linked = Linked::new(store, &said, &[entity(1, &list, &ana())]);
    let _ = linked.store.night().expect(0);
    assert!(linked.store.memories().is_empty());
    assert!(linked.entities().is_empty());
    is_idle(&linked.store.night().expect(0));
    // The agent had read the list before, and writes it now.
    linked
        .store
        .put(&linked.entities, &[entity(1, &list, &ana())]);
    let night = linked.store.night().expect(0);
    assert_eq!(
        night.pass("orphans")["applied"],
        json!({"drop_entity": 1}),
        "{night:#?}"
    );
    assert!(linked.entities().is_empty());
}

#[test]
fn nothing_is_taken_out_of_lists_of_which_not_one_fits_until_a_person_agrees() {
    let foreign: Vec<NewPoint> = (1..=5)
        .map(|number| entity(number, &json!([id(900 + number), id(800 + number)]), &ana()))
        .collect();
    let linked = small(&foreign, AT_ONCE);
    let before = linked.entities();
    let night = linked.store.night().expect(3);
    assert_eq!(night.pass("ttl")["applied"], json!({"delete": 2}));
    let refusal = &night.pass("orphans")["refusal"];
    assert_eq!(refusal["limit"], "unproven", "{night:#?}");
    let figures = (&refusal["removing"], &refusal["of"]);
    assert_eq!(figures, (&10.into(), &10.into()), "{night:#?}");
    assert_eq!(linked.entities(), before);
    let accept = refusal["accept"].as_str().unwrap();
    let _ = linked
        .store
        .run(&["--run-now", "--accept", accept])
        .expect(0);
    assert!(linked.entities().is_empty());
}

/// What is certain does not wait for a person who is asked about the rest.
#[test]
fn what_hypnos_removed_goes_before_anybody_is_asked() {
    let lists = [json!([id(5)]), json!([id(99)])];
    let linked = small(&[], "");
    let _ = linked.store.night().expect(0);
    let numbered = (1..).zip(&lists);
    let entities: Vec<NewPoint> = numbered.map(|(n, list)| entity(n, list, &ana())).collect();
    linked.store.put(&linked.entities, &entities);
    let night = linked.store.night().expect(3);
    let orphans = night.pass("orphans");
    assert_eq!(orphans["outcome"], "partial", "{orphans:#}");
    assert_eq!(orphans["applied"], json!({"drop_entity": 1}), "{orphans:#}");
    assert_eq!(orphans["residue"], json!({"drop_entity": 1}), "{orphans:#}");
    assert_eq!(linked.lists(), [(entity_id(2), lists[1].clone())].into());
    let refusal = linked.store.night().expect(3).pass("orphans")["refusal"].clone();
    assert_eq!(refusal["limit"], "unproven", "{refusal:#}");
    assert_eq!(linked.lists().len(), 1);
}
