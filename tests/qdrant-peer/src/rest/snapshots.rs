//! Snapshots and what is recovered from them.

use std::path::{Path, PathBuf};

use axum::body::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::Call;
use super::decoded;
use super::form::{self, Part};
use crate::error::{Answer, bad_request, internal, wrong_input};
use crate::snapshots::{Snapshot, sha256};
use crate::store::Store;

pub(super) fn create(store: &Store, collection: &str) -> Answer<Value> {
    store
        .create_snapshot(collection)
        .map(|made| described(&made))
}

pub(super) fn list(store: &Store, collection: &str) -> Answer<Value> {
    let snapshots = store.list_snapshots(collection)?;
    Ok(snapshots.iter().map(described).collect())
}

fn described(snapshot: &Snapshot) -> Value {
    json!({
        "name": snapshot.name,
        "creation_time": null,
        "size": snapshot.size,
        "checksum": snapshot.checksum,
    })
}

#[derive(Debug, Deserialize)]
struct Recovery {
    location: String,
    priority: Option<String>,
    checksum: Option<String>,
}

/// Recovers from a file that is on this machine already.
pub(super) fn recover(store: &Store, collection: &str, body: &[u8]) -> Answer<Value> {
    let recovery: Recovery = serde_json::from_slice(body).map_err(bad_request)?;
    check_priority(recovery.priority.as_deref())?;
    let path = recovery
        .location
        .strip_prefix("file://")
        .map(|path| PathBuf::from(decoded(path)))
        .ok_or_else(|| bad_request("qdrant-peer recovers from file:// locations only"))?;
    if !path.is_file() {
        let path = path.display();
        return Err(bad_request(format!(
            "Snapshot file {path:?} does not exist"
        )));
    }
    check_sum(&path, recovery.checksum.as_deref())?;
    store.recover(collection, &path)?;
    Ok(Value::from(true))
}

/// Receives a file to recover from, as it comes.
pub(super) async fn receive(store: &Store, call: &Call, body: Body) -> Answer<Part> {
    check_priority(call.query.get("priority").map(String::as_str))?;
    let dir = store.snapshots_dir(&call.collection);
    form::receive(&call.content_type, body, &dir).await
}

/// Keeps the uploaded file among the snapshots of the collection, as the server does, and recovers from it.
pub(super) fn upload(store: &Store, call: &Call, part: Part) -> Answer<Value> {
    check_sum(
        part.contents.path(),
        call.query.get("checksum").map(String::as_str),
    )?;
    let name = Path::new(&part.file_name)
        .file_name()
        .ok_or_else(|| bad_request("the uploaded file has no name"))?;
    let path = store.snapshots_dir(&call.collection).join(name);
    part.contents.persist(&path).map_err(internal)?;
    store.recover(&call.collection, &path)?;
    Ok(Value::from(true))
}

/// On a single node they all mean the same.
fn check_priority(priority: Option<&str>) -> Answer<()> {
    match priority {
        None | Some("no_sync" | "snapshot" | "replica") => Ok(()),
        Some(other) => Err(bad_request(format!("unknown variant `{other}`"))),
    }
}

fn check_sum(path: &Path, expected: Option<&str>) -> Answer<()> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let found = sha256(path).map_err(internal)?;
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(wrong_input(format!(
        "Snapshot checksum mismatch: expected {expected}, got {found}"
    )))
}
