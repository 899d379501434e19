//! Two texts side by side: what they share, and where they disagree.
//!
//! Mechanics: the words are aligned once; each kind of disagreement is then looked for among what the alignment left
//! over. A disagreement carries its *agreement*, in `[0, 1]`: how far both texts speak of the same thing where they
//! disagree. Whether that is enough to ask a person is the scorer's business, not this module's.
//!
//! Policy: [`crate::text::guard`] refuses every pair in which any disagreement is found, however weak its agreement, and
//! the scorer has no other source of signals: so nothing that could be queued as a contradiction can be merged.

mod figures;
mod negation;
mod opposites;
mod possible;

use std::collections::HashMap;

use super::align::{Alignment, Link, Tie, carries};
use super::analysis::{Analysis, Class, Word};

pub use possible::Possible;

/// Weight of a word that says little.
const LIGHT: f32 = 0.4;
/// Weight of a proper name that both texts have: most memories of a person name the person.
const SHARED_NAME: f32 = 0.3;
/// How much of its weight a word keeps whose counterpart is only of its kind.
const KIND: f32 = 0.8;
/// The least that a word keeps of its weight, however many texts of the namespace have it.
const COMMON: f32 = 0.2;

/// How many texts of a namespace have each stem: words that nearly all have say little about what one of them is about.
#[derive(Debug, Clone, Default)]
pub struct Frequencies {
    texts: u32,
    with: HashMap<u32, u32>,
}

impl Frequencies {
    /// Counts a text.
    pub fn add(&mut self, text: &Analysis) {
        let mut stems: Vec<u32> = text.stems().collect();
        stems.sort_unstable();
        stems.dedup();
        for stem in stems {
            *self.with.entry(stem).or_default() += 1;
        }
        self.texts += 1;
    }

    /// The share of its weight that a stem keeps, in `[0.2, 1]`.
    fn keeps(&self, stem: u32) -> f32 {
        let with = self.with.get(&stem).copied().unwrap_or(0);
        if self.texts == 0 {
            return 1.0;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share needs no more precision"
        )]
        let share = with as f32 / self.texts as f32;
        (1.0 - share).max(COMMON)
    }
}

/// What is known about a pair besides its texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// The cosine of their vectors.
    pub cosine: Option<f32>,
    /// The stems of their namespace.
    pub frequencies: Option<&'a Frequencies>,
}

/// The kinds of disagreement found between two texts, each with its agreement in `[0, 1]`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Disagreements {
    /// One denies what the other claims.
    pub negation: Option<f32>,
    /// They say opposite words, or two of which only one can hold.
    pub antonym: Option<f32>,
    /// They give different numbers of the same.
    pub numeric: Option<f32>,
    /// They give different times.
    pub temporal: Option<f32>,
}

impl Disagreements {
    /// Whether there is any.
    #[must_use]
    pub fn is_any(&self) -> bool {
        let Self {
            negation,
            antonym,
            numeric,
            temporal,
        } = self;
        [negation, antonym, numeric, temporal]
            .iter()
            .any(|agreement| agreement.is_some())
    }
}

/// Two analysed texts, compared.
#[derive(Debug)]
pub struct Comparison<'a> {
    pub(crate) a: &'a Analysis,
    pub(crate) b: &'a Analysis,
    pub(crate) alignment: Alignment,
    context: Context<'a>,
    disagreements: Disagreements,
}

impl<'a> Comparison<'a> {
    /// Compares two texts; which of them comes first makes no difference.
    #[must_use]
    pub fn of(a: &'a Analysis, b: &'a Analysis, context: Context<'a>) -> Self {
        let (a, b) = if a.normal <= b.normal { (a, b) } else { (b, a) };
        let mut comparison = Self {
            a,
            b,
            alignment: Alignment::of(a, b),
            context,
            disagreements: Disagreements::default(),
        };
        if comparison.is_readable() && a.normal != b.normal {
            comparison.disagreements = comparison.find();
        }
        comparison
    }

    /// The cosine of their vectors, where it is known.
    pub(crate) fn cosine(&self) -> Option<f32> {
        self.context.cosine
    }

    /// Where the texts disagree.
    #[must_use]
    pub fn disagreements(&self) -> Disagreements {
        self.disagreements
    }

    /// Whether both texts are in the same language, and in one that has a lexicon.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        is_readable(self.a, self.b)
    }

    fn find(&self) -> Disagreements {
        let opposites = opposites::find(self);
        let aside = Aside::of(self, &opposites);
        let cover = Cover {
            a: self.cover(Side::A, &aside.a),
            b: self.cover(Side::B, &aside.b),
        };
        Disagreements {
            negation: negation::agreement(self, &aside),
            antonym: (!opposites.is_empty()).then(|| self.settle(cover.most())),
            numeric: figures::numeric(self, cover).map(|agreement| self.settle(agreement)),
            temporal: figures::temporal(self.a, self.b).then(|| self.settle(cover.most())),
        }
    }

    /// Takes from an agreement what speaks for two different things: each text begins with "a man", or names its own.
    fn settle(&self, agreement: f32) -> f32 {
        let apart = self.begin_indefinite() || self.name_apart() || self.has_siblings();
        (agreement - if apart { APART } else { 0.0 }).clamp(0.0, 1.0)
    }

    fn text(&self, side: Side) -> &'a Analysis {
        match side {
            Side::A => self.a,
            Side::B => self.b,
        }
    }

    fn links(&self, side: Side) -> &[Option<Link>] {
        match side {
            Side::A => &self.alignment.a,
            Side::B => &self.alignment.b,
        }
    }

    /// How much a word says about the topic.
    fn weight(&self, word: &Word) -> f32 {
        let weight = match word.class {
            Class::Content | Class::Name | Class::Code => 1.0,
            Class::Light => LIGHT,
            Class::Function | Class::Figure | Class::Negator | Class::Sign => return 0.0,
        };
        match self.context.frequencies {
            Some(frequencies) => weight * frequencies.keeps(word.key),
            None => weight,
        }
    }

    /// The share of a text that the other one has too, by weight, leaving aside the words marked so.
    fn cover(&self, side: Side, aside: &[bool]) -> f32 {
        let (mut shared, mut all) = (0.0, 0.0);
        let words = self.text(side).words.iter().zip(self.links(side));
        for ((word, link), _) in words.zip(aside).filter(|(_, aside)| !**aside) {
            let weight = self.weight(word);
            match link {
                Some(_) if word.class == Class::Name => {
                    shared += weight * SHARED_NAME;
                    all += weight * SHARED_NAME;
                }
                Some(link) => {
                    shared += weight * if link.tie >= Tie::Kind { KIND } else { 1.0 };
                    all += weight;
                }
                None => all += weight,
            }
        }
        if all > 0.0 { shared / all } else { 0.0 }
    }

    /// Whether both texts begin by introducing something: "a man ..." and "a man ..." need not be one man.
    fn begin_indefinite(&self) -> bool {
        self.a.begins_indefinite && self.b.begins_indefinite
    }

    /// Whether each text begins with a name that the other lacks.
    fn name_apart(&self) -> bool {
        let leads = |side: Side| {
            let at = self.text(side).words.iter().position(carries)?;
            let is_apart =
                self.text(side).words[at].class == Class::Name && self.links(side)[at].is_none();
            is_apart.then_some(())
        };
        leads(Side::A).is_some() && leads(Side::B).is_some()
    }

    /// Whether words left over on either side are two of a kind or contrast with each other: tea and coffee, son and
    /// daughter.
    pub(crate) fn has_contrast(&self) -> bool {
        let free = |side: Side| {
            let words = self.text(side).words.iter().zip(self.links(side));
            words
                .filter(|(word, link)| link.is_none() && carries(word))
                .map(|(word, _)| word)
        };
        let contrasts = |one: &Word, other: &Word| {
            one.relations.is_some_and(|relations| {
                relations.contrasts.contains(&other.key) || relations.opposites.contains(&other.key)
            })
        };
        self.has_siblings()
            || free(Side::A).any(|one| free(Side::B).any(|other| contrasts(one, other)))
    }

    /// Whether the texts speak of two of a kind: a flute and a guitar.
    fn has_siblings(&self) -> bool {
        let free = |side: Side| {
            self.text(side)
                .words
                .iter()
                .zip(self.links(side))
                .filter(|(word, link)| link.is_none() && carries(word))
                .filter_map(|(word, _)| word.relations)
                .filter(|relations| !relations.kinds.is_empty())
        };
        free(Side::A).any(|one| {
            free(Side::B).any(|other| {
                one.kinds
                    .iter()
                    .any(|(kind, is_kind)| !is_kind && other.kinds.contains(&(*kind, false)))
            })
        })
    }
}

/// See [`Comparison::is_readable`].
fn is_readable(a: &Analysis, b: &Analysis) -> bool {
    let same = std::ptr::eq(a.lexicon, b.lexicon);
    let unsure = !(a.is_certain && b.is_certain);
    !a.is_foreign && !b.is_foreign && (same || unsure)
}

/// What is taken from an agreement where the texts seem to speak of different things.
const APART: f32 = 0.55;

/// One of the two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
}

impl Side {
    const BOTH: [Self; 2] = [Self::A, Self::B];

    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The words that disagree, which say nothing about the common topic.
#[derive(Debug)]
struct Aside {
    a: Vec<bool>,
    b: Vec<bool>,
}

impl Aside {
    fn of(comparison: &Comparison<'_>, opposites: &[(usize, usize)]) -> Self {
        let mut aside = Self {
            a: vec![false; comparison.a.words.len()],
            b: vec![false; comparison.b.words.len()],
        };
        for (i, j) in opposites {
            aside.a[*i] = true;
            aside.b[*j] = true;
        }
        aside
    }

    fn side(&self, side: Side) -> &[bool] {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}

/// How far each text is covered by the other.
#[derive(Debug, Clone, Copy)]
struct Cover {
    a: f32,
    b: f32,
}

impl Cover {
    fn most(self) -> f32 {
        self.a.max(self.b)
    }
}

#[cfg(test)]
mod tests;
