//! Texts: what two memories say, compared without a model.
//!
//! ```text
//! text -> tokens -> language -> Analysis (words, numbers, times, names, denials), once per text
//! two Analyses -> Comparison (alignment, disagreements) -> guard: may they become one memory?
//!                                                       -> pass::contradictions: should a person look?
//! ```
//!
//! Mechanics: [`Analysis::of`] is linear in the text and bounded; [`Comparison::of`] aligns at most 256 words a side.
//! Languages come from `lexicon/`, one file each. All of it is a pure function of its input.
//!
//! Policy: the guard and the contradiction scorer read the same [`Comparison`], and the guard refuses whatever has a
//! disagreement in it, so that no pair can be both a contradiction and a duplicate. Texts are never logged or kept:
//! an analysis holds hashes.

mod align;
mod analysis;
mod compare;
mod fold;
mod guard;
mod language;
mod lexicon;
mod moment;
mod names;
mod negation;
mod quantity;
mod reader;
mod signs;
mod stems;
mod token;
mod units;
mod wording;
mod words;

pub use analysis::Analysis;
pub use compare::{Comparison, Context, Disagreements, Frequencies, Possible};
pub(crate) use fold::hash;
pub use fold::letters;
pub use guard::{Difference, Verdict, goes_on, verdict};
pub use lexicon::edition;

#[cfg(test)]
pub(crate) use guard::tests::{APART, SAME};
