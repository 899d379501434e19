//! Replay: finishing what a run that was killed, or lost its vector store, had begun. First thing in every run.
//!
//! An open intent says that points may be gone and rows may not. If the row is still the one that the intent was
//! written for, the removal is finished; if it is gone, only the mark was missing; if it was changed, or its owner is
//! back, it stays and its points are put back.

use crate::plan::{ActionKind, Unread};
use crate::report::Applied;
use crate::state::{Intent, Settled, SkipReason, State};
use crate::store::MAIN;
use crate::store::rows::Partition;

use super::finish::{self, Written};
use super::pace::Pace;
use super::recheck::owner_still_so;
use super::{ApplyError, Job, partition, points};

/// Intents read at once, each with its pre-image.
const AT_ONCE: u32 = 1000;

/// Finishes the open intents of every row database of a store, and says how many there were.
///
/// # Errors
///
/// When a store cannot be changed; the intents that are left stay open. A tenant's file that cannot be changed is
/// named in `done.unread`, and its intents stay open.
pub fn replay(job: &Job<'_>, done: &mut Applied) -> Result<u64, ApplyError> {
    let mut replayed = 0;
    for name in std::iter::once(MAIN.to_owned()).chain(job.states.tenants()?) {
        let partition = partition(job.stores, &name);
        let result = job.states.with(&name, |state| {
            replay_partition(job, partition.as_ref(), state, done)
        });
        match result {
            Ok(count) => replayed += count,
            Err(ApplyError::Rows(error)) if name != MAIN => {
                done.unread.push(Unread {
                    partition: name.into(),
                    problem: crate::error::chain(&error),
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(replayed)
}

fn replay_partition(
    job: &Job<'_>,
    partition: Option<&Partition>,
    state: &State,
    done: &mut Applied,
) -> Result<u64, ApplyError> {
    let (mut replayed, mut after) = (0, None);
    loop {
        // What cannot be settled (its half of the store is no longer configured) stays open, and visible.
        let open = state.open_intents(after, AT_ONCE)?;
        let Some(last) = open.last() else {
            return Ok(replayed);
        };
        after = Some(last.id);
        replayed += open.len() as u64;
        let written = open.into_iter().map(|record| Written {
            id: record.id,
            intent: record.intent,
        });
        let (drops, rows): (Vec<_>, Vec<_>) =
            written.partition(|written| written.intent.kind == ActionKind::DropPoint);
        if let Some(partition) = partition.filter(|_| !rows.is_empty()) {
            replay_rows(job, partition, state, rows)?;
        }
        if !drops.is_empty() {
            points::replay(job, partition, state, drops, done)?;
        }
    }
}

fn replay_rows(
    job: &Job<'_>,
    partition: &Partition,
    state: &State,
    written: Vec<Written>,
) -> Result<(), ApplyError> {
    let mut writer = job.stores.rows.writer(partition)?;
    writer.can_write()?;
    let owners = job.owners_for(written.iter().map(|written| written.intent.reason))?;
    let (go, revived): (Vec<_>, Vec<_>) = written.into_iter().partition(|written| {
        let Intent {
            namespace, reason, ..
        } = &written.intent;
        namespace
            .as_ref()
            .is_none_or(|namespace| owner_still_so(owners.as_ref(), namespace, *reason))
    });
    let intents: Vec<_> = revived.iter().map(|written| &written.intent).collect();
    finish::give_back(job, &mut writer, &intents)?;
    let settled: Vec<_> = revived
        .iter()
        .map(|written| (written.id, Settled::Skipped(SkipReason::Changed)))
        .collect();
    state.settle(&settled, job.now)?;
    finish::rows(job, &mut writer, state, &mut Pace::default(), &go)?;
    Ok(())
}
