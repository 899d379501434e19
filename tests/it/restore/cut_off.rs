//! A restore that is cut off, written over, or given up.

use super::*;

/// A restore that is killed at a step.
fn killed(world: &World, pair: &str, at: &str) {
    let mut command = world.command(&["snapshot", "restore", pair]);
    let killed = Output::of(command.env("FAILPOINTS", format!("{at}=return(kill)")));
    assert_eq!(killed.code, None, "{killed:#?}");
}

/// What the next run says of a restore that was cut off, and the run's line.
fn next(world: &World, code: i32) -> (Value, Value) {
    // Not what would drop points without a row.
    let next = world.run(&["--run-now", "--only", "ttl", "--json"]);
    let run = next.expect(code).objects("run").pop().unwrap();
    (run["restores"][0].clone(), run)
}

#[test]
fn an_agent_that_comes_late_is_left_alone_and_nothing_stays_armed() {
    type Agent = fn(&mut World) -> Option<Connection>;
    let stays: Agent = |world| {
        let agent = world.rows();
        agent
            .query_row("SELECT count(*) FROM memories", [], |_| Ok(()))
            .unwrap();
        Some(agent)
    };
    let writes: Agent = |world| {
        world.memory("ana", now(), None);
        None
    };
    let cases = [
        (Backend::Sqlite, stays, "in use"),
        (Backend::Sqlite, writes, "was written to"),
        (Backend::Qdrant, writes, "was written to"),
    ];
    let steps = ["begun", "decided"].into_iter();
    for (step, (backend, agent, told)) in steps.flat_map(|step| cases.map(|case| (step, case))) {
        let mut world = world_on(backend);
        let pair = pair(&world);
        upset(&mut world);
        let restoring = world.held(
            &["snapshot", "restore", &pair],
            &format!("restore.{step}=1*return(hold)"),
        );
        let agent = agent(&mut world);
        let refused = restoring.let_go().expect(3);
        assert!(refused.stderr.contains(told), "{refused:#?}");
        assert!(!refused.stderr.contains("not finished"), "{refused:#?}");
        assert_eq!(left_overs(&world), [""; 0]);
        let before = state(&world);
        drop(agent);
        let (resumed, _) = next(&world, 0);
        assert_eq!(resumed, json!(null));
        assert_eq!(state(&world), before);
        restore(&world, &pair, &[]).expect(0);
    }
}

#[test]
fn what_the_agent_wrote_before_anything_was_replaced_takes_the_restore_back() {
    type Write = fn(&mut World);
    let row: Write = |world| {
        world
            .rows()
            .execute("UPDATE memories SET content = 'later' WHERE id = 3", [])
            .unwrap();
    };
    let both: Write = |world| {
        world.memory("ana", now(), None);
    };
    let point: Write = |world| world.point("user:ana", 3000);
    for backend in BACKENDS {
        for (write, mode) in [(row, "wal"), (row, "delete"), (both, "wal"), (point, "wal")] {
            let mut world = world_on(backend);
            world
                .rows()
                .pragma_update(None, "journal_mode", mode)
                .unwrap();
            let pair = pair(&world);
            world.memory("bob", now(), None);
            killed(&world, &pair, "restore.decided");
            write(&mut world);
            let before = state(&world);
            let (resumed, run) = next(&world, 3);
            assert_eq!(resumed["outcome"], "taken_back", "{run}");
            let reason = resumed["reason"].as_str().unwrap();
            assert!(reason.contains("was written to"), "{reason}");
            assert_eq!(state(&world), before, "{backend:?} {mode}");
            assert_eq!(left_overs(&world), [""; 0]);
            // What is asked for again has what was written in its safety pair.
            let line = restored(&restore(&world, &pair, &[]));
            let safety = line["safety_pair"].as_str().unwrap();
            restore(&world, safety, &[]);
            assert_eq!(state(&world), before, "{backend:?} {mode}");
        }
    }
}

#[test]
fn an_agent_that_is_open_takes_back_what_has_replaced_nothing() {
    let mut world = world();
    let pair = pair(&world);
    upset(&mut world);
    killed(&world, &pair, "restore.decided");
    let agent = Connection::open(world.path("vectors.db")).unwrap();
    agent
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .unwrap();
    let before = state(&world);
    let (resumed, run) = next(&world, 3);
    assert_eq!(resumed["outcome"], "taken_back", "{run}");
    drop(agent);
    assert_eq!(state(&world), before);
    assert_eq!(left_overs(&world), [""; 0]);
}

#[test]
fn what_the_agent_wrote_between_the_halves_stays_or_is_kept_aside() {
    for backend in BACKENDS {
        let mut world = world_on(backend);
        let pair = pair(&world);
        upset(&mut world);
        killed(&world, &pair, "restore.switched");
        // To the new rows, and to the old points.
        let later = world.memory("ana", now(), None);
        let points = world.all_points();
        let (resumed, run) = next(&world, 3);
        assert_eq!(resumed["outcome"], "finished", "{run}");
        assert_eq!(world.ids(), [1, 2, 3, later].into());
        assert_eq!(world.point_rows(), [1, 2, 3].into());
        let kept = resumed["kept"].as_array().unwrap();
        assert_eq!(kept.len(), 1, "{run}");
        let kept = kept[0].as_str().unwrap();
        if backend == Backend::Sqlite {
            let [aside] = &left_overs(&world)[..] else {
                panic!("{:?}", left_overs(&world));
            };
            assert!(kept.ends_with(aside.as_str()), "{kept}");
            fs::rename(world.path(aside), world.path("vectors.db")).unwrap();
            assert_eq!(world.all_points(), points);
        } else {
            assert!(kept.contains("-hypnos-"), "{kept}");
        }
    }
}

#[test]
fn a_restore_that_is_pending_is_told() {
    let mut world = world();
    let pair = pair(&world);
    world.night().expect(0);
    upset(&mut world);
    let _ = world.run(&["status"]).expect(0);
    let mut command = world.command(&["snapshot", "restore", &pair]);
    let failed = Output::of(command.env("FAILPOINTS", "restore.switched=return(error)")).expect(1);
    for told in ["is not finished", "keep the agent stopped", "--run-now"] {
        assert!(failed.stderr.contains(told), "{failed:#?}");
    }
    let told = |world: &World, what: &str| {
        let status = world.run(&["status"]).expect(3);
        let is_told = |line: &str| line.trim_start().starts_with('!') && line.contains(what);
        assert!(status.stdout.lines().any(is_told), "{status:#?}");
        assert!(status.stdout.contains("needs attention"), "{status:#?}");
    };
    told(
        &world,
        &format!("the restore of pair {pair} is not finished"),
    );
    let journal = world.path("state/agent/restore.json");
    let text = fs::read(&journal).unwrap();
    fs::write(&journal, "garbage").unwrap();
    told(&world, "cannot be read");
    fs::write(&journal, text).unwrap();
    let (resumed, run) = next(&world, 0);
    assert_eq!(
        (&resumed["outcome"], &resumed["pair"]),
        (&json!("finished"), &json!(pair)),
        "{run}"
    );
    assert_eq!(resumed["kept"], json!(null));
    let _ = world.run(&["status"]).expect(0);
    killed(&world, &pair, "restore.staged");
    told(&world, "changed nothing: the next run discards it");
}

fn cancel(world: &World) -> Output {
    world.run(&["snapshot", "cancel", "--json"])
}

#[test]
fn a_restore_is_given_up_as_long_as_nothing_was_replaced() {
    for backend in BACKENDS {
        let mut world = world_on(backend);
        let pair = pair(&world);
        upset(&mut world);
        let before = state(&world);
        let nothing = cancel(&world).expect(0);
        assert_eq!(nothing.objects("given_up")[0]["pair"], json!(null));
        for (step, was_decided) in [("restore.staged", false), ("restore.decided", true)] {
            killed(&world, &pair, step);
            world.run(&["check"]).expect(3);
            let given_up = &cancel(&world).expect(0).objects("given_up")[0];
            assert_eq!(given_up["pair"], json!(pair), "{given_up}");
            assert_eq!(given_up["was_decided"], was_decided, "{given_up}");
            assert_eq!(given_up["left"], json!(null), "{given_up}");
            assert_eq!(left_overs(&world), [""; 0], "{backend:?} {step}");
            let (resumed, run) = next(&world, 0);
            assert_eq!(resumed, json!(null), "{run}");
            assert_eq!(state(&world), before, "{backend:?} {step}");
        }
        killed(&world, &pair, "restore.switched");
        let late = cancel(&world).expect(3);
        let error = &late.objects("error")[0];
        assert!(
            error["error"].to_string().contains("replaced already"),
            "{error}"
        );
        assert!(error["hint"].to_string().contains("--run-now"), "{error}");
        let (resumed, run) = next(&world, 0);
        assert_eq!(resumed["outcome"], "finished", "{run}");
        assert_ne!(state(&world), before);
    }
}

#[test]
fn what_cannot_be_tidied_of_a_restore_that_is_given_up_is_left_to_the_next_run() {
    let mut world = world();
    let pair = pair(&world);
    upset(&mut world);
    let before = state(&world);
    killed(&world, &pair, "restore.decided");
    let staged = left_overs(&world);
    let staged = staged.iter().find(|name| name.starts_with("memory.db."));
    let staged = world.path(staged.unwrap());
    fs::remove_file(&staged).unwrap();
    fs::create_dir(&staged).unwrap();
    let given_up = &cancel(&world).expect(3).objects("given_up")[0];
    assert_eq!(given_up["was_decided"], true, "{given_up}");
    assert!(given_up["left"].is_string(), "{given_up}");
    fs::remove_dir(&staged).unwrap();
    let (resumed, run) = next(&world, 0);
    assert_eq!(resumed["outcome"], "taken_back", "{run}");
    assert_eq!(state(&world), before);
    assert_eq!(left_overs(&world), [""; 0]);
}

#[test]
fn a_restore_is_given_up_only_on_the_stores_that_it_is_of() {
    let mut world = world();
    let pair = pair(&world);
    killed(&world, &pair, "restore.decided");
    world.configure("path = \"vectors.db\"", "path = \"others.db\"");
    let refused = cancel(&world).expect(3);
    let error = refused.objects("error")[0]["error"].to_string();
    assert!(error.contains("other stores"), "{error}");
    assert!(left_overs(&world).len() > 1, "it is as it was");
}
