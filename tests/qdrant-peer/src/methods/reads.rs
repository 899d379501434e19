//! Points by id, by page, by count and by value.

use qdrant_client::qdrant as grpc;
use qdrant_edge::{
    CountRequest, FacetRequest, OrderByInterface, ScrollRequest, WithPayloadInterface,
};

use crate::convert::filter::{optional_filter, order_by, with_payload, with_vectors};
use crate::convert::point::{wire_facet, wire_record};
use crate::convert::{json_path, point_id, point_ids, size, wide, wire_id};
use crate::error::{Answer, from_engine, invalid_field, wrong_input};
use crate::store::Store;
use crate::strict::{self, Read};

/// Without a selector no payload comes, unlike in a scroll.
pub(crate) fn get(store: &Store, request: grpc::GetPoints) -> Answer<grpc::GetResponse> {
    let ids = point_ids(request.ids)?;
    let payload = match request.with_payload {
        Some(selector) => with_payload(selector)?,
        None => WithPayloadInterface::Bool(false),
    };
    let vectors = with_vectors(request.with_vectors);
    let collection = store.collection(&request.collection_name)?;
    let records = collection
        .shard()
        .retrieve(&ids, Some(payload), Some(vectors))
        .map_err(from_engine)?;
    let form = store.settings.form;
    Ok(grpc::GetResponse {
        result: records
            .into_iter()
            .map(|record| wire_record(record, form))
            .collect(),
        ..Default::default()
    })
}

pub(crate) fn scroll(store: &Store, request: grpc::ScrollPoints) -> Answer<grpc::ScrollResponse> {
    if request.limit == Some(0) {
        return Err(invalid_field(
            "limit",
            "value 0 invalid, must be 1 or larger",
        ));
    }
    let limit = request.limit.map_or(10, |limit| size(limit.into()));
    let filter = optional_filter(request.filter)?;
    let collection = store.collection(&request.collection_name)?;
    let read = Read {
        limit: Some(limit),
        filter: filter.as_ref(),
        exact: false,
    };
    strict::check_read(&collection, &read)?;
    let order = request.order_by.map(order_by).transpose()?;
    if order.is_some() && request.offset.is_some() {
        return Err(wrong_input(
            "Cannot use an `offset` when using `order_by`. The alternative for paging is to use `order_by.start_from` \
             and a filter to exclude the IDs that you've already seen for the `order_by.start_from` value",
        ));
    }
    let page = ScrollRequest {
        offset: request.offset.map(point_id).transpose()?,
        limit: Some(limit),
        filter,
        with_payload: request.with_payload.map(with_payload).transpose()?,
        with_vector: with_vectors(request.with_vectors),
        order_by: order.map(OrderByInterface::Struct),
    };
    let (records, next) = collection.shard().scroll(page).map_err(from_engine)?;
    let form = store.settings.form;
    Ok(grpc::ScrollResponse {
        next_page_offset: next.map(wire_id),
        result: records
            .into_iter()
            .map(|record| wire_record(record, form))
            .collect(),
        ..Default::default()
    })
}

/// Exact unless asked otherwise.
pub(crate) fn count(store: &Store, request: grpc::CountPoints) -> Answer<grpc::CountResponse> {
    let filter = optional_filter(request.filter)?;
    let exact = request.exact.unwrap_or(true);
    let collection = store.collection(&request.collection_name)?;
    let read = Read {
        limit: None,
        filter: filter.as_ref(),
        exact,
    };
    strict::check_read(&collection, &read)?;
    let count = collection
        .shard()
        .count(CountRequest { filter, exact })
        .map_err(from_engine)?;
    Ok(grpc::CountResponse {
        result: Some(grpc::CountResult { count: wide(count) }),
        ..Default::default()
    })
}

/// Ten values unless asked for more, approximate unless asked otherwise.
pub(crate) fn facet(store: &Store, request: grpc::FacetCounts) -> Answer<grpc::FacetResponse> {
    if request.limit == Some(0) {
        return Err(invalid_field(
            "limit",
            "value 0 invalid, must be 1 or larger",
        ));
    }
    let filter = optional_filter(request.filter)?;
    let limit = request.limit.map_or(FacetRequest::DEFAULT_LIMIT, size);
    let exact = request.exact.unwrap_or(false);
    let collection = store.collection(&request.collection_name)?;
    let read = Read {
        limit: Some(limit),
        filter: filter.as_ref(),
        exact,
    };
    strict::check_read(&collection, &read)?;
    let facet = FacetRequest {
        key: json_path(&request.key)?,
        limit,
        filter,
        exact,
    };
    let response = collection.shard().facet(facet).map_err(from_engine)?;
    Ok(grpc::FacetResponse {
        hits: response
            .hits
            .into_iter()
            .map(|hit| wire_facet(hit.value, hit.count))
            .collect(),
        ..Default::default()
    })
}
