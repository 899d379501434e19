//! Cron expressions: five fields, and at least one instant at which they come true.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{Date, Time};

/// When something happens, by the calendar and the clock on the wall; valid by construction.
///
/// The fields are read by `croner`. What an expression means on a day whose clock is changed is not its matter: it tells
/// days and times of day, and [`crate::schedule`] where they lie.
#[derive(Debug, Clone)]
pub struct Cron {
    text: String,
    days: croner::Cron,
    times: Vec<Time>,
}

impl Cron {
    /// What is allowed, for messages.
    pub const ALLOWED: &str = "five fields as in crontab (minute hour day month weekday) that come true some day, such as \"0 3 * * *\"";

    /// Reads an expression; `None` when it is none, or never comes true. Nicknames such as `@daily` are not taken.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('@') || text.split_whitespace().count() != 5 {
            return None;
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let days = parser.parse(text).ok()?;
        let times = times_of_day(&days);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let cron = Self { text, days, times };
        cron.comes_true().then_some(cron)
    }

    /// At three in the morning: the default.
    #[expect(clippy::expect_used, reason = "a constant, which the tests parse")]
    pub(super) fn nightly() -> Self {
        Self::parse("0 3 * * *").expect("five fields that come true every day")
    }

    /// The times of a day on which it comes true, earliest first; at least one.
    #[must_use]
    pub fn times(&self) -> &[Time] {
        &self.times
    }

    /// Whether it comes true on a date.
    #[must_use]
    pub fn is_on(&self, date: Date) -> bool {
        let pattern = &self.days.pattern;
        let (Ok(month), Ok(day)) = (u32::try_from(date.month()), u32::try_from(date.day())) else {
            return false;
        };
        is_some(pattern.month_match(month))
            && is_some(pattern.day_match(date.year().into(), month, day))
    }

    /// Whether it comes true within one cycle of the calendar: dates fall on the same weekdays every 28 years.
    fn comes_true(&self) -> bool {
        let first = jiff::civil::date(2000, 1, 1);
        let days = std::iter::successors(Some(first), |day| day.tomorrow().ok());
        !self.times.is_empty()
            && days
                .take_while(|day| day.year() < 2028)
                .any(|day| self.is_on(day))
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_some<E>(answer: Result<bool, E>) -> bool {
    answer.is_ok_and(|matches| matches)
}

fn times_of_day(cron: &croner::Cron) -> Vec<Time> {
    let pattern = &cron.pattern;
    let all = |most: u8| 0..most;
    let hours = all(24).filter(|hour| is_some(pattern.hour_match((*hour).into())));
    let minutes: Vec<u8> = all(60)
        .filter(|minute| is_some(pattern.minute_match((*minute).into())))
        .collect();
    hours
        .flat_map(|hour| minutes.iter().map(move |minute| (hour, *minute)))
        .filter_map(|(hour, minute)| Time::new(hour.cast_signed(), minute.cast_signed(), 0, 0).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_fields_that_come_true() {
        for good in [
            "0 3 * * *",
            "*/15 0-5 * * MON-FRI",
            "0 3 29 2 *",
            "30 2 1,15 jan *",
            " 0  3 * * 7 ",
        ] {
            assert!(Cron::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "nonsense",
            "* * * *",
            "0 0 3 * * *",
            "0 0 3 * * * 2026",
            "@daily",
            "@reboot",
            "60 3 * * *",
            "0 24 * * *",
            "0 3 32 * *",
            "0 3 * 13 *",
            "0 3 * * 8",
            "0 3 31 2 *",
            "0 3 30 FEB *",
            "0 3 31 4,6 *",
            ", 3 * * *",
            "*/0 3 * * *",
            "5-1 3 * * *",
            "0 3 * * mon@",
            "0 3 * * funday",
            "-1 3 * * *",
        ] {
            assert!(Cron::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn days_and_times_are_those_of_the_fields() {
        let cron = Cron::parse(" */30  2,3 1  * MON ").unwrap();
        assert_eq!(cron.to_string(), "*/30 2,3 1 * MON");
        let times: Vec<String> = cron.times().iter().map(ToString::to_string).collect();
        assert_eq!(times, ["02:00:00", "02:30:00", "03:00:00", "03:30:00"]);
        // As in crontab: on the first of the month, and on Mondays.
        for (day, is_on) in [(1, true), (2, true), (3, false), (9, true)] {
            assert_eq!(cron.is_on(jiff::civil::date(2026, 11, day)), is_on, "{day}");
        }
    }
}
