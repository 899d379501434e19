//! A Qdrant collection over gRPC.
//!
//! Mechanics: [`calls`] makes single calls safe (time, retries, stop), [`convert`] translates, [`read`] and [`mod@write`]
//! put the operations of the trait together from the [`pages`] and batches that fit one message. [`snapshot`] copies
//! whole collections, over REST; [`anew`] writes one anew beside another.
//!
//! Policy: a write counts when the server says Completed and a read afterwards shows it. A point is removed when a read
//! right before shows it as it was captured: the server has no conditional removal, so what is written between that
//! read and the removal, one round trip, is lost. A listing counts when its last
//! page has come. A point belongs to a namespace when its key has exactly that one value: the filter of the server
//! also finds lists that contain it, and those are left alone. Where a filter says which points are the store's, the
//! server is asked for those only, and what it sends is looked at again: its payload index may be stale.

use std::collections::BTreeMap;

use qdrant_client::qdrant::vectors_config::Config as VectorsConfig;
use qdrant_client::qdrant::{CollectionInfo, PayloadSchemaType, VectorParams};

use crate::config::{self, PayloadFilter};
use crate::stop::Stop;

use super::VectorError;
use calls::Calls;

pub use lists::{Relist, Relisted};
pub use pages::Page;
pub use read::payload_of;

mod anew;
mod calls;
pub mod catalog;
mod convert;
mod lists;
mod pages;
mod read;
mod scheme;
pub mod snapshot;
pub mod tenants;
mod write;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

/// Bytes that one message should hold: half of the 4 MB that many servers and proxies let through.
const MESSAGE_BYTES: u64 = 2 << 20;
/// Vectors that a point with several under one name is taken to have.
const MULTI_GUESS: u64 = 32;
/// Values that a sparse vector is taken to have.
const SPARSE_GUESS: u64 = 256;
/// Bytes that a whole payload is taken to have.
const PAYLOAD_GUESS: u64 = 4 << 10;

/// A collection of a Qdrant server.
pub struct QdrantVectors {
    calls: Calls,
    namespace_key: String,
    /// The name of the vector that passes compare.
    vector: String,
    /// Which points are the store's.
    filter: PayloadFilter,
    schema: Schema,
}

/// What the server says of the collection.
#[derive(Debug, Clone, Default)]
struct Schema {
    dense: BTreeMap<String, VectorParams>,
    sparse: Vec<String>,
    /// The indexed payload keys.
    indexed: BTreeMap<String, PayloadSchemaType>,
}

impl QdrantVectors {
    /// Reaches the server and checks that it has the collection and the configured vector.
    ///
    /// # Errors
    ///
    /// When the server is away or refuses the key, or the collection or the vector is missing.
    pub fn connect(
        config: &config::Qdrant,
        namespace_key: &str,
        stop: Stop,
    ) -> Result<Self, VectorError> {
        let calls = Calls::new(config, stop)?;
        Self::on(calls, namespace_key, &config.vector, &config.filter)
    }

    /// Checks that the server has the collection at the end of a way, and the vector.
    fn on(
        calls: Calls,
        namespace_key: &str,
        vector: &str,
        filter: &PayloadFilter,
    ) -> Result<Self, VectorError> {
        let info = info(&calls)?;
        let schema = Schema::from(info);
        schema.check_vector(calls.collection(), vector)?;
        Ok(Self {
            calls,
            namespace_key: namespace_key.to_owned(),
            vector: vector.to_owned(),
            filter: filter.clone(),
            schema,
        })
    }

    fn is_namespace_indexed(&self) -> bool {
        self.schema.indexed.get(&self.namespace_key) == Some(&PayloadSchemaType::Keyword)
    }
}

impl Schema {
    /// The vector that passes compare must be there, unless the collection has no dense vector at all.
    fn check_vector(&self, collection: &str, vector: &str) -> Result<(), VectorError> {
        if self.dense.contains_key(vector) || (vector.is_empty() && self.dense.is_empty()) {
            return Ok(());
        }
        let others: Vec<_> = self.dense.keys().map(|name| format!("{name:?}")).collect();
        Err(VectorError::Missing {
            what: format!(
                "vector {vector:?} of collection {collection:?} (it has {})",
                others.join(", ")
            ),
        })
    }

    /// The bytes that all vectors of a point are likely to take.
    fn vector_bytes(&self) -> u64 {
        let dense: u64 = self
            .dense
            .values()
            .map(|params| match params.multivector_config {
                Some(_) => params.size * 4 * MULTI_GUESS,
                None => params.size * 4,
            })
            .sum();
        dense + self.sparse.len() as u64 * SPARSE_GUESS * 8
    }
}

impl From<CollectionInfo> for Schema {
    fn from(info: CollectionInfo) -> Self {
        let params = info.config.and_then(|config| config.params);
        let (vectors, sparse) = params.map_or((None, None), |params| {
            (params.vectors_config, params.sparse_vectors_config)
        });
        let dense = match vectors.and_then(|vectors| vectors.config) {
            Some(VectorsConfig::Params(params)) => BTreeMap::from([(String::new(), params)]),
            Some(VectorsConfig::ParamsMap(named)) => named.map.into_iter().collect(),
            None => BTreeMap::new(),
        };
        let mut sparse: Vec<_> = sparse
            .map(|sparse| sparse.map.into_keys().collect())
            .unwrap_or_default();
        sparse.sort();
        Self {
            dense,
            sparse,
            indexed: info
                .payload_schema
                .into_iter()
                .map(|(key, index)| (key, index.data_type()))
                .collect(),
        }
    }
}

/// What the server says of the collection at the end of a way.
fn info(calls: &Calls) -> Result<CollectionInfo, VectorError> {
    let name = calls.collection().to_owned();
    let answer = calls.run("describing the collection", |client| {
        let name = name.clone();
        async move { client.collection_info(name).await }
    })?;
    answer.result.ok_or_else(|| VectorError::Refused {
        call: "describing the collection",
        reason: "the answer is empty".to_owned(),
    })
}

/// Points of `bytes` each that one message holds, at least one and at most `most`.
fn page_of(bytes: u64, most: usize) -> usize {
    usize::try_from(MESSAGE_BYTES / bytes.max(1)).map_or(most, |page| page.clamp(1, most))
}
