//! A plan: what one pass wants to change in one store, as a value.
//!
//! A dry run prints it and stops; a run hands it to [`crate::guard`] and then to [`crate::apply`]. Nothing in it
//! depends on when it was made but the stores and `now`, so that the same stores give the same plan and the same hash.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId, Version};
use crate::pass::PassName;

/// The kinds of action; metric label, JSON key and journal value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Delete a row, all that goes with it, and their points.
    Delete,
    /// End a memory of a bitemporal schema: set its `valid_to`, drop its point.
    End,
    /// Drop a point that no memory stands behind.
    DropPoint,
}

impl ActionKind {
    /// Every kind, in order.
    pub const ALL: [Self; 3] = [Self::Delete, Self::End, Self::DropPoint];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::End => "end",
            Self::DropPoint => "drop_point",
        }
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A memory, and the version of its row that a plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The memory.
    pub id: MemoryId,
    /// The row as it was read.
    pub version: Version,
}

/// A memory to be removed, with what hides behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Which row database: `main`, or the tenant.
    pub partition: Arc<str>,
    /// Whose memory it is.
    pub namespace: Namespace,
    /// The memory and the version that the plan was made for.
    pub memory: Expected,
    /// The memories hidden behind it, deepest first, which go with it or not at all.
    pub behind: Box<[Expected]>,
}

/// One conditional change with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Delete a row, what its schema cascades, the chain hidden behind it, and their points.
    Delete {
        /// What goes.
        target: Target,
        /// Why.
        reason: Reason,
    },
    /// Set `valid_to` of a memory of a bitemporal schema, and drop its point.
    End {
        /// What ends; nothing is hidden behind it.
        target: Target,
        /// When it ended.
        valid_to: Timestamp,
        /// Why.
        reason: Reason,
    },
    /// Drop a point that no memory stands behind.
    DropPoint {
        /// Which row database would hold its row.
        partition: Arc<str>,
        /// Its namespace.
        namespace: Namespace,
        /// The point.
        point: PointId,
        /// Why.
        reason: Reason,
    },
}

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
}

impl Reason {
    /// Whether the memory must not come back: it leaves no pre-image, only a tombstone.
    #[must_use]
    pub fn erases(self) -> bool {
        matches!(self, Self::OwnerDeleted { .. })
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
        }
    }
}

impl Action {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Delete { .. } => ActionKind::Delete,
            Self::End { .. } => ActionKind::End,
            Self::DropPoint { .. } => ActionKind::DropPoint,
        }
    }

    /// Its reason.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Delete { reason, .. }
            | Self::End { reason, .. }
            | Self::DropPoint { reason, .. } => *reason,
        }
    }

    /// The namespace it changes.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        match self {
            Self::Delete { target, .. } | Self::End { target, .. } => &target.namespace,
            Self::DropPoint { namespace, .. } => namespace,
        }
    }

    /// Whether memories hide behind the one it removes, and go with it.
    #[must_use]
    pub fn hides_others(&self) -> bool {
        match self {
            Self::Delete { target, .. } | Self::End { target, .. } => !target.behind.is_empty(),
            Self::DropPoint { .. } => false,
        }
    }

    /// The row database it belongs to.
    #[must_use]
    pub fn partition(&self) -> &Arc<str> {
        match self {
            Self::Delete { target, .. } | Self::End { target, .. } => &target.partition,
            Self::DropPoint { partition, .. } => partition,
        }
    }
}

/// What a pass saw besides what it wants to change. Counted and reported, never acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A time that decides about removal could not be read: kept.
    Unreadable,
    /// A row whose tenant is NULL or empty: left alone.
    WithoutNamespace,
    /// A row whose key is NULL or REAL: left alone.
    WithoutKey,
    /// A row that other rows forbid to delete, or that would take live memories along: left alone.
    Blocked,
    /// A live row that should have a point and has none.
    RowWithoutPoint,
    /// A point whose row is gone, not yet (or never) to be removed.
    PointWithoutRow,
    /// A point whose namespace key is missing.
    PointWithoutNamespace,
    /// A point whose key is no id, or that shares its id with another one: left alone.
    PointWithoutKey,
    /// A `superseded_by` that leads nowhere.
    BrokenChain,
    /// Points of a namespace whose rows could not be read: left alone.
    UnreadNamespace,
    /// Points of namespaces in which not one point fits a live row: the rule of their ids is wrong. Left alone.
    RuleMismatch,
    /// Something absent that was seen for the first time, or too young to be believed.
    Settling,
}

impl Finding {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::WithoutNamespace => "without_namespace",
            Self::WithoutKey => "without_key",
            Self::Blocked => "blocked",
            Self::RowWithoutPoint => "row_without_point",
            Self::PointWithoutRow => "point_without_row",
            Self::PointWithoutNamespace => "point_without_namespace",
            Self::PointWithoutKey => "point_without_key",
            Self::BrokenChain => "broken_chain",
            Self::UnreadNamespace => "unread_namespace",
            Self::RuleMismatch => "rule_mismatch",
            Self::Settling => "settling",
        }
    }
}

/// Counts by a closed set of names; absent is zero.
pub type Tally<K> = BTreeMap<K, u64>;

/// Something absent that a pass saw, to be believed only when it is seen again later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sighting {
    /// Its namespace.
    pub namespace: Namespace,
    /// The point.
    pub point: PointId,
}

/// A row database that a pass could not read, and what follows from it: nothing of it is touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// `main`, or the tenant.
    pub partition: Arc<str>,
    /// Why, in words an operator can act on.
    pub problem: String,
}

/// What one pass wants to change in one store.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The store.
    pub store: Arc<str>,
    /// The pass.
    pub pass: PassName,
    /// The changes, in the order in which they will be applied.
    pub actions: Vec<Action>,
    /// What else was seen.
    pub findings: Tally<Finding>,
    /// Everything absent that was seen this time; `None` when the pass does not look for absence (sightings stay as
    /// they are).
    pub sightings: Option<Vec<Sighting>>,
    /// Row databases that could not be read.
    pub unread: Vec<Unread>,
}

impl Plan {
    /// An empty plan.
    #[must_use]
    pub fn new(store: Arc<str>, pass: PassName) -> Self {
        Self {
            store,
            pass,
            actions: Vec::new(),
            findings: Tally::new(),
            sightings: None,
            unread: Vec::new(),
        }
    }

    /// The number of actions by kind.
    #[must_use]
    pub fn counts(&self) -> Tally<ActionKind> {
        let mut counts = Tally::new();
        for action in &self.actions {
            *counts.entry(action.kind()).or_default() += 1;
        }
        counts
    }

    /// Adds to a finding.
    pub fn found(&mut self, finding: Finding, count: u64) {
        if count > 0 {
            *self.findings.entry(finding).or_default() += count;
        }
    }

    /// The name by which a person accepts exactly this plan: sixteen hexadecimal digits of a SHA-256 over the store,
    /// the pass and every action with its reason and the versions it expects.
    #[must_use]
    pub fn hash(&self) -> PlanHash {
        let mut hash = Sha256::new();
        let mut line = String::new();
        for action in &self.actions {
            line.clear();
            let _ = match action {
                Action::Delete { target, reason } => writeln!(line, "delete {target:?} {reason}"),
                Action::End {
                    target,
                    valid_to,
                    reason,
                } => writeln!(line, "end {target:?} {valid_to} {reason}"),
                Action::DropPoint {
                    partition,
                    namespace,
                    point,
                    reason,
                } => {
                    writeln!(
                        line,
                        "drop_point {partition:?} {namespace:?} {point:?} {reason}"
                    )
                }
            };
            hash.update(line.as_bytes());
        }
        hash.update(format!("{:?} {}", self.store, self.pass));
        let digest = hash.finalize();
        let mut name = String::with_capacity(16);
        for byte in &digest[..8] {
            let _ = write!(name, "{byte:02x}");
        }
        PlanHash(name)
    }
}

/// The name of one exact plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanHash(pub String);

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
