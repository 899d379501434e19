//! What a person asks for is cut off at every durable step: an undo brings back everything all the same, and what is to
//! be forgotten is forgotten.

use hypnos::failpoint::Failpoint;

use super::counted::each_is_counted_once;
use super::support::{BACKENDS, Backend, DAY, Output, Points, World, now};

const UNDO: [Failpoint; 8] = [
    Failpoint::UndoBefore,
    Failpoint::UndoBegun,
    Failpoint::RowsBefore,
    Failpoint::RowsCommitted,
    Failpoint::PutBackBefore,
    Failpoint::PutBackDone,
    Failpoint::UndoSettleBefore,
    Failpoint::UndoSettled,
];

const FORGET: [Failpoint; 13] = [
    Failpoint::ForgetBefore,
    Failpoint::ForgetBegun,
    Failpoint::IntentBefore,
    Failpoint::IntentWritten,
    Failpoint::PointsBefore,
    Failpoint::PointsRemoved,
    Failpoint::RowsBefore,
    Failpoint::RowsCommitted,
    Failpoint::SettleBefore,
    Failpoint::SettleWritten,
    Failpoint::ForgetStateBefore,
    Failpoint::ForgetStateDone,
    Failpoint::ForgetOverwritten,
];

/// Ana has two live memories, and five that have expired, each with a tag; bea has one.
fn world(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.user("ana", None);
    world.user("bea", None);
    world.memory("bea", now(), None);
    for _ in 0..2 {
        world.memory("ana", now(), None);
    }
    for _ in 0..5 {
        let id = world.memory("ana", now() - 40 * DAY, Some(7));
        let tag = "INSERT INTO memory_tags VALUES(?1, 'tag')";
        world.rows().execute(tag, [id]).unwrap();
    }
    world.ghost("user:ana");
    world
}

/// What comes after those where pairs are to go, too.
const FORGET_PAIRS: [Failpoint; 11] = [
    Failpoint::ForgetPairsBefore,
    Failpoint::PairBegun,
    Failpoint::RowsCopied,
    Failpoint::AnewMade,
    Failpoint::AnewWritten,
    Failpoint::PointsCopied,
    Failpoint::ManifestWritten,
    Failpoint::PairPublished,
    Failpoint::PairDropBefore,
    Failpoint::PairDropped,
    Failpoint::ForgetPairsDone,
];

fn disturbed(world: &World, args: &[&str], point: Failpoint, action: &str) -> Output {
    let failpoints = format!("{}=1*return({action})", point.as_str());
    Output::of(world.command(args).env("FAILPOINTS", failpoints))
}

fn stories(
    points: &'static [Failpoint],
) -> impl Iterator<Item = (Backend, Failpoint, &'static str, String)> {
    let actions = ["kill", "error", "delay"];
    BACKENDS.into_iter().flat_map(move |backend| {
        points.iter().flat_map(move |point| {
            actions.map(|action| {
                let story = format!("{backend:?}, {point}, {action}");
                (backend, *point, action, story)
            })
        })
    })
}

/// A run that finishes what was begun and does nothing of its own.
fn finish(world: &World, story: &str) {
    let next = world.run(&["--run-now", "--only", "decay"]);
    assert_eq!(next.code, Some(0), "{story}: {next:#?}");
    let status = world.run(&["status", "--json"]).expect(0);
    assert_eq!(status.objects("status")[0]["open_intents"], 0, "{story}");
    let counted = each_is_counted_once(world);
    assert_eq!(counted, Ok(()), "{story}");
}

#[test]
fn an_undo_is_finished_whatever_step_it_is_cut_off_at() {
    let mut steps = 0;
    for (backend, point, action, story) in stories(&UNDO) {
        let world = world(backend);
        let (rows, points) = (world.dump(), world.all_points());
        let _ = world.night().expect(0);
        let emptied = world.dump();
        let undo = disturbed(&world, &["undo", "last"], point, action);
        match action {
            "kill" => assert_eq!(undo.code, None, "{story}: {undo:#?}"),
            "error" => assert_eq!(undo.code, Some(1), "{story}: {undo:#?}"),
            _ => assert_eq!(undo.code, Some(0), "{story}: {undo:#?}"),
        }
        let open = world.run(&["status", "--json"]).expect(0);
        let open = open.objects("status")[0]["open_intents"].as_u64().unwrap();
        let is_half = world.dump() != rows && world.dump() != emptied
            || world.dump() == rows && world.all_points() != points;
        assert!(
            !is_half || open > 0,
            "{story}: half undone, and nothing says so"
        );
        finish(&world, &story);
        // Nothing was begun before the first step, so there is still all to do.
        let _ = world.run(&["undo", "last"]).expect(0);
        assert_eq!(world.dump(), rows, "{story}");
        assert_eq!(world.all_points(), points, "{story}");
        steps += 1;
    }
    println!("undo: disturbed at {steps} steps");
}

/// Rows and points that a certificate counts, and whether it says that it goes on with an erasure.
fn certified(forgotten: &Output) -> (u64, u64, bool) {
    let store = &forgotten.objects("certificate")[0]["stores"][0];
    let removed = store["removed"].as_array().unwrap();
    let of = |what: &str| {
        let copies = removed.iter().filter(|copy| copy["what"] == what);
        copies.map(|copy| copy["count"].as_u64().unwrap()).sum()
    };
    (of("rows"), of("points"), store["begun_at"].is_string())
}

#[test]
fn a_certificate_counts_what_killed_runs_had_removed() {
    let forget = ["forget", "user:ana", "--yes", "--json"];
    for (backend, point, action, story) in stories(&FORGET) {
        if action != "kill" {
            continue;
        }
        let world = world(backend);
        for point in [point, Failpoint::ForgetOverwritten] {
            let cut = disturbed(&world, &forget, point, action);
            assert_eq!(cut.code, None, "{story}: {cut:#?}");
        }
        let whole = world.run(&forget).expect(0);
        assert_eq!(certified(&whole), (7, 8, true), "{story}");
        let again = world.run(&forget).expect(0);
        assert_eq!(certified(&again), (0, 0, false), "{story}");
    }
}

#[test]
fn what_is_to_be_forgotten_is_forgotten_whatever_step_it_is_cut_off_at() {
    let mut steps = 0;
    for (backend, point, action, story) in stories(&FORGET) {
        let world = world(backend);
        let forget = ["forget", "user:ana", "--yes"];
        let cut = disturbed(&world, &forget, point, action);
        match action {
            "kill" => assert_eq!(cut.code, None, "{story}: {cut:#?}"),
            "error" => assert_eq!(cut.code, Some(1), "{story}: {cut:#?}"),
            _ => assert_eq!(cut.code, Some(0), "{story}: {cut:#?}"),
        }
        finish(&world, &story);
        if point != Failpoint::ForgetBefore {
            assert_eq!(world.ids(), [1].into(), "{story}");
            assert_eq!(world.point_rows(), [1].into(), "{story}");
        }
        let _ = world.run(&forget).expect(0);
        assert_eq!(world.ids(), [1].into(), "{story}");
        assert_eq!(world.point_rows(), [1].into(), "{story}");
        steps += 1;
    }
    println!("forget: disturbed at {steps} steps");
}

#[test]
fn pairs_are_forgotten_whatever_step_it_is_cut_off_at_and_one_is_always_good() {
    let mut steps = 0;
    for (backend, point, action, story) in stories(&FORGET_PAIRS) {
        let of_a_server = [Failpoint::AnewMade, Failpoint::AnewWritten];
        if backend == Backend::Sqlite && of_a_server.contains(&point) {
            continue;
        }
        let world = world(backend);
        let old = world.run(&["snapshot", "now", "--json"]).expect(0);
        let old = old.objects("pair")[0]["pair"].as_str().unwrap().to_owned();
        let forget = ["forget", "user:ana", "--snapshots", "--yes"];
        let cut = disturbed(&world, &forget, point, action);
        let of_its_own = [Failpoint::ForgetPairsBefore, Failpoint::ForgetPairsDone];
        let expected = match action {
            "kill" => None,
            "error" => Some(1),
            _ => Some(0),
        };
        assert_eq!(cut.code, expected, "{story}: {cut:#?}");
        if action == "error" && !of_its_own.contains(&point) {
            // All is erased but the pairs: the certificate says so.
            assert!(cut.stdout.contains("REMAINS"), "{story}: {cut:#?}");
        }
        let verified = world.run(&["snapshot", "verify", "--json"]).expect(0);
        assert!(
            !verified.objects("pair").is_empty(),
            "{story}: no good pair"
        );
        finish(&world, &story);
        let verified = world.run(&["snapshot", "verify", "--json"]).expect(0);
        let pairs = verified.objects("pair");
        assert!(!pairs.is_empty(), "{story}: no good pair");
        assert!(pairs.iter().all(|pair| pair["pair"] != *old), "{story}");
        if let Points::Qdrant(collection) = &world.points {
            assert_eq!(collection.beside(), [""; 0], "{story}");
        }
        steps += 1;
    }
    println!("forget with pairs: disturbed at {steps} steps");
}
