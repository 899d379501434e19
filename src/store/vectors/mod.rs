//! The vector store: what the passes need of it, and the two backends that give it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rusqlite::ErrorCode;

use crate::config;
use crate::failpoint::Injected;
use crate::memory::PointId;
use crate::stop::Stop;
use crate::store::image::PointImage;
use crate::store::traces::Trace;

pub(super) mod payload;
pub mod point_id;
pub mod qdrant;
mod spelled;
pub mod sqlite;

use crate::store::copies::PointCopies;
use crate::store::sqlite::{Access, OpenError};

/// Opens the configured vector store. A Qdrant server is reached in the same way for reading and for writing.
///
/// # Errors
///
/// When it cannot be reached, or is not what the configuration says.
pub fn open(
    config: &config::Vectors,
    access: Access,
    stop: &Stop,
) -> Result<Box<dyn VectorStore>, VectorError> {
    let key = config.namespace_key.as_str();
    let spelling = config.spelling.as_ref();
    Ok(match &config.backend {
        config::Backend::Qdrant(server) if server.is_per_tenant() => Box::new(
            qdrant::tenants::TenantVectors::connect(config, server, stop.clone())?,
        ),
        config::Backend::Qdrant(server) => spelled::wrap(
            qdrant::QdrantVectors::connect(server, key, stop.clone())?,
            spelling,
        ),
        config::Backend::Sqlite(table) => spelled::wrap(
            sqlite::SqliteVectors::open(table, key, access, stop.clone())?,
            spelling,
        ),
    })
}

/// How the points of a store copy themselves out and are put back; `None` for a store without vectors.
///
/// # Errors
///
/// When a Qdrant server cannot be spoken to.
pub fn copies(
    store: &config::Store,
    stop: &Stop,
) -> Result<Option<Box<dyn PointCopies>>, VectorError> {
    let Some(vectors) = &store.vectors else {
        return Ok(None);
    };
    Ok(Some(match &vectors.backend {
        config::Backend::Qdrant(server) if server.is_per_tenant() => {
            Box::new(qdrant::snapshot::TenantCopies::new(vectors, server, stop))
        }
        config::Backend::Qdrant(_) => Box::new(qdrant::snapshot::QdrantCopies::new(vectors, stop)?),
        config::Backend::Sqlite(_) => Box::new(sqlite::SqliteCopies::new(store, stop)?),
    }))
}

/// Points of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector<'a> {
    /// Every point of the collection.
    All,
    /// Points whose namespace key has exactly this value.
    Namespace(&'a str),
    /// Points whose namespace key is missing, null or empty.
    WithoutNamespace,
}

/// A point without its vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct PointHead {
    /// The point.
    pub id: PointId,
    /// Its namespace, as far as it names exactly one.
    pub namespace: Option<String>,
    /// The payload keys that were asked for, as far as the point has them.
    pub payload: serde_json::Map<String, serde_json::Value>,
}

/// What a vector store says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// `qdrant` or `sqlite`.
    pub backend: &'static str,
    /// Version of the server or library.
    pub version: String,
    /// Exact number of points.
    pub points: u64,
    /// Dimensions of the vector that passes compare; `None` when the store is empty or does not say.
    pub dimensions: Option<u64>,
    /// `Cosine`, `Dot` and so on, where the store says.
    pub distance: Option<String>,
    /// Names of every vector that a point can have (`""` for the unnamed one).
    pub vectors: Vec<String>,
    /// Whether the namespace key is indexed.
    pub namespace_indexed: bool,
}

/// Copies of points, and what could not be copied.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Whole copies of the points that exist.
    pub images: Vec<PointImage>,
    /// Ids under which there is more than one point: nobody could tell which is meant, so none of them is touched.
    pub ambiguous: BTreeSet<PointId>,
}

/// A vector store, seen from a pass: nothing here writes.
///
/// Every method is all or nothing: an answer that is partial, late or not confirmed is an error, never a short list.
/// Calls are bounded in time, and return [`VectorError::Interrupted`] soon after a stop was requested.
pub trait VectorReader: Send {
    /// Asks what the store is.
    ///
    /// # Errors
    ///
    /// When it is away, refuses the key, or has no such collection or table.
    fn describe(&self) -> Result<Description, VectorError>;

    /// Every value of the namespace key, with the exact number of its points, in order of the value.
    ///
    /// # Errors
    ///
    /// When the whole list cannot be had.
    fn namespaces(&self) -> Result<Vec<(String, u64)>, VectorError>;

    /// The exact number of points.
    ///
    /// # Errors
    ///
    /// When the store cannot say.
    fn count(&self, of: Selector<'_>) -> Result<u64, VectorError>;

    /// Visits points page by page, with the payload `keys` asked for, until `visit` breaks. Returns how many it could
    /// not show, because their key is no id.
    ///
    /// # Errors
    ///
    /// When a page cannot be had; what was visited before then is not the whole.
    fn scroll(
        &self,
        of: Selector<'_>,
        keys: &[&str],
        visit: &mut dyn FnMut(Vec<PointHead>) -> ControlFlow<()>,
    ) -> Result<u64, VectorError>;

    /// Finds the points of a namespace whose payload `key` has one of `values` (an integer there matches its decimal
    /// text). One value may have several points, and a value without a point is not in the answer. `None` stands for a
    /// point whose key is no id.
    ///
    /// # Errors
    ///
    /// When the store cannot be searched.
    fn find(
        &self,
        namespace: &str,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, Option<PointId>)>, VectorError>;

    /// Those of `ids` that exist, with the payload `keys` asked for; order is not kept.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn heads(&self, ids: &[PointId], keys: &[&str]) -> Result<Vec<PointHead>, VectorError>;

    /// The vectors that passes compare, of those of `ids` that exist and have one; order is not kept.
    ///
    /// # Errors
    ///
    /// When they cannot be read, or are not `f32` in a whole number.
    fn vectors(&self, ids: &[PointId]) -> Result<Vec<(PointId, Vec<f32>)>, VectorError>;

    /// Whole copies of those of `ids` that exist; order is not kept.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn capture(&self, ids: &[PointId]) -> Result<Captured, VectorError>;

    /// Whether the points of a namespace have a place of their own, and it is not there: they are away, not gone.
    ///
    /// # Errors
    ///
    /// When the store cannot say.
    fn is_away(&self, _namespace: &str) -> Result<bool, VectorError> {
        Ok(false)
    }

    /// Of points that were captured, those that exist now and are not as they were, or share their id with another one.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn changed(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError>;
}

/// A vector store, seen from [`crate::apply`].
pub trait VectorStore: VectorReader {
    /// Removes the points that are still as they were captured, and returns those that are left: written anew since
    /// then, there again by now, or one of several under an id. All others were seen to be gone. Points that do not
    /// exist are no error.
    ///
    /// # Errors
    ///
    /// When the removal was not confirmed, or a point is still there as it was: then any of them may be gone.
    fn remove(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError>;

    /// Puts points back as they were captured, and returns only when the store has confirmed it. A point that exists
    /// by now is left as it is.
    ///
    /// # Errors
    ///
    /// When the store did not confirm.
    fn put_back(&self, images: &[PointImage]) -> Result<(), VectorError>;

    /// Overwrites what removed points leave behind, as far as it can, and names where they can still be. Needs a store
    /// that was opened with [`Access::Erase`].
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    fn scrub(&self) -> Result<Vec<Trace>, VectorError>;
}

/// Why a vector store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// Nobody answers there.
    #[error("reach the vector store at {url}: {reason}")]
    Unreachable {
        /// Address.
        url: String,
        /// What went wrong, without the address.
        reason: String,
    },
    /// Nobody answers where snapshots are fetched.
    #[error("reach the REST interface of the vector store at {url}: {reason}")]
    RestUnreachable {
        /// Address.
        url: String,
        /// What went wrong, without the address.
        reason: String,
    },
    /// The API key is missing or wrong.
    #[error("the vector store at {url} refuses the API key")]
    Unauthorized {
        /// Address.
        url: String,
    },
    /// The collection, table or column is not there.
    #[error("{what} not found in the vector store")]
    Missing {
        /// What is missing, with its name.
        what: String,
    },
    /// Strict mode refuses a filter on a key without an index.
    #[error("the vector store refuses to filter by {key:?} without a payload index")]
    MissingIndex {
        /// Payload key.
        key: String,
    },
    /// No answer in time, after the retries.
    #[error("{call} of the vector store took longer than {seconds} s")]
    Timeout {
        /// The call.
        call: &'static str,
        /// The bound.
        seconds: u64,
    },
    /// The store answered, but not that the write is complete.
    #[error("{call} was not completed by the vector store (status {status})")]
    NotCompleted {
        /// The call.
        call: &'static str,
        /// The status it gave.
        status: String,
    },
    /// Points were still there after a confirmed removal.
    #[error("{left} points are still there after their removal was confirmed")]
    StillThere {
        /// How many.
        left: usize,
    },
    /// The store holds something that is not what the configuration says.
    #[error("{0}")]
    Malformed(String),
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
    /// A stop was requested while waiting.
    #[error("interrupted")]
    Interrupted,
    /// Any other answer of the store.
    #[error("{call} of the vector store: {reason}")]
    Refused {
        /// The call.
        call: &'static str,
        /// What the store said.
        reason: String,
    },
    /// The file of the SQLite backend could not be opened.
    #[error("open the vector database")]
    Open(#[from] OpenError),
    /// The SQLite backend.
    #[error("{doing}")]
    Sqlite {
        /// Verb and object.
        doing: &'static str,
        /// The cause.
        source: rusqlite::Error,
    },
}

impl VectorError {
    /// Whether what the configuration names is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Missing { .. }
                | Self::Open(
                    OpenError::Missing { .. }
                        | OpenError::NotAFile { .. }
                        | OpenError::Empty { .. }
                        | OpenError::NotADatabase { .. }
                )
        )
    }

    /// What an operator can do about it, where there is something to say beyond the message.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing { .. } => Some("check [store.vectors] against what the store has"),
            Self::Unreachable { .. } => {
                Some("is the server running, and is `url` its gRPC port (6334, not 6333)?")
            }
            Self::RestUnreachable { .. } => {
                Some("is `rest_url` the REST port of the server (6333, not 6334)?")
            }
            Self::Unauthorized { .. } => Some(
                "give the key as the credential qdrant-api-key, as HYPNOS_QDRANT_API_KEY, or as `api_key`",
            ),
            Self::MissingIndex { .. } => Some("create a keyword index for that payload key"),
            Self::Open(error) => hint_of_open(error),
            Self::Sqlite { source, .. } => hint_of_sqlite(source),
            Self::Timeout { .. }
            | Self::NotCompleted { .. }
            | Self::StillThere { .. }
            | Self::Malformed(_)
            | Self::Injected(_)
            | Self::Interrupted
            | Self::Refused { .. } => None,
        }
    }
}

/// The application or its user may write where hypnos may not.
const NO_PERMISSION: &str =
    "hypnos needs to read and write the file and its folder: run it as the user of the application";

fn hint_of_open(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::Missing { .. } | OpenError::NotAFile { .. } => {
            Some("check store.vectors.path; hypnos never creates a vector database")
        }
        OpenError::Empty { .. } => Some(
            "a failed copy leaves such a file: restore it, or let the application create its tables",
        ),
        OpenError::NotADatabase { .. } => {
            Some("check store.vectors.path; hypnos cannot read an encrypted database")
        }
        OpenError::ReadOnly { .. } | OpenError::Denied { .. } => Some(NO_PERMISSION),
        OpenError::HotJournal { .. } => Some(
            "start the application once, so that it plays its journal back, or let hypnos write in the folder",
        ),
        OpenError::Io { source, .. } => {
            (source.kind() == std::io::ErrorKind::PermissionDenied).then_some(NO_PERMISSION)
        }
        OpenError::Sqlite(source) => hint_of_sqlite(source),
    }
}

fn hint_of_sqlite(error: &rusqlite::Error) -> Option<&'static str> {
    match error.sqlite_error_code()? {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Some("another program holds the lock; hypnos tries again on its next run")
        }
        ErrorCode::DatabaseCorrupt => Some("restore the vector database from a backup"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
            Some(NO_PERMISSION)
        }
        ErrorCode::DiskFull => Some("free space on the disk of the vector database"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_configured_backend_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.db");
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE p(k INTEGER PRIMARY KEY, ns TEXT, v BLOB)")
            .unwrap();
        let table = config::VectorTable {
            path,
            table: "p".into(),
            id: vec!["k".into()],
            vector: "v".into(),
            payload: None,
        };
        let nobody = config::Qdrant {
            url: "http://127.0.0.1:1".into(),
            rest_url: String::new(),
            api_key: None,
            collection: "p".into(),
            filter: config::PayloadFilter::default(),
            vector: String::new(),
            timeout: Duration::from_secs(5),
        };
        let mut vectors = config::Vectors {
            backend: config::Backend::Sqlite(table),
            namespace_key: "ns".into(),
            spelling: None,
            point_id: config::PointRule::Integer,
            text: None,
        };
        let store = open(&vectors, Access::Read, &Stop::default()).unwrap();
        assert_eq!(store.describe().unwrap().backend, "sqlite");
        vectors.backend = config::Backend::Qdrant(nobody);
        let refusal = open(&vectors, Access::Read, &Stop::default()).err();
        assert!(
            matches!(refusal, Some(VectorError::Unreachable { .. })),
            "{refusal:?}"
        );
    }
    #[test]
    fn a_file_that_cannot_be_used_has_a_hint_of_its_own() {
        use rusqlite::ffi;

        let path = || "v.db".into();
        let io = |kind: std::io::ErrorKind| OpenError::Io {
            path: path(),
            source: kind.into(),
        };
        let sqlite =
            |code| OpenError::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        for (error, is_missing, hint) in [
            (OpenError::Missing { path: path() }, true, "never creates"),
            (OpenError::NotAFile { path: path() }, true, "never creates"),
            (OpenError::Empty { path: path() }, true, "a failed copy"),
            (OpenError::NotADatabase { path: path() }, true, "encrypted"),
            (
                OpenError::ReadOnly { path: path() },
                false,
                "read and write",
            ),
            (
                io(std::io::ErrorKind::PermissionDenied),
                false,
                "read and write",
            ),
            (sqlite(ffi::SQLITE_READONLY), false, "read and write"),
            (sqlite(ffi::SQLITE_CANTOPEN), false, "read and write"),
            (sqlite(ffi::SQLITE_BUSY), false, "holds the lock"),
            (sqlite(ffi::SQLITE_CORRUPT), false, "from a backup"),
        ] {
            let error = VectorError::from(error);
            let told = error.hint().unwrap_or_default();
            assert!(told.contains(hint), "{error:?}: {told}");
            assert!(!told.contains("gRPC"), "{error:?}: {told}");
            assert_eq!(error.is_missing(), is_missing, "{error:?}");
        }
    }
}
