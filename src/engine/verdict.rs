//! What the guard is asked about a plan, and how a pass is reported that has none.

use std::error::Error;
use std::sync::Arc;

use super::Options;
use crate::config::{self, Config, FirstRun};
use crate::error::{advice_on_room, chain, is_locked};
use crate::guard::{Census, Consent};
use crate::pass::{Cx, Pass, PassError, PassName};
use crate::plan::{Action, ActionKind, Plan};
use crate::report::{Outcome, PassReport};
use crate::snapshot::{Shelf, SnapshotError};
use crate::state::{StateError, StateReader};
use crate::store::Stores;
use crate::view::View;

/// What to do about rows that stay locked.
pub(super) const LOCKED: &str =
    "another program holds the database for long: the daemon tries again, a single run does not";

/// Whether the store's first run only reports, and no plan of the pass was accepted yet.
pub(super) fn first_run(
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

pub(super) fn consent(plan: &Plan, options: &Options, first_run: bool) -> Consent {
    if !plan.actions.is_empty() && options.accept.cover(&plan.hash()) {
        Consent::Accepted
    } else if first_run {
        Consent::FirstRun
    } else {
        Consent::Bounds
    }
}

/// Whether a store has no pair, or a newest one that is damaged, and gets one before the first removal. Where the pass
/// that takes pairs is switched off or left out, somebody has decided to do without.
pub(super) fn needs_first_pair(
    options: &Options,
    config: &config::Store,
) -> Result<bool, SnapshotError> {
    let is_wanted =
        options.wants(PassName::Snapshot) && PassName::Snapshot.is_enabled(&config.passes);
    Ok(is_wanted && Shelf::of(config).list(options.now)?.needs_first())
}

/// Refuses a plan that removes something, because the first pair cannot be taken.
pub(super) fn refuse_without_pair(report: &mut PassReport, error: &SnapshotError) {
    report.outcome = Outcome::Refused;
    report.hint = error.hint();
    let error = chain(error);
    report.error = Some(format!("take the first pair before anything goes: {error}"));
}

/// Counts the store where the guard will look at the counts.
pub(super) fn census(
    view: &View<'_>,
    plan: &Plan,
    config: &Config,
    cx: &Cx<'_>,
) -> Result<Census, PassError> {
    let removing = plan
        .actions
        .iter()
        .filter(|action| action.removes())
        .count() as u64;
    let behind = plan.actions.iter().any(Action::hides_others);
    let is_small = removing < config.guard.min_count && !behind && !plan.unproven;
    if is_small && view.config().first_run == FirstRun::Apply {
        return Ok(Census::default());
    }
    let points = plan.actions.iter().any(|action| {
        let kind = action.kind();
        kind == ActionKind::DropPoint || kind.is_of_entity() && action.removes()
    });
    view.census(cx, points)
}

/// The report of a pass that could not plan.
pub(super) fn failed_plan(stores: &Stores, pass: &dyn Pass, error: &PassError) -> PassReport {
    let mut report = PassReport::new(Arc::clone(&stores.name), pass.name(), Outcome::Failed);
    fail(&mut report, error);
    if error.is_refusal() {
        report.outcome = Outcome::Refused;
    }
    report
}

/// The report of a pass that must not run, because what an earlier run has begun was begun on other stores.
pub(super) fn refused_for_open_intents(stores: &Stores, pass: &dyn Pass) -> PassReport {
    let mut report = PassReport::new(Arc::clone(&stores.name), pass.name(), Outcome::Refused);
    report.error =
        Some("plan: an earlier run was cut off on other stores, see what is unfinished".into());
    report
}

pub(super) fn fail(report: &mut PassReport, error: &(dyn Error + 'static)) {
    report.outcome = Outcome::Failed;
    report.error = Some(chain(error));
    report.is_locked = is_locked(error);
    report.hint = if report.is_locked {
        Some(LOCKED)
    } else {
        advice_on_room(error)
    };
}
