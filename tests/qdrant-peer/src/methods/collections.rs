//! Collections and their aliases.

use std::collections::BTreeMap;

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::alias_operations::Action;
use tonic::Status;

use crate::convert::config::collection_config;
use crate::convert::index::wire_info;
use crate::convert::wide;
use crate::error::{Answer, internal, no_collection, unsupported, wrong_input};
use crate::store::Store;
use crate::strict;

const DONE: grpc::CollectionOperationResponse = grpc::CollectionOperationResponse {
    result: true,
    time: 0.0,
};

pub(crate) fn get(
    store: &Store,
    request: grpc::GetCollectionInfoRequest,
) -> Answer<grpc::GetCollectionInfoResponse> {
    let collection = store.collection(&request.collection_name)?;
    let info = collection.info();
    let payload_schema = info
        .payload_schema
        .iter()
        .map(|(key, index)| (key.to_string(), wire_info(index)))
        .collect();
    Ok(grpc::GetCollectionInfoResponse {
        result: Some(grpc::CollectionInfo {
            status: grpc::CollectionStatus::Green.into(),
            optimizer_status: Some(grpc::OptimizerStatus {
                ok: true,
                error: String::new(),
            }),
            segments_count: wide(info.segments_count),
            config: Some(collection.config()),
            payload_schema,
            points_count: Some(wide(info.points_count)),
            indexed_vectors_count: Some(wide(info.indexed_vectors_count)),
            ..Default::default()
        }),
        time: 0.0,
    })
}

pub(crate) fn list(
    store: &Store,
    _: grpc::ListCollectionsRequest,
) -> Answer<grpc::ListCollectionsResponse> {
    let collections = store
        .names()
        .into_iter()
        .map(|name| grpc::CollectionDescription { name })
        .collect();
    Ok(grpc::ListCollectionsResponse {
        collections,
        time: 0.0,
    })
}

pub(crate) fn exists(
    store: &Store,
    request: grpc::CollectionExistsRequest,
) -> Answer<grpc::CollectionExistsResponse> {
    let exists = store.collection(&request.collection_name).is_ok();
    Ok(grpc::CollectionExistsResponse {
        result: Some(grpc::CollectionExists { exists }),
        time: 0.0,
    })
}

pub(crate) fn create(
    store: &Store,
    request: grpc::CreateCollection,
) -> Answer<grpc::CollectionOperationResponse> {
    let name = request.collection_name.clone();
    let config = collection_config(request, store.settings.strict_mode.clone())?;
    if let Some(mode) = &config.strict_mode_config {
        strict::check_supported(mode)?;
    }
    store.create(&name, config)?;
    Ok(DONE)
}

/// Only the strict mode can be changed, and how reads are spread, which is kept and reported and has no effect.
pub(crate) fn update(
    store: &Store,
    request: grpc::UpdateCollection,
) -> Answer<grpc::CollectionOperationResponse> {
    let collection = store.collection(&request.collection_name)?;
    let supported = grpc::UpdateCollection {
        collection_name: request.collection_name.clone(),
        timeout: request.timeout,
        strict_mode_config: request.strict_mode_config.clone(),
        params: request.params.as_ref().map(reads_only),
        ..Default::default()
    };
    if request != supported {
        return Err(unsupported("this change of a collection"));
    }
    if let Some(reads) = request.params {
        collection
            .change_config(|config| {
                let params = config.params.get_or_insert_default();
                params.read_fan_out_factor =
                    reads.read_fan_out_factor.or(params.read_fan_out_factor);
                params.read_fan_out_delay_ms =
                    reads.read_fan_out_delay_ms.or(params.read_fan_out_delay_ms);
            })
            .map_err(internal)?;
    }
    if let Some(mode) = request.strict_mode_config {
        strict::check_supported(&mode)?;
        let old = collection.config().strict_mode_config.unwrap_or_default();
        collection
            .change_config(|config| config.strict_mode_config = Some(strict::merged(old, &mode)))
            .map_err(internal)?;
    }
    Ok(DONE)
}

/// Of a change of the parameters, what the peer can do.
fn reads_only(change: &grpc::CollectionParamsDiff) -> grpc::CollectionParamsDiff {
    grpc::CollectionParamsDiff {
        read_fan_out_factor: change.read_fan_out_factor,
        read_fan_out_delay_ms: change.read_fan_out_delay_ms,
        ..Default::default()
    }
}

pub(crate) fn delete(
    store: &Store,
    request: grpc::DeleteCollection,
) -> Answer<grpc::CollectionOperationResponse> {
    let result = store.delete(&request.collection_name)?;
    Ok(grpc::CollectionOperationResponse { result, time: 0.0 })
}

pub(crate) fn list_aliases(
    store: &Store,
    _: grpc::ListAliasesRequest,
) -> Answer<grpc::ListAliasesResponse> {
    Ok(described(store.all_aliases()))
}

pub(crate) fn list_collection_aliases(
    store: &Store,
    request: grpc::ListCollectionAliasesRequest,
) -> Answer<grpc::ListAliasesResponse> {
    let mut aliases = store.all_aliases();
    aliases.retain(|_, collection| *collection == request.collection_name);
    Ok(described(aliases))
}

pub(crate) fn update_aliases(
    store: &Store,
    request: grpc::ChangeAliases,
) -> Answer<grpc::CollectionOperationResponse> {
    let names = store.names();
    let mut aliases = store.all_aliases();
    for operation in request.actions {
        match operation.action {
            Some(Action::CreateAlias(create)) => {
                if !names.contains(&create.collection_name) {
                    return Err(no_collection(&create.collection_name));
                }
                if names.contains(&create.alias_name) {
                    let name = create.alias_name;
                    return Err(wrong_input(format!(
                        "Collection with the same name exists: {name}"
                    )));
                }
                aliases.insert(create.alias_name, create.collection_name);
            }
            Some(Action::DeleteAlias(delete)) => drop(aliases.remove(&delete.alias_name)),
            Some(Action::RenameAlias(rename)) => {
                let Some(collection) = aliases.remove(&rename.old_alias_name) else {
                    let name = rename.old_alias_name;
                    return Err(Status::not_found(format!(
                        "Not found: Alias {name} does not exists!"
                    )));
                };
                aliases.insert(rename.new_alias_name, collection);
            }
            None => return Err(Status::invalid_argument("Malformed AliasOperation type")),
        }
    }
    store.change_aliases(|current| *current = aliases)?;
    Ok(DONE)
}

fn described(aliases: BTreeMap<String, String>) -> grpc::ListAliasesResponse {
    let aliases = aliases
        .into_iter()
        .map(|(alias_name, collection_name)| grpc::AliasDescription {
            alias_name,
            collection_name,
        })
        .collect();
    grpc::ListAliasesResponse { aliases, time: 0.0 }
}
