//! A dry run writes nothing, and lists exactly what the run then does.

use std::collections::BTreeSet;

use crate::support::{BACKENDS, Backend, DAY, World, files, now};

fn store(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.user("ana", None);
    world.user("zoe", Some(now() - DAY));
    for i in 0..30 {
        world.memory("ana", now() - 20 * DAY, (i % 5 == 0).then_some(7));
    }
    world.memory("zoe", now() - 20 * DAY, None);
    world.ghost("user:ana");
    world.ghost("user:ghost");
    world
}

#[test]
fn a_dry_run_leaves_every_file_byte_for_byte_as_it_was() {
    for backend in BACKENDS {
        let world = store(backend);
        for round in 0..2 {
            let (before, points) = (files(world.dir.path()), world.all_points());
            world.run(&["--dry-run"]).expect(0);
            world
                .run(&["--dry-run", "--json", "--at", "+30d"])
                .expect(0);
            let _ = world.run(&["check"]);
            world.run(&["status"]).expect(0);
            let after = files(world.dir.path());
            let names = |files: &std::collections::BTreeMap<_, _>| {
                files.keys().cloned().collect::<Vec<_>>()
            };
            assert_eq!(names(&before), names(&after), "{backend:?} round {round}");
            let changed: Vec<_> = before
                .iter()
                .filter(|(name, bytes)| after[*name] != **bytes)
                .map(|(name, _)| name)
                .collect();
            assert!(changed.is_empty(), "{backend:?} round {round}: {changed:?}");
            assert_eq!(world.all_points(), points);
            // The second round finds a state folder, too.
            if round == 0 {
                world.night().expect(0);
            }
        }
    }
}

/// The database of a process that died keeps its frames in the -wal file: reading them must not move them.
#[test]
fn a_dry_run_does_not_checkpoint_what_a_dead_agent_left_in_its_wal() {
    let world = store(Backend::Sqlite);
    let copy = tempfile::tempdir().unwrap();
    {
        let live = world.rows();
        live.execute("UPDATE memories SET content = content || '!'", [])
            .unwrap();
        // While the connection is open, its frames are only in the -wal file: copied, it looks like after a crash.
        for name in ["memory.db", "memory.db-wal", "vectors.db", "hypnos.toml"] {
            std::fs::copy(world.path(name), copy.path().join(name)).unwrap();
        }
    }
    let before = files(copy.path());
    assert!(
        before[std::path::Path::new("memory.db-wal")].len() > 4096,
        "the frames are in the wal"
    );
    let config = copy.path().join("hypnos.toml");
    let output = crate::support::Output::of(
        crate::support::hypnos()
            .arg("--config")
            .arg(&config)
            .args(["--dry-run", "--json"]),
    )
    .expect(0);
    assert_eq!(output.plan("ttl")["planned"]["delete"], 6);
    let after = files(copy.path());
    for name in ["memory.db", "memory.db-wal", "vectors.db"] {
        let name = std::path::Path::new(name);
        assert!(before[name] == after[name], "{} changed", name.display());
    }
}

#[test]
fn a_dry_run_lists_exactly_what_the_run_then_takes() {
    for backend in BACKENDS {
        let world = store(backend);
        let dry = world.run(&["--dry-run", "--json"]).expect(0);
        let (mut rows, mut points) = (BTreeSet::new(), BTreeSet::new());
        for pass in ["ttl", "orphans"] {
            for action in dry.plan(pass)["actions"].as_array().unwrap() {
                assert!(
                    action["reason"].is_object() || action["reason"].is_string(),
                    "{action}"
                );
                match action["action"].as_str().unwrap() {
                    "delete" => {
                        assert!(
                            rows.insert(action["id"].as_str().unwrap().parse::<i64>().unwrap())
                        );
                    }
                    "drop_point" => {
                        assert!(points.insert(action["point"].as_str().unwrap().to_owned()));
                    }
                    other => panic!("{other}"),
                }
            }
        }
        let (ids_before, points_before) = (world.ids(), world.all_points());
        let night = world.night().expect(0);
        let gone: BTreeSet<i64> = ids_before.difference(&world.ids()).copied().collect();
        assert_eq!(rows, gone);
        let after = world.all_points();
        let dropped = points_before.into_iter().filter(|(id, point)| {
            !after.contains_key(id) && !rows.contains(&point.payload["row"].as_i64().unwrap())
        });
        assert_eq!(points, dropped.map(|(id, _)| id.to_string()).collect());
        for pass in ["ttl", "orphans"] {
            assert_eq!(
                dry.plan(pass)["hash"],
                night.pass(pass)["hash"],
                "the same plan has the same name"
            );
        }
    }
}

#[test]
fn a_dry_run_counts_the_pair_before_the_first_removal_and_the_one_after() {
    for (is_removing, reasons) in [(true, &["first", "changed"][..]), (false, &["first"])] {
        let mut world = World::new(Backend::Sqlite);
        world.configure(
            "[pass.snapshot]\nenabled = false",
            "[pass.snapshot]\nenabled = true",
        );
        world.user("ana", None);
        world.memory("ana", now(), None);
        if is_removing {
            world.memory("ana", now() - 40 * DAY, Some(7));
        }
        let planned = world
            .run(&["--dry-run", "--json"])
            .expect(0)
            .plan("snapshot");
        let upkeep = planned["upkeep"].as_array().unwrap().iter();
        let told: Vec<&str> = upkeep.map(|it| it["reason"].as_str().unwrap()).collect();
        assert_eq!(told, reasons, "{planned:#}");
        let night = world.night().expect(0);
        assert_eq!(
            planned["planned"],
            night.pass("snapshot")["applied"],
            "{night:#?}"
        );
        let without = world.run(&["--dry-run", "--json", "--skip", "snapshot"]);
        assert_eq!(without.expect(0).objects("plan").len(), 5);
    }
}

#[test]
fn a_dry_run_that_would_be_refused_says_how_to_accept_it() {
    let mut world = World::new(Backend::Sqlite);
    world.configure(
        "name = \"agent\"",
        "name = \"agent\"\nfirst_run = \"report\"",
    );
    world.user("ana", None);
    world.memory("ana", now() - 40 * DAY, Some(7));
    let dry = world.run(&["--dry-run", "--json"]).expect(3);
    let hash = dry.plan("ttl")["refusal"]["accept"].clone();
    let hash = hash.as_str().unwrap();
    let told = world.run(&["--dry-run"]).expect(3).stdout;
    let line = format!(
        "would be refused: first run on this store: would remove 1 of 1; accept it with --run-now --accept {hash}"
    );
    assert!(told.contains(&line), "{told}");
    assert!(!told.contains("--dry-run"), "{told}");
    let both = world.run(&["--dry-run", "--accept", hash]).expect(2);
    let instead = format!("--run-now --accept {hash}");
    assert!(both.stderr.contains(&instead), "{both:#?}");
}

#[test]
fn at_moves_only_the_dry_run() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let id = world.memory("ana", now(), Some(7));
    assert_eq!(
        world
            .run(&["--dry-run", "--json", "--at", "+6d"])
            .expect(0)
            .plan("ttl")["planned"],
        serde_json::json!({})
    );
    let later = world.run(&["--dry-run", "--json", "--at", "+8d"]).expect(0);
    assert_eq!(later.plan("ttl")["actions"][0]["id"], id.to_string());
    world.run(&["--run-now", "--at", "+8d"]).expect(2);
    world.run(&["--dry-run", "--at", "next week"]).expect(2);
}
