//! Tokens: a text cut into words, numerals, codes and signs.
//!
//! Mechanics: chunks between white space lose the punctuation around them, then are told apart by shape. No language is
//! needed yet, so that the words can say which one it is. Time is linear in the text, and [`MAX_CHARS`] bounds it.
//!
//! Policy: what may be copied letter by letter (addresses, paths, identifiers, versions, hashes) is a code, kept whole:
//! one character more makes another of it. Punctuation only ends clauses.

use super::fold::{fold, keyboard, lower};

/// Characters of a text that are analysed.
pub(crate) const MAX_CHARS: usize = 20_000;

/// A token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: Kind,
    /// Folded text.
    pub(crate) fold: String,
    /// Lower case with accents, where that differs.
    pub(crate) accented: Option<String>,
    /// How it is written.
    pub(crate) case: Case,
    /// What ends after it.
    pub(crate) ends: Ends,
    /// Whether it begins a sentence.
    pub(crate) begins: bool,
    /// Whether it is the owner of what follows: a word that lost its `'s`.
    pub(crate) owns: bool,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// Letters.
    Word,
    /// Digits, with what is written on to them.
    Numeral(Numeral),
    /// Something that is copied, not read.
    Code,
    /// An emoji or another sign.
    Sign,
}

/// Digits, with what is written on to them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Numeral {
    /// Sign, digits, points and commas.
    pub(crate) digits: String,
    /// Currency before them.
    pub(crate) prefix: String,
    /// Letters or signs behind them.
    pub(crate) suffix: String,
}

/// How a word is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// No capital.
    Lower,
    /// First letter only.
    Title,
    /// All capitals, two or more.
    Upper,
    /// Capitals inside.
    Mixed,
}

/// What ends after a token, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ends {
    /// Nothing.
    Nothing,
    /// An item: a comma.
    Item,
    /// A clause.
    Clause,
    /// A sentence.
    Sentence,
}

/// Cuts a text into tokens; the flag says whether it was too long to be read whole.
pub(crate) fn tokens(text: &str) -> (Vec<Token>, bool) {
    let mut chars = text.chars();
    let clean: String = chars
        .by_ref()
        .take(MAX_CHARS)
        .filter_map(keyboard)
        .collect();
    let is_cut = chars.next().is_some();
    let mut cutter = Cutter {
        tokens: Vec::new(),
        begins: true,
    };
    for chunk in clean.split_whitespace() {
        cutter.chunk(chunk);
    }
    (cutter.tokens, is_cut)
}

struct Cutter {
    tokens: Vec<Token>,
    begins: bool,
}

impl Cutter {
    fn chunk(&mut self, chunk: &str) {
        for part in chunk.split('\u{2014}') {
            if part.is_empty() {
                self.end(Ends::Clause);
                continue;
            }
            let body = part.trim_start_matches(is_opening);
            if part.len() > body.len() && part.starts_with(['(', '[', '{', '"']) {
                self.end(Ends::Item);
            }
            let core = trim_end(body);
            let ends = ends(&body[core.len()..]);
            if !core.is_empty() {
                self.core(core);
            }
            self.end(ends);
        }
        if chunk.contains('\u{2014}') {
            self.end(Ends::Clause);
        }
    }

    /// Marks that something ends after the last token.
    fn end(&mut self, ends: Ends) {
        if let Some(last) = self.tokens.last_mut() {
            last.ends = last.ends.max(ends);
            self.begins = last.ends == Ends::Sentence;
        }
    }

    fn push(&mut self, kind: Kind, text: &str) {
        let folded = fold(text);
        // What is ASCII has no accents.
        let lowered = (!text.is_ascii()).then(|| lower(text));
        self.tokens.push(Token {
            kind,
            accented: lowered.filter(|lowered| *lowered != folded),
            fold: folded,
            case: case(text),
            ends: Ends::Nothing,
            begins: std::mem::take(&mut self.begins),
            owns: false,
        });
    }

    fn core(&mut self, core: &str) {
        if is_address(core) {
            return self.push(Kind::Code, core.trim_end_matches('/'));
        }
        if let Some(numeral) = numeral(core) {
            return self.push(Kind::Numeral(numeral), core);
        }
        if let Some(half @ ("a.m" | "p.m" | "A.M" | "P.M")) = core.get(..) {
            return self.push(Kind::Word, &half.replace('.', ""));
        }
        if is_measured(core) {
            return self.parts(core);
        }
        if core.contains([
            '-', '/', '~', '+', '&', ':', ',', ';', '|', '=', '>', '<', '*',
        ]) && !is_code(core)
        {
            return self.parts(core);
        }
        if is_code(core) {
            return self.push(Kind::Code, core);
        }
        self.word(core);
    }

    /// A chunk of several words: `follow-up`, `and/or`, `3-5`.
    fn parts(&mut self, core: &str) {
        // "dairy-free" is "without dairy".
        if let Some(lacked) = core
            .strip_suffix("-free")
            .filter(|lacked| !lacked.is_empty())
        {
            self.push(Kind::Word, "without");
            self.parts(lacked);
            return self.end(Ends::Item);
        }
        for part in core.split([
            '-', '/', '~', '&', ':', ',', ';', '|', '=', '>', '<', '*', '+',
        ]) {
            let part = trim_end(part.trim_start_matches(is_opening));
            if part.is_empty() {
                continue;
            }
            if let Some(numeral) = numeral(part) {
                self.push(Kind::Numeral(numeral), part);
            } else if is_code(part) {
                self.push(Kind::Code, part);
            } else {
                self.word(part);
            }
        }
    }

    /// Letters, with signs and foreign scripts between them.
    fn word(&mut self, word: &str) {
        let mut start = 0;
        for (at, c) in word.char_indices() {
            let is_single = is_ideograph(c) || is_sign(c);
            if is_single || !(c.is_alphanumeric() || c == '\'' || is_mark(c)) {
                self.letters(&word[start..at]);
                if is_single {
                    let kind = if is_sign(c) { Kind::Sign } else { Kind::Word };
                    self.push(kind, &word[at..at + c.len_utf8()]);
                }
                start = at + c.len_utf8();
            }
        }
        self.letters(&word[start..]);
    }

    fn letters(&mut self, word: &str) {
        let word = word.trim_matches('\'');
        if !word.is_empty() {
            self.push(Kind::Word, word);
        }
    }
}

fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

fn is_opening(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | '('
            | '['
            | '{'
            | '<'
            | '¿'
            | '¡'
            | '*'
            | '`'
            | '•'
            | '·'
            | '…'
            | ','
            | ';'
            | ':'
            | '|'
            | '>'
            | '='
    )
}

fn is_closing(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | ')'
            | ']'
            | '}'
            | '>'
            | '*'
            | '`'
            | ','
            | ';'
            | ':'
            | '!'
            | '?'
            | '.'
            | '…'
            | '|'
            | '='
            | '_'
            | '-'
            | '。'
            | '、'
            | '！'
            | '？'
    )
}

fn trim_end(text: &str) -> &str {
    text.trim_end_matches(|c| is_closing(c) || matches!(c, '(' | '[' | '{'))
}

fn ends(tail: &str) -> Ends {
    tail.chars()
        .map(|c| match c {
            '.' | '!' | '?' | '…' | '。' | '！' | '？' => Ends::Sentence,
            ';' | ':' | ')' | ']' | '}' | '-' => Ends::Clause,
            ',' | '"' | '、' => Ends::Item,
            _ => Ends::Nothing,
        })
        .max()
        .unwrap_or(Ends::Nothing)
}

fn case(text: &str) -> Case {
    let mut letters = text.chars().filter(|c| c.is_alphabetic());
    let first = letters.next().is_some_and(char::is_uppercase);
    let (mut upper, mut count) = (0, 0);
    for c in letters {
        upper += usize::from(c.is_uppercase());
        count += 1;
    }
    match (first, upper) {
        (true, 0) => Case::Title,
        (true, upper) if upper == count => Case::Upper,
        (false, 0) => Case::Lower,
        _ => Case::Mixed,
    }
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn is_sign(c: char) -> bool {
    let is_symbol =
        matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{2100}'..='\u{214f}');
    is_symbol && !c.is_alphanumeric()
}

/// Addresses of pages, people and files.
fn is_address(text: &str) -> bool {
    let has_letter = text.chars().any(char::is_alphabetic);
    if !has_letter {
        return false;
    }
    let lower_start = text
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case("www."));
    let mail = text
        .split_once('@')
        .is_some_and(|(name, host)| host.contains('.') || name.is_empty());
    let dotted = |text: &str| text.starts_with(|c: char| c == '/' || c.is_alphabetic());
    let path = text.starts_with(['/', '\\'])
        || text.starts_with("~/")
        || text.starts_with("../")
        || text.strip_prefix('.').is_some_and(dotted)
        || text.contains('\\')
        || (text.matches('/').count() >= 2 && !text.contains(' '))
        || (text.contains('/')
            && text
                .rsplit('/')
                .next()
                .is_some_and(|last| last.contains('.')));
    text.contains("://") || lower_start || mail || path || text.starts_with('#')
}

/// Identifiers, file names, versions and hashes.
fn is_code(text: &str) -> bool {
    let has = |test: fn(char) -> bool| text.chars().any(test);
    let (letters, digits) = (has(char::is_alphabetic), has(|c| c.is_ascii_digit()));
    let inner_dot = text
        .split('.')
        .filter(|part| part.chars().count() > 1)
        .count()
        > 1
        && text.split('.').all(|part| !part.is_empty());
    text.contains('_')
        || text.contains("::")
        || text.contains("()")
        || text.contains('@')
        || (letters && digits)
        || (letters && inner_dot)
        || (letters && text.ends_with(['+', '#']))
        || (digits && text.matches(['.', ':', '/']).count() >= 2)
        || (digits && (text.contains('=') || text.matches('-').count() == 2))
}

/// Numerals joined to words or to each other: `18-year-old`, `15/month`, `9am-5pm`.
fn is_measured(text: &str) -> bool {
    let mut parts = text.split(['-', '/']);
    let is_first = parts.next().is_some_and(|first| numeral(first).is_some());
    let mut rest = parts.peekable();
    let is_word = |part: &str| part.chars().all(char::is_alphabetic) && !part.is_empty();
    let are_words = rest.peek().is_some() && rest.clone().all(is_word);
    let are_numerals = rest.clone().count() == 1 && rest.all(|part| numeral(part).is_some());
    is_first && (are_words || are_numerals)
}

/// A number with a currency before it or a unit behind it.
fn numeral(text: &str) -> Option<Numeral> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    if let Some((part, whole)) = text.split_once('/') {
        let is_plain = |text: &str| {
            text.starts_with(|c: char| c.is_ascii_digit())
                && text.chars().all(|c| c.is_ascii_digit() || c == '.')
        };
        return (is_plain(part) && is_plain(whole)).then(|| Numeral {
            digits: text.to_owned(),
            ..Numeral::default()
        });
    }
    let (mut prefix, rest) = text.split_at(start);
    let mut sign = "";
    if let Some(before) = prefix.strip_suffix('-') {
        (prefix, sign) = (before, "-");
    } else if let Some(before) = prefix.strip_suffix('+') {
        prefix = before;
    } else if let Some(after) = prefix.strip_prefix('-') {
        (prefix, sign) = (after, "-");
    }
    let is_currency = |text: &str| super::units::by_symbol(&fold(text)).is_some();
    let prefix = prefix.trim_start_matches(['~', '<', '>', '=', '≥', '≤', '≈', '#']);
    if !prefix.is_empty() && !is_currency(prefix) {
        return None;
    }
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
        .unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let digits = digits.trim_end_matches(['.', ',']);
    // `15h30` and `11:30` are times, told apart later; anything else with more digits is a code.
    let tail = suffix.trim_start_matches(|c: char| {
        c.is_alphabetic() || matches!(c, '%' | '°' | '$' | '€' | '£' | ':' | '+')
    });
    let is_clock = |tail: &str| {
        tail.len() <= 6
            && tail.starts_with(|c: char| c.is_ascii_digit())
            && tail.chars().all(char::is_alphanumeric)
    };
    let suffix_head = &suffix[..suffix.len() - tail.len()];
    let is_time = matches!(fold(suffix_head).as_str(), ":" | "h") && is_clock(tail);
    let is_letters = tail.is_empty() && suffix.chars().count() <= 4 && !suffix.contains(':');
    if !(is_time || is_letters) || digits.matches('.').count() > 1 && !is_grouped(digits, '.') {
        return None;
    }
    Some(Numeral {
        digits: format!("{sign}{digits}"),
        prefix: fold(prefix),
        suffix: fold(suffix),
    })
}

/// Whether the separator parts groups of three digits.
pub(crate) fn is_grouped(digits: &str, separator: char) -> bool {
    let mut groups = digits.trim_start_matches('-').split(separator);
    let first = groups.next().map_or(0, str::len);
    (1..=3).contains(&first) && groups.all(|group| group.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        tokens(text)
            .0
            .into_iter()
            .map(|token| {
                let mark = match token.kind {
                    Kind::Word => "",
                    Kind::Numeral(_) => "n:",
                    Kind::Code => "c:",
                    Kind::Sign => "s:",
                };
                format!("{mark}{}", token.fold)
            })
            .collect()
    }

    #[test]
    fn texts_are_cut_by_shape() {
        for (text, expected) in [
            ("", ""),
            (" \u{200b} ... !!! ", ""),
            ("Ana's follow-up, please.", "ana's follow up please"),
            ("and/or", "and or"),
            ("costs $1,200.50 or 5€", "costs n:$1,200.50 or n:5€"),
            (
                "v2.1 1.2.3 main.rs Node.js",
                "c:v2.1 c:1.2.3 c:main.rs c:node.js",
            ),
            (
                "https://a.example/x/ a@b.org /etc/hosts",
                "c:https://a.example/x c:a@b.org c:/etc/hosts",
            ),
            (
                "parse_config() a::b C++ C#",
                "c:parse_config c:a::b c:c++ c:c#",
            ),
            (
                "3-5 days, 18-year-old, 15/month",
                "n:3 n:5 days n:18 year old n:15 month",
            ),
            ("8/10 and 140/90", "n:8/10 and n:140/90"),
            (
                "11:30 3pm 15h30 1st 512MB 90%",
                "n:11:30 n:3pm n:15h30 n:1st n:512mb n:90%",
            ),
            ("11 a.m. e.g. this", "n:11 am e g this"),
            ("GPT-4 H100 4f9a", "c:gpt-4 c:h100 c:4f9a"),
            ("2024-03-15 15/10/2024", "c:2024-03-15 c:15/10/2024"),
            ("a dairy-free cake", "a without dairy cake"),
            ("I ❤ it 👍", "i s:❤ it s:👍"),
            ("我喜欢茶", "我 喜 欢 茶"),
            ("yes\u{2014}no", "yes no"),
            ("-5 +5 ~5", "n:-5 n:+5 n:~5"),
            ("a\u{0}b\tc", "a b c"),
        ] {
            let expected: Vec<&str> = expected.split_whitespace().collect();
            assert_eq!(cut(text), expected, "{text:?}");
        }
    }

    #[test]
    fn punctuation_ends_items_clauses_and_sentences() {
        use Ends::{Clause, Item, Nothing, Sentence};
        let (tokens, _) = tokens("one, two; three. Four (five) six");
        let ends: Vec<Ends> = tokens.iter().map(|token| token.ends).collect();
        assert_eq!(ends, [Item, Clause, Sentence, Item, Clause, Nothing]);
        let begins: Vec<bool> = tokens.iter().map(|token| token.begins).collect();
        assert_eq!(begins, [true, false, false, true, false, false]);
    }

    #[test]
    fn a_huge_text_is_cut_off_and_says_so() {
        let (tokens, is_cut) = tokens(&"word ".repeat(1_000_000));
        assert!(is_cut);
        assert_eq!(tokens.len(), MAX_CHARS / 5);
        assert!(!super::tokens("word").1);
    }
}
