//! Replay: finishing what a run that was killed, or lost its vector store, had begun. First thing in every run.
//!
//! An open intent says that points may be gone and rows may not. If the row is still the one that the intent was
//! written for, the removal is finished; if it is gone, only the mark was missing; if it was changed, or its owner is
//! back, it stays and those of its points that are missing are put back. Nothing is removed before that is known: the
//! agent may have given a changed memory a new vector long ago.
//!
//! What a run had begun to take back is put back to the end, row before point: see [`super::undo`].
//!
//! An intent is finished only on the stores that it was written for: where the configuration names others by now, it
//! stays open and is named, and no pass of the store runs until a person has decided.

use std::collections::{BTreeMap, BTreeSet};

use crate::failpoint::{Failpoint, hit};
use crate::pace::Pace;
use crate::pass::PassName;
use crate::plan::{ActionKind, Reason, Unread};
use crate::report::{Applied, count};
use crate::state::{self, IntentRecord, Settled, SkipReason, State};
use crate::store::rows::{Fate, Partition, Wanted, Writer};

use super::files::{Files, Home};
use super::finish::{self, Written};
use super::foreign::Foreign;
use super::recheck::owner_still_so;
use super::{
    AT_ONCE, ApplyError, Job, LARGEST_TRANSACTION, damaged, entities, failed, is_missing, points,
    undo, unfinished,
};

/// What was finished of earlier runs.
#[derive(Debug, Default)]
pub struct Replayed {
    /// By the pass that had planned it.
    pub by_pass: BTreeMap<PassName, Applied>,
    /// Row databases whose intents could not be finished, and stay open.
    pub unread: Vec<Unread>,
    /// Actions that were taken back to the end, or had to be left.
    pub undone: u64,
    /// Whether some of it was begun on other stores: then no pass may run.
    pub foreign: bool,
    /// Whether a stop was requested before the end.
    pub interrupted: bool,
}

impl Replayed {
    /// How many actions were finished or taken back.
    #[must_use]
    pub fn actions(&self) -> u64 {
        let tallies = self
            .by_pass
            .values()
            .flat_map(|done| [&done.applied, &done.skipped]);
        tallies.flat_map(BTreeMap::values).sum::<u64>() + self.undone
    }
}

/// Finishes the open intents of every row database of a store.
///
/// # Errors
///
/// When a store cannot be changed; the intents that are left stay open.
pub fn replay(job: &Job<'_>) -> Result<Replayed, ApplyError> {
    let mut replayed = Replayed::default();
    let tenants = job.states.tenants()?;
    replayed.unread.extend(damaged(&tenants.damaged));
    let files = Files::list(job.stores)?;
    let names = tenants.names.iter();
    let names = names.map(|name| state::Partition::Tenant(name));
    for partition in std::iter::once(state::Partition::Main).chain(names) {
        if job.cx.stop.is_requested() {
            replayed.interrupted = true;
            break;
        }
        let result = replay_file(job, partition, &files, &mut replayed);
        match result {
            Ok(()) => {}
            Err(error) if error.is_interruption() => {
                replayed.interrupted = true;
                break;
            }
            Err(error) if error.is_of_one_file() && partition.tenant().is_some() => {
                replayed.unread.push(failed(partition, &error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(replayed)
}

/// Finishes the open intents of one state file.
fn replay_file(
    job: &Job<'_>,
    partition: state::Partition<'_>,
    files: &Files,
    replayed: &mut Replayed,
) -> Result<(), ApplyError> {
    hit(match partition.tenant() {
        None => Failpoint::ReplayBefore,
        Some(_) => Failpoint::ReplayTenant,
    })?;
    job.states.at(partition, |state| {
        let (mut foreign, mut after) = (Foreign::default(), None);
        let mut is_file_missing = false;
        loop {
            // What cannot be settled (its half of the store is no longer configured) stays open, and visible.
            let open = state.open_intents(after, AT_ONCE)?;
            let Some(last) = open.last() else {
                break;
            };
            after = Some(last.id);
            let own = foreign.take(job.states.identity(), open);
            doubt(job, own.iter().map(|record| record.run.as_str()))?;
            let file = match files.home(partition) {
                Home::File(file) => Some(file),
                Home::None => None,
                Home::Missing => {
                    is_file_missing |= !own.is_empty();
                    continue;
                }
            };
            replay_intents(job, file, state, own, &mut replayed.by_pass)?;
        }
        let mut after = None;
        loop {
            let open = state.open_undos(after, AT_ONCE)?;
            let Some(last) = open.last() else {
                break;
            };
            after = Some(last.id);
            let own = foreign.take(job.states.identity(), open);
            doubt(job, own.iter().filter_map(|record| record.undo.as_deref()))?;
            match files.home(partition) {
                Home::Missing => is_file_missing |= !own.is_empty(),
                home => replayed.undone += undo::replay(job, state, &home, own)?,
            }
        }
        if is_file_missing {
            replayed.unread.push(unfinished(partition, is_missing()));
        }
        if let Some(problem) = foreign.problem(state.path()) {
            replayed.unread.push(unfinished(partition, problem));
            replayed.foreign = true;
        }
        Ok(())
    })
}

/// Writes that what these runs did is not all counted, before more of it ends.
fn doubt<'a>(job: &Job<'_>, runs: impl Iterator<Item = &'a str>) -> Result<(), ApplyError> {
    let runs: BTreeSet<&str> = runs.collect();
    for run in runs {
        job.states.main().doubt(run)?;
    }
    Ok(())
}

fn replay_intents(
    job: &Job<'_>,
    file: Option<&Partition>,
    state: &State,
    records: Vec<IntentRecord>,
    done: &mut BTreeMap<PassName, Applied>,
) -> Result<(), ApplyError> {
    let mut by_pass: BTreeMap<PassName, Vec<IntentRecord>> = BTreeMap::new();
    for record in records {
        by_pass.entry(record.pass).or_default().push(record);
    }
    for (pass, records) in by_pass {
        let done = done.entry(pass).or_default();
        let written = records.into_iter().map(|record| Written {
            id: record.id,
            intent: record.intent,
        });
        let (lists, written): (Vec<_>, Vec<_>) =
            written.partition(|written| written.intent.kind.is_of_entity());
        let (drops, rows): (Vec<_>, Vec<_>) = written
            .into_iter()
            .partition(|written| written.intent.kind == ActionKind::DropPoint);
        if let Some(file) = file.filter(|_| !rows.is_empty()) {
            replay_rows(job, file, state, pass, rows, done)?;
        }
        if !drops.is_empty() {
            points::replay(job, file, state, drops, done)?;
        }
        if !lists.is_empty() {
            entities::replay(job, state, lists, done)?;
        }
    }
    Ok(())
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
        let is_wanted = is_wanted || written.intent.reason == Reason::Forgotten;
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
    hit(Failpoint::ReplaySettleBefore)?;
    state.settle(&settled, job.now)?;
    hit(Failpoint::ReplaySettled)?;
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
    let now = if let Some(mark) = &written.intent.mark {
        if writer.is_marked(id, mark)? {
            return Ok(true);
        }
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
