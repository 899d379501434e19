use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;
use rusqlite::types::Value;
use uuid::Uuid;

use super::super::seed::{Held, PLACES};
use super::super::*;
use super::seed;

fn now() -> Timestamp {
    "2026-03-14T03:00:00.75Z".parse().unwrap()
}

/// Every value of a query, row by row.
fn table(db: &Path, sql: &str) -> Vec<Vec<Value>> {
    let connection = Connection::open(db).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    statement
        .query_map([], |row| (0..columns).map(|i| row.get(i)).collect())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Everything in both databases and in the configuration.
fn content(dir: &Path) -> (Vec<Vec<Vec<Value>>>, String) {
    let memory = dir.join(MEMORY);
    let tables = vec![
        table(&memory, "SELECT name, sql FROM sqlite_schema ORDER BY name"),
        table(&memory, "SELECT * FROM users ORDER BY id"),
        table(&memory, "SELECT * FROM memories ORDER BY id"),
        table(&memory, "SELECT * FROM memory_tags ORDER BY memory_id, tag"),
        table(&memory, "SELECT * FROM team_memories ORDER BY id"),
        table(
            &dir.join(VECTORS),
            "SELECT name, sql FROM sqlite_schema ORDER BY name",
        ),
        table(&dir.join(VECTORS), "SELECT * FROM points ORDER BY id"),
    ];
    (tables, fs::read_to_string(dir.join(CONFIG)).unwrap())
}

fn count(db: &Path, sql: &str) -> i64 {
    match table(db, sql)[..] {
        [ref row] => match row[..] {
            [Value::Integer(count)] => count,
            _ => panic!("{sql}: {row:?}"),
        },
        ref rows => panic!("{sql}: {rows:?}"),
    }
}

#[test]
fn a_demo_is_built_whole() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    let built = build(&dir, now(), "hypnos").unwrap();
    let expected = Built {
        rows: 285,
        team_rows: 24,
        points: 323,
        users: 8,
        teams: 2,
    };
    assert_eq!(built, expected);
    assert!(is_demo(&dir));

    let (memory, vectors) = (dir.join(MEMORY), dir.join(VECTORS));
    assert_eq!(count(&memory, "SELECT count(*) FROM memories"), 285);
    assert_eq!(count(&memory, "SELECT count(*) FROM team_memories"), 24);
    assert_eq!(count(&memory, "SELECT count(*) FROM users"), 8);
    assert_eq!(
        count(
            &memory,
            "SELECT count(*) FROM users WHERE deleted_at IS NOT NULL"
        ),
        2
    );
    assert!(count(&memory, "SELECT count(*) FROM memory_tags") > 40);
    assert_eq!(count(&vectors, "SELECT count(*) FROM points"), 323);
    assert_eq!(
        count(
            &vectors,
            "SELECT count(*) FROM points WHERE length(vector) = 2048"
        ),
        323
    );
    for db in [&memory, &vectors] {
        assert_eq!(
            table(db, "PRAGMA integrity_check"),
            [[Value::Text("ok".into())]]
        );
        assert_eq!(
            table(db, "PRAGMA journal_mode"),
            [[Value::Text("wal".into())]]
        );
    }
    assert!(table(&memory, "PRAGMA foreign_key_check").is_empty());
}

#[test]
fn a_new_demo_is_three_private_files() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now(), "hypnos").unwrap();
    let mut files: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name(),
                entry.metadata().unwrap().permissions().mode() & 0o777,
            )
        })
        .collect();
    files.sort();
    assert_eq!(
        files,
        [
            (CONFIG.into(), 0o600),
            (MEMORY.into(), 0o600),
            (VECTORS.into(), 0o600)
        ]
    );
    assert_eq!(
        fs::metadata(&dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn rows_and_points_agree_but_for_what_was_planted() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now(), "hypnos").unwrap();
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let points: BTreeMap<String, serde_json::Value> = table(
        &dir.join(VECTORS),
        "SELECT id, namespace, payload FROM points",
    )
    .iter()
    .map(|row| {
        let payload: serde_json::Value = serde_json::from_str(&text(&row[2])).unwrap();
        assert_eq!(payload["namespace"], text(&row[1]));
        assert_eq!(
            payload["namespace"],
            format!(
                "{}:{}",
                payload["scope"].as_str().unwrap(),
                payload["owner"].as_str().unwrap()
            )
        );
        (text(&row[0]), payload)
    })
    .collect();
    let rows: BTreeSet<String> = table(
        &dir.join(MEMORY),
        "SELECT 'user:' || user_id || '::' || id FROM memories UNION ALL SELECT 'team:' || team || '::' || id FROM team_memories",
    )
    .iter()
    .map(|row| text(&row[0]))
    .collect();
    let planted = planted();
    let rowless: BTreeSet<_> = points
        .values()
        .map(|payload| payload["doc_id"].as_str().unwrap().to_owned())
        .filter(|doc_id| !rows.contains(doc_id))
        .collect();
    assert_eq!(
        rowless,
        planted
            .ghosts
            .iter()
            .chain(&planted.rowless)
            .map(Place::doc_id)
            .collect()
    );
    let pointless: BTreeSet<_> = rows
        .into_iter()
        .filter(|doc_id| {
            !points.contains_key(&Uuid::new_v5(&Uuid::NAMESPACE_DNS, doc_id.as_bytes()).to_string())
        })
        .collect();
    let hidden = planted
        .hidden
        .iter()
        .chain(&planted.behind)
        .chain(&planted.history);
    let without_point = hidden.filter(|place| seed(place).place == Held::Row);
    assert_eq!(pointless, without_point.map(Place::doc_id).collect());
    assert_eq!(pointless.len(), 6);
}

#[test]
fn times_count_back_from_now() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now(), "hypnos").unwrap();
    let second = now().as_second();
    let place = PLACES.iter().find(|place| place.key == "ana-025").unwrap();
    let sql = format!(
        "SELECT created_at, ttl_days, last_used_at FROM memories WHERE id = {}",
        place.id
    );
    assert_eq!(
        table(&dir.join(MEMORY), &sql),
        [[
            Value::Integer(second - 6 * 86_400 - 43_200),
            Value::Integer(7),
            Value::Null
        ]]
    );
    assert_eq!(
        table(
            &dir.join(MEMORY),
            "SELECT deleted_at FROM users WHERE id = 'greg'"
        ),
        [[Value::Integer(second - 3 * 86_400)]]
    );
    let latest = format!(
        "SELECT count(*) FROM memories WHERE max(created_at, ifnull(last_used_at, 0), ifnull(confirmed_at, 0)) > {second}"
    );
    assert_eq!(count(&dir.join(MEMORY), &latest), 0);
}

#[test]
fn the_same_now_gives_the_same_content() {
    let world = tempfile::tempdir().unwrap();
    let dirs = ["a", "b", "c"].map(|name| world.path().join(name));
    build(&dirs[0], now(), "hypnos").unwrap();
    build(&dirs[1], now(), "hypnos").unwrap();
    build(
        &dirs[2],
        now() + jiff::SignedDuration::from_secs(1),
        "hypnos",
    )
    .unwrap();
    assert!(content(&dirs[0]) == content(&dirs[1]));
    assert!(content(&dirs[0]) != content(&dirs[2]));
}

#[test]
fn the_text_index_follows_the_rows() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now(), "hypnos").unwrap();
    let connection = Connection::open(dir.join(MEMORY)).unwrap();
    let found = |word: &str| -> Vec<i64> {
        let mut statement = connection
            .prepare("SELECT rowid FROM memories_text WHERE memories_text MATCH ? ORDER BY rowid")
            .unwrap();
        statement
            .query_map([word], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    let check = || {
        connection
            .execute(
                "INSERT INTO memories_text(memories_text, rank) VALUES ('integrity-check', 1)",
                [],
            )
            .unwrap()
    };
    check();
    let [id] = found("glossary AND مهلة")[..] else {
        panic!("one memory")
    };
    connection
        .execute(
            "UPDATE memories SET content = 'Nothing of that kind.' WHERE id = ?",
            [id],
        )
        .unwrap();
    assert!(found("glossary AND مهلة").is_empty());
    check();
    let penicillin = found("penicilina");
    assert_eq!(penicillin.len(), 2);
    connection
        .execute("DELETE FROM memories WHERE id = ?", [penicillin[0]])
        .unwrap();
    assert_eq!(found("penicilina"), penicillin[1..]);
    assert_eq!(
        count(
            &dir.join(MEMORY),
            &format!(
                "SELECT count(*) FROM memory_tags WHERE memory_id = {}",
                penicillin[0]
            )
        ),
        0
    );
    check();
}

#[test]
fn removing_a_memory_takes_the_history_behind_it() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now(), "hypnos").unwrap();
    let head = PLACES
        .iter()
        .find(|place| place.key == "rafael-039")
        .unwrap();
    let connection = Connection::open(dir.join(MEMORY)).unwrap();
    connection.execute("PRAGMA foreign_keys = ON", []).unwrap();
    connection
        .execute("DELETE FROM memories WHERE id = ?", [head.id])
        .unwrap();
    assert_eq!(
        count(&dir.join(MEMORY), "SELECT count(*) FROM memories"),
        285 - 4
    );
}

#[test]
fn what_is_there_is_never_replaced() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now(), "hypnos").unwrap();
    let before = content(&dir);
    assert!(matches!(
        build(&dir, now(), "hypnos"),
        Err(DemoError::Exists { .. })
    ));
    assert!(content(&dir) == before);

    fs::remove_file(dir.join(VECTORS)).unwrap();
    assert!(!is_demo(&dir));
    assert!(matches!(
        build(&dir, now(), "hypnos"),
        Err(DemoError::NotEmpty { .. })
    ));
    assert!(dir.join(MEMORY).exists());

    let file = dir.join(CONFIG);
    assert!(matches!(
        build(&file, now(), "hypnos"),
        Err(DemoError::Io { .. })
    ));
    assert!(!is_demo(world.path()) && !is_demo(&file));
}

#[test]
fn an_empty_folder_becomes_a_demo() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("empty");
    fs::create_dir(&dir).unwrap();
    build(&dir, now(), "hypnos").unwrap();
    assert!(is_demo(&dir));
}

#[test]
fn the_configuration_speaks_of_this_folder() {
    assert!(CONFIG_TEXT.starts_with(MARK));
    assert_eq!(CONFIG_TEXT.matches(PROGRAM).count(), 2);
    let config: toml::Table = CONFIG_TEXT.parse().unwrap();
    let store = &config["store"][0];
    assert_eq!(store["name"].as_str(), Some("demo"));
    assert_eq!(store["rows"]["path"].as_str(), Some(MEMORY));
    assert_eq!(store["vectors"]["path"].as_str(), Some(VECTORS));
    // Every column that it names is in the schema.
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("demo");
    build(&dir, now(), "hypnos").unwrap();
    let columns: BTreeSet<String> = table(
        &dir.join(MEMORY),
        "SELECT name FROM pragma_table_info('memories')",
    )
    .into_iter()
    .map(|row| match &row[0] {
        Value::Text(name) => name.clone(),
        other => panic!("{other:?}"),
    })
    .collect();
    let roles = store["rows"].as_table().unwrap().iter();
    for (role, column) in
        roles.filter(|(key, _)| !["path", "preset", "table"].contains(&key.as_str()))
    {
        let column = column.as_str().unwrap().split(':').next().unwrap();
        assert!(columns.contains(column), "{role} = {column}");
    }
}

#[test]
fn errors_say_what_to_do_with_which_folder() {
    let dir = PathBuf::from("/srv/x");
    assert_eq!(
        DemoError::Exists { dir: dir.clone() }.to_string(),
        "/srv/x already holds a demo"
    );
    let io = io_error("create", &dir)(io::ErrorKind::PermissionDenied.into());
    assert_eq!(io.to_string(), "create /srv/x");
    assert!(std::error::Error::source(&io).is_some());
}
