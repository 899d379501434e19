//! Killed, failed or held up at every durable step of `vacuum` and `snapshot`: what is listed is a whole pair.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use hypnos::failpoint::Failpoint;
use uuid::Uuid;

use crate::support::{Backend, DAY, Point, Points, World, now, open, payload, point_id, vector};

const VACUUM: [Failpoint; 2] = [Failpoint::VacuumBefore, Failpoint::VacuumDone];
const TAKE: [Failpoint; 6] = [
    Failpoint::PairBegun,
    Failpoint::CopySynced,
    Failpoint::RowsCopied,
    Failpoint::PointsCopied,
    Failpoint::ManifestWritten,
    Failpoint::PairPublished,
];
const DROP: [Failpoint; 2] = [Failpoint::PairDropBefore, Failpoint::PairDropped];
type State = (String, BTreeMap<Uuid, Point>);

fn state_of(world: &World) -> State {
    (world.dump(), world.all_points())
}

fn world() -> World {
    let mut world = World::new(Backend::Sqlite);
    world.configure("[pass.snapshot]\nenabled = false\n", "");
    world.user("ana", None);
    for _ in 0..3 {
        world.memory("ana", now() - 5 * DAY, None);
    }
    world
}

/// Every pair that is listed is whole.
fn verify(world: &World, story: &str) -> Vec<String> {
    let listed = world.run(&["snapshot", "list", "--json"]);
    assert_eq!(listed.code, Some(0), "{story}: {listed:#?}");
    let verified = world.run(&["snapshot", "verify"]);
    assert_eq!(verified.code, Some(0), "{story}: {verified:#?}");
    let pairs = listed.objects("pair").into_iter();
    pairs
        .map(|pair| pair["pair"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_vacuum_changes_nothing_that_is_read() {
    for action in ["kill", "error", "delay"] {
        for point in VACUUM {
            let failpoint = format!("{point}=1*return({action})");
            let story = format!("FAILPOINTS='{failpoint}'");
            let mut world = World::new(Backend::Sqlite);
            world.configure(
                "[pass.snapshot]",
                "[pass.vacuum]\nmin_free_fraction = 0.1\nmin_free_bytes = \"64KiB\"\n[pass.snapshot]",
            );
            world.user("ana", None);
            for _ in 0..3 {
                world.memory("ana", now() - 5 * DAY, None);
            }
            world
                .rows()
                .execute_batch(
                    "CREATE TABLE ballast(x); INSERT INTO ballast VALUES(zeroblob(1000000));
                     DROP TABLE ballast; PRAGMA wal_checkpoint(TRUNCATE)",
                )
                .unwrap();
            let (store, bytes) = (state_of(&world), size(&world));
            let night = world.night_with(&failpoint);
            match action {
                "kill" => assert_eq!(night.code, None, "{story}: it was not killed"),
                "error" => assert_eq!(night.code, Some(1), "{story}: {night:#?}"),
                _ => assert_eq!(night.code, Some(0), "{story}: {night:#?}"),
            }
            assert_eq!(state_of(&world), store, "{story}");
            world.night().expect(0);
            assert_eq!(state_of(&world), store, "{story}");
            world
                .rows()
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
                .unwrap();
            assert!(
                size(&world) < bytes / 4,
                "{story}: {} of {bytes}",
                size(&world)
            );
            let _ = world.night().expect(0).all_passes("idle");
        }
    }
}

fn size(world: &World) -> u64 {
    std::fs::metadata(world.path("memory.db")).unwrap().len()
}

#[test]
fn taking_and_dropping_pairs() {
    for action in ["kill", "error", "delay"] {
        for point in TAKE.into_iter().chain([DROP[0], DROP[1]]) {
            let failpoint = format!("{}=return({action})", point.as_str());
            let story = format!("FAILPOINTS='{failpoint}'");
            let mut world = world();
            world.night().expect(0);
            let before = verify(&world, &story);
            world.memory("ana", now(), None);
            if DROP.contains(&point) {
                // Something to drop: what a killed run left.
                let killed = world.night_with("pair.rows_copied=return(kill)");
                assert_eq!(killed.code, None, "{story}");
            }
            let store = state_of(&world);
            let night = world.night_with(&failpoint);
            match action {
                "kill" => assert_eq!(night.code, None, "{story}: it was not killed"),
                "error" => assert_eq!(night.code, Some(1), "{story}: {night:#?}"),
                _ => assert_eq!(night.code, Some(0), "{story}: {night:#?}"),
            }
            let pairs: BTreeSet<String> = verify(&world, &story).into_iter().collect();
            assert!(
                before.iter().all(|pair| pairs.contains(pair)),
                "{story}: a good pair is gone"
            );
            assert_eq!(state_of(&world), store, "{story}");
            world.night().expect(0);
            let left = std::fs::read_dir(world.path("snapshots/agent")).unwrap();
            let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(
                names.len(),
                verify(&world, &story).len(),
                "{story}: {names:?}"
            );
            let _ = world
                .run(&["--run-now", "--json", "--only", "snapshot"])
                .expect(0)
                .all_passes("idle");
        }
    }
}

/// How often a test does what it does: more when it is asked for.
fn times(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |n| n.parse().expect("a number"))
}

/// Stops the writer, also when the test fails beside it.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A process of its own would not share the locks; a thread of this one does not either, since hypnos is another one.
fn write_until(world: &World, stop: &AtomicBool) {
    let rows = world.rows();
    let Points::Sqlite(path) = &world.points else {
        panic!("points in a file")
    };
    let points = open(path);
    let mut id = 1000;
    while !stop.load(Ordering::Relaxed) {
        rows.execute(
            "INSERT INTO memories(id, user_id, content, content_hash, created_at) VALUES(?1, 'ana', 'written', 'h', ?2)",
            [id, now()],
        )
        .unwrap();
        let vector: Vec<u8> = vector(id).iter().flat_map(|x| x.to_le_bytes()).collect();
        points
            .execute(
                "INSERT INTO points VALUES(?1, 'user:ana', ?2, ?3)",
                rusqlite::params![
                    point_id("user:ana", id).to_string(),
                    vector,
                    payload("user:ana", id).to_string()
                ],
            )
            .unwrap();
        id += 1;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn highest(world: &World) -> i64 {
    world
        .rows()
        .query_row("SELECT max(id) FROM memories", [], |row| row.get(0))
        .unwrap()
}

/// `HYPNOS_PAIRS=50` takes fifty pairs beside a writer of some 200 rows a second.
#[test]
fn pairs_beside_a_writer_hold_every_row_that_was_there_and_its_point() {
    let world = world();
    // So many rows that the points are copied beside them.
    world
        .rows()
        .execute_batch(
            "CREATE TABLE ballast(x); INSERT INTO ballast
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000) SELECT x FROM n",
        )
        .unwrap();
    let stop = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| write_until(&world, &stop));
        let _stops = Stops(&stop);
        let taken: Vec<(i64, serde_json::Value)> = (0..times("HYPNOS_PAIRS", 4))
            .map(|_| {
                let before = highest(&world);
                let output = world.run(&["snapshot", "now", "--json"]);
                (before, output.expect(0).objects("pair").remove(0))
            })
            .collect();
        taken
    });
    verify(&world, "beside a writer");
    for (before, pair) in &taken {
        let folder = world
            .path("snapshots/agent")
            .join(pair["pair"].as_str().unwrap());
        let (rows, points) = (
            open(&folder.join("rows-1.db")),
            open(&folder.join("vectors.db")),
        );
        let count = |db: &rusqlite::Connection, sql: &str| -> i64 {
            db.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(
            pair["memories"],
            count(&rows, "SELECT count(*) FROM memories")
        );
        assert_eq!(
            pair["points"],
            count(&points, "SELECT count(*) FROM points")
        );
        let last = count(&rows, "SELECT max(id) FROM memories");
        assert!(
            last >= *before,
            "row {before} was there, and the pair ends at {last}"
        );
        let mut ids = rows
            .prepare("SELECT id FROM memories WHERE id < ?1")
            .unwrap();
        // The point of the last row may have been on its way.
        let ids = ids.query_map([last], |row| row.get::<_, i64>(0)).unwrap();
        for id in ids.map(Result::unwrap) {
            let held: Vec<u8> = points
                .query_row(
                    "SELECT vector FROM points WHERE id = ?1",
                    [point_id("user:ana", id).to_string()],
                    |row| row.get(0),
                )
                .unwrap_or_else(|error| panic!("point of row {id}: {error}"));
            let sent: Vec<u8> = vector(id).iter().flat_map(|x| x.to_le_bytes()).collect();
            assert_eq!(held, sent, "vector of row {id}");
        }
    }
    for (_, pair) in &taken {
        let name = pair["pair"].as_str().unwrap();
        let restored = world.run(&["snapshot", "restore", name, "--json"]);
        let line = restored.objects("restored").remove(0);
        assert_eq!(
            (&line["memories"], &line["points"]),
            (&pair["memories"], &pair["points"]),
            "{restored:#?}"
        );
    }
}

/// `HYPNOS_KILLS=1000` kills a thousand captures at random instants; `HYPNOS_SEED` chooses them.
#[test]
fn a_capture_that_is_killed_is_never_listed() {
    let seed = times(
        "HYPNOS_SEED",
        u64::from(std::process::id()) + now().unsigned_abs(),
    );
    println!("HYPNOS_SEED={seed}");
    let mut state = seed | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let world = world();
    world
        .rows()
        .execute_batch("CREATE TABLE ballast(x); INSERT INTO ballast VALUES (randomblob(2000000))")
        .unwrap();
    let before = state_of(&world);
    world.night().expect(0);
    let mut kill_one = || {
        let mut child = world.spawn(&["snapshot", "now"]);
        std::thread::sleep(std::time::Duration::from_micros(random(60_000)));
        let _ = child.kill();
        let killed = child.wait().unwrap().code().is_none();
        assert!(!verify(&world, "killed").is_empty());
        u64::from(killed)
    };
    let rounds = times("HYPNOS_KILLS", 12);
    let calm: u64 = (0..rounds).map(|_| kill_one()).sum();
    assert_eq!(state_of(&world), before);
    // The same beside an agent that writes.
    let stop = AtomicBool::new(false);
    let busy: u64 = std::thread::scope(|scope| {
        scope.spawn(|| write_until(&world, &stop));
        let _stops = Stops(&stop);
        (0..rounds).map(|_| kill_one()).sum()
    });
    println!("{calm} captures killed, {busy} beside a writer");
    let night = world.run(&["--run-now", "--only", "snapshot"]);
    assert_eq!(night.code, Some(0), "{night:#?}");
    let left = std::fs::read_dir(world.path("snapshots/agent")).unwrap();
    let hidden = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with('.')
    });
    assert_eq!(hidden.count(), 0);
}
