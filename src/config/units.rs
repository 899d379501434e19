//! Newtypes that refuse nonsense: a value of one of these types is in range by construction.
//!
//! Ratios and similarities come from TOML numbers. Sizes and durations come from text with a unit (`16MiB`, `1h30m`),
//! and what they display reads back as the same value.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// NaN is in no range.
const fn in_range(value: f64, least: f64, most: f64) -> bool {
    value >= least && value <= most
}

/// A share in `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// `None` outside `[0, 1]`, NaN included.
    #[must_use]
    pub const fn new(value: f64) -> Option<Self> {
        if in_range(value, 0.0, 1.0) {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A cosine in `[-1, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Similarity(f64);

impl Similarity {
    /// `None` outside `[-1, 1]`, NaN included.
    #[must_use]
    pub const fn new(value: f64) -> Option<Self> {
        if in_range(value, -1.0, 1.0) {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Similarity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text that is not what a unit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("allowed is {0}")]
pub struct UnitError(pub &'static str);

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// What is allowed, for messages.
    pub const ALLOWED: &str = "a size such as \"4096\", \"1GB\" or \"16MiB\"";

    /// Units in the order in which they are tried for display, biggest first.
    const BINARY: [(&str, u64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    const DECIMAL: [(&str, u64); 5] = [
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("KB", 1_000),
        ("kB", 1_000),
    ];
}

impl FromStr for ByteSize {
    type Err = UnitError;

    /// Reads a whole number of bytes, or of one unit: `4096`, `4096B`, `1GB` (10^9), `16MiB` (2^20).
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let refused = UnitError(Self::ALLOWED);
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let scale = match unit {
            "" | "B" => 1,
            _ => Self::BINARY
                .iter()
                .chain(&Self::DECIMAL)
                .find(|(name, _)| *name == unit)
                .map(|(_, scale)| *scale)
                .ok_or(refused)?,
        };
        let number: u64 = number.parse().map_err(|_| refused)?;
        number.checked_mul(scale).map(Self).ok_or(refused)
    }
}

impl fmt::Display for ByteSize {
    /// The biggest binary unit that divides it, else plain bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |scale: u64| self.0 >= scale && self.0.is_multiple_of(scale);
        match Self::BINARY.iter().find(|(_, scale)| whole(*scale)) {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A length of time in whole milliseconds, at most [`HumanDuration::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(Duration);

impl HumanDuration {
    /// A hundred years: any instant of this millennium plus or minus it can still be computed.
    pub const MAX: Duration = Duration::from_hours(36_525 * 24);

    /// What is allowed, for messages.
    pub const ALLOWED: &str = "a duration such as \"30d\", \"1h30m\" or \"250ms\" (units w d h m s ms), at most \"36525d\"";

    /// Units in milliseconds, in the order in which they must follow each other.
    const UNITS: [(&str, u64); 6] = [
        ("w", 604_800_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];

    /// The length.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for HumanDuration {
    type Err = UnitError;

    /// Reads whole numbers with units, each unit at most once, biggest first: `30d`, `1h30m`, `0s`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let refused = UnitError(Self::ALLOWED);
        let mut rest = text;
        let mut units = Self::UNITS.iter();
        let mut total = 0_u64;
        while !rest.is_empty() {
            let unit_at = rest.find(|c: char| !c.is_ascii_digit()).ok_or(refused)?;
            let (number, after) = rest.split_at(unit_at);
            let unit_end = after
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(after.len());
            let (unit, next) = after.split_at(unit_end);
            let (_, millis) = units.find(|(name, _)| *name == unit).ok_or(refused)?;
            let number: u64 = number.parse().map_err(|_| refused)?;
            total = number
                .checked_mul(*millis)
                .and_then(|part| total.checked_add(part))
                .ok_or(refused)?;
            rest = next;
        }
        let duration = Duration::from_millis(total);
        if text.is_empty() || duration > Self::MAX {
            return Err(refused);
        }
        Ok(Self(duration))
    }
}

impl fmt::Display for HumanDuration {
    /// Days, hours, minutes, seconds and milliseconds, as far as they are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        let mut rest = self.0.as_millis();
        for (unit, millis) in &Self::UNITS[1..] {
            let millis = u128::from(*millis);
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ratios_and_similarities_refuse_what_is_outside_and_what_is_no_number() {
        for bad in [
            -0.1,
            1.000_000_1,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            assert_eq!(Ratio::new(bad), None, "{bad}");
        }
        for bad in [-1.1, 1.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Similarity::new(bad), None, "{bad}");
        }
        assert_eq!(Ratio::new(0.0).map(Ratio::get), Some(0.0));
        assert_eq!(Ratio::new(1.0).map(Ratio::get), Some(1.0));
        assert_eq!(Similarity::new(-1.0).map(Similarity::get), Some(-1.0));
    }

    #[test]
    fn sizes_are_whole_numbers_of_one_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("7B", 7),
            ("1kB", 1_000),
            ("1KB", 1_000),
            ("1KiB", 1_024),
            ("16MiB", 16 << 20),
            ("1GB", 1_000_000_000),
            ("2TiB", 2 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in [
            "",
            "MiB",
            "-1",
            "+1",
            "1.5GB",
            "16 MiB",
            " 1",
            "16mib",
            "1PB",
            "1e3",
            "0x10",
            "nan",
            "inf",
            "١",
            "18446744073709551616",
            "16777216TiB",
        ] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn durations_are_whole_numbers_of_descending_units() {
        for (text, millis) in [
            ("30d", 30 * 86_400_000),
            ("336h", 336 * 3_600_000),
            ("90m", 90 * 60_000),
            ("5s", 5_000),
            ("250ms", 250),
            ("1w", 7 * 86_400_000),
            ("1h30m", 5_400_000),
            (
                "1w2d3h4m5s6ms",
                604_800_000 + 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_006,
            ),
            ("0s", 0),
            ("36525d", 36_525 * 86_400_000),
        ] {
            assert_eq!(
                text.parse::<HumanDuration>().map(HumanDuration::get),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for bad in [
            "",
            "30",
            "d",
            "d30",
            "1y",
            "1M",
            "1D",
            "-1d",
            "+1d",
            "1.5h",
            "1 d",
            "1d ",
            "30m1h",
            "1d1d",
            "1d2",
            "1us",
            "never",
            "nan",
            "inf",
            "infinity",
            "36525d1ms",
            "18446744073709551615w",
            "99999999999999999999s",
            "١d",
        ] {
            assert!(bad.parse::<HumanDuration>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn units_display_in_their_usual_form() {
        let duration = |text: &str| text.parse::<HumanDuration>().unwrap().to_string();
        assert_eq!(duration("336h"), "14d");
        assert_eq!(duration("90m"), "1h30m");
        assert_eq!(duration("0ms"), "0s");
        assert_eq!(duration("1500ms"), "1s500ms");
        assert_eq!(ByteSize(16 << 20).to_string(), "16MiB");
        assert_eq!(ByteSize(1_000).to_string(), "1000");
        assert_eq!(ByteSize(0).to_string(), "0");
    }

    proptest! {
        #[test]
        fn what_is_displayed_reads_back(bytes: u64, millis in 0..=3_155_760_000_000_u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
            let duration = HumanDuration(Duration::from_millis(millis));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<HumanDuration>();
        }
    }
}
