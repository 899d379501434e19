//! The merge guard: may two memories become one?
//!
//! Mechanics: texts whose folded tokens are equal are one text. Any other pair must pass every check here before its
//! cosine is even asked.
//!
//! Policy: a wrong merge destroys a memory, a missed one costs a line in a queue. So whatever can be checked must be the
//! same on both sides: numbers, times, names, codes, denials, qualifiers, the order of names. In a frame that is
//! otherwise the same, the words that differ are what the memory says, and the cosine, high whatever they are, says
//! nothing about them: such a pair is refused. What is left to the cosine are texts that the language lets be said in
//! either way ([`super::wording`]), and those that say it in other words throughout.

use super::align::{MAX_WORDS, Tie, carries};
use super::analysis::{Analysis, Class, Word};
use super::compare::Comparison;
use super::moment;
use super::wording;

/// What the guard says of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// One text, but for case, accents, punctuation and spacing: one memory at any cosine, and without vectors too.
    Same,
    /// Nothing speaks against a merge: the cosine decides.
    Alike,
    /// Two memories at any cosine.
    Apart(Difference),
}

impl Verdict {
    /// Whether a pair of this verdict is one memory, given the cosine of its vectors where there is one.
    #[must_use]
    pub fn may_merge(self, cosine: Option<f32>, merge_at: f32) -> bool {
        match self {
            Self::Same => true,
            Self::Alike => cosine.is_some_and(|cosine| cosine >= merge_at),
            Self::Apart(_) => false,
        }
    }
}

/// What keeps two texts apart; the first that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Difference {
    /// At least one has no words.
    Empty,
    /// At least one is too long to be judged whole.
    Length,
    /// They are in different languages, or in one that no lexicon covers.
    Language,
    /// The same letters with different accents.
    Accents,
    /// A contradiction signal speaks.
    Contradiction,
    /// Different numbers, units or versions.
    Numbers,
    /// Different dates, times or days.
    Times,
    /// Different proper names.
    Names,
    /// Different identifiers, addresses, paths or signs.
    Codes,
    /// One denies something, or the words denied differ.
    Negation,
    /// Different qualifiers: "might", "only", "every", "used to".
    Qualifiers,
    /// The same words or names in another order.
    Order,
    /// Words that differ in an otherwise equal frame.
    Words,
    /// One vector for texts in other words: it was not made from them, and tells nothing.
    Vectors,
}

/// Whether a pair differs in one respect.
type Check = fn(&Comparison<'_>) -> bool;

/// Judges a pair.
#[must_use]
pub fn verdict(comparison: &Comparison<'_>) -> Verdict {
    let (a, b) = (comparison.a, comparison.b);
    if a.words.is_empty() || b.words.is_empty() {
        return Verdict::Apart(Difference::Empty);
    }
    if a.signs != b.signs {
        return Verdict::Apart(Difference::Codes);
    }
    if a.normal == b.normal {
        return equal(a, b);
    }
    let checks: [(Check, Difference); 9] = [
        (is_long, Difference::Length),
        (|pair| !pair.is_readable(), Difference::Language),
        (
            |pair| pair.disagreements().is_any(),
            Difference::Contradiction,
        ),
        (numbers_differ, Difference::Numbers),
        (times_differ, Difference::Times),
        (names_differ, Difference::Names),
        (codes_differ, Difference::Codes),
        (negation_differs, Difference::Negation),
        (qualifiers_differ, Difference::Qualifiers),
    ];
    for (differs, difference) in checks {
        if differs(comparison) {
            return Verdict::Apart(difference);
        }
    }
    if comparison.has_contrast() {
        return Verdict::Apart(Difference::Words);
    }
    if is_reworded(comparison) {
        return Verdict::Alike;
    }
    if order_differs(comparison) {
        return Verdict::Apart(Difference::Order);
    }
    if words_differ(comparison) {
        return Verdict::Apart(Difference::Words);
    }
    if comparison
        .cosine()
        .is_some_and(|cosine| cosine >= ONE_VECTOR)
    {
        return Verdict::Apart(Difference::Vectors);
    }
    Verdict::Alike
}

/// A cosine that two texts in other words never have, except where their vectors were not made from them: one vector for
/// all that could not be embedded, or a store in which all look alike.
const ONE_VECTOR: f32 = 0.9999;

/// Whether the texts differ only in how their language lets one thing be said.
fn is_reworded(pair: &Comparison<'_>) -> bool {
    std::ptr::eq(pair.a.lexicon, pair.b.lexicon)
        && wording::is_one(&pair.a.wording, &pair.b.wording)
}

/// Texts of equal folded tokens: the same, unless both write accents and write different ones.
fn equal(a: &Analysis, b: &Analysis) -> Verdict {
    if a.whole != b.whole {
        Verdict::Apart(Difference::Length)
    } else if a
        .words
        .iter()
        .zip(&b.words)
        .any(|(one, other)| clash(one, other))
    {
        Verdict::Apart(Difference::Accents)
    } else {
        Verdict::Same
    }
}

/// Whether both words are written with accents, and different ones.
fn clash(one: &Word, other: &Word) -> bool {
    one.accented != 0 && other.accented != 0 && one.accented != other.accented
}

fn is_long(pair: &Comparison<'_>) -> bool {
    [pair.a, pair.b]
        .iter()
        .any(|text| text.is_cut || text.words.len() > MAX_WORDS)
}

/// Whether two lists differ as sets with repetition.
fn differ<T: Ord>(mut a: Vec<T>, mut b: Vec<T>) -> bool {
    a.sort_unstable();
    b.sort_unstable();
    a != b
}

fn numbers_differ(pair: &Comparison<'_>) -> bool {
    let numbers = |text: &Analysis| {
        text.quantities
            .iter()
            .map(|quantity| (quantity.dimension, quantity.value.to_bits()))
            .collect()
    };
    differ::<(_, u64)>(numbers(pair.a), numbers(pair.b))
}

fn times_differ(pair: &Comparison<'_>) -> bool {
    let times = |text: &Analysis| text.moments.iter().map(moment::key).collect();
    differ::<u32>(times(pair.a), times(pair.b))
}

fn names_differ(pair: &Comparison<'_>) -> bool {
    let names = |text: &Analysis| {
        let mut names = text.names.to_vec();
        names.sort_unstable();
        names.dedup();
        names
    };
    differ::<u64>(names(pair.a), names(pair.b))
}

fn codes_differ(pair: &Comparison<'_>) -> bool {
    let codes = |text: &Analysis| {
        text.words
            .iter()
            .filter(|word| matches!(word.class, Class::Code | Class::Sign))
            .map(|word| word.fold)
            .collect()
    };
    differ::<u64>(codes(pair.a), codes(pair.b))
}

/// Whether one denies more than the other, or they deny different words.
fn negation_differs(pair: &Comparison<'_>) -> bool {
    if pair.a.scopes.is_empty() != pair.b.scopes.is_empty() {
        return true;
    }
    let links = pair.alignment.a.iter().zip(&pair.a.words);
    let crossed = links.into_iter().any(|(link, word)| {
        link.is_some_and(|link| word.polarity != pair.b.words[link.to].polarity)
    });
    let denied = |text: &Analysis, links: &[Option<super::align::Link>]| {
        let words = text.words.iter().zip(links);
        words
            .into_iter()
            .any(|(word, link)| carries(word) && link.is_none() && word.polarity.is_negated())
    };
    crossed || denied(pair.a, &pair.alignment.a) || denied(pair.b, &pair.alignment.b)
}

fn qualifiers_differ(pair: &Comparison<'_>) -> bool {
    let bits = |text: &Analysis| {
        text.words
            .iter()
            .fold(0, |bits, word| bits | word.qualifiers)
    };
    bits(pair.a) != bits(pair.b)
}

/// Whether aligned names, or all the words where they are the same, come in another order.
fn order_differs(pair: &Comparison<'_>) -> bool {
    let places = |only_names: bool| {
        pair.a
            .words
            .iter()
            .zip(&pair.alignment.a)
            .filter(move |(word, _)| carries(word) && (!only_names || word.class == Class::Name))
            .map(|(_, link)| link.map(|link| link.to))
    };
    let names: Vec<usize> = places(true).flatten().collect();
    let carrying = |text: &Analysis| text.words.iter().filter(|word| carries(word)).count();
    let is_same_bag =
        places(false).all(|place| place.is_some()) && carrying(pair.a) == carrying(pair.b);
    let all: Vec<usize> = places(false).flatten().collect();
    !distinct_in_order(pair, &names) || (is_same_bag && !all.is_sorted())
}

/// Whether names first come up in the same order: one that is repeated says nothing new.
fn distinct_in_order(pair: &Comparison<'_>, places: &[usize]) -> bool {
    let mut seen = Vec::new();
    let first: Vec<usize> = places
        .iter()
        .copied()
        .filter(|place| {
            let name = pair.b.words[*place].fold;
            let is_new = !seen.contains(&name);
            seen.push(name);
            is_new
        })
        .collect();
    first.is_sorted()
}

/// Share of the words in common, in order, from which two texts are one frame.
const FRAME: f32 = 0.6;
/// Words of a text so short that one in common makes a frame.
const SHORT: usize = 4;
/// Unmatched words that carry the topic, on either side, that still leave one frame.
const FEW: usize = 2;

fn words_differ(pair: &Comparison<'_>) -> bool {
    let (a, b) = (sequence(pair.a), sequence(pair.b));
    let (short, long) = if a.len() <= b.len() {
        (&a, &b)
    } else {
        (&b, &a)
    };
    let common = common(short, long);
    if common == short.len() && is_continued(short, long) {
        return false;
    }
    is_frame(pair, common, short.len(), long.len())
}

/// The words without fillers; next to a figure there are none: "from two to three" is not "two and three".
fn sequence(text: &Analysis) -> Vec<Word> {
    let words = &text.words;
    let is_figure = |at: usize| {
        words
            .get(at)
            .is_some_and(|word| word.class == Class::Figure)
    };
    (0..words.len())
        .filter(|at| !words[*at].is_filler || is_figure(at.wrapping_sub(1)) || is_figure(at + 1))
        .map(|at| words[at])
        .collect()
}

/// Whether a text says what another one does, and more: it cannot go for that one.
#[must_use]
pub fn goes_on(text: &Analysis, other: &Analysis) -> bool {
    if wording::is_one(&text.wording, &other.wording) {
        return false;
    }
    let (long, short) = (sequence(text), sequence(other));
    let carrying = |words: &[Word]| words.iter().filter(|word| carries(word)).count();
    carrying(&long) > carrying(&short) && common(&short, &long) == short.len()
}

/// Whether the longer text says the shorter one and goes on with something of its own.
fn is_continued(short: &[Word], long: &[Word]) -> bool {
    let begins = short
        .iter()
        .zip(long)
        .all(|(one, other)| is_word(one, other));
    begins && long.get(short.len()).is_none_or(|next| !carries(next))
}

/// Whether the texts are the same but for a few words.
fn is_frame(pair: &Comparison<'_>, common: usize, short: usize, long: usize) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "at most 256 words")]
    let share = common as f32 / long as f32;
    let left = |text: &Analysis, links: &[Option<super::align::Link>]| {
        let words = text.words.iter().zip(links);
        words
            .into_iter()
            .filter(|(word, link)| carries(word) && link.is_none_or(|link| link.tie > Tie::Stem))
            .count()
    };
    let few = left(pair.a, &pair.alignment.a) <= FEW && left(pair.b, &pair.alignment.b) <= FEW;
    share >= FRAME || few || (short <= SHORT && common > 0)
}

/// Whether two words are one, up to the ending of a plural or of a third person.
fn is_word(one: &Word, other: &Word) -> bool {
    if clash(one, other) {
        return false;
    }
    one.fold == other.fold || (one.key == other.key && one.ending == other.ending)
}

/// The length of the longest common subsequence.
fn common(a: &[Word], b: &[Word]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for one in a {
        let mut diagonal = 0;
        for (at, other) in b.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if is_word(one, other) {
                diagonal + 1
            } else {
                above.max(row[at])
            };
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
pub(crate) mod tests;
