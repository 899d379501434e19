//! The engine: one run over the configured stores.
//!
//! ```text
//! config -> stores -> lock -> run id -> replay open intents
//!   per store, per pass:  View(now) -> plan -> [a dry run stops here] -> guard -> apply -> re-plan -> PassReport
//! RunReport -> journal, output, exit code
//! ```
//!
//! A pass that fails is reported and does not keep the later ones from running; a store that cannot be opened does not
//! keep the other stores from being done.

use std::sync::Arc;

use crate::apply::{self, Job, States};
use crate::clock::{Stopwatch, Timestamp};
use crate::config::{Config, FirstRun};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::failpoint::{Failpoint, Injected, hit};
use crate::guard::{Acceptances, Census, Consent, approve};
use crate::pass::{Cx, Pass, PassName, registry};
use crate::plan::{Action, ActionKind, Plan, Tally};
use crate::report::{Applied, Outcome, PassReport, RunReport, Unopened};
use crate::state::{
    ActionResult, Holder, Partition, PassRow, RunEnd, RunLock, RunRow, StateDir, StateError,
    StateReader, Total,
};
use crate::store::Stores;
use crate::store::sqlite::Access;
use crate::view::{Sightings, View};

/// What a run is asked to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The id of the run.
    pub run: String,
    /// The instant it plans for.
    pub now: Timestamp,
    /// Only these passes; empty for all that are enabled.
    pub only: Vec<PassName>,
    /// Not these passes.
    pub skip: Vec<PassName>,
    /// Only these stores; empty for all.
    pub stores: Vec<String>,
    /// Plans that a person accepted.
    pub accept: Acceptances,
    /// How the run came about, for the lock and the journal.
    pub command: String,
}

impl Options {
    fn wants(&self, pass: PassName) -> bool {
        (self.only.is_empty() || self.only.contains(&pass)) && !self.skip.contains(&pass)
    }

    fn wants_store(&self, name: &str) -> bool {
        self.stores.is_empty() || self.stores.iter().any(|wanted| wanted == name)
    }
}

/// Hears of each pass as it ends.
pub trait Observer {
    /// A plan was made and nothing will be done with it.
    fn planned(&mut self, plan: &Plan, report: &PassReport);
    /// A pass has ended.
    fn passed(&mut self, report: &PassReport);
    /// A store could not be opened.
    fn unopened(&mut self, store: &Unopened);
}

/// Runs the passes over the stores.
pub fn run(
    config: &Config,
    options: &Options,
    cx: &Cx<'_>,
    observer: &mut dyn Observer,
) -> RunReport {
    each_store(config, options, cx, observer, |store, report, observer| {
        run_store(config, store, options, cx, report, observer)
    })
}

/// Plans every pass and changes nothing: neither a store, nor a state file, nor a lock.
pub fn dry_run(
    config: &Config,
    options: &Options,
    cx: &Cx<'_>,
    observer: &mut dyn Observer,
) -> RunReport {
    each_store(config, options, cx, observer, |store, report, observer| {
        let stores = Stores::open(store, &config.state_dir, Access::Read, cx.stop)?;
        let state = stores.state.read(Partition::Main).map_err(state_failure)?;
        let sightings = state
            .as_ref()
            .map_or_else(|| Ok(Sightings::new()), StateReader::sightings);
        let sightings = sightings.map_err(state_failure)?;
        for pass in passes(options, &stores) {
            let watch = Stopwatch::start();
            let view = View::new(options.now, &stores, &sightings);
            let plan = pass.plan(&view, cx);
            let mut pass_report = match plan {
                Ok(plan) => {
                    let first_run =
                        first_run(&stores, state.as_ref(), pass.name()).map_err(state_failure)?;
                    let mut pass_report = PassReport::of_plan(&plan);
                    let consent = consent(&plan, options, first_run);
                    pass_report.outcome = if plan.unread.is_empty() {
                        Outcome::Idle
                    } else {
                        Outcome::Partial
                    };
                    match census(&view, &plan, config)
                        .map(|census| approve(plan, &census, config.guard, consent))
                    {
                        Ok(Ok(approved)) => observer.planned(approved.plan(), &pass_report),
                        Ok(Err(refused)) => {
                            let (plan, refusal) = *refused;
                            pass_report.outcome = Outcome::Refused;
                            pass_report.refusal = Some(refusal);
                            observer.planned(&plan, &pass_report);
                        }
                        Err(error) => fail(&mut pass_report, &error),
                    }
                    pass_report
                }
                Err(error) if error.is_interruption() => {
                    report.interrupted = true;
                    return Ok(());
                }
                Err(error) => failed_plan(&stores, pass, &error),
            };
            pass_report.seconds = watch.elapsed().as_secs_f64();
            if pass_report.error.is_some() {
                observer.passed(&pass_report);
            }
            report.passes.push(pass_report);
        }
        Ok(())
    })
}

fn each_store(
    config: &Config,
    options: &Options,
    cx: &Cx<'_>,
    observer: &mut dyn Observer,
    mut work: impl FnMut(
        &crate::config::Store,
        &mut RunReport,
        &mut dyn Observer,
    ) -> Result<(), Failure>,
) -> RunReport {
    let watch = Stopwatch::start();
    let mut report = RunReport {
        run: options.run.clone(),
        started_at: options.now,
        unopened: Vec::new(),
        replayed: 0,
        unfinished: Vec::new(),
        passes: Vec::new(),
        interrupted: false,
        seconds: 0.0,
    };
    for store in config
        .stores
        .iter()
        .filter(|store| options.wants_store(&store.name))
    {
        if cx.stop.is_requested() {
            report.interrupted = true;
        }
        if report.interrupted {
            break;
        }
        if let Err(failure) = work(store, &mut report, observer) {
            if failure.exit == Exit::Interrupted {
                report.interrupted = true;
                break;
            }
            let Failure {
                exit,
                message,
                hint,
            } = failure;
            let unopened = Unopened {
                store: store.name.as_str().into(),
                error: message,
                hint,
                exit,
            };
            observer.unopened(&unopened);
            report.unopened.push(unopened);
        }
    }
    report.seconds = watch.elapsed().as_secs_f64();
    report
}

fn passes<'a>(
    options: &'a Options,
    stores: &'a Stores,
) -> impl Iterator<Item = &'static dyn Pass> + 'a {
    registry()
        .into_iter()
        .filter(|pass| options.wants(pass.name()) && pass.name().is_enabled(&stores.config.passes))
}

fn run_store(
    config: &Config,
    store: &crate::config::Store,
    options: &Options,
    cx: &Cx<'_>,
    report: &mut RunReport,
    observer: &mut dyn Observer,
) -> Result<(), Failure> {
    let state = StateDir::new(&config.state_dir, &store.name);
    let stores = match Stores::open(store, &config.state_dir, Access::Write, cx.stop) {
        Ok(stores) => stores,
        Err(failure) => return Err(journal_unopened(&state, options, failure)),
    };
    let lock = lock(&state, options)?;
    let states = States::open(state).map_err(state_failure)?;
    let (before, unfinished) = (report.passes.len(), report.unfinished.len());
    let watch = Stopwatch::start();
    states
        .main()
        .begin_run(&run_row(options))
        .map_err(state_failure)?;
    hit(Failpoint::RunBegun).map_err(injected)?;
    let mut run = StoreRun {
        config,
        stores: &stores,
        states: &states,
        options,
        cx: *cx,
    };
    let result = run.passes(report, observer);
    let own = RunReport {
        run: report.run.clone(),
        started_at: report.started_at,
        unopened: Vec::new(),
        replayed: report.replayed,
        unfinished: report.unfinished[unfinished..].to_vec(),
        passes: report.passes[before..].to_vec(),
        interrupted: report.interrupted,
        seconds: watch.elapsed().as_secs_f64(),
    };
    let (outcome, exit) = match &result {
        Ok(()) => (own.outcome(), own.exit()),
        Err(failure) => ("failed", failure.exit),
    };
    let end = RunEnd {
        outcome: outcome.to_owned(),
        exit: exit.code(),
        finished_at: after(options.now, watch.elapsed()),
    };
    states
        .main()
        .finish_run(&options.run, &end)
        .and_then(|()| states.main().tidy())
        .map_err(state_failure)?;
    hit(Failpoint::RunFinished).map_err(injected)?;
    drop(lock);
    result
}

/// A night on which a store was away must not look like a night on which there was nothing to do. What is wrong with
/// the configuration is not written down: then nothing is written at all.
fn journal_unopened(state: &StateDir, options: &Options, failure: Failure) -> Failure {
    if failure.exit != Exit::Failed {
        return failure;
    }
    let journal = || -> Result<(), Failure> {
        let _lock = lock(state, options)?;
        let states = States::open(state.clone()).map_err(state_failure)?;
        let end = RunEnd {
            outcome: "failed".to_owned(),
            exit: failure.exit.code(),
            finished_at: options.now,
        };
        let main = states.main();
        main.begin_run(&run_row(options))
            .and_then(|()| main.finish_run(&options.run, &end))
            .map_err(state_failure)
    };
    match journal() {
        Ok(()) => failure,
        Err(also) if also.exit == Exit::Locked => also,
        Err(also) => Failure {
            message: format!("{}; {}", failure.message, also.message),
            ..failure
        },
    }
}

pub(crate) fn lock(state: &StateDir, options: &Options) -> Result<RunLock, Failure> {
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
    state.lock(&holder).map_err(|error| match error {
        StateError::Held { .. } => Failure::new(Exit::Locked, chain(&error))
            .with_hint("wait for it, or stop it: what it has begun is finished by the next run"),
        error => state_failure(error),
    })
}

pub(crate) fn run_row(options: &Options) -> RunRow {
    RunRow {
        run: options.run.clone(),
        command: options.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: options.now,
    }
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

/// One run in one store.
struct StoreRun<'a> {
    config: &'a Config,
    stores: &'a Stores,
    states: &'a States,
    options: &'a Options,
    cx: Cx<'a>,
}

impl StoreRun<'_> {
    fn passes(
        &mut self,
        report: &mut RunReport,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        self.replay(report)?;
        for pass in passes(self.options, self.stores) {
            let pass_report = if report.interrupted || self.cx.stop.is_requested() {
                report.interrupted = true;
                PassReport::new(Arc::clone(&self.stores.name), pass.name(), Outcome::Skipped)
            } else {
                let watch = Stopwatch::start();
                let mut pass_report = self.pass(pass, report)?;
                pass_report.seconds = watch.elapsed().as_secs_f64();
                pass_report
            };
            self.record(&pass_report)?;
            observer.passed(&pass_report);
            report.passes.push(pass_report);
        }
        self.states
            .prune(self.undo_horizon())
            .map_err(state_failure)
    }

    /// Finishes what earlier runs had begun, and counts it for the passes that had planned it.
    fn replay(&self, report: &mut RunReport) -> Result<(), Failure> {
        let replayed = apply::replay::replay(&self.job(PassName::ALL[0])).map_err(|error| {
            if error.is_interruption() {
                return Failure::new(Exit::Interrupted, "interrupted");
            }
            Failure::new(Exit::Failed, chain(&error))
                .while_doing("finish what an earlier run had begun")
        })?;
        report.replayed += replayed.actions();
        let totals = replayed
            .by_pass
            .iter()
            .flat_map(|(pass, done)| totals(*pass, done))
            .collect::<Vec<_>>();
        self.states
            .main()
            .add_totals(&totals)
            .map_err(state_failure)?;
        report.unfinished.extend(replayed.unread);
        Ok(())
    }

    fn undo_horizon(&self) -> Timestamp {
        self.options
            .now
            .checked_sub(self.config.undo_keep)
            .unwrap_or(Timestamp::MIN)
    }

    fn job(&self, pass: PassName) -> Job<'_> {
        Job {
            stores: self.stores,
            states: self.states,
            run: &self.options.run,
            pass,
            now: self.options.now,
            cx: self.cx,
        }
    }

    /// Plans, asks the guard, applies, and plans once more.
    fn pass(&self, pass: &dyn Pass, run: &mut RunReport) -> Result<PassReport, Failure> {
        let sightings = self.states.main().sightings().map_err(state_failure)?;
        let view = View::new(self.options.now, self.stores, &sightings);
        let plan = match pass.plan(&view, &self.cx) {
            Ok(plan) => plan,
            Err(error) if error.is_interruption() => {
                run.interrupted = true;
                return Ok(PassReport::new(
                    Arc::clone(&self.stores.name),
                    pass.name(),
                    Outcome::Skipped,
                ));
            }
            Err(error) => return Ok(failed_plan(self.stores, pass, &error)),
        };
        let mut report = PassReport::of_plan(&plan);
        self.record_sightings(&plan)?;
        let first_run =
            first_run(self.stores, Some(self.states.main()), pass.name()).map_err(state_failure)?;
        let consent = consent(&plan, self.options, first_run);
        let census = match census(&view, &plan, self.config) {
            Ok(census) => census,
            Err(error) => {
                fail(&mut report, &error);
                return Ok(report);
            }
        };
        let approved = match approve(plan, &census, self.config.guard, consent) {
            Ok(approved) => approved,
            Err(refused) => {
                report.outcome = Outcome::Refused;
                report.refusal = Some(refused.1);
                return Ok(report);
            }
        };
        if consent == Consent::Accepted {
            self.states
                .main()
                .accept(pass.name(), self.options.now)
                .map_err(state_failure)?;
        }
        if approved.plan().actions.is_empty() {
            report.outcome = report.judge();
            return Ok(report);
        }
        self.apply(pass, approved, &mut report, run);
        Ok(report)
    }

    fn apply(
        &self,
        pass: &dyn Pass,
        approved: crate::guard::Approved,
        report: &mut PassReport,
        run: &mut RunReport,
    ) {
        let (applied, result) = apply::apply(approved, &self.job(pass.name()));
        run.interrupted |= applied.interrupted;
        let left = apply::rest(&report.planned, &applied);
        let Applied {
            applied,
            skipped,
            failed,
            unread,
            interrupted,
        } = applied;
        (report.applied, report.skipped, report.failed) = (applied, skipped, failed);
        report.unread.extend(unread);
        if let Err(error) = result {
            report.residue = left;
            fail(report, &error);
            return;
        }
        if interrupted {
            report.residue = left;
        } else {
            match self.residue(pass) {
                Ok(residue) => report.residue = residue,
                Err(ResidueError::Pass(error)) if error.is_interruption() => run.interrupted = true,
                Err(error) => return fail(report, &error),
            }
        }
        report.outcome = report.judge();
    }

    /// What planning again, at the same instant, still finds.
    fn residue(&self, pass: &dyn Pass) -> Result<Tally<ActionKind>, ResidueError> {
        let sightings = self.states.main().sightings()?;
        let plan = pass.plan(
            &View::new(self.options.now, self.stores, &sightings),
            &self.cx,
        )?;
        Ok(plan.counts())
    }

    fn record_sightings(&self, plan: &Plan) -> Result<(), Failure> {
        let Some(seen) = &plan.sightings else {
            return Ok(());
        };
        hit(Failpoint::SightingsBefore).map_err(injected)?;
        self.states
            .main()
            .record_sightings(seen, self.options.now)
            .map_err(state_failure)?;
        hit(Failpoint::SightingsWritten).map_err(injected)
    }

    fn record(&self, report: &PassReport) -> Result<(), Failure> {
        let row = PassRow {
            pass: report.pass,
            outcome: report.outcome.as_str().to_owned(),
            succeeded: matches!(report.outcome, Outcome::Idle | Outcome::Applied),
            finished_at: after(
                self.options.now,
                std::time::Duration::from_secs_f64(report.seconds),
            ),
            seconds: report.seconds,
            planned: json(&report.planned),
            applied: json(&report.applied),
            skipped: json(&report.skipped),
            failed: json(&report.failed),
            residue: json(&report.residue),
            findings: json(&report.findings),
            refusal: report.refusal.as_ref().map(ToString::to_string),
            plan_hash: report.hash.as_ref().map(ToString::to_string),
        };
        let done = Applied {
            applied: report.applied.clone(),
            skipped: report.skipped.clone(),
            failed: report.failed.clone(),
            ..Applied::default()
        };
        let totals = totals(report.pass, &done);
        self.states
            .main()
            .record_pass(&self.options.run, &row, &totals)
            .map_err(state_failure)?;
        hit(Failpoint::PassRecorded).map_err(injected)
    }
}

/// When something that began with the run had ended. The clock is read once a run; the rest is counted from there.
pub(crate) fn after(now: Timestamp, elapsed: std::time::Duration) -> Timestamp {
    now.checked_add(elapsed).unwrap_or(now)
}

fn json(counts: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(counts).unwrap_or_default()
}

pub(crate) fn totals(pass: PassName, done: &Applied) -> Vec<Total> {
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

/// Whether the store's first run only reports, and no plan of the pass was accepted yet.
fn first_run(
    stores: &Stores,
    state: Option<&StateReader>,
    pass: PassName,
) -> Result<bool, StateError> {
    if stores.config.first_run == FirstRun::Apply {
        return Ok(false);
    }
    state.map_or(Ok(true), |state| {
        state.is_accepted(pass).map(|accepted| !accepted)
    })
}

fn consent(plan: &Plan, options: &Options, first_run: bool) -> Consent {
    if !plan.actions.is_empty() && options.accept.cover(&plan.hash()) {
        Consent::Accepted
    } else if first_run {
        Consent::FirstRun
    } else {
        Consent::Bounds
    }
}

/// Counts the store where the guard will look at the counts.
fn census(view: &View<'_>, plan: &Plan, config: &Config) -> Result<Census, crate::pass::PassError> {
    let removing: u64 = plan.actions.len() as u64;
    let behind = plan.actions.iter().any(Action::hides_others);
    if removing < config.guard.min_count && !behind && view.config().first_run == FirstRun::Apply {
        return Ok(Census::default());
    }
    let points = plan
        .actions
        .iter()
        .any(|action| action.kind() == ActionKind::DropPoint);
    view.census(points)
}

fn failed_plan(stores: &Stores, pass: &dyn Pass, error: &crate::pass::PassError) -> PassReport {
    let mut report = PassReport::new(Arc::clone(&stores.name), pass.name(), Outcome::Failed);
    fail(&mut report, error);
    if error.is_refusal() {
        report.outcome = Outcome::Refused;
    }
    report
}

fn fail(report: &mut PassReport, error: &(dyn std::error::Error + 'static)) {
    report.outcome = Outcome::Failed;
    report.error = Some(chain(error));
}

/// Why it is not known what is left after a pass.
#[derive(Debug, thiserror::Error)]
enum ResidueError {
    #[error("look at what is left")]
    State(#[from] StateError),
    #[error("look at what is left")]
    Pass(#[from] crate::pass::PassError),
}
