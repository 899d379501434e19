//! Killed, failed or held up at every durable step of `vacuum`, `snapshot` and a restore: what is listed is a whole pair,
//! and both halves of the store are of one time.

use std::collections::{BTreeMap, BTreeSet};

use hypnos::failpoint::Failpoint;
use uuid::Uuid;

use crate::support::{Backend, DAY, Output, Point, World, now};

const VACUUM: [Failpoint; 2] = [Failpoint::VacuumBefore, Failpoint::VacuumDone];
const TAKE: [Failpoint; 5] = [
    Failpoint::PairBegun,
    Failpoint::RowsCopied,
    Failpoint::PointsCopied,
    Failpoint::ManifestWritten,
    Failpoint::PairPublished,
];
const DROP: [Failpoint; 2] = [Failpoint::PairDropBefore, Failpoint::PairDropped];
/// Before the restore is decided.
const STAGE: [Failpoint; 3] = [
    Failpoint::RestoreBegun,
    Failpoint::RestoreStaged,
    Failpoint::RestoreCleaned,
];
/// After it.
const SWITCH: [Failpoint; 5] = [
    Failpoint::RestoreDecided,
    Failpoint::SwapBefore,
    Failpoint::SwapDone,
    Failpoint::RestoreSwitched,
    Failpoint::RestoreFinished,
];
/// Every point of this file: a night of the other tests comes by none of them.
pub const POINTS: [Failpoint; 17] = [
    VACUUM[0], VACUUM[1], TAKE[0], TAKE[1], TAKE[2], TAKE[3], TAKE[4], DROP[0], DROP[1], STAGE[0],
    STAGE[1], STAGE[2], SWITCH[0], SWITCH[1], SWITCH[2], SWITCH[3], SWITCH[4],
];

type State = (String, BTreeMap<Uuid, Point>);

fn state(world: &World) -> State {
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

fn with(world: &World, args: &[&str], failpoint: &str) -> Output {
    Output::of(world.command(args).env("FAILPOINTS", failpoint))
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
            let store = state(&world);
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
            assert_eq!(state(&world), store, "{story}");
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

#[test]
fn restoring() {
    for action in ["kill", "error", "delay"] {
        for point in STAGE.into_iter().chain(SWITCH) {
            // The two files of this store are swapped one after the other.
            let passes = if [Failpoint::SwapBefore, Failpoint::SwapDone].contains(&point) {
                2
            } else {
                1
            };
            for nth in 0..passes {
                let off = if nth > 0 {
                    format!("{nth}*off->1*")
                } else {
                    String::new()
                };
                disturbed(
                    action,
                    point,
                    &format!("{}={off}return({action})", point.as_str()),
                );
            }
        }
    }
}

fn disturbed(action: &str, point: Failpoint, failpoint: &str) {
    let story = format!("FAILPOINTS='{failpoint}'");
    let mut world = world();
    let expired = world.memory("ana", now() - 40 * DAY, Some(7));
    let taken = world.run(&["snapshot", "now", "--json"]).expect(0);
    let pair = taken.objects("pair")[0]["pair"]
        .as_str()
        .unwrap()
        .to_owned();
    world.night().expect(0);
    assert!(!world.ids().contains(&expired));
    let new = state(&world);
    world.memory("ana", now(), None);
    world
        .rows()
        .execute("UPDATE memories SET content = 'later'", [])
        .unwrap();
    let old = state(&world);
    let restore = with(&world, &["snapshot", "restore", &pair], failpoint);
    match action {
        "kill" => assert_eq!(restore.code, None, "{story}: it was not killed"),
        "error" => assert_eq!(restore.code, Some(1), "{story}: {restore:#?}"),
        _ => assert_eq!(restore.code, Some(0), "{story}: {restore:#?}"),
    }
    world.run(&["--run-now", "--only", "ttl,orphans"]).expect(0);
    let is_decided = SWITCH.contains(&point) || action == "delay";
    let expected = if is_decided { new } else { old };
    assert_eq!(state(&world), expected, "{story}");
    for name in std::fs::read_dir(world.dir.path()).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        assert!(!name.contains(".hypnos-"), "{story}: {name} is left");
    }
    world.run(&["check"]).expect(0);
    verify(&world, &story);
}
