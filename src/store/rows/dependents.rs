//! What hangs on a memory: rows whose foreign keys refer to it, and what the schema does to them when it goes.
//!
//! Mechanics: the foreign keys of all tables are read once, and the ones that lead to the memories (also over several
//! tables) become edges. A walk from the rows of a removal along these edges finds every row that goes with them
//! (CASCADE), every row that stays without its reference (SET NULL, SET DEFAULT), and whatever speaks against it.
//!
//! Policy: a walk never takes another memory along. The column that says which memory superseded a row is an edge
//! whether or not the schema declares it, and always cascades: hidden memories go with the one that hides them, and a
//! removal that does not name them all is stopped. A memory of another namespace is never touched: one that refers to
//! a memory by a foreign key keeps it, whatever the key does when its parent goes; one that only names it in a column
//! without a key stays hidden behind nothing.
//!
//! Child columns without an index are looked up in an index of our own, see `loose`.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};

use rusqlite::{Connection, Row, params_from_iter};

use super::RowError;
use super::edges::{Edge, ForeignKey, OnDelete, foreign_keys};
use super::loose::Loose;
use super::mapping::Mapping;
use super::schema::{RowKey, Table, conditions, quoted};
use super::source::find_column;
use crate::config;
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
    pub(super) edges: Vec<Edge>,
    /// Whether the column that says what superseded a memory is a foreign key.
    pub(super) declares_supersession: bool,
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
    /// Memories that say they were superseded by one that goes, and are not part of the removal.
    pub(super) hidden: Vec<RowImage>,
}

/// A row that stays without its reference.
#[derive(Debug)]
pub(super) struct Detached {
    /// The row as it is.
    pub(super) row: RowImage,
    /// The columns that lose their value, and what they get instead.
    pub(super) set: Vec<(String, SqlValue)>,
}

/// Whether it is the table of points: they are removed and put back as points.
fn is_points(table: &Table, rows: &config::Rows) -> bool {
    let points = rows.points_table.as_deref();
    points.is_some_and(|points| table.name.eq_ignore_ascii_case(points))
}

/// The references of a table to the memories that no foreign key declares.
fn undeclared(table: &Table, mapping: &Mapping, rows: &config::Rows) -> Vec<ForeignKey> {
    let of_table = rows
        .children
        .iter()
        .filter(|child| child.table.eq_ignore_ascii_case(&table.name));
    of_table
        .map(|child| ForeignKey::cascading(&mapping.table.name, &child.column, &child.key))
        .collect()
}

/// Checks that what the configuration says of children is there.
fn require_children(
    tables: &[Table],
    mapping: &Mapping,
    rows: &config::Rows,
) -> Result<(), RowError> {
    for child in &rows.children {
        let same = |table: &&Table| table.name.eq_ignore_ascii_case(&child.table);
        match tables.iter().find(same) {
            Some(table) => {
                find_column(table, &child.column)?;
                find_column(&mapping.table, &child.key)?;
            }
            None if child.optional => {}
            None => {
                return Err(RowError::NoTable {
                    table: child.table.clone(),
                    has: tables.iter().map(|table| table.name.clone()).collect(),
                });
            }
        }
    }
    Ok(())
}

impl Dependents {
    /// Reads the foreign keys of a schema.
    pub(super) fn read(
        conn: &Connection,
        tables: Vec<Table>,
        mapping: &Mapping,
        rows: &config::Rows,
    ) -> Result<Self, RowError> {
        require_children(&tables, mapping, rows)?;
        let position = |name: &str| {
            let same = |table: &Table| table.name.eq_ignore_ascii_case(name);
            tables.iter().position(same)
        };
        let memories = position(&mapping.table.name).unwrap_or_default();
        let mut edges = Vec::new();
        for (child, table) in tables.iter().enumerate() {
            if is_points(table, rows) {
                continue;
            }
            let declared = foreign_keys(conn, table)?;
            for key in declared.into_iter().chain(undeclared(table, mapping, rows)) {
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
            declares_supersession: false,
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
            edge.is_supersession = true;
            self.declares_supersession = true;
            return Ok(());
        }
        let edge = Edge::supersession(conn, memories, mapping, column)?;
        self.edges.push(edge);
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

    /// Whether a row can ever forbid a removal, or a removal ever reach another memory: beyond the column that says what
    /// superseded a memory, some edge that forbids, or that leads back into the memories.
    pub(super) fn can_block(&self, mapping: &Mapping) -> bool {
        self.edges.iter().any(|edge| match edge.on_delete {
            OnDelete::Forbid => true,
            OnDelete::Set(_) => edge.child == self.memories,
            OnDelete::Cascade => {
                let follows_ids = edge.is_supersession && edge.keys == mapping.id.columns;
                edge.child == self.memories && !follows_ids
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
            hidden: Vec::new(),
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
    hidden: Vec<RowImage>,
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
                    OnDelete::Cascade if edge.is_supersession => self.hidden.push(child),
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
        let mut seen: HashMap<(usize, RowKey), usize> = HashMap::new();
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
            match seen.entry(place) {
                Entry::Occupied(known) => detached[*known.get()].set.extend(set),
                Entry::Vacant(unknown) => {
                    unknown.insert(detached.len());
                    detached.push(Detached {
                        row,
                        set: set.collect(),
                    });
                }
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
            hidden: self.hidden,
        }
    }
}
