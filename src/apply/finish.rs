//! Steps 3 to 6 of a batch whose intents are written, whether by this run or by one that was killed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::config::Source;
use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, Namespace, PointId, Role};
use crate::pace::Pace;
use crate::state::{Intent, IntentId, Settled, SkipReason, State};
use crate::store::image::{PointImage, RowImage};
use crate::store::rows::{Change, Fate, OwnerWatch, RowError, Writer};

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
    let owners = Owners::for_intents(job, written)?;
    let moved = moved(writer, written)?;
    let mut still_so = Vec::with_capacity(written.len());
    for (written, owner) in written.iter().zip(owners.still_so(written.iter())?) {
        let intent = &written.intent;
        let has_left = intent.points.iter().any(|id| left.contains(id));
        let has_moved = intent.memory.as_ref().is_some_and(|id| moved.contains(id));
        still_so.push(owner && !has_left && !has_moved);
    }
    if still_so.iter().all(|so| *so) {
        return remove_rows(writer, pace, &owners, written);
    }
    let mut fates = Vec::with_capacity(written.len());
    for (written, still_so) in written.iter().zip(still_so) {
        fates.push(if still_so {
            remove_rows(writer, pace, &owners, std::slice::from_ref(written))?.remove(0)
        } else {
            Fate::Changed
        });
    }
    Ok(fates)
}

/// Who still exists, where one of the intents is about that.
struct Owners(Option<RefCell<OwnerWatch>>);

impl Owners {
    fn for_intents(job: &Job<'_>, written: &[Written]) -> Result<Self, RowError> {
        let reasons = written.iter().map(|written| written.intent.reason);
        let watch = job.watch_owners_for(reasons)?;
        Ok(Self(watch.map(RefCell::new)))
    }

    /// Whether the owner of each intent is now as its reason says.
    fn still_so<'w>(
        &self,
        written: impl Iterator<Item = &'w Written>,
    ) -> Result<Vec<bool>, RowError> {
        let mut watch = self.0.as_ref().map(RefCell::borrow_mut);
        let owners = watch.as_mut().map(|watch| watch.look()).transpose()?;
        let still_so = |Written { intent, .. }: &Written| {
            let namespace = intent.namespace.as_ref();
            namespace.is_none_or(|namespace| owner_still_so(owners, namespace, intent.reason))
        };
        Ok(written.map(still_so).collect())
    }
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
    owners: &Owners,
    written: &[Written],
) -> Result<Vec<Fate>, ApplyError> {
    let mut fates = Vec::with_capacity(written.len());
    let mut rest = written;
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(pace.size().min(rest.len()));
        fates.extend(pace.run(|| remove_batch(writer, owners, batch))?);
        rest = after;
    }
    Ok(fates)
}

/// One transaction for the removals of a batch, in which the owners are looked at once more, and one for what is marked or
/// folded where there is any.
fn remove_batch(
    writer: &mut Writer,
    owners: &Owners,
    batch: &[Written],
) -> Result<Vec<Fate>, ApplyError> {
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
        let still_so = || owners.still_so(indices.iter().map(|index| &batch[*index]));
        let removed = writer.delete_units_if(&units, &still_so)?;
        for (index, fate) in indices.into_iter().zip(removed) {
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
