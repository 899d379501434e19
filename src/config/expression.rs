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

/// Whether a text can stand between parentheses as one expression: closed quotes and parentheses, no statement end, no
/// comment, no numbered parameter, and nothing volatile: no clock (`'now'`, `datetime()`), no chance.
pub(super) fn is_expression(text: &str) -> bool {
    let mut depth = 0_u32;
    let mut is_empty = true;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        is_empty &= c.is_whitespace();
        let next = chars.peek().map(|(_, next)| *next);
        match c {
            '\'' | '"' | '`' | '[' => {
                let Some(inside) = quoted(text, at, &mut chars) else {
                    return false;
                };
                if c == '\'' && inside.trim().eq_ignore_ascii_case("now") {
                    return false;
                }
            }
            '(' if next == Some(')') => return false,
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            '-' if next == Some('-') => return false,
            '/' if next == Some('*') => return false,
            ';' | '?' => return false,
            _ if c.is_control() && !c.is_whitespace() => return false,
            _ if is_word(c) => {
                let word = &text[at..end_of_word(text, at, &mut chars)];
                if VOLATILE.iter().any(|name| name.eq_ignore_ascii_case(word)) {
                    return false;
                }
            }
            _ => {}
        }
    }
    depth == 0 && !is_empty
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
        ] {
            assert!(is_expression(good), "{good}");
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
            "datetime('now')",
            "datetime(' NOW ', '-1 day')",
            "date()",
            "Random()",
            "random ( )",
            "CURRENT_TIMESTAMP",
            "m.a\0",
        ] {
            assert!(!is_expression(bad), "{bad}");
        }
    }
}
