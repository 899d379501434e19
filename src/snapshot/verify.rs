//! Reading a pair again, trusting nothing but its files.
//!
//! First that the pair is of this store, then that every file has the hash that the manifest says, and only then are the
//! files opened: with suspicion, every page read, every table and memory counted anew.

use super::manifest::CopiedRows;
use super::take::count_copy;
use super::{Pair, Shelf, SnapshotError};
use crate::config;
use crate::stop::Stop;
use crate::store::copies::{CopiedFile, CopyError};
use crate::store::database;
use crate::store::rows::{Partition, RowStore};
use crate::store::vectors;

/// Verifies a pair of a store.
///
/// # Errors
///
/// When it is of another store, or not what its manifest says.
pub fn verify(
    store: &config::Store,
    shelf: &Shelf,
    pair: &Pair,
    stop: &Stop,
) -> Result<(), SnapshotError> {
    let Pair { name, manifest } = pair;
    let folder = shelf.path(name);
    shelf.require_own(manifest)?;
    if manifest.points.is_some() != store.vectors.is_some() || manifest.rows.is_empty() {
        return Err(SnapshotError::Foreign(format!(
            "{name} is a pair of other stores: a half is missing"
        )));
    }
    for file in manifest.files() {
        if stop.is_requested() {
            return Err(SnapshotError::Interrupted);
        }
        let found = CopiedFile::of(&folder, &file.name)
            .map_err(SnapshotError::io(format!("read {} of {name}", file.name)))?;
        if (found.bytes, &found.sha256) != (file.bytes, &file.sha256) {
            return Err(SnapshotError::Damaged(format!(
                "{} of {name} is not the file that the manifest names: its hash or size differs",
                file.name
            )));
        }
    }
    let rows = RowStore::new(&store.rows);
    for copied in &manifest.rows {
        if stop.is_requested() {
            return Err(SnapshotError::Interrupted);
        }
        recount(&rows, copied, &folder).map_err(SnapshotError::half(format!(
            "rows of {} in {name}",
            copied.partition
        )))?;
    }
    let (Some(copies), Some(points)) = (vectors::copies(store, stop)?, &manifest.points) else {
        return Ok(());
    };
    let half = || SnapshotError::half(format!("points in {name}"));
    if copies.recount(&folder, points).map_err(half())? != points.count {
        return Err(SnapshotError::Damaged(format!(
            "the points in {name} are not those that its manifest counts"
        )));
    }
    Ok(())
}

/// Opens the copy of one row database and counts it anew.
fn recount(
    rows: &RowStore,
    copied: &CopiedRows,
    folder: &std::path::Path,
) -> Result<(), CopyError> {
    let copy = database::open_copy(&folder.join(&copied.file.name))?;
    if let Some(damage) = database::damage(&copy)? {
        return Err(CopyError::Damaged(damage));
    }
    if database::schema(&copy)? != copied.schema {
        return Err(CopyError::Damaged(
            "its schema is not the one that the manifest says".into(),
        ));
    }
    if database::tables(&copy)? != copied.tables {
        return Err(CopyError::Damaged(
            "its tables have not the rows that the manifest counts".into(),
        ));
    }
    let partition = partition(rows, copied)
        .ok_or_else(|| CopyError::Foreign("no row database of this store has that name".into()))?;
    if count_copy(rows, &partition, copy)? != copied.count {
        return Err(CopyError::Damaged(
            "its memories are not those that the manifest counts".into(),
        ));
    }
    Ok(())
}

/// Where a row database of a pair belongs.
pub(super) fn partition(rows: &RowStore, copied: &CopiedRows) -> Option<Partition> {
    let is_per_tenant = rows.is_per_tenant();
    (is_per_tenant == copied.is_tenant)
        .then(|| rows.partition(&copied.partition))
        .flatten()
        .filter(|partition| *partition.name == *copied.partition)
}
