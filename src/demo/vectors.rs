//! The vectors of the memories, kept as one signed byte per dimension in `vectors.i8` (see `make_vectors.py`).

use std::sync::LazyLock;

/// What the file begins with.
const MAGIC: &[u8] = b"HYPNOSI8";

/// Unit vectors, in the order of `memories.jsonl`.
#[expect(
    clippy::expect_used,
    reason = "the file is compiled in and read by the tests"
)]
pub(super) static VECTORS: LazyLock<Vec<Vec<f32>>> = LazyLock::new(|| {
    decode(include_bytes!("vectors.i8")).expect("vectors.i8 is compiled in and tested")
});

/// Reads the format of `vectors.i8`; `None` for anything that is not exactly that.
fn decode(file: &[u8]) -> Option<Vec<Vec<f32>>> {
    let rest = file.strip_prefix(MAGIC)?;
    let (count, rest) = take_u32(rest)?;
    let (dimensions, rest) = take_u32(rest)?;
    let record = dimensions.checked_add(size_of::<f32>())?;
    if dimensions == 0 || count.checked_mul(record)? != rest.len() {
        return None;
    }
    rest.chunks_exact(record).map(decode_vector).collect()
}

fn take_u32(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_le_bytes(*head)).ok()?, rest))
}

/// `None` when the vector has no direction.
fn decode_vector(record: &[u8]) -> Option<Vec<f32>> {
    let (scale, bytes) = record.split_first_chunk()?;
    let scale = f32::from_le_bytes(*scale);
    let vector = bytes
        .iter()
        .map(|&byte| f64::from(byte.cast_signed()) * f64::from(scale));
    let length = vector.clone().map(|x| x * x).sum::<f64>().sqrt();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a coordinate of a unit vector, as the store keeps it"
    )]
    let unit = vector.map(|x| (x / length) as f32).collect();
    (length.is_finite() && length > 0.0).then_some(unit)
}

/// The cosine of two unit vectors.
#[cfg(test)]
pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| f64::from(*x) * f64::from(*y))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(count: u32, dimensions: u32, body: &[u8]) -> Vec<u8> {
        [MAGIC, &count.to_le_bytes(), &dimensions.to_le_bytes(), body].concat()
    }

    #[test]
    fn a_vector_is_its_bytes_at_unit_length() {
        let body = [&0.5_f32.to_le_bytes()[..], &[3, 252]].concat();
        assert_eq!(decode(&file(1, 2, &body)), Some(vec![vec![0.6, -0.8]]));
    }

    #[test]
    fn what_is_not_whole_is_not_read() {
        let one = |scale: f32| [&scale.to_le_bytes()[..], &[1, 1]].concat();
        let whole = file(1, 2, &one(0.5));
        assert!(decode(&whole).is_some());
        for broken in [
            &whole[1..],
            &whole[..whole.len() - 1],
            &[&whole[..], &[0]].concat(),
            &file(2, 2, &one(0.5)),
            &file(1, 0, &0.5_f32.to_le_bytes()),
            &file(u32::MAX, u32::MAX, &one(0.5)),
            &file(1, 2, &one(f32::NAN)),
            &file(1, 2, &one(0.0)),
            MAGIC,
            &[],
        ] {
            assert_eq!(decode(broken), None, "{broken:?}");
        }
    }
}
