//! `snapshot`: pairs that are whole or not there, verified, and kept no longer than they should be.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Backend, DAY, Output, World, files, limited, now};

/// A store with a few memories, two of which have expired, and snapshots switched on.
pub(crate) fn world() -> World {
    let mut world = World::new(Backend::Sqlite);
    world.configure("[pass.snapshot]\nenabled = false\n", "");
    world.user("ana", None);
    world.user("bob", None);
    for user in ["ana", "ana", "bob"] {
        world.memory(user, now() - 5 * DAY, None);
    }
    world
}

pub(crate) fn shelf(world: &World) -> PathBuf {
    world.path("snapshots/agent")
}

/// Everything on the shelf, hidden or not, sorted.
pub(crate) fn names(world: &World) -> Vec<String> {
    let Ok(entries) = fs::read_dir(shelf(world)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn manifest(world: &World, pair: &str) -> Value {
    let text = fs::read_to_string(shelf(world).join(pair).join("manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn pairs(world: &World) -> Vec<Value> {
    world
        .run(&["snapshot", "list", "--json"])
        .expect(0)
        .objects("pair")
}

/// Moves a pair back in time, as if it had been taken so many days ago; its seal is made anew.
pub(crate) fn age(world: &World, pair: &str, days: i64) -> String {
    let text = fs::read_to_string(shelf(world).join(pair).join("manifest.json")).unwrap();
    let at = jiff::Timestamp::from_second(now() - days * DAY).unwrap();
    let name = at.strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
    let taken = serde_json::from_str::<Value>(&text).unwrap()["taken_at"].clone();
    let text = text
        .replace(pair, &name)
        .replace(taken.as_str().unwrap(), &at.to_string());
    fs::rename(shelf(world).join(pair), shelf(world).join(&name)).unwrap();
    write_sealed(&shelf(world).join(&name).join("manifest.json"), &text);
    name
}

/// Writes a manifest with the seal that fits it.
fn write_sealed(path: &std::path::Path, text: &str) {
    use sha2::{Digest as _, Sha256};
    let seal = serde_json::from_str::<Value>(text).unwrap()["seal"].clone();
    let unsealed = text.replace(seal.as_str().unwrap(), "");
    let new = Sha256::digest(unsealed.as_bytes())
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let sealed = unsealed.replace("\"seal\": \"\"", &format!("\"seal\": \"{new}\""));
    fs::write(path, sealed).unwrap();
}

#[test]
fn a_pair_holds_both_halves_for_their_owner_only() {
    let world = world();
    let night = world.night().expect(0);
    let pass = night.pass("snapshot");
    assert_eq!(pass["outcome"], "applied", "{night:#?}");
    assert_eq!(pass["applied"], json!({"snapshot": 1}));
    let [pair] = &names(&world)[..] else {
        panic!("{:?}", names(&world))
    };
    let folder = shelf(&world).join(pair);
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for (file, _) in files(&folder) {
        assert_eq!(mode(&folder.join(&file)), 0o600, "{file:?}");
    }
    let copy = |name: &str| Connection::open(folder.join(name)).unwrap();
    let count = |db: &Connection, table: &str| -> i64 {
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
        .unwrap()
    };
    assert_eq!(count(&copy("rows-1.db"), "memories"), 3);
    assert_eq!(count(&copy("vectors.db"), "points"), 3);

    let manifest = manifest(&world, pair);
    let rows = &manifest["rows"][0];
    assert_eq!(
        rows["count"]["namespaces"],
        json!({"user:ana": 2, "user:bob": 1})
    );
    assert_eq!(rows["tables"]["memories"], 3);
    assert_eq!(rows["tables"]["users"], 2);
    assert_eq!(rows["journal_mode"], "wal");
    assert_eq!(manifest["points"]["count"]["total"], 3);
    assert_eq!(manifest["open_intents"], 0);
    assert_eq!(manifest["drift"]["written"], 0);
    assert!(
        !manifest.to_string().contains("canary"),
        "a manifest has no text of a memory"
    );
    let verified = world.run(&["snapshot", "verify", "--json"]).expect(0);
    assert_eq!(
        verified.objects("pair")[0]["verified"],
        true,
        "{verified:#?}"
    );
}

#[test]
fn a_second_night_without_a_change_takes_none() {
    let mut world = world();
    world.night().expect(0);
    let first = names(&world);
    for _ in 0..2 {
        assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");
    }
    assert_eq!(names(&world), first);
    // Back and forth is no change either, as long as all is as it was.
    world.rows().execute_batch("UPDATE memories SET content = 'x' WHERE id = 1; UPDATE memories SET content = 'canary ana 1' WHERE id = 1").unwrap();
    assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");

    let changes: [&dyn Fn(&mut World); 4] = [
        &|world| {
            world.memory("bob", now(), None);
        },
        &|world| {
            world
                .rows()
                .execute("UPDATE memories SET content = 'y' WHERE id = 2", [])
                .unwrap();
        },
        &|world| world.put_as("user:ana", 1, 2),
        &|world| {
            world
                .rows()
                .execute_batch("CREATE INDEX later ON memories(created_at)")
                .unwrap();
        },
    ];
    for (index, change) in changes.iter().enumerate() {
        change(&mut world);
        let dry = world.run(&["--dry-run", "--json"]).expect(0);
        assert_eq!(
            dry.plan("snapshot")["upkeep"][0],
            json!({"action": "snapshot", "reason": "changed"})
        );
        assert_eq!(names(&world).len(), index + 1);
        let night = world.night().expect(0);
        assert_eq!(
            night.pass("snapshot")["applied"],
            json!({"snapshot": 1}),
            "change {index}: {night:#?}"
        );
        assert_eq!(names(&world).len(), index + 2);
        assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");
    }
}

#[test]
fn the_first_pair_is_taken_before_anything_goes() {
    let mut world = world();
    world.memory("ana", now() - 40 * DAY, Some(7));
    let night = world.night().expect(0);
    assert_eq!(night.pass("ttl")["applied"], json!({"delete": 1}));
    assert_eq!(
        night.pass("snapshot")["applied"],
        json!({"snapshot": 2}),
        "{night:#?}"
    );
    let memories: Vec<i64> = pairs(&world)
        .iter()
        .map(|pair| pair["memories"].as_i64().unwrap())
        .collect();
    assert_eq!(memories, [4, 3]);
    // Later nights have one to go back to.
    world.memory("ana", now() - 40 * DAY, Some(7));
    world.memory("ana", now(), None);
    assert_eq!(
        world.night().expect(0).pass("snapshot")["applied"],
        json!({"snapshot": 1})
    );
}

#[test]
fn without_a_first_pair_nothing_goes() {
    let mut world = world();
    let expired = world.memory("ana", now() - 40 * DAY, Some(7));
    fs::write(world.path("snapshots"), "in the way").unwrap();
    let night = world.night().expect(1);
    assert_eq!(night.pass("ttl")["outcome"], "refused", "{night:#?}");
    assert_eq!(night.pass("snapshot")["outcome"], "failed");
    assert!(world.ids().contains(&expired));
    // Whoever leaves the pass out has decided to do without.
    world.run(&["--run-now", "--skip", "snapshot"]).expect(0);
    assert!(!world.ids().contains(&expired));
}

#[test]
fn pairs_go_only_when_a_newer_one_stands() {
    let mut world = world();
    world.configure(
        "[[store]]",
        "[pass.snapshot]\nkeep_daily = 2\nkeep_weekly = 0\nkeep_monthly = 0\n[[store]]",
    );
    let mut old = Vec::new();
    for days in [9, 8, 7] {
        world.run(&["snapshot", "now"]).expect(0);
        let newest = names(&world).pop().unwrap();
        old.push(age(&world, &newest, days));
    }
    world.memory("bob", now(), None);
    let night = world
        .night_with("pair.manifest_written=return(error)")
        .expect(1);
    assert_eq!(night.pass("snapshot")["outcome"], "failed");
    assert_eq!(
        names(&world),
        old,
        "a pair that could not be taken costs none"
    );
    let dry = world.run(&["--dry-run", "--json"]).expect(0);
    let dropped = |pair: &str| json!({"action": "drop_pair", "pair": pair, "reason": "expired"});
    assert_eq!(
        dry.plan("snapshot")["upkeep"],
        json!([{"action": "snapshot", "reason": "changed"}, dropped(&old[0]), dropped(&old[1])])
    );
    let night = world.night().expect(0);
    assert_eq!(
        night.pass("snapshot")["applied"],
        json!({"snapshot": 1, "drop_pair": 2}),
        "{night:#?}"
    );
    assert_eq!(names(&world)[0], old[2]);
    assert_eq!(names(&world).len(), 2);
    assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");
}

/// One night under a clock that ran ahead must not spoil the nights under the right one.
#[test]
fn a_pair_from_the_future_is_left_alone_and_is_not_the_newest() {
    let mut world = world();
    world.night().expect(0);
    let [pair] = names(&world).try_into().unwrap();
    let ahead = age(&world, &pair, -300);
    world.memory("bob", now(), None);
    let night = world.night().expect(0);
    let pass = night.pass("snapshot");
    assert_eq!(pass["applied"]["snapshot"], 1, "{pass:#}");
    assert!(pass["degraded"].to_string().contains(&ahead), "{pass:#}");
    assert_eq!(names(&world).len(), 2);
    let again = world.night().expect(0);
    assert_eq!(again.pass("snapshot")["applied"], json!({}), "{again:#?}");
    assert!(names(&world).contains(&ahead));
    let status = world.run(&["status", "--json"]).expect(0);
    assert_ne!(status.objects("status")[0]["newest_pair"]["pair"], *ahead);
}

#[test]
fn what_a_killed_run_left_is_no_pair_and_goes() {
    for point in [
        "pair.begun",
        "pair.rows_copied",
        "pair.points_copied",
        "pair.manifest_written",
    ] {
        let world = world();
        let night = world.night_with(&format!("{point}=return(kill)"));
        assert_eq!(night.code, None, "{point}");
        let left = names(&world);
        assert!(
            left.len() == 1 && left[0].starts_with('.'),
            "{point}: {left:?}"
        );
        assert_eq!(pairs(&world), [json!(null); 0], "{point}");
        let night = world.night().expect(0);
        assert_eq!(
            night.pass("snapshot")["applied"],
            json!({"drop_pair": 1, "snapshot": 1}),
            "{point}"
        );
        assert_eq!(names(&world).len(), 1);
        world.run(&["snapshot", "verify"]).expect(0);
    }
}

#[test]
fn what_fails_leaves_nothing_behind() {
    for point in [
        "pair.begun",
        "pair.rows_copied",
        "pair.points_copied",
        "pair.manifest_written",
    ] {
        let world = world();
        let night = world
            .night_with(&format!("{point}=return(error)"))
            .expect(1);
        assert_eq!(night.pass("snapshot")["outcome"], "failed");
        assert_eq!(names(&world), [""; 0], "{point}");
        world.night().expect(0);
        assert_eq!(names(&world).len(), 1);
    }
}

#[test]
fn a_pair_that_is_not_what_its_manifest_says_is_not_verified() {
    type Spoil = fn(&World, &std::path::Path);
    let cases: [(&str, Spoil, &str); 7] = [
        (
            "a byte of the rows",
            |_, pair| flip(&pair.join("rows-1.db")),
            "hash or size differs",
        ),
        (
            "a byte of the points",
            |_, pair| flip(&pair.join("vectors.db")),
            "hash or size differs",
        ),
        (
            "the points are gone",
            |_, pair| fs::remove_file(pair.join("vectors.db")).unwrap(),
            "vectors.db",
        ),
        (
            "a count",
            |_, pair| edit(pair, "\"total\": 3", "\"total\": 4", true),
            "memories are not those",
        ),
        (
            "a table",
            |_, pair| edit(pair, "\"memory_tags\": 0", "\"memory_tags\": 1", true),
            "tables have not the rows",
        ),
        (
            "the seal",
            |_, pair| {
                edit(
                    pair,
                    "\"purpose\": \"run\"",
                    "\"purpose\": \"asked\"",
                    false,
                );
            },
            "was changed after",
        ),
        (
            "a path",
            |_, pair| edit(pair, "rows-1.db", "../rows-1.db", true),
            "cannot be a pair's",
        ),
    ];
    for (what, spoil, problem) in cases {
        let world = world();
        world.night().expect(0);
        let pair = names(&world).pop().unwrap();
        spoil(&world, &shelf(&world).join(&pair));
        let verify = world
            .run(&["snapshot", "verify", &pair, "--json"])
            .expect(1);
        let line = &verify.objects("pair")[0];
        assert_eq!(line["verified"], false, "{what}");
        assert!(
            line["problem"].as_str().unwrap().contains(problem),
            "{what}: {line}"
        );
    }
}

fn flip(path: &std::path::Path) {
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn edit(pair: &std::path::Path, from: &str, to: &str, seal: bool) {
    let path = pair.join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    let text = text.replacen(from, to, 1);
    if seal {
        write_sealed(&path, &text);
    } else {
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn a_pair_of_another_store_is_refused() {
    let mut world = world();
    world.night().expect(0);
    world.configure(
        "path = \"vectors.db\"",
        "path = \"vectors.db\"\nnamespace_key = \"namespace\"\nid = \"id\"",
    );
    world.run(&["snapshot", "verify"]).expect(0);
    world.configure(
        "uuid5(dns, {namespace}::{id})",
        "uuid5(dns, {namespace}/{id})",
    );
    let verify = world.run(&["snapshot", "verify", "--json"]).expect(1);
    let problem = verify.objects("pair")[0]["problem"].to_string();
    assert!(
        problem.contains("pair of other stores: vectors.point_id"),
        "{problem}"
    );
}

#[test]
fn a_pair_is_asked_for_listed_and_found_by_its_name() {
    let world = world();
    assert_eq!(
        world.run(&["snapshot", "list"]).expect(0).stdout,
        "agent  no pair yet\n"
    );
    for purpose in 1..=2 {
        world.run(&["snapshot", "now"]).expect(0);
        assert_eq!(pairs(&world).len(), purpose);
    }
    assert_eq!(pairs(&world)[0]["purpose"], "asked");
    let unknown = world
        .run(&["snapshot", "verify", "2020-01-01T00-00-00Z"])
        .expect(2);
    assert!(unknown.stderr.contains("snapshot list"), "{unknown:#?}");
}

#[test]
fn rows_and_points_of_one_file_are_copied_once() {
    let mut world = world();
    let one = Connection::open(world.path("memory.db")).unwrap();
    one.execute_batch(&format!(
        "ATTACH '{}' AS v; CREATE TABLE points(id TEXT PRIMARY KEY, namespace TEXT, vector BLOB NOT NULL, payload TEXT);
         INSERT INTO points SELECT * FROM v.points",
        world.path("vectors.db").display()
    ))
    .unwrap();
    drop(one);
    world.configure("path = \"vectors.db\"\n", "");
    world.night().expect(0);
    let pair = names(&world).pop().unwrap();
    let held: Vec<PathBuf> = files(&shelf(&world).join(&pair)).into_keys().collect();
    assert_eq!(
        held,
        [PathBuf::from("manifest.json"), PathBuf::from("rows-1.db")]
    );
    assert_eq!(manifest(&world, &pair)["points"]["count"]["total"], 3);
    world.run(&["snapshot", "verify"]).expect(0);
    assert_eq!(world.night().expect(0).pass("snapshot")["outcome"], "idle");
}

#[test]
fn a_locked_database_gives_no_pair() {
    let mut world = world();
    world
        .rows()
        .pragma_update(None, "journal_mode", "delete")
        .unwrap();
    world.memory("ana", now(), None);
    let agent = world.rows();
    agent.execute_batch("BEGIN EXCLUSIVE").unwrap();
    world.run(&["snapshot", "now"]).expect(1);
    assert_eq!(names(&world), [""; 0]);
}

/// Runs hypnos so that no file may grow over so many KiB: what a full disk does, without one.
fn cramped(world: &World, kib: u64, args: &[&str]) -> Output {
    // dash counts blocks of 512 bytes.
    let limit = format!("trap '' XFSZ; ulimit -f {}", kib * 2);
    Output::of(&mut limited(&world.command(args), &limit))
}

#[test]
fn a_full_disk_leaves_the_last_pair_and_the_next_night_works() {
    let mut world = world();
    world.configure(
        "[[store]]",
        "[pass.vacuum]\nmin_free_bytes = \"64KiB\"\n[[store]]",
    );
    world.night().expect(0);
    let first = names(&world);
    world
        .rows()
        .execute_batch(
            "CREATE TABLE ballast(x); INSERT INTO ballast VALUES (zeroblob(3000000)), (zeroblob(3000000));
             DELETE FROM ballast WHERE rowid = 1",
        )
        .unwrap();
    let before = (world.dump(), files(&shelf(&world)));
    let night = cramped(&world, 1500, &["--run-now", "--json"]).expect(1);
    assert_eq!(night.pass("vacuum")["outcome"], "failed", "{night:#?}");
    let pass = night.pass("snapshot");
    assert_eq!(pass["outcome"], "failed", "{night:#?}");
    let error = pass["error"].as_str().unwrap();
    assert!(error.starts_with("rows of main: copy "), "{error}");
    assert!(error.contains("snapshots/agent/."), "{error}");
    assert_eq!((world.dump(), files(&shelf(&world))), before);
    world.run(&["snapshot", "verify"]).expect(0);
    let night = world.night().expect(0);
    assert_eq!(night.pass("snapshot")["applied"], json!({"snapshot": 1}));
    assert_eq!(night.pass("vacuum")["applied"], json!({"vacuum": 1}));
    assert_eq!(names(&world).len(), first.len() + 1);
}
