//! What the journals know of the last nights: what was missed while the daemon was away, and how long ago all was well.
//!
//! A night is a run that was meant to come by every pass that was switched on when it began ([`NIGHTS`]); what a
//! person asked for beside that says nothing about the nights, and neither does a pass that was switched on since.

use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::engine::NIGHTS;
use crate::exit::Exit;
use crate::metrics::journal::sum;
use crate::report::Outcome;
use crate::schedule::Schedule;
use crate::state::{Partition, PassRow, RunRecord, StateDir, StateError, StateReader};

/// Nights looked at.
const LOOKED_AT: u32 = 200;
/// After so many runs in a row that took the daemon with them, the next one waits for its time.
const CRASHES: u32 = 3;

/// The last nights of one store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Nights {
    /// When the last one ended in which the store was there and that was not asked to end early.
    done: Option<Timestamp>,
    /// When the last one began in which no pass failed.
    good: Option<Timestamp>,
    /// Whether there was any, however it ended.
    any: bool,
    /// How many of the latest runs were cut off without a word, as by a crash of the process.
    cut_off: u32,
}

/// How a store stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) store: String,
    pub(super) last: Last,
}

/// The last night of a store in which no pass failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// When it began.
    Good(Timestamp),
    /// There were nights, and none was good.
    NoneGood,
    /// There was none yet.
    None,
    /// The journal cannot be read.
    Unknown,
}

/// The stores whose last night was missed, or cut off, at `now`. One that never had a night waits for its time.
pub(super) fn missed(config: &Config, schedule: &Schedule, now: Timestamp) -> Vec<String> {
    let is_missed = |store: &&config::Store| {
        let Some(nights) = read_or_warn(config, store, now) else {
            return false;
        };
        if nights.cut_off >= CRASHES {
            tracing::error!(
                store = %store.name,
                runs = nights.cut_off,
                "the last runs were all cut off: the next one waits for its time"
            );
            return false;
        }
        nights.is_missed(schedule, now)
    };
    let missed = config.stores.iter().filter(is_missed);
    missed.map(|store| store.name.clone()).collect()
}

/// How each store stands at `now`.
pub(super) fn standings(config: &Config, now: Timestamp) -> Vec<Standing> {
    let standing = |store: &config::Store| Standing {
        store: store.name.clone(),
        last: read_or_warn(config, store, now).map_or(Last::Unknown, |nights| nights.last()),
    };
    config.stores.iter().map(standing).collect()
}

fn read_or_warn(config: &Config, store: &config::Store, now: Timestamp) -> Option<Nights> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    match Nights::read(&dir, now) {
        Ok(nights) => Some(nights),
        Err(error) => {
            let error = crate::error::chain(&error);
            tracing::warn!(store = %store.name, error, "cannot read the journal");
            None
        }
    }
}

impl Nights {
    fn read(dir: &StateDir, now: Timestamp) -> Result<Self, StateError> {
        let Some(main) = dir.read(Partition::Main)? else {
            return Ok(Self::default());
        };
        let last = main.runs(CRASHES)?.into_iter();
        let mut nights = Self {
            cut_off: last.take_while(|run| run.end.is_none()).map(|_| 1).sum(),
            ..Self::default()
        };
        for run in main.runs_of(&NIGHTS, LOOKED_AT)? {
            if nights.good.is_some() {
                break;
            }
            nights.look(&main, &run, now)?;
        }
        Ok(nights)
    }

    fn look(
        &mut self,
        main: &StateReader,
        run: &RunRecord,
        now: Timestamp,
    ) -> Result<(), StateError> {
        self.any = true;
        // One of the future says nothing: the clock was wrong, or somebody tried what a night would do then.
        let (Some(end), false) = (&run.end, run.row.started_at > now) else {
            return Ok(());
        };
        let passes = main.passes_of(&run.row.run)?;
        let came_by = passes.iter().filter(|pass| came_by(pass)).count();
        let is_done = came_by > 0 || passes.is_empty() && end.exit == Exit::Done.code();
        if is_done && end.exit != Exit::Interrupted.code() {
            self.done.get_or_insert(end.finished_at);
        }
        let is_well = [Exit::Done, Exit::LeftOver]
            .map(Exit::code)
            .contains(&end.exit);
        if is_done && is_well && came_by == passes.len() {
            self.good.get_or_insert(run.row.started_at);
        }
        Ok(())
    }

    fn is_missed(&self, schedule: &Schedule, now: Timestamp) -> bool {
        self.done
            .map_or(self.any, |done| schedule.is_missed(done, now))
    }

    fn last(&self) -> Last {
        match self.good {
            Some(good) => Last::Good(good),
            None if self.any => Last::NoneGood,
            None => Last::None,
        }
    }
}

/// Whether a pass did look at the store, be it that it put its work off because the files were in use. One that was
/// `skipped` for another reason has no counts.
fn came_by(pass: &PassRow) -> bool {
    pass.outcome != Outcome::Skipped.as_str() || sum(&pass.skipped) > 0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pass::PassName;
    use crate::serve::testing::nightly;
    use crate::state::{RunEnd, RunRow};

    const DAY: &str = "2026-11-30T10:11:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A run that began and ended at a time of the 30th: its name, its exit code (none: cut off), and its passes.
    type Run<'a> = (
        &'a str,
        &'a str,
        Option<u8>,
        &'a [(PassName, &'a str, Value)],
    );

    fn nights(runs: &[Run<'_>]) -> Nights {
        let dir = tempfile::tempdir().unwrap();
        let dir = StateDir::new(dir.path(), "agent");
        let main = dir.open(Partition::Main).unwrap();
        for (n, (command, time, exit, passes)) in runs.iter().enumerate() {
            let (run, started_at) = (format!("run-{n}"), at(&format!("2026-11-30T{time}Z")));
            main.begin_run(&RunRow {
                run: run.clone(),
                command: (*command).into(),
                version: String::new(),
                started_at,
            })
            .unwrap();
            for (pass, outcome, skipped) in *passes {
                let row = PassRow {
                    pass: *pass,
                    outcome: (*outcome).into(),
                    succeeded: false,
                    finished_at: started_at,
                    seconds: 0.0,
                    planned: json!({}),
                    applied: json!({}),
                    skipped: skipped.clone(),
                    failed: json!({}),
                    residue: json!({}),
                    findings: json!({}),
                    refusal: None,
                    error: None,
                    plan_hash: None,
                };
                main.record_pass(&run, &row, &[]).unwrap();
            }
            if let Some(exit) = *exit {
                let end = RunEnd {
                    outcome: "any".into(),
                    exit,
                    finished_at: started_at,
                    error: None,
                };
                main.finish_run(&run, &end).unwrap();
            }
        }
        Nights::read(&dir, at(DAY)).unwrap()
    }

    fn ttl(outcome: &str) -> (PassName, &str, Value) {
        (PassName::Ttl, outcome, json!({}))
    }

    fn good(time: &str) -> Last {
        Last::Good(at(&format!("2026-11-30T{time}Z")))
    }

    #[test]
    fn a_night_is_missed_when_none_has_ended_since_its_time_and_good_when_nothing_failed() {
        let schedule = Schedule::new(&nightly().schedule);
        let put_off = (PassName::Vacuum, "skipped", json!({"vacuum": 1}));
        let (idle, failed, skipped) = ([ttl("idle")], [ttl("failed")], [ttl("skipped")]);
        let waiting = [ttl("idle"), put_off];
        let panicked = [ttl("failed"), (PassName::Vacuum, "skipped", json!({}))];
        let night = ("serve", "03:00:00", Some(0), &idle[..]);
        let before = ("serve", "02:00:00", Some(0), &idle[..]);
        let by_hand = |command| (command, "09:00:00", Some(0), &idle[..]);
        for (what, runs, is_missed, last) in [
            ("nothing", &[][..], false, Last::None),
            (
                "a night, other passes enabled since",
                &[night],
                false,
                good("03:00:00"),
            ),
            (
                "by the timer",
                &[by_hand("--run-now")],
                false,
                good("09:00:00"),
            ),
            ("a run before the time", &[before], true, good("02:00:00")),
            (
                "only some passes, ever",
                &[by_hand("--run-now --only")],
                false,
                Last::None,
            ),
            (
                "an answer only",
                &[("review keep", "01:00:00", Some(0), &[])],
                false,
                Last::None,
            ),
            (
                "some passes since",
                &[before, by_hand("--run-now --skip")],
                true,
                good("02:00:00"),
            ),
            (
                "put off",
                &[("serve", "03:00:01", Some(3), &waiting)],
                false,
                good("03:00:01"),
            ),
            (
                "failed",
                &[before, ("serve", "03:00:00", Some(1), &failed)],
                false,
                good("02:00:00"),
            ),
            (
                "panicked",
                &[("serve", "03:00:00", Some(1), &panicked)],
                false,
                Last::NoneGood,
            ),
            (
                "interrupted",
                &[("serve", "03:00:00", Some(130), &waiting)],
                true,
                Last::NoneGood,
            ),
            (
                "cut off",
                &[("serve", "03:00:00", None, &idle)],
                true,
                Last::NoneGood,
            ),
            (
                "the store was away",
                &[("serve", "03:00:00", Some(10), &[])],
                true,
                Last::NoneGood,
            ),
            (
                "given up",
                &[("serve", "03:00:00", Some(3), &skipped)],
                true,
                Last::NoneGood,
            ),
            (
                "no pass is switched on",
                &[("serve", "03:00:00", Some(0), &[])],
                false,
                good("03:00:00"),
            ),
            (
                "in the future",
                &[before, ("--run-now", "23:00:00", Some(0), &idle)],
                true,
                good("02:00:00"),
            ),
        ] {
            let nights = nights(runs);
            assert_eq!(nights.is_missed(&schedule, at(DAY)), is_missed, "{what}");
            assert_eq!(nights.last(), last, "{what}");
        }
    }
}
