//! What each method does: blocking functions of the store and the request, one file per group.

pub(crate) mod collections;
pub(crate) mod reads;
pub(crate) mod search;
pub(crate) mod snapshots;
pub(crate) mod writes;
