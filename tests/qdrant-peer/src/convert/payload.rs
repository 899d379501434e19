//! Payloads: JSON objects, value by value.

use std::collections::HashMap;

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::value::Kind;
use qdrant_edge::Payload;
use serde_json::{Map, Number, Value};
use tonic::Status;

use crate::error::Answer;

pub(crate) fn payload(fields: HashMap<String, grpc::Value>) -> Answer<Payload> {
    object(fields).map(Payload)
}

pub(crate) fn wire_payload(payload: Payload) -> HashMap<String, grpc::Value> {
    payload
        .0
        .into_iter()
        .map(|(key, value)| (key, wire_value(value)))
        .collect()
}

/// A finite float as JSON. JSON has no other floats.
pub(crate) fn number(value: f64) -> Answer<Value> {
    Number::from_f64(value)
        .map(Value::Number)
        .ok_or_else(|| Status::invalid_argument("cannot convert to json number"))
}

fn object(fields: HashMap<String, grpc::Value>) -> Answer<Map<String, Value>> {
    fields
        .into_iter()
        .map(|(key, value)| json(value).map(|value| (key, value)))
        .collect()
}

fn json(value: grpc::Value) -> Answer<Value> {
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::IntegerValue(integer)) => Value::from(integer),
        Some(Kind::DoubleValue(double)) => number(double)?,
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => {
            Value::Array(list.values.into_iter().map(json).collect::<Answer<_>>()?)
        }
        Some(Kind::StructValue(fields)) => Value::Object(object(fields.fields)?),
    })
}

fn wire_value(value: Value) -> grpc::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Kind::IntegerValue(integer),
            None => Kind::DoubleValue(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Kind::StringValue(text),
        Value::Array(values) => Kind::ListValue(grpc::ListValue {
            values: values.into_iter().map(wire_value).collect(),
        }),
        Value::Object(map) => Kind::StructValue(grpc::Struct {
            fields: map
                .into_iter()
                .map(|(key, value)| (key, wire_value(value)))
                .collect(),
        }),
    };
    grpc::Value { kind: Some(kind) }
}
