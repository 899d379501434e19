//! Points that list memories by their ids: mem0 keeps the people and places of its memories so, as *entities*, in a
//! collection beside them.
//!
//! Mechanics: the collection is mirrored like that of the memories (see [`super::rows::mirror`]), and read through the
//! same mapping, so that an entity belongs to the owner whom its payload names as a memory's would.
//!
//! Policy: a list is understood as a whole or not at all. Where it is no array, or one of its elements is no id that a
//! point can have, nobody could tell what was meant, and it is left as it is.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::image::{PointImage, RowImage, SqlValue};
use super::rows::{RowError, RowStore, mirror};
use super::vectors::{VectorError, payload, qdrant};
use crate::config::{self, Encoding, ListKey, Origin, Source, TimeFormat};
use crate::memory::{MemoryId, Namespace, PointId, Role, Version};
use crate::stop::Stop;

/// A point that lists memories.
#[derive(Debug, Clone)]
pub struct Entity {
    /// The point.
    pub id: PointId,
    /// Whose it is; `None` when its payload names nobody.
    pub namespace: Option<Namespace>,
    /// Its payload as it was read.
    pub version: Version,
    /// What it lists; `None` when that cannot be understood.
    pub lists: Option<Vec<PointId>>,
}

/// The points that list the memories of a store.
#[derive(Debug, Clone)]
pub struct Linked {
    rows: RowStore,
    key: ListKey,
}

impl Linked {
    /// Those of a store, read until a stop is requested; `None` where it has none. Nothing is read yet.
    pub(super) fn new(store: &config::Store, stop: &Stop) -> Option<Self> {
        let links = store.links.as_ref()?;
        let payload = Source {
            origin: Origin::Column(mirror::PAYLOAD.to_owned()),
            optional: false,
            time: TimeFormat {
                encoding: Encoding::Auto,
                zone: jiff::tz::TimeZone::UTC,
            },
        };
        let rows = config::Rows {
            points: Some(Box::new(links.points.clone())),
            filter: None,
            live: None,
            point: None,
            roles: vec![(Role::Content, payload)],
            children: Vec::new(),
            ..store.rows.clone()
        };
        Some(Self {
            rows: RowStore::new(&rows).until(stop),
            key: links.key.clone(),
        })
    }

    /// Lets them be read anew.
    pub(super) fn expire(&self) {
        self.rows.expire();
    }

    /// All of them, in order of their ids; `None` while there is no such collection: the application makes it with the
    /// first of them.
    ///
    /// # Errors
    ///
    /// When they cannot be read to the end.
    pub(super) fn read(&self) -> Result<Option<Vec<Entity>>, RowError> {
        let reader = match self.rows.reader(&self.rows.main()) {
            Err(RowError::Points(error)) if error.is_missing() => return Ok(None),
            reader => reader?,
        };
        let mut entities = Vec::new();
        reader.snapshot(|snapshot| {
            snapshot.scan(&[Role::Content], &mut |memory| {
                if let (Some(id), Some(text)) = (memory.id, memory.content) {
                    entities.push(Entity {
                        id: PointId::from_text(&id.to_string()),
                        namespace: memory.namespace,
                        lists: listed(&text, &self.key),
                        version: version(text),
                    });
                }
                ControlFlow::Continue(())
            })
        })?;
        Ok(Some(entities))
    }
}

/// The ids that a payload lists under a key; none where it has no such key, and `None` where it has two spellings of it.
fn listed(text: &str, key: &ListKey) -> Option<Vec<PointId>> {
    let payload: Map<String, Value> = serde_json::from_str(text).ok()?;
    let mut lists = key
        .spellings()
        .filter_map(|spelling| payload::lookup(&payload, spelling));
    let list = lists.next().unwrap_or(&Value::Null);
    lists.next().is_none().then(|| ids(list)).flatten()
}

/// The spelling of a key that a payload has; the usual one where it has none.
fn spelling<'a>(payload: &Map<String, Value>, key: &'a ListKey) -> &'a str {
    let is_there = |spelling: &&str| payload::lookup(payload, spelling).is_some();
    key.spellings().find(is_there).unwrap_or(key.usual())
}

/// The spelling of a key that a copy of a point has.
///
/// # Errors
///
/// When the copy is damaged.
pub fn spelling_of<'a>(image: &PointImage, key: &'a ListKey) -> Result<&'a str, VectorError> {
    Ok(spelling(&qdrant::payload_of(image)?, key))
}

/// The ids of a list; `None` when it is none.
fn ids(list: &Value) -> Option<Vec<PointId>> {
    match list {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(id).collect(),
        _ => None,
    }
}

/// The id that an element of a list is; `None` for what no point has as its id.
fn id(element: &Value) -> Option<PointId> {
    let id = PointId::from_text(element.as_str()?);
    (!matches!(id, PointId::Text(_))).then_some(id)
}

/// A memory as lists name it.
#[must_use]
pub fn point_of(memory: &MemoryId) -> PointId {
    PointId::from_text(&memory.to_string())
}

/// The memory that an id in a list names.
#[must_use]
pub fn memory_of(point: &PointId) -> MemoryId {
    MemoryId::Text(point.to_string().into())
}

/// A list as a copy of a point has it.
///
/// # Errors
///
/// When the copy is damaged.
pub fn list_of(image: &PointImage, key: &ListKey) -> Result<Vec<Value>, VectorError> {
    let payload = qdrant::payload_of(image)?;
    Ok(match payload::lookup(&payload, spelling(&payload, key)) {
        Some(Value::Array(list)) => list.clone(),
        _ => Vec::new(),
    })
}

/// The payload of a copy of a point, as [`Entity::version`] tells it.
///
/// # Errors
///
/// When the copy is damaged.
pub fn version_of(image: &PointImage) -> Result<Version, VectorError> {
    Ok(version(mirror::text_of(qdrant::payload_of(image)?)))
}

fn version(payload: String) -> Version {
    let payload = SqlValue::Text(payload.into_bytes());
    let row = RowImage {
        table: String::new(),
        rowid: None,
        columns: vec![(mirror::PAYLOAD.to_owned(), payload)],
    };
    row.version()
}

/// What is left of a list without some memories, in whatever spelling it names them.
#[must_use]
pub fn without(list: &[Value], memories: &[MemoryId]) -> Vec<Value> {
    let gone: BTreeSet<PointId> = memories.iter().map(point_of).collect();
    let stays = |element: &&Value| id(element).is_none_or(|id| !gone.contains(&id));
    list.iter().filter(stays).cloned().collect()
}

/// A list with those memories again that were taken out of it: as it was, where nobody has changed it since, else at its
/// end.
#[must_use]
pub fn with_again(now: &[Value], was: &[Value], memories: &[MemoryId]) -> Vec<Value> {
    if without(now, memories) == without(was, memories) {
        return was.to_vec();
    }
    let listed: BTreeSet<PointId> = now.iter().filter_map(id).collect();
    let taken: BTreeSet<PointId> = memories.iter().map(point_of).collect();
    let missing = was.iter().filter(|element| {
        id(element).is_some_and(|id| taken.contains(&id) && !listed.contains(&id))
    });
    now.iter().chain(missing).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "0191aaaa-0000-4000-8000-00000000000a";
    const B: &str = "0191aaaa-0000-4000-8000-00000000000b";
    const C: &str = "0191aaaa-0000-4000-8000-00000000000c";

    fn list(value: &Value) -> Vec<Value> {
        value.as_array().unwrap().clone()
    }

    fn key(text: &str) -> ListKey {
        ListKey::parse(text).unwrap()
    }

    fn memory(id: &str) -> MemoryId {
        MemoryId::Text(id.into())
    }

    #[test]
    fn a_list_is_understood_as_a_whole_or_not_at_all() {
        let upper = A.to_uppercase();
        for (payload, expected) in [
            (json!({"l": [A, B]}), Some(2)),
            (json!({"l": [upper, A.replace('-', ""), "12"]}), Some(3)),
            (json!({"l": []}), Some(0)),
            (json!({"l": null}), Some(0)),
            (json!({"other": [A]}), Some(0)),
            (json!({"l": A}), None),
            (json!({"l": {"0": A}}), None),
            (json!({"l": [A, 7]}), None),
            (json!({"l": [A, null]}), None),
            (json!({"l": [A, "a name"]}), None),
            (json!({"l": [A, ""]}), None),
            (json!({"l": [A, [B]]}), None),
            (json!({"l": [A, "-1"]}), None),
        ] {
            let found = listed(&payload.to_string(), &key("l")).map(|ids| ids.len());
            assert_eq!(found, expected, "{payload}");
        }
        let nested = json!({"m": {"l": [A]}}).to_string();
        assert_eq!(
            listed(&nested, &key("m.l")).unwrap(),
            [PointId::from_text(A)]
        );
        assert_eq!(listed("no json", &key("l")), None);
    }

    #[test]
    fn a_key_is_found_in_each_of_its_spellings() {
        let key = key("linked_ids | linkedIds");
        for (payload, spelled, expected) in [
            (json!({"linked_ids": [A, B]}), "linked_ids", Some(2)),
            (json!({"linkedIds": [A]}), "linkedIds", Some(1)),
            (json!({"linkedIds": 7}), "linkedIds", None),
            (json!({}), "linked_ids", Some(0)),
            // Which of the two is meant nobody can tell.
            (
                json!({"linked_ids": [A], "linkedIds": [B]}),
                "linked_ids",
                None,
            ),
            (
                json!({"linked_ids": [A], "linkedIds": [A]}),
                "linked_ids",
                None,
            ),
        ] {
            let found = listed(&payload.to_string(), &key).map(|ids| ids.len());
            assert_eq!(found, expected, "{payload}");
            assert_eq!(spelling(payload.as_object().unwrap(), &key), spelled);
        }
        for wrong in ["", "a |", "| a", "a || b"] {
            assert_eq!(ListKey::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_taken_out_is_taken_out_in_every_spelling_and_nothing_else() {
        let was = list(&json!([A, B, A.to_uppercase(), C]));
        assert_eq!(without(&was, &[memory(A)]), list(&json!([B, C])));
        assert_eq!(without(&was, &[]), was);
        assert_eq!(without(&was, &[A, B, C].map(memory)), list(&json!([])));
    }

    #[test]
    fn what_is_put_back_is_as_it_was_or_at_the_end_and_never_twice() {
        let was = list(&json!([A, B, C]));
        let new = "0191aaaa-0000-4000-8000-0000000000ff";
        for (now, expected) in [
            (json!([A, C]), json!([A, B, C])),
            (json!([A, B, C]), json!([A, B, C])),
            (json!([A, C, new]), json!([A, C, new, B])),
            (json!([C]), json!([C, B])),
            (json!([new, B]), json!([new, B])),
            (json!([]), json!([B])),
        ] {
            let back = with_again(&list(&now), &was, &[memory(B)]);
            assert_eq!(back, list(&expected), "{now}");
        }
    }
}
