//! What binds, and what is refused with which words.

use super::*;

#[test]
fn what_does_not_fit_is_named() {
    let fact = |sql: &str| World::new(sql).role(Role::Content, "fact");
    for (world, words) in [
        (
            fact("CREATE TABLE notes(id INTEGER PRIMARY KEY, fact TEXT); CREATE TABLE tags(a)"),
            "find table \"memories\": the database has notes, tags",
        ),
        (
            fact("CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT)"),
            "find column \"fact\" of table \"memories\": it has id, content",
        ),
        (
            fact("CREATE TABLE memories(uuid TEXT PRIMARY KEY, fact TEXT)"),
            "find column \"id\" of table \"memories\": it has uuid, fact",
        ),
        (
            fact(
                "CREATE TABLE m(id INTEGER PRIMARY KEY, fact); CREATE VIEW memories AS SELECT * FROM m",
            ),
            "\"memories\" is a view",
        ),
        (
            fact("CREATE VIRTUAL TABLE memories USING fts5(id, fact)"),
            "\"memories\" is a virtual table",
        ),
        (
            fact("CREATE TABLE memories(id TEXT, fact TEXT)"),
            "neither its primary key nor unique",
        ),
        (
            fact("CREATE TABLE memories(id TEXT, fact TEXT, PRIMARY KEY(id, fact))"),
            "neither its primary key nor unique",
        ),
        (
            fact(
                "CREATE TABLE memories(id TEXT, fact TEXT); CREATE UNIQUE INDEX i ON memories(id) WHERE fact <> ''",
            ),
            "neither its primary key nor unique",
        ),
        (
            fact(
                "CREATE TABLE memories(id TEXT, fact TEXT); CREATE UNIQUE INDEX i ON memories(id, fact)",
            ),
            "neither its primary key nor unique",
        ),
        (
            fact("CREATE TABLE memories(body TEXT, id AS (body) UNIQUE, fact TEXT)"),
            "generated, and cannot be the id",
        ),
        (
            World::new("CREATE TABLE memories(id INTEGER PRIMARY KEY, body TEXT)")
                .role(Role::Content, "body:json($.[)"),
            "is not a JSON path",
        ),
    ] {
        for error in [
            world.try_reader().unwrap_err(),
            world.try_writer().unwrap_err(),
        ] {
            assert_eq!(error.kind(), RowErrorKind::Schema, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    let mut world = World::new("CREATE TABLE memories(id INTEGER PRIMARY KEY)");
    world.rows.namespace = "user:{tenant}".into();
    let error = world.try_reader().unwrap_err();
    assert!(error.to_string().contains("needs a tenant"), "{error}");
}

#[test]
fn odd_schemas_that_fit() {
    for sql in [
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, fact TEXT)",
        "CREATE TABLE memories(id TEXT PRIMARY KEY, fact TEXT) WITHOUT ROWID",
        "CREATE TABLE memories(id TEXT UNIQUE, fact TEXT NOT NULL) STRICT",
        "CREATE TABLE memories(id UUID, fact TEXT); CREATE UNIQUE INDEX i ON memories(id COLLATE NOCASE)",
        "CREATE TABLE \"MEMORIES\"(\"ID\" BLOB PRIMARY KEY, \"Fact\" TEXT)",
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, body TEXT, fact AS (body || '!'))",
    ] {
        let world = World::new(sql).role(Role::Content, "fact");
        world.reader().explain().unwrap();
        world.writer();
    }
}

#[test]
fn an_optional_column_may_be_missing() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT); INSERT INTO memories VALUES (1, 'x')",
    )
    .role(Role::Content, "content")
    .role(Role::ExpiresAt, "expires_at?:epoch_s")
    .role(Role::SupersededBy, "superseded_by?");
    let roles = [Role::Content, Role::ExpiresAt, Role::SupersededBy];
    let memories = world.read(|s| s.memories(&roles, &[n(1)]));
    assert_eq!(memories[0].content.as_deref(), Some("x"));
    assert_eq!(memories[0].expires_at, crate::memory::Moment::Absent);
    assert_eq!(world.read(Snapshot::broken_chains), 0);
}

#[test]
fn a_chain_over_another_column_than_the_id_blocks() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, hash TEXT UNIQUE, superseded_by TEXT REFERENCES memories(hash));
         INSERT INTO memories VALUES (1, 'a', NULL), (2, 'b', 'a'), (3, 'c', NULL)",
    )
    .role(Role::SupersededBy, "superseded_by");
    let removals = world.read(|s| s.removals(&[n(1), n(2), n(3)]));
    assert_eq!(removals.blocked, [(n(1), Blocker::TakesAlong)]);
    assert_eq!(
        world
            .writer()
            .units(&[wanted(n(1), &[])], usize::MAX)
            .unwrap(),
        [None]
    );
}

#[test]
fn a_reference_to_a_generated_column_is_refused_only_where_it_matters() {
    let unrelated = "CREATE TABLE a(x TEXT, y AS (x) UNIQUE); CREATE TABLE b(y REFERENCES a(y));";
    let related = "CREATE TABLE tags(slug REFERENCES memories(slug) ON DELETE CASCADE);";
    for (sql, is_refused) in [(unrelated, false), (related, true)] {
        let world = World::new(&format!(
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, slug AS ('m' || id) UNIQUE); {sql}"
        ));
        assert_eq!(world.try_reader().is_err(), is_refused, "{sql}");
    }
}

#[test]
fn a_trigger_that_needs_an_extension_is_found_before_any_write() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT);
         CREATE TRIGGER gone AFTER DELETE ON memories BEGIN SELECT vec_remove(old.id); END;",
    );
    let error = world.reader().explain().unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Schema);
    let words = error.to_string();
    assert!(words.contains("delete from table \"memories\""), "{words}");
    assert!(words.contains("vec_remove"), "{words}");
    assert!(world.try_writer().is_err());
}

#[test]
fn a_trigger_of_a_child_table_is_found_too() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY);
         CREATE TABLE tags(memory INTEGER REFERENCES memories ON DELETE CASCADE, tag TEXT);
         CREATE TRIGGER gone AFTER DELETE ON tags BEGIN DELETE FROM missing WHERE tag = old.tag; END;",
    );
    let error = world.reader().explain().unwrap_err();
    assert!(
        error.to_string().contains("delete from table \"tags\""),
        "{error}"
    );
}

#[test]
fn an_index_over_a_missing_function_is_found() {
    let world = World::new("CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT)");
    let app = world.app();
    app.execute_batch(
        "PRAGMA writable_schema = ON;
         INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql)
         SELECT 'index', 'i', 'memories', 2, 'CREATE INDEX i ON memories(libsql_vector_idx(content))';",
    )
    .unwrap();
    drop(app);
    let error = world
        .try_reader()
        .and_then(|reader| reader.explain())
        .unwrap_err();
    assert!(error.to_string().contains("libsql_vector_idx"), "{error:?}");
}

#[test]
fn a_valid_to_that_cannot_be_set_is_refused() {
    for (sql, from) in [
        (
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, meta TEXT)",
            "meta:json($.valid_to)",
        ),
        (
            "CREATE TABLE memories(id INTEGER PRIMARY KEY, meta TEXT, valid_to AS (meta))",
            "valid_to",
        ),
    ] {
        let world = World::new(sql).role(Role::ValidTo, from);
        let error = world.reader().explain().unwrap_err();
        assert!(error.to_string().contains("cannot be set"), "{error}");
        assert!(world.try_writer().is_err());
    }
}

#[test]
fn a_schema_that_changes_is_bound_again() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY, content TEXT); INSERT INTO memories VALUES (1, 'x')",
    )
    .role(Role::Content, "content");
    let (reader, mut writer) = (world.reader(), world.writer());
    let before = unit(&mut writer, n(1), &[]);
    world
        .app()
        .execute_batch("ALTER TABLE memories ADD COLUMN extra TEXT DEFAULT 'y'")
        .unwrap();
    let version = reader
        .snapshot(|s| s.versions(&[n(1)]))
        .unwrap()
        .remove(0)
        .unwrap();
    assert_ne!(version, before.root.version());
    assert_eq!(writer.delete_units(&[before]).unwrap(), [Fate::Changed]);
    let after = unit(&mut writer, n(1), &[]);
    assert_eq!(after.root.version(), version);
    world
        .app()
        .execute_batch("ALTER TABLE memories RENAME COLUMN content TO body")
        .unwrap();
    let error = reader.snapshot(Snapshot::census).unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Schema);
    let error = writer.delete_units(&[after]).unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Schema);
    assert_eq!(world.dump().len(), 1);
}
