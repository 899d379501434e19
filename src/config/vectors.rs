//! Where the points are, how one follows from a row, and what else names the memories.

use std::path::PathBuf;
use std::time::Duration;

use super::PayloadFilter;

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
