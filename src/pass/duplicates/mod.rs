//! Duplicates: which memories say the same thing.
//!
//! | module | concern |
//! | --- | --- |
//! | [`kernel`] | all pairs of vectors with a cosine at or above a threshold, exactly |
//! | [`cluster`] | from pairs to clusters |
//! | [`background`] | how alike two random memories look under the store's embedding model |

pub mod background;
pub mod cluster;
pub mod kernel;
