//! Changes of points, payloads, vectors and indexes.
//!
//! Each is one operation of the engine, handed to [`Store::write`], which decides when it is made and what is answered.

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::points_update_operation::Operation;
use qdrant_edge::{
    ConditionalInsertOperation, CreateIndex, DeletePayloadOp, FieldIndexOperations, PayloadOps,
    PointIdsList, PointInsertOperations, PointOperations, SetPayloadOp, UpdateMode,
    UpdateOperation, UpdateVectorsOp, VectorOperations,
};
use tonic::Status;

use crate::convert::filter::{Selected, optional_filter, selected};
use crate::convert::index::schema;
use crate::convert::json_path;
use crate::convert::payload::payload;
use crate::convert::point::{point, point_vectors};
use crate::error::Answer;
use crate::store::Store;
use crate::strict;

type Done = Answer<grpc::PointsOperationResponse>;

pub(crate) fn upsert(store: &Store, request: grpc::UpsertPoints) -> Done {
    let points: Vec<_> = request
        .points
        .into_iter()
        .map(point)
        .collect::<Answer<_>>()?;
    let condition = optional_filter(request.update_filter)?;
    let collection = store.collection(&request.collection_name)?;
    strict::check_batch(&collection, points.len(), "upsert limit")?;
    let points_op = PointInsertOperations::PointsList(points);
    let operation = match (condition, request.update_mode.and_then(update_mode)) {
        (None, None) => PointOperations::UpsertPoints(points_op),
        (condition, update_mode) => {
            PointOperations::UpsertPointsConditional(ConditionalInsertOperation {
                points_op,
                condition: condition.unwrap_or_default(),
                update_mode,
            })
        }
    };
    let operation = UpdateOperation::PointOperation(operation);
    store
        .write("Points/Upsert", &collection, request.wait, operation)
        .map(done)
}

pub(crate) fn delete(store: &Store, request: grpc::DeletePoints) -> Done {
    let points = required(request.points, "PointSelector is missing")?;
    let collection = store.collection(&request.collection_name)?;
    strict::check_write(&collection, points.filter())?;
    let operation = match points {
        Selected::Ids(mut ids) => {
            ids.truncate(ids.len().saturating_sub(store.faults.delete_keeps()));
            PointOperations::DeletePoints { ids }
        }
        Selected::Filter(filter) => PointOperations::DeletePointsByFilter(filter),
    };
    let operation = UpdateOperation::PointOperation(operation);
    store
        .write("Points/Delete", &collection, request.wait, operation)
        .map(done)
}

pub(crate) fn set_payload(store: &Store, request: grpc::SetPayloadPoints) -> Done {
    let key = request.key.as_deref().map(json_path).transpose()?;
    let points = required(request.points_selector, "points_selector is expected")?;
    let collection = store.collection(&request.collection_name)?;
    strict::check_write(&collection, points.filter())?;
    let (points, filter) = points.into_parts();
    let operation = UpdateOperation::PayloadOperation(PayloadOps::SetPayload(SetPayloadOp {
        payload: payload(request.payload)?,
        points,
        filter,
        key,
    }));
    store
        .write("Points/SetPayload", &collection, request.wait, operation)
        .map(done)
}

pub(crate) fn overwrite_payload(store: &Store, request: grpc::SetPayloadPoints) -> Done {
    let points = required(request.points_selector, "points_selector is expected")?;
    let collection = store.collection(&request.collection_name)?;
    strict::check_write(&collection, points.filter())?;
    let (points, filter) = points.into_parts();
    let operation = UpdateOperation::PayloadOperation(PayloadOps::OverwritePayload(SetPayloadOp {
        payload: payload(request.payload)?,
        points,
        filter,
        key: None,
    }));
    store
        .write(
            "Points/OverwritePayload",
            &collection,
            request.wait,
            operation,
        )
        .map(done)
}

pub(crate) fn delete_payload(store: &Store, request: grpc::DeletePayloadPoints) -> Done {
    let keys = request
        .keys
        .iter()
        .map(|key| json_path(key))
        .collect::<Answer<_>>()?;
    let points = required(request.points_selector, "points_selector is expected")?;
    let collection = store.collection(&request.collection_name)?;
    strict::check_write(&collection, points.filter())?;
    let (points, filter) = points.into_parts();
    let operation = UpdateOperation::PayloadOperation(PayloadOps::DeletePayload(DeletePayloadOp {
        keys,
        points,
        filter,
    }));
    store
        .write("Points/DeletePayload", &collection, request.wait, operation)
        .map(done)
}

pub(crate) fn clear_payload(store: &Store, request: grpc::ClearPayloadPoints) -> Done {
    let points = required(request.points, "PointSelector is missing")?;
    let collection = store.collection(&request.collection_name)?;
    strict::check_write(&collection, points.filter())?;
    let operation = UpdateOperation::PayloadOperation(match points {
        Selected::Ids(points) => PayloadOps::ClearPayload { points },
        Selected::Filter(filter) => PayloadOps::ClearPayloadByFilter(filter),
    });
    store
        .write("Points/ClearPayload", &collection, request.wait, operation)
        .map(done)
}

pub(crate) fn update_vectors(store: &Store, request: grpc::UpdatePointVectors) -> Done {
    let points: Vec<_> = request
        .points
        .into_iter()
        .map(point_vectors)
        .collect::<Answer<_>>()?;
    let update_filter = optional_filter(request.update_filter)?;
    let collection = store.collection(&request.collection_name)?;
    strict::check_batch(&collection, points.len(), "update limit")?;
    let operation =
        UpdateOperation::VectorOperation(VectorOperations::UpdateVectors(UpdateVectorsOp {
            points,
            update_filter,
        }));
    store
        .write("Points/UpdateVectors", &collection, request.wait, operation)
        .map(done)
}

pub(crate) fn delete_vectors(store: &Store, request: grpc::DeletePointVectors) -> Done {
    let points = required(request.points_selector, "points_selector is expected")?;
    let names = request
        .vectors
        .ok_or_else(|| Status::invalid_argument("vectors is expected"))?
        .names;
    let collection = store.collection(&request.collection_name)?;
    strict::check_write(&collection, points.filter())?;
    let operation = UpdateOperation::VectorOperation(match points {
        Selected::Ids(ids) => VectorOperations::DeleteVectors(PointIdsList::from(ids), names),
        Selected::Filter(filter) => VectorOperations::DeleteVectorsByFilter(filter, names),
    });
    store
        .write("Points/DeleteVectors", &collection, request.wait, operation)
        .map(done)
}

pub(crate) fn create_field_index(store: &Store, request: grpc::CreateFieldIndexCollection) -> Done {
    let index = CreateIndex {
        field_name: json_path(&request.field_name)?,
        field_schema: Some(schema(request.field_type, request.field_index_params)?),
    };
    let collection = store.collection(&request.collection_name)?;
    let operation = UpdateOperation::FieldIndexOperation(FieldIndexOperations::CreateIndex(index));
    store
        .write(
            "Points/CreateFieldIndex",
            &collection,
            request.wait,
            operation,
        )
        .map(done)
}

pub(crate) fn delete_field_index(store: &Store, request: grpc::DeleteFieldIndexCollection) -> Done {
    let key = json_path(&request.field_name)?;
    let collection = store.collection(&request.collection_name)?;
    let operation = UpdateOperation::FieldIndexOperation(FieldIndexOperations::DeleteIndex(key));
    store
        .write(
            "Points/DeleteFieldIndex",
            &collection,
            request.wait,
            operation,
        )
        .map(done)
}

/// The operations one by one, up to the first that fails.
pub(crate) fn update_batch(
    store: &Store,
    request: grpc::UpdateBatchPoints,
) -> Answer<grpc::UpdateBatchResponse> {
    let (name, wait) = (request.collection_name, request.wait);
    let mut result = Vec::with_capacity(request.operations.len());
    for operation in request.operations {
        let operation = operation
            .operation
            .ok_or_else(|| Status::invalid_argument("Operation is missing"))?;
        result.extend(update_one(store, name.clone(), wait, operation)?.result);
    }
    Ok(grpc::UpdateBatchResponse {
        result,
        ..Default::default()
    })
}

#[expect(deprecated, reason = "clients may still send the operations of old")]
fn update_one(
    store: &Store,
    collection_name: String,
    wait: Option<bool>,
    operation: Operation,
) -> Done {
    match operation {
        Operation::Upsert(list) => upsert(
            store,
            grpc::UpsertPoints {
                collection_name,
                wait,
                points: list.points,
                update_filter: list.update_filter,
                update_mode: list.update_mode,
                ..Default::default()
            },
        ),
        Operation::DeletePoints(grpc::points_update_operation::DeletePoints { points, .. }) => {
            delete_selected(store, collection_name, wait, points)
        }
        Operation::DeleteDeprecated(points) => {
            delete_selected(store, collection_name, wait, Some(points))
        }
        Operation::SetPayload(set) => set_payload(
            store,
            grpc::SetPayloadPoints {
                collection_name,
                wait,
                payload: set.payload,
                points_selector: set.points_selector,
                key: set.key,
                ..Default::default()
            },
        ),
        Operation::OverwritePayload(set) => overwrite_payload(
            store,
            grpc::SetPayloadPoints {
                collection_name,
                wait,
                payload: set.payload,
                points_selector: set.points_selector,
                ..Default::default()
            },
        ),
        Operation::DeletePayload(delete) => delete_payload(
            store,
            grpc::DeletePayloadPoints {
                collection_name,
                wait,
                keys: delete.keys,
                points_selector: delete.points_selector,
                ..Default::default()
            },
        ),
        Operation::ClearPayload(grpc::points_update_operation::ClearPayload { points, .. }) => {
            clear_selected(store, collection_name, wait, points)
        }
        Operation::ClearPayloadDeprecated(points) => {
            clear_selected(store, collection_name, wait, Some(points))
        }
        Operation::UpdateVectors(update) => update_vectors(
            store,
            grpc::UpdatePointVectors {
                collection_name,
                wait,
                points: update.points,
                update_filter: update.update_filter,
                ..Default::default()
            },
        ),
        Operation::DeleteVectors(delete) => delete_vectors(
            store,
            grpc::DeletePointVectors {
                collection_name,
                wait,
                points_selector: delete.points_selector,
                vectors: delete.vectors,
                ..Default::default()
            },
        ),
    }
}

fn delete_selected(
    store: &Store,
    collection_name: String,
    wait: Option<bool>,
    points: Option<grpc::PointsSelector>,
) -> Done {
    let request = grpc::DeletePoints {
        collection_name,
        wait,
        points,
        ..Default::default()
    };
    delete(store, request)
}

fn clear_selected(
    store: &Store,
    collection_name: String,
    wait: Option<bool>,
    points: Option<grpc::PointsSelector>,
) -> Done {
    let request = grpc::ClearPayloadPoints {
        collection_name,
        wait,
        points,
        ..Default::default()
    };
    clear_payload(store, request)
}

fn required(selector: Option<grpc::PointsSelector>, missing: &str) -> Answer<Selected> {
    selected(selector.ok_or_else(|| Status::invalid_argument(missing))?)
}

/// The default mode is no mode.
fn update_mode(mode: i32) -> Option<UpdateMode> {
    match grpc::UpdateMode::try_from(mode) {
        Ok(grpc::UpdateMode::InsertOnly) => Some(UpdateMode::InsertOnly),
        Ok(grpc::UpdateMode::UpdateOnly) => Some(UpdateMode::UpdateOnly),
        Ok(grpc::UpdateMode::Upsert) | Err(_) => None,
    }
}

fn done(result: grpc::UpdateResult) -> grpc::PointsOperationResponse {
    grpc::PointsOperationResponse {
        result: Some(result),
        ..Default::default()
    }
}
