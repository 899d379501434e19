//! All pairs of vectors with a cosine at or above a threshold: exactly, in bounded memory, on all cores.
//!
//! # Mechanics
//!
//! [`Index::build`] reads the vectors twice. It leaves out those without a direction (all zero, NaN, infinite), folds
//! vectors that are equal bit for bit into one, quantises the rest to small integers, one byte a dimension, and measures
//! for each the angle between the vector and what became of it. [`Index::pairs`] then scans the upper triangle with the
//! integer dot product of the CPU, in blocks of 32 x 32 that stay in its cache. A pair's true angle differs from the
//! angle of its integers by at most the sum of the two measured ones ([`angle`]), so that nearly every pair is decided
//! by its integers alone; the few that sit closer to the threshold than that are computed in `f64`.
//!
//! Where there are many pairs, the blocks may have the integers of shorter vectors: what the directions keep in which a
//! sample differs most ([`projection`]). Pairs that are below the threshold whatever was left out, nearly all of them, cost
//! a fraction then; the others are compared by the integers of the whole vectors, one by one. Which is faster is tried
//! ([`plan`]).
//!
//! # Policy
//!
//! The set of pairs is that of an `f64` brute force, on every [`Path`] and with any number of threads. Nothing is
//! sampled but what tells which way is faster, and no pair is kept in memory: each goes to a [`Sink`]. Beside the vectors,
//! which are borrowed, the memory used is at most two fifths of theirs and about 100 bytes a vector.

mod angle;
mod buffer;
mod cpu;
mod index;
mod plan;
mod projection;
mod quantise;
mod scan;
mod sink;
mod table;
mod vectors;

#[cfg(test)]
mod tests;

pub use cpu::Path;
pub use index::{Index, Setup};
pub use quantise::has_direction;
pub use scan::{Found, Query};
pub use sink::{Limited, Sink};
pub use vectors::Vectors;

/// Why vectors cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The numbers do not divide into vectors.
    #[error("{len} numbers do not divide into vectors of {dim} dimensions")]
    Shape {
        /// How many numbers there are.
        len: usize,
        /// Dimensions of a vector.
        dim: usize,
    },
    /// A vector has no dimension, or more than [`Vectors::MAX_DIM`].
    #[error("{dim} dimensions are not between 1 and {max}", max = Vectors::MAX_DIM)]
    Dimension {
        /// Dimensions of a vector.
        dim: usize,
    },
    /// There are more vectors than `u32` numbers.
    #[error("{rows} vectors are more than can be numbered")]
    Rows {
        /// How many vectors there are.
        rows: usize,
    },
    /// The marks say nothing about some vector, or speak of one that is not there.
    #[error("{marks} marks do not fit {rows} vectors")]
    Marks {
        /// How many marks there are.
        marks: usize,
        /// How many vectors there are.
        rows: usize,
    },
    /// The threshold is no cosine.
    #[error("a threshold of {0} is not between -1 and 1")]
    Threshold(f64),
    /// This machine cannot take the path.
    #[error("this machine has no {0} instructions")]
    Path(Path),
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
}
