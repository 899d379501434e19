//! Forgetting a namespace: everything that names it, or says what its memories said, goes; the tombstones stay.

use rusqlite::{OptionalExtension as _, ToSql, Transaction, params};

use super::bookmark::remember_erased;
use super::ledger::NamespaceHash;
use super::sql::{At, Count, Json, Owned, Packed};
use super::{State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::memory::{Namespace, PointId};
use crate::plan::Reason;

/// A namespace whose erasure was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgetting {
    /// Whose memories.
    pub namespace: Namespace,
    /// Whether pairs of snapshots that hold some of them are to go, too.
    pub from_pairs: bool,
}

/// An erasure that is begun, or gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Whether pairs of snapshots are wanted, by this run or by one that was cut off.
    pub from_pairs: bool,
    /// When a run that was cut off had begun it.
    pub cut_off: Option<Timestamp>,
}

/// What runs have removed of a namespace because it is to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Memories.
    pub memories: u64,
    /// Points, with a memory or without.
    pub points: u64,
}

/// What a state file held of a namespace, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Actions on its memories, with how they ended.
    pub actions: u64,
    /// Copies of its memories and points.
    pub pre_images: u64,
    /// Questions about its memories.
    pub questions: u64,
    /// Points that were seen without a row or an owner.
    pub sightings: u64,
    /// Memories that were compared with others.
    pub compared: u64,
}

impl State {
    /// Writes that a namespace is about to be erased, from pairs of snapshots too or not, so that the next run goes on if
    /// this one is killed.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn begin_forgetting(
        &self,
        namespace: &Namespace,
        from_pairs: bool,
        now: Timestamp,
    ) -> Result<Begun, StateError> {
        self.write("write what is to be forgotten", |tx| {
            let name = namespace.as_str();
            let cut_off = tx
                .query_row(
                    "SELECT begun_at FROM forgetting WHERE namespace = ?1",
                    [name],
                    |row| row.get::<_, At>(0),
                )
                .optional()?;
            let from_pairs = tx.query_row(
                "INSERT INTO forgetting(namespace, begun_at, from_pairs) VALUES (?1, ?2, ?3)
                 ON CONFLICT(namespace) DO UPDATE SET from_pairs = max(from_pairs, excluded.from_pairs)
                 RETURNING from_pairs",
                params![name, At(now), from_pairs],
                |row| row.get(0),
            )?;
            Ok(Begun {
                from_pairs,
                cut_off: cut_off.map(|At(at)| at),
            })
        })
    }

    /// Drops everything about a namespace, however it is spelled, but the tombstones of its memories, in one
    /// transaction; and remembers its hash as erased. Gives what there was. Open intents stay: they hold what it takes
    /// to finish them.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then nothing is dropped.
    pub fn forget(&self, namespace: &Namespace, now: Timestamp) -> Result<Held, StateError> {
        let held = self.held(namespace)?;
        let spellings = self.spellings(namespace)?;
        self.write("forget a namespace", |tx| {
            for spelling in &spellings {
                forget_spelling(tx, spelling, now)?;
            }
            Ok(())
        })?;
        Ok(held)
    }

    /// Writes that a namespace is erased to the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn finish_forgetting(&self, namespace: &Namespace) -> Result<(), StateError> {
        self.write("write what is forgotten", |tx| {
            tx.execute(
                "DELETE FROM forgetting WHERE namespace = ?1",
                [namespace.as_str()],
            )?;
            Ok(())
        })
    }
}

/// The actions of a namespace that have ended, and are not being taken back.
const SETTLED: &str = "SELECT id FROM intents
     WHERE namespace = ?1 AND outcome IS NOT NULL AND (undo IS NULL OR undone_at IS NOT NULL)";

/// Drops the copies of what was removed from a namespace; an action that has not ended keeps its own.
pub(super) fn drop_pre_images(tx: &Transaction<'_>, namespace: &Namespace) -> rusqlite::Result<()> {
    tx.prepare_cached(&format!(
        "DELETE FROM pre_images WHERE intent IN ({SETTLED})"
    ))?
    .execute([namespace.as_str()])?;
    Ok(())
}

fn forget_spelling(
    tx: &Transaction<'_>,
    namespace: &Namespace,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let (name, hash) = (namespace.as_str(), NamespaceHash::of(namespace));
    drop_pre_images(tx, namespace)?;
    tx.execute(
        &format!(
            "DELETE FROM compared WHERE memory IN (SELECT memory FROM intents WHERE id IN ({SETTLED}))
               OR memory IN (SELECT memory FROM tombstones WHERE namespace = ?2)"
        ),
        params![name, hash],
    )?;
    tx.execute(
        &format!("DELETE FROM intents WHERE id IN ({SETTLED})"),
        [name],
    )?;
    for sql in [
        "DELETE FROM queue WHERE namespace = ?1",
        "DELETE FROM sightings WHERE namespace = ?1",
        // What a guard had said of it.
        "UPDATE passes SET refusal = replace(refusal, ?1, '(forgotten)') WHERE instr(refusal, ?1) > 0",
    ] {
        tx.execute(sql, [name])?;
    }
    // What failed may name the file of the owner.
    for sql in [
        "UPDATE passes SET error = '(forgotten)' WHERE instr(error, ?1) > 0",
        "UPDATE runs SET error = '(forgotten)' WHERE instr(error, ?1) > 0",
    ] {
        tx.execute(sql, [namespace.owner()])?;
    }
    tx.execute(
        "UPDATE tombstones SET erased = 1 WHERE namespace = ?1",
        [hash],
    )?;
    remember_erased(tx, hash, now)
}

impl StateReader {
    /// When something of a namespace was first removed, as far as it did not come back.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn first_removal(&self, namespace: &Namespace) -> Result<Option<Timestamp>, StateError> {
        let sql = "SELECT min(at) FROM tombstones WHERE namespace = ?1";
        let hash = NamespaceHash::of(namespace);
        let first = self.rows("read when it was removed", sql, [hash], |row| {
            Ok(row.get::<_, Option<At>>(0)?.map(|at| at.0))
        })?;
        Ok(first.into_iter().flatten().next())
    }

    /// What runs other than `run` have removed of a namespace since an instant because it is to be forgotten, as far as the
    /// file remembers it.
    ///
    /// # Errors
    ///
    /// When it cannot be counted.
    pub fn forgotten_since(
        &self,
        namespace: &Namespace,
        since: Timestamp,
        run: &str,
    ) -> Result<Forgotten, StateError> {
        // What is done names nobody any more, but for its tombstones.
        let sql = "SELECT reason, points,
                     (SELECT count(*) FROM tombstones WHERE intent = intents.id AND memory IS NOT NULL)
                   FROM intents
                   WHERE id IN (SELECT intent FROM tombstones WHERE namespace = ?1 AND at >= ?2)
                     AND outcome = 'done' AND origin NOT IN (SELECT id FROM origins WHERE run = ?3)";
        let mut forgotten = Forgotten::default();
        for spelling in self.spellings(namespace)? {
            let params = params![NamespaceHash::of(&spelling), At(since), run];
            let removals = self.rows("count what is forgotten", sql, params, |row| {
                let points: Option<Packed<Vec<PointId>>> = row.get(1)?;
                let points = points.map_or(0, |Packed(points)| points.len() as u64);
                Ok((
                    row.get::<_, Json<Reason>>(0)?.0,
                    points,
                    row.get::<_, Count>(2)?.0,
                ))
            })?;
            for (reason, points, memories) in removals {
                if reason == Reason::Forgotten {
                    forgotten.memories += memories;
                    forgotten.points += points;
                }
            }
        }
        Ok(forgotten)
    }

    /// The namespaces that are being erased.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn forgetting(&self) -> Result<Vec<Forgetting>, StateError> {
        let sql = "SELECT namespace, from_pairs FROM forgetting ORDER BY begun_at, namespace";
        self.rows("read what is to be forgotten", sql, [], |row| {
            Ok(Forgetting {
                namespace: row.get::<_, Owned>(0)?.0,
                from_pairs: row.get(1)?,
            })
        })
    }

    /// What the file holds of a namespace, however it is spelled.
    ///
    /// # Errors
    ///
    /// When it cannot be counted.
    pub fn held(&self, namespace: &Namespace) -> Result<Held, StateError> {
        let mut held = Held::default();
        for spelling in self.spellings(namespace)? {
            let (name, hash) = (spelling.as_str(), NamespaceHash::of(&spelling));
            let count = |sql: &str, params: &[&dyn ToSql]| {
                self.one("count what is to be forgotten", sql, params, |row| {
                    row.get::<_, i64>(0).map(i64::unsigned_abs)
                })
            };
            held.actions += count(
                "SELECT count(*) FROM intents WHERE namespace = ?1",
                &[&name],
            )?;
            held.pre_images += count(
                "SELECT count(*) FROM pre_images
                 WHERE intent IN (SELECT id FROM intents WHERE namespace = ?1)",
                &[&name],
            )?;
            held.questions += count("SELECT count(*) FROM queue WHERE namespace = ?1", &[&name])?;
            held.sightings += count(
                "SELECT count(*) FROM sightings WHERE namespace = ?1",
                &[&name],
            )?;
            held.compared += count(
                "SELECT count(*) FROM compared
                 WHERE memory IN (SELECT memory FROM intents WHERE namespace = ?1)
                    OR memory IN (SELECT memory FROM tombstones WHERE namespace = ?2)",
                &[&name, &hash],
            )?;
        }
        Ok(held)
    }

    /// How a namespace is spelled in the file, itself included: two programs rarely write a UUID alike.
    fn spellings(&self, namespace: &Namespace) -> Result<Vec<Namespace>, StateError> {
        let sql = "SELECT namespace FROM intents WHERE namespace IS NOT NULL
                   UNION SELECT namespace FROM queue UNION SELECT namespace FROM sightings";
        let mut spellings = self.rows("read the namespaces", sql, [], |row| {
            Ok(row.get::<_, Owned>(0)?.0)
        })?;
        let normal = namespace.normal();
        spellings.retain(|known| known != namespace && known.normal() == normal);
        spellings.push(namespace.clone());
        Ok(spellings)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::*;
    use super::super::{Intent, Partition, Settled};
    use super::*;
    use crate::memory::{MemoryId, PointId, Version};
    use crate::pass::PassName;
    use crate::plan::{Member, Question, QuestionKind, Reason, Sighting};

    fn named(name: &str) -> Namespace {
        Namespace::parse(name).unwrap()
    }

    /// A state file with something of each kind about a namespace.
    fn fill(state: &State, namespace: &Namespace, first: i64) {
        let intents = [0, 1].map(|n| Intent {
            namespace: Some(namespace.clone()),
            ..deletion(first + n)
        });
        let ids = state.intend("run-1", PassName::Ttl, &intents).unwrap();
        state.settle(&[(ids[0], Settled::Done)], at(1)).unwrap();
        state
            .settle(&[(ids[1], Settled::Abandoned)], at(1))
            .unwrap();
        let question = Question {
            kind: QuestionKind::Stale,
            partition: "main".into(),
            namespace: namespace.clone(),
            members: [Member {
                id: MemoryId::Integer(first),
                fingerprint: Version([1; 16]),
            }]
            .into(),
        };
        let reason = Reason::Unconfirmed { since: at(0) };
        state
            .enqueue("run-1", &[(&question, reason)], at(1))
            .unwrap();
    }

    #[test]
    fn only_tombstones_are_left_and_nobody_else_is_touched() {
        let world = World::new();
        let state = world.main();
        let (maria, namesake) = (
            named("user:maria@example.org"),
            named("team:maria@example.org"),
        );
        fill(&state, &maria, 1);
        fill(&state, &namesake, 3);
        let sighting = |namespace: &Namespace| Sighting {
            namespace: namespace.clone(),
            point: PointId::Number(7),
        };
        let seen = [sighting(&maria), sighting(&namesake)];
        state.record_sightings(&seen, at(1)).unwrap();
        let compared = [1, 3].map(|id| (MemoryId::Integer(id), Version([2; 16])));
        state
            .record_compared(PassName::Ttl, Version([0; 16]), &compared.into())
            .unwrap();
        let begun = |from_pairs| Forgetting {
            namespace: maria.clone(),
            from_pairs,
        };
        for (asked, wanted, now, cut_off) in [
            (false, false, 5, None),
            (true, true, 6, Some(at(5))),
            (false, true, 7, Some(at(5))),
        ] {
            let expected = Begun {
                from_pairs: wanted,
                cut_off,
            };
            let begun_now = state.begin_forgetting(&maria, asked, at(now)).unwrap();
            assert_eq!(begun_now, expected);
            assert_eq!(state.forgetting().unwrap(), [begun(wanted)]);
        }
        let of_namesake = state.held(&namesake).unwrap();
        let held = state.forget(&maria, at(5)).unwrap();
        let expected = Held {
            actions: 2,
            pre_images: 2,
            questions: 1,
            sightings: 1,
            compared: 1,
        };
        assert_eq!(held, expected);
        assert_eq!(state.held(&maria).unwrap(), Held::default());
        assert_eq!(state.held(&namesake).unwrap(), of_namesake);
        assert_eq!(of_namesake, expected);
        state.finish_forgetting(&maria).unwrap();
        assert_eq!(state.forgetting().unwrap(), []);
        let hash = NamespaceHash::of(&maria);
        assert_eq!(state.erased_namespaces().unwrap(), [(hash, at(5))]);
        let stones = state.tombstones(at(0)).unwrap();
        let erased: Vec<bool> = stones.iter().map(|stone| stone.erased).collect();
        assert_eq!(erased, [true, true, false, false]);
        let first = |of: &Namespace| state.first_removal(of).unwrap();
        assert_eq!(first(&maria), Some(stones[0].at));
        assert_eq!(first(&Namespace::parse("user:nobody").unwrap()), None);
    }

    #[test]
    fn what_a_killed_run_had_removed_is_remembered_by_whose_it_was() {
        let world = World::new();
        let state = world.main();
        let (maria, bea) = (named("user:maria"), named("user:bea"));
        let forgotten = |intent: Intent, namespace: &Namespace| Intent {
            namespace: Some(namespace.clone()),
            reason: Reason::Forgotten,
            erase: true,
            ..intent
        };
        let intents = [
            forgotten(deletion(1), &maria),
            forgotten(drop_point(7), &maria),
            forgotten(deletion(2), &bea),
            // Expired, and so not of the erasure.
            Intent {
                namespace: Some(maria.clone()),
                ..deletion(3)
            },
        ];
        let ids = state.intend("run-1", PassName::Review, &intents).unwrap();
        let done: Vec<_> = ids.iter().map(|id| (*id, Settled::Done)).collect();
        state.settle(&done, at(5)).unwrap();
        state.forget(&maria, at(6)).unwrap();
        let since = |at, run| state.forgotten_since(&maria, at, run).unwrap();
        let expected = Forgotten {
            memories: 2,
            points: 2,
        };
        assert_eq!(since(at(5), "run-2"), expected);
        assert_eq!(since(at(6), "run-2"), Forgotten::default());
        assert_eq!(since(at(5), "run-1"), Forgotten::default());
    }

    #[test]
    fn no_byte_of_it_is_left_in_any_file() {
        let world = World::new();
        let state = world.main();
        let maria = named("user:maria@example.org");
        fill(&state, &maria, 1);
        state.begin_forgetting(&maria, false, at(5)).unwrap();
        state.forget(&maria, at(5)).unwrap();
        state.finish_forgetting(&maria).unwrap();
        assert!(state.tidy().unwrap());
        drop(state);
        for entry in fs::read_dir(world.file("")).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            for text in [SECRET, "maria@example.org"] {
                let found = bytes.windows(text.len()).any(|w| w == text.as_bytes());
                assert!(!found, "{text}");
            }
        }
    }

    #[test]
    fn another_spelling_of_a_uuid_is_the_same_namespace_and_open_intents_stay() {
        let world = World::new();
        let state = world.dir.open(Partition::Main).unwrap();
        let upper = named("user:6A2F0000-0000-4000-8000-00000000000A");
        let lower = named("user:6a2f0000-0000-4000-8000-00000000000a");
        fill(&state, &upper, 1);
        state.intend_one(Intent {
            namespace: Some(upper.clone()),
            ..deletion(9)
        });
        let held = state.forget(&lower, at(5)).unwrap();
        assert_eq!((held.actions, held.questions), (3, 1));
        assert_eq!(state.held(&lower).unwrap().actions, 1);
        assert_eq!(state.count_open_intents().unwrap(), 1);
    }
}
