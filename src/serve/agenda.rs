//! What the daemon is to start next, and when that was due.
//!
//! Mechanics: the [`Planner`] tells when a night is due. While a run is at work a night waits, however many come due
//! meanwhile, and starts when that run has ended. It comes by every store, whatever the run before it was for: a catch-up
//! of one store, another try of one that was away, the night before. Going by a store twice is harmless, leaving one out is
//! not.
//!
//! Policy: one run at a time. What could not be done is tried again for a while ([`Retry`]); a night that waits comes by
//! it anyway.

use std::time::Duration;

use super::retry::Retry;
use super::work::Task;
use crate::clock::Timestamp;
use crate::report::{Cause, RunReport};
use crate::schedule::{Planner, Schedule};

/// Something to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Errand {
    pub(super) task: Task,
    /// For these stores; for all of them when there is none.
    pub(super) stores: Vec<String>,
}

/// What is to be started.
#[derive(Debug)]
pub(super) struct Agenda {
    planner: Planner,
    /// When the run at work was due.
    at_work: Option<Timestamp>,
    /// When the night was due that waits for the run at work.
    waiting: Option<Timestamp>,
    retry: Option<Retry>,
    /// Stores that stayed away for all of their time.
    given_up: Vec<String>,
}

impl Agenda {
    pub(super) fn new(planner: Planner) -> Self {
        Self {
            planner,
            at_work: None,
            waiting: None,
            retry: None,
            given_up: Vec::new(),
        }
    }

    pub(super) fn schedule(&self) -> &Schedule {
        self.planner.schedule()
    }

    /// When the next night is due that is not at work and does not wait.
    pub(super) fn planned(&self) -> Option<Timestamp> {
        self.planner.next()
    }

    /// When the run was due that is at work, or else the one that waits or comes next.
    pub(super) fn next_run(&self) -> Option<Timestamp> {
        self.at_work.or(self.waiting).or(self.planner.next())
    }

    /// The stores that are tried again later.
    pub(super) fn to_try_again(&self) -> &[String] {
        self.retry.as_ref().map_or(&[], |retry| &retry.stores)
    }

    /// A run over stores whose night was missed. It is due now.
    pub(super) fn catch_up(&mut self, stores: Vec<String>, now: Timestamp) -> Errand {
        self.run(stores, now)
    }

    /// What is to be started at `now`; nothing while a run is at work (`is_busy`). To be asked again and again.
    pub(super) fn look(&mut self, now: Timestamp, is_busy: bool) -> Option<Errand> {
        if let Some(due) = self.planner.take_due(now) {
            if is_busy {
                tracing::warn!(
                    "a run is due while another one is at work: it starts when that has ended"
                );
            }
            self.waiting.get_or_insert(due);
        }
        if is_busy { None } else { self.next(now) }
    }

    fn next(&mut self, now: Timestamp) -> Option<Errand> {
        if !self.given_up.is_empty() {
            let stores = std::mem::take(&mut self.given_up);
            return Some(Errand {
                task: Task::Skip,
                stores,
            });
        }
        if let Some(due) = self.waiting.take() {
            // It comes by the stores that were away, too.
            self.retry = None;
            return Some(self.run(Vec::new(), due));
        }
        let retry = self.retry.as_ref().filter(|retry| retry.is_due())?;
        Some(self.run(retry.stores.clone(), now))
    }

    fn run(&mut self, stores: Vec<String>, due: Timestamp) -> Errand {
        self.at_work = Some(due);
        Errand {
            task: Task::Run,
            stores,
        }
    }

    /// The run at work came to nothing: it panicked, or it was given up.
    pub(super) fn failed(&mut self) {
        self.at_work = None;
        self.retry = None;
    }

    /// The run at work has ended. What it could not do is tried again within `window`; what is away for all of it is given
    /// up.
    pub(super) fn ended(&mut self, task: Task, report: &RunReport, window: Duration) {
        self.at_work = None;
        if task == Task::Skip {
            return;
        }
        let before = self.retry.take();
        let missed = Missed::of(report);
        let stores = missed.stores();
        if stores.is_empty() || report.interrupted || self.waiting.is_some() {
            return;
        }
        self.retry = match before {
            Some(before) => before.again(stores),
            None => Retry::new(stores, window),
        };
        missed.log(self.retry.is_some());
        if self.retry.is_none() {
            self.given_up = missed.away;
        }
    }

    /// Plans by another schedule, for stores of which only those remain that `is_known`.
    pub(super) fn reschedule(
        &mut self,
        schedule: Schedule,
        is_known: impl Fn(&str) -> bool,
        now: Timestamp,
    ) {
        self.planner.reschedule(schedule, now);
        self.given_up.retain(|store| is_known(store));
        if let Some(retry) = &mut self.retry {
            retry.stores.retain(|store| is_known(store));
        }
        // A list without a name would stand for every store.
        self.retry.take_if(|retry| retry.stores.is_empty());
    }
}

/// The stores that a run could not do, or not wholly, and that may be free another time.
struct Missed {
    away: Vec<String>,
    /// Another run is at work on them.
    held: Vec<String>,
    /// Another program has locked a database of theirs, so that a pass failed, or left it alone.
    locked: Vec<String>,
}

impl Missed {
    fn of(report: &RunReport) -> Self {
        let because = |cause| {
            let stores = report.unopened.iter();
            let stores = stores.filter(|store| store.cause == cause);
            stores.map(|store| store.store.to_string()).collect()
        };
        Self {
            away: because(Cause::Away),
            held: because(Cause::Held),
            locked: report.locked.iter().map(ToString::to_string).collect(),
        }
    }

    fn stores(&self) -> Vec<String> {
        [&self.away, &self.held, &self.locked]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    fn log(&self, is_tried_again: bool) {
        let end = if is_tried_again {
            "tried again later"
        } else {
            "for all of schedule.retry_for: left to the next run"
        };
        for (stores, what) in [
            (&self.away, "away"),
            (&self.held, "another run is at work on it"),
            (&self.locked, "locked by another program"),
        ] {
            if !stores.is_empty() {
                tracing::warn!(stores = stores.join(", "), "{what}: {end}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::report::Unopened;
    use crate::serve::testing::configured;

    const HOUR: Duration = Duration::from_hours(1);

    fn at(text: &str) -> Timestamp {
        format!("2026-11-{text}Z").parse().unwrap()
    }

    fn schedule(cron: &str) -> Schedule {
        Schedule::new(
            &configured(&format!(
                "[schedule]
cron = '{cron}'"
            ))
            .schedule,
        )
    }

    fn agenda(now: &str) -> Agenda {
        Agenda::new(Planner::new(schedule("0 3 * * *"), at(now)))
    }

    fn over(stores: &[&str]) -> Errand {
        Errand {
            task: Task::Run,
            stores: stores.iter().map(ToString::to_string).collect(),
        }
    }

    fn report(away: &[&str]) -> RunReport {
        let unopened = |store: &&str| Unopened {
            store: (*store).into(),
            error: "open it".into(),
            hint: None,
            exit: Exit::NoStore,
            cause: Cause::Away,
        };
        RunReport {
            unopened: away.iter().map(unopened).collect(),
            ..RunReport::new("run", at("30T03:00:00"))
        }
    }

    #[test]
    fn a_night_that_comes_due_during_a_catch_up_of_one_store_starts_after_it_over_all() {
        let mut agenda = agenda("30T02:59:50");
        let errand = agenda.catch_up(vec!["a".into()], at("30T02:59:57"));
        assert_eq!(errand, over(&["a"]));
        assert_eq!(agenda.next_run(), Some(at("30T02:59:57")));
        assert_eq!(agenda.look(at("30T02:59:59"), true), None);
        // Due, and due again a day later: one night.
        assert_eq!(agenda.look(at("30T03:00:00"), true), None);
        assert_eq!(agenda.look(at("30T03:00:05"), true), None);
        agenda.ended(Task::Run, &report(&[]), HOUR);
        assert_eq!(agenda.next_run(), Some(at("30T03:00:00")), "it is late");
        assert_eq!(agenda.look(at("30T03:00:10"), false), Some(over(&[])));
        assert_eq!(agenda.next_run(), Some(at("30T03:00:00")), "it is at work");
        assert_eq!(agenda.look(at("30T04:00:00"), true), None);
        agenda.ended(Task::Run, &report(&[]), HOUR);
        assert_eq!(agenda.look(at("30T04:00:05"), false), None, "once");
        assert_eq!(agenda.next_run(), "2026-12-01T03:00:00Z".parse().ok());
    }

    #[test]
    fn however_many_nights_come_due_during_a_run_one_is_made_up_for() {
        let mut agenda = Agenda::new(Planner::new(schedule("* * * * *"), at("30T02:59:30")));
        assert_eq!(agenda.look(at("30T03:00:00"), false), Some(over(&[])));
        for minute in 1..5 {
            let now = format!("30T03:0{minute}:02");
            assert_eq!(agenda.look(at(&now), true), None);
        }
        assert_eq!(agenda.next_run(), Some(at("30T03:00:00")));
        agenda.ended(Task::Run, &report(&[]), HOUR);
        assert_eq!(agenda.next_run(), Some(at("30T03:01:00")));
        assert_eq!(agenda.look(at("30T03:04:30"), false), Some(over(&[])));
        agenda.ended(Task::Run, &report(&[]), HOUR);
        assert_eq!(agenda.look(at("30T03:04:40"), false), None);
        assert_eq!(agenda.look(at("30T03:05:00"), false), Some(over(&[])));
    }

    #[test]
    fn a_night_that_comes_due_while_a_store_is_tried_again_or_skipped_is_not_lost() {
        let window = Duration::from_nanos(10);
        let mut agenda = agenda("30T02:50:00");
        drop(agenda.catch_up(vec![], at("30T02:50:00")));
        agenda.ended(Task::Run, &report(&["a"]), window);
        assert_eq!(agenda.look(at("30T02:59:00"), false), Some(over(&["a"])));
        assert_eq!(agenda.look(at("30T03:00:00"), true), None);
        // Still away, and its time is over: the night that waits comes by it.
        agenda.ended(Task::Run, &report(&["a"]), window);
        assert_eq!(agenda.look(at("30T03:00:05"), false), Some(over(&[])));
        // That finds it away as well, and it is given up a moment before the next night.
        agenda.ended(Task::Run, &report(&["a"]), Duration::ZERO);
        let skipped = Errand {
            task: Task::Skip,
            stores: vec!["a".into()],
        };
        let next: Timestamp = "2026-12-01T03:00:00Z".parse().unwrap();
        assert_eq!(agenda.look(next, false), Some(skipped));
        assert_eq!(agenda.next_run(), Some(next));
        agenda.ended(Task::Skip, &report(&[]), HOUR);
        assert_eq!(agenda.look(next, false), Some(over(&[])));
    }

    #[test]
    fn a_run_that_panicked_is_not_tried_again_at_once() {
        let mut agenda = agenda("30T02:50:00");
        drop(agenda.catch_up(vec![], at("30T02:50:00")));
        agenda.ended(Task::Run, &report(&["a"]), Duration::from_nanos(10));
        assert_eq!(agenda.look(at("30T02:51:00"), false), Some(over(&["a"])));
        agenda.failed();
        assert_eq!(agenda.look(at("30T02:52:00"), false), None);
        assert_eq!(agenda.next_run(), Some(at("30T03:00:00")));
    }

    #[test]
    fn a_store_that_was_configured_away_is_not_tried_again() {
        let mut agenda = agenda("30T03:30:00");
        for (away, left) in [(&["a", "b"][..], &["b"][..]), (&["a"], &[])] {
            drop(agenda.catch_up(vec![], at("30T03:30:00")));
            agenda.ended(Task::Run, &report(away), Duration::from_nanos(10));
            agenda.reschedule(
                schedule("0 4 * * *"),
                |store| store != "a",
                at("30T03:31:00"),
            );
            assert_eq!(agenda.to_try_again(), left);
            let errand = agenda.look(at("30T03:32:00"), false);
            assert_eq!(errand, (!left.is_empty()).then(|| over(left)));
        }
    }

    #[test]
    fn what_may_be_free_later_is_tried_again_and_only_what_is_away_is_given_up() {
        let lasting = Unopened {
            cause: Cause::Lasting,
            ..report(&["full"]).unopened.remove(0)
        };
        let held = Unopened {
            cause: Cause::Held,
            ..report(&["held"]).unopened.remove(0)
        };
        let mut report = report(&["away"]);
        report.unopened.extend([lasting, held]);
        report.locked.push("locked".into());
        let mut agenda = agenda("30T03:30:00");
        drop(agenda.catch_up(vec![], at("30T03:30:00")));
        agenda.ended(Task::Run, &report, HOUR);
        assert_eq!(agenda.to_try_again(), ["away", "held", "locked"]);
        assert_eq!(agenda.look(at("30T03:31:00"), false), None, "not at once");
        agenda.failed();
        drop(agenda.catch_up(vec![], at("30T03:30:00")));
        agenda.ended(Task::Run, &report, Duration::ZERO);
        let skipped = Errand {
            task: Task::Skip,
            stores: vec!["away".into()],
        };
        assert_eq!(agenda.look(at("30T03:31:00"), false), Some(skipped));
    }
}
