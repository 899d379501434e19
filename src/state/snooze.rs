//! Questions that a person put off, and who did, so that it can be taken back.

use rusqlite::{Transaction, params};

use super::error::Fault;
use super::sql::At;
use super::{State, StateError, StateReader};
use crate::clock::Timestamp;

/// The snoozes of a run that decide about an open entry: a later one, or an answer, would have to be taken back first.
macro_rules! of_run {
    () => {
        "FROM snoozes WHERE run = ?1
           AND id = (SELECT max(id) FROM snoozes AS later WHERE later.entry = snoozes.entry)
           AND entry IN (SELECT id FROM queue WHERE answer IS NULL)"
    };
}

impl State {
    /// Hides an open entry for a run until an instant; `None` shows it again.
    ///
    /// # Errors
    ///
    /// When it is not open, or the file cannot be written.
    pub fn snooze(
        &self,
        run: &str,
        entry: i64,
        until: Option<Timestamp>,
    ) -> Result<(), StateError> {
        self.write("snooze an entry of the queue", |tx| {
            let remembered = tx.execute(
                "INSERT INTO snoozes(entry, run, before)
                 SELECT id, ?2, snoozed_until FROM queue WHERE id = ?1 AND answer IS NULL",
                params![entry, run],
            )?;
            if remembered == 0 {
                return Err(Fault::Refused(format!("entry {entry} is not open")));
            }
            put_off(tx, entry, until.map(At))?;
            Ok(())
        })
    }
}

impl StateReader {
    /// The entries that are put off, or shown again, by what a run said last about them.
    pub(super) fn put_off_by(&self, run: &str) -> Result<Vec<i64>, StateError> {
        let sql = concat!("SELECT entry ", of_run!());
        self.rows("read who put a question off", sql, [run], |row| row.get(0))
    }
}

/// Puts open entries, all or one, off until when they had been before a run put them off; gives them.
pub(super) fn take_back(
    tx: &Transaction<'_>,
    run: &str,
    entry: Option<i64>,
) -> rusqlite::Result<Vec<i64>> {
    let mut taken = tx.prepare(concat!(
        "DELETE ",
        of_run!(),
        " AND (?2 IS NULL OR entry = ?2) RETURNING entry, before"
    ))?;
    let taken = taken.query_map(params![run, entry], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let taken = taken.collect::<rusqlite::Result<Vec<(i64, Option<At>)>>>()?;
    for (entry, before) in &taken {
        put_off(tx, *entry, *before)?;
    }
    Ok(taken.into_iter().map(|(entry, _)| entry).collect())
}

fn put_off(tx: &Transaction<'_>, entry: i64, until: Option<At>) -> rusqlite::Result<usize> {
    tx.execute(
        "UPDATE queue SET snoozed_until = ?2 WHERE id = ?1",
        params![entry, until],
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Answer, State};
    use crate::clock::Timestamp;
    use crate::memory::{MemoryId, Version};
    use crate::plan::{Member, Question, QuestionKind, Reason};

    fn ask(state: &State, id: i64) {
        let question = Question {
            kind: QuestionKind::Similar,
            partition: "main".into(),
            namespace: ana(),
            members: [Member {
                id: MemoryId::Integer(id),
                fingerprint: Version([0; 16]),
            }]
            .into(),
        };
        let reason = Reason::Similar { members: 2 };
        let put = state.enqueue("night", &[(&question, reason)], at(0));
        assert_eq!(put.unwrap(), 1);
    }

    fn until(state: &State, entry: i64) -> Option<Timestamp> {
        state.entry(entry).unwrap().unwrap().snoozed_until
    }

    /// Takes a run back, as a dry run says that it would be.
    fn undo(state: &State, run: &str) -> Vec<i64> {
        let foreseen = state.reopened_without(run).unwrap();
        let reopened = state.reopen(run, None).unwrap();
        assert_eq!(foreseen, reopened, "{run}");
        reopened
    }

    #[test]
    fn what_was_put_off_is_taken_back_latest_first_and_once() {
        let world = World::new();
        let state = world.main();
        ask(&state, 1);
        ask(&state, 2);
        state.snooze("first", 1, Some(at(9))).unwrap();
        state.snooze("other", 2, Some(at(7))).unwrap();
        state.snooze("second", 1, None).unwrap();
        assert_eq!(undo(&state, "first"), [0; 0], "a later one decides");
        assert_eq!(until(&state, 1), None);
        assert_eq!(undo(&state, "second"), [1]);
        assert_eq!(until(&state, 1), Some(at(9)), "as it was");
        assert_eq!(state.reopen("first", Some(2)).unwrap(), [0; 0]);
        assert_eq!(undo(&state, "first"), [1]);
        assert_eq!(until(&state, 1), None);
        for run in ["first", "second", "night"] {
            assert_eq!(undo(&state, run), [0; 0], "{run}");
        }
        assert_eq!(until(&state, 2), Some(at(7)), "another question");
    }

    #[test]
    fn an_answer_is_taken_back_before_what_put_it_off() {
        let world = World::new();
        let state = world.main();
        ask(&state, 1);
        state.snooze("first", 1, Some(at(9))).unwrap();
        state.answer("second", &[1], Answer::Kept, at(1)).unwrap();
        state.snooze("third", 1, None).unwrap_err();
        assert_eq!(undo(&state, "first"), [0; 0]);
        assert_eq!(undo(&state, "second"), [1]);
        assert_eq!(until(&state, 1), Some(at(9)));
        assert_eq!(undo(&state, "first"), [1]);
        assert_eq!(until(&state, 1), None);
    }

    #[test]
    fn what_is_forgotten_is_put_off_by_nobody() {
        let world = World::new();
        let state = world.main();
        ask(&state, 1);
        state.snooze("first", 1, Some(at(9))).unwrap();
        state.forget(&ana(), at(2)).unwrap();
        assert_eq!(undo(&state, "first"), [0; 0]);
    }
}
