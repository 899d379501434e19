//! SQL expressions in the configuration, as far as their text alone tells: whether one is a single expression that says
//! the same each time it is asked.
//!
//! What it refers to is checked against the live schema, see `store::rows`.

use std::iter::Peekable;
use std::str::CharIndices;

/// Functions and words whose value is another one at the next call.
const VOLATILE: [&str; 9] = [
    "changes",
    "current_date",
    "current_time",
    "current_timestamp",
    "last_insert_rowid",
    "load_extension",
    "random",
    "randomblob",
    "total_changes",
];

/// Why a text is no expression that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It cannot stand between parentheses as one expression.
    Form,
    /// It says something else at the next look: the clock, or chance.
    Volatile,
}

/// Whether a text can stand between parentheses as one expression: closed quotes and parentheses, no statement end, no
/// comment, no numbered parameter, and nothing volatile: no clock (`'now'`, `datetime()`), no chance.
pub(super) fn check(text: &str) -> Result<(), Flaw> {
    let mut open: Vec<Call<'_>> = Vec::new();
    let mut word = "";
    let mut is_empty = true;
    let mut is_volatile = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        is_empty = false;
        let next = chars.peek().map(|(_, next)| *next);
        let called = std::mem::take(&mut word);
        match c {
            '\'' | '"' | '`' | '[' => {
                let inside = quoted(text, at, &mut chars).ok_or(Flaw::Form)?;
                is_volatile |= c == '\'' && inside.trim().eq_ignore_ascii_case("now");
            }
            '(' => open.push(Call {
                function: called,
                start: at + 1,
                commas: 0,
            }),
            ')' => {
                let call = open.pop().ok_or(Flaw::Form)?;
                is_volatile |= call.is_volatile(&text[call.start..at]);
            }
            ',' => {
                if let Some(call) = open.last_mut() {
                    call.commas += 1;
                }
            }
            '-' if next == Some('-') => return Err(Flaw::Form),
            '/' if next == Some('*') => return Err(Flaw::Form),
            ';' | '?' => return Err(Flaw::Form),
            _ if c.is_control() => return Err(Flaw::Form),
            _ if is_word(c) => {
                word = &text[at..end_of_word(text, at, &mut chars)];
                is_volatile |= VOLATILE.iter().any(|name| name.eq_ignore_ascii_case(word));
            }
            _ => {}
        }
    }
    if !open.is_empty() || is_empty {
        return Err(Flaw::Form);
    }
    if is_volatile {
        Err(Flaw::Volatile)
    } else {
        Ok(())
    }
}

/// An open parenthesis.
struct Call<'a> {
    /// The word before it, empty where there is none.
    function: &'a str,
    /// Where its inside starts.
    start: usize,
    commas: usize,
}

impl Call<'_> {
    /// Whether the call reads the clock: without any argument; or where it is given no time, but a format or a unit alone.
    fn is_volatile(&self, inside: &str) -> bool {
        let inside = inside.trim();
        let units = ["'subsec'", "'subsecond'"];
        let is_unit = units.iter().any(|unit| unit.eq_ignore_ascii_case(inside));
        let is_format = self.function.eq_ignore_ascii_case("strftime");
        inside.is_empty() || self.commas == 0 && (is_unit || is_format)
    }
}

/// What stands between the quote at `at` and the next one like it; `None` when there is none.
fn quoted<'a>(text: &'a str, at: usize, chars: &mut Peekable<CharIndices<'_>>) -> Option<&'a str> {
    let close = match text.as_bytes()[at] {
        b'[' => ']',
        quote => char::from(quote),
    };
    let (end, _) = chars.find(|(_, c)| *c == close)?;
    Some(&text[at + 1..end])
}

fn end_of_word(text: &str, start: usize, chars: &mut Peekable<CharIndices<'_>>) -> usize {
    let mut end = start + text[start..].chars().next().map_or(0, char::len_utf8);
    while let Some((at, c)) = chars.next_if(|(_, c)| is_word(*c)) {
        end = at + c.len_utf8();
    }
    end
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_expression_that_says_the_same_each_time() {
        for good in [
            "m.a",
            "(SELECT max(l.at) FROM log l WHERE l.memory_id = m.id)",
            "coalesce(m.payload ->> '$.createdAt', m.\"created at\")",
            "m.text = 'a;b -- c (' OR m.[odd)] = `x?`",
            "datetime(m.at, '+1 day')",
            "m.is_random",
            "'it''s'",
            "m.a\n + 1",
            "strftime('%s', m.at)",
            "unixepoch(m.at, 'subsec')",
            "m.unit = ('subsec ')",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            " ",
            "m.a)",
            "(m.a",
            "1) FROM x, (SELECT 1",
            "m.a; DELETE FROM x",
            "m.a -- all",
            "m.a /* all */",
            "m.a = ?1",
            "'open",
            "\"open",
            "m.a\0",
        ] {
            assert_eq!(check(bad), Err(Flaw::Form), "{bad}");
        }
        for volatile in [
            "datetime('now')",
            "datetime(' NOW ', '-1 day')",
            "date()",
            "date ( )",
            "Random()",
            "random ( )",
            "m.a < unixepoch ( ) - 5",
            "CURRENT_TIMESTAMP",
            "strftime('%s')",
            "m.a > strftime ( '%s,%f' ) - 1",
            "unixepoch('subsec')",
            "julianday( 'SubSecond' )",
        ] {
            assert_eq!(check(volatile), Err(Flaw::Volatile), "{volatile}");
        }
    }
}
