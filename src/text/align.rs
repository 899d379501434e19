//! Which words of one text stand for which of the other.
//!
//! Mechanics: greedy, one to one, closest meaning first: same spelling, same stem, same meaning, a kind and one of its
//! kind. Bounded by [`MAX_WORDS`] a text.

use super::analysis::{Analysis, Class, Word};

/// Words of a text that are aligned; those behind them count as different.
pub(crate) const MAX_WORDS: usize = 256;

/// How two aligned words agree, closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tie {
    /// Same spelling.
    Spelling,
    /// Same stem.
    Stem,
    /// Same meaning.
    Meaning,
    /// This word names the kind of the other.
    Kind,
    /// This word is one of the kind that the other names.
    Member,
}

impl Tie {
    fn turned(self) -> Self {
        match self {
            Self::Kind => Self::Member,
            Self::Member => Self::Kind,
            tie => tie,
        }
    }
}

/// The other word of an aligned pair, and how they agree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) to: usize,
    pub(crate) tie: Tie,
}

/// An alignment, from either side.
#[derive(Debug)]
pub(crate) struct Alignment {
    pub(crate) a: Vec<Option<Link>>,
    pub(crate) b: Vec<Option<Link>>,
}

/// Whether a word takes part in the alignment.
pub(crate) fn carries(word: &Word) -> bool {
    matches!(
        word.class,
        Class::Content | Class::Light | Class::Name | Class::Code
    )
}

impl Alignment {
    /// Aligns two texts.
    pub(crate) fn of(a: &Analysis, b: &Analysis) -> Self {
        let (n, m) = (a.words.len().min(MAX_WORDS), b.words.len().min(MAX_WORDS));
        let mut alignment = Self {
            a: vec![None; a.words.len()],
            b: vec![None; b.words.len()],
        };
        for tie in [
            Tie::Spelling,
            Tie::Stem,
            Tie::Meaning,
            Tie::Kind,
            Tie::Member,
        ] {
            for i in 0..n {
                let word = &a.words[i];
                if alignment.a[i].is_some()
                    || !carries(word)
                    || (tie >= Tie::Meaning && word.relations.is_none())
                {
                    continue;
                }
                let free = |j: &usize| alignment.b[*j].is_none() && carries(&b.words[*j]);
                if let Some(j) = (0..m).filter(free).find(|j| agree(word, &b.words[*j], tie)) {
                    alignment.a[i] = Some(Link { to: j, tie });
                    alignment.b[j] = Some(Link {
                        to: i,
                        tie: tie.turned(),
                    });
                }
            }
        }
        alignment
    }
}

fn agree(a: &Word, b: &Word, tie: Tie) -> bool {
    match tie {
        Tie::Spelling => a.fold == b.fold,
        Tie::Stem => a.key == b.key,
        Tie::Meaning | Tie::Kind | Tie::Member => {
            let (Some(one), Some(other)) = (a.relations, b.relations) else {
                return false;
            };
            if tie == Tie::Meaning {
                return one.same.iter().any(|group| other.same.contains(group));
            }
            let wanted = tie == Tie::Kind;
            one.kinds.iter().any(|(group, is_kind)| {
                *is_kind == wanted && other.kinds.contains(&(*group, !wanted))
            })
        }
    }
}
