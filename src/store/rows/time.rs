//! Times as schemas write them: epochs in any unit, ISO 8601 and its relatives, bare dates, or a mixture.
//!
//! Mechanics: a value is decoded by its storage class and the declared [`Encoding`], into the span of instants that it
//! can mean. Instants are compared, never text: `T` sorts after a space, and SQLite reads neither `+0000` nor an epoch
//! written as text.
//!
//! Policy: a value is a time only between 2000 and the end of 9999. Whatever lies outside (milliseconds in a column
//! of seconds, seconds in a column of milliseconds, 1970) was written in another unit or by mistake, and is
//! [`Moment::Unreadable`]: a reason to keep a memory, never one to remove it.

use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rusqlite::types::ValueRef;

use self::text::Written;
use crate::clock::Timestamp;
use crate::config::{Encoding, TimeFormat};
use crate::memory::{Moment, TimeToLive};
use crate::store::image::SqlValue;

mod text;

/// 2000-01-01T00:00:00Z.
const FIRST_SECOND: i64 = 946_684_800;
/// 9999-12-31T23:59:59Z, which a [`Timestamp`] cannot hold: it stands for its last instant.
const LAST_SECOND: i64 = 253_402_300_799;

/// Unit of a number that counts from 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Millis,
    Micros,
}

impl Unit {
    /// The unit of a number that says nothing of it: from 1e14 on microseconds, from 1e11 on milliseconds.
    fn by_magnitude(number: f64) -> Self {
        if number.abs() >= 1e14 {
            Self::Micros
        } else if number.abs() >= 1e11 {
            Self::Millis
        } else {
            Self::Seconds
        }
    }

    fn whole(self, number: i64) -> SignedDuration {
        match self {
            Self::Seconds => SignedDuration::from_secs(number),
            Self::Millis => SignedDuration::from_millis(number),
            Self::Micros => SignedDuration::from_micros(number),
        }
    }

    fn real(self, number: f64) -> Option<SignedDuration> {
        let per_second = match self {
            Self::Seconds => 1.0,
            Self::Millis => 1e3,
            Self::Micros => 1e6,
        };
        SignedDuration::try_from_secs_f64(number / per_second).ok()
    }
}

/// A number, whole where it can be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let whole = text.parse().map(Self::Whole);
        whole.or_else(|_| text.parse().map(Self::Real)).ok()
    }

    fn is_zero(self) -> bool {
        match self {
            Self::Whole(number) => number == 0,
            Self::Real(number) => number == 0.0,
        }
    }

    fn approximate(self) -> f64 {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "only its magnitude matters to the callers"
            )]
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    fn since_epoch(self, unit: Unit) -> Option<SignedDuration> {
        match self {
            Self::Whole(number) => Some(unit.whole(number)),
            Self::Real(number) => unit.real(number),
        }
    }
}

/// A stored value, before its encoding is looked at.
enum Stored<'a> {
    Nothing,
    Number(Number),
    Text(&'a str),
    Noise,
}

impl<'a> Stored<'a> {
    fn of(value: ValueRef<'a>) -> Self {
        match value {
            ValueRef::Null => Self::Nothing,
            ValueRef::Integer(number) => Self::Number(Number::Whole(number)),
            ValueRef::Real(number) => Self::Number(Number::Real(number)),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => Self::Nothing,
                Ok(text) => Self::Text(text.trim()),
                Err(_) => Self::Noise,
            },
        }
    }

    /// The number that the value is, or is the text of.
    fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => Number::parse(text),
            Self::Nothing | Self::Noise => None,
        }
    }
}

/// Reads a time in the encoding of its column.
pub fn decode(value: ValueRef<'_>, format: &TimeFormat) -> Moment {
    let stored = Stored::of(value);
    let number = stored.number();
    if matches!(stored, Stored::Nothing) || number.is_some_and(Number::is_zero) {
        return Moment::Absent;
    }
    let instant = match (format.encoding, number, &stored) {
        (Encoding::EpochSeconds | Encoding::EpochFloat, Some(number), _) => {
            number.since_epoch(Unit::Seconds).and_then(bounded)
        }
        (Encoding::EpochMillis, Some(number), _) => {
            number.since_epoch(Unit::Millis).and_then(bounded)
        }
        (Encoding::Auto, Some(number), _) => number
            .since_epoch(Unit::by_magnitude(number.approximate()))
            .and_then(bounded),
        (Encoding::Text | Encoding::Date | Encoding::Auto, None, Stored::Text(text)) => {
            return Written::parse(text)
                .and_then(|written| meant(&written, &format.zone))
                .unwrap_or(Moment::Unreadable);
        }
        _ => None,
    };
    instant.map_or(Moment::Unreadable, Moment::exact)
}

/// The span of instants that a written time can mean.
fn meant(written: &Written, zone: &TimeZone) -> Option<Moment> {
    let (earliest, latest) = match (written.time, written.offset) {
        (None, _) => {
            let midnight = DateTime::from(written.date);
            let next = written
                .date
                .tomorrow()
                .map_or(DateTime::MAX, DateTime::from);
            (span(midnight, zone)?.0, span(next, zone)?.1)
        }
        (Some(time), Some(offset)) => {
            let at = written.date.to_datetime(time);
            let instant = offset.to_timestamp(at).ok().or_else(|| clamped(at))?;
            (instant, instant)
        }
        (Some(time), None) => span(written.date.to_datetime(time), zone)?,
    };
    let moment = Moment::At {
        earliest: bounded(earliest.as_duration())?,
        latest: bounded(latest.as_duration())?,
    };
    Some(moment)
}

/// The first and last instant of a local time: two where a clock change skipped or doubled it.
fn span(local: DateTime, zone: &TimeZone) -> Option<(Timestamp, Timestamp)> {
    let instant = zone.to_ambiguous_timestamp(local);
    let one = instant.earlier().ok().or_else(|| clamped(local))?;
    let other = instant.later().ok().or_else(|| clamped(local))?;
    Some((one.min(other), one.max(other)))
}

/// The last instant there is, for the hours at the end of 9999 that a [`Timestamp`] cannot hold.
fn clamped(local: DateTime) -> Option<Timestamp> {
    (local.year() == 9999).then_some(Timestamp::MAX)
}

/// The instant at a distance from 1970, if it is one that a memory can have.
fn bounded(since_epoch: SignedDuration) -> Option<Timestamp> {
    (FIRST_SECOND..=LAST_SECOND)
        .contains(&since_epoch.as_secs())
        .then(|| Timestamp::from_duration(since_epoch).unwrap_or(Timestamp::MAX))
}

/// Reads a time to live that counts in `unit`.
pub(super) fn decode_ttl(value: ValueRef<'_>, unit: Duration) -> TimeToLive {
    let stored = Stored::of(value);
    let number = match (&stored, stored.number()) {
        (Stored::Nothing, _) => return TimeToLive::Forever,
        (_, Some(number)) if number.is_zero() => return TimeToLive::Forever,
        (_, Some(number)) => number,
        _ => return TimeToLive::Unreadable,
    };
    let life = match number {
        Number::Whole(number) => i128::try_from(unit.as_nanos())
            .ok()
            .and_then(|unit| unit.checked_mul(number.into()))
            .filter(|nanos| (0..=i128::from(LAST_SECOND) * 1_000_000_000).contains(nanos))
            .map(SignedDuration::from_nanos_i128),
        Number::Real(number) => SignedDuration::try_from_secs_f64(number * unit.as_secs_f64()).ok(),
    };
    match life {
        Some(life) if life > SignedDuration::ZERO && life.as_secs() <= LAST_SECOND => {
            TimeToLive::For(life)
        }
        _ => TimeToLive::Unreadable,
    }
}

/// Writes an instant as its column writes times: in the shape of `like`, another value of the column, where there is
/// one. What the shape cannot hold is cut off, never rounded up.
pub(super) fn encode(at: Timestamp, format: &TimeFormat, like: Option<&SqlValue>) -> SqlValue {
    let stored = like.map(|like| Stored::of(super::value::as_ref(like)));
    let number = stored.as_ref().and_then(Stored::number);
    let as_text = matches!(stored, Some(Stored::Text(_)));
    let shape = match stored {
        Some(Stored::Text(text)) => Written::parse(text),
        _ => None,
    };
    let seconds = seconds_up_to(at);
    match (format.encoding, number) {
        (Encoding::EpochSeconds, Some(Number::Real(_))) | (Encoding::EpochFloat, _) => {
            real(seconds, as_text)
        }
        (Encoding::EpochSeconds, _) => whole(at.as_second(), as_text),
        (Encoding::EpochMillis, _) => whole(at.as_millisecond(), as_text),
        (Encoding::Auto, Some(number)) => {
            match (Unit::by_magnitude(number.approximate()), number) {
                (Unit::Seconds, Number::Real(_)) => real(seconds, as_text),
                (Unit::Seconds, Number::Whole(_)) => whole(at.as_second(), as_text),
                (Unit::Millis, _) => whole(at.as_millisecond(), as_text),
                (Unit::Micros, _) => whole(at.as_microsecond(), as_text),
            }
        }
        (Encoding::Date, _) => text(&Written::BARE_DATE.write(at, &format.zone)),
        (Encoding::Text | Encoding::Auto, _) => {
            text(&shape.unwrap_or(Written::PLAIN).write(at, &format.zone))
        }
    }
}

/// The seconds since 1970 of the last float that is not after an instant: one that was rounded up would be a time that
/// has not come yet.
fn seconds_up_to(at: Timestamp) -> f64 {
    let nearest = at.as_duration().as_secs_f64();
    match SignedDuration::try_from_secs_f64(nearest) {
        Ok(duration) if duration <= at.as_duration() => nearest,
        Ok(_) | Err(_) => nearest.next_down(),
    }
}

fn whole(number: i64, as_text: bool) -> SqlValue {
    if as_text {
        text(&number.to_string())
    } else {
        SqlValue::Integer(number)
    }
}

fn real(number: f64, as_text: bool) -> SqlValue {
    if as_text {
        text(&format!("{number:?}"))
    } else {
        SqlValue::Real(number)
    }
}

fn text(text: &str) -> SqlValue {
    SqlValue::Text(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests;
