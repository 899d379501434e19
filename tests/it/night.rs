//! A whole night: it removes exactly what it should, in both stores, and the next one finds nothing.

use std::collections::BTreeSet;

use crate::support::{BACKENDS, Backend, DAY, World, now};

/// A store with one of everything that a night must find, and the ids that must stay.
struct Store {
    world: World,
    stays: BTreeSet<i64>,
}

fn store(backend: Backend) -> Store {
    let mut world = World::new(backend);
    for user in ["ana", "bruno"] {
        world.user(user, None);
    }
    world.user("zoe", Some(now() - 30 * DAY));
    let mut stays = BTreeSet::new();
    for user in ["ana", "bruno"] {
        for i in 0..20 {
            stays.insert(world.memory(user, now() - i * DAY, None));
        }
        stays.insert(world.memory(user, now() - 6 * DAY, Some(7)));
        world.memory(user, now() - 8 * DAY, Some(7));
        world.memory(user, now() - 7 * DAY - 60, Some(7));
        world.ghost(&format!("user:{user}"));
    }
    for _ in 0..5 {
        world.memory("zoe", now() - 40 * DAY, None);
    }
    world.ghost("user:zoe");
    world.ghost("user:nobody");
    Store { world, stays }
}

#[test]
fn a_night_removes_exactly_what_it_should_and_the_next_one_nothing() {
    for backend in BACKENDS {
        let Store { world, stays } = store(backend);
        let points: Vec<_> = world
            .all_points()
            .into_iter()
            .filter(|(_, p)| stays.contains(&p.payload["row"].as_i64().unwrap()))
            .collect();
        let night = world.night().expect(0);
        for (pass, outcome) in [
            ("ttl", "applied"),
            ("orphans", "applied"),
            ("decay", "idle"),
        ] {
            assert_eq!(night.pass(pass)["outcome"], outcome, "{night:#?}");
        }
        assert_eq!(night.pass("ttl")["applied"]["delete"], 4, "{night:#?}");
        assert_eq!(night.pass("orphans")["applied"]["delete"], 5, "{night:#?}");
        assert_eq!(
            night.pass("orphans")["applied"]["drop_point"],
            4,
            "{night:#?}"
        );
        assert_eq!(world.ids(), stays);
        assert_eq!(
            world.all_points().into_iter().collect::<Vec<_>>(),
            points,
            "the rest is as it was"
        );

        let again = world.night().expect(0).all_passes("idle");
        assert_eq!(again.objects("run")[0]["outcome"], "idle");
        let check = world.run(&["check", "--json"]).expect(0);
        let drift = &check.objects("check")[0]["drift"];
        assert!(
            drift.as_object().unwrap().values().all(|count| count == 0),
            "{drift}"
        );
    }
}

#[test]
fn a_store_without_vectors_loses_its_expired_rows_all_the_same() {
    let Store { mut world, stays } = store(Backend::Sqlite);
    let vectors = world.vectors_config();
    world.configure(&vectors, "");
    world.night().expect(0);
    assert_eq!(world.ids(), stays);
}

#[test]
fn a_vector_store_that_is_away_loses_no_row() {
    let Store { mut world, .. } = store(Backend::Sqlite);
    let before = world.dump();
    world.configure(
        &world.vectors_config(),
        "[store.vectors]\nkind = \"qdrant\"\nurl = \"http://127.0.0.1:1\"\ncollection = \"x\"\ntimeout = \"1s\"\n",
    );
    let night = world.night().expect(1);
    assert!(night.stdout.contains("http://127.0.0.1:1"), "{night:#?}");
    assert_eq!(world.dump(), before);
}

#[test]
fn a_night_logs_and_prints_ids_and_never_a_memory() {
    let Store { world, .. } = store(Backend::Sqlite);
    for args in [
        &["--dry-run", "-vv"][..],
        &["--run-now", "--json", "-vv"],
        &["check", "-vv"],
        &["status", "-vv"],
    ] {
        let output = world.run(args);
        assert!(
            !output.stdout.contains("canary") && !output.stderr.contains("canary"),
            "{output:#?}"
        );
    }
}

#[test]
fn every_json_line_has_the_schema_number_and_a_known_type() {
    let Store { world, .. } = store(Backend::Sqlite);
    for args in [
        &["--dry-run", "--json"][..],
        &["--run-now", "--json"],
        &["check", "--json"],
        &["status", "--json"],
    ] {
        let output = world.run(args);
        assert!(!output.stdout.is_empty(), "{output:#?}");
        for line in output.stdout.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(object["schema"], 1, "{line}");
            assert!(
                ["plan", "pass", "run", "check", "status"]
                    .contains(&object["type"].as_str().unwrap()),
                "{line}"
            );
        }
    }
}

#[test]
fn only_and_skip_choose_the_passes() {
    let Store { world, .. } = store(Backend::Sqlite);
    let passes = |args: &[&str]| -> Vec<String> {
        let output = world.run(&[&["--dry-run", "--json"], args].concat());
        output
            .objects("plan")
            .iter()
            .map(|plan| plan["pass"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        passes(&[]),
        ["ttl", "orphans", "duplicates", "decay", "vacuum"]
    );
    assert_eq!(
        passes(&["--only", "orphans,ttl"]),
        ["ttl", "orphans"],
        "always in their own order"
    );
    assert_eq!(passes(&["--only", "orphans"]), ["orphans"]);
    assert_eq!(
        passes(&["--skip", "orphans"]),
        ["ttl", "duplicates", "decay", "vacuum"]
    );
    assert_eq!(
        passes(&["--only", "review"]),
        ["review"],
        "switched off, and asked for by name: what would it do?"
    );
    let night = world
        .run(&["--run-now", "--json", "--only", "review"])
        .expect(0);
    assert!(night.objects("pass").is_empty(), "{night:#?}");
    assert!(night.stderr.contains("switched off"), "{night:#?}");
    let unknown = world.run(&["--dry-run", "--only", "tttl"]).expect(2);
    assert!(unknown.stderr.contains("ttl, orphans"), "{unknown:#?}");
    let unknown = world.run(&["--dry-run", "--store", "agnet"]).expect(2);
    assert!(
        unknown.stderr.contains("the stores are agent"),
        "{unknown:#?}"
    );
}
