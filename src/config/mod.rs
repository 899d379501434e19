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

pub use cron::Cron;
pub use env::Env;
pub use payload_filter::{PayloadFilter, Scalar};
pub use problem::{ConfigError, Found, Place, Problem, SyntaxError};
pub use units::{ByteSize, HumanDuration, Ratio, Similarity};
pub use validate::{default_passes, load, parse};

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

/// Where the points are.
#[derive(Debug, Clone)]
pub struct Vectors {
    /// Which backend, and how to reach it.
    pub backend: Backend,
    /// Payload key (Qdrant) or column (SQLite) of the namespace.
    pub namespace_key: String,
    /// How namespaces are written there; `None` where they are written as they are.
    pub spelling: Option<Spelling>,
    /// How the id of a point follows from its row.
    pub point_id: PointRule,
    /// The payload key of the text that the vector was made of; `None` where the payload does not tell.
    pub text: Option<String>,
}

impl Vectors {
    /// Whether the namespace is what an expression makes of a row: no index leads to it.
    #[must_use]
    pub fn namespace_is_expression(&self) -> bool {
        matches!(self.backend, Backend::Sqlite(_)) && self.namespace_key.starts_with("sql(")
    }

    /// Whether points of others may be in a collection with the store's: it follows from the configuration, not from what
    /// is in it at the moment.
    #[must_use]
    pub fn is_collection_shared(&self) -> bool {
        match &self.backend {
            Backend::Sqlite(_) => false,
            Backend::Qdrant(server) => {
                let is_spelled = self.spelling.is_some() && !server.is_per_tenant();
                !server.filter.is_empty() || is_spelled
            }
        }
    }
}

/// How a vector store writes namespaces: `user-memory-6a2f`, where hypnos says `user:6a2f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spelling {
    /// The template of the namespace, such as `user:{tenant}`.
    pub namespace: String,
    /// The template of what the vector store has, such as `user-memory-{tenant}`.
    pub value: String,
}

impl Spelling {
    /// The namespace behind a value; `None` when the value does not fit its template.
    #[must_use]
    pub fn read(&self, value: &str) -> Option<String> {
        translate(&self.value, &self.namespace, value)
    }

    /// How a namespace is written; `None` when it does not fit its template.
    #[must_use]
    pub fn write(&self, namespace: &str) -> Option<String> {
        translate(&self.namespace, &self.value, namespace)
    }
}

/// Writes in one template what stands in another.
fn translate(from: &str, to: &str, text: &str) -> Option<String> {
    let Some((before, after)) = from.split_once("{tenant}") else {
        return (from == text).then(|| to.to_owned());
    };
    let tenant = text.strip_prefix(before)?.strip_suffix(after)?;
    (!tenant.is_empty()).then(|| to.replace("{tenant}", tenant))
}

/// A collection whose points name memories by their ids, such as the people and places that memories speak of.
#[derive(Debug, Clone)]
pub struct Links {
    /// Where it is.
    pub points: Qdrant,
    /// The payload key of the list of ids.
    pub key: ListKey,
}

/// The payload key of a list, in each of its spellings; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListKey(Vec<String>);

impl ListKey {
    /// Reads `"linked_memory_ids | linkedMemoryIds"`; `None` where a spelling is empty.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let spellings = text.split('|').map(|spelling| spelling.trim().to_owned());
        let spellings: Vec<String> = spellings.collect();
        let is_whole = spellings.iter().all(|spelling| !spelling.is_empty());
        is_whole.then_some(Self(spellings))
    }

    /// The usual spelling.
    #[must_use]
    pub fn usual(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The spellings, the usual one first.
    pub fn spellings(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// A log of what became of memories.
#[derive(Debug, Clone)]
pub struct MemoryLog {
    /// The database.
    pub path: PathBuf,
    /// The query of what the log says last of each memory: its id, whether it was deleted, its text.
    pub last: String,
}

/// A vector backend and how to reach it.
#[derive(Debug, Clone)]
pub enum Backend {
    /// A Qdrant server.
    Qdrant(Qdrant),
    /// A plain table of a SQLite database.
    Sqlite(VectorTable),
}

/// How to reach a Qdrant collection.
#[derive(Clone)]
pub struct Qdrant {
    /// gRPC address.
    pub url: String,
    /// REST address, for snapshots.
    pub rest_url: String,
    /// API key; never printed.
    pub api_key: Option<String>,
    /// The collection; with a `{tenant}` in it there is one for each tenant.
    pub collection: String,
    /// Which points of it are the store's; all others are invisible.
    pub filter: PayloadFilter,
    /// The named vector that passes compare; empty for the unnamed one.
    pub vector: String,
    /// Bound on one call.
    pub timeout: Duration,
}

impl Qdrant {
    /// Whether each tenant has a collection of its own.
    #[must_use]
    pub fn is_per_tenant(&self) -> bool {
        self.collection.contains("{tenant}")
    }
}

impl std::fmt::Debug for Qdrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qdrant")
            .field("url", &self.url)
            .field("rest_url", &self.rest_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "***"))
            .field("collection", &self.collection)
            .field("filter", &self.filter)
            .field("vector", &self.vector)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// A table of points in SQLite.
#[derive(Debug, Clone)]
pub struct VectorTable {
    /// The database file.
    pub path: PathBuf,
    /// The table.
    pub table: String,
    /// The key columns: one, or several that are the key together.
    pub id: Vec<String>,
    /// The column of little-endian f32 values.
    pub vector: String,
    /// The payload column (JSON text), when the table has one; or `sql(EXPR)`, in which the table is called `v`.
    pub payload: Option<String>,
}

/// How the id of a point follows from its row.
///
/// Templates may name `{namespace}`, `{tenant}` and `{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointRule {
    /// `integer(id)`: the row's integer key.
    Integer,
    /// `uuid(id)`: the row's key read as a UUID.
    Uuid,
    /// `uuid5(NS, TEMPLATE)`.
    Uuid5 {
        /// The UUID namespace: `dns`, `url`, `oid`, `x500` or any UUID.
        namespace: uuid::Uuid,
        /// The name that is hashed.
        template: String,
    },
    /// `column(NAME)` or `column(sql(EXPR))`: a column of the row (`Role::Point`) holds it. Where that is empty the row
    /// has none.
    Column(String),
    /// `payload(KEY)` or `payload(KEY, TEMPLATE)`: the point's payload names the row; without a template, by its id.
    Payload {
        /// The payload key.
        key: String,
        /// What stands there, `{id}` by default.
        template: String,
    },
}

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
