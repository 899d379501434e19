//! Between the types of hypnos and the messages of the protocol.

use std::collections::{BTreeMap, HashMap};

use prost::Message as _;
use qdrant_client::qdrant;
use qdrant_client::qdrant::{
    Condition, DenseVector, Filter, MultiDenseVector, NamedVectors, PointStruct, RetrievedPoint,
    SparseVector, Value, Vector, VectorOutput, Vectors, VectorsOutput, point_id::PointIdOptions,
    value::Kind, vector, vector_output, vectors, vectors_output,
};
use serde_json::{Map, Number};
use sha2::{Digest as _, Sha256};

use crate::config::{PayloadFilter, Scalar};
use crate::memory::PointId;
use crate::store::copies::hex;
use crate::store::vectors::{Selector, VectorError};

/// The id as the protocol has it; `None` for text, which no Qdrant point has as its id.
pub(super) fn to_id(id: &PointId) -> Option<qdrant::PointId> {
    let options = match id {
        PointId::Number(id) => PointIdOptions::Num(*id),
        PointId::Uuid(id) => PointIdOptions::Uuid(id.to_string()),
        PointId::Text(_) => return None,
    };
    Some(qdrant::PointId {
        point_id_options: Some(options),
    })
}

/// The id of a point that the server sent.
pub(super) fn from_id(id: Option<&qdrant::PointId>) -> Result<PointId, VectorError> {
    let id = match id.and_then(|id| id.point_id_options.as_ref()) {
        Some(PointIdOptions::Num(id)) => Some(PointId::Number(*id)),
        Some(PointIdOptions::Uuid(text)) => {
            Some(PointId::from_text(text)).filter(|id| matches!(id, PointId::Uuid(_)))
        }
        None => None,
    };
    id.ok_or_else(|| {
        VectorError::Malformed("the vector store sent a point without a readable id".to_owned())
    })
}

/// The filter that selects points of one kind; `None` for all.
pub(super) fn filter(of: Selector<'_>, namespace_key: &str) -> Option<Filter> {
    match of {
        Selector::All => None,
        Selector::Namespace(namespace) => Some(Filter::must([Condition::matches(
            namespace_key,
            namespace.to_owned(),
        )])),
        // `is_empty` is true of a missing key, of null and of an empty list.
        Selector::WithoutNamespace => Some(Filter::should([
            Condition::is_empty(namespace_key),
            Condition::matches(namespace_key, String::new()),
        ])),
    }
}

/// A filter for those of its points that a payload filter admits, and for lists that contain what it asks for.
pub(super) fn narrowed(filter: Option<Filter>, by: &PayloadFilter) -> Option<Filter> {
    if by.is_empty() {
        return filter;
    }
    let mut filter = filter.unwrap_or_default();
    let conditions = by.keys.iter().map(|(key, values)| has_one_of(key, values));
    filter.must.extend(conditions);
    Some(filter)
}

/// The condition that a payload key has one of these values.
fn has_one_of(key: &str, values: &[Scalar]) -> Condition {
    let either = values.iter().map(|value| match value {
        Scalar::Text(text) => Condition::matches(key, text.clone()),
        Scalar::Integer(number) => Condition::matches(key, *number),
        Scalar::Bool(is_so) => Condition::matches(key, *is_so),
    });
    Filter::should(either).into()
}

/// The filter for points of a namespace, or of any, whose `key` has one of `values`, as text or as the integer it spells.
pub(super) fn filter_matches(
    namespace_key: &str,
    namespace: Option<&str>,
    key: &str,
    values: &[String],
) -> Filter {
    let integers: Vec<i64> = values
        .iter()
        .filter_map(|value| Some((value, value.parse::<i64>().ok()?)))
        .filter(|(value, integer)| integer.to_string() == **value)
        .map(|(_, integer)| integer)
        .collect();
    let mut either = vec![Condition::matches(key, values.to_vec())];
    if !integers.is_empty() {
        either.push(Condition::matches(key, integers));
    }
    let of_namespace =
        namespace.map(|namespace| Condition::matches(namespace_key, namespace.to_owned()));
    let either = Condition::from(Filter::should(either));
    Filter::must(of_namespace.into_iter().chain([either]))
}

/// A payload as JSON.
pub(super) fn payload(payload: HashMap<String, Value>) -> Map<String, serde_json::Value> {
    payload
        .into_iter()
        .map(|(key, value)| (key, json(value)))
        .collect()
}

fn json(value: Value) -> serde_json::Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(value)) => value.into(),
        Some(Kind::IntegerValue(value)) => value.into(),
        Some(Kind::DoubleValue(value)) => {
            Number::from_f64(value).map_or(serde_json::Value::Null, Into::into)
        }
        Some(Kind::StringValue(value)) => value.into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(json).collect(),
        Some(Kind::StructValue(object)) => payload(object.fields).into(),
    }
}

/// The vector of one name that a point has; `None` when it has none.
pub(super) fn dense(
    point: RetrievedPoint,
    name: &str,
) -> Result<Option<(PointId, Vec<f32>)>, VectorError> {
    let id = from_id(point.id.as_ref())?;
    let output = match point.vectors.and_then(|vectors| vectors.vectors_options) {
        Some(vectors_output::VectorsOptions::Vector(output)) if name.is_empty() => Some(output),
        Some(vectors_output::VectorsOptions::Vectors(mut named)) => named.vectors.remove(name),
        Some(vectors_output::VectorsOptions::Vector(_)) | None => None,
    };
    match output.map(kind).transpose()? {
        None => Ok(None),
        Some(vector_output::Vector::Dense(DenseVector { data })) => Ok(Some((id, data))),
        Some(_) => Err(VectorError::Malformed(format!(
            "vector {name:?} of point {id} is sparse or many, not one dense vector"
        ))),
    }
}

/// A point as the server sent it, as the request that puts it back.
pub(super) fn to_struct(point: RetrievedPoint) -> Result<PointStruct, VectorError> {
    Ok(PointStruct {
        id: point.id,
        payload: point.payload,
        vectors: point.vectors.map(all_vectors).transpose()?,
    })
}

/// Whether two points have the same payload and, bit for bit, the same vectors.
pub(super) fn is_same(a: &PointStruct, b: &PointStruct) -> bool {
    let json = |point: &PointStruct| payload(point.payload.clone());
    encoded_vectors(a) == encoded_vectors(b) && json(a) == json(b)
}

/// Whether two points have the same payload and the same vectors, but for what a server changes in the last digits of a
/// vector when it normalizes and rounds it once more.
pub(super) fn is_alike(a: &PointStruct, b: &PointStruct) -> bool {
    let json = |point: &PointStruct| payload(point.payload.clone());
    let (ours, theirs) = (vectors_of(a), vectors_of(b));
    let is_near = |(name, vector): (&&str, &&Vector)| {
        let other = theirs.get(name).and_then(|other| other.vector.as_ref());
        matches!((&vector.vector, other), (Some(one), Some(other)) if is_near(one, other))
    };
    ours.len() == theirs.len() && ours.iter().all(is_near) && json(a) == json(b)
}

/// How far a number may be from what it was, as a share of it and by itself: rounding to 16 bits makes less than half of
/// the first.
const NEAR: (f32, f32) = (1e-3, 1e-6);

fn is_near(a: &vector::Vector, b: &vector::Vector) -> bool {
    let numbers = |a: &[f32], b: &[f32]| {
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= a.abs() * NEAR.0 + NEAR.1;
        a.len() == b.len() && a.iter().zip(b).all(is_near)
    };
    match (a, b) {
        (vector::Vector::Dense(a), vector::Vector::Dense(b)) => numbers(&a.data, &b.data),
        (vector::Vector::Sparse(a), vector::Vector::Sparse(b)) => {
            a.indices == b.indices && numbers(&a.values, &b.values)
        }
        (vector::Vector::MultiDense(a), vector::Vector::MultiDense(b)) => {
            let mut pairs = a.vectors.iter().zip(&b.vectors);
            a.vectors.len() == b.vectors.len() && pairs.all(|(a, b)| numbers(&a.data, &b.data))
        }
        _ => false,
    }
}

/// A digest of the vectors of a point, bit for bit.
pub(super) fn digest_of_vectors(point: &PointStruct) -> String {
    let mut digest = Sha256::new();
    for (name, vector) in encoded_vectors(point) {
        for part in [name.as_bytes(), &vector] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    }
    hex(&digest.finalize())
}

/// The vectors by name, each as the bytes of its message.
fn encoded_vectors(point: &PointStruct) -> BTreeMap<&str, Vec<u8>> {
    let vectors = vectors_of(point).into_iter();
    vectors
        .map(|(name, vector)| (name, vector.encode_to_vec()))
        .collect()
}

/// The vectors by name.
fn vectors_of(point: &PointStruct) -> BTreeMap<&str, &Vector> {
    let vectors = point.vectors.as_ref();
    match vectors.and_then(|vectors| vectors.vectors_options.as_ref()) {
        None => BTreeMap::new(),
        Some(vectors::VectorsOptions::Vector(vector)) => BTreeMap::from([("", vector)]),
        Some(vectors::VectorsOptions::Vectors(named)) => named
            .vectors
            .iter()
            .map(|(name, vector)| (name.as_str(), vector))
            .collect(),
    }
}

fn all_vectors(output: VectorsOutput) -> Result<Vectors, VectorError> {
    let options = match output.vectors_options {
        None => None,
        Some(vectors_output::VectorsOptions::Vector(output)) => {
            Some(vectors::VectorsOptions::Vector(one_vector(output)?))
        }
        Some(vectors_output::VectorsOptions::Vectors(named)) => {
            let vectors = named
                .vectors
                .into_iter()
                .map(|(name, output)| Ok((name, one_vector(output)?)))
                .collect::<Result<_, VectorError>>()?;
            Some(vectors::VectorsOptions::Vectors(NamedVectors { vectors }))
        }
    };
    Ok(Vectors {
        vectors_options: options,
    })
}

fn one_vector(output: VectorOutput) -> Result<Vector, VectorError> {
    let vector = match kind(output)? {
        vector_output::Vector::Dense(vector) => vector::Vector::Dense(vector),
        vector_output::Vector::Sparse(vector) => vector::Vector::Sparse(vector),
        vector_output::Vector::MultiDense(vector) => vector::Vector::MultiDense(vector),
    };
    Ok(Vector {
        vector: Some(vector),
        ..Vector::default()
    })
}

/// The vector in the form that servers send since 1.16; older ones send flat fields.
#[expect(deprecated, reason = "servers before 1.16 fill only these fields")]
fn kind(output: VectorOutput) -> Result<vector_output::Vector, VectorError> {
    let data = output.data;
    Ok(
        match (output.vector, output.indices, output.vectors_count) {
            (Some(vector), _, _) => vector,
            (None, Some(indices), _) => vector_output::Vector::Sparse(SparseVector {
                values: data,
                indices: indices.data,
            }),
            (None, None, Some(count)) => {
                let count = count as usize;
                if count == 0 || data.is_empty() || !data.len().is_multiple_of(count) {
                    return Err(VectorError::Malformed(
                        "the vector store sent vectors of unequal length as one".to_owned(),
                    ));
                }
                let vectors = data
                    .chunks(data.len() / count)
                    .map(|data| DenseVector {
                        data: data.to_vec(),
                    })
                    .collect();
                vector_output::Vector::MultiDense(MultiDenseVector { vectors })
            }
            (None, None, None) => vector_output::Vector::Dense(DenseVector { data }),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str, named: NamedVectors) -> PointStruct {
        PointStruct {
            payload: HashMap::from([("text".to_owned(), text.into())]),
            vectors: Some(named.into()),
            ..PointStruct::default()
        }
    }

    #[test]
    fn points_are_alike_but_for_the_last_digits() {
        let named = |x: f32| {
            NamedVectors::default()
                .add_vector("one", vec![x, -0.25])
                .add_vector("many", vec![vec![x, 2.0], vec![3.0, -4.5]])
                .add_vector("few", vec![(7, x), (9, 0.5)])
        };
        let sent = point("a", named(0.5));
        for (other, is_expected) in [
            (point("a", named(0.5)), true),
            (point("a", named(0.500_2)), true),
            (point("a", named(0.51)), false),
            (point("a", named(-0.5)), false),
            (point("b", named(0.5)), false),
            (point("a", named(0.5).add_vector("more", vec![1.0])), false),
            (
                point("a", named(0.5).add_vector("one", vec![0.5, -0.25, 0.0])),
                false,
            ),
            (
                point("a", named(0.5).add_vector("few", vec![(7, 0.5), (8, 0.5)])),
                false,
            ),
            (
                point("a", named(0.5).add_vector("many", vec![vec![0.5, 2.0]])),
                false,
            ),
            (
                point(
                    "a",
                    named(0.5).add_vector("one", vec![(0, 0.5), (1, -0.25)]),
                ),
                false,
            ),
            (point("a", NamedVectors::default()), false),
        ] {
            assert_eq!(is_alike(&sent, &other), is_expected, "{other:?}");
            assert_eq!(is_alike(&other, &sent), is_expected, "{other:?}");
        }
        let bare = PointStruct {
            vectors: None,
            ..point("a", NamedVectors::default())
        };
        assert!(is_alike(&bare, &point("a", NamedVectors::default())));
    }
}
