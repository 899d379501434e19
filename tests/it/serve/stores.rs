//! Several stores, those that fail or are away, and what comes due meanwhile.

use super::*;

/// A second store of the same content.
fn add_store(world: &mut World, name: &str) {
    for file in ["memory", "vectors"] {
        let db = crate::support::open(&world.path(&format!("{file}.db")));
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
        std::fs::copy(
            world.path(&format!("{file}.db")),
            world.path(&format!("{file}-{name}.db")),
        )
        .unwrap();
    }
    let at = world.config.find("[[store]]").unwrap();
    let store = world.config[at..]
        .replace("\"agent\"", &format!("\"{name}\""))
        .replace("memory.db", &format!("memory-{name}.db"))
        .replace("vectors.db", &format!("vectors-{name}.db"));
    world.config += &store;
    world.write_config();
}

fn ids_of(world: &World, store: &str) -> Vec<i64> {
    let db = crate::support::open(&world.path(&format!("memory-{store}.db")));
    let mut read = db.prepare("SELECT id FROM memories ORDER BY id").unwrap();
    let ids = read.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

#[test]
fn a_poisoned_store_fails_alone_and_the_daemon_lives() {
    let mut world = at_two(NIGHTLY);
    add_store(&mut world, "other");
    let mut daemon = world.daemon_with("rows.before=1*panic(canary)", &[]);
    world.set_clock(1);
    daemon.logged("run ended");
    daemon.told("last run failed (exit 1)");
    assert_eq!(ids_of(&world, "other"), [2]);
    assert_eq!(daemon.get("/healthz").0, 200);
    let log = daemon.log();
    assert!(log.contains("panicked") && !log.contains("canary"), "{log}");
    assert!(
        !log.contains("tried again"),
        "a bug does not go away: {log}"
    );

    let run = &runs(&world, "agent")[0];
    let passes: Vec<(&str, &str)> = run["passes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pass| {
            (
                pass["pass"].as_str().unwrap(),
                pass["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(run["outcome"], "failed");
    assert_eq!(passes[0], ("ttl", "failed"));
    assert!(
        passes[1..].iter().all(|(_, outcome)| *outcome == "skipped"),
        "{passes:?}"
    );

    // The next night finishes what was begun.
    world.set_clock(DAY + 1);
    daemon.logged_times("run ended", 2);
    assert_eq!(world.ids(), [2].into());
    assert_eq!(world.ids(), world.point_rows());
}

#[test]
fn a_panic_in_a_single_run_is_exit_1_and_the_other_stores_are_done() {
    let mut world = at_two(NIGHTLY);
    add_store(&mut world, "other");
    // In a pass, while what that had begun is finished, and before either.
    for point in ["rows.before", "settle.before", "run.begun"] {
        let run = world
            .night_with(&format!("{point}=1*panic(canary)"))
            .expect(1);
        assert!(run.stderr.contains("panicked"), "{point}: {run:#?}");
        assert!(
            !run.stderr.contains("canary") && !run.stdout.contains("canary"),
            "{run:#?}"
        );
        assert_eq!(ids_of(&world, "other"), [2], "{point}");
    }
    world.night().expect(0);
    assert_eq!(world.ids(), [2].into());
}

#[test]
fn runs_never_overlap_and_what_comes_due_meanwhile_runs_once_after() {
    let world = at_two("cron = \"* * * * *\"");
    let mut daemon = world.daemon_with("run.begun=1*return(hold)", &[]);
    world.set_clock(-HOUR + 61);
    daemon.told("STATUS=running since");
    daemon.wait("the hold", |_| world.is_held());
    let due = next_run(&daemon);
    for minute in 2..4 {
        world.set_clock(-HOUR + minute * 60 + 1);
        daemon.idle();
    }
    daemon.logged("it starts when that has ended");
    assert!(!daemon.log().contains("run ended"), "it is held");
    assert_eq!(next_run(&daemon), due, "it is at work since");
    world.let_go();
    daemon.logged_times("run ended", 2);
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 2);
    assert_eq!(next_run(&daemon), due + 3 * 60);
    world.set_clock(-HOUR + 5 * 60);
    daemon.logged_times("run ended", 3);
    assert!(!daemon.log().contains("holds the lock"), "{}", daemon.log());
}

#[test]
fn a_catch_up_of_one_store_does_not_take_the_night_of_another() {
    let mut world = at_two(NIGHTLY);
    world.night().expect(0);
    add_store(&mut world, "other");
    world.set_clock(DAY - HOUR);
    let mut daemon = world.daemon_with("run.begun=1*return(hold)", &[]);
    daemon.logged("a run was missed");
    daemon.wait("the hold", |_| world.is_held());
    world.set_clock(DAY + 1);
    daemon.logged("it starts when that has ended");
    world.let_go();
    daemon.logged_times("run ended", 2);
    assert_eq!(runs(&world, "other").len(), 1);
    daemon.idle();
    assert_eq!(next_run(&daemon) % DAY, 3 * HOUR);
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn a_run_over_its_budget_is_asked_to_end_and_one_that_hangs_is_given_up() {
    let mut world = at_two("cron = \"0 3 * * *\"\nmax_run = \"8s\"\nretry_for = \"0s\"");
    add_store(&mut world, "other");
    let mut daemon = world.daemon_with("points.before=1*sleep(600000)", &[]);
    world.set_clock(1);
    daemon.logged("longer than schedule.max_run");
    daemon.logged("given up");
    daemon.wait("the sickness", |daemon| {
        daemon.get("/healthz") == (503, "a run hangs\n".into())
    });
    // What it was fed before that may be heard a little later.
    let fed = |daemon: &Daemon| daemon.notes().matches("WATCHDOG=1").count();
    daemon.wait("the watchdog to starve", |daemon| {
        let before = fed(daemon);
        std::thread::sleep(Duration::from_millis(600));
        fed(daemon) == before
    });

    // The schedule goes on, here with more time on a busy machine: the other store is done, this one is locked by the run that hangs.
    world.configure("max_run = \"8s\"", "max_run = \"1h\"");
    daemon.send(Signal::HUP);
    daemon.logged("was read again");
    world.set_clock(DAY + 1);
    daemon.logged("run ended");
    assert_eq!(ids_of(&world, "other"), [2]);
    assert!(daemon.log().contains("holds the lock"), "{}", daemon.log());
    assert_eq!(world.ids().len(), 2);
    assert_eq!(daemon.end(), Some(0), "it does not keep the process");
}

#[test]
fn a_store_that_is_away_is_tried_again_and_shows() {
    let world = at_two("cron = \"0 3 * * *\"\nretry_for = \"5m\"");
    let mut daemon = world.daemon();
    world.set_clock(1);
    daemon.logged("run ended");
    std::fs::rename(world.path("vectors.db"), world.path("away.db")).unwrap();
    daemon.wait("the store to be missed", |daemon| {
        daemon.get("/readyz") == (503, "store agent: not reachable\n".into())
    });
    assert_eq!(daemon.get("/healthz").0, 200);
    world.set_clock(DAY + 1);
    daemon.logged("away: tried again later");
    daemon.told("to be tried again: agent");
    daemon.idle();
    std::fs::rename(world.path("away.db"), world.path("vectors.db")).unwrap();
    daemon.logged_times("run ended", 3);
    assert_eq!(runs(&world, "agent")[0]["outcome"], "idle");
    daemon.wait("the store to be found", |daemon| {
        daemon.get("/readyz").0 == 200
    });
}

#[test]
fn a_store_that_stays_away_is_skipped_for_that_night() {
    let world = at_two("cron = \"0 3 * * *\"\nretry_for = \"2s\"");
    world.night().expect(0);
    std::fs::rename(world.path("vectors.db"), world.path("away.db")).unwrap();
    let mut daemon = world.daemon();
    world.set_clock(1);
    daemon.logged("for all of schedule.retry_for");
    daemon.told("last run skipped (exit 3)");
    let run = &runs(&world, "agent")[0];
    assert_eq!(
        (&run["outcome"], &run["exit"]),
        (&"skipped".into(), &3.into())
    );
    let passes = run["passes"].as_array().unwrap();
    assert!(!passes.is_empty() && passes.iter().all(|pass| pass["outcome"] == "skipped"));
    daemon.idle();
    let notes = daemon.notes();
    let status = notes.lines().rfind(|line| line.starts_with("STATUS="));
    assert!(!status.unwrap().contains("tried again"), "{status:?}");
}

#[test]
fn without_catch_up_a_missed_run_waits() {
    let mut world = at_two("cron = \"0 3 * * *\"\ncatch_up = false");
    world.night().expect(0);
    world.set_clock(HOUR);
    let mut daemon = world.daemon();
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 1);
    daemon.kill();
    world.configure("catch_up = false", "catch_up = true");
    let mut daemon = world.daemon();
    daemon.logged("run ended");
    assert_eq!(runs(&world, "agent").len(), 2);
}

/// What a person does by day is no reason to run by day: passes switched on, a run of some of them, an answer.
#[test]
fn only_a_night_that_did_not_happen_is_made_up_for() {
    let mut world = at_two(NIGHTLY);
    world.run(&["--run-now", "--only", "review"]).expect(0);
    world.set_clock(7 * HOUR);
    let mut daemon = world.daemon();
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 1, "there never was a night");
    // A run by hand beside the daemon makes it ready.
    daemon.wait("no night", |daemon| {
        daemon.get("/readyz") == (503, "store agent: no night yet\n".into())
    });
    world.set_clock(-HOUR);
    world.configure(
        "[pass.orphans]",
        "[pass.decay]\nenabled = false\n[pass.orphans]",
    );
    world.night().expect(0);
    daemon.wait("the run by hand to be seen", |daemon| {
        daemon.get("/readyz").0 == 200
    });
    daemon.kill();
    world.configure("[pass.decay]\nenabled = false\n", "");
    let mut daemon = world.daemon();
    daemon.idle();
    assert_eq!(runs(&world, "agent").len(), 2, "nothing was missed");
    assert_eq!(daemon.get("/readyz"), (200, "ok\n".into()));
}

#[test]
fn a_database_that_another_program_locks_is_tried_again_that_night() {
    let world = at_two("cron = \"0 3 * * *\"\nretry_for = \"30s\"");
    let mut daemon = world.daemon_with("rows.before=1*return(hold)", &[]);
    world.set_clock(1);
    daemon.wait("the hold", |_| world.is_held());
    let agent = crate::support::open(&world.path("memory.db"));
    agent.execute_batch("BEGIN IMMEDIATE").unwrap();
    world.let_go();
    daemon.logged("locked by another program: tried again later");
    assert!(
        daemon.log().contains("holds the database"),
        "{}",
        daemon.log()
    );
    daemon.told("to be tried again: agent");
    agent.execute_batch("ROLLBACK").unwrap();
    daemon.logged_times("run ended", 2);
    daemon.wait("the row to go", |_| world.ids() == [2].into());
}

#[test]
fn a_state_folder_that_cannot_be_used_is_said_and_not_taken_for_a_store_that_is_away() {
    let world = at_two(NIGHTLY);
    let mut daemon = world.daemon();
    world.set_clock(1);
    daemon.logged("run ended");
    daemon.wait("the night to be seen", |daemon| {
        daemon.get("/readyz").0 == 200
    });
    // A folder in the place of the lock.
    let lock = world.path("state/agent/lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    world.set_clock(DAY + 1);
    daemon.logged_times("run ended", 2);
    daemon.idle();
    assert!(!daemon.log().contains("tried again"), "{}", daemon.log());
    daemon.wait("it to be complained of", |daemon| {
        daemon.get("/readyz")
            == (
                503,
                "store agent: its last run could not be done, the log says why\n".into(),
            )
    });
}
