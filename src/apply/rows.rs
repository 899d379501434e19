//! Removing memories: rows with all that goes with them, and their points. What is only confirmed keeps its point.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, Namespace, PointId, Role, Version};
use crate::pace::Pace;
use crate::plan::{Action, Target};
use crate::report::{Applied, count};
use crate::state::{Intent, State};
use crate::store::image::{PointImage, Unit};
use crate::store::rows::{Fate, Partition, Wanted, Writer};
use crate::store::vectors::VectorStore;
use crate::store::vectors::point_id::{Derived, Rule};

use super::finish::{self, Written};
use super::kept::{self, Kept};
use super::mirrored::{self, Mirrored};
use super::recheck::owner_still_so;
use super::{ApplyError, BATCH, Job, LARGEST_TRANSACTION};

/// Bytes of row images, and of point images, after which a batch takes no more actions.
const BATCH_BYTES: usize = 8 << 20;
/// Actions whose points are captured before anything is known of the size of points.
const FIRST_CAPTURE: usize = 16;

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
        let mut rest = actions;
        while !rest.is_empty() {
            if job.cx.stop.is_requested() {
                done.interrupted = true;
                return Ok(());
            }
            let dealt = apply_batch(job, &mut writer, state, &mut pace, &kept, alike(rest), done);
            done.refused.extend(writer.take_refusals());
            let dealt = dealt?;
            job.cx.progress.advance(dealt as u64);
            rest = &rest[dealt..];
        }
        Ok(())
    })
}

/// The next batch at its largest: actions of one kind.
fn alike(actions: &[Action]) -> &[Action] {
    let kind = actions.first().map(Action::kind);
    let alike = actions
        .iter()
        .take(BATCH)
        .take_while(|action| Some(action.kind()) == kind)
        .count();
    &actions[..alike]
}

/// Applies as many actions of a batch as fit into memory, from the first on, and returns how many.
fn apply_batch(
    job: &Job<'_>,
    writer: &mut Writer,
    state: &State,
    pace: &mut Pace,
    kept: &Kept,
    batch: &[Action],
    done: &mut Applied,
) -> Result<usize, ApplyError> {
    let wanted = still_wanted(job, batch)?;
    // A locked file is found before any point of it is touched.
    writer.can_write()?;
    let mut judged = judge(job, writer, kept, &wanted)?;
    let fitting = capture_points(job, &mut judged)?;
    judged.truncate(fitting);
    let dealt = wanted
        .get(judged.len())
        .map_or(batch.len(), |next| next.place);
    let mut intents = tell_apart(judged, &batch[..dealt], done);
    copy_survivors(writer, &mut intents)?;
    if intents.is_empty() {
        return Ok(dealt);
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
    Ok(dealt)
}

/// An action of a batch whose reason still holds.
struct Doomed<'a> {
    /// Where it stands in the batch.
    place: usize,
    action: &'a Action,
    target: &'a Target,
}

/// What a second look at the rows says of an action.
enum Judged {
    /// Somebody else removed the row: what is left of it is the orphans pass's.
    Gone,
    /// The memory is not as the plan expects it.
    Changed,
    /// It goes.
    Goes(Box<Intent>),
}

/// The actions but those whose owner is no longer marked deleted, or was marked anew.
fn still_wanted<'a>(job: &Job<'_>, batch: &'a [Action]) -> Result<Vec<Doomed<'a>>, ApplyError> {
    let owners = job.owners_for(batch.iter().map(Action::reason))?;
    let mut wanted = Vec::with_capacity(batch.len());
    for (place, action) in batch.iter().enumerate() {
        if let Some(target) = action.target()
            && owner_still_so(owners.as_ref(), &target.namespace, action.reason())
        {
            wanted.push(Doomed {
                place,
                action,
                target,
            });
        }
    }
    Ok(wanted)
}

/// Counts the actions that end here, and returns the intents of the others.
fn tell_apart(judged: Vec<Judged>, batch: &[Action], done: &mut Applied) -> Vec<Intent> {
    let mut intents = Vec::with_capacity(judged.len());
    let Some(kind) = batch.first().map(Action::kind) else {
        return intents;
    };
    let mut skipped = batch.len() - judged.len();
    for judged in judged {
        match judged {
            Judged::Gone => count(&mut done.applied, kind, 1),
            Judged::Changed => skipped += 1,
            Judged::Goes(intent) => intents.push(*intent),
        }
    }
    count(&mut done.skipped, kind, skipped);
    intents
}

/// Reads the pre-images of the rows, as many as fit into memory, and judges the actions by them.
fn judge(
    job: &Job<'_>,
    writer: &mut Writer,
    kept: &Kept,
    batch: &[Doomed<'_>],
) -> Result<Vec<Judged>, ApplyError> {
    let mut wanted: Vec<Wanted> = batch.iter().map(|doomed| wanted(doomed.target)).collect();
    let units = units(writer, batch, &wanted)?;
    wanted.truncate(units.len());
    let Looked {
        versions,
        points,
        unclear,
    } = points_of(job, writer, &wanted)?;
    let judge = |(doomed, unit): (&Doomed<'_>, Option<Unit>)| {
        let target = doomed.target;
        // Of these nobody could see the points gone.
        let is_unclear = going(doomed.action, target).any(|id| unclear.contains(id));
        match unit {
            None if !versions.contains_key(&target.memory.id) => Judged::Gone,
            Some(unit) if !is_unclear && is_expected(target, &unit, &versions) => {
                let ids = going(doomed.action, target)
                    .flat_map(|id| points.get(id).into_iter().flatten())
                    .filter(|point| !kept.has(point))
                    .cloned()
                    .collect();
                Judged::Goes(Box::new(intent(doomed.action, target, unit, ids)))
            }
            None | Some(_) => Judged::Changed,
        }
    };
    Ok(batch.iter().zip(units).map(judge).collect())
}

/// Takes the pre-images of the memories that take over.
fn copy_survivors(writer: &mut Writer, intents: &mut [Intent]) -> Result<(), ApplyError> {
    for intent in intents {
        if let Some(survivor) = &intent.survivor {
            let unit = writer
                .roots(std::slice::from_ref(&survivor.id), usize::MAX)?
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
    batch: &[Doomed<'_>],
    wanted: &[Wanted],
) -> Result<Vec<Option<Unit>>, ApplyError> {
    let is_marked = |doomed: &Doomed<'_>| doomed.action.mark().is_some();
    if !batch.iter().any(is_marked) {
        return Ok(writer.units(wanted, BATCH_BYTES)?);
    }
    let ids: Vec<MemoryId> = wanted.iter().map(|wanted| wanted.id.clone()).collect();
    Ok(writer.roots(&ids, BATCH_BYTES)?)
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

/// Whether the memories are as the plan has them. Their copies were taken before their versions were read, and are
/// compared once more when they are removed.
fn is_expected(target: &Target, unit: &Unit, versions: &HashMap<MemoryId, Version>) -> bool {
    let mut expected = std::iter::once(&target.memory).chain(&target.behind);
    unit.behind.len() == target.behind.len()
        && expected.all(|expected| versions.get(&expected.id) == Some(&expected.version))
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

/// The memories of a batch, looked up.
struct Looked {
    /// What those that exist are now.
    versions: HashMap<MemoryId, Version>,
    /// Their points by the rule of the store.
    points: PointsOf,
    /// Those with a point that nobody can name.
    unclear: HashSet<MemoryId>,
}

/// Looks up which memories of a batch exist, and their points by the rule of the store.
fn points_of(job: &Job<'_>, writer: &mut Writer, wanted: &[Wanted]) -> Result<Looked, ApplyError> {
    let ids: Vec<MemoryId> = wanted
        .iter()
        .flat_map(|wanted| std::iter::once(&wanted.id).chain(&wanted.behind))
        .cloned()
        .collect();
    let mut points = PointsOf::new();
    let mut unclear = HashSet::new();
    let mut linked: HashMap<(Namespace, String), HashMap<String, MemoryId>> = HashMap::new();
    let memories = writer.memories(&[Role::Point], &ids)?;
    let versions = ids.iter().cloned().zip(writer.versions(&ids)?);
    let versions = versions
        .filter_map(|(id, version)| Some((id, version?)))
        .collect();
    let (Some(config), Some(vectors)) = (&job.stores.config.vectors, job.vectors()) else {
        return Ok(Looked {
            versions,
            points,
            unclear,
        });
    };
    let mut away: HashMap<Namespace, bool> = HashMap::new();
    for memory in memories {
        let (Some(id), Some(namespace)) = (memory.id.clone(), &memory.namespace) else {
            continue;
        };
        let is_away = match away.get(namespace) {
            Some(known) => *known,
            None => vectors.is_away(namespace.as_str())?,
        };
        away.insert(namespace.clone(), is_away);
        if is_away {
            unclear.insert(id);
            continue;
        }
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
            match (by_value.get(&value), point) {
                (Some(memory), Some(point)) => {
                    points.entry(memory.clone()).or_default().push(point);
                }
                (Some(memory), None) => {
                    unclear.insert(memory.clone());
                }
                (None, _) => {}
            }
        }
    }
    Ok(Looked {
        versions,
        points,
        unclear,
    })
}

/// Takes the pre-images of the points, intent by intent until they are larger than a batch may be. Returns how many
/// of `judged` have theirs.
fn capture_points(job: &Job<'_>, judged: &mut [Judged]) -> Result<usize, ApplyError> {
    let Some(vectors) = job.vectors() else {
        return Ok(judged.len());
    };
    let (mut taken, mut bytes, mut step) = (0, 0, FIRST_CAPTURE);
    while taken < judged.len() && bytes < BATCH_BYTES {
        let end = judged.len().min(taken + step);
        let are_rows = job.stores.config.rows.are_points();
        bytes += capture(vectors, are_rows, &mut judged[taken..end])?;
        taken = end;
        step = match bytes / taken {
            0 => judged.len(),
            average => (BATCH_BYTES.saturating_sub(bytes) / average).max(1),
        };
    }
    Ok(taken)
}

/// Takes the pre-images of the points of some intents, and returns how many bytes they are. A memory with a point that
/// shares its id with another one stays: nobody could see it gone. Where the points are the rows, one that is not as it
/// was mirrored stays, too.
fn capture(
    vectors: &dyn VectorStore,
    are_rows: bool,
    judged: &mut [Judged],
) -> Result<usize, ApplyError> {
    let going = judged.iter().filter_map(|judged| match judged {
        Judged::Goes(intent) => Some(intent),
        Judged::Gone | Judged::Changed => None,
    });
    let ids: Vec<PointId> = going
        .flat_map(|intent| intent.points.iter().cloned())
        .collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let captured = vectors.capture(&ids)?;
    let mut images: HashMap<PointId, PointImage> = captured
        .images
        .into_iter()
        .map(|image| (image.id.clone(), image))
        .collect();
    let bytes = images.values().map(|image| image.body.len()).sum();
    for judged in judged {
        let Judged::Goes(intent) = judged else {
            continue;
        };
        if intent
            .points
            .iter()
            .any(|point| captured.ambiguous.contains(point))
        {
            *judged = Judged::Changed;
            continue;
        }
        if are_rows {
            match mirrored::compare(intent.unit.as_ref(), &mut images)? {
                Mirrored::Same(own) => {
                    intent.points = own.iter().map(|image| image.id.clone()).collect();
                    intent.images = own;
                }
                Mirrored::Gone => *judged = Judged::Gone,
                Mirrored::Changed => *judged = Judged::Changed,
            }
            continue;
        }
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
    Ok(bytes)
}
