//! A plan: what one pass wants to change in one store, as a value.
//!
//! A dry run prints it and stops; a run hands it to [`crate::guard`] and then to [`crate::apply`]. Nothing in it
//! depends on when it was made but the stores and `now`, so that the same stores give the same plan and the same hash.

mod action;
mod finding;
mod question;
mod reason;
mod upkeep;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};

pub use self::action::{Action, ActionKind, Expected, Mark, Survivor, Target};
pub use self::finding::Finding;
pub use self::question::{Member, Question, QuestionKind};
pub use self::reason::Reason;
pub use self::upkeep::{DropReason, SnapshotReason, Upkeep};
use crate::error::{chain, is_locked};
use crate::memory::{MemoryId, Namespace, PointId, Version};
use crate::pass::PassName;

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
    /// Whether it removes something that looks gone only because nothing is there to compare with: a person has to say
    /// that these are the right stores.
    pub unproven: bool,
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
            unproven: false,
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
        PlanHash::of(hash)
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

/// A row database that a pass could not read, and what follows from it: nothing of it is touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// `main`, or the tenant.
    pub partition: Arc<str>,
    /// Why, in words an operator can act on.
    pub problem: String,
    /// Whether another program has it locked, so that the daemon tries the store again.
    #[serde(skip)]
    pub is_locked: bool,
}

impl Unread {
    /// A row database with which something is wrong that time does not mend.
    #[must_use]
    pub fn new(partition: impl Into<Arc<str>>, problem: impl Into<String>) -> Self {
        Self {
            partition: partition.into(),
            problem: problem.into(),
            is_locked: false,
        }
    }

    /// A row database that gave this error.
    #[must_use]
    pub fn of_error(partition: &Arc<str>, error: &(dyn Error + 'static)) -> Self {
        Self {
            is_locked: is_locked(error),
            ..Self::new(Arc::clone(partition), chain(error))
        }
    }
}

/// Counts by a closed set of names; absent is zero.
pub type Tally<K> = BTreeMap<K, u64>;

/// The name of one exact plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanHash(pub String);

impl PlanHash {
    /// How many hexadecimal digits it has.
    pub const DIGITS: usize = 16;

    /// The name of what was hashed.
    pub(crate) fn of(hash: Sha256) -> Self {
        let digest = hash.finalize();
        let mut name = String::with_capacity(Self::DIGITS);
        for byte in &digest[..Self::DIGITS / 2] {
            let _ = write!(name, "{byte:02x}");
        }
        Self(name)
    }
}

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
