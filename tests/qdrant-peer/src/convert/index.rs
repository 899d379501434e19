//! Payload indexes: what a request asks for, and what a collection reports.

#![expect(
    deprecated,
    reason = "servers before 1.19 know no other way to say where data is kept"
)]

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::payload_index_params::IndexParams;
use qdrant_edge::{PayloadFieldSchema, PayloadIndexInfo, PayloadSchemaType};
use serde_json::{Value, json};
use tonic::Status;

use super::{from_rest, wide};
use crate::error::{Answer, bad_request, unsupported};

/// The index a request asks for.
pub(crate) fn schema(
    field_type: Option<i32>,
    params: Option<grpc::PayloadIndexParams>,
) -> Answer<PayloadFieldSchema> {
    if let Some(params) = params.and_then(|params| params.index_params) {
        return from_rest("index params", params_json(params)?);
    }
    let Some(field_type) = field_type else {
        return Err(bad_request(
            "Can't auto-detect field type, please specify `field_schema` in the request",
        ));
    };
    let kind = grpc::FieldType::try_from(field_type)
        .map_err(|_| Status::invalid_argument("cannot convert field type"))?;
    Ok(PayloadFieldSchema::FieldType(match kind {
        grpc::FieldType::Keyword => PayloadSchemaType::Keyword,
        grpc::FieldType::Integer => PayloadSchemaType::Integer,
        grpc::FieldType::Float => PayloadSchemaType::Float,
        grpc::FieldType::Geo => PayloadSchemaType::Geo,
        grpc::FieldType::Text => PayloadSchemaType::Text,
        grpc::FieldType::Bool => PayloadSchemaType::Bool,
        grpc::FieldType::Datetime => PayloadSchemaType::Datetime,
        grpc::FieldType::Uuid => PayloadSchemaType::Uuid,
    }))
}

pub(crate) fn wire_info(info: &PayloadIndexInfo) -> grpc::PayloadSchemaInfo {
    let data_type = match info.data_type {
        PayloadSchemaType::Keyword => grpc::PayloadSchemaType::Keyword,
        PayloadSchemaType::Integer => grpc::PayloadSchemaType::Integer,
        PayloadSchemaType::Float => grpc::PayloadSchemaType::Float,
        PayloadSchemaType::Geo => grpc::PayloadSchemaType::Geo,
        PayloadSchemaType::Text => grpc::PayloadSchemaType::Text,
        PayloadSchemaType::Bool => grpc::PayloadSchemaType::Bool,
        PayloadSchemaType::Datetime => grpc::PayloadSchemaType::Datetime,
        PayloadSchemaType::Uuid => grpc::PayloadSchemaType::Uuid,
    };
    let params = info.params.as_ref().and_then(|params| {
        let json = serde_json::to_value(params).ok()?;
        Some(wire_params(info.data_type, &json))
    });
    grpc::PayloadSchemaInfo {
        data_type: data_type.into(),
        params: params.map(|params| grpc::PayloadIndexParams {
            index_params: Some(params),
        }),
        points: Some(wide(info.points)),
    }
}

fn params_json(params: IndexParams) -> Answer<Value> {
    let json = match params {
        IndexParams::KeywordIndexParams(p) => {
            if p.prefix.is_some() {
                return Err(unsupported("prefix indexes"));
            }
            json!({ "type": "keyword", "is_tenant": p.is_tenant, "on_disk": p.on_disk, "enable_hnsw": p.enable_hnsw })
        }
        IndexParams::UuidIndexParams(p) => {
            json!({ "type": "uuid", "is_tenant": p.is_tenant, "on_disk": p.on_disk, "enable_hnsw": p.enable_hnsw })
        }
        IndexParams::IntegerIndexParams(p) if p.lookup == Some(false) || p.range == Some(false) => {
            return Err(unsupported("integer indexes without lookup or range"));
        }
        IndexParams::IntegerIndexParams(p) => json!({
            "type": "integer", "lookup": p.lookup, "range": p.range, "is_principal": p.is_principal,
            "on_disk": p.on_disk, "enable_hnsw": p.enable_hnsw,
        }),
        IndexParams::FloatIndexParams(p) => json!({
            "type": "float", "is_principal": p.is_principal, "on_disk": p.on_disk, "enable_hnsw": p.enable_hnsw,
        }),
        IndexParams::DatetimeIndexParams(p) => json!({
            "type": "datetime", "is_principal": p.is_principal, "on_disk": p.on_disk, "enable_hnsw": p.enable_hnsw,
        }),
        IndexParams::BoolIndexParams(p) => {
            json!({ "type": "bool", "on_disk": p.on_disk, "enable_hnsw": p.enable_hnsw })
        }
        IndexParams::GeoIndexParams(p) => {
            json!({ "type": "geo", "on_disk": p.on_disk, "enable_hnsw": p.enable_hnsw })
        }
        IndexParams::TextIndexParams(p) => text_json(&p)?,
    };
    Ok(json)
}

fn text_json(params: &grpc::TextIndexParams) -> Answer<Value> {
    if params.stopwords.is_some() || params.stemmer.is_some() || params.scoring.is_some() {
        return Err(unsupported(
            "stop words, stemmers and scoring of text indexes",
        ));
    }
    let tokenizer = match grpc::TokenizerType::try_from(params.tokenizer) {
        Ok(grpc::TokenizerType::Prefix) => "prefix",
        Ok(grpc::TokenizerType::Whitespace) => "whitespace",
        Ok(grpc::TokenizerType::Word) => "word",
        Ok(grpc::TokenizerType::Multilingual) => "multilingual",
        Ok(grpc::TokenizerType::Code) => return Err(unsupported("the code tokenizer")),
        Ok(grpc::TokenizerType::Unknown) | Err(_) => {
            return Err(Status::invalid_argument("unknown tokenizer type"));
        }
    };
    Ok(json!({
        "type": "text", "tokenizer": tokenizer, "lowercase": params.lowercase,
        "min_token_len": params.min_token_len, "max_token_len": params.max_token_len,
        "phrase_matching": params.phrase_matching, "ascii_folding": params.ascii_folding,
        "on_disk": params.on_disk, "enable_hnsw": params.enable_hnsw,
    }))
}

fn wire_params(kind: PayloadSchemaType, json: &Value) -> IndexParams {
    let flag = |name: &str| json.get(name).and_then(Value::as_bool);
    let count = |name: &str| json.get(name).and_then(Value::as_u64);
    let (on_disk, enable_hnsw) = (flag("on_disk"), flag("enable_hnsw"));
    let (is_tenant, is_principal) = (flag("is_tenant"), flag("is_principal"));
    match kind {
        PayloadSchemaType::Keyword => IndexParams::KeywordIndexParams(grpc::KeywordIndexParams {
            is_tenant,
            on_disk,
            enable_hnsw,
            ..Default::default()
        }),
        PayloadSchemaType::Uuid => IndexParams::UuidIndexParams(grpc::UuidIndexParams {
            is_tenant,
            on_disk,
            enable_hnsw,
            ..Default::default()
        }),
        PayloadSchemaType::Integer => IndexParams::IntegerIndexParams(grpc::IntegerIndexParams {
            lookup: flag("lookup"),
            range: flag("range"),
            is_principal,
            on_disk,
            enable_hnsw,
            ..Default::default()
        }),
        PayloadSchemaType::Float => IndexParams::FloatIndexParams(grpc::FloatIndexParams {
            is_principal,
            on_disk,
            enable_hnsw,
            ..Default::default()
        }),
        PayloadSchemaType::Datetime => {
            IndexParams::DatetimeIndexParams(grpc::DatetimeIndexParams {
                is_principal,
                on_disk,
                enable_hnsw,
                ..Default::default()
            })
        }
        PayloadSchemaType::Bool => IndexParams::BoolIndexParams(grpc::BoolIndexParams {
            on_disk,
            enable_hnsw,
            ..Default::default()
        }),
        PayloadSchemaType::Geo => IndexParams::GeoIndexParams(grpc::GeoIndexParams {
            on_disk,
            enable_hnsw,
            ..Default::default()
        }),
        PayloadSchemaType::Text => IndexParams::TextIndexParams(grpc::TextIndexParams {
            tokenizer: wire_tokenizer(json.get("tokenizer").and_then(Value::as_str)).into(),
            lowercase: flag("lowercase"),
            min_token_len: count("min_token_len"),
            max_token_len: count("max_token_len"),
            phrase_matching: flag("phrase_matching"),
            ascii_folding: flag("ascii_folding"),
            on_disk,
            enable_hnsw,
            ..Default::default()
        }),
    }
}

fn wire_tokenizer(name: Option<&str>) -> grpc::TokenizerType {
    match name {
        Some("prefix") => grpc::TokenizerType::Prefix,
        Some("whitespace") => grpc::TokenizerType::Whitespace,
        Some("multilingual") => grpc::TokenizerType::Multilingual,
        _ => grpc::TokenizerType::Word,
    }
}
