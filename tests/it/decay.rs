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
