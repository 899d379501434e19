//! Passes: each decides what should change, and never writes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a pass: CLI argument, configuration table, metric label and journal key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassName {
    /// Expired memories, and history past its retention.
    Ttl,
    /// What belongs to owners who are gone, and points without a row.
    Orphans,
}

impl PassName {
    /// Every pass, in the order in which they run.
    pub const ALL: [Self; 2] = [Self::Ttl, Self::Orphans];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Orphans => "orphans",
        }
    }
}

impl fmt::Display for PassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
