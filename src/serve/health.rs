//! What the daemon knows of itself, for those who ask over HTTP.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Stopwatch, Timestamp};
use crate::config::Config;
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
    last_good: Option<Timestamp>,
}

impl Health {
    pub(super) fn new(config: Arc<Config>, last_good: Option<Timestamp>) -> Self {
        Self(Mutex::new(Known {
            config,
            is_refused: false,
            beat: Stopwatch::start(),
            hangs: false,
            last_good,
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change is one assignment.
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

    /// A run has ended; see [`super::nights::last_good`].
    pub(super) fn ran(&self, last_good: Option<Timestamp>) {
        self.known().last_good = last_good;
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

    /// Why it is not ready, the stores apart; empty when it is.
    pub(super) fn complaints(&self, now: Timestamp) -> Vec<String> {
        let known = self.known();
        let schedule = Schedule::new(&known.config.schedule);
        let mut complaints = Vec::new();
        if known.is_refused {
            complaints.push("configuration: invalid, the one before it is in force".to_owned());
        }
        match known.last_good {
            None => complaints.push("last run: none yet".to_owned()),
            Some(last) if schedule.is_overdue(last, now) => {
                complaints.push(format!("last run: {last:.0}, more than two periods ago"));
            }
            Some(_) => {}
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{self, Env};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn nightly() -> Arc<Config> {
        let text = "[[store]]\nname = 'agent'\nrows.path = 'm.db'\n";
        let path = Path::new("/etc/hypnos/hypnos.toml");
        Arc::new(config::parse(text, path, &Env::default()).unwrap())
    }

    #[test]
    fn a_run_is_overdue_after_two_periods() {
        let health = Health::new(nightly(), None);
        let complains = |now| health.complaints(at(now)).join("\n");
        assert_eq!(complains("2026-11-30T12:00:00Z"), "last run: none yet");
        health.ran(Some(at("2026-11-30T03:00:00.4Z")));
        assert_eq!(complains("2026-12-02T02:59:59Z"), "");
        assert_eq!(
            complains("2026-12-02T03:00:00Z"),
            "last run: 2026-11-30T03:00:00Z, more than two periods ago"
        );
    }

    #[test]
    fn an_invalid_file_is_complained_of_until_a_valid_one_is_read() {
        let last = at("2026-11-30T03:00:00Z");
        let health = Health::new(nightly(), Some(last));
        health.refuse();
        assert_eq!(health.complaints(last).len(), 1);
        health.accept(nightly());
        assert_eq!(health.complaints(last), Vec::<String>::new());
    }

    #[test]
    fn a_run_that_hangs_is_an_ailment_for_as_long_as_it_does() {
        let health = Health::new(nightly(), None);
        assert_eq!(health.ailment(), None);
        health.beat(true);
        assert_eq!(health.ailment(), Some("a run hangs"));
        health.beat(false);
        assert_eq!(health.ailment(), None);
    }
}
