//! Finding the rows of point ids.
//!
//! Mechanics: with an index on the id, each id is looked up under the spellings that the table has keys of, and
//! under the irregular ones that one look at every key has found. Without an index, one look at
//! every key answers for all ids.

use std::collections::{BTreeSet, HashMap};

use crate::memory::PointId;
use crate::store::composite;
use crate::store::image::SqlValue;
use crate::store::vectors::VectorError;

use super::schema::Table;
use super::{SqliteVectors, failed, keys, values};

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
        let ambiguous: BTreeSet<PointId> = rows
            .windows(2)
            .filter(|pair| pair[0].id == pair[1].id)
            .map(|pair| pair[0].id.clone())
            .collect();
        rows.retain(|row| !ambiguous.contains(&row.id));
        Ok(Found { rows, ambiguous })
    }

    fn locate_by_index(&self, ids: &BTreeSet<PointId>) -> Result<Vec<Located>, VectorError> {
        let _snapshot = self.read_transaction()?;
        let mut located = Vec::with_capacity(ids.len());
        for id in ids {
            self.check_stop()?;
            self.locate_one(id, &mut located)?;
        }
        Ok(located)
    }

    fn locate_one(&self, id: &PointId, located: &mut Vec<Located>) -> Result<(), VectorError> {
        let mut spellings = keys::spellings(id);
        if !self.table.id_parts.is_empty() {
            spellings.truncate(1);
            return self.locate_spellings(id, &spellings, located);
        }
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
        if matches!(id, PointId::Uuid(_))
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
        let condition = if self.table.id_parts.is_empty() {
            let marks = vec!["?"; spellings.len()].join(", ");
            format!("{} IN ({marks})", self.table.id)
        } else {
            composite::is_array(&self.table.id_parts, 1)
        };
        let sql = self.locate_sql(&format!("WHERE {condition}"));
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
    fn locate_by_scan(&self, ids: &BTreeSet<PointId>) -> Result<Vec<Located>, VectorError> {
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
}
