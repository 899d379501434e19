//! The peer as a process: it prints its address, and what it answered survives a kill.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use qdrant_client::qdrant::{
    CountPointsBuilder, CreateFieldIndexCollectionBuilder, DeletePointsBuilder, Distance,
    FacetCountsBuilder, FieldType, PointsIdsList,
};
use serde_json::json;

use crate::{NAME, client_at, create, numbers, point, upsert};

fn spawn(dir: &Path) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_qdrant-peer"))
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Both lines: a peer that cannot say all of its addresses does not serve.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.next().unwrap().unwrap();
    lines.next().unwrap().unwrap();
    (child, url)
}

#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, url) = spawn(dir.path());
    let client = client_at(&url, None);
    create(&client, 2, Distance::Dot).await;
    upsert(
        &client,
        (0..100).map(|id| point(id, json!({"ns": "a"}))).collect(),
    )
    .await;
    let index = CreateFieldIndexCollectionBuilder::new(NAME, "ns", FieldType::Keyword).wait(true);
    client.create_field_index(index).await.unwrap();
    let delete = DeletePointsBuilder::new(NAME).points(PointsIdsList {
        ids: numbers(0..40),
    });
    client.delete_points(delete.wait(true)).await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();

    let (mut child, url) = spawn(dir.path());
    let client = client_at(&url, None);
    let count = client.count(CountPointsBuilder::new(NAME)).await.unwrap();
    assert_eq!(count.result.unwrap().count, 60);
    let facet = FacetCountsBuilder::new(NAME, "ns").exact(true);
    assert_eq!(client.facet(facet).await.unwrap().hits[0].count, 60);
    upsert(&client, vec![point(0, json!({}))]).await;
    drop(child.stdin.take());
    assert!(
        child.wait().unwrap().success(),
        "a closed stdin ends the process"
    );
}

#[test]
fn an_unknown_argument_is_a_usage_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_qdrant-peer"))
        .arg("--ports")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--ports"));
}
