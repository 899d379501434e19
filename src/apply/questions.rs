//! Putting questions to a person, and taking back those that have become void. Neither store is touched.

use crate::failpoint::{Failpoint, hit};
use crate::plan::{Action, ActionKind, Question, Reason};
use crate::report::{Applied, count};
use crate::state::Answer;

use super::{ApplyError, BATCH, Job};

/// Applies the actions about the queue, batch by batch.
pub(super) fn apply(
    job: &Job<'_>,
    actions: &[Action],
    done: &mut Applied,
) -> Result<(), ApplyError> {
    let state = job.states.main();
    for batch in actions.chunks(BATCH) {
        if job.cx.stop.is_requested() {
            done.interrupted = true;
            return Ok(());
        }
        let void: Vec<i64> = batch.iter().filter_map(void).collect();
        let new: Vec<(&Question, Reason)> = batch.iter().filter_map(new).collect();
        hit(Failpoint::QueueBefore)?;
        if !void.is_empty() {
            state.answer(job.run, &void, Answer::Void, job.now)?;
            count(&mut done.applied, ActionKind::Close, void.len());
            hit(Failpoint::QueueClosed)?;
        }
        if !new.is_empty() {
            state.enqueue(job.run, &new, job.now)?;
            count(&mut done.applied, ActionKind::Queue, new.len());
        }
        hit(Failpoint::QueueWritten)?;
        job.cx.progress.advance(batch.len() as u64);
    }
    Ok(())
}

fn void(action: &Action) -> Option<i64> {
    match action {
        Action::Close { entry, .. } => Some(*entry),
        _ => None,
    }
}

fn new(action: &Action) -> Option<(&Question, Reason)> {
    match action {
        Action::Queue { question, reason } => Some((question, *reason)),
        _ => None,
    }
}
