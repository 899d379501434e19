//! Numbers: how much of what.
//!
//! Policy: a number is comparable with another of its dimension only. Where a notation has two readings (1.200), the
//! decimal sign of the language decides; a bare number with a point is also kept as written, because 2.1 and 2.10 are
//! one quantity but two versions.

use super::fold::hash32;
use super::token::{Numeral, is_grouped};
use super::units::{self, UnitId};

/// What a number counts or names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dimension {
    /// Things.
    Count,
    /// A place in an order.
    Rank,
    /// A measure, by dimension.
    Measure(u8),
    /// A part of a whole, or a pair of readings, as written.
    Ratio,
    /// A version, as written.
    Version,
    /// A name: a port, a room, a ticket.
    Identifier,
}

/// A number of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantity {
    /// What it counts.
    pub(crate) dimension: Dimension,
    /// Its value in the first unit of the dimension; a hash of the spelling where the spelling counts.
    pub(crate) value: f64,
    /// The index of its word in the analysis.
    pub(crate) at: u32,
}

/// The value of plain digits, read as the language writes them.
pub(crate) fn value(digits: &str, decimal: char) -> Option<f64> {
    let group = if decimal == '.' { ',' } else { '.' };
    let (commas, points) = (digits.contains(','), digits.contains('.'));
    let plain = match (commas, points) {
        (false, false) => digits.to_owned(),
        (true, true) => {
            // The last sign is the decimal one.
            let last = if digits.rfind(',') > digits.rfind('.') {
                ','
            } else {
                '.'
            };
            read(digits, last)
        }
        _ => {
            let sign = if commas { ',' } else { '.' };
            let groups =
                is_grouped(digits, sign) && (sign == group || digits.matches(sign).count() > 1);
            if groups {
                digits.replace(sign, "")
            } else {
                read(digits, sign)
            }
        }
    };
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

fn read(digits: &str, decimal: char) -> String {
    digits
        .chars()
        .filter(|c| *c == '-' || *c == decimal || c.is_ascii_digit())
        .map(|c| if c == decimal { '.' } else { c })
        .collect()
}

/// The factor that letters behind the digits stand for.
pub(crate) fn factor(suffix: &str, has_currency: bool) -> Option<f64> {
    match suffix {
        "k" => Some(1e3),
        "m" | "mi" | "mm" if has_currency => Some(1e6),
        "mn" => Some(1e6),
        "bn" => Some(1e9),
        "b" if has_currency => Some(1e9),
        _ => None,
    }
}

/// Whether letters behind the digits multiply them, without a currency.
pub(crate) fn is_factor(suffix: &str) -> bool {
    factor(suffix, false).is_some()
}

/// The unit and the factor written on to the digits.
pub(crate) fn written_on(numeral: &Numeral) -> (Option<UnitId>, f64) {
    let currency = units::by_symbol(&numeral.prefix);
    let times = factor(&numeral.suffix, currency.is_some());
    let unit = currency.or_else(|| units::attached(&numeral.suffix));
    (unit, times.unwrap_or(1.0))
}

/// The spelling of a number, as a value to be compared with others.
pub(crate) fn spelling(text: &str) -> f64 {
    f64::from(hash32(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_the_language_writes_them() {
        for (digits, decimal, expected) in [
            ("1,200", '.', 1200.0),
            ("1.200", '.', 1.2),
            ("1.200", ',', 1200.0),
            ("1,5", ',', 1.5),
            ("1,5", '.', 1.5),
            ("1.5", ',', 1.5),
            ("1.200,50", ',', 1200.5),
            ("1,200.50", ',', 1200.5),
            ("1,000,000", ',', 1_000_000.0),
            ("-3", '.', -3.0),
            ("007", '.', 7.0),
        ] {
            assert_eq!(value(digits, decimal), Some(expected), "{digits} {decimal}");
        }
        assert_eq!(value("", '.'), None);
        assert_eq!(value(&"9".repeat(400), '.'), None);
    }
}
