//! What each answer does to both stores.

use super::*;

#[test]
fn a_confirmed_memory_says_so_in_its_row_and_keeps_its_point() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let old = world.memory("ana", now() - 200 * DAY, None);
        let other = world.memory("ana", now() - 150 * DAY, None);
        world.night().expect(0);
        let points = world.all_points();
        let entry = entry_of(&world, old);
        let answer = world
            .run(&["review", "confirm", &entry, "--json"])
            .expect(0);
        let answer = &answer.objects("answer")[0];
        assert_eq!(answer["answer"], "confirmed");
        assert_eq!(answer["applied"]["confirm"], 1);
        let confirmed: i64 = column(&world, "confirmed_at", old);
        assert!((now() - confirmed) < 3600, "{confirmed}");
        assert_eq!(column::<Option<i64>>(&world, "confirmed_at", other), None);
        assert_eq!(world.all_points(), points);
        let _ = world.night().expect(0).all_passes("idle");
        assert_eq!(waiting(&world), [other]);
        let status = world.run(&["status", "--json"]).expect(0);
        let run = &status.objects("status")[0]["runs"][1];
        assert_eq!(run["command"], format!("review confirm {entry}"));
        assert_eq!(run["run"], answer["run"]);
    }
}

#[test]
fn where_the_row_cannot_say_so_the_answer_itself_counts() {
    let mut world = bare(Backend::Sqlite);
    let old = world.memory("ana", now() - 200 * DAY, None);
    world.night().expect(0);
    let before = world.dump();
    world.run(&["review", "confirm", "1"]).expect(0);
    let _ = world.night().expect(0).all_passes("idle");
    assert_eq!(world.dump(), before);
    let later = world
        .run(&["--dry-run", "--json", "--at", "+89d"])
        .expect(0);
    assert_eq!(later.plan("review")["planned"], serde_json::json!({}));
    let later = world
        .run(&["--dry-run", "--json", "--at", "+91d"])
        .expect(0);
    assert_eq!(
        later.plan("review")["actions"][0]["ids"][0],
        old.to_string()
    );
}

#[test]
fn a_memory_that_is_forgotten_goes_from_both_stores() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.memory("ana", now() - 200 * DAY, None);
        let stays = world.memory("ana", now(), None);
        world.night().expect(0);
        world.run(&["review", "forget", "1"]).expect(0);
        assert_eq!(
            (world.ids(), world.point_rows()),
            ([stays].into(), [stays].into())
        );
        let _ = world.night().expect(0).all_passes("idle");
        let answered = world.run(&["review", "--all", "--json"]).expect(0);
        let entry = &entries(&answered)[0];
        assert_eq!(
            (&entry["answer"], &entry["memories"][0]["standing"]),
            (&"forgotten".into(), &"gone".into())
        );
    }
}

#[test]
fn one_stands_for_the_others() {
    for (backend, kind) in BACKENDS
        .into_iter()
        .zip([QuestionKind::Contradiction, QuestionKind::Similar])
    {
        let mut world = world(backend);
        let old = world.memory("ana", now() - 20 * DAY, None);
        let new = world.memory("ana", now() - 10 * DAY, None);
        let (a, b) = (
            world.memory("ana", now() - 20 * DAY, None),
            world.memory("ana", now() - 10 * DAY, None),
        );
        put(&world, kind, &[old, new]);
        put(&world, kind, &[a, b]);
        world.run(&["review", "replace", "1"]).expect(0);
        let keep = a.to_string();
        world
            .run(&["review", "replace", "2", "--keep", &keep])
            .expect(0);
        assert_eq!(
            column::<Option<i64>>(&world, "superseded_by", old),
            Some(new)
        );
        assert_eq!(column::<Option<i64>>(&world, "superseded_by", new), None);
        assert_eq!(column::<Option<i64>>(&world, "superseded_by", b), Some(a));
        assert_eq!(world.point_rows(), [new, a].into());
        // Who says the same has been known for longer; who says otherwise has not.
        let created: i64 = column(&world, "created_at", new);
        let earliest = if kind == QuestionKind::Similar {
            20
        } else {
            10
        };
        assert!((now() - earliest * DAY - created).abs() < 3600, "{kind}");
        let _ = world.night().expect(0).all_passes("idle");
    }
}

#[test]
fn a_stale_memory_is_replaced_by_the_one_that_a_person_names() {
    let mut world = world(Backend::Sqlite);
    let old = world.memory("ana", now() - 200 * DAY, None);
    let new = world.memory("ana", now(), None);
    let foreign = world.memory("bea", now(), None);
    world.night().expect(0);
    let before = world.dump();
    for wrong in [None, Some(foreign), Some(old), Some(999)] {
        let wrong = wrong.map(|id| id.to_string());
        let mut args = vec!["review", "replace", "1"];
        args.extend(wrong.iter().flat_map(|id| ["--keep", id]));
        let refused = world.run(&args).expect(2);
        assert!(refused.stderr.contains("--keep"), "{refused:#?}");
    }
    assert_eq!(world.dump(), before);
    let new_id = new.to_string();
    world
        .run(&["review", "replace", "1", "--keep", &new_id])
        .expect(0);
    assert_eq!(
        column::<Option<i64>>(&world, "superseded_by", old),
        Some(new)
    );
    assert_eq!(world.point_rows(), [new, foreign].into());
}

#[test]
fn without_a_column_for_it_what_is_replaced_is_deleted() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.configure("superseded_by = \"superseded_by\"", "superseded_by = \"\"");
        let old = world.memory("ana", now() - 20 * DAY, None);
        let new = world.memory("ana", now() - 10 * DAY, None);
        put(&world, QuestionKind::Contradiction, &[old, new]);
        world.run(&["review", "replace", "1"]).expect(0);
        assert_eq!(
            (world.ids(), world.point_rows()),
            ([new].into(), [new].into())
        );
    }
}

#[test]
fn what_is_kept_is_not_asked_again_unless_a_side_changes() {
    let mut world = world(Backend::Sqlite);
    let pair = [
        world.memory("ana", now() - 20 * DAY, None),
        world.memory("ana", now() - 10 * DAY, None),
    ];
    assert_eq!(put(&world, QuestionKind::Contradiction, &pair), 1);
    let before = world.dump();
    world.run(&["review", "keep", "1"]).expect(0);
    assert_eq!(put(&world, QuestionKind::Contradiction, &pair), 0);
    assert_eq!(world.dump(), before);
    world
        .rows()
        .execute("UPDATE memories SET content = 'x' WHERE id = ?1", [pair[0]])
        .unwrap();
    assert_eq!(put(&world, QuestionKind::Contradiction, &pair), 1);
}

#[test]
fn a_snoozed_question_waits_out_of_sight() {
    let mut world = world(Backend::Sqlite);
    world.memory("ana", now() - 200 * DAY, None);
    world.night().expect(0);
    world
        .run(&["review", "snooze", "1", "--for", "3d"])
        .expect(0);
    assert!(queue(&world).is_empty());
    let all = world.run(&["review", "--all", "--json"]).expect(0);
    assert_eq!(entries(&all).len(), 1, "{all:#?}");
    let _ = world.night().expect(0).all_passes("idle");
    world
        .run(&["review", "snooze", "1", "--for", "0s"])
        .expect(0);
    assert_eq!(queue(&world).len(), 1);
    world
        .run(&["review", "snooze", "1", "--for", "soon"])
        .expect(2);
}

#[test]
fn an_answer_that_does_not_fit_changes_nothing() {
    let mut world = world(Backend::Sqlite);
    let none = world.run(&["review", "confirm", "1"]).expect(2);
    assert!(none.stderr.contains("no entry #1"), "{none:#?}");
    assert!(!world.path("state").exists(), "nothing is made for it");
    let ids = [
        world.memory("ana", now() - 200 * DAY, None),
        world.memory("ana", now() - 150 * DAY, None),
    ];
    put(&world, QuestionKind::Similar, &ids);
    world.night().expect(0);
    let (before, points) = (world.dump(), world.all_points());
    for args in [
        &["confirm", "1"][..],
        &["forget", "1"],
        &["forget", "1", "--id", "999"],
        &["replace", "1", "--keep", "999"],
        &["replace", "2"],
        &["keep", "99"],
        &["snooze", "99"],
        &["keep", "1", "--store", "other"],
        &["keep", "one"],
        &["ponder", "1"],
    ] {
        world.run(&[&["review"], args].concat()).expect(2);
    }
    // Edited meanwhile: the answer is about something else than what was asked.
    world
        .rows()
        .execute("UPDATE memories SET content = 'edited'", [])
        .unwrap();
    let edited = world.dump();
    for verb in ["confirm", "forget", "keep"] {
        let refused = world.run(&["review", verb, "2"]).expect(3);
        assert!(refused.stderr.contains("has changed"), "{refused:#?}");
    }
    assert_eq!((world.dump(), world.all_points()), (edited, points));
    assert_ne!(world.dump(), before);
    world.night().expect(0);
    let answered = world.run(&["review", "keep", "1"]).expect(2);
    assert!(answered.stderr.contains("void"), "{answered:#?}");
}

#[test]
fn the_newest_is_not_guessed() {
    let mut world = world(Backend::Sqlite);
    let ids = [
        world.memory("ana", now() - 20 * DAY, None),
        world.memory("ana", now() - 20 * DAY, None),
    ];
    world
        .rows()
        .execute("UPDATE memories SET created_at = ?1", [now() - 20 * DAY])
        .unwrap();
    put(&world, QuestionKind::Similar, &ids);
    let refused = world.run(&["review", "replace", "1"]).expect(2);
    assert!(refused.stderr.contains("newest"), "{refused:#?}");
}

#[test]
fn an_answer_waits_for_the_lock() {
    let mut world = world(Backend::Sqlite);
    world.memory("ana", now() - 200 * DAY, None);
    world.night().expect(0);
    let holder = hypnos::state::Holder {
        pid: std::process::id(),
        run: "other".into(),
        host: "here".into(),
        since: jiff::Timestamp::from_second(now()).unwrap(),
        command: "test".into(),
    };
    let _lock = StateDir::new(&world.path("state"), "agent")
        .lock(&holder)
        .unwrap();
    for verb in ["confirm", "forget", "keep", "snooze"] {
        world.run(&["review", verb, "1"]).expect(11);
    }
    assert_eq!(queue(&world).len(), 1, "reading needs no lock");
}

#[test]
fn confirming_needs_no_vectors_and_forgetting_does() {
    let mut world = world(Backend::Sqlite);
    let old = world.memory("ana", now() - 200 * DAY, None);
    world.memory("ana", now() - 150 * DAY, None);
    world.night().expect(0);
    std::fs::rename(world.path("vectors.db"), world.path("away.db")).unwrap();
    let entry = entry_of(&world, old);
    world.run(&["review", "confirm", &entry]).expect(0);
    world.run(&["review", "forget", "2"]).expect(10);
    assert_eq!(queue(&world).len(), 1);
}
