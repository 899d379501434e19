//! Random small stores against a reference: a night leaves exactly what the design says, and so does the next; an
//! edit in the middle of it is never lost. And stores of every preset among [`strangers`], which are left alone.
//!
//! The cases are the same every time. `PROPTEST_CASES=5000 cargo test --test model` looks further.

#![allow(let_underscore_drop, reason = "an answer that a test does not look at")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

#[path = "../support/mod.rs"]
mod support;

mod reference;
mod store;
mod strangers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hypnos::engine::{self, Observer, Options};
use hypnos::failpoint::Failpoint;
use hypnos::guard::Acceptances;
use hypnos::pass::{Cx, PassName, Silent};
use hypnos::plan::{Finding, Plan};
use hypnos::report::{Outcome, PassReport, RunReport, Unopened};
use hypnos::state::IntentRecord;
use hypnos::stop::Stop;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use reference::Spent;
use store::State;
use support::{Backend, World};

/// The instant of every night: 2026-06-01T00:00:00Z.
pub(crate) const NOW: i64 = 1_780_272_000;

/// Failpoints are armed for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Quiet;

impl Observer for Quiet {
    fn begun(&mut self, _: &str, _: &str, _: &[IntentRecord]) {}
    fn planned(&mut self, _: &Plan, _: &PassReport) {}
    fn passed(&mut self, _: &PassReport) {}
    fn unopened(&mut self, _: &Unopened) {}
}

/// One night, in this process.
fn night(world: &World, passes: &[PassName]) -> RunReport {
    let report = night_at(&world.path("hypnos.toml"), NOW, passes);
    assert!(report.unopened.is_empty(), "{report:#?}");
    report
}

/// The night of an instant over what a configuration names.
fn night_at(config: &std::path::Path, now: i64, passes: &[PassName]) -> RunReport {
    let config = hypnos::config::load(config).unwrap();
    let options = Options {
        run: uuid::Uuid::new_v4().to_string(),
        now: jiff::Timestamp::from_second(now).unwrap(),
        only: passes.to_vec(),
        skip: Vec::new(),
        stores: Vec::new(),
        accept: Acceptances::default(),
        command: "model".into(),
    };
    let stop = Stop::default();
    let cx = Cx {
        stop: &stop,
        progress: &Silent,
    };
    engine::run(&config, &options, &cx, &mut Quiet)
}

/// Checks `cases` stores (or as many as `PROPTEST_CASES` says), the same ones every time.
fn check<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let more = std::env::var("PROPTEST_CASES").ok();
    let config = Config {
        cases: more.and_then(|cases| cases.parse().ok()).unwrap_or(cases),
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let result = TestRunner::new_with_rng(config, rng).run(strategy, test);
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// The passes whose work is a matter of dates and owners.
const CERTAIN: [PassName; 2] = [PassName::Ttl, PassName::Orphans];
/// Those that the reference knows.
const ALL: [PassName; 4] = [
    PassName::Ttl,
    PassName::Orphans,
    PassName::Decay,
    PassName::Review,
];

/// Night after night until the reference finds nothing more to do; then one that does nothing.
fn nights_follow_the_reference(
    state: State,
    passes: &[PassName],
    backend: Backend,
) -> Result<(), TestCaseError> {
    let world = store::build(&state, backend);
    let mut state = state;
    let mut spent = Spent::new();
    loop {
        let mut expected = reference::night(&state);
        if passes.contains(&PassName::Decay) {
            reference::fade(&mut expected, &mut spent);
        }
        let report = night(&world, passes);
        let found = store::read(&world);
        prop_assert_eq!(&found, &expected, "{:#?}", report.passes);
        let rows = found.rows.keys().copied().collect();
        prop_assert_eq!(store::tagged(&world), rows, "tags go with their memory");
        if expected == state {
            // What should go and is held by somebody else's keeps a night from ever being idle.
            let is_held = |pass: &PassReport| {
                pass.findings.contains_key(&Finding::Blocked) && pass.planned.is_empty()
            };
            let calm = |pass: &PassReport| match pass.outcome {
                Outcome::Idle | Outcome::Refused => true,
                // It asks and removes nothing: the first of these nights may be its first.
                Outcome::Applied => pass.pass == PassName::Review,
                Outcome::Partial => is_held(pass),
                _ => false,
            };
            prop_assert!(report.passes.iter().all(calm), "{:#?}", report.passes);
            return Ok(());
        }
        state = expected;
    }
}

#[test]
fn a_night_leaves_what_the_reference_says_sqlite() {
    let _alone = alone();
    check(48, &store::any(), |state| {
        nights_follow_the_reference(state, &CERTAIN, Backend::Sqlite)
    });
}

#[test]
fn what_fades_and_is_asked_about_is_what_the_reference_says() {
    let _alone = alone();
    check(48, &store::any(), |state| {
        nights_follow_the_reference(state, &ALL, Backend::Sqlite)
    });
}

#[test]
fn a_night_leaves_what_the_reference_says_qdrant() {
    let _alone = alone();
    check(8, &store::any(), |state| {
        nights_follow_the_reference(state, &ALL, Backend::Qdrant)
    });
}

/// Where the application may come in between.
const MOMENTS: [Failpoint; 4] = [
    Failpoint::IntentBefore,
    Failpoint::PointsBefore,
    Failpoint::PointsRemoved,
    Failpoint::RowsBefore,
];

/// Makes a memory worth keeping, whatever it was; whether it was there.
fn confirm(world: &std::path::Path, id: i64) -> bool {
    let sql = "UPDATE memories SET content = 'edited', ttl_days = NULL, expires_at = NULL, superseded_by = NULL
               WHERE id = ?1 AND user_id IN ('ana', 'bob')";
    support::open(world).execute(sql, [id]).unwrap() == 1
}

/// An edit at any step of a night: the memory stays, and so does its point; whatever else had to stay stays, too.
fn an_edit_is_never_lost(
    state: &State,
    moment: Failpoint,
    nth: usize,
    id: i64,
) -> Result<(), TestCaseError> {
    let world = store::build(state, Backend::Sqlite);
    let edited = Arc::new(AtomicUsize::new(0));
    let (seen, result, path) = (
        AtomicUsize::new(0),
        Arc::clone(&edited),
        world.path("memory.db"),
    );
    let edit = move || {
        if seen.fetch_add(1, Ordering::Relaxed) == nth && confirm(&path, id) {
            result.store(1, Ordering::Relaxed);
        }
    };
    fail::cfg_callback(moment.as_str(), edit).unwrap();
    let report = night(&world, &CERTAIN);
    fail::remove(moment.as_str());
    let found = store::read(&world);
    let story = || format!("{:#?}", report.passes);
    // What an edit may free is left out: memories of the deleted user, which it may have held, and points without a row.
    let undisturbed = reference::night(state).rows;
    for (kept, row) in undisturbed.iter().filter(|(_, row)| row.user != "zoe") {
        prop_assert!(found.rows.contains_key(kept), "{kept} is lost: {}", story());
        let point = (format!("user:{}", row.user), *kept);
        let had_point = state.points.contains(&point);
        prop_assert_eq!(found.points.contains(&point), had_point, "{}", story());
    }
    if edited.load(Ordering::Relaxed) == 1 {
        prop_assert!(
            found.rows.contains_key(&id),
            "the edit is lost: {}",
            story()
        );
        let point = (format!("user:{}", found.rows[&id].user), id);
        let had_point = state.points.contains(&point);
        prop_assert_eq!(found.points.contains(&point), had_point, "{}", story());
    }
    nights_go_on(&world)
}

/// After a disturbed night the next ones do what the reference says of what is there.
fn nights_go_on(world: &World) -> Result<(), TestCaseError> {
    loop {
        let state = store::read(world);
        let expected = reference::night(&state);
        let report = night(world, &CERTAIN);
        prop_assert_eq!(&store::read(world), &expected, "{:#?}", report.passes);
        if expected == state {
            return Ok(());
        }
    }
}

#[test]
fn an_edit_in_the_middle_of_a_night_is_never_lost() {
    let _alone = alone();
    let strategy = (
        store::any(),
        prop::sample::select(&MOMENTS[..]),
        0..3_usize,
        1..10_i64,
    );
    check(48, &strategy, |(state, moment, nth, id)| {
        an_edit_is_never_lost(&state, moment, nth, id)
    });
}
