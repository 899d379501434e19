//! What was compared already, so that an unchanged store is not compared again every night.
//!
//! By memory and fingerprint, for one pass at one setting: at another setting nothing was compared.

use std::collections::HashMap;

use rusqlite::params;

use super::sql::{Id, IdRef, Name};
use super::{State, StateError, StateReader};
use crate::memory::{MemoryId, Version};
use crate::pass::PassName;

/// The memories of a row database that a pass has compared with each other, each as it was.
pub type Compared = HashMap<MemoryId, Version>;

impl StateReader {
    /// What a pass has compared at these settings.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn compared(&self, pass: PassName, settings: Version) -> Result<Compared, StateError> {
        let sql =
            "SELECT c.memory, c.fingerprint FROM compared c JOIN comparisons s ON s.pass = c.pass
                   WHERE c.pass = ?1 AND s.settings = ?2";
        let known = self.rows(
            "read what was compared",
            sql,
            params![Name(pass), settings.0],
            |row| Ok((row.get::<_, Id>(0)?.0, Version(row.get(1)?))),
        )?;
        Ok(known.into_iter().collect())
    }
}

impl State {
    /// Replaces what a pass has compared, in one transaction. Only what differs is written.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then what was known stays.
    pub fn record_compared(
        &self,
        pass: PassName,
        settings: Version,
        compared: &Compared,
    ) -> Result<(), StateError> {
        let known = self.compared(pass, settings)?;
        if known == *compared {
            return Ok(());
        }
        self.write("write what was compared", |tx| {
            tx.execute(
                "INSERT INTO comparisons(pass, settings) VALUES (?1, ?2)
                 ON CONFLICT(pass) DO UPDATE SET settings = excluded.settings",
                params![Name(pass), settings.0],
            )?;
            if known.is_empty() {
                tx.execute("DELETE FROM compared WHERE pass = ?1", [Name(pass)])?;
            }
            let mut forget =
                tx.prepare_cached("DELETE FROM compared WHERE pass = ?1 AND memory = ?2")?;
            let mut gone: Vec<_> = known
                .keys()
                .filter(|id| !compared.contains_key(id))
                .collect();
            gone.sort();
            for id in gone {
                forget.execute(params![Name(pass), IdRef(id)])?;
            }
            let mut write = tx.prepare_cached(
                "INSERT INTO compared(pass, memory, fingerprint) VALUES (?1, ?2, ?3)
                 ON CONFLICT(pass, memory) DO UPDATE SET fingerprint = excluded.fingerprint",
            )?;
            let mut new: Vec<_> = compared
                .iter()
                .filter(|(id, print)| known.get(id) != Some(print))
                .collect();
            new.sort();
            for (id, print) in new {
                write.execute(params![Name(pass), IdRef(id), print.0])?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn what_was_compared_is_known_for_one_pass_at_one_setting() {
        let world = World::new();
        let state = world.main();
        let (one, other) = (Version([1; 16]), Version([2; 16]));
        let memories = |prints: &[(i64, u8)]| -> Compared {
            let memory = |(id, print): &(i64, u8)| (MemoryId::Integer(*id), Version([*print; 16]));
            prints.iter().map(memory).collect()
        };
        let pass = PassName::Ttl;
        for known in [
            memories(&[(1, 1), (2, 2)]),
            memories(&[(1, 1), (2, 2)]),
            memories(&[(2, 9), (3, 3)]),
            memories(&[]),
            memories(&[(5, 5)]),
        ] {
            state.record_compared(pass, one, &known).unwrap();
            assert_eq!(state.compared(pass, one).unwrap(), known);
            assert_eq!(state.compared(pass, other).unwrap(), Compared::new());
            assert_eq!(
                state.compared(PassName::Orphans, one).unwrap(),
                Compared::new()
            );
        }
        let anew = memories(&[(7, 7)]);
        state.record_compared(pass, other, &anew).unwrap();
        assert_eq!(state.compared(pass, other).unwrap(), anew);
        assert_eq!(state.compared(pass, one).unwrap(), Compared::new());
    }
}
