//! Foreign keys: how the rows of one table refer to those of another, and what the schema does when those go.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params_from_iter};

use super::RowError;
use super::mapping::Mapping;
use super::schema::{self, Table, conditions, quoted};
use super::value::{self, Affinity};
use crate::store::image::{RowImage, SqlValue};

/// One way in which rows of a child table refer to rows of a parent table.
#[derive(Debug)]
pub(super) struct Edge {
    /// The table whose rows refer, by its place among all tables.
    pub(super) child: usize,
    /// The table that they refer to.
    pub(super) parent: usize,
    /// The columns of the child.
    pub(super) columns: Vec<String>,
    /// The columns of the parent that they name, in the same order.
    pub(super) keys: Vec<String>,
    /// What those columns make of values.
    affinities: Vec<Affinity>,
    /// Whether it is the column that says which memory superseded a row.
    pub(super) is_supersession: bool,
    /// What becomes of the child when its parent goes.
    pub(super) on_delete: OnDelete,
    /// Whether the child rows of a parent can be found by an index; else each candidate is looked up by its key.
    pub(super) indexed: bool,
    /// `SELECT` of child rows: by reference, or by key with the reference before the image.
    pub(super) lookup_sql: String,
}

/// What becomes of the child when its parent goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OnDelete {
    /// It goes, too.
    Cascade,
    /// It stays, with these values in place of the reference.
    Set(Vec<SqlValue>),
    /// The parent must not go.
    Forbid,
}

/// A foreign key as the schema has it.
pub(super) struct ForeignKey {
    pub(super) parent: String,
    columns: Vec<String>,
    keys: Option<Vec<String>>,
    action: String,
}

impl Edge {
    /// The column of the memories that says which memory superseded a row: hidden memories go with the one that hides
    /// them.
    pub(super) fn supersession(
        conn: &Connection,
        memories: usize,
        mapping: &Mapping,
        column: String,
    ) -> Result<Self, RowError> {
        let edge = Self {
            child: memories,
            parent: memories,
            columns: vec![column],
            keys: mapping.id.columns.clone(),
            affinities: vec![mapping.id.affinity],
            is_supersession: true,
            on_delete: OnDelete::Cascade,
            indexed: false,
            lookup_sql: String::new(),
        };
        edge.find_index(conn, &mapping.table)
    }

    /// Makes an edge of a foreign key. `None` when it does not fit its parent: then nothing can refer by it.
    pub(super) fn bind(
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
            is_supersession: false,
            on_delete,
            indexed: false,
            lookup_sql: String::new(),
        };
        edge.find_index(conn, child_table).map(Some)
    }

    pub(super) fn quoted_columns(&self) -> Vec<String> {
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
    pub(super) fn key_values(&self, parent: &RowImage) -> Option<Vec<SqlValue>> {
        let keys = self.keys.iter().zip(&self.affinities);
        keys.map(|(key, affinity)| {
            let value = affinity.apply(value::as_ref(parent.get(key)?));
            (value != SqlValue::Null).then_some(value)
        })
        .collect()
    }

    /// The reference in a row whose columns from `first` on are those of the edge, as the parent would compare it.
    pub(super) fn read_reference(
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

impl ForeignKey {
    /// A reference whose rows go with their parent.
    pub(super) fn cascading(parent: &str, column: &str, key: &str) -> Self {
        Self {
            parent: parent.to_owned(),
            columns: vec![column.to_owned()],
            keys: Some(vec![key.to_owned()]),
            action: "CASCADE".to_owned(),
        }
    }
}

/// The foreign keys of a table.
pub(super) fn foreign_keys(conn: &Connection, table: &Table) -> Result<Vec<ForeignKey>, RowError> {
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
