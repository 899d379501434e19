//! A plan: what one pass wants to change in one store, as a value.
//!
//! A dry run prints it and stops; a run hands it to [`crate::guard`] and then to [`crate::apply`]. Nothing in it
//! depends on when it was made but the stores and `now`, so that the same stores give the same plan and the same hash.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId, Version};
use crate::pass::PassName;
use crate::store::files::{Half, StoreFile};

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
    pub const ALL: [Self; 11] = [
        Self::Delete,
        Self::End,
        Self::SoftDelete,
        Self::Supersede,
        Self::DropPoint,
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
            Self::Confirm => "confirm",
            Self::Queue => "queue",
            Self::Close => "close",
            Self::Vacuum => "vacuum",
            Self::Snapshot => "snapshot",
            Self::DropPair => "drop_pair",
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
    /// It says the same as the memory that stays.
    Duplicate {
        /// The cosine of the two, in ten-thousandths; `None` when their texts are the same and nothing was compared.
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
            Self::Duplicate { cosine_e4: None } => f.write_str("same text"),
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
            Self::Answered { entry } => write!(f, "answer to entry {entry} of the queue"),
        }
    }
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
            Self::DropPoint { .. } | Self::Queue { .. } | Self::Close { .. } => None,
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
            Self::DropPoint { namespace, .. } => namespace,
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

    /// Whether something goes from a store: questions and confirmations take nothing.
    #[must_use]
    pub fn removes(&self) -> bool {
        match self {
            Self::Delete { .. }
            | Self::Hide { .. }
            | Self::Merge { .. }
            | Self::DropPoint { .. } => true,
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
            Self::DropPoint { partition, .. } => partition,
            Self::Queue { question, .. } | Self::Close { question, .. } => &question.partition,
        }
    }

    /// The line that stands for it in the hash of a plan. The instants of marks are not in it: they follow from the
    /// reason, or are that of the run.
    fn write_identity(&self, line: &mut String) {
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
            Self::Queue { question, .. } => writeln!(line, "{kind} {question:?} {reason}"),
            Self::Close { entry, .. } => writeln!(line, "{kind} {entry} {reason}"),
        };
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
    /// Live memories without a vector that can be compared: missing, all zero, or not finite.
    WithoutVector,
    /// Pairs near enough to be merged that a guard keeps apart: they differ in a number, a negation, a name.
    KeptApart,
    /// Live memories that do not say when they were written.
    Undated,
    /// Memories that have faded, and stay because enough of their namespace faded lately.
    OverBudget,
    /// Points of a collection of links that name a memory which is not there: left alone.
    DeadLink,
    /// Memories that live by the application's log, and have no point: left alone.
    LoggedWithoutPoint,
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
            Self::WithoutVector => "without_vector",
            Self::KeptApart => "kept_apart",
            Self::Undated => "undated",
            Self::OverBudget => "over_budget",
            Self::DeadLink => "dead_link",
            Self::LoggedWithoutPoint => "logged_without_point",
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

impl Sighting {
    /// The absence of an owner, whose rows are there: of no point.
    #[must_use]
    pub fn of_owner(namespace: &Namespace) -> Self {
        Self {
            namespace: namespace.clone(),
            point: PointId::Text("".into()),
        }
    }
}

/// From which cosine on memories are near each other, in one store.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Levels {
    /// The median cosine of two random memories; `None` when there are too few to tell, or no vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<f64>,
    /// What opens a cluster.
    pub cluster_at: f64,
    /// What a member must reach to join a survivor.
    pub merge_at: f64,
}

/// The memories of one row database that a pass has compared with each other, each as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Which row database: `main`, or the tenant.
    pub partition: Arc<str>,
    /// The settings at which they were compared: at others they were not.
    pub settings: Version,
    /// The memories.
    pub memories: HashMap<MemoryId, Version>,
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
    /// The work on whole files, after those.
    pub upkeep: Vec<Upkeep>,
    /// What else was seen.
    pub findings: Tally<Finding>,
    /// Everything absent that was seen this time; `None` when the pass does not look for absence (sightings stay as
    /// they are).
    pub sightings: Option<Vec<Sighting>>,
    /// The thresholds that were used, by a pass that compares vectors.
    pub levels: Option<Levels>,
    /// What was compared, to be remembered once nothing is left to do about it.
    pub compared: Vec<Comparison>,
    /// Row databases that could not be read.
    pub unread: Vec<Unread>,
    /// Why the pass could do only a part of what it does, in words an operator can act on: a store without vectors, a
    /// background so high that thresholds were raised.
    pub degraded: Vec<String>,
}

impl Plan {
    /// An empty plan.
    #[must_use]
    pub fn new(store: Arc<str>, pass: PassName) -> Self {
        Self {
            store,
            pass,
            actions: Vec::new(),
            upkeep: Vec::new(),
            findings: Tally::new(),
            sightings: None,
            levels: None,
            compared: Vec::new(),
            unread: Vec::new(),
            degraded: Vec::new(),
        }
    }

    /// The number of actions by kind.
    #[must_use]
    pub fn counts(&self) -> Tally<ActionKind> {
        let mut counts = Tally::new();
        for action in &self.actions {
            *counts.entry(action.kind()).or_default() += 1;
        }
        for upkeep in &self.upkeep {
            *counts.entry(upkeep.kind()).or_default() += 1;
        }
        counts
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.upkeep.is_empty()
    }

    /// Whether something goes from a store.
    #[must_use]
    pub fn removes(&self) -> bool {
        self.actions.iter().any(Action::removes)
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
            action.write_identity(&mut line);
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
