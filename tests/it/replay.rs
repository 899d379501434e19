//! What a killed run had begun: finished only on the stores that it was begun on, listed by a dry run, and put back when
//! nobody wants it any more.

use crate::support::{BACKENDS, Backend, DAY, Output, Points, World, files, now, open, point_id};

/// Three expired memories of ten, and a run that was killed before it touched a point of them.
fn killed(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.user("ana", None);
    for i in 0..10 {
        world.memory("ana", now() - 40 * DAY, (i < 3).then_some(7));
    }
    let night = world.night_with("points.before=1*return(kill)");
    assert_eq!(night.code, None, "{night:#?}");
    world
}

/// A second table of rows, of which some have the keys of memories that were about to go, and a second one of points.
fn second_stores(world: &World) {
    world
        .rows()
        .execute_batch(
            "CREATE TABLE notes(id INTEGER PRIMARY KEY, alias INTEGER, user_id TEXT, content TEXT, content_hash TEXT,
               memory_type TEXT, created_at INTEGER, last_used_at INTEGER, ttl_days INTEGER, superseded_by INTEGER);
             INSERT INTO notes SELECT id, id, user_id, content, content_hash, memory_type, created_at, last_used_at,
               ttl_days, superseded_by FROM memories",
        )
        .unwrap();
    let _ = std::fs::copy(world.path("memory.db"), world.path("copy.db")).unwrap();
    let vectors = open(&world.path("vectors.db"));
    vectors
        .execute_batch("CREATE TABLE others(id TEXT PRIMARY KEY, namespace TEXT, vector BLOB NOT NULL, payload TEXT);
             INSERT INTO others SELECT * FROM points")
        .unwrap();
}

/// Every file but the indexes of write-ahead logs, which whoever reads makes anew.
fn lasting(world: &World) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut files = files(world.dir.path());
    files.retain(|path, _| !path.to_string_lossy().ends_with("-shm"));
    files
}

fn open_intents(world: &World) -> u64 {
    let status = world.run(&["status", "--json"]);
    status.objects("status")[0]["open_intents"]
        .as_u64()
        .unwrap()
}

#[test]
fn under_another_mapping_what_was_begun_stays_open_and_nothing_is_touched() {
    let rule = r#"point_id = "uuid5(dns, {namespace}::{id})""#;
    for (from, to, word) in [
        (
            "type = \"memory_type\"",
            "type = \"memory_type\"\ntable = \"notes\"",
            "rows.table",
        ),
        ("path = \"memory.db\"", "path = \"copy.db\"", "rows.path"),
        (
            rule,
            r#"point_id = "uuid5(url, {namespace}::{id})""#,
            "vectors.point_id",
        ),
        (
            rule,
            "point_id = \"uuid5(dns, {namespace}::{id})\"\nnamespace = \"user:x-{tenant}\"",
            "rows.namespace",
        ),
        (
            "path = \"vectors.db\"",
            "path = \"vectors.db\"\ntable = \"others\"",
            "vectors.table",
        ),
        (
            "kind = \"sqlite\"\npath = \"vectors.db\"\npoint_id = \"uuid5(dns, {namespace}::{id})\"",
            "kind = \"none\"",
            "vectors.kind",
        ),
    ] {
        let mut world = killed(Backend::Sqlite);
        second_stores(&world);
        world.configure(from, to);
        let dumps = |world: &World| {
            ["memory.db", "copy.db", "vectors.db"]
                .map(|name| crate::support::dump(&world.path(name)))
        };
        let before = dumps(&world);
        let night = world.night().expect(3);
        assert_eq!(dumps(&world), before, "{word}: something was changed");
        assert_eq!(open_intents(&world), 3, "{word}: they stay open");
        let passes = night.objects("pass");
        assert!(
            !passes.is_empty() && passes.iter().all(|pass| pass["outcome"] == "refused"),
            "{word}: {night:#?}"
        );
        let unfinished = &night.objects("run")[0]["unfinished"];
        let problem = unfinished[0]["problem"].as_str().unwrap();
        for said in [word, "3 actions", "1, 2, 3", "state/agent/main.db"] {
            assert!(
                problem.contains(said),
                "{word}: {said:?} is not in {problem}"
            );
        }
        let dry = world.run(&["--dry-run", "--json"]).expect(3);
        assert!(dry.stdout.contains(word), "{word}: {dry:#?}");

        world.configure(to, from);
        let night = world.night().expect(0);
        assert_eq!(night.objects("run")[0]["replayed"], 3, "{word}: {night:#?}");
        assert_eq!(world.ids(), (4..=10).collect(), "{word}");
        assert_eq!(world.point_rows(), (4..=10).collect(), "{word}");
    }
}

#[test]
fn in_another_collection_what_was_begun_stays_open() {
    let mut world = killed(Backend::Qdrant);
    let other = World::new(Backend::Qdrant);
    let (Points::Qdrant(own), Points::Qdrant(collection)) = (&world.points, &other.points) else {
        unreachable!("both are on qdrant")
    };
    let (own, collection) = (own.name.clone(), collection.name.clone());
    world.configure(&own, &collection);
    let night = world.night().expect(3);
    assert!(night.stdout.contains("vectors.collection"), "{night:#?}");
    assert_eq!((world.ids().len(), open_intents(&world)), (10, 3));
}

#[test]
fn a_dry_run_lists_what_the_run_would_first_finish() {
    for backend in BACKENDS {
        let world = killed(backend);
        let before = lasting(&world);
        let dry = world.run(&["--dry-run", "--json"]).expect(0);
        let begun = dry.objects("replay");
        assert_eq!(begun.len(), 1, "{dry:#?}");
        assert_eq!(begun[0]["store"], "agent");
        assert_eq!(begun[0]["partition"], "main");
        let actions = begun[0]["actions"].as_array().unwrap();
        let ids: Vec<_> = actions
            .iter()
            .map(|action| action["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["1", "2", "3"], "{dry:#?}");
        assert!(
            actions
                .iter()
                .all(|action| action["action"] == "delete" && action["pass"] == "ttl")
        );
        let text = world.run(&["--dry-run"]).expect(0);
        assert!(text.stdout.contains("would first finish"), "{text:#?}");
        assert!(lasting(&world) == before, "{backend:?}: the dry run wrote");
        let night = world.night().expect(0);
        assert_eq!(night.objects("run")[0]["replayed"], 3);
        assert!(
            world
                .run(&["--dry-run", "--json"])
                .expect(0)
                .objects("replay")
                .is_empty()
        );
    }
}

#[test]
fn what_a_pass_began_that_is_switched_off_since_is_put_back() {
    for backend in BACKENDS {
        let mut world = World::new(backend);
        world.user("ana", None);
        for i in 0..10 {
            world.memory("ana", now() - 40 * DAY, (i < 3).then_some(7));
        }
        let points = world.all_points();
        let night = world.night_with("points.removed=1*return(kill)");
        assert_eq!(night.code, None, "{night:#?}");
        assert!(!world.all_points().contains_key(&point_id("user:ana", 1)));
        world.configure(
            "[pass.orphans]",
            "[pass.ttl]\nenabled = false\n[pass.orphans]",
        );
        let night: Output = world.night().expect(0);
        assert_eq!(world.ids(), (1..=10).collect(), "{backend:?}: {night:#?}");
        assert_eq!(world.all_points(), points, "{backend:?}");
        assert_eq!(open_intents(&world), 0, "{backend:?}");
    }
}
