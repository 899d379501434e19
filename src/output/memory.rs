//! What a memory says, on one line: for the commands that a person runs to read memories, and no other.

use jiff::SignedDuration;
use unicode_width::UnicodeWidthChar as _;

use super::Out;
use crate::memory::printable;

/// Stands where a text was cut.
const CUT: char = '…';

/// How many columns a line has; `None` where nobody looks at it.
#[must_use]
pub fn width(out: &Out) -> Option<usize> {
    let width = out.terminal.then(|| comfy_table::Table::new().width())?;
    width.map(usize::from)
}

/// A line with a text at its end, fit for a terminal: nothing in the text moves the cursor or turns around, and it is
/// cut where the line would be longer than `width`.
#[must_use]
pub fn line(before: &str, text: &str, width: Option<usize>) -> String {
    let before = printable(before);
    let text = printable(text);
    let mut line = before.into_owned();
    let Some(width) = width else {
        line.push_str(&text);
        return line;
    };
    let columns = |text: &str| text.chars().filter_map(char::width).sum::<usize>();
    let mut left = width.saturating_sub(columns(&line));
    if columns(&text) <= left {
        line.push_str(&text);
        return line;
    }
    left = left.saturating_sub(1);
    for c in text.chars() {
        let needs = c.width().unwrap_or_default();
        if needs > left {
            break;
        }
        left -= needs;
        line.push(c);
    }
    line.push(CUT);
    line
}

/// A length of time in its largest whole unit: `3 d`, `5 h`, `12 min`.
#[must_use]
pub fn age(time: SignedDuration) -> String {
    let (days, hours) = (time.as_hours() / 24, time.as_hours());
    if days > 0 {
        format!("{days} d")
    } else if hours > 0 {
        format!("{hours} h")
    } else {
        format!("{} min", time.as_mins().max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_the_line_ends() {
        for (text, width, cut) in [
            ("window seats", None, "5  window seats"),
            ("window seats", Some(15), "5  window seats"),
            ("window seats", Some(14), "5  window sea…"),
            ("no\x1b[2Jtes\nmore", None, "5  no [2Jtes more"),
            ("日本語の記憶", Some(9), "5  日本…"),
            ("日本語の記憶", Some(8), "5  日本…"),
            ("x", Some(2), "5  …"),
        ] {
            assert_eq!(line("5  ", text, width), cut, "{text:?} {width:?}");
        }
    }

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        for (minutes, told) in [
            (-5, "0 min"),
            (0, "0 min"),
            (59, "59 min"),
            (60, "1 h"),
            (1439, "23 h"),
            (1440, "1 d"),
            (300_000, "208 d"),
        ] {
            assert_eq!(age(SignedDuration::from_mins(minutes)), told);
        }
    }
}
