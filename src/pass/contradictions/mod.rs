//! Contradictions: pairs of memories that disagree.

pub mod score;

pub use score::{Score, Signals};
