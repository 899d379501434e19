//! Whether the stores are still as a pair describes them, so that another one would be the same.
//!
//! A file that was not written to since is told by its stamp. Otherwise it is compared with the copy, row by row, until
//! the first difference.

use std::collections::BTreeSet;

use super::{Pair, Shelf, SnapshotError};
use crate::stop::Stop;
use crate::store::Stores;
use crate::store::database::{self, Stamp};
use crate::store::identity::Identity;
use crate::store::vectors;

/// Whether another pair would say the same as this one.
///
/// # Errors
///
/// When the stores, or the copies, cannot be read; or a stop was requested.
pub fn is_current(
    stores: &Stores,
    shelf: &Shelf,
    pair: &Pair,
    stop: &Stop,
) -> Result<bool, SnapshotError> {
    let manifest = &pair.manifest;
    let folder = shelf.path(&pair.name);
    let files = stores.listing()?.files;
    let now: BTreeSet<&str> = files.iter().map(|file| &*file.name).collect();
    let then: BTreeSet<&str> = manifest.rows.iter().map(|rows| &*rows.partition).collect();
    // Also where a part is set that was not recorded then.
    let is_same_place = manifest.identity == Identity::of(&stores.config);
    if !is_same_place || now != then || manifest.epoch != stores.state.epoch()? {
        return Ok(false);
    }
    for file in &files {
        let Some(rows) = manifest
            .rows
            .iter()
            .find(|rows| *rows.partition == *file.name)
        else {
            return Ok(false);
        };
        let half = || SnapshotError::half(format!("rows of {}", file.name));
        let stamp = Stamp::of(&file.path).map_err(half())?;
        if !rows.stamp.proves(&stamp, manifest.begun_at)
            && !database::same(&file.path, &folder.join(&rows.file.name), stop).map_err(half())?
        {
            return Ok(false);
        }
    }
    match (vectors::copies(&stores.config, stop)?, &manifest.points) {
        (None, None) => Ok(true),
        (Some(copies), Some(points)) => copies
            .is_current(&folder, points, manifest.begun_at)
            .map_err(SnapshotError::half("points")),
        _ => Ok(false),
    }
}
