//! Reading memories.
//!
//! Everything that a decision rests on is read inside one [`Snapshot`], a single read transaction: the decision and the
//! row versions that it expects come from the same state of the file.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, Row, Transaction, TransactionBehavior};

use super::chains::{Chains, Head};
use super::dependents::{Dependents, Walk};
use super::loose::{Loose, Scan};
use super::mapping::{Mapping, Namespaces};
use super::marks::Marks;
use super::schema::Table;
use super::text_index::TextIndex;
use super::{Partition, RowError, open, schema, strays};
use crate::config;
use crate::memory::{Memory, MemoryId, Namespace, Role, Version};
use crate::plan::Expected;
use crate::store::copies::Count;
use crate::store::database;
use crate::store::image::RowImage;

/// A row database, opened for reading.
#[derive(Debug)]
pub struct Reader {
    rows: Arc<config::Rows>,
    tenant: Option<Arc<str>>,
    snapshot: Snapshot,
}

/// The configuration, bound to one state of the schema.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) mapping: Mapping,
    pub(super) dependents: Dependents,
    /// The text indexes that hypnos keeps.
    pub(super) text_indexes: Vec<TextIndex>,
    /// The query of how many rows belong to memories that are not there.
    strays_sql: Option<String>,
    /// The schema cookie for which it holds.
    pub(super) cookie: i64,
}

impl Bound {
    /// Binds the configuration to the schema as it is now.
    pub(super) fn new(
        conn: &Connection,
        rows: &config::Rows,
        tenant: Option<&Arc<str>>,
    ) -> Result<Self, RowError> {
        let cookie = schema::cookie(conn)?;
        let tables = schema::tables(conn)?;
        let mapping = Mapping::bind(conn, &tables, rows, tenant)?;
        let text_indexes = TextIndex::read(conn, &tables)?;
        let strays_sql = strays::count_sql(&tables, &mapping.table, rows);
        let dependents = Dependents::read(conn, tables, &mapping, rows)?;
        Ok(Self {
            mapping,
            dependents,
            text_indexes,
            strays_sql,
            cookie,
        })
    }

    /// The text indexes over a table that hypnos keeps.
    pub(super) fn text_indexes<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = &'a TextIndex> {
        self.text_indexes
            .iter()
            .filter(|index| index.table == table.name)
    }

    /// What speaks against a removal, by what a walk from its rows found.
    pub(super) fn blocker(
        &self,
        conn: &Connection,
        root: &RowImage,
        walk: &Walk,
    ) -> rusqlite::Result<Option<Blocker>> {
        if walk.takes_along {
            return Ok(Some(Blocker::TakesAlong));
        }
        let is_memory = |row: &&RowImage| row.table == self.mapping.table.name;
        let detached: Vec<&RowImage> = walk
            .detached
            .iter()
            .map(|found| &found.row)
            .filter(is_memory)
            .collect();
        if !walk.hidden.is_empty() || !detached.is_empty() {
            let mut namespaces = self.mapping.namespaces();
            let ours = self.namespace(conn, root, &mut namespaces)?;
            let mut is_foreign = false;
            for row in &walk.hidden {
                if self.namespace(conn, row, &mut namespaces)? == ours {
                    return Ok(Some(Blocker::TakesAlong));
                }
                is_foreign |= self.dependents.declares_supersession;
            }
            for row in detached {
                is_foreign |= self.namespace(conn, row, &mut namespaces)? != ours;
            }
            if is_foreign {
                return Ok(Some(Blocker::Foreign));
            }
        }
        let referenced = |table: &String| Blocker::Referenced {
            table: table.clone(),
        };
        Ok(walk.forbidden_by.as_ref().map(referenced))
    }

    /// Whose memory a row is.
    fn namespace(
        &self,
        conn: &Connection,
        row: &RowImage,
        namespaces: &mut Namespaces<'_>,
    ) -> rusqlite::Result<Option<Namespace>> {
        let Some(id) = self.mapping.id.of(row) else {
            return Ok(None);
        };
        let found = self.mapping.find(conn, &id, namespaces)?;
        Ok(found.and_then(|found| found.namespace))
    }

    /// Compiles every statement that reads memories.
    fn probe_reads(&self, conn: &Connection) -> Result<(), RowError> {
        for sql in self.mapping.statements() {
            probe(conn, "read", &self.mapping.table.name, &sql)?;
        }
        Ok(())
    }

    /// Compiles every statement that removes, ends or puts back memories.
    pub(super) fn probe_writes(&self, conn: &Connection) -> Result<(), RowError> {
        for (verb, table, sql) in self.dependents.statements() {
            probe(conn, verb, table, &sql)?;
        }
        let table = &self.mapping.table;
        if self.mapping.role(Role::ValidTo).is_some() && !self.mapping.marks().ended {
            return Err(RowError::schema(format!(
                "valid_to of table {:?} is inside JSON or generated, and cannot be set",
                table.name
            )));
        }
        self.mapping
            .settable()
            .try_for_each(|column| probe(conn, "update", &table.name, &table.update_sql([column])))
    }
}

/// Compiles a statement with its triggers, without running it.
fn probe(conn: &Connection, verb: &'static str, table: &str, sql: &str) -> Result<(), RowError> {
    match conn.prepare(&format!("EXPLAIN {sql}")) {
        Ok(_) => Ok(()),
        Err(error) => Err(RowError::Probe {
            verb,
            table: table.to_owned(),
            message: message_of(&error),
        }),
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

/// What `SQLite` said, without the statement.
pub(super) fn message_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}

impl Reader {
    /// Opens a partition, and compiles every statement that will read from it.
    pub(super) fn open(partition: &Partition, rows: Arc<config::Rows>) -> Result<Self, RowError> {
        Self::over(open::reader(&partition.path)?, partition, rows)
    }

    /// Reads a partition over a connection to it, or to a copy of it.
    pub(super) fn over(
        conn: Connection,
        partition: &Partition,
        rows: Arc<config::Rows>,
    ) -> Result<Self, RowError> {
        let tenant = partition.tenant.clone();
        let bound = Bound::new(&conn, &rows, tenant.as_ref())?;
        bound.probe_reads(&conn)?;
        let bound = RefCell::new(Arc::new(bound));
        Ok(Self {
            rows,
            tenant,
            snapshot: Snapshot { conn, bound },
        })
    }

    /// Runs `f` inside one read transaction.
    ///
    /// # Errors
    ///
    /// What `f` returns; also when the transaction cannot begin, or the schema has changed into one that does not fit
    /// the mapping.
    pub fn snapshot<T, E: From<RowError>>(
        &self,
        f: impl FnOnce(&Snapshot) -> Result<T, E>,
    ) -> Result<T, E> {
        let conn = &self.snapshot.conn;
        let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)
            .map_err(RowError::sqlite("begin a read transaction"))?;
        // The first read fixes the state that all others see.
        let cookie = schema::cookie(conn)?;
        if self.snapshot.bound().cookie != cookie {
            let bound = Bound::new(conn, &self.rows, self.tenant.as_ref())?;
            bound.probe_reads(conn)?;
            *self.snapshot.bound.borrow_mut() = Arc::new(bound);
        }
        let result = f(&self.snapshot)?;
        transaction
            .finish()
            .map_err(RowError::sqlite("end a read transaction"))?;
        Ok(result)
    }

    /// Compiles every statement that would remove, end or put back memories, triggers included, and runs none: what
    /// needs an extension is found before the first write.
    ///
    /// # Errors
    ///
    /// [`RowError::Probe`] with the table and what `SQLite` said; [`RowError::Schema`] when `valid_to` cannot be set.
    pub fn explain(&self) -> Result<(), RowError> {
        self.snapshot.bound().probe_writes(&self.snapshot.conn)
    }

    /// A number that changes when another connection commits to the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn data_version(&self) -> Result<i64, RowError> {
        self.pragma("data_version")
    }

    /// The journal mode, in lower case: `delete`, `wal` and so on.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn journal_mode(&self) -> Result<String, RowError> {
        self.pragma("journal_mode")
    }

    /// How many bytes of the file are free pages, which `VACUUM` would give back.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn free_bytes(&self) -> Result<u64, RowError> {
        let pages: u32 = self.pragma("freelist_count")?;
        let size: u32 = self.pragma("page_size")?;
        Ok(u64::from(pages) * u64::from(size))
    }

    /// How many rows of the whole file violate a foreign key, enforced or not; those of the table of `points` are points
    /// without a row, and counted as such. `None` when a key names columns of its parent that are no key there, so that
    /// `SQLite` cannot check it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn foreign_key_check(&self, points: Option<&str>) -> Result<Option<u64>, RowError> {
        let sql = "SELECT count(*) FROM pragma_foreign_key_check
                   WHERE ?1 IS NULL OR \"table\" <> ?1 COLLATE NOCASE";
        match self
            .snapshot
            .conn
            .query_row(sql, [points], |row| count_at(row, 0))
        {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => Ok(None),
            Err(error) => Err(RowError::sqlite("check the foreign keys")(error)),
        }
    }

    /// Checks the file for damage; returns the first that was found.
    ///
    /// # Errors
    ///
    /// When the check could not be run.
    pub fn integrity(&self) -> Result<Option<String>, RowError> {
        database::quick_check(&self.snapshot.conn)
            .map_err(RowError::sqlite("check the database for damage"))
    }

    fn pragma<T: rusqlite::types::FromSql>(&self, name: &str) -> Result<T, RowError> {
        self.snapshot
            .conn
            .pragma_query_value(None, name, |row| row.get(0))
            .map_err(RowError::sqlite("ask the database about itself"))
    }
}

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
    fn bound(&self) -> Arc<Bound> {
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

/// The result of a `count(*)`.
fn count_at(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(i64::unsigned_abs)
}
