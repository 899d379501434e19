//! What the passes are told.

use std::time::Duration;

use super::{ByteSize, Ratio, Similarity};

/// Settings of every pass.
#[derive(Debug, Clone)]
pub struct Passes {
    /// Expiry.
    pub ttl: Ttl,
    /// Sweep of what belongs to nobody.
    pub orphans: Orphans,
    /// Duplicate clusters.
    pub duplicates: Duplicates,
    /// Fading.
    pub decay: Decay,
    /// Disagreeing pairs.
    pub contradictions: Contradictions,
    /// Stale confirmations.
    pub review: Review,
    /// Free pages.
    pub vacuum: Vacuum,
    /// Paired backups.
    pub snapshot: Snapshot,
}

/// Settings of the `ttl` pass.
#[derive(Debug, Clone)]
pub struct Ttl {
    /// Whether it runs.
    pub enabled: bool,
    /// Age at which history goes; `None` for never.
    pub superseded_retention: Option<Duration>,
}

/// Settings of the `orphans` pass.
#[derive(Debug, Clone)]
pub struct Orphans {
    /// Whether it runs.
    pub enabled: bool,
    /// Time that an owner must have been marked deleted.
    pub grace: Duration,
    /// Time between two sightings of something absent before it is believed.
    pub settle: Duration,
    /// Points younger than this are left.
    pub min_age: Duration,
}

/// Settings of the `duplicates` pass.
#[derive(Debug, Clone)]
pub struct Duplicates {
    /// Whether it runs.
    pub enabled: bool,
    /// Cosine that opens a cluster.
    pub cluster_at: Similarity,
    /// Cosine to the survivor at which a member may join it.
    pub merge_at: Similarity,
}

/// Settings of the `decay` pass.
#[derive(Debug, Clone)]
pub struct Decay {
    /// Whether it runs.
    pub enabled: bool,
    /// Strength under which a memory has faded, in `(0, 1)`.
    pub floor: Ratio,
    /// Weibull scale of types without one of their own.
    pub default_scale: Duration,
    /// Weibull scale by type.
    pub scale: Vec<(String, Duration)>,
    /// Weibull shape, above zero.
    pub shape: f64,
    /// Types that never fade.
    pub exempt_types: Vec<String>,
    /// Largest share of a namespace in any 20 hours.
    pub max_fraction: Ratio,
}

impl Decay {
    /// Whether memories of a type never fade.
    #[must_use]
    pub fn is_exempt(&self, kind: &str) -> bool {
        let mut exempt = self.exempt_types.iter();
        exempt.any(|exempt| exempt.eq_ignore_ascii_case(kind.trim()))
    }
}

/// Settings of the `contradictions` pass.
#[derive(Debug, Clone)]
pub struct Contradictions {
    /// Whether it runs.
    pub enabled: bool,
    /// How far apart two memories may have been created.
    pub window: Duration,
    /// Score from which a pair is queued.
    pub threshold: u32,
    /// Weights of the signals.
    pub weights: SignalWeights,
    /// Weight of the common topic.
    pub topic_weight: u32,
    /// How the score is formed.
    pub scoring: Scoring,
}

/// Weights of the contradiction signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the weight of the signal of that name")]
pub struct SignalWeights {
    pub negation: u32,
    pub antonym: u32,
    pub numeric: u32,
    pub temporal: u32,
}

/// How a contradiction score is formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scoring {
    /// Signals plus agreement on everything else.
    Topic,
    /// The literal sum of the signals.
    Sum,
}

/// Settings of the `review` pass.
#[derive(Debug, Clone)]
pub struct Review {
    /// Whether it runs.
    pub enabled: bool,
    /// Age of a confirmation at which it is asked again.
    pub stale_after: Duration,
    /// Time without use at which an exempt memory is asked about.
    pub unused_after: Duration,
    /// New entries a week.
    pub per_week: u32,
}

/// Settings of the `vacuum` pass.
#[derive(Debug, Clone)]
pub struct Vacuum {
    /// Whether it runs.
    pub enabled: bool,
    /// Share of free pages from which it is worth it.
    pub min_free_fraction: Ratio,
    /// Free bytes from which it is worth it.
    pub min_free_bytes: ByteSize,
    /// Longest time that a writer may stand still.
    pub max_stall: Duration,
}

/// Settings of the `snapshot` pass.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Whether it runs.
    pub enabled: bool,
    /// Daily pairs kept.
    pub keep_daily: u32,
    /// Weekly pairs kept.
    pub keep_weekly: u32,
    /// Monthly pairs kept.
    pub keep_monthly: u32,
}
