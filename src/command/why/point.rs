//! Where the point of a memory is.

use serde::Serialize;

use crate::error::chain;
use crate::memory::{Memory, PointId};
use crate::store::Stores;
use crate::store::vectors::point_id::{Derived, Rule};
use crate::store::vectors::{VectorError, VectorReader};

/// The point of a memory.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    state: PointState,
    /// Its id, as the rule of the store has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<String>,
    /// Why nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PointState {
    /// It is there.
    Present,
    /// It is not there.
    Missing,
    /// The store has no vectors.
    NoVectors,
    /// Which point it is, or whether it is there, cannot be told.
    Unknown,
}

impl Point {
    fn new(state: PointState, ids: &[PointId]) -> Self {
        Self {
            state,
            ids: ids.iter().map(ToString::to_string).collect(),
            problem: None,
        }
    }

    fn unknown(problem: impl Into<String>) -> Self {
        Self {
            problem: Some(problem.into()),
            ..Self::new(PointState::Unknown, &[])
        }
    }

    /// The same in words.
    pub(super) fn describe(&self) -> String {
        let state = match self.state {
            PointState::Present => "present",
            PointState::Missing => "missing",
            PointState::NoVectors => "the store has no vectors",
            PointState::Unknown => "unknown",
        };
        let ids = self.ids.join(" ");
        let problem = self.problem.as_deref().unwrap_or_default();
        let parts = [state, ids.as_str(), problem];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("  ")
    }
}

/// Looks for the point of a memory.
pub(super) fn of(stores: &Stores, memory: &Memory) -> Point {
    let (Some(config), Some(vectors)) = (&stores.config.vectors, &stores.vectors) else {
        return Point::new(PointState::NoVectors, &[]);
    };
    let rule = Rule {
        point_id: &config.point_id,
        rows: &stores.config.rows,
    };
    let found = match rule.derive(memory) {
        Derived::None { why } => return Point::unknown(why),
        Derived::Id(id) => is_there(vectors.as_ref(), id),
        Derived::ByPayload { key, value } => {
            let namespace = memory.namespace.as_ref().map_or("", |ns| ns.as_str());
            let found = vectors.find(namespace, &key, &[value]);
            found.map(|found| {
                let ids: Vec<PointId> = found.iter().filter_map(|(_, id)| id.clone()).collect();
                let is_there = !found.is_empty();
                (ids, is_there)
            })
        }
    };
    match found {
        Ok((ids, true)) => Point::new(PointState::Present, &ids),
        Ok((ids, false)) => Point::new(PointState::Missing, &ids),
        Err(error) => Point::unknown(chain(&error)),
    }
}

fn is_there(vectors: &dyn VectorReader, id: PointId) -> Result<(Vec<PointId>, bool), VectorError> {
    let found = vectors.capture(std::slice::from_ref(&id))?;
    Ok((
        vec![id],
        !found.images.is_empty() || !found.ambiguous.is_empty(),
    ))
}
