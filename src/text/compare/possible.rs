//! What two texts could disagree in, told without aligning their words.
//!
//! Policy: never too little. What is not possible here is found by no comparison; what is possible may come to nothing.

use super::super::analysis::Analysis;
use super::super::lexicon::Negator;
use super::{figures, is_readable, opposites};

/// The kinds of disagreement that two texts could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "each is the disagreement of that name")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent of each other"
)]
pub struct Possible {
    pub negation: bool,
    pub antonym: bool,
    pub numeric: bool,
    pub temporal: bool,
}

impl Possible {
    /// What two texts could disagree in; which of them comes first makes no difference.
    #[must_use]
    pub fn between(a: &Analysis, b: &Analysis) -> Self {
        if !is_readable(a, b) {
            return Self::default();
        }
        Self {
            negation: denies(a) || denies(b),
            antonym: opposites::may_exclude(a, b),
            numeric: figures::may_differ(a, b),
            temporal: figures::temporal(a, b),
        }
    }
}

/// Whether a text denies something by a word of its own.
fn denies(text: &Analysis) -> bool {
    let mut scopes = text.scopes.iter();
    scopes.any(|scope| scope.negator != Negator::Implied)
}
