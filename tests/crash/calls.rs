//! The Nth call fails, for rising N until a run comes through without meeting it: once, and for good; of the row
//! database, the state file and the vector store in turn. After each the promises, one more run, and the promises again.
//!
//! SQLite is failed below its file layer ([`crate::vfs`]): every read, write, sync. Qdrant is failed on the wire. By
//! default not every N, but steps of a few; every one with `HYPNOS_EVERY_STEP=1`.

use hypnos::engine::{self, Observer, Options};
use hypnos::guard::Acceptances;
use hypnos::pass::{Cx, Silent};
use hypnos::plan::Plan;
use hypnos::report::{PassReport, Unopened};
use hypnos::state::IntentRecord;
use hypnos::stop::Stop;
use qdrant_peer::Peer;
use tonic::Code;

use crate::checker::{after_one_more_run, at_any_time, the_journal_is_honest};
use crate::seed::{self, Case};
use crate::setting;
use crate::support::{Backend, now};
use crate::vfs::{self, Failing};

struct Quiet;

impl Observer for Quiet {
    fn begun(&mut self, _: &str, _: &str, _: &[IntentRecord]) {}
    fn planned(&mut self, _: &Plan, _: &PassReport) {}
    fn passed(&mut self, _: &PassReport) {}
    fn unopened(&mut self, _: &Unopened) {}
}

/// One night in this process, below which the disk can be made to fail; its exit code.
fn night(case: &Case) -> i32 {
    let config = hypnos::config::load(&case.world.path("hypnos.toml")).unwrap();
    let options = Options {
        run: uuid::Uuid::now_v7().to_string(),
        now: jiff::Timestamp::from_second(now()).unwrap(),
        only: Vec::new(),
        skip: Vec::new(),
        stores: Vec::new(),
        accept: Acceptances::default(),
        command: "crash".into(),
    };
    let stop = Stop::default();
    let cx = Cx {
        stop: &stop,
        progress: &Silent,
    };
    let report = engine::run(&config, &options, &cx, &mut Quiet);
    i32::from(report.exit().code())
}

/// What came of a night in which something failed.
fn judge(case: &Case, struck: u64, code: i32) -> Result<(), String> {
    let seen = at_any_time(case)?;
    the_journal_is_honest(case, Some(code))?;
    if struck == 0 && code != 0 {
        return Err(format!("nothing failed, and the run ended with {code}"));
    }
    if code == 0 {
        // What says that all is done has done all.
        after_one_more_run(case, &seen)?;
    }
    let next = case.world.night();
    if next.code != Some(0) {
        return Err(format!("the next run: {next:#?}"));
    }
    after_one_more_run(case, &seen)
}

/// Fails rising calls in new cases, until one night does not come by its call any more. Returns how many it failed.
fn rising(
    stride: u64,
    what: &str,
    new: impl Fn() -> Case,
    disturbed: impl Fn(&Case, u64) -> (u64, i32),
) -> u64 {
    let stride = match setting("HYPNOS_EVERY_STEP") {
        Some(_) => 1,
        None => stride,
    };
    let mut nth = 1;
    let mut failed = 0;
    loop {
        let case = new();
        let (struck, code) = disturbed(&case, nth);
        judge(&case, struck, code).unwrap_or_else(|why| panic!("{what}, call {nth}: {why}"));
        if struck == 0 {
            println!("{what}: {failed} of {nth} calls failed: every promise held");
            return failed;
        }
        failed += 1;
        nth += stride;
    }
}

/// The files of SQLite that a night on a table of vectors works with.
fn disk(file: &str, stride: u64) {
    for failing in [Failing::Once, Failing::ForGood, Failing::Full] {
        let new = || seed::full(Backend::Sqlite);
        let failed = rising(stride, &format!("{file}, {failing:?}"), new, |case, nth| {
            let armed = vfs::fail(&case.world.path(file), nth, failing);
            let code = night(case);
            (armed.struck(), code)
        });
        assert!(failed > 0, "{file} was never met");
    }
}

#[test]
fn the_nth_call_of_the_row_database_fails() {
    disk("memory.db", 29);
}

#[test]
fn the_nth_call_of_the_vector_table_fails() {
    disk("vectors.db", 17);
}

#[test]
fn the_nth_call_of_the_state_file_fails() {
    disk("state/agent/main.db", 29);
}

#[test]
fn the_nth_call_of_the_vector_server_fails() {
    let peer = Peer::start();
    for for_good in [false, true] {
        let what = if for_good { "from it on" } else { "once" };
        let new = || seed::full_at(&peer.url());
        let _ = rising(5, &format!("Qdrant, {what}"), new, |case, nth| {
            let before = peer.faults().struck();
            peer.faults().fail_call(
                nth,
                for_good,
                Code::Internal,
                "the disk of the server is on fire",
            );
            let code = night(case);
            let struck = peer.faults().struck() - before;
            peer.faults().clear();
            (struck, code)
        });
    }
}

/// A server that says a removal is done, and has not done it, or only in part: nothing that it still has is taken for
/// gone, and the run does not say that all is well.
#[test]
fn a_removal_that_the_server_only_claims_is_not_believed() {
    let lies: [fn(&Peer); 2] = [
        |peer| peer.faults().acknowledge_only("Points/Delete"),
        |peer| peer.faults().lie_about_delete(1),
    ];
    for (which, lie) in lies.into_iter().enumerate() {
        let peer = Peer::start();
        let case = seed::full_at(&peer.url());
        lie(&peer);
        let code = night(&case);
        assert_ne!(code, 0, "lie {which} was believed");
        let seen = at_any_time(&case).unwrap_or_else(|why| panic!("lie {which}: {why}"));
        the_journal_is_honest(&case, Some(code)).unwrap();
        peer.faults().clear();
        let late = at_any_time(&case).unwrap_or_else(|why| panic!("lie {which}, late: {why}"));
        let _ = case.world.night().expect(0);
        for seen in [seen, late] {
            after_one_more_run(&case, &seen).unwrap_or_else(|why| panic!("lie {which}: {why}"));
        }
    }
}
