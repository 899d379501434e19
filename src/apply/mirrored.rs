//! Points that are the rows: whether they are still as they were mirrored.
//!
//! A plan rests on a mirror of the points. Between its reading and the copy that is taken of a point before it goes, the
//! agent may have written the point anew: then it is not the one that the plan speaks of.

use std::collections::HashMap;

use crate::memory::PointId;
use crate::store::image::{PointImage, RowImage, SqlValue, Unit};
use crate::store::rows::mirror;
use crate::store::vectors::{VectorError, qdrant};

/// What the points of a removal are now.
pub(super) enum Mirrored {
    /// As they were mirrored, with their copies.
    Same(Vec<PointImage>),
    /// The memory has no point any more: somebody else removed it.
    Gone,
    /// Not all of them are as they were.
    Changed,
}

/// Compares the rows of a removal with the copies of their points, which are taken from `images`.
pub(super) fn compare(
    unit: Option<&Unit>,
    images: &mut HashMap<PointId, PointImage>,
) -> Result<Mirrored, VectorError> {
    let Some(Unit { root, behind, .. }) = unit else {
        return Ok(Mirrored::Changed);
    };
    let mut own = Vec::with_capacity(1 + behind.len());
    for row in std::iter::once(root).chain(behind) {
        match point_of(row).and_then(|point| images.remove(&point)) {
            None if own.is_empty() => return Ok(Mirrored::Gone),
            Some(image) if is_of(row, &image)? => own.push(image),
            None | Some(_) => return Ok(Mirrored::Changed),
        }
    }
    Ok(Mirrored::Same(own))
}

fn point_of(row: &RowImage) -> Option<PointId> {
    match row.get(mirror::ID)? {
        SqlValue::Text(id) => Some(PointId::from_text(std::str::from_utf8(id).ok()?)),
        _ => None,
    }
}

/// Whether a row says what the copy of its point says.
fn is_of(row: &RowImage, image: &PointImage) -> Result<bool, VectorError> {
    let text = mirror::text_of(qdrant::payload_of(image)?);
    Ok(row.get(mirror::PAYLOAD) == Some(&SqlValue::Text(text.into_bytes())))
}
