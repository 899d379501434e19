//! Putting a copy back into a collection in which others have points, too: point by point, so that theirs stay as they are.
//!
//! Mechanics: points that the copy does not have, or has otherwise, are removed, then those that are missing are put in.
//! Each step may have been done before, so that what was cut off is finished by doing all of it again.
//!
//! Policy: whether others may share a collection follows from the configuration, not from what is in it at the moment. A
//! collection that is gone is put back whole, with what others had in it when it was copied.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use prost::Message as _;
use qdrant_client::qdrant::UpsertPoints;

use super::QdrantCopies;
use crate::memory::PointId;
use crate::store::copies::{CopyError, PointCopies as _};
use crate::store::image::PointImage;
use crate::store::sqlite::Access;
use crate::store::vectors::{self, Description, Selector, VectorError, VectorReader};

/// Points that are compared, removed or put in at once.
const BATCH: usize = 500;

impl QdrantCopies {
    /// Whether points of others may be in the collection.
    pub(super) fn is_shared(&self) -> bool {
        self.vectors.is_collection_shared()
    }

    /// Refuses a staged collection whose points do not fit into the live one.
    pub(super) fn check_fits(&self, tag: &str) -> Result<(), CopyError> {
        let live = vectors::open(&self.vectors, Access::Read, &self.stop)?.describe()?;
        let staged = vectors::open(&self.staged(tag), Access::Read, &self.stop)?.describe()?;
        let form = |of: Description| {
            let names: BTreeSet<String> = of.vectors.into_iter().collect();
            (names, of.dimensions, of.distance)
        };
        if form(live) == form(staged) {
            return Ok(());
        }
        Err(CopyError::Foreign(format!(
            "the collection {:?} has other vectors than the copy, and others have points in it: it cannot be replaced",
            self.config.collection
        )))
    }

    /// Makes the store's points in the live collection those of the staged one.
    pub(super) fn replace_own(&self, tag: &str) -> Result<(), CopyError> {
        let live = vectors::open(&self.vectors, Access::Write, &self.stop)?;
        let staged = vectors::open(&self.staged(tag), Access::Read, &self.stop)?;
        for ids in ids_of(&*live)?.chunks(BATCH) {
            let copies = self.copies_of(&*staged, ids)?;
            let known: BTreeSet<&PointId> = copies.iter().map(|copy| &copy.id).collect();
            let mut old = live.changed(&copies)?;
            old.extend(ids.iter().filter(|id| !known.contains(id)).cloned());
            let old: Vec<PointId> = old.into_iter().collect();
            let left = live.remove(&live.capture(&old)?.images)?;
            if !left.is_empty() {
                return Err(VectorError::StillThere { left: left.len() }.into());
            }
        }
        for ids in ids_of(&*staged)?.chunks(BATCH) {
            live.put_back(&self.copies_of(&*staged, ids)?)?;
        }
        Ok(())
    }

    /// Copies of staged points, as of the live collection.
    fn copies_of(
        &self,
        staged: &dyn VectorReader,
        ids: &[PointId],
    ) -> Result<Vec<PointImage>, CopyError> {
        let captured = staged.capture(ids)?;
        if let Some(id) = captured.ambiguous.first() {
            return Err(CopyError::Foreign(format!(
                "the copy has several points of the id {id}, and others have points in the collection: it cannot be \
                 replaced"
            )));
        }
        let of_live = |image: PointImage| {
            let mut request = UpsertPoints::decode(&image.body[..]).map_err(|_| {
                VectorError::Malformed(format!("the copy of point {} is damaged", image.id))
            })?;
            request.collection_name.clone_from(&self.config.collection);
            Ok(PointImage {
                body: request.encode_to_vec(),
                ..image
            })
        };
        captured.images.into_iter().map(of_live).collect()
    }
}

/// The ids of a store's points.
fn ids_of(points: &dyn VectorReader) -> Result<Vec<PointId>, VectorError> {
    let mut ids = Vec::new();
    points.scroll(Selector::All, &[], &mut |heads| {
        ids.extend(heads.into_iter().map(|head| head.id));
        ControlFlow::Continue(())
    })?;
    Ok(ids)
}
