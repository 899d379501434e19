//! Whether the rows of a store have their points where a draft says.
//!
//! Mechanics: some rows are read, the ids of their points are derived as a night would, and the vector store is asked for
//! those. A point counts when it is there and says that it is of the same namespace, if it says anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::config;
use crate::error::Failure;
use crate::memory::{Memory, Namespace, PointId, Role};
use crate::stop::Stop;
use crate::store::rows::{RowError, RowStore, log};
use crate::store::sqlite::Access;
use crate::store::vectors::point_id::{Derived, Rule};
use crate::store::vectors::{self, VectorStore};

/// Rows that are gone through, at most.
const READ: usize = 5_000;
/// Rows whose points are asked for, at most.
const ASKED: usize = 200;

/// How many rows were looked at, and how many of them have a point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proof {
    /// Rows with their point.
    pub found: usize,
    /// Rows that could have one.
    pub of: usize,
}

/// Looks some rows of a store up among its points. A store whose points cannot be read in the way that the draft says
/// proves nothing.
pub(super) fn of(store: &config::Store, stop: &Stop) -> Result<Proof, Failure> {
    let memories =
        sample(store).map_err(|error| Failure::from(&error).while_doing("read some rows"))?;
    let Some(vectors) = &store.vectors else {
        return Ok(Proof::default());
    };
    let rule = Rule {
        point_id: &vectors.point_id,
        rows: &store.rows,
    };
    let derived: Vec<(Memory, Derived)> = memories
        .into_iter()
        .map(|memory| {
            let derived = rule.derive(&memory);
            (memory, derived)
        })
        .filter(|(_, derived)| !matches!(derived, Derived::None { .. }))
        .collect();
    let of = derived.len();
    let Ok(opened) = vectors::open(vectors, Access::Read, stop) else {
        return Ok(Proof { found: 0, of });
    };
    let found = found(opened.as_ref(), &derived).unwrap_or_default();
    Ok(Proof { found, of })
}

/// Looks some memories that are alive by the log of a store up among its points.
pub(super) fn of_log(store: &config::Store, stop: &Stop) -> Result<Proof, Failure> {
    let (Some(log), Some(vectors)) = (&store.log, &store.vectors) else {
        return Ok(Proof::default());
    };
    let mut ids = Vec::new();
    let read = log::scan(log, &mut |logged| {
        if !logged.is_deleted {
            ids.push(PointId::from_text(&logged.id));
        }
    });
    read.map_err(|error| Failure::from(&error).while_doing("read the log"))?;
    let every = ids.len().div_ceil(ASKED).max(1);
    let ids: Vec<PointId> = ids.into_iter().step_by(every).collect();
    let there = vectors::open(vectors, Access::Read, stop)
        .and_then(|points| points.heads(&ids, &[]))
        .map_err(|error| Failure::from(&error).while_doing("look memories of the log up"))?;
    Ok(Proof {
        found: there.len(),
        of: ids.len(),
    })
}

/// Some rows, from all over what was gone through.
fn sample(store: &config::Store) -> Result<Vec<Memory>, RowError> {
    let rows = RowStore::new(&store.rows);
    let mut memories = Vec::new();
    for partition in rows.partitions()? {
        rows.reader(&partition)?.snapshot(|snapshot| {
            snapshot.scan(&[Role::Point], &mut |memory| {
                memories.push(memory);
                if memories.len() < READ {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        })?;
        if memories.len() >= READ {
            break;
        }
    }
    let step = memories.len().div_ceil(ASKED).max(1);
    Ok(memories.into_iter().step_by(step).collect())
}

fn found(
    points: &dyn VectorStore,
    derived: &[(Memory, Derived)],
) -> Result<usize, vectors::VectorError> {
    let ids: Vec<PointId> = derived
        .iter()
        .filter_map(|(_, derived)| match derived {
            Derived::Id(id) => Some(id.clone()),
            _ => None,
        })
        .collect();
    let images = points.capture(&ids)?.images;
    let there: BTreeMap<_, _> = images
        .into_iter()
        .map(|image| (image.id, image.namespace))
        .collect();
    let is_there = |memory: &Memory, id: &PointId| {
        let own = memory.namespace.as_ref().map(Namespace::as_str);
        there
            .get(id)
            .is_some_and(|named| named.as_deref().is_none_or(|named| own == Some(named)))
    };
    let by_id = derived.iter().filter(|(memory, derived)| match derived {
        Derived::Id(id) => is_there(memory, id),
        _ => false,
    });
    Ok(by_id.count() + found_by_payload(points, derived)?)
}

fn found_by_payload(
    points: &dyn VectorStore,
    derived: &[(Memory, Derived)],
) -> Result<usize, vectors::VectorError> {
    let mut asked: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for (memory, derived) in derived {
        if let (Some(namespace), Derived::ByPayload { key, value }) = (&memory.namespace, derived) {
            asked
                .entry((namespace.to_string(), key.as_str()))
                .or_default()
                .push(value.clone());
        }
    }
    let mut found = 0;
    for ((namespace, key), values) in asked {
        let matched = points.find(&namespace, key, &values)?;
        found += matched
            .into_iter()
            .map(|(value, _)| value)
            .collect::<BTreeSet<_>>()
            .len();
    }
    Ok(found)
}
