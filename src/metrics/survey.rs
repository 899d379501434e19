//! What the stores themselves say: memories by state, points, sizes. Reads, never writes, and takes no lock.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::Pair;
use super::names::State;
use crate::clock::Timestamp;
use crate::config;
use crate::memory::{Memory, Role};
use crate::pass::ttl::{Deadline, deadline};
use crate::plan::Tally;
use crate::snapshot::{Shelf, SnapshotError};
use crate::stop::Stop;
use crate::store::Stores;
use crate::store::rows::{Partition, RowError, Snapshot};
use crate::store::sqlite::Access;
use crate::store::vectors::{self, VectorError};

/// The roles that tell the state of a memory.
const ROLES: [Role; 6] = [
    Role::CreatedAt,
    Role::ExpiresAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::Ttl,
    Role::SupersededBy,
];

/// What the row databases of a store hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Memories by state.
    pub memories: Tally<State>,
    /// Size of the database files, in bytes.
    pub size: u64,
    /// Free pages in them, in bytes.
    pub free: u64,
    /// Size of their write-ahead logs, in bytes.
    pub wal: u64,
}

/// Counts the rows of a store. A tenant's file that cannot be read is passed over; the run's report names it.
///
/// # Errors
///
/// When the files cannot be listed, the only one cannot be read, or a stop was requested.
pub fn rows(
    store: &config::Store,
    state_dir: &Path,
    now: Timestamp,
    stop: &Stop,
) -> Result<Rows, SurveyError> {
    let stores = Stores::rows_alone(store, state_dir);
    let mut rows = Rows::default();
    for partition in stores.listing()?.files {
        if stop.is_requested() {
            return Err(SurveyError::Interrupted);
        }
        match partition_rows(&stores, &partition, now) {
            Ok(own) => rows.add(own),
            Err(_) if partition.tenant.is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(rows)
}

/// Counts the points of a store; 0 for one that has no vector store.
///
/// # Errors
///
/// When the vector store does not answer.
pub fn points(store: &config::Store, stop: &Stop) -> Result<u64, SurveyError> {
    let Some(config) = &store.vectors else {
        return Ok(0);
    };
    let vectors = vectors::open(config, Access::Read, stop)?;
    Ok(vectors.describe()?.points)
}

/// The newest pair of a store; `None` when there is none.
///
/// # Errors
///
/// When the folder of the pairs is there and cannot be listed.
pub fn pair(store: &config::Store, now: Timestamp) -> Result<Option<Pair>, SnapshotError> {
    let listing = Shelf::of(store).list(now)?;
    Ok(listing.newest().map(|pair| {
        let (rows_bytes, vectors_bytes) = pair.manifest.bytes();
        Pair {
            taken_at: pair.manifest.taken_at,
            rows_bytes,
            vectors_bytes,
        }
    }))
}

impl Rows {
    fn add(&mut self, other: Self) {
        let Self {
            memories,
            size,
            free,
            wal,
        } = other;
        for (state, count) in memories {
            *self.memories.entry(state).or_default() += count;
        }
        self.size += size;
        self.free += free;
        self.wal += wal;
    }
}

fn partition_rows(
    stores: &Stores,
    partition: &Partition,
    now: Timestamp,
) -> Result<Rows, RowError> {
    let reader = stores.rows.reader(partition)?;
    let memories = reader.snapshot(|snapshot| memories(snapshot, now))?;
    // Points that are the rows have no file.
    if stores.config.rows.are_points() {
        return Ok(Rows {
            memories,
            ..Rows::default()
        });
    }
    Ok(Rows {
        memories,
        free: reader.free_bytes()?,
        size: length(&partition.path),
        wal: length(&wal_of(&partition.path)),
    })
}

fn memories(snapshot: &Snapshot, now: Timestamp) -> Result<Tally<State>, RowError> {
    let mut tally = Tally::new();
    snapshot.scan(&ROLES, &mut |memory| {
        *tally.entry(state(&memory, now)).or_default() += 1;
        ControlFlow::Continue(())
    })?;
    Ok(tally)
}

fn state(memory: &Memory, now: Timestamp) -> State {
    if memory.is_hidden(now) {
        return State::Superseded;
    }
    match deadline(memory) {
        Deadline::At(at) if at <= now => State::Expired,
        _ => State::Live,
    }
}

/// The length of a file in bytes; 0 when there is none. It is never opened: see [`crate::store::sqlite`].
fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn wal_of(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

/// Why a half of a store could not be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SurveyError {
    /// The rows cannot be read.
    #[error("count the rows")]
    Rows(#[from] RowError),
    /// The vector store does not answer.
    #[error("count the points")]
    Vectors(#[from] VectorError),
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::memory::{MemoryId, Moment, TimeToLive};

    #[test]
    fn a_memory_is_live_until_its_deadline_and_history_is_never_live() {
        let now: Timestamp = "2026-11-30T03:00:00Z".parse().unwrap();
        let at = |hours| Moment::exact(now + SignedDuration::from_hours(hours));
        let memory = || Memory::new(Some(MemoryId::Integer(1)));
        let with = |change: &dyn Fn(&mut Memory)| {
            let mut memory = memory();
            change(&mut memory);
            state(&memory, now)
        };
        assert_eq!(with(&|_| {}), State::Live);
        for (hours, expected) in [(-1, State::Expired), (0, State::Expired), (1, State::Live)] {
            assert_eq!(with(&|m| m.expires_at = at(hours)), expected, "{hours}");
        }
        assert_eq!(with(&|m| m.expires_at = Moment::Unreadable), State::Live);
        assert_eq!(
            with(&|m| {
                m.created_at = at(-25);
                m.ttl = TimeToLive::For(SignedDuration::from_hours(24));
            }),
            State::Expired
        );
        for hide in [
            (|m| m.superseded_by = Some(MemoryId::Integer(2))) as fn(&mut Memory),
            |m| m.deleted_at = Moment::Unreadable,
        ] {
            assert_eq!(
                with(&|m| {
                    m.expires_at = at(-1);
                    hide(m);
                }),
                State::Superseded
            );
        }
        assert_eq!(with(&|m| m.valid_to = at(0)), State::Superseded);
        assert_eq!(with(&|m| m.valid_to = at(1)), State::Live);
    }
}
