//! What was removed is in the totals exactly once, and in what `status` tells of the run that did it, however often runs are
//! killed.

use std::collections::BTreeMap;

use hypnos::failpoint::Failpoint;
use rusqlite::Connection;

use crate::census::{disturbance, on_threads};
use crate::checker::{Verdict, after_one_more_run, at_any_time};
use crate::seed;
use crate::support::{Backend, World, open};

/// A hit of a failpoint.
type Step = (Failpoint, usize);
/// By pass and kind of action.
type Counts = BTreeMap<(String, String), u64>;

/// What leaves no intent.
const WITHOUT_INTENT: [&str; 5] = ["queue", "close", "vacuum", "snapshot", "drop_pair"];

fn counts(db: &Connection, sql: &str, into: &mut Counts) {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        Ok(((row.get(0)?, row.get(1)?), row.get::<_, i64>(2)?))
    });
    for row in rows.unwrap() {
        let (what, count) = row.unwrap();
        *into.entry(what).or_default() += count.unsigned_abs();
    }
}

/// The totals of one result, as far as intents tell of it.
fn totals(world: &World, result: &str) -> Counts {
    let mut totals = Counts::new();
    let sql = format!("SELECT pass, action, count FROM totals WHERE result = '{result}'");
    counts(&open(&world.path("state/agent/main.db")), &sql, &mut totals);
    totals.retain(|(_, action), _| !WITHOUT_INTENT.contains(&action.as_str()));
    totals
}

/// What the intents of every state file tell.
fn intents(world: &World, how: &str) -> Counts {
    let mut all = Counts::new();
    let sql = format!(
        "SELECT o.pass, i.kind, count(*) FROM intents i JOIN origins o ON o.id = i.origin WHERE {how} GROUP BY 1, 2"
    );
    for entry in std::fs::read_dir(world.path("state/agent")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "db") {
            counts(&open(&path), &sql, &mut all);
        }
    }
    all
}

/// Every action that was carried out, or taken back, is counted once. To be asked after a run that has finished what was
/// begun.
pub(crate) fn each_is_counted_once(world: &World) -> Verdict<()> {
    for (result, how) in [
        ("applied", "i.outcome = 'done'"),
        ("undone", "i.undone_at IS NOT NULL"),
    ] {
        let (totals, done) = (totals(world, result), intents(world, how));
        if totals != done {
            return Err(format!("{result}: counted {totals:?}, done {done:?}"));
        }
    }
    Ok(())
}

/// What `status` tells of all runs.
fn told(world: &World) -> Counts {
    let mut told = Counts::new();
    let status = world.run(&["status", "--json", "--runs", "99"]).expect(0);
    for run in status.objects("status")[0]["runs"].as_array().unwrap() {
        for pass in run["passes"].as_array().unwrap() {
            for (action, count) in pass["applied"].as_object().unwrap() {
                let what = (pass["pass"].as_str().unwrap().to_owned(), action.clone());
                *told.entry(what).or_default() += count.as_u64().unwrap();
            }
        }
    }
    told.retain(|(_, action), _| !WITHOUT_INTENT.contains(&action.as_str()));
    told
}

/// A night is killed at a step, the next one at another, and the one after that comes to its end.
fn killed_twice((backend, first, second): &(Backend, Step, Step)) -> Verdict<()> {
    let story = |why: String| format!("{backend:?}, {first:?}, then {second:?}: {why}");
    let case = seed::tenants(*backend);
    for (point, nth) in [first, second] {
        let killed = case.world.night_with(&disturbance(*point, *nth, "kill"));
        if killed.code.is_some() {
            return Err(story(format!("{point} was not reached: {killed:#?}")));
        }
    }
    let seen = at_any_time(&case).map_err(story)?;
    let night = case.world.night();
    if night.code != Some(0) {
        return Err(story(format!("{night:#?}")));
    }
    each_is_counted_once(&case.world).map_err(story)?;
    let (told, totals) = (told(&case.world), totals(&case.world, "applied"));
    if told != totals || totals.is_empty() {
        return Err(story(format!("told {told:?}, counted {totals:?}")));
    }
    after_one_more_run(&case, &seen).map_err(story)
}

#[test]
fn what_runs_that_were_killed_again_and_again_removed_is_counted_once() {
    let firsts = [
        (Failpoint::SettleBefore, 1),
        (Failpoint::SettleWritten, 0),
        (Failpoint::SettleWritten, 1),
        (Failpoint::DropSettleWritten, 0),
        (Failpoint::PassBefore, 0),
        (Failpoint::PassBefore, 1),
        (Failpoint::PassRecorded, 1),
        (Failpoint::FinishBefore, 0),
    ];
    let seconds = [
        (Failpoint::ReplayBefore, 0),
        (Failpoint::ReplayCountBefore, 0),
        (Failpoint::ReplayCounted, 0),
        (Failpoint::StateUncommitted, 1),
        (Failpoint::StateUncommitted, 2),
        (Failpoint::StateUncommitted, 3),
        (Failpoint::PassRecorded, 0),
    ];
    let mut stories = Vec::new();
    for backend in crate::support::BACKENDS {
        for first in firsts {
            stories.extend(seconds.map(|second| (backend, first, second)));
        }
    }
    on_threads(&stories, killed_twice);
    println!("counted once after {} pairs of kills", stories.len());
}

#[test]
fn status_tells_what_a_killed_night_had_removed() {
    let case = seed::full(Backend::Sqlite);
    let killed = case.world.night_with("pass.before=1*return(kill)");
    assert_eq!(killed.code, None, "{killed:#?}");
    let _ = case.world.night().expect(0);
    let status = case.world.run(&["status", "--json"]).expect(0);
    let run = &status.objects("status")[0]["runs"][1];
    let pass = &run["passes"][0];
    assert_eq!(run["outcome"], "unfinished", "{run:#}");
    assert_eq!(
        (&pass["pass"], &pass["outcome"]),
        (&"ttl".into(), &"cut_off".into())
    );
    assert!(pass["applied"]["delete"].as_u64() > Some(0), "{run:#}");
    assert!(
        pass["error"].as_str().unwrap().contains("was killed"),
        "{run:#}"
    );
}
