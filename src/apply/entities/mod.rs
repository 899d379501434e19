//! The points that list memories: taking out what is gone, and putting it back.
//!
//! The order is that of every removal: copies, intents, then the points, then the end of the intents; a crash between any
//! two steps is finished by [`replay`]. A list is written on the condition that the payload is as it was planned for, and
//! only while no memory is there that is to go from it: that is asked again right before.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::config::ListKey;
use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, PointId};
use crate::plan::{Action, ActionKind};
use crate::report::{Applied, count};
use crate::state::{Intent, IntentId, Settled, SkipReason, State};
use crate::stop::Stop;
use crate::store::image::PointImage;
use crate::store::vectors::qdrant::{QdrantVectors, Relist, Relisted};
use crate::store::vectors::{VectorReader as _, VectorStore as _};
use crate::store::{Stores, linked};

use super::finish::Written;
use super::recheck::owner_still_so;
use super::{ApplyError, BATCH, Job};

mod back;

pub(super) use back::{fates, foresee, put_back};

/// The collection of the points that list memories.
pub(super) struct Lists<'a> {
    points: QdrantVectors,
    key: &'a ListKey,
}

impl<'a> Lists<'a> {
    /// Reaches it; `None` where the store has none, or not any more.
    pub(super) fn open(stores: &'a Stores, stop: &Stop) -> Result<Option<Self>, ApplyError> {
        let Some(links) = &stores.config.links else {
            return Ok(None);
        };
        let key = &links.key;
        Ok(stores.lists(stop)?.map(|points| Self { points, key }))
    }

    /// Whether an intent was written for this collection.
    pub(super) fn is_of(&self, intent: &Intent) -> bool {
        let images = &intent.images;
        images.iter().all(|image| self.points.has_made(image))
    }

    /// The points of intents as they are now; not those that are gone, or of which nobody can tell which is meant.
    fn look(&self, intents: &[&Intent]) -> Result<HashMap<PointId, PointImage>, ApplyError> {
        let points = intents.iter().flat_map(|intent| &intent.points);
        let ids: Vec<PointId> = points.cloned().collect();
        Ok(by_id(self.points.capture(&ids)?.images))
    }
}

/// Takes what is gone out of lists, batch by batch.
pub(super) fn apply(
    job: &Job<'_>,
    name: &str,
    actions: &[Action],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    if actions.is_empty() {
        return Ok(());
    }
    let Some(lists) = Lists::open(job.stores, job.cx.stop)? else {
        // With the collection all of its lists are gone.
        for action in actions {
            count(&mut done.applied, action.kind(), 1);
        }
        return Ok(());
    };
    let applied = job.states.with(name, |state| {
        for batch in actions.chunks(BATCH) {
            if job.cx.stop.is_requested() {
                done.interrupted = true;
                return Ok(());
            }
            apply_batch(job, &lists, state, batch, done)?;
            job.cx.progress.advance(batch.len() as u64);
        }
        Ok(())
    });
    job.stores.expire_entities();
    applied
}

fn apply_batch(
    job: &Job<'_>,
    lists: &Lists<'_>,
    state: &State,
    batch: &[Action],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let intents = intents(lists, state.partition(), batch, done)?;
    if intents.is_empty() {
        return Ok(());
    }
    hit(Failpoint::ListIntentBefore)?;
    let ids = state.intend(job.run, job.pass, &intents)?;
    hit(Failpoint::ListIntentWritten)?;
    let written: Vec<Written> = ids
        .into_iter()
        .zip(intents)
        .map(|(id, intent)| Written { id, intent })
        .collect();
    finish(job, lists, state, &written, done)
}

/// The intents of those actions whose point is as it was planned for; counts the others.
fn intents(
    lists: &Lists<'_>,
    partition: &Arc<str>,
    batch: &[Action],
    done: &mut Applied,
) -> Result<Vec<Intent>, ApplyError> {
    let mut ids = Vec::with_capacity(batch.len());
    ids.extend(batch.iter().filter_map(|action| match action {
        Action::Unlink { point, .. } => Some(point.clone()),
        _ => None,
    }));
    let captured = lists.points.capture(&ids)?;
    let mut images = by_id(captured.images);
    let mut intents = Vec::with_capacity(batch.len());
    for action in batch {
        let Action::Unlink {
            namespace,
            point,
            expect,
            ids,
            reason,
            ..
        } = action
        else {
            continue;
        };
        let Some(image) = images.remove(point) else {
            let tally = if captured.ambiguous.contains(point) {
                &mut done.skipped
            } else {
                // Somebody else dropped it.
                &mut done.applied
            };
            count(tally, action.kind(), 1);
            continue;
        };
        if linked::version_of(&image)? != *expect {
            count(&mut done.skipped, action.kind(), 1);
            continue;
        }
        intents.push(Intent {
            kind: action.kind(),
            partition: Arc::clone(partition),
            namespace: Some(namespace.clone()),
            memory: None,
            behind: ids.to_vec(),
            expect: Some(*expect),
            reason: *reason,
            erase: reason.erases(),
            mark: None,
            survivor: None,
            unit: None,
            stays: None,
            points: vec![point.clone()],
            images: vec![image],
        });
    }
    Ok(intents)
}

fn by_id(images: Vec<PointImage>) -> HashMap<PointId, PointImage> {
    let by_id = images.into_iter().map(|image| (image.id.clone(), image));
    by_id.collect()
}

/// Writes the lists of intents, drops the points of which nothing is left, and settles. What may not go any more is put
/// back, for a run that was killed had begun it, maybe.
fn finish(
    job: &Job<'_>,
    lists: &Lists<'_>,
    state: &State,
    written: &[Written],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let owners = job.owners_for(written.iter().map(|written| written.intent.reason))?;
    let there = memories_there(job, written)?;
    let is_wanted = |intent: &Intent| {
        let namespace = intent.namespace.as_ref();
        let is_there = intent.behind.iter().any(|memory| there.contains(memory));
        !is_there && namespace.is_none_or(|ns| owner_still_so(owners.as_ref(), ns, intent.reason))
    };
    let (go, stay): (Vec<&Written>, Vec<&Written>) = written
        .iter()
        .partition(|written| is_wanted(&written.intent));
    hit(Failpoint::ListsBefore)?;
    put_back(lists, &intents_of(&stay))?;
    let is_drop = |written: &&Written| written.intent.kind == ActionKind::DropEntity;
    let (drops, unlinks): (Vec<&Written>, Vec<&Written>) = go.into_iter().partition(is_drop);
    let claimed = Settled::Skipped(SkipReason::Claimed);
    let mut settled: Vec<(IntentId, Settled)> = stay.iter().map(|it| (it.id, claimed)).collect();
    settled.extend(take_out(lists, &unlinks)?);
    settled.extend(drop_points(lists, &drops)?);
    hit(Failpoint::ListsDone)?;
    let ends: HashMap<IntentId, Settled> = settled.iter().copied().collect();
    for Written { id, intent } in written {
        let tally = match ends.get(id) {
            Some(Settled::Done) => &mut done.applied,
            _ => &mut done.skipped,
        };
        count(tally, intent.kind, 1);
    }
    hit(Failpoint::ListSettleBefore)?;
    state.settle(&settled, job.now)?;
    hit(Failpoint::ListSettleWritten)?;
    Ok(())
}

/// Of the memories that are to go from lists, those of whose id there is a point, be it one of another kind.
fn memories_there(job: &Job<'_>, written: &[Written]) -> Result<HashSet<MemoryId>, ApplyError> {
    let memories = written.iter().flat_map(|written| &written.intent.behind);
    let ids = memories.map(linked::point_of).collect();
    let there = job.stores.any_points(ids, job.cx.stop)?;
    Ok(there.iter().map(linked::memory_of).collect())
}

fn intents_of<'a>(written: &[&'a Written]) -> Vec<&'a Intent> {
    written.iter().map(|written| &written.intent).collect()
}

/// Takes memories out of lists.
fn take_out(
    lists: &Lists<'_>,
    unlinks: &[&Written],
) -> Result<Vec<(IntentId, Settled)>, ApplyError> {
    let now = lists.look(&intents_of(unlinks))?;
    let mut changes = Vec::with_capacity(unlinks.len());
    let mut settled = Vec::with_capacity(unlinks.len());
    let mut of: HashMap<&PointId, IntentId> = HashMap::with_capacity(unlinks.len());
    for Written { id, intent } in unlinks {
        let there = intent.images.first();
        let there = there.and_then(|image| Some((image, now.get(&image.id)?)));
        let Some((image, now)) = there else {
            settled.push((*id, Settled::Skipped(SkipReason::Gone)));
            continue;
        };
        let list = linked::without(&linked::list_of(image, lists.key)?, &intent.behind);
        // By now it may be as it is to be: a killed run had written it.
        let is_expected = Some(linked::version_of(now)?) == intent.expect;
        if is_expected || linked::list_of(now, lists.key)? == list {
            of.insert(&image.id, *id);
            let now = now.clone();
            changes.push(Relist { now, list });
        } else {
            settled.push((*id, Settled::Skipped(SkipReason::Changed)));
        }
    }
    for (point, end) in lists.points.relist(lists.key, &changes)? {
        let end = match end {
            Relisted::Done => Settled::Done,
            Relisted::Gone => Settled::Skipped(SkipReason::Gone),
            Relisted::Changed => Settled::Skipped(SkipReason::Changed),
        };
        settled.extend(of.get(&point).map(|id| (*id, end)));
    }
    Ok(settled)
}

fn drop_points(
    lists: &Lists<'_>,
    drops: &[&Written],
) -> Result<Vec<(IntentId, Settled)>, ApplyError> {
    let images = drops.iter().flat_map(|written| &written.intent.images);
    let left = lists.points.remove(&images.cloned().collect::<Vec<_>>())?;
    let end = |written: &&Written| {
        let is_left = written.intent.points.iter().any(|id| left.contains(id));
        let end = if is_left {
            Settled::Skipped(SkipReason::Changed)
        } else {
            Settled::Done
        };
        (written.id, end)
    };
    Ok(drops.iter().map(end).collect())
}

/// Finishes what a killed run had begun. What was begun for another collection than that of now stays open.
pub(super) fn replay(
    job: &Job<'_>,
    state: &State,
    mut written: Vec<Written>,
    done: &mut Applied,
) -> Result<(), ApplyError> {
    if job.stores.config.links.is_none() {
        return Ok(());
    }
    let Some(lists) = Lists::open(job.stores, job.cx.stop)? else {
        let gone = |written: &Written| (written.id, Settled::Skipped(SkipReason::Gone));
        let settled: Vec<_> = written.iter().map(gone).collect();
        for written in &written {
            count(&mut done.skipped, written.intent.kind, 1);
        }
        return Ok(state.settle(&settled, job.now)?);
    };
    written.retain(|written| lists.is_of(&written.intent));
    finish(job, &lists, state, &written, done)
}
