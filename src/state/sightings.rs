//! Sightings: what was seen to be absent, and since when. Absence is believed only when it is seen again later, so one
//! read that went wrong never removes anything by itself.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use super::sql::{At, Owned, Point, PointRef};
use super::{State, StateError, StateReader};
use crate::clock::Timestamp;
use crate::plan::Sighting;

impl StateReader {
    /// Everything that was absent when it was last looked for, with the time it was first seen so.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn sightings(&self) -> Result<BTreeMap<Sighting, Timestamp>, StateError> {
        let sql = "SELECT namespace, point, first_seen FROM sightings";
        let known = self.rows("read the sightings", sql, [], |row| {
            let sighting = Sighting {
                namespace: row.get::<_, Owned>(0)?.0,
                point: row.get::<_, Point>(1)?.0,
            };
            Ok((sighting, row.get::<_, At>(2)?.0))
        })?;
        Ok(known.into_iter().collect())
    }
}

impl State {
    /// Replaces the sightings by those of this time, in one transaction: what was known keeps its first time, what is
    /// new gets `now`, and what was not seen is forgotten.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; then the sightings stay as they were.
    pub fn record_sightings(&self, seen: &[Sighting], now: Timestamp) -> Result<(), StateError> {
        let known = self.sightings()?;
        let seen: BTreeSet<&Sighting> = seen.iter().collect();
        self.write("write the sightings", |tx| {
            let mut forget =
                tx.prepare_cached("DELETE FROM sightings WHERE namespace = ?1 AND point = ?2")?;
            for gone in known.keys().filter(|sighting| !seen.contains(sighting)) {
                forget.execute(params![gone.namespace.as_str(), PointRef(&gone.point)])?;
            }
            let mut add = tx.prepare_cached(
                "INSERT INTO sightings(namespace, point, first_seen) VALUES (?1, ?2, ?3)",
            )?;
            for new in seen.iter().filter(|sighting| !known.contains_key(sighting)) {
                add.execute(params![
                    new.namespace.as_str(),
                    PointRef(&new.point),
                    At(now)
                ])?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::testing::*;
    use super::*;
    use crate::memory::{Namespace, PointId};

    fn sighting(namespace: &str, point: PointId) -> Sighting {
        Sighting {
            namespace: Namespace::parse(namespace).unwrap(),
            point,
        }
    }

    #[test]
    fn the_first_time_is_kept_until_it_is_not_seen_once() {
        let world = World::new();
        let state = world.main();
        let [a, b, c] = [1, 2, 3].map(|point| sighting("user:ana", PointId::Number(point)));
        for (second, seen, expected) in [
            (0, vec![&a, &b], vec![(&a, 0), (&b, 0)]),
            (10, vec![&c, &b, &b], vec![(&b, 0), (&c, 10)]),
            (10, vec![&b, &c], vec![(&b, 0), (&c, 10)]),
            (20, vec![&a, &c], vec![(&a, 20), (&c, 10)]),
            (5, vec![&a, &c], vec![(&a, 20), (&c, 10)]),
            (30, vec![], vec![]),
            (40, vec![&c], vec![(&c, 40)]),
        ] {
            let seen: Vec<_> = seen.into_iter().cloned().collect();
            state.record_sightings(&seen, at(second)).unwrap();
            let expected = expected
                .into_iter()
                .map(|(s, t)| (s.clone(), at(t)))
                .collect();
            assert_eq!(state.sightings().unwrap(), expected, "{second}");
        }
    }

    #[test]
    fn points_are_told_apart_by_namespace_and_by_kind_of_id() {
        let world = World::new();
        let state = world.main();
        let seen = [
            sighting("user:ana", PointId::Number(1)),
            sighting("user:Ana", PointId::Number(1)),
            sighting("team:ana", PointId::Number(1)),
            sighting("user:ana", PointId::Text("1".into())),
            sighting("user:ana", PointId::Uuid(Uuid::from_u128(1))),
            sighting("user:ana", PointId::Number(u64::MAX)),
        ];
        state.record_sightings(&seen, at(0)).unwrap();
        let read: Vec<_> = state.sightings().unwrap().into_keys().collect();
        let mut expected = seen.to_vec();
        expected.sort();
        assert_eq!(read, expected);
    }
}
