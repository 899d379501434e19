//! A small real store to try hypnos on: what an assistant remembers of eight people and two teams after some months
//! of use, in Portuguese and English.
//!
//! # Mechanics
//!
//! The texts stand in `memories.jsonl`, one memory a line with its age, use and owner; their embeddings in
//! `vectors.i8`, made once by `make_vectors.py`. Both are compiled in: building a demo needs no network, no model and
//! no service. [`build`] writes the two databases and a `hypnos.toml` that fits them under another name beside the
//! folder asked for, and renames the whole, so that a demo is there or is not. All times are relative to the `now`
//! that it is given; the same `now` gives the same content.
//!
//! # Policy
//!
//! Whatever a night has to find is in there on purpose and written down as data: [`planted()`] says of every expired
//! note, ghost, duplicate, retelling, look-alike and contradiction what has to become of it. What it says is within the
//! guard's default limits, so that the first night works; and no memory stands so near to any limit of time that a
//! second run within twelve hours would find more.

mod databases;
mod folder;
mod planted;
mod seed;
mod vectors;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use planted::{Merge, Pair, Place, Planted, planted};

use crate::clock::Timestamp;
use folder::Staging;
use seed::{ACCOUNTS, SEEDS, Scope};

/// The row database.
const MEMORY: &str = "memory.db";
/// The vector database.
const VECTORS: &str = "vectors.db";
/// The configuration.
const CONFIG: &str = "hypnos.toml";
/// What stands in it.
const CONFIG_TEXT: &str = include_str!("hypnos.toml");
/// How the text calls hypnos.
const PROGRAM: &str = "hypnos --config";
/// First line of the configuration, by which a demo is known.
const MARK: &str = "# hypnos demo store\n";

/// What a new demo holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// Rows in the table of the users' memories, the one that the configuration names.
    pub rows: usize,
    /// Rows in the table of the teams' memories, which no pass looks at.
    pub team_rows: usize,
    /// Points, those of the teams and those that nothing owns among them.
    pub points: usize,
    /// User accounts, two of them closed.
    pub users: usize,
    /// Teams.
    pub teams: usize,
}

/// Why a demo was not built. Nothing is left of an attempt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// There is a demo already.
    #[error("{} already holds a demo", dir.display())]
    Exists {
        /// The folder.
        dir: PathBuf,
    },
    /// There is something else.
    #[error("{} is not empty, and what it holds is not a demo", dir.display())]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder is the one that the process stands in, and cannot be replaced under it.
    #[error("build a demo in the current folder: name a new folder inside it instead")]
    CurrentFolder,
    /// Another process is at it.
    #[error("another process is building a demo in {}", dir.display())]
    Busy {
        /// Where it builds.
        dir: PathBuf,
    },
    /// The file system.
    #[error("{verb} {}", path.display())]
    Io {
        /// What was done.
        verb: &'static str,
        /// To what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// SQLite.
    #[error("{verb} {}", path.display())]
    Sqlite {
        /// What was done.
        verb: &'static str,
        /// To which database.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
}

/// Builds a demo at `dir`, as it would stand at `now`. Its configuration calls hypnos `program`.
///
/// `dir` may be missing (its parents are made) or empty; it ends up readable by its owner only. It never holds half a
/// demo: not after an error, and not after a crash.
///
/// # Errors
///
/// When `dir` holds anything, a demo included, is the current folder, or cannot be written.
pub fn build(dir: &Path, now: Timestamp, program: &str) -> Result<Built, DemoError> {
    let staging = Staging::begin(dir)?;
    let rows = databases::write_rows(&staging.file(MEMORY), now)?;
    let points = databases::write_points(&staging.file(VECTORS))?;
    // It stands in comments, which end with their line.
    let program = program.replace(char::is_control, " ");
    let config = CONFIG_TEXT.replace(PROGRAM, &format!("{program} --config"));
    databases::write_file(&staging.file(CONFIG), &config)?;
    staging.publish()?;
    Ok(Built {
        rows: rows.memories,
        team_rows: rows.team_memories,
        points,
        users: ACCOUNTS.len(),
        teams: teams(),
    })
}

/// Whether `dir` holds a demo: its configuration says so and both databases are there.
#[must_use]
pub fn is_demo(dir: &Path) -> bool {
    fs::read_to_string(dir.join(CONFIG)).is_ok_and(|text| text.starts_with(MARK))
        && dir.join(MEMORY).is_file()
        && dir.join(VECTORS).is_file()
}

fn teams() -> usize {
    let mut teams: Vec<_> = SEEDS
        .iter()
        .filter(|seed| seed.scope == Scope::Team)
        .map(|seed| seed.owner)
        .collect();
    teams.sort_unstable();
    teams.dedup();
    teams.len()
}

fn io_error(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DemoError {
    let path = path.to_path_buf();
    move |source| DemoError::Io { verb, path, source }
}

fn sqlite_error(verb: &'static str, path: &Path) -> impl FnOnce(rusqlite::Error) -> DemoError {
    let path = path.to_path_buf();
    move |source| DemoError::Sqlite { verb, path, source }
}

#[cfg(test)]
mod tests;
