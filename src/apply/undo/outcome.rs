//! What is to be taken back, and what became of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::memory::{MemoryId, Namespace, PointId};
use crate::pass::PassName;
use crate::plan::{ActionKind, Reason, Unread};
use crate::state::IntentRecord;
use crate::store::rows::{LeftReason, LeftRow};

/// What is to be taken back.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Of this run.
    pub run: &'a str,
    /// Only what was done to the memory, or the point, that is printed like this.
    pub id: Option<&'a str>,
    /// Only in this namespace.
    pub namespace: Option<&'a Namespace>,
}

impl Scope<'_> {
    pub(super) fn wants(&self, record: &IntentRecord) -> bool {
        let intent = &record.intent;
        let is_of = |id: &str| {
            let memories = intent.memory.iter().chain(&intent.behind);
            let points = intent.points.iter().filter(|_| intent.memory.is_none());
            memories
                .map(ToString::to_string)
                .chain(points.map(ToString::to_string))
                .any(|known| known == id)
        };
        let normal = |namespace: &Namespace| namespace.normal();
        self.id.is_none_or(is_of)
            && self
                .namespace
                .is_none_or(|wanted| intent.namespace.as_ref().map(normal) == Some(wanted.normal()))
    }

    /// Whether it is all that the run did.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.id.is_none() && self.namespace.is_none()
    }
}

/// Why something is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its row was changed since, or another row has its key by now.
    Changed,
    /// It was only marked, and its row has gone since: a later run took it, or somebody else.
    Gone,
    /// A row that it refers to is not there.
    ParentGone,
    /// A constraint or a trigger refuses it.
    Refused,
    /// Its table is not what it was.
    SchemaChanged,
    /// Its point was written anew.
    PointRewritten,
    /// Its point may by now be another memory's.
    PointUnclear,
    /// Its owner was marked deleted since.
    OwnerDeleted,
    /// Its owner is not known any more.
    OwnerUnknown,
    /// It was done on other stores than those of the configuration.
    OtherStores,
    /// The file of its tenant is missing.
    FileMissing,
}

impl Why {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Gone => "gone",
            Self::ParentGone => "parent_gone",
            Self::Refused => "refused",
            Self::SchemaChanged => "schema_changed",
            Self::PointRewritten => "point_rewritten",
            Self::PointUnclear => "point_unclear",
            Self::OwnerDeleted => "owner_deleted",
            Self::OwnerUnknown => "owner_unknown",
            Self::OtherStores => "other_stores",
            Self::FileMissing => "file_missing",
        }
    }

    /// The same, for a person.
    #[must_use]
    pub fn explain(self) -> &'static str {
        match self {
            Self::Changed => "was changed since, or its key is another row's by now",
            Self::Gone => {
                "has gone since: a later run may have taken it, which is to be undone first"
            }
            Self::ParentGone => "refers to a row that is not there",
            Self::Refused => "is refused by a constraint or a trigger",
            Self::SchemaChanged => "is of a table that is not what it was",
            Self::PointRewritten => "has a point that was written anew",
            Self::PointUnclear => "has a point that may be another memory's by now",
            Self::OwnerDeleted => "is of an owner who was deleted since",
            Self::OwnerUnknown => "is of an owner whom nobody knows any more",
            Self::OtherStores => "was removed from other stores than those that are configured now",
            Self::FileMissing => "is of a tenant whose file is missing",
        }
    }
}

impl From<LeftReason> for Why {
    fn from(reason: LeftReason) -> Self {
        match reason {
            LeftReason::Exists | LeftReason::Changed => Self::Changed,
            LeftReason::Gone => Self::Gone,
            LeftReason::ParentGone => Self::ParentGone,
            LeftReason::Refused => Self::Refused,
            LeftReason::SchemaChanged => Self::SchemaChanged,
        }
    }
}

/// What became of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is taken back.
    Back,
    /// It is all as it was: a restore, or somebody else, had put it back.
    There,
    /// It was taken back before.
    Already,
    /// It was an erasure: nothing is left that could come back.
    Erased,
    /// It is left.
    Left(Why),
}

impl Fate {
    /// Whether it is as it was, whoever did it.
    #[must_use]
    pub fn is_back(self) -> bool {
        matches!(self, Self::Back | Self::There)
    }
}

/// Something that did not come back with its memory, or that is left as it is beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// A row: one behind the memory, one that hung on it, or the memory that had taken over.
    Row(LeftRow),
    /// A point.
    Point(PointId, Why),
}

/// One action of a run, and what became of it.
#[derive(Debug, Clone)]
pub struct Returned {
    /// The row database.
    pub partition: Arc<str>,
    /// Whose it is, as far as that is remembered.
    pub namespace: Option<Namespace>,
    /// What had been done.
    pub kind: ActionKind,
    /// By which pass.
    pub pass: PassName,
    /// Why.
    pub reason: Reason,
    /// To which memory.
    pub memory: Option<MemoryId>,
    /// To which point, where it was about no memory.
    pub point: Option<PointId>,
    /// What became of it.
    pub fate: Fate,
    /// What did not come back with it.
    pub rest: Vec<Rest>,
}

impl Returned {
    pub(super) fn of(record: &IntentRecord, fate: Fate) -> Self {
        let intent = &record.intent;
        let points = intent.points.first().filter(|_| intent.memory.is_none());
        Self {
            partition: Arc::clone(&intent.partition),
            namespace: intent.namespace.clone(),
            kind: intent.kind,
            pass: record.pass,
            reason: intent.reason,
            memory: intent.memory.clone(),
            point: points.cloned(),
            fate,
            rest: Vec::new(),
        }
    }
}

/// What became of everything that was to be taken back.
#[derive(Debug, Default)]
pub struct Undone {
    /// Each action, by row database, latest first.
    pub actions: Vec<Returned>,
    /// Questions whose answer was taken back.
    pub reopened: BTreeSet<i64>,
    /// Row databases of which not everything could be read or changed.
    pub unread: Vec<Unread>,
    /// Whether a stop was requested before the end.
    pub interrupted: bool,
}
