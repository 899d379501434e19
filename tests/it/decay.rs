//! What nobody has used for long fades: weakest first, never more than a share of a namespace in 20 hours.

use crate::support::{BACKENDS, Backend, DAY, World, now};

/// Ana has 90 young memories and ten that have faded, each older than the one before; the ids of those.
fn store(backend: Backend) -> (World, Vec<i64>) {
    let mut world = World::new(backend);
    world.user("ana", None);
    for _ in 0..90 {
        world.memory("ana", now(), None);
    }
    let faded = (0..10)
        .map(|n| world.memory("ana", now() - (400 + n) * DAY, None))
        .collect();
    (world, faded)
}

fn execute(world: &World, sql: &str) {
    world.rows().execute_batch(sql).unwrap();
}

#[test]
fn the_weakest_fade_and_a_second_run_takes_no_more() {
    for backend in BACKENDS {
        let (world, faded) = store(backend);
        let night = world.night().expect(0);
        let decay = night.pass("decay");
        assert_eq!(decay["outcome"], "applied", "{decay:#}");
        assert_eq!(decay["applied"], serde_json::json!({"delete": 5}));
        assert_eq!(decay["findings"]["over_budget"], 5);
        assert_eq!(decay["residue"], serde_json::json!({}));
        let left = world.ids();
        assert_eq!(left.len(), 95);
        for weak in &faded[5..] {
            assert!(!left.contains(weak), "{weak}");
        }
        assert_eq!(world.point_rows(), left, "the points go with the rows");
        for _ in 0..2 {
            let again = world.night().expect(0);
            assert_eq!(again.pass("decay")["outcome"], "idle");
            assert_eq!(world.ids(), left);
        }
    }
}

#[test]
fn used_confirmed_exempt_and_unreadable_memories_do_not_fade() {
    let (mut world, faded) = store(Backend::Sqlite);
    world.configure(
        "preset = \"ttl-days\"",
        "preset = \"ttl-days\"\npinned = \"pinned\"\nuses = \"uses\"",
    );
    execute(
        &world,
        "ALTER TABLE memories ADD COLUMN pinned INTEGER;
         ALTER TABLE memories ADD COLUMN uses INTEGER;
         ALTER TABLE memories ADD COLUMN confirmed_at INTEGER",
    );
    for (n, set) in [
        "pinned = 1",
        "memory_type = 'preference'",
        "memory_type = 'error_pattern'",
        "last_used_at = unixepoch()",
        "last_used_at = 4102444800",
        "confirmed_at = unixepoch() - 86400",
        "last_used_at = 'some time ago'",
        "uses = 1000",
        "created_at = 0",
    ]
    .into_iter()
    .enumerate()
    {
        execute(
            &world,
            &format!("UPDATE memories SET {set} WHERE id = {}", faded[9 - n]),
        );
    }
    let night = world.night().expect(0);
    let decay = night.pass("decay");
    assert_eq!(
        decay["applied"],
        serde_json::json!({"delete": 1}),
        "{decay:#}"
    );
    assert_eq!(decay["findings"]["unreadable"], 2, "{decay:#}");
    let left = world.ids();
    assert!(!left.contains(&faded[0]));
    assert_eq!(left.len(), 99);
}

#[test]
fn a_schema_that_can_mark_loses_no_row() {
    for backend in BACKENDS {
        let (mut world, faded) = store(backend);
        world.configure(
            "preset = \"ttl-days\"",
            "preset = \"ttl-days\"\ndeleted_at = \"deleted_at:epoch_s\"",
        );
        execute(&world, "ALTER TABLE memories ADD COLUMN deleted_at INTEGER");
        let before = world.ids();
        let night = world.night().expect(0);
        assert_eq!(
            night.pass("decay")["applied"],
            serde_json::json!({"soft_delete": 5})
        );
        assert_eq!(world.ids(), before);
        let points = world.point_rows();
        assert_eq!(points.len(), 95);
        assert!(faded[5..].iter().all(|id| !points.contains(id)));
        let marked: i64 = world
            .rows()
            .query_row(
                "SELECT count(*) FROM memories WHERE deleted_at BETWEEN unixepoch() - 60 AND unixepoch()",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(marked, 5);
        let again = world.night().expect(0);
        assert_eq!(again.pass("decay")["outcome"], "idle");
        assert_eq!(again.pass("orphans")["outcome"], "idle");
    }
}

#[test]
fn a_forecast_tells_what_would_fade_and_when() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for _ in 0..40 {
        world.memory("ana", now() - 250 * DAY, None);
    }
    let planned = |at: &str| {
        let run = world.run(&[
            "--run-now",
            "--dry-run",
            "--only",
            "decay",
            "--at",
            at,
            "--json",
        ]);
        run.expect(0).plan("decay")["planned"].clone()
    };
    assert_eq!(planned("+1d"), serde_json::json!({}));
    assert_eq!(planned("+30d"), serde_json::json!({"delete": 2}));
}

#[test]
fn the_fading_of_a_few_is_no_matter_for_the_guard_and_small_namespaces_keep_all() {
    let mut world = World::new(Backend::Sqlite);
    for user in ["ana", "bob"] {
        world.user(user, None);
    }
    for _ in 0..19 {
        world.memory("ana", now() - 999 * DAY, None);
    }
    for _ in 0..20 {
        world.memory("bob", now() - 999 * DAY, None);
    }
    let night = world.night().expect(0);
    assert_eq!(
        night.pass("decay")["applied"],
        serde_json::json!({"delete": 1}),
        "of bob; 5 % of 19 is less than one"
    );
}

/// A person's word counts as a use does, also where the schema has no column for it.
#[test]
fn what_a_person_confirmed_or_kept_does_not_fade() {
    let mut world = World::new(Backend::Sqlite);
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nenabled = true",
    );
    world.user("ana", None);
    for n in 0..40 {
        world.memory("ana", now() - (400 + n) * DAY, None);
    }
    world.run(&["--run-now", "--only", "review"]).expect(0);
    let queue = world.run(&["review", "--json"]).expect(0);
    let entry_of = |id: &str| {
        let entries = queue.objects("entry");
        let entry = entries
            .iter()
            .find(|entry| entry["memories"][0]["id"] == id)
            .unwrap_or_else(|| panic!("{queue:#?}"));
        entry["entry"].to_string()
    };
    world.run(&["review", "confirm", &entry_of("40")]).expect(0);
    world.run(&["review", "keep", &entry_of("39")]).expect(0);
    let night = world.night().expect(0);
    assert_eq!(
        night.pass("decay")["applied"],
        serde_json::json!({"delete": 2})
    );
    let left = world.ids();
    assert!(left.contains(&40) && left.contains(&39), "{left:?}");
    assert!(!left.contains(&38) && !left.contains(&37), "{left:?}");
}

/// Later passes of a dry run do not count on what earlier ones would take.
#[test]
fn a_dry_run_of_several_passes_lists_what_the_run_does() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for n in 0..40 {
        let life = (n >= 38).then_some(7);
        world.memory("ana", now() - (400 + n) * DAY, life);
    }
    let listed = |world: &World| -> std::collections::BTreeSet<String> {
        let dry = world.run(&["--dry-run", "--json"]).expect(0);
        let plans = dry.objects("plan");
        let actions = plans
            .iter()
            .flat_map(|plan| plan["actions"].as_array().unwrap());
        actions
            .map(|action| action["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let (planned, before) = (listed(&world), world.ids());
    world.night().expect(0);
    let gone = before
        .difference(&world.ids())
        .map(ToString::to_string)
        .collect();
    assert_eq!(planned, gone);
    assert_eq!(planned.len(), 3, "two expired, and one of 38 faded");
}

/// A file without the column that endings are written to loses nothing, not even a point.
#[test]
fn where_nothing_can_be_ended_nothing_is_begun() {
    for ttl in [None, Some(7)] {
        let mut world = World::new(Backend::Sqlite);
        world.configure(
            "preset = \"ttl-days\"",
            "preset = \"ttl-days\"\nvalid_to = \"valid_to?\"",
        );
        world.user("ana", None);
        for n in 0..40 {
            world.memory("ana", now() - (400 + n) * DAY, ttl);
        }
        let before = world.dump();
        for _ in 0..2 {
            let night = world.night().expect(3);
            assert!(
                night
                    .objects("pass")
                    .iter()
                    .all(|pass| pass["planned"] == serde_json::json!({})),
                "{night:#?}"
            );
            assert_eq!(world.dump(), before);
        }
    }
}
