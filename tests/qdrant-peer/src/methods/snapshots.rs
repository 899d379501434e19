//! Snapshots of collections, as the gRPC interface tells of them.

use qdrant_client::qdrant as grpc;

use crate::error::Answer;
use crate::snapshots::Snapshot;
use crate::store::Store;

pub(crate) fn create(
    store: &Store,
    request: grpc::CreateSnapshotRequest,
) -> Answer<grpc::CreateSnapshotResponse> {
    let made = store.create_snapshot(&request.collection_name)?;
    Ok(grpc::CreateSnapshotResponse {
        snapshot_description: Some(described(made)),
        time: 0.0,
    })
}

pub(crate) fn list(
    store: &Store,
    request: grpc::ListSnapshotsRequest,
) -> Answer<grpc::ListSnapshotsResponse> {
    let snapshots = store.list_snapshots(&request.collection_name)?;
    Ok(grpc::ListSnapshotsResponse {
        snapshot_descriptions: snapshots.into_iter().map(described).collect(),
        time: 0.0,
    })
}

pub(crate) fn delete(
    store: &Store,
    request: grpc::DeleteSnapshotRequest,
) -> Answer<grpc::DeleteSnapshotResponse> {
    store.delete_snapshot(&request.collection_name, &request.snapshot_name)?;
    Ok(grpc::DeleteSnapshotResponse { time: 0.0 })
}

fn described(snapshot: Snapshot) -> grpc::SnapshotDescription {
    grpc::SnapshotDescription {
        name: snapshot.name,
        creation_time: None,
        size: i64::try_from(snapshot.size).unwrap_or(i64::MAX),
        checksum: snapshot.checksum,
    }
}
