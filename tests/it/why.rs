//! The life of a memory: what its row says, what the passes think, and what was done.

use rusqlite::params;
use serde_json::Value;

use crate::support::{BACKENDS, Backend, DAY, World, now, point_id};

fn world(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nenabled = true",
    );
    world.user("ana", None);
    world.user("bea", None);
    world
}

fn life(world: &World, id: i64, code: i32) -> Value {
    let told = world.run(&["why", &id.to_string(), "--json"]).expect(code);
    let mut lives = told.objects("why");
    assert_eq!(lives.len(), 1, "{told:#?}");
    lives.remove(0)
}

fn opinion<'a>(life: &'a Value, pass: &str) -> &'a Value {
    let passes = life["passes"].as_array().unwrap();
    &passes
        .iter()
        .find(|opinion| opinion["pass"] == pass)
        .unwrap()["actions"]
}

#[test]
fn a_live_memory_tells_its_times_its_strength_and_its_point() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let id = world.memory("ana", now() - 100 * DAY, Some(365));
        let told = life(&world, id, 0);
        assert_eq!(told["namespace"], "user:ana");
        let memory = &told["memory"];
        assert_eq!(memory["text"], format!("canary ana {id}"));
        let created: jiff::Timestamp = memory["created_at"].as_str().unwrap().parse().unwrap();
        let days = |later: &Value| -> f64 {
            let later: jiff::Timestamp = later.as_str().unwrap().parse().unwrap();
            later.duration_since(created).as_secs_f64() / 86_400.0
        };
        assert!((days(&memory["deadline"]) - 365.0).abs() < 1e-6);
        // ln 20 times 90 days.
        assert!(
            (days(&memory["fades_at"]) - 269.6159).abs() < 0.001,
            "{told}"
        );
        let strength = memory["strength"].as_f64().unwrap();
        assert!(
            (strength - (-100.0_f64 / 90.0).exp()).abs() < 1e-4,
            "{told}"
        );
        assert_eq!(memory["hidden"], false);
        assert_eq!(told["point"]["state"], "present");
        assert_eq!(
            told["point"]["ids"][0],
            point_id("user:ana", id).to_string()
        );
        assert_eq!(opinion(&told, "ttl"), &serde_json::json!([]));
        assert_eq!(opinion(&told, "review")[0]["kind"], "stale");
        assert_eq!(told["history"], serde_json::json!([]));
        let text = world.run(&["why", &id.to_string()]).expect(0);
        for said in ["canary ana", "present", "would: queue", "leaves it alone"] {
            assert!(text.stdout.contains(said), "{said}: {text:#?}");
        }
        assert!(!world.path("state").exists(), "nothing is written");
    }
}

#[test]
fn a_memory_that_is_gone_is_told_by_the_journal() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let expired = world.memory("ana", now() - 40 * DAY, Some(7));
        let hidden = world.memory("ana", now() - 50 * DAY, None);
        world.memory("ana", now(), None);
        world
            .rows()
            .execute(
                "UPDATE memories SET superseded_by = ?1 WHERE id = ?2",
                [expired, hidden],
            )
            .unwrap();
        let before = life(&world, hidden, 0);
        assert_eq!(before["memory"]["hidden"], true);
        assert_eq!(before["memory"]["superseded_by"], expired.to_string());
        assert_eq!(opinion(&before, "ttl")[0]["behind"][0], hidden.to_string());
        let night = world.night().expect(0);
        let told = life(&world, expired, 0);
        assert_eq!(told["memory"], Value::Null);
        assert_eq!(told["namespace"], "user:ana");
        let deed = &told["history"][0];
        assert_eq!(
            (&deed["action"], &deed["outcome"], &deed["pass"]),
            (&"delete".into(), &"done".into(), &"ttl".into())
        );
        assert_eq!(deed["run"], night.objects("run")[0]["run"]);
        let with = life(&world, hidden, 0);
        assert_eq!(with["history"][0]["with"], expired.to_string());
    }
}

#[test]
fn answers_are_part_of_a_life() {
    let mut world = world(Backend::Sqlite);
    let id = world.memory("ana", now() - 200 * DAY, None);
    world.night().expect(0);
    world.run(&["review", "forget", "1"]).expect(0);
    let told = life(&world, id, 0);
    assert_eq!(told["entries"][0]["answer"], "forgotten");
    assert_eq!(told["history"][0]["reason"]["answered"]["entry"], 1);
}

#[test]
fn what_nobody_ever_knew_is_said_to_be_unknown() {
    let mut world = world(Backend::Sqlite);
    let id = world.memory("ana", now(), None);
    for args in [
        &["why", "999"][..],
        &["why", "no such thing"],
        &["why", &id.to_string(), "--namespace", "user:bea"],
    ] {
        let unknown = world.run(args).expect(2);
        assert!(unknown.stderr.contains("no memory"), "{unknown:#?}");
    }
    world
        .run(&["why", &id.to_string(), "--namespace", "bea"])
        .expect(2);
    world.run(&["why", "1", "--store", "other"]).expect(2);
    let known = world.run(&["why", &id.to_string(), "--namespace", "user:ana"]);
    let _ = known.expect(0);
}

#[test]
fn a_memory_without_its_point_says_so() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let id = world.row("ana", now(), None);
        world.ghost("user:ana");
        assert_eq!(life(&world, id, 0)["point"]["state"], "missing");
    }
}

#[test]
fn a_memory_tells_its_context_as_it_is_written() {
    let mut world = world(Backend::Sqlite);
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN asked_by")
        .unwrap();
    world.configure(
        "preset = \"ttl-days\"",
        "preset = \"ttl-days\"\ncontext = \"asked_by\"",
    );
    let agent: &str = r#"{"agent_id": "a", "run": null}"#;
    let odd: &[u8] = &[0xff, 0xfe];
    let values: [(&dyn rusqlite::ToSql, Value); 5] = [
        (&agent, agent.into()),
        (&7, "7".into()),
        (&"{}", Value::Null),
        (&rusqlite::types::Null, Value::Null),
        (&odd, "unreadable".into()),
    ];
    for (value, expected) in values {
        let id = world.memory("ana", now(), None);
        let sql = "UPDATE memories SET asked_by = ?2 WHERE id = ?1";
        world.rows().execute(sql, params![id, value]).unwrap();
        let told = life(&world, id, 0);
        assert_eq!(told["memory"]["context"], expected, "{told}");
        let text = world.run(&["why", &id.to_string()]).expect(0);
        let line = text
            .stdout
            .lines()
            .find(|line| line.trim().starts_with("context"));
        let said = line.map(|line| line.trim().trim_start_matches("context").trim());
        assert_eq!(said, expected.as_str(), "{text:#?}");
    }
}
