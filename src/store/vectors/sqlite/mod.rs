//! A plain table of points in SQLite: `points(id, namespace, vector, payload)` and whatever other columns it has.
//!
//! Mechanics: rows are identified by their rowid (or by the primary key of a table without one); a point id is looked
//! up under every spelling of [`keys`]. Reads go page by page in the order of the key, each page a statement of its
//! own, so that no lock is held while a page is being looked at. Removal goes by small IMMEDIATE transactions with
//! pauses between them, see [`mod@write`].
//!
//! Policy: a row whose key no point id can name, or two rows that are the same point, make the call fail; they are
//! never skipped over. Points whose namespace is not text belong to nobody.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use crate::config::VectorTable;
use crate::memory::PointId;
use crate::stop::Stop;
use crate::store::image::{PointImage, SqlValue};

use crate::pace::Pace;
use crate::store::sqlite::{Access, OpenError};

use super::{Description, PointHead, Selector, VectorError, VectorReader, VectorStore};
use schema::Table;

mod keys;
pub mod read;
mod schema;
mod write;

#[cfg(test)]
mod tests;

/// Steps of the virtual machine between two looks at the stop flag: about a millisecond.
const STEPS_PER_LOOK: i32 = 10_000;

/// A table of points in a SQLite database.
pub struct SqliteVectors {
    connection: Connection,
    table: Table,
    stop: Stop,
    /// Dimensions of the vectors, once one was seen.
    dimensions: Cell<Option<u64>>,
    /// The keys in a spelling that no index leads to, once they were needed.
    /// Whether points were put back: they may be of a form that the table had no key of any more.
    putting_back: Cell<bool>,
    /// Which forms of UUIDs there are, see [`keys::forms`].
    forms: OnceCell<Vec<bool>>,
    irregular: OnceCell<HashMap<PointId, Vec<SqlValue>>>,
    pace: Cell<Pace>,
    /// Rows written since the WAL was folded in.
    unfolded: Cell<usize>,
}

/// One row of the table, found by the id of its point.
struct Located {
    id: PointId,
    /// The id as the row has it.
    raw: SqlValue,
    key: Vec<SqlValue>,
}

impl SqliteVectors {
    /// Opens the database and checks every configured name against its schema, and that the statements which hypnos
    /// will run can be run (a trigger may need an extension).
    ///
    /// # Errors
    ///
    /// When the file is missing or refuses, or its schema is not what the configuration says.
    pub fn open(
        config: &VectorTable,
        namespace_column: &str,
        access: Access,
        stop: Stop,
    ) -> Result<Self, VectorError> {
        let mut connection = crate::store::sqlite::open(&config.path, access)
            .map_err(|error| cannot_open(config, error))?;
        let watched = stop.clone();
        connection
            .progress_handler(STEPS_PER_LOOK, Some(move || watched.is_requested()))
            .map_err(failed("watch for a stop"))?;
        let table = Table::read(&connection, config, namespace_column)?;
        let store = Self {
            connection,
            table,
            stop,
            dimensions: Cell::new(None),
            putting_back: Cell::new(false),
            forms: OnceCell::new(),
            irregular: OnceCell::new(),
            pace: Cell::new(Pace::up_to(write::LARGEST_BATCH)),
            unfolded: Cell::new(0),
        };
        store.check_namespaces(namespace_column)?;
        if access == Access::Write {
            store
                .connection
                .pragma_update(None, "wal_autocheckpoint", 0)
                .map_err(failed("take over checkpoints"))?;
            store
                .connection
                .prepare(&store.delete_sql())
                .map_err(failed("prepare the removal of points"))?;
        }
        Ok(store)
    }

    /// When the namespace is read from the payload, some point must have it: else the name is misspelt.
    fn check_namespaces(&self, namespace_column: &str) -> Result<(), VectorError> {
        let Table {
            name,
            namespace,
            plain_name,
            namespace_is_column,
            ..
        } = &self.table;
        let is_fine = *namespace_is_column
            || self
                .connection
                .query_row(
                    &format!(
                        "SELECT EXISTS (SELECT 1 FROM {name} WHERE {namespace} IS NOT NULL) \
                         OR NOT EXISTS (SELECT 1 FROM {name})"
                    ),
                    [],
                    |row| row.get(0),
                )
                .map_err(failed("look for namespaces"))?;
        if is_fine {
            return Ok(());
        }
        Err(VectorError::Missing {
            what: format!(
                "column {namespace_column:?} of table {plain_name:?}, or a payload with that key,"
            ),
        })
    }

    fn check_stop(&self) -> Result<(), VectorError> {
        if self.stop.is_requested() {
            return Err(VectorError::Interrupted);
        }
        Ok(())
    }

    /// Begins a read of several statements that all see the same state; inside a transaction they do already.
    fn read_transaction(&self) -> Result<Option<Transaction<'_>>, VectorError> {
        self.connection
            .is_autocommit()
            .then(|| Transaction::new_unchecked(&self.connection, TransactionBehavior::Deferred))
            .transpose()
            .map_err(failed("begin reading points"))
    }

    /// Finds the rows of `ids`; an id without a row is not in the answer.
    ///
    /// Fails when two rows are the same point: nobody could tell which of them is meant.
    fn locate(&self, ids: &[PointId]) -> Result<Vec<Located>, VectorError> {
        let ids: BTreeSet<&PointId> = ids.iter().collect();
        let mut located = if self.table.id_indexed {
            self.locate_by_index(&ids)?
        } else {
            self.locate_by_scan(&ids)?
        };
        located.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(twins) = located.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(VectorError::Malformed(format!(
                "two rows of table {:?} are the same point {}",
                self.table.plain_name, twins[0].id
            )));
        }
        Ok(located)
    }

    fn locate_by_index(&self, ids: &BTreeSet<&PointId>) -> Result<Vec<Located>, VectorError> {
        let _snapshot = self.read_transaction()?;
        let mut located = Vec::with_capacity(ids.len());
        for id in ids {
            self.check_stop()?;
            self.locate_one(id, &mut located)?;
        }
        Ok(located)
    }

    fn locate_one(&self, id: &PointId, located: &mut Vec<Located>) -> Result<(), VectorError> {
        let before = located.len();
        let mut spellings = keys::spellings(id);
        if matches!(id, PointId::Uuid(_)) && !self.putting_back.get() {
            let mut in_use = self.forms()?.iter();
            spellings.retain(|_| in_use.next().copied().unwrap_or(true));
        }
        let spellings = match (self.table.id_is_rowid, id) {
            (true, PointId::Number(_)) => &spellings[..spellings.len() - 1],
            (true, _) => return Ok(()),
            (false, _) => &spellings[..],
        };
        self.locate_spellings(id, spellings, located)?;
        if located.len() == before
            && matches!(id, PointId::Uuid(_))
            && let Some(spellings) = self.irregular()?.get(id)
        {
            self.locate_spellings(id, spellings, located)?;
        }
        Ok(())
    }

    fn locate_spellings(
        &self,
        id: &PointId,
        spellings: &[SqlValue],
        located: &mut Vec<Located>,
    ) -> Result<(), VectorError> {
        if spellings.is_empty() {
            return Ok(());
        }
        let marks = vec!["?"; spellings.len()].join(", ");
        let sql = self.locate_sql(&format!("WHERE {} IN ({marks})", self.table.id));
        let mut search = || {
            let mut statement = self.connection.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(spellings))?;
            while let Some(row) = rows.next()? {
                // The comparison of SQLite may be laxer than ours (affinity, collation).
                if keys::point_id(row.get_ref(0)?).as_ref() == Some(id) {
                    located.push(Located {
                        id: id.clone(),
                        raw: row.get_ref(0)?.into(),
                        key: values(row, 1..=self.table.key.len())?,
                    });
                }
            }
            Ok(())
        };
        search().map_err(failed("look up points"))
    }

    /// Without an index on the id, one look at every key answers for all of `ids`.
    fn locate_by_scan(&self, ids: &BTreeSet<&PointId>) -> Result<Vec<Located>, VectorError> {
        let search = || {
            let mut located = Vec::new();
            let mut statement = self.connection.prepare_cached(&self.locate_sql(""))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let Some(id) = keys::point_id(row.get_ref(0)?)
                    && ids.contains(&id)
                {
                    located.push(Located {
                        id,
                        raw: row.get_ref(0)?.into(),
                        key: values(row, 1..=self.table.key.len())?,
                    });
                }
            }
            Ok(located)
        };
        search().map_err(failed("look up points"))
    }

    fn locate_sql(&self, condition: &str) -> String {
        let Table { name, id, .. } = &self.table;
        format!(
            "SELECT {id}, {} FROM {name} {condition}",
            self.table.key_list()
        )
    }

    /// Which forms of UUIDs the table has keys of: an agent writes one, and looking for the others would cost a page each.
    fn forms(&self) -> Result<&[bool], VectorError> {
        if let Some(known) = self.forms.get() {
            return Ok(known);
        }
        let Table { name, id, .. } = &self.table;
        let found = self
            .connection
            .query_row(
                &format!("SELECT {} FROM {name}", keys::forms(id)),
                [],
                |row| {
                    // Of a table without rows nothing is known.
                    (0..5)
                        .map(|form| Ok(row.get::<_, Option<bool>>(form)?.unwrap_or(true)))
                        .collect()
                },
            )
            .map_err(failed("look at the keys of points"))?;
        Ok(self.forms.get_or_init(|| found))
    }

    /// The keys in a spelling that is looked up under no index.
    fn irregular(&self) -> Result<&HashMap<PointId, Vec<SqlValue>>, VectorError> {
        if let Some(known) = self.irregular.get() {
            return Ok(known);
        }
        let Table { name, id, .. } = &self.table;
        let search = || {
            let mut found: HashMap<PointId, Vec<SqlValue>> = HashMap::new();
            let sql = format!("SELECT {id} FROM {name} WHERE {}", keys::irregular(id));
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let raw = row.get_ref(0)?;
                if let Some(id @ PointId::Uuid(_)) = keys::point_id(raw) {
                    found.entry(id).or_default().push(raw.into());
                }
            }
            Ok(found)
        };
        let found = search().map_err(failed("look up points"))?;
        Ok(self.irregular.get_or_init(|| found))
    }

    /// The id of a row, which must be one.
    fn read_id(&self, raw: ValueRef<'_>) -> Result<PointId, VectorError> {
        keys::point_id(raw).ok_or_else(|| {
            VectorError::Malformed(format!(
                "a key of table {:?} is neither an unsigned integer nor text nor a UUID ({} value)",
                self.table.plain_name,
                raw.data_type()
            ))
        })
    }
}

impl VectorReader for SqliteVectors {
    fn describe(&self) -> Result<Description, VectorError> {
        Ok(Description {
            backend: "sqlite",
            version: rusqlite::version().to_owned(),
            points: self.count(Selector::All)?,
            dimensions: self.dimensions()?,
            distance: None,
            vectors: vec![String::new()],
            namespace_indexed: self.table.namespace_indexed,
        })
    }

    fn namespaces(&self) -> Result<Vec<(String, u64)>, VectorError> {
        self.read_namespaces()
    }

    fn count(&self, of: Selector<'_>) -> Result<u64, VectorError> {
        self.read_count(of)
    }

    fn scroll(
        &self,
        of: Selector<'_>,
        keys: &[&str],
        visit: &mut dyn FnMut(Vec<PointHead>) -> ControlFlow<()>,
    ) -> Result<(), VectorError> {
        self.read_pages(of, keys, visit)
    }

    fn find(
        &self,
        namespace: &str,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, PointId)>, VectorError> {
        self.read_matches(namespace, key, values)
    }

    fn vectors(&self, ids: &[PointId]) -> Result<Vec<(PointId, Vec<f32>)>, VectorError> {
        self.read_vectors(ids)
    }

    fn capture(&self, ids: &[PointId]) -> Result<Vec<PointImage>, VectorError> {
        self.read_images(ids)
    }
}

impl VectorStore for SqliteVectors {
    fn remove(&self, ids: &[PointId]) -> Result<(), VectorError> {
        self.delete_points(ids)
    }

    fn put_back(&self, images: &[PointImage]) -> Result<(), VectorError> {
        self.insert_images(images)
    }
}

/// The values of some columns of a row.
fn values(
    row: &rusqlite::Row<'_>,
    columns: impl Iterator<Item = usize>,
) -> rusqlite::Result<Vec<SqlValue>> {
    columns
        .map(|column| Ok(row.get_ref(column)?.into()))
        .collect()
}

fn cannot_open(config: &VectorTable, error: OpenError) -> VectorError {
    let path = config.path.display().to_string();
    match error {
        OpenError::Missing { .. } => VectorError::Missing {
            what: format!("database {path}"),
        },
        OpenError::NotADatabase { .. } => VectorError::Missing {
            what: format!("a SQLite database in {path}"),
        },
        OpenError::Sqlite(source) => VectorError::Sqlite {
            doing: format!("open vector database {path}"),
            source,
        },
        error => VectorError::Unreachable {
            url: path,
            reason: crate::error::chain(&error),
        },
    }
}

/// A count, as SQLite gives it.
fn unsigned(count: i64) -> u64 {
    count.unsigned_abs()
}

/// Says what was being done when SQLite failed; a statement ended by the stop flag is an interruption.
fn failed(doing: &'static str) -> impl Fn(rusqlite::Error) -> VectorError {
    move |source| {
        if source.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return VectorError::Interrupted;
        }
        // What a trigger raises may quote a row: the code says enough.
        let source = match source {
            rusqlite::Error::SqliteFailure(code, Some(_)) => {
                rusqlite::Error::SqliteFailure(code, None)
            }
            other => other,
        };
        VectorError::Sqlite {
            doing: doing.to_owned(),
            source,
        }
    }
}
