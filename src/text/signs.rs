//! Signs that mean something by themselves: currencies, comparisons, plus and minus, per cent, feet and inches.
//!
//! A text is cut into words at punctuation and white space, so that `2,50 €` and `2,50 $` are the same words. These signs
//! are not punctuation: texts that differ in one are two, however alike they are otherwise.

use super::fold::{hash, keyboard};
use super::token::MAX_CHARS;

/// A hash of the signs of a text, in their order; that of a text without one is the same for all.
pub(crate) fn of(text: &str) -> u64 {
    hash(&signs(text))
}

/// The signs of a text, in their order.
fn signs(text: &str) -> String {
    let typed = |c| if c == '\n' { Some(c) } else { keyboard(c) };
    let text: Vec<char> = text.chars().take(MAX_CHARS).filter_map(typed).collect();
    let mut quotes = Quotes::default();
    let mut signs = String::new();
    let mut at = 0;
    while at < text.len() {
        let c = text[at];
        let place = Place { text: &text, at };
        if let Some(len) = place.tag() {
            at += len;
            continue;
        }
        let is_closing = quotes.pass(&place);
        let (sign, len) = match c {
            '%' | '\u{2030}' | '\u{b1}' | '\u{d7}' | '\u{f7}' | '\u{2260}' | '\u{2264}'
            | '\u{2265}' => (Some(c), 1),
            '<' | '>' if place.next() == Some('=') => {
                (Some(if c == '<' { '\u{2264}' } else { '\u{2265}' }), 2)
            }
            '!' if place.next() == Some('=') => (Some('\u{2260}'), 2),
            '<' | '>' => ((!place.begins_a_line()).then_some(c), 1),
            '+' | '-' => (place.is_before_a_figure().then_some(c), 1),
            '*' | '/' => (place.is_between_figures().then_some(c), 1),
            '\'' | '"' | '\u{2033}' => {
                let is_measure = !is_closing && place.is_behind_a_digit();
                (is_measure.then_some(if c == '\'' { c } else { '"' }), 1)
            }
            _ => (is_currency(c).then_some(c), 1),
        };
        signs.extend(sign);
        at += len;
    }
    signs
}

/// The currency signs of Unicode (category `Sc`) in its first plane.
fn is_currency(c: char) -> bool {
    matches!(
        c,
        '$' | '\u{a2}'..='\u{a5}' | '\u{58f}' | '\u{60b}' | '\u{7fe}' | '\u{7ff}' | '\u{9f2}' | '\u{9f3}' | '\u{9fb}'
            | '\u{af1}' | '\u{bf9}' | '\u{e3f}' | '\u{17db}' | '\u{20a0}'..='\u{20c0}' | '\u{a838}' | '\u{fdfc}'
            | '\u{fe69}' | '\u{ff04}' | '\u{ffe0}' | '\u{ffe1}' | '\u{ffe5}' | '\u{ffe6}'
    )
}

/// A place in a text.
struct Place<'a> {
    text: &'a [char],
    at: usize,
}

impl Place<'_> {
    fn before(&self) -> Option<char> {
        let before = self.at.checked_sub(1)?;
        self.text.get(before).copied()
    }

    fn next(&self) -> Option<char> {
        self.text.get(self.at + 1).copied()
    }

    /// What comes next, white space apart.
    fn ahead(&self) -> Option<char> {
        let mut ahead = self.text[self.at + 1..].iter();
        ahead.find(|c| !c.is_whitespace()).copied()
    }

    /// What came last, white space apart.
    fn behind(&self) -> Option<char> {
        let mut behind = self.text[..self.at].iter().rev();
        behind.find(|c| !c.is_whitespace()).copied()
    }

    /// As many characters as a tag has that begins here: `<b>`, `</p>`, `<ana@x.org>`.
    fn tag(&self) -> Option<usize> {
        const LONGEST: usize = 200;
        if self.text[self.at] != '<' || !self.next().is_some_and(|c| c.is_alphabetic() || c == '/')
        {
            return None;
        }
        let inside = self.text[self.at + 1..].iter().take(LONGEST);
        let len = inside
            .take_while(|c| !matches!(c, '<' | '>' | '\n'))
            .count()
            + 1;
        (self.text.get(self.at + len) == Some(&'>')).then_some(len + 1)
    }

    /// Whether only white space is before it on its line, as before a quotation.
    fn begins_a_line(&self) -> bool {
        let line = self.text[..self.at]
            .iter()
            .rev()
            .take_while(|c| **c != '\n');
        line.into_iter().all(|c| c.is_whitespace() || *c == '>')
    }

    /// Whether a plus or minus is that of the figure behind it, and no hyphen and no range.
    fn is_before_a_figure(&self) -> bool {
        let is_figure = |c: char| c.is_ascii_digit() || is_currency(c);
        self.ahead().is_some_and(is_figure)
            && self.before().is_none_or(|c| !c.is_alphanumeric())
            && !(self.text[self.at] == '-' && self.behind().is_some_and(is_figure))
    }

    fn is_between_figures(&self) -> bool {
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        is_digit(self.behind()) && is_digit(self.ahead())
    }

    fn is_behind_a_digit(&self) -> bool {
        self.before().is_some_and(|c| c.is_ascii_digit())
            && !self.next().is_some_and(char::is_alphanumeric)
    }
}

/// Which quotations are open: a sign that closes one measures nothing.
#[derive(Default)]
struct Quotes {
    single: bool,
    double: bool,
}

impl Quotes {
    /// Passes a character, and says whether it closes a quotation.
    fn pass(&mut self, place: &Place<'_>) -> bool {
        let open = match place.text[place.at] {
            '\'' => &mut self.single,
            '"' => &mut self.double,
            _ => return false,
        };
        let is_behind_something = place
            .before()
            .is_some_and(|c| !c.is_whitespace() && !matches!(c, '(' | '[' | '{'));
        if *open {
            *open = !is_behind_something;
            return is_behind_something;
        }
        *open = !is_behind_something;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_that_mean_something_are_kept_in_order() {
        for (text, expected) in [
            ("o café custa 2,50 €", "€"),
            ("€ 2.50, then $3 or 4 £", "€$£"),
            ("₹3 and ₽3, ₿ too", "₹₽₿"),
            ("fee is 10 % of it", "%"),
            ("cpu > 90 and ram <= 5, x != 5, y ≥ 2", ">≤≠≥"),
            ("balance: - 200 EUR, +5 % or -$3", "-+%-$"),
            ("3 * 4, 3 / 4, 8/10", "*//"),
            ("5' by 6\", or 7″", "'\"\""),
        ] {
            assert_eq!(signs(text), expected, "{text}");
        }
    }

    #[test]
    fn punctuation_hyphens_ranges_quotes_and_tags_are_none() {
        for text in [
            "",
            "Ana's follow-up - please, a/b & c; \"quoted\" (x) [y] {z} *bold* _it_ `code` #tag @ana",
            "from 3-5 to 3 - 5, GPT-4, 2024-03-15, the 80's",
            "she said \"he is 5\" and 'she is 6' in '99",
            "> a quotation\n> of two lines",
            "<b>bold</b> by Ana <ana@x.org>",
            "x = 5, y == 6, a: b",
        ] {
            assert_eq!(signs(text), "", "{text}");
        }
    }
}
