//! What stands beside points that are the rows: entities that list memories which are gone.
//!
//! A list is mended as points are dropped that have no row, see [`super`]: what hypnos removed itself is taken out at
//! once, anything else when two runs at least `settle` apart saw it absent. Where not one listed id is a memory's, time
//! tells nothing: it may be the wrong collection. Then a person is asked, by the guard, as soon as there is nothing left
//! to do that is certain. Right before a list is written, each memory is looked for again: one that was written after the
//! points were read makes a list look dead.

use std::collections::{BTreeSet, HashSet};

use super::ledger::Ledger;
use super::{Owner, Sweep, is_past, signed};
use crate::memory::{Namespace, PointId};
use crate::pass::entities::Going;
use crate::pass::{Cx, PassError, entities};
use crate::plan::{Action, Finding, Plan, Reason, Sighting};
use crate::state::NamespaceHash;
use crate::store::linked::Entity;

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
    /// When a person says so: nothing shows that these are lists of these memories.
    Asked,
    /// Not yet: what is certain need not wait for a person.
    Later,
}

/// Plans to take what is dead out of the lists of the entities.
pub(super) fn mend(
    sweep: &Sweep<'_>,
    cx: &Cx<'_>,
    ledger: &Ledger,
    plan: &mut Plan,
) -> Result<(), PassError> {
    if sweep.view.config().links.is_none() {
        return Ok(());
    }
    let entities = sweep.view.entities()?.unwrap_or_default();
    let Sorted {
        mut dead,
        drops,
        mut left,
        is_any_live,
    } = sort(sweep, ledger, &entities::going(plan), &entities)?;
    keep_strangers(sweep, cx, &mut dead)?;
    let is_certain = |dead: &Dead<'_>| !dead.removed.is_empty();
    let is_idle = plan.actions.is_empty() && drops.is_empty() && !dead.iter().any(is_certain);
    let belief = match (is_any_live, is_idle) {
        (true, _) => Belief::Settled,
        (false, true) => Belief::Asked,
        (false, false) => Belief::Later,
    };
    plan.unproven = belief == Belief::Asked && !dead.is_empty();
    let mut seen = Vec::new();
    for dead in dead {
        left += u64::from(take_out(sweep, plan, &mut seen, belief, dead));
    }
    plan.actions.extend(drops);
    plan.found(Finding::DeadLink, left);
    plan.sightings.get_or_insert_default().extend(seen);
    Ok(())
}

/// The entities, by what is to be done about each.
#[derive(Default)]
struct Sorted<'a> {
    dead: Vec<Dead<'a>>,
    /// Those that go with their owner.
    drops: Vec<Action>,
    /// How many have something dead that stays.
    left: u64,
    /// Whether one id at least is a memory's.
    is_any_live: bool,
}

/// Holds the lists of the entities against the memories; `going` are those that this plan removes.
fn sort<'a>(
    sweep: &Sweep<'_>,
    ledger: &Ledger,
    going: &Going,
    entities: &'a [Entity],
) -> Result<Sorted<'a>, PassError> {
    let mut sorted = Sorted::default();
    let mut removed: Option<HashSet<(PointId, NamespaceHash)>> = None;
    for entity in entities {
        let owner = entity.namespace.as_ref().map(|owner| sweep.owner(owner));
        if let Some(Owner::Deleted(at)) = owner {
            let drop = entities::erase(entity, Reason::OwnerDeleted { at });
            sorted.drops.extend(drop);
            continue;
        }
        let Some(list) = &entity.lists else {
            sorted.left += 1;
            continue;
        };
        let (live, gone): (Vec<&PointId>, Vec<_>) = list.iter().partition(|id| ledger.has(id));
        sorted.is_any_live |= !live.is_empty();
        let Some(namespace) = entity
            .namespace
            .as_ref()
            .filter(|_| owner != Some(Owner::Leaving))
        else {
            sorted.left += u64::from(!gone.is_empty());
            continue;
        };
        if !gone.is_empty() && removed.is_none() {
            removed = Some(sweep.view.removed()?);
        }
        let hash = NamespaceHash::of(namespace);
        let is_removed = |id: &PointId| {
            let known = removed.as_ref();
            known.is_some_and(|known| known.contains(&(id.clone(), hash)))
        };
        let (mut buried, absent): (Vec<PointId>, Vec<_>) =
            gone.into_iter().cloned().partition(is_removed);
        let goes = |id: &&PointId| going.get(id) == Some(namespace);
        buried.extend(live.into_iter().filter(|id| goes(id)).cloned());
        sorted.dead.push(Dead {
            entity,
            namespace,
            removed: buried,
            absent,
        });
    }
    Ok(sorted)
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
            Belief::Later => false,
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
