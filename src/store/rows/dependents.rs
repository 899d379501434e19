//! What hangs on a memory: rows whose foreign keys refer to it, and what the schema does to them when it goes.
//!
//! Mechanics: the foreign keys of all tables are read once, and the ones that lead to the memories (also over several
//! tables) become edges. A walk from the rows of a removal along these edges finds every row that goes with them
//! (CASCADE), every row that stays without its reference (SET NULL, SET DEFAULT), and whatever speaks against it.
//!
//! Policy: a walk never takes another memory along. The column that says which memory superseded a row is an edge
//! whether or not the schema declares it, and always cascades: hidden memories go with the one that hides them.
//!
//! Child columns without an index are looked up in an index of our own. It is made by one scan outside of any writing
//! transaction, brought up to date before each batch if anything was committed meanwhile, and once more inside the
//! writing transaction, with the rows inserted since (those with a higher rowid than any known, so that no table is
//! scanned there). What it can miss is a row that was *updated* to refer to a memory after the scan, and one inserted
//! into a table WITHOUT ROWID in the last milliseconds. Such a row stays where it is, with a reference that leads
//! nowhere: if it is a memory, it is hidden and stays hidden (its `superseded_by` is still set); none is lost and none
//! is un-hidden. What the index finds is read and compared again, so an entry that is out of date does no harm.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params_from_iter};

use super::RowError;
use super::mapping::Mapping;
use super::schema::{self, RowKey, Table, conditions, quoted};
use super::value::{self, Affinity};
use crate::memory::Role;
use crate::store::image::{RowImage, SqlValue};

/// The tables that hang on the memories, and how.
#[derive(Debug)]
pub(super) struct Dependents {
    /// Every table.
    pub(super) tables: Vec<Table>,
    /// Which of them holds the memories.
    memories: usize,
    /// Which rows follow which.
    edges: Vec<Edge>,
}

/// One way in which rows of a child table refer to rows of a parent table.
#[derive(Debug)]
pub(super) struct Edge {
    child: usize,
    parent: usize,
    columns: Vec<String>,
    keys: Vec<String>,
    affinities: Vec<Affinity>,
    on_delete: OnDelete,
    /// Whether the child rows of a parent can be found by an index; else each candidate is looked up by its key.
    indexed: bool,
    /// `SELECT` of child rows: by reference, or by key with the reference before the image.
    lookup_sql: String,
}

/// What becomes of the child when its parent goes.
#[derive(Debug, Clone, PartialEq)]
enum OnDelete {
    /// It goes, too.
    Cascade,
    /// It stays, with these values in place of the reference.
    Set(Vec<SqlValue>),
    /// The parent must not go.
    Forbid,
}

/// A foreign key as the schema has it.
struct ForeignKey {
    parent: String,
    columns: Vec<String>,
    keys: Option<Vec<String>>,
    action: String,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Rows that go, deepest first.
    pub(super) children: Vec<RowImage>,
    /// Rows that stay without their reference.
    pub(super) detached: Vec<Detached>,
    /// A table with a row that forbids the removal.
    pub(super) forbidden_by: Option<String>,
    /// Whether another memory would go, too.
    pub(super) takes_along: bool,
}

/// A row that stays without its reference.
#[derive(Debug)]
pub(super) struct Detached {
    /// The row as it is.
    pub(super) row: RowImage,
    /// The columns that lose their value, and what they get instead.
    pub(super) set: Vec<(String, SqlValue)>,
}

impl Walk {
    /// Whether nothing speaks against the removal.
    pub(super) fn is_free(&self) -> bool {
        self.forbidden_by.is_none() && !self.takes_along
    }
}

impl Dependents {
    /// Reads the foreign keys of a schema.
    pub(super) fn read(
        conn: &Connection,
        tables: Vec<Table>,
        mapping: &Mapping,
    ) -> Result<Self, RowError> {
        let position = |name: &str| {
            let same = |table: &Table| table.name.eq_ignore_ascii_case(name);
            tables.iter().position(same)
        };
        let memories = position(&mapping.table.name).unwrap_or_default();
        let mut edges = Vec::new();
        for (child, table) in tables.iter().enumerate() {
            for key in foreign_keys(conn, table)? {
                if let Some(parent) = position(&key.parent)
                    && let Some(edge) = Edge::bind(conn, &tables, child, parent, key)?
                {
                    edges.push(edge);
                }
            }
        }
        let mut dependents = Self {
            tables,
            memories,
            edges,
        };
        dependents.add_supersession(conn, mapping)?;
        dependents.keep_reachable();
        dependents.require_stored_keys()?;
        Ok(dependents)
    }

    /// Makes the column that says what superseded a memory an edge that cascades.
    fn add_supersession(&mut self, conn: &Connection, mapping: &Mapping) -> Result<(), RowError> {
        let Some(column) = mapping
            .role(Role::SupersededBy)
            .and_then(|role| role.column.clone())
        else {
            return Ok(());
        };
        let memories = self.memories;
        let declared = self.edges.iter_mut().find(|edge| {
            (edge.child, edge.parent) == (memories, memories) && edge.columns == [column.as_str()]
        });
        if let Some(edge) = declared {
            edge.on_delete = OnDelete::Cascade;
            return Ok(());
        }
        let edge = Edge {
            child: memories,
            parent: memories,
            columns: vec![column],
            keys: vec![mapping.id.clone()],
            affinities: vec![mapping.ids],
            on_delete: OnDelete::Cascade,
            indexed: false,
            lookup_sql: String::new(),
        };
        self.edges.push(edge.find_index(conn, &mapping.table)?);
        Ok(())
    }

    /// Drops the edges that no removal of a memory can follow.
    fn keep_reachable(&mut self) {
        let mut reached = HashSet::from([self.memories]);
        let mut before = 0;
        while reached.len() > before {
            before = reached.len();
            for edge in &self.edges {
                if reached.contains(&edge.parent) && edge.on_delete == OnDelete::Cascade {
                    reached.insert(edge.child);
                }
            }
        }
        self.edges.retain(|edge| reached.contains(&edge.parent));
    }

    /// Refuses references to generated columns, whose values are in no image.
    fn require_stored_keys(&self) -> Result<(), RowError> {
        for edge in &self.edges {
            let parent = &self.tables[edge.parent];
            let generated = |key: &&String| parent.column(key).is_some_and(|c| c.generated);
            if let Some(key) = edge.keys.iter().find(generated) {
                return Err(RowError::schema(format!(
                    "table {:?} refers to the generated column {key:?} of table {:?}, which hypnos cannot follow",
                    self.tables[edge.child].name, parent.name
                )));
            }
        }
        Ok(())
    }

    /// Whether a row can ever forbid a removal, or a removal ever take another memory along: beyond the column that
    /// says what superseded a memory, some edge that forbids, or that cascades into the memories.
    pub(super) fn can_block(&self, mapping: &Mapping) -> bool {
        let superseded = mapping
            .role(Role::SupersededBy)
            .and_then(|role| role.column.as_deref());
        self.edges.iter().any(|edge| match edge.on_delete {
            OnDelete::Forbid => true,
            OnDelete::Set(_) => false,
            OnDelete::Cascade => {
                let supersession = edge.parent == self.memories
                    && superseded.is_some_and(|column| edge.columns == [column])
                    && edge.keys == [mapping.id.as_str()];
                edge.child == self.memories && !supersession
            }
        })
    }

    /// The table of this name.
    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Every statement that a removal and its undoing need: verb, table and SQL.
    pub(super) fn statements(&self) -> Vec<(&'static str, &str, String)> {
        let memories = &self.tables[self.memories];
        let mut statements = vec![
            ("read", memories, memories.fetch_sql().to_owned()),
            ("delete from", memories, memories.delete_sql().to_owned()),
            ("insert into", memories, memories.insert_sql().to_owned()),
        ];
        for edge in &self.edges {
            let child = &self.tables[edge.child];
            statements.push(("read", child, edge.lookup_sql.clone()));
            match edge.on_delete {
                OnDelete::Cascade => {
                    statements.push(("delete from", child, child.delete_sql().to_owned()));
                    statements.push(("insert into", child, child.insert_sql().to_owned()));
                }
                OnDelete::Set(_) => {
                    let columns = edge.columns.iter().map(String::as_str);
                    statements.push(("update", child, child.update_sql(columns)));
                }
                OnDelete::Forbid => {}
            }
        }
        let named = statements.into_iter();
        named
            .map(|(verb, table, sql)| (verb, table.name.as_str(), sql))
            .collect()
    }

    /// Follows every edge from the rows of a removal.
    pub(super) fn walk<'a>(
        &self,
        conn: &Connection,
        loose: &Loose,
        removed: impl IntoIterator<Item = &'a RowImage> + Clone,
    ) -> rusqlite::Result<Walk> {
        let mut walker = Walker {
            dependents: self,
            conn,
            loose,
            taken: HashSet::new(),
            going: Vec::new(),
            detached: Vec::new(),
            forbids: Vec::new(),
            takes_along: false,
        };
        if self.edges.is_empty() {
            return Ok(Walk::default());
        }
        let memories = &self.tables[self.memories];
        for row in removed.clone() {
            walker
                .taken
                .extend(memories.key_of(row).map(|key| (self.memories, key)));
        }
        for row in removed {
            walker.follow(self.memories, row)?;
        }
        let mut next = 0;
        while let Some((table, row)) = walker.going.get(next).cloned() {
            walker.follow(table, &row)?;
            next += 1;
        }
        Ok(walker.finish())
    }

    /// Whether every foreign key of a row that is to be put back leads to a row that exists.
    pub(super) fn has_its_parents(
        &self,
        conn: &Connection,
        row: &RowImage,
    ) -> rusqlite::Result<bool> {
        for edge in &self.edges {
            if self.tables[edge.child].name != row.table {
                continue;
            }
            let values: Option<Vec<&SqlValue>> = edge
                .columns
                .iter()
                .map(|column| row.get(column).filter(|v| **v != SqlValue::Null))
                .collect();
            let Some(values) = values else { continue };
            let parent = &self.tables[edge.parent];
            let columns: Vec<String> = edge.keys.iter().map(|key| quoted(key)).collect();
            let exists = conn
                .prepare_cached(&format!(
                    "SELECT 1 FROM {} WHERE {}",
                    quoted(&parent.name),
                    conditions(&columns, 0)
                ))?
                .exists(params_from_iter(values))?;
            if !exists {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What a detached row of this table has in each column that may have lost its reference.
    pub(super) fn emptied_columns(&self, table: &str) -> Vec<(&str, &SqlValue)> {
        let mut columns = Vec::new();
        for edge in &self.edges {
            if let OnDelete::Set(values) = &edge.on_delete
                && self.tables[edge.child].name == table
            {
                columns.extend(edge.columns.iter().map(String::as_str).zip(values));
            }
        }
        columns
    }
}

/// A walk under way.
struct Walker<'a> {
    dependents: &'a Dependents,
    conn: &'a Connection,
    loose: &'a Loose,
    /// Every row that goes.
    taken: HashSet<(usize, RowKey)>,
    /// Rows of other tables that go, nearest first.
    going: Vec<(usize, RowImage)>,
    /// Rows that stay: the edge, the key, the row.
    detached: Vec<(usize, RowKey, RowImage)>,
    /// Rows that forbid the removal unless they go, too.
    forbids: Vec<(usize, RowKey)>,
    takes_along: bool,
}

impl Walker<'_> {
    fn follow(&mut self, table: usize, row: &RowImage) -> rusqlite::Result<()> {
        for (number, edge) in self.dependents.edges.iter().enumerate() {
            if edge.parent != table {
                continue;
            }
            for (key, child) in self.children(number, edge, row)? {
                let place = (edge.child, key);
                if self.taken.contains(&place) {
                    continue;
                }
                match edge.on_delete {
                    OnDelete::Cascade if edge.child == self.dependents.memories => {
                        self.takes_along = true;
                    }
                    OnDelete::Cascade => {
                        self.taken.insert(place);
                        self.going.push((edge.child, child));
                    }
                    OnDelete::Set(_) => self.detached.push((number, place.1, child)),
                    OnDelete::Forbid => self.forbids.push(place),
                }
            }
        }
        Ok(())
    }

    /// The rows that refer to `parent` by an edge.
    fn children(
        &self,
        number: usize,
        edge: &Edge,
        parent: &RowImage,
    ) -> rusqlite::Result<Vec<(RowKey, RowImage)>> {
        let Some(values) = edge.key_values(parent) else {
            return Ok(Vec::new());
        };
        let table = &self.dependents.tables[edge.child];
        let mut found = Vec::new();
        let mut keep = |row: &Row<'_>, first| -> rusqlite::Result<()> {
            let image = table.image(row, first)?;
            found.extend(table.key_of(&image).map(|key| (key, image)));
            Ok(())
        };
        if edge.indexed {
            let mut statement = self.conn.prepare_cached(&edge.lookup_sql)?;
            let mut rows = statement.query(params_from_iter(&values))?;
            while let Some(row) = rows.next()? {
                keep(row, 0)?;
            }
            return Ok(found);
        }
        let mut statement = self.conn.prepare_cached(&edge.lookup_sql)?;
        for key in self.loose.candidates(number, &values) {
            let mut rows = statement.query(params_from_iter(key.values()))?;
            if let Some(row) = rows.next()?
                && edge.read_reference(row, 0)?.as_ref() == Some(&values)
            {
                keep(row, edge.columns.len())?;
            }
        }
        Ok(found)
    }

    fn finish(self) -> Walk {
        let tables = &self.dependents.tables;
        let mut detached: Vec<Detached> = Vec::new();
        let mut seen: Vec<(usize, RowKey)> = Vec::new();
        for (number, key, row) in self.detached {
            let edge = &self.dependents.edges[number];
            let place = (edge.child, key);
            if self.taken.contains(&place) {
                continue;
            }
            let OnDelete::Set(values) = &edge.on_delete else {
                continue;
            };
            let set = edge.columns.iter().cloned().zip(values.iter().cloned());
            if let Some(known) = seen.iter().position(|known| *known == place) {
                detached[known].set.extend(set);
            } else {
                seen.push(place);
                detached.push(Detached {
                    row,
                    set: set.collect(),
                });
            }
        }
        let forbids = self.forbids.iter();
        let forbidden_by = forbids
            .filter(|place| !self.taken.contains(place))
            .map(|(table, _)| tables[*table].name.clone())
            .next();
        Walk {
            children: self.going.into_iter().rev().map(|(_, row)| row).collect(),
            detached,
            forbidden_by,
            takes_along: self.takes_along,
        }
    }
}

impl Edge {
    /// Makes an edge of a foreign key. `None` when it does not fit its parent: then nothing can refer by it.
    fn bind(
        conn: &Connection,
        tables: &[Table],
        child: usize,
        parent: usize,
        key: ForeignKey,
    ) -> Result<Option<Self>, RowError> {
        let (child_table, parent_table) = (&tables[child], &tables[parent]);
        let names = key.keys.unwrap_or_else(|| {
            let primary = parent_table.primary();
            primary.iter().map(|column| column.name.clone()).collect()
        });
        let find = |table: &Table, names: &[String]| -> Option<Vec<schema::Column>> {
            names
                .iter()
                .map(|name| table.column(name).cloned())
                .collect()
        };
        let (Some(columns), Some(keys)) =
            (find(child_table, &key.columns), find(parent_table, &names))
        else {
            return Ok(None);
        };
        if columns.len() != keys.len() {
            return Ok(None);
        }
        let on_delete = on_delete(conn, &key.action, &columns)?;
        let edge = Self {
            child,
            parent,
            columns: columns.into_iter().map(|column| column.name).collect(),
            affinities: keys.iter().map(|key| key.affinity).collect(),
            keys: keys.into_iter().map(|key| key.name).collect(),
            on_delete,
            indexed: false,
            lookup_sql: String::new(),
        };
        edge.find_index(conn, child_table).map(Some)
    }

    fn quoted_columns(&self) -> Vec<String> {
        self.columns.iter().map(|column| quoted(column)).collect()
    }

    /// Finds out how child rows can be looked up, and writes the statement that does.
    fn find_index(mut self, conn: &Connection, child: &Table) -> Result<Self, RowError> {
        let columns = self.quoted_columns();
        self.indexed = is_indexed(conn, child, &columns)?;
        self.lookup_sql = if self.indexed {
            format!(
                "SELECT {} FROM {} WHERE {} ORDER BY {}",
                child.image_list(),
                quoted(&child.name),
                conditions(&columns, 0),
                child.key_list(),
            )
        } else {
            let by_key = child.fetch_sql().trim_start_matches("SELECT ");
            format!("SELECT {}, {by_key}", columns.join(", "))
        };
        Ok(self)
    }

    /// What children have in their columns when they refer to this row. `None` when nothing can refer to it.
    fn key_values(&self, parent: &RowImage) -> Option<Vec<SqlValue>> {
        let keys = self.keys.iter().zip(&self.affinities);
        keys.map(|(key, affinity)| {
            let value = affinity.apply(value::as_ref(parent.get(key)?));
            (value != SqlValue::Null).then_some(value)
        })
        .collect()
    }

    /// The reference in a row whose columns from `first` on are those of the edge, as the parent would compare it.
    fn read_reference(
        &self,
        row: &Row<'_>,
        first: usize,
    ) -> rusqlite::Result<Option<Vec<SqlValue>>> {
        let mut values = Vec::with_capacity(self.columns.len());
        for (index, affinity) in self.affinities.iter().enumerate() {
            match row.get_ref(first + index)? {
                ValueRef::Null => return Ok(None),
                value => values.push(affinity.apply(value)),
            }
        }
        Ok(Some(values))
    }
}

/// The foreign keys of a table.
fn foreign_keys(conn: &Connection, table: &Table) -> Result<Vec<ForeignKey>, RowError> {
    let read = || -> rusqlite::Result<Vec<ForeignKey>> {
        let mut statement = conn.prepare_cached(
            "SELECT id, \"table\", \"from\", \"to\", on_delete FROM pragma_foreign_key_list(?1)
             ORDER BY id, seq",
        )?;
        let mut rows = statement.query([&table.name])?;
        let mut keys: Vec<ForeignKey> = Vec::new();
        let mut last = None;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            if last.replace(id) != Some(id) {
                keys.push(ForeignKey {
                    parent: row.get(1)?,
                    columns: Vec::new(),
                    keys: Some(Vec::new()),
                    action: row.get(4)?,
                });
            }
            if let Some(key) = keys.last_mut() {
                key.columns.push(row.get(2)?);
                match (row.get(3)?, &mut key.keys) {
                    (Some(name), Some(names)) => names.push(name),
                    _ => key.keys = None,
                }
            }
        }
        Ok(keys)
    };
    read().map_err(RowError::sqlite("read the foreign keys"))
}

/// What a foreign key does when its parent goes. What cannot be set is forbidden, as it would be in the application.
fn on_delete(
    conn: &Connection,
    action: &str,
    columns: &[schema::Column],
) -> Result<OnDelete, RowError> {
    let to_default = match action {
        "CASCADE" => return Ok(OnDelete::Cascade),
        "SET NULL" => false,
        "SET DEFAULT" => true,
        _ => return Ok(OnDelete::Forbid),
    };
    let mut values = Vec::with_capacity(columns.len());
    for column in columns {
        let value = match &column.default {
            Some(default) if to_default => conn
                .query_row(&format!("SELECT ({default})"), [], |row| {
                    Ok(SqlValue::from(row.get_ref(0)?))
                })
                .map_err(RowError::sqlite("evaluate the default of a foreign key"))?,
            _ => SqlValue::Null,
        };
        if column.generated || (column.not_null && value == SqlValue::Null) {
            return Ok(OnDelete::Forbid);
        }
        values.push(column.affinity.apply(value::as_ref(&value)));
    }
    Ok(OnDelete::Set(values))
}

/// Whether rows can be found by all of these quoted columns without reading the whole table.
fn is_indexed(conn: &Connection, table: &Table, columns: &[String]) -> Result<bool, RowError> {
    let plan = || -> rusqlite::Result<bool> {
        let mut statement = conn.prepare(&format!(
            "EXPLAIN QUERY PLAN SELECT 1 FROM {} WHERE {}",
            quoted(&table.name),
            conditions(columns, 0)
        ))?;
        let nulls = vec![SqlValue::Null; columns.len()];
        let mut rows = statement.query(params_from_iter(&nulls))?;
        let detail: String = match rows.next()? {
            Some(row) => row.get(3)?,
            None => return Ok(false),
        };
        Ok(detail.starts_with("SEARCH") && detail.matches("=?").count() >= columns.len())
    };
    plan().map_err(RowError::sqlite("look for an index"))
}

/// Our own index of child columns that have none.
#[derive(Debug, Default)]
pub(super) struct Loose {
    indexes: Vec<LooseIndex>,
    data_version: Option<i64>,
}

/// What bringing the index up to date may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// Whole tables.
    Tables,
    /// Only rows with a higher rowid than any known.
    NewRows,
}

/// The index of one edge: hashes of references, sorted, each with the row that has it.
#[derive(Debug)]
struct LooseIndex {
    edge: usize,
    entries: Vec<(u64, RowKey)>,
    /// The highest rowid that was there; `None` for an empty table, and for one WITHOUT ROWID.
    highest: Option<i64>,
}

impl Loose {
    /// Brings the index up to date: makes it, or adds what was inserted since, if anything was committed.
    ///
    /// `scan` says whether whole tables may be read; without it, a table WITHOUT ROWID is left for the next time.
    pub(super) fn refresh(
        &mut self,
        conn: &Connection,
        dependents: &Dependents,
        scan: Scan,
    ) -> rusqlite::Result<()> {
        let version: i64 = conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
        if self.data_version == Some(version) {
            return Ok(());
        }
        if self.data_version.is_none() {
            let edges = dependents.edges.iter().enumerate();
            self.indexes = edges
                .filter(|(_, edge)| !edge.indexed)
                .map(|(edge, _)| LooseIndex::new(edge))
                .collect();
        }
        let mut is_whole = true;
        for index in &mut self.indexes {
            if scan == Scan::Tables || index.highest.is_some() {
                index.extend(conn, dependents)?;
            } else {
                is_whole = false;
            }
        }
        if is_whole {
            self.data_version = Some(version);
        }
        Ok(())
    }

    /// Notes that rows were deleted by this connection: a rowid that was the highest may be given out again.
    pub(super) fn lower(
        &mut self,
        conn: &Connection,
        dependents: &Dependents,
    ) -> rusqlite::Result<()> {
        for index in &mut self.indexes {
            let child = &dependents.tables[dependents.edges[index.edge].child];
            index.highest = highest(conn, child)?.min(index.highest);
        }
        Ok(())
    }

    /// The rows that may have this reference.
    fn candidates(&self, edge: usize, values: &[SqlValue]) -> impl Iterator<Item = &RowKey> {
        let hash = hash_of(values);
        let entries = self
            .indexes
            .iter()
            .find(|index| index.edge == edge)
            .map_or(&[][..], |index| &index.entries);
        let start = entries.partition_point(|(other, _)| *other < hash);
        entries[start..]
            .iter()
            .take_while(move |(other, _)| *other == hash)
            .map(|(_, key)| key)
    }
}

impl LooseIndex {
    fn new(edge: usize) -> Self {
        Self {
            edge,
            entries: Vec::new(),
            highest: None,
        }
    }

    /// Reads the rows above the highest one that is known; all of them in a table WITHOUT ROWID.
    fn extend(&mut self, conn: &Connection, dependents: &Dependents) -> rusqlite::Result<()> {
        let edge = &dependents.edges[self.edge];
        let child = &dependents.tables[edge.child];
        let columns = edge.quoted_columns();
        let mut conditions: Vec<String> =
            columns.iter().map(|c| format!("{c} IS NOT NULL")).collect();
        if let Some(highest) = self.highest {
            conditions.push(format!("{} > {highest}", child.key_list()));
        } else {
            self.entries.clear();
        }
        let new_highest = highest(conn, child)?;
        let mut statement = conn.prepare(&format!(
            "SELECT {}, {} FROM {} WHERE {}",
            child.key_list(),
            columns.join(", "),
            quoted(&child.name),
            conditions.join(" AND ")
        ))?;
        let known = self.entries.len();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(reference) = edge.read_reference(row, child.key_len())? {
                self.entries.push((hash_of(&reference), child.key(row, 0)?));
            }
        }
        if self.entries.len() > known {
            self.entries.sort_by_key(|(hash, _)| *hash);
        }
        self.highest = new_highest;
        Ok(())
    }
}

/// The highest rowid of a table; `None` when it is empty or has none.
fn highest(conn: &Connection, table: &Table) -> rusqlite::Result<Option<i64>> {
    if !table.has_rowid() {
        return Ok(None);
    }
    let sql = format!(
        "SELECT max({}) FROM {}",
        table.key_list(),
        quoted(&table.name)
    );
    conn.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}

fn hash_of(values: &[SqlValue]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for value in values {
        schema::hash_value(value, &mut hasher);
    }
    hasher.finish()
}
