//! Every failpoint, on both backends, as abort, error and delay; then one more run, and the promises.
//!
//! [`home`] says for every point in which scenario it is reached, and does not compile when one is left out. A new
//! command joins by a line in [`SCENARIOS`], its points by a line in [`home`]. Each scenario is first run with every
//! point telling when it is come by; those hits are then disturbed, each in a store of its own. By default a choice of
//! them, see [`steps`]; with `HYPNOS_EVERY_STEP=1` all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hypnos::failpoint::Failpoint;

use crate::agent::Agent;
use crate::checker::{after_one_more_run, at_any_time, the_journal_is_honest};
use crate::counted::each_is_counted_once;
use crate::seed::{self, Case, Fate};
use crate::setting;
use crate::support::{Backend, Output, files};

/// What is disturbed.
struct Scenario {
    name: &'static str,
    /// The store, up to the moment before the command.
    prepare: fn(Backend) -> Case,
    command: fn(&Case) -> Vec<String>,
    /// How the command ends when nothing disturbs it, and every run after it.
    exits: i32,
    /// Whether bob's memories are in the one row database, so that the agent can write them.
    has_agent: bool,
}

const NIGHT: fn(&Case) -> Vec<String> = |_| words("--run-now --json");

const SCENARIOS: [Scenario; 12] = [
    Scenario {
        name: "night",
        prepare: seed::full,
        command: NIGHT,
        exits: 0,
        has_agent: true,
    },
    Scenario {
        name: "marks",
        prepare: seed::marking,
        command: NIGHT,
        exits: 0,
        has_agent: true,
    },
    Scenario {
        name: "tenants",
        prepare: seed::tenants,
        command: NIGHT,
        exits: 0,
        has_agent: false,
    },
    Scenario {
        name: "guard",
        prepare: seed::guarded,
        command: NIGHT,
        exits: 3,
        has_agent: true,
    },
    Scenario {
        name: "accept",
        prepare: seed::full,
        command: accept,
        exits: 0,
        has_agent: true,
    },
    Scenario {
        name: "replay",
        prepare: begun,
        command: NIGHT,
        exits: 0,
        has_agent: true,
    },
    Scenario {
        name: "replay of drops",
        prepare: begun_drops,
        command: NIGHT,
        exits: 0,
        has_agent: true,
    },
    Scenario {
        name: "replay of tenants",
        prepare: begun_tenants,
        command: NIGHT,
        exits: 0,
        has_agent: false,
    },
    Scenario {
        name: "contradiction",
        prepare: seed::contradicting,
        command: NIGHT,
        exits: 0,
        has_agent: false,
    },
    Scenario {
        name: "void question",
        prepare: seed::void,
        command: NIGHT,
        exits: 0,
        has_agent: false,
    },
    Scenario {
        name: "answer",
        prepare: seed::asked,
        command: |_| words("review forget 1"),
        exits: 0,
        has_agent: false,
    },
    Scenario {
        name: "snooze",
        prepare: seed::asked,
        command: |_| words("review snooze 1"),
        exits: 0,
        has_agent: false,
    },
];

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Accepts the plans of a night by their hashes.
fn accept(case: &Case) -> Vec<String> {
    let dry = case.world.run(&["--dry-run", "--json"]).expect(0);
    let plans = dry.objects("plan");
    let hashes = plans.iter().filter_map(|plan| plan["hash"].as_str());
    let accept = hashes.flat_map(|hash| ["--accept".to_owned(), hash.to_owned()]);
    words("--run-now --json")
        .into_iter()
        .chain(accept)
        .collect()
}

/// A night was killed when the points of the expired had gone; then one of those memories was edited.
fn begun(backend: Backend) -> Case {
    let mut case = seed::full(backend);
    let killed = case.world.night_with("points.removed=1*return(kill)");
    assert_eq!(killed.code, None, "{killed:#?}");
    let (user, id) = case.one(Fate::Goes);
    case.edit(&user, id);
    case
}

/// A night was killed when points without a row had gone.
fn begun_drops(backend: Backend) -> Case {
    let case = seed::full(backend);
    let killed = case.world.night_with("drops.removed=1*return(kill)");
    assert_eq!(killed.code, None, "{killed:#?}");
    case
}

/// A night was killed in the second tenant's file.
fn begun_tenants(backend: Backend) -> Case {
    let case = seed::tenants(backend);
    let killed = case
        .world
        .night_with("points.removed=1*off->1*return(kill)");
    assert_eq!(killed.code, None, "{killed:#?}");
    case
}

/// The scenario in which a point is certainly reached; `None` on a backend that has no such step, and for those that other
/// modules disturb.
#[expect(clippy::too_many_lines, reason = "a line for each point")]
fn home(point: Failpoint, backend: Backend) -> Option<&'static str> {
    use Failpoint as F;
    Some(match point {
        F::LockBefore
        | F::LockTaken
        | F::StateCreateBefore
        | F::StateFilled
        | F::FolderSynced
        | F::StateCreated
        | F::StateUncommitted
        | F::RunBefore
        | F::RunBegun
        | F::ReplayBefore
        | F::ReplayCountBefore
        | F::ReplayCounted
        | F::SightingsBefore
        | F::SightingsWritten
        | F::IntentBefore
        | F::IntentWritten
        | F::DropIntentBefore
        | F::DropIntentWritten
        | F::PointsBefore
        | F::DropsBefore
        | F::PointsCompared
        | F::PointsConfirmed
        | F::PointsRemoved
        | F::DropsRemoved
        | F::RowsBefore
        | F::RowsUncommitted
        | F::RowsCommitted
        | F::SettleBefore
        | F::SettleWritten
        | F::DropSettleBefore
        | F::DropSettleWritten
        | F::ComparedBefore
        | F::ComparedWritten
        | F::QueueBefore
        | F::QueueWritten
        | F::PassBefore
        | F::PassRecorded
        | F::PruneBefore
        | F::PruneDone
        | F::FinishBefore
        | F::FinishWritten
        | F::RunFinished => "night",
        F::MarksBefore | F::MarksUncommitted | F::MarksCommitted => "marks",
        F::PruneTenant => "tenants",
        F::ReplayTenant => "replay of tenants",
        F::AcceptBefore | F::Accepted => "accept",
        F::ReplaySettleBefore
        | F::ReplaySettled
        | F::PutBackBefore
        | F::PutBackCompared
        | F::PutBackConfirmed
        | F::PutBackDone => "replay",
        F::PointsUncommitted if backend == Backend::Sqlite => "night",
        F::PutBackUncommitted if backend == Backend::Sqlite => "replay",
        F::QueueClosed => "void question",
        F::AnswerBefore | F::AnswerWritten => "answer",
        F::SnoozeBefore | F::SnoozeWritten => "snooze",
        // No such step in Qdrant; the rest is disturbed in `snapshot`, `by_hand` and `entities`, on stores of their own.
        F::PointsUncommitted
        | F::PutBackUncommitted
        | F::VacuumBefore
        | F::VacuumDone
        | F::PairBegun
        | F::CopySynced
        | F::RowsCopied
        | F::AnewMade
        | F::AnewWritten
        | F::PointsCopied
        | F::ManifestWritten
        | F::PairPublished
        | F::PairDropBefore
        | F::PairDropped
        | F::UndoBefore
        | F::UndoBegun
        | F::UndoSettleBefore
        | F::UndoSettled
        | F::ForgetBefore
        | F::ForgetBegun
        | F::ForgetStateBefore
        | F::ForgetStateDone
        | F::ForgetOverwritten
        | F::ForgetPairsBefore
        | F::ForgetPairsDone
        | F::RestoreBegun
        | F::RestoreStaged
        | F::RestoreCleaned
        | F::RestoreDecided
        | F::RestoreGivenUp
        | F::SwapBefore
        | F::SwapDone
        | F::RestoreSwitched
        | F::RestoreFinished
        | F::ListIntentBefore
        | F::ListIntentWritten
        | F::ListsBefore
        | F::ListCompared
        | F::ListConfirmed
        | F::ListsDone
        | F::ListSettleBefore
        | F::ListSettleWritten => return None,
    })
}

pub(crate) const ACTIONS: [&str; 3] = ["kill", "error", "delay"];

/// One disturbance: the `nth` hit of a point in a scenario.
struct Step<'a> {
    backend: Backend,
    scenario: &'a Scenario,
    point: Failpoint,
    nth: usize,
    action: &'static str,
}

/// Runs `work` on every item, on a few threads: most of the time of a step is spent waiting.
pub(crate) fn on_threads<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<(), String> + Sync) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let _worker = scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(story) = work(item) {
                        failures.lock().unwrap().push(story);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {}: {failures:#?}",
        failures.len(),
        items.len()
    );
}

/// What `FAILPOINTS` has to be for every point to tell when it is come by.
pub(crate) fn tell_all() -> String {
    let all = Failpoint::ALL
        .iter()
        .map(|point| format!("{point}=return(tell)"));
    all.collect::<Vec<_>>().join(";")
}

/// The points that a command told of, in their order.
pub(crate) fn told_by(output: &Output) -> Vec<Failpoint> {
    let told = output.stderr.lines().filter_map(|line| {
        let (_, name) = line.split_once("came by ")?;
        let point = Failpoint::ALL.iter().find(|point| point.as_str() == name);
        Some(*point.expect("a point"))
    });
    told.collect()
}

/// Disturbs the `nth` hit of a point.
pub(crate) fn disturbance(point: Failpoint, nth: usize, action: &str) -> String {
    match nth {
        0 => format!("{point}=1*return({action})"),
        n => format!("{point}={n}*off->1*return({action})"),
    }
}

impl Scenario {
    fn run(&self, case: &Case, failpoints: &str) -> Output {
        let command = (self.command)(case);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        Output::of(case.world.command(&words).env("FAILPOINTS", failpoints))
    }

    /// Runs with every point telling when it is come by; also which were, in their order.
    fn told(&self, case: &Case) -> (Output, Vec<Failpoint>) {
        let calm = self.run(case, &tell_all());
        let told = told_by(&calm);
        (calm, told)
    }

    /// How often each point is come by.
    fn hits(&self, backend: Backend) -> Result<BTreeMap<Failpoint, usize>, String> {
        let case = (self.prepare)(backend);
        let (calm, told) = self.told(&case);
        let story = |why: String| format!("{} on {backend:?}: {why}: {calm:#?}", self.name);
        if calm.code != Some(self.exits) {
            return Err(story("did not end as it should".to_owned()));
        }
        let mut hits = BTreeMap::new();
        for point in told {
            *hits.entry(point).or_default() += 1;
        }
        let before = at_any_time(&case).map_err(story)?;
        let _next = case.world.night().expect(self.exits);
        after_one_more_run(&case, &before).map_err(story)?;
        Ok(hits)
    }
}

impl Step<'_> {
    fn failpoint(&self) -> String {
        disturbance(self.point, self.nth, self.action)
    }

    fn disturb(&self) -> Result<(), String> {
        let story = |why: String| {
            format!(
                "{:?}, {}, FAILPOINTS='{}': {why}",
                self.backend,
                self.scenario.name,
                self.failpoint()
            )
        };
        let case = (self.scenario.prepare)(self.backend);
        let agent =
            (self.action == "delay" && self.scenario.has_agent).then(|| Agent::start(&case));
        let disturbed = self.scenario.run(&case, &self.failpoint());
        if let Some(agent) = agent {
            agent.stop(&case).map_err(story)?;
        }
        let ended_so = match self.action {
            "kill" => disturbed.code.is_none(),
            "error" => disturbed.code.is_some_and(|code| code != 0),
            _ => disturbed.code == Some(self.scenario.exits),
        };
        if !ended_so {
            return Err(story(format!("{disturbed:#?}")));
        }
        let seen = at_any_time(&case).map_err(story)?;
        the_journal_is_honest(&case, disturbed.code).map_err(story)?;
        if self.action == "kill" {
            self.dry_run_writes_nothing(&case).map_err(story)?;
        }
        let next = case.world.night();
        if next.code != Some(self.scenario.exits) {
            return Err(story(format!("the next run: {next:#?}")));
        }
        the_journal_is_honest(&case, next.code).map_err(story)?;
        if self.action == "kill" {
            each_is_counted_once(&case.world).map_err(story)?;
        }
        after_one_more_run(&case, &seen).map_err(story)
    }

    /// Promise 7, with work left over from a killed run.
    fn dry_run_writes_nothing(&self, case: &Case) -> Result<(), String> {
        let held = || (files(case.world.dir.path()), case.world.all_points());
        let before = held();
        let dry = case.world.run(&["--dry-run"]);
        match held() == before {
            true if dry.code == Some(self.scenario.exits) => Ok(()),
            true => Err(format!("promise 7: {dry:#?}")),
            false => Err("promise 7: the dry run wrote".to_owned()),
        }
    }
}

/// The steps of one point in a scenario. Where it is at home all three actions, at its first or its last hit; elsewhere,
/// on the backend that is quicker to build, one of them at one hit. With `HYPNOS_EVERY_STEP` all of them at every hit,
/// everywhere.
fn steps(
    backend: Backend,
    scenario: &Scenario,
    point: Failpoint,
    hits: usize,
    turn: usize,
) -> Vec<Step<'_>> {
    let is_home = home(point, backend) == Some(scenario.name);
    let (nths, actions) = match (setting("HYPNOS_EVERY_STEP"), is_home) {
        (Some(_), _) => ((0..hits).collect(), &ACTIONS[..]),
        (None, true) => (BTreeSet::from([(turn % 2) * (hits - 1)]), &ACTIONS[..]),
        (None, false) if backend == Backend::Qdrant => return Vec::new(),
        (None, false) => (BTreeSet::from([turn % hits]), &ACTIONS[turn % 3..=turn % 3]),
    };
    let step = |(nth, action): (usize, &&'static str)| Step {
        backend,
        scenario,
        point,
        nth,
        action,
    };
    nths.into_iter()
        .flat_map(|nth| actions.iter().map(move |action| (nth, action)))
        .map(step)
        .collect()
}

fn every_point(backend: Backend) {
    let (mut chosen, mut reached, mut turn) = (Vec::new(), BTreeSet::new(), 0);
    for scenario in &SCENARIOS {
        let hits = scenario
            .hits(backend)
            .unwrap_or_else(|story| panic!("{story}"));
        for (point, hits) in hits {
            reached.insert((point, scenario.name));
            turn += 1;
            chosen.extend(steps(backend, scenario, point, hits, turn));
        }
    }
    let mut points = 0;
    for &point in Failpoint::ALL {
        if let Some(home) = home(point, backend) {
            assert!(
                reached.contains(&(point, home)),
                "{point} is not reached in {home:?}"
            );
            points += 1;
        }
    }
    on_threads(&chosen, Step::disturb);
    println!(
        "{backend:?}: {points} failpoints x {} actions, {} disturbed runs in {} scenarios: every promise held",
        ACTIONS.len(),
        chosen.len(),
        SCENARIOS.len()
    );
}

#[test]
fn every_promise_holds_at_every_failpoint_sqlite() {
    every_point(Backend::Sqlite);
}

#[test]
fn every_promise_holds_at_every_failpoint_qdrant() {
    every_point(Backend::Qdrant);
}

/// A power cut cannot be had in a test; that the folder is synced before the file in it is relied upon can be seen.
#[test]
fn a_new_state_file_is_in_its_folder_before_it_is_used() {
    let [night, ..] = &SCENARIOS;
    let case = (night.prepare)(Backend::Sqlite);
    let (_, told) = night.told(&case);
    let at = |point| told.iter().position(|told| *told == point).unwrap();
    let making = &told[at(Failpoint::StateFilled)..=at(Failpoint::StateCreated)];
    assert!(making.contains(&Failpoint::FolderSynced), "{making:?}");
}

/// What a killed run had begun is finished by the next one, which says so.
#[test]
fn what_was_begun_is_counted_as_replayed() {
    for backend in crate::support::BACKENDS {
        for point in [
            "intent.written",
            "points.removed",
            "rows.committed",
            "drops.removed",
        ] {
            let case = seed::full(backend);
            let killed = case.world.night_with(&format!("{point}=1*return(kill)"));
            assert_eq!(killed.code, None, "{killed:#?}");
            // The next run is killed while it replays, and the one after that still finishes it.
            let again = case.world.night_with("replay.before=1*return(kill)");
            assert_eq!(again.code, None, "{again:#?}");
            let seen = at_any_time(&case).unwrap();
            let next = case.world.night().expect(0);
            let replayed = next.objects("run")[0]["replayed"].as_u64();
            assert!(replayed > Some(0), "{backend:?}, {point}: {next:#?}");
            after_one_more_run(&case, &seen).unwrap();
        }
    }
}
