//! What a person asks for between two nights, under the same lock and in the same journal as a night.

use super::journal::{after, end_run, injected, lock, run_row, state_failure, totals};
use super::{Options, account, place};
use crate::apply::{self, Job, States};
use crate::clock::Stopwatch;
use crate::config::{self, Config};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::failpoint::{Failpoint, hit};
use crate::pass::Cx;
use crate::report::Applied;
use crate::snapshot::SnapshotError;
use crate::snapshot::restore::{self, Resumed};
use crate::state::{RunEnd, StateDir};

/// Works under the lock of a store, and writes down that it did; `end` says how what was done is called. A state of another
/// store is refused.
pub(crate) fn in_a_run<T>(
    dir: StateDir,
    store: &config::Store,
    options: &Options,
    end: impl FnOnce(&T) -> (&'static str, Exit),
    work: impl FnOnce(&States) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let _lock = lock(&dir, options)?;
    let watch = Stopwatch::start();
    let states = States::open(dir, store).map_err(state_failure)?;
    place::take(&states, store)?;
    let main = states.main();
    hit(Failpoint::RunBefore).map_err(injected)?;
    main.begin_run(&run_row(options)).map_err(state_failure)?;
    hit(Failpoint::RunBegun).map_err(injected)?;
    let result = work(&states);
    let (outcome, exit) = match &result {
        Ok(done) => end(done),
        Err(failure) if failure.exit == Exit::Failed => ("failed", failure.exit),
        Err(failure) => ("refused", failure.exit),
    };
    let end = RunEnd {
        outcome: outcome.to_owned(),
        exit: exit.code(),
        finished_at: after(options.now, watch.elapsed()),
        // Whoever asked was told, and it may name an owner.
        error: None,
    };
    end_run(main, options, &end)?;
    result
}

/// Deals with a restore that was cut off, under the lock of the store, and answers what became of it.
pub(crate) fn finish_restore(
    config: &Config,
    store: &config::Store,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Option<Resumed>, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let failed = |error: SnapshotError| {
        Failure::from(&error).while_doing("finish a restore that was cut off")
    };
    let found = restore::cut_off(&dir).map_err(|error| {
        Failure::from(&error).while_doing("look for a restore that was cut off")
    })?;
    if found.is_none() {
        return Ok(None);
    }
    let _lock = lock(&dir, options)?;
    let resumed = restore::resume(config, store, *cx).map_err(failed)?;
    if let Some(resumed) = &resumed {
        tracing::warn!("{resumed}");
    }
    Ok(resumed)
}

/// Finishes what earlier runs had begun.
pub(crate) fn finish_earlier(job: &Job<'_>) -> Result<(), Failure> {
    let replayed = apply::replay::replay(job).map_err(|error| {
        Failure::new(Exit::Failed, chain(&error))
            .while_doing("finish what an earlier run had begun")
    })?;
    account::settle(job.states, job.run, job.now)?;
    match replayed.unread.first() {
        // Nothing is changed before a person has decided about what was begun on other stores.
        Some(unread) if replayed.foreign => Err(Failure::new(
            Exit::LeftOver,
            format!("{}: {}", unread.partition, unread.problem),
        )),
        _ if replayed.interrupted => Err(Failure::new(Exit::Interrupted, "interrupted")),
        _ => Ok(()),
    }
}

/// Adds what was done to the counters of the pass.
pub(crate) fn count(job: &Job<'_>, done: &Applied) -> Result<(), Failure> {
    let totals = totals(job.pass, done);
    job.states
        .main()
        .count(job.run, &totals)
        .map_err(state_failure)
}
