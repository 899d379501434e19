//! Reading: counts, namespaces, searches, points by id.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

use prost::Message as _;
use qdrant_client::qdrant::{
    self, CountPoints, Distance, FacetCounts, Filter, PointStruct, ShardKeySelector, UpsertPoints,
    VectorsSelector, WithVectorsSelector, facet_value, with_vectors_selector,
};
use serde_json::{Map, Value};

use crate::memory::PointId;
use crate::store::image::PointImage;
use crate::store::vectors::{
    Captured, Description, PointHead, Selector, VectorError, VectorReader, payload,
};

use super::pages::{HEAD_BYTES, KEY_BYTES, LARGEST_BATCH, include};
use super::{QdrantVectors, convert, page_of};

/// Values that a search names at once.
const VALUES: usize = 200;
/// Values that the first facet asks for.
const FACET_LIMIT: u64 = 10_000;
/// The factor by which a facet that came back full is asked again.
const FACET_GROWTH: u64 = 8;

impl VectorReader for QdrantVectors {
    fn describe(&self) -> Result<Description, VectorError> {
        let health = self
            .calls
            .run("asking for the version", |client| async move {
                client.health_check().await
            })?;
        let compared = self.schema.dense.get(&self.vector);
        let distance = compared
            .and_then(|params| Distance::try_from(params.distance).ok())
            .filter(|distance| *distance != Distance::UnknownDistance)
            .map(|distance| distance.as_str_name().to_owned());
        Ok(Description {
            backend: "qdrant",
            version: health.version,
            points: self.count(Selector::All)?,
            dimensions: compared.map(|params| params.size),
            distance,
            vectors: self
                .schema
                .dense
                .keys()
                .chain(&self.schema.sparse)
                .cloned()
                .collect(),
            namespace_indexed: self.is_namespace_indexed(),
        })
    }

    fn namespaces(&self) -> Result<Vec<(String, u64)>, VectorError> {
        // A facet cannot be looked at again.
        if self.is_namespace_indexed() && self.filter.is_empty() {
            match self.facet_namespaces() {
                // A server that does not facet, or not that far, can still be asked for every point.
                Err(VectorError::Refused { .. } | VectorError::MissingIndex { .. }) => {}
                listed => return listed,
            }
        }
        self.scroll_namespaces()
    }

    fn count(&self, of: Selector<'_>) -> Result<u64, VectorError> {
        if !self.filter.is_empty() {
            return self.count_seen(of);
        }
        let request = CountPoints {
            collection_name: self.calls.collection().to_owned(),
            filter: convert::filter(of, &self.namespace_key),
            exact: Some(true),
            ..CountPoints::default()
        };
        let answer = self.calls.run("counting points", |client| {
            let request = request.clone();
            async move { client.count(request).await }
        })?;
        answer
            .result
            .map(|result| result.count)
            .ok_or_else(|| VectorError::Refused {
                call: "counting points",
                reason: "the answer is empty".to_owned(),
            })
    }

    fn scroll(
        &self,
        of: Selector<'_>,
        keys: &[&str],
        visit: &mut dyn FnMut(Vec<PointHead>) -> ControlFlow<()>,
    ) -> Result<u64, VectorError> {
        let mut asked = keys.to_vec();
        asked.push(&self.namespace_key);
        let filter = convert::filter(of, &self.namespace_key);
        self.scroll_pages(filter, &asked, &mut |page| {
            let heads: Vec<_> = page
                .into_iter()
                .filter(|(_, payload)| match of {
                    Selector::Namespace(namespace) => self.is_of(payload, namespace),
                    Selector::All | Selector::WithoutNamespace => true,
                })
                .map(|(id, payload)| self.head(id, &payload, keys))
                .collect();
            if heads.is_empty() {
                ControlFlow::Continue(())
            } else {
                visit(heads)
            }
        })?;
        // The server has no point without an id.
        Ok(0)
    }

    fn find(
        &self,
        namespace: &str,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, Option<PointId>)>, VectorError> {
        self.find_in(Some(namespace), key, values)
    }

    fn heads(&self, ids: &[PointId], keys: &[&str]) -> Result<Vec<PointHead>, VectorError> {
        let asked =
            self.with_filter_keys(keys.iter().copied().chain([self.namespace_key.as_str()]));
        let page = page_of(HEAD_BYTES + KEY_BYTES * asked.len() as u64, LARGEST_BATCH);
        let mut heads = Vec::with_capacity(ids.len());
        self.get(ids, page, &include(&asked), &false.into(), &mut |point| {
            let id = convert::from_id(point.id.as_ref())?;
            let payload = convert::payload(point.payload);
            if self.is_ours(&payload) {
                heads.push(self.head(id, &payload, keys));
            }
            Ok(())
        })?;
        Ok(heads)
    }

    fn vectors(&self, ids: &[PointId]) -> Result<Vec<(PointId, Vec<f32>)>, VectorError> {
        let Some(params) = self.schema.dense.get(&self.vector) else {
            return Ok(Vec::new());
        };
        let is_only_one = self.schema.dense.len() + self.schema.sparse.len() == 1;
        let select = if is_only_one {
            true.into()
        } else {
            WithVectorsSelector {
                selector_options: Some(with_vectors_selector::SelectorOptions::Include(
                    VectorsSelector {
                        names: vec![self.vector.clone()],
                    },
                )),
            }
        };
        let keys = self.with_filter_keys([]);
        let bytes = params.size * 4 + HEAD_BYTES + KEY_BYTES * keys.len() as u64;
        let page = page_of(bytes, LARGEST_BATCH);
        let mut vectors = Vec::with_capacity(ids.len());
        self.get(ids, page, &include(&keys), &select, &mut |mut point| {
            if self.is_ours(&convert::payload(std::mem::take(&mut point.payload))) {
                vectors.extend(convert::dense(point, &self.vector)?);
            }
            Ok(())
        })?;
        Ok(vectors)
    }

    fn capture(&self, ids: &[PointId]) -> Result<Captured, VectorError> {
        let mut images = BTreeMap::new();
        let mut ambiguous = BTreeSet::new();
        let mut foreign = BTreeSet::new();
        self.get_whole(ids, &mut |id, mut point| {
            let payload = convert::payload(point.payload.clone());
            if !self.is_ours(&payload) {
                foreign.insert(id.clone());
            }
            let namespace = self.namespace_of(&payload);
            let shard_key = point.shard_key.take();
            let request = self.upsert(vec![convert::to_struct(point)?], shard_key);
            let image = PointImage {
                id: id.clone(),
                namespace,
                body: request.encode_to_vec(),
            };
            // Shards with keys of their own may each have a point of that id.
            if images.insert(id.clone(), image).is_some() {
                ambiguous.insert(id);
            }
            Ok(())
        })?;
        images.retain(|id, _| !ambiguous.contains(id) && !foreign.contains(id));
        Ok(Captured {
            images: images.into_values().collect(),
            ambiguous,
        })
    }

    fn changed(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        self.compare(&mut images.iter().collect())
    }
}

/// The payload that a copy of a point has.
///
/// # Errors
///
/// When the copy is damaged.
pub fn payload_of(image: &PointImage) -> Result<Map<String, Value>, VectorError> {
    let request = UpsertPoints::decode(&image.body[..]).ok();
    let point = request.and_then(|mut request| request.points.pop());
    let point = point.ok_or_else(|| {
        VectorError::Malformed(format!("the copy of point {} is damaged", image.id))
    })?;
    Ok(convert::payload(point.payload))
}

impl QdrantVectors {
    /// A list that is as long as was asked for may have been cut: only a shorter one is whole.
    fn facet_namespaces(&self) -> Result<Vec<(String, u64)>, VectorError> {
        let mut limit = FACET_LIMIT;
        loop {
            let request = FacetCounts {
                collection_name: self.calls.collection().to_owned(),
                key: self.namespace_key.clone(),
                limit: Some(limit),
                exact: Some(true),
                ..FacetCounts::default()
            };
            let answer = self.calls.run("listing namespaces", |client| {
                let request = request.clone();
                async move { client.facet(request).await }
            })?;
            if (answer.hits.len() as u64) < limit {
                let named = answer.hits.into_iter().filter_map(|hit| {
                    match hit.value.and_then(|value| value.variant) {
                        Some(facet_value::Variant::StringValue(name)) if !name.is_empty() => {
                            Some((name, hit.count))
                        }
                        _ => None,
                    }
                });
                let sorted: BTreeMap<_, _> = named.collect();
                return Ok(sorted.into_iter().collect());
            }
            limit *= FACET_GROWTH;
        }
    }

    fn scroll_namespaces(&self) -> Result<Vec<(String, u64)>, VectorError> {
        let mut counts = BTreeMap::<String, u64>::new();
        let key = self.namespace_key.as_str();
        self.scroll_pages(None, &[key], &mut |page| {
            for (_, payload) in page {
                if let Some(namespace) = single_text(payload::lookup(&payload, key))
                    && !namespace.is_empty()
                {
                    *counts.entry(namespace.to_owned()).or_default() += 1;
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(counts.into_iter().collect())
    }

    /// Finds points whose payload `key` has one of `values`, of a namespace or anywhere in the collection.
    pub(super) fn find_in(
        &self,
        namespace: Option<&str>,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, Option<PointId>)>, VectorError> {
        let mut found = Vec::new();
        for values in values.chunks(VALUES) {
            let filter = convert::filter_matches(&self.namespace_key, namespace, key, values);
            match self.find_among(filter, namespace, key, values) {
                Ok(some) => found.extend(some),
                // Strict mode wants an index for text and one for integers: with only one of them, the namespace is
                // gone through instead.
                Err(VectorError::MissingIndex { key: refused })
                    if refused == key && self.schema.indexed.contains_key(key) =>
                {
                    let of = namespace.map_or(Selector::All, Selector::Namespace);
                    let all = convert::filter(of, &self.namespace_key).unwrap_or_default();
                    found.extend(self.find_among(all, namespace, key, values)?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found
            .into_iter()
            .map(|(value, id)| (value, Some(id)))
            .collect())
    }

    /// Those of the points under a filter that are of the namespace and have one of the values.
    fn find_among(
        &self,
        filter: Filter,
        namespace: Option<&str>,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, PointId)>, VectorError> {
        let wanted: HashSet<&str> = values.iter().map(String::as_str).collect();
        let mut found = Vec::new();
        self.scroll_pages(Some(filter), &[key, &self.namespace_key], &mut |page| {
            for (id, payload) in page {
                if namespace.is_none_or(|namespace| self.is_of(&payload, namespace)) {
                    let texts = search_texts(payload::lookup(&payload, key));
                    let hits = texts
                        .into_iter()
                        .filter(|text| wanted.contains(text.as_str()));
                    found.extend(hits.map(|text| (text, id.clone())));
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Counts points by looking at each: the server alone is not believed.
    fn count_seen(&self, of: Selector<'_>) -> Result<u64, VectorError> {
        let mut seen = 0;
        self.scroll(of, &[], &mut |heads| {
            seen += heads.len() as u64;
            ControlFlow::Continue(())
        })?;
        Ok(seen)
    }

    /// A point without its vectors, from a payload that has the keys.
    fn head(&self, id: PointId, payload: &Map<String, Value>, keys: &[&str]) -> PointHead {
        PointHead {
            id,
            namespace: self.namespace_of(payload),
            payload: payload::select(payload, keys),
        }
    }

    /// Payload keys to ask for, and those that say whether a point is the store's.
    pub(super) fn with_filter_keys<'k>(
        &'k self,
        keys: impl IntoIterator<Item = &'k str>,
    ) -> Vec<&'k str> {
        let own = self.filter.keys.iter().map(|(key, _)| key.as_str());
        keys.into_iter().chain(own).collect()
    }

    /// Whether a payload, which has those keys, is of a point of the store.
    pub(super) fn is_ours(&self, payload: &Map<String, Value>) -> bool {
        payload::admits(&self.filter, payload)
    }

    /// Whether a payload names exactly this namespace.
    fn is_of(&self, payload: &Map<String, Value>, namespace: &str) -> bool {
        single_text(payload::lookup(payload, &self.namespace_key)) == Some(namespace)
    }

    /// The namespace that a payload names, if it names exactly one.
    fn namespace_of(&self, payload: &Map<String, Value>) -> Option<String> {
        single_text(payload::lookup(payload, &self.namespace_key)).map(str::to_owned)
    }

    /// The request that puts points back where they were: a collection whose shards have keys needs to be told.
    pub(super) fn upsert(
        &self,
        points: Vec<PointStruct>,
        shard_key: Option<qdrant::ShardKey>,
    ) -> UpsertPoints {
        UpsertPoints {
            collection_name: self.calls.collection().to_owned(),
            wait: Some(true),
            points,
            shard_key_selector: shard_key.map(|key| ShardKeySelector {
                shard_keys: vec![key],
                fallback: None,
            }),
            ..UpsertPoints::default()
        }
    }
}

/// The text that stands there alone, be it in a list of one.
pub(super) fn single_text(value: Option<&Value>) -> Option<&str> {
    match value? {
        Value::String(text) => Some(text),
        Value::Array(list) => match &list[..] {
            [Value::String(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Every text by which a value is found; each element of a list is one.
fn search_texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(payload::search_text).collect(),
        Some(value) => payload::search_text(value).into_iter().collect(),
        None => Vec::new(),
    }
}
