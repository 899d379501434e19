//! A run over one store: lock, journal, what was begun, the passes, and the tidying up.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::journal::{
    after, end_run, injected, lock, pass_row, run_row, state_failure, totals_of, unopened,
};
use super::verdict::{
    LOCKED, census, consent, fail, failed_plan, first_run, needs_first_pair, refuse_without_pair,
    refused_for_open_intents,
};
use super::{Observer, Options, Stopped, account, by_hand, passes, place};
use crate::apply::{self, Job, PruneError, States};
use crate::clock::{Stopwatch, Timestamp};
use crate::config::{self, Config};
use crate::error::{Failure, chain, is_locked};
use crate::exit::Exit;
use crate::failpoint::{Failpoint, hit};
use crate::forget;
use crate::guard::{Approved, Consent, approve};
use crate::panics::{self, Panicked};
use crate::pass::{Cx, Pass, PassError, PassName};
use crate::plan::{ActionKind, Comparison, Plan, SnapshotReason, Tally, Upkeep};
use crate::report::{Applied, Outcome, PassReport, RunReport, add, count};
use crate::snapshot::manifest::Purpose;
use crate::snapshot::{Order, SnapshotError, take};
use crate::state::{RunEnd, StateDir, StateError};
use crate::store::Stores;
use crate::view::View;

/// Reasons of a database that a report names.
const REASONS: usize = 5;

/// Runs the passes over one store, under its lock and in its journal.
pub(super) fn run_store(
    config: &Config,
    store: &config::Store,
    options: &Options,
    cx: &Cx<'_>,
    report: &mut RunReport,
    observer: &mut dyn Observer,
) -> Result<(), Stopped> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let resumed = by_hand::finish_restore(config, store, options, cx)?;
    let stores = match Stores::open(store, &config.state_dir, forget::access(&dir), cx.stop) {
        Ok(stores) => stores,
        Err(failure) => {
            report.restores.extend(resumed);
            return Err(Stopped::Away(unopened(&dir, options, failure)));
        }
    };
    let lock = lock(&dir, options)?;
    let states = States::open(dir, &stores.config).map_err(state_failure)?;
    report.moved.extend(place::claim(&states, store, options)?);
    let watch = Stopwatch::start();
    hit(Failpoint::RunBefore).map_err(injected)?;
    states
        .main()
        .begin_run(&run_row(options))
        .map_err(state_failure)?;
    hit(Failpoint::RunBegun).map_err(injected)?;
    let mut own = RunReport::new(&options.run, options.now);
    own.restores.extend(resumed);
    let run = StoreRun {
        config,
        stores: &stores,
        states: &states,
        options,
        cx: *cx,
        has_first_pair: Cell::new(false),
    };
    let result = match panics::catch(|| run.passes(&mut own, observer)) {
        Ok(result) => result,
        Err(panicked) => Err(Stopped::Panicked(panicked)),
    };
    if own.met_a_lock() {
        own.locked.push(Arc::clone(&stores.name));
    }
    let end = run_end(&own, &result, after(options.now, watch.elapsed()));
    report.absorb(own);
    end_run(states.main(), options, &end)?;
    drop(lock);
    result
}

fn run_end(own: &RunReport, result: &Result<(), Stopped>, finished_at: Timestamp) -> RunEnd {
    let (outcome, exit, error) = match result {
        Ok(()) => (own.outcome(), own.exit(), None),
        Err(stopped) => ("failed", stopped.exit(), Some(stopped.message())),
    };
    RunEnd {
        outcome: outcome.to_owned(),
        exit: exit.code(),
        finished_at,
        error,
    }
}

/// One run in one store.
struct StoreRun<'a> {
    config: &'a Config,
    stores: &'a Stores,
    states: &'a States,
    options: &'a Options,
    cx: Cx<'a>,
    /// Whether this run took the first pair of the store, before its first removal.
    has_first_pair: Cell<bool>,
}

impl StoreRun<'_> {
    fn passes(&self, report: &mut RunReport, observer: &mut dyn Observer) -> Result<(), Stopped> {
        let is_foreign = self.replay(report)?;
        if !is_foreign && !report.interrupted {
            self.finish_erasures(report)?;
        }
        for pass in &self.options.only {
            if !pass.is_enabled(&self.stores.config.passes) {
                tracing::warn!(store = %self.stores.name, %pass, "switched off in the configuration: not run");
            }
        }
        // A pass that panicked says that something about the store is not understood: it is left alone.
        let mut has_panicked = false;
        for pass in passes(self.options, self.stores) {
            report.interrupted |= self.cx.stop.is_requested();
            let pass_report = if report.interrupted || has_panicked {
                self.skipped(pass)
            } else if is_foreign {
                refused_for_open_intents(self.stores, pass)
            } else {
                let watch = Stopwatch::start();
                let worked = panics::catch(|| self.pass(pass, report));
                has_panicked = worked.is_err();
                let mut pass_report = match worked {
                    Ok(pass_report) => pass_report?,
                    Err(panicked) => self.panicked(pass, &panicked),
                };
                pass_report.seconds = watch.elapsed().as_secs_f64();
                pass_report
            };
            self.record(&pass_report)?;
            observer.passed(&pass_report);
            report.passes.push(pass_report);
        }
        if has_panicked {
            return Ok(());
        }
        Ok(self.prune(report)?)
    }

    /// Finishes what earlier runs had begun, and counts it for them. Tells whether some of
    /// it was begun on other stores, and stays open.
    fn replay(&self, report: &mut RunReport) -> Result<bool, Stopped> {
        let replayed = apply::replay::replay(&self.job(PassName::ALL[0])).map_err(|error| {
            let failure = Failure::new(Exit::Failed, chain(&error))
                .while_doing("finish what an earlier run had begun");
            if is_locked(&error) {
                Stopped::Away(failure.with_hint(LOCKED))
            } else {
                Stopped::Failed(failure)
            }
        })?;
        report.replayed += replayed.actions();
        report.interrupted |= replayed.interrupted;
        account::settle(self.states, &self.options.run, self.options.now)?;
        report.unfinished.extend(replayed.unread);
        Ok(replayed.foreign)
    }

    /// Goes on with what earlier runs had begun to forget.
    fn finish_erasures(&self, report: &mut RunReport) -> Result<(), Failure> {
        let finished = forget::finish_earlier(
            self.config,
            &self.stores.config,
            self.states,
            self.options,
            &self.cx,
        )?;
        report.replayed += finished.namespaces;
        report.interrupted |= finished.interrupted;
        report.unfinished.extend(finished.unread);
        Ok(())
    }

    /// Drops what is too old to be undone; leaves it to the next run when a stop was requested.
    fn prune(&self, report: &mut RunReport) -> Result<(), Failure> {
        let horizon = self
            .options
            .now
            .checked_sub(self.config.undo_keep)
            .unwrap_or(Timestamp::MIN);
        let pruned = self
            .states
            .prune(horizon, self.cx.stop)
            .map_err(|error| match error {
                PruneError::State(error) => state_failure(error),
                other => Failure::new(Exit::Failed, other.to_string()),
            })?;
        report.interrupted |= pruned.interrupted;
        for damaged in pruned.damaged {
            // Replay has named it already, most often.
            if report
                .unfinished
                .iter()
                .all(|known| known.partition != damaged.partition)
            {
                report.unfinished.push(damaged);
            }
        }
        Ok(())
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

    fn skipped(&self, pass: &dyn Pass) -> PassReport {
        PassReport::new(Arc::clone(&self.stores.name), pass.name(), Outcome::Skipped)
    }

    fn panicked(&self, pass: &dyn Pass, panicked: &Panicked) -> PassReport {
        let mut report = self.skipped(pass);
        fail(&mut report, panicked);
        report
    }

    /// Plans, asks the guard, applies, and plans once more.
    fn pass(&self, pass: &dyn Pass, run: &mut RunReport) -> Result<PassReport, Failure> {
        self.stores.expire();
        let sightings = self.states.main().sightings().map_err(state_failure)?;
        let view = View::new(self.options.now, self.stores, &sightings);
        let plan = match pass.decide(&view, &self.cx) {
            Ok(plan) => plan,
            Err(error) if error.is_interruption() => {
                run.interrupted = true;
                return Ok(self.skipped(pass));
            }
            Err(error) => return Ok(failed_plan(self.stores, pass, &error)),
        };
        let mut report = PassReport::of_plan(&plan);
        if pass.name() == PassName::Snapshot {
            self.count_first_pair(&mut report);
        }
        self.record_sightings(&plan)?;
        let Some(approved) = self.approved(pass, &view, plan, &mut report, run)? else {
            return Ok(report);
        };
        if approved.plan().is_empty() {
            report.outcome = report.judge();
            let compared = &approved.plan().compared;
            if let Err(error) = self.states.remember(pass.name(), compared) {
                fail(&mut report, &error);
            }
            return Ok(report);
        }
        if approved.plan().removes()
            && let Err(error) = self.take_first_pair()
        {
            if error.is_interruption() {
                run.interrupted = true;
                return Ok(self.skipped(pass));
            }
            refuse_without_pair(&mut report, &error);
            return Ok(report);
        }
        self.apply(pass, approved, &mut report, run);
        Ok(report)
    }

    /// Takes a pair of a store that has none, or a damaged one, before the first removal.
    fn take_first_pair(&self) -> Result<(), SnapshotError> {
        if !needs_first_pair(self.options, &self.stores.config)? {
            return Ok(());
        }
        take(Order {
            stores: self.stores,
            purpose: Purpose::Run,
            run: &self.options.run,
            now: self.options.now,
            is_anew: false,
            cx: self.cx,
        })?;
        self.has_first_pair.set(true);
        Ok(())
    }

    /// Counts the pair that was taken before the first removal for the pass that takes pairs.
    fn count_first_pair(&self, report: &mut PassReport) {
        if self.has_first_pair.get() {
            count(&mut report.planned, ActionKind::Snapshot, 1);
            count(&mut report.applied, ActionKind::Snapshot, 1);
        }
    }

    /// Asks the guard; `None` when the plan must not be applied, which the report then says.
    fn approved(
        &self,
        pass: &dyn Pass,
        view: &View<'_>,
        plan: Plan,
        report: &mut PassReport,
        run: &mut RunReport,
    ) -> Result<Option<Approved>, Failure> {
        let main = self.states.main();
        let first_run = first_run(self.stores, Some(main), pass.name()).map_err(state_failure)?;
        let consent = consent(&plan, self.options, first_run);
        let census = match census(view, &plan, self.config, &self.cx) {
            Ok(census) => census,
            Err(error) if error.is_interruption() => {
                run.interrupted = true;
                *report = self.skipped(pass);
                return Ok(None);
            }
            Err(error) => {
                fail(report, &error);
                return Ok(None);
            }
        };
        match approve(plan, &census, self.config.guard, consent) {
            Ok(approved) => {
                if consent == Consent::Accepted {
                    hit(Failpoint::AcceptBefore).map_err(injected)?;
                    main.accept(pass.name(), self.options.now)
                        .map_err(state_failure)?;
                    hit(Failpoint::Accepted).map_err(injected)?;
                }
                Ok(Some(approved))
            }
            Err(refused) => {
                report.outcome = Outcome::Refused;
                report.refusal = Some(refused.1);
                Ok(None)
            }
        }
    }

    fn apply(
        &self,
        pass: &dyn Pass,
        approved: Approved,
        report: &mut PassReport,
        run: &mut RunReport,
    ) {
        let compared = approved.plan().compared.clone();
        let planned = approved.plan().counts();
        let (applied, result) = apply::apply(approved, &self.job(pass.name()));
        run.interrupted |= applied.interrupted;
        let left = apply::rest(&planned, &applied);
        let Applied {
            applied,
            skipped,
            failed,
            unread,
            refused,
            freed_bytes,
            interrupted,
        } = applied;
        let refused = refused.into_iter().take(REASONS);
        report
            .degraded
            .extend(refused.map(|why| format!("the database refuses to change some rows: {why}")));
        (report.skipped, report.failed) = (skipped, failed);
        add(&mut report.applied, applied);
        report.unread.extend(unread);
        report.freed_bytes = freed_bytes;
        if let Err(error) = result {
            report.residue = left;
            fail(report, &error);
            return;
        }
        if interrupted {
            report.residue = left;
        } else {
            match self.residue(pass, &compared) {
                Ok(residue) => report.residue = residue,
                Err(ResidueError::Pass(error)) if error.is_interruption() => run.interrupted = true,
                Err(error) => return fail(report, &error),
            }
        }
        report.outcome = report.judge();
    }

    /// What planning again, at the same instant, still finds. What was compared is remembered first, and what the second
    /// plan compares after it: what is left to do about is in neither.
    fn residue(
        &self,
        pass: &dyn Pass,
        compared: &[Comparison],
    ) -> Result<Tally<ActionKind>, ResidueError> {
        self.states.remember(pass.name(), compared)?;
        self.stores.expire();
        let sightings = self.states.main().sightings()?;
        let mut plan = pass.decide(
            &View::new(self.options.now, self.stores, &sightings),
            &self.cx,
        )?;
        self.states.remember(pass.name(), &plan.compared)?;
        // What the agent writes once it was copied is for the pair of the next night.
        let is_later = |work: &Upkeep| {
            let reason = SnapshotReason::Changed;
            *work == Upkeep::Snapshot { reason }
        };
        plan.upkeep.retain(|work| !is_later(work));
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
        let finished_at = after(self.options.now, Duration::from_secs_f64(report.seconds));
        hit(Failpoint::PassBefore).map_err(injected)?;
        self.states
            .main()
            .record_pass(
                &self.options.run,
                &pass_row(report, finished_at),
                &totals_of(report),
            )
            .map_err(state_failure)?;
        hit(Failpoint::PassRecorded).map_err(injected)
    }
}

/// Why it is not known what is left after a pass.
#[derive(Debug, thiserror::Error)]
enum ResidueError {
    #[error("look at what is left")]
    State(#[from] StateError),
    #[error("look at what is left")]
    Pass(#[from] PassError),
}
