//! `status`: it says that all is well only when the last night was good and not long ago, and why it was not.

use rusqlite::params;
use serde_json::Value;

use crate::support::{Backend, DAY, Output, World, now, write};

fn world() -> World {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now(), None);
    world
}

/// What it says to people, and to programs.
fn status(world: &World, args: &[&str]) -> (String, Value) {
    let args = [&["status"], args].concat();
    let text = world.run(&args).expect(0).stdout;
    let json = world.run(&[&args[..], &["--json"]].concat()).expect(0);
    (text, json.objects("status").remove(0))
}

fn attention(status: &Value) -> Vec<&str> {
    let attention = status["attention"].as_array().unwrap().iter();
    attention.map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn a_store_without_a_night_and_one_after_a_good_one() {
    let world = world();
    let (text, json) = status(&world, &[]);
    assert!(
        text.contains("needs attention; last good run: never"),
        "{text}"
    );
    assert_eq!(attention(&json), ["no run of all passes yet"]);
    world.night().expect(0);
    let (text, json) = status(&world, &[]);
    assert!(
        text.contains("all is well; last good run: 0 min ago"),
        "{text}"
    );
    assert_eq!(attention(&json), [""; 0]);
}

#[test]
fn a_night_that_found_no_store_is_told_with_its_cause() {
    let world = world();
    world.night().expect(0);
    std::fs::rename(world.path("memory.db"), world.path("away.db")).unwrap();
    world.night().expect(10);
    let (text, json) = status(&world, &[]);
    let told = attention(&json);
    assert!(told[0].starts_with("the last run failed: "), "{json:#}");
    assert!(told[0].contains("memory.db"), "{json:#}");
    assert!(
        text.contains(told[0]) && !text.contains("all is well"),
        "{text}"
    );
    assert!(
        json["runs"][0]["error"]
            .as_str()
            .unwrap()
            .contains("memory.db")
    );
}

#[test]
fn a_pass_that_failed_is_told_with_its_cause() {
    let mut world = world();
    world.configure(
        "[pass.snapshot]\nenabled = false",
        "[pass.snapshot]\nenabled = true",
    );
    let night = world
        .night_with("pair.points_copied=return(error)")
        .expect(1);
    let cause = night.pass("snapshot")["error"].as_str().unwrap().to_owned();
    let (text, json) = status(&world, &[]);
    assert_eq!(
        attention(&json),
        [
            format!("the last run failed: snapshot: {cause}").as_str(),
            "no run of all passes has left nothing over yet"
        ]
    );
    let line = text.lines().find(|line| line.starts_with("    snapshot"));
    assert!(line.unwrap().ends_with(&cause), "{text}");
}

#[test]
fn silence_is_not_well() {
    let world = world();
    world.night().expect(0);
    for (days, told) in [
        (1, None),
        (
            60,
            Some("no good run for 60 d: is the daemon or the timer on?"),
        ),
    ] {
        write(&world.path("clock"), &(days * DAY).to_string());
        let mut command = world.command(&["status", "--json"]);
        command.env("HYPNOS_TEST_CLOCK", world.path("clock"));
        let json = Output::of(&mut command)
            .expect(0)
            .objects("status")
            .remove(0);
        assert_eq!(attention(&json), told.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_run_of_some_passes_is_no_night() {
    let world = world();
    world.run(&["--run-now", "--only", "ttl"]).expect(0);
    let (text, json) = status(&world, &[]);
    assert_eq!(attention(&json), ["no run of all passes yet"]);
    assert!(text.contains("--run-now --only ttl"), "{text}");
    assert_eq!(json["last_success"], Value::Null);
}

#[test]
fn what_people_do_after_a_night_does_not_hide_it() {
    let world = world();
    let night = world.night().expect(0).objects("run")[0]["run"].clone();
    for _ in 0..6 {
        world.run(&["snapshot", "now"]).expect(0);
    }
    for (args, listed) in [(&[][..], 6), (&["--runs", "2"], 3), (&["--runs", "100"], 7)] {
        let (text, json) = status(&world, args);
        let runs = json["runs"].as_array().unwrap();
        assert_eq!(runs.len(), listed, "{json:#}");
        assert_eq!(runs[listed - 1]["run"], night, "{json:#}");
        assert_eq!(attention(&json), [""; 0], "{json:#}");
        assert!(
            text.contains("snapshot now") && text.contains("--run-now"),
            "{text}"
        );
        assert!(!text.contains("-0.00"), "{text}");
        assert!(
            text.contains("    ttl "),
            "the night is shown in full: {text}"
        );
    }
    world.run(&["status", "--runs", "0"]).expect(2);
}

#[test]
fn what_has_gone_is_not_settling_and_what_settles_is_counted_as_the_run_does() {
    let mut world = world();
    for _ in 0..3 {
        world.ghost("user:ana");
    }
    let night = world.night().expect(0);
    assert_eq!(night.pass("orphans")["applied"]["drop_point"], 3);
    assert_eq!(status(&world, &[]).1["settling"], 0);

    world.configure("settle = \"0s\"", "settle = \"20h\"");
    world.configure(
        "deleted_at = \"deleted_at\"",
        "deleted_at = \"deleted_at\"\nabsent = \"remove\"",
    );
    for _ in 0..5 {
        world.memory("gone", now(), None);
    }
    world.ghost("user:ana");
    let night = world.night().expect(0);
    let (text, json) = status(&world, &[]);
    let settling = &night.pass("orphans")["findings"]["settling"];
    assert!(settling.as_u64().unwrap() > 5, "{night:#?}");
    assert_eq!(&json["settling"], settling);
    let line = format!("settling   {settling} absences wait to be seen again");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn of_an_owner_who_was_forgotten_no_cause_tells() {
    let mut world = world();
    world.night().expect(0);
    let state = world.path("state/agent/main.db");
    let db = crate::support::open(&state);
    for table in ["runs", "passes"] {
        let sql = format!("UPDATE {table} SET error = ?1");
        db.execute(&sql, params!["open users/ana/memory.db"])
            .unwrap();
    }
    drop(db);
    world.user("bea", None);
    world.memory("bea", now(), None);
    world.run(&["forget", "user:ana", "--yes"]).expect(0);
    let (text, json) = status(&world, &[]);
    assert!(!format!("{text}{json}").contains("users/ana"), "{text}");
    assert_eq!(json["runs"][1]["error"], "(forgotten)");
}
