//! An index of our own for the child columns that have none.
//!
//! A removal looks up what refers to each of its rows; where the schema has no index for that, it is looked up here.
//! The index is made by one scan outside of any writing transaction, brought up to date before each batch if anything
//! was committed meanwhile, and once more inside the writing transaction, with the rows inserted since (those with a
//! higher rowid than any known, so that no table is scanned there).
//!
//! What it can miss is a row that was *updated* to refer to a memory after the scan, and one inserted into a table
//! WITHOUT ROWID in the last milliseconds. Such a row stays where it is, with a reference that leads nowhere: if it is
//! a memory, it is hidden and stays hidden (its `superseded_by` is still set); none is lost and none is un-hidden.
//! What the index finds is read and compared again, so an entry that is out of date does no harm.

use std::hash::{DefaultHasher, Hasher};

use rusqlite::Connection;

use super::dependents::Dependents;
use super::schema::{self, RowKey, Table, quoted};
use crate::store::image::SqlValue;

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
    pub(super) fn candidates(
        &self,
        edge: usize,
        values: &[SqlValue],
    ) -> impl Iterator<Item = &RowKey> {
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
