use super::*;
use crate::plan::{Mark, Survivor};

fn end(unit: Unit, at: Timestamp) -> Change {
    Change {
        unit,
        mark: Some(Mark::Ended { at }),
        survivor: None,
    }
}

fn root(writer: &mut Writer, id: i64) -> Unit {
    writer
        .roots(&[n(id)], usize::MAX)
        .unwrap()
        .remove(0)
        .unwrap()
}

/// Memories that count how and when they were used.
fn used(more: &str) -> World {
    World::new(&format!(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, uses, created INTEGER, used TEXT, {more});
         INSERT INTO memories(id, content, uses, created, used) VALUES
           (1, 'stays', 2, 1700000500, '2026-01-02 00:00:00'), (2, 'same', 3, 1700000400, '2026-03-04T05:06:07Z'),
           (3, 'also', NULL, 1700000600, NULL), (4, 'bare', '7', 1700000500, NULL);"
    ))
    .role(Role::Content, "content")
    .role(Role::Uses, "uses")
    .role(Role::CreatedAt, "created:epoch_s")
    .role(Role::LastUsedAt, "used:text")
}

fn merge(world: &World, writer: &mut Writer, gone: i64, into: i64, mark: Option<Mark>) -> Change {
    let essence = world
        .read(|snapshot| snapshot.essences(&[n(into)]))
        .remove(0);
    Change {
        unit: if mark.is_some() {
            root(writer, gone)
        } else {
            unit_of(writer, n(gone))
        },
        mark,
        survivor: Some(Survivor {
            id: n(into),
            essence: essence.unwrap(),
        }),
    }
}

fn superseded(by: i64) -> Mark {
    Mark::Superseded { by: n(by) }
}

const STATE: &str = "SELECT id, uses, created, used, superseded FROM memories ORDER BY id";

#[test]
fn a_merge_hides_the_one_and_carries_its_use_over_to_the_other_once() {
    let world = used("superseded INTEGER").role(Role::SupersededBy, "superseded");
    let mut writer = world.writer();
    let changes = [2, 3].map(|gone| merge(&world, &mut writer, gone, 1, Some(superseded(1))));
    let after = [
        "1 5 1700000400 2026-03-04T05:06:07Z NULL",
        "2 3 1700000400 2026-03-04T05:06:07Z 1",
        "3 NULL 1700000600 NULL 1",
        "4 7 1700000500 NULL NULL",
    ];
    for _ in 0..2 {
        let fates = writer.change_units(&changes).unwrap();
        assert_eq!(fates, [Fate::Removed; 2]);
        assert_eq!(world.query(STATE), after);
    }
    let text = merge(&world, &mut writer, 1, 4, Some(superseded(4)));
    assert_eq!(writer.change_units(&[text]).unwrap(), [Fate::Removed]);
    assert_eq!(
        world.query(STATE)[3],
        "4 12 1700000400 2026-03-04T05:06:07Z NULL"
    );
}

#[test]
fn a_confirmation_is_written_as_the_column_writes_times_and_an_earlier_one_is_another() {
    let at = instant("2026-06-01T12:34:56Z");
    let mark = Mark::Confirmed { at };
    for (known, written) in [
        ("'2026-01-02 03:04:05'", "2026-06-01 12:34:56"),
        ("'2026-01-02T03:04:05Z'", "2026-06-01T12:34:56Z"),
        ("'2026-01-02'", "2026-06-01"),
        ("NULL", "2026-06-01 12:34:56"),
    ] {
        let world = World::new(&format!(
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, confirmed TEXT);
             INSERT INTO memories VALUES(1, 'a', {known}), (2, 'b', {known});"
        ))
        .role(Role::ConfirmedAt, "confirmed:text");
        assert!(world.read(|snapshot| Ok(snapshot.marks().confirmed)));
        let mut writer = world.writer();
        assert!(!writer.is_marked(&n(1), &mark).unwrap(), "{known}");
        let change = Change {
            unit: root(&mut writer, 1),
            mark: Some(mark.clone()),
            survivor: None,
        };
        for _ in 0..2 {
            let fates = writer.change_units(std::slice::from_ref(&change)).unwrap();
            assert_eq!(fates, [Fate::Removed]);
        }
        assert!(writer.is_marked(&n(1), &mark).unwrap(), "{known}");
        let other = known.trim_matches('\'');
        assert_eq!(
            world.query("SELECT id, confirmed FROM memories ORDER BY id"),
            [format!("1 {written}"), format!("2 {other}")]
        );
    }
}

#[test]
fn without_a_column_for_it_a_merge_deletes() {
    let world = used("superseded INTEGER");
    let mut writer = world.writer();
    let change = merge(&world, &mut writer, 2, 1, None);
    assert_eq!(
        writer.change_units(std::slice::from_ref(&change)).unwrap(),
        [Fate::Removed]
    );
    let left = world.query(STATE);
    assert_eq!(
        (left.len(), left[0].as_str()),
        (3, "1 5 1700000400 2026-03-04T05:06:07Z NULL")
    );
    assert_eq!(writer.change_units(&[change]).unwrap(), [Fate::Absent]);
    assert_eq!(world.query(STATE), left);
}

#[test]
fn a_survivor_may_be_used_meanwhile_but_not_edited_hidden_or_gone() {
    for (meanwhile, fate) in [
        (
            "UPDATE memories SET uses = 9, used = '2026-05-05 00:00:00' WHERE id = 1",
            Fate::Removed,
        ),
        (
            "UPDATE memories SET content = 'edited' WHERE id = 1",
            Fate::Changed,
        ),
        (
            "UPDATE memories SET superseded = 4 WHERE id = 1",
            Fate::Changed,
        ),
        ("DELETE FROM memories WHERE id = 1", Fate::Changed),
        ("UPDATE memories SET uses = 4 WHERE id = 2", Fate::Changed),
        ("DELETE FROM memories WHERE id = 2", Fate::Absent),
    ] {
        for mark in [Some(superseded(1)), None] {
            let mut world = used("superseded INTEGER");
            if mark.is_some() {
                world = world.role(Role::SupersededBy, "superseded");
            } else {
                world = world.role(Role::Source, "superseded");
            }
            let mut writer = world.writer();
            let change = merge(&world, &mut writer, 2, 1, mark);
            world.app().execute_batch(meanwhile).unwrap();
            let before = world.dump();
            assert_eq!(
                writer.change_units(&[change]).unwrap(),
                [fate],
                "{meanwhile}"
            );
            if fate == Fate::Removed {
                assert_eq!(
                    world.query(STATE)[0],
                    "1 12 1700000400 2026-05-05 00:00:00 NULL"
                );
            } else {
                assert_eq!(world.dump(), before, "{meanwhile}");
            }
        }
    }
}

#[test]
fn a_refused_mark_carries_nothing_over() {
    let world =
        used("superseded INTEGER CHECK (superseded <> 1)").role(Role::SupersededBy, "superseded");
    let mut writer = world.writer();
    let change = merge(&world, &mut writer, 2, 1, Some(superseded(1)));
    let before = world.dump();
    assert_eq!(writer.change_units(&[change]).unwrap(), [Fate::Blocked]);
    assert_eq!(world.dump(), before);
}

#[test]
fn a_creation_that_a_life_counts_from_stays() {
    for (life, created) in [("7", "1700000500"), ("NULL", "1700000400")] {
        let world = used("superseded INTEGER, life INTEGER")
            .role(Role::SupersededBy, "superseded")
            .role(Role::Ttl, "life");
        world
            .app()
            .execute_batch(&format!("UPDATE memories SET life = {life}"))
            .unwrap();
        let mut writer = world.writer();
        let change = merge(&world, &mut writer, 2, 1, Some(superseded(1)));
        writer.change_units(&[change]).unwrap();
        assert_eq!(
            world.query("SELECT created FROM memories WHERE id = 1"),
            [created]
        );
    }
}

#[test]
fn a_soft_delete_writes_a_time_like_the_others() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, deleted TEXT);
         INSERT INTO memories VALUES (1, NULL), (2, '2020-01-01T00:00:00Z');",
    )
    .role(Role::DeletedAt, "deleted:text");
    let mut writer = world.writer();
    let at = instant("2026-11-29T18:27:27Z");
    let change = Change {
        unit: root(&mut writer, 1),
        mark: Some(Mark::Deleted { at }),
        survivor: None,
    };
    assert_eq!(writer.change_units(&[change]).unwrap(), [Fate::Removed]);
    assert_eq!(
        world.query("SELECT deleted FROM memories WHERE id = 1"),
        ["2026-11-29T18:27:27Z"]
    );
    let has = Mark::Deleted { at };
    assert!(writer.is_marked(&n(1), &has).unwrap());
    assert!(!writer.is_marked(&n(9), &has).unwrap());
}

#[test]
fn ending_sets_valid_to_and_nothing_else() {
    for (column, format, stored, expected) in [
        (
            "TEXT",
            "valid_to:text",
            "'2020-01-01T00:00:00Z'",
            "2026-11-29T18:27:27Z",
        ),
        ("TEXT", "valid_to:text", "NULL", "2026-11-29 18:27:27"),
        ("INTEGER", "valid_to:epoch_s", "NULL", "1795976847"),
        ("INTEGER", "valid_to:epoch_ms", "NULL", "1795976847500"),
        ("", "valid_to", "1600000000000", "1795976847500"),
    ] {
        let world = World::new(&format!(
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, valid_to {column}, twice AS (id * 2));
             CREATE TABLE locks(memory REFERENCES memories(id));
             INSERT INTO memories VALUES (1, 'a', NULL), (2, 'b', NULL), (3, 'c', {stored}); INSERT INTO locks VALUES (1);"
        ))
        .role(Role::ValidTo, format);
        let mut writer = world.writer();
        let at = instant("2026-11-29T18:27:27.5Z");
        let roots = writer.roots(&[n(1), n(2), n(9)], usize::MAX).unwrap();
        let [Some(one), Some(two), None] = &roots[..] else {
            panic!("{roots:?}")
        };
        world
            .app()
            .execute_batch("UPDATE memories SET content = 'B' WHERE id = 2")
            .unwrap();
        let mut gone = one.clone();
        gone.root.columns[0].1 = SqlValue::Integer(77);
        let units = [end(one.clone(), at), end(two.clone(), at), end(gone, at)];
        let fates = writer.change_units(&units).unwrap();
        assert_eq!(fates, [Fate::Removed, Fate::Changed, Fate::Absent]);
        assert_eq!(
            world.query("SELECT id, content, valid_to FROM memories WHERE id < 3"),
            [format!("1 a {expected}"), "2 B NULL".into()]
        );
        assert_eq!(
            writer.change_units(&units[..1]).unwrap(),
            [Fate::Removed],
            "done once"
        );
    }
}

#[test]
fn an_end_that_the_schema_refuses_blocks_only_its_memory() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, valid_to INTEGER CHECK (id <> 1 OR valid_to IS NULL)) STRICT;
         INSERT INTO memories(id) VALUES (1), (2);",
    )
    .role(Role::ValidTo, "valid_to:epoch_s");
    let mut writer = world.writer();
    let at = instant("2026-11-29T18:27:27Z");
    let roots = writer.roots(&[n(1), n(2)], usize::MAX).unwrap();
    let units: Vec<_> = roots
        .into_iter()
        .map(|unit| end(unit.unwrap(), at))
        .collect();
    let fates = writer.change_units(&units).unwrap();
    assert_eq!(fates, [Fate::Blocked, Fate::Removed]);
}

#[test]
fn an_end_that_a_trigger_rolls_back_blocks_only_its_memory() {
    for refusal in ["RAISE(ROLLBACK, 'no')", "json_extract('{broken', '$.a')"] {
        let world = World::new(&format!(
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, valid_to INTEGER);
             CREATE TRIGGER keep BEFORE UPDATE ON memories WHEN old.id = 2 BEGIN SELECT {refusal}; END;
             INSERT INTO memories(id) VALUES (1), (2), (3);"
        ))
        .role(Role::ValidTo, "valid_to:epoch_s");
        let mut writer = world.writer();
        let at = instant("2026-11-29T18:27:27Z");
        let roots = writer.roots(&[n(1), n(2), n(3)], usize::MAX).unwrap();
        let units: Vec<_> = roots
            .into_iter()
            .map(|unit| end(unit.unwrap(), at))
            .collect();
        let fates = writer.change_units(&units).unwrap();
        assert_eq!(
            fates,
            [Fate::Removed, Fate::Blocked, Fate::Removed],
            "{refusal}"
        );
        assert_eq!(
            world.query("SELECT id FROM memories WHERE valid_to IS NULL"),
            ["2"],
            "{refusal}"
        );
    }
}

#[test]
fn a_schema_without_valid_to_ends_nothing() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY); INSERT INTO memories VALUES (3);",
    );
    let mut writer = world.writer();
    let unit = root(&mut writer, 3);
    let at = instant("2026-11-29T18:27:27Z");
    let error = writer.change_units(&[end(unit, at)]).unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Schema);
}

#[test]
fn copies_end_with_the_one_that_breaks_the_budget() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT);
         INSERT INTO memories SELECT value, hex(zeroblob(5000)) FROM json_each('[1, 2, 3, 4, 5]');",
    );
    let mut writer = world.writer();
    let ids: Vec<MemoryId> = (1..=5).map(n).collect();
    let targets: Vec<Wanted> = ids.iter().map(|id| wanted(id.clone(), &[])).collect();
    for (budget, copied) in [
        (0, 1),
        (9_000, 1),
        (15_000, 2),
        (45_000, 5),
        (usize::MAX, 5),
    ] {
        assert_eq!(writer.units(&targets, budget).unwrap().len(), copied);
        assert_eq!(writer.roots(&ids, budget).unwrap().len(), copied);
    }
}

/// What cannot be read of one memory, when it is ended, is that memory's own trouble.
#[test]
fn an_end_whose_creation_cannot_be_read_blocks_only_its_memory() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, meta TEXT, valid_to TEXT);
         INSERT INTO memories(id, meta) VALUES (1, '{broken'), (2, '{\"at\":\"2026-01-01T00:00:00Z\"}');
         ALTER TABLE memories ADD COLUMN created_at TEXT AS (json_extract(meta, '$.at'));",
    )
    .role(Role::ValidTo, "valid_to:text")
    .role(Role::CreatedAt, "created_at:text");
    let mut writer = world.writer();
    let at = instant("2026-11-29T18:27:27Z");
    let roots = writer.roots(&[n(1), n(2)], usize::MAX).unwrap();
    let units: Vec<_> = roots
        .into_iter()
        .map(|unit| end(unit.unwrap(), at))
        .collect();
    let fates = writer.change_units(&units).unwrap();
    assert_eq!(fates, [Fate::Blocked, Fate::Removed]);
    assert_eq!(
        world.query("SELECT id, valid_to FROM memories"),
        ["1 NULL", "2 2026-11-29T18:27:27Z"]
    );
}

#[test]
fn a_memory_is_hidden_only_behind_one_of_its_owner_that_stands() {
    for (meanwhile, fate) in [
        ("SELECT 1", Fate::Removed),
        (
            "UPDATE memories SET content = 'edited' WHERE id = 1",
            Fate::Removed,
        ),
        ("DELETE FROM memories WHERE id = 1", Fate::Changed),
        (
            "UPDATE memories SET superseded = 3 WHERE id = 1",
            Fate::Changed,
        ),
        (
            "UPDATE memories SET owner = 'bea' WHERE id = 1",
            Fate::Changed,
        ),
        (
            "UPDATE memories SET owner = NULL WHERE id = 1",
            Fate::Changed,
        ),
    ] {
        let world = used("superseded INTEGER, owner TEXT DEFAULT 'ana'")
            .tenant("owner")
            .role(Role::SupersededBy, "superseded");
        let mut writer = world.writer();
        let change = Change {
            unit: root(&mut writer, 2),
            mark: Some(superseded(1)),
            survivor: None,
        };
        world.app().execute_batch(meanwhile).unwrap();
        assert_eq!(
            writer.change_units(&[change]).unwrap(),
            [fate],
            "{meanwhile}"
        );
    }
}

#[test]
fn a_mark_that_a_trigger_takes_back_was_not_set() {
    let world = used("superseded INTEGER").role(Role::SupersededBy, "superseded");
    world
        .app()
        .execute_batch(
            "CREATE TRIGGER back AFTER UPDATE OF superseded ON memories WHEN new.superseded IS NOT NULL
             BEGIN UPDATE memories SET superseded = NULL WHERE id = new.id; END",
        )
        .unwrap();
    let mut writer = world.writer();
    let change = merge(&world, &mut writer, 2, 1, Some(superseded(1)));
    let before = world.dump();
    assert_eq!(writer.change_units(&[change]).unwrap(), [Fate::Blocked]);
    assert_eq!(world.dump(), before);
}

/// What it takes to take a merge apart; `others` are the rows of memories that stay folded.
fn back(change: &Change, stays: &Unit, others: &[&Unit]) -> Return {
    Return {
        unit: change.unit.clone(),
        mark: change.mark.clone(),
        takeover: change.survivor.clone().map(|survivor| Takeover {
            survivor,
            stays: stays.root.clone(),
            others: others.iter().map(|unit| unit.root.clone()).collect(),
        }),
    }
}

#[test]
fn a_merge_is_taken_apart_once_however_it_was_done() {
    for is_marked in [true, false] {
        let world = used("superseded INTEGER").role(Role::SupersededBy, "superseded");
        let before = world.query(STATE);
        let mut writer = world.writer();
        let stays = root(&mut writer, 1);
        let mark = is_marked.then(|| superseded(1));
        let changes = [2, 3].map(|gone| merge(&world, &mut writer, gone, 1, mark.clone()));
        assert_eq!(writer.change_units(&changes).unwrap(), [Fate::Removed; 2]);
        assert_ne!(world.query(STATE), before);
        let returns = [&changes[1], &changes[0]].map(|change| back(change, &stays, &[]));
        for _ in 0..2 {
            let restored = writer.put_back(&returns).unwrap();
            assert!(
                restored.iter().all(|it| it.is_back && it.left.is_empty()),
                "{restored:?}"
            );
            assert_eq!(world.query(STATE), before, "{is_marked}");
        }
    }
}

#[test]
fn what_other_memories_brought_and_what_was_used_since_stays() {
    let world = used("superseded INTEGER").role(Role::SupersededBy, "superseded");
    world
        .app()
        .execute_batch("UPDATE memories SET created = 1700000450, uses = 1 WHERE id = 3")
        .unwrap();
    let mut writer = world.writer();
    let [stays, third] = [1, 3].map(|id| root(&mut writer, id));
    let changes = [2, 3].map(|gone| merge(&world, &mut writer, gone, 1, Some(superseded(1))));
    writer.change_units(&changes).unwrap();
    world
        .app()
        .execute_batch("UPDATE memories SET uses = uses + 10 WHERE id = 1")
        .unwrap();
    let restored = writer
        .put_back(&[back(&changes[0], &stays, &[&third])])
        .unwrap();
    assert_eq!(restored[0].left, []);
    // 2 of its own, 1 of the third, 10 since; created when the third was, used when it was itself.
    let survivor = "1 13 1700000450 2026-01-02 00:00:00 NULL";
    assert_eq!(world.query(STATE)[0], survivor);
    assert_eq!(
        world.query(STATE)[1],
        "2 3 1700000400 2026-03-04T05:06:07Z NULL"
    );
    world
        .app()
        .execute_batch("UPDATE memories SET used = '2026-05-05', uses = 0 WHERE id = 1")
        .unwrap();
    let restored = writer.put_back(&[back(&changes[1], &stays, &[])]).unwrap();
    let left = LeftRow {
        table: "memories".into(),
        memory: Some(n(1)),
        reason: LeftReason::Changed,
    };
    assert!(restored[0].is_back);
    assert_eq!(restored[0].left, [left], "the counter was set anew");
    assert_eq!(world.query(STATE)[0], "1 0 1700000500 2026-05-05 NULL");
}

#[test]
fn a_survivor_that_was_edited_keeps_what_it_got_and_is_named() {
    for (edit, reason) in [
        (
            "UPDATE memories SET content = 'other' WHERE id = 1",
            LeftReason::Changed,
        ),
        ("DELETE FROM memories WHERE id = 1", LeftReason::Gone),
    ] {
        let world = used("superseded INTEGER").role(Role::SupersededBy, "superseded");
        let mut writer = world.writer();
        let stays = root(&mut writer, 1);
        let change = merge(&world, &mut writer, 2, 1, Some(superseded(1)));
        writer.change_units(std::slice::from_ref(&change)).unwrap();
        world.app().execute_batch(edit).unwrap();
        let survivor = world.query("SELECT uses, created FROM memories WHERE id = 1");
        let restored = writer.put_back(&[back(&change, &stays, &[])]).unwrap();
        assert!(restored[0].is_back, "{edit}");
        assert_eq!(restored[0].left[0].reason, reason, "{edit}");
        assert_eq!(
            world.query("SELECT uses, created FROM memories WHERE id = 1"),
            survivor
        );
        let hidden = world.query("SELECT id FROM memories WHERE superseded IS NOT NULL");
        assert_eq!(hidden, [""; 0]);
    }
}

#[test]
fn a_mark_is_taken_back_from_a_row_that_bears_it_and_is_otherwise_as_it_was() {
    let at = instant("2026-06-01T00:00:00Z");
    for (edit, expected) in [
        ("SELECT 1", None),
        // The agent has taken it back itself.
        ("UPDATE memories SET gone = NULL", None),
        ("UPDATE memories SET touched = 7, uses = 9", None),
        (
            "UPDATE memories SET content = 'other'",
            Some(LeftReason::Changed),
        ),
        (
            "UPDATE memories SET gone = 4102444800",
            Some(LeftReason::Changed),
        ),
        ("UPDATE memories SET extra = 1", Some(LeftReason::Changed)),
        ("DELETE FROM memories", Some(LeftReason::Gone)),
        (
            "ALTER TABLE memories ADD COLUMN more",
            Some(LeftReason::SchemaChanged),
        ),
        (
            "CREATE TRIGGER keep BEFORE UPDATE OF gone ON memories BEGIN SELECT RAISE(ABORT, 'no'); END",
            Some(LeftReason::Refused),
        ),
    ] {
        let world = World::new(
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, gone INTEGER, touched INTEGER, uses INTEGER, extra);
             INSERT INTO memories VALUES (1, 'a', NULL, 5, 0, NULL)",
        )
        .role(Role::Content, "content")
        .role(Role::DeletedAt, "gone:epoch_s")
        .role(Role::UpdatedAt, "touched:epoch_s")
        .role(Role::Uses, "uses");
        let mut writer = world.writer();
        let item = Return {
            unit: root(&mut writer, 1),
            mark: Some(Mark::Deleted { at }),
            takeover: None,
        };
        let change = Change {
            unit: item.unit.clone(),
            mark: item.mark.clone(),
            survivor: None,
        };
        assert_eq!(writer.change_units(&[change]).unwrap(), [Fate::Removed]);
        world.app().execute_batch(edit).unwrap();
        let before = world.dump();
        let foreseen = world.read(|snapshot| snapshot.foresee(std::slice::from_ref(&item)));
        if expected != Some(LeftReason::Refused) {
            let is_there = edit == "UPDATE memories SET gone = NULL";
            let back = if is_there {
                Foreseen::There
            } else {
                Foreseen::Back
            };
            let expected = expected.map_or(back, Foreseen::Left);
            assert_eq!(foreseen, [expected], "{edit}");
        }
        let restored = writer
            .put_back(std::slice::from_ref(&item))
            .unwrap()
            .remove(0);
        assert_eq!(restored.is_back, expected.is_none(), "{edit}");
        let left: Vec<_> = restored.left.iter().map(|left| left.reason).collect();
        assert_eq!(left, expected.into_iter().collect::<Vec<_>>(), "{edit}");
        if expected.is_some() {
            assert_eq!(world.dump(), before, "{edit}");
        } else {
            assert_eq!(world.query("SELECT gone IS NULL FROM memories"), ["1"]);
        }
    }
}
