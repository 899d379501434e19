use std::fs;

use super::*;

fn store(dir: &Path, pattern: &str) -> RowStore {
    let mut world = World::new("CREATE TABLE memories(id INTEGER PRIMARY KEY)");
    world.rows.path = dir.join(pattern).to_str().unwrap().into();
    world.rows.namespace = "user:{tenant}".into();
    world.store()
}

fn names(store: &RowStore) -> Vec<String> {
    let partitions = store.partitions().unwrap();
    partitions.iter().map(|p| p.name.to_string()).collect()
}

fn touch(path: &Path) {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .unwrap();
}

#[test]
fn one_file_is_one_partition_whether_it_exists_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), "memory.db");
    let partitions = store.partitions().unwrap();
    assert_eq!(partitions.len(), 1);
    assert_eq!(&*partitions[0].name, "main");
    assert_eq!(partitions[0].tenant, None);
    assert_eq!(store.partition("anyone").unwrap(), partitions[0]);
    let error = store.reader(&partitions[0]).unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Missing);
}

#[test]
fn a_folder_per_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    for tenant in ["zoe", "ana", "empty", "folder"] {
        fs::create_dir_all(users.join(tenant)).unwrap();
    }
    touch(&users.join("zoe/memory.db"));
    touch(&users.join("ana/memory.db"));
    touch(&users.join("README"));
    fs::create_dir(users.join("folder/memory.db")).unwrap();
    std::os::unix::fs::symlink("nowhere", users.join("empty/memory.db")).unwrap();
    fs::create_dir(users.join("new")).unwrap();
    let store = store(dir.path(), "users/{tenant}/memory.db");
    assert_eq!(names(&store), ["ana", "empty", "folder", "zoe"]);
    let partitions = store.partitions().unwrap();
    assert_eq!(partitions[0].path, users.join("ana/memory.db"));
    assert_eq!(partitions[0].tenant.as_deref(), Some("ana"));
    for partition in partitions {
        let error = store.reader(&partition).unwrap_err();
        assert_eq!(error.kind(), RowErrorKind::Missing, "{error}");
    }
}

#[test]
fn a_file_per_tenant() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "agent-b.sqlite",
        "agent-a.sqlite",
        "agent-a.sqlite-wal",
        "agent-.sqlite",
        "other.sqlite",
        "agent-c.txt",
    ] {
        touch(&dir.path().join(name));
    }
    let store = store(dir.path(), "agent-{tenant}.sqlite");
    assert_eq!(names(&store), ["a", "b"]);
}

#[test]
fn side_files_are_no_tenants() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["ana", "ana-wal", "ana-shm", "ana-journal"] {
        touch(&dir.path().join(name));
    }
    assert_eq!(names(&store(dir.path(), "{tenant}")), ["ana"]);
}

#[test]
fn a_missing_folder_is_an_error_and_an_empty_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), "users/{tenant}/memory.db");
    let error = store.partitions().unwrap_err();
    assert_eq!(error.kind(), RowErrorKind::Missing);
    fs::create_dir(dir.path().join("users")).unwrap();
    assert_eq!(store.partitions().unwrap(), []);
}

#[test]
fn a_tenant_cannot_lead_out_of_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let folders = store(dir.path(), "users/{tenant}/memory.db");
    for tenant in ["", ".", "..", "../x", "a/b", "/etc", "a\0b"] {
        assert_eq!(folders.partition(tenant), None, "{tenant:?}");
    }
    let ana = folders.partition("ana").unwrap();
    assert_eq!(ana.path, dir.path().join("users/ana/memory.db"));
    assert!(store(dir.path(), "x{tenant}.db").partition("..").is_some());
    assert!(folders.partition("x-wal").is_some());
}

#[test]
fn rows_of_a_tenant_file_belong_to_the_tenant() {
    let world = World::new(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY); INSERT INTO memories VALUES (1)",
    );
    let ana = world.dir.path().join("ana");
    fs::create_dir(&ana).unwrap();
    fs::copy(world.path(), ana.join("memory.db")).unwrap();
    let store = store(world.dir.path(), "{tenant}/memory.db");
    let partitions = store.partitions().unwrap();
    let census = store
        .reader(&partitions[0])
        .unwrap()
        .snapshot(Snapshot::census)
        .unwrap();
    assert_eq!(
        census.by_namespace.into_iter().collect::<Vec<_>>(),
        [(user("ana"), 1)]
    );
}

#[test]
fn tenants_with_one_file_are_named_and_not_opened() {
    let world = World::new("CREATE TABLE memories(id INTEGER PRIMARY KEY)");
    let users = world.dir.path().join("users");
    for tenant in ["ana", "own", "hard"] {
        fs::create_dir_all(users.join(tenant)).unwrap();
    }
    fs::copy(world.path(), users.join("ana/memory.db")).unwrap();
    fs::copy(world.path(), users.join("own/memory.db")).unwrap();
    fs::hard_link(users.join("ana/memory.db"), users.join("hard/memory.db")).unwrap();
    std::os::unix::fs::symlink("ana", users.join("soft")).unwrap();
    let store = store(world.dir.path(), "users/{tenant}/memory.db");
    let mut opened = Vec::new();
    for partition in store.partitions().unwrap() {
        let reader = store.reader(&partition).map(drop);
        let writer = store.writer(&partition).map(drop);
        let what = |result: Result<(), RowError>| match result {
            Ok(()) => "own".to_owned(),
            Err(error) => {
                assert_eq!(error.kind(), RowErrorKind::Other);
                assert!(error.hint().is_some());
                error.to_string()
            }
        };
        let (read, written) = (what(reader), what(writer));
        assert_eq!(read, written);
        opened.push((partition.name.to_string(), read));
    }
    let shared =
        |tenant| format!("open the row database: it is the same file as that of tenant {tenant:?}");
    assert_eq!(
        opened,
        [
            ("ana".into(), shared("soft")),
            ("hard".into(), shared("ana")),
            ("own".into(), "own".into()),
            ("soft".into(), shared("ana")),
        ]
    );
}
