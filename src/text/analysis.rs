//! The analysis of one text: everything a comparison needs, so that each text is read once however often it is compared.

use sha2::{Digest as _, Sha256};

use super::align::{MAX_WORDS, carries};
use super::fold::halved;
use super::lexicon::{LEXICONS, Lexicon, Negator, Relations};
use super::moment::Moment;
use super::negation;
use super::quantity::Quantity;
use super::reader::Reader;
use super::token::tokens;
use super::wording::Piece;

/// What a word is to a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Carries the topic.
    Content,
    /// Carries a little of it.
    Light,
    /// Carries none.
    Function,
    /// A proper name.
    Name,
    /// An identifier, address, path or the like.
    Code,
    /// A number or a part of a time.
    Figure,
    /// A negator.
    Negator,
    /// An emoji or other sign.
    Sign,
}

/// Which kinds of negation reach a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Polarity(u8);

impl Polarity {
    pub(crate) const NOT: Self = Self(1);
    pub(crate) const NEVER: Self = Self(2);
    pub(crate) const NONE: Self = Self(4);
    pub(crate) const WITHOUT: Self = Self(8);
    pub(crate) const IMPLIED: Self = Self(16);

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether a negator reaches the word.
    pub(crate) fn is_negated(self) -> bool {
        self.0 & !Self::IMPLIED.0 != 0
    }
}

/// A word of an analysed text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    /// Hash of the folded spelling.
    pub(crate) fold: u64,
    /// Hash of the stem.
    pub(crate) key: u32,
    /// Hash of the accented spelling; zero where it has no accents.
    pub(crate) accented: u32,
    /// Hash of the spelling without the ending of a plural or of a third person.
    pub(crate) ending: u32,
    /// What it is.
    pub(crate) class: Class,
    /// Whether it may come and go without a change of meaning.
    pub(crate) is_filler: bool,
    /// Which negators reach it.
    pub(crate) polarity: Polarity,
    /// The qualifiers it is, as bits.
    pub(crate) qualifiers: u16,
    /// The clause it stands in.
    pub(crate) clause: u16,
    /// How its stem relates to others.
    pub(crate) relations: Option<&'static Relations>,
}

/// A negator and the words it reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) negator: Negator,
    /// First word.
    pub(crate) from: u32,
    /// One past the last word.
    pub(crate) to: u32,
}

/// A text, read once.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
pub struct Analysis {
    pub(crate) lexicon: &'static Lexicon,
    /// Whether the words say which language it is.
    pub(crate) is_certain: bool,
    /// Whether it is in a language that no lexicon covers.
    pub(crate) is_foreign: bool,
    /// Whether it was too long to be read whole.
    pub(crate) is_cut: bool,
    /// Whether it begins by introducing something: with an indefinite article or a count.
    pub(crate) begins_indefinite: bool,
    /// Digest of the folded tokens.
    pub(crate) normal: [u8; 32],
    /// Hash of the signs that mean something, in their order.
    pub(crate) signs: u64,
    /// Digest of the whole text in lower case; only of cut texts.
    pub(crate) whole: Option<[u8; 32]>,
    /// The words as a merge compares them; none where there are too many to be judged.
    pub(crate) wording: Box<[Piece]>,
    pub(crate) words: Box<[Word]>,
    pub(crate) quantities: Box<[Quantity]>,
    pub(crate) moments: Box<[Moment]>,
    pub(crate) scopes: Box<[Scope]>,
    /// Hashes of the proper names, in the order of the text.
    pub(crate) names: Box<[u64]>,
}

impl Analysis {
    /// Reads a text. Deterministic; linear in its length.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::with_language(text, None)
    }

    /// Reads a text whose language is known, as an ISO 639-1 code: it decides where the words do not.
    #[must_use]
    pub fn with_language(text: &str, language: Option<&str>) -> Self {
        let (tokens, is_cut) = tokens(text);
        let choice = super::language::choose(&tokens, language);
        let lexicon = &LEXICONS[choice.index];
        let mut reader = Reader::read(lexicon, tokens);
        Self {
            lexicon,
            is_certain: choice.is_certain,
            is_foreign: choice.is_foreign,
            is_cut,
            begins_indefinite: reader.begins_indefinite(),
            normal: reader.normal,
            signs: super::signs::of(text),
            whole: is_cut.then(|| Sha256::digest(super::fold::lower(text)).into()),
            scopes: negation::scopes(&mut reader.words, &reader.negators, &reader.ends).into(),
            names: reader.names.into(),
            wording: reader.wording,
            words: reader.words.into(),
            quantities: reader.quantities.into(),
            moments: reader.moments.into(),
        }
    }

    /// The ISO 639-1 code of the language it was read in.
    #[must_use]
    pub fn language(&self) -> &'static str {
        self.lexicon.code
    }

    /// Stems of the words that carry the topic, for counting how many texts of a namespace have each.
    pub fn stems(&self) -> impl Iterator<Item = u32> + '_ {
        self.words
            .iter()
            .filter(|word| {
                matches!(
                    word.class,
                    Class::Content | Class::Light | Class::Name | Class::Code
                )
            })
            .map(|word| word.key)
    }

    /// What the text can be found by, in order: two texts of which any words agree have a term in common, whether the
    /// words are the same, of one stem, of one meaning, or one of a kind that the other names.
    #[must_use]
    pub fn terms(&self) -> Vec<u64> {
        const MEANING: u64 = 1 << 32;
        const KIND: u64 = 2 << 32;
        let mut terms = Vec::with_capacity(2 * self.words.len());
        for word in self
            .words
            .iter()
            .take(MAX_WORDS)
            .filter(|word| carries(word))
        {
            terms.extend([u64::from(word.key), u64::from(halved(word.fold))]);
            if let Some(relations) = word.relations {
                let same = relations.same.iter();
                terms.extend(same.map(|group| MEANING | u64::from(*group)));
                let kinds = relations.kinds.iter();
                terms.extend(kinds.map(|(group, _)| KIND | u64::from(*group)));
            }
        }
        terms.sort_unstable();
        terms.dedup();
        terms
    }
}
