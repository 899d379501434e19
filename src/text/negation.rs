//! Negators and how far they reach.
//!
//! Policy: a word is negated or not, however many negators reach it. Portuguese and Spanish double theirs ("nao ha
//! nenhum"), so parity would turn a denial into a claim.

use super::analysis::{Class, Polarity, Scope, Word};
use super::lexicon::Negator;
use super::token::Ends;

/// Words that carry a topic behind `without` that it reaches.
const WITHOUT_REACH: usize = 3;

/// Finds what each negator reaches, and marks the words.
pub(crate) fn scopes(words: &mut [Word], negators: &[(u32, Negator)], ends: &[Ends]) -> Vec<Scope> {
    let mut scopes = Vec::new();
    for (at, negator) in negators {
        let at = *at as usize;
        let (from, to) = match negator {
            Negator::None => (clause_start(ends, at), clause_end(ends, at)),
            Negator::Without => (at + 1, reach(words, ends, at)),
            Negator::Not | Negator::Never | Negator::Implied => (at + 1, clause_end(ends, at)),
        };
        let mark = match negator {
            Negator::Not => Polarity::NOT,
            Negator::Never => Polarity::NEVER,
            Negator::None => Polarity::NONE,
            Negator::Without => Polarity::WITHOUT,
            Negator::Implied => Polarity::IMPLIED,
        };
        for word in &mut words[from..to] {
            word.polarity.add(mark);
        }
        scopes.push(Scope {
            negator: *negator,
            from: u32::try_from(from).unwrap_or(u32::MAX),
            to: u32::try_from(to).unwrap_or(u32::MAX),
        });
    }
    scopes
}

fn clause_start(ends: &[Ends], at: usize) -> usize {
    ends[..at]
        .iter()
        .rposition(|ends| *ends >= Ends::Clause)
        .map_or(0, |last| last + 1)
}

fn clause_end(ends: &[Ends], at: usize) -> usize {
    ends[at..]
        .iter()
        .position(|ends| *ends >= Ends::Clause)
        .map_or(ends.len(), |last| at + last + 1)
}

fn reach(words: &[Word], ends: &[Ends], at: usize) -> usize {
    let limit = ends[at..]
        .iter()
        .position(|ends| *ends > Ends::Nothing)
        .map_or(ends.len(), |last| at + last + 1);
    let mut carried = 0;
    for (place, word) in words.iter().enumerate().take(limit).skip(at + 1) {
        carried += usize::from(!matches!(word.class, Class::Function | Class::Negator));
        if carried == WITHOUT_REACH {
            return place + 1;
        }
    }
    limit
}
