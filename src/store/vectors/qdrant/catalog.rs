//! What a server holds, before anybody knows which of it is meant.

use std::collections::BTreeSet;

use qdrant_client::qdrant::{ScrollPoints, VectorParams};
use serde_json::{Map, Value};

use crate::config;
use crate::stop::Stop;
use crate::store::vectors::VectorError;

use super::calls::Calls;
use super::{Schema, convert, info};

/// A server, whatever its collections are.
pub struct Catalog {
    calls: Calls,
}

impl Catalog {
    /// Prepares the way; nothing is sent yet. The collection of `config` does not matter.
    ///
    /// # Errors
    ///
    /// When no client can be made for the address or the key.
    pub fn of(config: &config::Qdrant, stop: Stop) -> Result<Self, VectorError> {
        Calls::new(config, stop).map(|calls| Self { calls })
    }

    /// The names of all collections.
    ///
    /// # Errors
    ///
    /// When the server is away or refuses the key.
    pub fn collections(&self) -> Result<BTreeSet<String>, VectorError> {
        let answer = self.calls.run("listing collections", |client| async move {
            client.list_collections().await
        })?;
        let names = answer.collections.into_iter();
        Ok(names.map(|collection| collection.name).collect())
    }

    /// The names of the vectors of a collection, in order; none where it has an unnamed one, which needs no name. One vector
    /// of each point is what passes compare: those of several are named only where there is no other.
    ///
    /// # Errors
    ///
    /// When the server does not say.
    pub fn vectors(&self, collection: &str) -> Result<Vec<String>, VectorError> {
        let dense = Schema::from(info(&self.calls.to(collection))?).dense;
        if dense.contains_key("") {
            return Ok(Vec::new());
        }
        let is_one = |params: &VectorParams| params.multivector_config.is_none();
        let (ones, several): (Vec<_>, Vec<_>) =
            dense.into_iter().partition(|(_, params)| is_one(params));
        let named = if ones.is_empty() { several } else { ones };
        Ok(named.into_iter().map(|(name, _)| name).collect())
    }

    /// The payloads of some points of a collection, `most` at most.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn payloads(
        &self,
        collection: &str,
        most: u32,
    ) -> Result<Vec<Map<String, Value>>, VectorError> {
        let request = ScrollPoints {
            collection_name: collection.to_owned(),
            limit: Some(most),
            with_payload: Some(true.into()),
            with_vectors: Some(false.into()),
            ..ScrollPoints::default()
        };
        let answer = self.calls.run("looking at points", |client| {
            let request = request.clone();
            async move { client.scroll(request).await }
        })?;
        let points = answer.result.into_iter();
        Ok(points
            .map(|point| convert::payload(point.payload))
            .collect())
    }
}
