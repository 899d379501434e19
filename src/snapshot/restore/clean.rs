//! Taking out of a pair what was removed after it was taken, before the pair is live.
//!
//! What is known of that is in the state files: a tombstone for each memory and point that was removed, and the hash of
//! each namespace of which something was erased. A tombstone names a key, and a key may be used again: a memory that was
//! written after the removal is another one, and stays. Text indexes are folded and the files are written anew afterwards,
//! so that nothing of what was taken out is left in them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;

use super::{Home, Manifest, Request, SnapshotError, state_of};
use crate::clock::Timestamp;
use crate::config::PointRule;
use crate::memory::{Memory, MemoryId, Namespace, PointId, Role};
use crate::plan::{ActionKind, Mark};
use crate::state::{
    Bookmark, Gone, NamespaceHash, Partition, StateDir, StateError, StateReader, Tombstone,
};
use crate::store::rows::{Change, Fate, RowError, RowStore, Wanted, Writer};
use crate::store::sqlite::Access;
use crate::store::vectors::VectorStore;
use crate::store::vectors::point_id::{Derived, Rule};

/// Memories that are copied and removed at once.
const BATCH: usize = 200;
/// Bytes of copies after which a batch ends.
const BATCH_BYTES: usize = 8 << 20;
/// Points that are removed at once.
const POINTS: usize = 500;

/// What a pair held and was not put back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TakenOut {
    /// Memories that were deleted, or whose owner was erased.
    pub memories: u64,
    /// Memories that were ended, hidden or marked as deleted, and are so again.
    pub marked: u64,
    /// Points.
    pub points: u64,
}

/// Refuses a pair where a state file that was there when it was taken is gone, is another one, or was put back to an
/// earlier state.
pub(super) fn require_state(state: &StateDir, manifest: &Manifest) -> Result<(), SnapshotError> {
    let Some(then) = &manifest.state else {
        return Ok(());
    };
    let now = state.bookmarks()?;
    let is_known =
        |name: &String, mark: &Bookmark| now.get(name).is_some_and(|now| mark.leads_to(now));
    match then.iter().find(|(name, mark)| !is_known(name, mark)) {
        Some((name, _)) => Err(SnapshotError::StateLost {
            path: state.beside(name),
        }),
        None => Ok(()),
    }
}

/// From where on a state file tells what was removed after a pair was taken. By its own numbers, for a clock may have
/// been set since; and everything, if the file was made later.
fn since(
    state: &StateReader,
    partition: Partition<'_>,
    manifest: &Manifest,
) -> Result<Since, StateError> {
    let Some(marks) = &manifest.state else {
        return Ok(Since::Instant(manifest.taken_at));
    };
    let now = state.bookmark()?;
    let mark = StateDir::bookmark_of(marks, partition).filter(|mark| mark.lineage == now.lineage);
    Ok(mark.map_or(Since::Instant(Timestamp::MIN), |mark| {
        Since::Bookmark(mark.clone())
    }))
}

enum Since {
    Bookmark(Bookmark),
    Instant(Timestamp),
}

/// The namespaces of which something was erased after a pair was taken, over every state file of the store.
pub(super) fn erased(
    state: &StateDir,
    manifest: &Manifest,
) -> Result<Vec<NamespaceHash>, SnapshotError> {
    let mut erased = Vec::new();
    state.each(&mut |partition, state| {
        erased.extend(match since(state, partition, manifest)? {
            Since::Bookmark(mark) => state.erased_after(&mark, manifest.taken_at)?,
            Since::Instant(at) => {
                let namespaces = state.erased_namespaces()?.into_iter();
                namespaces.filter(|it| it.1 >= at).map(|it| it.0).collect()
            }
        });
        Ok(())
    })?;
    Ok(erased)
}

/// What was removed from one row database after a pair was taken.
fn tombstones(
    state: &StateDir,
    partition: Partition<'_>,
    manifest: &Manifest,
) -> Result<Vec<Tombstone>, SnapshotError> {
    let Some(state) = state.read(partition)? else {
        return Ok(Vec::new());
    };
    Ok(match since(&state, partition, manifest)? {
        Since::Bookmark(mark) => state.tombstones_after(&mark)?,
        Since::Instant(at) => state.tombstones(at)?,
    })
}

/// Takes out of the new places what must not come back.
pub(super) fn clean(
    request: Request<'_>,
    state: &StateDir,
    homes: &[Home<'_>],
    points: Option<&dyn VectorStore>,
    tag: &str,
) -> Result<TakenOut, SnapshotError> {
    let manifest = &request.pair.manifest;
    let erased: BTreeSet<NamespaceHash> = erased(state, manifest)?.into_iter().collect();
    let cleaning = Cleaning {
        request,
        erased: &erased,
        points,
    };
    let mut taken_out = TakenOut::default();
    for home in homes {
        let tombstones: Vec<Tombstone> = tombstones(state, state_of(home), manifest)?
            .into_iter()
            .filter(|tombstone| tombstone.erased || !request.bring_back)
            .collect();
        if !tombstones.is_empty() || !erased.is_empty() {
            cleaning.home(home, &tombstones, tag, &mut taken_out)?;
        }
    }
    cleaning.erased_points(&mut taken_out)?;
    Ok(taken_out)
}

struct Cleaning<'a> {
    request: Request<'a>,
    erased: &'a BTreeSet<NamespaceHash>,
    points: Option<&'a dyn VectorStore>,
}

/// What is to be done to one row database.
#[derive(Default)]
struct Doomed {
    delete: Vec<Memory>,
    mark: Vec<(Memory, ActionKind, Timestamp)>,
    /// Points that were dropped because nothing stood behind them, and whether they were erased.
    ghosts: BTreeMap<PointId, bool>,
}

impl Cleaning<'_> {
    fn home(
        &self,
        home: &Home<'_>,
        tombstones: &[Tombstone],
        tag: &str,
        taken_out: &mut TakenOut,
    ) -> Result<(), SnapshotError> {
        let rows = RowStore::new(&self.request.store.rows).written_with(Access::Erase);
        let staged = home.staged(tag);
        let ghosts = tombstones
            .iter()
            .filter_map(|tombstone| match &tombstone.gone {
                Gone::Point(point) => Some((point.clone(), tombstone.erased)),
                Gone::Memory(_) => None,
            })
            .collect();
        let doomed = rows
            .reader(&staged)?
            .snapshot(|snapshot| -> Result<Doomed, RowError> {
                let mut doomed = Doomed {
                    ghosts,
                    ..Doomed::default()
                };
                let tombs = by_memory(tombstones);
                snapshot.scan(&[Role::Point, Role::CreatedAt], &mut |memory| {
                    if let Some(memory) = self.sort(memory, &tombs, &mut doomed) {
                        self.keep_point(&memory, &mut doomed);
                    }
                    ControlFlow::Continue(())
                })?;
                Ok(doomed)
            })?;
        let marks = marks(&rows, home, &staged, doomed.mark)?;
        let marked = marks.iter().map(|(memory, _)| memory);
        let own = doomed.delete.iter().chain(marked);
        let mut points = self.points_of(own)?;
        // Where the payload names the row, nobody knows whether the pair has it: the next run drops such a point again.
        let by_payload = self
            .rule()
            .is_some_and(|rule| matches!(rule.point_id, PointRule::Payload { .. }));
        let ghosts = doomed.ghosts.iter();
        points.extend(
            ghosts
                .filter(|(_, erased)| **erased || !by_payload)
                .map(|(id, _)| id.clone()),
        );
        taken_out.points += self.remove_points(&points)?;
        let mut writer = rows.writer(&staged)?;
        taken_out.memories += delete(&rows, &staged, &mut writer, &doomed.delete)?;
        taken_out.marked += mark(&mut writer, &marks)?;
        if !doomed.delete.is_empty() {
            // A text index that refuses to be folded finds none of them all the same: no reason to put nothing back.
            writer.scrub()?;
        }
        Ok(())
    }

    /// Decides about one memory of the pair; answers it when it stays as it is.
    fn sort(
        &self,
        memory: Memory,
        tombs: &BTreeMap<&MemoryId, &Tombstone>,
        doomed: &mut Doomed,
    ) -> Option<Memory> {
        let namespace = memory.namespace.as_ref().map(NamespaceHash::of);
        if namespace.is_some_and(|namespace| self.erased.contains(&namespace)) {
            doomed.delete.push(memory);
            return None;
        }
        let Some(tomb) = memory.id.as_ref().and_then(|id| tombs.get(id)) else {
            return Some(memory);
        };
        let is_other = tomb.namespace.is_some() && tomb.namespace != namespace;
        let is_later = memory.created_at.earliest().is_some_and(|at| at > tomb.at);
        if is_other || is_later {
            return Some(memory);
        }
        match tomb.kind {
            ActionKind::End | ActionKind::SoftDelete | ActionKind::Supersede => {
                doomed.mark.push((memory, tomb.kind, tomb.at));
            }
            _ => doomed.delete.push(memory),
        }
        None
    }

    /// A point that was dropped for want of a row stays where the pair has the row.
    fn keep_point(&self, memory: &Memory, doomed: &mut Doomed) {
        if let Some(rule) = self.rule().filter(|_| !doomed.ghosts.is_empty())
            && let Derived::Id(id) = rule.derive(memory)
            && doomed.ghosts.get(&id) == Some(&false)
        {
            doomed.ghosts.remove(&id);
        }
    }

    fn rule(&self) -> Option<Rule<'_>> {
        let vectors = self.request.store.vectors.as_ref()?;
        Some(Rule {
            point_id: &vectors.point_id,
            rows: &self.request.store.rows,
        })
    }

    /// The points of memories, by the rule of the store.
    fn points_of<'m>(
        &self,
        memories: impl Iterator<Item = &'m Memory>,
    ) -> Result<Vec<PointId>, SnapshotError> {
        let (Some(points), Some(rule)) = (self.points, self.rule()) else {
            return Ok(Vec::new());
        };
        let mut ids = Vec::new();
        let mut by_payload: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for memory in memories {
            match (rule.derive(memory), &memory.namespace) {
                (Derived::Id(id), _) => ids.push(id),
                (Derived::ByPayload { key, value }, Some(namespace)) => by_payload
                    .entry((namespace.as_str().to_owned(), key))
                    .or_default()
                    .push(value),
                (Derived::ByPayload { .. } | Derived::None { .. }, _) => {}
            }
        }
        for ((namespace, key), values) in &by_payload {
            for values in values.chunks(POINTS) {
                let found = points.find(namespace, key, values)?;
                ids.extend(found.into_iter().filter_map(|(_, id)| id));
            }
        }
        Ok(ids)
    }

    /// Removes points from their new place, and answers how many were there.
    fn remove_points(&self, ids: &[PointId]) -> Result<u64, SnapshotError> {
        let Some(points) = self.points else {
            return Ok(0);
        };
        let mut removed = 0;
        for ids in ids.chunks(POINTS) {
            let captured = points.capture(ids)?;
            if let Some(id) = captured.ambiguous.first() {
                return Err(SnapshotError::Damaged(format!(
                    "point {id} was removed, and the pair has several of that id"
                )));
            }
            let left = points.remove(&captured.images)?;
            if !left.is_empty() {
                return Err(SnapshotError::Damaged(format!(
                    "{} points that were removed cannot be taken out of the pair",
                    left.len()
                )));
            }
            removed += captured.images.len() as u64;
        }
        Ok(removed)
    }

    /// Removes every point of an erased namespace: also those that have no row.
    fn erased_points(&self, taken_out: &mut TakenOut) -> Result<(), SnapshotError> {
        let Some(points) = self.points.filter(|_| !self.erased.is_empty()) else {
            return Ok(());
        };
        for (name, _) in points.namespaces()? {
            let is_erased = Namespace::parse(&name)
                .is_some_and(|namespace| self.erased.contains(&NamespaceHash::of(&namespace)));
            if !is_erased {
                continue;
            }
            let mut ids = Vec::new();
            points.scroll(
                crate::store::vectors::Selector::Namespace(&name),
                &[],
                &mut |page| {
                    ids.extend(page.into_iter().map(|point| point.id));
                    ControlFlow::Continue(())
                },
            )?;
            taken_out.points += self.remove_points(&ids)?;
        }
        Ok(())
    }
}

/// How memories are to be marked again. One that stood behind another is hidden again only where the present store says
/// behind which, and the pair has that one: else it is live again, as it was.
fn marks(
    rows: &RowStore,
    home: &Home<'_>,
    staged: &crate::store::rows::Partition,
    memories: Vec<(Memory, ActionKind, Timestamp)>,
) -> Result<Vec<(Memory, Mark)>, SnapshotError> {
    let is_hidden = |kind| kind == ActionKind::Supersede;
    let ids: Vec<MemoryId> = memories
        .iter()
        .filter(|(_, kind, _)| is_hidden(*kind))
        .filter_map(|(memory, ..)| memory.id.clone())
        .collect();
    let behind = survivors(rows, home, &ids);
    let wanted: Vec<MemoryId> = behind.values().cloned().collect();
    let there = rows
        .reader(staged)?
        .snapshot(|snapshot| snapshot.memories(&[], &wanted))?;
    let there: BTreeSet<MemoryId> = there.into_iter().filter_map(|memory| memory.id).collect();
    let mark = |(memory, kind, at): (Memory, ActionKind, Timestamp)| {
        let mark = match kind {
            ActionKind::End => Mark::Ended { at },
            ActionKind::SoftDelete => Mark::Deleted { at },
            _ => {
                let by = behind.get(memory.id.as_ref()?)?;
                Mark::Superseded {
                    by: there.get(by)?.clone(),
                }
            }
        };
        Some((memory, mark))
    };
    Ok(memories.into_iter().filter_map(mark).collect())
}

/// Marks memories, and answers how many.
fn mark(writer: &mut Writer, marks: &[(Memory, Mark)]) -> Result<u64, SnapshotError> {
    let mut marked = 0;
    for batch in marks.chunks(BATCH) {
        let mut changes = Vec::with_capacity(batch.len());
        for (memory, mark) in batch {
            let Some(id) = &memory.id else { continue };
            let unit = writer.roots(std::slice::from_ref(id), BATCH_BYTES)?;
            changes.extend(unit.into_iter().flatten().map(|unit| Change {
                unit,
                mark: Some(mark.clone()),
                survivor: None,
            }));
        }
        let fates = writer.change_units(&changes)?;
        marked += fates.iter().filter(|fate| **fate == Fate::Removed).count() as u64;
    }
    Ok(marked)
}

/// The last tombstone of each memory.
fn by_memory(tombstones: &[Tombstone]) -> BTreeMap<&MemoryId, &Tombstone> {
    let memories = tombstones
        .iter()
        .filter_map(|tombstone| match &tombstone.gone {
            Gone::Memory(id) => Some((id, tombstone)),
            Gone::Point(_) => None,
        });
    memories.collect()
}

/// Behind which memory the present store has others; nothing when it cannot be read.
fn survivors(rows: &RowStore, home: &Home<'_>, ids: &[MemoryId]) -> BTreeMap<MemoryId, MemoryId> {
    let read = || {
        rows.reader(&home.partition)?
            .snapshot(|snapshot| snapshot.memories(&[Role::SupersededBy], ids))
    };
    let memories = read().unwrap_or_default();
    memories
        .into_iter()
        .filter_map(|memory| Some((memory.id?, memory.superseded_by?)))
        .collect()
}

/// Deletes memories with all that hangs on them, and what hides behind them. Answers how many memories went.
fn delete(
    rows: &RowStore,
    staged: &crate::store::rows::Partition,
    writer: &mut Writer,
    memories: &[Memory],
) -> Result<u64, SnapshotError> {
    let ids: Vec<MemoryId> = memories
        .iter()
        .filter_map(|memory| memory.id.clone())
        .collect();
    if ids.len() < memories.len() {
        return Err(SnapshotError::Damaged(
            "memories that must not come back have no key to delete them by".into(),
        ));
    }
    let mut deleted = 0;
    let mut ids = ids;
    while !ids.is_empty() {
        let removals = rows
            .reader(staged)?
            .snapshot(|snapshot| snapshot.removals(&ids))?;
        if let (true, Some((id, blocker))) = (removals.free.is_empty(), removals.blocked.first()) {
            return Err(SnapshotError::Damaged(format!(
                "memory {id} was removed, and cannot be taken out of the pair: {blocker}"
            )));
        }
        let wanted: Vec<Wanted> = removals
            .free
            .into_iter()
            .map(|(id, behind)| Wanted {
                id,
                behind: behind.into_iter().map(|expected| expected.id).collect(),
            })
            .collect();
        deleted += delete_all(writer, &wanted)?;
        // What stood in the way of these may be gone by now.
        ids = removals.blocked.into_iter().map(|(id, _)| id).collect();
    }
    Ok(deleted)
}

fn delete_all(writer: &mut Writer, wanted: &[Wanted]) -> Result<u64, SnapshotError> {
    let (mut rest, mut deleted) = (wanted, 0);
    while !rest.is_empty() {
        let batch = &rest[..rest.len().min(BATCH)];
        let units = writer.units(batch, BATCH_BYTES)?;
        rest = &rest[units.len()..];
        let units: Vec<_> = units.into_iter().flatten().collect();
        let fates = writer.delete_units(&units)?;
        for (unit, fate) in units.iter().zip(fates) {
            match fate {
                Fate::Removed => deleted += 1 + unit.behind.len() as u64,
                Fate::Absent => {}
                Fate::Changed | Fate::Blocked => {
                    return Err(SnapshotError::Damaged(
                        "a memory that was removed cannot be taken out of the pair: a row, a constraint or a trigger \
                         forbids it"
                            .into(),
                    ));
                }
            }
        }
    }
    Ok(deleted)
}
