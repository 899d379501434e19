//! What is kept for good: tombstones, erased namespaces, counters that never go back, and what a person accepted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, Transaction, params};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::sql::{At, Count, Id, IdRef, Json, Name, Named, Point};
use super::{State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId};
use crate::pass::PassName;
use crate::plan::{ActionKind, Survivor};

/// A namespace that can be recognised and not read: its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceHash(pub [u8; 32]);

impl NamespaceHash {
    /// The hash of a namespace.
    #[must_use]
    pub fn of(namespace: &Namespace) -> Self {
        Self(Sha256::digest(namespace.as_str()).into())
    }
}

impl fmt::Display for NamespaceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NamespaceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamespaceHash({self})")
    }
}

impl ToSql for NamespaceHash {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for NamespaceHash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        FromSql::column_result(value).map(Self)
    }
}

/// What a tombstone stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gone {
    /// A memory.
    Memory(MemoryId),
    /// A point that no memory stood behind.
    Point(PointId),
}

/// That something was removed: what a restore of an older snapshot must not bring back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// What.
    pub gone: Gone,
    /// How. A memory that was ended ([`ActionKind::End`]) still has its row.
    pub kind: ActionKind,
    /// The pass that removed it.
    pub pass: PassName,
    /// Whose it was.
    pub namespace: Option<NamespaceHash>,
    /// Whether it was erased, and can never come back.
    pub erased: bool,
    /// When.
    pub at: Timestamp,
}

/// What became of an action; metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionResult {
    /// Done in both stores.
    Applied,
    /// Left, because the memory had changed.
    Skipped,
    /// Left, because something went wrong.
    Failed,
    /// Done, and taken back by a person.
    Undone,
}

impl ActionResult {
    /// Every result.
    pub const ALL: [Self; 4] = [Self::Applied, Self::Skipped, Self::Failed, Self::Undone];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Undone => "undone",
        }
    }
}

impl Named for ActionResult {
    const WHAT: &'static str = "result";
    fn all() -> &'static [Self] {
        &Self::ALL
    }
    fn name(self) -> &'static str {
        self.as_str()
    }
}

/// A counter that never goes back, or what is to be added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Total {
    /// The pass.
    pub pass: PassName,
    /// The kind of action.
    pub action: ActionKind,
    /// What became of them.
    pub result: ActionResult,
    /// How many.
    pub count: u64,
}

impl State {
    /// Accepts what a pass plans on this store, for good. Accepting it again changes nothing.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn accept(&self, pass: PassName, now: Timestamp) -> Result<(), StateError> {
        self.write("accept a pass", |tx| {
            tx.execute(
                "INSERT INTO acceptances(pass, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![Name(pass), At(now)],
            )?;
            Ok(())
        })
    }
}

pub(super) fn add_totals(tx: &Transaction<'_>, totals: &[Total]) -> rusqlite::Result<()> {
    let mut add = tx.prepare_cached(
        "INSERT INTO totals(pass, action, result, count) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT(pass, action, result) DO UPDATE SET count = count + excluded.count",
    )?;
    for total in totals {
        add.execute(params![
            Name(total.pass),
            Name(total.action),
            Name(total.result),
            Count(total.count),
        ])?;
    }
    Ok(())
}

impl StateReader {
    /// Whether what a pass plans was accepted.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn is_accepted(&self, pass: PassName) -> Result<bool, StateError> {
        let sql = "SELECT EXISTS(SELECT 1 FROM acceptances WHERE pass = ?1)";
        self.one("read the acceptances", sql, [Name(pass)], |row| row.get(0))
    }

    /// How many memories a pass has removed after an instant, by namespace; what was taken back does not count.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn removed_since(
        &self,
        pass: PassName,
        since: Timestamp,
    ) -> Result<BTreeMap<NamespaceHash, u64>, StateError> {
        let sql = "SELECT namespace, count(*) FROM tombstones
                   WHERE pass = ?1 AND at > ?2 AND namespace IS NOT NULL GROUP BY namespace";
        let counts = self.rows(
            "count removals",
            sql,
            params![Name(pass), At(since)],
            |row| Ok((row.get(0)?, row.get::<_, Count>(1)?.0)),
        )?;
        Ok(counts.into_iter().collect())
    }

    /// The memories that others were folded into after an instant.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn survivors_since(&self, since: Timestamp) -> Result<BTreeSet<MemoryId>, StateError> {
        let sql = "SELECT survivor FROM intents
                   WHERE survivor IS NOT NULL AND outcome = 'done' AND undone_at IS NULL AND settled_at > ?1";
        let survivors = self.rows("read who took over", sql, [At(since)], |row| {
            Ok(row.get::<_, Json<Survivor>>(0)?.0.id)
        })?;
        Ok(survivors.into_iter().collect())
    }

    /// The memories that were hidden after an instant and still have their row, and when, the latest time of each.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn hidden_since(
        &self,
        since: Timestamp,
    ) -> Result<HashMap<MemoryId, Timestamp>, StateError> {
        let sql = "SELECT memory, max(at) FROM tombstones
                   WHERE memory IS NOT NULL AND at > ?1 AND kind IN (?2, ?3, ?4) GROUP BY memory";
        let kinds = [
            ActionKind::End,
            ActionKind::SoftDelete,
            ActionKind::Supersede,
        ]
        .map(Name);
        let hidden = self.rows(
            "read what was hidden",
            sql,
            params![At(since), kinds[0], kinds[1], kinds[2]],
            |row| Ok((row.get::<_, Id>(0)?.0, row.get::<_, At>(1)?.0)),
        )?;
        Ok(hidden.into_iter().collect())
    }

    /// Every counter that was ever added to, in order.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn totals(&self) -> Result<Vec<Total>, StateError> {
        let sql = "SELECT pass, action, result, count FROM totals";
        let mut totals = self.rows("read the totals", sql, [], |row| {
            Ok(Total {
                pass: row.get::<_, Name<_>>(0)?.0,
                action: row.get::<_, Name<_>>(1)?.0,
                result: row.get::<_, Name<_>>(2)?.0,
                count: row.get::<_, Count>(3)?.0,
            })
        })?;
        totals.sort_unstable();
        Ok(totals)
    }

    /// What was removed at `since` or later and not taken back, in the order in which it was intended.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn tombstones(&self, since: Timestamp) -> Result<Vec<Tombstone>, StateError> {
        let sql = "SELECT memory, point, kind, pass, namespace, erased, at FROM tombstones
                   WHERE at >= ?1 ORDER BY intent, part";
        self.rows("read the tombstones", sql, [At(since)], tombstone)
    }

    /// The removals of one memory that were not taken back, oldest first. They outlive their intents.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn tombstones_of(&self, memory: &MemoryId) -> Result<Vec<Tombstone>, StateError> {
        let sql = "SELECT memory, point, kind, pass, namespace, erased, at FROM tombstones
                   WHERE memory = ?1 ORDER BY intent, part";
        self.rows("read the tombstones", sql, [IdRef(memory)], tombstone)
    }

    /// The namespaces of which something was erased, in order, each with the last time: a snapshot from before then
    /// still holds it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn erased_namespaces(&self) -> Result<Vec<(NamespaceHash, Timestamp)>, StateError> {
        let sql = "SELECT namespace, at FROM erasures ORDER BY namespace";
        self.rows("read the erasures", sql, [], |row| {
            Ok((row.get(0)?, row.get::<_, At>(1)?.0))
        })
    }
}

pub(super) fn tombstone(row: &Row<'_>) -> rusqlite::Result<Tombstone> {
    let memory: Option<Id> = row.get(0)?;
    Ok(Tombstone {
        gone: match memory {
            Some(Id(id)) => Gone::Memory(id),
            None => Gone::Point(row.get::<_, Point>(1)?.0),
        },
        kind: row.get::<_, Name<_>>(2)?.0,
        pass: row.get::<_, Name<_>>(3)?.0,
        namespace: row.get(4)?,
        erased: row.get(5)?,
        at: row.get::<_, At>(6)?.0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn total(pass: PassName, action: ActionKind, result: ActionResult, count: u64) -> Total {
        Total {
            pass,
            action,
            result,
            count,
        }
    }

    #[test]
    fn acceptance_is_for_one_pass_and_for_good() {
        let world = World::new();
        for _ in 0..2 {
            let state = world.main();
            state.accept(PassName::Ttl, at(0)).unwrap();
            let accepted = PassName::ALL.map(|pass| state.is_accepted(pass).unwrap());
            assert_eq!(accepted, PassName::ALL.map(|pass| pass == PassName::Ttl));
        }
    }

    #[test]
    fn totals_add_up_by_pass_action_and_result() {
        let world = World::new();
        let state = world.main();
        assert_eq!(state.totals().unwrap(), []);
        let mut expected = Vec::new();
        for pass in PassName::ALL {
            for action in ActionKind::ALL {
                for (count, result) in (1..).zip(ActionResult::ALL) {
                    state
                        .count("run-1", &[total(pass, action, result, count)])
                        .unwrap();
                    state
                        .count(
                            "run-1",
                            &[
                                total(pass, action, result, 10),
                                total(pass, action, result, 100),
                            ],
                        )
                        .unwrap();
                    expected.push(total(pass, action, result, count + 110));
                }
            }
        }
        assert_eq!(state.totals().unwrap(), expected);
    }

    #[test]
    fn a_counter_that_cannot_be_held_changes_nothing() {
        let world = World::new();
        let state = world.main();
        let of = |count| {
            total(
                PassName::Ttl,
                ActionKind::Delete,
                ActionResult::Applied,
                count,
            )
        };
        state.count("run-1", &[of(1)]).unwrap();
        for too_many in [i64::MAX as u64, u64::MAX] {
            state.count("run-1", &[of(1), of(too_many)]).unwrap_err();
        }
        assert_eq!(state.totals().unwrap(), [of(1)]);
    }
}
