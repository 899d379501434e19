//! Work on whole files: vacuum, and pairs that are taken and dropped.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::action::ActionKind;
use crate::store::files::{Half, StoreFile};

/// One piece of work on whole files. No memory is touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Upkeep {
    /// Give the free pages of a database back.
    Vacuum {
        /// Which file.
        #[serde(skip)]
        file: StoreFile,
        /// What it holds.
        half: Half,
        /// `main`, or the tenant.
        partition: Arc<str>,
        /// Its size.
        bytes: u64,
        /// How much of it is free.
        free_bytes: u64,
        /// A few pages at a time, instead of writing it anew.
        incremental: bool,
    },
    /// Take a pair of snapshots.
    Snapshot {
        /// Why now.
        reason: SnapshotReason,
    },
    /// Drop a pair, or what is left of one that was never finished.
    DropPair {
        /// Its name.
        pair: String,
        /// Why.
        reason: DropReason,
    },
}

/// Why a pair is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotReason {
    /// The store has no pair.
    First,
    /// The stores are no longer as the newest pair describes them.
    Changed,
}

/// Why a pair is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It is none of the daily, weekly and monthly ones that are kept.
    Expired,
    /// It was never finished.
    Partial,
}

impl Upkeep {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Vacuum { .. } => ActionKind::Vacuum,
            Self::Snapshot { .. } => ActionKind::Snapshot,
            Self::DropPair { .. } => ActionKind::DropPair,
        }
    }
}

impl fmt::Display for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vacuum {
                half,
                partition,
                bytes,
                free_bytes,
                ..
            } => write!(
                f,
                "vacuum  {half} of {partition}: {free_bytes} of {bytes} bytes are free"
            ),
            Self::Snapshot {
                reason: SnapshotReason::First,
            } => f.write_str("snapshot  there is no pair yet"),
            Self::Snapshot {
                reason: SnapshotReason::Changed,
            } => f.write_str("snapshot  the stores have changed since the newest pair"),
            Self::DropPair {
                pair,
                reason: DropReason::Expired,
            } => write!(f, "drop_pair  {pair}: no longer kept"),
            Self::DropPair {
                pair,
                reason: DropReason::Partial,
            } => write!(f, "drop_pair  {pair}: never finished"),
        }
    }
}
