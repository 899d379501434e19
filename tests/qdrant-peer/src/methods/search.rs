//! The nearest points of a vector, by a scan of all.

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::{query, vector_input};
use qdrant_edge::{
    DEFAULT_VECTOR_NAME, NamedQuery, QueryEnum, QueryRequest, Sample, ScoringQuery, SearchParams,
    VectorInternal, VectorStructInternal, WithPayloadInterface, WithVector,
};
use tonic::Status;

use crate::collection::Collection;
use crate::convert::filter::{optional_filter, order_by, with_payload, with_vectors};
use crate::convert::point::wire_scored;
use crate::convert::vector::{multi, rows, sparse};
use crate::convert::{point_id, score_threshold, size};
use crate::error::{Answer, from_engine, invalid_field, unsupported, wrong_input};
use crate::store::Store;
use crate::strict::{self, Read};

pub(crate) fn query(store: &Store, request: grpc::QueryPoints) -> Answer<grpc::QueryResponse> {
    let collection = store.collection(&request.collection_name)?;
    Ok(grpc::QueryResponse {
        result: nearest(store, &collection, request)?,
        ..Default::default()
    })
}

pub(crate) fn query_batch(
    store: &Store,
    request: grpc::QueryBatchPoints,
) -> Answer<grpc::QueryBatchResponse> {
    Ok(grpc::QueryBatchResponse {
        result: batch(store, &request.collection_name, request.query_points)?,
        ..Default::default()
    })
}

pub(crate) fn search(store: &Store, request: grpc::SearchPoints) -> Answer<grpc::SearchResponse> {
    let response = query(store, as_query(request)?)?;
    Ok(grpc::SearchResponse {
        result: response.result,
        ..Default::default()
    })
}

pub(crate) fn search_batch(
    store: &Store,
    request: grpc::SearchBatchPoints,
) -> Answer<grpc::SearchBatchResponse> {
    let queries = request
        .search_points
        .into_iter()
        .map(as_query)
        .collect::<Answer<_>>()?;
    Ok(grpc::SearchBatchResponse {
        result: batch(store, &request.collection_name, queries)?,
        ..Default::default()
    })
}

fn batch(
    store: &Store,
    name: &str,
    queries: Vec<grpc::QueryPoints>,
) -> Answer<Vec<grpc::BatchResult>> {
    let collection = store.collection(name)?;
    strict::check_searches(&collection, queries.len())?;
    queries
        .into_iter()
        .map(|query| {
            let result = nearest(store, &collection, query)?;
            Ok(grpc::BatchResult { result })
        })
        .collect()
}

/// A search of the older kind as a query.
fn as_query(request: grpc::SearchPoints) -> Answer<grpc::QueryPoints> {
    if request.limit == 0 {
        return Err(invalid_field(
            "limit",
            "value 0 invalid, must be 1 or larger",
        ));
    }
    let vector = match request.sparse_indices {
        Some(indices) => vector_input::Variant::Sparse(grpc::SparseVector {
            values: request.vector,
            indices: indices.data,
        }),
        None => vector_input::Variant::Dense(grpc::DenseVector {
            data: request.vector,
        }),
    };
    Ok(grpc::QueryPoints {
        collection_name: request.collection_name,
        query: Some(grpc::Query {
            variant: Some(query::Variant::Nearest(grpc::VectorInput {
                variant: Some(vector),
            })),
        }),
        using: request.vector_name,
        filter: request.filter,
        params: request.params,
        score_threshold: request.score_threshold,
        limit: Some(request.limit),
        offset: request.offset,
        with_vectors: request.with_vectors,
        with_payload: request.with_payload,
        ..Default::default()
    })
}

fn nearest(
    store: &Store,
    collection: &Collection,
    mut request: grpc::QueryPoints,
) -> Answer<Vec<grpc::ScoredPoint>> {
    if !request.prefetch.is_empty() || request.lookup_from.is_some() {
        return Err(unsupported("queries with a prefetch or a lookup"));
    }
    let scoring = scoring(collection, &mut request)?;
    let filter = optional_filter(request.filter)?;
    let limit = request.limit.map_or(10, size);
    let params = request.params.map(search_params).transpose()?;
    let read = Read {
        limit: Some(limit),
        filter: filter.as_ref(),
        exact: params.as_ref().is_some_and(|params| params.exact),
    };
    strict::check_read(collection, &read)?;
    // A shard leaves the offset to whoever merges the shards: that is here.
    let offset = request.offset.map_or(0, size);
    let query = QueryRequest {
        prefetches: Vec::new(),
        query: scoring,
        filter,
        score_threshold: score_threshold(request.score_threshold),
        limit: limit.saturating_add(offset),
        offset: 0,
        params,
        with_vector: with_vectors(request.with_vectors),
        with_payload: match request.with_payload {
            Some(selector) => with_payload(selector)?,
            None => WithPayloadInterface::Bool(false),
        },
    };
    let points = collection.shard().query(query).map_err(from_engine)?;
    let form = store.settings.form;
    Ok(points
        .into_iter()
        .skip(offset)
        .map(|point| wire_scored(point, form))
        .collect())
}

/// How to score. A query by id leaves the point itself out of the filter.
fn scoring(
    collection: &Collection,
    request: &mut grpc::QueryPoints,
) -> Answer<Option<ScoringQuery>> {
    let Some(query) = request.query.take() else {
        return Ok(None);
    };
    let input = match query.variant {
        Some(query::Variant::Nearest(input)) => input,
        Some(query::Variant::OrderBy(order)) => {
            return Ok(Some(ScoringQuery::OrderBy(order_by(order)?)));
        }
        Some(query::Variant::Sample(_)) => return Ok(Some(ScoringQuery::Sample(Sample::Random))),
        Some(_) => return Err(unsupported("this kind of query")),
        None => return Err(Status::invalid_argument("Query variant is missing")),
    };
    let using = request.using.clone().unwrap_or_default();
    let vector = match input.variant {
        Some(vector_input::Variant::Dense(dense)) => VectorInternal::Dense(dense.data),
        Some(vector_input::Variant::Sparse(given)) => {
            VectorInternal::Sparse(sparse(given.indices, given.values)?)
        }
        Some(vector_input::Variant::MultiDense(given)) => multi(rows(given))?,
        Some(vector_input::Variant::Id(id)) => {
            let vector = vector_of(collection, id.clone(), &using)?;
            request
                .filter
                .get_or_insert_default()
                .must_not
                .push(grpc::Condition {
                    condition_one_of: Some(ConditionOneOf::HasId(grpc::HasIdCondition {
                        has_id: vec![id],
                    })),
                });
            vector
        }
        Some(
            vector_input::Variant::Document(_)
            | vector_input::Variant::Image(_)
            | vector_input::Variant::Object(_),
        ) => return Err(unsupported("inference")),
        None => return Err(Status::invalid_argument("VectorInput variant is missing")),
    };
    let named = NamedQuery {
        query: vector,
        using: Some(using),
    };
    Ok(Some(ScoringQuery::Vector(QueryEnum::Nearest(named))))
}

/// The vector `name` of a stored point.
fn vector_of(collection: &Collection, id: grpc::PointId, name: &str) -> Answer<VectorInternal> {
    let id = point_id(id)?;
    let records = collection
        .shard()
        .retrieve(
            &[id],
            Some(WithPayloadInterface::Bool(false)),
            Some(WithVector::Bool(true)),
        )
        .map_err(from_engine)?;
    let Some(record) = records.into_iter().next() else {
        return Err(Status::not_found(format!(
            "Not found: No point with id {id}"
        )));
    };
    let vector = match record.vector {
        Some(VectorStructInternal::Single(data)) if name == DEFAULT_VECTOR_NAME => {
            Some(VectorInternal::Dense(data))
        }
        Some(VectorStructInternal::MultiDense(rows)) if name == DEFAULT_VECTOR_NAME => {
            Some(VectorInternal::MultiDense(rows))
        }
        Some(VectorStructInternal::Named(mut named)) => named.remove(name),
        _ => None,
    };
    vector.ok_or_else(|| wrong_input(format!("Not existing vector name error: {name}")))
}

fn search_params(params: grpc::SearchParams) -> Answer<SearchParams> {
    if params.idf.is_some() {
        return Err(unsupported("the idf parameter of a search"));
    }
    Ok(SearchParams {
        hnsw_ef: params.hnsw_ef.map(size),
        exact: params.exact.unwrap_or_default(),
        indexed_only: params.indexed_only.unwrap_or_default(),
        ..SearchParams::default()
    })
}
