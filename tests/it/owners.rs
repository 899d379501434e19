//! An owner that exists keeps every memory, whatever fails: the owners table that cannot be read removes nothing.

use std::collections::BTreeSet;

use crate::support::{BACKENDS, Backend, DAY, World, now, open, write};

/// Owners in a file of their own, so that it can be taken away; a ghost point that a healthy run would drop.
fn store(backend: Backend) -> World {
    let mut world = World::new(backend);
    let catalog = open(&world.path("catalog.db"));
    catalog
        .execute_batch("CREATE TABLE people(uid TEXT PRIMARY KEY, gone INTEGER); INSERT INTO people VALUES('ana', NULL)")
        .unwrap();
    world.user("ana", None);
    for _ in 0..5 {
        world.memory("ana", now(), None);
    }
    world.ghost("user:ghost");
    world.ghost("user:ana");
    world.configure(
        "table = \"users\"\nid = \"id\"\ndeleted_at = \"deleted_at\"",
        "path = \"catalog.db\"\ntable = \"people\"\nid = \"uid\"\ndeleted_at = \"gone\"",
    );
    world
}

#[test]
fn without_its_owners_table_not_one_point_is_removed() {
    for backend in BACKENDS {
        let world = store(backend);
        let (rows, points) = (world.dump(), world.all_points());
        let catalog = world.path("catalog.db");
        let healthy = std::fs::read(&catalog).unwrap();
        let orphans_of = |name: &str, codes: &[i32]| {
            let night = world.night();
            assert!(codes.contains(&night.code.unwrap()), "{name}: {night:#?}");
            let pass = night.pass("orphans");
            assert!(
                ["failed", "refused"].contains(&pass["outcome"].as_str().unwrap()),
                "{name}: {night:#?}"
            );
            assert!(
                pass["error"].as_str().unwrap().contains("owners"),
                "{name}: {night:#?}"
            );
            assert_eq!(
                (world.dump(), world.all_points()),
                (rows.clone(), points.clone()),
                "{name}"
            );
        };

        open(&catalog).execute("DELETE FROM people", []).unwrap();
        orphans_of("empty table", &[3]);
        std::fs::remove_file(&catalog).unwrap();
        orphans_of("missing", &[1, 10]);
        std::fs::create_dir(&catalog).unwrap();
        orphans_of("a folder", &[1, 10]);
        std::fs::remove_dir(&catalog).unwrap();
        write(&catalog, "");
        orphans_of("an empty file", &[1, 10]);
        write(
            &catalog,
            "this is not a database, although it is long enough to have a header of one hundred bytes or more",
        );
        orphans_of("unreadable", &[1, 10]);
        std::fs::write(&catalog, &healthy[..healthy.len() / 2]).unwrap();
        orphans_of("half", &[1, 10]);
        std::fs::write(&catalog, &healthy).unwrap();
        let holder = open(&catalog);
        holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
        orphans_of("locked", &[1]);
        holder.execute_batch("ROLLBACK").unwrap();
        drop(holder);

        world.night().expect(0);
        assert_eq!(world.all_points().len(), 5, "and with it, the ghosts go");
    }
}

#[test]
fn an_owner_who_comes_back_within_the_grace_keeps_everything() {
    let mut world = World::new(Backend::Sqlite);
    world.configure("settle = \"0s\"", "settle = \"0s\"\ngrace = \"7d\"");
    world.user("ana", None);
    world.user("zoe", Some(now() - 6 * DAY));
    world.user("yan", Some(now() - 8 * DAY));
    let kept: BTreeSet<i64> = ["ana", "zoe"]
        .map(|user| world.memory(user, now() - 9 * DAY, None))
        .into();
    world.memory("yan", now() - 9 * DAY, None);
    world.night().expect(0);
    assert_eq!(
        (world.ids(), world.point_rows()),
        (kept.clone(), kept.clone())
    );
    world
        .rows()
        .execute("UPDATE users SET deleted_at = NULL WHERE id = 'zoe'", [])
        .unwrap();
    world.night().expect(0).all_passes("idle");
    assert_eq!(world.ids(), kept);
}

#[test]
fn an_unreadable_mark_of_deletion_marks_nobody() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for (user, mark) in [("b", -5), ("c", 0), ("d", 1), ("e", i64::MAX)] {
        world.user(user, Some(mark));
        world.memory(user, now(), None);
    }
    world
        .rows()
        .execute("UPDATE users SET deleted_at = 'soon' WHERE id = 'b'", [])
        .unwrap();
    world.night().expect(0).all_passes("idle");
    assert_eq!(world.ids().len(), 4);
}

#[test]
fn scopes_without_an_owners_table_are_never_touched() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.user("ana", None);
        world.memory("ana", now(), None);
        for namespace in ["team:acme", "world:public", "user", ":ana", "user:"] {
            world.ghost(namespace);
        }
        world.ghost("user:ghost");
        world.night().expect(0);
        let left: BTreeSet<_> = world
            .all_points()
            .into_values()
            .filter_map(|point| point.namespace)
            .collect();
        let expected = [
            "team:acme",
            "world:public",
            "user",
            ":ana",
            "user:",
            "user:ana",
        ];
        assert_eq!(left, expected.map(str::to_owned).into());

        world.configure(
            "table = \"users\"\nid = \"id\"\ndeleted_at = \"deleted_at\"",
            "table = \"\"",
        );
        world.configure("scope = \"user\"\n", "");
        world.ghost("user:ghost");
        world.night().expect(0).all_passes("idle");
        assert_eq!(world.all_points().len(), 7);
    }
}

#[test]
fn an_owner_with_colons_in_the_name_is_one_owner() {
    let mut world = World::new(Backend::Sqlite);
    world.user("mail:ana@example.org", None);
    world.user("mail", Some(now() - DAY));
    let id = world.memory("mail:ana@example.org", now(), None);
    world.memory("mail", now(), None);
    world.night().expect(0);
    assert_eq!(
        (world.ids(), world.point_rows()),
        ([id].into(), [id].into())
    );
}

/// One empty read once took 20 memories of 20: rows that are all gone beside points are a wrong file.
#[test]
fn a_row_store_without_a_row_removes_no_point() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.user("ana", None);
        for _ in 0..20 {
            world.memory("ana", now(), None);
        }
        world.rows().execute("DELETE FROM memories", []).unwrap();
        let night = world.night().expect(3);
        assert_eq!(night.pass("orphans")["outcome"], "refused", "{night:#?}");
        assert_eq!(world.all_points().len(), 20);
    }
}

/// The owner comes back after the last look at the owners before the rows are removed, in the file of the rows or in
/// another one: the look that counts is under the lock.
#[test]
fn an_owner_who_comes_back_at_the_last_moment_keeps_everything() {
    let own = "path = \"catalog.db\"\ntable = \"users\"";
    for (in_own_file, is_absent, mode) in [
        (false, false, "wal"),
        (false, true, "delete"),
        (true, false, "wal"),
        (true, true, "wal"),
    ] {
        let mut world = World::new(Backend::Sqlite);
        world
            .rows()
            .pragma_update(None, "journal_mode", mode)
            .unwrap();
        let users = if in_own_file {
            world.configure("table = \"users\"", own);
            open(&world.path("catalog.db"))
        } else {
            world.rows()
        };
        if in_own_file {
            users
                .execute_batch("CREATE TABLE users(id TEXT PRIMARY KEY, email, deleted_at INTEGER)")
                .unwrap();
        }
        if is_absent {
            world.configure("scope = \"user\"", "scope = \"user\"\nabsent = \"remove\"");
        }
        let gone = if is_absent { "NULL" } else { "1750000000" };
        let insert = |name: &str, gone: &str| {
            let sql = format!("INSERT OR REPLACE INTO users VALUES('{name}', '{name}', {gone})");
            users.execute(&sql, []).unwrap();
        };
        world.user("ana", None);
        world.user("zoe", None);
        insert("ana", "NULL");
        insert("zoe", gone);
        for _ in 0..3 {
            world.memory("ana", now(), None);
            world.memory("zoe", now(), None);
        }
        if is_absent {
            users
                .execute("DELETE FROM users WHERE id = 'zoe'", [])
                .unwrap();
        }
        let before = (world.all_points(), world.ids());
        // Once the points are gone, the run looks at the owners, and stands still before it takes the lock.
        let night = world.held(&["--run-now", "--json"], "rows.before=1*return(hold)");
        assert_eq!(world.all_points().len(), 3);
        insert("zoe", "NULL");
        let night = night.let_go();
        assert_eq!(
            (world.all_points(), world.ids()),
            before,
            "{in_own_file} {is_absent} {mode}: {night:#?}"
        );
        let _ = night.expect(3);
        world.night().expect(0).all_passes("idle");
    }
}
