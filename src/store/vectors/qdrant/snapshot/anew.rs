//! A copy without what had been removed: the server's snapshot of a collection that was written anew for it.
//!
//! Mechanics: a temporary collection `NAME-hypnos-anew` is made like the live one, on the same server, and every point is
//! written to it; its snapshot is fetched and counted like that of the live one, and the collection goes. The server needs
//! room for it meanwhile.
//!
//! Policy: what it is like counts by what the server says of both: where they differ, or the server refuses to make or to
//! fill it, there is no such copy, and the caller has to do with a snapshot of the live one. So it is for shards on several
//! nodes, which the cluster would put anywhere. Anything else that fails is a failure of the copy.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Place, QdrantCopies, remove_files};
use crate::config::{self, PayloadFilter};
use crate::failpoint::{Failpoint, hit};
use crate::store::copies::{CopiedFile, CopyError, Count};
use crate::store::vectors::VectorError;
use crate::store::vectors::qdrant::QdrantVectors;

/// The tag of the collection that is written anew.
pub(super) const ANEW: &str = "anew";

/// The files of a collection that was written anew, with what was written and what is in them.
type Fetched = (Vec<CopiedFile>, [Count; 2]);

impl QdrantCopies {
    /// Writes the collection of `place` anew and fetches that; `place` says where it was fetched from. `None` where it
    /// cannot be written anew.
    pub(super) fn copy_anew(
        &self,
        place: &mut Place,
        folder: &Path,
    ) -> Result<Option<(Vec<CopiedFile>, Count)>, CopyError> {
        if place.nodes.len() > 1 {
            cannot("its shards are on several nodes");
            return Ok(None);
        }
        let name = self.name_of(ANEW);
        let fetched = self.write_and_fetch(place, &name, folder);
        let removed = self.remove(&name);
        let Some((files, counts)) = fetched? else {
            removed?;
            return Ok(None);
        };
        let proven = removed.and_then(|()| match counts {
            [written, copied] if written == copied => Ok(copied),
            _ => Err(CopyError::Damaged(
                "the copy does not hold the points that were written anew".to_owned(),
            )),
        });
        match proven {
            Ok(count) => Ok(Some((files, count))),
            Err(error) => {
                remove_files(folder, &files)?;
                Err(error)
            }
        }
    }

    /// The files, with what was written and what is in them.
    fn write_and_fetch(
        &self,
        place: &mut Place,
        name: &str,
        folder: &Path,
    ) -> Result<Option<Fetched>, CopyError> {
        match self.write_anew(place, name) {
            Err(VectorError::Refused { reason, .. }) => {
                cannot(&reason);
                return Ok(None);
            }
            written => written?,
        }
        let written = self.count_in(name)?;
        place.nodes = self.nodes(name)?;
        let (files, copied) = self.fetch(name, &place.nodes, folder)?;
        Ok(Some((files, [written, copied])))
    }

    fn write_anew(&self, place: &Place, name: &str) -> Result<(), VectorError> {
        let live = config::Qdrant {
            filter: PayloadFilter::default(),
            ..self.config_of(&place.collection)
        };
        let key = &self.vectors.namespace_key;
        let live = QdrantVectors::connect(&live, key, self.stop.clone())?;
        live.make_like(name)?;
        hit(Failpoint::AnewMade)?;
        self.require_like(&place.collection, name)?;
        live.copy_points(name)?;
        hit(Failpoint::AnewWritten)?;
        Ok(())
    }

    /// Sees that the server says the same of two collections.
    fn require_like(&self, one: &str, other: &str) -> Result<(), VectorError> {
        let says = |name: &str| -> Result<Option<Value>, VectorError> {
            Ok(self.server.collection(name)?.map(|info| settings(&info)))
        };
        match (says(one)?, says(other)?) {
            (Some(one), Some(other)) if one == other => Ok(()),
            (_, None) | (None, _) => Err(VectorError::Missing {
                what: format!("collection {other:?} or the one it is made like"),
            }),
            _ => Err(VectorError::Refused {
                call: "writing a collection anew",
                reason: "the server does not make another one with its settings".to_owned(),
            }),
        }
    }
}

fn cannot(reason: &str) {
    tracing::warn!("the collection is copied as it is, since it cannot be written anew: {reason}");
}

/// What a collection is like, in the words of the server, without what it has not, and without what is in it.
fn settings(info: &Value) -> Value {
    let mut schema = info.get("payload_schema").cloned().unwrap_or(Value::Null);
    for index in schema.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Value::Object(index) = index {
            index.remove("points");
        }
    }
    let config = info.get("config").cloned().unwrap_or(Value::Null);
    without_nothing(Value::Array(vec![config, schema]))
}

/// Takes out what says that something is not there, or not switched on: servers write that or leave it out.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(key, value)| (key, without_nothing(value)));
            let is_something = |(_, value): &(String, Value)| match value {
                Value::Null | Value::Bool(false) => false,
                Value::Object(fields) => !fields.is_empty(),
                _ => true,
            };
            fields.filter(is_something).collect()
        }
        Value::Array(values) => values.into_iter().map(without_nothing).collect(),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn collections_are_alike_when_what_is_said_of_them_means_the_same() {
        let info = json!({
            "points_count": 7,
            "config": {
                "params": {"vectors": {"size": 4, "distance": "Cosine"}, "sparse_vectors": null, "on_disk_payload": true},
                "quantization_config": null, "strict_mode_config": {"enabled": false}, "metadata": {},
            },
            "payload_schema": {"a": {"data_type": "keyword", "points": 7}},
        });
        let changed = |path: &str, to: Value| {
            let mut other = info.clone();
            *other.pointer_mut(path).unwrap() = to;
            other
        };
        for other in [
            changed("/points_count", json!(0)),
            changed("/payload_schema/a/points", json!(0)),
            changed("/config/strict_mode_config", Value::Null),
            changed("/config/metadata", Value::Null),
            changed("/config/params/sparse_vectors", json!({})),
        ] {
            assert_eq!(settings(&info), settings(&other), "{other}");
        }
        for other in [
            changed("/payload_schema", json!({})),
            changed("/payload_schema/a/data_type", json!("text")),
            changed("/config/params/vectors/size", json!(5)),
            changed("/config/params/on_disk_payload", json!(false)),
            changed("/config/strict_mode_config/enabled", json!(true)),
            changed(
                "/config/quantization_config",
                json!({"binary": {"always_ram": true}}),
            ),
            changed(
                "/config/params",
                json!({"vectors": {"size": 4, "distance": "Cosine"}, "on_disk_payload": true, "read_fan_out_factor": 2}),
            ),
        ] {
            assert_ne!(settings(&info), settings(&other), "{other}");
        }
    }
}
