//! What must not reach a terminal: names come from folders and tables, and anybody may have chosen them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Control characters, which move the cursor and worse; line separators; and what turns the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The text with such characters spelled out: `\u{1b}`, `\n`.
pub(super) fn for_people(text: &str) -> Cow<'_, str> {
    escaped(text, |line, c| line.extend(c.escape_default()))
}

/// JSON with those that its writer leaves as they are spelled as JSON spells them: `\u202e`.
pub(super) fn for_programs(json: &str) -> Cow<'_, str> {
    escaped(json, |line, c| {
        let _ = write!(line, "\\u{:04x}", u32::from(c));
    })
}

fn escaped(text: &str, spell: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            spell(&mut safe, c);
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_the_text_is_spelled_out() {
        for (raw, shown) in [
            ("ana", "ana"),
            ("João 'ß' 名前 🌙", "João 'ß' 名前 🌙"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{1b}[2J\u{7f}\u{9b}", "\\u{1b}[2J\\u{7f}\\u{9b}"),
            (
                "a\u{202e}b\u{2066}c\u{2069}\u{200f}",
                "a\\u{202e}b\\u{2066}c\\u{2069}\\u{200f}",
            ),
            ("a\u{2028}b", "a\\u{2028}b"),
        ] {
            assert_eq!(for_people(raw), shown);
        }
    }

    #[test]
    fn json_says_the_same_as_before() {
        let name = "a\u{202e}b\u{9b}\n\"\\";
        let json = serde_json::to_string(name).unwrap();
        let safe = for_programs(&json);
        assert!(safe.is_ascii(), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), name);
    }
}
