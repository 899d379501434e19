//! Chains of memories that superseded one another.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::mapping::{Mapping, Namespaces};
use super::value;
use crate::memory::{MemoryId, Namespace, Role, Version};
use crate::plan::Expected;

/// A memory that another one replaced.
#[derive(Debug, Clone)]
struct Older {
    id: MemoryId,
    /// Whether its own row says so; else it is the row of the other one.
    says_so: bool,
}

/// What becomes of a memory that was found before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shared {
    /// It is passed over.
    Once,
    /// It is passed over unless its own row says where it belongs.
    WhereItSaysSo,
}

/// A memory that none of those asked for hides, and what goes with it.
pub(super) struct Head {
    pub(super) id: MemoryId,
    /// Everything behind it, deepest first.
    pub(super) behind: Vec<Expected>,
    /// Whether a memory of another namespace says that one of these superseded it.
    pub(super) hides_foreign: bool,
}

/// What replaced what, in one table.
pub(super) struct Chains<'a> {
    conn: &'a Connection,
    mapping: &'a Mapping,
    namespaces: Namespaces<'a>,
    /// The memories directly behind a memory.
    older: HashMap<MemoryId, Vec<Older>>,
    known: HashMap<MemoryId, Option<(Option<Namespace>, Version)>>,
}

impl<'a> Chains<'a> {
    /// Reads the table once.
    pub(super) fn read(conn: &'a Connection, mapping: &'a Mapping) -> rusqlite::Result<Self> {
        let mut chains = Self {
            conn,
            mapping,
            namespaces: mapping.namespaces(),
            older: HashMap::new(),
            known: HashMap::new(),
        };
        let superseded_by = mapping.reference_expression(Role::SupersededBy);
        let supersedes = mapping.reference_expression(Role::Supersedes);
        if superseded_by.is_none() && supersedes.is_none() {
            return Ok(chains);
        }
        let mut statement = conn.prepare_cached(&format!(
            "SELECT id, newer, older FROM (SELECT {} AS id, {} AS newer, {} AS older FROM {} WHERE {})
             WHERE newer IS NOT NULL OR older IS NOT NULL",
            mapping.id.expression(),
            superseded_by.as_deref().unwrap_or("NULL"),
            supersedes.as_deref().unwrap_or("NULL"),
            mapping.from(),
            mapping.is_memory()
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let Some(id) = value::id_of(row.get_ref(0)?) else {
                continue;
            };
            if let Some(newer) = value::reference_of(row.get_ref(1)?, mapping.id.affinity) {
                let older = Older {
                    id: id.clone(),
                    says_so: true,
                };
                chains.older.entry(newer).or_default().push(older);
            }
            if let Some(older) = value::reference_of(row.get_ref(2)?, mapping.id.affinity) {
                let older = Older {
                    id: older,
                    says_so: false,
                };
                chains.older.entry(id).or_default().push(older);
            }
        }
        Ok(chains)
    }

    /// Of `ids`, the memories that hide behind no other one of them, each with everything behind it; of a ring, in
    /// which each hides behind the next, the first one. Time and memory are linear in the rows that are reached.
    ///
    /// A memory that two heads say they replaced goes with one of them; what a row says of itself always counts.
    pub(super) fn heads(&mut self, ids: &[MemoryId]) -> rusqlite::Result<Vec<Head>> {
        let mut reached = HashSet::new();
        let mut starts = Vec::new();
        for id in ids {
            if !reached.contains(id) {
                self.follow(id, &mut reached, Shared::Once)?;
                starts.push(id);
            }
        }
        // A start can only be behind a later one: it would have been reached from an earlier one.
        let mut taken = HashSet::new();
        let mut heads = Vec::new();
        for id in starts.into_iter().rev() {
            if !taken.contains(id) {
                heads.push(self.follow(id, &mut taken, Shared::WhereItSaysSo)?);
            }
        }
        heads.reverse();
        Ok(heads)
    }

    /// Everything behind a memory. A chain that bites its tail ends where it began. What is found is entered in `taken`.
    fn follow(
        &mut self,
        root: &MemoryId,
        taken: &mut HashSet<MemoryId>,
        shared: Shared,
    ) -> rusqlite::Result<Head> {
        taken.insert(root.clone());
        let mut head = Head {
            id: root.clone(),
            behind: Vec::new(),
            hides_foreign: false,
        };
        if !self.older.contains_key(root) {
            return Ok(head);
        }
        let Some((namespace, _)) = self.look_up(root)? else {
            return Ok(head);
        };
        let mut seen = HashSet::from([root.clone()]);
        let mut next = 0;
        let mut newer = root.clone();
        loop {
            for Older { id, says_so } in self.older.get(&newer).cloned().unwrap_or_default() {
                let again = says_so && shared == Shared::WhereItSaysSo;
                if (taken.contains(&id) && !again) || !seen.insert(id.clone()) {
                    continue;
                }
                match self.look_up(&id)? {
                    Some((other, version)) if other == namespace => {
                        taken.insert(id.clone());
                        head.behind.push(Expected { id, version });
                    }
                    Some(_) => head.hides_foreign |= says_so,
                    None => {}
                }
            }
            let Some(following) = head.behind.get(next) else {
                break;
            };
            newer = following.id.clone();
            next += 1;
        }
        head.behind.reverse();
        Ok(head)
    }

    fn look_up(&mut self, id: &MemoryId) -> rusqlite::Result<Option<(Option<Namespace>, Version)>> {
        match self.known.entry(id.clone()) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(unknown) => {
                let found = self.mapping.find(self.conn, id, &mut self.namespaces)?;
                let found = found.map(|found| {
                    let version = found.version();
                    (found.namespace, version)
                });
                Ok(unknown.insert(found).clone())
            }
        }
    }
}
