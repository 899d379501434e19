//! What is left of a cluster once its duplicates are folded: one question for a person.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::memory::{MemoryId, Namespace, Version};
use crate::plan::{Action, Member, Question, QuestionKind, Reason};
use crate::state::{Answer, Entry};

use super::super::live::Live;

/// Memories that a question lists, at the most: more are no question that a person can answer.
const LISTED: usize = 64;

/// The questions about similar memories that were put before, and how they stand.
#[derive(Debug, Default)]
pub(super) struct Asked {
    entries: HashMap<(Arc<str>, Namespace), Vec<Entry>>,
}

/// Members that a person keeps apart from each other: the answers that name each.
#[derive(Debug, Default)]
pub(super) struct Kept {
    answers: HashMap<u32, BTreeSet<usize>>,
}

impl Kept {
    /// Whether one answer names both.
    pub(super) fn apart(&self, a: u32, b: u32) -> bool {
        match (self.answers.get(&a), self.answers.get(&b)) {
            (Some(a), Some(b)) => !a.is_disjoint(b),
            _ => false,
        }
    }
}

impl Asked {
    /// Those that are open, or were answered by a person.
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        let mut asked = Self::default();
        for entry in entries {
            let is_void = matches!(entry.answered, Some((Answer::Void, _)));
            if !is_void && entry.question.kind == QuestionKind::Similar {
                let of = (
                    Arc::clone(&entry.question.partition),
                    entry.question.namespace.clone(),
                );
                asked.entries.entry(of).or_default().push(entry);
            }
        }
        asked
    }

    /// Which of the members a person keeps apart, as long as both are as they were.
    pub(super) fn kept(
        &self,
        partition: &Arc<str>,
        namespace: &Namespace,
        members: &[Live],
    ) -> Kept {
        let mut kept = Kept::default();
        let places: HashMap<&MemoryId, (u32, Version)> = (0..)
            .zip(members)
            .map(|(at, live)| (&live.id, (at, live.fingerprint)))
            .collect();
        let is_kept = |entry: &&Entry| matches!(entry.answered, Some((Answer::Kept, _)));
        let entries = self.about(partition, namespace).iter().filter(is_kept);
        for (number, entry) in entries.enumerate() {
            for member in &entry.question.members {
                if let Some((at, fingerprint)) = places.get(&member.id)
                    && *fingerprint == member.fingerprint
                {
                    kept.answers.entry(*at).or_default().insert(number);
                }
            }
        }
        kept
    }

    fn about(&self, partition: &Arc<str>, namespace: &Namespace) -> &[Entry] {
        let key = (Arc::clone(partition), namespace.clone());
        self.entries.get(&key).map_or(&[], Vec::as_slice)
    }

    /// For each question about members of a group, those of them that are as they were, and whether that is all.
    pub(super) fn groups(
        &self,
        partition: &Arc<str>,
        namespace: &Namespace,
        members: &[Live],
    ) -> Vec<(Vec<usize>, bool)> {
        let places: HashMap<&MemoryId, usize> = members
            .iter()
            .enumerate()
            .map(|(at, live)| (&live.id, at))
            .collect();
        let of = |entry: &Entry| {
            let listed = &entry.question.members;
            let intact: Vec<usize> = listed
                .iter()
                .filter_map(|member| {
                    let at = *places.get(&member.id)?;
                    (members[at].fingerprint == member.fingerprint).then_some(at)
                })
                .collect();
            let is_all = intact.len() == listed.len();
            (intact, is_all)
        };
        let entries = self.about(partition, namespace).iter();
        entries
            .map(of)
            .filter(|(intact, _)| !intact.is_empty())
            .collect()
    }

    /// What is to be asked about a cluster: a question that no earlier one covers, in the place of those that it covers.
    pub(super) fn plan(
        &self,
        partition: &Arc<str>,
        namespace: &Namespace,
        cluster: &[&Live],
    ) -> Vec<Action> {
        let members: BTreeMap<&MemoryId, Version> = cluster
            .iter()
            .map(|live| (&live.id, live.fingerprint))
            .take(LISTED)
            .collect();
        let question = Question {
            kind: QuestionKind::Similar,
            partition: Arc::clone(partition),
            namespace: namespace.clone(),
            members: members
                .iter()
                .map(|(id, fingerprint)| Member {
                    id: (*id).clone(),
                    fingerprint: *fingerprint,
                })
                .collect(),
        };
        let ours: BTreeSet<&Member> = question.members.iter().collect();
        let before = self.about(partition, namespace);
        let covers = |entry: &&Entry| {
            let theirs: BTreeSet<&Member> = entry.question.members.iter().collect();
            ours.is_subset(&theirs)
        };
        if before.iter().any(|entry| covers(&entry)) {
            return Vec::new();
        }
        let is_replaced = |entry: &&Entry| {
            let mut theirs = entry.question.members.iter();
            entry.answered.is_none() && theirs.all(|member| members.contains_key(&member.id))
        };
        let mut actions: Vec<Action> = before
            .iter()
            .filter(is_replaced)
            .map(|entry| Action::Close {
                entry: entry.id,
                question: entry.question.clone(),
                reason: Reason::Void,
            })
            .collect();
        drop(ours);
        let reason = Reason::Similar {
            members: u32::try_from(cluster.len()).unwrap_or(u32::MAX),
        };
        actions.push(Action::Queue { question, reason });
        actions
    }
}
