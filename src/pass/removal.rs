//! From memories that must go to targets: who hides behind whom, who may not be deleted, and nobody twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::memory::{MemoryId, Namespace};
use crate::plan::{Action, Expected, Finding, Mark, Reason, Tally, Target};
use crate::store::rows::{Partition, RowError, Snapshot};
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
    let blockers = snapshot.blockers(&ids)?;
    if !blockers.is_empty() {
        *findings.entry(Finding::Blocked).or_default() += blockers.len() as u64;
        candidates.retain(|candidate| !blockers.contains_key(&candidate.id));
    }
    let ids: Vec<MemoryId> = candidates
        .iter()
        .map(|candidate| candidate.id.clone())
        .collect();
    let mut behind = snapshot.hidden_behind(&ids)?;
    let heads = heads(&candidates, &behind);
    candidates.retain(|candidate| heads.contains(&candidate.id));
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

/// The candidates that hide behind no other one. Of a ring, in which each hides behind the next, the smallest id.
fn heads(
    candidates: &[Candidate],
    behind: &HashMap<MemoryId, Vec<Expected>>,
) -> BTreeSet<MemoryId> {
    let hides = |id: &MemoryId| {
        behind
            .get(id)
            .into_iter()
            .flatten()
            .map(|expected| expected.id.clone())
    };
    let mut covered: BTreeMap<MemoryId, u32> = BTreeMap::new();
    for candidate in candidates {
        for hidden in hides(&candidate.id).filter(|hidden| *hidden != candidate.id) {
            *covered.entry(hidden).or_default() += 1;
        }
    }
    let mut heads: BTreeSet<MemoryId> = candidates
        .iter()
        .map(|candidate| &candidate.id)
        .filter(|id| !covered.contains_key(*id))
        .cloned()
        .collect();
    let mut taken: BTreeSet<MemoryId> = heads.iter().flat_map(hides).collect();
    for candidate in candidates {
        if !heads.contains(&candidate.id) && !taken.contains(&candidate.id) {
            taken.extend(hides(&candidate.id));
            heads.insert(candidate.id.clone());
        }
    }
    heads
}
