//! What is merely absent must be seen absent twice, `settle` apart, and be `min_age` old.

use crate::support::{BACKENDS, Backend, World, now};

fn store(backend: Backend, settle: &str, min_age: &str) -> World {
    let mut world = World::new(backend);
    world.configure(
        "settle = \"0s\"\nmin_age = \"0s\"",
        &format!("settle = \"{settle}\"\nmin_age = \"{min_age}\""),
    );
    world.user("ana", None);
    world.memory("ana", now(), None);
    world.ghost("user:ana");
    world.ghost("user:ghost");
    world
}

#[test]
fn an_absence_is_believed_only_when_it_was_seen_long_enough_ago() {
    for backend in BACKENDS {
        let world = store(backend, "1s", "0s");
        let first = world.night().expect(0);
        assert_eq!(
            first.pass("orphans")["findings"]["settling"],
            2,
            "{first:#?}"
        );
        assert_eq!(first.pass("orphans")["outcome"], "idle");
        assert_eq!(world.all_points().len(), 3);
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let second = world.night().expect(0);
        assert_eq!(
            second.pass("orphans")["applied"]["drop_point"],
            2,
            "{second:#?}"
        );
        assert_eq!(world.all_points().len(), 1);
    }
}

#[test]
fn a_row_that_appears_between_two_sightings_starts_the_wait_anew() {
    let mut world = store(Backend::Sqlite, "1s", "0s");
    world.night().expect(0);
    // The row of the ghost of ana (id 2) arrives late, and goes again.
    let late = "INSERT INTO memories(id, user_id, content, content_hash, created_at) VALUES(2, 'ana', 'late', 'h', 1800000000)";
    world.rows().execute(late, []).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    world.night().expect(0);
    assert_eq!(
        world.point_rows(),
        [1, 2].into(),
        "only the ghost's point went"
    );
    world
        .rows()
        .execute("DELETE FROM memories WHERE id = 2", [])
        .unwrap();
    world.night().expect(0);
    assert_eq!(
        world.point_rows(),
        [1, 2].into(),
        "seen absent for the first time again"
    );
    world.ghost("user:ana");
}

#[test]
fn a_young_point_is_left_although_nothing_has_to_settle() {
    let world = store(Backend::Sqlite, "0s", "1h");
    assert_eq!(
        world.night().expect(0).pass("orphans")["findings"]["settling"],
        2
    );
    assert_eq!(world.all_points().len(), 3);
    // A point that says when it was made is as old as it says.
    let aged = format!(
        "UPDATE points SET payload = json_set(payload, '$.created_at', {}) WHERE namespace = 'user:ghost'",
        now() - 7200
    );
    crate::support::open(&world.path("vectors.db"))
        .execute(&aged, [])
        .unwrap();
    world.night().expect(0);
    assert_eq!(world.point_rows(), [1, 2].into());
}

#[test]
fn a_dry_run_is_no_sighting() {
    let world = store(Backend::Sqlite, "1s", "0s");
    world.run(&["--dry-run"]).expect(0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    world.night().expect(0);
    assert_eq!(world.all_points().len(), 3);
}
