//! `check`: drift by kind, with what to do about each, and nothing written.

use crate::support::{BACKENDS, Backend, DAY, World, now, write};

#[test]
fn drift_is_counted_by_kind_with_advice() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.user("ana", None);
        world.user("zoe", Some(now() - DAY));
        world.memory("ana", now(), None);
        world.row("ana", now(), None);
        world.row("ana", now(), None);
        world.ghost("user:ana");
        world.ghost("");
        let broken = world.memory("ana", now(), None);
        world
            .rows()
            .execute(
                "UPDATE memories SET superseded_by = 999 WHERE id = ?1",
                [broken],
            )
            .unwrap();
        world.memory("ana", -5, Some(7));
        world
            .rows()
            .execute("INSERT INTO memory_tags VALUES(998, 'dangling')", [])
            .unwrap();

        let check = world.run(&["check", "--json"]).expect(3);
        let object = &check.objects("check")[0];
        let drift = |kind: &str| object["drift"][kind].as_u64().unwrap();
        assert_eq!(drift("row_without_point"), 2, "{check:#?}");
        assert_eq!(drift("point_without_row"), 1);
        assert_eq!(drift("point_without_namespace"), 1);
        assert_eq!(drift("broken_chain"), 1);
        assert_eq!(drift("unreadable_time"), 1);
        assert_eq!(
            drift("foreign_key_violation"),
            2,
            "the tag, and the broken chain"
        );
        assert_eq!(object["journal_mode"], "wal");
        assert_eq!(object["backlog"]["orphans"]["drop_point"], 1);
        let text = world.run(&["check"]).expect(3).stdout;
        for word in [
            "row_without_point",
            "embed them again",
            "broken_chain",
            "unreadable_time",
        ] {
            assert!(text.contains(word), "{word} is not in {text}");
        }
    }
}

#[test]
fn a_journal_mode_that_blocks_the_agent_is_pointed_out() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world
        .rows()
        .execute_batch("PRAGMA journal_mode = DELETE")
        .unwrap();
    let check = world.run(&["check"]).expect(3);
    assert!(check.stdout.contains("WAL"), "{check:#?}");
}

#[test]
fn a_damaged_database_is_found() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for _ in 0..300 {
        world.row("ana", now(), None);
    }
    world
        .rows()
        .execute_batch("PRAGMA journal_mode = DELETE")
        .unwrap();
    let mut bytes = std::fs::read(world.path("memory.db")).unwrap();
    let page = bytes.len() / 4096 - 3;
    bytes[page * 4096..(page + 1) * 4096].fill(0x5a);
    std::fs::write(world.path("memory.db"), bytes).unwrap();
    let check = world.run(&["check", "--json"]);
    assert_ne!(check.code, Some(0), "{check:#?}");
    let night = world.night();
    assert_ne!(night.code, Some(0), "{night:#?}");
}

/// A foreign key that names no key of its parent fails SQLite's own check: the rest is still told.
#[test]
fn a_foreign_key_that_does_not_fit_hides_nothing_else() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world
        .rows()
        .execute_batch("CREATE TABLE cited(hash TEXT REFERENCES memories(content_hash)); INSERT INTO cited VALUES('hash 1')")
        .unwrap();
    let check = world.run(&["check", "--json"]).expect(3);
    let object = &check.objects("check")[0];
    assert_eq!(object["memories"], 1, "{check:#?}");
    let problem = object["problems"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("foreign key does not fit"), "{check:#?}");
}

#[test]
fn a_file_that_is_no_database_is_no_store() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world
        .rows()
        .execute_batch("PRAGMA journal_mode = DELETE")
        .unwrap();
    std::fs::write(world.path("memory.db"), [0x5a; 8192]).unwrap();
    for args in [&["check"][..], &["--dry-run"], &["--run-now"]] {
        let told = world.run(args).expect(10);
        let told = format!("{}{}", told.stdout, told.stderr);
        assert!(told.contains("not a SQLite database"), "{told}");
        assert!(told.contains("store.rows.path"), "{told}");
    }
}

/// A check that passes is a night that can work.
#[test]
fn what_would_keep_a_run_from_writing_is_found() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world.run(&["check"]).expect(0);
    write(&world.path("file"), "");
    world.configure(
        "snapshot_dir = \"snapshots\"",
        "snapshot_dir = \"file/snapshots\"",
    );
    world.run(&["check"]).expect(0);
    world.configure(
        "[pass.snapshot]\nenabled = false",
        "[pass.snapshot]\nenabled = true",
    );
    let check = world.run(&["check"]).expect(3);
    assert!(
        check.stdout.contains("may not read and write in"),
        "{check:#?}"
    );
    assert_ne!(world.night().code, Some(0));
}

/// Without the REST interface no pair is taken, and nothing removed.
#[test]
fn an_interface_for_snapshots_that_is_away_is_found() {
    let mut world = World::new(Backend::Qdrant);
    world.user("ana", None);
    world.memory("ana", now(), None);
    let rest = world
        .config
        .lines()
        .find(|line| line.starts_with("rest_url"))
        .unwrap()
        .to_owned();
    world.configure(&rest, "rest_url = \"http://127.0.0.1:1\"");
    world.run(&["check"]).expect(0);
    world.configure(
        "[pass.snapshot]\nenabled = false",
        "[pass.snapshot]\nenabled = true",
    );
    let check = world.run(&["check"]).expect(3);
    assert!(check.stdout.contains("rest_url"), "{check:#?}");
}

#[test]
fn a_store_that_is_not_opened_has_no_number_of_memories() {
    let world = World::new(Backend::Sqlite);
    std::fs::remove_file(world.path("memory.db")).unwrap();
    let told = world.run(&["check"]).expect(10).stdout;
    assert!(told.contains("agent  not opened"), "{told}");
    assert!(!told.contains("0 memories"), "{told}");
}

#[test]
fn a_mistake_in_the_owners_table_is_looked_for_there() {
    for (from, to) in [
        ("table = \"users\"", "table = \"usres\""),
        ("deleted_at = \"deleted_at\"", "deleted_at = \"delete_at\""),
    ] {
        let mut world = World::new(Backend::Sqlite);
        world.configure(from, to);
        let told = world.run(&["check"]).expect(10).stdout;
        assert!(told.contains("store.owners"), "{to}: {told}");
        assert!(!told.contains("store.rows"), "{to}: {told}");
    }
}

#[test]
fn points_of_a_wrong_rule_are_not_promised_to_go() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.user("bea", None);
    for _ in 0..3 {
        world.memory("ana", now(), None);
    }
    let told = |world: &World| world.run(&["check"]).expect(3).stdout;
    world.configure(
        "uuid5(dns, {namespace}::{id})",
        "uuid5(dns, {namespace}/{id})",
    );
    let wrong = told(&world);
    assert!(wrong.contains("3 points fit no row"), "{wrong}");
    assert!(!wrong.contains("the orphans pass drops them"), "{wrong}");
    // Of a namespace without a row they do go.
    world.ghost("user:bea");
    let both = told(&world);
    assert!(both.contains("1 point_without_row"), "{both}");
    assert!(both.contains("the orphans pass drops them"), "{both}");
    let json = world.run(&["check", "--json"]).expect(3);
    assert_eq!(json.objects("check")[0]["drift"]["point_without_row"], 4);
}

#[test]
fn a_schema_without_times_is_told_what_it_lacks() {
    let mut world = World::new(Backend::Sqlite);
    world
        .rows()
        .execute_batch("CREATE TABLE notes(id INTEGER PRIMARY KEY, user_id TEXT, content TEXT); INSERT INTO notes VALUES (1, 'ana', 'canary'), (2, 'ana', 'canary too')")
        .unwrap();
    world.user("ana", None);
    world.configure(
        "preset = \"ttl-days\"\ntype = \"memory_type\"\nsuperseded_by = \"superseded_by\"",
        "table = \"notes\"\nid = \"id\"\ntenant = \"user_id\"\ncontent = \"content\"",
    );
    let told = world.run(&["check"]).expect(3).stdout;
    assert!(told.contains("no created_at is mapped"), "{told}");
    assert!(!told.contains("correct the value"), "{told}");
    let json = world.run(&["check", "--json"]).expect(3);
    assert_eq!(json.objects("check")[0]["drift"]["unreadable_time"], 2);
}
