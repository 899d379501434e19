//! One state of a row database: what is read of it inside a single read transaction.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::{Connection, Row};

use super::bound::Bound;
use super::chains::{Chains, Head};
use super::loose::{Loose, Scan};
use super::mapping::Mapping;
use super::marks::Marks;
use super::{RowError, schema};
use crate::memory::{Memory, MemoryId, Namespace, Role, Version};
use crate::plan::Expected;
use crate::store::copies::Count;

/// One state of a row database.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) conn: Connection,
    pub(super) bound: RefCell<Arc<Bound>>,
}

/// Why a memory must be left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// A row of this table refers to it, and the schema forbids that it goes.
    Referenced {
        /// The table.
        table: String,
    },
    /// The schema would take another memory along, which is not hidden behind it.
    TakesAlong,
    /// A memory of another namespace refers to it by a foreign key.
    Foreign,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Referenced { table } => write!(f, "a row of table {table:?} forbids it"),
            Self::TakesAlong => f.write_str("another memory would go along"),
            Self::Foreign => f.write_str("a memory of another namespace refers to it"),
        }
    }
}

/// What becomes of memories that are to be removed.
#[derive(Debug, Default)]
pub struct Removals {
    /// Those that can go, in order, each with the memories hidden behind it, deepest first.
    pub free: Vec<(MemoryId, Vec<Expected>)>,
    /// Those that must be left alone, and why.
    pub blocked: Vec<(MemoryId, Blocker)>,
}

/// A memory as a person reads it.
#[derive(Debug)]
pub struct Told {
    /// The memory.
    pub memory: Memory,
    /// Its context as it is written; `None` where it says nothing.
    pub context: Option<String>,
}

/// How many memories there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// By namespace.
    pub by_namespace: BTreeMap<Namespace, u64>,
    /// Those whose tenant is NULL, blank or no key.
    pub without_namespace: u64,
}

impl Snapshot {
    pub(super) fn bound(&self) -> Arc<Bound> {
        Arc::clone(&self.bound.borrow())
    }

    /// Visits every memory until `visit` breaks. Only the columns of `roles` are read; id and namespace always.
    ///
    /// # Errors
    ///
    /// When a row cannot be read; what was visited before then is not the whole.
    pub fn scan(
        &self,
        roles: &[Role],
        visit: &mut dyn FnMut(Memory) -> ControlFlow<()>,
    ) -> Result<(), RowError> {
        let bound = self.bound();
        self.visit_rows(&bound.mapping, roles, bound.mapping.is_memory(), visit)
    }

    /// The same over every row of the table, those that are something else than memories among them.
    ///
    /// # Errors
    ///
    /// As [`Self::scan`].
    pub fn scan_rows(
        &self,
        roles: &[Role],
        visit: &mut dyn FnMut(Memory) -> ControlFlow<()>,
    ) -> Result<(), RowError> {
        self.visit_rows(&self.bound().mapping, roles, "1", visit)
    }

    fn visit_rows(
        &self,
        mapping: &Mapping,
        roles: &[Role],
        condition: &str,
        visit: &mut dyn FnMut(Memory) -> ControlFlow<()>,
    ) -> Result<(), RowError> {
        let sql = format!("{} WHERE {condition}", mapping.select_sql(roles));
        let mut scan = || -> rusqlite::Result<()> {
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut namespaces = mapping.namespaces();
            let sources = mapping.bound(roles);
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if visit(mapping.memory(row, &sources, &mut namespaces)?).is_break() {
                    break;
                }
            }
            Ok(())
        };
        scan().map_err(RowError::sqlite("scan the memories"))
    }

    /// Counts every memory, with a fingerprint of their ids.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn count(&self) -> Result<Count, RowError> {
        let mut count = Count::default();
        self.scan(&[], &mut |memory| {
            let namespace = memory.namespace.as_ref().map(Namespace::as_str);
            match &memory.id {
                Some(id) => count.add(&keyed(id), namespace),
                None => count.add_nameless(namespace),
            }
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }

    /// Reads memories by id, in the order of `ids`; those that do not exist are left out.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn memories(&self, roles: &[Role], ids: &[MemoryId]) -> Result<Vec<Memory>, RowError> {
        self.bound().mapping.memories(&self.conn, roles, ids)
    }

    /// The same for a person to read: each with its context as it is written, of which a memory has only fingerprints.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn told(&self, roles: &[Role], ids: &[MemoryId]) -> Result<Vec<Told>, RowError> {
        let bound = self.bound();
        let tell = |memory: Memory| {
            let context = match &memory.id {
                Some(id) => bound.mapping.context(&self.conn, id)?,
                None => None,
            };
            Ok(Told { memory, context })
        };
        let memories = bound.mapping.memories(&self.conn, roles, ids)?;
        memories.into_iter().map(tell).collect()
    }

    /// The versions of the memories of `ids`, in the same order; `None` for those that do not exist. One changes with the
    /// row and with what an expression of the mapping reads of it elsewhere, such as its owner.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn versions(&self, ids: &[MemoryId]) -> Result<Vec<Option<Version>>, RowError> {
        self.bound().mapping.versions(&self.conn, ids)
    }

    /// What the memories of `ids` are, apart from when and how often they were used, in the same order; `None` for those
    /// that do not exist.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn essences(&self, ids: &[MemoryId]) -> Result<Vec<Option<Version>>, RowError> {
        let bound = self.bound();
        let mut namespaces = bound.mapping.namespaces();
        let mut essence = |id| {
            let found = bound.mapping.find(&self.conn, id, &mut namespaces)?;
            Ok(found.map(|found| bound.mapping.essence(&found)))
        };
        let essences: rusqlite::Result<_> = ids.iter().map(&mut essence).collect();
        essences.map_err(RowError::sqlite("read memories"))
    }

    /// Whether the schema says anything about a role.
    #[must_use]
    pub fn knows(&self, role: Role) -> bool {
        self.bound().mapping.role(role).is_some()
    }

    /// The marks that the schema has a column for.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.bound().mapping.marks()
    }

    /// Sorts out how memories can be removed. One that hides behind another of them (superseded by it, by those that it
    /// superseded, and so on, as either side of a replacement tells it) goes with that one and is not named on its own;
    /// of a ring, the first of `ids` stands for all. A memory of another namespace is never behind one.
    ///
    /// Where a memory must be left alone, those behind it are looked at on their own. The table is read once, and
    /// nothing else where the schema cannot forbid anything.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn removals(&self, ids: &[MemoryId]) -> Result<Removals, RowError> {
        self.sort_out(ids)
            .map_err(RowError::sqlite("follow superseded memories"))
    }

    fn sort_out(&self, ids: &[MemoryId]) -> rusqlite::Result<Removals> {
        let bound = self.bound();
        let mut loose = Loose::default();
        if bound.dependents.can_block(&bound.mapping) {
            loose.refresh(&self.conn, &bound.dependents, Scan::Tables)?;
        }
        let mut chains = Chains::read(&self.conn, &bound.mapping)?;
        let mut removals = Removals::default();
        let mut waiting = ids.to_vec();
        while !waiting.is_empty() {
            let mut settled: HashSet<MemoryId> = HashSet::new();
            let known = removals.blocked.len();
            for head in chains.heads(&waiting)? {
                settled.insert(head.id.clone());
                if let Some(blocker) = self.blocker(&bound, &loose, &head)? {
                    removals.blocked.push((head.id, blocker));
                } else {
                    settled.extend(head.behind.iter().map(|hidden| hidden.id.clone()));
                    removals.free.push((head.id, head.behind));
                }
            }
            if removals.blocked.len() == known {
                break;
            }
            waiting.retain(|id| !settled.contains(id));
        }
        Ok(removals)
    }

    /// What speaks against removing a memory with all behind it.
    fn blocker(
        &self,
        bound: &Bound,
        loose: &Loose,
        head: &Head,
    ) -> rusqlite::Result<Option<Blocker>> {
        let (mapping, dependents) = (&bound.mapping, &bound.dependents);
        if head.hides_foreign && dependents.declares_supersession {
            return Ok(Some(Blocker::Foreign));
        }
        if !dependents.can_block(mapping) {
            return Ok(None);
        }
        let mut rows = Vec::with_capacity(1 + head.behind.len());
        for id in std::iter::once(&head.id).chain(head.behind.iter().map(|hidden| &hidden.id)) {
            rows.extend(mapping.fetch(&self.conn, id)?);
        }
        let Some(root) = rows.first() else {
            return Ok(None);
        };
        let walk = dependents.walk(&self.conn, loose, &rows)?;
        bound.blocker(&self.conn, root, &walk)
    }

    /// Counts the memories.
    ///
    /// # Errors
    ///
    /// When the table cannot be read.
    pub fn census(&self) -> Result<Census, RowError> {
        let bound = self.bound();
        let mapping = &bound.mapping;
        let count = || -> rusqlite::Result<Census> {
            let mut statement = self.conn.prepare_cached(&format!(
                "SELECT {}, count(*) FROM {} WHERE {} GROUP BY 1",
                mapping.tenant_expression(),
                mapping.from(),
                mapping.is_memory()
            ))?;
            let mut namespaces = mapping.namespaces();
            let mut census = Census::default();
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let count = count_at(row, 1)?;
                match namespaces.of(row.get_ref(0)?) {
                    Some(namespace) => *census.by_namespace.entry(namespace).or_default() += count,
                    None => census.without_namespace += count,
                }
            }
            Ok(census)
        };
        count().map_err(RowError::sqlite("count the memories"))
    }

    /// How many memories say that they were superseded by one that does not exist.
    ///
    /// # Errors
    ///
    /// When the table cannot be read.
    pub fn broken_chains(&self) -> Result<u64, RowError> {
        let bound = self.bound();
        let mapping = &bound.mapping;
        let Some(reference) = mapping.reference_expression(Role::SupersededBy) else {
            return Ok(0);
        };
        let sql = format!(
            "SELECT count(*) FROM (SELECT {reference} AS newer FROM {table} WHERE {is_memory}) AS hidden
             WHERE newer IS NOT NULL AND NOT EXISTS
               (SELECT 1 FROM {other} AS other WHERE other.{id} = hidden.newer)",
            table = mapping.from(),
            is_memory = mapping.is_memory(),
            other = schema::quoted(&mapping.table.name),
            id = mapping.id.expression(),
        );
        self.conn
            .query_row(&sql, [], |row| count_at(row, 0))
            .map_err(RowError::sqlite("count broken chains"))
    }

    /// How many rows of other tables belong to a memory that is not there, by what the configuration says of them.
    ///
    /// # Errors
    ///
    /// When a table cannot be read.
    pub fn strays(&self) -> Result<u64, RowError> {
        let Some(sql) = &self.bound().strays_sql else {
            return Ok(0);
        };
        self.conn
            .query_row(sql, [], |row| count_at(row, 0))
            .map_err(RowError::sqlite("count rows without a memory"))
    }
}

/// An id as a fingerprint tells it from those of another storage class.
fn keyed(id: &MemoryId) -> String {
    match id {
        MemoryId::Integer(_) => format!("integer {id}"),
        MemoryId::Text(_) => format!("text {id}"),
        MemoryId::Bytes(_) => format!("bytes {id}"),
    }
}

/// The result of a `count(*)`.
pub(super) fn count_at(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(i64::unsigned_abs)
}
