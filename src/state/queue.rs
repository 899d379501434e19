//! The queue: what waits for a person, and what was answered, so that nothing is asked twice.
//!
//! It stands in the main state file, whichever row database a question is about. A question holds ids and fingerprints,
//! never what a memory says.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Row, params};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::error::Fault;
use super::snooze;
use super::sql::{At, Count, Json, Name, Named, Owned, Packed};
use super::{State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::memory::Version;
use crate::plan::{Member, Question, QuestionKind, Reason};

/// How an entry of the queue was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It still holds.
    Confirmed,
    /// One of the memories stands for the others.
    Replaced,
    /// All of them stay as they are.
    Kept,
    /// The memory was removed.
    Forgotten,
    /// Nobody answered: what was asked about is gone, hidden, or has changed.
    Void,
}

impl Answer {
    /// Every answer.
    pub const ALL: [Self; 5] = [
        Self::Confirmed,
        Self::Replaced,
        Self::Kept,
        Self::Forgotten,
        Self::Void,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Replaced => "replaced",
            Self::Kept => "kept",
            Self::Forgotten => "forgotten",
            Self::Void => "void",
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Named for Answer {
    const WHAT: &'static str = "answer";
    fn all() -> &'static [Self] {
        &Self::ALL
    }
    fn name(self) -> &'static str {
        self.as_str()
    }
}

impl Named for QuestionKind {
    const WHAT: &'static str = "kind of question";
    fn all() -> &'static [Self] {
        &Self::ALL
    }
    fn name(self) -> &'static str {
        self.as_str()
    }
}

/// A question as the queue has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number; rises with time and is never given twice.
    pub id: i64,
    /// What is asked.
    pub question: Question,
    /// Why.
    pub reason: Reason,
    /// The run that put it.
    pub run: String,
    /// When.
    pub queued_at: Timestamp,
    /// Until when it is not to be shown.
    pub snoozed_until: Option<Timestamp>,
    /// How it was answered, and when; `None` while it is open.
    pub answered: Option<(Answer, Timestamp)>,
    /// The run that answered it.
    pub answered_by: Option<String>,
}

/// The name of one exact question: the same question is never put twice.
///
/// The first 16 bytes of a SHA-256 over its kind, its row database, its namespace and its members as they were; for
/// questions about time also over since when, so that what was confirmed is asked about again when it has become old.
#[must_use]
pub fn key_of(question: &Question, reason: Reason) -> Version {
    let Question {
        kind,
        partition,
        namespace,
        members,
    } = question;
    let since = match reason {
        Reason::Unconfirmed { since } | Reason::Unused { since } => Some(since),
        _ => None,
    };
    let text = format!("{kind} {partition:?} {namespace:?} {members:?} {since:?}");
    let mut key = [0; 16];
    key.copy_from_slice(&Sha256::digest(text)[..16]);
    Version(key)
}

impl State {
    /// Puts questions, in one transaction. One that was put before is passed over. Gives how many are new.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then none is put.
    pub fn enqueue(
        &self,
        run: &str,
        questions: &[(&Question, Reason)],
        now: Timestamp,
    ) -> Result<u64, StateError> {
        self.write("write to the queue", |tx| {
            let mut insert = tx.prepare_cached(
                "INSERT INTO queue(key, kind, partition, namespace, members, reason, run, queued_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(key) DO NOTHING",
            )?;
            let mut new = 0;
            for (question, reason) in questions {
                new += insert.execute(params![
                    key_of(question, *reason).0,
                    Name(question.kind),
                    question.partition,
                    question.namespace.as_str(),
                    Packed(&question.members),
                    Json(reason),
                    run,
                    At(now),
                ])? as u64;
            }
            Ok(new)
        })
    }

    /// Answers open entries for a run, in one transaction. What became void may be asked again.
    ///
    /// # Errors
    ///
    /// When one is not open, or the file cannot be written; then none is answered.
    pub fn answer(
        &self,
        run: &str,
        entries: &[i64],
        answer: Answer,
        now: Timestamp,
    ) -> Result<(), StateError> {
        self.write("answer entries of the queue", |tx| {
            for id in entries {
                let answered = tx
                    .prepare_cached(
                        "UPDATE queue SET answer = ?2, answered_at = ?3, answered_by = ?4,
                           key = CASE WHEN ?2 = 'void' THEN NULL ELSE key END
                         WHERE id = ?1 AND answer IS NULL",
                    )?
                    .execute(params![id, Name(answer), At(now), run])?;
                if answered == 0 {
                    return Err(Fault::Refused(format!("entry {id} is not open")));
                }
            }
            Ok(())
        })
    }

    /// Writes down what a person decided without having been asked: each question as one that this run put and
    /// answered, in one transaction. A question that waits already is answered.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then nothing is.
    pub fn decide(
        &self,
        run: &str,
        questions: &[(Question, Reason)],
        answer: Answer,
        now: Timestamp,
    ) -> Result<(), StateError> {
        self.write("write to the queue", |tx| {
            let mut upsert = tx.prepare_cached(
                "INSERT INTO queue(key, kind, partition, namespace, members, reason, run, queued_at, answer, answered_at,
                   answered_by)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?8, ?7)
                 ON CONFLICT(key) DO UPDATE SET answer = excluded.answer, answered_at = excluded.answered_at,
                   answered_by = excluded.answered_by",
            )?;
            for (question, reason) in questions {
                upsert.execute(params![
                    key_of(question, *reason).0,
                    Name(question.kind),
                    question.partition,
                    question.namespace.as_str(),
                    Packed(&question.members),
                    Json(reason),
                    run,
                    At(now),
                    Name(answer),
                ])?;
            }
            Ok(())
        })
    }

    /// Takes back the answers that a run gave to questions which another run had put, all or that to one entry, but for
    /// those that only said that it was void, and that it put one off; gives the entries, which are open as they were.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then none is taken back.
    pub fn reopen(&self, run: &str, entry: Option<i64>) -> Result<Vec<i64>, StateError> {
        self.write("open entries of the queue again", |tx| {
            let mut reopen = tx.prepare_cached(
                "UPDATE queue SET answer = NULL, answered_at = NULL, answered_by = NULL
                 WHERE answered_by = ?1 AND (?2 IS NULL OR id = ?2) AND run <> ?1 AND answer <> 'void' RETURNING id",
            )?;
            let reopened = reopen.query_map(params![run, entry], |row| row.get(0))?;
            let mut reopened = reopened.collect::<rusqlite::Result<Vec<i64>>>()?;
            reopened.extend(snooze::take_back(tx, run, entry)?);
            reopened.sort_unstable();
            Ok(reopened)
        })
    }
}

/// The columns that `StateReader::entry` reads.
macro_rules! select_entries {
    ($rest:literal) => {
        concat!(
            "SELECT id, kind, partition, namespace, members, reason, run, queued_at, snoozed_until, answer, answered_at,
               answered_by
             FROM queue ",
            $rest
        )
    };
}

impl StateReader {
    /// The open entries, oldest first, snoozed ones included.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn open_entries(&self) -> Result<Vec<Entry>, StateError> {
        self.rows(
            "read the queue",
            select_entries!("WHERE answer IS NULL ORDER BY id"),
            [],
            entry,
        )
    }

    /// Every entry of some kinds, answered ones included, oldest first.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub fn entries(&self, kinds: &[QuestionKind]) -> Result<Vec<Entry>, StateError> {
        let mut entries = self.rows("read the queue", select_entries!("ORDER BY id"), [], entry)?;
        entries.retain(|entry| kinds.contains(&entry.question.kind));
        Ok(entries)
    }

    /// The entries that taking a whole run back would open again, see [`State::reopen`].
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn reopened_without(&self, run: &str) -> Result<Vec<i64>, StateError> {
        let sql = "SELECT id FROM queue WHERE answered_by = ?1 AND run <> ?1 AND answer <> 'void'";
        let mut ids = self.rows("read the queue", sql, [run], |row| row.get(0))?;
        ids.extend(self.put_off_by(run)?);
        ids.sort_unstable();
        Ok(ids)
    }

    /// One entry.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn entry(&self, id: i64) -> Result<Option<Entry>, StateError> {
        let found = self.rows(
            "read the queue",
            select_entries!("WHERE id = ?1"),
            [id],
            entry,
        )?;
        Ok(found.into_iter().next())
    }

    /// The names of all questions that were ever put and did not become void, see [`key_of`].
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn asked(&self) -> Result<std::collections::HashSet<Version>, StateError> {
        let sql = "SELECT key FROM queue WHERE key IS NOT NULL";
        let keys = self.rows("read the queue", sql, [], |row| {
            row.get::<_, [u8; 16]>(0).map(Version)
        })?;
        Ok(keys.into_iter().collect())
    }

    /// How many entries of some kinds were put after an instant.
    ///
    /// # Errors
    ///
    /// When they cannot be counted.
    pub fn queued_since(
        &self,
        kinds: &[QuestionKind],
        since: Timestamp,
    ) -> Result<u64, StateError> {
        // What a person decided unasked took nobody's time.
        let sql = "SELECT count(*) FROM queue
                   WHERE kind = ?1 AND queued_at > ?2 AND (answered_by IS NULL OR answered_by <> run)";
        kinds
            .iter()
            .map(|kind| {
                self.one(
                    "count the queue",
                    sql,
                    params![Name(*kind), At(since)],
                    |row| Ok(row.get::<_, Count>(0)?.0),
                )
            })
            .sum()
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let answer: Option<Name<Answer>> = row.get(9)?;
    let answered_at: Option<At> = row.get(10)?;
    Ok(Entry {
        id: row.get(0)?,
        question: Question {
            kind: row.get::<_, Name<QuestionKind>>(1)?.0,
            partition: Arc::from(row.get::<_, String>(2)?),
            namespace: row.get::<_, Owned>(3)?.0,
            members: row.get::<_, Packed<Vec<Member>>>(4)?.0.into(),
        },
        reason: row.get::<_, Json<Reason>>(5)?.0,
        run: row.get(6)?,
        queued_at: row.get::<_, At>(7)?.0,
        snoozed_until: row.get::<_, Option<At>>(8)?.map(|At(at)| at),
        answered: answer
            .zip(answered_at)
            .map(|(Name(answer), At(at))| (answer, at)),
        answered_by: row.get(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::memory::MemoryId;

    fn question(kind: QuestionKind, members: &[(i64, u8)]) -> Question {
        let member = |(id, print): &(i64, u8)| Member {
            id: MemoryId::Integer(*id),
            fingerprint: Version([*print; 16]),
        };
        Question {
            kind,
            partition: "main".into(),
            namespace: ana(),
            members: members.iter().map(member).collect(),
        }
    }

    fn put(state: &State, question: &Question, reason: Reason, second: i64) -> u64 {
        state
            .enqueue("run", &[(question, reason)], at(second))
            .unwrap()
    }

    const SCORE: Reason = Reason::Contradiction { score: 50 };

    #[test]
    fn a_question_is_put_once_unless_a_side_changes() {
        let world = World::new();
        let state = world.main();
        let pair = question(QuestionKind::Contradiction, &[(1, 0), (2, 0)]);
        assert_eq!(put(&state, &pair, SCORE, 0), 1);
        assert_eq!(
            put(&state, &pair, Reason::Contradiction { score: 60 }, 9),
            0
        );
        state
            .answer("answering", &[1], Answer::Kept, at(1))
            .unwrap();
        assert_eq!(put(&state, &pair, SCORE, 2), 0, "answered");
        let changed = question(QuestionKind::Contradiction, &[(1, 0), (2, 1)]);
        assert_eq!(put(&state, &changed, SCORE, 3), 1);
        assert!(state.asked().unwrap().contains(&key_of(&changed, SCORE)));
        let open: Vec<i64> = state.open_entries().unwrap().iter().map(|e| e.id).collect();
        assert_eq!(open, [state.entries(&QuestionKind::ALL).unwrap()[1].id]);
    }

    #[test]
    fn what_became_void_can_be_asked_again() {
        let world = World::new();
        let state = world.main();
        let pair = question(QuestionKind::Similar, &[(1, 0), (2, 0)]);
        put(&state, &pair, Reason::Similar { members: 2 }, 0);
        state
            .answer("answering", &[1], Answer::Void, at(1))
            .unwrap();
        assert_eq!(put(&state, &pair, Reason::Similar { members: 2 }, 2), 1);
        assert_eq!(
            state.reopen("answering", None).unwrap(),
            [0; 0],
            "void is not an answer to take back"
        );
        let entry = state.entry(1).unwrap().unwrap();
        assert_eq!(entry.answered, Some((Answer::Void, at(1))));
        assert_eq!(entry.question, pair);
    }

    #[test]
    fn an_old_confirmation_is_a_new_question() {
        let world = World::new();
        let state = world.main();
        let old = question(QuestionKind::Stale, &[(1, 0)]);
        let reason = |second| Reason::Unconfirmed { since: at(second) };
        assert_eq!(put(&state, &old, reason(0), 0), 1);
        assert_eq!(put(&state, &old, reason(0), 1), 0);
        assert_eq!(put(&state, &old, reason(5), 2), 1);
        let count = |since| {
            state
                .queued_since(&[QuestionKind::Stale], at(since))
                .unwrap()
        };
        assert_eq!((count(-1), count(0), count(2)), (2, 1, 0));
    }

    #[test]
    fn only_what_is_open_is_answered_or_snoozed_and_answers_are_taken_back() {
        let world = World::new();
        let state = world.main();
        put(&state, &question(QuestionKind::Unused, &[(1, 0)]), SCORE, 0);
        state.snooze("putting off", 1, Some(at(9))).unwrap();
        assert_eq!(state.open_entries().unwrap()[0].snoozed_until, Some(at(9)));
        state
            .answer("answering", &[1], Answer::Confirmed, at(1))
            .unwrap();
        for refused in [
            state.answer("answering", &[1], Answer::Kept, at(2)),
            state.snooze("putting off", 1, None),
            state.answer("answering", &[7], Answer::Kept, at(2)),
        ] {
            assert!(
                matches!(refused, Err(StateError::Refused { .. })),
                "{refused:?}"
            );
        }
        let answered = state.entry(1).unwrap().unwrap();
        assert_eq!(answered.answered_by.as_deref(), Some("answering"));
        for (run, entry) in [("another", None), ("answering", Some(7)), ("run", Some(1))] {
            assert_eq!(state.reopen(run, entry).unwrap(), [0; 0], "{run}");
        }
        assert_eq!(state.reopen("answering", None).unwrap(), [1]);
        let open = state.open_entries().unwrap().remove(0);
        assert_eq!((open.answered, open.answered_by), (None, None));
    }

    #[test]
    fn what_a_person_decided_unasked_is_an_answer_and_costs_no_turn_of_the_week() {
        let world = World::new();
        let state = world.main();
        let pair = question(QuestionKind::Similar, &[(1, 0), (2, 0)]);
        let waiting = question(QuestionKind::Similar, &[(3, 0), (4, 0)]);
        put(&state, &waiting, SCORE, 0);
        let decided = [(pair.clone(), SCORE), (waiting, SCORE)];
        for second in [5, 7] {
            state
                .decide("undo", &decided, Answer::Kept, at(second))
                .unwrap();
        }
        let entries = state.entries(&QuestionKind::ALL).unwrap();
        let answers: Vec<_> = entries.iter().map(|entry| entry.answered).collect();
        assert_eq!(answers, [Some((Answer::Kept, at(7))); 2]);
        assert_eq!(put(&state, &pair, SCORE, 8), 0, "it is not asked again");
        let queued = state.queued_since(&[QuestionKind::Similar], at(-1));
        assert_eq!(queued.unwrap(), 1);
        assert_eq!(
            state.reopen("undo", None).unwrap(),
            [1],
            "what nobody was asked stays decided"
        );
    }
}
