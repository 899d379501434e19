//! Finding the rows of point ids.
//!
//! Mechanics: with an index on the id, ids are looked up, many in one statement, under the spellings that the table has keys
//! of, and under the irregular ones that one look at every key has found. Without an index, one look at every key answers
//! for all ids.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Row;

use crate::memory::PointId;
use crate::store::composite;
use crate::store::image::SqlValue;
use crate::store::vectors::VectorError;

use super::schema::Table;
use super::{SqliteVectors, failed, keys, values};

/// Ids that one statement looks up.
const AT_ONCE: usize = 100;

/// The rows of some ids.
pub(super) struct Found {
    /// The rows of the ids that have one, in order of the id.
    pub(super) rows: Vec<Located>,
    /// The ids that have more than one.
    pub(super) ambiguous: BTreeSet<PointId>,
}

impl Found {
    /// Every id that has a row.
    pub(super) fn into_ids(self) -> BTreeSet<PointId> {
        let mut ids = self.ambiguous;
        ids.extend(self.rows.into_iter().map(|row| row.id));
        ids
    }
}

/// The ids that come more than once, of some in order.
pub(super) fn repeated<'a>(ids: impl Iterator<Item = &'a PointId> + Clone) -> BTreeSet<PointId> {
    let pairs = ids.clone().zip(ids.skip(1));
    let same = pairs.filter(|(id, next)| id == next);
    same.map(|(id, _)| id.clone()).collect()
}

/// One row of the table, found by the id of its point.
pub(super) struct Located {
    pub(super) id: PointId,
    /// The id as the row has it.
    pub(super) raw: SqlValue,
    pub(super) key: Vec<SqlValue>,
}

impl SqliteVectors {
    /// Finds the rows of `ids`; an id without a row is not in the answer.
    pub(super) fn locate(
        &self,
        ids: impl IntoIterator<Item = PointId>,
    ) -> Result<Found, VectorError> {
        let ids: BTreeSet<PointId> = ids.into_iter().collect();
        let mut rows = if self.table.id_indexed {
            self.locate_by_index(&ids)?
        } else {
            self.locate_by_scan(&ids)?
        };
        rows.sort_by(|a, b| a.id.cmp(&b.id));
        let ambiguous = repeated(rows.iter().map(|row| &row.id));
        rows.retain(|row| !ambiguous.contains(&row.id));
        Ok(Found { rows, ambiguous })
    }

    fn locate_by_index(&self, ids: &BTreeSet<PointId>) -> Result<Vec<Located>, VectorError> {
        let mut located = Vec::with_capacity(ids.len());
        self.look_up(ids, &self.table.key_list(), &mut |id, row| {
            located.push(Located {
                id: id.clone(),
                raw: row.get_ref(0)?.into(),
                key: values(row, 1..=self.table.key.len())?,
            });
            Ok(())
        })?;
        Ok(located)
    }

    /// Shows every row of `ids`, in one look at the table: its id, then the columns of `list`. There is an index on the id.
    pub(super) fn look_up(
        &self,
        ids: &BTreeSet<PointId>,
        list: &str,
        visit: &mut dyn FnMut(&PointId, &Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), VectorError> {
        let _snapshot = self.read_transaction()?;
        let Table { name, id, .. } = &self.table;
        let mut search = |wanted: &[&PointId], condition: &str, keys: &[SqlValue]| {
            let sql = format!("SELECT {id}, {list} FROM {name} WHERE {condition}");
            let mut statement = self.connection.prepare_cached(&sql)?;
            let mut rows = statement.query(rusqlite::params_from_iter(keys))?;
            while let Some(row) = rows.next()? {
                // The comparison of SQLite may be laxer than ours (affinity, collation).
                let id = keys::point_id(row.get_ref(0)?);
                if let Some(id) = id.filter(|id| wanted.binary_search(&id).is_ok()) {
                    visit(&id, row)?;
                }
            }
            Ok(())
        };
        let doing = failed("look up points");
        if !self.table.id_parts.is_empty() {
            let condition = composite::is_array(&self.table.id_parts, 1);
            for id in ids {
                self.check_stop()?;
                let spelling = keys::spellings(id).swap_remove(0);
                search(&[id], &condition, &[spelling]).map_err(&doing)?;
            }
            return Ok(());
        }
        let ids: Vec<&PointId> = ids.iter().collect();
        for wanted in ids.chunks(AT_ONCE) {
            self.check_stop()?;
            let mut keys = Vec::with_capacity(wanted.len());
            for id in wanted {
                self.spell(id, &mut keys)?;
            }
            if !keys.is_empty() {
                let marks = vec!["?"; keys.len()].join(", ");
                search(wanted, &format!("{id} IN ({marks})"), &keys).map_err(&doing)?;
            }
        }
        Ok(())
    }

    /// Adds every key that an id may be found under.
    fn spell(&self, id: &PointId, keys: &mut Vec<SqlValue>) -> Result<(), VectorError> {
        let is_rowid = self.table.id_is_rowid;
        match id {
            PointId::Number(_) => {
                let integers = |key: &SqlValue| !is_rowid || matches!(key, SqlValue::Integer(_));
                keys.extend(keys::spellings(id).into_iter().filter(integers));
            }
            _ if is_rowid => {}
            PointId::Text(_) => keys.extend(keys::spellings(id)),
            PointId::Uuid(uuid) => {
                if self.putting_back.get() {
                    keys.extend(keys::spellings(id));
                } else {
                    keys.extend(keys::spellings_in(uuid, self.forms()?));
                }
                keys.extend(self.irregular()?.get(id).into_iter().flatten().cloned());
            }
        }
        Ok(())
    }

    /// Without an index on the id, one look at every key answers for all of `ids`.
    fn locate_by_scan(&self, ids: &BTreeSet<PointId>) -> Result<Vec<Located>, VectorError> {
        let search = || {
            let mut located = Vec::new();
            let Table { name, id, .. } = &self.table;
            let sql = format!("SELECT {id}, {} FROM {name}", self.table.key_list());
            let mut statement = self.connection.prepare_cached(&sql)?;
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
}
