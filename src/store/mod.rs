//! The two halves of a store: [`rows`] are the truth, [`vectors`] are derived from them.
//!
//! Removal order, everywhere: the points first (what is gone there cannot be retrieved any more), then the row, with
//! the pre-images of both in the state file before either is touched.

pub mod image;
pub mod rows;
pub mod vectors;
