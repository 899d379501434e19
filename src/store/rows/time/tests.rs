use super::*;

fn format(encoding: Encoding, zone: &str) -> TimeFormat {
    TimeFormat {
        encoding,
        zone: TimeZone::get(zone).unwrap(),
    }
}

fn utc(encoding: Encoding) -> TimeFormat {
    format(encoding, "UTC")
}

fn at(instant: &str) -> Moment {
    Moment::exact(instant.parse().unwrap())
}

fn between(earliest: &str, latest: &str) -> Moment {
    Moment::At {
        earliest: earliest.parse().unwrap(),
        latest: latest.parse().unwrap(),
    }
}

fn text(text: &str) -> ValueRef<'_> {
    ValueRef::Text(text.as_bytes())
}

use Encoding::{Auto, Date, EpochFloat, EpochMillis, EpochSeconds, Text};
use ValueRef::{Blob, Integer, Null, Real};

#[test]
fn nothing_is_absent_in_every_encoding() {
    for encoding in [EpochSeconds, EpochMillis, EpochFloat, Text, Date, Auto] {
        for value in [
            Null,
            text(""),
            text(" \t\n"),
            Integer(0),
            Real(0.0),
            Real(-0.0),
            text("0"),
            text(" 0 "),
            Blob(b""),
        ] {
            assert_eq!(
                decode(value, &utc(encoding)),
                Moment::Absent,
                "{encoding:?} {value:?}"
            );
        }
    }
}

#[test]
fn noise_is_unreadable_in_every_encoding() {
    for encoding in [EpochSeconds, EpochMillis, EpochFloat, Text, Date, Auto] {
        for value in [
            Real(f64::NAN),
            Real(f64::INFINITY),
            Real(f64::NEG_INFINITY),
            Real(1e300),
            Integer(i64::MAX),
            Integer(i64::MIN),
            Integer(-1),
            Integer(1),
            Blob(&[0xff, 0x00, 0x12]),
            text("NaN"),
            text("inf"),
            text("never"),
            text("1e400"),
            text("0000-00-00 00:00:00"),
            text("1970-01-01 00:00:00"),
            text("10000-01-01 00:00:00"),
            text("Sun, 29 Nov 2026 18:27:27 GMT"),
        ] {
            assert_eq!(
                decode(value, &utc(encoding)),
                Moment::Unreadable,
                "{encoding:?} {value:?}"
            );
        }
    }
}

#[test]
fn epochs() {
    let half_past = at("2026-11-29T18:27:27.5Z");
    let sharp = at("2026-11-29T18:27:27Z");
    let seconds = 1_795_976_847;
    for (encoding, value, expected) in [
        (EpochSeconds, Integer(seconds), sharp),
        (EpochSeconds, text(" 1795976847 "), sharp),
        (EpochSeconds, Blob(b"1795976847"), sharp),
        (EpochSeconds, Real(1_795_976_847.5), half_past),
        (EpochFloat, Real(1_795_976_847.5), half_past),
        (EpochFloat, Integer(seconds), sharp),
        (EpochFloat, text("1795976847.5"), half_past),
        (EpochMillis, Integer(seconds * 1000 + 500), half_past),
        (EpochMillis, Real(1_795_976_847_500.0), half_past),
        (EpochMillis, text("1795976847500"), half_past),
        (Auto, Integer(seconds), sharp),
        (Auto, Integer(seconds * 1000 + 500), half_past),
        (Auto, Integer(seconds * 1_000_000 + 500_000), half_past),
        (Auto, Real(1_795_976_847.5), half_past),
        (Auto, text("1795976847"), sharp),
        (Auto, text("1795976847500"), half_past),
        (Auto, text("1795976847.5"), half_past),
        (Auto, text("1.795976847e9"), sharp),
    ] {
        assert_eq!(
            decode(value, &utc(encoding)),
            expected,
            "{encoding:?} {value:?}"
        );
    }
}

#[test]
fn the_wrong_unit_is_unreadable() {
    for (encoding, value) in [
        (EpochSeconds, Integer(1_795_976_847_500)),
        (EpochSeconds, text("1795976847500")),
        (EpochFloat, Real(1_795_976_847_500.0)),
        (EpochFloat, Integer(1_795_976_847_500_000)),
        (EpochMillis, Integer(1_795_976_847)),
        (EpochMillis, Integer(1_795_976_847_500_000)),
        (EpochMillis, Real(1_795_976_847.5)),
        (Text, Integer(1_795_976_847)),
        (Text, text("1795976847")),
        (EpochSeconds, text("2026-11-29 18:27:27")),
        (EpochMillis, text("2026-11-29")),
        (Auto, text("20261129")),
        (Auto, Integer(1_795_976_847_000_000_000)),
    ] {
        assert_eq!(
            decode(value, &utc(encoding)),
            Moment::Unreadable,
            "{encoding:?} {value:?}"
        );
    }
}

#[test]
fn the_bounds() {
    let last = Moment::exact(Timestamp::MAX);
    for (encoding, value, expected) in [
        (EpochSeconds, Integer(946_684_799), Moment::Unreadable),
        (
            EpochSeconds,
            Integer(946_684_800),
            at("2000-01-01T00:00:00Z"),
        ),
        (EpochSeconds, Integer(253_402_300_799), last),
        (EpochSeconds, Integer(253_402_300_800), Moment::Unreadable),
        (EpochMillis, Integer(253_402_300_799_999), last),
        (
            EpochMillis,
            Integer(253_402_300_800_000),
            Moment::Unreadable,
        ),
        (Text, text("1999-12-31T23:59:59Z"), Moment::Unreadable),
        (
            Text,
            text("2000-01-01T00:00:00Z"),
            at("2000-01-01T00:00:00Z"),
        ),
        (Text, text("9999-12-31T23:59:59Z"), last),
        (Text, text("9999-12-31 23:59:59"), last),
        (Text, text("9999-12-31T23:59:59.999999-12:00"), last),
        (Text, text("9999-12-31"), last),
        (
            Text,
            text("5000-06-01 00:00:00"),
            at("5000-06-01T00:00:00Z"),
        ),
    ] {
        let got = decode(value, &utc(encoding));
        if value == text("9999-12-31") {
            assert_eq!(got.latest(), expected.latest());
        } else {
            assert_eq!(got, expected, "{encoding:?} {value:?}");
        }
    }
}

#[test]
fn text_in_every_spelling() {
    for (value, expected) in [
        ("2026-11-29 18:27:27", "2026-11-29T18:27:27Z"),
        ("2026-11-29T18:27:27", "2026-11-29T18:27:27Z"),
        ("2026-11-29t18:27:27z", "2026-11-29T18:27:27Z"),
        ("2026-11-29T18:27:27Z", "2026-11-29T18:27:27Z"),
        ("  2026-11-29 18:27:27 \n", "2026-11-29T18:27:27Z"),
        ("2026-11-29 18:27:27Z", "2026-11-29T18:27:27Z"),
        ("2026-11-29 18:27:27 +00:00", "2026-11-29T18:27:27Z"),
        ("2026-11-29T18:27:27+00:00", "2026-11-29T18:27:27Z"),
        ("2026-11-29T18:27:27-00:00", "2026-11-29T18:27:27Z"),
        ("2026-11-29 18:27:27+0000", "2026-11-29T18:27:27Z"),
        ("2026-11-29T11:27:27-07:00", "2026-11-29T18:27:27Z"),
        ("2026-11-29T10:27:27-0800", "2026-11-29T18:27:27Z"),
        ("2026-11-29T20:27:27+02", "2026-11-29T18:27:27Z"),
        ("2026-11-29T23:57:27+05:30", "2026-11-29T18:27:27Z"),
        ("2026-11-29T18:27", "2026-11-29T18:27:00Z"),
        ("2026-11-29 18:27Z", "2026-11-29T18:27:00Z"),
        ("2026-11-29 18:27:27.5", "2026-11-29T18:27:27.5Z"),
        ("2026-11-29 18:27:27,25", "2026-11-29T18:27:27.25Z"),
        ("2026-11-29 18:27:27.883Z", "2026-11-29T18:27:27.883Z"),
        (
            "2026-11-29 18:27:27.883985+00:00",
            "2026-11-29T18:27:27.883985Z",
        ),
        (
            "2026-11-29T18:27:27.123456789Z",
            "2026-11-29T18:27:27.123456789Z",
        ),
    ] {
        assert_eq!(decode(text(value), &utc(Text)), at(expected), "{value:?}");
        assert_eq!(decode(text(value), &utc(Auto)), at(expected), "{value:?}");
        assert_eq!(
            decode(Blob(value.as_bytes()), &utc(Text)),
            at(expected),
            "{value:?}"
        );
    }
}

#[test]
fn half_a_time_is_unreadable() {
    for value in [
        "2026",
        "2026-11",
        "2026-11-",
        "2026-1-29",
        "26-11-29",
        "2026-13-01",
        "2026-02-30",
        "2026-11-29T",
        "2026-11-29 18",
        "2026-11-29 18:",
        "2026-11-29 24:00:00",
        "2026-11-29 18:60:00",
        "2026-11-29 18:27:60",
        "2026-11-29 18:27:27.",
        "2026-11-29 18:27:27.1234567890",
        "2026-11-29 18:27:27+",
        "2026-11-29 18:27:27+2",
        "2026-11-29 18:27:27+24:00",
        "2026-11-29 18:27:27+02:60",
        "2026-11-29 18:27:27+02:0",
        "2026-11-29 18:27:27 PST",
        "2026-11-29 18:27:27ZZ",
        "2026-11-29_18:27:27",
        "+2026-11-29 18:27:27",
        "2026-11-29 18:27:27 later",
        "２０２６-11-29",
    ] {
        assert_eq!(
            decode(text(value), &utc(Text)),
            Moment::Unreadable,
            "{value:?}"
        );
    }
}

#[test]
fn a_naive_time_is_read_in_its_zone() {
    let berlin = format(Text, "Europe/Berlin");
    for (value, expected) in [
        ("2026-07-01 12:00:00", at("2026-07-01T10:00:00Z")),
        ("2026-12-01 12:00:00", at("2026-12-01T11:00:00Z")),
        // A written offset wins over the zone.
        ("2026-07-01 12:00:00Z", at("2026-07-01T12:00:00Z")),
        // Skipped on 29 March, doubled on 25 October.
        (
            "2026-03-29 02:30:00",
            between("2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"),
        ),
        (
            "2026-10-25 02:30:00",
            between("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ),
    ] {
        assert_eq!(decode(text(value), &berlin), expected, "{value:?}");
    }
}

#[test]
fn a_bare_date_is_its_whole_day_in_the_zone() {
    for (zone, value, expected) in [
        (
            "UTC",
            "2026-11-29",
            between("2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z"),
        ),
        (
            "America/Los_Angeles",
            "2026-11-29",
            between("2026-11-29T08:00:00Z", "2026-11-30T08:00:00Z"),
        ),
        (
            "Europe/Berlin",
            "2026-03-29",
            between("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ),
        // The next midnight was skipped: either reading of it, and the later one keeps longer.
        (
            "America/Sao_Paulo",
            "2018-11-03",
            between("2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"),
        ),
    ] {
        for encoding in [Date, Text, Auto] {
            assert_eq!(
                decode(text(value), &format(encoding, zone)),
                expected,
                "{encoding:?} {zone} {value}"
            );
        }
    }
}

#[test]
fn times_to_live() {
    const DAY: Duration = Duration::from_hours(24);
    let days = |days: i64| TimeToLive::For(SignedDuration::from_hours(24 * days));
    for (value, expected) in [
        (Null, TimeToLive::Forever),
        (text(""), TimeToLive::Forever),
        (text("  "), TimeToLive::Forever),
        (Integer(0), TimeToLive::Forever),
        (text("0"), TimeToLive::Forever),
        (Real(0.0), TimeToLive::Forever),
        (Integer(30), days(30)),
        (text(" 30 "), days(30)),
        (Blob(b"30"), days(30)),
        (Real(30.0), days(30)),
        (Real(0.5), TimeToLive::For(SignedDuration::from_hours(12))),
        (text("0.5"), TimeToLive::For(SignedDuration::from_hours(12))),
        (Integer(-1), TimeToLive::Unreadable),
        (Real(-0.5), TimeToLive::Unreadable),
        (Real(f64::NAN), TimeToLive::Unreadable),
        (Real(f64::INFINITY), TimeToLive::Unreadable),
        (Real(1e-300), TimeToLive::Unreadable),
        (Real(1e300), TimeToLive::Unreadable),
        (Integer(i64::MAX), TimeToLive::Unreadable),
        (Integer(i64::MIN), TimeToLive::Unreadable),
        (Real(f64::MIN), TimeToLive::Unreadable),
        (Integer(-3_000_000_000_000_000), TimeToLive::Unreadable),
        (Integer(3_000_000), TimeToLive::Unreadable),
        (text("soon"), TimeToLive::Unreadable),
        (text("30 days"), TimeToLive::Unreadable),
        (Blob(&[0xff]), TimeToLive::Unreadable),
    ] {
        assert_eq!(decode_ttl(value, DAY), expected, "{value:?}");
    }
    assert_eq!(
        decode_ttl(Integer(90), Duration::from_mins(1)),
        TimeToLive::For(SignedDuration::from_mins(90))
    );
}

const WRITTEN: &str = "2026-11-29T18:27:27.883985Z";

/// Writes [`WRITTEN`] like another value, and reads it again.
fn writes(format: &TimeFormat, like: Option<&SqlValue>, expected: &SqlValue) {
    let instant: Timestamp = WRITTEN.parse().unwrap();
    let value = encode(instant, format, like);
    assert_eq!(&value, expected, "{format:?} {like:?}");
    let read = decode(super::super::value::as_ref(&value), format);
    assert!(
        read.earliest()
            .is_some_and(|earliest| earliest <= instant + SignedDuration::from_micros(1)),
        "{value:?} reads as {read:?}"
    );
}

fn sql(text: &str) -> SqlValue {
    SqlValue::Text(text.as_bytes().to_vec())
}

#[test]
fn an_epoch_is_written_like_its_neighbours() {
    let real = SqlValue::Real;
    let whole = SqlValue::Integer;
    let seconds = 1_795_976_847;
    // The float nearest to it is after it.
    let before = || real(1_795_976_847.883_985_f64.next_down());
    for (encoding, like, expected) in [
        (EpochSeconds, None, whole(seconds)),
        (EpochSeconds, Some(real(1.5e9)), before()),
        (EpochSeconds, Some(sql("1600000000")), sql("1795976847")),
        (EpochMillis, None, whole(seconds * 1000 + 883)),
        (EpochFloat, None, before()),
        (Auto, Some(whole(1_600_000_000)), whole(seconds)),
        (
            Auto,
            Some(whole(1_600_000_000_000)),
            whole(seconds * 1000 + 883),
        ),
        (
            Auto,
            Some(whole(1_600_000_000_000_000)),
            whole(seconds * 1_000_000 + 883_985),
        ),
        (Auto, Some(real(1.5e9)), before()),
        (Auto, Some(sql("1600000000000")), sql("1795976847883")),
    ] {
        writes(&utc(encoding), like.as_ref(), &expected);
    }
}

/// Floats of this century lie 200 ns apart: half of them would be rounded up.
#[test]
fn no_time_is_written_as_one_that_has_not_come() {
    let start: Timestamp = "2026-11-30T08:17:16.424989359Z".parse().unwrap();
    for step in 0..1_000 {
        let instant = start + SignedDuration::from_nanos(step * 37);
        for encoding in [EpochSeconds, EpochMillis, EpochFloat, Text, Date] {
            let written = encode(instant, &utc(encoding), None);
            let read = decode(super::super::value::as_ref(&written), &utc(encoding));
            assert!(read.earliest().unwrap() <= instant, "{written:?}");
        }
    }
}

#[test]
fn a_text_is_written_like_its_neighbours() {
    for (encoding, zone, like, expected) in [
        (Text, "UTC", "", "2026-11-29 18:27:27"),
        (Text, "UTC", "whatever", "2026-11-29 18:27:27"),
        (Text, "Asia/Tokyo", "", "2026-11-30 03:27:27"),
        (
            Text,
            "Asia/Tokyo",
            "2020-01-01T00:00:00.000Z",
            "2026-11-29T18:27:27.883Z",
        ),
        (
            Text,
            "UTC",
            "2020-01-01 00:00:00.123456+00:00",
            "2026-11-29 18:27:27.883985+00:00",
        ),
        (
            Text,
            "UTC",
            "2020-01-01T00:00-0730",
            "2026-11-29T10:57-0730",
        ),
        (
            Text,
            "UTC",
            "2020-01-01t00:00:00+02",
            "2026-11-29t20:27:27+02",
        ),
        (Text, "Asia/Tokyo", "2020-01-01", "2026-11-30"),
        (Date, "Asia/Tokyo", "", "2026-11-30"),
        (Auto, "UTC", "2020-01-01T00:00:00Z", "2026-11-29T18:27:27Z"),
        (Auto, "UTC", "", "2026-11-29 18:27:27"),
    ] {
        let like = (!like.is_empty()).then(|| sql(like));
        writes(&format(encoding, zone), like.as_ref(), &sql(expected));
    }
}
