//! Configuration: what the operator wrote, checked once and valid by construction.
//!
//! Mechanics: `raw` mirrors the file and refuses unknown keys, `validate` turns it into a [`Config`] and collects
//! every problem on the way, [`presets`] hold the mappings of known schemas, [`units`] the newtypes that refuse
//! nonsense. Nothing is opened but the file itself and its credentials.

use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::memory::{Namespace, Role};

mod address;
mod checks;
mod cron;
mod env;
mod expression;
pub mod fingerprint;
mod passes;
mod payload_filter;
mod point_rule;
pub mod presets;
mod problem;
mod raw;
mod reader;
mod source;
mod template;
pub mod units;
mod validate;
mod vectors;

pub use cron::Cron;
pub use env::Env;
pub use passes::{
    Contradictions, Decay, Duplicates, Orphans, Passes, Review, Scoring, SignalWeights, Snapshot,
    Ttl, Vacuum,
};
pub use payload_filter::{PayloadFilter, Scalar};
pub use problem::{ConfigError, Found, Place, Problem, SyntaxError};
pub use raw::is_configuration;
pub use units::{ByteSize, HumanDuration, Ratio, Similarity};
pub use validate::{default_passes, load, parse};
pub use vectors::{
    Backend, Links, ListKey, MemoryLog, PointRule, Qdrant, Spelling, VectorTable, Vectors,
};

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where hypnos keeps its own files, one folder per store.
    pub state_dir: PathBuf,
    /// Where snapshot pairs go.
    pub snapshot_dir: PathBuf,
    /// When the daemon runs.
    pub schedule: Schedule,
    /// Where figures are published.
    pub metrics: Metrics,
    /// How much one pass may remove.
    pub guard: Guard,
    /// How long pre-images are kept for `undo`.
    pub undo_keep: Duration,
    /// The stores, in the order of the file; names are unique.
    pub stores: Vec<Store>,
}

/// When the daemon runs.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// On which days and at what times.
    pub cron: Cron,
    /// The zone in which the expression is read.
    pub timezone: TimeZone,
    /// Whether a missed run starts when the daemon starts.
    pub catch_up: bool,
    /// Time after which a run is asked to end with the batch at hand.
    pub max_run: Duration,
    /// How long a store that is away is tried again, until its run is given up as skipped.
    pub retry_for: Duration,
}

/// Where figures are published.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Address of the daemon's HTTP server.
    pub listen: std::net::SocketAddr,
    /// A `.prom` file for the textfile collector, for one-shot runs.
    pub textfile: Option<PathBuf>,
}

/// How much one pass may remove before a person has to agree.
#[derive(Debug, Clone, Copy)]
pub struct Guard {
    /// Share of a store, or of a living owner's namespace, in `[0, 1]`.
    pub max_fraction: Ratio,
    /// A pass that removes fewer than this is not measured against the share.
    pub min_count: u64,
}

/// One configured pair of a row store and a vector store.
#[derive(Debug, Clone)]
pub struct Store {
    /// Unique name; a folder name and a metric label.
    pub name: String,
    /// Whether the first night removes or only reports.
    pub first_run: FirstRun,
    /// Whether a person stands behind the mapping; where nobody does, the store is only read.
    pub confirmed: bool,
    /// Where the rows are and what their columns mean.
    pub rows: Rows,
    /// Who still exists; without it no scope is ever swept.
    pub owners: Option<Owners>,
    /// Where the points are; `None` for a store without vectors.
    pub vectors: Option<Vectors>,
    /// What else names the memories of a store whose points are its rows; only counted.
    pub links: Option<Links>,
    /// What the application wrote down of the memories of such a store; only counted.
    pub log: Option<MemoryLog>,
    /// The passes, with this store's own overrides applied.
    pub passes: Passes,
    /// Where its snapshot pairs go: a folder in `snapshot_dir`.
    pub pairs: PathBuf,
}

/// What the first run on a store may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstRun {
    /// Remove, within the guard.
    Apply,
    /// Report everything, and refuse every removing pass until its plan was accepted by hash.
    Report,
}

/// Where the rows are and what their columns mean.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Where the points are that are the rows, in a store that has no others.
    pub points: Option<Box<Qdrant>>,
    /// Absolute path; with a `{tenant}` in it there is one file per tenant. Where points are the rows: what their
    /// mirrors are named after.
    pub path: String,
    /// The table of memories.
    pub table: String,
    /// The key columns: one, or several that are the key together.
    pub id: Vec<String>,
    /// Which rows of the table are memories, where not all are: those of which it is true.
    pub filter: Option<Source>,
    /// Which memories the application still shows, where it hides some: those of which it is true.
    pub live: Option<Source>,
    /// Which memories need a point, where not all do: those of which it is true.
    pub point: Option<Source>,
    /// The column that names the owner, as a plain source; `None` when the path does, or when all rows share one
    /// namespace.
    pub tenant: Option<Source>,
    /// Template of the namespace, such as `user:{tenant}`.
    pub namespace: String,
    /// What else is known about a memory, and where it stands. `Role::Ttl` is the only one with a unit.
    pub roles: Vec<(Role, Source)>,
    /// The unit of the number in the ttl column, when there is one.
    pub ttl_unit: Duration,
    /// Rows of other tables that go with a memory although no foreign key says so.
    pub children: Vec<Child>,
    /// The table of points, where it is in this database: what refers to a memory there is no row of it.
    pub points_table: Option<String>,
}

#[cfg(test)]
impl Rows {
    /// A table `memories` with a key `id`, of which nothing else is known.
    pub(crate) fn sample() -> Self {
        Self {
            points: None,
            path: "memory.db".into(),
            table: "memories".into(),
            id: vec!["id".into()],
            filter: None,
            live: None,
            point: None,
            tenant: None,
            namespace: "user:{tenant}".into(),
            roles: Vec::new(),
            ttl_unit: Duration::from_hours(24),
            children: Vec::new(),
            points_table: None,
        }
    }
}

/// Rows of another table that belong to a memory: `TABLE[?].COLUMN = COLUMN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Their table.
    pub table: String,
    /// Whether the live schema may lack it.
    pub optional: bool,
    /// The column that names the memory.
    pub column: String,
    /// The column of the memory that it holds.
    pub key: String,
}

impl Rows {
    /// Whether the points are the rows.
    #[must_use]
    pub fn are_points(&self) -> bool {
        self.points.is_some()
    }

    /// Whether there is one file per tenant.
    #[must_use]
    pub fn is_per_tenant(&self) -> bool {
        !self.are_points() && self.path.contains("{tenant}")
    }

    /// Where a role is read from.
    #[must_use]
    pub fn source(&self, role: Role) -> Option<&Source> {
        self.roles
            .iter()
            .find(|(known, _)| *known == role)
            .map(|(_, source)| source)
    }

    /// The tenant that a namespace is made of; `None` when the template of this store does not make it.
    #[must_use]
    pub fn tenant_of<'a>(&self, namespace: &'a Namespace) -> Option<&'a str> {
        let (before, after) = self.namespace.split_once("{tenant}")?;
        namespace.as_str().strip_prefix(before)?.strip_suffix(after)
    }

    /// The scope of the namespaces of this store, such as `user`; empty where each tenant says its own.
    #[must_use]
    pub fn scope(&self) -> &str {
        self.namespace
            .split_once(':')
            .map_or("", |(scope, _)| scope)
    }

    /// Whether each tenant has a folder of its own, as in `users/{tenant}/memory.db`.
    #[must_use]
    pub fn folder_is_per_tenant(&self) -> bool {
        self.path
            .rsplit_once('/')
            .is_some_and(|(folder, _)| folder.contains("{tenant}"))
    }

    /// Whether the schema keeps the history of its memories, so that one is ended and never removed
    /// (it has a `valid_to`).
    #[must_use]
    pub fn is_bitemporal(&self) -> bool {
        self.source(Role::ValidTo).is_some()
    }
}

/// Where a role is read from: `column`, `column?`, `value:json($.text)`, `created_at:epoch_s`,
/// `seen:text@America/Sao_Paulo`, `sql(EXPR)`, `sql?(EXPR):text`.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// What is read.
    pub origin: Origin,
    /// Whether the live schema may lack what is read (`?`), which reads as NULL.
    pub optional: bool,
    /// How a time is written there, for roles that are times.
    pub time: TimeFormat,
}

/// A source in the notation of the configuration.
#[cfg(test)]
pub(crate) fn source(text: &str) -> Option<Source> {
    source::parse(text, source::Kind::Time)
}

/// What a source reads in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A column.
    Column(String),
    /// A path inside the JSON that a column holds.
    Json {
        /// The column.
        column: String,
        /// The path, such as `$.text`.
        path: String,
    },
    /// The value of an SQL expression in which the table is called `m`: read, never written to.
    Sql(String),
}

impl Source {
    /// The column that is read, whole or in part.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        match &self.origin {
            Origin::Column(column) | Origin::Json { column, .. } => Some(column),
            Origin::Sql(_) => None,
        }
    }

    /// The column, where the whole of it is the value.
    #[must_use]
    pub fn plain_column(&self) -> Option<&str> {
        match &self.origin {
            Origin::Column(column) => Some(column),
            Origin::Json { .. } | Origin::Sql(_) => None,
        }
    }
}

/// How a time is written.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeFormat {
    /// The encoding of the value.
    pub encoding: Encoding,
    /// The zone of values that name none.
    pub zone: TimeZone,
}

/// How a time is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Whole seconds since 1970.
    EpochSeconds,
    /// Whole milliseconds since 1970.
    EpochMillis,
    /// Seconds since 1970 with a fraction.
    EpochFloat,
    /// ISO 8601 and its relatives.
    Text,
    /// A bare date.
    Date,
    /// Whatever each value turns out to be.
    Auto,
}

/// The table that says who still exists.
#[derive(Debug, Clone)]
pub struct Owners {
    /// The scope that it speaks for, such as `user`.
    pub scope: String,
    /// The database file; `None` for the row database itself.
    pub path: Option<PathBuf>,
    /// The table.
    pub table: String,
    /// Where the owner's name is, as namespaces spell it.
    pub id: Source,
    /// The column that marks a deleted owner, and when; `None` when owners are deleted by removing the row.
    pub deleted_at: Option<Source>,
    /// Whether the rows of an owner who is not in the table are removed, once that has settled. Applications that delete
    /// a user and leave the user's memories need it.
    pub removes_absent: bool,
}
