//! What a pass saw besides what it wants to change.

use serde::Serialize;

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
    /// A point that names no row, where points are to name theirs, not yet (or never) to be removed.
    UnlinkedPoint,
    /// A point of those that are to be dropped that names no row, where points are to name theirs.
    UnlinkedToDrop,
    /// A point whose namespace key is missing.
    PointWithoutNamespace,
    /// A point whose key is no id, or that shares its id with another one: left alone.
    PointWithoutKey,
    /// A point that has another text in its payload than its row: its vector is compared with none.
    StalePoint,
    /// A `superseded_by` that leads nowhere.
    BrokenChain,
    /// Points of a namespace whose rows could not be read: left alone.
    UnreadNamespace,
    /// Points of namespaces in which not one point fits a live row: the rule of their ids is wrong. Left alone.
    RuleMismatch,
    /// Something absent that was seen for the first time, or too young to be believed.
    Settling,
    /// Live memories without a vector that can be compared: missing, all zero, not finite, of another length than most, or
    /// made of another text.
    WithoutVector,
    /// Pairs near enough to be merged that a guard keeps apart: they differ in a number, a negation, a name.
    KeptApart,
    /// Live memories that do not say when they were written.
    Undated,
    /// Memories that have faded, and stay because enough of their namespace faded lately.
    OverBudget,
    /// Points that list a memory which is not there, or whose list cannot be understood, and that stay so for now.
    DeadLink,
    /// A row of another table that belongs to a memory which is not there, by what the configuration says: left alone.
    StrayChild,
    /// Memories that live by the application's log, and have no point: left alone.
    LoggedWithoutPoint,
    /// Memories of which the application's log knows nothing: left alone.
    PointWithoutLog,
    /// Memories that are there, and were deleted by the application's log: left alone.
    LoggedDeleted,
    /// Memories that have another text than the application's log says last: left alone.
    LoggedOtherwise,
}

impl Finding {
    /// Where the log of an application and its points can differ.
    pub const OF_LOG: [Self; 4] = [
        Self::LoggedWithoutPoint,
        Self::PointWithoutLog,
        Self::LoggedDeleted,
        Self::LoggedOtherwise,
    ];

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
            Self::UnlinkedPoint => "unlinked_point",
            Self::UnlinkedToDrop => "unlinked_to_drop",
            Self::PointWithoutNamespace => "point_without_namespace",
            Self::PointWithoutKey => "point_without_key",
            Self::StalePoint => "stale_point",
            Self::BrokenChain => "broken_chain",
            Self::UnreadNamespace => "unread_namespace",
            Self::RuleMismatch => "rule_mismatch",
            Self::Settling => "settling",
            Self::WithoutVector => "without_vector",
            Self::KeptApart => "kept_apart",
            Self::Undated => "undated",
            Self::OverBudget => "over_budget",
            Self::DeadLink => "dead_link",
            Self::StrayChild => "stray_child",
            Self::LoggedWithoutPoint => "logged_without_point",
            Self::PointWithoutLog => "point_without_log",
            Self::LoggedDeleted => "logged_deleted",
            Self::LoggedOtherwise => "logged_otherwise",
        }
    }
}
