//! The two databases of the demo: rows with everything that hangs on them, and points.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::SignedDuration;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::planted::Place;
use super::seed::{ACCOUNTS, Held, PLACES, SEEDS, Scope, Seed, place_of};
use super::vectors::VECTORS;
use super::{DemoError, io_error, sqlite_error};
use crate::clock::Timestamp;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// How many rows were written.
pub(super) struct Rows {
    /// Into the table of memories.
    pub(super) memories: usize,
    /// Into the table of the teams.
    pub(super) team_memories: usize,
}

/// Writes the row database, with all times relative to `now`.
pub(super) fn write_rows(path: &Path, now: Timestamp) -> Result<Rows, DemoError> {
    let calendar = Calendar(now);
    write_database(path, include_str!("memory.sql"), |transaction| {
        // A memory may be superseded by one that has not been written yet.
        transaction.pragma_update(None, "defer_foreign_keys", true)?;
        write_users(transaction, calendar)?;
        let memories = write_memories(transaction, calendar)?;
        write_tags(transaction)?;
        let team_memories = write_team_memories(transaction, calendar)?;
        Ok(Rows {
            memories,
            team_memories,
        })
    })
}

/// Writes the vector database, and returns the number of points.
pub(super) fn write_points(path: &Path) -> Result<usize, DemoError> {
    write_database(path, include_str!("vectors.sql"), |transaction| {
        let mut insert = transaction
            .prepare("INSERT INTO points(id, namespace, vector, payload) VALUES (?, ?, ?, ?)")?;
        let mut points = 0;
        for ((seed, place), vector) in SEEDS.iter().zip(PLACES.iter()).zip(VECTORS.iter()) {
            if seed.place == Held::Row {
                continue;
            }
            let vector: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            let payload = json!({
                "namespace": place.namespace,
                "scope": seed.scope.as_str(),
                "owner": seed.owner,
                "doc_id": place.doc_id(),
            });
            insert.execute(params![
                place.point().to_string(),
                place.namespace,
                vector,
                payload.to_string()
            ])?;
            points += 1;
        }
        Ok(points)
    })
}

/// Writes one file that only its owner can read, and waits until the disk has it.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), DemoError> {
    create(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .map_err(io_error("write", path))
}

fn create(path: &Path) -> std::io::Result<std::fs::File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Makes a database in WAL mode and fills it in one transaction. Closing it folds the WAL in and removes it.
fn write_database<T>(
    path: &Path,
    schema: &str,
    fill: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T, DemoError> {
    create(path).map_err(io_error("create", path))?;
    let write = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut database = Connection::open_with_flags(path, flags)?;
        database.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        database.pragma_update(None, "foreign_keys", true)?;
        database.execute_batch(schema)?;
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let filled = fill(&transaction)?;
        transaction.commit()?;
        database.close().map_err(|(_, error)| error)?;
        Ok(filled)
    };
    write().map_err(sqlite_error("write", path))
}

/// Turns ages into instants.
#[derive(Clone, Copy)]
struct Calendar(Timestamp);

impl Calendar {
    /// Epoch seconds of the instant `days` before now.
    fn before(self, days: f64) -> i64 {
        self.0.as_second() - SignedDuration::from_secs_f64(days * DAY).as_secs()
    }

    /// The same, of an instant that there may not be.
    fn maybe_before(self, days: Option<f64>) -> Option<i64> {
        days.map(|days| self.before(days))
    }
}

/// The memories of one scope that have a row, oldest first.
fn rows_of(scope: Scope) -> Vec<(&'static Seed, &'static Place)> {
    let mut rows: Vec<_> = SEEDS
        .iter()
        .zip(PLACES.iter())
        .filter(|(seed, _)| seed.scope == scope && seed.place != Held::Point)
        .collect();
    rows.sort_by_key(|(_, place)| place.id);
    rows
}

fn write_users(transaction: &Transaction<'_>, calendar: Calendar) -> rusqlite::Result<()> {
    let mut insert =
        transaction.prepare("INSERT INTO users(id, email, deleted_at) VALUES (?, ?, ?)")?;
    for account in &ACCOUNTS {
        let deleted_at = calendar.maybe_before(account.deleted_days);
        insert.execute(params![account.id, account.email, deleted_at])?;
    }
    Ok(())
}

fn write_memories(transaction: &Transaction<'_>, calendar: Calendar) -> rusqlite::Result<usize> {
    let mut insert = transaction.prepare(
        "INSERT INTO memories(id, user_id, content, content_hash, memory_type, source, created_at, confirmed_at,
                              last_used_at, uses, pinned, ttl_days, superseded_by)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let rows = rows_of(Scope::User);
    for (seed, place) in &rows {
        insert.execute(params![
            place.id,
            seed.owner,
            seed.text,
            content_hash(&seed.text),
            seed.kind,
            seed.source,
            calendar.before(seed.age_days),
            calendar.maybe_before(seed.confirmed_days),
            calendar.maybe_before(seed.used_days),
            seed.uses,
            seed.pinned,
            seed.ttl_days,
            seed.superseded_by.map(|key| place_of(key).id),
        ])?;
    }
    Ok(rows.len())
}

fn write_tags(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut insert =
        transaction.prepare("INSERT INTO memory_tags(memory_id, tag) VALUES (?, ?)")?;
    for (seed, place) in rows_of(Scope::User) {
        for tag in &seed.tags {
            insert.execute(params![place.id, tag])?;
        }
    }
    Ok(())
}

fn write_team_memories(
    transaction: &Transaction<'_>,
    calendar: Calendar,
) -> rusqlite::Result<usize> {
    let mut insert = transaction.prepare(
        "INSERT INTO team_memories(id, team, content, memory_type, source, created_at, confirmed_at, last_used_at,
                                   uses, pinned)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    let rows = rows_of(Scope::Team);
    for (seed, place) in &rows {
        insert.execute(params![
            place.id,
            seed.owner,
            seed.text,
            seed.kind,
            seed.source,
            calendar.before(seed.age_days),
            calendar.maybe_before(seed.confirmed_days),
            calendar.maybe_before(seed.used_days),
            seed.uses,
            seed.pinned,
        ])?;
    }
    Ok(rows.len())
}

/// The hash by which the application that filled this store would have known an exact repetition.
fn content_hash(text: &str) -> String {
    use std::fmt::Write as _;

    let digest = Sha256::digest(text.trim().to_lowercase());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
