//! When the next run is due.
//!
//! Mechanics: [`Schedule`] is a pure function of a cron expression, a zone and an instant. The expression gives days and
//! times of day, each of which stands for exactly one instant: a time that a clock change skips stands for as much
//! later as the clock was put forward (02:30 for 03:30), a time that it doubles for the first of the two. [`Planner`]
//! keeps what is planned against a wall clock that may jump.
//!
//! Policy: a run that was missed, by a suspend, a jump of the clock or a longer run before it, is made up for once,
//! however many were missed. What has run does not run again because the clock was put back, unless it was wrong by
//! more than the time between two runs.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::clock::Timestamp;
use crate::config::{self, Cron};

/// Days within which the calendar repeats: 28 years, and the years without a leap day about 2100.
const CYCLE_DAYS: usize = 41 * 366;

/// When runs are due.
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

impl Schedule {
    /// The schedule that was configured.
    #[must_use]
    pub fn new(config: &config::Schedule) -> Self {
        Self {
            cron: config.cron.clone(),
            zone: config.timezone.clone(),
        }
    }

    /// The first instant after `now` at which a run is due; `None` when time itself ends before.
    #[must_use]
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        // A time of yesterday that was skipped may stand for one that is still to come.
        let first = self.zone.to_datetime(now).date().yesterday().ok()?;
        let mut days = std::iter::successors(Some(first), |day| day.tomorrow().ok());
        let (day, next) = days
            .by_ref()
            .take(CYCLE_DAYS)
            .find_map(|day| Some((day, self.first_of_day(day, now)?)))?;
        // For the same reason the day after may begin before the times of this one are over.
        let after = day
            .tomorrow()
            .ok()
            .and_then(|day| self.first_of_day(day, now));
        Some(after.map_or(next, |after| next.min(after)))
    }

    /// Whether a run has been missed at `now`, where the last one was at `last`.
    #[must_use]
    pub fn is_missed(&self, last: Timestamp, now: Timestamp) -> bool {
        self.next_after(last).is_some_and(|next| next <= now)
    }

    /// Whether the last run, at `last`, is more than two periods ago at `now`: one run was left out, and the next one
    /// is due as well.
    #[must_use]
    pub fn is_overdue(&self, last: Timestamp, now: Timestamp) -> bool {
        self.next_after(last)
            .is_some_and(|next| self.is_missed(next, now))
    }

    fn first_of_day(&self, day: Date, now: Timestamp) -> Option<Timestamp> {
        if !self.cron.is_on(day) {
            return None;
        }
        let instants = self
            .cron
            .times()
            .iter()
            // Skipped: later by the gap. Doubled: the first of the two.
            .filter_map(|time| self.zone.to_timestamp(day.to_datetime(*time)).ok());
        instants.filter(|instant| *instant > now).min()
    }
}

/// What is planned, on a clock that may jump.
#[derive(Debug, Clone)]
pub struct Planner {
    schedule: Schedule,
    /// The clock when it was last looked at.
    seen: Timestamp,
    next: Option<Timestamp>,
    /// The clock when the last run was told to be due.
    done: Option<Timestamp>,
}

impl Planner {
    /// Plans from `now` on.
    #[must_use]
    pub fn new(schedule: Schedule, now: Timestamp) -> Self {
        Self {
            next: schedule.next_after(now),
            schedule,
            seen: now,
            done: None,
        }
    }

    /// When the next run is due.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// The schedule that it plans by.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Since when a run is due at `now`. It is told once, whoever asks has to see that it is done: the one after it is
    /// planned. To be asked again and again: a jump of the clock shows only in two looks at it.
    #[must_use = "what is due is not told twice"]
    pub fn take_due(&mut self, now: Timestamp) -> Option<Timestamp> {
        if now < self.seen {
            self.plan(now);
        }
        self.seen = now;
        let due = self.next.filter(|next| *next <= now)?;
        self.done = Some(now);
        self.next = self.schedule.next_after(now);
        Some(due)
    }

    /// Plans by another schedule from `now` on. A run that is due, and was not told yet, stays due.
    pub fn reschedule(&mut self, schedule: Schedule, now: Timestamp) {
        self.schedule = schedule;
        if self.next.is_none_or(|next| next > now) {
            self.plan(now);
        }
    }

    fn plan(&mut self, now: Timestamp) {
        self.next = self.schedule.next_after(now);
        let (Some(first), Some(done)) = (self.next, self.done) else {
            return;
        };
        if done < first {
            return;
        }
        // The clock was put back to before a run that was done.
        let second = self.schedule.next_after(first);
        if second.is_some_and(|second| second > done) {
            self.next = second;
        } else {
            self.done = None;
        }
    }
}

#[cfg(test)]
mod tests;
