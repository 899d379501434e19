//! Taking back the actions of one row database: rows, then points, then lists, then what is remembered.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, PointId, Role};
use crate::pace::Pace;
use crate::pass::PassName;
use crate::plan::ActionKind;
use crate::state::{ActionResult, Folded, Intent, IntentRecord, State, TakenBack, Total};
use crate::store::image::{PointImage, RowImage};
use crate::store::rows::{LeftReason, LeftRow, Partition, Restored, Return, Takeover, Writer};
use crate::store::vectors::VectorStore;
use crate::store::vectors::point_id::{Derived, Rule};

use super::super::entities::{self, Lists};
use super::super::files::Home;
use super::super::{ApplyError, Job, LARGEST_TRANSACTION, finish};
use super::{Fate, Rest, Returned, Scope, Why, lesson};

/// Which other memories that were folded into the same one count as staying there.
#[derive(Clone, Copy)]
pub(super) enum Siblings<'a> {
    /// Those of other runs: all of this run return.
    OfOtherRuns(&'a str),
    /// All others: only some return.
    All,
    /// All others, for a memory that may be back already.
    Replayed,
}

impl<'a> Siblings<'a> {
    pub(super) fn of(scope: &Scope<'a>) -> Self {
        if scope.is_whole() {
            Self::OfOtherRuns(scope.run)
        } else {
            Self::All
        }
    }
}

/// One row database in which actions are taken back.
pub(super) struct Undoing<'a> {
    job: &'a Job<'a>,
    state: &'a State,
    file: Option<&'a Partition>,
    writer: Option<Writer>,
    pace: Pace,
    folded: Option<HashMap<MemoryId, Vec<Folded>>>,
    /// Rows that hang on several memories, and had to wait for another one: which action, and what to put back.
    waiting: Vec<(MemoryId, Return)>,
}

impl<'a> Undoing<'a> {
    pub(super) fn new(job: &'a Job<'a>, state: &'a State, home: &Home<'a>) -> Self {
        let file = match home {
            Home::File(file) => Some(*file),
            Home::None | Home::Missing => None,
        };
        Self {
            job,
            state,
            file,
            writer: None,
            pace: Pace::up_to(LARGEST_TRANSACTION),
            folded: None,
            waiting: Vec::new(),
        }
    }

    /// Opens the rows, where some of the actions were about rows.
    pub(super) fn open(&mut self, records: &[IntentRecord]) -> Result<(), ApplyError> {
        let needs_rows = records.iter().any(|record| record.intent.unit.is_some());
        if let (true, None, Some(file)) = (needs_rows, &self.writer, self.file) {
            let mut writer = self.job.stores.rows.writer(file)?;
            writer.can_write()?;
            self.writer = Some(writer);
        }
        Ok(())
    }

    /// Takes actions back that are marked as being taken back.
    pub(super) fn take_back(
        &mut self,
        records: &[IntentRecord],
        siblings: Siblings<'_>,
        reopened: &mut BTreeSet<i64>,
    ) -> Result<Vec<Returned>, ApplyError> {
        let mut returned = self.rows(records, siblings)?;
        self.points(records, &mut returned)?;
        self.lists(records, &mut returned)?;
        let back: Vec<&IntentRecord> = records
            .iter()
            .zip(&returned)
            .filter(|(_, returned)| returned.fate.is_back())
            .map(|(record, _)| record)
            .collect();
        reopened.extend(lesson::remember(self.job, self.writer.as_ref(), &back)?);
        let ended: Vec<_> = records
            .iter()
            .zip(&returned)
            .map(|(record, returned)| {
                let how = if returned.fate.is_back() {
                    TakenBack::Back
                } else {
                    TakenBack::Left
                };
                (record.id, how)
            })
            .collect();
        hit(Failpoint::UndoSettleBefore)?;
        let (state, now) = (self.state, self.job.now);
        self.pace.calmly(|| state.finish_undo(&ended, now))?;
        hit(Failpoint::UndoSettled)?;
        // What a killed run had begun is counted for that one.
        if !matches!(siblings, Siblings::Replayed) {
            let main = self.job.states.main();
            main.count(self.job.run, &reversals(&back))?;
        }
        Ok(returned)
    }

    /// Puts the rows back, and says what became of each action by them alone.
    fn rows(
        &mut self,
        records: &[IntentRecord],
        siblings: Siblings<'_>,
    ) -> Result<Vec<Returned>, ApplyError> {
        // What a killed run had put back was put back all the same.
        let untouched = match siblings {
            Siblings::Replayed => Fate::Back,
            Siblings::OfOtherRuns(_) | Siblings::All => Fate::There,
        };
        let mut returned: Vec<Returned> = records
            .iter()
            .map(|record| Returned::of(record, untouched))
            .collect();
        let (mut places, mut returns) = (Vec::new(), Vec::new());
        for (place, record) in records.iter().enumerate() {
            if let Some(item) = self.return_of(record, siblings)? {
                places.push(place);
                returns.push(item);
            }
        }
        let restored = self.put_back(&returns)?;
        for ((place, item), restored) in places.into_iter().zip(returns).zip(restored) {
            let record = &records[place];
            let is_back = restored.is_back || self.is_back_by_replay(record, siblings)?;
            let returned = &mut returned[place];
            if !is_back {
                let reason = restored.left.first().map(|left| left.reason);
                returned.fate = Fate::Left(reason.map_or(Why::Changed, Why::from));
                continue;
            }
            let waits = |left: &LeftRow| left.reason == LeftReason::ParentGone;
            if restored.left.iter().any(waits)
                && let Some(memory) = &record.intent.memory
            {
                self.waiting.push((memory.clone(), item));
            }
            if restored.written > 0 {
                returned.fate = Fate::Back;
            }
            if restored.is_back {
                returned.rest = restored.left.into_iter().map(Rest::Row).collect();
            }
        }
        Ok(returned)
    }

    /// Whether a killed run had put the row back, and somebody has edited it since.
    fn is_back_by_replay(
        &mut self,
        record: &IntentRecord,
        siblings: Siblings<'_>,
    ) -> Result<bool, ApplyError> {
        match (&mut self.writer, siblings) {
            (Some(writer), Siblings::Replayed) => {
                finish::is_same_memory(self.job, writer, &record.intent)
            }
            _ => Ok(false),
        }
    }

    fn put_back(&mut self, returns: &[Return]) -> Result<Vec<Restored>, ApplyError> {
        let mut restored = Vec::with_capacity(returns.len());
        let Some(writer) = &mut self.writer else {
            return Ok(restored);
        };
        let mut rest = returns;
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(self.pace.size().min(rest.len()));
            hit(Failpoint::RowsBefore)?;
            restored.extend(self.pace.run(|| writer.put_back(batch))?);
            hit(Failpoint::RowsCommitted)?;
            rest = after;
        }
        Ok(restored)
    }

    /// What of the rows an action takes to be taken back; `None` for one that is about no row.
    fn return_of(
        &mut self,
        record: &IntentRecord,
        siblings: Siblings<'_>,
    ) -> Result<Option<Return>, ApplyError> {
        let intent = &record.intent;
        let Some(unit) = intent.unit.clone() else {
            return Ok(None);
        };
        let takeover = match (&intent.survivor, &intent.stays) {
            (Some(survivor), Some(stays)) => Some(Takeover {
                survivor: survivor.clone(),
                stays: stays.clone(),
                others: self.others(record, &survivor.id, siblings)?,
            }),
            _ => None,
        };
        Ok(Some(Return {
            unit,
            mark: intent.mark.clone(),
            takeover,
        }))
    }

    /// The rows of the other memories that were folded into a survivor since, and stay.
    fn others(
        &mut self,
        record: &IntentRecord,
        survivor: &MemoryId,
        siblings: Siblings<'_>,
    ) -> Result<Vec<RowImage>, ApplyError> {
        if self.folded.is_none() {
            let mut by_survivor: HashMap<MemoryId, Vec<Folded>> = HashMap::new();
            for folded in self.state.folded()? {
                by_survivor
                    .entry(folded.into.clone())
                    .or_default()
                    .push(folded);
            }
            self.folded = Some(by_survivor);
        }
        let known = self.folded.as_ref().and_then(|all| all.get(survivor));
        let stays = |folded: &&Folded| {
            let is_of_run = folded.run == record.run;
            // What was folded in earlier runs is in the row of the survivor as it was copied.
            folded.intent != record.id
                && match siblings {
                    Siblings::OfOtherRuns(run) => folded.run != run && folded.intent > record.id,
                    Siblings::All | Siblings::Replayed => is_of_run || folded.intent > record.id,
                }
        };
        let mut rows = Vec::new();
        for folded in known.into_iter().flatten().filter(stays) {
            rows.extend(self.state.root_of(folded.intent)?);
        }
        Ok(rows)
    }

    /// Puts the points back of what is back; one that was written anew stays as it is.
    fn points(
        &mut self,
        records: &[IntentRecord],
        returned: &mut [Returned],
    ) -> Result<(), ApplyError> {
        let Some(vectors) = self.job.vectors() else {
            return Ok(());
        };
        let mut images: Vec<PointImage> = Vec::new();
        let mut of: HashMap<PointId, usize> = HashMap::new();
        for (place, (record, returned)) in records.iter().zip(&mut *returned).enumerate() {
            if !returned.fate.is_back() || record.intent.kind.is_of_entity() {
                continue;
            }
            let unclear = self.points_of_left(&returned.rest)?;
            for image in &record.intent.images {
                match &unclear {
                    Unclear::Some(points) if !points.contains(&image.id) => {
                        of.insert(image.id.clone(), place);
                        images.push(image.clone());
                    }
                    _ => returned
                        .rest
                        .push(Rest::Point(image.id.clone(), Why::PointUnclear)),
                }
            }
        }
        if images.is_empty() {
            return Ok(());
        }
        let changed = vectors.changed(&images)?;
        images.retain(|image| !changed.contains(&image.id));
        let doubtful = |image: &&PointImage| returned[of[&image.id]].fate == Fate::There;
        let ids = images.iter().filter(doubtful).map(|image| image.id.clone());
        for id in missing(vectors, ids.collect())? {
            returned[of[&id]].fate = Fate::Back;
        }
        finish::put_missing_back(self.job, &images.iter().collect::<Vec<_>>())?;
        for point in changed {
            let Some(returned) = of.get(&point).and_then(|place| returned.get_mut(*place)) else {
                continue;
            };
            if returned.memory.is_none() {
                returned.fate = Fate::Left(Why::PointRewritten);
            } else {
                returned.rest.push(Rest::Point(point, Why::PointRewritten));
            }
        }
        Ok(())
    }

    /// Puts memories back into the lists that they were taken from, and lists that went.
    fn lists(&self, records: &[IntentRecord], returned: &mut [Returned]) -> Result<(), ApplyError> {
        let mut places: Vec<usize> = (0..records.len())
            .filter(|place| records[*place].intent.kind.is_of_entity())
            .filter(|place| returned[*place].fate.is_back())
            .collect();
        // A replay has them the other way round.
        places.sort_unstable_by_key(|place| Reverse(records[*place].id));
        if places.is_empty() {
            return Ok(());
        }
        let lists = Lists::open(self.job.stores, self.job.cx.stop)?;
        let intents: Vec<&Intent> = places.iter().map(|at| &records[*at].intent).collect();
        let fates = entities::fates(lists.as_ref(), &intents, entities::put_back)?;
        for (place, fate) in places.into_iter().zip(fates) {
            returned[place].fate = fate;
        }
        Ok(())
    }

    /// The points of memories that were hidden behind one that is back, and whose key another row has by now: that
    /// one must not inherit a vector.
    fn points_of_left(&self, rest: &[Rest]) -> Result<Unclear, ApplyError> {
        let left: Vec<MemoryId> = rest
            .iter()
            .filter_map(|rest| match rest {
                Rest::Row(LeftRow {
                    memory: Some(id),
                    reason: LeftReason::Exists,
                    ..
                }) => Some(id.clone()),
                _ => None,
            })
            .collect();
        let (Some(writer), Some(config)) = (&self.writer, &self.job.stores.config.vectors) else {
            return Ok(Unclear::Some(BTreeSet::new()));
        };
        let rule = Rule {
            point_id: &config.point_id,
            rows: &self.job.stores.config.rows,
        };
        let mut points = BTreeSet::new();
        for memory in writer.memories(&[Role::Point], &left)? {
            match rule.derive(&memory) {
                Derived::Id(point) => drop(points.insert(point)),
                Derived::ByPayload { .. } => return Ok(Unclear::All),
                Derived::None { .. } => {}
            }
        }
        Ok(Unclear::Some(points))
    }

    /// Puts rows back that hang on two memories of which the second has come back by now.
    pub(super) fn second_look(&mut self, actions: &mut [Returned]) -> Result<(), ApplyError> {
        for (memory, item) in std::mem::take(&mut self.waiting) {
            let restored = self.put_back(std::slice::from_ref(&item))?;
            let action = actions.iter_mut().rev().find(|action| {
                action.memory.as_ref() == Some(&memory)
                    && action.partition == *self.state.partition()
            });
            if let (Some(action), Some(restored)) = (action, restored.into_iter().next())
                && restored.is_back
            {
                if restored.written > 0 {
                    action.fate = Fate::Back;
                }
                action.rest.retain(|rest| matches!(rest, Rest::Point(..)));
                action.rest.extend(restored.left.into_iter().map(Rest::Row));
            }
        }
        Ok(())
    }
}

/// Those of points that do not exist now.
pub(super) fn missing(
    vectors: &dyn VectorStore,
    points: Vec<PointId>,
) -> Result<BTreeSet<PointId>, ApplyError> {
    if points.is_empty() {
        return Ok(BTreeSet::new());
    }
    let captured = vectors.capture(&points)?;
    let mut missing: BTreeSet<PointId> = points.into_iter().collect();
    let images = captured.images.iter().map(|image| &image.id);
    for id in images.chain(&captured.ambiguous) {
        missing.remove(id);
    }
    Ok(missing)
}

/// Points that may be another memory's by now.
enum Unclear {
    /// These.
    Some(BTreeSet<PointId>),
    /// Any of them.
    All,
}

/// What the counters get.
fn reversals(back: &[&IntentRecord]) -> Vec<Total> {
    let mut counts: BTreeMap<(PassName, ActionKind), u64> = BTreeMap::new();
    for record in back {
        *counts.entry((record.pass, record.intent.kind)).or_default() += 1;
    }
    let total = |((pass, action), count)| Total {
        pass,
        action,
        result: ActionResult::Undone,
        count,
    };
    counts.into_iter().map(total).collect()
}
