//! Times as text: `2026-11-29`, then a `T` or a space, `18:27[:27[.883985]]`, then nothing, `Z` or an offset.

use std::fmt::Write as _;

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};

use crate::clock::Timestamp;

/// A time as it was written: what it says, and its shape, so that another can be written alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Written {
    /// The day.
    pub(super) date: Date,
    /// The time of day; `None` for a bare date.
    pub(super) time: Option<Time>,
    /// The distance from UTC; `None` where the text does not say.
    pub(super) offset: Option<Offset>,
    separator: char,
    seconds: bool,
    fraction: usize,
    suffix: Suffix,
}

/// How a text names its distance from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    /// `Z` or `z`.
    Zulu(char),
    /// `+02`.
    Hours,
    /// `+0200`.
    Digits,
    /// `+02:00`.
    Colon,
}

impl Written {
    /// `YYYY-MM-DD HH:MM:SS`, in the zone of the column.
    pub(super) const PLAIN: Self = Self {
        date: Date::ZERO,
        time: Some(Time::MIN),
        offset: None,
        separator: ' ',
        seconds: true,
        fraction: 0,
        suffix: Suffix::None,
    };

    /// `YYYY-MM-DD`.
    pub(super) const BARE_DATE: Self = Self {
        time: None,
        ..Self::PLAIN
    };

    /// Reads `text`, which has no spaces around it. `None` when it is anything else than a whole time.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = Cursor(text.as_bytes());
        let year = rest.digits(4)?;
        rest.expect(b'-')?;
        let month = rest.digits(2)?;
        rest.expect(b'-')?;
        let day = rest.digits(2)?;
        let date = Date::new(
            i16::try_from(year).ok()?,
            i8::try_from(month).ok()?,
            i8::try_from(day).ok()?,
        )
        .ok()?;
        let mut written = Self {
            date,
            ..Self::BARE_DATE
        };
        if rest.0.is_empty() {
            return Some(written);
        }
        written.separator = char::from(rest.one_of(b"Tt ")?);
        rest.skip_spaces();
        written.read_time(&mut rest)?;
        rest.skip_spaces();
        written.read_offset(&mut rest)?;
        rest.0.is_empty().then_some(written)
    }

    fn read_time(&mut self, rest: &mut Cursor<'_>) -> Option<()> {
        let hour = rest.digits(2)?;
        rest.expect(b':')?;
        let minute = rest.digits(2)?;
        let mut second = 0;
        let mut nanos = 0;
        self.seconds = rest.expect(b':').is_some();
        if self.seconds {
            second = rest.digits(2)?;
            if rest.one_of(b".,").is_some() {
                (nanos, self.fraction) = rest.fraction()?;
            }
        }
        let small = |number: i32| i8::try_from(number).ok();
        self.time = Some(Time::new(small(hour)?, small(minute)?, small(second)?, nanos).ok()?);
        Some(())
    }

    fn read_offset(&mut self, rest: &mut Cursor<'_>) -> Option<()> {
        if rest.0.is_empty() {
            return Some(());
        }
        if let Some(zulu) = rest.one_of(b"Zz") {
            self.suffix = Suffix::Zulu(char::from(zulu));
            self.offset = Some(Offset::UTC);
            return Some(());
        }
        let sign = if rest.one_of(b"+-")? == b'-' { -1 } else { 1 };
        let hours = rest.digits(2)?;
        let mut minutes = 0;
        self.suffix = Suffix::Hours;
        if !rest.0.is_empty() {
            self.suffix = match rest.expect(b':') {
                Some(()) => Suffix::Colon,
                None => Suffix::Digits,
            };
            minutes = rest.digits(2)?;
        }
        if hours > 23 || minutes > 59 {
            return None;
        }
        self.offset = Some(Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?);
        Some(())
    }

    /// Writes `at` in this shape: with its offset where it has one, else in `zone`.
    pub(super) fn write(&self, at: Timestamp, zone: &TimeZone) -> String {
        let local = match self.offset {
            Some(offset) => offset.to_datetime(at),
            None => zone.to_datetime(at),
        };
        let mut text = local.date().to_string();
        if self.time.is_none() {
            return text;
        }
        let time = local.time();
        text.push(self.separator);
        let _ = write!(text, "{:02}:{:02}", time.hour(), time.minute());
        if self.seconds {
            let _ = write!(text, ":{:02}", time.second());
        }
        if self.fraction > 0 {
            let nanos = format!("{:09}", time.subsec_nanosecond());
            let _ = write!(text, ".{}", &nanos[..self.fraction]);
        }
        self.write_suffix(&mut text);
        text
    }

    fn write_suffix(&self, text: &mut String) {
        let minutes = self.offset.map_or(0, Offset::seconds) / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        let _ = match self.suffix {
            Suffix::None => Ok(()),
            Suffix::Zulu(zulu) => write!(text, "{zulu}"),
            Suffix::Hours => write!(text, "{sign}{hours:02}"),
            Suffix::Digits => write!(text, "{sign}{hours:02}{minutes:02}"),
            Suffix::Colon => write!(text, "{sign}{hours:02}:{minutes:02}"),
        };
    }
}

/// What is left to read.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// Exactly `count` digits.
    fn digits(&mut self, count: usize) -> Option<i32> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let number = digits.iter().try_fold(0, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + i32::from(digit - b'0'))
        })?;
        self.0 = rest;
        Some(number)
    }

    /// One to nine digits after the point: nanoseconds, and how many digits there were.
    fn fraction(&mut self) -> Option<(i32, usize)> {
        let count = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        if !(1..=9).contains(&count) {
            return None;
        }
        let mut nanos = self.digits(count)?;
        for _ in count..9 {
            nanos *= 10;
        }
        Some((nanos, count))
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.one_of(&[byte]).map(drop)
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        bytes.contains(&first).then(|| {
            self.0 = rest;
            first
        })
    }

    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }
}
