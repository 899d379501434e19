//! Taking back what a run did: the way of a removal, backwards.
//!
//! For every batch, latest first (a crash between any two steps is finished by the replay of the next run):
//!
//! 1. mark the intents as being taken back, durably;
//! 2. put the rows back, or take their marks back, in IMMEDIATE transactions that leave what was changed since;
//! 3. put the points back of the memories that are back, and the memories back into the lists that they were taken from;
//! 4. remember what a person means by it, so that the next night does not do it again (see `lesson`);
//! 5. mark the intents as taken back: their tombstones go.
//!
//! Who was erased, or has left since, is never brought back.

use std::collections::BTreeSet;

use crate::failpoint::{Failpoint, hit};
use crate::state::{self, IntentRecord, State, StateError, StateReader, TakenBack};

use super::files::{Files, Home};
use super::{ApplyError, Job, damaged, unfinished};

mod foresee;
mod judge;
mod lesson;
mod outcome;
mod taking;

pub use foresee::foresee;
use judge::Judge;
pub use outcome::{Fate, Rest, Returned, Scope, Undone, Why};
use taking::{Siblings, Undoing};

/// Intents read at once, each with its pre-image.
const PAGE: u32 = 200;

/// Takes back what a run did in every row database of a store.
///
/// # Errors
///
/// When a store cannot be changed; what was begun by then is finished by the next run.
pub fn undo(job: &Job<'_>, scope: &Scope<'_>) -> Result<Undone, ApplyError> {
    let mut undone = Undone::default();
    let tenants = job.states.tenants()?;
    undone.unread.extend(damaged(&tenants.damaged));
    let files = Files::list(job.stores)?;
    let judge = Judge::new(job.stores, job.states.main())?;
    let names = tenants.names.iter();
    let names = names.map(|name| state::Partition::Tenant(name));
    for partition in std::iter::once(state::Partition::Main).chain(names) {
        if job.cx.stop.is_requested() {
            undone.interrupted = true;
            break;
        }
        match undo_file(job, scope, &judge, partition, &files, &mut undone) {
            Ok(()) => {}
            Err(error) if error.is_interruption() => {
                undone.interrupted = true;
                break;
            }
            Err(error) if error.is_of_one_file() && partition.tenant().is_some() => {
                undone.unread.push(unfinished(partition, error.advice()));
            }
            Err(error) => return Err(error),
        }
    }
    if scope.is_whole() && !undone.interrupted {
        undone
            .reopened
            .extend(job.states.main().reopen(scope.run, None)?);
    }
    Ok(undone)
}

/// Whether a state file knows of something that the scope wants.
///
/// # Errors
///
/// When it cannot be read.
pub fn concerns(state: &StateReader, scope: &Scope<'_>) -> Result<bool, StateError> {
    let mut before = None;
    loop {
        let page = state.deeds_of_run(scope.run, before, PAGE)?;
        let Some(last) = page.last() else {
            return Ok(false);
        };
        before = Some(last.id);
        if page.iter().any(|record| scope.wants(record)) {
            return Ok(true);
        }
    }
}

fn undo_file(
    job: &Job<'_>,
    scope: &Scope<'_>,
    judge: &Judge<'_>,
    partition: state::Partition<'_>,
    files: &Files,
    undone: &mut Undone,
) -> Result<(), ApplyError> {
    job.states.at(partition, |state| {
        let home = files.home(partition);
        let erased = state.erased_namespaces()?;
        let mut undoing = Undoing::new(job, state, &home);
        let mut before = None;
        loop {
            if job.cx.stop.is_requested() {
                undone.interrupted = true;
                break;
            }
            let page = state.deeds_of_run(scope.run, before, PAGE)?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            let mut going = Vec::new();
            for record in page.into_iter().filter(|record| scope.wants(record)) {
                match judge.forbids(&record, &home, &erased) {
                    Some(fate) => undone.actions.push(Returned::of(&record, fate)),
                    None => going.push(record),
                }
            }
            if going.is_empty() {
                continue;
            }
            // A locked file is found before anything is marked.
            undoing.open(&going)?;
            let ids: Vec<_> = going.iter().map(|record| record.id).collect();
            hit(Failpoint::UndoBefore)?;
            state.begin_undo(job.run, &ids)?;
            hit(Failpoint::UndoBegun)?;
            let siblings = Siblings::of(scope);
            undone
                .actions
                .extend(undoing.take_back(&going, siblings, &mut undone.reopened)?);
        }
        undoing.second_look(&mut undone.actions)
    })
}

/// Finishes what a run that was killed had begun to take back in one row database. Gives how many actions.
pub(super) fn replay(
    job: &Job<'_>,
    state: &State,
    home: &Home<'_>,
    records: Vec<IntentRecord>,
) -> Result<u64, ApplyError> {
    let judge = Judge::new(job.stores, job.states.main())?;
    let erased = state.erased_namespaces()?;
    let (mut left, mut going) = (Vec::new(), Vec::new());
    for record in records {
        match judge.forbids(&record, home, &erased) {
            Some(_) => left.push((record.id, TakenBack::Left)),
            None => going.push(record),
        }
    }
    let finished = left.len() + going.len();
    state.finish_undo(&left, job.now)?;
    let mut undoing = Undoing::new(job, state, home);
    undoing.open(&going)?;
    undoing.take_back(&going, Siblings::Replayed, &mut BTreeSet::new())?;
    Ok(finished as u64)
}
