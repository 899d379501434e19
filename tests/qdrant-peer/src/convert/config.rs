//! Collections: the config as reported, and the engine's config made from it.

#![expect(
    deprecated,
    reason = "servers before 1.19 know no other way to say where data is kept"
)]

use std::collections::HashMap;

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_edge::{
    DEFAULT_VECTOR_NAME, Distance, EdgeConfig, EdgeOptimizersConfig, EdgeSparseVectorParams,
    EdgeVectorParams, Modifier, MultiVectorComparator, MultiVectorConfig, VectorStorageDatatype,
};
use tonic::Status;

use super::size;
use crate::error::{Answer, invalid_field, unsupported};

/// The config of a new collection, with the server's defaults in the open places.
///
/// Settings of the vector index and the optimizers are kept and reported and have no effect: the peer scans.
pub(crate) fn collection_config(
    request: grpc::CreateCollection,
    strict_mode: Option<grpc::StrictModeConfig>,
) -> Answer<grpc::CollectionConfig> {
    if request.sharding_method == Some(grpc::ShardingMethod::Custom.into()) {
        return Err(unsupported("custom sharding"));
    }
    let params = grpc::CollectionParams {
        shard_number: request.shard_number.unwrap_or(1),
        on_disk_payload: request.on_disk_payload.unwrap_or(true),
        vectors_config: request.vectors_config,
        replication_factor: Some(request.replication_factor.unwrap_or(1)),
        write_consistency_factor: Some(request.write_consistency_factor.unwrap_or(1)),
        sparse_vectors_config: request.sparse_vectors_config,
        ..Default::default()
    };
    let wal = request.wal_config.unwrap_or_default();
    Ok(grpc::CollectionConfig {
        params: Some(params),
        hnsw_config: Some(hnsw(request.hnsw_config.unwrap_or_default())),
        optimizer_config: Some(optimizers(request.optimizers_config.unwrap_or_default())),
        wal_config: Some(grpc::WalConfigDiff {
            wal_capacity_mb: wal.wal_capacity_mb.or(Some(32)),
            wal_segments_ahead: wal.wal_segments_ahead.or(Some(0)),
            wal_retain_closed: wal.wal_retain_closed.or(Some(1)),
        }),
        quantization_config: request.quantization_config,
        strict_mode_config: request.strict_mode_config.or(strict_mode),
        metadata: request.metadata,
    })
}

fn hnsw(given: grpc::HnswConfigDiff) -> grpc::HnswConfigDiff {
    grpc::HnswConfigDiff {
        m: given.m.or(Some(16)),
        ef_construct: given.ef_construct.or(Some(100)),
        full_scan_threshold: given.full_scan_threshold.or(Some(10_000)),
        max_indexing_threads: given.max_indexing_threads.or(Some(0)),
        on_disk: given.on_disk.or(Some(false)),
        ..given
    }
}

fn optimizers(given: grpc::OptimizersConfigDiff) -> grpc::OptimizersConfigDiff {
    grpc::OptimizersConfigDiff {
        deleted_threshold: given.deleted_threshold.or(Some(0.2)),
        vacuum_min_vector_number: given.vacuum_min_vector_number.or(Some(1_000)),
        default_segment_number: given.default_segment_number.or(Some(0)),
        indexing_threshold: given.indexing_threshold.or(Some(10_000)),
        flush_interval_sec: given.flush_interval_sec.or(Some(5)),
        ..given
    }
}

/// The engine's config of a collection. Nothing is ever indexed by vector.
pub(crate) fn engine_config(config: &grpc::CollectionConfig) -> Answer<EdgeConfig> {
    let params = config.params.clone().unwrap_or_default();
    let vectors = match params.vectors_config.and_then(|vectors| vectors.config) {
        None => HashMap::new(),
        Some(Config::Params(params)) => {
            HashMap::from([(DEFAULT_VECTOR_NAME.to_owned(), dense(&params)?)])
        }
        Some(Config::ParamsMap(named)) => named
            .map
            .into_iter()
            .map(|(name, params)| dense(&params).map(|params| (name, params)))
            .collect::<Answer<_>>()?,
    };
    let sparse_vectors = params
        .sparse_vectors_config
        .unwrap_or_default()
        .map
        .into_iter()
        .map(|(name, params)| sparse(params).map(|params| (name, params)))
        .collect::<Answer<_>>()?;
    Ok(EdgeConfig {
        on_disk_payload: params.on_disk_payload,
        vectors,
        sparse_vectors,
        optimizers: EdgeOptimizersConfig {
            indexing_threshold: Some(usize::MAX),
            ..EdgeOptimizersConfig::default()
        },
        ..EdgeConfig::default()
    })
}

fn dense(params: &grpc::VectorParams) -> Answer<EdgeVectorParams> {
    if !(1..=65_536).contains(&params.size) {
        let problem = format!("value {} invalid, must be from 1 to 65536", params.size);
        return Err(invalid_field("size", problem));
    }
    let distance = match grpc::Distance::try_from(params.distance) {
        Ok(grpc::Distance::Cosine) => Distance::Cosine,
        Ok(grpc::Distance::Euclid) => Distance::Euclid,
        Ok(grpc::Distance::Dot) => Distance::Dot,
        Ok(grpc::Distance::Manhattan) => Distance::Manhattan,
        Ok(grpc::Distance::UnknownDistance) | Err(_) => {
            return Err(Status::invalid_argument("Bad value of distance field!"));
        }
    };
    let multivector_config = params.multivector_config.map(|_| MultiVectorConfig {
        comparator: MultiVectorComparator::MaxSim,
    });
    Ok(EdgeVectorParams {
        on_disk: params.on_disk,
        multivector_config,
        datatype: params.datatype.map(datatype).transpose()?.flatten(),
        ..EdgeVectorParams::builder(size(params.size), distance).build()
    })
}

fn sparse(params: grpc::SparseVectorParams) -> Answer<EdgeSparseVectorParams> {
    let index = params.index.unwrap_or_default();
    let modifier = params
        .modifier
        .map(|modifier| match grpc::Modifier::try_from(modifier) {
            Ok(grpc::Modifier::Idf) => Modifier::Idf,
            Ok(grpc::Modifier::None) | Err(_) => Modifier::None,
        });
    Ok(EdgeSparseVectorParams {
        full_scan_threshold: index.full_scan_threshold.map(size),
        on_disk: index.on_disk,
        modifier,
        datatype: index.datatype.map(datatype).transpose()?.flatten(),
    })
}

fn datatype(value: i32) -> Answer<Option<VectorStorageDatatype>> {
    match grpc::Datatype::try_from(value) {
        Ok(grpc::Datatype::Default) => Ok(None),
        Ok(grpc::Datatype::Float32) => Ok(Some(VectorStorageDatatype::Float32)),
        Ok(grpc::Datatype::Float16) => Ok(Some(VectorStorageDatatype::Float16)),
        Ok(grpc::Datatype::Uint8) => Ok(Some(VectorStorageDatatype::Uint8)),
        Ok(other) => Err(unsupported(format!("the datatype {}", other.as_str_name()))),
        Err(_) => Err(Status::invalid_argument("Cannot convert datatype")),
    }
}
