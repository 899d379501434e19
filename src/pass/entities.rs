//! The points that list memories ("entities"): what becomes of them when a memory goes. No pass of the night.
//!
//! mem0 takes the id of a memory that it deletes out of the lists of that owner's entities, and removes an entity that
//! lists nothing any more. Who deletes memories in its place has to do the same: with every removal ([`follow`]), and,
//! in `orphans`, for what was left undone before.

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::{MemoryId, Namespace, PointId};
use crate::plan::{Action, Plan, Reason};
use crate::store::MAIN;
use crate::store::linked::{self, Entity};
use crate::view::View;

use super::PassError;

/// The memories that a plan removes, as lists name them, and whose each is.
pub(super) type Going = HashMap<PointId, Namespace>;

/// What a plan removes.
pub(super) fn going(plan: &Plan) -> Going {
    let targets = plan.actions.iter().filter(|action| action.removes());
    let targets = targets.filter_map(Action::target);
    let memories = targets.flat_map(|target| {
        let ids = std::iter::once(&target.memory).chain(&target.behind);
        ids.map(|memory| (linked::point_of(&memory.id), target.namespace.clone()))
    });
    memories.collect()
}

/// Adds to a plan that the entities of an owner list the memories no more which it removes of that owner.
///
/// # Errors
///
/// When the entities cannot be read to the end.
pub fn follow(view: &View<'_>, plan: &mut Plan) -> Result<(), PassError> {
    if view.config().links.is_none() {
        return Ok(());
    }
    let going = going(plan);
    if going.is_empty() {
        return Ok(());
    }
    for entity in view.entities()?.unwrap_or_default() {
        let (Some(namespace), Some(list)) = (&entity.namespace, &entity.lists) else {
            continue;
        };
        let goes = |id: &&PointId| going.get(id) == Some(namespace);
        let ids: Vec<PointId> = list.iter().filter(goes).cloned().collect();
        plan.actions
            .extend(unlink(view, &entity, &ids, Reason::MemoryRemoved));
    }
    Ok(())
}

/// Takes ids out of the list of an entity; `None` when there are none, or the entity names no owner.
pub(super) fn unlink(
    view: &View<'_>,
    entity: &Entity,
    ids: &[PointId],
    reason: Reason,
) -> Option<Action> {
    let list = entity.lists.as_ref().filter(|_| !ids.is_empty())?;
    let partition: Arc<str> = MAIN.into();
    // What earlier passes of a dry run would have taken out is out.
    let stays =
        |id: &PointId| !ids.contains(id) && !view.is_gone(&partition, &linked::memory_of(id));
    let mut memories: Vec<MemoryId> = ids.iter().map(linked::memory_of).collect();
    memories.sort();
    memories.dedup();
    Some(Action::Unlink {
        namespace: entity.namespace.clone()?,
        point: entity.id.clone(),
        expect: entity.version,
        ids: memories.into(),
        is_last: !list.iter().any(stays),
        reason,
        partition,
    })
}

/// Drops an entity whose owner is erased, whatever it lists; `None` when it names no owner.
pub(super) fn erase(entity: &Entity, reason: Reason) -> Option<Action> {
    Some(Action::Unlink {
        partition: MAIN.into(),
        namespace: entity.namespace.clone()?,
        point: entity.id.clone(),
        expect: entity.version,
        ids: [].into(),
        is_last: true,
        reason,
    })
}

/// The entities of a namespace, in whatever spelling.
///
/// # Errors
///
/// When the entities cannot be read to the end.
pub fn of_namespace(view: &View<'_>, namespace: &Namespace) -> Result<Vec<Entity>, PassError> {
    let mut entities = view.entities()?.unwrap_or_default();
    let normal = namespace.normal();
    entities.retain(|entity| {
        let own = entity.namespace.as_ref();
        own.is_some_and(|own| own.normal() == normal)
    });
    Ok(entities)
}
