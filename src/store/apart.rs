//! Configured stores that are one file under two names, through a symbolic link, a hard link or a linked folder.
//!
//! Their names alone tell nothing, so the configuration cannot see it: two runs with a lock each would work on the same
//! rows, or take each other's points for orphans. The files are looked at and not opened.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::config::{self, Backend, Config};

use super::rows::RowStore;

/// A file, whatever it is called, and the table in it.
type Place = ((u64, u64), String);

/// What is wrong when two of the configured stores reach one table of one file; empty when none do. Files that are not
/// there, or cannot be looked at, are nobody's.
#[must_use]
pub fn problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    let mut rows: HashMap<Place, &str> = HashMap::new();
    let mut points: HashMap<Place, Vec<&config::Store>> = HashMap::new();
    for store in &config.stores {
        if let Some(earlier) = claim_rows(store, &mut rows) {
            problems.push(format!(
                "store.{}.rows.path = {:?}: allowed is a file that store {earlier} does not reach by another name",
                store.name, store.rows.path
            ));
        }
        if let Some(place) = place_of_points(store) {
            let others = points.entry(place).or_default();
            if let Some(earlier) = others.iter().find(|other| sweep_each_other(store, other)) {
                problems.push(format!(
                    "store.{}.vectors: allowed are points or a scope that store {} does not reach by another name, or \
                     pass.orphans.enabled = false in both: each would take the points of the other for orphans",
                    store.name, earlier.name
                ));
            }
            others.push(store);
        }
    }
    problems
}

/// Notes the row databases of a store; the store that one of them belonged to before.
fn claim_rows<'a>(
    store: &'a config::Store,
    known: &mut HashMap<Place, &'a str>,
) -> Option<&'a str> {
    let table = store.rows.table.to_ascii_lowercase();
    // A folder of tenants that cannot be listed is an error of the run, which opens none of them.
    let partitions = RowStore::new(&store.rows).partitions().unwrap_or_default();
    let mut taken = None;
    for partition in partitions {
        if let Some(file) = file(&partition.path) {
            let owner = *known
                .entry((file, table.clone()))
                .or_insert(store.name.as_str());
            if owner != store.name {
                taken = Some(owner);
            }
        }
    }
    taken
}

fn place_of_points(store: &config::Store) -> Option<Place> {
    match &store.vectors.as_ref()?.backend {
        Backend::Sqlite(table) => Some((file(&table.path)?, table.table.to_ascii_lowercase())),
        Backend::Qdrant(_) => None,
    }
}

fn sweep_each_other(a: &config::Store, b: &config::Store) -> bool {
    (a.passes.orphans.enabled || b.passes.orphans.enabled) && a.rows.scope() == b.rows.scope()
}

fn file(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
