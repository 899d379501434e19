//! Accounting for runs: what a run did is in the totals once, however often it is killed, and whoever finishes it.
//!
//! What a pass did is counted as the pass is written down, in the same transaction. What a person asked for is counted as it
//! is done, with a note of what was counted. What else was done, by a run until it was killed, or for it by a later one, is
//! in its intents alone: such a run is not accounted for, until they were compared with what was counted.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::error::Fault;
use super::ledger::{ActionResult, Total, add_totals};
use super::runs::{PassRow, find_run, insert_pass};
use super::sql::{At, Count, Name};
use super::{Settled, State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::pass::PassName;
use crate::plan::ActionKind;

/// A run of which not all may be in the totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unaccounted {
    /// The run.
    pub run: String,
    /// When it began, which is when all that it ended itself has ended.
    pub started_at: Timestamp,
    /// Whether it was killed.
    pub is_cut_off: bool,
    /// Its passes that were written down, and counted then.
    pub recorded: BTreeSet<PassName>,
}

/// What intents tell of a run, as far as it was not counted when its passes were written down.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deeds {
    /// What has ended, and how.
    pub ended: BTreeMap<(PassName, ActionKind, ActionResult), u64>,
    /// How much has not.
    pub open: u64,
}

impl Deeds {
    /// Adds those of another state file.
    pub fn merge(&mut self, other: Self) {
        let Self { ended, open } = other;
        for (what, count) in ended {
            *self.ended.entry(what).or_default() += count;
        }
        self.open += open;
    }
}

impl State {
    /// Writes that actions of a run are about to end that were open when it ended.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn doubt(&self, run: &str) -> Result<(), StateError> {
        self.write("write that a run is to be accounted for", |tx| {
            tx.execute(
                "UPDATE runs SET accounted = 0 WHERE run = ?1 AND accounted = 1",
                [run],
            )?;
            Ok(())
        })
    }

    /// Adds to the totals what a run did outside of its passes, and notes that.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then nothing is added.
    pub fn count(&self, run: &str, totals: &[Total]) -> Result<(), StateError> {
        self.write("add to the totals", |tx| {
            add_totals(tx, totals)?;
            Ok(note(tx, run, totals)?)
        })
    }

    /// Adds to the totals what is not in them of a run. Where that `is_all` there is, its `passes` that it did not come to
    /// write down are written down, and it is accounted for.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then nothing is added.
    pub fn account(
        &self,
        run: &str,
        deeds: &Deeds,
        passes: &[PassRow],
        is_all: bool,
    ) -> Result<(), StateError> {
        self.write("account for a run", |tx| {
            let mut missing = Vec::new();
            for (&(pass, action, result), ended) in &deeds.ended {
                let mut total = Total {
                    pass,
                    action,
                    result,
                    count: 0,
                };
                total.count = ended.saturating_sub(counted(tx, run, &total)?);
                missing.push(total);
            }
            missing.retain(|total| total.count > 0);
            add_totals(tx, &missing)?;
            if !is_all {
                return Ok(note(tx, run, &missing)?);
            }
            let id = find_run(tx, run)?
                .ok_or_else(|| Fault::Refused(format!("run {run} has not begun")))?;
            for pass in passes {
                insert_pass(tx, id, pass)?;
            }
            tx.execute("UPDATE runs SET accounted = 1 WHERE id = ?1", [id])?;
            tx.execute("DELETE FROM counted WHERE run = ?1", [run])?;
            Ok(())
        })
    }
}

fn counted(tx: &Transaction<'_>, run: &str, total: &Total) -> rusqlite::Result<u64> {
    let key = params![
        run,
        Name(total.pass),
        Name(total.action),
        Name(total.result)
    ];
    let count = tx
        .prepare_cached(
            "SELECT count FROM counted WHERE run = ?1 AND pass = ?2 AND action = ?3 AND result = ?4",
        )?
        .query_row(key, |row| row.get::<_, Count>(0))
        .optional()?;
    Ok(count.map_or(0, |Count(count)| count))
}

fn note(tx: &Transaction<'_>, run: &str, totals: &[Total]) -> rusqlite::Result<()> {
    let mut add = tx.prepare_cached(
        "INSERT INTO counted(run, pass, action, result, count) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT(run, pass, action, result) DO UPDATE SET count = count + excluded.count",
    )?;
    for total in totals {
        add.execute(params![
            run,
            Name(total.pass),
            Name(total.action),
            Name(total.result),
            Count(total.count),
        ])?;
    }
    Ok(())
}

impl StateReader {
    /// The runs but this one of which not all may be in the totals, oldest first.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn unaccounted(&self, but: &str) -> Result<Vec<Unaccounted>, StateError> {
        let sql = "SELECT run, started_at, finished_at IS NULL FROM runs
                   WHERE accounted = 0 AND run <> ?1 ORDER BY id";
        let mut runs = self.rows(
            "read which runs are to be accounted for",
            sql,
            [but],
            |row| {
                Ok(Unaccounted {
                    run: row.get(0)?,
                    started_at: row.get::<_, At>(1)?.0,
                    is_cut_off: row.get(2)?,
                    recorded: BTreeSet::new(),
                })
            },
        )?;
        for run in &mut runs {
            let passes = self.passes_of(&run.run)?;
            run.recorded = passes.into_iter().map(|row| row.pass).collect();
        }
        Ok(runs)
    }

    /// What the intents of this file tell of a run.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn deeds(&self, of: &Unaccounted) -> Result<Deeds, StateError> {
        let mut deeds = Deeds::default();
        let mut add = |what: (PassName, ActionKind, Option<ActionResult>), count: u64| match what {
            (pass, kind, Some(result)) => {
                *deeds.ended.entry((pass, kind, result)).or_default() += count;
            }
            (_, _, None) => deeds.open += count,
        };
        let is_known = "SELECT EXISTS(SELECT 1 FROM origins WHERE run = ?1)";
        if self.one("look for a run", is_known, [&of.run], |row| row.get(0))? {
            let sql = "SELECT o.pass, i.kind, i.outcome, i.settled_at IS NOT ?2, count(*)
                       FROM origins o JOIN intents i ON i.origin = o.id
                       WHERE o.run = ?1 GROUP BY 1, 2, 3, 4";
            let params = params![of.run, At(of.started_at)];
            let counts = self.rows("count what a run did", sql, params, |row| {
                let how: Option<Name<Settled>> = row.get(2)?;
                let result = how.map(|Name(how)| match how {
                    Settled::Done => ActionResult::Applied,
                    Settled::Skipped(_) | Settled::Abandoned => ActionResult::Skipped,
                });
                let pass = row.get::<_, Name<PassName>>(0)?.0;
                let what = (pass, row.get::<_, Name<ActionKind>>(1)?.0, result);
                let ended_later: bool = row.get(3)?;
                let is_counted = of.recorded.contains(&pass) && !ended_later;
                Ok((!is_counted).then_some((what, row.get::<_, Count>(4)?.0)))
            })?;
            for (what, count) in counts.into_iter().flatten() {
                add(what, count);
            }
        }
        let sql = "SELECT o.pass, i.kind, i.undone_at IS NOT NULL, count(*)
                   FROM intents i JOIN origins o ON o.id = i.origin WHERE i.undo = ?1 GROUP BY 1, 2, 3";
        let undone = self.rows("count what a run took back", sql, [&of.run], |row| {
            let is_back: bool = row.get(2)?;
            let what = (
                row.get::<_, Name<PassName>>(0)?.0,
                row.get::<_, Name<ActionKind>>(1)?.0,
                is_back.then_some(ActionResult::Undone),
            );
            Ok((what, row.get::<_, Count>(3)?.0))
        })?;
        for (what, count) in undone {
            add(what, count);
        }
        Ok(deeds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::{RunEnd, RunRow};
    use super::super::testing::*;
    use super::super::{Intent, IntentId};
    use super::*;

    fn begin(state: &State, run: &str, second: i64) {
        let row = RunRow {
            run: run.into(),
            command: "run".into(),
            version: "0.1.0".into(),
            started_at: at(second),
        };
        state.begin_run(&row).unwrap();
    }

    fn end(state: &State, run: &str, exit: u8) {
        let end = RunEnd {
            outcome: "applied".into(),
            exit,
            finished_at: at(99),
            error: None,
        };
        state.finish_run(run, &end).unwrap();
    }

    fn intend(state: &State, run: &str, intents: &[Intent]) -> Vec<IntentId> {
        state.intend(run, PassName::Ttl, intents).unwrap()
    }

    fn settle(state: &State, ids: &[IntentId], how: Settled, second: i64) {
        let settled: Vec<_> = ids.iter().map(|id| (*id, how)).collect();
        state.settle(&settled, at(second)).unwrap();
    }

    /// One deletion of the pass ttl.
    fn deleted(result: ActionResult) -> Total {
        Total {
            pass: PassName::Ttl,
            action: ActionKind::Delete,
            result,
            count: 1,
        }
    }

    /// Accounts for what can be, and gives the totals: deletions that were applied, skipped, undone.
    fn accounted(state: &State, run: &str) -> [u64; 3] {
        for past in state.unaccounted(run).unwrap() {
            let deeds = state.deeds(&past).unwrap();
            let is_all = deeds.open == 0;
            state.account(&past.run, &deeds, &[], is_all).unwrap();
        }
        let results = [
            ActionResult::Applied,
            ActionResult::Skipped,
            ActionResult::Undone,
        ];
        let totals = state.totals().unwrap();
        results.map(|result| {
            let of = totals.iter().filter(|total| total.result == result);
            of.map(|total| total.count).sum()
        })
    }

    #[test]
    fn what_a_killed_run_did_is_counted_once_whenever_it_ends() {
        let world = World::new();
        let state = world.main();
        begin(&state, "killed", 0);
        let ids = intend(&state, "killed", &[deletion(1), deletion(2), deletion(3)]);
        settle(&state, &ids[..1], Settled::Done, 0);
        // One is open still, for another store, say.
        assert_eq!(accounted(&state, "next"), [1, 0, 0]);
        assert_eq!(accounted(&state, "next"), [1, 0, 0]);
        settle(&state, &ids[1..2], Settled::Done, 5);
        assert_eq!(accounted(&state, "next"), [2, 0, 0]);
        settle(&state, &ids[2..], Settled::Abandoned, 6);
        for run in ["next", "after"] {
            assert_eq!(accounted(&state, run), [2, 1, 0]);
            assert_eq!(state.unaccounted("").unwrap(), []);
        }
    }

    #[test]
    fn what_a_recorded_pass_left_open_is_counted_when_it_ends() {
        let world = World::new();
        let state = world.main();
        begin(&state, "failed", 0);
        let ids = intend(&state, "failed", &[deletion(1), deletion(2)]);
        settle(&state, &ids[..1], Settled::Done, 0);
        let row = super::super::runs::testing::pass(PassName::Ttl, "failed", false, 1);
        state
            .record_pass("failed", &row, &[deleted(ActionResult::Applied)])
            .unwrap();
        end(&state, "failed", 1);
        assert_eq!(state.unaccounted("next").unwrap(), []);
        // The next one is killed as soon as it has finished it.
        begin(&state, "next", 5);
        state.doubt("failed").unwrap();
        settle(&state, &ids[1..], Settled::Done, 5);
        assert_eq!(accounted(&state, "after"), [2, 0, 0]);
        assert_eq!(state.unaccounted("").unwrap(), []);
    }

    #[test]
    fn what_was_counted_as_it_was_done_is_not_counted_again() {
        let world = World::new();
        let state = world.main();
        begin(&state, "undo", 0);
        begin(&state, "night", 1);
        let ids = intend(&state, "night", &[deletion(1), deletion(2)]);
        settle(&state, &ids, Settled::Done, 1);
        assert_eq!(accounted(&state, "undo"), [2, 0, 0]);
        state.begin_undo("undo", &ids).unwrap();
        state
            .finish_undo(&[(ids[0], super::super::TakenBack::Back)], at(2))
            .unwrap();
        state
            .count("undo", &[deleted(ActionResult::Undone)])
            .unwrap();
        assert_eq!(accounted(&state, "next"), [2, 0, 1]);
        state
            .finish_undo(&[(ids[1], super::super::TakenBack::Back)], at(3))
            .unwrap();
        assert_eq!(accounted(&state, "next"), [2, 0, 2]);
        assert_eq!(state.unaccounted("").unwrap(), []);
    }

    #[test]
    fn a_run_by_hand_that_ended_well_is_accounted_for_and_one_that_failed_is_looked_at_again() {
        let world = World::new();
        let state = world.main();
        for (run, exit, expected) in [("well", 0, 1), ("ill", 1, 3)] {
            begin(&state, run, 0);
            let ids = intend(&state, run, &[deletion(1), deletion(2)]);
            settle(&state, &ids[..1], Settled::Done, 0);
            state.count(run, &[deleted(ActionResult::Applied)]).unwrap();
            end(&state, run, exit);
            if exit != 0 {
                settle(&state, &ids[1..], Settled::Done, 4);
            }
            assert_eq!(accounted(&state, "next")[0], expected, "{run}");
        }
        assert_eq!(state.unaccounted("").unwrap(), []);
    }
}
