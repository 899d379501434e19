//! `snapshot`: one pair of rows and points, where the newest no longer says what the stores hold; then retention.
//!
//! What is left of pairs that were never finished goes, too. Pairs that are no longer kept go only after the newest one
//! is on the shelf.
//!
//! Of a store without a pair a run takes one before the first removal, and the one of this pass after the last: a dry run
//! says so here.

use std::collections::BTreeSet;

use crate::plan::{DropReason, Plan, SnapshotReason, Upkeep};
use crate::snapshot::{Shelf, retention};
use crate::view::View;

use super::{Cx, Pass, PassError, PassName};

/// What stands for the pair that is to be taken: after every name of its second.
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
        let folder = Shelf::new(&view.config().pairs);
        let listing = folder.list()?;
        let drop_pair = |pair: &str, reason| Upkeep::DropPair {
            pair: pair.to_owned(),
            reason,
        };
        let partial = listing.partial.iter();
        plan.upkeep
            .extend(partial.map(|name| drop_pair(name, DropReason::Partial)));
        for (name, error) in &listing.damaged {
            plan.degraded.push(format!(
                "pair {name} is left alone: {}",
                crate::error::chain(error)
            ));
        }
        for pair in listing.ahead(view.now()) {
            plan.degraded.push(format!(
                "pair {} says that it was taken in the future, so it is left alone: was the clock wrong? remove its \
                 folder once it is not needed",
                pair.name
            ));
        }
        let reason = match listing.newest(view.now()) {
            None if view.has_first_pair() => {
                let reason = SnapshotReason::First;
                plan.upkeep.push(Upkeep::Snapshot { reason });
                Some(SnapshotReason::Changed)
            }
            None => Some(SnapshotReason::First),
            Some(newest) if view.is_current(&folder, newest, cx)? => None,
            Some(_) => Some(SnapshotReason::Changed),
        };
        let ahead: BTreeSet<&str> = listing
            .ahead(view.now())
            .map(|pair| pair.name.as_str())
            .collect();
        let mut pairs: Vec<_> = listing
            .pairs
            .iter()
            .filter(|pair| !ahead.contains(pair.name.as_str()))
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
