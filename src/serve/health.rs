//! What the daemon knows of itself, for those who ask over HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::nights::{Last, Standing};
use crate::clock::{Stopwatch, Timestamp};
use crate::config::Config;
use crate::report::{Cause, RunReport};
use crate::schedule::Schedule;

/// A loop that has not gone round for so long has stopped.
const STOPPED: Duration = Duration::from_mins(1);

/// What the daemon knows of itself.
pub(super) struct Health(Mutex<Known>);

struct Known {
    config: Arc<Config>,
    /// Whether the file has become invalid since.
    is_refused: bool,
    /// When the loop last went round.
    beat: Stopwatch,
    hangs: bool,
    /// When the last run over a store began, where that could not be done for a reason that time does not mend.
    broken: BTreeMap<String, Timestamp>,
}

impl Health {
    pub(super) fn new(config: Arc<Config>) -> Self {
        Self(Mutex::new(Known {
            config,
            is_refused: false,
            beat: Stopwatch::start(),
            hangs: false,
            broken: BTreeMap::new(),
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change leaves it valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop goes round; `hangs`: with a run that it has given up.
    pub(super) fn beat(&self, hangs: bool) {
        let mut known = self.known();
        known.beat = Stopwatch::start();
        known.hangs = hangs;
    }

    /// Another configuration is in force.
    pub(super) fn accept(&self, config: Arc<Config>) {
        let mut known = self.known();
        known.config = config;
        known.is_refused = false;
    }

    /// The file has become invalid; what was read before stays in force.
    pub(super) fn refuse(&self) {
        self.known().is_refused = true;
    }

    /// A run has ended.
    pub(super) fn ran(&self, report: &RunReport) {
        let mut known = self.known();
        for pass in &report.passes {
            known.broken.remove(&*pass.store);
        }
        for store in &report.unopened {
            if store.cause == Cause::Lasting {
                let name = store.store.to_string();
                known.broken.insert(name, report.started_at);
            }
        }
    }

    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.known().config)
    }

    /// Why the process does not do its work; `None` when it does.
    pub(super) fn ailment(&self) -> Option<&'static str> {
        let known = self.known();
        if known.hangs {
            Some("a run hangs")
        } else if known.beat.elapsed() > STOPPED {
            Some("the schedule stands still")
        } else {
            None
        }
    }

    /// Why it is not ready, whether the stores can be reached apart; empty when it is. `standings`: what the journals
    /// say, unless they do not answer.
    pub(super) fn complaints(&self, standings: Option<&[Standing]>, now: Timestamp) -> Vec<String> {
        let known = self.known();
        let mut complaints = Vec::new();
        if known.is_refused {
            complaints.push("configuration: invalid, the one before it is in force".to_owned());
        }
        match standings {
            None => complaints.push("journals: no answer".to_owned()),
            Some(standings) => {
                complaints.extend(standings.iter().filter_map(|own| known.complaint(own, now)));
            }
        }
        complaints
    }
}

impl Known {
    fn complaint(&self, standing: &Standing, now: Timestamp) -> Option<String> {
        let schedule = Schedule::new(&self.config.schedule);
        let broken = self.broken.get(&standing.store);
        let problem = match standing.last {
            Last::Unknown => "its journal cannot be read".to_owned(),
            // One by hand may have been good since.
            Last::Good(last) if broken.is_some_and(|broken| *broken < last) => return None,
            _ if broken.is_some() => "its last run could not be done, the log says why".to_owned(),
            Last::None => "no night yet".to_owned(),
            Last::NoneGood => "no night yet in which no pass failed".to_owned(),
            Last::Good(last) if schedule.is_overdue(last, now) => {
                format!("last good night {last:.0}, more than two periods ago")
            }
            Last::Good(_) => return None,
        };
        Some(format!("store {}: {problem}", standing.store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::report::Unopened;
    use crate::serve::testing::nightly;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn complains(health: &Health, last: Last, now: &str) -> String {
        let standing = Standing {
            store: "agent".into(),
            last,
        };
        health.complaints(Some(&[standing]), at(now)).join("\n")
    }

    #[test]
    fn a_store_without_a_good_night_for_two_periods_is_complained_of() {
        let health = Health::new(nightly());
        let night = Last::Good(at("2026-11-30T03:00:00.4Z"));
        for (last, now, expected) in [
            (
                Last::None,
                "2026-11-30T12:00:00Z",
                "store agent: no night yet",
            ),
            (
                Last::NoneGood,
                "2026-11-30T12:00:00Z",
                "store agent: no night yet in which no pass failed",
            ),
            (
                Last::Unknown,
                "2026-11-30T12:00:00Z",
                "store agent: its journal cannot be read",
            ),
            (night, "2026-12-02T02:59:59Z", ""),
            (
                night,
                "2026-12-02T03:00:00Z",
                "store agent: last good night 2026-11-30T03:00:00Z, more than two periods ago",
            ),
        ] {
            assert_eq!(complains(&health, last, now), expected);
        }
        assert_eq!(
            health.complaints(None, at("2026-11-30T12:00:00Z")),
            ["journals: no answer"]
        );
    }

    #[test]
    fn a_store_that_time_does_not_mend_is_complained_of_until_a_night_was_good() {
        let health = Health::new(nightly());
        let (good, now) = (
            Last::Good(at("2026-11-30T03:00:00Z")),
            "2026-12-01T04:00:00Z",
        );
        for (cause, expected) in [
            (Cause::Away, ""),
            (Cause::Held, ""),
            (
                Cause::Lasting,
                "store agent: its last run could not be done, the log says why",
            ),
        ] {
            let mut report = RunReport::new("run", at("2026-12-01T03:00:00Z"));
            report.unopened.push(Unopened {
                store: "agent".into(),
                error: "use the state file".into(),
                hint: None,
                exit: Exit::Failed,
                cause,
            });
            health.ran(&report);
            assert_eq!(complains(&health, good, now), expected, "{cause:?}");
        }
        let by_hand = Last::Good(at("2026-12-01T03:30:00Z"));
        assert_eq!(complains(&health, by_hand, now), "");
    }

    #[test]
    fn an_invalid_file_is_complained_of_until_a_valid_one_is_read() {
        let now = at("2026-11-30T03:00:00Z");
        let health = Health::new(nightly());
        health.refuse();
        assert_eq!(health.complaints(Some(&[]), now).len(), 1);
        health.accept(nightly());
        assert_eq!(health.complaints(Some(&[]), now), Vec::<String>::new());
    }

    #[test]
    fn a_run_that_hangs_is_an_ailment_for_as_long_as_it_does() {
        let health = Health::new(nightly());
        assert_eq!(health.ailment(), None);
        health.beat(true);
        assert_eq!(health.ailment(), Some("a run hangs"));
        health.beat(false);
        assert_eq!(health.ailment(), None);
    }
}
