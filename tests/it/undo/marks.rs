//! What was only marked: faded, folded, answered.

use super::*;

/// A world in which five memories have faded; `deleted_at` marks them where `soft` says so.
fn faded(backend: Backend, soft: bool) -> World {
    let mut world = World::new(backend);
    world.user("ana", None);
    for _ in 0..95 {
        world.memory("ana", now(), None);
    }
    for n in 0..5 {
        world.memory("ana", now() - (400 + n) * DAY, None);
    }
    if soft {
        world
            .rows()
            .execute_batch("ALTER TABLE memories ADD COLUMN deleted_at INTEGER")
            .unwrap();
        world.configure(
            "superseded_by = \"superseded_by\"",
            "superseded_by = \"superseded_by\"\ndeleted_at = \"deleted_at:epoch_s\"",
        );
    }
    world
}

#[test]
fn what_faded_and_was_brought_back_counts_as_used() {
    for backend in BACKENDS {
        for soft in [false, true] {
            let world = faded(backend, soft);
            let (rows, points) = (world.dump(), world.all_points());
            let night = world.night().expect(0);
            let kind = if soft { "soft_delete" } else { "delete" };
            assert_eq!(night.pass("decay")["applied"], json!({kind: 5}));
            let undone = report(&undo(&world, &[]).expect(0));
            assert_eq!(undone["put_back"], json!({kind: 5}));
            assert_eq!(undone["again"], json!([]));
            assert_eq!(world.dump(), rows);
            assert_eq!(world.all_points(), points);
            let night = world.night().expect(0);
            assert_eq!(night.pass("decay")["outcome"], "idle", "{night:#?}");
            assert_eq!(world.dump(), rows);
            let queue = world.run(&["review", "--all", "--json"]).expect(0);
            let answers: Vec<_> = queue
                .objects("entry")
                .iter()
                .map(|entry| (entry["kind"].clone(), entry["answer"].clone()))
                .collect();
            assert_eq!(answers, vec![(json!("unused"), json!("kept")); 5]);
        }
    }
}

#[test]
fn a_mark_is_taken_back_only_from_a_row_that_nobody_edited() {
    let world = faded(Backend::Sqlite, true);
    let _ = world.night().expect(0);
    let db = world.rows();
    db.execute_batch(
        "UPDATE memories SET content = 'edited' WHERE id = 96;
         UPDATE memories SET deleted_at = 4102444800 WHERE id = 97;
         DELETE FROM memories WHERE id = 98;
         UPDATE memories SET last_used_at = 5 WHERE id = 99",
    )
    .unwrap();
    let before = world.all_points();
    let undone = report(&undo(&world, &[]).expect(3));
    let mut left: Vec<_> = undone["left"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| format!("{} {}", line["id"], line["why"]))
        .collect();
    left.sort();
    assert_eq!(
        left,
        [r#""96" "changed""#, r#""97" "changed""#, r#""98" "gone""#]
    );
    let hidden: Vec<i64> = db
        .prepare("SELECT id FROM memories WHERE deleted_at IS NOT NULL ORDER BY id")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(hidden, [96, 97]);
    assert_eq!(world.all_points().len(), before.len() + 2);
}

/// Puts the question whether two memories are the same.
fn ask(world: &World, ids: [i64; 2]) {
    let members = ids.map(|id| {
        let mut memory = Memory::new(Some(MemoryId::Integer(id)));
        memory.content = Some(format!("canary ana {id}"));
        memory.kind = Some("fact".into());
        member(&memory).unwrap()
    });
    let question = Question {
        kind: QuestionKind::Similar,
        partition: "main".into(),
        namespace: Namespace::parse("user:ana").unwrap(),
        members: members.into(),
    };
    let reason = Reason::Similar { members: 2 };
    let at = jiff::Timestamp::from_second(now()).unwrap();
    state(world)
        .enqueue("test", &[(&question, reason)], at)
        .unwrap();
}

#[test]
fn a_merge_is_taken_apart_and_the_question_is_open_again() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world
            .rows()
            .execute_batch("ALTER TABLE memories ADD COLUMN uses INTEGER")
            .unwrap();
        world.configure(
            "superseded_by = \"superseded_by\"",
            "superseded_by = \"superseded_by\"\nuses = \"uses\"",
        );
        world.user("ana", None);
        let stays = world.memory("ana", now() - 2 * DAY, None);
        let goes = world.memory("ana", now() - 9 * DAY, None);
        let set = "UPDATE memories SET uses = ?2, last_used_at = ?3 WHERE id = ?1";
        let db = world.rows();
        db.execute(set, params![stays, 2, now() - 2 * DAY]).unwrap();
        db.execute(set, params![goes, 5, now() - DAY]).unwrap();
        ask(&world, [stays, goes]);
        let (rows, points) = (world.dump(), world.all_points());
        let answer = ["review", "replace", "1", "--keep", &stays.to_string()];
        let _ = world.run(&answer).expect(0);
        assert_eq!(world.all_points().len(), 1);
        // Used three times since.
        let used = "UPDATE memories SET uses = uses + ?2 WHERE id = ?1";
        assert_eq!(db.execute(used, params![stays, 3]).unwrap(), 1);
        let undone = report(&undo(&world, &[]).expect(0));
        assert_eq!(undone["put_back"], json!({"supersede": 1}));
        assert_eq!(undone["reopened"], json!([1]));
        db.execute(used, params![stays, -3]).unwrap();
        assert_eq!(world.dump(), rows, "{backend:?}");
        assert_eq!(world.all_points(), points);
        let queue = world.run(&["review", "--json"]).expect(0);
        assert_eq!(queue.objects("entry")[0]["answer"], Value::Null);
        // Once more, and this time the one that stayed is edited: it keeps what it got, and is named.
        let _ = world.run(&answer).expect(0);
        db.execute(
            "UPDATE memories SET content = 'edited' WHERE id = ?1",
            [stays],
        )
        .unwrap();
        let undone = report(&undo(&world, &[]).expect(3));
        assert_eq!(undone["put_back"], json!({"supersede": 1}));
        let line = &undone["incomplete"][0];
        assert_eq!(
            (&line["row"], &line["why"]),
            (&json!("1"), &json!("changed"))
        );
        let uses: i64 = db
            .query_row("SELECT uses FROM memories WHERE id = ?1", [stays], |r| {
                r.get(0)
            })
            .unwrap();
        assert_eq!(uses, 7);
    }
}

#[test]
fn what_was_merged_and_brought_back_is_kept_apart() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.user("ana", None);
        let ids = [0, 1, 2].map(|n| world.row("ana", now() - n * DAY, None));
        let same = "UPDATE memories SET content = 'Ana lives in Porto'";
        world.rows().execute_batch(same).unwrap();
        for id in ids {
            world.put_as("user:ana", id, 1);
        }
        let (rows, points) = (world.dump(), world.all_points());
        let night = world.night().expect(0);
        let merged = &night.pass("duplicates")["applied"]["supersede"];
        assert_eq!(merged, &json!(2), "{night:#?}");
        assert_eq!(world.all_points().len(), 1);
        let undone = report(&undo(&world, &[]).expect(0));
        assert_eq!(undone["put_back"], json!({"supersede": 2}));
        assert_eq!(world.dump(), rows, "{backend:?}");
        assert_eq!(world.all_points(), points);
        let night = world.night().expect(0);
        assert_eq!(night.pass("duplicates")["outcome"], "idle", "{night:#?}");
        assert_eq!(world.dump(), rows, "{backend:?}");
        // Whoever edits one of them asks anew.
        let edit = "UPDATE memories SET content = 'Ana lives in Porto.' WHERE id = 3";
        world.rows().execute_batch(edit).unwrap();
        let night = world.night().expect(0);
        assert_eq!(
            night.pass("duplicates")["applied"]["supersede"],
            1,
            "{night:#?}"
        );
    }
}

#[test]
fn an_answer_that_changed_no_row_is_taken_back_by_its_run() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let ids = [
        world.memory("ana", now(), None),
        world.memory("ana", now(), None),
    ];
    ask(&world, ids);
    let kept = world.run(&["review", "keep", "1", "--json"]).expect(0);
    let run = kept.objects("answer")[0]["run"]
        .as_str()
        .unwrap()
        .to_owned();
    for expected in [json!([1]), json!([])] {
        let undone = world.run(&["undo", &run, "--json"]).expect(0);
        assert_eq!(report(&undone)["reopened"], expected);
    }
    let queue = world.run(&["review", "--json"]).expect(0);
    assert_eq!(queue.objects("entry").len(), 1);
}

#[test]
fn a_question_that_was_put_off_is_due_as_it_was_before() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let ids = [
        world.memory("ana", now(), None),
        world.memory("ana", now(), None),
    ];
    ask(&world, ids);
    let due = |world: &World| {
        let queue = world.run(&["review", "--all", "--json"]).expect(0);
        let entry = queue.objects("entry").remove(0);
        assert_eq!(entry["answer"], Value::Null);
        entry["snoozed_until"].clone()
    };
    let put_off = |world: &World, time: &str| {
        let answer = ["review", "snooze", "1", "--for", time, "--json"];
        let answer = world.run(&answer).expect(0).objects("answer").remove(0);
        answer["run"].as_str().unwrap().to_owned()
    };
    let take_back = |world: &World, run: &str, entries: Value| {
        let (rows, points) = (world.dump(), world.all_points());
        let dry = report(&world.run(&["undo", run, "--dry-run", "--json"]).expect(0));
        let undone = report(&world.run(&["undo", run, "--json"]).expect(0));
        for report in [dry, undone] {
            assert_eq!(report["reopened"], entries, "{report:#}");
            assert_eq!(report["put_back"], json!({}), "{report:#}");
        }
        assert_eq!((world.dump(), world.all_points()), (rows, points));
    };
    let long = put_off(&world, "2d");
    let put_off_until = due(&world);
    assert_ne!(put_off_until, Value::Null);
    let shown = put_off(&world, "0s");
    assert_eq!(due(&world), Value::Null);

    take_back(&world, &long, json!([]));
    assert_eq!(due(&world), Value::Null, "it was put off anew since");
    take_back(&world, &shown, json!([1]));
    assert_eq!(due(&world), put_off_until);
    let told = world.run(&["undo", &long, "--dry-run"]).expect(0).stdout;
    assert!(
        told.contains("the question would be open as it was: #1"),
        "{told}"
    );
    assert_eq!(due(&world), put_off_until);
    for entries in [json!([1]), json!([])] {
        take_back(&world, &long, entries);
        assert_eq!(due(&world), Value::Null);
    }
    let queue = world.run(&["review", "--json"]).expect(0);
    assert_eq!(queue.objects("entry").len(), 1, "it is asked");
}
