//! Where the rows and points are that a state file is about.
//!
//! Policy: what was accepted was accepted for one store. A state that goes over to another place keeps its journal, its
//! tombstones and its questions; what was accepted is forgotten, and so is what was seen once.

use rusqlite::{OptionalExtension as _, params};

use super::sql::Json;
use super::{State, StateError, StateReader};
use crate::store::identity::Identity;

impl StateReader {
    /// Where the rows and points are; `None` as long as no run knows. Of a state that an older hypnos wrote, its newest
    /// intents say it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn place(&self) -> Result<Option<Identity>, StateError> {
        let sql = "SELECT stores FROM (
                     SELECT stores, 1 AS is_sure, 0 AS id FROM place
                     UNION ALL SELECT stores, 0, id FROM origins WHERE stores <> '{}')
                   ORDER BY is_sure DESC, id DESC LIMIT 1";
        let mut found = self.rows("read the place of the store", sql, [], |row| {
            Ok(row.get::<_, Json<Identity>>(0)?.0.place())
        })?;
        Ok(found.pop())
    }
}

impl State {
    /// Writes down where the rows and points are. What was accepted for another place, and seen there once, counts no
    /// more.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then nothing has changed.
    pub fn set_place(&self, place: &Identity) -> Result<(), StateError> {
        self.write("write the place of the store", |tx| {
            let known: Option<Json<Identity>> = tx
                .query_row("SELECT stores FROM place", [], |row| row.get(0))
                .optional()?;
            if known.is_some_and(|known| known.0 == *place) {
                return Ok(());
            }
            tx.execute_batch("DELETE FROM place; DELETE FROM acceptances; DELETE FROM sightings")?;
            tx.execute("INSERT INTO place VALUES (?1)", params![Json(place)])?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::pass::PassName;

    fn place(path: &str) -> Identity {
        serde_json::from_value(serde_json::json!({ "rows.path": path })).unwrap()
    }

    #[test]
    fn what_was_accepted_is_accepted_for_one_place() {
        let world = World::new();
        let state = world.main();
        assert_eq!(state.place().unwrap(), None);
        state.set_place(&place("/a.db")).unwrap();
        state.accept(PassName::Ttl, at(0)).unwrap();
        for (path, is_accepted) in [("/a.db", true), ("/b.db", false), ("/a.db", false)] {
            state.set_place(&place(path)).unwrap();
            assert_eq!(state.place().unwrap(), Some(place(path)));
            assert_eq!(
                state.is_accepted(PassName::Ttl).unwrap(),
                is_accepted,
                "{path}"
            );
        }
    }

    #[test]
    fn a_state_of_before_is_of_the_stores_of_its_newest_intents() {
        let world = World::new();
        for path in ["/a.db", "/b.db"] {
            let state = world.main().for_stores(place(path));
            state.intend(path, PassName::Ttl, &[deletion(1)]).unwrap();
        }
        assert_eq!(world.main().place().unwrap(), Some(place("/b.db")));
        world.main().set_place(&place("/c.db")).unwrap();
        assert_eq!(world.main().place().unwrap(), Some(place("/c.db")));
    }
}
