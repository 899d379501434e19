//! Which call a request is: the paths of the server, and the names by which faults know them.

use std::collections::BTreeMap;

use axum::http::request::Parts;

use super::{decoded, query};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Cluster,
    CollectionCluster,
    CreateSnapshot,
    DeleteCollection,
    DeleteSnapshot,
    DownloadSnapshot,
    GetCollection,
    ListAliases,
    ListSnapshots,
    RecoverSnapshot,
    UpdateAliases,
    UploadSnapshot,
    Version,
}

impl Kind {
    /// Its name in [`METHODS`](crate::METHODS).
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Cluster => "Rest/Cluster",
            Self::CollectionCluster => "Rest/CollectionCluster",
            Self::CreateSnapshot => "Rest/CreateSnapshot",
            Self::DeleteCollection => "Rest/DeleteCollection",
            Self::DeleteSnapshot => "Rest/DeleteSnapshot",
            Self::DownloadSnapshot => "Rest/DownloadSnapshot",
            Self::GetCollection => "Rest/GetCollection",
            Self::ListAliases => "Rest/ListAliases",
            Self::ListSnapshots => "Rest/ListSnapshots",
            Self::RecoverSnapshot => "Rest/RecoverSnapshot",
            Self::UpdateAliases => "Rest/UpdateAliases",
            Self::UploadSnapshot => "Rest/UploadSnapshot",
            Self::Version => "Rest/Version",
        }
    }
}

/// A request, but for its body.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// Empty where the path names none.
    pub(crate) collection: String,
    /// Empty where the path names none.
    pub(crate) snapshot: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) content_type: String,
}

impl Call {
    /// `None` for what the peer does not know.
    pub(crate) fn read(parts: &Parts) -> Option<Self> {
        let path = parts.uri.path().trim_matches('/');
        let segments: Vec<&str> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .collect();
        let (kind, collection, snapshot) = match (parts.method.as_str(), segments.as_slice()) {
            ("GET", []) => (Kind::Version, "", ""),
            ("GET", ["cluster"]) => (Kind::Cluster, "", ""),
            ("GET", ["aliases"]) => (Kind::ListAliases, "", ""),
            ("POST", ["collections", "aliases"]) => (Kind::UpdateAliases, "", ""),
            ("GET", ["collections", name]) => (Kind::GetCollection, *name, ""),
            ("DELETE", ["collections", name]) => (Kind::DeleteCollection, *name, ""),
            ("GET", ["collections", name, "aliases"]) => (Kind::ListAliases, *name, ""),
            ("GET", ["collections", name, "cluster"]) => (Kind::CollectionCluster, *name, ""),
            ("GET", ["collections", name, "snapshots"]) => (Kind::ListSnapshots, *name, ""),
            ("POST", ["collections", name, "snapshots"]) => (Kind::CreateSnapshot, *name, ""),
            ("POST", ["collections", name, "snapshots", "upload"]) => {
                (Kind::UploadSnapshot, *name, "")
            }
            ("PUT", ["collections", name, "snapshots", "recover"]) => {
                (Kind::RecoverSnapshot, *name, "")
            }
            ("GET", ["collections", name, "snapshots", snapshot]) => {
                (Kind::DownloadSnapshot, *name, *snapshot)
            }
            ("DELETE", ["collections", name, "snapshots", snapshot]) => {
                (Kind::DeleteSnapshot, *name, *snapshot)
            }
            _ => return None,
        };
        let content_type = parts.headers.get("content-type");
        Some(Self {
            kind,
            collection: decoded(collection),
            snapshot: decoded(snapshot),
            query: query(parts.uri.query().unwrap_or_default()),
            content_type: content_type
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
        })
    }

    /// The collection, where the path names one.
    pub(crate) fn of_collection(&self) -> Option<&str> {
        (!self.collection.is_empty()).then_some(self.collection.as_str())
    }
}
