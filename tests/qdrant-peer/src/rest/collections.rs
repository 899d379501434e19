//! What a collection is, what it is called, and which nodes hold it.

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::alias_operations::Action;
use qdrant_client::qdrant::vectors_config::Config;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::{Answer, bad_request};
use crate::methods::collections;
use crate::store::Store;

pub(super) fn get(store: &Store, name: &str) -> Answer<Value> {
    let collection = store.collection(name)?;
    let info = collection.info();
    let params = collection.config().params.unwrap_or_default();
    let payload_schema: Map<String, Value> = info
        .payload_schema
        .iter()
        .map(|(key, index)| (key.to_string(), json!(index)))
        .collect();
    Ok(json!({
        "status": "green",
        "optimizer_status": "ok",
        "segments_count": info.segments_count,
        "points_count": info.points_count,
        "indexed_vectors_count": info.indexed_vectors_count,
        "config": {"params": {
            "vectors": vectors(params.vectors_config),
            "sparse_vectors": sparse(params.sparse_vectors_config),
            "shard_number": params.shard_number,
            "replication_factor": params.replication_factor,
            "write_consistency_factor": params.write_consistency_factor,
            "read_fan_out_factor": params.read_fan_out_factor,
            "read_fan_out_delay_ms": params.read_fan_out_delay_ms,
        }},
        "payload_schema": payload_schema,
    }))
}

fn vectors(config: Option<grpc::VectorsConfig>) -> Value {
    let dense = |params: grpc::VectorParams| {
        let distance = format!("{:?}", params.distance());
        json!({"size": params.size, "distance": distance})
    };
    match config.and_then(|config| config.config) {
        Some(Config::Params(params)) => dense(params),
        Some(Config::ParamsMap(named)) => named
            .map
            .into_iter()
            .map(|(name, params)| (name, dense(params)))
            .collect(),
        None => json!({}),
    }
}

fn sparse(config: Option<grpc::SparseVectorConfig>) -> Value {
    config.map_or(Value::Null, |config| {
        config
            .map
            .into_keys()
            .map(|name| (name, json!({})))
            .collect()
    })
}

/// Every alias, or those of one collection.
pub(super) fn aliases(store: &Store, of: Option<&str>) -> Value {
    let mut aliases = store.all_aliases();
    aliases.retain(|_, collection| of.is_none_or(|of| collection == of));
    let aliases: Vec<Value> = aliases
        .into_iter()
        .map(|(alias, collection)| json!({"alias_name": alias, "collection_name": collection}))
        .collect();
    json!({"aliases": aliases})
}

#[derive(Debug, Deserialize)]
struct AliasChange {
    actions: Vec<AliasAction>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the names on the wire")]
enum AliasAction {
    CreateAlias {
        collection_name: String,
        alias_name: String,
    },
    DeleteAlias {
        alias_name: String,
    },
    RenameAlias {
        old_alias_name: String,
        new_alias_name: String,
    },
}

/// All actions or none.
pub(super) fn update_aliases(store: &Store, body: &[u8]) -> Answer<Value> {
    let change: AliasChange = serde_json::from_slice(body).map_err(bad_request)?;
    let actions = change.actions.into_iter().map(|action| {
        let action = match action {
            AliasAction::CreateAlias {
                collection_name,
                alias_name,
            } => Action::CreateAlias(grpc::CreateAlias {
                collection_name,
                alias_name,
            }),
            AliasAction::DeleteAlias { alias_name } => {
                Action::DeleteAlias(grpc::DeleteAlias { alias_name })
            }
            AliasAction::RenameAlias {
                old_alias_name,
                new_alias_name,
            } => Action::RenameAlias(grpc::RenameAlias {
                old_alias_name,
                new_alias_name,
            }),
        };
        grpc::AliasOperations {
            action: Some(action),
        }
    });
    let request = grpc::ChangeAliases {
        actions: actions.collect(),
        timeout: None,
    };
    collections::update_aliases(store, request).map(|done| Value::from(done.result))
}

/// The nodes.
pub(super) fn cluster(store: &Store) -> Value {
    let Some(cluster) = &store.settings.cluster else {
        return json!({"status": "disabled"});
    };
    let peers: Map<String, Value> = cluster
        .peers
        .iter()
        .map(|(id, uri)| (id.to_string(), json!({"uri": uri})))
        .collect();
    json!({
        "status": "enabled",
        "peer_id": cluster.peer_id,
        "peers": peers,
        "raft_info": {"role": "Leader", "is_voter": true},
        "consensus_thread_status": {"consensus_thread_status": "working"},
        "message_send_failures": {},
    })
}

/// Which node holds which shard: the first node shard 0, and so on.
pub(super) fn shards(store: &Store, name: &str) -> Answer<Value> {
    let points = store.collection(name)?.info().points_count;
    let here = store.peer_id();
    let peers: Vec<u64> = match &store.settings.cluster {
        Some(cluster) => cluster.peers.keys().copied().collect(),
        None => vec![here],
    };
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for (shard, peer) in peers.iter().enumerate() {
        if *peer == here {
            local.push(json!({"shard_id": shard, "points_count": points, "state": "Active"}));
        } else {
            remote.push(json!({"shard_id": shard, "peer_id": peer, "state": "Active"}));
        }
    }
    Ok(json!({
        "peer_id": here,
        "shard_count": peers.len(),
        "local_shards": local,
        "remote_shards": remote,
        "shard_transfers": [],
    }))
}
