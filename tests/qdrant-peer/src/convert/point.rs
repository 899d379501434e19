//! Points, on the way in and on the way out.

use std::collections::HashMap;

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::order_value;
use qdrant_edge::external::uuid::Uuid;
use qdrant_edge::{
    FacetValue, OrderValue, Payload, PointStructPersisted, PointVectorsPersisted, Record,
    ScoredPoint,
};
use tonic::Status;

use super::payload::{payload, wire_payload};
use super::vector::{Form, vectors, wire_vectors};
use super::{point_id, wide, wire_id};
use crate::error::Answer;

pub(crate) fn point(point: grpc::PointStruct) -> Answer<PointStructPersisted> {
    let grpc::PointStruct {
        id,
        payload: fields,
        vectors: given,
    } = point;
    let given = given.ok_or_else(|| Status::invalid_argument("Expected some vectors"))?;
    let id = id.ok_or_else(|| Status::invalid_argument("Empty ID is not allowed"))?;
    Ok(PointStructPersisted {
        id: point_id(id)?,
        vector: vectors(given)?,
        payload: optional_payload(fields)?,
    })
}

pub(crate) fn point_vectors(point: grpc::PointVectors) -> Answer<PointVectorsPersisted> {
    let id = point
        .id
        .ok_or_else(|| Status::invalid_argument("id is expected"))?;
    let given = point
        .vectors
        .ok_or_else(|| Status::invalid_argument("vectors is expected"))?;
    Ok(PointVectorsPersisted {
        id: point_id(id)?,
        vector: vectors(given)?,
    })
}

fn optional_payload(fields: HashMap<String, grpc::Value>) -> Answer<Option<Payload>> {
    if fields.is_empty() {
        return Ok(None);
    }
    payload(fields).map(Some)
}

pub(crate) fn wire_record(record: Record, form: Form) -> grpc::RetrievedPoint {
    grpc::RetrievedPoint {
        id: Some(wire_id(record.id)),
        payload: record.payload.map(wire_payload).unwrap_or_default(),
        vectors: record.vector.map(|vectors| wire_vectors(vectors, form)),
        shard_key: None,
        order_value: record.order_value.map(wire_order_value),
    }
}

pub(crate) fn wire_scored(point: ScoredPoint, form: Form) -> grpc::ScoredPoint {
    grpc::ScoredPoint {
        id: Some(wire_id(point.id)),
        payload: point.payload.map(wire_payload).unwrap_or_default(),
        score: point.score,
        version: point.version,
        vectors: point.vector.map(|vectors| wire_vectors(vectors, form)),
        shard_key: None,
        order_value: point.order_value.map(wire_order_value),
    }
}

pub(crate) fn wire_facet(value: FacetValue, count: usize) -> grpc::FacetHit {
    use grpc::facet_value::Variant;
    let variant = match value {
        FacetValue::Keyword(keyword) => Variant::StringValue(keyword),
        FacetValue::Int(integer) => Variant::IntegerValue(integer),
        FacetValue::Uuid(uuid) => Variant::StringValue(Uuid::from_u128(uuid).to_string()),
        FacetValue::Bool(flag) => Variant::BoolValue(flag),
    };
    grpc::FacetHit {
        value: Some(grpc::FacetValue {
            variant: Some(variant),
        }),
        count: wide(count),
    }
}

fn wire_order_value(value: OrderValue) -> grpc::OrderValue {
    let variant = match value {
        OrderValue::Int(integer) => order_value::Variant::Int(integer),
        OrderValue::Float(float) => order_value::Variant::Float(float),
    };
    grpc::OrderValue {
        variant: Some(variant),
    }
}
