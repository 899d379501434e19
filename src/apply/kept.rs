//! The points that stay because a row that stays calls for them.
//!
//! A rule may give two rows the same point: a column of point ids that was copied, or keys that differ only in their
//! spelling. The removal of one of them must not take the point of the other.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;

use crate::memory::{MemoryId, PointId, Role};
use crate::plan::Action;
use crate::store::rows::Partition;
use crate::store::vectors::point_id::{Derived, Rule};

use super::{ApplyError, Job};

/// The points of the rows that stay, as hashes: eight bytes a row, and a collision only keeps a point too many.
#[derive(Debug, Default)]
pub(super) struct Kept {
    hasher: RandomState,
    hashes: Vec<u64>,
}

impl Kept {
    /// Whether a row that stays calls for the point.
    pub(super) fn has(&self, point: &PointId) -> bool {
        self.hashes
            .binary_search(&self.hasher.hash_one(point))
            .is_ok()
    }
}

/// Reads what the rows of a database call for that are not about to go. Points that are linked by their payload name
/// one row each, and need no such look.
pub(super) fn points(
    job: &Job<'_>,
    partition: &Partition,
    actions: &[Action],
) -> Result<Kept, ApplyError> {
    let mut kept = Kept::default();
    let Some(config) = &job.stores.config.vectors else {
        return Ok(kept);
    };
    if !actions.iter().any(Action::removes) {
        return Ok(kept);
    }
    let rule = Rule {
        point_id: &config.point_id,
        rows: &job.stores.config.rows,
    };
    let going: HashSet<&MemoryId> = actions.iter().flat_map(going).collect();
    job.stores.rows.reader(partition)?.snapshot(|snapshot| {
        snapshot.scan(&[Role::Point], &mut |memory| {
            let stays = memory.id.as_ref().is_none_or(|id| !going.contains(id));
            if let (true, Derived::Id(point)) = (stays, rule.derive(&memory)) {
                kept.hashes.push(kept.hasher.hash_one(&point));
            }
            ControlFlow::Continue(())
        })
    })?;
    kept.hashes.sort_unstable();
    Ok(kept)
}

fn going(action: &Action) -> Vec<&MemoryId> {
    // What is marked stays as a row, and is hidden: it needs no point.
    let target = action.target().filter(|_| action.removes()).into_iter();
    target
        .flat_map(|target| {
            std::iter::once(&target.memory.id).chain(target.behind.iter().map(|hidden| &hidden.id))
        })
        .collect()
}
