//! The names of the metrics, once and for all: dashboards and alerts of other people rest on them.
//!
//! The set is closed, and so is every label: a value is the name of a configured store or a word of this program, never
//! an id, a path, a tenant or a namespace. `docs/metrics.md` has the same table; a test holds the two against each other,
//! against the README, and against `dashboards/`.

use std::fmt;

use crate::plan::Finding;

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each has its help text")]
pub enum Metric {
    BuildInfo,
    RunLastSuccess,
    NextRun,
    PassRuns,
    PassDuration,
    PassLastSuccess,
    Actions,
    PlannedActions,
    ResidualActions,
    GuardRefusals,
    Undo,
    OpenIntents,
    Memories,
    Points,
    Drift,
    QueueEntries,
    QueueOldestAge,
    RowsSize,
    RowsFree,
    WalSize,
    SnapshotLastSuccess,
    SnapshotSize,
}

/// How a metric moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only up: its value stands in the state file and outlives the process.
    Counter,
    /// Up and down.
    Gauge,
}

impl Metric {
    /// Every metric, in the order of the exposition.
    pub const ALL: [Self; 22] = [
        Self::BuildInfo,
        Self::RunLastSuccess,
        Self::NextRun,
        Self::PassRuns,
        Self::PassDuration,
        Self::PassLastSuccess,
        Self::Actions,
        Self::PlannedActions,
        Self::ResidualActions,
        Self::GuardRefusals,
        Self::Undo,
        Self::OpenIntents,
        Self::Memories,
        Self::Points,
        Self::Drift,
        Self::QueueEntries,
        Self::QueueOldestAge,
        Self::RowsSize,
        Self::RowsFree,
        Self::WalSize,
        Self::SnapshotLastSuccess,
        Self::SnapshotSize,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BuildInfo => "hypnos_build_info",
            Self::RunLastSuccess => "hypnos_run_last_success_timestamp_seconds",
            Self::NextRun => "hypnos_next_run_timestamp_seconds",
            Self::PassRuns => "hypnos_pass_runs_total",
            Self::PassDuration => "hypnos_pass_duration_seconds",
            Self::PassLastSuccess => "hypnos_pass_last_success_timestamp_seconds",
            Self::Actions => "hypnos_actions_total",
            Self::PlannedActions => "hypnos_planned_actions",
            Self::ResidualActions => "hypnos_residual_actions",
            Self::GuardRefusals => "hypnos_guard_refusals_total",
            Self::Undo => "hypnos_undo_total",
            Self::OpenIntents => "hypnos_open_intents",
            Self::Memories => "hypnos_memories",
            Self::Points => "hypnos_points",
            Self::Drift => "hypnos_drift",
            Self::QueueEntries => "hypnos_queue_entries",
            Self::QueueOldestAge => "hypnos_queue_oldest_age_seconds",
            Self::RowsSize => "hypnos_rows_size_bytes",
            Self::RowsFree => "hypnos_rows_free_bytes",
            Self::WalSize => "hypnos_wal_size_bytes",
            Self::SnapshotLastSuccess => "hypnos_snapshot_last_success_timestamp_seconds",
            Self::SnapshotSize => "hypnos_snapshot_size_bytes",
        }
    }

    /// What it says, in one line.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::BuildInfo => "Always 1; the version is in the label.",
            Self::RunLastSuccess => {
                "When a run of all enabled passes last left nothing over, the stores read again; 0 for never."
            }
            Self::NextRun => {
                "When the daemon runs next; during a run, and while one waits, when that was due; 0 for a one-shot run."
            }
            Self::PassRuns => "Runs of a pass, by how they ended.",
            Self::PassDuration => "How long the pass took when it last looked at the stores.",
            Self::PassLastSuccess => {
                "When the pass last left nothing over, the stores read again; 0 for never, or while it is switched off."
            }
            Self::Actions => "Actions that were carried out, skipped or failed.",
            Self::PlannedActions => "Actions of the plan that the pass last made.",
            Self::ResidualActions => {
                "Actions that the pass still found when it planned again at its end."
            }
            Self::GuardRefusals => "Plans that the guard refused.",
            Self::Undo => "Actions of a pass that a person took back.",
            Self::OpenIntents => {
                "Actions that were begun and not finished; the next run finishes them."
            }
            Self::Memories => "Memories by state.",
            Self::Points => "Points in the vector store.",
            Self::Drift => "Disagreements between rows and points that the passes last saw.",
            Self::QueueEntries => "Questions that wait for a person.",
            Self::QueueOldestAge => "Age of the oldest question that waits; 0 when none does.",
            Self::RowsSize => "Size of the row databases.",
            Self::RowsFree => "Bytes of the row databases that are free pages.",
            Self::WalSize => "Size of the write-ahead logs of the row databases.",
            Self::SnapshotLastSuccess => {
                "When a verified pair last described the store; 0 for never."
            }
            Self::SnapshotSize => "Size of the newest verified pair.",
        }
    }

    /// How it moves.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::PassRuns | Self::Actions | Self::GuardRefusals | Self::Undo => Kind::Counter,
            _ => Kind::Gauge,
        }
    }

    /// Its labels, in order.
    #[must_use]
    pub fn labels(self) -> &'static [Label] {
        match self {
            Self::BuildInfo => &[Label::Version],
            Self::NextRun => &[],
            Self::RunLastSuccess
            | Self::OpenIntents
            | Self::Points
            | Self::RowsSize
            | Self::RowsFree
            | Self::WalSize
            | Self::SnapshotLastSuccess => &[Label::Store],
            Self::PassDuration
            | Self::PassLastSuccess
            | Self::ResidualActions
            | Self::GuardRefusals
            | Self::Undo => &[Label::Store, Label::Pass],
            Self::PassRuns => &[Label::Store, Label::Pass, Label::Outcome],
            Self::Actions => &[Label::Store, Label::Pass, Label::Action, Label::Result],
            Self::PlannedActions => &[Label::Store, Label::Pass, Label::Action],
            Self::Memories => &[Label::Store, Label::State],
            Self::Drift | Self::QueueEntries | Self::QueueOldestAge => &[Label::Store, Label::Kind],
            Self::SnapshotSize => &[Label::Store, Label::Part],
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// The version of hypnos.
    Version,
    /// The configured name of a store.
    Store,
    /// The name of a pass.
    Pass,
    /// How a pass ended.
    Outcome,
    /// The kind of an action.
    Action,
    /// What became of an action.
    Result,
    /// The state of a memory.
    State,
    /// The kind of a disagreement, or of a question.
    Kind,
    /// The half of a pair.
    Part,
}

impl Label {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Store => "store",
            Self::Pass => "pass",
            Self::Outcome => "outcome",
            Self::Action => "action",
            Self::Result => "result",
            Self::State => "state",
            Self::Kind => "kind",
            Self::Part => "part",
        }
    }
}

/// The state of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It may be retrieved.
    Live,
    /// Its deadline is past, and no run has taken it yet.
    Expired,
    /// It is kept as history: superseded, ended, or marked as deleted.
    Superseded,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Live, Self::Expired, Self::Superseded];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
        }
    }
}

/// A disagreement between the two halves of a store, or inside the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drift {
    /// A live row that should have a point and has none.
    RowWithoutPoint,
    /// A point whose row or owner is gone.
    PointWithoutRow,
    /// A point that names no row, where points are to name theirs.
    UnlinkedPoint,
    /// A point whose namespace key is missing.
    PointWithoutNamespace,
    /// A point that has another text than its row.
    StalePoint,
    /// A `superseded_by` that leads nowhere.
    BrokenChain,
    /// A time that decides about removal and cannot be read.
    UnreadableTime,
    /// A point of a collection of links that names a memory which is not there.
    DeadLink,
    /// A row of another table that belongs to a memory which is not there.
    StrayChild,
}

impl Drift {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::RowWithoutPoint,
        Self::PointWithoutRow,
        Self::UnlinkedPoint,
        Self::PointWithoutNamespace,
        Self::StalePoint,
        Self::BrokenChain,
        Self::UnreadableTime,
        Self::DeadLink,
        Self::StrayChild,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RowWithoutPoint => "row_without_point",
            Self::PointWithoutRow => "point_without_row",
            Self::UnlinkedPoint => "unlinked_point",
            Self::PointWithoutNamespace => "point_without_namespace",
            Self::StalePoint => "stale_point",
            Self::BrokenChain => "broken_chain",
            Self::UnreadableTime => "unreadable_time",
            Self::DeadLink => "dead_link",
            Self::StrayChild => "stray_child",
        }
    }

    /// What a pass calls it.
    #[must_use]
    pub fn finding(self) -> Finding {
        match self {
            Self::RowWithoutPoint => Finding::RowWithoutPoint,
            Self::PointWithoutRow => Finding::PointWithoutRow,
            Self::UnlinkedPoint => Finding::UnlinkedPoint,
            Self::PointWithoutNamespace => Finding::PointWithoutNamespace,
            Self::StalePoint => Finding::StalePoint,
            Self::BrokenChain => Finding::BrokenChain,
            Self::UnreadableTime => Finding::Unreadable,
            Self::DeadLink => Finding::DeadLink,
            Self::StrayChild => Finding::StrayChild,
        }
    }

    /// What a finding of a pass says about the store; `None` for one that is no disagreement.
    #[must_use]
    pub fn of(finding: Finding) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|drift| drift.finding() == finding)
    }
}

/// A half of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The row databases.
    Rows,
    /// The points.
    Vectors,
}

impl Part {
    /// Both halves.
    pub const ALL: [Self; 2] = [Self::Rows, Self::Vectors];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Vectors => "vectors",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        let names: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            let name = metric.name();
            assert!(name.starts_with("hypnos_"), "{name}");
            assert_eq!(
                name.ends_with("_total"),
                metric.kind() == Kind::Counter,
                "{name}"
            );
            assert!(
                metric.help().ends_with('.') && !metric.help().contains('\n'),
                "{name}"
            );
            let labels: BTreeSet<&str> = metric.labels().iter().map(|label| label.name()).collect();
            assert_eq!(labels.len(), metric.labels().len(), "{name}");
        }
    }
}
