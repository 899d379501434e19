//! Between the messages on the wire and the types of the engine.
//!
//! The engine's types read the REST form of a request, so filters and index parameters go by way of JSON: one
//! translation, and every check of the engine's own parsers applies.

pub(crate) mod config;
pub(crate) mod filter;
pub(crate) mod index;
pub(crate) mod payload;
pub(crate) mod point;
pub(crate) mod vector;

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_edge::external::ordered_float::OrderedFloat;
use qdrant_edge::external::uuid::Uuid;
use qdrant_edge::{JsonPath, PointId};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tonic::Status;

use crate::error::Answer;

/// A number that came over the wire as 64 bits, as the engine counts.
pub(crate) fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A count of the engine, as the wire carries it.
pub(crate) fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// A type of the engine from its REST form.
pub(crate) fn from_rest<T: DeserializeOwned>(what: &str, value: Value) -> Answer<T> {
    serde_json::from_value(value)
        .map_err(|error| Status::invalid_argument(format!("Malformed {what}: {error}")))
}

pub(crate) fn json_path(path: &str) -> Answer<JsonPath> {
    path.parse()
        .map_err(|()| Status::invalid_argument(format!("Invalid json path: '{path}'")))
}

pub(crate) fn point_id(id: grpc::PointId) -> Answer<PointId> {
    match id.point_id_options {
        Some(PointIdOptions::Num(number)) => Ok(PointId::NumId(number)),
        Some(PointIdOptions::Uuid(text)) => Uuid::parse_str(&text)
            .map(PointId::Uuid)
            .map_err(|_| Status::invalid_argument(format!("Unable to parse UUID: {text}"))),
        None => Err(Status::invalid_argument("No ID options provided")),
    }
}

pub(crate) fn point_ids(ids: Vec<grpc::PointId>) -> Answer<Vec<PointId>> {
    ids.into_iter().map(point_id).collect()
}

pub(crate) fn wire_id(id: PointId) -> grpc::PointId {
    let options = match id {
        PointId::NumId(number) => PointIdOptions::Num(number),
        PointId::Uuid(uuid) => PointIdOptions::Uuid(uuid.to_string()),
    };
    grpc::PointId {
        point_id_options: Some(options),
    }
}

pub(crate) fn score_threshold(threshold: Option<f32>) -> Option<OrderedFloat<f32>> {
    threshold.map(OrderedFloat)
}
