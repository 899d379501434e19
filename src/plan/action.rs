//! What may be changed about one memory, one point or one question: the vocabulary of a plan.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::question::Question;
use super::reason::Reason;
use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId, Version};

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
    /// Mark a row so that its memory is history and stays as such, and drop its point.
    Hide {
        /// What is hidden; nothing else goes with it.
        target: Target,
        /// How.
        mark: Mark,
        /// Why.
        reason: Reason,
    },
    /// Fold a memory into the one that says the same: it goes as `mark` says, and the survivor takes over how often and
    /// when it was used, and since when it has been known.
    Merge {
        /// What goes.
        target: Target,
        /// What stays.
        survivor: Survivor,
        /// How the memory is hidden; `None` where the schema has no way but to delete its row.
        mark: Option<Mark>,
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
    /// Take memories that are gone out of the list of a point that names them, as the application does when it removes a
    /// memory; the point goes when nothing is left of its list.
    Unlink {
        /// Which row database has the memories.
        partition: Arc<str>,
        /// Whose the point is.
        namespace: Namespace,
        /// The point.
        point: PointId,
        /// Its payload as it was read.
        expect: Version,
        /// The memories that it lists no more; none when its owner is erased.
        ids: Box<[MemoryId]>,
        /// Whether the point goes.
        is_last: bool,
        /// Why.
        reason: Reason,
    },
    /// Write down that a memory still holds. Nothing goes, and its point stays.
    Confirm {
        /// The memory.
        target: Target,
        /// When it was confirmed: a [`Mark::Confirmed`].
        mark: Mark,
        /// Why.
        reason: Reason,
    },
    /// Put a question to a person. Neither store is touched.
    Queue {
        /// What is asked.
        question: Question,
        /// Why.
        reason: Reason,
    },
    /// Take back a question that nobody answered and that has become void. Neither store is touched.
    Close {
        /// The entry of the queue.
        entry: i64,
        /// What it asked.
        question: Question,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Delete { .. } | Self::Merge { mark: None, .. } => ActionKind::Delete,
            Self::Hide { mark, .. }
            | Self::Confirm { mark, .. }
            | Self::Merge {
                mark: Some(mark), ..
            } => mark.kind(),
            Self::DropPoint { .. } => ActionKind::DropPoint,
            Self::Unlink { is_last: false, .. } => ActionKind::Unlink,
            Self::Unlink { is_last: true, .. } => ActionKind::DropEntity,
            Self::Queue { .. } => ActionKind::Queue,
            Self::Close { .. } => ActionKind::Close,
        }
    }

    /// Its reason.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Delete { reason, .. }
            | Self::Hide { reason, .. }
            | Self::Merge { reason, .. }
            | Self::DropPoint { reason, .. }
            | Self::Unlink { reason, .. }
            | Self::Confirm { reason, .. }
            | Self::Queue { reason, .. }
            | Self::Close { reason, .. } => *reason,
        }
    }

    /// The memory whose row changes, with what hides behind it and goes with it; `None` for what changes no row.
    #[must_use]
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Delete { target, .. }
            | Self::Hide { target, .. }
            | Self::Merge { target, .. }
            | Self::Confirm { target, .. } => Some(target),
            Self::DropPoint { .. }
            | Self::Unlink { .. }
            | Self::Queue { .. }
            | Self::Close { .. } => None,
        }
    }

    /// How the row of the memory is marked; `None` when it is deleted, or there is none.
    #[must_use]
    pub fn mark(&self) -> Option<&Mark> {
        match self {
            Self::Hide { mark, .. } | Self::Confirm { mark, .. } => Some(mark),
            Self::Merge { mark, .. } => mark.as_ref(),
            Self::Delete { .. }
            | Self::DropPoint { .. }
            | Self::Unlink { .. }
            | Self::Queue { .. }
            | Self::Close { .. } => None,
        }
    }

    /// The memory that takes over from the one that goes.
    #[must_use]
    pub fn survivor(&self) -> Option<&Survivor> {
        match self {
            Self::Merge { survivor, .. } => Some(survivor),
            _ => None,
        }
    }

    /// The question that it puts or takes back.
    #[must_use]
    pub fn question(&self) -> Option<&Question> {
        match self {
            Self::Queue { question, .. } | Self::Close { question, .. } => Some(question),
            _ => None,
        }
    }

    /// The namespace it changes.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        match self {
            Self::Delete { target, .. }
            | Self::Hide { target, .. }
            | Self::Merge { target, .. }
            | Self::Confirm { target, .. } => &target.namespace,
            Self::DropPoint { namespace, .. } | Self::Unlink { namespace, .. } => namespace,
            Self::Queue { question, .. } | Self::Close { question, .. } => &question.namespace,
        }
    }

    /// Whether memories hide behind the one it removes, and go with it.
    #[must_use]
    pub fn hides_others(&self) -> bool {
        self.target()
            .is_some_and(|target| !target.behind.is_empty())
    }

    /// Whether it changes a store: questions do not.
    #[must_use]
    pub fn changes_stores(&self) -> bool {
        !matches!(self, Self::Queue { .. } | Self::Close { .. })
    }

    /// Whether something goes from a store: questions and confirmations take nothing. What follows from the removal of a
    /// memory was measured with that.
    #[must_use]
    pub fn removes(&self) -> bool {
        match self {
            Self::Delete { .. }
            | Self::Hide { .. }
            | Self::Merge { .. }
            | Self::DropPoint { .. } => true,
            Self::Unlink { reason, .. } => *reason != Reason::MemoryRemoved,
            Self::Confirm { .. } | Self::Queue { .. } | Self::Close { .. } => false,
        }
    }

    /// The row database it belongs to.
    #[must_use]
    pub fn partition(&self) -> &Arc<str> {
        match self {
            Self::Delete { target, .. }
            | Self::Hide { target, .. }
            | Self::Merge { target, .. }
            | Self::Confirm { target, .. } => &target.partition,
            Self::DropPoint { partition, .. } | Self::Unlink { partition, .. } => partition,
            Self::Queue { question, .. } | Self::Close { question, .. } => &question.partition,
        }
    }

    /// The line that stands for it in the hash of a plan. The instants of marks are not in it: they follow from the
    /// reason, or are that of the run.
    pub(super) fn write_identity(&self, line: &mut String) {
        let kind = self.kind();
        let reason = self.reason();
        let _ = match self {
            Self::Delete { target, .. }
            | Self::Hide { target, .. }
            | Self::Confirm { target, .. } => {
                writeln!(line, "{kind} {target:?} {reason}")
            }
            Self::Merge {
                target, survivor, ..
            } => writeln!(line, "{kind} {target:?} into {survivor:?} {reason}"),
            Self::DropPoint {
                partition,
                namespace,
                point,
                ..
            } => writeln!(
                line,
                "{kind} {partition:?} {namespace:?} {point:?} {reason}"
            ),
            Self::Unlink {
                namespace,
                point,
                expect,
                ids,
                ..
            } => writeln!(
                line,
                "{kind} {namespace:?} {point:?} {expect:?} {ids:?} {reason}"
            ),
            Self::Queue { question, .. } => writeln!(line, "{kind} {question:?} {reason}"),
            Self::Close { entry, .. } => writeln!(line, "{kind} {entry} {reason}"),
        };
    }
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

/// A memory, and the version of its row that a plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The memory.
    pub id: MemoryId,
    /// The row as it was read.
    pub version: Version,
}

/// How a row is marked: as history, which stays and is hidden, or as confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// `valid_to` is set: it ceased to be true.
    Ended {
        /// When.
        at: Timestamp,
    },
    /// `deleted_at` is set.
    Deleted {
        /// When.
        at: Timestamp,
    },
    /// `superseded_by` is set.
    Superseded {
        /// The memory that stands for it.
        by: MemoryId,
    },
    /// `confirmed_at` is set: it still holds.
    Confirmed {
        /// When, in whole seconds: what most columns can hold.
        at: Timestamp,
    },
}

impl Mark {
    /// The kind of an action that marks a row so.
    #[must_use]
    pub fn kind(&self) -> ActionKind {
        match self {
            Self::Ended { .. } => ActionKind::End,
            Self::Deleted { .. } => ActionKind::SoftDelete,
            Self::Superseded { .. } => ActionKind::Supersede,
            Self::Confirmed { .. } => ActionKind::Confirm,
        }
    }
}

/// The memory of a cluster that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// The memory.
    pub id: MemoryId,
    /// What it is, apart from when and how often it was used: that may change beside a merge, the rest may not.
    pub essence: Version,
}

/// The kinds of action; metric label, JSON key and journal value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Delete a row, all that goes with it, and their points.
    Delete,
    /// End a memory of a bitemporal schema: set its `valid_to`, drop its point.
    End,
    /// Mark a row as deleted, where the schema has a column for it, and drop its point.
    SoftDelete,
    /// Hide a memory behind the one that says the same, and drop its point.
    Supersede,
    /// Drop a point that no memory stands behind.
    DropPoint,
    /// Take memories that are gone out of the list of a point (an entity) that names them.
    Unlink,
    /// Drop a point that listed memories, and of whose list nothing is left, or whose owner is erased.
    DropEntity,
    /// Write down that a memory still holds.
    Confirm,
    /// Ask a person.
    Queue,
    /// Take a question back that has become void.
    Close,
    /// Give the free pages of a database back.
    Vacuum,
    /// Take a pair of snapshots.
    Snapshot,
    /// Drop a pair that is no longer kept.
    DropPair,
}

impl ActionKind {
    /// Every kind, in order.
    pub const ALL: [Self; 13] = [
        Self::Delete,
        Self::End,
        Self::SoftDelete,
        Self::Supersede,
        Self::DropPoint,
        Self::Unlink,
        Self::DropEntity,
        Self::Confirm,
        Self::Queue,
        Self::Close,
        Self::Vacuum,
        Self::Snapshot,
        Self::DropPair,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::End => "end",
            Self::SoftDelete => "soft_delete",
            Self::Supersede => "supersede",
            Self::DropPoint => "drop_point",
            Self::Unlink => "unlink",
            Self::DropEntity => "drop_entity",
            Self::Confirm => "confirm",
            Self::Queue => "queue",
            Self::Close => "close",
            Self::Vacuum => "vacuum",
            Self::Snapshot => "snapshot",
            Self::DropPair => "drop_pair",
        }
    }

    /// Whether it changes a point that lists memories, and not the store of the memories.
    #[must_use]
    pub fn is_of_entity(self) -> bool {
        matches!(self, Self::Unlink | Self::DropEntity)
    }
}

impl fmt::Display for ActionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
