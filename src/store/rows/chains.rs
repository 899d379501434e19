//! Chains of memories that superseded one another.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::mapping::{Mapping, Namespaces};
use super::{schema, value};
use crate::memory::{MemoryId, Namespace, Role, Version};
use crate::plan::Expected;
use crate::store::image::RowImage;

/// What replaced what, in one table.
pub(super) struct Chains<'a> {
    conn: &'a Connection,
    mapping: &'a Mapping,
    namespaces: Namespaces<'a>,
    /// The memories directly behind a memory.
    older: HashMap<MemoryId, Vec<MemoryId>>,
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
            "SELECT id, newer, older FROM (SELECT {} AS id, {} AS newer, {} AS older FROM {})
             WHERE newer IS NOT NULL OR older IS NOT NULL",
            schema::quoted(&mapping.id),
            superseded_by.as_deref().unwrap_or("NULL"),
            supersedes.as_deref().unwrap_or("NULL"),
            mapping.from()
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let Some(id) = value::id_of(row.get_ref(0)?) else {
                continue;
            };
            if let Some(newer) = value::reference_of(row.get_ref(1)?, mapping.ids) {
                chains.older.entry(newer).or_default().push(id.clone());
            }
            if let Some(older) = value::reference_of(row.get_ref(2)?, mapping.ids) {
                chains.older.entry(id).or_default().push(older);
            }
        }
        Ok(chains)
    }

    /// Everything behind a memory, deepest first. A chain that bites its tail ends where it began.
    pub(super) fn behind(&mut self, root: &MemoryId) -> rusqlite::Result<Vec<Expected>> {
        if !self.older.contains_key(root) {
            return Ok(Vec::new());
        }
        let Some((namespace, _)) = self.look_up(root)? else {
            return Ok(Vec::new());
        };
        let mut seen = HashSet::from([root.clone()]);
        let mut behind: Vec<Expected> = Vec::new();
        let mut next = 0;
        let mut newer = root.clone();
        loop {
            for id in self.older.get(&newer).cloned().unwrap_or_default() {
                if !seen.insert(id.clone()) {
                    continue;
                }
                match self.look_up(&id)? {
                    Some((other, version)) if other == namespace => {
                        behind.push(Expected { id, version });
                    }
                    _ => {}
                }
            }
            let Some(following) = behind.get(next) else {
                break;
            };
            newer = following.id.clone();
            next += 1;
        }
        behind.reverse();
        Ok(behind)
    }

    fn look_up(&mut self, id: &MemoryId) -> rusqlite::Result<Option<(Option<Namespace>, Version)>> {
        match self.known.entry(id.clone()) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(unknown) => {
                let found =
                    self.mapping
                        .fetch_with_namespace(self.conn, id, &mut self.namespaces)?;
                let found = found.map(|(row, namespace): (RowImage, _)| (namespace, row.version()));
                Ok(unknown.insert(found).clone())
            }
        }
    }
}
