//! Why an action was planned.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// Why an action was planned. No instant in it is relative to `now`, so that a plan made a minute later is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its deadline is past.
    Expired {
        /// The deadline.
        at: Timestamp,
    },
    /// It was superseded, or ceased to be true, longer ago than history is kept.
    History {
        /// Since when it has been history.
        since: Timestamp,
    },
    /// Its owner was marked deleted, longer than the grace ago.
    OwnerDeleted {
        /// When the owner was marked.
        at: Timestamp,
    },
    /// The owner of its namespace is not in the owners table.
    OwnerUnknown,
    /// No row stands behind the point.
    RowGone,
    /// The point says of no row that it stands for it, where points are to say so.
    Unlinked,
    /// There are no memories of the ids that it lists.
    MemoryGone,
    /// The memories that it lists are removed, now or by an earlier run.
    MemoryRemoved,
    /// It says the same as the memory that stays.
    Duplicate {
        /// The cosine of the two, in ten-thousandths; `None` when their texts are the same, whatever their vectors say.
        cosine_e4: Option<u16>,
    },
    /// Its strength fell under the floor.
    Faded {
        /// When it was last used, confirmed or written: its strength follows from that and `now`.
        since: Timestamp,
    },
    /// Nobody has confirmed it since.
    Unconfirmed {
        /// Since when.
        since: Timestamp,
    },
    /// Nobody has used it since.
    Unused {
        /// Since when.
        since: Timestamp,
    },
    /// They disagree.
    Contradiction {
        /// The score.
        score: u32,
    },
    /// They are near each other.
    Similar {
        /// How many there are.
        members: u32,
    },
    /// What was asked about is gone, hidden, or has changed.
    Void,
    /// A person answered a question about it.
    Answered {
        /// The entry of the queue.
        entry: i64,
    },
    /// A person asked that everything of its owner be erased.
    Forgotten,
}

impl Reason {
    /// Whether the memory must not come back: it leaves no pre-image, only a tombstone.
    #[must_use]
    pub fn erases(self) -> bool {
        matches!(self, Self::OwnerDeleted { .. } | Self::Forgotten)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { at } => write!(f, "expired at {at}"),
            Self::History { since } => write!(f, "history since {since}"),
            Self::OwnerDeleted { at } => write!(f, "owner deleted at {at}"),
            Self::OwnerUnknown => f.write_str("owner unknown"),
            Self::RowGone => f.write_str("row gone"),
            Self::Unlinked => f.write_str("names no row"),
            Self::MemoryGone => f.write_str("no such memories"),
            Self::MemoryRemoved => f.write_str("memories removed"),
            Self::Duplicate { cosine_e4: None } => f.write_str("the same text"),
            Self::Duplicate {
                cosine_e4: Some(cosine),
            } => {
                write!(f, "duplicate at 0.{cosine:04}")
            }
            Self::Faded { since } => write!(f, "faded, not used since {since}"),
            Self::Unconfirmed { since } => write!(f, "not confirmed since {since}"),
            Self::Unused { since } => write!(f, "not used since {since}"),
            Self::Contradiction { score } => write!(f, "contradiction, score {score}"),
            Self::Similar { members } => write!(f, "{members} similar"),
            Self::Void => f.write_str("void by now"),
            Self::Forgotten => f.write_str("its owner is to be forgotten"),
            Self::Answered { entry } => write!(f, "answer to entry #{entry} of the queue"),
        }
    }
}
