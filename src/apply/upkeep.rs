//! Work on whole files: free pages and pairs of snapshots.

use crate::plan::{ActionKind, DropReason, Unread, Upkeep};
use crate::report::{Applied, count};
use crate::snapshot::manifest::Purpose;
use crate::snapshot::{Order, Shelf, take};
use crate::store::files::StoreFile;
use crate::store::space::{self, SpaceError};

use super::{ApplyError, Job};

/// Does one piece of work after the other.
pub(super) fn apply(
    upkeep: Vec<Upkeep>,
    job: &Job<'_>,
    done: &mut Applied,
) -> Result<(), ApplyError> {
    for work in upkeep {
        if job.cx.stop.is_requested() {
            done.interrupted = true;
        }
        if done.interrupted {
            return Ok(());
        }
        match work {
            Upkeep::Vacuum {
                file, incremental, ..
            } => vacuum(&file, incremental, job, done)?,
            Upkeep::Snapshot { .. } => snapshot(job, done)?,
            Upkeep::DropPair { pair, reason } => drop_pair(&pair, reason, job, done)?,
        }
    }
    Ok(())
}

/// Gives the free pages of one file back. One that is in use is put off to another night.
fn vacuum(
    file: &StoreFile,
    incremental: bool,
    job: &Job<'_>,
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let limit = job.stores.config.passes.vacuum.max_stall;
    let result = if incremental {
        space::shrink(&file.path, job.cx.stop)
    } else {
        space::vacuum(&file.path, limit, job.cx.stop)
    };
    match result {
        // Nothing came back: a reader still needs the old pages.
        Ok(0) => count(&mut done.skipped, ActionKind::Vacuum, 1),
        Ok(freed) => {
            done.freed_bytes += freed;
            count(&mut done.applied, ActionKind::Vacuum, 1);
        }
        Err(SpaceError::Interrupted) => done.interrupted = true,
        Err(error) if error.is_busy() => count(&mut done.skipped, ActionKind::Vacuum, 1),
        Err(error @ (SpaceError::TooLong { .. } | SpaceError::OfTheApplication)) => {
            done.unread.push(Unread::of_error(&file.partition, &error));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Takes a pair. Everything after it in the plan waits for that.
fn snapshot(job: &Job<'_>, done: &mut Applied) -> Result<(), ApplyError> {
    let taken = take(Order {
        stores: job.stores,
        purpose: Purpose::Run,
        run: job.run,
        now: job.now,
        is_anew: false,
        cx: job.cx,
    });
    match taken {
        Ok(_) => count(&mut done.applied, ActionKind::Snapshot, 1),
        Err(error) if error.is_interruption() => done.interrupted = true,
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Drops a pair, but never the newest one that can be believed.
fn drop_pair(
    name: &str,
    reason: DropReason,
    job: &Job<'_>,
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let shelf = Shelf::of(&job.stores.config);
    let listing = shelf.list(job.now)?;
    let is_last = listing.newest().is_none_or(|newest| newest.name == name);
    if reason == DropReason::Expired && is_last {
        count(&mut done.skipped, ActionKind::DropPair, 1);
        return Ok(());
    }
    shelf.drop_pair(name)?;
    count(&mut done.applied, ActionKind::DropPair, 1);
    Ok(())
}
