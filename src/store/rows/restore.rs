//! Putting back what was removed, and taking marks back.
//!
//! Rows are inserted as they were, rowid included, parents before children, and never over a row that exists by now:
//! that one is left, and named. A row that would come back without its parent is left, too. A mark is taken back from a
//! row that still bears it and that nobody has edited since. In the same transaction the memory that took over hands
//! back what it got (see `carry`), and only then: what is back already is left as it is, so nothing is handed back twice.

use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior, params_from_iter};

use super::RowError;
use super::bound::Bound;
use super::refusal::refused;
use super::snapshot::Snapshot;
use super::writer::Writer;
use crate::memory::{MemoryId, Role};
use crate::plan::{Mark, Survivor};
use crate::store::image::{RowImage, SqlValue, Unit};

/// One memory that is to be as it was before it was removed, marked, or folded into another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Return {
    /// What was taken.
    pub unit: Unit,
    /// How it was marked; `None` when its row was deleted.
    pub mark: Option<Mark>,
    /// The memory that took over.
    pub takeover: Option<Takeover>,
}

/// The memory that took over from another one, which returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Takeover {
    /// Which, and what it was apart from when and how often it was used.
    pub survivor: Survivor,
    /// Its row as it was before.
    pub stays: RowImage,
    /// The rows of the memories that stay folded into it.
    pub others: Vec<RowImage>,
}

impl From<Unit> for Return {
    /// A memory whose row was deleted, and that nobody took over from.
    fn from(unit: Unit) -> Self {
        Self {
            unit,
            mark: None,
            takeover: None,
        }
    }
}

/// What became of one unit that was put back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Whether the memory itself is as it was.
    pub is_back: bool,
    /// Rows that are again as they were, those that still were included.
    pub rows: u64,
    /// Those of them that had to be written.
    pub written: u64,
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
    /// It was changed since it was marked, or since it took over from another memory.
    Changed,
    /// It was only marked, and is not there any more.
    Gone,
    /// A row that it refers to does not exist, or was left itself.
    ParentGone,
    /// A constraint or trigger refuses it.
    Refused,
    /// Its table is not what it was.
    SchemaChanged,
}

/// What putting a memory back would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreseen {
    /// Something would be written.
    Back,
    /// Its rows are all as they were.
    There,
    /// It would be left.
    Left(LeftReason),
}

/// What became of one row: whether it had to be written, or why it was left.
type Put = Result<bool, LeftReason>;

/// What of a memory that is to return is there now.
enum Standing {
    /// It is as it was.
    Back,
    /// Its row was deleted, and there is none.
    Absent,
    /// Its row bears the mark, and is otherwise as it was.
    Marked,
    /// It has to be left.
    Left(LeftReason),
}

impl Bound {
    /// The row as it is now, by its key.
    pub(super) fn current(
        &self,
        conn: &Connection,
        row: &RowImage,
    ) -> rusqlite::Result<Option<RowImage>> {
        let table = self.dependents.table(&row.table);
        match table.and_then(|table| Some((table, table.key_of(row)?))) {
            Some((table, key)) => table.fetch(conn, &key),
            None => Ok(None),
        }
    }

    fn standing(&self, conn: &Connection, item: &Return) -> rusqlite::Result<Standing> {
        let root = &item.unit.root;
        let fits = self.dependents.table(&root.table);
        if !fits.is_some_and(|table| table.fits(root)) {
            return Ok(Standing::Left(LeftReason::SchemaChanged));
        }
        let current = self.current(conn, root)?;
        Ok(match (current, &item.mark) {
            (Some(row), _) if row == *root => Standing::Back,
            (None, None) => Standing::Absent,
            (Some(_), None) => Standing::Left(LeftReason::Exists),
            (None, Some(_)) => Standing::Left(LeftReason::Gone),
            (Some(row), Some(mark)) if self.is_only_marked(&row, root, mark) => Standing::Marked,
            (Some(_), Some(_)) => Standing::Left(LeftReason::Changed),
        })
    }

    /// Whether all rows of a unit but its root are there as they were.
    fn has_the_rest(&self, conn: &Connection, unit: &Unit) -> rusqlite::Result<bool> {
        let rest = unit
            .behind
            .iter()
            .chain(&unit.children)
            .chain(&unit.detached);
        for row in rest {
            if self.current(conn, row)?.as_ref() != Some(row) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a row bears a mark and is otherwise as it was, apart from when it was last touched: a trigger may write
    /// that down at every change.
    fn is_only_marked(&self, row: &RowImage, root: &RowImage, mark: &Mark) -> bool {
        let mapping = &self.mapping;
        let Ok((_, marked)) = mapping.column(mark) else {
            return false;
        };
        let touched = [
            Role::UpdatedAt,
            Role::LastUsedAt,
            Role::Uses,
            Role::Salience,
        ];
        let touched = touched.map(|role| mapping.role(role)?.column.as_deref());
        let may_differ = |name: &str| name == marked || touched.contains(&Some(name));
        mapping.bears(row, mark)
            && row.columns.len() == root.columns.len()
            && row
                .columns
                .iter()
                .zip(&root.columns)
                .all(|(is, was)| is == was || (is.0 == was.0 && may_differ(&is.0)))
    }
}

impl Snapshot {
    /// What putting each memory back would come to, as far as a look at its rows tells: a constraint or a trigger shows
    /// only when it is tried.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn foresee(&self, returns: &[Return]) -> Result<Vec<Foreseen>, RowError> {
        let look = |item: &Return| {
            let bound = self.bound.borrow();
            Ok(match bound.standing(&self.conn, item)? {
                Standing::Left(reason) => Foreseen::Left(reason),
                Standing::Back if bound.has_the_rest(&self.conn, &item.unit)? => Foreseen::There,
                Standing::Back | Standing::Absent | Standing::Marked => Foreseen::Back,
            })
        };
        let looks: rusqlite::Result<_> = returns.iter().map(look).collect();
        looks.map_err(RowError::sqlite("compare memories"))
    }
}

impl Writer {
    /// Puts memories back, in one transaction. When one is left, so is everything that went with it.
    ///
    /// # Errors
    ///
    /// When the transaction could not be committed; then nothing was put back.
    pub fn put_back(&mut self, returns: &[Return]) -> Result<Vec<Restored>, RowError> {
        self.rebind()?;
        let transaction = self.begin(TransactionBehavior::Immediate)?;
        self.require_bound()?;
        let put_back = self.put_back_all(returns);
        let restored = put_back.map_err(RowError::sqlite("put back memories"))?;
        transaction
            .commit()
            .map_err(RowError::sqlite("commit the return of memories"))?;
        Ok(restored)
    }

    /// All memories first, then what hangs on them: a row may hang on two.
    fn put_back_all(&self, returns: &[Return]) -> rusqlite::Result<Vec<Restored>> {
        let mut all = vec![Restored::default(); returns.len()];
        for (item, restored) in returns.iter().zip(&mut all) {
            self.put_back_memory(item, restored)?;
        }
        let units = || returns.iter().map(|item| &item.unit);
        for (unit, restored) in units().zip(&mut all).filter(|(_, it)| it.is_back) {
            for row in unit.children.iter().rev() {
                let put = if self.bound.dependents.has_its_parents(&self.conn, row)? {
                    self.insert(row)?
                } else {
                    Err(LeftReason::ParentGone)
                };
                self.note(restored, row, put);
            }
        }
        for (unit, restored) in units().zip(&mut all).filter(|(_, it)| it.is_back) {
            for row in &unit.detached {
                let put = self.attach(row)?;
                self.note(restored, row, put);
            }
        }
        Ok(all)
    }

    /// Puts back a memory with those hidden behind it, or takes its mark back.
    fn put_back_memory(&self, item: &Return, restored: &mut Restored) -> rusqlite::Result<()> {
        let Return {
            unit,
            mark,
            takeover,
        } = item;
        let standing = self.bound.standing(&self.conn, item)?;
        let put = match (&standing, mark) {
            (Standing::Left(reason), _) => Err(*reason),
            (Standing::Marked, Some(mark)) => self.unmark(&unit.root, mark)?,
            _ => self.insert(&unit.root)?,
        };
        restored.is_back = put.is_ok();
        self.note(restored, &unit.root, put);
        if !restored.is_back {
            return Ok(());
        }
        if let Some(takeover) = takeover
            .as_ref()
            .filter(|_| !matches!(standing, Standing::Back))
        {
            let kept = self.hand_back(takeover, &unit.root)?;
            restored.left.extend(kept);
        }
        for row in unit.behind.iter().rev() {
            let put = self.insert(row)?;
            self.note(restored, row, put);
        }
        Ok(())
    }

    /// Sets the column of a mark to what it was.
    fn unmark(&self, root: &RowImage, mark: &Mark) -> rusqlite::Result<Put> {
        let table = &self.bound.mapping.table;
        let column = self.bound.mapping.column(mark).ok();
        let Some((column, was, key)) = column.and_then(|(_, column)| {
            Some((column, root.get(column)?, table.key_of(root)?.values()))
        }) else {
            return Ok(Err(LeftReason::SchemaChanged));
        };
        let values = std::iter::once(was.clone()).chain(key);
        self.attempt(
            &table.update_sql([column]),
            params_from_iter(values),
            || {
                let row = self.current(root)?;
                Ok(row.is_some_and(|row| row.get(column) == Some(was)))
            },
        )
    }

    /// Takes from the memory that took over what it got. Gives the row when it has to be left as it is.
    fn hand_back(&self, takeover: &Takeover, gone: &RowImage) -> rusqlite::Result<Option<LeftRow>> {
        let mapping = &self.bound.mapping;
        let Takeover {
            survivor,
            stays,
            others,
        } = takeover;
        if mapping.carried(stays, gone).is_empty() {
            return Ok(None);
        }
        let left = |reason| {
            Some(LeftRow {
                table: mapping.table.name.clone(),
                memory: Some(survivor.id.clone()),
                reason,
            })
        };
        let mut namespaces = mapping.namespaces();
        let Some(found) = mapping.find(&self.conn, &survivor.id, &mut namespaces)? else {
            return Ok(left(LeftReason::Gone));
        };
        if mapping.essence(&found) != survivor.essence {
            return Ok(left(LeftReason::Changed));
        }
        let now = found.row;
        let back = mapping.handed_back(&now, stays, gone, others);
        let (columns, values): (Vec<_>, Vec<_>) = back.set.iter().cloned().unzip();
        let refused = if columns.is_empty() {
            None
        } else {
            let sql = mapping.table.update_sql(columns.iter().map(String::as_str));
            let key = mapping
                .table
                .key_of(&now)
                .map_or(Vec::new(), |key| key.values());
            self.attempt(
                &sql,
                params_from_iter(values.into_iter().chain(key)),
                || {
                    let row = mapping.fetch(&self.conn, &survivor.id)?;
                    Ok(row.is_some_and(|row| {
                        back.set.iter().all(|(name, v)| row.get(name) == Some(v))
                    }))
                },
            )?
            .err()
        };
        let kept = back.is_kept.then_some(LeftReason::Changed);
        Ok(refused.or(kept).and_then(left))
    }

    fn note(&self, restored: &mut Restored, row: &RowImage, put: Put) {
        let reason = match put {
            Ok(is_written) => {
                restored.rows += 1;
                restored.written += u64::from(is_written);
                return;
            }
            Err(reason) => reason,
        };
        let mapping = &self.bound.mapping;
        let memory = (row.table == mapping.table.name)
            .then(|| mapping.id.of(row))
            .flatten();
        restored.left.push(LeftRow {
            table: row.table.clone(),
            memory,
            reason,
        });
    }

    /// Inserts a row that is not there: it is there then exactly as it was.
    fn insert(&self, row: &RowImage) -> rusqlite::Result<Put> {
        let bound = Arc::clone(&self.bound);
        let table = bound
            .dependents
            .table(&row.table)
            .filter(|table| table.fits(row));
        let Some(table) = table else {
            return Ok(Err(LeftReason::SchemaChanged));
        };
        match self.current(row)? {
            Some(current) if current == *row => return Ok(Ok(false)),
            Some(_) => return Ok(Err(LeftReason::Exists)),
            None => {}
        }
        let rowid = row.rowid.map(SqlValue::Integer);
        let values = rowid.iter().chain(row.columns.iter().map(|(_, v)| v));
        self.attempt(table.insert_sql(), params_from_iter(values), || {
            if let Some(key) = table.key_of(row) {
                for index in bound.text_indexes(table) {
                    index.add(&self.conn, &key)?;
                }
            }
            Ok(self.current(row)?.as_ref() == Some(row))
        })
    }

    /// Gives a row that stayed its reference back, if nothing else about it has changed.
    fn attach(&self, row: &RowImage) -> rusqlite::Result<Put> {
        let bound = Arc::clone(&self.bound);
        let Some(table) = bound.dependents.table(&row.table) else {
            return Ok(Err(LeftReason::SchemaChanged));
        };
        let current = match self.current(row)? {
            None => return Ok(Err(LeftReason::ParentGone)),
            Some(current) if current == *row => return Ok(Ok(false)),
            Some(current) if current.columns.len() == row.columns.len() => current,
            Some(_) => return Ok(Err(LeftReason::SchemaChanged)),
        };
        let emptied = bound.dependents.emptied_columns(&row.table);
        let mut columns = Vec::new();
        for ((name, was), (_, is)) in row.columns.iter().zip(&current.columns) {
            if was == is {
                continue;
            }
            if !emptied.contains(&(name.as_str(), is)) {
                return Ok(Err(LeftReason::Exists));
            }
            columns.push((name.as_str(), was));
        }
        if !bound.dependents.has_its_parents(&self.conn, row)? {
            return Ok(Err(LeftReason::ParentGone));
        }
        let key = table.key_of(row).map_or(Vec::new(), |key| key.values());
        let sql = table.update_sql(columns.iter().map(|(name, _)| *name));
        let values = columns.into_iter().map(|(_, was)| was).chain(&key);
        self.attempt(&sql, params_from_iter(values), || {
            Ok(self.current(row)?.as_ref() == Some(row))
        })
    }

    /// Runs a statement after which `is_so` must hold; undoes it otherwise.
    fn attempt(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        is_so: impl FnOnce() -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<Put> {
        let run = |sql: &str| self.conn.prepare_cached(sql)?.execute([]);
        run("SAVEPOINT hypnos_row")?;
        let result = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(values));
        let is_back = match result {
            Ok(_) => is_so()?,
            Err(error) if refused(&error) && !self.conn.is_autocommit() => false,
            Err(error) => return Err(error),
        };
        if !is_back {
            run("ROLLBACK TO hypnos_row")?;
        }
        run("RELEASE hypnos_row")?;
        Ok(if is_back {
            Ok(true)
        } else {
            Err(LeftReason::Refused)
        })
    }
}
