//! From memories that must go to targets: who hides behind whom, who may not be deleted, and nobody twice.

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::{MemoryId, Namespace};
use crate::plan::{Action, Expected, Finding, Mark, Reason, Tally, Target};
use crate::store::rows::{Partition, Removals, RowError, Snapshot};
use crate::view::View;

/// A memory that a pass wants gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The memory.
    pub(super) id: MemoryId,
    /// Whose it is.
    pub(super) namespace: Namespace,
    /// Why it must go.
    pub(super) reason: Reason,
}

/// Turns candidates into targets with versions, read in the same snapshot that the candidates were found in.
///
/// A candidate that hides behind another one goes with it, not on its own. A candidate that the schema forbids to
/// delete, or whose removal would take others along than those hidden behind it, is left alone and counted
/// [`Finding::Blocked`].
///
/// # Errors
///
/// When the rows cannot be read.
pub(super) fn with_history(
    snapshot: &Snapshot,
    partition: &Partition,
    mut candidates: Vec<Candidate>,
    findings: &mut Tally<Finding>,
) -> Result<Vec<(Target, Reason)>, RowError> {
    candidates.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<MemoryId> = candidates
        .iter()
        .map(|candidate| candidate.id.clone())
        .collect();
    let Removals { free, blocked } = snapshot.removals(&ids)?;
    for (id, blocker) in &blocked {
        tracing::info!(partition = %partition.name, memory = %id, "left alone: {blocker}");
    }
    if !blocked.is_empty() {
        *findings.entry(Finding::Blocked).or_default() += blocked.len() as u64;
    }
    let mut behind: HashMap<MemoryId, Vec<Expected>> = free.into_iter().collect();
    candidates.retain(|candidate| behind.contains_key(&candidate.id));
    let mut targets = alone(snapshot, partition, candidates)?;
    for (target, _) in &mut targets {
        target.behind = behind
            .remove(&target.memory.id)
            .unwrap_or_default()
            .into_boxed_slice();
    }
    Ok(targets)
}

/// Hides or deletes candidates, as the schema can: ended where it is bitemporal, marked as deleted where it has a column
/// for that, else deleted with the history behind them.
///
/// # Errors
///
/// When the rows cannot be read.
pub(super) fn put_away(
    snapshot: &Snapshot,
    partition: &Partition,
    view: &View<'_>,
    candidates: Vec<Candidate>,
    findings: &mut Tally<Finding>,
) -> Result<Vec<Action>, RowError> {
    let at = view.now();
    let mark = if view.config().rows.is_bitemporal() {
        if !snapshot.marks().ended {
            // Nothing is deleted there, and this file has no column to end a memory with.
            if !candidates.is_empty() {
                *findings.entry(Finding::Blocked).or_default() += candidates.len() as u64;
            }
            return Ok(Vec::new());
        }
        Some(Mark::Ended { at })
    } else {
        snapshot.marks().deleted.then_some(Mark::Deleted { at })
    };
    let Some(mark) = mark else {
        let targets = with_history(snapshot, partition, candidates, findings)?;
        let delete = |(target, reason)| Action::Delete { target, reason };
        return Ok(targets.into_iter().map(delete).collect());
    };
    let hide = |(target, reason)| Action::Hide {
        target,
        mark: mark.clone(),
        reason,
    };
    let targets = alone(snapshot, partition, candidates)?;
    Ok(targets.into_iter().map(hide).collect())
}

/// Turns candidates into targets with versions, each on its own: for memories that are marked, and not removed.
///
/// # Errors
///
/// When the rows cannot be read.
pub(super) fn alone(
    snapshot: &Snapshot,
    partition: &Partition,
    candidates: Vec<Candidate>,
) -> Result<Vec<(Target, Reason)>, RowError> {
    let ids: Vec<MemoryId> = candidates
        .iter()
        .map(|candidate| candidate.id.clone())
        .collect();
    let versions = snapshot.versions(&ids)?;
    let targets = candidates
        .into_iter()
        .zip(versions)
        .filter_map(|(candidate, version)| {
            let memory = Expected {
                id: candidate.id,
                version: version?,
            };
            let partition = Arc::clone(&partition.name);
            Some((
                Target {
                    partition,
                    namespace: candidate.namespace,
                    memory,
                    behind: [].into(),
                },
                candidate.reason,
            ))
        });
    Ok(targets.collect())
}
