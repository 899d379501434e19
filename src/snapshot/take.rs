//! Making a pair: the rows, the points beside them, then the manifest, then its name.
//!
//! Every count in the manifest was taken from the copies. Whatever goes wrong, nothing is left on the shelf.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rusqlite::Connection;

use super::manifest::{CopiedRows, Drift, FORMAT, Manifest, Purpose};
use super::{Shelf, SnapshotError};
use crate::clock::{self, Timestamp};
use crate::failpoint::{Failpoint, hit};
use crate::panics::joined;
use crate::pass::{Cx, PassName};
use crate::store::Stores;
use crate::store::copies::{CopiedPoints, CopyError, Count};
use crate::store::database::{self, Fixed, Stamp};
use crate::store::identity::Identity;
use crate::store::rows::{Partition, RowStore, Snapshot};
use crate::store::vectors;

/// What is to be copied, and for whom.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// The store.
    pub stores: &'a Stores,
    /// Why.
    pub purpose: Purpose,
    /// The run.
    pub run: &'a str,
    /// The instant of the run.
    pub now: Timestamp,
    /// Whether what had been removed from the points before must not be in the copy, where that can be had: a server has
    /// to write them anew for it.
    pub is_anew: bool,
    /// Whether to stop, and where to show progress.
    pub cx: Cx<'a>,
}

/// Takes a pair and puts it on the shelf. The caller holds the lock of the store.
///
/// # Errors
///
/// When the pair is not whole; then none is there.
pub fn take(order: Order<'_>) -> Result<Manifest, SnapshotError> {
    let open = order.stores.state.count_open_intents()?;
    if open > 0 {
        return Err(SnapshotError::OpenIntents { open });
    }
    let shelf = Shelf::of(&order.stores.config);
    let name = shelf.begin(order.now)?;
    let taken = fill(order, &shelf.hidden(&name), &name).and_then(|manifest| {
        shelf.publish(&name)?;
        hit(Failpoint::PairPublished)?;
        Ok(manifest)
    });
    if taken.is_err() && shelf.hidden(&name).exists() {
        std::fs::remove_dir_all(shelf.hidden(&name))
            .map_err(SnapshotError::io("remove what was copied so far"))?;
    }
    taken
}

/// Copies both halves into a folder and writes the manifest.
fn fill(order: Order<'_>, folder: &Path, name: &str) -> Result<Manifest, SnapshotError> {
    hit(Failpoint::PairBegun)?;
    let stores = order.stores;
    let begun_at = clock::now();
    let (rows, points) = copy_halves(order, folder)?;
    hit(Failpoint::PointsCopied)?;
    let mut manifest = Manifest {
        format: FORMAT,
        seal: String::new(),
        store: stores.name.to_string(),
        pair: name.to_owned(),
        purpose: order.purpose,
        run: order.run.to_owned(),
        hypnos: env!("CARGO_PKG_VERSION").to_owned(),
        sqlite: rusqlite::version().to_owned(),
        taken_at: order.now,
        begun_at,
        finished_at: clock::now(),
        epoch: stores.state.epoch()?,
        state: Some(stores.state.bookmarks()?),
        open_intents: 0,
        identity: Identity::of(&stores.config),
        drift: drift(stores, &rows)?,
        rows,
        points,
    };
    manifest.write(folder)?;
    hit(Failpoint::ManifestWritten)?;
    Ok(manifest)
}

/// Copies the rows, and the points beside them from the moment on at which the state of the last rows stands: no point
/// is of an earlier state than any row. Points that are in the copy of the rows wait for it.
fn copy_halves(
    order: Order<'_>,
    folder: &Path,
) -> Result<(Vec<CopiedRows>, Option<CopiedPoints>), SnapshotError> {
    let copies = vectors::copies(&order.stores.config, order.cx.stop)?;
    let (sender, standing) = mpsc::channel();
    let fixed = match &copies {
        Some(copies) if !copies.is_in_rows() => Fixed::telling(sender.clone()),
        _ => Fixed::default(),
    };
    thread::scope(|scope| {
        let points = copies.map(|copies| {
            let copy = move || {
                if order.is_anew {
                    copies.copy_anew_to(folder)
                } else {
                    copies.copy_to(folder)
                }
            };
            let copy = move || standing.recv().is_ok().then(copy);
            scope.spawn(copy)
        });
        let rows = copy_rows(order, folder, &fixed).and_then(|rows| {
            hit(Failpoint::RowsCopied)?;
            Ok(rows)
        });
        if rows.is_ok() {
            // Nobody listens where there are no points.
            let _ = sender.send(());
        }
        // Else the points would wait for ever for rows that could not be copied.
        drop((sender, fixed));
        let points = points.and_then(joined).transpose();
        Ok((rows?, points.map_err(SnapshotError::half("points"))?))
    })
}

/// Copies every row database; `fixed` is told of the last one.
fn copy_rows(
    order: Order<'_>,
    folder: &Path,
    fixed: &Fixed,
) -> Result<Vec<CopiedRows>, SnapshotError> {
    let partitions = order.stores.listing()?.files;
    let progress = order.cx.progress;
    let total = partitions.len() as u64;
    progress.begin(&order.stores.name, PassName::Snapshot, "copy", Some(total));
    let mut copied = Vec::with_capacity(partitions.len());
    for (index, partition) in partitions.iter().enumerate() {
        if order.cx.stop.is_requested() {
            return Err(SnapshotError::Interrupted);
        }
        let file = format!("rows-{}.db", index + 1);
        let fixed = match partitions.len() - index {
            1 => fixed.clone(),
            _ => Fixed::default(),
        };
        let rows = copy_partition(order, partition, folder, &file, &fixed)
            .map_err(SnapshotError::half(format!("rows of {}", partition.name)))?;
        copied.push(rows);
        progress.advance(1);
    }
    progress.end();
    Ok(copied)
}

fn copy_partition(
    order: Order<'_>,
    partition: &Partition,
    folder: &Path,
    file: &str,
    fixed: &Fixed,
) -> Result<CopiedRows, CopyError> {
    let journal_mode = database::journal_mode(&partition.path)?;
    let stamp = Stamp::of(&partition.path)?;
    let made = database::copy(&partition.path, &folder.join(file), order.cx.stop, fixed)?;
    let (file, (schema, tables, count)) = database::settle(folder, file, made, |copy| {
        Ok((
            database::schema(&copy)?,
            database::tables(&copy)?,
            count_copy(&order.stores.rows, partition, copy)?,
        ))
    })?;
    Ok(CopiedRows {
        partition: partition.name.to_string(),
        is_tenant: partition.tenant.is_some(),
        journal_mode,
        schema,
        tables,
        count,
        file,
        stamp,
    })
}

/// Counts the memories of a copy.
pub(super) fn count_copy(
    rows: &RowStore,
    partition: &Partition,
    copy: Connection,
) -> Result<Count, CopyError> {
    Ok(rows
        .reader_of_copy(copy, partition)?
        .snapshot(Snapshot::count)?)
}

/// Counts what was written to the rows since they were copied.
fn drift(stores: &Stores, copied: &[CopiedRows]) -> Result<Drift, SnapshotError> {
    let mut drift = Drift::default();
    for partition in stores.listing()?.files {
        let Some(rows) = copied
            .iter()
            .find(|rows| *rows.partition == *partition.name)
        else {
            continue;
        };
        let half = || SnapshotError::half(format!("rows of {}", partition.name));
        if Stamp::of(&partition.path).map_err(half())? == rows.stamp {
            continue;
        }
        let after = stores.rows.reader(&partition)?.snapshot(Snapshot::count)?;
        drift.written += 1;
        drift.rows_in_copy += rows.count.total;
        drift.rows_after += after.total;
    }
    Ok(drift)
}
