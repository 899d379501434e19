//! Intents: what is about to be done to both stores, on disk before either is touched, with all that it takes to
//! finish it or to take it back.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Row, Transaction, params};
use serde::de::DeserializeOwned;

use super::error::Fault;
use super::sql::{At, Count, Id, IdRef, Json, Name, Named, Owned, Packed, RowVersion};
use super::{State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId, Version};
use crate::pass::PassName;
use crate::plan::{ActionKind, Mark, Reason, Survivor};
use crate::store::identity::Identity;
use crate::store::image::{PointImage, RowImage, Unit};

/// The id of an intent in its state file; rises with time and is never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentId(pub i64);

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One change that is about to be made.
#[derive(Clone, PartialEq)]
pub struct Intent {
    /// What it does.
    pub kind: ActionKind,
    /// The row database: `main`, or the tenant. The same as that of the state file.
    pub partition: Arc<str>,
    /// The namespace it changes. Forgotten when something was erased.
    pub namespace: Option<Namespace>,
    /// The memory, for changes that are about one.
    pub memory: Option<MemoryId>,
    /// The memories hidden behind it, which go with it; or those that a point lists no more, where it is about no memory.
    pub behind: Vec<MemoryId>,
    /// The version of the row that the change is for.
    pub expect: Option<Version>,
    /// Why.
    pub reason: Reason,
    /// Whether nothing of it may be kept once it is settled.
    pub erase: bool,
    /// How the row is marked; `None` when it is deleted, or the change is about no row.
    pub mark: Option<Mark>,
    /// The memory that takes over from the one that goes.
    pub survivor: Option<Survivor>,
    /// The points to be removed.
    pub points: Vec<PointId>,
    /// The rows as they were. `None` when the change is about no row, and once the pre-image is gone.
    pub unit: Option<Unit>,
    /// The row of the survivor as it was. `None` when there is none, and once the pre-image is gone.
    pub stays: Option<RowImage>,
    /// The points as they were. Empty when there were none, and once the pre-image is gone.
    pub images: Vec<PointImage>,
}

impl fmt::Debug for Intent {
    /// Leaves out what the memory says: ids and counts only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intent")
            .field("kind", &self.kind)
            .field("partition", &self.partition)
            .field("namespace", &self.namespace)
            .field("memory", &self.memory)
            .field("behind", &self.behind)
            .field("expect", &self.expect)
            .field("reason", &self.reason)
            .field("erase", &self.erase)
            .field("mark", &self.mark)
            .field("survivor", &self.survivor)
            .field("points", &self.points)
            .field("unit", &self.unit.is_some())
            .field("stays", &self.stays.is_some())
            .field("images", &self.images.len())
            .finish()
    }
}

/// Why an intent was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// The row is not as it was when the plan was made: edited, confirmed, used or pinned since. Or its point is not
    /// as it was copied: written anew.
    Changed,
    /// The row or point is not there any more.
    Gone,
    /// Other rows forbid it.
    Blocked,
    /// The point has a row, or its owner is known, by now.
    Claimed,
}

/// How an intent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Settled {
    /// Carried out in both stores.
    Done,
    /// Not carried out, and both stores are as they were.
    Skipped(SkipReason),
    /// Given up: it could not be finished, and a person was told.
    Abandoned,
}

impl Settled {
    /// Every ending.
    pub const ALL: [Self; 6] = [
        Self::Done,
        Self::Skipped(SkipReason::Changed),
        Self::Skipped(SkipReason::Gone),
        Self::Skipped(SkipReason::Blocked),
        Self::Skipped(SkipReason::Claimed),
        Self::Abandoned,
    ];

    /// The stable name; that of the reason for what was skipped.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Skipped(SkipReason::Changed) => "changed",
            Self::Skipped(SkipReason::Gone) => "gone",
            Self::Skipped(SkipReason::Blocked) => "blocked",
            Self::Skipped(SkipReason::Claimed) => "claimed",
            Self::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Named for Settled {
    const WHAT: &'static str = "outcome";
    fn all() -> &'static [Self] {
        &Self::ALL
    }
    fn name(self) -> &'static str {
        self.as_str()
    }
}

/// An intent as the state file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct IntentRecord {
    /// Its id.
    pub id: IntentId,
    /// The run that wrote it.
    pub run: String,
    /// The pass that planned it.
    pub pass: PassName,
    /// The stores that it was written for.
    pub stores: Identity,
    /// What it is.
    pub intent: Intent,
    /// How it ended, and when; `None` while it is open.
    pub settled: Option<(Settled, Timestamp)>,
    /// When it was taken back.
    pub undone_at: Option<Timestamp>,
    /// The run that took it back; while `undone_at` is `None`, it has only begun to.
    pub undo: Option<String>,
}

impl State {
    /// Writes intents with their pre-images, in one transaction; gives their ids in the same order.
    ///
    /// # Errors
    ///
    /// When one is of another partition, or the file cannot be written; then none is.
    pub fn intend(
        &self,
        run: &str,
        pass: PassName,
        intents: &[Intent],
    ) -> Result<Vec<IntentId>, StateError> {
        self.write("write intents", |tx| {
            let origin = origin(tx, run, pass, self.stores())?;
            intents
                .iter()
                .map(|intent| {
                    if intent.partition != *self.partition() {
                        return Err(Fault::Refused("one is of another partition".into()));
                    }
                    Ok(insert(tx, origin, intent)?)
                })
                .collect()
        })
    }
}

fn origin(
    tx: &Transaction<'_>,
    run: &str,
    pass: PassName,
    stores: &Identity,
) -> rusqlite::Result<i64> {
    tx.prepare_cached(
        "INSERT INTO origins(run, pass, stores) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?
    .execute(params![run, Name(pass), Json(stores)])?;
    tx.prepare_cached("SELECT id FROM origins WHERE run = ?1 AND pass = ?2")?
        .query_row(params![run, Name(pass)], |row| row.get(0))
}

fn insert(tx: &Transaction<'_>, origin: i64, intent: &Intent) -> rusqlite::Result<IntentId> {
    tx.prepare_cached(
        "INSERT INTO intents(origin, kind, namespace, memory, expect, behind, points, reason, mark, survivor, erase)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        origin,
        Name(intent.kind),
        intent.namespace.as_ref().map(Namespace::as_str),
        intent.memory.as_ref().map(IdRef),
        intent.expect.map(|version| version.0),
        packed(&intent.behind),
        packed(&intent.points),
        Json(intent.reason),
        intent.mark.as_ref().map(Json),
        intent.survivor.as_ref().map(Json),
        intent.erase,
    ])?;
    let id = tx.last_insert_rowid();
    if intent.unit.is_some() || !intent.images.is_empty() {
        tx.prepare_cached(
            "INSERT INTO pre_images(intent, unit, survivor, points) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            id,
            intent.unit.as_ref().map(Packed),
            intent.stays.as_ref().map(Packed),
            packed(&intent.images)
        ])?;
    }
    Ok(IntentId(id))
}

/// NULL instead of an empty list.
fn packed<T>(list: &[T]) -> Option<Packed<&[T]>> {
    (!list.is_empty()).then_some(Packed(list))
}

/// Everything about intents, up to the condition; the columns are those that `StateReader::record` reads.
macro_rules! select_intents {
    ($condition:literal) => {
        concat!(
            "SELECT i.id, o.run, o.pass, i.kind, i.namespace, i.memory, i.expect, i.behind, i.points, i.reason,
               i.mark, i.survivor, i.erase, i.outcome, i.settled_at, i.undone_at, p.unit, p.points, p.survivor, o.stores,
               i.undo
             FROM intents i JOIN origins o ON o.id = i.origin LEFT JOIN pre_images p ON p.intent = i.id
             WHERE ",
            $condition,
            " ORDER BY i.id LIMIT "
        )
    };
}
pub(super) use select_intents;

impl StateReader {
    /// Open intents with their pre-images, oldest first: at most `limit` of those after `after`.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn open_intents(
        &self,
        after: Option<IntentId>,
        limit: u32,
    ) -> Result<Vec<IntentRecord>, StateError> {
        self.rows(
            "read open intents",
            concat!(select_intents!("i.outcome IS NULL AND i.id > ?1"), "?2"),
            params![after.map_or(0, |id| id.0), limit],
            |row| self.record(row),
        )
    }

    /// The number of open intents: those not carried out yet, and those not taken back yet.
    ///
    /// # Errors
    ///
    /// When they cannot be counted.
    pub fn count_open_intents(&self) -> Result<u64, StateError> {
        let sql = "SELECT (SELECT count(*) FROM intents WHERE outcome IS NULL)
                     + (SELECT count(*) FROM intents WHERE undo IS NOT NULL AND undone_at IS NULL)";
        self.one("count open intents", sql, [], |row| {
            Ok(row.get::<_, Count>(0)?.0)
        })
    }

    /// Intents of a run with what is left of their pre-images, oldest first: at most `limit` of those after `after`.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn intents_of_run(
        &self,
        run: &str,
        after: Option<IntentId>,
        limit: u32,
    ) -> Result<Vec<IntentRecord>, StateError> {
        self.rows(
            "read the intents of a run",
            concat!(select_intents!("o.run = ?1 AND i.id > ?2"), "?3"),
            params![run, after.map_or(0, |id| id.0), limit],
            |row| self.record(row),
        )
    }

    /// Every intent that was about a memory, or took it along as one hidden behind another; oldest first.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn intents_of_memory(&self, memory: &MemoryId) -> Result<Vec<IntentRecord>, StateError> {
        let mut records = self.rows(
            "read the intents of a memory",
            concat!(
                select_intents!("i.memory = ?1 OR i.behind IS NOT NULL"),
                "-1"
            ),
            [IdRef(memory)],
            |row| {
                let main: Option<Id> = row.get(5)?;
                let behind: Option<Packed<Vec<MemoryId>>> = row.get(7)?;
                let concerns = main.is_some_and(|Id(main)| main == *memory)
                    || behind.is_some_and(|Packed(behind)| behind.contains(memory));
                concerns.then(|| self.record(row)).transpose()
            },
        )?;
        Ok(records.drain(..).flatten().collect())
    }

    pub(super) fn record(&self, row: &Row<'_>) -> rusqlite::Result<IntentRecord> {
        let settled: Option<Name<Settled>> = row.get(13)?;
        let settled_at: Option<At> = row.get(14)?;
        Ok(IntentRecord {
            id: IntentId(row.get(0)?),
            run: row.get(1)?,
            pass: row.get::<_, Name<PassName>>(2)?.0,
            stores: row.get::<_, Json<Identity>>(19)?.0,
            intent: self.intent(row)?,
            settled: settled.zip(settled_at).map(|(Name(how), At(at))| (how, at)),
            undone_at: row.get::<_, Option<At>>(15)?.map(|At(at)| at),
            undo: row.get(20)?,
        })
    }

    fn intent(&self, row: &Row<'_>) -> rusqlite::Result<Intent> {
        Ok(Intent {
            kind: row.get::<_, Name<ActionKind>>(3)?.0,
            partition: Arc::clone(self.partition()),
            namespace: row.get::<_, Option<Owned>>(4)?.map(|Owned(name)| name),
            memory: row.get::<_, Option<Id>>(5)?.map(|Id(id)| id),
            expect: row.get::<_, Option<RowVersion>>(6)?.map(|RowVersion(v)| v),
            behind: unpacked(row, 7)?,
            points: unpacked(row, 8)?,
            reason: row.get::<_, Json<Reason>>(9)?.0,
            mark: row.get::<_, Option<Json<Mark>>>(10)?.map(|Json(mark)| mark),
            survivor: row
                .get::<_, Option<Json<Survivor>>>(11)?
                .map(|Json(survivor)| survivor),
            erase: row.get(12)?,
            unit: row
                .get::<_, Option<Packed<Unit>>>(16)?
                .map(|Packed(unit)| unit),
            images: unpacked(row, 17)?,
            stays: row
                .get::<_, Option<Packed<RowImage>>>(18)?
                .map(|Packed(row)| row),
        })
    }
}

/// An empty list for NULL.
fn unpacked<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<T>> {
    let list: Option<Packed<Vec<T>>> = row.get(column)?;
    Ok(list.map(|Packed(list)| list).unwrap_or_default())
}

#[cfg(test)]
mod tests;
