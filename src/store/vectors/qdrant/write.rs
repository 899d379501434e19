//! Writing: removals that were seen to be done, and points put back.

use std::time::Duration;

use prost::Message;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    self, DeletePoints, PointStruct, PointsIdsList, PointsOperationResponse, PointsSelector,
    UpdateStatus, UpsertPoints,
};

use crate::memory::PointId;
use crate::store::image::PointImage;
use crate::store::vectors::VectorError;

use super::calls::Failure;
use super::read::{LARGEST_BATCH, in_batches};
use super::{MESSAGE_BYTES, QdrantVectors, convert};

/// Waits before the reads that look again whether removed points are gone.
const LOOK_AGAIN: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

impl QdrantVectors {
    pub(super) fn delete_points(&self, ids: &[PointId]) -> Result<(), VectorError> {
        in_batches(ids, LARGEST_BATCH, |ids| {
            let selected: Vec<_> = ids.iter().filter_map(convert::to_id).collect();
            if selected.is_empty() {
                return Ok(());
            }
            self.delete(selected)?;
            self.see_gone(ids)?;
            Ok(())
        })
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
        completed(call, &answer)?;
        Ok(())
    }

    /// A replica or a segment may lag: looks a few times, with longer and longer waits.
    fn see_gone(&self, ids: &[PointId]) -> Result<(), VectorError> {
        let mut waits = LOOK_AGAIN.into_iter();
        loop {
            let left = self.present(ids)?.len();
            match (left, waits.next()) {
                (0, _) => return Ok(()),
                (_, Some(wait)) => self.calls.wait(wait)?,
                (left, None) => return Err(VectorError::StillThere { left }),
            }
        }
    }

    pub(super) fn upsert_images(&self, images: &[PointImage]) -> Result<(), VectorError> {
        let mut requests: Vec<UpsertPoints> = Vec::new();
        for image in images {
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
                    self.upsert_batch(request, points)
                })?;
            }
        }
        self.see_present(images)
    }

    /// Reads a copy, which must be of this collection.
    fn read_image(&self, image: &PointImage) -> Result<UpsertPoints, VectorError> {
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

    fn upsert_batch(&self, of: &UpsertPoints, points: &[PointStruct]) -> Result<(), Failure> {
        let call = "putting points back";
        let request = UpsertPoints {
            points: points.to_vec(),
            collection_name: of.collection_name.clone(),
            wait: Some(true),
            shard_key_selector: of.shard_key_selector.clone(),
            ..UpsertPoints::default()
        };
        let answer = self.calls.run(call, |client| {
            let request = request.clone();
            async move { client.upsert_points(request).await }
        })?;
        completed(call, &answer)?;
        Ok(())
    }

    fn see_present(&self, images: &[PointImage]) -> Result<(), VectorError> {
        let ids: Vec<_> = images.iter().map(|image| image.id.clone()).collect();
        let mut waits = LOOK_AGAIN.into_iter();
        loop {
            let present = self.present(&ids)?;
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
fn completed(call: &'static str, answer: &PointsOperationResponse) -> Result<(), VectorError> {
    let status = answer.result.map(|result| result.status());
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
fn split_by_size(points: &[PointStruct], bytes: u64) -> Vec<&[PointStruct]> {
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
            let answer = PointsOperationResponse {
                result: Some(qdrant::UpdateResult {
                    status: status.into(),
                    ..qdrant::UpdateResult::default()
                }),
                ..PointsOperationResponse::default()
            };
            let is_complete = completed("removing points", &answer).is_ok();
            assert_eq!(is_complete, status == UpdateStatus::Completed, "{status:?}");
        }
        assert!(completed("removing points", &PointsOperationResponse::default()).is_err());
    }
}
