//! What the queue knows, arranged by memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, Version};
use crate::plan::{QuestionKind, Reason};
use crate::state::{Answer, Entry, StateError, StateReader};

/// The kinds of question that this pass puts.
const OWN: [QuestionKind; 2] = [QuestionKind::Stale, QuestionKind::Unused];

/// A question about one memory that did not become void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) entry: i64,
    pub(super) kind: QuestionKind,
    pub(super) namespace: Namespace,
    pub(super) fingerprint: Version,
    /// Since when nobody had confirmed or used it.
    pub(super) since: Option<Timestamp>,
    pub(super) answered: Option<(Answer, Timestamp)>,
}

impl Asked {
    /// When a person said that the memory stays.
    pub(super) fn approved(&self) -> Option<Timestamp> {
        match self.answered {
            Some((Answer::Confirmed | Answer::Kept, at)) => Some(at),
            _ => None,
        }
    }
}

/// The queue, for one plan.
#[derive(Debug, Default)]
pub(super) struct Queue {
    open: Vec<Entry>,
    asked: HashMap<Arc<str>, HashMap<MemoryId, Vec<Asked>>>,
    /// When each namespace was last asked.
    pub(super) last_put: BTreeMap<Namespace, Timestamp>,
    /// Questions put in the last seven days.
    pub(super) put_this_week: u64,
}

impl Queue {
    /// Reads it; without a state file nothing was ever asked.
    pub(super) fn read(state: Option<&StateReader>, week: Timestamp) -> Result<Self, StateError> {
        let Some(state) = state else {
            return Ok(Self::default());
        };
        let mut queue = Self {
            open: state.open_entries()?,
            put_this_week: state.queued_since(&OWN, week)?,
            ..Self::default()
        };
        for entry in state.entries(&OWN)? {
            queue.enter(entry);
        }
        Ok(queue)
    }

    fn enter(&mut self, entry: Entry) {
        let last = self.last_put.entry(entry.question.namespace.clone());
        let last = last.or_insert(entry.queued_at);
        *last = entry.queued_at.max(*last);
        if matches!(entry.answered, Some((Answer::Void, _))) {
            return;
        }
        let since = match entry.reason {
            Reason::Unconfirmed { since } | Reason::Unused { since } => Some(since),
            _ => None,
        };
        let memories = self.asked.entry(entry.question.partition).or_default();
        for member in entry.question.members {
            memories.entry(member.id).or_default().push(Asked {
                entry: entry.id,
                kind: entry.question.kind,
                namespace: entry.question.namespace.clone(),
                fingerprint: member.fingerprint,
                since,
                answered: entry.answered,
            });
        }
    }

    /// The open questions about a row database, of every kind.
    pub(super) fn open(&self, partition: &Arc<str>) -> impl Iterator<Item = &Entry> {
        self.open
            .iter()
            .filter(move |entry| entry.question.partition == *partition)
    }

    /// Every open question.
    pub(super) fn all_open(&self) -> Vec<&Entry> {
        self.open.iter().collect()
    }

    /// What was asked about a memory.
    pub(super) fn asked(
        &self,
        partition: &Arc<str>,
        memory: Option<&MemoryId>,
    ) -> impl Iterator<Item = &Asked> {
        let memories = self.asked.get(partition);
        memories
            .and_then(|memories| memories.get(memory?))
            .into_iter()
            .flatten()
    }

    /// The memories of a row database that questions are or were about, in order.
    pub(super) fn members(&self, partition: &Arc<str>) -> Vec<MemoryId> {
        let open = self.open(partition);
        let open = open.flat_map(|entry| entry.question.members.iter().map(|member| &member.id));
        let asked = self.asked.get(partition).into_iter();
        let members: BTreeSet<&MemoryId> = open.chain(asked.flat_map(HashMap::keys)).collect();
        members.into_iter().cloned().collect()
    }
}
