use std::collections::BTreeMap;
use std::fs;

use super::super::testing::*;
use super::super::{Settled, StateDir};
use super::*;
use crate::pass::PassName;

/// Every file of the store's folder with its bytes.
fn files(world: &World) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(world.file(""))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

fn read(dir: &StateDir) -> Result<Option<StateReader>, StateError> {
    dir.read(Partition::Main)
}

/// A state with one open intent, closed.
fn closed() -> World {
    let world = World::new();
    world.main().intend_one(deletion(1));
    world
}

fn edit(world: &World, sql: &str) {
    let conn = Connection::open(world.file("main.db")).unwrap();
    conn.execute_batch(sql).unwrap();
}

#[test]
fn what_was_written_is_durable_and_its_settings_are_as_promised() {
    let world = World::new();
    let state = world.main();
    let setting = |name: &str| {
        let sql = format!("PRAGMA {name}");
        let value: rusqlite::types::Value = state.one("read", &sql, [], |row| row.get(0)).unwrap();
        format!("{value:?}")
    };
    assert_eq!(setting("journal_mode"), "Text(\"wal\")");
    for (name, value) in [
        ("synchronous", 2),
        ("secure_delete", 1),
        ("foreign_keys", 1),
        ("busy_timeout", 5_000),
        ("user_version", 9),
        ("application_id", schema::APPLICATION_ID),
        ("auto_vacuum", 2),
        ("trusted_schema", 0),
    ] {
        assert_eq!(setting(name), format!("Integer({value})"), "{name}");
    }
}

#[test]
fn reading_changes_no_byte_and_leaves_no_file() {
    let world = closed();
    let before = files(&world);
    assert_eq!(before.keys().collect::<Vec<_>>(), ["main.db"]);
    let reader = read(&world.dir).unwrap().unwrap();
    assert_eq!(reader.count_open_intents().unwrap(), 1);
    let refused = reader.conn.execute("DELETE FROM acceptances", []);
    assert!(refused.is_err());
    drop(reader);
    assert_eq!(files(&world), before);
}

#[test]
fn reading_leaves_the_log_of_a_killed_run_where_it_is() {
    let world = World::new();
    let state = world.main();
    state.intend_one(deletion(1));
    // What a kill leaves: the files as they are, and nobody who has them open.
    let killed = World::new();
    for name in ["main.db", "main.db-wal", "main.db-shm"] {
        fs::copy(world.file(name), killed.file(name)).unwrap();
    }
    let before = files(&killed);
    assert!(!before["main.db-wal"].is_empty());
    for _ in 0..2 {
        let reader = read(&killed.dir).unwrap().unwrap();
        assert_eq!(reader.count_open_intents().unwrap(), 1);
    }
    let mut after = files(&killed);
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    // The index of the log is shared memory, not data.
    after.insert("main.db-shm".into(), before["main.db-shm"].clone());
    assert_eq!(after, before);
    assert_eq!(killed.main().count_open_intents().unwrap(), 1);
}

#[test]
fn reading_beside_a_writer_sees_what_is_committed() {
    let world = World::new();
    let state = world.main();
    state.intend_one(deletion(1));
    let reader = read(&world.dir).unwrap().unwrap();
    state.intend_one(deletion(2));
    assert_eq!(reader.count_open_intents().unwrap(), 2);
    drop(reader);
    state.intend_one(deletion(3));
    assert_eq!(state.count_open_intents().unwrap(), 3);
}

/// Both ways to open fail in the same way, and leave the files as they are.
#[track_caller]
fn refused(world: &World, message: &str, hint: &str) {
    let before = files(world);
    let ways = [
        read(&world.dir).map(|_| ()).unwrap_err(),
        world.dir.open(Partition::Main).map(|_| ()).unwrap_err(),
    ];
    for error in ways {
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{error:?}");
    }
    assert_eq!(files(world), before);
}

#[test]
fn a_damaged_file_is_an_error_and_is_never_made_anew() {
    for (damage, message) in [
        ("empty", "damaged: it is empty"),
        ("noise", "damaged"),
        ("header", "damaged"),
    ] {
        let world = closed();
        let path = world.file("main.db");
        let mut bytes = fs::read(&path).unwrap();
        match damage {
            "empty" => bytes.clear(),
            "noise" => bytes = vec![0xa5; 40_000],
            _ => bytes[..16].fill(0),
        }
        durable::replace(&path, &bytes, durable::PRIVATE).unwrap();
        refused(&world, message, "memories are not");
    }
    let world = closed();
    edit(&world, "PRAGMA user_version = 0");
    refused(&world, "damaged: it has version 0", "memories are not");
    let world = closed();
    edit(&world, "DELETE FROM identity");
    refused(
        &world,
        "damaged: it does not say whose it is",
        "memories are not",
    );
}

#[test]
fn damage_found_later_is_named_as_such() {
    let world = closed();
    let path = world.file("main.db");
    let mut bytes = fs::read(&path).unwrap();
    // All but the first page, which holds the header and the schema.
    bytes[4096..].fill(0xff);
    durable::replace(&path, &bytes, durable::PRIVATE).unwrap();
    let state = world
        .dir
        .open(Partition::Main)
        .and_then(|state| state.open_intents(None, 9));
    let error = state.unwrap_err();
    assert!(matches!(error, StateError::Damaged { .. }), "{error:?}");
}

#[test]
fn a_foreign_or_newer_file_or_that_of_another_is_an_error() {
    let world = World::new();
    edit(&world, "CREATE TABLE users(id)");
    refused(&world, "not a state file", "move the file away");
    let world = closed();
    edit(&world, "PRAGMA user_version = 10");
    refused(
        &world,
        "has version 10, this hypnos knows 9",
        "or a newer one",
    );
    let world = World::new();
    drop(world.dir.open(Partition::Tenant("ana")).unwrap());
    fs::rename(world.file("ana.db"), world.file("main.db")).unwrap();
    refused(&world, "belongs to another partition", "move the file away");
}

#[test]
fn a_log_without_its_database_is_not_read_into_a_new_one() {
    let world = World::new();
    let frames = b"frames of a file that was moved away";
    durable::replace(&world.file("main.db-wal"), frames, durable::PRIVATE).unwrap();
    let error = world.dir.open(Partition::Main).unwrap_err();
    assert!(matches!(error, StateError::StrayLog { .. }), "{error:?}");
    assert!(read(&world.dir).unwrap().is_none());
    assert_eq!(files(&world).keys().collect::<Vec<_>>(), ["main.db-wal"]);
}

#[test]
fn an_older_file_is_migrated_by_the_writer_and_refused_to_the_reader() {
    let world = closed();
    let path = world.file("main.db");
    let steps = [schema::STEPS, &["CREATE TABLE added(x) STRICT; INVALID"]].concat();
    State::open_with(&path, Partition::Main, &steps).unwrap_err();
    assert_eq!(
        world.main().count_open_intents().unwrap(),
        1,
        "a step that fails changes nothing"
    );

    let steps = [schema::STEPS, &["CREATE TABLE added(x INTEGER) STRICT"]].concat();
    let conn = connect_to_read(&path).unwrap();
    assert_eq!(check(&conn, &path, &steps).unwrap(), Some(9));
    drop(conn);
    for _ in 0..2 {
        let state = State::open_with(&path, Partition::Main, &steps).unwrap();
        assert_eq!(state.count_open_intents().unwrap(), 1);
        state
            .conn
            .execute("INSERT INTO added VALUES (1)", [])
            .unwrap();
    }
    refused(&world, "has version 10", "or a newer one");
}

#[test]
fn two_that_create_at_once_end_in_one_file() {
    let world = World::new();
    let open = || {
        let state = world.dir.open(Partition::Tenant("ana")).unwrap();
        let partition = Arc::clone(state.partition());
        let intent = super::super::Intent {
            partition,
            ..deletion(1)
        };
        state.intend("run-1", PassName::Ttl, &[intent]).unwrap();
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(open);
        }
    });
    let state = world.dir.open(Partition::Tenant("ana")).unwrap();
    assert_eq!(state.count_open_intents().unwrap(), 8);
    drop(state);
    assert_eq!(files(&world).keys().collect::<Vec<_>>(), ["ana.db"]);
}

#[test]
fn tidying_empties_the_log_unless_somebody_reads_it() {
    let world = World::new();
    let state = world.main();
    state.conn.busy_timeout(Duration::from_millis(10)).unwrap();
    let id = state.intend_one(deletion(1));
    let reader = read(&world.dir).unwrap().unwrap();
    reader
        .conn
        .execute_batch("BEGIN; SELECT count(*) FROM intents")
        .unwrap();
    state.settle(&[(id, Settled::Done)], at(1)).unwrap();
    assert!(!state.tidy().unwrap());
    drop(reader);
    assert!(state.tidy().unwrap());
    assert_eq!(fs::metadata(world.file("main.db-wal")).unwrap().len(), 0);
}

#[test]
fn tidying_gives_back_much_free_space() {
    let world = World::new();
    let state = world.main();
    let mut big = deletion(1);
    big.images[0].body = vec![7; 20 * 1024 * 1024];
    let id = state.intend_one(big);
    assert!(state.tidy().unwrap());
    let size = || fs::metadata(world.file("main.db")).unwrap().len();
    let full = size();
    state.settle(&[(id, Settled::Done)], at(0)).unwrap();
    assert_eq!(state.prune(at(1)).unwrap(), 1);
    assert!(state.tidy().unwrap());
    assert!(size() < full / 10, "{} of {full}", size());
}
