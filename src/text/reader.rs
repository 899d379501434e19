//! One reading of a text in one language: from tokens to words, numbers, times, names and negators.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

use super::analysis::{Class, Polarity, Word};
use super::fold::{fold, hash, hash32};
use super::lexicon::{Entry, Lexicon, Negator, PhraseKind};
use super::moment::{self, Moment};
use super::names;
use super::quantity::{self, Dimension, Quantity};
use super::token::{Case, Ends, Kind, Token};
use super::units;
use super::wording::{Piece, wording};

fn digest(tokens: &[Token]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for token in tokens {
        digest.update(token.fold.as_bytes());
        digest.update([0]);
    }
    digest.finalize().into()
}

/// A word that the language has nothing to say about.
static UNKNOWN: LazyLock<Entry> = LazyLock::new(Entry::default);

/// One reading of a text in one language.
pub(super) struct Reader {
    lexicon: &'static Lexicon,
    tokens: Vec<Token>,
    /// Digest of the folded tokens.
    pub(super) normal: [u8; 32],
    /// The words as a merge compares them.
    pub(super) wording: Box<[Piece]>,
    pub(super) words: Vec<Word>,
    pub(super) quantities: Vec<Quantity>,
    pub(super) moments: Vec<Moment>,
    /// Where the negators are, and which.
    pub(super) negators: Vec<(u32, Negator)>,
    /// For each word, what ends after it, or that it ends the reach of a negator.
    pub(super) ends: Vec<Ends>,
    /// Hashes of the proper names.
    pub(super) names: Vec<u64>,
    clause: u16,
}

impl Reader {
    /// Reads all tokens.
    pub(super) fn read(lexicon: &'static Lexicon, tokens: Vec<Token>) -> Self {
        let mut reader = Self::new(lexicon, tokens);
        reader.read_all();
        reader
    }

    fn new(lexicon: &'static Lexicon, tokens: Vec<Token>) -> Self {
        let tokens = expand(lexicon, tokens);
        Self {
            lexicon,
            normal: digest(&tokens),
            wording: wording(lexicon, &tokens),
            words: Vec::with_capacity(tokens.len()),
            ends: Vec::with_capacity(tokens.len()),
            tokens,
            quantities: Vec::new(),
            moments: Vec::new(),
            negators: Vec::new(),
            names: Vec::new(),
            clause: 0,
        }
    }

    fn read_all(&mut self) {
        let keys = self.lexicon.keys(&self.tokens);
        let mut at = 0;
        while at < self.tokens.len() {
            let used = self
                .time(at)
                .or_else(|| self.phrase(at, &keys))
                .or_else(|| self.number(at))
                .unwrap_or_else(|| self.single(at, keys[at]));
            at += used;
        }
    }

    /// Whether the text begins with an indefinite article or a count.
    pub(super) fn begins_indefinite(&self) -> bool {
        let count = self
            .quantities
            .first()
            .is_some_and(|first| first.at == 0 && first.dimension == Dimension::Count);
        count || self.entry(0).is_some_and(|entry| entry.is_indefinite)
    }

    fn here(&self) -> u32 {
        u32::try_from(self.words.len()).unwrap_or(u32::MAX)
    }

    /// Adds a word made of `used` tokens from `at` on.
    fn add(&mut self, at: usize, used: usize, key: u32, class: Class) -> &mut Word {
        let token = &self.tokens[at];
        let fold = if used == 1 {
            hash(&token.fold)
        } else {
            u64::from(key)
        };
        let ends = self.tokens[at..at + used]
            .iter()
            .map(|token| token.ends)
            .max()
            .unwrap_or(Ends::Nothing);
        let word = Word {
            fold,
            key,
            accented: token.accented.as_deref().map_or(0, hash32),
            ending: hash32(without_s(&token.fold)),
            class,
            is_filler: false,
            polarity: Polarity::default(),
            qualifiers: 0,
            clause: self.clause,
            relations: self.lexicon.relations(key),
        };
        self.words.push(word);
        self.ends.push(ends);
        if ends >= Ends::Clause {
            self.clause = self.clause.saturating_add(1);
        }
        let last = self.words.len() - 1;
        &mut self.words[last]
    }

    /// A date, a time of day, a weekday: each token becomes a word that carries no topic.
    fn time(&mut self, at: usize) -> Option<usize> {
        let (moments, used) = moment::read(self.lexicon, &self.tokens, at)?;
        let here = self.here();
        for offset in 0..used {
            let key = hash32(&self.tokens[at + offset].fold);
            self.add(at + offset, 1, key, Class::Figure);
        }
        self.moments.extend(
            moments
                .into_iter()
                .map(|moment| Moment { at: here, ..moment }),
        );
        Some(used)
    }

    fn phrase(&mut self, at: usize, keys: &[u32]) -> Option<usize> {
        let reach = self.tokens[at..]
            .iter()
            .take(5)
            .position(|token| token.ends != Ends::Nothing)
            .map_or(5, |last| last + 1);
        let end = keys.len().min(at + reach);
        let (phrase, used) = self.lexicon.phrase(&keys[at..end])?;
        let (kind, key) = (phrase.kind, phrase.key);
        match kind {
            PhraseKind::Negator(negator) => {
                self.negators.push((self.here(), negator));
                self.add(at, used, key, Class::Negator);
            }
            PhraseKind::Harmless => {
                self.add(at, used, key, Class::Function);
            }
            PhraseKind::Qualifier(bits) => {
                self.add(at, used, key, Class::Function).qualifiers = bits;
            }
            PhraseKind::Relative(group, place) => {
                let moment = Moment::relative(group, place, self.here());
                self.moments.push(moment);
                self.add(at, used, key, Class::Figure);
            }
            PhraseKind::Word => {
                self.add(at, used, key, Class::Content);
            }
        }
        Some(used)
    }

    fn number(&mut self, at: usize) -> Option<usize> {
        let (dimension, value, used) = self.amount(at)?;
        let here = self.here();
        let key = hash32(&format!("{dimension:?} {value}"));
        self.add(at, used, key, Class::Figure);
        self.quantities.push(Quantity {
            dimension,
            value,
            at: here,
        });
        Some(used)
    }

    fn entry(&self, at: usize) -> Option<&'static Entry> {
        let token = self.tokens.get(at)?;
        (token.kind == Kind::Word)
            .then(|| self.lexicon.get(&token.fold))
            .flatten()
    }

    /// A number from `at` on: what it counts, its value, how many tokens it takes.
    fn amount(&self, at: usize) -> Option<(Dimension, f64, usize)> {
        let token = &self.tokens[at];
        let before = at.checked_sub(1).and_then(|before| self.entry(before));
        let Kind::Numeral(numeral) = &token.kind else {
            return self.spelt(at);
        };
        if numeral.digits.contains('/') {
            return Some((Dimension::Ratio, quantity::spelling(&numeral.digits), 1));
        }
        let value = quantity::value(&numeral.digits, self.lexicon.decimal)?;
        if self.lexicon.ordinal_suffixes.contains(&numeral.suffix) {
            return Some((Dimension::Rank, value, 1));
        }
        let (unit, times) = quantity::written_on(numeral);
        if let Some(unit) = unit {
            return Some((
                Dimension::Measure(unit.dimension),
                value * times * unit.size,
                1,
            ));
        }
        if before.is_some_and(|before| before.is_version_word) && numeral.digits.contains('.') {
            return Some((Dimension::Version, quantity::spelling(&numeral.digits), 1));
        }
        if before.is_some_and(|before| before.is_identifier_word) {
            return Some((Dimension::Identifier, quantity::spelling(&token.fold), 1));
        }
        if !numeral.suffix.is_empty() && !quantity::is_factor(&numeral.suffix) {
            return Some((Dimension::Identifier, quantity::spelling(&token.fold), 1));
        }
        let (scaled, used) = self.scaled(at + 1, value * times);
        if let Some(unit) = self.unit_at(at + used) {
            return Some((
                Dimension::Measure(unit.dimension),
                scaled * unit.size,
                used + 1,
            ));
        }
        let is_name = at.checked_sub(1).is_some_and(|before| {
            let before = &self.tokens[before];
            before.case != Case::Lower && !before.begins
        });
        if used == 1 && numeral.digits.contains('.') && is_name {
            return Some((Dimension::Version, quantity::spelling(&numeral.digits), 1));
        }
        Some((Dimension::Count, scaled, used))
    }

    /// A multiplier such as `million` at `at`; how many tokens the number takes with it.
    fn scaled(&self, at: usize, value: f64) -> (f64, usize) {
        let scale = self
            .entry(at)
            .and_then(|entry| entry.number)
            .filter(|number| {
                *number >= 100 && !self.entry(at).is_some_and(|entry| entry.is_ordinal)
            });
        #[expect(clippy::cast_precision_loss, reason = "the multipliers are small")]
        match scale {
            Some(scale) => (value * scale as f64, 2),
            None => (value, 1),
        }
    }

    fn unit_at(&self, at: usize) -> Option<units::UnitId> {
        let token = self.tokens.get(at)?;
        if self.tokens[at - 1].ends != Ends::Nothing {
            return None;
        }
        self.entry(at)
            .and_then(|entry| entry.unit)
            .or_else(|| units::by_symbol(&token.fold))
    }

    /// A number in words from `at` on.
    fn spelt(&self, at: usize) -> Option<(Dimension, f64, usize)> {
        let entry = self.entry(at)?;
        let first = entry.number?;
        if entry.is_ordinal {
            #[expect(clippy::cast_precision_loss, reason = "ordinals are small")]
            return Some((Dimension::Rank, first as f64, 1));
        }
        let (mut total, mut group, mut used) = (0_u64, first, 1);
        while used < 8 && self.tokens[at + used - 1].ends == Ends::Nothing {
            let joined = matches!(
                self.tokens.get(at + used).map(|token| token.fold.as_str()),
                Some("e" | "y" | "and")
            );
            let step = usize::from(joined);
            let next = self
                .entry(at + used + step)
                .filter(|entry| !entry.is_ordinal)
                .and_then(|entry| entry.number);
            let Some(next) = next else { break };
            if next >= 1000 && !joined {
                total = total.saturating_add(group.saturating_mul(next));
                group = 0;
            } else if next == 100 && !joined {
                group = group.saturating_mul(100);
            } else if next < group || (group == 0 && next < 1000) {
                group = group.saturating_add(next);
            } else {
                break;
            }
            used += 1 + step;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "number words are far below 2^53"
        )]
        let value = total.saturating_add(group) as f64;
        match self.unit_at(at + used) {
            Some(unit) => Some((
                Dimension::Measure(unit.dimension),
                value * unit.size,
                used + 1,
            )),
            None => Some((Dimension::Count, value, used)),
        }
    }

    fn single(&mut self, at: usize, key: u32) -> usize {
        let entry = self.entry(at).unwrap_or(&UNKNOWN);
        let token = &self.tokens[at];
        let class = match token.kind {
            Kind::Code | Kind::Numeral(_) => Class::Code,
            Kind::Sign => Class::Sign,
            Kind::Word if entry.negator.is_some() => Class::Negator,
            Kind::Word if entry.is_function => Class::Function,
            Kind::Word if names::is_name(self.lexicon, &self.tokens, at) => Class::Name,
            Kind::Word if entry.is_light => Class::Light,
            Kind::Word => Class::Content,
        };
        let spelling = hash(&token.fold);
        let key = match class {
            Class::Name | Class::Code => hash32(&token.fold),
            _ => key,
        };
        let is_implied = self.lexicon.implied.contains(&key);
        if let Some(negator) = entry.negator.or(is_implied.then_some(Negator::Implied)) {
            self.negators.push((self.here(), negator));
        }
        if class == Class::Name {
            self.names.push(spelling);
        }
        let word = self.add(at, 1, key, class);
        word.qualifiers = entry.qualifiers;
        word.is_filler = entry.is_filler;
        if entry.ends_negation {
            let before = self.ends.len().checked_sub(2);
            if let Some(before) = before {
                self.ends[before] = self.ends[before].max(Ends::Clause);
            }
        }
        1
    }
}

/// The word without the ending of a plural or of a third person.
fn without_s(word: &str) -> &str {
    if word.len() > 3 {
        word.strip_suffix('s').unwrap_or(word)
    } else {
        word
    }
}

/// Takes contractions apart: `don't` is `do not`, whichever way it is written.
fn expand(lexicon: &'static Lexicon, tokens: Vec<Token>) -> Vec<Token> {
    let mut expanded = Vec::with_capacity(tokens.len() + 4);
    for token in tokens {
        let parts = parts(lexicon, &token);
        if parts.is_empty() {
            expanded.push(token);
            continue;
        }
        let last = parts.len() - 1;
        let owns = last == 0 && token.fold.ends_with("'s");
        for (place, part) in parts.into_iter().enumerate() {
            expanded.push(Token {
                fold: part,
                accented: None,
                ends: if place == last {
                    token.ends
                } else {
                    Ends::Nothing
                },
                begins: token.begins && place == 0,
                owns,
                case: if place == 0 { token.case } else { Case::Lower },
                kind: Kind::Word,
            });
        }
    }
    expanded
}

/// The words a contraction stands for; none where the token is no contraction.
fn parts(lexicon: &Lexicon, token: &Token) -> Vec<String> {
    if token.kind != Kind::Word {
        return Vec::new();
    }
    let joined = token.fold.replace('\'', "");
    if let Some(words) = lexicon
        .get(&joined)
        .and_then(|entry| entry.expansion.as_ref())
    {
        return words.clone();
    }
    let Some((word, suffix)) = token.fold.rsplit_once('\'') else {
        return Vec::new();
    };
    let mut parts = vec![word.replace('\'', "")];
    match lexicon.suffixes.get(suffix) {
        Some(expansion) if expansion.is_empty() => {}
        Some(expansion) => parts.push(fold(expansion)),
        None => parts.push(suffix.to_owned()),
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::super::analysis::Analysis;
    use super::*;
    use Dimension::{Count, Identifier, Rank, Ratio, Version};

    fn numbers(text: &str) -> Vec<(Dimension, f64)> {
        let analysis = Analysis::of(text);
        let numbers = analysis.quantities.iter();
        numbers
            .map(|number| (number.dimension, number.value))
            .collect()
    }

    #[test]
    fn numbers_have_a_kind_a_value_and_a_unit() {
        let data = units::by_name("byte").unwrap().dimension;
        let time = units::by_name("second").unwrap().dimension;
        let usd = units::by_name("usd").unwrap().dimension;
        for (text, expected) in [
            ("she has two children", vec![(Count, 2.0)]),
            ("tem vinte e cinco alunos", vec![(Count, 25.0)]),
            (
                "there are three hundred and five people",
                vec![(Count, 305.0)],
            ),
            ("two million users", vec![(Count, 2e6)]),
            ("2 million users", vec![(Count, 2e6)]),
            (
                "the cache is 512MB",
                vec![(Dimension::Measure(data), 512e6)],
            ),
            ("the cache is 1 GB", vec![(Dimension::Measure(data), 1e9)]),
            (
                "it takes 90 minutes",
                vec![(Dimension::Measure(time), 5400.0)],
            ),
            (
                "it takes two weeks",
                vec![(Dimension::Measure(time), 1_209_600.0)],
            ),
            ("it costs $5k", vec![(Dimension::Measure(usd), 5000.0)]),
            ("it costs 5 dollars", vec![(Dimension::Measure(usd), 5.0)]),
            (
                "custa 1.200,50 dolares",
                vec![(Dimension::Measure(usd), 1200.5)],
            ),
            ("the 3rd try", vec![(Rank, 3.0)]),
            ("the third try", vec![(Rank, 3.0)]),
            ("scored 8/10", vec![(Ratio, quantity::spelling("8/10"))]),
            (
                "uses version 2.10",
                vec![(Version, quantity::spelling("2.10"))],
            ),
            (
                "listens on port 8080",
                vec![(Identifier, quantity::spelling("8080"))],
            ),
            ("no number here", vec![]),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
    }

    #[test]
    fn versions_are_compared_as_written() {
        assert_ne!(numbers("uses version 2.1"), numbers("uses version 2.10"));
        assert_eq!(numbers("it costs $1.50"), numbers("it costs $1.5"));
    }

    #[test]
    fn contractions_are_taken_apart() {
        for (one, other) in [
            ("She doesn't smoke", "she does not smoke"),
            ("She doesnt smoke", "she does not smoke"),
            ("They can't come", "they can not come"),
            ("I've seen it", "I have seen it"),
        ] {
            assert_eq!(
                Analysis::of(one).normal,
                Analysis::of(other).normal,
                "{one}"
            );
        }
        assert_ne!(
            Analysis::of("we're late").normal,
            Analysis::of("were late").normal
        );
    }
}
