//! Putting back what was removed.
//!
//! Rows are inserted as they were, rowid included, parents before children, and never over a row that exists by now:
//! that one is left, and named. A row that would come back without its parent is left, too.

use std::sync::Arc;

use rusqlite::{TransactionBehavior, params_from_iter};

use super::writer::{Writer, refused};
use super::{RowError, value};
use crate::memory::MemoryId;
use crate::store::image::{RowImage, SqlValue, Unit};

/// What became of one unit that was put back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Rows that are again as they were, those that still were included.
    pub rows: u64,
    /// Rows that were left as they are, or left out.
    pub left: Vec<LeftRow>,
}

/// A row that was not put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftRow {
    /// Its table.
    pub table: String,
    /// The memory that it was; `None` for a row of another table.
    pub memory: Option<MemoryId>,
    /// Why.
    pub reason: LeftReason,
}

/// Why a row was not put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftReason {
    /// A row with its key exists by now, and is another one.
    Exists,
    /// A row that it refers to does not exist, or was left itself.
    ParentGone,
    /// A constraint or trigger refuses it.
    Refused,
    /// Its table is not what it was.
    SchemaChanged,
}

impl Writer {
    /// Puts units back, in one transaction. When the memory of a unit is left, so is everything that went with it.
    ///
    /// # Errors
    ///
    /// When the transaction could not be committed; then nothing was put back.
    pub fn put_back(&mut self, units: &[Unit]) -> Result<Vec<Restored>, RowError> {
        self.rebind()?;
        let transaction = self.begin(TransactionBehavior::Immediate)?;
        self.require_bound()?;
        let put_back = self.put_back_all(units);
        let restored = put_back.map_err(RowError::sqlite("put back memories"))?;
        transaction
            .commit()
            .map_err(RowError::sqlite("commit the return of memories"))?;
        Ok(restored)
    }

    /// All memories first, then what hangs on them: a row may hang on two.
    fn put_back_all(&self, units: &[Unit]) -> rusqlite::Result<Vec<Restored>> {
        let mut all = vec![Restored::default(); units.len()];
        let mut roots = Vec::with_capacity(units.len());
        for (unit, restored) in units.iter().zip(&mut all) {
            let root = self.insert(&unit.root)?;
            roots.push(root.is_none());
            self.note(restored, &unit.root, root);
            if root.is_some() {
                continue;
            }
            for row in unit.behind.iter().rev() {
                let reason = self.insert(row)?;
                self.note(restored, row, reason);
            }
        }
        for ((unit, restored), is_back) in units.iter().zip(&mut all).zip(&roots) {
            let children = if *is_back { &unit.children[..] } else { &[] };
            for row in children.iter().rev() {
                let reason = if self.bound.dependents.has_its_parents(&self.conn, row)? {
                    self.insert(row)?
                } else {
                    Some(LeftReason::ParentGone)
                };
                self.note(restored, row, reason);
            }
        }
        for ((unit, restored), is_back) in units.iter().zip(&mut all).zip(&roots) {
            let detached = if *is_back { &unit.detached[..] } else { &[] };
            for row in detached {
                let reason = self.attach(row)?;
                self.note(restored, row, reason);
            }
        }
        Ok(all)
    }

    fn note(&self, restored: &mut Restored, row: &RowImage, reason: Option<LeftReason>) {
        let Some(reason) = reason else {
            restored.rows += 1;
            return;
        };
        let mapping = &self.bound.mapping;
        let id = (row.table == mapping.table.name)
            .then(|| row.get(&mapping.id))
            .flatten();
        restored.left.push(LeftRow {
            table: row.table.clone(),
            memory: id.and_then(|id| value::id_of(value::as_ref(id))),
            reason,
        });
    }

    /// Inserts a row that is not there. `None` when it is there now, exactly as it was.
    fn insert(&self, row: &RowImage) -> rusqlite::Result<Option<LeftReason>> {
        let bound = Arc::clone(&self.bound);
        let table = bound
            .dependents
            .table(&row.table)
            .filter(|table| table.fits(row));
        let Some(table) = table else {
            return Ok(Some(LeftReason::SchemaChanged));
        };
        match self.current(row)? {
            Some(current) if current == *row => return Ok(None),
            Some(_) => return Ok(Some(LeftReason::Exists)),
            None => {}
        }
        let rowid = row.rowid.map(SqlValue::Integer);
        let values = rowid.iter().chain(row.columns.iter().map(|(_, v)| v));
        self.attempt(table.insert_sql(), params_from_iter(values), row)
    }

    /// Gives a row that stayed its reference back, if nothing else about it has changed.
    fn attach(&self, row: &RowImage) -> rusqlite::Result<Option<LeftReason>> {
        let bound = Arc::clone(&self.bound);
        let Some(table) = bound.dependents.table(&row.table) else {
            return Ok(Some(LeftReason::SchemaChanged));
        };
        let current = match self.current(row)? {
            None => return Ok(Some(LeftReason::ParentGone)),
            Some(current) if current == *row => return Ok(None),
            Some(current) if current.columns.len() == row.columns.len() => current,
            Some(_) => return Ok(Some(LeftReason::SchemaChanged)),
        };
        let emptied = bound.dependents.emptied_columns(&row.table);
        let mut columns = Vec::new();
        for ((name, was), (_, is)) in row.columns.iter().zip(&current.columns) {
            if was == is {
                continue;
            }
            if !emptied.contains(&(name.as_str(), is)) {
                return Ok(Some(LeftReason::Exists));
            }
            columns.push((name.as_str(), was));
        }
        if !bound.dependents.has_its_parents(&self.conn, row)? {
            return Ok(Some(LeftReason::ParentGone));
        }
        let key = table.key_of(row).map_or(Vec::new(), |key| key.values());
        let sql = table.update_sql(columns.iter().map(|(name, _)| *name));
        let values = columns.into_iter().map(|(_, was)| was).chain(&key);
        self.attempt(&sql, params_from_iter(values), row)
    }

    /// Runs a statement after which `row` must be there as it was; undoes it otherwise.
    fn attempt(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        row: &RowImage,
    ) -> rusqlite::Result<Option<LeftReason>> {
        let run = |sql: &str| self.conn.prepare_cached(sql)?.execute([]);
        run("SAVEPOINT hypnos_row")?;
        let result = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(values));
        let is_back = match result {
            Ok(_) => self.current(row)?.as_ref() == Some(row),
            Err(error) if refused(&error) && !self.conn.is_autocommit() => false,
            Err(error) => return Err(error),
        };
        if !is_back {
            run("ROLLBACK TO hypnos_row")?;
        }
        run("RELEASE hypnos_row")?;
        Ok((!is_back).then_some(LeftReason::Refused))
    }
}
