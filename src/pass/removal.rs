//! From memories that must go to targets: who hides behind whom, who may not be deleted, and nobody twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::memory::{MemoryId, Namespace};
use crate::plan::{Expected, Finding, Reason, Tally, Target};
use crate::store::rows::{Partition, RowError, Snapshot};

/// A memory that a pass wants gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The memory.
    pub id: MemoryId,
    /// Whose it is.
    pub namespace: Namespace,
    /// Why it must go.
    pub reason: Reason,
}

/// Turns candidates into targets with versions, read in the same snapshot that the candidates were found in.
///
/// A candidate that hides behind another one goes with it, not on its own. A candidate that the schema forbids to
/// delete, or that hides a memory of another namespace, is left alone and counted [`Finding::Blocked`].
///
/// # Errors
///
/// When the rows cannot be read.
pub fn targets(
    snapshot: &Snapshot<'_>,
    partition: &Partition,
    mut candidates: Vec<Candidate>,
    findings: &mut Tally<Finding>,
) -> Result<Vec<(Target, Reason)>, RowError> {
    candidates.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<MemoryId> = candidates.iter().map(|candidate| candidate.id.clone()).collect();
    let mut behind = snapshot.hidden_behind(&ids)?;
    let blocked = blocked(snapshot, &candidates, &behind)?;
    if !blocked.is_empty() {
        *findings.entry(Finding::Blocked).or_default() += blocked.len() as u64;
        candidates.retain(|candidate| !blocked.contains(&candidate.id));
    }
    let heads = heads(&candidates, &behind);
    candidates.retain(|candidate| heads.contains(&candidate.id));

    let ids: Vec<MemoryId> = candidates.iter().map(|candidate| candidate.id.clone()).collect();
    let versions = snapshot.versions(&ids)?;
    let targets = candidates.into_iter().zip(versions).filter_map(|(candidate, version)| {
        let behind = behind.remove(&candidate.id).unwrap_or_default().into_boxed_slice();
        let memory = Expected { id: candidate.id, version: version? };
        let partition = partition.name.clone();
        Some((Target { partition, namespace: candidate.namespace, memory, behind }, candidate.reason))
    });
    Ok(targets.collect())
}

/// The candidates that must stay: the schema forbids it, or something behind them belongs to somebody else.
fn blocked(
    snapshot: &Snapshot<'_>,
    candidates: &[Candidate],
    behind: &HashMap<MemoryId, Vec<Expected>>,
) -> Result<BTreeSet<MemoryId>, RowError> {
    let hidden: BTreeSet<&MemoryId> = behind.values().flatten().map(|expected| &expected.id).collect();
    let hidden: Vec<MemoryId> = hidden.into_iter().cloned().collect();
    let owner_of: HashMap<MemoryId, Option<Namespace>> = snapshot
        .memories(&[], &hidden)?
        .into_iter()
        .filter_map(|memory| Some((memory.id, memory.namespace)))
        .collect();
    let all: Vec<MemoryId> =
        candidates.iter().map(|candidate| candidate.id.clone()).chain(hidden).collect::<BTreeSet<_>>().into_iter().collect();
    let blockers = snapshot.blockers(&all)?;
    let may_go = |candidate: &Candidate| {
        !blockers.contains_key(&candidate.id)
            && behind.get(&candidate.id).into_iter().flatten().all(|hidden| {
                let owner = owner_of.get(&hidden.id).and_then(Option::as_ref);
                owner == Some(&candidate.namespace) && !blockers.contains_key(&hidden.id)
            })
    };
    Ok(candidates.iter().filter(|candidate| !may_go(candidate)).map(|candidate| candidate.id.clone()).collect())
}

/// The candidates that hide behind no other one. Of a ring, in which each hides behind the next, the smallest id.
fn heads(candidates: &[Candidate], behind: &HashMap<MemoryId, Vec<Expected>>) -> BTreeSet<MemoryId> {
    let hides = |id: &MemoryId| behind.get(id).into_iter().flatten().map(|expected| expected.id.clone());
    let mut covered: BTreeMap<MemoryId, u32> = BTreeMap::new();
    for candidate in candidates {
        for hidden in hides(&candidate.id).filter(|hidden| *hidden != candidate.id) {
            *covered.entry(hidden).or_default() += 1;
        }
    }
    let mut heads: BTreeSet<MemoryId> =
        candidates.iter().map(|candidate| &candidate.id).filter(|id| !covered.contains_key(*id)).cloned().collect();
    let mut taken: BTreeSet<MemoryId> = heads.iter().flat_map(hides).collect();
    for candidate in candidates {
        if !heads.contains(&candidate.id) && !taken.contains(&candidate.id) {
            taken.extend(hides(&candidate.id));
            heads.insert(candidate.id.clone());
        }
    }
    heads
}
