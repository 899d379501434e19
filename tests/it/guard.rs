//! The guard: a plan over its bound changes nothing, and `--accept` takes exactly that plan.

use crate::support::{BACKENDS, Backend, DAY, World, now};

/// 100 memories of one user, of which 60 have expired.
fn store() -> World {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for i in 0..100 {
        world.memory("ana", now() - 20 * DAY, (i < 60).then_some(7));
    }
    world
}

#[test]
fn a_run_over_its_guard_changes_nothing_and_only_the_named_plan_is_taken() {
    let mut world = store();
    let (before, points) = (world.dump(), world.all_points());
    let refused = world.night().expect(3);
    let ttl = refused.pass("ttl");
    assert_eq!(ttl["outcome"], "refused", "{refused:#?}");
    assert_eq!(
        (&ttl["refusal"]["removing"], &ttl["refusal"]["of"]),
        (&60.into(), &100.into())
    );
    assert_eq!((world.dump(), world.all_points()), (before, points));
    let hash = ttl["refusal"]["accept"].as_str().unwrap().to_owned();
    assert_eq!(ttl["hash"], *hash);

    // The same plan has the same name in a dry run and in another refused run.
    let dry = world.run(&["--dry-run", "--json"]).expect(3);
    assert_eq!(dry.plan("ttl")["refusal"]["accept"], *hash);
    let text = world.run(&["--run-now"]).expect(3);
    assert!(
        text.stdout.contains(&format!("--accept {hash}")),
        "{text:#?}"
    );

    // One memory more expires: it is another plan.
    let extra = world.memory("ana", now() - 20 * DAY, Some(7));
    let other = world
        .run(&["--run-now", "--json", "--accept", &hash])
        .expect(3);
    assert_eq!(other.pass("ttl")["outcome"], "refused");
    assert_eq!(world.ids().len(), 101);

    // A night that takes what nobody has named says so.
    let gone = "0123456789abcdef";
    let unknown = world
        .run(&["--run-now", "--only", "orphans", "--accept", gone])
        .expect(3);
    assert!(unknown.stderr.contains(gone), "{unknown:#?}");

    // And one edited memory makes it another plan as well.
    world
        .rows()
        .execute("DELETE FROM memories WHERE id = ?1", [extra])
        .unwrap();
    world.run(&["--run-now", "--only", "orphans"]).expect(0);
    world
        .rows()
        .execute("UPDATE memories SET content = 'edited' WHERE id = 1", [])
        .unwrap();
    let edited = world
        .run(&["--run-now", "--json", "--accept", &hash])
        .expect(3);
    let new = edited.pass("ttl")["refusal"]["accept"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_ne!(new, hash);

    let taken = world
        .run(&["--run-now", "--json", "--accept", &new])
        .expect(0);
    assert_eq!(taken.pass("ttl")["applied"]["delete"], 60);
    assert_eq!(world.ids(), (61..=100).collect());
    world.night().expect(0).all_passes("idle");
}

#[test]
fn a_living_owner_is_guarded_apart_from_the_store() {
    let mut world = World::new(Backend::Sqlite);
    for user in ["ana", "bruno"] {
        world.user(user, None);
    }
    for i in 0..20 {
        world.memory("ana", now() - 20 * DAY, (i < 5).then_some(7));
    }
    for i in 0..600 {
        world.memory("bruno", now() - 20 * DAY, (i < 50).then_some(7));
    }
    let refused = world.night().expect(3);
    let refusal = &refused.pass("ttl")["refusal"];
    assert_eq!(
        (&refusal["limit"], &refusal["namespace"]),
        (&"namespace".into(), &"user:ana".into())
    );
    assert_eq!(world.ids().len(), 620);
}

#[test]
fn an_owner_marked_deleted_may_lose_everything_within_the_store_bound() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.user("zoe", Some(now() - DAY));
    for _ in 0..300 {
        world.memory("ana", now(), None);
    }
    for _ in 0..60 {
        world.memory("zoe", now(), None);
    }
    world.night().expect(0);
    assert_eq!(world.ids().len(), 300);
    assert_eq!(world.all_points().len(), 300);
}

#[test]
fn a_first_run_that_only_reports_waits_for_an_acceptance() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now() - 20 * DAY, Some(7));
    world.memory("ana", now(), None);
    world.ghost("user:ana");
    world.configure(
        "name = \"agent\"",
        "name = \"agent\"\nfirst_run = \"report\"",
    );
    let first = world.night().expect(3);
    for pass in ["ttl", "orphans"] {
        assert_eq!(
            first.pass(pass)["refusal"]["limit"],
            "first_run",
            "{first:#?}"
        );
    }
    assert_eq!((world.ids().len(), world.all_points().len()), (2, 3));

    let hash = first.pass("ttl")["refusal"]["accept"]
        .as_str()
        .unwrap()
        .to_owned();
    let second = world
        .run(&["--run-now", "--json", "--accept", &hash])
        .expect(3);
    assert_eq!(second.pass("ttl")["outcome"], "applied");
    assert_eq!(
        second.pass("orphans")["outcome"],
        "refused",
        "each pass is accepted on its own"
    );
    assert_eq!(world.ids().len(), 1);

    // From then on the pass works by itself.
    world.memory("ana", now() - 20 * DAY, Some(7));
    assert_eq!(world.night().expect(3).pass("ttl")["outcome"], "applied");
}

/// 98 memories of Ana: one expired, two that say the same, ten that have faded; and a point of nobody's.
fn much_to_do(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.user("ana", None);
    for _ in 0..85 {
        world.memory("ana", now(), None);
    }
    for n in 0..10 {
        world.memory("ana", now() - (400 + n) * DAY, None);
    }
    world.memory("ana", now() - 20 * DAY, Some(7));
    let copies = [
        world.memory("ana", now(), None),
        world.memory("ana", now(), None),
    ];
    for id in copies {
        world
            .rows()
            .execute(
                "UPDATE memories SET content = 'The same.' WHERE id = ?1",
                [id],
            )
            .unwrap();
    }
    world.ghost("user:ana");
    for pass in ["review", "snapshot"] {
        let (off, on) = (
            format!("[pass.{pass}]\nenabled = false"),
            format!("[pass.{pass}]\nenabled = true"),
        );
        world.configure(&off, &on);
    }
    world
}

#[test]
fn a_first_run_reports_every_removal_asks_its_questions_and_takes_its_pair() {
    for backend in BACKENDS {
        let mut world = much_to_do(backend);
        world.configure(
            "name = \"agent\"",
            "name = \"agent\"\nfirst_run = \"report\"",
        );
        let (rows, points) = (world.dump(), world.all_points());
        let night = world.night().expect(3);
        for (pass, action) in [
            ("ttl", "delete"),
            ("orphans", "drop_point"),
            ("duplicates", "supersede"),
            ("decay", "delete"),
        ] {
            let report = night.pass(pass);
            assert_eq!(report["refusal"]["limit"], "first_run", "{report:#}");
            assert!(report["planned"][action].as_u64() > Some(0), "{report:#}");
            assert_eq!(report["applied"], serde_json::json!({}));
        }
        assert_eq!(night.pass("snapshot")["applied"]["snapshot"], 1);
        assert!(night.pass("review")["applied"]["queue"].as_u64() > Some(0));
        assert_eq!((world.dump(), world.all_points()), (rows, points));
        let status = world.run(&["status"]).expect(0).stdout;
        assert!(status.contains("--accept"), "{status}");

        // All that was reported, at once.
        let hashes: Vec<String> = ["ttl", "orphans", "duplicates", "decay"]
            .iter()
            .flat_map(|pass| {
                let hash = night.pass(pass)["refusal"]["accept"].clone();
                ["--accept".to_owned(), hash.as_str().unwrap().to_owned()]
            })
            .collect();
        let mut args = vec!["--run-now", "--json"];
        args.extend(hashes.iter().map(String::as_str));
        let taken = world.run(&args);
        assert_eq!(taken.pass("ttl")["applied"]["delete"], 1, "{taken:#?}");
        assert_eq!(taken.pass("orphans")["applied"]["drop_point"], 1);
        assert_eq!(taken.pass("duplicates")["applied"]["supersede"], 1);

        // Or without a question, once the operator says so.
        let mut other = much_to_do(backend);
        other.configure(
            "name = \"agent\"",
            "name = \"agent\"\nfirst_run = \"apply\"",
        );
        let free = other.night().expect(0);
        assert_eq!(free.pass("ttl")["applied"]["delete"], 1);
    }
}
