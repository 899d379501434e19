//! Vectors: dense, sparse and multi, named or not, in the form of today (a oneof) and the one before 1.16 (flat fields).

#![expect(
    deprecated,
    reason = "clients and servers before 1.16 speak the flat form"
)]

use qdrant_client::qdrant as grpc;
use qdrant_client::qdrant::vectors::VectorsOptions;
use qdrant_client::qdrant::{vector, vector_output, vectors_output};
use qdrant_edge::{
    SparseVector, Vector, VectorInternal, VectorPersisted, VectorStructInternal,
    VectorStructPersisted,
};
use tonic::Status;

use crate::error::{Answer, from_engine, unsupported};

/// The vectors of one point.
pub(crate) fn vectors(vectors: grpc::Vectors) -> Answer<VectorStructPersisted> {
    match vectors.vectors_options {
        None => Err(Status::invalid_argument("No Vector Provided")),
        Some(VectorsOptions::Vector(vector)) => match persisted(vector)? {
            VectorPersisted::Dense(data) => Ok(VectorStructPersisted::Single(data)),
            VectorPersisted::MultiDense(rows) => Ok(VectorStructPersisted::MultiDense(rows)),
            VectorPersisted::Sparse(_) => {
                Err(Status::invalid_argument("Sparse vector must be named"))
            }
        },
        Some(VectorsOptions::Vectors(named)) => named
            .vectors
            .into_iter()
            .map(|(name, vector)| persisted(vector).map(|vector| (name, vector)))
            .collect::<Answer<_>>()
            .map(VectorStructPersisted::Named),
    }
}

pub(crate) fn sparse(indices: Vec<u32>, values: Vec<f32>) -> Answer<SparseVector> {
    match Vector::new_sparse(indices, values).map_err(from_engine)?.0 {
        VectorInternal::Sparse(sparse) => Ok(sparse),
        VectorInternal::Dense(_) | VectorInternal::MultiDense(_) => {
            Err(Status::internal("a sparse vector became another"))
        }
    }
}

pub(crate) fn multi(rows: Vec<Vec<f32>>) -> Answer<VectorInternal> {
    Vector::new_multi(rows)
        .map(|vector| vector.0)
        .map_err(from_engine)
}

pub(crate) fn rows(multi: grpc::MultiDenseVector) -> Vec<Vec<f32>> {
    multi.vectors.into_iter().map(|row| row.data).collect()
}

fn persisted(vector: grpc::Vector) -> Answer<VectorPersisted> {
    match vector.vector {
        Some(vector::Vector::Dense(dense)) => Ok(VectorPersisted::Dense(dense.data)),
        Some(vector::Vector::Sparse(given)) => {
            sparse(given.indices, given.values).map(VectorPersisted::Sparse)
        }
        Some(vector::Vector::MultiDense(given)) => checked_multi(rows(given)),
        Some(
            vector::Vector::Document(_) | vector::Vector::Image(_) | vector::Vector::Object(_),
        ) => Err(unsupported("inference")),
        None => flat(vector),
    }
}

fn flat(vector: grpc::Vector) -> Answer<VectorPersisted> {
    let grpc::Vector {
        data,
        indices,
        vectors_count,
        vector: _,
    } = vector;
    if let Some(indices) = indices {
        return sparse(indices.data, data).map(VectorPersisted::Sparse);
    }
    let Some(count) = vectors_count else {
        return Ok(VectorPersisted::Dense(data));
    };
    let count = count as usize;
    if count == 0 || data.len() < count || data.len() % count != 0 {
        return Err(Status::invalid_argument(format!(
            "Unable to convert to multi-dense vector: Validation failed: Data length is not divisible by vectors count. \
             Data length: {}, vectors count: {count}",
            data.len()
        )));
    }
    checked_multi(
        data.chunks(data.len() / count)
            .map(<[f32]>::to_vec)
            .collect(),
    )
}

/// A multivector with rows, all of one length.
fn checked_multi(rows: Vec<Vec<f32>>) -> Answer<VectorPersisted> {
    drop(multi(rows.clone())?);
    Ok(VectorPersisted::MultiDense(rows))
}

/// How vectors are written into answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In the oneof.
    Oneof,
    /// In the flat fields, as servers before 1.16 do.
    Flat,
}

pub(crate) fn wire_vectors(vectors: VectorStructInternal, form: Form) -> grpc::VectorsOutput {
    let options = match vectors {
        VectorStructInternal::Single(data) => {
            vectors_output::VectorsOptions::Vector(wire_vector(VectorInternal::Dense(data), form))
        }
        VectorStructInternal::MultiDense(multi) => vectors_output::VectorsOptions::Vector(
            wire_vector(VectorInternal::MultiDense(multi), form),
        ),
        VectorStructInternal::Named(named) => {
            vectors_output::VectorsOptions::Vectors(grpc::NamedVectorsOutput {
                vectors: named
                    .into_iter()
                    .map(|(name, vector)| (name, wire_vector(vector, form)))
                    .collect(),
            })
        }
    };
    grpc::VectorsOutput {
        vectors_options: Some(options),
    }
}

fn wire_vector(vector: VectorInternal, form: Form) -> grpc::VectorOutput {
    match form {
        Form::Oneof => grpc::VectorOutput {
            vector: Some(oneof(vector)),
            ..grpc::VectorOutput::default()
        },
        Form::Flat => flattened(vector),
    }
}

fn oneof(vector: VectorInternal) -> vector_output::Vector {
    match vector {
        VectorInternal::Dense(data) => vector_output::Vector::Dense(grpc::DenseVector { data }),
        VectorInternal::Sparse(sparse) => vector_output::Vector::Sparse(grpc::SparseVector {
            values: sparse.values,
            indices: sparse.indices,
        }),
        VectorInternal::MultiDense(multi) => {
            vector_output::Vector::MultiDense(grpc::MultiDenseVector {
                vectors: multi
                    .into_multi_vectors()
                    .into_iter()
                    .map(|data| grpc::DenseVector { data })
                    .collect(),
            })
        }
    }
}

fn flattened(vector: VectorInternal) -> grpc::VectorOutput {
    let (data, indices, vectors_count) = match vector {
        VectorInternal::Dense(data) => (data, None, None),
        VectorInternal::Sparse(sparse) => (
            sparse.values,
            Some(grpc::SparseIndices {
                data: sparse.indices,
            }),
            None,
        ),
        VectorInternal::MultiDense(multi) => {
            let rows = multi.into_multi_vectors();
            let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
            (rows.concat(), None, Some(count))
        }
    };
    grpc::VectorOutput {
        data,
        indices,
        vectors_count,
        vector: None,
    }
}
