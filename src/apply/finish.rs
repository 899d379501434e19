//! Steps 3 to 6 of a batch whose intents are written, whether by this run or by one that was killed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::config::Source;
use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, Namespace, PointId, Role};
use crate::pace::Pace;
use crate::state::{Intent, IntentId, Settled, SkipReason, State};
use crate::store::image::{PointImage, RowImage};
use crate::store::rows::{Change, Fate, Writer};

use super::recheck::owner_still_so;
use super::{ApplyError, Job};

/// An intent that is in the state file, with the unit that it removes.
pub(super) struct Written {
    pub(super) id: IntentId,
    pub(super) intent: Intent,
}

/// Removes points, then rows, gives back the points of rows that changed, and settles the intents.
pub(super) fn rows(
    job: &Job<'_>,
    writer: &mut Writer,
    state: &State,
    pace: &mut Pace,
    written: &[Written],
) -> Result<Vec<Fate>, ApplyError> {
    hit(Failpoint::PointsBefore)?;
    let left = remove_points(job, written)?;
    hit(Failpoint::PointsRemoved)?;
    let fates = remove_unless_revived(job, writer, pace, written, &left)?;
    let left: Vec<&Intent> = written
        .iter()
        .zip(&fates)
        .filter(|(_, fate)| matches!(fate, Fate::Changed | Fate::Blocked))
        .map(|(written, _)| &written.intent)
        .collect();
    give_back(job, writer, &left)?;
    let settled: Vec<(IntentId, Settled)> = written
        .iter()
        .zip(&fates)
        .map(|(written, fate)| (written.id, settled(*fate)))
        .collect();
    hit(Failpoint::SettleBefore)?;
    pace.calmly(|| state.settle(&settled, job.now))?;
    hit(Failpoint::SettleWritten)?;
    Ok(fates)
}

fn settled(fate: Fate) -> Settled {
    match fate {
        Fate::Removed | Fate::Absent => Settled::Done,
        Fate::Changed => Settled::Skipped(SkipReason::Changed),
        Fate::Blocked => Settled::Skipped(SkipReason::Blocked),
    }
}

/// Removes the points that are as their pre-images have them, and gives the others.
pub(super) fn remove_points(
    job: &Job<'_>,
    written: &[Written],
) -> Result<BTreeSet<PointId>, ApplyError> {
    let images: Vec<PointImage> = written
        .iter()
        .flat_map(|written| written.intent.images.iter().cloned())
        .collect();
    match job.vectors() {
        Some(vectors) if !images.is_empty() => Ok(vectors.remove(&images)?),
        _ => Ok(BTreeSet::new()),
    }
}

/// Removes the rows but those whose owner has come back, or became another one, while the points went, or that have a
/// point which was left.
fn remove_unless_revived(
    job: &Job<'_>,
    writer: &mut Writer,
    pace: &mut Pace,
    written: &[Written],
    left: &BTreeSet<PointId>,
) -> Result<Vec<Fate>, ApplyError> {
    let owners = job.owners_for(written.iter().map(|written| written.intent.reason))?;
    let moved = moved(writer, written)?;
    let still_so = |written: &Written| {
        let namespace = written.intent.namespace.as_ref();
        let has_left = written.intent.points.iter().any(|id| left.contains(id));
        let has_moved = written
            .intent
            .memory
            .as_ref()
            .is_some_and(|id| moved.contains(id));
        !has_left
            && !has_moved
            && namespace.is_none_or(|ns| owner_still_so(owners.as_ref(), ns, written.intent.reason))
    };
    if written.iter().all(still_so) {
        return remove_rows(writer, pace, written);
    }
    let mut fates = Vec::with_capacity(written.len());
    for written in written {
        fates.push(if still_so(written) {
            remove_rows(writer, pace, std::slice::from_ref(written))?.remove(0)
        } else {
            Fate::Changed
        });
    }
    Ok(fates)
}

/// The memories that are there and not of the owner any more whose they were, or no memories: both may stand in other
/// rows than their own.
fn moved(writer: &Writer, written: &[Written]) -> Result<HashSet<MemoryId>, ApplyError> {
    let intents = written.iter().map(|written| &written.intent);
    let owners: HashMap<&MemoryId, &Namespace> = intents
        .filter_map(|intent| Some((intent.memory.as_ref()?, intent.namespace.as_ref()?)))
        .collect();
    let ids: Vec<MemoryId> = owners.keys().map(|id| (*id).clone()).collect();
    let mut moved = HashSet::new();
    for memory in writer.memories(&[], &ids)? {
        if let Some(id) = memory.id
            && let Some(owner) = owners.get(&id)
            && (memory.is_other || memory.namespace.as_ref() != Some(owner))
        {
            moved.insert(id);
        }
    }
    Ok(moved)
}

fn remove_rows(
    writer: &mut Writer,
    pace: &mut Pace,
    written: &[Written],
) -> Result<Vec<Fate>, ApplyError> {
    let mut fates = Vec::with_capacity(written.len());
    let mut rest = written;
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(pace.size().min(rest.len()));
        fates.extend(pace.run(|| remove_batch(writer, batch))?);
        rest = after;
    }
    Ok(fates)
}

/// One transaction for the removals of a batch, and one for what is marked or folded where there is any.
fn remove_batch(writer: &mut Writer, batch: &[Written]) -> Result<Vec<Fate>, ApplyError> {
    let (mut removals, mut changes) = (Vec::new(), Vec::new());
    for (index, Written { intent, .. }) in batch.iter().enumerate() {
        let Some(unit) = intent.unit.clone() else {
            continue;
        };
        if intent.mark.is_none() && intent.survivor.is_none() {
            removals.push((index, unit));
        } else {
            let (mark, survivor) = (intent.mark.clone(), intent.survivor.clone());
            changes.push((
                index,
                Change {
                    unit,
                    mark,
                    survivor,
                },
            ));
        }
    }
    let mut fates = vec![Fate::Absent; batch.len()];
    if !removals.is_empty() {
        let (indices, units): (Vec<usize>, Vec<_>) = removals.into_iter().unzip();
        hit(Failpoint::RowsBefore)?;
        for (index, fate) in indices.into_iter().zip(writer.delete_units(&units)?) {
            fates[index] = fate;
        }
        hit(Failpoint::RowsCommitted)?;
    }
    if !changes.is_empty() {
        let (indices, changes): (Vec<usize>, Vec<_>) = changes.into_iter().unzip();
        hit(Failpoint::MarksBefore)?;
        for (index, fate) in indices.into_iter().zip(writer.change_units(&changes)?) {
            fates[index] = fate;
        }
        hit(Failpoint::MarksCommitted)?;
    }
    Ok(fates)
}

/// Puts the points of intents that are not carried out back, as far as their memory is still the one they belong to
/// and has no point by now.
pub(super) fn give_back(
    job: &Job<'_>,
    writer: &mut Writer,
    left: &[&Intent],
) -> Result<(), ApplyError> {
    let images: Vec<&PointImage> = left
        .iter()
        .filter(|intent| !intent.images.is_empty())
        .map(|intent| Ok((intent, is_same_memory(job, writer, intent)?)))
        .collect::<Result<Vec<_>, ApplyError>>()?
        .into_iter()
        .filter(|(_, same)| *same)
        .flat_map(|(intent, _)| &intent.images)
        .collect();
    put_missing_back(job, &images)
}

/// Puts back those points that do not exist now.
pub(super) fn put_missing_back(job: &Job<'_>, images: &[&PointImage]) -> Result<(), ApplyError> {
    let Some(vectors) = job.vectors().filter(|_| !images.is_empty()) else {
        return Ok(());
    };
    let images: BTreeMap<&PointId, &PointImage> =
        images.iter().map(|image| (&image.id, *image)).collect();
    let images: Vec<PointImage> = images.into_values().cloned().collect();
    hit(Failpoint::PutBackBefore)?;
    vectors.put_back(&images)?;
    hit(Failpoint::PutBackDone)?;
    Ok(())
}

/// Whether the row that is there now is the memory that the intent was about, edited; and not another memory that got
/// its key, which must not inherit its vector. They are told apart by when they were created, else by what they say.
pub(super) fn is_same_memory(
    job: &Job<'_>,
    writer: &mut Writer,
    intent: &Intent,
) -> Result<bool, ApplyError> {
    let (Some(id), Some(unit)) = (&intent.memory, &intent.unit) else {
        return Ok(false);
    };
    let Some(now) = writer
        .roots(std::slice::from_ref(id), usize::MAX)?
        .remove(0)
        .map(|unit| unit.root)
    else {
        return Ok(false);
    };
    if now == unit.root {
        return Ok(true);
    }
    // What is hidden by now needs no point, and must not be found again.
    let hiding = [Role::SupersededBy, Role::DeletedAt, Role::ValidTo];
    let memory = writer.memories(&hiding, std::slice::from_ref(id))?.pop();
    if memory.is_none_or(|memory| memory.is_hidden(job.now)) {
        return Ok(false);
    }
    let rows = &job.stores.config.rows;
    // A value inside JSON changes its column with every edit, and tells nothing.
    let plain = |role| rows.source(role).and_then(Source::plain_column);
    let same = |role| plain(role).map(|column| same_column(&unit.root, &now, column));
    Ok(same(Role::CreatedAt)
        .or_else(|| same(Role::Content))
        .unwrap_or(true))
}

fn same_column(then: &RowImage, now: &RowImage, column: &str) -> bool {
    then.get(column).is_some() && then.get(column) == now.get(column)
}
