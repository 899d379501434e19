//! Text indexes over the memories, in each shape in which applications keep them.

use super::*;

const TABLE: &str = "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT);
    CREATE VIRTUAL TABLE fts USING fts5(content, content='memories', content_rowid='id', tokenize='trigram');";
const ROWS: &str =
    "INSERT INTO memories VALUES (1, 'green tea'), (2, 'black coffee'), (3, 'green apples');";
const INSERT: &str = "CREATE TRIGGER i AFTER INSERT ON memories
    BEGIN INSERT INTO fts(rowid, content) VALUES (new.id, new.content); END;";
const FILL: &str = "INSERT INTO fts(rowid, content) SELECT id, content FROM memories;";

/// The words of a memory are found while it is there, and the index is whole.
fn check(world: &World, found: &[i64]) {
    let app = world.app();
    app.execute_batch("INSERT INTO fts(fts, rank) VALUES ('integrity-check', 1)")
        .unwrap();
    let mut read = app
        .prepare("SELECT rowid, content FROM fts WHERE fts MATCH 'green' ORDER BY 1")
        .unwrap();
    let rows = read.query_map([], |row| {
        row.get::<_, String>(1)?;
        row.get::<_, i64>(0)
    });
    let rows: Vec<i64> = rows.unwrap().map(Result::unwrap).collect();
    assert_eq!(rows, found);
}

#[test]
fn an_index_is_whole_after_a_removal_and_its_undoing_whoever_keeps_it() {
    let naive = "CREATE TRIGGER d AFTER DELETE ON memories BEGIN DELETE FROM fts WHERE rowid = old.id; END;";
    let before = "CREATE TRIGGER d BEFORE DELETE ON memories BEGIN DELETE FROM fts WHERE rowid = old.id; END;";
    let proper = "CREATE TRIGGER d AFTER DELETE ON memories
        BEGIN INSERT INTO fts(fts, rowid, content) VALUES ('delete', old.id, old.content); END;";
    let other = "CREATE TABLE log(id); CREATE TRIGGER beginning AFTER DELETE ON memories
        BEGIN INSERT INTO log VALUES (old.id); END;";
    for (shape, sql) in [
        ("naive", [TABLE, INSERT, naive, ROWS].concat()),
        ("before", [TABLE, INSERT, before, ROWS].concat()),
        ("proper", [TABLE, INSERT, proper, ROWS].concat()),
        ("only filled", [TABLE, INSERT, ROWS].concat()),
        ("no trigger", [TABLE, ROWS, FILL].concat()),
        ("another trigger", [TABLE, other, ROWS, FILL].concat()),
    ] {
        let world = World::new(&sql);
        check(&world, &[1, 3]);
        let mut writer = world.writer();
        let unit = unit_of(&mut writer, n(1));
        let units = [unit];
        assert_eq!(
            writer.delete_units(&units).unwrap(),
            [Fate::Removed],
            "{shape}"
        );
        check(&world, &[3]);
        let [unit] = units;
        assert!(
            writer.put_back(&[unit.into()]).unwrap()[0].is_back,
            "{shape}"
        );
        check(&world, &[1, 3]);
    }
}

#[test]
fn a_row_that_is_in_no_index_is_not_taken_out_of_it() {
    let world = World::new(
        &[
            TABLE,
            ROWS,
            "INSERT INTO fts(rowid, content) VALUES (3, 'green apples');",
        ]
        .concat(),
    );
    let mut writer = world.writer();
    let wanted = [1, 3].map(|id| Wanted {
        id: n(id),
        behind: Vec::new(),
    });
    let units: Vec<Unit> = writer
        .units(&wanted, usize::MAX)
        .unwrap()
        .into_iter()
        .map(Option::unwrap)
        .collect();
    assert_eq!(writer.delete_units(&units[..1]).unwrap(), [Fate::Removed]);
    let find = "SELECT rowid FROM fts WHERE fts MATCH 'green'";
    assert_eq!(world.query(find), ["3"]);
    assert_eq!(writer.delete_units(&units[1..]).unwrap(), [Fate::Removed]);
    assert_eq!(world.query(find), Vec::<String>::new());
}

#[test]
fn an_index_without_contents_is_the_applications_own() {
    let sql = "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT);
        CREATE VIRTUAL TABLE fts USING fts5(content, content='');
        CREATE TRIGGER d AFTER DELETE ON memories BEGIN DELETE FROM fts WHERE rowid = old.id; END;
        INSERT INTO memories VALUES (1, 'green tea'); INSERT INTO fts(rowid, content) VALUES (1, 'green tea');";
    let world = World::new(sql);
    let mut writer = world.writer();
    let unit = unit_of(&mut writer, n(1));
    // FTS5 refuses such a delete: the memory stays, with everything about it.
    assert_eq!(writer.delete_units(&[unit]).unwrap(), [Fate::Blocked]);
    assert_eq!(world.query("SELECT * FROM memories"), ["1 green tea"]);
}
