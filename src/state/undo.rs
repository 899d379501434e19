//! Taking back what was done: marked before either store is touched, so that a crash is finished by the next run.

use std::collections::BTreeSet;

use rusqlite::params;

use super::error::Fault;
use super::intent::select_intents;
use super::sql::{At, Count, Json, Name, Packed};
use super::{IntentId, IntentRecord, State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::memory::MemoryId;
use crate::plan::{ActionKind, Survivor, Tally};
use crate::store::image::{RowImage, Unit};

/// How an intent that was to be taken back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    /// Both stores have it again.
    Back,
    /// It was left as it is.
    Left,
}

/// What was removed at one instant and is not remembered any more but by its tombstones, by kind of action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dropped {
    /// It was erased.
    pub erased: Tally<ActionKind>,
    /// It was pruned.
    pub pruned: Tally<ActionKind>,
}

/// A memory that was folded into another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The intent that did it.
    pub intent: IntentId,
    /// Its run.
    pub run: String,
    /// The memory that took over.
    pub into: MemoryId,
}

impl State {
    /// Writes that a run is about to take intents back, in one transaction.
    ///
    /// # Errors
    ///
    /// When one was not done, or was taken back before, or the file cannot be written; then none is marked.
    pub fn begin_undo(&self, run: &str, intents: &[IntentId]) -> Result<(), StateError> {
        self.write("mark intents to be undone", |tx| {
            for id in intents {
                let marked = tx
                    .prepare_cached(
                        "UPDATE intents SET undo = ?2 WHERE id = ?1 AND outcome = 'done' AND undone_at IS NULL",
                    )?
                    .execute(params![id.0, run])?;
                if marked == 0 {
                    return Err(Fault::Refused(format!("intent {id} is not there to undo")));
                }
            }
            Ok(())
        })
    }

    /// Marks how intents ended that were to be taken back, in one transaction. The tombstones of those that are back
    /// go: what they stood for exists again.
    ///
    /// # Errors
    ///
    /// When one was not begun to be taken back, or the file cannot be written; then none is marked.
    pub fn finish_undo(
        &self,
        intents: &[(IntentId, TakenBack)],
        now: Timestamp,
    ) -> Result<(), StateError> {
        self.write("mark intents as undone", |tx| {
            for (id, how) in intents {
                let (undone_at, sql) = match how {
                    TakenBack::Back => (
                        Some(At(now)),
                        "UPDATE intents SET undone_at = ?2
                         WHERE id = ?1 AND undo IS NOT NULL AND undone_at IS NULL",
                    ),
                    TakenBack::Left => (
                        None,
                        "UPDATE intents SET undo = NULL, undone_at = ?2
                         WHERE id = ?1 AND undo IS NOT NULL AND undone_at IS NULL",
                    ),
                };
                let marked = tx.prepare_cached(sql)?.execute(params![id.0, undone_at])?;
                if marked == 0 {
                    return Err(Fault::Refused(format!("intent {id} is not being undone")));
                }
                if *how == TakenBack::Back {
                    tx.prepare_cached("DELETE FROM tombstones WHERE intent = ?1")?
                        .execute([id.0])?;
                }
            }
            Ok(())
        })
    }
}

impl StateReader {
    /// The runs that did something here that is still remembered, whether it was taken back or not.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn runs_with_deeds(&self) -> Result<BTreeSet<String>, StateError> {
        let sql = "SELECT DISTINCT run FROM origins
                   WHERE id IN (SELECT origin FROM intents WHERE outcome = 'done')";
        let runs = self.rows("read which runs did something", sql, [], |row| row.get(0))?;
        Ok(runs.into_iter().collect())
    }

    /// When something was removed that was not taken back since. A run removes all at the instant at which it began.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn instants_of_removals(&self) -> Result<BTreeSet<Timestamp>, StateError> {
        let sql = "SELECT DISTINCT at FROM tombstones";
        let instants = self.rows("read when something was removed", sql, [], |row| {
            Ok(row.get::<_, At>(0)?.0)
        })?;
        Ok(instants.into_iter().collect())
    }

    /// What was removed at an instant and is not remembered any more.
    ///
    /// # Errors
    ///
    /// When it cannot be counted.
    pub fn dropped(&self, at: Timestamp) -> Result<Dropped, StateError> {
        let sql = "SELECT kind, erased, count(*) FROM tombstones
                   WHERE at = ?1 AND part = 0 AND intent NOT IN (SELECT id FROM intents)
                   GROUP BY kind, erased";
        let counts = self.rows("count what is not kept", sql, [At(at)], |row| {
            let kind: Name<ActionKind> = row.get(0)?;
            Ok((kind.0, row.get::<_, bool>(1)?, row.get::<_, Count>(2)?.0))
        })?;
        let mut dropped = Dropped::default();
        for (kind, erased, count) in counts {
            let tally = if erased {
                &mut dropped.erased
            } else {
                &mut dropped.pruned
            };
            tally.insert(kind, count);
        }
        Ok(dropped)
    }

    /// What a run did, with what is left of the pre-images, latest first: at most `limit` of those before `before`.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn deeds_of_run(
        &self,
        run: &str,
        before: Option<IntentId>,
        limit: u32,
    ) -> Result<Vec<IntentRecord>, StateError> {
        let sql = concat!(
            "SELECT * FROM (",
            select_intents!("i.id IN (
                 SELECT id FROM intents
                 WHERE origin IN (SELECT id FROM origins WHERE run = ?1) AND outcome = 'done' AND id < ?2
                 ORDER BY id DESC LIMIT ?3)"),
            "-1) ORDER BY 1 DESC"
        );
        self.rows(
            "read what a run did",
            sql,
            params![run, before.map_or(i64::MAX, |id| id.0), limit],
            |row| self.record(row),
        )
    }

    /// Intents that a run has begun to take back and not finished, with their pre-images, oldest first: at most `limit`
    /// of those after `after`.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn open_undos(
        &self,
        after: Option<IntentId>,
        limit: u32,
    ) -> Result<Vec<IntentRecord>, StateError> {
        self.rows(
            "read what is being undone",
            concat!(
                select_intents!("i.undo IS NOT NULL AND i.undone_at IS NULL AND i.id > ?1"),
                "?2"
            ),
            params![after.map_or(0, |id| id.0), limit],
            |row| self.record(row),
        )
    }

    /// Every memory that was folded into another one and is not taken back: the intent, its run, and which memory took
    /// over.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn folded(&self) -> Result<Vec<Folded>, StateError> {
        let sql = "SELECT i.id, o.run, i.survivor FROM intents i JOIN origins o ON o.id = i.origin
                   WHERE i.survivor IS NOT NULL AND i.outcome = 'done' AND i.undo IS NULL ORDER BY i.id";
        self.rows("read what was folded", sql, [], |row| {
            Ok(Folded {
                intent: IntentId(row.get(0)?),
                run: row.get(1)?,
                into: row.get::<_, Json<Survivor>>(2)?.0.id,
            })
        })
    }

    /// The row of the memory of an intent as it was; `None` once its pre-image is gone.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn root_of(&self, intent: IntentId) -> Result<Option<RowImage>, StateError> {
        let sql = "SELECT unit FROM pre_images WHERE intent = ?1 AND unit IS NOT NULL";
        let found = self.rows("read a pre-image", sql, [intent.0], |row| {
            Ok(row.get::<_, Packed<Unit>>(0)?.0.root)
        })?;
        Ok(found.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Gone, Settled, SkipReason};
    use super::*;
    use crate::pass::PassName;

    /// Three intents of which two were done.
    fn done(state: &State) -> Vec<IntentId> {
        let intents = [deletion(1), deletion(2), deletion(3)];
        let ids = state.intend("run-1", PassName::Ttl, &intents).unwrap();
        let skipped = Settled::Skipped(SkipReason::Changed);
        let ends = [Settled::Done, Settled::Done, skipped];
        let settled: Vec<_> = ids.iter().copied().zip(ends).collect();
        state.settle(&settled, at(0)).unwrap();
        ids
    }

    #[test]
    fn what_is_undone_has_no_tombstone_and_is_undone_once() {
        let world = World::new();
        let state = world.main();
        let ids = done(&state);
        state.begin_undo("run-2", &ids[..1]).unwrap();
        assert_eq!(state.count_open_intents().unwrap(), 1, "it shows as open");
        assert_eq!(state.tombstones(at(0)).unwrap().len(), 4);
        state
            .finish_undo(&[(ids[0], TakenBack::Back)], at(9))
            .unwrap();
        for wrong in [ids[0], ids[2], IntentId(99)] {
            state.begin_undo("run-3", &[ids[1], wrong]).unwrap_err();
        }
        for wrong in [ids[0], ids[1], IntentId(99)] {
            state
                .finish_undo(&[(wrong, TakenBack::Back)], at(10))
                .unwrap_err();
        }
        let records = state.intents_of_run("run-1", None, 9).unwrap();
        let undone: Vec<_> = records
            .iter()
            .map(|record| (record.undo.as_deref(), record.undone_at))
            .collect();
        assert_eq!(
            undone,
            [(Some("run-2"), Some(at(9))), (None, None), (None, None)]
        );
        let left: Vec<_> = state.tombstones(at(0)).unwrap();
        assert_eq!(left.len(), 2);
        assert_eq!(left[0].gone, Gone::Memory(MemoryId::Integer(2)));
        assert_eq!(state.count_open_intents().unwrap(), 0);
    }

    #[test]
    fn what_had_to_be_left_is_as_it_was_and_may_be_undone_later() {
        let world = World::new();
        let state = world.main();
        let ids = done(&state);
        let before = state.intents_of_run("run-1", None, 9).unwrap();
        state.begin_undo("run-2", &ids[..2]).unwrap();
        let open = state.open_undos(None, 9).unwrap();
        assert_eq!(
            open.iter().map(|record| record.id).collect::<Vec<_>>(),
            ids[..2]
        );
        let left = [(ids[0], TakenBack::Left), (ids[1], TakenBack::Left)];
        state.finish_undo(&left, at(9)).unwrap();
        assert_eq!(state.intents_of_run("run-1", None, 9).unwrap(), before);
        assert_eq!(state.open_undos(None, 9).unwrap(), []);
        assert_eq!(state.tombstones(at(0)).unwrap().len(), 4);
        state.begin_undo("run-4", &ids[..1]).unwrap();
    }

    #[test]
    fn what_is_being_undone_is_not_pruned() {
        let world = World::new();
        let state = world.main();
        let ids = done(&state);
        state.begin_undo("run-2", &ids[..1]).unwrap();
        assert_eq!(state.prune(at(99)).unwrap(), 2);
        let open = state.open_undos(None, 9).unwrap();
        assert!(open[0].intent.unit.is_some(), "with its pre-image");
    }

    #[test]
    fn deeds_come_latest_first_in_pages_and_without_what_was_not_done() {
        let world = World::new();
        let state = world.main();
        let ids = done(&state);
        let page = |before, limit| -> Vec<IntentId> {
            let page = state.deeds_of_run("run-1", before, limit).unwrap();
            page.into_iter().map(|record| record.id).collect()
        };
        assert_eq!(page(None, 9), [ids[1], ids[0]]);
        assert_eq!(page(None, 1), [ids[1]]);
        assert_eq!(page(Some(ids[1]), 1), [ids[0]]);
        assert_eq!(page(Some(ids[0]), 1), []);
        assert_eq!(state.deeds_of_run("run-2", None, 9).unwrap(), []);
        assert_eq!(
            state.runs_with_deeds().unwrap(),
            BTreeSet::from(["run-1".to_owned()])
        );
        assert_eq!(
            state.root_of(ids[0]).unwrap(),
            deletion(1).unit.map(|u| u.root)
        );
        assert_eq!(state.root_of(IntentId(99)).unwrap(), None);
    }
}
