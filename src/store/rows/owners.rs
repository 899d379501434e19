//! Who still exists.
//!
//! Policy: everything uncertain counts as living. An owner whose deletion time is NULL, blank or unreadable lives; so
//! does one that stands in the table twice, once deleted and once not. A table that names nobody is an error, as is one
//! that cannot be read: "nobody is alive" is never an answer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use rusqlite::Connection;
use uuid::Uuid;

use super::source::{bind_source, find_table, require_columns};
use super::{RowError, open, schema, time, value};
use crate::clock::Timestamp;
use crate::config;
use crate::memory::{Moment, Namespace};

/// Every owner of one scope, and whether it was deleted.
#[derive(Debug)]
pub struct OwnerBook {
    scope: String,
    owners: HashMap<String, Moment>,
}

/// Whether the owner of a namespace still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is in the table.
    Living,
    /// It is in the table, marked as deleted.
    Deleted {
        /// When; the last instant that the stored value can mean. It may be in the future.
        at: Timestamp,
    },
    /// It is not in the table.
    Unknown,
    /// The namespace is of a scope that the table does not speak for.
    NoTable,
}

impl OwnerBook {
    /// Reads the owners table, from its own file or else from the row database at `rows_path`.
    ///
    /// # Errors
    ///
    /// When the file, table or a column is missing or cannot be read, when it names nobody ([`RowError::NoOwners`]),
    /// and when it names someone in a way that no namespace can spell.
    pub fn read(owners: &config::Owners, rows_path: &Path) -> Result<Self, RowError> {
        Self::read_all(&Self::open(owners, rows_path)?, owners)
    }

    fn open(owners: &config::Owners, rows_path: &Path) -> Result<Connection, RowError> {
        let place = owners.path.as_deref();
        open::reader(place.unwrap_or(rows_path)).map_err(|error| match place {
            Some(_) => RowError::Owners(Box::new(error)),
            None => error,
        })
    }

    fn read_all(conn: &Connection, owners: &config::Owners) -> Result<Self, RowError> {
        let book = Self::read_from(conn, owners).map_err(|error| match error {
            RowError::NoTable { .. } | RowError::NoColumn { .. } | RowError::NoColumns { .. } => {
                RowError::Owners(Box::new(error))
            }
            error => error,
        })?;
        if book.owners.is_empty() {
            return Err(RowError::NoOwners {
                table: owners.table.clone(),
            });
        }
        Ok(book)
    }

    fn read_from(conn: &Connection, config: &config::Owners) -> Result<Self, RowError> {
        let tables = schema::tables(conn)?;
        let table = find_table(conn, &tables, &config.table)?;
        let named = std::iter::once(&config.id).chain(&config.deleted_at);
        let needed = named.filter(|source| !source.optional);
        require_columns(table, needed.filter_map(|source| source.column()))?;
        let id = bind_source(conn, table, "id", &config.id)?;
        let deleted_at = match &config.deleted_at {
            Some(source) => bind_source(conn, table, "deleted_at", source)?,
            None => None,
        };
        let sql = format!(
            "SELECT {}, {} FROM {} AS m",
            id.as_ref().map_or("NULL", |role| role.expression()),
            deleted_at.as_ref().map_or("NULL", |role| role.expression()),
            schema::quoted(&table.name),
        );
        let mut owners: HashMap<String, Moment> = HashMap::new();
        let mut unreadable = 0;
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = conn.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?;
                let Some(name) = value::spelling_of(id) else {
                    unreadable += u64::from(!value::is_blank(id));
                    continue;
                };
                let deleted = match &deleted_at {
                    Some(role) => time::decode(row.get_ref(1)?, &role.time),
                    None => Moment::Absent,
                };
                owners
                    .entry(key(&name).into_owned())
                    .and_modify(|known| *known = later(*known, deleted))
                    .or_insert(deleted);
            }
            Ok(())
        };
        read().map_err(RowError::sqlite("read the owners"))?;
        if unreadable > 0 {
            return Err(RowError::UnreadableOwners {
                table: table.name.clone(),
                count: unreadable,
            });
        }
        Ok(Self {
            scope: config.scope.clone(),
            owners,
        })
    }

    /// Whether the owner of a namespace still exists.
    #[must_use]
    pub fn standing(&self, namespace: &Namespace) -> Standing {
        if namespace.scope() != self.scope {
            return Standing::NoTable;
        }
        match self.owners.get(key(namespace.owner()).as_ref()) {
            None => Standing::Unknown,
            Some(deleted) => deleted
                .latest()
                .map_or(Standing::Living, |at| Standing::Deleted { at }),
        }
    }

    /// Whether a name is that of an owner with more behind it, set off by anything but a letter or a digit: `ana.bak`,
    /// `ana-old`.
    #[must_use]
    pub fn is_named_after_one(&self, name: &str) -> bool {
        let seams = name.char_indices().filter(|(_, c)| !c.is_alphanumeric());
        seams
            .map(|(at, _)| key(&name[..at]))
            .any(|owner| self.owners.contains_key(owner.as_ref()))
    }

    /// The owners that were not marked deleted, in order, as the table spells them (UUIDs hyphenated).
    #[must_use]
    pub fn living(&self) -> Vec<&str> {
        let living = self
            .owners
            .iter()
            .filter(|(_, deleted)| deleted.latest().is_none());
        let mut names: Vec<&str> = living.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// How many owners there are, deleted ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there are none; a book that was read has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}

/// The owners, looked at again and again: they are read anew when their database was written to since, and only then.
#[derive(Debug)]
pub struct OwnerWatch {
    config: config::Owners,
    conn: Connection,
    /// Changes with every commit of others.
    version: i64,
    book: OwnerBook,
}

impl OwnerWatch {
    /// Reads the owners for the first time.
    ///
    /// # Errors
    ///
    /// As [`OwnerBook::read`].
    pub fn begin(owners: &config::Owners, rows_path: &Path) -> Result<Self, RowError> {
        let conn = OwnerBook::open(owners, rows_path)?;
        // First: what is written after this is not taken for read.
        let version = data_version(&conn)?;
        Ok(Self {
            book: OwnerBook::read_all(&conn, owners)?,
            config: owners.clone(),
            conn,
            version,
        })
    }

    /// The owners as they are now.
    ///
    /// # Errors
    ///
    /// As [`OwnerBook::read`].
    pub fn look(&mut self) -> Result<&OwnerBook, RowError> {
        let version = data_version(&self.conn)?;
        if version != self.version {
            self.book = OwnerBook::read_all(&self.conn, &self.config)?;
            self.version = version;
        }
        Ok(&self.book)
    }
}

fn data_version(conn: &Connection) -> Result<i64, RowError> {
    conn.pragma_query_value(None, "data_version", |row| row.get(0))
        .map_err(RowError::sqlite("read the owners"))
}

/// What an owner is looked up by: UUIDs in one spelling, since two programs rarely agree on theirs.
fn key(name: &str) -> Cow<'_, str> {
    Uuid::try_parse(name).map_or(Cow::Borrowed(name), |uuid| uuid.to_string().into())
}

/// Of two entries for one owner, the one that keeps it longer.
fn later(one: Moment, other: Moment) -> Moment {
    match (one.latest(), other.latest()) {
        (Some(a), Some(b)) if b > a => other,
        (Some(_), Some(_)) | (None, _) => one,
        (Some(_), None) => other,
    }
}
