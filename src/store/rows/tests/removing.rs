use super::*;
use crate::store::image::RowImage;

/// Memories with tags, tags with notes, and links that lose their reference.
fn family() -> World {
    World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT, superseded_by INTEGER REFERENCES memories(id));
         CREATE TABLE tags(id INTEGER PRIMARY KEY, memory INTEGER REFERENCES Memories ON DELETE CASCADE, tag TEXT);
         CREATE TABLE notes(tag INTEGER REFERENCES tags(id) ON DELETE CASCADE, n INTEGER, PRIMARY KEY(tag, n)) WITHOUT ROWID;
         CREATE TABLE links(id INTEGER PRIMARY KEY, memory INTEGER DEFAULT 99 REFERENCES memories(id) ON DELETE SET NULL);
         CREATE TABLE marks(id INTEGER PRIMARY KEY, memory INTEGER DEFAULT 99 REFERENCES memories(id) ON DELETE SET DEFAULT);
         CREATE TABLE others(memory INTEGER);
         INSERT INTO memories VALUES (1, 'new', NULL), (2, 'old', 1), (3, 'other', NULL);
         INSERT INTO tags VALUES (10, 1, 'a'), (11, 2, 'b'), (12, 3, 'c');
         INSERT INTO notes VALUES (10, 1), (10, 2), (12, 1);
         INSERT INTO links VALUES (20, 2), (21, 3); INSERT INTO marks VALUES (30, 1), (31, 3);
         INSERT INTO others VALUES (1);",
    )
    .role(Role::SupersededBy, "superseded_by")
}

fn places(rows: &[RowImage]) -> Vec<String> {
    let place = |row: &RowImage| {
        let key = match &row.columns[0].1 {
            SqlValue::Integer(id) => id.to_string(),
            other => format!("{other:?}"),
        };
        format!("{} {key}", row.table)
    };
    rows.iter().map(place).collect()
}

const AFTER: [&str; 9] = [
    "links 20 NULL",
    "links 21 3",
    "marks 30 99",
    "marks 31 3",
    "memories 3 other NULL",
    "notes 12 1",
    "others 1",
    "tags 12 3 c",
    "",
];

#[test]
fn a_removal_takes_what_the_schema_would_and_nothing_else() {
    let world = family();
    let mut writer = world.writer();
    writer.can_write().unwrap();
    let unit = unit(&mut writer, n(1), &[n(2)]);
    assert_eq!(places(&unit.behind), ["memories 2"]);
    assert_eq!(
        places(&unit.children),
        ["notes 10", "notes 10", "tags 10", "tags 11"]
    );
    assert_eq!(places(&unit.detached), ["links 20", "marks 30"]);
    assert_eq!(
        writer.delete_units(std::slice::from_ref(&unit)).unwrap(),
        [Fate::Removed]
    );
    assert_eq!(world.dump(), AFTER[..8]);
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Absent]);
    assert_eq!(world.dump(), AFTER[..8]);
}

#[test]
fn whatever_changed_meanwhile_is_left() {
    for change in [
        "UPDATE memories SET content = 'NEW' WHERE id = 1",
        "UPDATE memories SET content = CAST(content AS BLOB) WHERE id = 1",
        "UPDATE memories SET content = 'OLD' WHERE id = 2",
        "DELETE FROM memories WHERE id = 2",
        "INSERT INTO memories VALUES (4, 'older', 1)",
        "INSERT INTO memories VALUES (4, 'older', 2)",
        "UPDATE memories SET superseded_by = NULL WHERE id = 2",
        "INSERT INTO tags VALUES (13, 1, 'late')",
        "INSERT INTO tags VALUES (13, 2, 'late')",
        "INSERT INTO notes VALUES (11, 5)",
        "UPDATE tags SET tag = 'A' WHERE id = 10",
        "DELETE FROM notes WHERE n = 2",
        "DELETE FROM tags WHERE id = 11",
        "INSERT INTO links VALUES (22, 1)",
        "DELETE FROM marks WHERE id = 30",
    ] {
        let world = family();
        let mut writer = world.writer();
        let units = [
            unit(&mut writer, n(1), &[n(2)]),
            unit(&mut writer, n(3), &[]),
        ];
        world.app().execute_batch(change).unwrap();
        let before = world.dump();
        let fates = writer.delete_units(&units).unwrap();
        assert_eq!(fates, [Fate::Changed, Fate::Removed], "{change}");
        let kept: Vec<String> = before
            .into_iter()
            .filter(|row| world.dump().contains(row))
            .collect();
        assert!(kept.contains(&"others 1".to_owned()));
        assert_eq!(
            world.query("SELECT count(*) FROM memories WHERE id = 1"),
            ["1"],
            "{change}"
        );
        assert_eq!(
            world.query("SELECT count(*) FROM tags WHERE id = 10"),
            ["1"],
            "{change}"
        );
    }
}

#[test]
fn a_unit_is_not_prepared_when_something_else_hides_behind_it() {
    let world = family();
    let mut writer = world.writer();
    let targets = [
        wanted(n(1), &[]),
        wanted(n(1), &[n(2)]),
        wanted(n(1), &[n(2), n(9)]),
        wanted(n(9), &[]),
    ];
    let units = writer.units(&targets, usize::MAX).unwrap();
    let possible: Vec<bool> = units.iter().map(Option::is_some).collect();
    assert_eq!(possible, [false, true, false, false]);
}

#[test]
fn units_of_one_batch_may_share_rows() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, parent INTEGER REFERENCES memories(id) ON DELETE SET NULL);
         CREATE TABLE edges(a INTEGER REFERENCES memories(id) ON DELETE CASCADE, b INTEGER REFERENCES memories(id) ON DELETE CASCADE);
         INSERT INTO memories VALUES (1, NULL), (2, 1), (3, 1); INSERT INTO edges VALUES (1, 2), (2, 1), (3, 3);",
    );
    let mut writer = world.writer();
    let units = [unit(&mut writer, n(1), &[]), unit(&mut writer, n(2), &[])];
    assert_eq!(places(&units[0].detached), ["memories 2", "memories 3"]);
    assert_eq!(units[0].children.len(), 2);
    let fates = writer.delete_units(&units).unwrap();
    assert_eq!(fates, [Fate::Removed, Fate::Removed]);
    assert_eq!(world.dump(), ["edges 3 3", "memories 3 NULL"]);
    let restored = writer.put_back(&units.map(Return::from)).unwrap();
    assert!(restored.iter().all(|r| r.left.is_empty()), "{restored:?}");
    assert_eq!(
        world.dump(),
        [
            "edges 1 2",
            "edges 2 1",
            "edges 3 3",
            "memories 1 NULL",
            "memories 2 1",
            "memories 3 1"
        ]
    );
}

#[test]
fn composite_and_odd_foreign_keys_are_followed() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, tenant TEXT, slug TEXT, UNIQUE(tenant, slug));
         CREATE TABLE vectors(tenant TEXT, slug TEXT, field TEXT, PRIMARY KEY(tenant, slug, field),
           FOREIGN KEY(tenant, slug) REFERENCES memories(tenant, slug) ON DELETE CASCADE) WITHOUT ROWID;
         CREATE TABLE loose(slug TEXT, tenant TEXT, FOREIGN KEY(slug, tenant) REFERENCES memories(slug, tenant) ON DELETE CASCADE);
         CREATE TABLE \"qu\"\"oted\"(\"me mory\" TEXT REFERENCES \"MEMORIES\" ON DELETE CASCADE);
         CREATE TABLE broken(x REFERENCES memories(nowhere) ON DELETE CASCADE, y REFERENCES missing(id));
         INSERT INTO memories VALUES (1, 'a', 's'), (2, 'b', 's'), (3, NULL, 's');
         INSERT INTO vectors VALUES ('a', 's', 'x'), ('a', 's', 'y'), ('b', 's', 'x');
         INSERT INTO loose VALUES ('s', 'a'), ('s', NULL), ('s', 'b');
         INSERT INTO \"qu\"\"oted\" VALUES ('1'), (' 1'), ('2'); INSERT INTO broken VALUES (1, 1);",
    );
    let mut writer = world.writer();
    let unit_1 = unit(&mut writer, n(1), &[]);
    let mut tables: Vec<&str> = unit_1.children.iter().map(|r| &*r.table).collect();
    tables.sort_unstable();
    assert_eq!(&tables[..3], ["loose", "qu\"oted", "qu\"oted"]);
    assert_eq!(&tables[3..], ["vectors", "vectors"]);
    assert_eq!(unit(&mut writer, n(3), &[]).children, []);
    assert_eq!(writer.delete_units(&[unit_1]).unwrap(), [Fate::Removed]);
    assert_eq!(
        world.dump(),
        [
            "broken 1 1",
            "loose s NULL",
            "loose s b",
            "memories 2 b s",
            "memories 3 NULL s",
            "qu\"oted 2",
            "vectors b s x"
        ]
    );
}

#[test]
fn a_reference_that_cannot_be_emptied_forbids() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY);
         CREATE TABLE uses(memory INTEGER NOT NULL REFERENCES memories(id) ON DELETE SET NULL);
         INSERT INTO memories VALUES (1), (2); INSERT INTO uses VALUES (1);",
    );
    let units = world
        .writer()
        .units(&[wanted(n(1), &[]), wanted(n(2), &[])], usize::MAX)
        .unwrap();
    assert!(units[0].is_none() && units[1].is_some());
}

#[test]
fn a_restricting_row_that_comes_late_blocks() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY); CREATE TABLE locks(memory REFERENCES memories(id) ON DELETE RESTRICT);
         INSERT INTO memories VALUES (1), (2);",
    );
    let mut writer = world.writer();
    let units = [unit(&mut writer, n(1), &[]), unit(&mut writer, n(2), &[])];
    world
        .app()
        .execute_batch("INSERT INTO locks VALUES (1)")
        .unwrap();
    let fates = writer.delete_units(&units).unwrap();
    assert_eq!(fates, [Fate::Blocked, Fate::Removed]);
    assert_eq!(world.dump(), ["locks 1", "memories 1"]);
}

#[test]
fn a_trigger_that_refuses_blocks_only_its_unit() {
    for refusal in ["RAISE(ABORT, 'no')", "RAISE(FAIL, 'no')", "RAISE(IGNORE)"] {
        let world = World::new(&format!(
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, superseded_by REFERENCES memories(id));
             CREATE TABLE tags(memory REFERENCES memories(id) ON DELETE CASCADE);
             CREATE TRIGGER keep BEFORE DELETE ON memories WHEN old.id = 1 BEGIN SELECT {refusal}; END;
             INSERT INTO memories VALUES (1, NULL), (2, 1), (3, NULL); INSERT INTO tags VALUES (1), (2), (3);"
        ))
        .role(Role::SupersededBy, "superseded_by");
        let mut writer = world.writer();
        let units = [
            unit(&mut writer, n(1), &[n(2)]),
            unit(&mut writer, n(3), &[]),
        ];
        let fates = writer.delete_units(&units).unwrap();
        assert_eq!(fates, [Fate::Blocked, Fate::Removed], "{refusal}");
        let why = match refusal {
            "RAISE(IGNORE)" => "it had no effect: a trigger ignores it, or takes it back",
            _ => "a trigger says: no",
        };
        assert_eq!(writer.take_refusals(), [why], "{refusal}");
        assert_eq!(
            world.dump(),
            ["memories 1 NULL", "memories 2 1", "tags 1", "tags 2"],
            "{refusal}"
        );
    }
}

#[test]
fn a_trigger_that_rolls_everything_back_blocks_only_its_unit() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT);
         CREATE TRIGGER keep BEFORE DELETE ON memories WHEN old.id IN (2, 4)
           BEGIN SELECT RAISE(ROLLBACK, 'kept: ' || old.content); END;
         INSERT INTO memories VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e');",
    );
    let mut writer = world.writer();
    let units: Vec<Unit> = (1..=5).map(|id| unit(&mut writer, n(id), &[])).collect();
    world
        .app()
        .execute_batch("UPDATE memories SET content = 'C' WHERE id = 3")
        .unwrap();
    let fates = writer.delete_units(&units).unwrap();
    assert_eq!(
        fates,
        [
            Fate::Removed,
            Fate::Blocked,
            Fate::Changed,
            Fate::Blocked,
            Fate::Removed
        ]
    );
    let [why] = &writer.take_refusals()[..] else {
        panic!("one reason");
    };
    assert!(why.contains("not repeated"), "{why}");
    assert_eq!(
        world.dump(),
        ["memories 2 b", "memories 3 C", "memories 4 d"]
    );
}

#[test]
fn a_trigger_that_fails_on_one_row_blocks_only_its_unit() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, meta TEXT);
         CREATE TABLE log(a);
         CREATE TRIGGER note AFTER DELETE ON memories
           BEGIN INSERT INTO log VALUES (json_extract(old.meta, '$.a')); END;
         INSERT INTO memories VALUES (1, '{}'), (2, '{broken'), (3, '{\"a\":3}');",
    );
    let mut writer = world.writer();
    let units: Vec<Unit> = (1..=3).map(|id| unit(&mut writer, n(id), &[])).collect();
    let fates = writer.delete_units(&units).unwrap();
    assert_eq!(fates, [Fate::Removed, Fate::Blocked, Fate::Removed]);
    assert_eq!(world.dump(), ["log NULL", "log 3", "memories 2 {broken"]);
}

#[test]
fn a_damaged_text_index_blocks_what_it_is_about() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT);
         CREATE VIRTUAL TABLE fts USING fts5(content, content = 'memories', content_rowid = 'id');
         CREATE TRIGGER i AFTER INSERT ON memories
           BEGIN INSERT INTO fts(rowid, content) VALUES (new.id, new.content); END;
         CREATE TRIGGER d AFTER DELETE ON memories WHEN old.id <> 3
           BEGIN INSERT INTO fts(fts, rowid, content) VALUES ('delete', old.id, old.content); END;
         INSERT INTO memories VALUES (1, 'a b'), (2, 'c d'), (3, 'e f');
         UPDATE fts_data SET block = x'0102' WHERE id >= 10;",
    );
    let mut writer = world.writer();
    let units: Vec<Unit> = (1..=3).map(|id| unit(&mut writer, n(id), &[])).collect();
    let fates = writer.delete_units(&units).unwrap();
    assert_eq!(fates, [Fate::Blocked, Fate::Blocked, Fate::Removed]);
    assert_eq!(world.query("SELECT * FROM memories"), ["1 a b", "2 c d"]);
}

#[test]
fn a_trigger_that_removes_the_children_itself_is_no_obstacle() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY);
         CREATE TABLE tags(memory REFERENCES memories(id) ON DELETE CASCADE);
         CREATE TRIGGER own AFTER DELETE ON tags BEGIN DELETE FROM tags; END;
         INSERT INTO memories VALUES (1); INSERT INTO tags VALUES (1), (1);",
    );
    let mut writer = world.writer();
    let unit = unit(&mut writer, n(1), &[]);
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Removed]);
    assert_eq!(world.dump(), Vec::<String>::new());
}

#[test]
fn a_locked_or_read_only_database_is_found_before_anything_is_done() {
    let world = family();
    let mut writer = world.writer();
    writer.conn.busy_timeout(Duration::from_millis(20)).unwrap();
    let unit = unit(&mut writer, n(3), &[]);
    let app = world.app();
    app.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(writer.can_write().unwrap_err().kind(), RowErrorKind::Busy);
    let error = writer
        .delete_units(std::slice::from_ref(&unit))
        .unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Busy);
    app.execute_batch("ROLLBACK").unwrap();
    let before = std::fs::read(world.path()).unwrap();
    writer.can_write().unwrap();
    assert_eq!(std::fs::read(world.path()).unwrap(), before);
    assert_eq!(std::fs::read_dir(world.dir.path()).unwrap().count(), 1);
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Removed]);
}

#[test]
fn a_new_row_with_a_used_rowid_is_seen() {
    // The highest row goes, its rowid is given out again, and no index tells of it.
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY); CREATE TABLE tags(memory REFERENCES memories(id) ON DELETE CASCADE);
         INSERT INTO memories VALUES (1), (2), (3); INSERT INTO tags VALUES (1), (2), (3);",
    );
    let mut writer = world.writer();
    let two = unit(&mut writer, n(2), &[]);
    let three = unit(&mut writer, n(3), &[]);
    assert_eq!(writer.delete_units(&[three]).unwrap(), [Fate::Removed]);
    world
        .app()
        .execute_batch("INSERT INTO tags VALUES (2)")
        .unwrap();
    assert_eq!(writer.delete_units(&[two]).unwrap(), [Fate::Changed]);
}

#[test]
fn a_memory_that_is_hidden_at_the_last_moment_stays_hidden() {
    // Without an index on superseded_by, an update after the scan is not seen.
    let world = family();
    let mut writer = world.writer();
    let unit = unit(&mut writer, n(1), &[n(2)]);
    world
        .app()
        .execute_batch("UPDATE memories SET superseded_by = 1 WHERE id = 3")
        .unwrap();
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Removed]);
    assert_eq!(world.query("SELECT * FROM memories"), ["3 other 1"]);
    assert_eq!(world.read(Snapshot::broken_chains), 1);
}
