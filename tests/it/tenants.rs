//! One file per tenant: many files, some of them broken, and each fails alone.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rusqlite::params;

use crate::support::{BACKENDS, Backend, DAY, World, now, open, write};

const TENANT: &str = "PRAGMA journal_mode = WAL;
    CREATE TABLE memories(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, content TEXT NOT NULL,
      created_at INTEGER NOT NULL, last_used_at INTEGER, uses INTEGER DEFAULT 0, ttl_days INTEGER);";

struct Tenants {
    world: World,
    names: Vec<String>,
}

impl Tenants {
    /// `count` tenants with one live and one expired memory each, and a point whose row is gone.
    fn new(backend: Backend, count: usize) -> Self {
        let mut world = World::new(backend);
        let names: Vec<String> = (0..count).map(|i| format!("tenant-{i:03}")).collect();
        let mut points = Vec::new();
        for name in &names {
            world.user(name, None);
            std::fs::create_dir_all(world.path(&format!("users/{name}"))).unwrap();
            let db = open(&world.path(&format!("users/{name}/memory.db")));
            db.execute_batch(TENANT).unwrap();
            let insert = "INSERT INTO memories(id, kind, content, created_at, ttl_days) VALUES(?1, 'fact', 'canary', ?2, ?3)";
            db.execute(insert, params![1, now(), None::<i64>]).unwrap();
            db.execute(insert, params![2, now() - 40 * DAY, Some(7)])
                .unwrap();
            points.extend([1, 2, 3].map(|id| (format!("user:{name}"), id)));
        }
        world.put(&points);
        let from = world.config.find("[store.rows]").unwrap();
        let to = world.config.find("[store.owners]").unwrap();
        let rows = "[store.rows]\npath = \"users/{tenant}/memory.db\"\ntable = \"memories\"\nid = \"id\"\n\
                    content = \"content\"\ntype = \"kind\"\ncreated_at = \"created_at:epoch_s\"\n\
                    last_used_at = \"last_used_at:epoch_s\"\nttl_days = \"ttl_days\"\n";
        world.config.replace_range(from..to, rows);
        world.configure("scope = \"user\"", "scope = \"user\"\npath = \"memory.db\"");
        world.configure(
            "[pass.orphans]",
            "[guard]\nmax_fraction = 0.6\n[pass.orphans]",
        );
        Self { world, names }
    }

    fn file(&self, tenant: &str) -> PathBuf {
        self.world.path(&format!("users/{tenant}/memory.db"))
    }

    fn points_of(&self, tenant: &str) -> BTreeSet<i64> {
        let namespace = format!("user:{tenant}");
        let points = self.world.all_points().into_values();
        points
            .filter(|p| p.namespace.as_deref() == Some(&namespace))
            .map(|p| p.payload["row"].as_i64().unwrap())
            .collect()
    }
}

#[test]
fn of_three_hundred_tenants_the_five_broken_ones_fail_alone_and_are_named() {
    for backend in BACKENDS {
        let tenants = Tenants::new(backend, 300);
        let [corrupt, locked, empty, folder, missing] = [
            "tenant-007",
            "tenant-100",
            "tenant-150",
            "tenant-222",
            "tenant-299",
        ];
        write(&tenants.file(corrupt), &"this is no database ".repeat(500));
        let writer = open(&tenants.file(locked));
        writer
            .execute_batch("BEGIN IMMEDIATE; UPDATE memories SET uses = 1")
            .unwrap();
        write(&tenants.file(empty), "");
        std::fs::remove_file(tenants.file(folder)).unwrap();
        std::fs::create_dir(tenants.file(folder)).unwrap();
        std::fs::remove_file(tenants.file(missing)).unwrap();
        for name in [corrupt, empty, missing, folder] {
            for suffix in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(
                    tenants
                        .file(name)
                        .with_file_name(format!("memory.db{suffix}")),
                );
            }
        }

        let night = tenants.world.night().expect(3);
        let broken: BTreeSet<&str> = [corrupt, locked, empty, folder, missing].into();
        let named: BTreeSet<String> = night
            .objects("pass")
            .iter()
            .flat_map(|pass| pass["unread"].as_array().cloned().unwrap_or_default())
            .map(|unread| {
                assert!(!unread["problem"].as_str().unwrap().is_empty());
                unread["partition"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(
            named,
            broken.iter().map(|name| (*name).to_owned()).collect(),
            "{night:#?}"
        );
        writer.execute_batch("ROLLBACK").unwrap();
        drop(writer);

        for name in tenants
            .names
            .iter()
            .filter(|name| !broken.contains(name.as_str()))
        {
            let ids: i64 = open(&tenants.file(name))
                .query_row("SELECT sum(id) FROM memories", [], |row| row.get(0))
                .unwrap();
            assert_eq!((ids, tenants.points_of(name)), (1, [1].into()), "{name}");
        }
        for name in [corrupt, empty, folder, missing] {
            assert_eq!(
                tenants.points_of(name),
                [1, 2, 3].into(),
                "{name}: not one point was touched"
            );
        }
        let ids: i64 = open(&tenants.file(locked))
            .query_row("SELECT sum(id) FROM memories", [], |row| row.get(0))
            .unwrap();
        assert_eq!(ids, 3, "the locked tenant's rows are all there");
        assert!(
            tenants.points_of(locked).is_superset(&[1, 2].into()),
            "and its memories have their points"
        );

        let json = tenants.world.run(&["status", "--json"]).expect(0);
        assert_eq!(json.objects("status")[0]["open_intents"], 0, "{json:#?}");
    }
}

#[test]
fn a_tenant_who_is_gone_with_its_file_leaves_no_point() {
    for backend in BACKENDS {
        let tenants = Tenants::new(backend, 3);
        std::fs::remove_dir_all(tenants.world.path("users/tenant-001")).unwrap();
        tenants
            .world
            .rows()
            .execute(
                "UPDATE users SET deleted_at = 1750000000 WHERE id = 'tenant-001'",
                [],
            )
            .unwrap();
        tenants.world.night().expect(0);
        assert_eq!(tenants.points_of("tenant-001"), BTreeSet::new());
        assert_eq!(tenants.points_of("tenant-002"), [1].into());
        tenants.world.night().expect(0).all_passes("idle");
    }
}

#[test]
fn a_tenant_marked_deleted_loses_its_rows_and_points() {
    let tenants = Tenants::new(Backend::Sqlite, 3);
    tenants
        .world
        .rows()
        .execute(
            "UPDATE users SET deleted_at = 1750000000 WHERE id = 'tenant-001'",
            [],
        )
        .unwrap();
    tenants.world.night().expect(0);
    assert_eq!(tenants.points_of("tenant-001"), BTreeSet::new());
    let left: i64 = open(&tenants.file("tenant-001"))
        .query_row("SELECT count(*) FROM memories", [], |r| r.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn without_the_folder_of_the_tenants_nothing_is_removed() {
    let tenants = Tenants::new(Backend::Sqlite, 3);
    std::fs::rename(tenants.world.path("users"), tenants.world.path("elsewhere")).unwrap();
    let night = tenants.world.night();
    assert!([1, 10].contains(&night.code.unwrap()), "{night:#?}");
    assert_eq!(tenants.world.all_points().len(), 9);
}

#[test]
fn a_file_newer_than_the_mapping_fails_alone() {
    let tenants = Tenants::new(Backend::Sqlite, 3);
    open(&tenants.file("tenant-001"))
        .execute_batch("ALTER TABLE memories RENAME COLUMN ttl_days TO lifetime")
        .unwrap();
    let night = tenants.world.night().expect(3);
    assert!(
        night.stdout.contains("ttl_days"),
        "the report names the column: {night:#?}"
    );
    assert_eq!(tenants.points_of("tenant-001"), [1, 2, 3].into());
    assert_eq!(tenants.points_of("tenant-000"), [1].into());
}
