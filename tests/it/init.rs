//! `hypnos init`: what it recognises, what it writes, and that nothing is enabled on a guess.

use std::path::Path;

use hypnos::config::presets;
use qdrant_peer::Peer;
use rusqlite::Connection;
use serde_json::json;

use crate::support::points_only::{NewPoint, PointStore};
use crate::support::{
    BACKENDS, Backend, DAY, DIM, Output, Points, World, files, hypnos, now, open, qdrant, shell,
    vector, write,
};

mod servers;

/// A store of ttl-days with something for a night to do: an expired memory, and a live one.
fn store(backend: Backend) -> World {
    let mut world = World::new(backend);
    // The tests share a server: a point of the same owner and row would be in each of their collections.
    let user = world
        .dir
        .path()
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned();
    world.user(&user, None);
    world.memory(&user, now() - 20 * DAY, Some(7));
    world.memory(&user, now(), None);
    std::fs::remove_file(world.path("hypnos.toml")).unwrap();
    world
}

fn init(folder: &Path, args: &[&str]) -> Output {
    let mut command = hypnos();
    command.current_dir(folder).arg("init").args(args);
    Output::of(&mut command)
}

/// The arguments that name the vectors of a world.
fn vectors(world: &World) -> Vec<String> {
    match &world.points {
        Points::Sqlite(path) => vec![path.display().to_string()],
        Points::Qdrant(collection) => {
            let rest = qdrant::rest_url();
            [collection.url.as_str(), "--rest-url", &rest]
                .map(str::to_owned)
                .into()
        }
    }
}

/// `init memory.db` with the vectors of the world.
fn init_world(world: &World, rows: &str, more: &[&str]) -> Output {
    let vectors = vectors(world);
    let args = std::iter::once(rows)
        .chain(vectors.iter().map(String::as_str))
        .chain(more.iter().copied());
    init(world.dir.path(), &args.collect::<Vec<_>>())
}

#[test]
fn a_known_store_is_recognised_whatever_its_file_is_called_and_the_first_night_removes_nothing() {
    for backend in BACKENDS {
        let world = store(backend);
        std::fs::rename(world.path("memory.db"), world.path("x.sqlite3")).unwrap();
        let (rows, points) = (
            crate::support::dump(&world.path("x.sqlite3")),
            world.all_points(),
        );
        let found = init_world(&world, "x.sqlite3", &["--json"]).expect(0);
        let line = &found.objects("init")[0];
        assert_eq!(line["preset"], "ttl-days", "{found:#?}");
        assert_eq!(line["confirmed"], true);
        assert_eq!(
            (&line["rows_with_point"], &line["rows_looked_at"]),
            (&2.into(), &2.into())
        );
        if let Points::Qdrant(collection) = &world.points {
            let named = line["points"].as_str().unwrap();
            assert!(named.contains(&collection.name), "{named}");
        }
        assert_eq!(found.objects("check")[0]["memories"], 2);
        assert_eq!(
            found.plan("ttl")["refusal"]["limit"],
            "first_run",
            "{found:#?}"
        );
        let files: Vec<_> = std::fs::read_dir(world.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(
            !files
                .iter()
                .any(|name| name.to_string_lossy().starts_with("hypnos-")),
            "{files:?}"
        );

        // What it wrote is a configuration; its first night reports, and one accepted pass works.
        let night = world.night().expect(3);
        let ttl = night.pass("ttl");
        assert_eq!(ttl["refusal"]["limit"], "first_run");
        assert_eq!(
            (
                crate::support::dump(&world.path("x.sqlite3")),
                world.all_points()
            ),
            (rows, points)
        );
        let hash = ttl["refusal"]["accept"].as_str().unwrap();
        let taken = world.run(&["--run-now", "--json", "--accept", hash]);
        assert_eq!(taken.pass("ttl")["applied"]["delete"], 1, "{taken:#?}");
        assert_eq!(world.all_points().len(), 1);
    }
}

#[test]
fn text_says_what_was_found_what_a_first_run_would_do_and_what_comes_next() {
    let world = store(Backend::Sqlite);
    let said = init(world.dir.path(), &["memory.db", "vectors.db"])
        .expect(0)
        .stdout;
    for part in [
        "recognised: ttl-days",
        "2 of 2 rows looked at",
        "written: hypnos.toml",
        "agent",
        "a first run would:",
        "ttl: 1 delete; it waits for ",
        "Next:",
    ] {
        let is_there = said.contains(part) || part == "agent";
        assert!(is_there, "{part:?} is not in {said}");
    }
    let config = std::fs::read_to_string(world.path("hypnos.toml")).unwrap();
    assert!(
        config.contains("first_run = \"report\"") && !config.contains("confirmed"),
        "{config}"
    );
}

#[test]
fn the_commands_that_it_prints_can_be_pasted() {
    let world = store(Backend::Sqlite);
    std::fs::create_dir(world.path("my agent")).unwrap();
    let args = ["memory.db", "vectors.db", "--output", "my agent/it's.toml"];
    let said = init(world.dir.path(), &args).expect(0).stdout;
    let (_, waits) = said.split_once("it waits for ").unwrap();
    let accept = waits.lines().next().unwrap();
    let next: Vec<&str> = said.lines().skip_while(|line| *line != "Next:").collect();
    let dry = next.iter().find_map(|line| line.split_once(" --dry-run"));
    let dry = format!("{} --dry-run --json", dry.unwrap().0);
    let dry = shell(world.dir.path(), &dry).expect(3);
    assert_eq!(dry.plan("ttl")["planned"]["delete"], 1, "{dry:#?}");
    let night = shell(world.dir.path(), &format!("{accept} --json"));
    assert_eq!(night.pass("ttl")["applied"]["delete"], 1, "{night:#?}");
}

#[test]
fn a_file_that_is_there_is_written_over_only_when_asked() {
    let world = store(Backend::Sqlite);
    let mine = "state_dir = \"mine\"\n";
    write(&world.path("hypnos.toml"), mine);
    let refused = init(world.dir.path(), &["memory.db", "vectors.db"]).expect(2);
    assert!(refused.stderr.contains("--force"), "{refused:#?}");
    assert_eq!(
        std::fs::read_to_string(world.path("hypnos.toml")).unwrap(),
        mine
    );
    let _ = init(
        world.dir.path(),
        &["memory.db", "vectors.db", "--output", "other.toml"],
    )
    .expect(0);
    let _ = init(world.dir.path(), &["memory.db", "vectors.db", "--force"]).expect(0);
    let written = |name: &str| std::fs::read_to_string(world.path(name)).unwrap();
    assert_eq!(written("hypnos.toml"), written("other.toml"));
}

#[test]
fn what_is_no_configuration_is_never_written_over() {
    let world = store(Backend::Sqlite);
    write(&world.path("notes.toml"), "[package]\nname = \"x\"\n");
    write(&world.path("empty.toml"), "");
    // No configuration is so large.
    let large = format!("[[store]]\n{}", "# \n".repeat(400_000));
    write(&world.path("large.toml"), &large);
    std::os::unix::fs::symlink("memory.db", world.path("link.toml")).unwrap();
    drop(open(&world.path("memory.db")));
    let before = files(world.dir.path());
    for output in [
        "memory.db",
        "./memory.db",
        "vectors.db",
        "link.toml",
        "notes.toml",
        "empty.toml",
        "large.toml",
        "memory.db-journal",
        "memory.db-wal",
        "memory.db-shm",
    ] {
        for force in [&["--force"] as &[&str], &[]] {
            for option in ["--output", "--config"] {
                let args = [&["memory.db", "vectors.db", option, output], force].concat();
                let refused = init(world.dir.path(), &args).expect(2);
                assert!(refused.stderr.contains(output), "{refused:#?}");
                assert!(files(world.dir.path()) == before, "{args:?}");
            }
        }
    }
}

#[test]
fn a_second_store_of_a_system_gets_a_name_and_a_state_of_its_own() {
    let world = store(Backend::Sqlite);
    let _ = init_world(&world, "memory.db", &[]).expect(0);
    let _ = world.night().expect(3);
    let again = init_world(&world, "memory.db", &["--force", "--json"]).expect(0);
    assert_eq!(again.objects("init")[0]["store"], "ttl-days");
    for file in ["memory.db", "vectors.db"] {
        let copy = world.path(&format!("b-{file}")).display().to_string();
        open(&world.path(file))
            .execute("VACUUM INTO ?1", [copy])
            .unwrap();
    }
    let other = |more: &[&str]| {
        let args = [&["b-memory.db", "b-vectors.db", "--output", "b.toml"], more].concat();
        init(world.dir.path(), &args)
    };
    let said = other(&[]).expect(0).stdout;
    assert!(said.contains("this one is called ttl-days-2"), "{said}");
    assert!(said.contains("ttl: 1 delete; it waits for"), "{said}");
    let second = other(&["--force", "--json"]).expect(0);
    assert_eq!(second.objects("init")[0]["store"], "ttl-days-2");
}

#[test]
fn a_locked_database_is_there_and_a_name_of_two_lines_is_named_as_such() {
    let world = store(Backend::Sqlite);
    let db = open(&world.path("memory.db"));
    db.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE")
        .unwrap();
    let locked = init(world.dir.path(), &["memory.db", "vectors.db"]).expect(1);
    assert!(locked.stderr.contains("locked"), "{locked:#?}");
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    std::fs::rename(world.path("memory.db"), world.path("a\nb.db")).unwrap();
    let refused = init(world.dir.path(), &["a\nb.db", "vectors.db"]);
    assert!(refused.stderr.contains("newline"), "{refused:#?}");
}

#[test]
fn a_store_with_points_on_a_server_is_not_acted_on_without_them() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir.path().join("webui.db"))
        .execute_batch(presets::find("open-webui").unwrap().ddl)
        .unwrap();
    let unsaid = init(dir.path(), &["webui.db"]).expect(2);
    assert!(!unsaid.stderr.contains("none"), "{unsaid:#?}");
    let without = init(dir.path(), &["webui.db", "none", "--json"]).expect(3);
    let line = &without.objects("init")[0];
    assert_eq!(line["confirmed"], false, "{without:#?}");
    let notes = line["notes"].to_string();
    assert!(notes.contains("stay when their rows go"), "{notes}");
    let night = |args: &[&str]| {
        let mut command = hypnos();
        Output::of(command.current_dir(dir.path()).args(args))
    };
    let _ = night(&["--config", "hypnos.toml", "--run-now"]).expect(78);
}

/// The DDL of a program that nobody here knows.
const STRANGE: &str = "CREATE TABLE agent_notes(uid TEXT PRIMARY KEY, text TEXT NOT NULL, user_id TEXT, created REAL, expires REAL);
    INSERT INTO agent_notes VALUES('a', 'one', 'ana', 1700000000.5, 1700000001), ('b', 'two', 'ana', 1700000000.5, NULL);";

fn strange() -> (tempfile::TempDir, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("notes.db"));
    db.execute_batch(STRANGE).unwrap();
    (dir, db)
}

#[test]
fn a_guess_enables_nothing_until_a_person_has_confirmed_it() {
    let (dir, db) = strange();
    let found = init(dir.path(), &["notes.db", "--json"]).expect(3);
    let line = &found.objects("init")[0];
    assert_eq!(
        (&line["preset"], &line["confirmed"]),
        (&serde_json::Value::Null, &false.into())
    );
    let config = std::fs::read_to_string(dir.path().join("hypnos.toml")).unwrap();
    for guess in [
        "confirmed = false",
        "table = \"agent_notes\"    # guess",
        "id = \"uid\"    # guess",
        "content = \"text\"    # guess",
        "tenant = \"user_id\"    # guess",
        "created_at = \"created:epoch_f\"    # guess",
        "expires_at = \"expires:epoch_f\"    # guess",
    ] {
        assert!(config.contains(guess), "{guess:?} is not in {config}");
    }

    let before = files(dir.path());
    let run = |args: &[&str]| Output::of(hypnos().current_dir(dir.path()).args(args));
    for refused in [
        &["--run-now"][..],
        &["snapshot", "now"],
        &["forget", "user:ana", "--yes"],
        &["undo", "last"],
    ] {
        let output = run(refused);
        let refused = output.code == Some(78)
            && [&output.stdout, &output.stderr]
                .iter()
                .any(|said| said.contains("confirmed = true"));
        assert!(refused || output.stderr.contains("no run"), "{output:#?}");
    }
    // Reading is what helps a person to decide.
    let dry = run(&["--dry-run", "--json"]);
    assert_eq!(dry.plan("ttl")["planned"]["delete"], 1, "{dry:#?}");
    let _ = run(&["check"]).expect(3);
    assert_eq!(
        files(dir.path()),
        before,
        "neither the store nor a file beside it"
    );

    let confirmed = config
        .replace("confirmed = false", "confirmed = true")
        .replace("\"report\"", "\"apply\"");
    write(&dir.path().join("hypnos.toml"), &confirmed);
    let night = run(&["--run-now", "--json"]);
    assert_eq!(night.pass("ttl")["applied"]["delete"], 1, "{night:#?}");
    let left: i64 = db
        .query_row("SELECT count(*) FROM agent_notes", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1);
}

#[test]
fn a_guess_finds_the_points_that_belong_to_its_rows() {
    for backend in BACKENDS {
        let world = store(backend);
        world
            .rows()
            .execute_batch("ALTER TABLE memories RENAME COLUMN ttl_days TO life")
            .unwrap();
        let found = init_world(&world, "memory.db", &["--json"]).expect(3);
        let line = &found.objects("init")[0];
        assert_eq!(
            (&line["preset"], &line["confirmed"]),
            (&serde_json::Value::Null, &false.into())
        );
        assert_eq!(
            (&line["rows_with_point"], &line["rows_looked_at"]),
            (&2.into(), &2.into()),
            "{found:#?}"
        );
        let notes = line["notes"].to_string();
        assert!(
            notes.contains("nearest is ttl-days, but for column memories.ttl_days"),
            "{notes}"
        );
        let config = std::fs::read_to_string(world.path("hypnos.toml")).unwrap();
        assert!(
            config.contains("point_id = \"uuid5(dns, {namespace}::{id})\""),
            "{config}"
        );
    }
}

#[test]
fn what_holds_no_memories_is_unknown_and_gets_no_file() {
    for (name, ddl) in [
        (
            "places.sqlite",
            "CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, description TEXT, last_visit_date INTEGER);
             CREATE TABLE moz_historyvisits(id INTEGER PRIMARY KEY, place_id INTEGER, visit_date INTEGER);
             CREATE TABLE moz_meta(key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;",
        ),
        ("cache.sqlite", "CREATE TABLE responses(key TEXT PRIMARY KEY, value BLOB, expires INTEGER); CREATE TABLE redirects(key TEXT PRIMARY KEY, value BLOB)"),
        ("tableless.db", "CREATE TABLE x(y); DROP TABLE x"),
        ("library.db", "CREATE TABLE items(id INTEGER PRIMARY KEY, added REAL, title TEXT, path BLOB); CREATE TABLE item_attributes(id INTEGER PRIMARY KEY, entity_id INTEGER, key TEXT, value TEXT)"),
        ("hardware.db", "CREATE TABLE memory(id INTEGER PRIMARY KEY, slot INTEGER, size_gb INTEGER)"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        open(&dir.path().join(name)).execute_batch(ddl).unwrap();
        let before = files(dir.path());
        let said = init(dir.path(), &[name]).expect(10);
        assert!(said.stderr.contains("unknown"), "{said:#?}");
        assert_eq!(files(dir.path()), before, "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("empty.db"), "");
    let said = init(dir.path(), &["empty.db"]).expect(10);
    assert!(said.stderr.contains("unknown"), "{said:#?}");
}

#[test]
fn a_store_that_must_not_be_touched_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir.path().join("chroma.sqlite3"))
        .execute_batch(
            "CREATE TABLE collections(id TEXT PRIMARY KEY, name TEXT);
             CREATE TABLE segments(id TEXT PRIMARY KEY, type TEXT, scope TEXT, collection TEXT);
             CREATE TABLE embeddings(id INTEGER PRIMARY KEY, segment_id TEXT, embedding_id TEXT, seq_id BLOB, created_at TIMESTAMP);
             CREATE TABLE embedding_metadata(id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL);",
        )
        .unwrap();
    let noise: Vec<u8> = (0..4096_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0] | 1)
        .collect();
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's own file needs no durability"
    )]
    std::fs::write(dir.path().join("cipher.db"), noise).unwrap();
    std::fs::create_dir_all(dir.path().join("qdrant/collection/mem0")).unwrap();
    write(&dir.path().join("qdrant/meta.json"), "{}");
    for (rows, name, reason) in [
        ("chroma.sqlite3", "Chroma", "files of its own"),
        ("cipher.db", "SQLCipher", "no key"),
        (
            "qdrant",
            "qdrant-client in local mode",
            "run a Qdrant server",
        ),
    ] {
        let refused = init(dir.path(), &[rows]).expect(10);
        assert!(
            refused.stderr.contains(name) && refused.stderr.contains(reason),
            "{refused:#?}"
        );
    }
    for (rows, said) in [
        (".", "is a folder"),
        ("missing.db", "no such file"),
        ("qdrant/meta.json", "not a SQLite database"),
    ] {
        let refused = init(dir.path(), &[rows]).expect(10);
        assert!(refused.stderr.contains(said), "{refused:#?}");
    }
    assert!(!dir.path().join("hypnos.toml").exists());
}

#[test]
fn one_file_for_each_tenant_is_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let ddl = presets::find("ttl-days").unwrap().ddl;
    for tenant in ["ana", "bruno"] {
        std::fs::create_dir_all(dir.path().join("users").join(tenant)).unwrap();
        let db = open(&dir.path().join("users").join(tenant).join("memory.db"));
        db.execute_batch(ddl).unwrap();
        db.execute(
            "INSERT INTO memories VALUES(1, ?1, 'c', 'h', 1, NULL, NULL)",
            [tenant],
        )
        .unwrap();
    }
    let found = init(dir.path(), &["users/{tenant}/memory.db", "none", "--json"]).expect(0);
    assert_eq!(found.objects("init")[0]["preset"], "ttl-days", "{found:#?}");
    assert_eq!(found.objects("check")[0]["memories"], 2);
    let nobody = init(dir.path(), &["nobody/{tenant}/memory.db", "-o", "x.toml"]).expect(10);
    assert!(nobody.stderr.contains("no tenant"), "{nobody:#?}");
}

#[test]
fn a_server_without_the_points_of_the_store_is_no_match() {
    let (world, other) = (store(Backend::Qdrant), store(Backend::Qdrant));
    // Only the foreign collection is looked at; the ids in it are those of the same rows, but of somebody else.
    let Points::Qdrant(collection) = &other.points else {
        unreachable!()
    };
    other
        .rows()
        .execute_batch("UPDATE memories SET user_id = 'zoe'")
        .unwrap();
    let (url, name) = (collection.url.clone(), collection.name.clone());
    let doubted = init(
        other.dir.path(),
        &["memory.db", &url, "--collection", &name, "--json"],
    )
    .expect(3);
    assert_eq!(
        doubted.objects("init")[0]["confirmed"],
        false,
        "{doubted:#?}"
    );
    let missing = init(
        world.dir.path(),
        &["memory.db", &url, "--collection", "no-such-thing"],
    )
    .expect(10);
    assert!(missing.stderr.contains("no-such-thing"), "{missing:#?}");
    let preset = init(
        world.dir.path(),
        &["memory.db", &url, "--preset", "salience"],
    )
    .expect(10);
    assert!(
        preset.stderr.contains("no store of salience"),
        "{preset:#?}"
    );
}
