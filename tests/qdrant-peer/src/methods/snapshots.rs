//! Snapshots, which the engine in process cannot make.

use qdrant_client::qdrant as grpc;

use crate::error::{Answer, unsupported};
use crate::store::Store;

pub(crate) fn list(
    store: &Store,
    request: grpc::ListSnapshotsRequest,
) -> Answer<grpc::ListSnapshotsResponse> {
    drop(store.collection(&request.collection_name)?);
    Ok(grpc::ListSnapshotsResponse::default())
}

/// Refuses whatever would need a snapshot.
pub(crate) fn refuse<Q, R>(_: &Store, _: Q) -> Answer<R> {
    Err(unsupported(
        "snapshots: the engine in process cannot make them",
    ))
}
