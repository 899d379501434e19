//! Removing memories: rows with all that goes with them, and their points. What is only confirmed keeps its point.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, Namespace, PointId, Role};
use crate::pace::Pace;
use crate::plan::{Action, Target};
use crate::report::{Applied, count};
use crate::state::{Intent, State};
use crate::store::image::{PointImage, Unit};
use crate::store::rows::{Fate, Partition, Wanted, Writer};
use crate::store::vectors::point_id::{Derived, Rule};

use super::finish::{self, Written};
use super::kept::{self, Kept};
use super::recheck::owner_still_so;
use super::{ApplyError, BATCH, Job, LARGEST_TRANSACTION};

/// Applies the row actions of one row database, batch by batch.
pub(super) fn apply(
    job: &Job<'_>,
    partition: Option<&Partition>,
    actions: &[Action],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let Some(partition) = partition.filter(|_| !actions.is_empty()) else {
        return Ok(());
    };
    let kept = kept::points(job, partition, actions)?;
    let mut writer = job.stores.rows.writer(partition)?;
    let mut pace = Pace::up_to(LARGEST_TRANSACTION);
    job.states.with(&partition.name, |state| {
        for batch in actions.chunks(BATCH) {
            if job.cx.stop.is_requested() {
                done.interrupted = true;
                return Ok(());
            }
            apply_batch(job, &mut writer, state, &mut pace, &kept, batch, done)?;
            job.cx.progress.advance(batch.len() as u64);
        }
        Ok(())
    })
}

fn apply_batch(
    job: &Job<'_>,
    writer: &mut Writer,
    state: &State,
    pace: &mut Pace,
    kept: &Kept,
    batch: &[Action],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let batch = still_wanted(job, batch, done)?;
    // A locked file is found before any point of it is touched.
    writer.can_write()?;
    let intents = intents(job, writer, kept, &batch, done)?;
    if intents.is_empty() {
        return Ok(());
    }
    hit(Failpoint::IntentBefore)?;
    let ids = pace.calmly(|| state.intend(job.run, job.pass, &intents))?;
    hit(Failpoint::IntentWritten)?;
    let written: Vec<Written> = ids
        .into_iter()
        .zip(intents)
        .map(|(id, intent)| Written { id, intent })
        .collect();
    let fates = finish::rows(job, writer, state, pace, &written)?;
    for (written, fate) in written.iter().zip(fates) {
        match fate {
            Fate::Removed | Fate::Absent => count(&mut done.applied, written.intent.kind, 1),
            Fate::Changed | Fate::Blocked => count(&mut done.skipped, written.intent.kind, 1),
        }
    }
    Ok(())
}

/// Drops the actions whose owner is no longer marked deleted, or was marked anew.
fn still_wanted<'a>(
    job: &Job<'_>,
    batch: &'a [Action],
    done: &mut Applied,
) -> Result<Vec<(&'a Action, &'a Target)>, ApplyError> {
    let owners = job.owners_for(batch.iter().map(Action::reason))?;
    let mut wanted = Vec::with_capacity(batch.len());
    for action in batch {
        let Some(target) = action.target() else {
            continue;
        };
        if owner_still_so(owners.as_ref(), &target.namespace, action.reason()) {
            wanted.push((action, target));
        } else {
            count(&mut done.skipped, action.kind(), 1);
        }
    }
    Ok(wanted)
}

/// Reads the pre-images of a batch, and keeps the actions whose memories are as the plan expects them.
fn intents(
    job: &Job<'_>,
    writer: &mut Writer,
    kept: &Kept,
    batch: &[(&Action, &Target)],
    done: &mut Applied,
) -> Result<Vec<Intent>, ApplyError> {
    let wanted: Vec<Wanted> = batch.iter().map(|(_, target)| wanted(target)).collect();
    let units = units(writer, batch, &wanted)?;
    let (present, points) = points_of(job, writer, &wanted)?;
    let mut intents = Vec::with_capacity(batch.len());
    for ((action, target), unit) in batch.iter().zip(units) {
        match unit {
            // Somebody else removed the row: what is left of it is the orphans pass's.
            None if !present.contains(&target.memory.id) => {
                count(&mut done.applied, action.kind(), 1);
            }
            Some(unit) if is_expected(target, &unit) => {
                let ids = going(action, target)
                    .flat_map(|id| points.get(id).into_iter().flatten())
                    .filter(|point| !kept.has(point))
                    .cloned()
                    .collect();
                intents.push(intent(action, target, unit, ids));
            }
            None | Some(_) => count(&mut done.skipped, action.kind(), 1),
        }
    }
    copy_survivors(writer, &mut intents)?;
    capture_points(job, &mut intents)?;
    Ok(intents)
}

/// Takes the pre-images of the memories that take over.
fn copy_survivors(writer: &mut Writer, intents: &mut [Intent]) -> Result<(), ApplyError> {
    for intent in intents {
        if let Some(survivor) = &intent.survivor {
            let unit = writer
                .roots(std::slice::from_ref(&survivor.id))?
                .pop()
                .flatten();
            intent.stays = unit.map(|unit| unit.root);
        }
    }
    Ok(())
}

/// A memory that is marked goes alone, and nothing that hangs on it is touched.
fn units(
    writer: &mut Writer,
    batch: &[(&Action, &Target)],
    wanted: &[Wanted],
) -> Result<Vec<Option<Unit>>, ApplyError> {
    let is_marked = |(action, _): &(&Action, &Target)| action.mark().is_some();
    if !batch.iter().any(is_marked) {
        return Ok(writer.units(wanted)?);
    }
    let (whole, alone): (Vec<_>, Vec<_>) =
        (0..batch.len()).partition(|index| !is_marked(&batch[*index]));
    let mut units = vec![None; batch.len()];
    let removed: Vec<Wanted> = whole.iter().map(|index| wanted[*index].clone()).collect();
    for (index, unit) in whole.iter().zip(writer.units(&removed)?) {
        units[*index] = unit;
    }
    let marked: Vec<MemoryId> = alone
        .iter()
        .map(|index| wanted[*index].id.clone())
        .collect();
    for (index, unit) in alone.iter().zip(writer.roots(&marked)?) {
        units[*index] = unit;
    }
    Ok(units)
}

fn wanted(target: &Target) -> Wanted {
    let behind = target
        .behind
        .iter()
        .map(|expected| expected.id.clone())
        .collect();
    Wanted {
        id: target.memory.id.clone(),
        behind,
    }
}

/// The memories that leave the store, or are hidden in it.
fn going<'a>(action: &Action, target: &'a Target) -> impl Iterator<Item = &'a MemoryId> {
    let members =
        std::iter::once(&target.memory.id).chain(target.behind.iter().map(|expected| &expected.id));
    let goes = action.removes();
    members.filter(move |_| goes)
}

fn is_expected(target: &Target, unit: &Unit) -> bool {
    unit.root.version() == target.memory.version
        && unit.behind.len() == target.behind.len()
        && unit
            .behind
            .iter()
            .zip(&target.behind)
            .all(|(row, expected)| row.version() == expected.version)
}

fn intent(action: &Action, target: &Target, unit: Unit, points: Vec<PointId>) -> Intent {
    Intent {
        kind: action.kind(),
        partition: Arc::clone(&target.partition),
        namespace: Some(target.namespace.clone()),
        memory: Some(target.memory.id.clone()),
        behind: target
            .behind
            .iter()
            .map(|expected| expected.id.clone())
            .collect(),
        expect: Some(target.memory.version),
        reason: action.reason(),
        erase: action.reason().erases(),
        mark: action.mark().cloned(),
        survivor: action.survivor().cloned(),
        unit: Some(unit),
        stays: None,
        points,
        images: Vec::new(),
    }
}

/// The points of each memory.
type PointsOf = HashMap<MemoryId, Vec<PointId>>;

/// The memories of a batch that exist, and their points by the rule of the store.
fn points_of(
    job: &Job<'_>,
    writer: &mut Writer,
    wanted: &[Wanted],
) -> Result<(HashSet<MemoryId>, PointsOf), ApplyError> {
    let ids: Vec<MemoryId> = wanted
        .iter()
        .flat_map(|wanted| std::iter::once(&wanted.id).chain(&wanted.behind))
        .cloned()
        .collect();
    let mut points = PointsOf::new();
    let mut linked: HashMap<(Namespace, String), HashMap<String, MemoryId>> = HashMap::new();
    let memories = writer.memories(&[Role::Point], &ids)?;
    let present = memories
        .iter()
        .filter_map(|memory| memory.id.clone())
        .collect();
    let (Some(config), Some(vectors)) = (&job.stores.config.vectors, job.vectors()) else {
        return Ok((present, points));
    };
    for memory in memories {
        let (Some(id), Some(namespace)) = (memory.id.clone(), &memory.namespace) else {
            continue;
        };
        let rule = Rule {
            point_id: &config.point_id,
            rows: &job.stores.config.rows,
        };
        match rule.derive(&memory) {
            Derived::Id(point) => points.entry(id).or_default().push(point),
            Derived::ByPayload { key, value } => {
                linked
                    .entry((namespace.clone(), key))
                    .or_default()
                    .insert(value, id);
            }
            Derived::None { .. } => {}
        }
    }
    let mut linked: Vec<_> = linked.into_iter().collect();
    linked.sort_by(|a, b| a.0.cmp(&b.0));
    for ((namespace, key), by_value) in linked {
        let mut values: Vec<String> = by_value.keys().cloned().collect();
        values.sort();
        for (value, point) in vectors.find(namespace.as_str(), &key, &values)? {
            if let Some(memory) = by_value.get(&value) {
                points.entry(memory.clone()).or_default().push(point);
            }
        }
    }
    Ok((present, points))
}

/// Takes the pre-images of the points.
fn capture_points(job: &Job<'_>, intents: &mut [Intent]) -> Result<(), ApplyError> {
    let ids: Vec<PointId> = intents
        .iter()
        .flat_map(|intent| intent.points.iter().cloned())
        .collect();
    let Some(vectors) = job.vectors().filter(|_| !ids.is_empty()) else {
        return Ok(());
    };
    let mut images: HashMap<PointId, PointImage> = vectors
        .capture(&ids)?
        .into_iter()
        .map(|image| (image.id.clone(), image))
        .collect();
    for intent in intents {
        let namespace = intent.namespace.as_ref().map(Namespace::normal);
        // A point of somebody else that has the id which this memory's would have is not this memory's. One that names
        // nobody is: its id says so.
        let is_own = |image: &PointImage| match &image.namespace {
            Some(raw) if !raw.is_empty() => {
                Namespace::parse(raw).map(|ns| ns.normal()) == namespace
            }
            _ => true,
        };
        intent.images = intent
            .points
            .iter()
            .filter_map(|id| images.remove(id))
            .filter(is_own)
            .collect();
        intent.points = intent.images.iter().map(|image| image.id.clone()).collect();
    }
    Ok(())
}
