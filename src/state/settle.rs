//! How intents end: marked, their tombstones written, and what must not be kept dropped in the same transaction.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::bookmark::remember_erased;
use super::error::Fault;
use super::forget::drop_pre_images;
use super::ledger::NamespaceHash;
use super::sql::{At, Id, IdRef, Name, Owned, Packed, PointRef};
use super::{IntentId, Settled, State, StateError};
use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId};
use crate::pass::PassName;
use crate::plan::ActionKind;

/// How many intents one transaction of [`State::prune`] drops.
const PRUNED_AT_ONCE: u32 = 1_000;

/// What settling needs of an open intent.
struct Open {
    kind: ActionKind,
    pass: PassName,
    namespace: Option<Namespace>,
    memory: Option<MemoryId>,
    behind: Vec<MemoryId>,
    points: Vec<PointId>,
    erase: bool,
}

impl State {
    /// Marks open intents as ended, in one transaction. What was done gets its tombstones: the memory and every one
    /// hidden behind it, or the points of a change that is about no memory. What erases loses its pre-image however it
    /// ended, and its namespace once it is done; with it go the pre-images of what else had been done there.
    ///
    /// # Errors
    ///
    /// When one is not open, or the file cannot be written; then none is marked.
    pub fn settle(
        &self,
        settled: &[(IntentId, Settled)],
        now: Timestamp,
    ) -> Result<(), StateError> {
        self.write("settle intents", |tx| {
            let mut erased = BTreeSet::new();
            for &(id, how) in settled {
                let open = find_open(tx, id)?
                    .ok_or_else(|| Fault::Refused(format!("intent {id} is not open")))?;
                settle(tx, id, &open, how, now)?;
                // Where a person forgets, they are counted and go when all else is gone, see `State::forget`.
                if open.erase && how == Settled::Done && open.pass != PassName::Review {
                    erased.extend(open.namespace);
                }
            }
            for namespace in &erased {
                drop_pre_images(tx, namespace)?;
            }
            Ok(())
        })
    }

    /// Drops intents that were settled before `before`, and their pre-images, in transactions of a thousand; gives
    /// their number. Open intents stay however old, those that are being taken back too; so do tombstones, totals, runs
    /// and pass results.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; what was dropped until then stays dropped, and the next call goes on.
    pub fn prune(&self, before: Timestamp) -> Result<u64, StateError> {
        let mut pruned = 0;
        let mut after = 0;
        loop {
            let old = self.rows(
                "look for old intents",
                "SELECT id FROM intents WHERE id > ?1 AND settled_at < ?2 AND (undo IS NULL OR undone_at IS NOT NULL)
                 ORDER BY id LIMIT ?3",
                params![after, At(before), PRUNED_AT_ONCE],
                |row| row.get::<_, i64>(0),
            )?;
            let Some(last) = old.last() else {
                return Ok(pruned);
            };
            after = *last;
            self.write("drop old intents", |tx| {
                for id in &old {
                    drop_pre_image(tx, IntentId(*id))?;
                    tx.prepare_cached("DELETE FROM intents WHERE id = ?1")?
                        .execute([id])?;
                }
                Ok(())
            })?;
            pruned += old.len() as u64;
        }
    }
}

fn find_open(tx: &Transaction<'_>, id: IntentId) -> rusqlite::Result<Option<Open>> {
    tx.prepare_cached(
        "SELECT i.kind, o.pass, i.namespace, i.memory, i.behind, i.points, i.erase
         FROM intents i JOIN origins o ON o.id = i.origin WHERE i.id = ?1 AND i.outcome IS NULL",
    )?
    .query_row([id.0], |row| {
        let behind: Option<Packed<_>> = row.get(4)?;
        let points: Option<Packed<_>> = row.get(5)?;
        Ok(Open {
            kind: row.get::<_, Name<_>>(0)?.0,
            pass: row.get::<_, Name<_>>(1)?.0,
            namespace: row.get::<_, Option<Owned>>(2)?.map(|Owned(name)| name),
            memory: row.get::<_, Option<Id>>(3)?.map(|Id(id)| id),
            behind: behind.map(|Packed(ids)| ids).unwrap_or_default(),
            points: points.map(|Packed(ids)| ids).unwrap_or_default(),
            erase: row.get(6)?,
        })
    })
    .optional()
}

fn settle(
    tx: &Transaction<'_>,
    id: IntentId,
    open: &Open,
    how: Settled,
    now: Timestamp,
) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE intents SET outcome = ?2, settled_at = ?3 WHERE id = ?1")?
        .execute(params![id.0, Name(how), At(now)])?;
    if open.erase {
        drop_pre_image(tx, id)?;
    }
    // What was confirmed is not gone; and what lists memories is none, so that no snapshot of memories has it.
    if how == Settled::Done && open.kind != ActionKind::Confirm {
        if !open.kind.is_of_entity() {
            bury(tx, id, open, now)?;
        }
        if open.erase {
            forget_namespace(tx, id, open, now)?;
        }
    }
    Ok(())
}

fn drop_pre_image(tx: &Transaction<'_>, id: IntentId) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM pre_images WHERE intent = ?1")?
        .execute([id.0])?;
    Ok(())
}

/// Writes the tombstones of what an intent removed.
fn bury(tx: &Transaction<'_>, id: IntentId, open: &Open, now: Timestamp) -> rusqlite::Result<()> {
    let namespace = open.namespace.as_ref().map(NamespaceHash::of);
    let mut part = 0;
    let mut write = |memory: Option<&MemoryId>, point: Option<&PointId>| {
        tx.prepare_cached(
            "INSERT INTO tombstones(intent, part, kind, pass, memory, point, namespace, erased, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            id.0,
            part,
            Name(open.kind),
            Name(open.pass),
            memory.map(IdRef),
            point.map(PointRef),
            namespace,
            open.erase,
            At(now),
        ])?;
        part += 1;
        Ok(())
    };
    if let Some(memory) = &open.memory {
        write(Some(memory), None)?;
        return open
            .behind
            .iter()
            .try_for_each(|hidden| write(Some(hidden), None));
    }
    open.points
        .iter()
        .try_for_each(|point| write(None, Some(point)))
}

fn forget_namespace(
    tx: &Transaction<'_>,
    id: IntentId,
    open: &Open,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let Some(namespace) = &open.namespace else {
        return Ok(());
    };
    tx.prepare_cached("UPDATE intents SET namespace = NULL WHERE id = ?1")?
        .execute([id.0])?;
    remember_erased(tx, NamespaceHash::of(namespace), now)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::*;
    use super::super::{ActionResult, Gone, Intent, Tombstone, Total};
    use super::*;
    use crate::plan::Reason;

    /// Every byte of every file of the store's folder.
    fn raw(world: &World) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in fs::read_dir(world.file("")).unwrap() {
            bytes.extend(fs::read(entry.unwrap().path()).unwrap());
        }
        bytes
    }

    fn holds(world: &World, text: &str) -> bool {
        raw(world)
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    }

    fn has_pre_image(state: &State, id: IntentId) -> bool {
        let records = state.intents_of_run("run-1", None, 99).unwrap();
        let record = records.iter().find(|record| record.id == id).unwrap();
        assert_eq!(
            record.intent.unit.is_some(),
            !record.intent.images.is_empty()
        );
        record.intent.unit.is_some()
    }

    #[test]
    fn each_ending_is_marked_and_only_what_was_done_gets_tombstones() {
        for how in Settled::ALL {
            let world = World::new();
            let state = world.main();
            let id = state.intend_one(deletion(1));
            state.settle(&[(id, how)], at(5)).unwrap();
            let record = &state.intents_of_run("run-1", None, 9).unwrap()[0];
            assert_eq!(record.settled, Some((how, at(5))));
            assert_eq!(
                record.intent,
                deletion(1),
                "{how}: the pre-image stays for undo"
            );
            let tombstones = state.tombstones(at(0)).unwrap();
            assert_eq!(
                tombstones.len(),
                if how == Settled::Done { 2 } else { 0 },
                "{how}"
            );
            assert_eq!(state.erased_namespaces().unwrap(), []);
        }
    }

    #[test]
    fn tombstones_name_the_memory_the_hidden_ones_and_points_without_a_row() {
        let world = World::new();
        let state = world.main();
        let ended = Intent {
            kind: ActionKind::End,
            behind: vec![],
            ..deletion(7)
        };
        let nobodys = Intent {
            namespace: None,
            ..drop_point(8)
        };
        let intents = [
            deletion(1),
            erasure(2),
            drop_point(u64::MAX),
            ended,
            nobodys,
        ];
        let ids = state.intend("run-1", PassName::Orphans, &intents).unwrap();
        for (second, id) in (0..).zip(&ids) {
            state.settle(&[(*id, Settled::Done)], at(second)).unwrap();
        }
        let stone = |gone, kind, erased, second| Tombstone {
            gone,
            kind,
            pass: PassName::Orphans,
            namespace: Some(NamespaceHash::of(&ana())),
            erased,
            at: at(second),
        };
        let memory = |id| Gone::Memory(MemoryId::Integer(id));
        let expected = [
            stone(memory(1), ActionKind::Delete, false, 0),
            stone(memory(1_000_001), ActionKind::Delete, false, 0),
            stone(memory(2), ActionKind::Delete, true, 1),
            stone(memory(1_000_002), ActionKind::Delete, true, 1),
            stone(
                Gone::Point(PointId::Number(u64::MAX)),
                ActionKind::DropPoint,
                false,
                2,
            ),
            stone(memory(7), ActionKind::End, false, 3),
            Tombstone {
                namespace: None,
                ..stone(
                    Gone::Point(PointId::Number(8)),
                    ActionKind::DropPoint,
                    false,
                    4,
                )
            },
        ];
        assert_eq!(state.tombstones(at(0)).unwrap(), expected);
        assert_eq!(state.tombstones(at(2)).unwrap(), expected[4..]);
        let of = |id| state.tombstones_of(&MemoryId::Integer(id)).unwrap();
        assert_eq!((of(1_000_001), of(3)), (expected[1..2].to_vec(), vec![]));
        assert_eq!(
            NamespaceHash::of(&ana()).to_string(),
            // sha256sum of "user:ana"
            "93e69d2510cbd5976530947b5d693b26f1c5c6ef17fcdbf89bc31f4e103c4550"
        );
    }

    #[test]
    fn what_was_confirmed_is_not_gone() {
        let world = World::new();
        let state = world.main();
        let confirmed = Intent {
            kind: ActionKind::Confirm,
            behind: vec![],
            mark: Some(crate::plan::Mark::Confirmed { at: at(3) }),
            ..deletion(1)
        };
        let id = state.intend_one(confirmed);
        state.settle(&[(id, Settled::Done)], at(3)).unwrap();
        assert_eq!(state.tombstones(at(0)).unwrap(), []);
    }

    #[test]
    fn what_lists_memories_leaves_no_tombstone_and_is_found_by_what_it_listed() {
        for kind in [ActionKind::Unlink, ActionKind::DropEntity] {
            let world = World::new();
            let state = world.main();
            let memory = MemoryId::Text("0191".into());
            let id = state.intend_one(Intent {
                kind,
                behind: vec![memory.clone()],
                reason: Reason::MemoryGone,
                ..drop_point(7)
            });
            state.settle(&[(id, Settled::Done)], at(3)).unwrap();
            assert_eq!(state.tombstones(at(0)).unwrap(), []);
            let found = state.intents_of_memory(&memory).unwrap();
            assert_eq!(found.len(), 1, "{kind}");
        }
    }

    #[test]
    fn settling_is_for_open_intents_and_all_or_nothing() {
        let world = World::new();
        let state = world.main();
        let ids = state
            .intend("run-1", PassName::Ttl, &[deletion(1), deletion(2)])
            .unwrap();
        let done = |id: IntentId| (id, Settled::Done);
        state.settle(&[done(ids[0])], at(0)).unwrap();
        for wrong in [ids[0], IntentId(99), IntentId(0)] {
            let refused = state
                .settle(&[done(ids[1]), done(wrong)], at(1))
                .unwrap_err();
            assert_eq!(
                refused.to_string(),
                format!("settle intents: intent {wrong} is not open")
            );
        }
        assert_eq!(state.count_open_intents().unwrap(), 1);
        assert_eq!(state.tombstones(at(1)).unwrap(), []);
    }

    #[test]
    fn an_erasing_intent_loses_its_pre_image_however_it_ends() {
        for how in Settled::ALL {
            let world = World::new();
            let state = world.main();
            let id = state.intend_one(erasure(1));
            assert!(has_pre_image(&state, id), "needed until it is settled");
            state.settle(&[(id, how)], at(5)).unwrap();
            assert!(!has_pre_image(&state, id), "{how}");
            let erased = match how {
                Settled::Done => vec![(NamespaceHash::of(&ana()), at(5))],
                _ => vec![],
            };
            assert_eq!(state.erased_namespaces().unwrap(), erased, "{how}");
        }
    }

    #[test]
    fn erased_namespaces_keep_the_last_time_even_if_the_clock_goes_back() {
        let world = World::new();
        let state = world.main();
        for second in [10, 20, 5] {
            let id = state.intend_one(erasure(second));
            state.settle(&[(id, Settled::Done)], at(second)).unwrap();
        }
        let hash = NamespaceHash::of(&ana());
        assert_eq!(state.erased_namespaces().unwrap(), [(hash, at(20))]);
    }

    #[test]
    fn of_what_was_erased_no_byte_is_left_in_any_file() {
        // Small images share a page with others, big ones fill pages of their own.
        for size in [0, 300, 3_000, 100_000] {
            let world = World::new();
            let state = world.main();
            let padded = |id| {
                let mut intent = erasure(id);
                intent.namespace = Namespace::parse("user:maria@example.org");
                intent.images[0].body.splice(0..0, vec![b'-'; size]);
                intent
            };
            let intents: Vec<_> = (0..40).map(padded).collect();
            let ids = state.intend("run-1", PassName::Orphans, &intents).unwrap();
            assert!(holds(&world, SECRET) && holds(&world, "maria@example.org"));
            let settled: Vec<_> = ids.iter().map(|id| (*id, Settled::Done)).collect();
            // Some of it in the database by now, some in the log.
            state.settle(&settled[..20], at(0)).unwrap();
            assert!(state.tidy().unwrap());
            state.settle(&settled[20..], at(0)).unwrap();
            assert!(state.tidy().unwrap());
            assert!(!holds(&world, SECRET), "{size}: what it said");
            assert!(!holds(&world, "maria@example.org"), "{size}: whose it was");
            assert_eq!(state.tombstones(at(0)).unwrap().len(), 80);
        }
    }

    #[test]
    fn with_an_owner_goes_what_was_kept_of_earlier_nights() {
        let world = World::new();
        let state = world.main();
        let other = Intent {
            namespace: Namespace::parse("user:eve"),
            ..deletion(9)
        };
        let earlier = [deletion(1), deletion(2), other].map(|intent| state.intend_one(intent));
        // The first of them is open still: it holds what it takes to finish it.
        for id in &earlier[1..] {
            state.settle(&[(*id, Settled::Done)], at(0)).unwrap();
        }
        let erasing = state.intend_one(erasure(3));
        let kept = || earlier.map(|id| has_pre_image(&state, id));
        assert_eq!(kept(), [true; 3]);
        state.settle(&[(erasing, Settled::Done)], at(1)).unwrap();
        assert_eq!(kept(), [true, false, true]);
    }

    #[test]
    fn pruning_takes_old_settled_intents_and_nothing_else() {
        let world = World::new();
        let state = world.main();
        let many: Vec<_> = (0..2_500).map(deletion).collect();
        let ids = state.intend("run-1", PassName::Ttl, &many).unwrap();
        let settle = |ids: &[IntentId], second| {
            let settled: Vec<_> = ids.iter().map(|id| (*id, Settled::Done)).collect();
            state.settle(&settled, at(second)).unwrap();
        };
        settle(&ids[..2_300], 10);
        settle(&ids[2_300..2_499], 20);
        let total = Total {
            pass: PassName::Ttl,
            action: ActionKind::Delete,
            result: ActionResult::Applied,
            count: 2_499,
        };
        state.count("run-1", &[total]).unwrap();
        let tombstones = state.tombstones(at(0)).unwrap();

        assert_eq!(
            state.prune(at(10)).unwrap(),
            0,
            "as old as the bound is not older"
        );
        assert_eq!(state.prune(at(11)).unwrap(), 2_300);
        assert_eq!(state.prune(at(11)).unwrap(), 0);
        let left = state.intents_of_run("run-1", None, 9_999).unwrap();
        assert_eq!(
            left.iter().map(|record| record.id).collect::<Vec<_>>(),
            ids[2_300..]
        );
        assert!(left.iter().all(|record| record.intent.unit.is_some()));
        let images = "SELECT count(*) FROM pre_images";
        let images: i64 = state.one("count", images, [], |row| row.get(0)).unwrap();
        assert_eq!(images, 200);

        assert_eq!(state.prune(at(9_999)).unwrap(), 199);
        assert_eq!(state.count_open_intents().unwrap(), 1);
        assert_eq!(state.tombstones(at(0)).unwrap(), tombstones);
        assert_eq!(state.totals().unwrap(), [total]);
    }

    #[test]
    fn the_id_of_a_pruned_intent_is_never_given_again() {
        let world = World::new();
        let id = {
            let state = world.main();
            let id = state.intend_one(deletion(1));
            state.settle(&[(id, Settled::Done)], at(0)).unwrap();
            state.prune(at(1)).unwrap();
            id
        };
        let next = world.main().intend_one(deletion(2));
        assert!(next > id, "{next} {id}");
        let record = &world.main().open_intents(None, 9).unwrap()[0];
        assert_eq!(
            record.intent.reason,
            Reason::Expired {
                at: "2026-01-01T00:00:00.123456789Z".parse().unwrap()
            }
        );
    }
}
