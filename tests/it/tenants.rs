//! One file per tenant: many files, some of them broken, and each fails alone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::params;
use rustix::process::Signal;

use crate::support::{BACKENDS, Backend, DAY, Output, World, limited, now, open, send, write};

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
        Self::named(
            backend,
            (0..count).map(|i| format!("tenant-{i:03}")).collect(),
        )
    }

    fn named(backend: Backend, names: Vec<String>) -> Self {
        let mut world = World::new(backend);
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

        // With fewer files than tenants.
        let night = tenants.world.command(&["--run-now", "--json"]);
        let night = Output::of(&mut limited(&night, "ulimit -n 64")).expect(3);
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
fn a_tenant_whose_file_is_locked_is_tried_again_that_night() {
    let mut tenants = Tenants::new(Backend::Sqlite, 3);
    tenants
        .world
        .schedule("cron = \"0 3 * * *\"\nretry_for = \"30s\"");
    tenants.world.set_clock(-3_600);
    let agent = open(&tenants.file("tenant-001"));
    agent.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut daemon = tenants.world.daemon();
    tenants.world.set_clock(1);
    daemon.logged("locked by another program: tried again later");
    assert_eq!(left(&tenants, "tenant-000"), (1, 1), "{}", daemon.log());
    agent.execute_batch("ROLLBACK").unwrap();
    daemon.logged_times("run ended", 2);
    daemon.wait("its memory to go", |_| {
        left(&tenants, "tenant-001") == (1, 1)
    });
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

/// How many rows and points of a tenant there are.
fn left(tenants: &Tenants, name: &str) -> (i64, usize) {
    let rows = open(&tenants.file(name))
        .query_row("SELECT count(*) FROM memories", [], |row| row.get(0))
        .unwrap();
    (rows, tenants.points_of(name).len())
}

#[test]
fn a_damaged_state_file_stops_its_tenant_alone() {
    for damage in [
        "tenant-001.db",
        "tenant-002~0000000000000000000000000000000000000000000000000000000000000000.db",
    ] {
        let tenants = Tenants::new(Backend::Sqlite, 3);
        std::fs::create_dir_all(tenants.world.path("state/agent")).unwrap();
        let file = tenants.world.path(&format!("state/agent/{damage}"));
        write(&file, &"this is no database ".repeat(500));
        let damaged = std::fs::read(&file).unwrap();

        let night = tenants.world.night().expect(3);
        assert_eq!(left(&tenants, "tenant-000"), (1, 1), "{night:#?}");
        let own = damage == "tenant-001.db";
        assert_eq!(
            left(&tenants, "tenant-001"),
            if own { (2, 3) } else { (1, 1) },
            "{night:#?}"
        );
        let unfinished = &night.objects("run")[0]["unfinished"];
        let problem = unfinished[0]["problem"].as_str().unwrap();
        assert!(
            problem.contains(damage) && problem.contains("memories are not"),
            "{problem}"
        );
        assert_eq!(
            unfinished.as_array().unwrap().len(),
            1,
            "named once: {night:#?}"
        );
        let status = tenants.world.run(&["status", "--json"]).expect(3);
        assert!(status.stdout.contains(damage), "{status:#?}");
        assert_eq!(
            std::fs::read(&file).unwrap(),
            damaged,
            "it is left as it is"
        );

        std::fs::remove_file(&file).unwrap();
        tenants.world.night().expect(0);
        assert_eq!(left(&tenants, "tenant-001"), (1, 1));
    }
}

#[test]
fn a_tenant_called_main_is_a_tenant() {
    for backend in BACKENDS {
        let tenants = Tenants::named(backend, vec!["main".into(), "ana".into()]);
        // Points of somebody who is gone with its file are nobody's, and not the tenant main's.
        tenants.world.point("user:gone", 77);
        let killed = tenants
            .world
            .night_with("drops.removed=1*off->1*return(kill)");
        let night = tenants.world.night().expect(0);
        assert_eq!(left(&tenants, "main"), (1, 1), "{killed:#?} {night:#?}");
        assert_eq!(left(&tenants, "ana"), (1, 1), "{night:#?}");
        assert!(tenants.points_of("gone").is_empty(), "{night:#?}");
        assert!(tenants.world.path("state/agent/%6dain.db").exists());
        tenants.world.night().expect(0).all_passes("idle");
    }
}

#[test]
fn a_folder_that_no_owner_stands_for_is_named_and_left_alone() {
    let tenants = Tenants::new(Backend::Sqlite, 2);
    for copy in ["tenant-000.bak", ".trash"] {
        std::fs::create_dir(tenants.world.path(&format!("users/{copy}"))).unwrap();
        let _ = std::fs::copy(tenants.file("tenant-000"), tenants.file(copy)).unwrap();
    }
    let before = ["tenant-000.bak", ".trash"].map(|copy| crate::support::dump(&tenants.file(copy)));
    let night = tenants.world.night().expect(3);
    let named: BTreeSet<String> = night.pass("ttl")["unread"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unread| unread["partition"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        named,
        [".trash".to_owned(), "tenant-000.bak".to_owned()].into(),
        "{night:#?}"
    );
    assert_eq!(
        before,
        ["tenant-000.bak", ".trash"].map(|copy| crate::support::dump(&tenants.file(copy)))
    );
    assert_eq!(left(&tenants, "tenant-000"), (1, 1));
}

#[test]
fn the_name_of_a_tenant_cannot_write_on_the_terminal() {
    let name = "ana\u{1b}[2J\nall is well\u{202e}";
    let tenants = Tenants::named(Backend::Sqlite, vec![name.to_owned(), "zoe".into()]);
    let file = tenants.file(name);
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(file.with_file_name(format!("memory.db{suffix}")));
    }
    write(&file, &"this is no database ".repeat(500));
    for args in [
        &["--dry-run"][..],
        &["check"],
        &["--run-now"],
        &["--run-now", "--json"],
        &["status"],
    ] {
        let output = tenants.world.run(args);
        let told = format!("{}{}", output.stdout, output.stderr);
        assert!(
            !told.contains(['\u{1b}', '\u{202e}']),
            "{args:?}: {output:#?}"
        );
        assert!(
            !told.lines().any(|line| line.starts_with("all is well")),
            "{args:?}: {output:#?}"
        );
    }
    assert!(
        tenants
            .world
            .run(&["--dry-run"])
            .stdout
            .contains("all is well"),
        "it is named all the same"
    );
}

#[test]
fn a_signal_ends_a_run_that_looks_through_many_state_files() {
    let tenants = Tenants::new(Backend::Sqlite, 1);
    tenants.world.night().expect(0);
    let state = tenants.world.path("state/agent");
    for i in 0..400 {
        // What a state file says of its tenant is checked, so each is made from that of another.
        let name = format!("idle-{i:04}");
        let file = state.join(format!("{name}.db"));
        let _ = std::fs::copy(state.join("tenant-000.db"), &file).unwrap();
        open(&file)
            .execute("UPDATE identity SET tenant = ?1", [&name])
            .unwrap();
    }
    for step in ["replay.tenant", "prune.tenant"] {
        // To look through the rest of them takes more than twenty seconds.
        let held = format!("{step}=1*return(hold)->sleep(60)");
        let night = tenants.world.held(&["--run-now", "--json"], &held);
        send(night.child(), Signal::TERM);
        let sent = Instant::now();
        let _ = night.let_go().expect(130);
        let took = sent.elapsed();
        assert!(took < Duration::from_secs(5), "{step}: {took:?}");
    }
    let status = tenants.world.run(&["status", "--json"]).expect(0);
    assert_eq!(
        status.objects("status")[0]["runs"][0]["outcome"],
        "interrupted",
        "{status:#?}"
    );
}
