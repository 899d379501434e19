//! What the memories of the queue say now, read from their rows. The vectors are not opened.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::config;
use crate::error::chain;
use crate::memory::{Memory, MemoryId, Role, printable};
use crate::pass::member::fingerprint;
use crate::plan::Member;
use crate::state::Entry;
use crate::store::rows::{Partition, RowStore, Told};

/// What is shown of a memory, and what tells whether it is still the one that was asked about.
pub(super) const ROLES: [Role; 9] = [
    Role::Content,
    Role::Type,
    Role::Source,
    Role::CreatedAt,
    Role::LastUsedAt,
    Role::ConfirmedAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::SupersededBy,
];

/// What has become of a memory since a question about it was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Standing {
    /// Nothing.
    Same,
    /// It says something else.
    Changed,
    /// It is superseded, ended or marked as deleted.
    Hidden,
    /// It does not exist.
    Gone,
    /// Its file cannot be read.
    Unread,
}

/// A memory as JSON has it.
#[derive(Debug, Serialize)]
pub(super) struct MemoryLine {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) standing: Option<Standing>,
    pub(super) text: Option<String>,
    pub(super) memory_type: Option<String>,
    context: Option<String>,
    pub(super) source: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    confirmed_at: Option<Timestamp>,
}

impl MemoryLine {
    /// A memory of which only the id is known.
    fn bare(id: &MemoryId, standing: Standing) -> Self {
        Self {
            standing: Some(standing),
            ..Self::of(&Told {
                memory: Memory::new(Some(id.clone())),
                context: None,
            })
        }
    }

    /// A memory as it is.
    pub(super) fn of(told: &Told) -> Self {
        let memory = &told.memory;
        let shown = |text: &Option<String>| Some(printable(text.as_deref()?).into_owned());
        let id = memory.id.as_ref().map(ToString::to_string);
        Self {
            id: printable(&id.unwrap_or_default()).into_owned(),
            standing: None,
            text: shown(&memory.content),
            memory_type: shown(&memory.kind),
            context: shown(&told.context),
            source: shown(&memory.source),
            created_at: memory.created_at.latest(),
            last_used_at: memory.last_used_at.latest(),
            confirmed_at: memory.confirmed_at.latest(),
        }
    }

    /// Its id, and what tells it apart from others of its kind.
    pub(super) fn head(&self) -> String {
        let standing = match self.standing {
            None | Some(Standing::Same) => "",
            Some(Standing::Changed) => "  (changed since)",
            Some(Standing::Hidden) => "  (hidden since)",
            Some(Standing::Gone) => "  (gone)",
            Some(Standing::Unread) => "  (cannot be read)",
        };
        let kind = self.memory_type.as_ref().map(|kind| format!("  {kind}"));
        format!("{}{}{standing}", self.id, kind.unwrap_or_default())
    }
}

/// What is shown of the contexts of memories that a question is about: nothing where all have the same one.
pub(super) fn contexts(memories: &[MemoryLine]) -> Vec<Option<&str>> {
    let own: Vec<_> = memories.iter().map(|one| one.context.as_deref()).collect();
    let is_one = own.windows(2).all(|pair| pair[0] == pair[1]);
    if is_one { vec![None; own.len()] } else { own }
}

/// The memories of some entries.
#[derive(Debug, Default)]
pub(super) struct Texts {
    memories: HashMap<(Arc<str>, MemoryId), Told>,
    /// Row databases that cannot be read, and why.
    pub(super) unread: BTreeMap<Arc<str>, String>,
}

impl Texts {
    /// Reads them; a file that cannot be read is named.
    pub(super) fn read<'a>(
        store: &config::Store,
        entries: impl Iterator<Item = &'a Entry>,
    ) -> Self {
        let rows = RowStore::new(&store.rows);
        let mut wanted: BTreeMap<&Arc<str>, BTreeSet<&MemoryId>> = BTreeMap::new();
        for entry in entries {
            let ids = wanted.entry(&entry.question.partition).or_default();
            ids.extend(entry.question.members.iter().map(|member| &member.id));
        }
        let mut texts = Self::default();
        let files = rows.partitions().map_err(|error| chain(&error));
        for (name, ids) in wanted {
            let ids: Vec<MemoryId> = ids.into_iter().cloned().collect();
            match read_one(&rows, &files, name, &ids) {
                Ok(memories) => {
                    for told in memories {
                        if let Some(id) = told.memory.id.clone() {
                            texts.memories.insert((Arc::clone(name), id), told);
                        }
                    }
                }
                Err(problem) => {
                    texts.unread.insert(Arc::clone(name), problem);
                }
            }
        }
        texts
    }

    /// The memories of an entry.
    pub(super) fn of(&self, entry: &Entry, now: Timestamp) -> Vec<MemoryLine> {
        let partition = &entry.question.partition;
        let line = |member: &Member| {
            if self.unread.contains_key(partition) {
                return MemoryLine::bare(&member.id, Standing::Unread);
            }
            let key = (Arc::clone(partition), member.id.clone());
            let same_owner =
                |told: &&Told| told.memory.namespace.as_ref() == Some(&entry.question.namespace);
            // What has become somebody else's is not shown under this name.
            let Some(told) = self.memories.get(&key).filter(same_owner) else {
                return MemoryLine::bare(&member.id, Standing::Gone);
            };
            let memory = &told.memory;
            let standing = if memory.is_hidden(now) {
                Standing::Hidden
            } else if fingerprint(memory) == member.fingerprint {
                Standing::Same
            } else {
                Standing::Changed
            };
            MemoryLine {
                standing: Some(standing),
                ..MemoryLine::of(told)
            }
        };
        entry.question.members.iter().map(line).collect()
    }
}

fn read_one(
    rows: &RowStore,
    files: &Result<Vec<Partition>, String>,
    name: &Arc<str>,
    ids: &[MemoryId],
) -> Result<Vec<Told>, String> {
    let mut files = files.as_ref().map_err(Clone::clone)?.iter();
    let file = files.find(|file| file.name == *name);
    let read = rows
        .reader(file.ok_or("it has no file")?)
        .and_then(|reader| reader.snapshot(|snapshot| snapshot.told(&ROLES, ids)));
    read.map_err(|error| chain(&error))
}
