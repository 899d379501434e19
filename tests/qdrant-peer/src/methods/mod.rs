//! What each method does: blocking functions of the store and the request, one file per group.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "every method has the one form that the services call"
)]

pub(crate) mod collections;
pub(crate) mod reads;
pub(crate) mod search;
pub(crate) mod snapshots;
pub(crate) mod writes;
