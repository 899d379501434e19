//! Removing points and putting them back.
//!
//! Mechanics: rows are looked up before the write lock is taken, and inside it removed by their key, provided that
//! they still have the same id. Each transaction is IMMEDIATE and as large as fits the time that a lock may be held;
//! before the next one there is a pause at least as long, in which other writers get in. A WAL is folded in by hypnos
//! itself, between two transactions and after few of them: else the next commit of someone else would have to.

use std::time::Duration;

use rusqlite::{Transaction, TransactionBehavior};

use crate::clock::{self, Stopwatch};
use crate::memory::PointId;
use crate::store::image::{PointImage, RowImage, SqlValue};
use crate::store::vectors::VectorError;

use super::schema::{Table, quote};
use super::{Located, SqliteVectors, failed};

/// How long one transaction should hold the write lock.
const MAX_HOLD: Duration = Duration::from_millis(8);
/// The longest pause after a lock that was held for too long all the same (a disk that stood still).
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Fewer rows than this would cost more in commits than they leave to others.
const SMALLEST_BATCH: usize = 32;
const LARGEST_BATCH: usize = 400;
/// Rows after which the WAL is folded in: short of the thousand pages after which another connection would do it.
const ROWS_PER_CHECKPOINT: usize = 400;

/// Decides how many rows one transaction takes, and how long to wait before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pacer {
    batch: usize,
    /// The shortest time that a lock was held: what a commit costs on this disk, however few the rows.
    shortest: Duration,
    /// When the last lock was let go, and how long it had been held.
    last: Option<(Stopwatch, Duration)>,
    /// Rows written since the WAL was folded in.
    unfolded: usize,
}

impl Default for Pacer {
    fn default() -> Self {
        Self {
            batch: 64,
            shortest: Duration::MAX,
            last: None,
            unfolded: 0,
        }
    }
}

impl Pacer {
    /// The time that is still to be left to others.
    fn pause(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |(since, held)| {
            held.min(MAX_PAUSE).saturating_sub(since.elapsed())
        })
    }

    /// Learns from a lock that was just let go. Where the commit alone takes longer than [`MAX_HOLD`], smaller batches
    /// would only make more of them: the rows get half of that time on top.
    fn held(&mut self, held: Duration) {
        self.shortest = self.shortest.min(held);
        let allowed = MAX_HOLD.max(self.shortest + MAX_HOLD / 2);
        if held > allowed {
            self.batch = (self.batch * 3 / 4).max(SMALLEST_BATCH);
        } else if held < allowed * 3 / 4 {
            self.batch = (self.batch * 5 / 4).min(LARGEST_BATCH);
        }
        self.last = Some((Stopwatch::start(), held));
    }
}

impl SqliteVectors {
    pub(super) fn delete_sql(&self) -> String {
        format!(
            "DELETE FROM {} WHERE {} AND {} IS ?{}",
            self.table.name,
            self.table.key_is(1),
            self.table.id,
            self.table.key.len() + 1
        )
    }

    pub(super) fn delete_points(&self, ids: &[PointId]) -> Result<(), VectorError> {
        let mut rows = self.locate(ids)?;
        // Neighbours in the file share pages.
        rows.sort_by_key(|row| match row.key[..] {
            [SqlValue::Integer(rowid)] => rowid,
            _ => 0,
        });
        let mut rest = &rows[..];
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(self.pacer.get().batch.min(rest.len()));
            self.write("remove points", batch.len(), || self.delete_rows(batch))?;
            rest = later;
        }
        let left = self.locate(ids)?.len();
        if left > 0 {
            return Err(VectorError::StillThere { left });
        }
        Ok(())
    }

    fn delete_rows(&self, rows: &[Located]) -> Result<(), VectorError> {
        let delete = || {
            let mut statement = self.connection.prepare_cached(&self.delete_sql())?;
            for row in rows {
                statement.execute(rusqlite::params_from_iter(row.key.iter().chain([&row.raw])))?;
            }
            Ok(())
        };
        delete().map_err(failed("remove points"))
    }

    pub(super) fn insert_images(&self, images: &[PointImage]) -> Result<(), VectorError> {
        let rows = images
            .iter()
            .map(|image| self.read_image(image))
            .collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<PointId> = images.iter().map(|image| image.id.clone()).collect();
        let mut rest = 0..rows.len();
        while !rest.is_empty() {
            let end = rest.end.min(rest.start + self.pacer.get().batch);
            self.write("put back points", end - rest.start, || {
                let existing = self.locate(&ids[rest.start..end])?;
                self.delete_rows(&existing)?;
                rows[rest.start..end]
                    .iter()
                    .try_for_each(|row| self.insert_row(row))
            })?;
            rest.start = end;
        }
        let present = self.locate(&ids)?;
        let is_absent = |id: &&PointId| present.binary_search_by(|row| row.id.cmp(id)).is_err();
        match ids.iter().find(is_absent) {
            Some(_) => Err(VectorError::NotCompleted {
                call: "putting points back",
                status: "absent".to_owned(),
            }),
            None => Ok(()),
        }
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

    /// Runs `work` on so many rows in one IMMEDIATE transaction, after the pause that the last one made due.
    fn write(
        &self,
        doing: &'static str,
        rows: usize,
        work: impl FnOnce() -> Result<(), VectorError>,
    ) -> Result<(), VectorError> {
        self.check_stop()?;
        let mut pacer = self.pacer.get();
        clock::pause(pacer.pause());
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(failed(doing))?;
        let watch = Stopwatch::start();
        work()?;
        transaction.commit().map_err(failed(doing))?;
        pacer.held(watch.elapsed());
        pacer.unfolded += rows;
        if pacer.unfolded >= ROWS_PER_CHECKPOINT {
            pacer.unfolded = 0;
            self.fold_wal()?;
        }
        self.pacer.set(pacer);
        Ok(())
    }

    /// Copies what the WAL holds into the database, as far as no reader is in the way; without a WAL it does nothing.
    fn fold_wal(&self) -> Result<(), VectorError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(failed("checkpoint the vector database"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_after(holds: &[u64]) -> usize {
        let mut pacer = Pacer::default();
        for millis in holds {
            pacer.held(Duration::from_millis(*millis));
        }
        pacer.batch
    }

    #[test]
    fn batches_follow_the_time_that_a_lock_is_held() {
        for (holds, batch) in [
            (&[][..], 64),
            (&[1; 9], 400),
            (&[1, 7, 7, 7], 80),
            (&[1, 20], 60),
            (&[1, 20, 20, 20, 20, 20], 32),
            // A disk on which every commit takes 30 ms: shorter than that it never gets.
            (&[30; 5], 64),
            (&[30, 90], 48),
            (&[30, 90, 10], 60),
        ] {
            assert_eq!(batch_after(holds), batch, "{holds:?}");
        }
    }

    #[test]
    fn others_get_as_long_as_the_lock_was_held() {
        let mut pacer = Pacer::default();
        assert_eq!(pacer.pause(), Duration::ZERO);
        pacer.held(Duration::from_millis(500));
        let pause = pacer.pause();
        assert!(pause > Duration::from_millis(300) && pause <= Duration::from_millis(500));
        pacer.held(Duration::from_mins(1));
        assert!(pacer.pause() <= MAX_PAUSE);
    }
}
