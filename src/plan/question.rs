//! What a person is asked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::memory::{MemoryId, Namespace, Version};

/// What the queue asks about; metric label, JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// Nobody has confirmed the memory for long.
    Stale,
    /// Nobody has used the memory for long.
    Unused,
    /// Two memories disagree.
    Contradiction,
    /// Memories are near each other, and not the same.
    Similar,
}

impl QuestionKind {
    /// Every kind, in order.
    pub const ALL: [Self; 4] = [
        Self::Stale,
        Self::Unused,
        Self::Contradiction,
        Self::Similar,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Unused => "unused",
            Self::Contradiction => "contradiction",
            Self::Similar => "similar",
        }
    }
}

impl FromStr for QuestionKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                format!("no such kind; the kinds are {known}")
            })
    }
}

impl fmt::Display for QuestionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A question for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub kind: QuestionKind,
    /// Which row database: `main`, or the tenant.
    pub partition: Arc<str>,
    /// Whose memories it is about.
    pub namespace: Namespace,
    /// The memories it is about, in order of their ids, each as it was: a question is asked anew only when one of them
    /// has changed.
    pub members: Box<[Member]>,
}

/// A memory that a question is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The memory.
    pub id: MemoryId,
    /// What it said.
    pub fingerprint: Version,
}
