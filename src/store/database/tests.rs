use std::thread;

use super::*;
use crate::clock::Timestamp;
use crate::durable;
use crate::stop::Stop;

const SCHEMA: &str = "PRAGMA user_version = 7; CREATE TABLE t(a, b TEXT); CREATE TABLE k(x TEXT PRIMARY KEY) WITHOUT ROWID;
     INSERT INTO t VALUES (1, 'one'), (2.5, NULL), (x'00', 'three'); INSERT INTO k VALUES ('b'), ('a');
     CREATE VIRTUAL TABLE words USING fts5(b); INSERT INTO words VALUES ('one two')";

fn database(folder: &Path, mode: &str) -> (PathBuf, Connection) {
    let path = folder.join("100% live?#.db");
    let owner = Connection::open(&path).unwrap();
    owner.pragma_update(None, "journal_mode", mode).unwrap();
    owner.execute_batch(SCHEMA).unwrap();
    (path, owner)
}

#[test]
fn a_copy_holds_what_is_committed_and_is_found_to_be_the_same() {
    for mode in ["wal", "delete"] {
        let dir = tempfile::tempdir().unwrap();
        let (live, owner) = database(dir.path(), mode);
        let target = dir.path().join("copy?.db");
        copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
        let counts = tables(&open_copy(&target).unwrap()).unwrap();
        assert_eq!((counts["t"], counts["k"]), (3, 2));
        assert_eq!(damage(&open_copy(&target).unwrap()).unwrap(), None);
        let is_same = || same(&live, &target, &Stop::default()).unwrap();
        assert!(is_same());
        for (change, back) in [
            ("INSERT INTO t VALUES (4, 'x')", "DELETE FROM t WHERE a = 4"),
            (
                "UPDATE t SET a = '1' WHERE a = 1",
                "UPDATE t SET a = 1 WHERE a = '1'",
            ),
            (
                "UPDATE t SET b = 'ONE' WHERE a = 1",
                "UPDATE t SET b = 'one' WHERE a = 1",
            ),
            ("INSERT INTO k VALUES ('c')", "DELETE FROM k WHERE x = 'c'"),
            ("PRAGMA user_version = 8", "PRAGMA user_version = 7"),
            ("CREATE VIEW v AS SELECT 1", "DROP VIEW v"),
        ] {
            owner.execute_batch(change).unwrap();
            assert!(!is_same(), "{mode}: {change}");
            owner.execute_batch(back).unwrap();
            assert!(is_same(), "{mode}: {back}");
        }
        owner.execute_batch("UPDATE words SET b = 'three'").unwrap();
        assert!(!is_same(), "{mode}: what a text index holds counts");
    }
}

/// What is written between two looks of the copying is not in the copy, and the copying tells that its state stands
/// before it is done.
#[test]
fn a_copy_tells_when_its_state_stands() {
    const MANY: &str = "CREATE TABLE many(x); INSERT INTO many
         WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) SELECT x FROM n";
    for few_or_many in ["", MANY] {
        let dir = tempfile::tempdir().unwrap();
        let (live, owner) = database(dir.path(), "wal");
        owner.execute_batch(few_or_many).unwrap();
        let target = dir.path().join("copy.db");
        let (sender, told) = std::sync::mpsc::channel();
        let writer = thread::spawn(move || {
            told.recv().unwrap();
            owner
                .execute_batch("INSERT INTO t VALUES (4, 'x')")
                .unwrap();
        });
        let fixed = Fixed::telling(sender);
        copy(&live, &target, &Stop::default(), &fixed).unwrap();
        drop(fixed);
        writer.join().unwrap();
        assert_eq!(tables(&open_copy(&target).unwrap()).unwrap()["t"], 3);
        assert_eq!(tables(&Connection::open(&live).unwrap()).unwrap()["t"], 4);
    }
}

/// What an application can give its tables that only it can write anew: `binary` and `upper` stand for its own.
const OWN: [&str; 5] = [
    "CREATE TABLE own(x TEXT); CREATE INDEX own_x ON own(x COLLATE binary)",
    "CREATE TABLE own(x TEXT COLLATE binary PRIMARY KEY)",
    "CREATE TABLE own(x TEXT); CREATE INDEX own_x ON own(upper(x))",
    "CREATE TABLE own(x TEXT CHECK (upper(x) = x))",
    "CREATE TABLE own(x TEXT, y TEXT GENERATED ALWAYS AS (upper(x)) VIRTUAL)",
];

/// A database with such a table, whose functions are not known to anybody who opens it from now on.
fn database_of_its_own(folder: &Path, mode: &str, own: &str) -> PathBuf {
    let (path, owner) = database(folder, mode);
    owner.execute_batch(own).unwrap();
    owner
        .execute_batch(
            "INSERT INTO own(x) VALUES ('A'), ('B'); PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(replace(sql, 'binary', 'mine'), 'upper', 'mine')",
        )
        .unwrap();
    path
}

#[test]
fn what_only_the_application_can_write_anew_is_copied_page_by_page() {
    let modes = ["wal", "delete"].into_iter();
    for (mode, own) in modes.flat_map(|mode| OWN.map(|own| (mode, own))) {
        let dir = tempfile::tempdir().unwrap();
        let live = database_of_its_own(dir.path(), mode, own);
        let target = dir.path().join("copy.db");
        let made = copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
        assert_eq!(made, Made::Pages, "{mode}: {own}");
        let read = |copy: Connection| Ok((tables(&copy)?, damage(&copy)?));
        let (file, (counts, damage)) = settle(dir.path(), "copy.db", made, read).unwrap();
        assert_eq!((counts["t"], counts["own"]), (3, 2), "{own}");
        assert_eq!((damage, file.keeps_deleted), (None, true), "{own}");
        assert!(!sqlite::beside(&target, "-wal").exists(), "{mode}");
        // Whether it is the same cannot always be told, and is never an error.
        same(&live, &target, &Stop::default()).unwrap();
        let owner = Connection::open(&live).unwrap();
        owner.execute_batch("DELETE FROM t").unwrap();
        assert!(!same(&live, &target, &Stop::default()).unwrap(), "{own}");
    }
}

#[test]
fn a_table_that_can_be_checked_is_checked_beside_one_that_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let live = database_of_its_own(dir.path(), "delete", OWN[0]);
    let target = dir.path().join("copy.db");
    copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
    let root: i64 = open_copy(&target)
        .unwrap()
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 't'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let mut bytes = std::fs::read(&target).unwrap();
    // The number of cells of the page.
    bytes[usize::try_from(root - 1).unwrap() * 4096 + 3] = 0xff;
    durable::replace(&target, &bytes, durable::PRIVATE).unwrap();
    assert!(damage(&open_copy(&target).unwrap()).unwrap().is_some());
}

#[test]
fn a_copy_takes_nobody_elses_place_and_leaves_none_when_it_fails() {
    let dir = tempfile::tempdir().unwrap();
    let (live, _owner) = database(dir.path(), "wal");
    let target = dir.path().join("copy.db");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &target).unwrap();
    copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap_err();
    assert!(target.is_symlink());
    let target = dir.path().join("other.db");
    copy(
        &dir.path().join("none.db"),
        &target,
        &Stop::default(),
        &Fixed::default(),
    )
    .unwrap_err();
    assert!(!target.exists());
}

#[test]
fn a_copy_that_was_cut_off_opens_and_has_no_tables() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.db");
    durable::write_new(&path, b"", durable::PRIVATE).unwrap();
    let conn = open_copy(&path).unwrap();
    assert_eq!(damage(&conn).unwrap(), None, "SQLite finds nothing wrong");
    assert!(tables(&conn).unwrap().is_empty());
}

#[test]
fn a_stamp_proves_nothing_about_a_file_that_was_just_written() {
    let dir = tempfile::tempdir().unwrap();
    let (path, owner) = database(dir.path(), "wal");
    let stamp = Stamp::of(&path).unwrap();
    let at = |seconds: i64| {
        let latest = stamp.changed_ns.max(stamp.log_changed_ns);
        Timestamp::from_nanosecond((latest + seconds * 1_000_000_000).into()).unwrap()
    };
    assert!(stamp.log_bytes > 0);
    assert!(!stamp.proves(&stamp, at(1)));
    assert!(stamp.proves(&stamp, at(3)));
    owner.execute_batch("INSERT INTO t VALUES (9, 9)").unwrap();
    let later = Stamp::of(&path).unwrap();
    assert!(!stamp.proves(&later, at(3)));
    drop(owner);
    assert_eq!(Stamp::of(&path).unwrap().log_bytes, 0);
}

#[test]
fn a_staged_file_is_in_the_mode_of_the_original() {
    let dir = tempfile::tempdir().unwrap();
    let (live, _owner) = database(dir.path(), "wal");
    let target = dir.path().join("copy.db");
    copy(&live, &target, &Stop::default(), &Fixed::default()).unwrap();
    for (is_wal, mode) in [(true, "wal"), (false, "delete")] {
        let staged = dir.path().join("staged.db");
        stage(&target, &staged, is_wal).unwrap();
        assert_eq!(journal_mode(&staged).unwrap(), mode);
        assert!(same(&staged, &target, &Stop::default()).unwrap());
        assert!(!sqlite::beside(&staged, "-wal").exists());
    }
}

#[test]
fn what_is_written_anew_keeps_every_rowid_and_nothing_that_was_deleted() {
    for mode in ["wal", "delete"] {
        let dir = tempfile::tempdir().unwrap();
        let (live, owner) = database(dir.path(), mode);
        owner
            .execute_batch(
                "INSERT INTO t VALUES (4, 'the marker'); INSERT INTO t VALUES (5, 'five');
                 DELETE FROM t WHERE a IN (1, 4)",
            )
            .unwrap();
        drop(owner);
        let holds = || {
            let bytes = std::fs::read(&live).unwrap();
            bytes.windows(10).any(|window| window == b"the marker")
        };
        assert!(holds(), "there is something to get rid of");
        compact(&live, &Stop::default()).unwrap();
        assert!(!holds());
        let rowids: String = Connection::open(&live)
            .unwrap()
            .query_row("SELECT group_concat(rowid) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rowids, "2,3,5");
        assert_eq!(journal_mode(&live).unwrap(), mode);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
