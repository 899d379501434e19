//! The peer, met as a client meets it: through `qdrant-client` and nothing else.
//!
//! Whatever here is about the server's behaviour (all but `faults` and `process`) holds of a real server too.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod collections;
mod errors;
mod faults;
mod points;
mod process;
mod reads;
mod strict;

use std::collections::HashMap;

use qdrant_client::Qdrant;
use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{
    CreateCollectionBuilder, Distance, PointId, PointStruct, RetrievedPoint, UpdateStatus,
    UpsertPointsBuilder, VectorParamsBuilder,
};
use qdrant_client::{Payload, QdrantError};
use qdrant_peer::{Code, Peer};
use serde_json::Value;

const NAME: &str = "memories";

fn client(peer: &Peer) -> Qdrant {
    client_at(&peer.url(), None)
}

fn client_at(url: &str, api_key: Option<&str>) -> Qdrant {
    let config = Qdrant::from_url(url).skip_compatibility_check();
    let config = match api_key {
        Some(key) => config.api_key(key),
        None => config,
    };
    config.build().unwrap()
}

/// A peer with the empty collection [`NAME`] of unnamed vectors.
async fn with_collection(size: u64, distance: Distance) -> (Peer, Qdrant) {
    let peer = Peer::start();
    let client = client(&peer);
    create(&client, size, distance).await;
    (peer, client)
}

async fn create(client: &Qdrant, size: u64, distance: Distance) {
    client
        .create_collection(
            CreateCollectionBuilder::new(NAME)
                .vectors_config(VectorParamsBuilder::new(size, distance)),
        )
        .await
        .unwrap();
}

async fn upsert(client: &Qdrant, points: Vec<PointStruct>) {
    let response = client
        .upsert_points(UpsertPointsBuilder::new(NAME, points).wait(true))
        .await
        .unwrap();
    assert_eq!(response.result.unwrap().status(), UpdateStatus::Completed);
}

/// A payload from the JSON object it is.
fn payload(json: Value) -> Payload {
    match json {
        Value::Object(map) => {
            let fields = map.into_iter().map(|(key, value)| (key, wire(value)));
            Payload::from(fields.collect::<HashMap<_, _>>())
        }
        other => panic!("not an object: {other}"),
    }
}

fn wire(json: Value) -> grpc::Value {
    let kind = match json {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) if number.is_f64() => Kind::DoubleValue(number.as_f64().unwrap()),
        Value::Number(number) => Kind::IntegerValue(number.as_i64().unwrap()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(values) => Kind::ListValue(grpc::ListValue {
            values: values.into_iter().map(wire).collect(),
        }),
        Value::Object(map) => Kind::StructValue(grpc::Struct {
            fields: map
                .into_iter()
                .map(|(key, value)| (key, wire(value)))
                .collect(),
        }),
    };
    grpc::Value { kind: Some(kind) }
}

fn point(id: u64, json: Value) -> PointStruct {
    PointStruct::new(id, vec![1.0, 0.0], payload(json))
}

fn ids(points: &[RetrievedPoint]) -> Vec<PointId> {
    points
        .iter()
        .map(|point| point.id.clone().unwrap())
        .collect()
}

fn numbers(numbers: impl IntoIterator<Item = u64>) -> Vec<PointId> {
    numbers.into_iter().map(PointId::from).collect()
}

/// The code and the message of a refusal.
fn refusal<T: std::fmt::Debug>(result: Result<T, QdrantError>) -> (Code, String) {
    match result.unwrap_err() {
        QdrantError::ResponseError { status } => (status.code(), status.message().to_owned()),
        other => panic!("not an answer of the server: {other}"),
    }
}
