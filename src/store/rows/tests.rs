//! Tests over whole databases, by what a caller does with them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::clock::Timestamp;
use crate::config::Source;
use crate::memory::{MemoryId, Namespace, Role};
use crate::store::image::{SqlValue, Unit};

mod discovery;
mod expressions;
mod marking;
mod reading;
mod removing;
mod restoring;
mod scale;
mod schemas;
mod text_indexes;
mod who;

/// A source in the notation of the configuration: `column`, `column?`, `column:text`, `column:json($.a)`, `sql(m.a)`.
fn source(text: &str) -> Source {
    config::source(text).unwrap()
}

/// What goes with one memory, and nothing before which it has to go.
fn unit_of(writer: &mut Writer, id: MemoryId) -> Unit {
    let behind = Vec::new();
    let mut units = writer.units(&[Wanted { id, behind }], usize::MAX).unwrap();
    units.remove(0).unwrap()
}

/// One database in a folder of its own, and how it is mapped.
struct World {
    dir: TempDir,
    rows: config::Rows,
}

impl World {
    /// A database `memory.db` with a table `memories` that has a key `id`; nothing else is mapped yet.
    fn new(sql: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.db");
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        conn.execute_batch(sql).unwrap();
        let rows = config::Rows {
            path: path.to_str().unwrap().into(),
            namespace: "world:all".into(),
            ..config::Rows::sample()
        };
        Self { dir, rows }
    }

    fn tenant(mut self, text: &str) -> Self {
        self.rows.tenant = Some(source(text));
        self.rows.namespace = "user:{tenant}".into();
        self
    }

    fn role(mut self, role: Role, text: &str) -> Self {
        self.rows.roles.push((role, source(text)));
        self
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(&self.rows.path)
    }

    /// A connection as the application has one, foreign keys not enforced.
    fn app(&self) -> Connection {
        let conn = Connection::open(self.path()).unwrap();
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        conn
    }

    fn store(&self) -> RowStore {
        RowStore::new(&self.rows)
    }

    fn try_reader(&self) -> Result<Reader, RowError> {
        let store = self.store();
        store.reader(&store.partitions()?[0])
    }

    fn reader(&self) -> Reader {
        self.try_reader().unwrap()
    }

    fn try_writer(&self) -> Result<Writer, RowError> {
        let store = self.store();
        store.writer(&store.partitions()?[0])
    }

    fn writer(&self) -> Writer {
        self.try_writer().unwrap()
    }

    /// Reads in one snapshot.
    fn read<T>(&self, f: impl FnOnce(&Snapshot) -> Result<T, RowError>) -> T {
        self.reader().snapshot(f).unwrap()
    }

    /// The rows that a query gives, as text.
    fn query(&self, sql: &str) -> Vec<String> {
        let conn = self.app();
        let mut statement = conn.prepare(sql).unwrap();
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cells = (0..width).map(|i| match SqlValue::from(row.get_ref(i).unwrap()) {
                SqlValue::Null => "NULL".into(),
                SqlValue::Integer(i) => i.to_string(),
                SqlValue::Real(r) => format!("{r:?}"),
                SqlValue::Text(t) | SqlValue::Blob(t) => String::from_utf8_lossy(&t).into_owned(),
            });
            Ok(cells.collect::<Vec<_>>().join(" "))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// Everything in the file, table by table.
    fn dump(&self) -> Vec<String> {
        let tables = self.query(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY 1",
        );
        let rows = |table: &String| {
            let name = schema::quoted(table);
            self.query(&format!("SELECT '{table}', * FROM {name} ORDER BY 1, 2"))
        };
        tables.iter().flat_map(rows).collect()
    }
}

fn n(id: i64) -> MemoryId {
    MemoryId::Integer(id)
}

fn t(id: &str) -> MemoryId {
    MemoryId::Text(id.into())
}

fn wanted(id: MemoryId, behind: &[MemoryId]) -> Wanted {
    Wanted {
        id,
        behind: behind.to_vec(),
    }
}

fn user(owner: &str) -> Namespace {
    Namespace::parse(&format!("user:{owner}")).unwrap()
}

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Prepares one removal that must be possible.
fn unit(writer: &mut Writer, id: MemoryId, behind: &[MemoryId]) -> Unit {
    let units = writer.units(&[wanted(id, behind)], usize::MAX).unwrap();
    units.into_iter().next().unwrap().unwrap()
}
