use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::*;
use crate::memory::{Memory, Moment, TimeToLive};

fn scan(world: &World, roles: &[Role]) -> Vec<Memory> {
    world.read(|snapshot| {
        let mut memories = Vec::new();
        snapshot.scan(roles, &mut |memory| {
            memories.push(memory);
            ControlFlow::Continue(())
        })?;
        Ok(memories)
    })
}

fn ids(memories: &[Memory]) -> Vec<String> {
    let id = |memory: &Memory| memory.id.as_ref().map_or("-".into(), ToString::to_string);
    memories.iter().map(id).collect()
}

#[test]
fn every_role_is_read_as_what_it_is() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, user_id, content, kind, created_at, expires_at, ttl, uses, salience,
           pinned, superseded_by TEXT, source, trust, meta);
         INSERT INTO memories VALUES
           (1, 'ana', 'likes tea', 'fact', 1795976847, '2026-12-24', 30, '4', '2.5', 'yes', '2', 'chat', 0.9, '{\"p\":7}'),
           (2, 7, x'c3a9', NULL, 'soon', NULL, NULL, -1, NULL, 0, '', NULL, 'high', 'not json'),
           (3, '', 5, '', 1795976847000, 0, -1, NULL, 'x', NULL, NULL, NULL, NULL, NULL);",
    )
    .tenant("user_id")
    .role(Role::Content, "content")
    .role(Role::Type, "kind")
    .role(Role::CreatedAt, "created_at:epoch_s")
    .role(Role::ExpiresAt, "expires_at:text")
    .role(Role::Ttl, "ttl")
    .role(Role::Uses, "uses")
    .role(Role::Salience, "salience")
    .role(Role::Pinned, "pinned")
    .role(Role::SupersededBy, "superseded_by")
    .role(Role::Source, "source")
    .role(Role::Trust, "trust")
    .role(Role::Point, "meta:json($.p)");
    let roles: Vec<Role> = world.rows.roles.iter().map(|(role, _)| *role).collect();
    let memories = scan(&world, &roles);
    let [one, two, three] = &memories[..] else {
        panic!("{memories:?}")
    };

    assert_eq!((&one.id, &one.namespace), (&Some(n(1)), &Some(user("ana"))));
    assert_eq!(one.content.as_deref(), Some("likes tea"));
    assert_eq!(one.kind.as_deref(), Some("fact"));
    assert_eq!(
        one.created_at,
        Moment::exact(instant("2026-11-29T18:27:27Z"))
    );
    assert_eq!(
        one.expires_at.latest(),
        Some(instant("2026-12-25T00:00:00Z"))
    );
    assert_eq!(
        one.ttl,
        TimeToLive::For(jiff::SignedDuration::from_hours(720))
    );
    assert_eq!(
        (one.uses, one.salience, one.pinned),
        (Some(4), Some(2.5), true)
    );
    assert_eq!(one.superseded_by, Some(n(2)));
    assert_eq!(
        (one.source.as_deref(), one.trust),
        (Some("chat"), Some(0.9))
    );
    assert_eq!(one.point.as_deref(), Some("7"));

    assert_eq!(two.namespace, Some(user("7")));
    assert_eq!(two.content.as_deref(), Some("é"));
    assert_eq!(two.created_at, Moment::Unreadable);
    assert_eq!(two.ttl, TimeToLive::Forever);
    assert_eq!((two.uses, two.pinned), (None, false));
    assert_eq!(two.superseded_by, None);
    assert_eq!((two.trust, two.point.as_deref()), (None, None));

    assert_eq!(three.namespace, None);
    assert_eq!(three.content.as_deref(), Some("5"));
    assert_eq!(three.created_at, Moment::Unreadable);
    assert_eq!(three.expires_at, Moment::Absent);
    assert_eq!(three.ttl, TimeToLive::Unreadable);
    assert_eq!(three.salience, None);
}

#[test]
fn only_what_was_asked_for_is_read() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, kind TEXT);
         INSERT INTO memories VALUES (1, 'secret', 'fact')",
    )
    .role(Role::Content, "content")
    .role(Role::Type, "kind");
    let memories = scan(&world, &[Role::Type]);
    assert_eq!(memories[0].kind.as_deref(), Some("fact"));
    assert_eq!(memories[0].content, None);
}

#[test]
fn a_scan_stops_when_it_is_told_to() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY); INSERT INTO memories VALUES (1), (2), (3)",
    );
    let mut seen = 0;
    world.read(|snapshot| {
        snapshot.scan(&[], &mut |_| {
            seen += 1;
            if seen == 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    });
    assert_eq!(seen, 2);
}

#[test]
fn json_is_read_from_text_from_blobs_and_from_jsonb() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, value TEXT);
         INSERT INTO memories VALUES (1, '{\"text\":\"a\"}'), (2, CAST('{\"text\":\"b\"}' AS BLOB)), (3, jsonb('{\"text\":\"c\"}')),
           (4, '{\"text\":'), (5, x'ff00'), (6, NULL), (7, '{\"other\":1}'), (8, ''), (9, x'');",
    )
    .role(Role::Content, "value:json($.text)");
    let texts: Vec<_> = scan(&world, &[Role::Content])
        .into_iter()
        .map(|memory| memory.content.unwrap_or("-".into()))
        .collect();
    assert_eq!(texts, ["a", "b", "c", "-", "-", "-", "-", "-", "-"]);
}

#[test]
fn ids_of_every_class_are_found_again() {
    for (sql, expected) in [
        (
            "CREATE TABLE memories(id INTEGER PRIMARY KEY); INSERT INTO memories VALUES (5), (-1)",
            vec![n(-1), n(5)],
        ),
        (
            "CREATE TABLE memories(id TEXT PRIMARY KEY) WITHOUT ROWID; INSERT INTO memories VALUES ('5'), ('ü')",
            vec![t("5"), t("ü")],
        ),
        (
            "CREATE TABLE memories(id BLOB PRIMARY KEY) STRICT; INSERT INTO memories VALUES (x'00112233445566778899aabbccddeeff')",
            vec![MemoryId::Bytes(
                (*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff").into(),
            )],
        ),
        (
            "CREATE TABLE memories(id PRIMARY KEY); INSERT INTO memories VALUES (5), ('5'), (x'35')",
            vec![n(5), t("5"), MemoryId::Bytes((*b"5").into())],
        ),
    ] {
        let world = World::new(sql);
        let mut found: Vec<MemoryId> = scan(&world, &[])
            .into_iter()
            .map(|memory| memory.id.unwrap())
            .collect();
        found.sort();
        let mut expected = expected;
        expected.sort();
        assert_eq!(found, expected, "{sql}");
        let again = world.read(|s| s.memories(&[], &expected));
        assert_eq!(again.len(), expected.len(), "{sql}");
        let versions = world.read(|s| s.versions(&expected));
        assert!(versions.iter().all(Option::is_some), "{sql}");
    }
}

#[test]
fn rows_without_a_key_that_can_be_spelt_are_seen_but_not_addressed() {
    let world = World::new(
        "CREATE TABLE memories(id UUID UNIQUE);
         INSERT INTO memories VALUES (NULL), ('12345678123441238123123456789012'), ('abc')",
    );
    assert_eq!(ids(&scan(&world, &[])), ["-", "-", "abc"]);
}

#[test]
fn a_key_that_ignores_case_is_still_matched_exactly() {
    let world = World::new(
        "CREATE TABLE memories(id TEXT COLLATE NOCASE, content); CREATE UNIQUE INDEX i ON memories(id COLLATE BINARY);
         INSERT INTO memories VALUES ('a', 'lower'), ('A', 'upper')",
    )
    .role(Role::Content, "content");
    let found = world.read(|s| s.memories(&[Role::Content], &[t("A"), t("a"), t("b")]));
    let contents: Vec<_> = found.iter().map(|m| m.content.as_deref()).collect();
    assert_eq!(contents, [Some("upper"), Some("lower")]);
    let unit = unit(&mut world.writer(), t("A"), &[]);
    assert_eq!(
        unit.root.get("content"),
        Some(&SqlValue::Text(b"upper".to_vec()))
    );
}

#[test]
fn versions_change_with_any_column_and_keep_their_order() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, unmapped, twice AS (id * 2));
         INSERT INTO memories VALUES (1, 'a'), (2, 'a')",
    );
    let before = world.read(|s| s.versions(&[n(2), n(9), n(1)]));
    assert!(before[0].is_some() && before[1].is_none() && before[2].is_some());
    assert_ne!(before[0], before[2]);
    world
        .app()
        .execute_batch("UPDATE memories SET unmapped = CAST('a' AS BLOB) WHERE id = 1")
        .unwrap();
    let after = world.read(|s| s.versions(&[n(2), n(9), n(1)]));
    assert_eq!(before[0], after[0]);
    assert_ne!(before[2], after[2]);
}

#[test]
fn the_census() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, user_id);
         INSERT INTO memories(user_id) VALUES ('ana'), ('ana'), (5), ('5'), (NULL), (''), (' '), (1.5), (x'00')",
    )
    .tenant("user_id");
    let census = world.read(Snapshot::census);
    assert_eq!(
        census,
        Census {
            by_namespace: BTreeMap::from([(user("5"), 2), (user("ana"), 2)]),
            without_namespace: 5,
        }
    );
    let common = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY); INSERT INTO memories VALUES (1), (2)",
    );
    let all = Namespace::parse("world:all").unwrap();
    assert_eq!(
        common.read(Snapshot::census).by_namespace,
        BTreeMap::from([(all, 2)])
    );
}

/// The chain of each id on its own, deepest first.
fn behind(world: &World, ids: &[MemoryId]) -> Vec<String> {
    let alone = |id: &MemoryId| together(world, std::slice::from_ref(id)).remove(0);
    let chain = |id| alone(id).split_once(' ').unwrap_or_default().1.to_owned();
    ids.iter().map(chain).collect()
}

/// Each memory that stands for others of `ids`, and those behind it, deepest first.
fn together(world: &World, ids: &[MemoryId]) -> Vec<String> {
    let removals = world.read(|s| s.removals(ids));
    let line = |(id, behind): (MemoryId, Vec<crate::plan::Expected>)| {
        let mut line = vec![id.to_string()];
        line.extend(behind.into_iter().map(|expected| expected.id.to_string()));
        line.join(" ")
    };
    removals.free.into_iter().map(line).collect()
}

/// The memories that must be left alone, in order.
fn blocked(world: &World, ids: &[MemoryId]) -> Vec<(MemoryId, Blocker)> {
    let mut blocked = world.read(|s| s.removals(ids)).blocked;
    blocked.sort_by(|a, b| a.0.cmp(&b.0));
    blocked
}

#[test]
fn chains_of_superseded_memories() {
    let world = World::new(
        "CREATE TABLE memories(id TEXT PRIMARY KEY, superseded_by TEXT REFERENCES memories(id) ON DELETE CASCADE);
         INSERT INTO memories VALUES ('e', NULL), ('d', 'e'), ('c', 'd'), ('b', 'c'), ('a', 'b'), ('a2', 'b'),
           ('x', 'y'), ('y', 'z'), ('z', 'x'), ('self', 'self'), ('lost', 'nobody'), ('free', ''), ('zero', '0')",
    )
    .role(Role::SupersededBy, "superseded_by");
    assert_eq!(
        behind(
            &world,
            &[t("e"), t("c"), t("x"), t("self"), t("nobody"), t("a")]
        ),
        ["a2 a b c d", "a2 a b", "y z", "", "", ""]
    );
    assert_eq!(world.read(Snapshot::broken_chains), 1);
    let removals = world.read(|s| s.removals(&[t("b")]));
    let versions = world.read(|s| s.versions(&[t("a2")]));
    assert_eq!(Some(removals.free[0].1[0].version), versions[0]);
}

#[test]
fn of_memories_that_hide_one_another_the_newest_stands_for_all() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, superseded_by INTEGER);
         INSERT INTO memories VALUES (1, 5), (5, 6), (6, 5), (2, 3), (3, 4), (4, NULL), (7, 7), (8, NULL)",
    )
    .role(Role::SupersededBy, "superseded_by");
    let all: Vec<MemoryId> = (1..=9).map(n).collect();
    assert_eq!(together(&world, &all), ["4 2 3", "5 6 1", "7", "8", "9"]);
    assert_eq!(
        together(&world, &[n(6), n(2), n(1)]),
        ["6 1 5", "2"],
        "what hides behind memories that are not asked for is found, too"
    );
}

/// Two memories that say they replaced the same one share it: it goes with one of them.
#[test]
fn what_two_memories_replaced_goes_once() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, supersedes INTEGER);
         INSERT INTO memories VALUES (1, NULL), (2, 1), (3, 2), (4, 2)",
    )
    .role(Role::Supersedes, "supersedes");
    let all: Vec<MemoryId> = (1..=4).map(n).collect();
    assert_eq!(together(&world, &all), ["3", "4 1 2"]);
}

/// Told of each memory on its own, what hides behind it takes gigabytes.
#[test]
fn a_long_chain_of_candidates_takes_memory_once() {
    let length = 8_000;
    let world = World::new(&format!(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, superseded_by INTEGER);
         INSERT INTO memories WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {length})
           SELECT i, CASE WHEN i < {length} THEN i + 1 END FROM n"
    ))
    .role(Role::SupersededBy, "superseded_by");
    let all: Vec<MemoryId> = (1..=length).map(n).collect();
    let removals = world.read(|s| s.removals(&all));
    let lengths: Vec<usize> = removals.free.iter().map(|(_, b)| b.len()).collect();
    assert_eq!(lengths, [7_999]);
}

#[test]
fn either_side_may_tell_of_a_replacement() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, superseded_by TEXT, supersedes);
         INSERT INTO memories VALUES (1, NULL, NULL), (2, NULL, 1), (3, NULL, '2'), (4, '3', NULL), (5, NULL, 77), (6, '3', 4)",
    )
    .role(Role::SupersededBy, "superseded_by")
    .role(Role::Supersedes, "supersedes");
    assert_eq!(behind(&world, &[n(3), n(5)]), ["1 6 4 2", ""]);
}

#[test]
fn a_replacement_inside_json() {
    let world = World::new(
        "CREATE TABLE memories(id TEXT PRIMARY KEY, meta TEXT);
         INSERT INTO memories VALUES ('new', NULL), ('old', '{\"superseded_by\":\"new\"}'), ('odd', '{'), ('lost', '{\"superseded_by\":\"no\"}')",
    )
    .role(Role::SupersededBy, "meta:json($.superseded_by)");
    assert_eq!(behind(&world, &[t("new")]), ["old"]);
    assert_eq!(world.read(Snapshot::broken_chains), 1);
}

#[test]
fn nothing_of_another_namespace_is_behind_a_memory() {
    let world = World::new(
        "CREATE TABLE memories(id TEXT PRIMARY KEY, user_id TEXT, superseded_by TEXT);
         INSERT INTO memories VALUES ('a', 'ana', NULL), ('b', 'bob', 'a'), ('c', 'ana', 'b'), ('d', 'ana', 'a')",
    )
    .tenant("user_id")
    .role(Role::SupersededBy, "superseded_by");
    assert_eq!(behind(&world, &[t("a")]), ["d"]);
    let mut writer = world.writer();
    let unit = unit(&mut writer, t("a"), &[t("d")]);
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Removed]);
    assert_eq!(world.dump(), ["memories b bob a", "memories c ana b"]);
}

#[test]
fn a_foreign_key_of_another_namespace_keeps_a_memory_whatever_it_does() {
    for (column, action) in ["superseded_by", "parent"].into_iter().flat_map(|column| {
        ["", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT"].map(|action| (column, action))
    }) {
        let on_delete = match action {
            "" => String::new(),
            action => format!("ON DELETE {action}"),
        };
        let other = if column == "parent" {
            "superseded_by"
        } else {
            "parent"
        };
        let world = World::new(&format!(
            "CREATE TABLE memories(id TEXT PRIMARY KEY, user_id TEXT, {column} TEXT REFERENCES memories(id) {on_delete}, {other} TEXT);
             INSERT INTO memories VALUES ('a', 'ana', NULL, NULL), ('b', 'bob', NULL, NULL), ('c', 'ana', NULL, NULL)"
        ))
        .tenant("user_id")
        .role(Role::SupersededBy, "superseded_by");
        let mut writer = world.writer();
        let units = [
            unit(&mut writer, t("a"), &[]),
            unit(&mut writer, t("c"), &[]),
        ];
        let refer = format!("UPDATE memories SET {column} = 'a' WHERE id = 'b'");
        world.app().execute_batch(&refer).unwrap();
        let (ids, before) = ([t("a"), t("c")], world.dump());
        let left = blocked(&world, &ids);
        assert_eq!(left.len(), 1, "{column} {action}");
        assert_eq!(left[0].0, t("a"), "{column} {action}");
        assert_eq!(together(&world, &ids), ["c"], "{column} {action}");
        // Another writer: one that has looked at the references of a column without an index is not told of updates.
        let mut writer = world.writer();
        assert_eq!(
            writer.units(&[wanted(t("a"), &[])], usize::MAX).unwrap(),
            [None]
        );
        let fates = writer.delete_units(&units).unwrap();
        let kept = if (column, action) == ("parent", "CASCADE") {
            Fate::Changed
        } else {
            Fate::Blocked
        };
        assert_eq!(fates, [kept, Fate::Removed], "{column} {action}");
        assert_eq!(world.dump(), before[..2], "{column} {action}");
    }
}

/// The schema's own rule holds where it stays inside one namespace.
#[test]
fn a_memory_of_the_same_namespace_loses_its_reference() {
    let world = World::new(
        "CREATE TABLE memories(id TEXT PRIMARY KEY, user_id TEXT, parent TEXT REFERENCES memories(id) ON DELETE SET NULL);
         INSERT INTO memories VALUES ('a', 'ana', NULL), ('b', 'ana', 'a')",
    )
    .tenant("user_id");
    assert_eq!(together(&world, &[t("a")]), ["a"]);
    let mut writer = world.writer();
    let unit = unit(&mut writer, t("a"), &[]);
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Removed]);
    assert_eq!(world.dump(), ["memories b ana NULL"]);
}

#[test]
fn what_the_schema_forbids_to_delete() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, superseded_by INTEGER REFERENCES memories(id) ON DELETE CASCADE,
           parent INTEGER REFERENCES memories(id) ON DELETE CASCADE, sibling INTEGER REFERENCES memories(id) ON DELETE SET NULL);
         CREATE TABLE locks(memory INTEGER REFERENCES memories(id) ON DELETE RESTRICT);
         CREATE TABLE sessions(id INTEGER PRIMARY KEY, memory INTEGER REFERENCES memories ON DELETE CASCADE);
         CREATE TABLE bills(session INTEGER REFERENCES sessions(id));
         INSERT INTO memories VALUES (1, NULL, NULL, NULL), (2, NULL, 1, NULL), (3, NULL, NULL, 1), (4, NULL, NULL, NULL),
           (5, NULL, NULL, NULL), (6, NULL, NULL, NULL), (7, 6, NULL, NULL), (8, NULL, NULL, 3), (9, NULL, 9, NULL);
         INSERT INTO locks VALUES (4), (7), (NULL);
         INSERT INTO sessions VALUES (1, 5), (2, 3);
         INSERT INTO bills VALUES (1);",
    )
    .role(Role::SupersededBy, "superseded_by");
    let ids: Vec<MemoryId> = (1..=10).map(n).collect();
    let referenced = |table: &str| Blocker::Referenced {
        table: table.into(),
    };
    assert_eq!(
        blocked(&world, &ids),
        [
            (n(1), Blocker::TakesAlong),
            (n(4), referenced("locks")),
            (n(5), referenced("bills")),
            (n(6), referenced("locks")),
            (n(7), referenced("locks")),
        ]
    );
    let mut writer = world.writer();
    let targets: Vec<Wanted> = ids.into_iter().map(|id| wanted(id, &[])).collect();
    let possible: Vec<bool> = writer
        .units(&targets, usize::MAX)
        .unwrap()
        .iter()
        .map(Option::is_some)
        .collect();
    // 6 would leave 7 behind, 10 does not exist.
    let expected = [
        false, true, true, false, false, false, false, true, true, false,
    ];
    assert_eq!(possible, expected);
}

#[test]
fn a_schema_that_forbids_nothing_blocks_nothing() {
    let world = World::new(
        "CREATE TABLE memories(id TEXT PRIMARY KEY, superseded_by TEXT REFERENCES memories(id));
         CREATE TABLE tags(memory TEXT REFERENCES memories(id) ON DELETE CASCADE);
         INSERT INTO memories VALUES ('new', NULL), ('old', 'new'); INSERT INTO tags VALUES ('old')",
    )
    .role(Role::SupersededBy, "superseded_by");
    assert_eq!(blocked(&world, &[t("new"), t("old")]), []);
}

#[test]
fn what_a_snapshot_shows_is_one_state() {
    let world = World::new(
        "PRAGMA journal_mode = WAL; CREATE TABLE memories(id INTEGER PRIMARY KEY); INSERT INTO memories VALUES (1)",
    );
    let reader = world.reader();
    let app = world.app();
    let before = reader.data_version().unwrap();
    reader
        .snapshot(|s| {
            app.execute_batch("INSERT INTO memories VALUES (2)")
                .unwrap();
            assert_eq!(s.versions(&[n(2)])?, [None]);
            Ok::<_, RowError>(())
        })
        .unwrap();
    let versions = reader.snapshot(|s| s.versions(&[n(2)])).unwrap();
    assert!(versions[0].is_some());
    assert_ne!(reader.data_version().unwrap(), before);
}

#[test]
fn a_failed_snapshot_leaves_no_transaction_behind() {
    let world = World::new("CREATE TABLE memories(id INTEGER PRIMARY KEY)");
    let reader = world.reader();
    let failed: Result<(), RowError> = reader.snapshot(|_| Err(RowError::schema("no")));
    failed.unwrap_err();
    reader.snapshot(Snapshot::census).unwrap();
    world
        .app()
        .execute_batch("INSERT INTO memories VALUES (1)")
        .unwrap();
}

#[test]
fn what_a_database_says_of_itself() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, superseded_by INTEGER REFERENCES memories(id));
         INSERT INTO memories VALUES (1, 9), (2, 1)",
    )
    .role(Role::SupersededBy, "superseded_by");
    let reader = world.reader();
    assert_eq!(reader.journal_mode().unwrap(), "delete");
    assert_eq!(reader.foreign_key_check(None).unwrap(), Some(1));
    for (points, expected) in [("other", 1), ("Memories", 0)] {
        let found = reader.foreign_key_check(Some(points)).unwrap();
        assert_eq!(found, Some(expected), "{points}");
    }
    assert_eq!(reader.integrity().unwrap(), None);
    assert_eq!(reader.snapshot(Snapshot::broken_chains).unwrap(), 1);
}

#[test]
fn damage_is_found() {
    use std::io::{Seek, Write};
    let world = World::new(
        "PRAGMA page_size = 1024; CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT);
         INSERT INTO memories(content) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500)
         SELECT hex(zeroblob(40)) FROM n",
    )
    .role(Role::Content, "content");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(world.path())
        .unwrap();
    file.seek(std::io::SeekFrom::Start(10 * 1024)).unwrap();
    file.write_all(&[0xab; 4096]).unwrap();
    drop(file);
    let reader = world.reader();
    assert!(reader.integrity().unwrap().is_some());
    let error = reader
        .snapshot(|s| s.scan(&[Role::Content], &mut |_| ControlFlow::Continue(())))
        .unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Corrupt);
}
