//! Taking back what a run did: the way of a removal, backwards.
//!
//! For every batch, latest first (a crash between any two steps is finished by the replay of the next run):
//!
//! 1. mark the intents as being taken back, durably;
//! 2. put the rows back, or take their marks back, in IMMEDIATE transactions that leave what was changed since;
//! 3. put the points back of the memories that are back, and the memories back into the lists that they were taken from;
//! 4. remember what a person means by it, so that the next night does not do it again (see `lesson`);
//! 5. mark the intents as taken back: their tombstones go.
//!
//! Who was erased, or has left since, is never brought back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, Namespace, PointId, Role};
use crate::pace::Pace;
use crate::pass::PassName;
use crate::plan::{ActionKind, Reason, Unread};
use crate::state::{self, ActionResult, Folded, Intent, IntentRecord, State, TakenBack, Total};
use crate::store::image::PointImage;
use crate::store::rows::{LeftReason, LeftRow, Partition, Restored, Return, Takeover, Writer};
use crate::store::vectors::point_id::{Derived, Rule};

use super::entities::{self, Lists};
use super::files::{Files, Home};
use super::{ApplyError, Job, LARGEST_TRANSACTION, damaged, finish, unfinished};

mod foresee;
mod judge;
mod lesson;

pub use foresee::foresee;
use judge::Judge;

/// Intents read at once, each with its pre-image.
const PAGE: u32 = 200;

/// What is to be taken back.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Of this run.
    pub run: &'a str,
    /// Only what was done to the memory, or the point, that is printed like this.
    pub id: Option<&'a str>,
    /// Only in this namespace.
    pub namespace: Option<&'a Namespace>,
}

impl Scope<'_> {
    fn wants(&self, record: &IntentRecord) -> bool {
        let intent = &record.intent;
        let is_of = |id: &str| {
            let memories = intent.memory.iter().chain(&intent.behind);
            let points = intent.points.iter().filter(|_| intent.memory.is_none());
            memories
                .map(ToString::to_string)
                .chain(points.map(ToString::to_string))
                .any(|known| known == id)
        };
        let normal = |namespace: &Namespace| namespace.normal();
        self.id.is_none_or(is_of)
            && self
                .namespace
                .is_none_or(|wanted| intent.namespace.as_ref().map(normal) == Some(wanted.normal()))
    }

    fn is_whole(&self) -> bool {
        self.id.is_none() && self.namespace.is_none()
    }
}

/// Why something is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its row was changed since, or another row has its key by now.
    Changed,
    /// It was only marked, and its row has gone since: a later run took it, or somebody else.
    Gone,
    /// A row that it refers to is not there.
    ParentGone,
    /// A constraint or a trigger refuses it.
    Refused,
    /// Its table is not what it was.
    SchemaChanged,
    /// Its point was written anew.
    PointRewritten,
    /// Its point may by now be another memory's.
    PointUnclear,
    /// Its owner was marked deleted since.
    OwnerDeleted,
    /// Its owner is not known any more.
    OwnerUnknown,
    /// It was done on other stores than those of the configuration.
    OtherStores,
    /// The file of its tenant is missing.
    FileMissing,
}

impl Why {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Gone => "gone",
            Self::ParentGone => "parent_gone",
            Self::Refused => "refused",
            Self::SchemaChanged => "schema_changed",
            Self::PointRewritten => "point_rewritten",
            Self::PointUnclear => "point_unclear",
            Self::OwnerDeleted => "owner_deleted",
            Self::OwnerUnknown => "owner_unknown",
            Self::OtherStores => "other_stores",
            Self::FileMissing => "file_missing",
        }
    }

    /// The same, for a person.
    #[must_use]
    pub fn explain(self) -> &'static str {
        match self {
            Self::Changed => "was changed since, or its key is another row's by now",
            Self::Gone => {
                "has gone since: a later run may have taken it, which is to be undone first"
            }
            Self::ParentGone => "refers to a row that is not there",
            Self::Refused => "is refused by a constraint or a trigger",
            Self::SchemaChanged => "is of a table that is not what it was",
            Self::PointRewritten => "has a point that was written anew",
            Self::PointUnclear => "has a point that may be another memory's by now",
            Self::OwnerDeleted => "is of an owner who was deleted since",
            Self::OwnerUnknown => "is of an owner whom nobody knows any more",
            Self::OtherStores => "was removed from other stores than those that are configured now",
            Self::FileMissing => "is of a tenant whose file is missing",
        }
    }
}

impl From<LeftReason> for Why {
    fn from(reason: LeftReason) -> Self {
        match reason {
            LeftReason::Exists | LeftReason::Changed => Self::Changed,
            LeftReason::Gone => Self::Gone,
            LeftReason::ParentGone => Self::ParentGone,
            LeftReason::Refused => Self::Refused,
            LeftReason::SchemaChanged => Self::SchemaChanged,
        }
    }
}

/// What became of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is taken back.
    Back,
    /// It was taken back before.
    Already,
    /// It was an erasure: nothing is left that could come back.
    Erased,
    /// It is left.
    Left(Why),
}

/// Something that did not come back with its memory, or that is left as it is beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// A row: one behind the memory, one that hung on it, or the memory that had taken over.
    Row(LeftRow),
    /// A point.
    Point(PointId, Why),
}

/// One action of a run, and what became of it.
#[derive(Debug, Clone)]
pub struct Returned {
    /// The row database.
    pub partition: Arc<str>,
    /// Whose it is, as far as that is remembered.
    pub namespace: Option<Namespace>,
    /// What had been done.
    pub kind: ActionKind,
    /// By which pass.
    pub pass: PassName,
    /// Why.
    pub reason: Reason,
    /// To which memory.
    pub memory: Option<MemoryId>,
    /// To which point, where it was about no memory.
    pub point: Option<PointId>,
    /// What became of it.
    pub fate: Fate,
    /// What did not come back with it.
    pub rest: Vec<Rest>,
}

impl Returned {
    fn of(record: &IntentRecord, fate: Fate) -> Self {
        let intent = &record.intent;
        let points = intent.points.first().filter(|_| intent.memory.is_none());
        Self {
            partition: Arc::clone(&intent.partition),
            namespace: intent.namespace.clone(),
            kind: intent.kind,
            pass: record.pass,
            reason: intent.reason,
            memory: intent.memory.clone(),
            point: points.cloned(),
            fate,
            rest: Vec::new(),
        }
    }
}

/// What became of everything that was to be taken back.
#[derive(Debug, Default)]
pub struct Undone {
    /// Each action, by row database, latest first.
    pub actions: Vec<Returned>,
    /// Questions whose answer was taken back.
    pub reopened: BTreeSet<i64>,
    /// Row databases of which not everything could be read or changed.
    pub unread: Vec<Unread>,
    /// Whether a stop was requested before the end.
    pub interrupted: bool,
}

/// Takes back what a run did in every row database of a store.
///
/// # Errors
///
/// When a store cannot be changed; what was begun by then is finished by the next run.
pub fn undo(job: &Job<'_>, scope: &Scope<'_>) -> Result<Undone, ApplyError> {
    let mut undone = Undone::default();
    let tenants = job.states.tenants()?;
    undone.unread.extend(damaged(&tenants.damaged));
    let files = Files::list(job.stores)?;
    let judge = Judge::new(job.stores, job.states.main())?;
    let names = tenants.names.iter();
    let names = names.map(|name| state::Partition::Tenant(name));
    for partition in std::iter::once(state::Partition::Main).chain(names) {
        if job.cx.stop.is_requested() {
            undone.interrupted = true;
            break;
        }
        match undo_file(job, scope, &judge, partition, &files, &mut undone) {
            Ok(()) => {}
            Err(error) if error.is_interruption() => {
                undone.interrupted = true;
                break;
            }
            Err(error) if error.is_of_one_file() && partition.tenant().is_some() => {
                undone.unread.push(unfinished(partition, error.advice()));
            }
            Err(error) => return Err(error),
        }
    }
    if scope.is_whole() && !undone.interrupted {
        undone
            .reopened
            .extend(job.states.main().reopen(scope.run, None)?);
    }
    Ok(undone)
}

fn undo_file(
    job: &Job<'_>,
    scope: &Scope<'_>,
    judge: &Judge<'_>,
    partition: state::Partition<'_>,
    files: &Files,
    undone: &mut Undone,
) -> Result<(), ApplyError> {
    job.states.at(partition, |state| {
        let home = files.home(partition);
        let erased = state.erased_namespaces()?;
        let mut undoing = Undoing::new(job, state, &home);
        let mut before = None;
        loop {
            if job.cx.stop.is_requested() {
                undone.interrupted = true;
                break;
            }
            let page = state.deeds_of_run(scope.run, before, PAGE)?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            let mut going = Vec::new();
            for record in page.into_iter().filter(|record| scope.wants(record)) {
                match judge.forbids(&record, &home, &erased) {
                    Some(fate) => undone.actions.push(Returned::of(&record, fate)),
                    None => going.push(record),
                }
            }
            if going.is_empty() {
                continue;
            }
            // A locked file is found before anything is marked.
            undoing.open(&going)?;
            let ids: Vec<_> = going.iter().map(|record| record.id).collect();
            hit(Failpoint::UndoBefore)?;
            state.begin_undo(job.run, &ids)?;
            hit(Failpoint::UndoBegun)?;
            let siblings = Siblings::of(scope);
            undone
                .actions
                .extend(undoing.take_back(&going, siblings, &mut undone.reopened)?);
        }
        undoing.second_look(&mut undone.actions)
    })
}

/// Finishes what a run that was killed had begun to take back in one row database. Gives how many actions.
pub(super) fn replay(
    job: &Job<'_>,
    state: &State,
    home: &Home<'_>,
    records: Vec<IntentRecord>,
) -> Result<u64, ApplyError> {
    let judge = Judge::new(job.stores, job.states.main())?;
    let erased = state.erased_namespaces()?;
    let (mut left, mut going) = (Vec::new(), Vec::new());
    for record in records {
        match judge.forbids(&record, home, &erased) {
            Some(_) => left.push((record.id, TakenBack::Left)),
            None => going.push(record),
        }
    }
    let finished = left.len() + going.len();
    state.finish_undo(&left, job.now)?;
    let mut undoing = Undoing::new(job, state, home);
    undoing.open(&going)?;
    undoing.take_back(&going, Siblings::Replayed, &mut BTreeSet::new())?;
    Ok(finished as u64)
}

/// Which other memories that were folded into the same one count as staying there.
#[derive(Clone, Copy)]
enum Siblings<'a> {
    /// Those of other runs: all of this run return.
    OfOtherRuns(&'a str),
    /// All others: only some return.
    All,
    /// All others, for a memory that may be back already.
    Replayed,
}

impl<'a> Siblings<'a> {
    fn of(scope: &Scope<'a>) -> Self {
        if scope.is_whole() {
            Self::OfOtherRuns(scope.run)
        } else {
            Self::All
        }
    }
}

/// One row database in which actions are taken back.
struct Undoing<'a> {
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
    fn new(job: &'a Job<'a>, state: &'a State, home: &Home<'a>) -> Self {
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
    fn open(&mut self, records: &[IntentRecord]) -> Result<(), ApplyError> {
        let needs_rows = records.iter().any(|record| record.intent.unit.is_some());
        if let (true, None, Some(file)) = (needs_rows, &self.writer, self.file) {
            let mut writer = self.job.stores.rows.writer(file)?;
            writer.can_write()?;
            self.writer = Some(writer);
        }
        Ok(())
    }

    /// Takes actions back that are marked as being taken back.
    fn take_back(
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
            .filter(|(_, returned)| returned.fate == Fate::Back)
            .map(|(record, _)| record)
            .collect();
        reopened.extend(lesson::remember(self.job, self.writer.as_ref(), &back)?);
        let ended: Vec<_> = records
            .iter()
            .zip(&returned)
            .map(|(record, returned)| {
                let is_back = returned.fate == Fate::Back;
                let how = if is_back {
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
        self.job.states.main().add_totals(&reversals(&back))?;
        Ok(returned)
    }

    /// Puts the rows back, and says what became of each action by them alone.
    fn rows(
        &mut self,
        records: &[IntentRecord],
        siblings: Siblings<'_>,
    ) -> Result<Vec<Returned>, ApplyError> {
        let mut returned: Vec<Returned> = records
            .iter()
            .map(|record| Returned::of(record, Fate::Back))
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
    ) -> Result<Vec<crate::store::image::RowImage>, ApplyError> {
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
            if returned.fate != Fate::Back || record.intent.kind.is_of_entity() {
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
            .filter(|place| returned[*place].fate == Fate::Back)
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
    fn second_look(&mut self, actions: &mut [Returned]) -> Result<(), ApplyError> {
        for (memory, item) in std::mem::take(&mut self.waiting) {
            let restored = self.put_back(std::slice::from_ref(&item))?;
            let action = actions.iter_mut().rev().find(|action| {
                action.memory.as_ref() == Some(&memory)
                    && action.partition == *self.state.partition()
            });
            if let (Some(action), Some(restored)) = (action, restored.into_iter().next())
                && restored.is_back
            {
                action.rest.retain(|rest| matches!(rest, Rest::Point(..)));
                action.rest.extend(restored.left.into_iter().map(Rest::Row));
            }
        }
        Ok(())
    }
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
