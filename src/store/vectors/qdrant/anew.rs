//! A collection written anew beside another one: its parameters, its payload indexes, and every point with all that it has.
//!
//! A server keeps what was removed in its segments and in its log until it rewrites them, and copies both as they are.
//! What was never written to a collection is in none of its files.
//!
//! Mechanics: what the server says of the collection is turned into the request that makes the new one, whose indexes are
//! there before the first point. Points go over page by page, and each page is read back.
//!
//! Policy: a point counts when it was read back as it was sent. The copy counts when a listing afterwards shows no point
//! that it lacks: those that an agent has written meanwhile are copied then. What it changes is as it was when it was read,
//! and what it removes may be there: never is a point of an earlier state than the moment at which the copy was begun.
//! Others' points are copied, too. What cannot be expressed, or not be proven, is [`VectorError::Refused`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use qdrant_client::qdrant::{
    CollectionInfo, CreateCollection, CreateFieldIndexCollection, FieldType, NamedVectors,
    PayloadSchemaInfo, PayloadSchemaType, PointStruct, RetrievedPoint, ShardingMethod, Vectors,
    vectors,
};

use super::calls::Failure;
use super::pages::{LARGEST_BATCH, in_batches};
use super::write::{completed, split_by_size};
use super::{MESSAGE_BYTES, QdrantVectors, convert, info};
use crate::config::PayloadFilter;
use crate::memory::PointId;
use crate::store::vectors::{Selector, VectorError, VectorReader as _};

/// How often points are looked for that came while the others were copied.
const ROUNDS: u32 = 8;
/// What is being done, for messages.
const WRITING: &str = "writing a collection anew";

impl QdrantVectors {
    /// Makes the collection `name`, which is not there, with the parameters and payload indexes of this one, and without a
    /// point.
    ///
    /// # Errors
    ///
    /// [`VectorError::Refused`] when there cannot be another collection like this one.
    pub(super) fn make_like(&self, name: &str) -> Result<(), VectorError> {
        let info = info(&self.calls)?;
        // In the order of their keys, every time.
        let indexes: BTreeMap<_, _> = info.payload_schema.clone().into_iter().collect();
        let request = create(info, name)?;
        let made = self.calls.run("making a temporary collection", |client| {
            let request = request.clone();
            async move { client.create_collection(request).await }
        });
        let made = made.map_err(VectorError::from).map(|answer| answer.result);
        match made {
            Ok(true) => {}
            // It was made by a call whose answer was lost.
            Err(VectorError::Refused { .. }) if info_of(self, name).is_ok() => {}
            Ok(false) => return Err(refused("the temporary collection was not made")),
            Err(error) => return Err(error),
        }
        for (key, schema) in indexes {
            self.make_index(name, key, schema)?;
        }
        Ok(())
    }

    fn make_index(
        &self,
        collection: &str,
        key: String,
        schema: PayloadSchemaInfo,
    ) -> Result<(), VectorError> {
        let call = "making a payload index";
        let request = CreateFieldIndexCollection {
            collection_name: collection.to_owned(),
            wait: Some(true),
            field_name: key,
            field_type: Some(field_type(&schema)?.into()),
            field_index_params: schema.params,
            ..CreateFieldIndexCollection::default()
        };
        let answer = self.calls.run(call, |client| {
            let request = request.clone();
            async move { client.create_field_index(request).await }
        })?;
        completed(call, answer.result)
    }

    /// Writes every point of the collection, whoever it belongs to, to the empty collection `name`. Answers how many.
    ///
    /// # Errors
    ///
    /// When not every point was seen to be there.
    pub(super) fn copy_points(&self, name: &str) -> Result<u64, VectorError> {
        let all = self.whole(self.calls.collection());
        let into = self.whole(name);
        let mut copied = BTreeSet::new();
        all.scroll_whole(&mut |points| into.write(points, &mut copied))?;
        for _ in 0..ROUNDS {
            let missing = all.missing(&copied)?;
            if missing.is_empty() {
                let count = into.count(Selector::All)?;
                if count != copied.len() as u64 {
                    let copied = copied.len();
                    return Err(refused(format!(
                        "{copied} points were written, and {count} are there"
                    )));
                }
                return Ok(count);
            }
            for ids in missing.chunks(LARGEST_BATCH) {
                let mut points = Vec::with_capacity(ids.len());
                all.get_whole(ids, &mut |_, point| {
                    points.push(point);
                    Ok(())
                })?;
                into.write(points, &mut copied)?;
            }
        }
        Err(refused("points come faster than they can be copied"))
    }

    /// All of a collection with the vectors of this one.
    fn whole(&self, collection: &str) -> Self {
        Self {
            calls: self.calls.to(collection),
            namespace_key: self.namespace_key.clone(),
            vector: self.vector.clone(),
            filter: PayloadFilter::default(),
            schema: self.schema.clone(),
        }
    }

    /// The points that there are, and are not among those that were copied.
    fn missing(&self, copied: &BTreeSet<PointId>) -> Result<Vec<PointId>, VectorError> {
        let mut missing = Vec::new();
        self.scroll_pages(None, &[], &mut |page| {
            let ids = page.into_iter().map(|(id, _)| id);
            missing.extend(ids.filter(|id| !copied.contains(id)));
            ControlFlow::Continue(())
        })?;
        Ok(missing)
    }

    /// Writes points, and sees that they are there as they were sent.
    fn write(
        &self,
        points: Vec<RetrievedPoint>,
        written: &mut BTreeSet<PointId>,
    ) -> Result<(), VectorError> {
        let points = points
            .into_iter()
            .map(to_send)
            .collect::<Result<Vec<_>, _>>()?;
        for run in split_by_size(&points, MESSAGE_BYTES) {
            in_batches(run, run.len().min(LARGEST_BATCH), |batch| self.put(batch))?;
        }
        let ids = points
            .iter()
            .map(|point| convert::from_id(point.id.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        self.see(&ids, &points)?;
        written.extend(ids);
        Ok(())
    }

    fn put(&self, points: &[PointStruct]) -> Result<(), Failure> {
        let request = self.upsert(points.to_vec(), None);
        let answer = self.calls.run(WRITING, |client| {
            let request = request.clone();
            async move { client.upsert_points(request).await }
        })?;
        completed(WRITING, answer.result)?;
        Ok(())
    }

    fn see(&self, ids: &[PointId], sent: &[PointStruct]) -> Result<(), VectorError> {
        let mut left: BTreeMap<&PointId, &PointStruct> = ids.iter().zip(sent).collect();
        let sent = left.len();
        self.get_whole(ids, &mut |id, point| {
            let point = convert::to_struct(point)?;
            if left
                .get(&id)
                .is_some_and(|sent| convert::is_alike(sent, &point))
            {
                left.remove(&id);
            }
            Ok(())
        })?;
        match left.len() {
            0 => Ok(()),
            left => Err(refused(format!(
                "{left} of {sent} points are not there as they were written"
            ))),
        }
    }
}

fn info_of(of: &QdrantVectors, name: &str) -> Result<CollectionInfo, VectorError> {
    info(&of.calls.to(name))
}

/// The request that makes a collection like the one that the server describes so.
#[expect(
    deprecated,
    reason = "servers before 1.19 know no other way to say where the payload is kept"
)]
fn create(of: CollectionInfo, name: &str) -> Result<CreateCollection, VectorError> {
    let config = of.config.unwrap_or_default();
    let params = config
        .params
        .ok_or_else(|| refused("the server does not say what the collection is like"))?;
    if params.sharding_method() == ShardingMethod::Custom {
        return Err(refused("its shards have keys of their own"));
    }
    let on_disk_payload = params.payload.is_none().then_some(params.on_disk_payload);
    Ok(CreateCollection {
        collection_name: name.to_owned(),
        hnsw_config: config.hnsw_config,
        wal_config: config.wal_config,
        optimizers_config: config.optimizer_config,
        shard_number: Some(params.shard_number),
        on_disk_payload,
        vectors_config: params.vectors_config,
        replication_factor: params.replication_factor,
        write_consistency_factor: params.write_consistency_factor,
        quantization_config: config.quantization_config,
        sharding_method: params.sharding_method,
        sparse_vectors_config: params.sparse_vectors_config,
        strict_mode_config: config.strict_mode_config,
        metadata: config.metadata,
        payload: params.payload,
        id_tracker: params.id_tracker,
        ..CreateCollection::default()
    })
}

/// The type that makes an index of this kind: the two are numbered otherwise.
fn field_type(of: &PayloadSchemaInfo) -> Result<FieldType, VectorError> {
    Ok(match of.data_type() {
        PayloadSchemaType::Keyword => FieldType::Keyword,
        PayloadSchemaType::Integer => FieldType::Integer,
        PayloadSchemaType::Float => FieldType::Float,
        PayloadSchemaType::Geo => FieldType::Geo,
        PayloadSchemaType::Text => FieldType::Text,
        PayloadSchemaType::Bool => FieldType::Bool,
        PayloadSchemaType::Datetime => FieldType::Datetime,
        PayloadSchemaType::Uuid => FieldType::Uuid,
        PayloadSchemaType::UnknownType => {
            return Err(refused("it has a payload index of an unknown type"));
        }
    })
}

/// A point as it is sent. One without vectors says so, or the server refuses it.
fn to_send(point: RetrievedPoint) -> Result<PointStruct, VectorError> {
    let point = convert::to_struct(point)?;
    let none = || Vectors {
        vectors_options: Some(vectors::VectorsOptions::Vectors(NamedVectors::default())),
    };
    Ok(PointStruct {
        vectors: Some(
            point
                .vectors
                .filter(|vectors| vectors.vectors_options.is_some())
                .unwrap_or_else(none),
        ),
        ..point
    })
}

fn refused(reason: impl Into<String>) -> VectorError {
    VectorError::Refused {
        call: WRITING,
        reason: reason.into(),
    }
}
