//! Ending memories of a schema that keeps its history: `valid_to` is set, and nothing is removed.
//!
//! It is written as the column is written elsewhere; in an empty column, as the creation of the same memory is.

use rusqlite::{OptionalExtension, TransactionBehavior};

use super::schema::quoted;
use super::writer::{Fate, Writer, refused};
use super::{RowError, time};
use crate::clock::Timestamp;
use crate::memory::Role;
use crate::store::image::{RowImage, SqlValue, Unit};

impl Writer {
    /// Ends memories of a bitemporal schema, in one transaction: sets `valid_to` of each row that is as it was. Where
    /// one of them makes the transaction fail, each is ended in a transaction of its own, and that one is blocked.
    ///
    /// # Errors
    ///
    /// When the schema has no `valid_to` that can be set, or the file cannot be written; then nothing was ended, or
    /// only the first units of those that had to be ended one by one.
    pub fn end_units(&mut self, units: &[(Unit, Timestamp)]) -> Result<Vec<Fate>, RowError> {
        self.together_or_alone(units, Self::rebind, Self::end_together)
    }

    fn end_together(&self, units: &[(Unit, Timestamp)]) -> Result<Vec<Fate>, RowError> {
        let table = &self.bound.mapping.table;
        let Some((column, format)) = self
            .bound
            .mapping
            .role(Role::ValidTo)
            .and_then(|role| Some((role.column.as_deref()?, &role.time)))
        else {
            return Err(RowError::schema(format!(
                "table {:?} has no valid_to that can be set",
                table.name
            )));
        };
        let neighbour = self
            .neighbour(column)
            .map_err(RowError::sqlite("look for a valid_to"))?;
        let sql = table.update_sql([column]);
        let transaction = self.begin(TransactionBehavior::Immediate)?;
        self.require_bound()?;
        let mut fates = Vec::with_capacity(units.len());
        for (unit, at) in units {
            fates.push(match self.current(&unit.root) {
                Err(error) if refused(&error) => Fate::Blocked,
                Err(error) => return Err(RowError::sqlite("compare memories")(error)),
                Ok(None) => Fate::Absent,
                Ok(Some(row)) if row != unit.root => Fate::Changed,
                Ok(Some(_)) => self.guarded(|writer| {
                    let like = match &neighbour {
                        Some(value) => Some(value.clone()),
                        None => writer.creation(&unit.root)?,
                    };
                    let value = time::encode(*at, format, like.as_ref());
                    writer.execute(&sql, table, &unit.root, &[value])
                })?,
            });
        }
        transaction
            .commit()
            .map_err(RowError::sqlite("commit the ending of memories"))?;
        Ok(fates)
    }

    /// Another value of a column of times, to write alike.
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

    /// When a memory was created, as it is stored, if that is written like `valid_to`.
    fn creation(&self, root: &RowImage) -> rusqlite::Result<Option<SqlValue>> {
        let mapping = &self.bound.mapping;
        let (Some(valid_to), Some(created_at)) =
            (mapping.role(Role::ValidTo), mapping.role(Role::CreatedAt))
        else {
            return Ok(None);
        };
        if valid_to.time != created_at.time {
            return Ok(None);
        }
        let sql = format!(
            "SELECT {} FROM {} WHERE {} = ?1",
            created_at.expression(),
            mapping.from(),
            quoted(&mapping.id)
        );
        self.conn
            .prepare_cached(&sql)?
            .query_row([root.get(&mapping.id)], |row| {
                Ok(SqlValue::from(row.get_ref(0)?))
            })
            .optional()
    }
}
