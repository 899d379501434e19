//! `contradictions`: who is asked about what, once, and that nothing ever goes.

use std::collections::BTreeSet;

use rusqlite::params;
use serde_json::{Value, json};

use crate::support::{BACKENDS, Backend, DAY, DIM, Output, World, hypnos, now, open, vector};

fn world(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.configure(
        "[pass.contradictions]\nenabled = false",
        "[pass.contradictions]\nenabled = true",
    );
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nenabled = true",
    );
    for user in ["ana", "bea"] {
        world.user(user, None);
    }
    world
}

/// A memory with its point.
fn say(world: &mut World, user: &str, created_at: i64, text: &str) -> i64 {
    let id = world.memory(user, created_at, None);
    set(world, id, "content", text);
    id
}

fn set(world: &World, id: i64, column: &str, value: impl rusqlite::ToSql) {
    let sql = format!("UPDATE memories SET {column} = ?2 WHERE id = ?1");
    world.rows().execute(&sql, params![id, value]).unwrap();
}

/// The open questions about contradictions, each as the ids of its memories.
fn asked(world: &World) -> BTreeSet<Vec<i64>> {
    let entries = entries(world);
    entries.iter().map(ids).collect()
}

fn entries(world: &World) -> Vec<Value> {
    let args = ["review", "--json", "--kind", "contradiction"];
    world.run(&args).expect(0).objects("entry")
}

fn ids(entry: &Value) -> Vec<i64> {
    let memories = entry["memories"].as_array().unwrap().iter();
    memories
        .map(|memory| memory["id"].as_str().unwrap().parse().unwrap())
        .collect()
}

/// How many memories are remembered as compared.
fn remembered(world: &World) -> i64 {
    let path = world.path("state/agent/main.db");
    let sql = "SELECT count(*) FROM compared WHERE pass = 'contradictions'";
    open(&path).query_row(sql, [], |row| row.get(0)).unwrap()
}

fn queued(night: &Output) -> Value {
    night.pass("contradictions")["applied"].clone()
}

#[test]
fn what_disagrees_is_asked_about_once_and_stays() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let eats = say(&mut world, "ana", now() - 3 * DAY, "Ana eats meat");
        let not = say(&mut world, "ana", now() - 2 * DAY, "Ana does not eat meat");
        set(&world, not, "memory_type", "preference");
        let two = say(&mut world, "ana", now() - 3 * DAY, "Ana has two cats");
        let three = say(&mut world, "ana", now() - DAY, "Ana has three cats");
        say(&mut world, "ana", now() - DAY, "Ana plays the harp");
        // Nobody's else memory is looked at, and none from another week.
        say(&mut world, "bea", now() - 2 * DAY, "Ana does not eat meat");
        say(&mut world, "bea", now() - 20 * DAY, "Bea has two dogs");
        say(&mut world, "bea", now() - 10 * DAY, "Bea has three dogs");
        let (rows, points) = (world.dump(), world.all_points());

        let dry = world.run(&["--dry-run", "--json"]).expect(0);
        let plan = dry.plan("contradictions");
        assert_eq!(plan["planned"], json!({"queue": 2}), "{dry:#?}");
        assert_eq!(plan["actions"][0]["kind"], "contradiction");
        assert!(plan["actions"][0]["reason"]["contradiction"]["score"].as_u64() >= Some(40));

        let night = world.night().expect(0);
        assert_eq!(queued(&night), json!({"queue": 2}), "{night:#?}");
        assert_eq!(night.pass("contradictions")["residue"], json!({}));
        let expected = BTreeSet::from([vec![eats, not], vec![two, three]]);
        assert_eq!(asked(&world), expected);
        assert_eq!(remembered(&world), 8, "all was compared");
        let _ = world.night().expect(0).all_passes("idle");
        assert_eq!(asked(&world), expected);
        assert_eq!((world.dump(), world.all_points()), (rows, points));
        let why = world.run(&["why", &not.to_string()]).expect(0);
        assert!(why.stdout.contains("contradiction, score"), "{why:#?}");
    }
}

/// Whoever asks by the owner alone finds both, and cannot tell which of them holds; the person who is asked can.
#[test]
fn two_agents_of_one_user_are_asked_about_with_their_contexts() {
    let mut world = world(Backend::Sqlite);
    let sql = "ALTER TABLE memories ADD COLUMN asked_by";
    world.rows().execute_batch(sql).unwrap();
    world.configure(
        "preset = \"ttl-days\"",
        "preset = \"ttl-days\"\ncontext = \"asked_by\"",
    );
    let eats = say(&mut world, "ana", now() - 3 * DAY, "Ana eats meat");
    let not = say(&mut world, "ana", now() - 2 * DAY, "Ana does not eat meat");
    let agents = [r#"{"agent_id": "a"}"#, r#"{"agent_id": "b"}"#];
    for (id, agent) in [eats, not].into_iter().zip(agents) {
        set(&world, id, "asked_by", agent);
    }
    world.night().expect(0);
    assert_eq!(asked(&world), BTreeSet::from([vec![eats, not]]));
    let contexts = |world: &World| -> Vec<Value> {
        let memories = entries(world)[0]["memories"].as_array().unwrap().clone();
        memories.iter().map(|one| one["context"].clone()).collect()
    };
    assert_eq!(contexts(&world), agents);
    let shown = |world: &World| {
        let text = world.run(&["review"]).expect(0).stdout;
        text.matches("context").count()
    };
    assert_eq!(shown(&world), 2);
    // Where all are asked by alike there is nothing to tell apart.
    set(&world, not, "asked_by", agents[0]);
    assert_eq!(contexts(&world), [agents[0], agents[0]]);
    assert_eq!(shown(&world), 0);
}

#[test]
fn the_edge_of_the_window_is_within_it() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let then = now() - 30 * DAY;
        let one = say(&mut world, "ana", then, "The shop sells bread");
        let other = say(
            &mut world,
            "ana",
            then + 7 * DAY,
            "The shop does not sell bread",
        );
        say(&mut world, "bea", then, "The shop sells bread");
        say(
            &mut world,
            "bea",
            then + 7 * DAY + 1,
            "The shop does not sell bread",
        );
        world.night().expect(0);
        assert_eq!(asked(&world), BTreeSet::from([vec![one, other]]));
        // A wider window is another question: all is compared anew.
        world.configure(
            "[pass.contradictions]\nenabled = true",
            "[pass.contradictions]\nenabled = true\nwindow = \"8d\"",
        );
        let night = world.night().expect(0);
        assert_eq!(queued(&night), json!({"queue": 1}), "{night:#?}");
        let _ = world.night().expect(0).all_passes("idle");
    }
}

#[test]
fn what_changes_is_asked_about_again_and_what_was_answered_is_not() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let eats = say(&mut world, "ana", now() - 3 * DAY, "Ana eats meat");
        let not = say(&mut world, "ana", now() - 2 * DAY, "Ana does not eat meat");
        world.night().expect(0);
        let first = entries(&world)[0]["entry"].to_string();

        set(&world, not, "content", "Ana does not eat any meat");
        let night = world.night().expect(0);
        assert_eq!(queued(&night), json!({"queue": 1}), "{night:#?}");
        assert_eq!(night.pass("review")["applied"], json!({"close": 1}));
        let again = entries(&world);
        assert_eq!(again.len(), 1);
        assert_eq!(ids(&again[0]), [eats, not]);
        let second = again[0]["entry"].to_string();
        assert_ne!(first, second);

        world.run(&["review", "keep", &second]).expect(0);
        set(&world, not, "last_used_at", now());
        let _ = world.night().expect(0).all_passes("idle");
        // Compared anew at another threshold, and answered all the same.
        world.configure(
            "[pass.contradictions]\nenabled = true",
            "[pass.contradictions]\nenabled = true\nthreshold = 39",
        );
        let _ = world.night().expect(0).all_passes("idle");
        assert!(asked(&world).is_empty());

        // A third memory disagrees with the first as well: another pair.
        let never = say(&mut world, "ana", now() - DAY, "Ana never eats meat");
        world.night().expect(0);
        assert_eq!(asked(&world), BTreeSet::from([vec![eats, never]]));
    }
}

#[test]
fn the_order_of_the_rows_makes_no_difference() {
    let memories = [
        (0, "The door of the shed is open"),
        (1, "The door of the shed is closed"),
        (2, "The shed has two windows"),
        (2, "The shed has three windows"),
        (3, "The shed has four windows"),
        (3, "There is no window in the shed"),
        (4, "The shed is empty"),
        (5, "The shed is full"),
    ];
    let texts_asked = |order: &[usize]| {
        let mut world = world(Backend::Sqlite);
        let then = now() - 6 * DAY;
        for at in order {
            let (day, text) = memories[*at];
            say(&mut world, "ana", then + day * DAY, text);
        }
        world.night().expect(0);
        let texts = entries(&world).into_iter().map(|entry| {
            let memories = entry["memories"].as_array().unwrap().iter();
            let texts = memories.map(|memory| memory["text"].as_str().unwrap().to_owned());
            (texts.collect::<BTreeSet<_>>(), entry["reason"].to_string())
        });
        texts.collect::<BTreeSet<_>>()
    };
    let first = texts_asked(&[0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(first.len() >= 4, "{first:#?}");
    for order in [[7, 6, 5, 4, 3, 2, 1, 0], [3, 7, 0, 4, 6, 1, 5, 2]] {
        assert_eq!(texts_asked(&order), first, "{order:?}");
    }
}

#[test]
fn a_night_for_each_memory_asks_what_one_night_for_all_does() {
    let texts = [
        "Ana drinks coffee after dinner",
        "Ana has a red bicycle",
        "Ana does not drink coffee after dinner",
        "Ana has a blue bicycle",
        "Ana owns three bicycles",
        "Ana owns four bicycles",
    ];
    let mut world = world(Backend::Sqlite);
    for (at, text) in (0..).zip(texts) {
        // The newest is not always the one written last.
        say(&mut world, "ana", now() - (at * 3 % 6) * DAY, text);
        world.night().expect(0);
    }
    let one_by_one = asked(&world);
    assert!(one_by_one.contains(&vec![1, 3]) && one_by_one.contains(&vec![5, 6]));
    std::fs::remove_dir_all(world.path("state")).unwrap();
    world.night().expect(0);
    assert_eq!(asked(&world), one_by_one);
}

#[test]
fn without_vectors_texts_are_compared_and_the_pass_says_so() {
    let mut world = world(Backend::Sqlite);
    let vectors = world.vectors_config();
    world.configure(&vectors, "[store.vectors]\nkind = \"none\"\n");
    let open = say(
        &mut world,
        "ana",
        now() - 2 * DAY,
        "The office door is open",
    );
    let closed = say(&mut world, "ana", now() - DAY, "The office door is closed");
    let night = world.night().expect(0);
    let degraded = night.pass("contradictions")["degraded"].clone();
    assert!(
        degraded[0].as_str().unwrap().contains("no vectors"),
        "{night:#?}"
    );
    assert_eq!(asked(&world), BTreeSet::from([vec![open, closed]]));
    let _ = world.night().expect(0).all_passes("idle");

    // With vectors, all is looked at again, and nothing asked twice.
    world.configure("[store.vectors]\nkind = \"none\"\n", &vectors);
    let _ = world.night().expect(0).all_passes("idle");
    assert_eq!(remembered(&world), 2);
}

#[test]
fn a_vector_without_a_direction_counts_as_none() {
    let mut world = world(Backend::Sqlite);
    let mut vectors: Vec<Vec<f32>> = Vec::new();
    for (at, number) in (1..).zip([0.0, f32::NAN, f32::INFINITY]) {
        let text = [
            "Ana likes tea",
            "The harbour is old",
            "Bread is on the shelf",
        ][at - 1];
        say(&mut world, "ana", now() - DAY, text);
        vectors.push(vec![number; DIM.into()]);
    }
    let put = |world: &World, vectors: &[Vec<f32>]| {
        let points = (1..).zip(vectors);
        let points = points.map(|(id, vector)| ("user:ana".to_owned(), id, vector.clone()));
        world.put_vectors(&points.collect::<Vec<_>>());
    };
    let compared = |world: &World| -> BTreeSet<Vec<u8>> {
        let db = open(&world.path("state/agent/main.db"));
        let sql = "SELECT fingerprint FROM compared WHERE pass = 'contradictions'";
        let mut read = db.prepare(sql).unwrap();
        let prints = read.query_map([], |row| row.get(0)).unwrap();
        prints.map(Result::unwrap).collect()
    };
    put(&world, &vectors);
    let _ = world.night().expect(0);
    let without = compared(&world);
    assert_eq!((without.len(), asked(&world)), (3, BTreeSet::new()));
    let _ = world.night().expect(0);
    assert_eq!(compared(&world), without);

    // Embedded anew, each is compared anew.
    put(&world, &[1, 2, 3].map(vector));
    let _ = world.night().expect(0);
    let with = compared(&world);
    assert!(with.len() == 3 && with.is_disjoint(&without));
}

#[test]
fn equal_vectors_merge_nothing_that_disagrees() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let mut pairs = BTreeSet::new();
        for (yes, no) in [
            (
                "Ana usa Docker no trabalho",
                "Ana não usa Docker no trabalho",
            ),
            (
                "The service listens on port 8080",
                "The service listens on port 9090",
            ),
            ("Ana has two children", "Ana has three children"),
        ] {
            let one = say(&mut world, "ana", now() - 2 * DAY, yes);
            let other = say(&mut world, "ana", now() - DAY, no);
            world.put_as("user:ana", other, one);
            pairs.insert(vec![one, other]);
        }
        let rows = world.dump();
        world.night().expect(0);
        assert_eq!(world.dump(), rows);
        assert!(asked(&world).is_superset(&pairs), "{:?}", asked(&world));
        let _ = world.night().expect(0).all_passes("idle");
    }
}

#[test]
fn a_memory_without_a_readable_time_is_in_no_window() {
    let mut world = world(Backend::Sqlite);
    for (value, food) in [("soon", "meat"), ("", "fish")] {
        say(&mut world, "ana", now() - DAY, &format!("Ana eats {food}"));
        let not = format!("Ana does not eat {food}");
        let undated = say(&mut world, "ana", now() - DAY, &not);
        set(&world, undated, "created_at", value);
    }
    let night = world.night().expect(0);
    let pass = night.pass("contradictions");
    assert_eq!(pass["outcome"], "idle", "{night:#?}");
    assert_eq!(pass["findings"]["unreadable"], 1, "{night:#?}");
    assert_eq!(pass["findings"]["undated"], 1, "{night:#?}");
}

#[test]
fn a_dry_run_asks_nothing_about_what_earlier_passes_would_take() {
    let mut world = world(Backend::Sqlite);
    world.user("eve", Some(now() - DAY));
    say(&mut world, "eve", now() - 3 * DAY, "Eve eats meat");
    say(&mut world, "eve", now() - 2 * DAY, "Eve does not eat meat");
    let dry = world.run(&["--dry-run", "--json"]).expect(0);
    assert_eq!(dry.plan("orphans")["planned"]["delete"], 2, "{dry:#?}");
    assert_eq!(dry.plan("contradictions")["planned"], json!({}), "{dry:#?}");
    let only = world
        .run(&["--dry-run", "--json", "--only", "contradictions"])
        .expect(0);
    assert_eq!(only.plan("contradictions")["planned"], json!({"queue": 1}));
}

#[test]
fn a_night_that_is_cut_off_is_made_up_for() {
    for step in ["queue.before", "queue.written"] {
        for action in ["kill", "error"] {
            let story = format!("{action} at {step}");
            let mut world = world(Backend::Sqlite);
            let eats = say(&mut world, "ana", now() - 3 * DAY, "Ana eats meat");
            let not = say(&mut world, "ana", now() - 2 * DAY, "Ana does not eat meat");
            let cut = world.night_with(&format!("{step}=1*return({action})"));
            assert_ne!(cut.code, Some(0), "{story}");
            assert_eq!(remembered(&world), 0, "{story}: nothing is settled");
            world.night().expect(0);
            assert_eq!(asked(&world), BTreeSet::from([vec![eats, not]]), "{story}");
            assert_eq!(remembered(&world), 2, "{story}");
            let _ = world.night().expect(0).all_passes("idle");
        }
    }
}

#[test]
fn a_flood_waits_until_some_of_it_is_answered() {
    let mut world = world(Backend::Sqlite);
    let flood = (11..41).map(|count| format!("Ana has {count} hens in the yard"));
    for text in flood {
        say(&mut world, "ana", now() - DAY, &text);
    }
    let most = hypnos::pass::contradictions::OPEN;
    let night = world.night().expect(0);
    assert_eq!(queued(&night), json!({"queue": most}), "{night:#?}");
    let degraded = night.pass("contradictions")["degraded"].clone();
    assert!(
        degraded[0].as_str().unwrap().contains("to be answered"),
        "{night:#?}"
    );
    let _ = world.night().expect(0).all_passes("idle");
    let entry = entries(&world)[0]["entry"].to_string();
    world.run(&["review", "keep", &entry]).expect(0);
    let night = world.night().expect(0);
    assert_eq!(queued(&night), json!({"queue": 1}), "{night:#?}");
    assert_eq!(asked(&world).len(), most);
}

#[test]
fn every_contradiction_of_the_demo_is_asked_about_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Output::of(hypnos().current_dir(dir.path()).args(args));
    let _ = run(&["demo"]).expect(0);
    let review = [
        "--config",
        "hypnos-demo/hypnos.toml",
        "review",
        "--json",
        "--kind",
        "contradiction",
    ];
    let queue = run(&review).expect(0).objects("entry");
    let asked: BTreeSet<Vec<i64>> = queue.iter().map(ids).collect();
    let planted = hypnos::demo::planted().contradictions;
    let planted = planted.into_iter().map(|pair| {
        let mut ids = vec![pair.older.id, pair.newer.id];
        ids.sort_unstable();
        ids
    });
    assert_eq!(asked, planted.collect(), "{queue:#?}");
    let _ = run(&["demo", "--json"]).expect(0).all_passes("idle");
}
