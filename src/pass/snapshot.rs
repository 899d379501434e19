//! `snapshot`: one pair of rows and points, where the newest no longer says what the stores hold; then retention.
//!
//! What is left of pairs that were never finished goes, too. Pairs that are no longer kept go only after the newest one
//! is on the shelf.
//!
//! Of a store without a pair, or with a newest one that is damaged, a run takes one before the first removal, and the one
//! of this pass after the last: a dry run says so here. No old pair, however damaged, keeps a new one from being taken.

use crate::error::chain;
use crate::plan::{DropReason, Plan, SnapshotReason, Upkeep};
use crate::snapshot::shelf::Listing;
use crate::snapshot::{Pair, Shelf, SnapshotError, retention};
use crate::view::View;

use super::{Cx, Pass, PassError, PassName};

/// What stands for the pair that is to be taken.
const NEW: &str = "~";

/// The pass.
#[derive(Debug)]
pub struct Snapshot;

impl Pass for Snapshot {
    fn name(&self) -> PassName {
        PassName::Snapshot
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = Plan::new(view.name(), PassName::Snapshot);
        let folder = Shelf::of(view.config());
        let listing = folder.list(view.now())?;
        let drop_pair = |pair: &str, reason| Upkeep::DropPair {
            pair: pair.to_owned(),
            reason,
        };
        let partial = listing.partial.iter();
        plan.upkeep
            .extend(partial.map(|name| drop_pair(name, DropReason::Partial)));
        name_those_left_alone(&listing, &mut plan);
        let reason = match listing.newest() {
            _ if view.has_first_pair() => {
                let reason = SnapshotReason::First;
                plan.upkeep.push(Upkeep::Snapshot { reason });
                Some(SnapshotReason::Changed)
            }
            None => Some(SnapshotReason::First),
            Some(newest) if is_current(view, &folder, newest, cx, &mut plan)? => None,
            Some(_) => Some(SnapshotReason::Changed),
        };
        let ours = listing.pairs.iter().filter(|pair| !listing.is_ahead(pair));
        let mut pairs: Vec<_> = ours
            .map(|pair| (pair.name.as_str(), pair.manifest.taken_at))
            .collect();
        if let Some(reason) = reason {
            plan.upkeep.push(Upkeep::Snapshot { reason });
            pairs.push((NEW, view.now()));
        }
        let expired = retention::expired(&pairs, view.now(), &view.config().passes.snapshot);
        let expired = expired.into_iter().filter(|name| *name != NEW);
        plan.upkeep
            .extend(expired.map(|name| drop_pair(name, DropReason::Expired)));
        Ok(plan)
    }
}

/// Says which pairs are left alone, and why.
fn name_those_left_alone(listing: &Listing, plan: &mut Plan) {
    for (name, error) in &listing.damaged {
        plan.degraded
            .push(format!("pair {name} is left alone: {}", chain(error)));
    }
    for pair in listing.ahead() {
        plan.degraded.push(format!(
            "pair {} says that it was taken in the future, so it is left alone: was the clock wrong? remove its folder \
             once it is not needed",
            pair.name
        ));
    }
    for (name, error) in &listing.strange {
        plan.degraded.push(format!(
            "what is left of a pair, {name}, is left alone: {}; remove its folder once nothing is at work in it",
            chain(error)
        ));
    }
    if let Some((_, error)) = listing.foreign.last() {
        plan.degraded.push(format!(
            "pairs of other stores in the folder are left alone and never expire ({}): {}",
            listing.foreign.len(),
            chain(error)
        ));
    }
}

/// Whether another pair would say the same. Where that cannot be told, for the copies or the stores cannot be read to the
/// end, another one is taken, or the attempt says what is wrong.
fn is_current(
    view: &View<'_>,
    shelf: &Shelf,
    newest: &Pair,
    cx: &Cx<'_>,
    plan: &mut Plan,
) -> Result<bool, SnapshotError> {
    match view.is_current(shelf, newest, cx) {
        Err(error) if !error.is_interruption() => {
            plan.degraded.push(format!(
                "pair {} cannot be compared with the stores: {}",
                newest.name,
                chain(&error)
            ));
            Ok(false)
        }
        compared => compared,
    }
}
