use serde_json::json;

use super::super::ActionResult;
use super::super::testing::*;
use super::testing::pass;
use super::*;
use crate::plan::ActionKind;

fn run(run: &str, second: i64) -> RunRow {
    RunRow {
        run: run.into(),
        command: "run".into(),
        version: "0.1.0".into(),
        started_at: at(second),
    }
}

fn end(exit: u8, second: i64) -> RunEnd {
    RunEnd {
        outcome: "applied".into(),
        exit,
        finished_at: at(second),
        error: (exit != 0).then(|| "open the row database: no such file".into()),
    }
}

#[test]
fn runs_come_latest_first_and_a_killed_one_has_no_end() {
    let world = World::new();
    let state = world.main();
    assert_eq!(state.runs(9).unwrap(), []);
    for (name, second) in [("run-1", 0), ("run-2", 10), ("run-3", 5)] {
        state.begin_run(&run(name, second)).unwrap();
    }
    state.finish_run("run-1", &end(0, 3)).unwrap();
    state.finish_run("run-3", &end(130, 8)).unwrap();
    let ttl = pass(PassName::Ttl, "idle", true, 2);
    state.record_pass("run-1", &ttl, &[]).unwrap();
    let record = |name, second, end| RunRecord {
        row: run(name, second),
        end,
    };
    let all = [
        record("run-3", 5, Some(end(130, 8))),
        record("run-2", 10, None),
        record("run-1", 0, Some(end(0, 3))),
    ];
    assert_eq!(state.runs(9).unwrap(), all);
    assert_eq!(state.runs(2).unwrap(), all[..2]);
    let night = |passes: &[PassName]| state.last_successful_run(passes, at(60)).unwrap();
    assert_eq!(night(&[PassName::Ttl]), Some(at(3)));
    assert_eq!(night(&[]), Some(at(3)));
    let before = state.last_successful_run(&[], at(2)).unwrap();
    assert_eq!(
        before, None,
        "what a clock that ran ahead wrote down does not count"
    );
    assert_eq!(
        night(&[PassName::Ttl, PassName::Decay]),
        None,
        "a run of some passes is no night"
    );
    state.begin_run(&run("answer", 20)).unwrap();
    state.finish_run("answer", &end(0, 21)).unwrap();
    assert_eq!(night(&[]), Some(at(3)), "an answer of a person is no night");
}

#[test]
fn a_pass_that_was_put_off_spoils_no_night() {
    let world = World::new();
    let state = world.main();
    let put_off = pass(PassName::Vacuum, "skipped", false, 2);
    let without = |outcome| PassRow {
        skipped: json!({}),
        ..pass(PassName::Vacuum, outcome, false, 2)
    };
    for (name, row, second, expected) in [
        ("run-1", put_off, 3, 3),
        ("run-2", without("skipped"), 4, 3),
        ("run-3", without("partial"), 5, 3),
    ] {
        state.begin_run(&run(name, 0)).unwrap();
        let ttl = pass(PassName::Ttl, "idle", true, 1);
        state.record_pass(name, &ttl, &[]).unwrap();
        state.record_pass(name, &row, &[]).unwrap();
        state.finish_run(name, &end(3, second)).unwrap();
        let night = state.last_successful_run(&[PassName::Ttl], at(60)).unwrap();
        assert_eq!(night, Some(at(expected)), "{name}");
    }
}

#[test]
fn the_runs_of_a_command_are_found_behind_others() {
    let world = World::new();
    let state = world.main();
    for (second, command) in (0..).zip(["serve", "--run-now", "review keep 1", "serve --only"]) {
        let row = RunRow {
            command: command.into(),
            ..run(&format!("run-{second}"), second)
        };
        state.begin_run(&row).unwrap();
    }
    let found = |commands: &[&str], limit| {
        let runs = state.runs_of(commands, limit).unwrap();
        runs.into_iter().map(|run| run.row.run).collect::<Vec<_>>()
    };
    assert_eq!(found(&["serve", "--run-now"], 9), ["run-1", "run-0"]);
    assert_eq!(found(&["serve", "--run-now"], 1), ["run-1"]);
    assert_eq!(found(&["undo"], 9), Vec::<String>::new());
    assert_eq!(found(&[], 9), Vec::<String>::new());
}

#[test]
fn a_run_begins_and_ends_once() {
    let world = World::new();
    let state = world.main();
    state.finish_run("run-1", &end(0, 0)).unwrap_err();
    state.begin_run(&run("run-1", 0)).unwrap();
    state.begin_run(&run("run-1", 1)).unwrap_err();
    state.finish_run("run-1", &end(3, 2)).unwrap();
    let refused = state.finish_run("run-1", &end(0, 3)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "finish the run: run run-1 is not running"
    );
    assert_eq!(state.runs(9).unwrap()[0].end, Some(end(3, 2)));
    assert_eq!(state.last_successful_run(&[], at(60)).unwrap(), None);
}

#[test]
fn a_pass_that_could_not_look_leaves_the_last_look_and_only_the_guard_refuses() {
    let world = World::new();
    let state = world.main();
    assert_eq!(state.last_look(PassName::Ttl).unwrap(), None);
    let with_plan = PassRow {
        plan_hash: Some("1f".into()),
        ..pass(PassName::Ttl, "refused", false, 3)
    };
    let without = |outcome| PassRow {
        refusal: None,
        ..pass(PassName::Ttl, outcome, false, 9)
    };
    for (n, row) in [
        with_plan.clone(),
        without("failed"),
        without("skipped"),
        without("refused"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("run-{n}");
        state.begin_run(&run(&name, 0)).unwrap();
        state.record_pass(&name, &row, &[]).unwrap();
    }
    assert_eq!(state.last_look(PassName::Ttl).unwrap(), Some(with_plan));
    assert_eq!(state.last_look(PassName::Decay).unwrap(), None);
    assert_eq!(state.refusals().unwrap(), [(PassName::Ttl, 1)]);
}

#[test]
fn passes_are_recorded_in_order_with_their_totals_or_not_at_all() {
    let world = World::new();
    let state = world.main();
    let total = Total {
        pass: PassName::Ttl,
        action: ActionKind::Delete,
        result: ActionResult::Applied,
        count: 2,
    };
    let orphans = pass(PassName::Orphans, "refused", false, 1);
    let ttl = pass(PassName::Ttl, "applied", true, 2);
    state.record_pass("run-1", &ttl, &[total]).unwrap_err();
    state.begin_run(&run("run-1", 0)).unwrap();
    state.begin_run(&run("run-2", 0)).unwrap();
    state.record_pass("run-1", &orphans, &[]).unwrap();
    state.record_pass("run-1", &ttl, &[total]).unwrap();
    state.record_pass("run-1", &ttl, &[total]).unwrap_err();
    assert_eq!(state.passes_of("run-1").unwrap(), [orphans, ttl]);
    assert_eq!(state.passes_of("run-2").unwrap(), []);
    assert_eq!(state.totals().unwrap(), [total]);
}

#[test]
fn success_is_the_latest_of_that_pass_and_outcomes_are_counted() {
    let world = World::new();
    let state = world.main();
    for (name, ttl, orphans) in [
        ("run-1", ("applied", true, 1), ("idle", true, 2)),
        ("run-2", ("idle", true, 11), ("refused", false, 12)),
        ("run-3", ("idle", true, 4), ("refused", false, 22)),
    ] {
        state.begin_run(&run(name, 0)).unwrap();
        for (name_of, (outcome, succeeded, second)) in
            [(PassName::Ttl, ttl), (PassName::Orphans, orphans)]
        {
            let row = pass(name_of, outcome, succeeded, second);
            state.record_pass(name, &row, &[]).unwrap();
        }
    }
    assert_eq!(
        state.last_success(PassName::Ttl, at(60)).unwrap(),
        Some(at(11))
    );
    assert_eq!(
        state.last_success(PassName::Orphans, at(60)).unwrap(),
        Some(at(2))
    );
    let earlier = state.last_success(PassName::Ttl, at(10)).unwrap();
    assert_eq!(
        earlier,
        Some(at(4)),
        "of two clocks, the one that is not ahead"
    );
    let outcomes = state.pass_outcomes().unwrap();
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|(p, o, n)| (*p, o.as_str(), *n))
        .collect();
    assert_eq!(
        outcomes,
        [
            (PassName::Ttl, "applied", 1),
            (PassName::Ttl, "idle", 2),
            (PassName::Orphans, "idle", 1),
            (PassName::Orphans, "refused", 2),
        ]
    );
}

#[test]
fn no_success_yet_is_none() {
    let world = World::new();
    assert_eq!(
        world.main().last_success(PassName::Ttl, at(60)).unwrap(),
        None
    );
}
