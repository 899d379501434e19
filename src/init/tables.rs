//! Which table of vectors it may be, where the points are in SQLite.

use std::path::Path;

use super::draft::{Draft, Keys, Points};
use super::{guess, shape};
use crate::config::fingerprint::Shape;
use crate::error::Failure;
use crate::exit::Exit;

/// What the columns of such a table are called.
const VECTORS: [&str; 5] = ["vector", "embedding", "embedding_blob", "vec", "v"];
const IDS: [&str; 5] = ["id", "point_id", "memory_id", "doc_id", "uuid"];
const NAMESPACES: [&str; 5] = ["namespace", "user_id", "tenant_id", "tenant", "owner_id"];

/// Every draft with each table of the database that could hold its points.
pub(super) fn candidates(drafts: Vec<Draft>, path: &str) -> Result<Vec<Draft>, Failure> {
    let shape = shape::of(Path::new(path))?;
    let mut candidates = Vec::new();
    for draft in drafts {
        for table in tables(&shape) {
            let rules = if draft.mapping.is_some() {
                guess::RULES
            } else {
                &[""]
            };
            for rule in rules {
                let mut keys = table.clone();
                if !rule.is_empty() {
                    keys.push(("point_id", (*rule).to_owned()));
                }
                let points = Points::Table {
                    path: path.to_owned(),
                    keys,
                };
                candidates.push(Draft {
                    points,
                    ..draft.clone()
                });
            }
        }
    }
    if candidates.is_empty() {
        return Err(Failure::new(Exit::NoStore, format!("no table of {path} looks like one of vectors"))
            .with_hint("a table of points has a column for the id and one for the vector; write [store.vectors] by hand, or name none"));
    }
    Ok(candidates)
}

/// The keys of `[store.vectors]` for each table that has an id and a vector.
fn tables(shape: &Shape) -> Vec<Keys> {
    let mut found = Vec::new();
    for (table, columns) in &shape.tables {
        let first = |names: &[&'static str]| {
            names
                .iter()
                .find(|name| columns.contains_key(**name))
                .copied()
        };
        let (Some(id), Some(vector)) = (first(&IDS), first(&VECTORS)) else {
            continue;
        };
        let mut keys = vec![
            ("table", table.clone()),
            ("id", id.to_owned()),
            ("vector", vector.to_owned()),
        ];
        keys.extend(first(&NAMESPACES).map(|column| ("namespace_key", column.to_owned())));
        if !columns.contains_key("payload") {
            keys.push(("payload", String::new()));
        }
        found.push(keys);
    }
    found
}
