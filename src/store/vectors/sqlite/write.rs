//! Removing points and putting them back.
//!
//! Mechanics: rows are looked up before the write lock is taken, and inside it removed by their key, provided that
//! every column is as it was captured. Whatever is found under an id afterwards is left. Each transaction is IMMEDIATE
//! and small, see [`crate::pace`]. A WAL is folded in by hypnos itself, between two transactions and after few of them:
//! else the next commit of someone else would have to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rusqlite::{Transaction, TransactionBehavior};

use crate::failpoint::{Failpoint, hit};
use crate::memory::PointId;
use crate::store::image::{PointImage, RowImage, SqlValue};
use crate::store::traces::{self, Trace};
use crate::store::vectors::{VectorError, VectorStore};

use super::locate::Located;
use super::schema::{Table, quote};
use super::{SqliteVectors, failed};

/// The largest transaction, in rows.
pub(super) const LARGEST_BATCH: usize = 400;
/// Rows after which the WAL is folded in: each dirties some three pages, and what is folded in at once is what the disk
/// is busy with at once.
const ROWS_PER_CHECKPOINT: usize = 100;

/// A row to be removed, and the copy that it must still be like.
type Doomed = (Located, RowImage);

impl VectorStore for SqliteVectors {
    fn remove(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        self.to_the_end(|| self.remove_like(images))
    }

    fn put_back(&self, images: &[PointImage]) -> Result<(), VectorError> {
        self.to_the_end(|| self.insert_all(images))
    }

    fn scrub(&self) -> Result<Vec<Trace>, VectorError> {
        let path = self.connection.path().unwrap_or_default().to_owned();
        self.to_the_end(|| {
            traces::settle(&self.connection, path.as_ref())
                .map_err(failed("overwrite what was removed"))
        })
    }
}

impl SqliteVectors {
    fn remove_like(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        let mut rows = self.doomed(images)?;
        // Neighbours in the file share pages.
        rows.sort_by_key(|(row, _)| match row.key[..] {
            [SqlValue::Integer(rowid)] => rowid,
            _ => 0,
        });
        let mut rest = &rows[..];
        hit(Failpoint::PointsCompared)?;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.pace.get().size().min(rest.len()));
            self.write("remove points", batch.len(), || {
                self.delete_rows(batch)?;
                Ok(hit(Failpoint::PointsUncommitted)?)
            })?;
            rest = later;
        }
        hit(Failpoint::PointsConfirmed)?;
        let left = self.locate(images.iter().map(|image| image.id.clone()))?;
        Ok(left.into_ids())
    }

    fn insert_all(&self, images: &[PointImage]) -> Result<(), VectorError> {
        self.putting_back.set(true);
        hit(Failpoint::PutBackCompared)?;
        let mut rest = images;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.pace.get().size().min(rest.len()));
            self.write("put back points", batch.len(), || {
                self.insert_missing(batch)?;
                Ok(hit(Failpoint::PutBackUncommitted)?)
            })?;
            rest = later;
        }
        hit(Failpoint::PutBackConfirmed)?;
        let ids: BTreeSet<PointId> = images.iter().map(|image| image.id.clone()).collect();
        if self.locate(ids.iter().cloned())?.into_ids() == ids {
            return Ok(());
        }
        Err(VectorError::NotCompleted {
            call: "putting points back",
            status: "absent".to_owned(),
        })
    }

    /// Removes the row with a key, if every stored column is as the parameters after the key say.
    pub(super) fn delete_sql(&self) -> String {
        let Table {
            name, key, columns, ..
        } = &self.table;
        let mut sql = format!("DELETE FROM {name} WHERE {}", self.table.key_is(1));
        for (column, parameter) in columns.iter().zip(key.len() + 1..) {
            // Without the affinity and the collation of the column: what is alike to them is not the same.
            let _ = write!(
                sql,
                " AND +{} IS ?{parameter} COLLATE BINARY",
                quote(column)
            );
        }
        sql
    }

    /// The rows of copies; those that have none, or several, are not there, nor those of a copy that does not fit.
    fn doomed(&self, images: &[PointImage]) -> Result<Vec<Doomed>, VectorError> {
        let mut copies: BTreeMap<&PointId, RowImage> = images
            .iter()
            .filter_map(|image| Some((&image.id, self.fitting(image)?)))
            .collect();
        let found = self.locate(copies.keys().map(|id| (*id).clone()))?;
        let doomed = found.rows.into_iter().filter_map(|row| {
            let copy = copies.remove(&row.id)?;
            Some((row, copy))
        });
        Ok(doomed.collect())
    }

    /// A copy with exactly the columns that the table has; any other cannot be compared with its row.
    fn fitting(&self, image: &PointImage) -> Option<RowImage> {
        let copy: RowImage = postcard::from_bytes(&image.body).ok()?;
        let names = copy.columns.iter().map(|(name, _)| name);
        (copy.table == self.table.plain_name && names.eq(&self.table.columns)).then_some(copy)
    }

    fn delete_rows(&self, rows: &[Doomed]) -> Result<(), VectorError> {
        let delete = || {
            let mut statement = self.connection.prepare_cached(&self.delete_sql())?;
            for (row, copy) in rows {
                let columns = copy.columns.iter().map(|(_, value)| value);
                statement.execute(rusqlite::params_from_iter(row.key.iter().chain(columns)))?;
            }
            Ok(())
        };
        delete().map_err(failed("remove points"))
    }

    /// Inserts the points that have no row, inside a transaction.
    fn insert_missing(&self, images: &[PointImage]) -> Result<(), VectorError> {
        let present = self.locate(images.iter().map(|image| image.id.clone()))?;
        let present = present.into_ids();
        images
            .iter()
            .filter(|image| !present.contains(&image.id))
            .try_for_each(|image| self.insert_row(&self.read_image(image)?))
    }

    /// Reads a copy, which must fit the table as it is now.
    fn read_image(&self, image: &PointImage) -> Result<RowImage, VectorError> {
        let unfit =
            |why: String| VectorError::Malformed(format!("the copy of point {} {why}", image.id));
        let row: RowImage = postcard::from_bytes(&image.body)
            .map_err(|error| unfit(format!("is damaged: {error}")))?;
        if row.table != self.table.plain_name {
            return Err(unfit(format!("is of table {:?}", row.table)));
        }
        let is_gone = |name: &&String| !self.table.columns.contains(name);
        match row.columns.iter().map(|(name, _)| name).find(is_gone) {
            Some(name) => Err(unfit(format!(
                "has column {name:?}, which the table has not"
            ))),
            None => Ok(row),
        }
    }

    fn insert_row(&self, row: &RowImage) -> Result<(), VectorError> {
        let Table { name, key, .. } = &self.table;
        let mut list: Vec<_> = row.columns.iter().map(|(name, _)| quote(name)).collect();
        let mut values: Vec<&SqlValue> = row.columns.iter().map(|(_, value)| value).collect();
        let rowid = self.free_rowid(row)?.map(SqlValue::Integer);
        if let Some(rowid) = &rowid {
            list.push(key[0].clone());
            values.push(rowid);
        }
        let marks = vec!["?"; list.len()].join(", ");
        let sql = format!("INSERT INTO {name} ({}) VALUES ({marks})", list.join(", "));
        self.connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.execute(rusqlite::params_from_iter(values)))
            .map_err(failed("put back a point"))?;
        Ok(())
    }

    /// The rowid that the row had, unless another row has it by now.
    fn free_rowid(&self, row: &RowImage) -> Result<Option<i64>, VectorError> {
        let Some(rowid) = row.rowid.filter(|_| self.table.has_hidden_rowid) else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT 1 FROM {} WHERE {}",
            self.table.name,
            self.table.key_is(1)
        );
        let is_taken = self
            .connection
            .prepare_cached(&sql)
            .and_then(|mut statement| statement.exists([rowid]))
            .map_err(failed("look for a row"))?;
        Ok((!is_taken).then_some(rowid))
    }

    /// Runs `work` on so many rows in one IMMEDIATE transaction.
    fn write(
        &self,
        doing: &'static str,
        rows: usize,
        work: impl FnOnce() -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        self.check_stop()?;
        let mut pace = self.pace.get();
        let result = pace.run(|| {
            let transaction =
                Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                    .map_err(failed(doing))?;
            work()?;
            transaction.commit().map_err(failed(doing))
        });
        self.unfolded.set(self.unfolded.get() + rows);
        let folded = if result.is_ok() && self.unfolded.get() >= ROWS_PER_CHECKPOINT {
            self.unfolded.set(0);
            pace.calmly(|| self.fold_wal())
        } else {
            Ok(())
        };
        self.pace.set(pace);
        result.and(folded)
    }

    /// Copies what the WAL holds into the database, as far as no reader is in the way; without a WAL it does nothing.
    fn fold_wal(&self) -> Result<(), VectorError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(failed("checkpoint the vector database"))
    }
}
