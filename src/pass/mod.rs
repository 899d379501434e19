//! Passes: each decides what should change, and never writes.
//!
//! A pass sees the stores through a [`View`] at a fixed instant and returns a [`Plan`]. It is deterministic in the
//! view, and convergent: once its plan has been applied, planning again at the same instant gives an empty plan.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::snapshot::SnapshotError;
use crate::stop::Stop;
use crate::store::rows::RowError;
use crate::store::space::SpaceError;
use crate::store::vectors::VectorError;
use crate::view::View;

pub mod contradictions;
mod crew;
pub mod decay;
pub mod duplicates;
pub mod entities;
pub mod erasure;
mod live;
pub mod member;
pub mod orphans;
mod removal;
pub mod review;
pub mod snapshot;
pub mod ttl;
pub mod vacuum;

/// The name of a pass: CLI argument, configuration table, metric label and journal key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassName {
    /// Expired memories, and history past its retention.
    Ttl,
    /// What belongs to owners who are gone, and points without a row.
    Orphans,
    /// Memories that say the same.
    Duplicates,
    /// Memories that have faded.
    Decay,
    /// Memories that disagree.
    Contradictions,
    /// Memories that a person should look at again, and questions that have become void.
    Review,
    /// Free pages of the databases.
    Vacuum,
    /// A pair of rows and points.
    Snapshot,
}

impl PassName {
    /// Every pass, in the order in which they run.
    pub const ALL: [Self; 8] = [
        Self::Ttl,
        Self::Orphans,
        Self::Duplicates,
        Self::Decay,
        Self::Contradictions,
        Self::Review,
        Self::Vacuum,
        Self::Snapshot,
    ];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Orphans => "orphans",
            Self::Duplicates => "duplicates",
            Self::Decay => "decay",
            Self::Contradictions => "contradictions",
            Self::Review => "review",
            Self::Vacuum => "vacuum",
            Self::Snapshot => "snapshot",
        }
    }

    /// Whether the pass is switched on for a store.
    #[must_use]
    pub fn is_enabled(self, passes: &crate::config::Passes) -> bool {
        match self {
            Self::Ttl => passes.ttl.enabled,
            Self::Orphans => passes.orphans.enabled,
            Self::Duplicates => passes.duplicates.enabled,
            Self::Decay => passes.decay.enabled,
            Self::Contradictions => passes.contradictions.enabled,
            Self::Review => passes.review.enabled,
            Self::Vacuum => passes.vacuum.enabled,
            Self::Snapshot => passes.snapshot.enabled,
        }
    }

    /// Whether the pass is about memories, and not about the files that hold them.
    #[must_use]
    pub fn is_about_memories(self) -> bool {
        !matches!(self, Self::Vacuum | Self::Snapshot)
    }
}

impl fmt::Display for PassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PassName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|pass| pass.as_str() == name)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                format!("no such pass; the passes are {known}")
            })
    }
}

/// One maintenance pass.
pub trait Pass: Send + Sync {
    /// Its name.
    fn name(&self) -> PassName;

    /// Decides what should change as of `view.now()`.
    ///
    /// # Errors
    ///
    /// When the view cannot be read, or gives no ground to act on. "Nothing to do" is an empty plan, not an error.
    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError>;

    /// The same, with what follows: the points that list a memory which is to go list it no more.
    ///
    /// # Errors
    ///
    /// As [`Self::plan`].
    fn decide(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = self.plan(view, cx)?;
        // Orphans looks at every list anyway, for what is dead already.
        if self.name() != PassName::Orphans {
            entities::follow(view, &mut plan)?;
        }
        Ok(plan)
    }
}

/// The passes, in the order in which they run.
#[must_use]
pub fn registry() -> [&'static dyn Pass; 8] {
    [
        &ttl::Ttl,
        &orphans::Orphans,
        &duplicates::Duplicates,
        &decay::Decay,
        &contradictions::Contradictions,
        &review::Review,
        &vacuum::Vacuum,
        &snapshot::Snapshot,
    ]
}

/// What a long piece of work is given besides its input.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    /// Whether to end early; polled at least once a batch.
    pub stop: &'a Stop,
    /// Where to say how far it is.
    pub progress: &'a dyn Progress,
}

impl Cx<'_> {
    /// Fails when a stop was requested.
    ///
    /// # Errors
    ///
    /// [`PassError::Interrupted`].
    pub fn check_stop(&self) -> Result<(), PassError> {
        if self.stop.is_requested() {
            Err(PassError::Interrupted)
        } else {
            Ok(())
        }
    }
}

/// Shows how far a pass is. Called from one thread, often: implementations must be cheap.
pub trait Progress {
    /// A step begins; `total` is how many units it has, where that is known.
    fn begin(&self, store: &str, pass: PassName, step: &'static str, total: Option<u64>);
    /// So many units more are done.
    fn advance(&self, units: u64);
    /// The step has ended.
    fn end(&self);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: PassName, _: &'static str, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}

/// Why a pass could not plan. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The row store could not be read.
    #[error("read rows")]
    Rows(#[from] RowError),
    /// The vector store could not be read.
    #[error("read points")]
    Vectors(#[from] VectorError),
    /// The owners table could not be read, so nobody is known to be gone.
    #[error("read owners")]
    Owners(#[source] RowError),
    /// The row store has not one memory while the vector store has points: more likely a wrong or lost file than a
    /// store that everybody left.
    #[error("no row was found while the vector store holds {points} points")]
    NoRows {
        /// Points in the scope of the owners table.
        points: u64,
    },
    /// The state file could not be read.
    #[error("read state")]
    State(#[from] crate::state::StateError),
    /// The vectors cannot be compared.
    #[error("compare vectors")]
    Compare(#[source] duplicates::kernel::KernelError),
    /// The space of a file could not be measured.
    #[error("measure the databases")]
    Space(#[from] SpaceError),
    /// The pairs could not be read, or compared with the stores.
    #[error("compare the stores with their newest pair")]
    Snapshot(#[from] SnapshotError),
    /// What the pass would do is not safe, or not possible, as things are.
    #[error("{0}")]
    Unsafe(String),
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
}

impl PassError {
    /// Whether the stores answered, but gave no ground to act on.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::NoRows { .. } | Self::Unsafe(_) => true,
            Self::Owners(error) => matches!(error, RowError::NoOwners { .. }),
            _ => false,
        }
    }
}

impl PassError {
    /// Whether a stop was the cause.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        match self {
            Self::Interrupted | Self::Vectors(VectorError::Interrupted) => true,
            Self::Snapshot(error) => error.is_interruption(),
            Self::Rows(error) => error.is_interruption(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_has_every_pass_in_its_order() {
        assert_eq!(registry().map(Pass::name), PassName::ALL);
        for pass in PassName::ALL {
            assert_eq!(pass.as_str().parse(), Ok(pass));
        }
        assert!(
            "tttl".parse::<PassName>().unwrap_err().contains(
                "ttl, orphans, duplicates, decay, contradictions, review, vacuum, snapshot"
            )
        );
    }
}
