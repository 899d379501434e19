//! Lexicons: what a language contributes to the analysis, as data.
//!
//! Mechanics: one TOML file per language under `lexicon/`, compiled in, read once at first use into one table of
//! [`Entry`] by folded word and one of [`Relations`] by stem. Supporting another language is adding its file and its
//! line in [`FILES`].
//!
//! Policy: a file says only what is true of the language in general. `function` words carry no topic, `light` ones
//! little, `fillers` may come and go,
//! `indefinite` ones introduce something. `negators` differ in reach: `not` and `never` negate what follows, `none` the
//! whole clause, `without` what stands right behind it, `implied` are verbs that deny what follows them. `qualifiers`
//! must agree before two texts merge. `same` words count as one; of `kinds` the first of a line stands for any other;
//! `opposites` cannot both hold: `pairs`, `against` (the first of a line and each other), `exclusive` (any two of a
//! line). `rewording` is read by [`super::wording`].

use std::collections::HashMap;
use std::sync::LazyLock;
use std::thread;

use rust_stemmers::{Algorithm, Stemmer};
use sha2::{Digest as _, Sha256};

use super::fold::{fold, hash32};
use super::stems::Stems;
use super::token::Token;
use super::units::{self, UnitId};
use super::wording::Rewording;
use super::words::{KeyMap, WordMap};
use crate::panics::joined;
use raw::{Raw, RawNegators, RawTime};

mod raw;

/// The languages, in the order in which a tie is decided.
const FILES: [(&str, &str); 3] = [
    ("en", include_str!("lexicon/en.toml")),
    ("pt", include_str!("lexicon/pt.toml")),
    ("es", include_str!("lexicon/es.toml")),
];

/// English antonyms of `WordNet`, with its licence in `lexicon/LICENSE-WordNet`.
const WORDNET: &str = include_str!("lexicon/en-wordnet-antonyms.tsv");

/// A digest of all that texts are judged by, apart from the code: it changes when a language is added or amended.
#[must_use]
pub fn edition() -> [u8; 32] {
    let others = [
        WORDNET,
        include_str!("lexicon/foreign.txt"),
        include_str!("lexicon/names.txt"),
        include_str!("lexicon/units.toml"),
    ];
    let mut hash = Sha256::new();
    for text in FILES.iter().map(|(_, text)| *text).chain(others) {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

/// Every lexicon, in the order of [`FILES`]; each is read by a thread of its own, for whoever is first waits for all.
pub(crate) static LEXICONS: LazyLock<Vec<Lexicon>> = LazyLock::new(|| {
    thread::scope(|scope| {
        let readers = FILES.map(|(code, text)| scope.spawn(move || Lexicon::read(code, text)));
        readers.into_iter().map(joined).collect()
    })
});

/// How a negator reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Negator {
    /// What follows, to the end of the clause.
    Not,
    /// The same, at any time.
    Never,
    /// The whole clause.
    None,
    /// What stands right behind it.
    Without,
    /// What follows, if the other side lacks the verb.
    Implied,
}

/// What a phrase of several words is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PhraseKind {
    /// It negates.
    Negator(Negator),
    /// It looks like a negation and is none.
    Harmless,
    /// It qualifies, by these bits.
    Qualifier(u16),
    /// It is one word, with a meaning of its own.
    Word,
    /// It tells a time, of this group and at this place in it.
    Relative(u8, u8),
}

/// A phrase: the folded words, or the stems where `by_stem`.
#[derive(Debug, Clone)]
pub(crate) struct Phrase {
    pub(crate) rest: Vec<u32>,
    pub(crate) kind: PhraseKind,
    pub(crate) key: u32,
}

/// What a folded word is in a language.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
pub(crate) struct Entry {
    pub(crate) is_function: bool,
    pub(crate) is_light: bool,
    pub(crate) is_filler: bool,
    pub(crate) is_indefinite: bool,
    pub(crate) negator: Option<Negator>,
    pub(crate) ends_negation: bool,
    pub(crate) qualifiers: u16,
    pub(crate) number: Option<u64>,
    pub(crate) is_ordinal: bool,
    pub(crate) weekday: Option<u8>,
    pub(crate) month: Option<u8>,
    /// Whether the month or weekday is an abbreviation, or another word too.
    pub(crate) is_doubtful_time: bool,
    pub(crate) relative: Option<(u8, u8)>,
    pub(crate) unit: Option<UnitId>,
    pub(crate) is_version_word: bool,
    pub(crate) is_identifier_word: bool,
    pub(crate) is_hour_mark: bool,
    pub(crate) half_day: Option<u8>,
    pub(crate) lemma: Option<String>,
    pub(crate) expansion: Option<Vec<String>>,
}

/// How a stem relates to others.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    /// Stems that cannot hold where this one does.
    pub(crate) opposites: Vec<u32>,
    /// The same among nouns, where both may hold of different things: a reason against a merge, no contradiction.
    pub(crate) contrasts: Vec<u32>,
    /// Groups of words that mean the same.
    pub(crate) same: Vec<u16>,
    /// Groups of which no two hold at once.
    pub(crate) exclusive: Vec<u16>,
    /// Groups of a kind and its members; `true` for the kind.
    pub(crate) kinds: Vec<(u16, bool)>,
}

/// One language.
pub(crate) struct Lexicon {
    pub(crate) code: &'static str,
    pub(crate) decimal: char,
    stemmer: Stemmer,
    stems: Stems,
    entries: WordMap<Entry>,
    relations: KeyMap<Relations>,
    phrases: KeyMap<Vec<Phrase>>,
    pub(crate) ordinal_suffixes: Vec<String>,
    pub(crate) suffixes: WordMap<String>,
    pub(crate) implied: Vec<u32>,
    pub(crate) rewording: Rewording,
}

/// Months and weekdays that are everyday words as well.
const DOUBTFUL: [&str; 2] = ["may", "march"];

impl std::fmt::Debug for Lexicon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code)
    }
}

impl Lexicon {
    /// # Panics
    ///
    /// When the file is not a lexicon; the files are compiled in and read by the tests.
    #[expect(clippy::panic, reason = "see above")]
    fn read(code: &'static str, text: &str) -> Self {
        let raw: Raw = match toml::from_str(text) {
            Ok(raw) => raw,
            Err(error) => panic!("lexicon {code}: {error}"),
        };
        let mut lexicon = Self {
            code,
            decimal: raw.decimal.chars().next().unwrap_or('.'),
            stemmer: Stemmer::create(algorithm(code, &raw.stemmer)),
            stems: Stems::default(),
            entries: WordMap::default(),
            relations: KeyMap::default(),
            phrases: KeyMap::default(),
            ordinal_suffixes: list(&raw.ordinals.suffixes),
            suffixes: raw.suffixes.clone().into_iter().collect(),
            implied: Vec::new(),
            rewording: Rewording::read(&raw.rewording),
        };
        lexicon.read_words(&raw);
        lexicon.read_negators(&raw.negators);
        lexicon.read_qualifiers(&raw.qualifiers);
        lexicon.read_numbers(&raw);
        lexicon.read_times(&raw.time);
        lexicon.read_relations(&raw);
        if code == "en" {
            lexicon.add_wordnet();
        }
        lexicon
    }

    fn entry(&mut self, word: &str) -> &mut Entry {
        self.entries.entry(fold(word)).or_default()
    }

    fn read_words(&mut self, raw: &Raw) {
        for pair in raw.words.lemmas.split_whitespace() {
            if let Some((form, base)) = pair.split_once('/') {
                self.entry(form).lemma = Some(fold(base));
            }
        }
        for word in list(&raw.function) {
            self.entry(&word).is_function = true;
        }
        for word in list(&raw.indefinite) {
            self.entry(&word).is_indefinite = true;
        }
        for word in list(&raw.fillers) {
            self.entry(&word).is_filler = true;
        }
        for word in list(&raw.light) {
            self.entry(&word).is_light = true;
        }
        for (word, expansion) in sorted(&raw.contractions) {
            self.entry(word).expansion = Some(list(expansion));
        }
    }

    fn read_negators(&mut self, raw: &RawNegators) {
        for (words, negator) in [
            (&raw.not, Negator::Not),
            (&raw.none, Negator::None),
            (&raw.never, Negator::Never),
            (&raw.without, Negator::Without),
        ] {
            for word in list(words) {
                if word.contains('_') {
                    self.add_phrase(&word, PhraseKind::Negator(negator));
                } else {
                    self.entry(&word).negator = Some(negator);
                }
            }
        }
        for word in list(&raw.implied) {
            if word.contains('_') {
                self.add_phrase(&word, PhraseKind::Negator(Negator::Not));
            } else {
                let key = self.key(&word);
                self.implied.push(key);
            }
        }
        for phrase in list(&raw.harmless) {
            self.add_phrase(&phrase, PhraseKind::Harmless);
        }
        for word in list(&raw.ends) {
            self.entry(&word).ends_negation = true;
        }
    }

    fn read_qualifiers(&mut self, raw: &toml::Table) {
        for (bit, words) in raw.values().enumerate() {
            let bits = 1 << bit;
            for word in list(words.as_str().unwrap_or_default()) {
                if word.contains('_') {
                    self.add_phrase(&word, PhraseKind::Qualifier(bits));
                } else {
                    self.entry(&word).qualifiers |= bits;
                }
            }
        }
    }

    fn read_numbers(&mut self, raw: &Raw) {
        for (word, number) in sorted(&raw.numbers) {
            self.entry(word).number = Some(*number);
        }
        for word in list(&raw.ordinals.words) {
            self.entry(&word).is_ordinal = true;
        }
        for (unit, words) in sorted(&raw.units) {
            let unit = units::by_name(unit);
            for word in list(words) {
                self.entry(&word).unit = unit;
            }
        }
        for word in list(&raw.versions.before) {
            self.entry(&word).is_version_word = true;
        }
        for word in list(&raw.versions.identifiers) {
            self.entry(&word).is_identifier_word = true;
        }
    }

    fn read_times(&mut self, raw: &RawTime) {
        for (names, is_short) in [(&raw.weekdays, false), (&raw.weekdays_short, true)] {
            for (day, name) in (0..).zip(list(names)) {
                let entry = self.entry(&name);
                entry.weekday = Some(day);
                entry.is_doubtful_time = is_short;
            }
        }
        for (names, is_short) in [(&raw.months, false), (&raw.months_short, true)] {
            for (month, name) in (1..).zip(list(names)) {
                let entry = self.entry(&name);
                if entry.month.is_none() {
                    entry.month = Some(month);
                    entry.is_doubtful_time = is_short || DOUBTFUL.contains(&name.as_str());
                }
            }
        }
        for (group, line) in (0..).zip(raw.relative.trim().lines()) {
            for (place, word) in (0..).zip(list(line)) {
                if word.contains('_') {
                    self.add_phrase(&word, PhraseKind::Relative(group, place));
                } else {
                    self.entry(&word).relative = Some((group, place));
                }
            }
        }
        for (words, half) in [(&raw.am, 0), (&raw.pm, 1)] {
            for word in list(words) {
                self.entry(&word).half_day = Some(half);
            }
        }
        for word in list(&raw.hour_marks) {
            self.entry(&word).is_hour_mark = true;
        }
    }

    fn read_relations(&mut self, raw: &Raw) {
        for pair in raw.opposites.pairs.split_whitespace() {
            if let Some((one, other)) = pair.split_once('/') {
                let (one, other) = (self.word_key(one), self.word_key(other));
                self.add_opposites(one, other);
            }
        }
        for line in raw.opposites.against.trim().lines() {
            let keys: Vec<u32> = list(line).iter().map(|word| self.word_key(word)).collect();
            if let Some((first, others)) = keys.split_first() {
                for other in others {
                    self.add_opposites(*first, *other);
                }
            }
        }
        for (group, line) in (0..).zip(raw.opposites.exclusive.trim().lines()) {
            for word in list(line) {
                let key = self.word_key(&word);
                self.relation(key).exclusive.push(group);
            }
        }
        for (group, line) in (0..).zip(raw.words.same.trim().lines()) {
            for word in list(line) {
                let key = self.word_key(&word);
                self.relation(key).same.push(group);
            }
        }
        for (group, line) in (0..).zip(raw.words.kinds.trim().lines()) {
            for (place, word) in list(line).iter().enumerate() {
                let key = self.word_key(word);
                self.relation(key).kinds.push((group, place == 0));
            }
        }
    }

    fn add_wordnet(&mut self) {
        for line in WORDNET.lines().filter(|line| !line.starts_with('#')) {
            let mut parts = line.split('\t');
            let (Some(one), Some(other), Some(part)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let (one, other) = (self.key(&fold(one)), self.key(&fold(other)));
            if part == "noun" {
                self.relation(one).contrasts.push(other);
                self.relation(other).contrasts.push(one);
            } else {
                self.add_opposites(one, other);
            }
        }
    }

    fn relation(&mut self, key: u32) -> &mut Relations {
        self.relations.entry(key).or_default()
    }

    fn add_opposites(&mut self, one: u32, other: u32) {
        if one != other {
            self.relation(one).opposites.push(other);
            self.relation(other).opposites.push(one);
        }
    }

    /// The key of a word or a phrase of the file; a phrase becomes known as one word.
    fn word_key(&mut self, word: &str) -> u32 {
        let word = word.trim_end_matches('_');
        if word.contains('_') {
            self.add_phrase(word, PhraseKind::Word)
        } else {
            self.key(&fold(word))
        }
    }

    fn add_phrase(&mut self, phrase: &str, kind: PhraseKind) -> u32 {
        let words: Vec<u32> = phrase
            .split('_')
            .map(|word| self.key(&fold(word)))
            .collect();
        let key = hash32(phrase);
        if let Some((first, rest)) = words.split_first() {
            let rest = rest.to_vec();
            let known = self.phrases.entry(*first).or_default();
            if !known.iter().any(|known| known.rest == rest) {
                known.push(Phrase { rest, kind, key });
                known.sort_by_key(|phrase| std::cmp::Reverse(phrase.rest.len()));
            }
        }
        key
    }

    /// The keys of folded words, each stemmed once.
    pub(crate) fn keys(&self, tokens: &[Token]) -> Vec<u32> {
        let words = tokens.iter().map(|token| token.fold.as_str());
        self.stems.keys(words, |word| self.key(word))
    }

    /// The key of a folded word: that of its stem.
    pub(crate) fn key(&self, word: &str) -> u32 {
        let base = self
            .entries
            .get(word)
            .and_then(|entry| entry.lemma.as_deref())
            .unwrap_or(word);
        let base = singular(self.code, base);
        hash32(&self.stemmer.stem(&base))
    }

    /// What a folded word is.
    pub(crate) fn get(&self, word: &str) -> Option<&Entry> {
        self.entries.get(word)
    }

    /// How a key relates to others.
    pub(crate) fn relations(&self, key: u32) -> Option<&Relations> {
        self.relations.get(&key)
    }

    /// The longest phrase that begins with these keys, and how many words it has.
    pub(crate) fn phrase(&self, keys: &[u32]) -> Option<(&Phrase, usize)> {
        let (first, rest) = keys.split_first()?;
        let phrase = self
            .phrases
            .get(first)?
            .iter()
            .find(|phrase| rest.starts_with(&phrase.rest))?;
        Some((phrase, phrase.rest.len() + 1))
    }
}

/// Plurals that the stemmer sees only with their accents.
fn singular<'a>(code: &str, word: &'a str) -> std::borrow::Cow<'a, str> {
    let ending = match code {
        "pt" => [("coes", "cao"), ("soes", "sao")],
        "es" => [("ciones", "cion"), ("siones", "sion")],
        _ => return word.into(),
    };
    for (plural, singular) in ending {
        if let Some(stem) = word.strip_suffix(plural) {
            return format!("{stem}{singular}").into();
        }
    }
    word.into()
}

#[expect(
    clippy::panic,
    reason = "the files are compiled in and read by the tests"
)]
fn algorithm(code: &str, name: &str) -> Algorithm {
    match name {
        "english" => Algorithm::English,
        "portuguese" => Algorithm::Portuguese,
        "spanish" => Algorithm::Spanish,
        _ => panic!("lexicon {code}: no stemmer {name}"),
    }
}

fn list(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

fn sorted<T>(map: &HashMap<String, T>) -> Vec<(&String, &T)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexicon(code: &str) -> &'static Lexicon {
        LEXICONS
            .iter()
            .find(|lexicon| lexicon.code == code)
            .unwrap()
    }

    #[test]
    fn every_file_is_read() {
        assert_eq!(LEXICONS.len(), FILES.len());
        for lexicon in LEXICONS.iter() {
            assert!(lexicon.entries.len() > 300, "{lexicon:?}");
            for month in 1..=12 {
                let has = lexicon
                    .entries
                    .values()
                    .any(|entry| entry.month == Some(month));
                assert!(has, "{lexicon:?} lacks month {month}");
            }
            for day in 0..7 {
                let has = lexicon
                    .entries
                    .values()
                    .any(|entry| entry.weekday == Some(day));
                assert!(has, "{lexicon:?} lacks weekday {day}");
            }
        }
    }

    #[test]
    fn every_unit_that_a_file_words_exists() {
        for (code, text) in FILES {
            let raw: Raw = toml::from_str(text).unwrap();
            let unknown = raw.units.keys().find(|unit| units::by_name(unit).is_none());
            assert_eq!(unknown, None, "{code}");
        }
    }

    #[test]
    fn opposites_hold_both_ways_and_through_inflection() {
        for (code, one, other) in [
            ("en", "opens", "closed"),
            ("en", "bought", "selling"),
            ("en", "happy", "unhappy"),
            ("pt", "abre", "fechou"),
            ("pt", "cheia", "vazia"),
            ("es", "compra", "vende"),
        ] {
            let lexicon = lexicon(code);
            let (one, other) = (lexicon.key(one), lexicon.key(other));
            assert!(
                lexicon.relations(one).unwrap().opposites.contains(&other),
                "{code}"
            );
            assert!(
                lexicon.relations(other).unwrap().opposites.contains(&one),
                "{code}"
            );
        }
    }

    #[test]
    fn nouns_of_the_antonym_list_only_contrast() {
        let lexicon = lexicon("en");
        let (man, woman) = (lexicon.key("man"), lexicon.key("woman"));
        let relations = lexicon.relations(man).unwrap();
        assert!(relations.contrasts.contains(&woman));
        assert!(!relations.opposites.contains(&woman));
    }

    #[test]
    fn the_longest_phrase_wins() {
        let lexicon = lexicon("en");
        let keys: Vec<u32> = ["not", "at", "all"].map(|word| lexicon.key(word)).to_vec();
        let (phrase, used) = lexicon.phrase(&keys).unwrap();
        assert_eq!((phrase.kind, used), (PhraseKind::Negator(Negator::Not), 3));
    }
}
