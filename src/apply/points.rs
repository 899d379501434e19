//! Dropping points that no memory stands behind.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::failpoint::{Failpoint, hit};
use crate::memory::{Namespace, PointId};
use crate::plan::{Action, ActionKind};
use crate::report::{Applied, count};
use crate::state::{Intent, IntentId, Settled, SkipReason, State};
use crate::store::image::PointImage;
use crate::store::rows::{OwnerBook, Partition};
use crate::store::vectors::VectorStore;

use super::finish::{self, Written};
use super::recheck::{Doomed, Recheck, owner_still_so};
use super::{ApplyError, BATCH, Job};

const KIND: ActionKind = ActionKind::DropPoint;

/// Drops the points of one partition, batch by batch.
pub(super) fn apply(
    job: &Job<'_>,
    name: &Arc<str>,
    partition: Option<&Partition>,
    actions: Vec<Action>,
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let Some(vectors) = job.vectors().filter(|_| !actions.is_empty()) else {
        return Ok(());
    };
    let doomed: Vec<Doomed> = actions.into_iter().filter_map(doomed).collect();
    let watched = doomed
        .iter()
        .map(|doomed| (doomed.namespace.clone(), doomed.point.clone()));
    let mut recheck = Recheck::new(job, partition, watched)?;
    job.states.with(name, |state| {
        for batch in doomed.chunks(BATCH) {
            if job.cx.stop.is_requested() {
                done.interrupted = true;
                return Ok(());
            }
            apply_batch(job, vectors, state, &mut recheck, batch, done)?;
            job.cx.progress.advance(batch.len() as u64);
        }
        Ok(())
    })
}

fn doomed(action: Action) -> Option<Doomed> {
    match action {
        Action::DropPoint {
            namespace,
            point,
            reason,
            ..
        } => Some(Doomed {
            namespace,
            point,
            reason,
        }),
        _ => None,
    }
}

fn apply_batch(
    job: &Job<'_>,
    vectors: &dyn VectorStore,
    state: &State,
    recheck: &mut Recheck<'_>,
    batch: &[Doomed],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let owners = job.stores.owners()?;
    let called = recheck.called()?;
    let (go, stay): (Vec<&Doomed>, Vec<&Doomed>) = batch
        .iter()
        .partition(|doomed| may_go(owners.as_ref(), called, doomed));
    count(&mut done.skipped, KIND, stay.len());

    let ids: Vec<PointId> = go.iter().map(|doomed| doomed.point.clone()).collect();
    let captured = vectors.capture(&ids)?;
    let mut images: HashMap<PointId, PointImage> = captured
        .images
        .into_iter()
        .map(|image| (image.id.clone(), image))
        .collect();
    let mut intents = Vec::with_capacity(go.len());
    for doomed in go {
        match images.remove(&doomed.point) {
            Some(image) => intents.push(intent(state.partition(), doomed, image)),
            None if captured.ambiguous.contains(&doomed.point) => {
                count(&mut done.skipped, KIND, 1);
            }
            // Somebody else dropped it.
            None => count(&mut done.applied, KIND, 1),
        }
    }
    if intents.is_empty() {
        return Ok(());
    }
    hit(Failpoint::DropIntentBefore)?;
    let ids = state.intend(job.run, job.pass, &intents)?;
    hit(Failpoint::DropIntentWritten)?;
    let written: Vec<Written> = ids
        .into_iter()
        .zip(intents)
        .map(|(id, intent)| Written { id, intent })
        .collect();
    finish_points(job, state, recheck, &written, done)
}

fn may_go(owners: Option<&OwnerBook>, called: &HashSet<PointId>, doomed: &Doomed) -> bool {
    owner_still_so(owners, &doomed.namespace, doomed.reason) && !called.contains(&doomed.point)
}

fn intent(partition: &Arc<str>, doomed: &Doomed, image: PointImage) -> Intent {
    Intent {
        kind: KIND,
        partition: Arc::clone(partition),
        namespace: Some(doomed.namespace.clone()),
        memory: None,
        behind: Vec::new(),
        expect: None,
        reason: doomed.reason,
        erase: doomed.reason.erases(),
        mark: None,
        survivor: None,
        unit: None,
        stays: None,
        points: vec![doomed.point.clone()],
        images: vec![image],
    }
}

/// Removes the points of written intents; those that a row calls for by then are put back, those that were written
/// anew are left.
fn finish_points(
    job: &Job<'_>,
    state: &State,
    recheck: &mut Recheck<'_>,
    written: &[Written],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    hit(Failpoint::DropsBefore)?;
    let left = finish::remove_points(job, written)?;
    hit(Failpoint::DropsRemoved)?;
    let called = recheck.called()?;
    let missed: Vec<&PointImage> = written
        .iter()
        .flat_map(|written| &written.intent.images)
        .filter(|image| called.contains(&image.id))
        .collect();
    finish::put_missing_back(job, &missed)?;
    let mut settled: Vec<(IntentId, Settled)> = Vec::with_capacity(written.len());
    for Written { id, intent } in written {
        let end = if intent.points.iter().any(|point| called.contains(point)) {
            Settled::Skipped(SkipReason::Claimed)
        } else if intent.points.iter().any(|point| left.contains(point)) {
            Settled::Skipped(SkipReason::Changed)
        } else {
            Settled::Done
        };
        let tally = match end {
            Settled::Done => &mut done.applied,
            Settled::Skipped(_) | Settled::Abandoned => &mut done.skipped,
        };
        count(tally, KIND, 1);
        settled.push((*id, end));
    }
    hit(Failpoint::DropSettleBefore)?;
    state.settle(&settled, job.now)?;
    hit(Failpoint::DropSettleWritten)?;
    Ok(())
}

/// Finishes drops that a killed run began: those that still may go go, the others are put back.
pub(super) fn replay(
    job: &Job<'_>,
    partition: Option<&Partition>,
    state: &State,
    written: Vec<Written>,
    done: &mut Applied,
) -> Result<(), ApplyError> {
    if job.vectors().is_none() {
        return Ok(());
    }
    let watched: Vec<(Namespace, PointId)> = written
        .iter()
        .flat_map(|written| {
            written
                .intent
                .namespace
                .iter()
                .cloned()
                .zip(written.intent.points.iter().cloned())
        })
        .collect();
    let mut recheck = Recheck::new(job, partition, watched.into_iter())?;
    let owners = job.stores.owners()?;
    let called = recheck.called()?;
    let (go, stay): (Vec<Written>, Vec<Written>) = written.into_iter().partition(|written| {
        let intent = &written.intent;
        intent
            .namespace
            .iter()
            .zip(&intent.points)
            .all(|(namespace, point)| {
                let doomed = Doomed {
                    namespace: namespace.clone(),
                    point: point.clone(),
                    reason: intent.reason,
                };
                may_go(owners.as_ref(), called, &doomed)
            })
    });
    let images: Vec<&PointImage> = stay
        .iter()
        .flat_map(|written| &written.intent.images)
        .collect();
    finish::put_missing_back(job, &images)?;
    let settled: Vec<_> = stay
        .iter()
        .map(|written| (written.id, Settled::Skipped(SkipReason::Claimed)))
        .collect();
    hit(Failpoint::ReplaySettleBefore)?;
    state.settle(&settled, job.now)?;
    hit(Failpoint::ReplaySettled)?;
    count(&mut done.skipped, KIND, stay.len());
    finish_points(job, state, &mut recheck, &go, done)
}
