//! Chains of superseded memories and the rows that go with a memory.

use rusqlite::params;

use crate::support::{BACKENDS, Backend, DAY, World, now, point_id};

fn supersede(world: &World, hidden: i64, by: i64) {
    world
        .rows()
        .execute(
            "UPDATE memories SET superseded_by = ?2 WHERE id = ?1",
            params![hidden, by],
        )
        .unwrap();
}

/// Removing the newest of a chain takes the hidden ones behind it along, whether or not the schema cascades: none comes
/// back to life.
#[test]
fn an_expired_memory_takes_the_chain_hidden_behind_it() {
    for backend in BACKENDS {
        for cascades in [true, false] {
            let mut world = World::new(backend);
            if !cascades {
                let plain = crate::support::SCHEMA.replace(
                    "superseded_by INTEGER REFERENCES memories(id) ON DELETE CASCADE",
                    "superseded_by INTEGER",
                );
                world
                    .rows()
                    .execute_batch("DROP TABLE memory_tags; DROP TABLE memories; DROP TABLE users")
                    .unwrap();
                world.rows().execute_batch(&plain).unwrap();
            }
            world.user("ana", None);
            let old = world.memory("ana", now() - 60 * DAY, None);
            let middle = world.memory("ana", now() - 50 * DAY, None);
            let newest = world.memory("ana", now() - 40 * DAY, Some(7));
            let other = world.memory("ana", now() - 40 * DAY, None);
            supersede(&world, old, middle);
            supersede(&world, middle, newest);
            let night = world.night().expect(0);
            assert_eq!(
                night.pass("ttl")["applied"]["delete"],
                1,
                "one action takes all three"
            );
            assert_eq!(
                (world.ids(), world.point_rows()),
                ([other].into(), [other].into())
            );
            world.night().expect(0).all_passes("idle");
        }
    }
}

#[test]
fn history_goes_after_its_retention_and_not_before() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let ancient = world.memory("ana", now() - 300 * DAY, None);
    let recent = world.memory("ana", now() - 300 * DAY, None);
    let current = world.memory("ana", now() - 200 * DAY, None);
    let newer = world.memory("ana", now() - 100 * DAY, None);
    supersede(&world, ancient, current);
    // Written long ago, but hidden only when its successor was written.
    supersede(&world, recent, newer);
    world.night().expect(0);
    assert_eq!(world.ids(), [recent, current, newer].into());
}

#[test]
fn a_ring_and_a_broken_chain_have_nobody_to_stand_for_them_and_stay() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let (a, b) = (
        world.memory("ana", now() - 300 * DAY, None),
        world.memory("ana", now() - 300 * DAY, None),
    );
    supersede(&world, a, b);
    supersede(&world, b, a);
    let broken = world.memory("ana", now() - 300 * DAY, None);
    supersede(&world, broken, 999);
    let itself = world.memory("ana", now() - 300 * DAY, None);
    supersede(&world, itself, itself);
    let live = world.memory("ana", now(), None);
    world.night().expect(0).all_passes("idle");
    assert_eq!(world.ids(), [a, b, broken, itself, live].into());
}

/// A ring whose deadline is past goes like everything else, once and as a whole.
#[test]
fn an_expired_ring_goes() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let (a, b) = (
        world.memory("ana", now() - 300 * DAY, Some(7)),
        world.memory("ana", now() - 300 * DAY, Some(7)),
    );
    supersede(&world, a, b);
    supersede(&world, b, a);
    let live = world.memory("ana", now(), None);
    world.night().expect(0);
    assert_eq!(world.ids(), [live].into());
    world.night().expect(0).all_passes("idle");
}

/// Nothing crosses a namespace: a memory that one of somebody else's refers to by a foreign key stays, whatever the key
/// would do, and is counted; where there is no key it goes, and the other one stays hidden.
#[test]
fn a_chain_across_two_owners_is_cut_or_kept_between_them() {
    for (key, keeps) in [
        (" REFERENCES memories(id) ON DELETE CASCADE", true),
        (" REFERENCES memories(id)", true),
        (" REFERENCES memories(id) ON DELETE SET NULL", true),
        ("", false),
    ] {
        let mut world = World::new(Backend::Sqlite);
        let schema = crate::support::SCHEMA.replace(
            " REFERENCES memories(id) ON DELETE CASCADE)",
            &format!("{key})"),
        );
        world
            .rows()
            .execute_batch("DROP TABLE memory_tags; DROP TABLE memories; DROP TABLE users")
            .unwrap();
        world.rows().execute_batch(&schema).unwrap();
        world.user("ana", None);
        world.user("bruno", None);
        let bruno = world.memory("bruno", now() - 10 * DAY, None);
        let ana = world.memory("ana", now() - 40 * DAY, Some(7));
        let other = world.memory("ana", now() - 40 * DAY, Some(7));
        supersede(&world, bruno, ana);
        // What should go and must not keeps the night from being done.
        let code = if keeps { 3 } else { 0 };
        let night = world.night().expect(code);
        let left = if keeps { vec![bruno, ana] } else { vec![bruno] };
        assert!(!world.ids().contains(&other));
        assert_eq!(
            (world.ids(), world.point_rows()),
            (
                left.iter().copied().collect(),
                left.iter().copied().collect()
            ),
            "{key}"
        );
        if keeps {
            assert_eq!(night.pass("ttl")["findings"]["blocked"], 1, "{night:#?}");
        } else {
            assert_eq!(
                night.pass("orphans")["findings"]["broken_chain"],
                1,
                "{night:#?}"
            );
        }
        let read =
            |sql: &str| -> i64 { world.rows().query_row(sql, [], |row| row.get(0)).unwrap() };
        assert_eq!(
            read("SELECT superseded_by FROM memories WHERE user_id = 'bruno'"),
            ana,
            "it does not come back to life"
        );
        assert_eq!(read("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        let before = world.dump();
        world.night().expect(code);
        assert_eq!(world.dump(), before);
    }
}

#[test]
fn children_go_with_their_memory_although_foreign_keys_are_off() {
    let mut world = World::new(Backend::Sqlite);
    world.rows()
        .execute_batch(
            "CREATE TABLE notes(id INTEGER PRIMARY KEY, memory_id INTEGER REFERENCES memories ON DELETE SET NULL, text);
             CREATE TABLE uses(tag_of INTEGER, at, FOREIGN KEY(tag_of) REFERENCES memories(id) ON DELETE CASCADE);",
        )
        .unwrap();
    world.user("ana", None);
    let gone = world.memory("ana", now() - 40 * DAY, Some(7));
    let stays = world.memory("ana", now(), None);
    for id in [gone, stays] {
        world
            .rows()
            .execute("INSERT INTO memory_tags VALUES(?1, 'tag')", [id])
            .unwrap();
        world
            .rows()
            .execute("INSERT INTO notes VALUES(?1, ?1, 'note')", [id])
            .unwrap();
        world
            .rows()
            .execute("INSERT INTO uses VALUES(?1, 1)", [id])
            .unwrap();
    }
    world.night().expect(0);
    let ids = |sql: &str| -> Vec<Option<i64>> {
        let db = world.rows();
        let mut read = db.prepare(sql).unwrap();
        read.query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    assert_eq!(ids("SELECT memory_id FROM memory_tags"), [Some(stays)]);
    assert_eq!(ids("SELECT tag_of FROM uses"), [Some(stays)]);
    assert_eq!(
        ids("SELECT memory_id FROM notes ORDER BY id"),
        [None, Some(stays)]
    );
    assert_eq!(
        ids("SELECT count(*) FROM pragma_foreign_key_check"),
        [Some(0)]
    );
}

#[test]
fn a_memory_that_other_rows_hold_stays() {
    let mut world = World::new(Backend::Sqlite);
    world.rows()
        .execute_batch("CREATE TABLE cited(memory_id INTEGER NOT NULL REFERENCES memories(id) ON DELETE RESTRICT)")
        .unwrap();
    world.user("ana", None);
    let held = world.memory("ana", now() - 40 * DAY, Some(7));
    world.memory("ana", now() - 40 * DAY, Some(7));
    world
        .rows()
        .execute("INSERT INTO cited VALUES(?1)", [held])
        .unwrap();
    // What a night wanted gone and could not remove is left over, every night until somebody looks.
    for _ in 0..2 {
        let night = world.night().expect(3);
        assert_eq!(night.pass("ttl")["findings"]["blocked"], 1);
        assert_eq!(night.pass("ttl")["outcome"], "partial", "{night:#?}");
        assert_eq!(night.pass("orphans")["outcome"], "idle", "{night:#?}");
    }
    assert_eq!(world.ids(), [held].into());
    assert!(world.all_points().contains_key(&point_id("user:ana", held)));
    let check = world.run(&["check"]).expect(3);
    assert!(
        check.stdout.contains("1 memory cannot be removed"),
        "{check:#?}"
    );
}
