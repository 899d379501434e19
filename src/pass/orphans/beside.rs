//! What stands beside points that are the rows: entities that list memories which are gone, and memories of which only a
//! log knows.
//!
//! A list is mended as points are dropped that have no row, see [`super`]: what hypnos removed itself is taken out at
//! once, anything else when two runs at least `settle` apart saw it absent, and nothing on the word of a collection in
//! which not one memory is that is listed. Where it has no memory at all, time tells nothing: only a person can, and the
//! guard asks. Right before it is written, each memory is looked for again: one that was written after the points were
//! read makes a list look dead.

use std::collections::{BTreeSet, HashSet};

use super::ledger::Ledger;
use super::{Owner, Sweep, is_past, signed};
use crate::memory::{Namespace, PointId};
use crate::pass::{Cx, PassError, entities};
use crate::plan::{Finding, Plan, Reason, Sighting};
use crate::state::NamespaceHash;
use crate::store::linked::Entity;

/// Looks at what names a memory that is not among the points.
pub(super) fn look(
    sweep: &Sweep<'_>,
    cx: &Cx<'_>,
    ledger: &Ledger,
    plan: &mut Plan,
) -> Result<(), PassError> {
    let view = sweep.view;
    if view.config().links.is_some() {
        mend(sweep, cx, ledger, plan)?;
    }
    let logged = view.logged()?.into_iter();
    let mut gone: HashSet<PointId> = logged.map(|id| PointId::from_text(&id)).collect();
    gone.retain(|id| !ledger.has(id));
    if !gone.is_empty() {
        // A log does not learn of what hypnos removed, and does not say whose it was.
        let removed = view.removed()?.into_iter();
        let removed: HashSet<PointId> = removed.map(|(id, _)| id).collect();
        gone.retain(|id| !removed.contains(id));
    }
    plan.found(Finding::LoggedWithoutPoint, gone.len() as u64);
    Ok(())
}

/// What an entity lists that is no memory.
struct Dead<'a> {
    entity: &'a Entity,
    namespace: &'a Namespace,
    /// What this plan removes, or hypnos has removed.
    removed: Vec<PointId>,
    /// What is absent and was not removed by hypnos, in whatever time.
    absent: Vec<PointId>,
}

/// When a memory that is absent is believed to be gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Belief {
    /// Once it was seen absent for long enough.
    Settled,
    /// When a person says so.
    Asked,
    /// Not at all: nothing shows that these are lists of these memories.
    Never,
}

/// Plans to take what is dead out of the lists of the entities.
fn mend(sweep: &Sweep<'_>, cx: &Cx<'_>, ledger: &Ledger, plan: &mut Plan) -> Result<(), PassError> {
    let view = sweep.view;
    let entities = view.entities()?.unwrap_or_default();
    let (going, mut removed) = (entities::going(plan), None);
    let (mut dead, mut drops, mut left, mut is_any_live) = (Vec::new(), Vec::new(), 0, false);
    for entity in &entities {
        let owner = entity.namespace.as_ref().map(|owner| sweep.owner(owner));
        if let Some(Owner::Deleted(at)) = owner {
            drops.extend(entities::erase(entity, Reason::OwnerDeleted { at }));
            continue;
        }
        let Some(list) = &entity.lists else {
            left += 1;
            continue;
        };
        let (live, gone): (Vec<&PointId>, Vec<_>) = list.iter().partition(|id| ledger.has(id));
        is_any_live |= !live.is_empty();
        let Some(namespace) = entity
            .namespace
            .as_ref()
            .filter(|_| owner != Some(Owner::Leaving))
        else {
            left += u64::from(!gone.is_empty());
            continue;
        };
        if !gone.is_empty() && removed.is_none() {
            removed = Some(view.removed()?);
        }
        let hash = NamespaceHash::of(namespace);
        let is_removed = |id: &PointId| {
            let known: Option<&HashSet<_>> = removed.as_ref();
            known.is_some_and(|known| known.contains(&(id.clone(), hash)))
        };
        let (mut buried, absent): (Vec<PointId>, Vec<_>) =
            gone.into_iter().cloned().partition(is_removed);
        let goes = |id: &&PointId| going.get(id) == Some(namespace);
        buried.extend(live.into_iter().filter(|id| goes(id)).cloned());
        dead.push(Dead {
            entity,
            namespace,
            removed: buried,
            absent,
        });
    }
    keep_strangers(sweep, cx, &mut dead)?;
    let absent = dead.iter().filter(|dead| !dead.absent.is_empty()).count() as u64;
    let belief = match (ledger.rows, is_any_live) {
        (0, _) => Belief::Asked,
        (_, true) => Belief::Settled,
        (_, false) => Belief::Never,
    };
    plan.unproven = belief == Belief::Asked && absent > 0;
    if belief == Belief::Never && absent > 0 {
        plan.degraded.push(format!(
            "not one id that {absent} points of {:?} list is a memory's: is it the collection of these memories? what \
             hypnos has not removed itself stays in their lists",
            view.config().links.as_ref().map_or("", |links| &links.points.collection),
        ));
    }
    let mut seen = Vec::new();
    for dead in dead {
        left += u64::from(take_out(sweep, plan, &mut seen, belief, dead));
    }
    plan.actions.extend(drops);
    plan.found(Finding::DeadLink, left);
    plan.sightings.get_or_insert_default().extend(seen);
    Ok(())
}

/// Leaves what is the id of a point of another kind in the same collection, and lists in which nothing else is dead.
fn keep_strangers(
    sweep: &Sweep<'_>,
    cx: &Cx<'_>,
    dead: &mut Vec<Dead<'_>>,
) -> Result<(), PassError> {
    let absent = dead.iter().flat_map(|dead| &dead.absent);
    let absent: BTreeSet<PointId> = absent.cloned().collect();
    let there = sweep.view.any_points(absent, cx.stop)?;
    for dead in &mut *dead {
        dead.absent.retain(|id| !there.contains(id));
    }
    dead.retain(|dead| !dead.removed.is_empty() || !dead.absent.is_empty());
    Ok(())
}

/// Plans to take out of a list what may go by now. Answers whether something dead stays in it that nothing is planned
/// for.
fn take_out(
    sweep: &Sweep<'_>,
    plan: &mut Plan,
    seen: &mut Vec<Sighting>,
    belief: Belief,
    dead: Dead<'_>,
) -> bool {
    let Dead {
        entity,
        namespace,
        mut removed,
        absent,
    } = dead;
    let mut reason = Reason::MemoryRemoved;
    for id in absent {
        let sighting = Sighting {
            namespace: namespace.clone(),
            point: id.clone(),
        };
        let goes = match belief {
            Belief::Asked => true,
            Belief::Settled => has_settled(sweep, &sighting),
            Belief::Never => false,
        };
        if goes {
            reason = Reason::MemoryGone;
            removed.push(id);
        } else if belief == Belief::Settled {
            plan.found(Finding::Settling, 1);
        }
        seen.push(sighting);
    }
    let action = entities::unlink(sweep.view, entity, &removed, reason);
    let is_left = action.is_none();
    plan.actions.extend(action);
    is_left
}

/// Whether a memory was seen absent so long ago, and for so long as a point must be old: how old it was nobody knows.
fn has_settled(sweep: &Sweep<'_>, sighting: &Sighting) -> bool {
    let now = sweep.view.now();
    let first_seen = sweep.view.seen_since(sighting).unwrap_or(now).min(now);
    let settings = sweep.settings;
    is_past(first_seen, signed(settings.settle), now)
        && is_past(first_seen, signed(settings.min_age), now)
}
