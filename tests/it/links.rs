//! Two configured stores that are one file through a link: an error of the configuration, and nothing is written.

use std::os::unix::fs::symlink;

use crate::support::{Backend, DAY, World, files, now};

const SECOND: &str = r#"
[[store]]
name = "second"
[store.rows]
path = "ROWS"
preset = "ttl-days"
namespace = "NAMESPACE"
[store.owners]
scope = "SCOPE"
table = "users"
id = "id"
deleted_at = "deleted_at"
[store.vectors]
kind = "sqlite"
path = "VECTORS"
point_id = "uuid5(dns, {namespace}::{id})"
"#;

fn world(rows: &str, scope: &str, vectors: &str) -> World {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now() - 40 * DAY, Some(7));
    let second = SECOND
        .replace("ROWS", rows)
        .replace("namespace = \"NAMESPACE\"\n", "")
        .replace("SCOPE", scope)
        .replace("VECTORS", vectors)
        .replace(
            "point_id",
            &format!("namespace = \"{scope}:{{tenant}}\"\npoint_id"),
        );
    world.config.push_str(&second);
    world.write_config();
    let _ = std::fs::copy(world.path("memory.db"), world.path("own.db")).unwrap();
    let _ = std::fs::copy(world.path("vectors.db"), world.path("own-vectors.db")).unwrap();
    std::fs::create_dir(world.path("linked")).unwrap();
    symlink("../memory.db", world.path("linked/soft.db")).unwrap();
    std::fs::hard_link(world.path("memory.db"), world.path("linked/hard.db")).unwrap();
    symlink("../vectors.db", world.path("linked/vectors.db")).unwrap();
    symlink("linked", world.path("again")).unwrap();
    world
}

#[test]
fn one_file_under_two_names_is_refused() {
    for (rows, scope, vectors, word) in [
        (
            "linked/soft.db",
            "user",
            "own-vectors.db",
            "store.second.rows.path",
        ),
        (
            "linked/hard.db",
            "user",
            "own-vectors.db",
            "store.second.rows.path",
        ),
        (
            "again/soft.db",
            "team",
            "own-vectors.db",
            "store.second.rows.path",
        ),
        (
            "own.db",
            "user",
            "linked/vectors.db",
            "store.second.vectors",
        ),
    ] {
        let world = world(rows, scope, vectors);
        let before = files(world.dir.path());
        for args in [&["--run-now"][..], &["--dry-run"], &["check"]] {
            let refused = world.run(args).expect(78);
            assert!(
                refused.stderr.contains(word),
                "{rows} {vectors}: {refused:#?}"
            );
            assert!(refused.stderr.contains("agent"), "{refused:#?}");
        }
        assert!(
            files(world.dir.path()) == before,
            "{rows} {vectors}: something was written"
        );
    }
}

#[test]
fn stores_of_their_own_are_not_refused() {
    for (rows, scope, vectors) in [
        ("own.db", "user", "own-vectors.db"),
        ("own.db", "team", "linked/vectors.db"),
    ] {
        let world = world(rows, scope, vectors);
        let dry = world.run(&["--dry-run", "--json"]);
        assert_ne!(dry.code, Some(78), "{dry:#?}");
    }
}

#[test]
fn a_store_of_one_file_is_told_from_a_tenant_of_another() {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    std::fs::create_dir_all(world.path("users/ana")).unwrap();
    symlink("../../memory.db", world.path("users/ana/memory.db")).unwrap();
    world.config.push_str(
        "\n[[store]]\nname = \"tenants\"\n[store.rows]\npath = \"users/{tenant}/memory.db\"\npreset = \"ttl-days\"\n\
         [store.owners]\nscope = \"user\"\npath = \"memory.db\"\ntable = \"users\"\nid = \"id\"\n",
    );
    world.write_config();
    let refused = world.run(&["--run-now"]).expect(78);
    assert!(
        refused.stderr.contains("store.tenants.rows.path"),
        "{refused:#?}"
    );
}
