use std::fs;

use super::*;

fn owners(deleted_at: Option<&str>) -> config::Owners {
    config::Owners {
        scope: "user".into(),
        path: None,
        table: "users".into(),
        id: source("id"),
        deleted_at: deleted_at.map(source),
        removes_absent: false,
    }
}

fn book(sql: &str) -> Result<OwnerBook, RowError> {
    let world = World::new(sql);
    OwnerBook::read(&owners(Some("deleted_at:epoch_s")), &world.path())
}

#[test]
fn everyone_uncertain_is_living() {
    let book = book(
        "CREATE TABLE users(id, deleted_at);
         INSERT INTO users VALUES
           ('ana', NULL), ('bob', 1795976847), ('blank', ''), ('zero', 0), ('flag', 1), ('noise', 'yesterday'),
           ('millis', 1795976847000), ('twice', 1795976847), ('twice', NULL), (7, NULL), (NULL, NULL), ('', NULL), (' ', NULL),
           ('12345678-1234-4123-8123-123456789012', NULL), (x'00112233445566778899aabbccddeeff', NULL),
           ('mail:eve@example.org', NULL), ('soon', 4102444800)",
    )
    .unwrap();
    let at = instant("2026-11-29T18:27:27Z");
    for (namespace, standing) in [
        ("user:ana", Standing::Living),
        ("user:bob", Standing::Deleted { at }),
        ("user:blank", Standing::Living),
        ("user:zero", Standing::Living),
        ("user:flag", Standing::Living),
        ("user:noise", Standing::Living),
        ("user:millis", Standing::Living),
        ("user:twice", Standing::Living),
        ("user:7", Standing::Living),
        ("user:12345678123441238123123456789012", Standing::Living),
        (
            "user:12345678-1234-4123-8123-123456789012",
            Standing::Living,
        ),
        (
            "user:00112233-4455-6677-8899-AABBCCDDEEFF",
            Standing::Living,
        ),
        ("user:mail:eve@example.org", Standing::Living),
        (
            "user:soon",
            Standing::Deleted {
                at: instant("2100-01-01T00:00:00Z"),
            },
        ),
        ("user:ANA", Standing::Unknown),
        ("user:carl", Standing::Unknown),
        ("user:NULL", Standing::Unknown),
        ("team:ana", Standing::NoTable),
    ] {
        let namespace = Namespace::parse(namespace).unwrap();
        assert_eq!(book.standing(&namespace), standing, "{namespace}");
    }
}

#[test]
fn a_removed_row_is_unknown_where_there_is_no_mark() {
    let world = World::new("CREATE TABLE users(id TEXT); INSERT INTO users VALUES ('ana')");
    let book = OwnerBook::read(&owners(None), &world.path()).unwrap();
    assert_eq!(book.standing(&user("ana")), Standing::Living);
    assert_eq!(book.standing(&user("bob")), Standing::Unknown);
    assert_eq!(book.len(), 1);
}

#[test]
fn an_owner_deleted_twice_went_at_the_later_time() {
    let book = book(
        "CREATE TABLE users(id, deleted_at);
         INSERT INTO users VALUES ('a', 1795976847), ('a', 1795976800), ('b', 1795976800), ('b', 1795976847)",
    )
    .unwrap();
    let at = instant("2026-11-29T18:27:27Z");
    for owner in ["a", "b"] {
        assert_eq!(book.standing(&user(owner)), Standing::Deleted { at });
    }
}

#[test]
fn nobody_is_an_error() {
    for (sql, kind) in [
        ("CREATE TABLE users(id, deleted_at)", RowErrorKind::Other),
        (
            "CREATE TABLE users(id, deleted_at); INSERT INTO users VALUES (NULL, NULL)",
            RowErrorKind::Other,
        ),
        (
            "CREATE TABLE users(id, deleted_at); INSERT INTO users VALUES ('ana', NULL), (1.5, NULL)",
            RowErrorKind::Other,
        ),
        ("CREATE TABLE people(id, deleted_at)", RowErrorKind::Schema),
        (
            "CREATE TABLE users(id); INSERT INTO users VALUES ('ana')",
            RowErrorKind::Schema,
        ),
        (
            "CREATE TABLE people(id, deleted_at); CREATE VIEW users AS SELECT * FROM people",
            RowErrorKind::Schema,
        ),
    ] {
        assert_eq!(book(sql).unwrap_err().kind(), kind, "{sql}");
    }
    assert!(matches!(
        book("CREATE TABLE users(id, deleted_at)"),
        Err(RowError::NoOwners { .. })
    ));
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.db");
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&empty)
        .unwrap();
    for path in [dir.path().join("none.db"), dir.path().into(), empty] {
        let owners = config::Owners {
            path: Some(path.clone()),
            ..owners(None)
        };
        let error = OwnerBook::read(&owners, Path::new("/nowhere")).unwrap_err();
        assert_eq!(error.kind(), RowErrorKind::Missing, "{}", path.display());
    }
    let world = World::new("CREATE TABLE users(id TEXT); INSERT INTO users VALUES ('ana')");
    let app = world.app();
    app.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = OwnerBook::read(&owners(None), &world.path()).unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Busy);
}
