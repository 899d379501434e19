//! The configuration, bound to one state of the schema: how memories are read and removed there.

use std::sync::Arc;

use rusqlite::Connection;

use super::RowError;
use super::dependents::{Dependents, Walk};
use super::mapping::{Mapping, Namespaces};
use super::schema::{self, Table};
use super::snapshot::Blocker;
use super::strays;
use super::text_index::TextIndex;
use crate::config;
use crate::memory::{Namespace, Role};
use crate::store::image::RowImage;

/// The configuration, bound to one state of the schema.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) mapping: Mapping,
    pub(super) dependents: Dependents,
    /// The text indexes that hypnos keeps.
    pub(super) text_indexes: Vec<TextIndex>,
    /// The query of how many rows belong to memories that are not there.
    pub(super) strays_sql: Option<String>,
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
    pub(super) fn probe_reads(&self, conn: &Connection) -> Result<(), RowError> {
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

/// What `SQLite` said, without the statement.
pub(super) fn message_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    }
}
