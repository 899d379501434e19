//! A dry run over one store: what was begun, and the plan of each pass. Nothing is written.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::journal::state_failure;
use super::verdict::{
    census, consent, fail, failed_plan, first_run, needs_first_pair, refuse_without_pair,
    refused_for_open_intents,
};
use super::{Observer, Options, passes_to_plan, place};
use crate::apply::begun;
use crate::clock::Stopwatch;
use crate::config::{self, Config};
use crate::error::Failure;
use crate::guard::approve;
use crate::pass::{Cx, Pass};
use crate::plan::{Action, Plan};
use crate::report::{Outcome, PassReport, RunReport};
use crate::snapshot::SnapshotError;
use crate::state::{Partition, StateReader};
use crate::store::Stores;
use crate::store::sqlite::Access;
use crate::view::{Going, Sightings, View};

/// Plans the passes over one store.
pub(super) fn dry_run_store(
    config: &Config,
    store: &config::Store,
    options: &Options,
    cx: &Cx<'_>,
    report: &mut RunReport,
    observer: &mut dyn Observer,
) -> Result<(), Failure> {
    let stores = Stores::open(store, &config.state_dir, Access::Read, cx.stop)?;
    let state = stores.state.read(Partition::Main).map_err(state_failure)?;
    if let Some(state) = &state {
        place::require_own(state, store)?;
    }
    let sightings = state
        .as_ref()
        .map_or_else(|| Ok(Sightings::new()), StateReader::sightings)
        .map_err(state_failure)?;
    let listed = begun::list(&stores, cx, &mut |partition, intents| {
        observer.begun(&stores.name, partition, intents);
    })
    .map_err(state_failure)?;
    report.unfinished.extend(listed.unread);
    report.interrupted |= listed.interrupted;
    let run = DryRun {
        config,
        stores: &stores,
        state: state.as_ref(),
        sightings: &sightings,
        options,
        cx,
        gone: RefCell::default(),
        is_changing: Cell::new(false),
        has_first_pair: Cell::new(false),
    };
    for pass in passes_to_plan(options, &stores) {
        if report.interrupted {
            return Ok(());
        }
        let watch = Stopwatch::start();
        let planned = if listed.foreign {
            Some(refused_for_open_intents(&stores, pass))
        } else {
            run.pass(pass, observer)?
        };
        let Some(mut pass_report) = planned else {
            report.interrupted = true;
            return Ok(());
        };
        pass_report.seconds = watch.elapsed().as_secs_f64();
        if pass_report.error.is_some() {
            observer.passed(&pass_report);
        }
        report.passes.push(pass_report);
    }
    Ok(())
}

struct DryRun<'a> {
    config: &'a Config,
    stores: &'a Stores,
    state: Option<&'a StateReader>,
    sightings: &'a Sightings,
    options: &'a Options,
    cx: &'a Cx<'a>,
    /// What the passes so far would have taken: a later one would not see it.
    gone: RefCell<Going>,
    /// Whether a pass so far would change something in a store.
    is_changing: Cell<bool>,
    /// Whether the first pair of the store would have been taken, before the first removal.
    has_first_pair: Cell<bool>,
}

impl DryRun<'_> {
    /// Remembers what a plan takes.
    fn take(&self, plan: &Plan) {
        let targets = plan.actions.iter().filter_map(Action::target);
        let memories = targets.flat_map(|target| {
            let ids = std::iter::once(&target.memory).chain(&target.behind);
            ids.map(|memory| (Arc::clone(&target.partition), memory.id.clone()))
        });
        self.gone.borrow_mut().extend(memories);
        if plan.actions.iter().any(Action::changes_stores) {
            self.is_changing.set(true);
        }
    }

    /// Remembers that a pair would be taken of a store that has none, before the first removal.
    fn take_first_pair(&self, plan: &Plan) -> Result<(), SnapshotError> {
        if plan.removes() && needs_first_pair(self.options, &self.stores.config)? {
            self.has_first_pair.set(true);
        }
        Ok(())
    }

    /// Plans one pass and asks the guard; `None` when a stop was requested.
    fn pass(
        &self,
        pass: &dyn Pass,
        observer: &mut dyn Observer,
    ) -> Result<Option<PassReport>, Failure> {
        let gone = self.gone.borrow().clone();
        let view = View::new(self.options.now, self.stores, self.sightings)
            .without(&gone)
            .changing(self.is_changing.get())
            .paired(self.has_first_pair.get());
        match pass.decide(&view, self.cx) {
            Ok(plan) => self.judge(pass, &view, plan, observer),
            Err(error) if error.is_interruption() => Ok(None),
            Err(error) => Ok(Some(failed_plan(self.stores, pass, &error))),
        }
    }

    fn judge(
        &self,
        pass: &dyn Pass,
        view: &View<'_>,
        plan: Plan,
        observer: &mut dyn Observer,
    ) -> Result<Option<PassReport>, Failure> {
        let first_run = first_run(self.stores, self.state, pass.name()).map_err(state_failure)?;
        let consent = consent(&plan, self.options, first_run);
        let mut report = PassReport::of_plan(&plan);
        // Nothing was skipped or left over yet: what makes it partial was seen by the plan.
        report.outcome = report.judge();
        let census = match census(view, &plan, self.config, self.cx) {
            Ok(census) => census,
            Err(error) if error.is_interruption() => return Ok(None),
            Err(error) => {
                fail(&mut report, &error);
                return Ok(Some(report));
            }
        };
        match approve(plan, &census, self.config.guard, consent) {
            Ok(approved) => {
                let plan = approved.plan();
                if let Err(error) = self.take_first_pair(plan) {
                    refuse_without_pair(&mut report, &error);
                    return Ok(Some(report));
                }
                self.take(plan);
                observer.planned(plan, &report);
            }
            Err(refused) => {
                let (plan, refusal) = *refused;
                report.outcome = Outcome::Refused;
                report.refusal = Some(refusal);
                observer.planned(&plan, &report);
            }
        }
        Ok(Some(report))
    }
}
