//! Replay: finishing what a run that was killed, or lost its vector store, had begun. First thing in every run.
//!
//! An open intent says that points may be gone and rows may not. If the row is still the one that the intent was
//! written for, the removal is finished; if it is gone, only the mark was missing; if it was changed, or its owner is
//! back, it stays and those of its points that are missing are put back. Nothing is removed before that is known: the
//! agent may have given a changed memory a new vector long ago.

use std::collections::BTreeMap;

use crate::pace::Pace;
use crate::pass::PassName;
use crate::plan::{ActionKind, Unread};
use crate::report::{Applied, count};
use crate::state::{IntentRecord, Settled, SkipReason, State};
use crate::store::MAIN;
use crate::store::rows::{Fate, Partition, Wanted, Writer};

use super::finish::{self, Written};
use super::recheck::owner_still_so;
use super::{ApplyError, Job, LARGEST_TRANSACTION, partition, points};

/// Intents read at once, each with its pre-image.
const AT_ONCE: u32 = 1000;

/// What was finished of earlier runs.
#[derive(Debug, Default)]
pub struct Replayed {
    /// By the pass that had planned it.
    pub by_pass: BTreeMap<PassName, Applied>,
    /// Row databases whose intents could not be finished, and stay open.
    pub unread: Vec<Unread>,
}

impl Replayed {
    /// How many actions were finished or taken back.
    #[must_use]
    pub fn actions(&self) -> u64 {
        let tallies = self
            .by_pass
            .values()
            .flat_map(|done| [&done.applied, &done.skipped]);
        tallies.flat_map(BTreeMap::values).sum()
    }
}

/// Finishes the open intents of every row database of a store.
///
/// # Errors
///
/// When a store cannot be changed; the intents that are left stay open.
pub fn replay(job: &Job<'_>) -> Result<Replayed, ApplyError> {
    let mut replayed = Replayed::default();
    for name in std::iter::once(MAIN.to_owned()).chain(job.states.tenants()?) {
        let partition = partition(job.stores, &name);
        let result = job.states.with(&name, |state| {
            replay_partition(job, partition.as_ref(), state, &mut replayed.by_pass)
        });
        match result {
            Ok(()) => {}
            Err(ApplyError::Rows(error)) if name != MAIN => {
                let problem = crate::error::chain(&error);
                replayed.unread.push(Unread {
                    partition: name.into(),
                    problem,
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
    done: &mut BTreeMap<PassName, Applied>,
) -> Result<(), ApplyError> {
    let mut after = None;
    loop {
        // What cannot be settled (its half of the store is no longer configured) stays open, and visible.
        let open = state.open_intents(after, AT_ONCE)?;
        let Some(last) = open.last() else {
            return Ok(());
        };
        after = Some(last.id);
        let mut by_pass: BTreeMap<PassName, Vec<IntentRecord>> = BTreeMap::new();
        for record in open {
            by_pass.entry(record.pass).or_default().push(record);
        }
        for (pass, records) in by_pass {
            let done = done.entry(pass).or_default();
            let written = records.into_iter().map(|record| Written {
                id: record.id,
                intent: record.intent,
            });
            let (drops, rows): (Vec<_>, Vec<_>) =
                written.partition(|written| written.intent.kind == ActionKind::DropPoint);
            if let Some(partition) = partition.filter(|_| !rows.is_empty()) {
                replay_rows(job, partition, state, pass, rows, done)?;
            }
            if !drops.is_empty() {
                points::replay(job, partition, state, drops, done)?;
            }
        }
    }
}

fn replay_rows(
    job: &Job<'_>,
    partition: &Partition,
    state: &State,
    pass: PassName,
    written: Vec<Written>,
    done: &mut Applied,
) -> Result<(), ApplyError> {
    // A pass that was switched off since wants nothing removed.
    let is_wanted = pass.is_enabled(&job.stores.config.passes);
    let mut writer = job.stores.rows.writer(partition)?;
    writer.can_write()?;
    let owners = job.owners_for(written.iter().map(|written| written.intent.reason))?;
    let (mut go, mut stay) = (Vec::new(), Vec::new());
    for written in written {
        let namespace = written.intent.namespace.as_ref();
        let same_owner =
            namespace.is_none_or(|ns| owner_still_so(owners.as_ref(), ns, written.intent.reason));
        if is_wanted && same_owner && is_as_it_was(&mut writer, &written)? {
            go.push(written);
        } else {
            stay.push(written);
        }
    }
    let intents: Vec<_> = stay.iter().map(|written| &written.intent).collect();
    finish::give_back(job, &mut writer, &intents)?;
    let settled: Vec<_> = stay
        .iter()
        .map(|written| (written.id, Settled::Skipped(SkipReason::Changed)))
        .collect();
    state.settle(&settled, job.now)?;
    for written in &stay {
        count(&mut done.skipped, written.intent.kind, 1);
    }

    let fates = finish::rows(
        job,
        &mut writer,
        state,
        &mut Pace::up_to(LARGEST_TRANSACTION),
        &go,
    )?;
    for (written, fate) in go.iter().zip(fates) {
        let is_done = matches!(fate, Fate::Removed | Fate::Absent);
        count(
            if is_done {
                &mut done.applied
            } else {
                &mut done.skipped
            },
            written.intent.kind,
            1,
        );
    }
    Ok(())
}

/// Whether the rows of an intent are as its pre-image has them, or gone altogether.
fn is_as_it_was(writer: &mut Writer, written: &Written) -> Result<bool, ApplyError> {
    let Some(id) = &written.intent.memory else {
        return Ok(false);
    };
    let alone = writer
        .roots(std::slice::from_ref(id), usize::MAX)?
        .pop()
        .flatten();
    if alone.is_none() {
        return Ok(true);
    }
    let now = if written.intent.kind == ActionKind::End {
        alone
    } else {
        let wanted = Wanted {
            id: id.clone(),
            behind: written.intent.behind.clone(),
        };
        writer.units(&[wanted], usize::MAX)?.pop().flatten()
    };
    Ok(now == written.intent.unit)
}
