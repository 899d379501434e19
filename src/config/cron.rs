//! Cron expressions: five fields, and at least one instant at which they come true.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

/// What is allowed, for messages.
pub(super) const ALLOWED: &str = "five fields as in crontab (minute hour day month weekday) that come true some day, such as \"0 3 * * *\"";

/// Whether `expression` is a schedule; nicknames such as `@daily` are not taken.
pub(super) fn is_valid(expression: &str) -> bool {
    if expression.contains('@') || expression.split_whitespace().count() != 5 {
        return false;
    }
    CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build()
        .parse(expression)
        .is_ok_and(|cron| comes_true(&cron))
}

/// Whether it comes true within one cycle of the calendar: dates fall on the same weekdays every 28 years.
fn comes_true(cron: &Cron) -> bool {
    let pattern = &cron.pattern;
    let is_some = |answer: Result<bool, _>| answer.is_ok_and(|matches| matches);
    let some_minute = (0..60).any(|minute| is_some(pattern.minute_match(minute)));
    let some_hour = (0..24).any(|hour| is_some(pattern.hour_match(hour)));
    let mut days = (2000..2028)
        .flat_map(|year| (1..=12).map(move |month| (year, month)))
        .filter(|(_, month)| is_some(pattern.month_match(*month)))
        .flat_map(|(year, month)| (1..=31).map(move |day| (year, month, day)));
    some_minute && some_hour && days.any(|(y, m, d)| is_some(pattern.day_match(y, m, d)))
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
            assert!(is_valid(good), "{good}");
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
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
