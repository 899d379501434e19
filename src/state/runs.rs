//! Runs and what their passes did: the journal that `status` and the metrics read.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use serde_json::Value;

use super::error::Fault;
use super::ledger::{Total, add_totals};
use super::sql::{At, Count, Json, Name};
use super::{State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::pass::PassName;

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its id, a UUID of version 7.
    pub run: String,
    /// What started it, such as `serve` or `run`.
    pub command: String,
    /// The version of hypnos.
    pub version: String,
    /// When it began.
    pub started_at: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// The word for it.
    pub outcome: String,
    /// The exit code; 0 for success.
    pub exit: u8,
    /// When.
    pub finished_at: Timestamp,
    /// Why it could not be done at all, in words; what kept a pass from its work is with the pass.
    pub error: Option<String>,
}

/// A run as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// How it began.
    pub row: RunRow,
    /// How it ended. `None`: it is still running, or it was killed; whoever holds the run lock is the former.
    pub end: Option<RunEnd>,
}

/// What a pass did in a run. The figures are JSON as the report prints them, so that a journal of other passes and
/// actions than this program knows can still be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct PassRow {
    /// The pass.
    pub pass: PassName,
    /// The word for how it ended.
    pub outcome: String,
    /// Whether the stores were read again afterwards and agreed.
    pub succeeded: bool,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Planned actions by kind.
    pub planned: Value,
    /// Applied actions by kind.
    pub applied: Value,
    /// Skipped actions by kind.
    pub skipped: Value,
    /// Failed actions by kind.
    pub failed: Value,
    /// Actions still to be done afterwards, by kind.
    pub residue: Value,
    /// What else was seen, by name.
    pub findings: Value,
    /// Why the guard refused it.
    pub refusal: Option<String>,
    /// Why it failed, or had no ground to act on.
    pub error: Option<String>,
    /// The hash of the plan.
    pub plan_hash: Option<String>,
}

impl State {
    /// Writes that a run began.
    ///
    /// # Errors
    ///
    /// When a run of that id is known, or the file cannot be written.
    pub fn begin_run(&self, row: &RunRow) -> Result<(), StateError> {
        self.write("begin the run", |tx| {
            tx.execute(
                "INSERT INTO runs(run, command, version, started_at) VALUES (?1, ?2, ?3, ?4)",
                params![row.run, row.command, row.version, At(row.started_at)],
            )?;
            Ok(())
        })
    }

    /// Writes how a run ended.
    ///
    /// # Errors
    ///
    /// When no such run has begun, or it ended before, or the file cannot be written.
    pub fn finish_run(&self, run: &str, end: &RunEnd) -> Result<(), StateError> {
        self.write("finish the run", |tx| {
            // What a person asked for and was not done to the end is looked at by the next run.
            let finished = tx.execute(
                "UPDATE runs SET finished_at = ?2, outcome = ?3, exit = ?4, error = ?5,
                   accounted = ?4 = 0 OR EXISTS (SELECT 1 FROM passes WHERE run = runs.id)
                 WHERE run = ?1 AND finished_at IS NULL",
                params![run, At(end.finished_at), end.outcome, end.exit, end.error],
            )?;
            if finished == 0 {
                return Err(Fault::Refused(format!("run {run} is not running")));
            }
            if end.exit == 0 {
                tx.execute("DELETE FROM counted WHERE run = ?1", [run])?;
            }
            Ok(())
        })
    }

    /// Writes what a pass did and adds to the totals, in one transaction.
    ///
    /// # Errors
    ///
    /// When no such run has begun, or the pass was recorded before, or the file cannot be written.
    pub fn record_pass(
        &self,
        run: &str,
        row: &PassRow,
        totals: &[Total],
    ) -> Result<(), StateError> {
        self.write("record the pass", |tx| {
            let id = find_run(tx, run)?
                .ok_or_else(|| Fault::Refused(format!("run {run} has not begun")))?;
            insert_pass(tx, id, row)?;
            // Of what ended until now all is counted.
            tx.execute(
                "DELETE FROM counted WHERE run = ?1 AND pass = ?2",
                params![run, Name(row.pass)],
            )?;
            Ok(add_totals(tx, totals)?)
        })
    }
}

pub(super) fn find_run(tx: &Transaction<'_>, run: &str) -> rusqlite::Result<Option<i64>> {
    tx.query_row("SELECT id FROM runs WHERE run = ?1", [run], |row| {
        row.get(0)
    })
    .optional()
}

pub(super) fn insert_pass(tx: &Transaction<'_>, run: i64, row: &PassRow) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO passes(run, pass, outcome, succeeded, finished_at, seconds, planned, applied, skipped, failed,
           residue, findings, refusal, plan_hash, error)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            run,
            Name(row.pass),
            row.outcome,
            row.succeeded,
            At(row.finished_at),
            row.seconds,
            Json(&row.planned),
            Json(&row.applied),
            Json(&row.skipped),
            Json(&row.failed),
            Json(&row.residue),
            Json(&row.findings),
            row.refusal,
            row.plan_hash,
            row.error,
        ],
    )?;
    Ok(())
}

/// The columns that `run_record` reads.
macro_rules! select_runs {
    ($rest:literal) => {
        concat!(
            "SELECT run, command, version, started_at, outcome, exit, finished_at, error FROM runs ",
            $rest
        )
    };
}

/// The columns that `pass_row` reads.
macro_rules! select_passes {
    ($rest:literal) => {
        concat!(
            "SELECT pass, outcome, succeeded, finished_at, seconds, planned, applied, skipped, failed, residue, findings,
               refusal, plan_hash, error
             FROM passes ",
            $rest
        )
    };
}

impl StateReader {
    /// The last `limit` runs, latest first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn runs(&self, limit: u32) -> Result<Vec<RunRecord>, StateError> {
        let sql = select_runs!("ORDER BY id DESC LIMIT ?1");
        self.rows("read the runs", sql, [limit], run_record)
    }

    /// The last `limit` runs that one of these commands started, latest first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn runs_of(&self, commands: &[&str], limit: u32) -> Result<Vec<RunRecord>, StateError> {
        let sql = select_runs!(
            "WHERE command IN (SELECT value FROM json_each(?1)) ORDER BY id DESC LIMIT ?2"
        );
        let params = params![Json(&commands), limit];
        self.rows("read the runs of some commands", sql, params, run_record)
    }

    /// Whether a run is known.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn has_run(&self, run: &str) -> Result<bool, StateError> {
        let sql = "SELECT EXISTS(SELECT 1 FROM runs WHERE run = ?1)";
        self.one("look for a run", sql, [run], |row| row.get(0))
    }

    /// What the passes of a run did, in the order in which they ran.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn passes_of(&self, run: &str) -> Result<Vec<PassRow>, StateError> {
        let sql = select_passes!("WHERE run = (SELECT id FROM runs WHERE run = ?1) ORDER BY id");
        self.rows("read the passes of a run", sql, [run], pass_row)
    }

    /// When a pass last succeeded, as of `now`: what was written down under a clock that ran ahead does not count.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn last_success(
        &self,
        pass: PassName,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StateError> {
        let sql = "SELECT max(finished_at) FROM passes
                   WHERE pass = ?1 AND succeeded AND finished_at <= ?2";
        let asked = params![Name(pass), At(now)];
        self.one("read the last success", sql, asked, latest)
    }

    /// When a run of at least these passes last left nothing over, as of `now`; what put its work off because the files
    /// were in use left nothing over that it should not. A run of some of them, and the answer to a question, which is a
    /// run too, are no sign that the nights go well.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn last_successful_run(
        &self,
        passes: &[PassName],
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StateError> {
        let names: Vec<&str> = passes.iter().map(|pass| pass.as_str()).collect();
        let sql = "SELECT max(finished_at) FROM runs
                   WHERE finished_at <= ?2 AND id IN (SELECT run FROM passes)
                     AND (exit = 0 OR exit = 3 AND NOT EXISTS (SELECT 1 FROM passes
                       WHERE run = runs.id AND NOT succeeded AND (outcome <> 'skipped' OR skipped = '{}')))
                     AND NOT EXISTS (SELECT 1 FROM json_each(?1) AS asked WHERE NOT EXISTS
                       (SELECT 1 FROM passes WHERE run = runs.id AND pass = asked.value))";
        self.one(
            "read the last successful run",
            sql,
            params![Json(&names), At(now)],
            latest,
        )
    }

    /// What a pass last did, of the times that it could look at the stores: when it failed before it had a plan, or did
    /// not run at all, nothing new is known.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn last_look(&self, pass: PassName) -> Result<Option<PassRow>, StateError> {
        let sql = select_passes!(
            "WHERE pass = ?1 AND (plan_hash IS NOT NULL OR outcome IN ('idle', 'applied', 'partial'))
             ORDER BY id DESC LIMIT 1"
        );
        let mut rows = self.rows("read what a pass did last", sql, [Name(pass)], pass_row)?;
        Ok(rows.pop())
    }

    /// How often the guard has refused the plan of each pass, ever; in order.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn refusals(&self) -> Result<Vec<(PassName, u64)>, StateError> {
        let sql = "SELECT pass, count(*) FROM passes WHERE refusal IS NOT NULL GROUP BY pass";
        let mut refusals = self.rows("count the refusals", sql, [], |row| {
            Ok((row.get::<_, Name<_>>(0)?.0, row.get::<_, Count>(1)?.0))
        })?;
        refusals.sort_unstable();
        Ok(refusals)
    }

    /// How often each pass ended in each outcome, ever; in order.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn pass_outcomes(&self) -> Result<Vec<(PassName, String, u64)>, StateError> {
        let sql = "SELECT pass, outcome, count(*) FROM passes GROUP BY pass, outcome";
        let mut outcomes = self.rows("count the outcomes", sql, [], |row| {
            Ok((
                row.get::<_, Name<_>>(0)?.0,
                row.get(1)?,
                row.get::<_, Count>(2)?.0,
            ))
        })?;
        outcomes.sort();
        Ok(outcomes)
    }
}

fn latest(row: &Row<'_>) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<At>>(0)?.map(|At(at)| at))
}

fn run_record(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    let end = match row.get::<_, Option<At>>(6)? {
        None => None,
        Some(At(finished_at)) => Some(RunEnd {
            outcome: row.get(4)?,
            exit: row.get(5)?,
            finished_at,
            error: row.get(7)?,
        }),
    };
    Ok(RunRecord {
        row: RunRow {
            run: row.get(0)?,
            command: row.get(1)?,
            version: row.get(2)?,
            started_at: row.get::<_, At>(3)?.0,
        },
        end,
    })
}

fn pass_row(row: &Row<'_>) -> rusqlite::Result<PassRow> {
    let figures = |column| row.get::<_, Json<Value>>(column).map(|Json(value)| value);
    Ok(PassRow {
        pass: row.get::<_, Name<_>>(0)?.0,
        outcome: row.get(1)?,
        succeeded: row.get(2)?,
        finished_at: row.get::<_, At>(3)?.0,
        seconds: row.get(4)?,
        planned: figures(5)?,
        applied: figures(6)?,
        skipped: figures(7)?,
        failed: figures(8)?,
        residue: figures(9)?,
        findings: figures(10)?,
        refusal: row.get(11)?,
        plan_hash: row.get(12)?,
        error: row.get(13)?,
    })
}

#[cfg(test)]
pub(super) mod testing {
    use serde_json::json;

    use super::super::testing::at;
    use super::*;

    pub(in super::super) fn pass(
        pass: PassName,
        outcome: &str,
        succeeded: bool,
        second: i64,
    ) -> PassRow {
        PassRow {
            pass,
            outcome: outcome.into(),
            succeeded,
            finished_at: at(second),
            seconds: 0.1 + 0.2,
            planned: json!({"delete": 3, "melt": 1}),
            applied: json!({"delete": 2}),
            skipped: json!({"delete": 1}),
            failed: json!({}),
            residue: json!({}),
            findings: json!({"unreadable": 7}),
            refusal: (!succeeded).then(|| "over its bound".into()),
            plan_hash: None,
            error: (outcome == "failed").then(|| "no space left".into()),
        }
    }
}

#[cfg(test)]
mod tests;
