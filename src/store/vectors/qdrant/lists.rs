//! Lists in a payload: one key of one point is set, on the condition that the list is as it was read.
//!
//! The server sets a key atomically, and leaves the rest of the payload and the vectors alone. It has no condition on a
//! version, but on a filter: the point with this id, with so many values under the key, and none but these. A collection
//! in strict mode without an index on the key refuses that; there, what is written between the read right before and the
//! write, one round trip, is lost.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::points_update_operation::{Operation, SetPayload};
use qdrant_client::qdrant::{
    self, Condition, FieldCondition, Filter, ListValue, PointsIdsList, PointsSelector,
    PointsUpdateOperation, RepeatedStrings, UpdateBatchPoints, ValuesCount, value::Kind,
};
use serde_json::Value;

use crate::config::ListKey;
use crate::failpoint::{Failpoint, hit};
use crate::memory::PointId;
use crate::store::image::PointImage;
use crate::store::linked;
use crate::store::vectors::{VectorError, VectorReader as _};

use super::calls::Failure;
use super::pages::in_batches;
use super::write::{LOOK_AGAIN, completed};
use super::{QdrantVectors, convert};

/// A list that is to be set.
#[derive(Debug, Clone)]
pub struct Relist {
    /// The point as a copy has it that was taken right before.
    pub now: PointImage,
    /// The list.
    pub list: Vec<Value>,
}

/// What became of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relisted {
    /// It is as it should be, and was seen to be.
    Done,
    /// The point is not there.
    Gone,
    /// Somebody else has changed it meanwhile.
    Changed,
}

/// A list that is not seen to be set yet.
struct Open<'a> {
    change: &'a Relist,
    /// As it was last seen.
    then: Vec<Value>,
    /// The key that it stands under.
    key: &'a str,
}

impl QdrantVectors {
    /// Whether a copy is of a point of this collection.
    #[must_use]
    pub fn has_made(&self, image: &PointImage) -> bool {
        self.read_image(image).is_ok()
    }

    /// Sets the lists of points that are as their copies have them, and returns only when the server has confirmed it and
    /// shows it. A list that is so already is left as it is.
    ///
    /// # Errors
    ///
    /// When the server did not confirm: then any of them may be set.
    pub fn relist(
        &self,
        key: &ListKey,
        changes: &[Relist],
    ) -> Result<BTreeMap<PointId, Relisted>, VectorError> {
        let mut ends = BTreeMap::new();
        let mut open = Vec::with_capacity(changes.len());
        for change in changes {
            let then = linked::list_of(&change.now, key)?;
            if then == change.list {
                ends.insert(change.now.id.clone(), Relisted::Done);
            } else {
                let key = linked::spelling_of(&change.now, key)?;
                open.push(Open { change, then, key });
            }
        }
        let mut waits = std::iter::once(Duration::ZERO).chain(LOOK_AGAIN);
        while !open.is_empty() {
            let Some(wait) = waits.next() else {
                let left = open.into_iter();
                ends.extend(left.map(|open| (open.change.now.id.clone(), Relisted::Changed)));
                break;
            };
            self.calls.wait(wait)?;
            hit(Failpoint::ListCompared)?;
            in_batches(&open, self.whole_page(), |open| self.set(open))?;
            hit(Failpoint::ListConfirmed)?;
            open = self.look_again(key, open, &mut ends)?;
        }
        Ok(ends)
    }

    /// Tells which lists are as they should be, gone, or somebody else's by now, and gives the others: a replica may lag.
    fn look_again<'a>(
        &self,
        key: &ListKey,
        open: Vec<Open<'a>>,
        ends: &mut BTreeMap<PointId, Relisted>,
    ) -> Result<Vec<Open<'a>>, VectorError> {
        let ids: Vec<PointId> = open.iter().map(|open| open.change.now.id.clone()).collect();
        let mut shown = HashMap::with_capacity(ids.len());
        for image in self.capture(&ids)?.images {
            shown.insert(image.id.clone(), linked::list_of(&image, key)?);
        }
        let mut left = Vec::new();
        for open in open {
            let id = &open.change.now.id;
            let end = match shown.get(id) {
                None => Relisted::Gone,
                Some(list) if *list == open.change.list => Relisted::Done,
                Some(list) if *list != open.then => Relisted::Changed,
                Some(_) => {
                    left.push(open);
                    continue;
                }
            };
            ends.insert(id.clone(), end);
        }
        Ok(left)
    }

    /// Sets each list where it is as it was last seen.
    fn set(&self, open: &[Open<'_>]) -> Result<(), Failure> {
        match self.set_where(open, selector) {
            Err(Failure::Other(VectorError::MissingIndex { .. })) => {
                self.set_where(open, |_, id, _| by_id(id))
            }
            set => set,
        }
    }

    fn set_where(
        &self,
        open: &[Open<'_>],
        selector: impl Fn(&str, qdrant::PointId, &[Value]) -> PointsSelector,
    ) -> Result<(), Failure> {
        let mut operations = Vec::with_capacity(open.len());
        for Open { change, then, key } in open {
            let (parent, leaf) = match key.rsplit_once('.') {
                Some((parent, leaf)) => (Some(parent.to_owned()), leaf),
                None => (None, *key),
            };
            let copy = self.read_image(&change.now)?;
            let values = change.list.iter().cloned().map(Into::into).collect();
            let list = qdrant::Value {
                kind: Some(Kind::ListValue(ListValue { values })),
            };
            let set = SetPayload {
                payload: HashMap::from([(leaf.to_owned(), list)]),
                points_selector: convert::to_id(&change.now.id).map(|id| selector(key, id, then)),
                shard_key_selector: copy.shard_key_selector,
                key: parent,
            };
            operations.push(PointsUpdateOperation {
                operation: Some(Operation::SetPayload(set)),
            });
        }
        let request = UpdateBatchPoints {
            collection_name: self.calls.collection().to_owned(),
            wait: Some(true),
            operations,
            ..UpdateBatchPoints::default()
        };
        let call = "setting lists";
        let answer = self.calls.run(call, |client| {
            let request = request.clone();
            async move { client.update_points_batch(request).await }
        })?;
        let is_whole = answer.result.len() == request.operations.len();
        let results = answer.result.into_iter().map(Some);
        // An answer that leaves one out does not say what became of it.
        for result in results.chain((!is_whole).then_some(None)) {
            completed(call, result)?;
        }
        Ok(())
    }
}

fn by_id(id: qdrant::PointId) -> PointsSelector {
    PointsSelector {
        points_selector_one_of: Some(PointsSelectorOneOf::Points(PointsIdsList { ids: vec![id] })),
    }
}

/// The point of an id, as long as its list is this one, in whatever order.
fn selector(key: &str, id: qdrant::PointId, list: &[Value]) -> PointsSelector {
    let texts = list.iter().filter_map(Value::as_str).map(str::to_owned);
    let strings = texts.collect();
    let count = Condition::from(FieldCondition {
        key: key.to_owned(),
        values_count: Some(ValuesCount {
            gte: Some(list.len() as u64),
            lte: Some(list.len() as u64),
            ..ValuesCount::default()
        }),
        ..FieldCondition::default()
    });
    let other = Condition::matches(key, MatchValue::ExceptKeywords(RepeatedStrings { strings }));
    let filter = Filter {
        must: vec![Condition::has_id([id]), count],
        must_not: vec![other],
        ..Filter::default()
    };
    PointsSelector {
        points_selector_one_of: Some(PointsSelectorOneOf::Filter(filter)),
    }
}
