use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::Duration;

use qdrant_client::qdrant::{
    self, DenseVector, MultiDenseVector, MultiVectorConfig, NamedVectorsOutput, PayloadSchemaInfo,
    RetrievedPoint, ShardKey, SparseIndices, SparseVector, UpdateStatus, VectorOutput,
    VectorsOutput, shard_key, vector_output, vectors_output,
};
use serde_json::{Value, json};
use tonic::{Code, Status};

use super::fake::{Fake, Fault, collection_info};
use super::*;
use crate::clock::Stopwatch;
use crate::memory::PointId;
use crate::store::image::PointImage;
use crate::store::vectors::{Description, PointHead, Selector, VectorReader, VectorStore};

mod calls;
mod filter;
mod reading;
mod writing;

fn connect(fake: &Fake) -> QdrantVectors {
    QdrantVectors::connect(&fake.config(), "namespace", Stop::default()).unwrap()
}

fn refusal(fake: &Fake) -> VectorError {
    QdrantVectors::connect(&fake.config(), "namespace", Stop::default())
        .err()
        .expect("a refusal")
}

fn numbers(ids: impl IntoIterator<Item = u64>) -> Vec<PointId> {
    ids.into_iter().map(PointId::Number).collect()
}

fn heads(store: &QdrantVectors, of: Selector<'_>, keys: &[&str]) -> Vec<PointHead> {
    let mut heads = Vec::new();
    store
        .scroll(of, keys, &mut |page| {
            heads.extend(page);
            ControlFlow::Continue(())
        })
        .unwrap();
    heads
}

/// Copies of points, of which none is ambiguous.
fn copies(store: &QdrantVectors, ids: &[PointId]) -> Vec<PointImage> {
    let captured = store.capture(ids).unwrap();
    assert_eq!(captured.ambiguous, BTreeSet::new());
    captured.images
}

/// Copies points and removes them all.
fn take(store: &QdrantVectors, ids: &[PointId]) -> Vec<PointImage> {
    let images = copies(store, ids);
    assert_eq!(store.remove(&images).unwrap(), BTreeSet::new());
    images
}

fn of_user(user: &str) -> Value {
    json!({ "namespace": format!("user:{user}") })
}

fn index(fake: &Fake, key: &str) {
    let keyword = PayloadSchemaInfo {
        data_type: PayloadSchemaType::Keyword.into(),
        ..PayloadSchemaInfo::default()
    };
    fake.state()
        .info
        .payload_schema
        .insert(key.to_owned(), keyword);
}

fn dense(data: &[f32]) -> VectorOutput {
    output(vector_output::Vector::Dense(DenseVector {
        data: data.to_vec(),
    }))
}

fn output(vector: vector_output::Vector) -> VectorOutput {
    VectorOutput {
        vector: Some(vector),
        ..VectorOutput::default()
    }
}

fn multi(vectors: &[&[f32]]) -> VectorOutput {
    let vectors = vectors
        .iter()
        .map(|data| DenseVector {
            data: data.to_vec(),
        })
        .collect();
    output(vector_output::Vector::MultiDense(MultiDenseVector {
        vectors,
    }))
}

fn sparse() -> VectorOutput {
    output(vector_output::Vector::Sparse(SparseVector {
        values: vec![0.5, 1.5],
        indices: vec![3, 70_000],
    }))
}

/// A vector as servers before 1.16 sent it.
#[expect(deprecated, reason = "the fields of older servers")]
fn old(data: &[f32], indices: Option<Vec<u32>>, vectors_count: Option<u32>) -> VectorOutput {
    VectorOutput {
        data: data.to_vec(),
        indices: indices.map(|data| SparseIndices { data }),
        vectors_count,
        vector: None,
    }
}

fn point(id: u64, vectors: vectors_output::VectorsOptions) -> RetrievedPoint {
    RetrievedPoint {
        id: Some(id.into()),
        payload: HashMap::from([("n".to_owned(), (id.cast_signed()).into())]),
        vectors: Some(VectorsOutput {
            vectors_options: Some(vectors),
        }),
        ..RetrievedPoint::default()
    }
}

fn named<const N: usize>(vectors: [(&str, VectorOutput); N]) -> vectors_output::VectorsOptions {
    vectors_output::VectorsOptions::Vectors(NamedVectorsOutput {
        vectors: vectors.map(|(name, v)| (name.to_owned(), v)).into(),
    })
}

#[test]
fn text_is_never_the_id_of_a_point() {
    let fake = Fake::start();
    fake.add([1], &of_user("a"));
    let store = connect(&fake);
    let ids = [PointId::Text("note-7".into())];
    assert_eq!(take(&store, &ids), []);
    let mut image = copies(&store, &numbers([1])).remove(0);
    image.id = ids[0].clone();
    assert_eq!(store.remove(&[image]).unwrap(), BTreeSet::new());
    assert_eq!(store.vectors(&ids).unwrap(), []);
    assert_eq!(fake.state().count_calls("delete"), 0);
}
