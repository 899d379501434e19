//! Where a state file stands, by numbers of its own: what is written to it later has higher ones, whatever the clock of
//! the machine says then.

use std::collections::BTreeMap;

use rusqlite::{Transaction, params};
use serde::{Deserialize, Serialize};

use super::ledger::{NamespaceHash, Tombstone, tombstone};
use super::sql::At;
use super::{Partition, StateDir, StateError, StateReader};
use crate::clock::Timestamp;

/// How far a state file has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bookmark {
    /// Which file it is, in lower-case hexadecimal: one that was made anew is another one, and knows nothing of what the
    /// one before it had removed.
    pub lineage: String,
    /// The last intent; none ever has its number again.
    pub intents: i64,
    /// How many namespaces were erased, each as often as it was.
    pub erasures: i64,
}

impl Bookmark {
    /// Whether a file that stands at `now` knows everything that was written to it after this one was made: it is the same
    /// file, and was not put back to an earlier state.
    #[must_use]
    pub fn leads_to(&self, now: &Self) -> bool {
        self.lineage == now.lineage && self.intents <= now.intents && self.erasures <= now.erasures
    }
}

impl StateReader {
    /// Where it stands.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn bookmark(&self) -> Result<Bookmark, StateError> {
        let sql = "SELECT lower(hex(id)), erasures,
                     coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'intents'), 0) FROM lineage";
        self.one("read where the file stands", sql, [], |row| {
            Ok(Bookmark {
                lineage: row.get(0)?,
                erasures: row.get(1)?,
                intents: row.get(2)?,
            })
        })
    }

    /// What was removed after the file stood there and not taken back, in the order in which it was intended.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn tombstones_after(&self, mark: &Bookmark) -> Result<Vec<Tombstone>, StateError> {
        let sql = "SELECT memory, point, kind, pass, namespace, erased, at FROM tombstones
                   WHERE intent > ?1 ORDER BY intent, part";
        self.rows("read the tombstones", sql, [mark.intents], tombstone)
    }

    /// The namespaces of which something was erased after the file stood there or, to be sure, at that instant or later.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn erased_after(
        &self,
        mark: &Bookmark,
        at: Timestamp,
    ) -> Result<Vec<NamespaceHash>, StateError> {
        let sql = "SELECT namespace FROM erasures WHERE number > ?1 OR at >= ?2 ORDER BY namespace";
        let params = params![mark.erasures, At(at)];
        self.rows("read the erasures", sql, params, |row| row.get(0))
    }
}

impl StateDir {
    /// Where every state file of the store stands, by its name.
    ///
    /// # Errors
    ///
    /// When one is damaged, or cannot be read.
    pub fn bookmarks(&self) -> Result<BTreeMap<String, Bookmark>, StateError> {
        let mut bookmarks = BTreeMap::new();
        self.each(&mut |partition, state| {
            bookmarks.insert(partition.file_name(), state.bookmark()?);
            Ok(())
        })?;
        Ok(bookmarks)
    }

    /// The bookmark of a partition among those of a store.
    #[must_use]
    pub fn bookmark_of<'b>(
        bookmarks: &'b BTreeMap<String, Bookmark>,
        partition: Partition<'_>,
    ) -> Option<&'b Bookmark> {
        bookmarks.get(&partition.file_name())
    }
}

/// Writes that a namespace was erased.
pub(super) fn remember_erased(
    tx: &Transaction<'_>,
    namespace: NamespaceHash,
    now: Timestamp,
) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE lineage SET erasures = erasures + 1")?
        .execute([])?;
    tx.prepare_cached(
        "INSERT INTO erasures(namespace, at, number) SELECT ?1, ?2, erasures FROM lineage WHERE true
         ON CONFLICT(namespace) DO UPDATE SET at = max(at, excluded.at), number = excluded.number",
    )?
    .execute(params![namespace, At(now)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{Intent, Settled};

    #[test]
    fn what_comes_later_has_a_higher_number_whatever_the_clock_says() {
        let world = World::new();
        let state = world.main();
        let remove = |intent: Intent, second| {
            let id = state.intend_one(intent);
            state.settle(&[(id, Settled::Done)], at(second)).unwrap();
        };
        let start = state.bookmark().unwrap();
        assert_eq!((start.intents, start.erasures), (0, 0));
        remove(deletion(1), 50);
        remove(erasure(2), 50);
        let mark = state.bookmark().unwrap();
        assert_eq!((mark.intents, mark.erasures), (2, 1));
        assert!(start.leads_to(&mark) && !mark.leads_to(&start));
        let after = |mark, second| {
            (
                state.tombstones_after(mark).unwrap().len(),
                state.erased_after(mark, at(second)).unwrap().len(),
            )
        };
        assert_eq!(after(&start, 100), (4, 1));
        assert_eq!(after(&mark, 100), (0, 0));
        remove(deletion(3), 10);
        remove(erasure(4), 10);
        assert_eq!(after(&mark, 100), (4, 1), "the same owner once more");
        let mark = state.bookmark().unwrap();
        assert_eq!(after(&mark, 100), (0, 0));
        assert_eq!(after(&mark, 20), (0, 1), "by the time of one of them");
        state.forget(&ana(), at(0)).unwrap();
        assert_eq!(after(&mark, 100), (0, 1));
        assert_eq!(mark.lineage.len(), 32);
        assert!(!mark.leads_to(&World::new().main().bookmark().unwrap()));
    }
}
