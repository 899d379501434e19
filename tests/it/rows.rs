//! Rows and points that are large, and rows that change between two steps.

use crate::support::{Backend, DAY, World, now, point_id};

/// How many removals a run that is killed after its first batch has begun.
fn begun_by_a_batch(world: &World) -> u64 {
    let night = world.night_with("intent.written=1*return(kill)");
    assert_eq!(night.code, None, "{night:#?}");
    let status = world.run(&["status", "--json"]).expect(0);
    status.objects("status")[0]["open_intents"]
        .as_u64()
        .unwrap()
}

/// A batch ends at some bytes, not only at some rows; a row larger than that goes alone.
#[test]
fn a_batch_is_bounded_by_its_bytes() {
    for (megabytes, rows, first_batch) in [(1, 20, 5..12), (20, 2, 1..2)] {
        let mut world = World::new(Backend::Sqlite);
        world.user("ana", None);
        for _ in 0..rows {
            world.memory("ana", now() - 40 * DAY, Some(7));
        }
        let stays = world.memory("ana", now(), None);
        let fill =
            "UPDATE memories SET content = CAST(zeroblob(?1) AS TEXT) WHERE ttl_days IS NOT NULL";
        world.rows().execute(fill, [megabytes << 20]).unwrap();
        let begun = begun_by_a_batch(&world);
        assert!(first_batch.contains(&begun), "{begun} of {megabytes} MiB");
        world.night().expect(0);
        assert_eq!(
            (world.ids(), world.point_rows()),
            ([stays].into(), [stays].into())
        );
    }
}

#[test]
fn a_batch_is_bounded_by_the_bytes_of_its_points() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for _ in 0..40 {
        world.memory("ana", now() - 40 * DAY, Some(7));
    }
    let stays = world.memory("ana", now(), None);
    let vectors = crate::support::open(&world.path("vectors.db"));
    let fill = "UPDATE points SET payload = json_set(payload, '$.text', hex(zeroblob(524288)))";
    vectors.execute(fill, []).unwrap();
    drop(vectors);
    let begun = begun_by_a_batch(&world);
    assert!((1..=16).contains(&begun), "{begun} points of 1 MiB");
    world.night().expect(0);
    assert_eq!(
        (world.ids(), world.point_rows()),
        ([stays].into(), [stays].into())
    );
}

/// Where the creation time is inside JSON it changes with every edit of that JSON: the content tells an edited memory
/// from another one that got its key.
#[test]
fn an_edited_memory_gets_its_point_back_and_another_with_its_key_does_not() {
    for (change, is_same) in [
        (
            "UPDATE memories SET ttl_days = NULL, value = json_set(value, '$.used', 1) WHERE id = 1",
            true,
        ),
        (
            "UPDATE memories SET ttl_days = NULL, content = 'another', value = json_set(value, '$.created', 1) WHERE id = 1",
            false,
        ),
    ] {
        let mut world = World::new(Backend::Sqlite);
        world
            .rows()
            .execute_batch("ALTER TABLE memories ADD COLUMN value TEXT")
            .unwrap();
        world.user("ana", None);
        let id = world.memory("ana", now(), Some(7));
        world.memory("ana", now(), None);
        let created = format!("{{\"created\":{}}}", now() - 40 * DAY);
        let set = "UPDATE memories SET value = ?1 WHERE ttl_days IS NOT NULL";
        world.rows().execute(set, [created]).unwrap();
        world.configure(
            "type = \"memory_type\"",
            "type = \"memory_type\"\ncreated_at = \"value:json($.created):epoch_s\"",
        );
        let night = world.night_with("points.removed=1*return(kill)");
        assert_eq!(night.code, None, "{night:#?}");
        let point = point_id("user:ana", id);
        assert!(!world.all_points().contains_key(&point), "{change}");
        world.rows().execute_batch(change).unwrap();
        let night = world.night();
        assert!(world.ids().contains(&id), "{change}: {night:#?}");
        assert_eq!(
            world.all_points().contains_key(&point),
            is_same,
            "{change}: {night:#?}"
        );
    }
}

#[test]
fn what_a_trigger_says_is_told_unless_it_may_be_a_memory() {
    for (refusal, said) in [
        ("'legal hold'", "a trigger says: legal hold"),
        ("'spoken: ' || old.content", "not repeated"),
    ] {
        let mut world = World::new(Backend::Sqlite);
        world.user("ana", None);
        for _ in 0..3 {
            world.memory("ana", now() - 20 * DAY, Some(7));
        }
        let trigger = format!(
            "CREATE TRIGGER hold BEFORE DELETE ON memories BEGIN SELECT RAISE(ABORT, {refusal}); END"
        );
        world.rows().execute_batch(&trigger).unwrap();
        let night = world.night().expect(3);
        let ttl = night.pass("ttl");
        assert_eq!(ttl["skipped"]["delete"], 3, "{ttl:#}");
        let degraded = ttl["degraded"].as_array().unwrap();
        assert_eq!(degraded.len(), 1, "once a pass: {ttl:#}");
        assert!(degraded[0].as_str().unwrap().contains(said), "{ttl:#}");
        let forgotten = world.run(&["forget", "user:ana", "--yes"]).expect(3);
        assert!(forgotten.stdout.contains(said), "{forgotten:#?}");
        for output in [night, forgotten] {
            assert!(!output.stdout.contains("spoken:"), "{output:#?}");
        }
    }
}
