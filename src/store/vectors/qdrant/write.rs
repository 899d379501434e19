//! Writing: removals that were seen to be done, and points put back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use prost::Message;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    self, DeletePoints, PointStruct, PointsIdsList, PointsSelector, UpdateMode, UpdateResult,
    UpdateStatus, UpsertPoints,
};

use crate::failpoint::{Failpoint, hit};
use crate::memory::PointId;
use crate::store::image::PointImage;
use crate::store::traces::Trace;
use crate::store::vectors::{VectorError, VectorStore};

use super::calls::Failure;
use super::pages::in_batches;
use super::{MESSAGE_BYTES, QdrantVectors, convert};

/// Waits before the reads that look again whether removed points are gone, and points put back are there.
pub(super) const LOOK_AGAIN: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

impl VectorStore for QdrantVectors {
    fn remove(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        let images: Vec<_> = images
            .iter()
            .filter(|image| convert::to_id(&image.id).is_some())
            .collect();
        let mut left = BTreeSet::new();
        in_batches(&images, self.whole_page(), |images| {
            left.extend(self.remove_batch(images)?);
            Ok(())
        })?;
        Ok(left)
    }

    fn put_back(&self, images: &[PointImage]) -> Result<(), VectorError> {
        let ids: Vec<_> = images.iter().map(|image| image.id.clone()).collect();
        let present = self.present(&ids)?;
        hit(Failpoint::PutBackCompared)?;
        let mut requests: Vec<UpsertPoints> = Vec::new();
        for image in images.iter().filter(|image| !present.contains(&image.id)) {
            let single = self.read_image(image)?;
            match requests
                .iter_mut()
                .find(|request| request.shard_key_selector == single.shard_key_selector)
            {
                Some(request) => request.points.extend(single.points),
                None => requests.push(single),
            }
        }
        for request in &requests {
            for points in split_by_size(&request.points, MESSAGE_BYTES) {
                in_batches(points, points.len(), |points| {
                    self.insert_batch(request, points)
                })?;
            }
        }
        hit(Failpoint::PutBackConfirmed)?;
        self.see_present(&ids)
    }

    fn scrub(&self) -> Result<Vec<Trace>, VectorError> {
        Ok(vec![Trace::Segments])
    }
}

impl QdrantVectors {
    /// Removes those points that are as they were captured, and gives those that are not. A replica or a segment may
    /// lag, and an agent may write again what it had written: what is there again as it was is removed again, a few
    /// times, with longer and longer waits. Each removal follows the look that allows it.
    fn remove_batch(&self, images: &[&PointImage]) -> Result<BTreeSet<PointId>, Failure> {
        let mut same: Vec<&PointImage> = images.to_vec();
        let mut left = BTreeSet::new();
        let mut waits = std::iter::once(Duration::ZERO).chain(LOOK_AGAIN);
        loop {
            left.extend(self.compare(&mut same)?);
            if same.is_empty() {
                return Ok(left);
            }
            let Some(wait) = waits.next() else {
                return Err(VectorError::StillThere { left: same.len() }.into());
            };
            hit(Failpoint::PointsCompared).map_err(VectorError::from)?;
            self.delete(
                same.iter()
                    .filter_map(|image| convert::to_id(&image.id))
                    .collect(),
            )?;
            hit(Failpoint::PointsConfirmed).map_err(VectorError::from)?;
            self.calls.wait(wait)?;
        }
    }

    /// Keeps those images whose point exists as they have it, and gives the ids of the other points that exist.
    pub(super) fn compare(
        &self,
        images: &mut Vec<&PointImage>,
    ) -> Result<BTreeSet<PointId>, VectorError> {
        let ids: Vec<_> = images.iter().map(|image| image.id.clone()).collect();
        let mut points: BTreeMap<PointId, PointStruct> = BTreeMap::new();
        let mut others = BTreeSet::new();
        self.get_whole(&ids, &mut |id, point| {
            // In shards with keys of their own there may be another point of that id.
            if points
                .insert(id.clone(), convert::to_struct(point)?)
                .is_some()
            {
                others.insert(id);
            }
            Ok(())
        })?;
        images.retain(|image| {
            let is_same = |point: &PointStruct| {
                let copy = UpsertPoints::decode(&image.body[..]);
                copy.is_ok_and(
                    |copy| matches!(&copy.points[..], [copy] if convert::is_same(copy, point)),
                )
            };
            match points.get(&image.id) {
                None => false,
                Some(point) if is_same(point) && !others.contains(&image.id) => true,
                Some(_) => {
                    others.insert(image.id.clone());
                    false
                }
            }
        });
        Ok(others)
    }

    fn delete(&self, ids: Vec<qdrant::PointId>) -> Result<(), Failure> {
        let call = "removing points";
        let request = DeletePoints {
            collection_name: self.calls.collection().to_owned(),
            wait: Some(true),
            points: Some(PointsSelector {
                points_selector_one_of: Some(PointsSelectorOneOf::Points(PointsIdsList { ids })),
            }),
            ..DeletePoints::default()
        };
        let answer = self.calls.run(call, |client| {
            let request = request.clone();
            async move { client.delete_points(request).await }
        })?;
        completed(call, answer.result)?;
        Ok(())
    }

    /// Reads a copy, which must be of this collection.
    pub(super) fn read_image(&self, image: &PointImage) -> Result<UpsertPoints, VectorError> {
        let unfit =
            |why: &str| VectorError::Malformed(format!("the copy of point {} {why}", image.id));
        let request = UpsertPoints::decode(&image.body[..]).map_err(|_| unfit("is damaged"))?;
        if request.collection_name != self.calls.collection() {
            return Err(unfit("is of another collection"));
        }
        let ids: Vec<_> = request.points.iter().map(|point| &point.id).collect();
        if ids != [&convert::to_id(&image.id)] {
            return Err(unfit("is of another point"));
        }
        Ok(request)
    }

    /// Puts points where there are none. A server before 1.17 does not know that condition, and overwrites what was
    /// written since [`Self::present`] was asked.
    fn insert_batch(&self, of: &UpsertPoints, points: &[PointStruct]) -> Result<(), Failure> {
        let call = "putting points back";
        let request = UpsertPoints {
            points: points.to_vec(),
            collection_name: of.collection_name.clone(),
            wait: Some(true),
            shard_key_selector: of.shard_key_selector.clone(),
            update_mode: Some(UpdateMode::InsertOnly.into()),
            ..UpsertPoints::default()
        };
        let answer = self.calls.run(call, |client| {
            let request = request.clone();
            async move { client.upsert_points(request).await }
        })?;
        completed(call, answer.result)?;
        Ok(())
    }

    fn see_present(&self, ids: &[PointId]) -> Result<(), VectorError> {
        let mut waits = LOOK_AGAIN.into_iter();
        loop {
            let present = self.present(ids)?;
            if ids.iter().all(|id| present.contains(id)) {
                return Ok(());
            }
            match waits.next() {
                Some(wait) => self.calls.wait(wait)?,
                None => {
                    return Err(VectorError::NotCompleted {
                        call: "putting points back",
                        status: "absent".to_owned(),
                    });
                }
            }
        }
    }
}

/// An answer of OK may still say that the write is only queued, or was not waited for long enough.
pub(super) fn completed(
    call: &'static str,
    result: Option<UpdateResult>,
) -> Result<(), VectorError> {
    let status = result.map(|result| result.status());
    if status == Some(UpdateStatus::Completed) {
        return Ok(());
    }
    Err(VectorError::NotCompleted {
        call,
        status: status
            .map_or("none", |status| status.as_str_name())
            .to_owned(),
    })
}

/// Cuts points into runs of at most `bytes` each, or of one point that is larger by itself.
pub(super) fn split_by_size(points: &[PointStruct], bytes: u64) -> Vec<&[PointStruct]> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut size = 0;
    for (end, point) in points.iter().enumerate() {
        let own = point.encoded_len() as u64;
        if end > start && size + own > bytes {
            runs.push(&points[start..end]);
            (start, size) = (end, 0);
        }
        size += own;
    }
    if start < points.len() {
        runs.push(&points[start..]);
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn messages_are_cut_by_size_and_lose_nothing() {
        let point = |bytes: usize| PointStruct {
            payload: HashMap::from([("text".to_owned(), "x".repeat(bytes).into())]),
            ..PointStruct::default()
        };
        let points: Vec<_> = [10, 900, 900, 5_000, 10, 10]
            .into_iter()
            .map(point)
            .collect();
        let runs = split_by_size(&points, 1_000);
        let lengths: Vec<_> = runs.iter().map(|run| run.len()).collect();
        assert_eq!(lengths, [2, 1, 1, 2]);
        assert_eq!(runs.concat(), points);
        assert!(split_by_size(&[], 1_000).is_empty());
    }

    #[test]
    fn only_completed_is_complete() {
        for status in [
            UpdateStatus::UnknownUpdateStatus,
            UpdateStatus::Acknowledged,
            UpdateStatus::ClockRejected,
            UpdateStatus::WaitTimeout,
            UpdateStatus::Completed,
        ] {
            let result = UpdateResult {
                status: status.into(),
                ..UpdateResult::default()
            };
            let is_complete = completed("removing points", Some(result)).is_ok();
            assert_eq!(is_complete, status == UpdateStatus::Completed, "{status:?}");
        }
        assert!(completed("removing points", None).is_err());
    }
}
