//! The lock of a store, and what is written down of a run over it.

use std::time::Duration;

use super::Options;
use crate::clock::Timestamp;
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::failpoint::{Failpoint, Injected, hit};
use crate::pass::PassName;
use crate::plan::{ActionKind, Tally};
use crate::report::{Applied, Outcome, PassReport};
use crate::state::{
    ActionResult, Holder, Partition, PassRow, RunEnd, RunLock, RunRow, State, StateDir, StateError,
    Total,
};

/// A night on which a store was away must not look like a night on which there was nothing to do. A store that was
/// never there (its path or mapping is probably wrong) gets no state file, though: then nothing is written at all.
pub(super) fn unopened(dir: &StateDir, options: &Options, failure: Failure) -> Failure {
    let had_nights = || dir.exists(Partition::Main).unwrap_or(false);
    let is_written = match failure.exit {
        Exit::Failed => true,
        Exit::NoStore => had_nights(),
        _ => false,
    };
    if !is_written {
        return failure;
    }
    match write_unopened(dir, options, &failure) {
        Ok(()) => failure,
        Err(also) if also.exit == Exit::Locked => also,
        Err(also) => Failure {
            message: format!("{}; {}", failure.message, also.message),
            ..failure
        },
    }
}

fn write_unopened(dir: &StateDir, options: &Options, failure: &Failure) -> Result<(), Failure> {
    let _lock = lock(dir, options)?;
    let end = RunEnd {
        outcome: "failed".to_owned(),
        exit: failure.exit.code(),
        finished_at: options.now,
        error: Some(failure.message.clone()),
    };
    let write = || {
        let main = dir.open(Partition::Main)?;
        main.begin_run(&run_row(options))?;
        main.finish_run(&options.run, &end)
    };
    write().map_err(state_failure)
}

pub(super) fn lock(dir: &StateDir, options: &Options) -> Result<RunLock, Failure> {
    let holder = Holder {
        pid: std::process::id(),
        run: options.run.clone(),
        host: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        since: options.now,
        command: options.command.clone(),
    };
    dir.lock(&holder).map_err(|error| match error {
        StateError::Held { .. } => Failure::new(Exit::Locked, chain(&error))
            .with_hint("wait for it, or stop it: what it has begun is finished by the next run"),
        error => state_failure(error),
    })
}

pub(super) fn run_row(options: &Options) -> RunRow {
    RunRow {
        run: options.run.clone(),
        command: options.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: options.now,
    }
}

/// Writes down how a run ended, and tidies the state file up.
pub(crate) fn end_run(main: &State, options: &Options, end: &RunEnd) -> Result<(), Failure> {
    hit(Failpoint::FinishBefore).map_err(injected)?;
    main.finish_run(&options.run, end).map_err(state_failure)?;
    hit(Failpoint::FinishWritten).map_err(injected)?;
    main.tidy().map_err(state_failure)?;
    hit(Failpoint::RunFinished).map_err(injected)
}

pub(super) fn pass_row(report: &PassReport, finished_at: Timestamp) -> PassRow {
    PassRow {
        pass: report.pass,
        outcome: report.outcome.as_str().to_owned(),
        succeeded: matches!(report.outcome, Outcome::Idle | Outcome::Applied),
        finished_at,
        seconds: report.seconds,
        planned: json(&report.planned),
        applied: json(&report.applied),
        skipped: json(&report.skipped),
        failed: json(&report.failed),
        residue: json(&report.residue),
        findings: json(&report.findings),
        refusal: report.refusal.as_ref().map(ToString::to_string),
        plan_hash: report.hash.as_ref().map(ToString::to_string),
        error: report.error.clone(),
    }
}

pub(super) fn json(counts: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(counts).unwrap_or_default()
}

pub(super) fn totals_of(report: &PassReport) -> Vec<Total> {
    let done = Applied {
        applied: report.applied.clone(),
        skipped: report.skipped.clone(),
        failed: report.failed.clone(),
        ..Applied::default()
    };
    totals(report.pass, &done)
}

pub(super) fn totals(pass: PassName, done: &Applied) -> Vec<Total> {
    let results = [
        (ActionResult::Applied, &done.applied),
        (ActionResult::Skipped, &done.skipped),
        (ActionResult::Failed, &done.failed),
    ];
    let of = |(result, tally): (ActionResult, &Tally<ActionKind>)| {
        let total = move |(action, count): (&ActionKind, &u64)| Total {
            pass,
            action: *action,
            result,
            count: *count,
        };
        tally.iter().map(total).collect::<Vec<_>>()
    };
    results.into_iter().flat_map(of).collect()
}

/// When something that began with the run had ended. The clock is read once a run; the rest is counted from there.
pub(super) fn after(now: Timestamp, elapsed: Duration) -> Timestamp {
    now.checked_add(elapsed).unwrap_or(now)
}

#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
pub(crate) fn state_failure(error: StateError) -> Failure {
    let hint = error.hint().map(str::to_owned);
    Failure {
        exit: Exit::Failed,
        message: format!("use the state file: {}", chain(&error)),
        hint,
    }
}

pub(crate) fn injected(error: Injected) -> Failure {
    Failure::new(Exit::Failed, error.to_string())
}
