//! Who is asked about first: a few of very many memories, fair over namespaces.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace};
use crate::plan::QuestionKind;

/// A memory that could be asked about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// Since when nobody has confirmed, or used it. First, so that candidates sort by age.
    pub(super) since: Timestamp,
    /// Its row database.
    pub(super) partition: Arc<str>,
    /// The memory.
    pub(super) id: MemoryId,
    /// Whose it is.
    pub(super) namespace: Namespace,
    /// What would be asked.
    pub(super) kind: QuestionKind,
}

/// The oldest of each namespace.
type ByNamespace = BTreeMap<Namespace, Vec<Candidate>>;

/// The candidates of a store: of each namespace no more than could be chosen.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    stale: ByNamespace,
    unused: ByNamespace,
}

impl Candidates {
    /// Adds a candidate, when at most `most` will be chosen.
    pub(super) fn push(&mut self, candidate: Candidate, most: u64) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most == 0 {
            return;
        }
        let kind = match candidate.kind {
            QuestionKind::Stale => &mut self.stale,
            _ => &mut self.unused,
        };
        let oldest = kind.entry(candidate.namespace.clone()).or_default();
        oldest.push(candidate);
        // Sorted once in so many, not at every one.
        if oldest.len() >= most.saturating_mul(2).saturating_add(64) {
            oldest.sort();
            oldest.truncate(most);
        }
    }

    /// Adds those of another row database.
    pub(super) fn append(&mut self, other: Self, most: u64) {
        let all = other.stale.into_values().chain(other.unused.into_values());
        all.flatten()
            .for_each(|candidate| self.push(candidate, most));
    }

    /// Chooses at most `most`: stale ones first, each kind in turns. `last` says when each namespace was last asked.
    pub(super) fn choose(self, most: u64, last: &BTreeMap<Namespace, Timestamp>) -> Vec<Candidate> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut chosen = in_turns(self.stale, most, last);
        chosen.extend(in_turns(self.unused, most - chosen.len(), last));
        chosen
    }
}

/// Takes the oldest of every namespace, then the second of every one, and so on. Within a round, who was asked least
/// lately comes first, then who has the oldest.
fn in_turns(
    candidates: ByNamespace,
    most: usize,
    last: &BTreeMap<Namespace, Timestamp>,
) -> Vec<Candidate> {
    let mut queues: Vec<VecDeque<Candidate>> = candidates
        .into_values()
        .map(|mut oldest| {
            oldest.sort();
            oldest.into()
        })
        .collect();
    let mut chosen = Vec::new();
    while chosen.len() < most {
        let mut round: Vec<Candidate> = queues.iter_mut().filter_map(VecDeque::pop_front).collect();
        if round.is_empty() {
            break;
        }
        round.sort_by(|a, b| {
            let lately = |candidate: &Candidate| last.get(&candidate.namespace);
            lately(a).cmp(&lately(b)).then_with(|| a.cmp(b))
        });
        round.truncate(most - chosen.len());
        chosen.append(&mut round);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn candidate(owner: &str, id: i64, since: i64, kind: QuestionKind) -> Candidate {
        Candidate {
            since: at(since),
            partition: "main".into(),
            id: MemoryId::Integer(id),
            namespace: Namespace::parse(&format!("user:{owner}")).unwrap(),
            kind,
        }
    }

    fn chosen(all: &[Candidate], most: u64, last: &[(&str, i64)]) -> Vec<MemoryId> {
        let last = last.iter().map(|(owner, second)| {
            let namespace = Namespace::parse(&format!("user:{owner}")).unwrap();
            (namespace, at(*second))
        });
        let last = last.collect();
        // The order in which rows are read is nothing.
        let mut answers = [all.to_vec(), all.iter().rev().cloned().collect()].map(|all| {
            let mut candidates = Candidates::default();
            for candidate in all {
                candidates.push(candidate, most);
            }
            let chosen = candidates.choose(most, &last);
            chosen.into_iter().map(|c| c.id).collect::<Vec<_>>()
        });
        assert_eq!(answers[0], answers[1]);
        std::mem::take(&mut answers[0])
    }

    fn ids(ids: &[i64]) -> Vec<MemoryId> {
        ids.iter().copied().map(MemoryId::Integer).collect()
    }

    #[test]
    fn every_namespace_gets_its_oldest_before_any_gets_its_second() {
        let stale = |owner, id, since| candidate(owner, id, since, QuestionKind::Stale);
        let all = [
            stale("ana", 1, 10),
            stale("ana", 2, 11),
            stale("ana", 3, 12),
            stale("bea", 4, 50),
            stale("bea", 5, 51),
            stale("cid", 6, 5),
        ];
        assert_eq!(chosen(&all, 4, &[]), ids(&[6, 1, 4, 2]));
        assert_eq!(chosen(&all, 99, &[]), ids(&[6, 1, 4, 2, 5, 3]));
        assert_eq!(chosen(&all, 0, &[]), ids(&[]));
        let last = [("cid", 7), ("ana", 9)];
        assert_eq!(chosen(&all, 2, &last), ids(&[4, 6]), "least lately first");
    }

    #[test]
    fn what_is_unused_gets_what_is_left() {
        let all = [
            candidate("ana", 1, 1, QuestionKind::Unused),
            candidate("bea", 2, 90, QuestionKind::Stale),
            candidate("ana", 3, 2, QuestionKind::Unused),
        ];
        assert_eq!(chosen(&all, 2, &[]), ids(&[2, 1]));
    }

    #[test]
    fn of_very_many_the_oldest_are_kept() {
        let all: Vec<_> = (0..10_000)
            .map(|i| candidate("ana", i, 7919 * i % 10_007, QuestionKind::Stale))
            .collect();
        let mut sorted = all.clone();
        sorted.sort();
        let oldest: Vec<_> = sorted.into_iter().take(3).map(|c| c.id).collect();
        assert_eq!(chosen(&all, 3, &[]), oldest);
    }
}
