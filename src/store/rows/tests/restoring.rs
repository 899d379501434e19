use super::*;

const FAMILY: &str = "CREATE TABLE memories(id TEXT PRIMARY KEY, content, hash TEXT UNIQUE, upper AS (upper(content)), superseded_by TEXT);
     CREATE TABLE tags(memory TEXT REFERENCES memories(id) ON DELETE CASCADE, tag TEXT);
     CREATE TABLE links(id INTEGER PRIMARY KEY, memory TEXT REFERENCES memories(id) ON DELETE SET NULL, note TEXT);
     INSERT INTO memories VALUES ('z', 1.5, 'h0', NULL), ('new', x'00ff', 'h1', NULL), ('old', 'text', 'h2', 'new');
     INSERT INTO tags VALUES ('z', 'z'), ('new', 'a'), ('old', 'b'), ('old', 'c'); INSERT INTO links VALUES (7, 'new', 'n');";

/// A world in which `new`, with `old` behind it, was removed; what was there before, and the unit.
fn removed() -> (World, Vec<String>, Writer, Unit) {
    let world = World::new(FAMILY).role(Role::SupersededBy, "superseded_by");
    let before = rows(&world);
    let mut writer = world.writer();
    let unit = unit(&mut writer, t("new"), &[t("old")]);
    let fates = writer.delete_units(std::slice::from_ref(&unit)).unwrap();
    assert_eq!(fates, [Fate::Removed]);
    assert_ne!(rows(&world), before);
    (world, before, writer, unit)
}

/// Every row with its rowid and storage classes.
fn rows(world: &World) -> Vec<String> {
    let memories = "SELECT 'memory', rowid, id, quote(content), hash, superseded_by FROM memories ORDER BY rowid";
    let tags = "SELECT 'tag', rowid, memory, tag FROM tags ORDER BY rowid";
    let links = "SELECT 'link', * FROM links ORDER BY id";
    [memories, tags, links]
        .iter()
        .flat_map(|sql| world.query(sql))
        .collect()
}

fn left(restored: &Restored) -> Vec<(&str, LeftReason)> {
    let left = restored.left.iter();
    left.map(|row| (row.table.as_str(), row.reason)).collect()
}

#[test]
fn what_was_removed_comes_back_as_it_was() {
    let (world, before, mut writer, unit) = removed();
    for written in [6, 0] {
        let restored = writer.put_back(&[unit.clone().into()]).unwrap();
        assert_eq!(
            restored,
            [Restored {
                is_back: true,
                rows: 6,
                written,
                left: Vec::new()
            }]
        );
        assert_eq!(rows(&world), before);
    }
    let again = writer
        .units(&[wanted(t("new"), &[t("old")])], usize::MAX)
        .unwrap();
    assert_eq!(again, [Some(unit)]);
}

#[test]
fn a_row_that_exists_by_now_is_left_with_everything_that_hung_on_its_predecessor() {
    let (world, _, mut writer, unit) = removed();
    world
        .app()
        .execute_batch("INSERT INTO memories(rowid, id, content) VALUES (2, 'new', 'another')")
        .unwrap();
    let now = rows(&world);
    let restored = writer.put_back(&[unit.into()]).unwrap();
    assert_eq!(
        restored[0].left,
        [LeftRow {
            table: "memories".into(),
            memory: Some(t("new")),
            reason: LeftReason::Exists
        }]
    );
    assert_eq!(restored[0].rows, 0);
    assert_eq!(rows(&world), now);
}

#[test]
fn a_key_taken_by_another_row_is_refused() {
    // The same fact was learnt again, under another id.
    let (world, _, mut writer, unit) = removed();
    world
        .app()
        .execute_batch("INSERT INTO memories(id, hash) VALUES ('again', 'h2')")
        .unwrap();
    // `again` has the rowid of the removed `new` or `old`: take one that is free.
    world
        .app()
        .execute_batch("UPDATE memories SET rowid = 50 WHERE id = 'again'")
        .unwrap();
    let restored = writer.put_back(&[unit.into()]).unwrap();
    assert_eq!(
        left(&restored[0]),
        [
            ("memories", LeftReason::Refused),
            ("tags", LeftReason::ParentGone),
            ("tags", LeftReason::ParentGone)
        ]
    );
    assert_eq!(restored[0].left[0].memory, Some(t("old")));
    assert_eq!(restored[0].rows, 3);
    assert_eq!(
        world.query("SELECT memory, tag FROM tags ORDER BY tag"),
        ["new a", "z z"]
    );
}

#[test]
fn a_detached_row_gets_its_reference_back_only_if_nothing_else_changed() {
    for (change, reason, expected) in [
        ("SELECT 1", None, "7 new n"),
        (
            "UPDATE links SET note = 'N'",
            Some(LeftReason::Exists),
            "7 NULL N",
        ),
        (
            "UPDATE links SET memory = 'z'",
            Some(LeftReason::Exists),
            "7 z n",
        ),
        ("DELETE FROM links", Some(LeftReason::ParentGone), ""),
    ] {
        let (world, _, mut writer, unit) = removed();
        world.app().execute_batch(change).unwrap();
        let restored = writer.put_back(&[unit.into()]).unwrap();
        let reasons: Vec<_> = reason.iter().map(|reason| ("links", *reason)).collect();
        assert_eq!(left(&restored[0]), reasons, "{change}");
        assert_eq!(world.query("SELECT * FROM links").join(""), expected);
    }
}

#[test]
fn a_row_between_two_memories_needs_both() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY);
         CREATE TABLE edges(a REFERENCES memories(id) ON DELETE CASCADE, b REFERENCES memories(id) ON DELETE CASCADE);
         INSERT INTO memories VALUES (1), (2); INSERT INTO edges VALUES (1, 2), (1, NULL);",
    );
    let mut writer = world.writer();
    let units = [unit(&mut writer, n(1), &[]), unit(&mut writer, n(2), &[])];
    writer.delete_units(&units).unwrap();
    let restored = writer.put_back(&[units[0].clone().into()]).unwrap();
    assert_eq!(left(&restored[0]), [("edges", LeftReason::ParentGone)]);
    assert_eq!(world.dump(), ["edges 1 NULL", "memories 1"]);
    let restored = writer.put_back(&[units[1].clone().into()]).unwrap();
    assert_eq!(left(&restored[0]), []);
    assert_eq!(
        world.dump(),
        ["edges 1 2", "edges 1 NULL", "memories 1", "memories 2"]
    );
}

#[test]
fn a_row_of_another_schema_is_left() {
    let (world, _, mut writer, unit) = removed();
    world
        .app()
        .execute_batch("ALTER TABLE tags ADD COLUMN weight REAL")
        .unwrap();
    let restored = writer.put_back(&[unit.clone().into()]).unwrap();
    assert_eq!(left(&restored[0]), [("tags", LeftReason::SchemaChanged); 3]);
    world
        .app()
        .execute_batch("DROP TABLE tags; DELETE FROM memories WHERE id <> 'z'; ALTER TABLE memories DROP COLUMN hash")
        .unwrap_err();
    assert_eq!(restored[0].rows, 3);
}

#[test]
fn an_insert_that_a_trigger_changes_is_taken_back() {
    let (world, _, mut writer, unit) = removed();
    world
        .app()
        .execute_batch(
            "CREATE TRIGGER stamp AFTER INSERT ON memories WHEN new.id = 'old'
             BEGIN UPDATE memories SET content = 'stamped' WHERE id = new.id; END;",
        )
        .unwrap();
    let restored = writer.put_back(&[unit.into()]).unwrap();
    assert_eq!(left(&restored[0])[0], ("memories", LeftReason::Refused));
    assert_eq!(
        world.query("SELECT id FROM memories ORDER BY rowid"),
        ["z", "new"]
    );
}
