//! Removing memories, conditionally. What marks them instead is in [`super::marks`].
//!
//! A removal is prepared as a [`Unit`]: exact copies of every row it takes. Applying it happens in one IMMEDIATE
//! transaction for a whole batch, in which every row is read again and compared with its copy. Whatever is not exactly
//! as it was, or has got or lost a dependent row, is left alone and named. Nothing in that transaction reads a whole
//! table, and each unit has a savepoint: one that a trigger or constraint refuses leaves the others alone. Where that
//! cannot hold (a trigger rolled the whole transaction back, or a damaged text index failed only when it was written
//! out), the units are done again, each in a transaction of its own.
//!
//! In the rollback journal modes a commit waits for every reader to finish: end snapshots before applying.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::params_from_iter;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::bound::Bound;
use super::dependents::Walk;
use super::loose::{Loose, Scan};
use super::refusal::{self, Refusals, refused};
use super::schema::Table;
use super::snapshot::Blocker;
use super::{Partition, RowError, open, schema};
use crate::config;
use crate::failpoint::{Failpoint, hit};
use crate::memory::{Memory, MemoryId, Role, Version};
use crate::store::image::{RowImage, SqlValue, Unit};
use crate::store::sqlite::Access;

/// Why a change is blocked that met no error.
const WITHOUT_EFFECT: &str = "it had no effect: a trigger ignores it, or takes it back";

/// A row database, opened for writing.
#[derive(Debug)]
pub struct Writer {
    pub(super) conn: Connection,
    rows: Arc<config::Rows>,
    tenant: Option<Arc<str>>,
    pub(super) bound: Arc<Bound>,
    pub(super) loose: RefCell<Loose>,
    refusals: RefCell<Refusals>,
}

/// A memory whose removal is to be prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The memory.
    pub id: MemoryId,
    /// The memories hidden behind it, deepest first, which go with it.
    pub behind: Vec<MemoryId>,
}

/// Says of each unit of a removal whether what it rests on still holds.
pub type StillSo<'a> = &'a dyn Fn() -> Result<Vec<bool>, RowError>;

/// What became of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// All of it was removed (or marked).
    Removed,
    /// Some row is not as it was, or has got or lost a dependent: nothing of the unit was touched.
    Changed,
    /// The memory does not exist any more.
    Absent,
    /// A row, a constraint or a trigger forbids it: nothing of the unit was touched.
    Blocked,
}

impl Writer {
    /// Opens a partition, and compiles every statement that will write to it.
    pub(super) fn open(
        partition: &Partition,
        rows: Arc<config::Rows>,
        access: Access,
    ) -> Result<Self, RowError> {
        let conn = open::writer(&partition.path, access)?;
        let tenant = partition.tenant.clone();
        let bound = Bound::new(&conn, &rows, tenant.as_ref())?;
        bound.probe_writes(&conn)?;
        Ok(Self {
            conn,
            rows,
            tenant,
            bound: Arc::new(bound),
            loose: RefCell::default(),
            refusals: RefCell::default(),
        })
    }

    /// Why the database refused changes since this was last asked, each reason once and only the first few.
    pub fn take_refusals(&mut self) -> Vec<String> {
        self.refusals.get_mut().take()
    }

    /// Remembers why a change is refused.
    pub(super) fn is_refused(&self, error: &rusqlite::Error) -> bool {
        let is_refused = refused(error);
        if is_refused {
            let reason = refusal::reason(&self.conn, error);
            self.refusals.borrow_mut().add(reason);
        }
        is_refused
    }

    /// Copies what the removal of each target would take. `None` for one that cannot be removed as it is wanted: the
    /// memory or one behind it is gone, something else hides behind it by now, or the schema forbids it.
    ///
    /// Ends with the first target that makes the copies larger than `budget`, in bytes: there may be fewer than targets,
    /// but there is always one.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn units(
        &mut self,
        targets: &[Wanted],
        budget: usize,
    ) -> Result<Vec<Option<Unit>>, RowError> {
        self.refresh()?;
        self.copies(targets, budget, Self::unit)
    }

    /// Copies memories alone, without anything that hangs on them: what ending them takes. Ends early like
    /// [`Self::units`].
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn roots(
        &mut self,
        ids: &[MemoryId],
        budget: usize,
    ) -> Result<Vec<Option<Unit>>, RowError> {
        self.rebind()?;
        self.copies(ids, budget, |writer, id| {
            let row = writer.bound.mapping.fetch(&writer.conn, id)?;
            Ok(row.map(|root| Unit {
                root,
                behind: Vec::new(),
                children: Vec::new(),
                detached: Vec::new(),
            }))
        })
    }

    /// Copies what each target takes, in one state of the file, until the copies are larger than `budget`.
    fn copies<T>(
        &self,
        targets: &[T],
        budget: usize,
        copy: impl Fn(&Self, &T) -> rusqlite::Result<Option<Unit>>,
    ) -> Result<Vec<Option<Unit>>, RowError> {
        let transaction = self.begin(TransactionBehavior::Deferred)?;
        let (mut units, mut bytes) = (Vec::new(), 0);
        for target in targets {
            let unit = copy(self, target).map_err(RowError::sqlite("copy memories"))?;
            bytes += unit.as_ref().map_or(0, Unit::bytes);
            units.push(unit);
            if bytes > budget {
                break;
            }
        }
        drop(transaction);
        Ok(units)
    }

    /// Reads memories by id, in the order of `ids`; those that do not exist are left out.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn memories(&self, roles: &[Role], ids: &[MemoryId]) -> Result<Vec<Memory>, RowError> {
        self.bound.mapping.memories(&self.conn, roles, ids)
    }

    /// The versions of the memories of `ids`, in the same order; `None` for those that do not exist.
    ///
    /// # Errors
    ///
    /// When a row cannot be read.
    pub fn versions(&self, ids: &[MemoryId]) -> Result<Vec<Option<Version>>, RowError> {
        self.bound.mapping.versions(&self.conn, ids)
    }

    /// Finds out whether the file can be written at all: takes the write lock, prepares a write that changes nothing,
    /// and rolls it back.
    ///
    /// # Errors
    ///
    /// When another connection holds the lock, or the file or its folder is read-only.
    pub fn can_write(&mut self) -> Result<(), RowError> {
        let transaction = self.begin(TransactionBehavior::Immediate)?;
        let try_write = || -> rusqlite::Result<()> {
            let version: i64 = self
                .conn
                .pragma_query_value(None, "user_version", |row| row.get(0))?;
            self.conn.pragma_update(None, "user_version", version)
        };
        try_write().map_err(RowError::sqlite("write to the database"))?;
        transaction
            .rollback()
            .map_err(RowError::sqlite("roll back a trial write"))
    }

    /// Removes units, in one transaction: each whole, or not at all. Where one of them makes the transaction fail, each
    /// is removed in a transaction of its own, and that one is blocked.
    ///
    /// The write lock is held for some 50 microseconds a unit: a few hundred units are a batch that no writer notices.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then nothing was removed, or only the first units of those that had to be
    /// removed one by one.
    pub fn delete_units(&mut self, units: &[Unit]) -> Result<Vec<Fate>, RowError> {
        self.delete_units_if(units, &|| Ok(vec![true; units.len()]))
    }

    /// The same, but for the units of which `still_so` says false. It is asked inside the transaction, when nobody else can
    /// write to the file any more: what stands in other tables may speak against a removal, and is not compared here.
    ///
    /// # Errors
    ///
    /// As [`Self::delete_units`]; also what `still_so` returns.
    pub fn delete_units_if(
        &mut self,
        units: &[Unit],
        still_so: StillSo<'_>,
    ) -> Result<Vec<Fate>, RowError> {
        let numbered: Vec<(usize, &Unit)> = units.iter().enumerate().collect();
        let delete =
            |writer: &Self, units: &[(usize, &Unit)]| writer.delete_together(units, still_so);
        self.together_or_alone(&numbered, Self::refresh, delete)
    }

    fn delete_together(
        &self,
        units: &[(usize, &Unit)],
        still_so: StillSo<'_>,
    ) -> Result<Vec<Fate>, RowError> {
        let transaction = self.begin(TransactionBehavior::Immediate)?;
        self.require_bound()?;
        self.index_references(Scan::NewRows)?;
        let still_so = still_so()?;
        let mut verdicts = Vec::with_capacity(units.len());
        for (number, unit) in units {
            verdicts.push(match self.compare(unit) {
                _ if !still_so.get(*number).is_some_and(|so| *so) => Err(Fate::Changed),
                Err(error) if self.is_refused(&error) => Err(Fate::Blocked),
                verdict => verdict.map_err(RowError::sqlite("compare memories"))?,
            });
        }
        let mut fates = Vec::with_capacity(units.len());
        for ((_, unit), verdict) in units.iter().zip(verdicts) {
            fates.push(match verdict {
                Ok(walk) => self.delete_unit(unit, &walk)?,
                Err(fate) => fate,
            });
        }
        self.loose
            .borrow_mut()
            .lower(&self.conn, &self.bound.dependents)
            .map_err(RowError::sqlite("delete memories"))?;
        hit(Failpoint::RowsUncommitted)?;
        transaction
            .commit()
            .map_err(RowError::sqlite("commit the removal of memories"))?;
        Ok(fates)
    }

    /// Applies units in one transaction. If it is rows that make it fail and not the file, applies each unit in a
    /// transaction of its own; one that fails even so is blocked.
    pub(super) fn together_or_alone<T>(
        &mut self,
        units: &[T],
        prepare: fn(&mut Self) -> Result<(), RowError>,
        apply: impl Fn(&Self, &[T]) -> Result<Vec<Fate>, RowError>,
    ) -> Result<Vec<Fate>, RowError> {
        let is_of_a_row = |error: &RowError| match error {
            RowError::Sqlite { source, .. } => refused(source),
            _ => false,
        };
        prepare(self)?;
        match apply(self, units) {
            Err(error) if is_of_a_row(&error) => {}
            result => return result,
        }
        let mut fates = Vec::with_capacity(units.len());
        for unit in units.chunks(1) {
            prepare(self)?;
            match apply(self, unit) {
                Err(error) if is_of_a_row(&error) => {
                    self.refusals.get_mut().add_if_none(&error);
                    fates.push(Fate::Blocked);
                }
                result => fates.extend(result?),
            }
        }
        Ok(fates)
    }

    fn unit(&self, target: &Wanted) -> rusqlite::Result<Option<Unit>> {
        let mapping = &self.bound.mapping;
        let Some(root) = mapping.fetch(&self.conn, &target.id)? else {
            return Ok(None);
        };
        let mut behind = Vec::with_capacity(target.behind.len());
        for id in &target.behind {
            match mapping.fetch(&self.conn, id)? {
                Some(row) => behind.push(row),
                None => return Ok(None),
            }
        }
        let walk = self.walk(&root, &behind)?;
        let is_free = self.bound.blocker(&self.conn, &root, &walk)?.is_none();
        Ok(is_free.then(|| Unit {
            root,
            behind,
            children: walk.children,
            detached: walk.detached.into_iter().map(|found| found.row).collect(),
        }))
    }

    fn walk(&self, root: &RowImage, behind: &[RowImage]) -> rusqlite::Result<Walk> {
        let removed = behind.iter().chain([root]);
        self.bound
            .dependents
            .walk(&self.conn, &self.loose.borrow(), removed)
    }

    /// Reads a unit again. Returns what hangs on it when all is as it was, else its fate.
    pub(super) fn compare(&self, unit: &Unit) -> rusqlite::Result<Result<Walk, Fate>> {
        match self.current(&unit.root)? {
            None => return Ok(Err(Fate::Absent)),
            Some(row) if row != unit.root => return Ok(Err(Fate::Changed)),
            Some(_) => {}
        }
        for row in &unit.behind {
            if self.current(row)?.as_ref() != Some(row) {
                return Ok(Err(Fate::Changed));
            }
        }
        let walk = self.walk(&unit.root, &unit.behind)?;
        match self.bound.blocker(&self.conn, &unit.root, &walk)? {
            Some(Blocker::TakesAlong) => return Ok(Err(Fate::Changed)),
            Some(Blocker::Referenced { .. } | Blocker::Foreign) => return Ok(Err(Fate::Blocked)),
            None => {}
        }
        let detached: Vec<&RowImage> = walk.detached.iter().map(|found| &found.row).collect();
        let same = same_rows(&walk.children.iter().collect::<Vec<_>>(), &unit.children)
            && same_rows(&detached, &unit.detached);
        Ok(if same { Ok(walk) } else { Err(Fate::Changed) })
    }

    /// The row as it is now, by its key.
    pub(super) fn current(&self, row: &RowImage) -> rusqlite::Result<Option<RowImage>> {
        self.bound.current(&self.conn, row)
    }

    fn delete_unit(&self, unit: &Unit, walk: &Walk) -> Result<Fate, RowError> {
        self.guarded(|writer| writer.delete_rows(unit, walk))
    }

    /// Deletes the rows of a unit, children first. False when one of them is still there.
    pub(super) fn delete_rows(&self, unit: &Unit, walk: &Walk) -> rusqlite::Result<bool> {
        for found in &walk.detached {
            let Some(table) = self.bound.dependents.table(&found.row.table) else {
                return Ok(false);
            };
            let set: BTreeMap<&str, &SqlValue> =
                found.set.iter().map(|(c, v)| (c.as_str(), v)).collect();
            let sql = table.update_sql(set.keys().copied());
            let values: Vec<SqlValue> = set.into_values().cloned().collect();
            if !self.execute(&sql, table, &found.row, &values)? {
                return Ok(false);
            }
        }
        let gone = walk.children.iter().chain(&unit.behind).chain([&unit.root]);
        for row in gone {
            let Some(table) = self.bound.dependents.table(&row.table) else {
                return Ok(false);
            };
            if let Some(key) = table.key_of(row) {
                for index in self.bound.text_indexes(table) {
                    index.remove(&self.conn, &key)?;
                }
            }
            if !self.execute(table.delete_sql(), table, row, &[])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs a statement on one row. True when it took effect, or the row is already gone (another unit of the batch or
    /// a trigger took it); false when the row is still there, untouched.
    pub(super) fn execute(
        &self,
        sql: &str,
        table: &Table,
        row: &RowImage,
        values: &[SqlValue],
    ) -> rusqlite::Result<bool> {
        let Some(key) = table.key_of(row) else {
            return Ok(false);
        };
        let bound = values.iter().cloned().chain(key.values());
        let changed = self
            .conn
            .prepare_cached(sql)?
            .execute(params_from_iter(bound))?;
        Ok(changed > 0 || table.fetch(&self.conn, &key)?.is_none())
    }

    /// Runs `change` so that it happens whole or not at all. What a constraint or trigger refuses, or `change` itself
    /// by returning false, is [`Fate::Blocked`]. An error when the whole transaction is lost.
    pub(super) fn guarded(
        &self,
        change: impl FnOnce(&Self) -> rusqlite::Result<bool>,
    ) -> Result<Fate, RowError> {
        let run = |sql: &str| self.conn.prepare_cached(sql)?.execute([]);
        let doing = || RowError::sqlite("change memories");
        run("SAVEPOINT hypnos_unit").map_err(doing())?;
        let fate = match change(self) {
            Ok(true) => Fate::Removed,
            Ok(false) => {
                self.refusals.borrow_mut().add(WITHOUT_EFFECT.to_owned());
                Fate::Blocked
            }
            Err(error) if self.is_refused(&error) && !self.conn.is_autocommit() => Fate::Blocked,
            Err(error) => return Err(doing()(error)),
        };
        if fate == Fate::Blocked {
            run("ROLLBACK TO hypnos_unit").map_err(doing())?;
        }
        run("RELEASE hypnos_unit").map_err(doing())?;
        Ok(fate)
    }

    pub(super) fn begin(&self, behavior: TransactionBehavior) -> Result<Transaction<'_>, RowError> {
        Transaction::new_unchecked(&self.conn, behavior)
            .map_err(RowError::sqlite("begin a transaction"))
    }

    /// Binds the mapping again if the schema has changed.
    pub(super) fn rebind(&mut self) -> Result<(), RowError> {
        if schema::cookie(&self.conn)? != self.bound.cookie {
            let bound = Bound::new(&self.conn, &self.rows, self.tenant.as_ref())?;
            bound.probe_writes(&self.conn)?;
            self.bound = Arc::new(bound);
            self.loose = RefCell::default();
        }
        Ok(())
    }

    /// Inside a transaction: the schema is still the one that the mapping is bound to.
    pub(super) fn require_bound(&self) -> Result<(), RowError> {
        if schema::cookie(&self.conn)? == self.bound.cookie {
            return Ok(());
        }
        Err(RowError::schema(
            "the schema changed while it was being worked with",
        ))
    }

    pub(super) fn index_references(&self, scan: Scan) -> Result<(), RowError> {
        self.loose
            .borrow_mut()
            .refresh(&self.conn, &self.bound.dependents, scan)
            .map_err(RowError::sqlite("index references"))
    }

    /// Brings mapping and loose index up to date, outside of any writing transaction.
    pub(super) fn refresh(&mut self) -> Result<(), RowError> {
        self.rebind()?;
        let transaction = self.begin(TransactionBehavior::Deferred)?;
        self.index_references(Scan::Tables)?;
        drop(transaction);
        Ok(())
    }
}

/// Whether the same rows were found, in whatever order.
fn same_rows(found: &[&RowImage], copied: &[RowImage]) -> bool {
    if found.len() != copied.len() {
        return false;
    }
    if found.iter().zip(copied).all(|(a, b)| *a == b) {
        return true;
    }
    let copied: Vec<&RowImage> = copied.iter().collect();
    in_order(found) == in_order(&copied)
}

/// Rows in an order that depends on nothing but the rows.
fn in_order<'a>(rows: &[&'a RowImage]) -> Vec<&'a RowImage> {
    let mut rows = rows.to_vec();
    rows.sort_by_cached_key(|row| (row.table.clone(), row.rowid, row.version()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::image::SqlValue;

    fn row(n: i64) -> RowImage {
        RowImage {
            table: "tags".into(),
            rowid: None,
            columns: vec![("n".into(), SqlValue::Integer(n))],
        }
    }

    #[test]
    fn the_order_of_rows_is_nothing_and_their_number_is() {
        let rows = [row(1), row(2), row(1)];
        let found = |order: [usize; 3]| order.map(|i| &rows[i]);
        assert!(same_rows(&found([0, 1, 2]), &rows));
        assert!(same_rows(&found([1, 0, 2]), &rows));
        assert!(!same_rows(&found([0, 0, 1])[..2], &rows));
        assert!(!same_rows(&found([1, 1, 0]), &rows));
        assert!(!same_rows(&found([0, 2, 0]), &rows));
    }
}
