//! Pages of a scroll and batches of ids: what one message holds, and halves of it when that is too much.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use qdrant_client::qdrant::{
    Filter, GetPoints, PayloadIncludeSelector, RetrievedPoint, ScrollPoints, WithPayloadSelector,
    WithVectorsSelector, with_payload_selector,
};
use serde_json::{Map, Value};

use crate::memory::PointId;
use crate::store::vectors::VectorError;

use super::calls::Failure;
use super::{PAYLOAD_GUESS, QdrantVectors, convert, page_of};

/// Points in one page of a scroll, at most.
const LARGEST_PAGE: usize = 4_000;
/// Bytes that an id and what surrounds it take.
pub(super) const HEAD_BYTES: u64 = 128;
/// Bytes that one payload key is taken to have.
pub(super) const KEY_BYTES: u64 = 256;
/// Points that are asked for by id at once, at most.
pub(super) const LARGEST_BATCH: usize = 500;

/// Points with the part of their payload that was asked for.
pub type Page = Vec<(PointId, Map<String, Value>)>;

impl QdrantVectors {
    /// Visits every point of the store with its whole payload, page by page, until `visit` breaks.
    ///
    /// # Errors
    ///
    /// When a page cannot be had; what was visited before then is not the whole.
    pub fn payloads(
        &self,
        visit: &mut dyn FnMut(Page) -> ControlFlow<()>,
    ) -> Result<(), VectorError> {
        self.pages(None, &true.into(), PAYLOAD_GUESS, visit)
    }

    /// Goes through every page of a scroll, with the payload keys asked for.
    pub(super) fn scroll_pages(
        &self,
        filter: Option<Filter>,
        keys: &[&str],
        visit: &mut dyn FnMut(Page) -> ControlFlow<()>,
    ) -> Result<(), VectorError> {
        let keys = self.with_filter_keys(keys.iter().copied());
        let bytes = KEY_BYTES * keys.len() as u64;
        self.pages(filter, &include(&keys), bytes, visit)
    }

    /// Visits every point of the collection with its whole payload and every vector, page by page.
    pub(super) fn scroll_whole(
        &self,
        visit: &mut dyn FnMut(Vec<RetrievedPoint>) -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        let request = ScrollPoints {
            with_payload: Some(true.into()),
            with_vectors: Some(true.into()),
            ..ScrollPoints::default()
        };
        self.answers(request, self.whole_page(), &mut |points| {
            visit(points).map(ControlFlow::Continue)
        })
    }

    /// Visits every point of the store with its whole payload and a digest of every vector that it has.
    pub(super) fn own_whole(
        &self,
        visit: &mut dyn FnMut(PointId, Map<String, Value>, String),
    ) -> Result<(), VectorError> {
        let request = ScrollPoints {
            filter: convert::narrowed(None, &self.filter),
            with_payload: Some(true.into()),
            with_vectors: Some(true.into()),
            ..ScrollPoints::default()
        };
        self.answers(request, self.whole_page(), &mut |points| {
            for mut point in points {
                let id = convert::from_id(point.id.as_ref())?;
                let payload = convert::payload(std::mem::take(&mut point.payload));
                if self.is_ours(&payload) {
                    let digest = convert::digest_of_vectors(&convert::to_struct(point)?);
                    visit(id, payload, digest);
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Goes through every page of a scroll, with this part of the payload, of so many bytes a point. What is not the
    /// store's is left out.
    fn pages(
        &self,
        filter: Option<Filter>,
        payload: &WithPayloadSelector,
        bytes: u64,
        visit: &mut dyn FnMut(Page) -> ControlFlow<()>,
    ) -> Result<(), VectorError> {
        let request = ScrollPoints {
            filter: convert::narrowed(filter, &self.filter),
            with_payload: Some(payload.clone()),
            with_vectors: Some(false.into()),
            ..ScrollPoints::default()
        };
        let limit = page_of(HEAD_BYTES + bytes, LARGEST_PAGE);
        self.answers(request, limit, &mut |points| {
            let mut page = points
                .into_iter()
                .map(|point| {
                    let id = convert::from_id(point.id.as_ref())?;
                    Ok((id, convert::payload(point.payload)))
                })
                .collect::<Result<Vec<_>, VectorError>>()?;
            page.retain(|(_, payload)| self.is_ours(payload));
            if page.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            Ok(visit(page))
        })
    }

    /// Makes a request for page after page, of at most `limit` points and of fewer when that is too much for a message.
    fn answers(
        &self,
        mut request: ScrollPoints,
        mut limit: usize,
        visit: &mut dyn FnMut(Vec<RetrievedPoint>) -> Result<ControlFlow<()>, VectorError>,
    ) -> Result<(), VectorError> {
        self.calls
            .collection()
            .clone_into(&mut request.collection_name);
        loop {
            request.limit = u32::try_from(limit).ok();
            let answer = self.calls.run("scrolling points", |client| {
                let request = request.clone();
                async move { client.scroll(request).await }
            });
            let answer = match answer {
                Err(Failure::TooLarge(_)) if limit > 1 => {
                    limit /= 2;
                    continue;
                }
                answer => answer?,
            };
            if visit(answer.result)?.is_break() {
                return Ok(());
            }
            match answer.next_page_offset {
                None => return Ok(()),
                // The offset is the id to start with: the same one again would never end.
                next if next == request.offset => {
                    return Err(VectorError::Malformed(
                        "the vector store sent the same page twice".to_owned(),
                    ));
                }
                next => request.offset = next,
            }
        }
    }

    /// Visits those of `ids` that exist, with their whole payload and every vector.
    pub(super) fn get_whole(
        &self,
        ids: &[PointId],
        visit: &mut dyn FnMut(PointId, RetrievedPoint) -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        // What is asked for twice may come twice.
        let ids: BTreeSet<PointId> = ids.iter().cloned().collect();
        let ids: Vec<PointId> = ids.into_iter().collect();
        let all = true;
        self.get(
            &ids,
            self.whole_page(),
            &all.into(),
            &all.into(),
            &mut |point| visit(convert::from_id(point.id.as_ref())?, point),
        )
    }

    /// Whole points that one message holds.
    pub(super) fn whole_page(&self) -> usize {
        page_of(self.schema.vector_bytes() + PAYLOAD_GUESS, LARGEST_BATCH)
    }

    /// Those of `ids` that exist.
    pub(in crate::store) fn present(
        &self,
        ids: &[PointId],
    ) -> Result<HashSet<PointId>, VectorError> {
        let mut present = HashSet::new();
        self.get(
            ids,
            LARGEST_BATCH,
            &include(&[]),
            &false.into(),
            &mut |point| {
                present.insert(convert::from_id(point.id.as_ref())?);
                Ok(())
            },
        )?;
        Ok(present)
    }

    /// Visits those of `ids` that exist, in batches of `page`, and smaller ones when the answer gets too large.
    pub(super) fn get(
        &self,
        ids: &[PointId],
        page: usize,
        with_payload: &WithPayloadSelector,
        with_vectors: &WithVectorsSelector,
        visit: &mut dyn FnMut(RetrievedPoint) -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        let ids: Vec<_> = ids.iter().filter_map(convert::to_id).collect();
        in_batches(&ids, page, |ids| {
            let request = GetPoints {
                collection_name: self.calls.collection().to_owned(),
                ids: ids.to_vec(),
                with_payload: Some(with_payload.clone()),
                with_vectors: Some(with_vectors.clone()),
                ..GetPoints::default()
            };
            let answer = self.calls.run("reading points", |client| {
                let request = request.clone();
                async move { client.get_points(request).await }
            })?;
            answer.result.into_iter().try_for_each(&mut *visit)?;
            Ok(())
        })
    }
}

/// Works through `items` in batches, which are halved when one turns out too large.
pub(super) fn in_batches<T>(
    items: &[T],
    mut size: usize,
    mut work: impl FnMut(&[T]) -> Result<(), Failure>,
) -> Result<(), VectorError> {
    let mut rest = items;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(size.min(rest.len()));
        match work(batch) {
            Ok(()) => rest = later,
            Err(Failure::TooLarge(_)) if batch.len() > 1 => size = batch.len() / 2,
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(())
}

/// Asks for these payload keys only, or for none.
pub(super) fn include(keys: &[&str]) -> WithPayloadSelector {
    if keys.is_empty() {
        return false.into();
    }
    WithPayloadSelector {
        selector_options: Some(with_payload_selector::SelectorOptions::Include(
            PayloadIncludeSelector {
                fields: keys.iter().map(|key| (*key).to_owned()).collect(),
            },
        )),
    }
}
