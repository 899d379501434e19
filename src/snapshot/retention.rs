//! Which pairs are kept: the newest of each of so many days, weeks and months that have one, in UTC; and whatever is
//! younger than a day, such as the pair that a person took before an upgrade, and the first one of a store.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use jiff::tz::TimeZone;

use crate::clock::Timestamp;
use crate::config;

/// Tells which day, week or month an instant is in.
type Period = fn(Timestamp) -> (i16, i16);

/// What is younger than this is kept whatever the day.
const YOUNG: SignedDuration = SignedDuration::from_hours(24);

/// The pairs that are no longer kept `now`, of pairs and when they were taken: of one instant, in that order. The newest of
/// all is always kept.
#[must_use]
pub fn expired<'a>(
    pairs: &[(&'a str, Timestamp)],
    now: Timestamp,
    keep: &config::Snapshot,
) -> Vec<&'a str> {
    let mut newest_first: Vec<(&str, Timestamp)> = pairs.iter().rev().copied().collect();
    newest_first.sort_by_key(|(_, taken_at)| std::cmp::Reverse(*taken_at));
    let mut kept: BTreeSet<&str> = newest_first
        .first()
        .map(|(name, _)| *name)
        .into_iter()
        .collect();
    let is_young = |at: Timestamp| now.duration_since(at) < YOUNG;
    kept.extend(
        pairs
            .iter()
            .filter(|(_, at)| is_young(*at))
            .map(|(name, _)| *name),
    );
    let rules: [(u32, Period); 3] = [
        (keep.keep_daily, day),
        (keep.keep_weekly, week),
        (keep.keep_monthly, month),
    ];
    for (count, period) in rules {
        let mut seen = BTreeSet::new();
        for (name, taken_at) in &newest_first {
            if seen.len() as u64 >= u64::from(count) {
                break;
            }
            if seen.insert(period(*taken_at)) {
                kept.insert(name);
            }
        }
    }
    let mut expired: Vec<&str> = pairs
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !kept.contains(name))
        .collect();
    expired.sort_unstable();
    expired
}

fn day(at: Timestamp) -> (i16, i16) {
    let date = TimeZone::UTC.to_datetime(at).date();
    (date.year(), date.day_of_year())
}

fn week(at: Timestamp) -> (i16, i16) {
    let week = TimeZone::UTC.to_datetime(at).date().iso_week_date();
    (week.year(), week.week().into())
}

fn month(at: Timestamp) -> (i16, i16) {
    let date = TimeZone::UTC.to_datetime(at).date();
    (date.year(), date.month().into())
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    fn keep(daily: u32, weekly: u32, monthly: u32) -> config::Snapshot {
        config::Snapshot {
            enabled: true,
            keep_daily: daily,
            keep_weekly: weekly,
            keep_monthly: monthly,
        }
    }

    /// A pair each night of 400 nights, newest last.
    fn nights() -> Vec<(String, Timestamp)> {
        let last: Timestamp = "2026-11-30T03:00:00Z".parse().unwrap();
        (0..400)
            .rev()
            .map(|n: i64| {
                let at = last - (24 * n).hours();
                (at.strftime("%F").to_string(), at)
            })
            .collect()
    }

    fn left(pairs: &[(String, Timestamp)], keep: &config::Snapshot) -> Vec<String> {
        let given: Vec<(&str, Timestamp)> = pairs.iter().map(|(n, at)| (n.as_str(), *at)).collect();
        let now = pairs.last().map_or(Timestamp::UNIX_EPOCH, |(_, at)| *at);
        let expired = expired(&given, now, keep);
        let mut left: Vec<String> = pairs.iter().map(|(name, _)| name.clone()).collect();
        left.retain(|name| !expired.contains(&name.as_str()));
        left
    }

    #[test]
    fn the_newest_of_each_day_week_and_month_stays() {
        let kept = left(&nights(), &keep(3, 2, 3));
        // 2026-11-30 is a Monday: its week has that one pair.
        assert_eq!(
            kept,
            [
                "2026-09-30",
                "2026-10-31",
                "2026-11-28",
                "2026-11-29",
                "2026-11-30"
            ]
        );
        assert_eq!(left(&nights(), &keep(7, 4, 6)).len(), 7 + 2 + 5);
    }

    #[test]
    fn retention_at_every_night_keeps_what_retention_at_the_end_would() {
        let rule = keep(7, 4, 6);
        let mut shelf: Vec<(String, Timestamp)> = Vec::new();
        for night in nights() {
            shelf.push(night);
            let kept = left(&shelf, &rule);
            shelf.retain(|(name, _)| kept.contains(name));
        }
        let names: Vec<String> = shelf.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, left(&nights(), &rule));
    }

    #[test]
    fn the_last_one_is_never_dropped() {
        let rule = keep(0, 0, 0);
        assert_eq!(left(&nights(), &rule), ["2026-11-30"]);
        assert_eq!(left(&nights()[..1], &rule).len(), 1);
        assert_eq!(left(&[], &rule), [""; 0]);
    }

    #[test]
    fn of_several_a_day_the_newest_stays_and_what_is_young() {
        let at = |text: &str| (text.to_owned(), text.parse().unwrap());
        let pairs = [
            at("2026-11-30T10:00:00Z"),
            at("2026-11-30T03:00:00Z"),
            at("2026-11-29T23:59:59Z"),
            at("2026-12-01T10:00:01Z"),
            at("2026-12-01T20:00:00Z"),
        ];
        assert_eq!(
            left(&pairs, &keep(3, 0, 0)),
            [
                "2026-11-30T10:00:00Z",
                "2026-11-29T23:59:59Z",
                "2026-12-01T10:00:01Z",
                "2026-12-01T20:00:00Z"
            ]
        );
    }
}
