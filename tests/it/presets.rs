//! Each preset on a store of its own schema.

use std::collections::BTreeSet;

use hypnos::config::presets;
use rusqlite::params;

use crate::support::{Backend, DAY, Output, World, now};

/// A store of a preset's schema, with the sqlite vectors of a fresh world.
fn store(preset: &str, owners: &str, namespace: &str) -> World {
    let mut world = World::new(Backend::Sqlite);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(world.path(&format!("memory.db{suffix}")));
    }
    let ddl = presets::find(preset).unwrap().ddl;
    world
        .rows()
        .execute_batch("PRAGMA journal_mode = WAL")
        .unwrap();
    world.rows().execute_batch(ddl).unwrap();
    world.config = format!(
        "state_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n[pass.orphans]\nsettle = \"0s\"\nmin_age = \"0s\"\n\
         [pass.review]\nenabled = false\n[pass.contradictions]\nenabled = false\n[pass.snapshot]\nenabled = false\n\
         [[store]]\nname = \"agent\"\n[store.rows]\npath = \"memory.db\"\npreset = \"{preset}\"\n{owners}\n{}{namespace}\n",
        world.vectors_config()
    );
    world.write_config();
    world
}

fn text_ids(world: &World, sql: &str) -> BTreeSet<String> {
    let db = world.rows();
    let mut read = db.prepare(sql).unwrap();
    read.query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// `YYYY-MM-DD HH:MM:SS`, as SQLite's `datetime()` writes it.
fn datetime(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .unwrap()
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

fn night_twice(world: &World) -> Output {
    let night = world.night().expect(0);
    let _ = world.night().expect(0).all_passes("idle");
    night
}

#[test]
fn ttl_days() {
    let world = store("ttl-days", "", "");
    world.user("ana", None);
    world.user("zoe", Some(now() - DAY));
    let insert = "INSERT INTO memories(id, user_id, content, content_hash, created_at, ttl_days) VALUES(?1, ?2, 'x', ?1, ?3, ?4)";
    for (id, user, age, ttl) in [
        (1, "ana", 8, Some(7)),
        (2, "ana", 6, Some(7)),
        (3, "ana", 900, None),
        (4, "zoe", 1, None),
    ] {
        world
            .rows()
            .execute(insert, params![id, user, now() - age * DAY, ttl])
            .unwrap();
        world.point(&format!("user:{user}"), id);
    }
    night_twice(&world);
    assert_eq!(
        (world.ids(), world.point_rows()),
        ([2, 3].into(), [2, 3].into())
    );
}

#[test]
fn salience_has_no_deadline_and_no_owners() {
    let world = store("salience", "", "");
    let insert = "INSERT INTO memories(id, tenant_id, content, memory_type, created_at, accessed_at) VALUES(?1, 'acme', 'text ' || ?1, 'episodic', ?2, ?2)";
    for id in 1..=3 {
        world
            .rows()
            .execute(insert, params![id, now() - 900 * DAY])
            .unwrap();
        world.point("user:acme", id);
    }
    world.point("user:acme", 99);
    let _ = world.night().expect(0).all_passes("idle");
    assert_eq!(
        world.all_points().len(),
        4,
        "without an owners table nothing is swept"
    );
    let check = world.run(&["check", "--json"]).expect(3);
    assert_eq!(
        check.objects("check")[0]["drift"]["point_without_row"],
        1,
        "{check:#?}"
    );
}

#[test]
fn confirmed_removes_what_expired_with_its_history_and_old_history() {
    let world = store("confirmed", "", "");
    let insert = "INSERT INTO memory(id, subject, fact, source, created_at, confirmed_at, expires_at, superseded_by)
                  VALUES(?1, 's', 'f', 'conversation', ?2, ?2, ?3, ?4)";
    let rows = [
        ("live", 10, None, None),
        ("expires-later", 10, Some(datetime(now() + 3_600)), None),
        ("expired", 100, Some(datetime(now() - 60)), None),
        ("hidden-behind-expired", 120, None, Some("expired")),
        ("current", 190, None, None),
        ("old-history", 300, None, Some("current")),
        ("newer", 20, None, None),
        ("young-history", 300, None, Some("newer")),
    ];
    for (id, age, expires, by) in rows {
        world
            .rows()
            .execute(
                insert,
                params![id, datetime(now() - age * DAY), expires, by],
            )
            .unwrap();
    }
    let night = night_twice(&world);
    assert_eq!(night.pass("ttl")["applied"]["delete"], 2);
    let left = ["live", "expires-later", "current", "newer", "young-history"].map(str::to_owned);
    assert_eq!(text_ids(&world, "SELECT id FROM memory"), left.into());
    let unhidden = text_ids(&world, "SELECT id FROM live_memory");
    assert!(
        !unhidden.contains("hidden-behind-expired"),
        "deleting the newer never brings the older back"
    );
}

/// Overwriting is forbidden there: a memory whose time is over gets a `valid_to`, and its history stays for ever.
#[test]
fn bitemporal_ends_and_never_deletes() {
    let world = store("bitemporal", "", "");
    let columns: BTreeSet<String> =
        text_ids(&world, "SELECT name FROM pragma_table_info('memories')");
    for column in [
        "valid_from",
        "valid_to",
        "ingested_at",
        "use_count",
        "last_used",
        "supersedes",
    ] {
        assert!(columns.contains(column), "{column} is not in {columns:?}");
    }
    let tenant = columns.iter().find(|name| {
        ["tenant", "tenant_id", "owner", "user_id", "namespace"].contains(&name.as_str())
    });
    let tenant_columns = tenant.map(|name| format!(", {name}")).unwrap_or_default();
    let tenant_value = tenant.map(|_| ", 'ana'").unwrap_or_default();
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN expires_at TEXT")
        .unwrap();
    let insert = format!(
        "INSERT INTO memories(id, kind, content, valid_from, valid_to, ingested_at, supersedes, expires_at{tenant_columns})
         VALUES(?1, 'fact', 'c', ?2, ?3, ?2, ?4, ?5{tenant_value})"
    );
    let rows = [
        ("ended-long-ago", 900, Some(800), None, None),
        ("successor", 800, None, Some("ended-long-ago"), None),
        ("expired", 30, None, None, Some(10)),
        ("live", 30, None, None, Some(-10)),
    ];
    let start = now();
    let ago = |days: i64| datetime(start - days * DAY);
    for (id, from, to, supersedes, expires) in rows {
        world
            .rows()
            .execute(
                &insert,
                params![id, ago(from), to.map(ago), supersedes, expires.map(ago)],
            )
            .unwrap();
    }
    let mut world = world;
    world.configure(
        "preset = \"bitemporal\"",
        "preset = \"bitemporal\"\nexpires_at = \"expires_at:text\"",
    );
    let before = text_ids(&world, "SELECT id FROM memories");
    let night = night_twice(&world);
    assert_eq!(
        night.pass("ttl")["applied"],
        serde_json::json!({"end": 1}),
        "{night:#?}"
    );
    assert_eq!(text_ids(&world, "SELECT id FROM memories"), before);
    let ended = text_ids(&world, "SELECT id FROM memories WHERE valid_to IS NOT NULL");
    assert_eq!(
        ended,
        ["ended-long-ago", "expired"].map(str::to_owned).into()
    );
    let valid_to = text_ids(&world, "SELECT valid_to FROM memories WHERE id = 'expired'");
    assert_eq!(
        valid_to,
        [ago(10)].into(),
        "the deadline, in the encoding of the column"
    );
}

#[test]
fn presets_are_listed_and_printed() {
    let world = World::new(Backend::Sqlite);
    let list = world.run(&["presets"]).expect(0).stdout;
    for preset in presets::ALL {
        assert!(
            list.contains(preset.name) && list.contains(preset.description),
            "{list}"
        );
        let printed = world.run(&["presets", preset.name]).expect(0).stdout;
        assert_eq!(printed.trim_end(), preset.toml.trim_end());
    }
    let unknown = world.run(&["presets", "ttl-day"]).expect(2);
    assert!(unknown.stderr.contains("ttl-days"), "{unknown:#?}");
}
