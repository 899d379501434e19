//! Marking memories instead of removing them, and folding one into another, conditionally.
//!
//! A mark is one column of the row: `valid_to`, `deleted_at`, `superseded_by` or `confirmed_at`. Folding a memory into
//! a survivor marks it, or deletes it where the schema has no mark, and in the same savepoint carries over to the
//! survivor how often and when the memory was used and since when it has been known (see `carry`). What is done is done
//! once: a row that bears the mark already is not marked again, and nothing is carried over twice. Taking it back is in
//! [`super::restore`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rusqlite::{OptionalExtension, TransactionBehavior};

use super::loose::Scan;
use super::mapping::Mapping;
use super::schema::quoted;
use super::source::BoundRole;
use super::writer::{Fate, Writer};
use super::{RowError, time, value};
use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, Moment, Role};
use crate::plan::{Mark, Survivor};
use crate::store::image::{RowImage, SqlValue, Unit};

/// One memory that is to be hidden or folded into another.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What it takes: only the row itself, when it is marked.
    pub unit: Unit,
    /// How it is marked; `None` to delete it.
    pub mark: Option<Mark>,
    /// The memory that takes over.
    pub survivor: Option<Survivor>,
}

/// How one memory is marked.
struct Marking<'a> {
    mark: &'a Mark,
    role: &'a BoundRole,
    column: &'a str,
    /// Another value of the column.
    like: Option<&'a SqlValue>,
}

/// The marks that a schema has a column for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of marks, one a field")]
pub struct Marks {
    /// `valid_to` can be set.
    pub ended: bool,
    /// `deleted_at` can be set.
    pub deleted: bool,
    /// `superseded_by` can be set.
    pub superseded: bool,
    /// `confirmed_at` can be set.
    pub confirmed: bool,
}

impl Mapping {
    /// The marks that can be set: each a column of its own.
    pub(super) fn marks(&self) -> Marks {
        let can = |role| self.role(role).is_some_and(|role| role.column.is_some());
        Marks {
            ended: can(Role::ValidTo),
            deleted: can(Role::DeletedAt),
            superseded: can(Role::SupersededBy),
            confirmed: can(Role::ConfirmedAt),
        }
    }

    /// The columns of a memory's row that a change may set.
    pub(super) fn settable(&self) -> impl Iterator<Item = &str> {
        let roles = [
            Role::ValidTo,
            Role::DeletedAt,
            Role::SupersededBy,
            Role::ConfirmedAt,
            Role::Uses,
            Role::LastUsedAt,
            Role::CreatedAt,
        ];
        roles
            .into_iter()
            .filter_map(|role| self.role(role)?.column.as_deref())
    }

    /// Whether a row bears a mark.
    pub(super) fn bears(&self, row: &RowImage, mark: &Mark) -> bool {
        let Some((role, value)) = self
            .role(role_of(mark))
            .and_then(|role| Some((role, row.get(role.column.as_deref()?)?)))
        else {
            return false;
        };
        match mark {
            // A coarse column holds the day, or the second, in which it is.
            Mark::Ended { at } | Mark::Deleted { at } => {
                moment(role, value).earliest().is_some_and(|set| set <= *at)
            }
            // An earlier confirmation is another one.
            Mark::Confirmed { at } => match moment(role, value) {
                Moment::At { earliest, latest } => earliest <= *at && *at <= latest,
                Moment::Absent | Moment::Unreadable => false,
            },
            Mark::Superseded { by } => {
                value::reference_of(value::as_ref(value), self.id.affinity).as_ref() == Some(by)
            }
        }
    }

    /// The column that a mark sets.
    pub(super) fn column(&self, mark: &Mark) -> Result<(&BoundRole, &str), RowError> {
        let role = self.role(role_of(mark));
        role.and_then(|role| Some((role, role.column.as_deref()?)))
            .ok_or_else(|| {
                RowError::schema(format!(
                    "table {:?} has no {} that can be set",
                    self.table.name,
                    name_of(mark)
                ))
            })
    }
}

pub(super) fn moment(role: &BoundRole, value: &SqlValue) -> Moment {
    time::decode(value::as_ref(value), &role.time)
}

impl Writer {
    /// Marks memories, or folds them into others, in one transaction: each whole, or not at all. Where one of them makes
    /// the transaction fail, each is done in a transaction of its own, and that one is blocked.
    ///
    /// # Errors
    ///
    /// When the schema lacks the column of a mark, or the file cannot be written; then nothing was changed, or only the
    /// first of those that had to be done one by one.
    pub fn change_units(&mut self, changes: &[Change]) -> Result<Vec<Fate>, RowError> {
        let deletes = changes.iter().any(|change| change.mark.is_none());
        let prepare = if deletes { Self::refresh } else { Self::rebind };
        self.together_or_alone(changes, prepare, Self::change_together)
    }

    /// Whether the row of a memory bears a mark by now.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn is_marked(&self, id: &MemoryId, mark: &Mark) -> Result<bool, RowError> {
        let row = self.bound.mapping.fetch(&self.conn, id);
        let row = row.map_err(RowError::sqlite("read a memory"))?;
        Ok(row.is_some_and(|row| self.bound.mapping.bears(&row, mark)))
    }

    fn change_together(&self, changes: &[Change]) -> Result<Vec<Fate>, RowError> {
        let columns = changes
            .iter()
            .map(|change| {
                change
                    .mark
                    .as_ref()
                    .map(|mark| self.bound.mapping.column(mark))
                    .transpose()
            })
            .collect::<Result<Vec<_>, _>>()?;
        let likes = self.likes(columns.iter().flatten())?;
        let transaction = self.begin(TransactionBehavior::Immediate)?;
        self.require_bound()?;
        if columns.iter().any(Option::is_none) {
            self.index_references(Scan::NewRows)?;
        }
        let mut fates = Vec::with_capacity(changes.len());
        for (change, column) in changes.iter().zip(&columns) {
            fates.push(match (column, &change.mark) {
                (Some((role, column)), Some(mark)) => {
                    let like = likes.get(column).and_then(Option::as_ref);
                    self.mark(
                        change,
                        &Marking {
                            mark,
                            role,
                            column,
                            like,
                        },
                    )?
                }
                _ => self.fold(change)?,
            });
        }
        self.loose
            .borrow_mut()
            .lower(&self.conn, &self.bound.dependents)
            .map_err(RowError::sqlite("delete memories"))?;
        hit(Failpoint::MarksUncommitted)?;
        transaction
            .commit()
            .map_err(RowError::sqlite("commit the marking of memories"))?;
        Ok(fates)
    }

    /// Marks one memory.
    fn mark(&self, change: &Change, marking: &Marking<'_>) -> Result<Fate, RowError> {
        let table = &self.bound.mapping.table;
        let root = &change.unit.root;
        match self.current(root) {
            Err(error) if self.is_refused(&error) => return Ok(Fate::Blocked),
            Err(error) => return Err(RowError::sqlite("compare memories")(error)),
            Ok(None) => return Ok(Fate::Absent),
            Ok(Some(row)) if row != *root => {
                let is_done = self.bound.mapping.bears(&row, marking.mark);
                return Ok(if is_done {
                    Fate::Removed
                } else {
                    Fate::Changed
                });
            }
            Ok(Some(_)) => {}
        }
        let Ok(survivor) = self.survivor(change)? else {
            return Ok(Fate::Changed);
        };
        self.guarded(|writer| {
            let value = writer.written(marking, root)?;
            // A trigger may have set it back: then the memory is not hidden, and keeps its point.
            Ok(writer.carry(survivor.as_ref(), root)?
                && writer.execute(&table.update_sql([marking.column]), table, root, &[value])?
                && (matches!(marking.mark, Mark::Confirmed { .. })
                    || writer
                        .current(root)?
                        .is_none_or(|row| writer.bound.mapping.bears(&row, marking.mark))))
        })
    }

    /// Deletes one memory that another one takes over from.
    fn fold(&self, change: &Change) -> Result<Fate, RowError> {
        let walk = match self.compare(&change.unit) {
            Err(error) if self.is_refused(&error) => return Ok(Fate::Blocked),
            verdict => match verdict.map_err(RowError::sqlite("compare memories"))? {
                Ok(walk) => walk,
                Err(fate) => return Ok(fate),
            },
        };
        let Ok(survivor) = self.survivor(change)? else {
            return Ok(Fate::Changed);
        };
        self.guarded(|writer| {
            Ok(writer.carry(survivor.as_ref(), &change.unit.root)?
                && writer.delete_rows(&change.unit, &walk)?)
        })
    }

    /// The row of the survivor as it is now: `Ok(None)` when none is wanted, `Err(())` when it is no longer what was
    /// planned with.
    fn survivor(&self, change: &Change) -> Result<Result<Option<RowImage>, ()>, RowError> {
        let mapping = &self.bound.mapping;
        let Some(survivor) = &change.survivor else {
            let Some(Mark::Superseded { by }) = &change.mark else {
                return Ok(Ok(None));
            };
            let stands = self.stands(by, &change.unit.root);
            let stands = stands.map_err(RowError::sqlite("read the memory that stays"))?;
            return Ok(if stands { Ok(None) } else { Err(()) });
        };
        let found = mapping
            .find(&self.conn, &survivor.id, &mut mapping.namespaces())
            .map_err(RowError::sqlite("read the memory that stays"))?;
        let found = found.filter(|found| mapping.essence(found) == survivor.essence);
        Ok(found.map(|found| Some(found.row)).ok_or(()))
    }

    /// Whether a memory is there, is not hidden behind another one, and is of the same owner as one that is to be hidden
    /// behind it.
    fn stands(&self, by: &MemoryId, hidden: &RowImage) -> rusqlite::Result<bool> {
        let mapping = &self.bound.mapping;
        let mut namespaces = mapping.namespaces();
        let Some(stays) = mapping.find(&self.conn, by, &mut namespaces)? else {
            return Ok(false);
        };
        let Some(id) = mapping.id.of(hidden) else {
            return Ok(false);
        };
        let theirs = mapping.find(&self.conn, &id, &mut namespaces)?;
        let is_blank = |role| {
            let value = mapping
                .role(role)
                .and_then(|role| stays.row.get(role.column.as_deref()?));
            value.is_none_or(|value| match role {
                Role::SupersededBy => {
                    value::reference_of(value::as_ref(value), mapping.id.affinity).is_none()
                }
                _ => value::is_blank(value::as_ref(value)) || *value == SqlValue::Integer(0),
            })
        };
        Ok(stays.namespace.is_some()
            && theirs.is_some_and(|theirs| theirs.namespace == stays.namespace)
            && is_blank(Role::SupersededBy)
            && is_blank(Role::DeletedAt))
    }

    /// Carries over to the survivor. False when its row is not there to be written.
    fn carry(&self, survivor: Option<&RowImage>, gone: &RowImage) -> rusqlite::Result<bool> {
        let Some(survivor) = survivor else {
            return Ok(true);
        };
        let mapping = &self.bound.mapping;
        let (columns, values): (Vec<_>, Vec<_>) =
            mapping.carried(survivor, gone).into_iter().unzip();
        if columns.is_empty() {
            return Ok(true);
        }
        let sql = mapping.table.update_sql(columns.iter().map(String::as_str));
        self.execute(&sql, &mapping.table, survivor, &values)
    }

    /// What a mark sets its column to. A time is written as the column is written elsewhere; in an empty column, as the
    /// creation of the same memory is.
    fn written(&self, marking: &Marking<'_>, root: &RowImage) -> rusqlite::Result<SqlValue> {
        let at = match marking.mark {
            Mark::Ended { at } | Mark::Deleted { at } | Mark::Confirmed { at } => *at,
            Mark::Superseded { by } => {
                return Ok(match by {
                    MemoryId::Integer(id) => SqlValue::Integer(*id),
                    MemoryId::Text(id) => SqlValue::Text(id.as_bytes().to_vec()),
                    MemoryId::Bytes(id) => SqlValue::Blob(id.to_vec()),
                });
            }
        };
        let like = match marking.like {
            Some(value) => Some(value.clone()),
            None => self.creation(marking.role, root)?,
        };
        Ok(time::encode(at, &marking.role.time, like.as_ref()))
    }

    /// For each column that is to be set, another value of it, to write alike; each is looked for once, since it may
    /// take the whole table to see that there is none.
    fn likes<'a>(
        &self,
        columns: impl Iterator<Item = &'a (&'a BoundRole, &'a str)>,
    ) -> Result<BTreeMap<&'a str, Option<SqlValue>>, RowError> {
        let mut likes = BTreeMap::new();
        for (_, column) in columns {
            if let Entry::Vacant(like) = likes.entry(*column) {
                let found = self.neighbour(column);
                like.insert(found.map_err(RowError::sqlite("look for a value to write alike"))?);
            }
        }
        Ok(likes)
    }

    fn neighbour(&self, column: &str) -> rusqlite::Result<Option<SqlValue>> {
        let sql = format!(
            "SELECT {column} FROM {} WHERE {column} IS NOT NULL AND {column} <> '' LIMIT 1",
            self.bound.mapping.from(),
            column = quoted(column),
        );
        self.conn
            .query_row(&sql, [], |row| Ok(SqlValue::from(row.get_ref(0)?)))
            .optional()
    }

    /// When a memory was created, as it is stored, if that is written like `role`.
    fn creation(&self, role: &BoundRole, root: &RowImage) -> rusqlite::Result<Option<SqlValue>> {
        let mapping = &self.bound.mapping;
        let Some(created_at) = mapping.role(Role::CreatedAt) else {
            return Ok(None);
        };
        if role.time != created_at.time {
            return Ok(None);
        }
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            created_at.expression(),
            mapping.from(),
            mapping.id.condition(1)
        );
        self.conn
            .prepare_cached(&sql)?
            .query_row([mapping.id.of(root)], |row| {
                Ok(SqlValue::from(row.get_ref(0)?))
            })
            .optional()
    }
}

fn role_of(mark: &Mark) -> Role {
    match mark {
        Mark::Ended { .. } => Role::ValidTo,
        Mark::Deleted { .. } => Role::DeletedAt,
        Mark::Superseded { .. } => Role::SupersededBy,
        Mark::Confirmed { .. } => Role::ConfirmedAt,
    }
}

fn name_of(mark: &Mark) -> &'static str {
    match mark {
        Mark::Ended { .. } => "valid_to",
        Mark::Deleted { .. } => "deleted_at",
        Mark::Superseded { .. } => "superseded_by",
        Mark::Confirmed { .. } => "confirmed_at",
    }
}
