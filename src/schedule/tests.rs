use jiff::civil::date;
use jiff::{SignedDuration, ToSpan as _};

use super::*;

fn schedule(cron: &str, zone: &str) -> Schedule {
    Schedule {
        cron: Cron::parse(cron).unwrap(),
        zone: TimeZone::get(zone).unwrap(),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Every run from the first to the last instant of a local year.
fn runs_of(schedule: &Schedule, year: i16) -> Vec<Timestamp> {
    let start = |year| {
        let midnight = date(year, 1, 1).at(0, 0, 0, 0);
        schedule.zone.to_timestamp(midnight).unwrap()
    };
    let mut now = start(year) - SignedDuration::from_nanos(1);
    let end = start(year + 1);
    let mut runs = Vec::new();
    loop {
        now = schedule.next_after(now).unwrap();
        if now >= end {
            return runs;
        }
        runs.push(now);
    }
}

fn local(schedule: &Schedule, run: Timestamp) -> String {
    schedule.zone.to_datetime(run).to_string()
}

#[test]
fn every_local_day_has_exactly_one_run() {
    // Years in which each zone changed its clock twice; the days on which the time itself was skipped or doubled.
    for (zone, cron, year, unusual) in [
        ("Europe/Lisbon", "30 2 * * *", 2026, &[][..]),
        // 01:00 to 02:00 is skipped in March, and doubled in October.
        (
            "Europe/Lisbon",
            "30 1 * * *",
            2026,
            &["2026-03-29T02:30:00"],
        ),
        ("America/Sao_Paulo", "30 2 * * *", 2018, &[]),
        // Midnight to 01:00 is skipped in November, 23:00 to midnight doubled in February.
        (
            "America/Sao_Paulo",
            "30 0 * * *",
            2018,
            &["2018-11-04T01:30:00"],
        ),
        ("America/Sao_Paulo", "30 23 * * *", 2018, &[]),
        (
            "America/New_York",
            "30 2 * * *",
            2026,
            &["2026-03-08T03:30:00"],
        ),
        ("America/New_York", "30 1 * * *", 2026, &[]),
        // Half an hour: 02:00 to 02:30 is skipped in October, 01:30 to 02:00 doubled in April.
        ("Australia/Lord_Howe", "30 2 * * *", 2026, &[]),
        (
            "Australia/Lord_Howe",
            "15 2 * * *",
            2026,
            &["2026-10-04T02:45:00"],
        ),
        ("Australia/Lord_Howe", "45 1 * * *", 2026, &[]),
        ("UTC", "30 2 * * *", 2028, &[]),
    ] {
        let schedule = schedule(cron, zone);
        let runs = runs_of(&schedule, year);
        let mut day = date(year, 1, 1);
        for run in &runs {
            let there = schedule.zone.to_datetime(*run);
            assert_eq!(there.date(), day, "{zone} {cron}");
            day = day.tomorrow().unwrap();
        }
        assert_eq!(day, date(year + 1, 1, 1), "{zone} {cron}");
        let [minute, hour] = [0, 1].map(|field| cron.split(' ').nth(field).unwrap());
        let usual = format!("T{hour:0>2}:{minute:0>2}:00");
        let moved: Vec<String> = runs.iter().map(|run| local(&schedule, *run)).collect();
        let moved: Vec<&String> = moved.iter().filter(|run| !run.ends_with(&usual)).collect();
        assert_eq!(moved, unusual, "{zone} {cron}");
    }
}

#[test]
fn a_doubled_time_is_the_first_of_the_two() {
    let schedule = schedule("30 1 * * *", "America/New_York");
    let night = schedule.next_after(at("2026-11-01T04:00:00Z")).unwrap();
    assert_eq!(night, at("2026-11-01T05:30:00Z"), "01:30 in summer time");
    let next = schedule.next_after(night).unwrap();
    assert_eq!(next, at("2026-11-02T06:30:00Z"));
}

#[test]
fn every_local_hour_runs_once_where_hours_are_skipped_and_doubled() {
    let schedule = schedule("*/30 * * * *", "America/New_York");
    let runs = runs_of(&schedule, 2026);
    let times: std::collections::BTreeSet<String> =
        runs.iter().map(|run| local(&schedule, *run)).collect();
    assert_eq!(times.len(), runs.len(), "no local time twice");
    // One hour is skipped; the doubled one is not doubled.
    assert_eq!(runs.len(), 365 * 48 - 2);
}

#[test]
fn a_day_that_a_zone_left_out_runs_on_the_next() {
    let schedule = schedule("30 2 * * *", "Pacific/Apia");
    let runs = runs_of(&schedule, 2011);
    assert_eq!(runs.len(), 364, "there was no 30 December");
}

#[test]
fn rare_days_are_found_and_the_end_of_time_is_no_panic() {
    let leap = schedule("0 3 29 2 *", "UTC");
    assert_eq!(
        leap.next_after(at("2096-03-01T00:00:00Z")),
        Some(at("2104-02-29T03:00:00Z"))
    );
    assert_eq!(leap.next_after(Timestamp::MAX), None);
    assert!(leap.next_after(Timestamp::MIN).is_some());
    let weekdays = schedule("0 3 * * MON-FRI", "UTC");
    assert_eq!(
        weekdays.next_after(at("2026-11-27T03:00:00Z")),
        Some(at("2026-11-30T03:00:00Z")),
        "from Friday to Monday"
    );
}

#[test]
fn missed_and_overdue_go_by_the_schedule() {
    let weekdays = schedule("0 3 * * MON-FRI", "UTC");
    let friday = at("2026-11-27T03:00:02Z");
    for (now, missed, overdue) in [
        ("2026-11-27T03:00:02Z", false, false),
        ("2026-11-30T02:59:59Z", false, false),
        ("2026-11-30T03:00:00Z", true, false),
        ("2026-12-01T02:59:59Z", true, false),
        ("2026-12-01T03:00:00Z", true, true),
        // The clock was put back.
        ("2026-11-20T03:00:00Z", false, false),
    ] {
        assert_eq!(weekdays.is_missed(friday, at(now)), missed, "{now}");
        assert_eq!(weekdays.is_overdue(friday, at(now)), overdue, "{now}");
    }
}

/// Looks at a clock that reads these times one after another; the times at which a run was due.
fn due(planner: &mut Planner, clock: &[&str]) -> Vec<String> {
    let looks = clock
        .iter()
        .filter(|now| planner.take_due(at(now)).is_some());
    looks.map(ToString::to_string).collect()
}

#[test]
fn a_clock_that_jumps_makes_one_run_of_each_night() {
    for (what, clock, expected) in [
        (
            "a night like any other",
            &[
                "2026-11-30T02:59:59Z",
                "2026-11-30T03:00:00Z",
                "2026-11-30T03:00:01Z",
                "2026-12-01T02:59:59Z",
                "2026-12-01T03:00:00.5Z",
            ][..],
            &["2026-11-30T03:00:00Z", "2026-12-01T03:00:00.5Z"][..],
        ),
        (
            "asleep from before the run to a day after it",
            &[
                "2026-11-30T02:00:00Z",
                "2026-12-01T04:00:00Z",
                "2026-12-01T04:00:05Z",
                "2026-12-02T03:00:00Z",
            ],
            &["2026-12-01T04:00:00Z", "2026-12-02T03:00:00Z"],
        ),
        (
            "put forward by two hours, over the run",
            &["2026-11-30T02:00:00Z", "2026-11-30T04:00:00Z"],
            &["2026-11-30T04:00:00Z"],
        ),
        (
            "put back by an hour, after the run",
            &[
                "2026-11-30T03:00:00Z",
                "2026-11-30T02:05:00Z",
                "2026-11-30T03:00:00Z",
                "2026-11-30T03:05:00Z",
                "2026-12-01T03:00:00Z",
            ],
            &["2026-11-30T03:00:00Z", "2026-12-01T03:00:00Z"],
        ),
        (
            "put back by an hour, before the run",
            &[
                "2026-11-30T02:30:00Z",
                "2026-11-30T01:30:00Z",
                "2026-11-30T02:59:00Z",
                "2026-11-30T03:00:00Z",
            ],
            &["2026-11-30T03:00:00Z"],
        ),
        (
            "wrong by a month, then put right: the nights that lie between are not lost",
            &[
                "2026-12-30T03:00:00Z",
                "2026-11-30T12:00:00Z",
                "2026-12-01T03:00:00Z",
                "2026-12-02T03:00:00Z",
            ],
            &[
                "2026-12-30T03:00:00Z",
                "2026-12-01T03:00:00Z",
                "2026-12-02T03:00:00Z",
            ],
        ),
    ] {
        let start = at(clock[0]) - 1.second();
        let mut planner = Planner::new(schedule("0 3 * * *", "UTC"), start);
        assert_eq!(due(&mut planner, clock), expected, "{what}");
    }
}

#[test]
fn another_schedule_counts_from_now_on() {
    let mut planner = Planner::new(schedule("0 3 * * *", "UTC"), at("2026-11-30T02:00:00Z"));
    planner.reschedule(schedule("0 1 * * *", "UTC"), at("2026-11-30T02:00:00Z"));
    assert_eq!(planner.next(), Some(at("2026-12-01T01:00:00Z")));
    let one = at("2026-12-01T01:00:00Z");
    assert_eq!(planner.take_due(at("2026-12-01T01:00:07Z")), Some(one));
    planner.reschedule(schedule("0 3 * * *", "UTC"), at("2026-12-01T02:00:00Z"));
    assert_eq!(planner.next(), Some(at("2026-12-01T03:00:00Z")));
    // Read again in the second in which a run is due.
    planner.reschedule(schedule("0 5 * * *", "UTC"), at("2026-12-01T03:00:00Z"));
    assert_eq!(
        due(
            &mut planner,
            &["2026-12-01T03:00:00Z", "2026-12-01T05:00:00Z"]
        ),
        ["2026-12-01T03:00:00Z", "2026-12-01T05:00:00Z"]
    );
}
