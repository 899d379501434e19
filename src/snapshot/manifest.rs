//! The manifest of a pair: what its files hold, and that they belong together.
//!
//! It is sealed: one of its fields is the hash of all others, so that what was changed by a slip or by a failing disk is
//! not believed. That is no signature: whoever can write the folder can forge a pair.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SnapshotError;
use crate::clock::Timestamp;
use crate::durable;
use crate::state::Bookmark;
use crate::store::copies::{CopiedFile, CopiedPoints, Count, hex};
use crate::store::database::Stamp;
use crate::store::identity::Identity;

/// The name of the file.
pub const FILE: &str = "manifest.json";
/// The version of the format.
pub const FORMAT: u32 = 1;

/// What is written down about a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format.
    pub format: u32,
    /// The SHA-256 of the manifest with this field empty.
    pub seal: String,
    /// The store.
    pub store: String,
    /// The name of the pair.
    pub pair: String,
    /// Why it was taken.
    pub purpose: Purpose,
    /// The run that took it.
    pub run: String,
    /// The version of hypnos.
    pub hypnos: String,
    /// The version of SQLite.
    pub sqlite: String,
    /// The instant of the run.
    pub taken_at: Timestamp,
    /// When the first copy was begun.
    pub begun_at: Timestamp,
    /// When the last copy was done.
    pub finished_at: Timestamp,
    /// How often the store had been restored by then: pairs of one number are of one history.
    pub epoch: u64,
    /// Where the state files stood, by their names; what was written to them later was removed after the pair was taken.
    /// `None` in pairs of before this was written down: then their instant has to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<BTreeMap<String, Bookmark>>,
    /// Actions that were begun and not finished: always none, for a memory could be in one half only.
    pub open_intents: u64,
    /// Where the halves are, and how one leads to the other.
    pub identity: Identity,
    /// The row databases.
    pub rows: Vec<CopiedRows>,
    /// The points; `None` for a store without vectors.
    pub points: Option<CopiedPoints>,
    /// What changed between the two copies.
    pub drift: Drift,
}

/// Why a pair was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// By a run.
    Run,
    /// By a person.
    Asked,
    /// Of what a restore was about to replace.
    Safety,
}

impl Purpose {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Asked => "asked",
            Self::Safety => "safety",
        }
    }
}

/// The copy of one row database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiedRows {
    /// `main`, or the tenant.
    pub partition: String,
    /// Whether it is a tenant's.
    pub is_tenant: bool,
    /// The file.
    pub file: CopiedFile,
    /// The journal mode of the original.
    pub journal_mode: String,
    /// The fingerprint of the schema.
    pub schema: String,
    /// The number of rows of every table, counted in the copy.
    pub tables: BTreeMap<String, u64>,
    /// The memories, counted in the copy.
    pub count: Count,
    /// The original as it was when the copy was begun.
    pub stamp: Stamp,
}

/// What the agent did while the pair was taken. Rows come first, then points: every row of the pair was there when the
/// points were copied, or had been removed by then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Row databases that were written to in between.
    pub written: u64,
    /// Memories in the copies of those.
    pub rows_in_copy: u64,
    /// Memories in those once the points were copied.
    pub rows_after: u64,
}

impl Manifest {
    /// The whole size of the pair's halves, in bytes: rows, vectors.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let rows = self.rows.iter().map(|rows| rows.file.bytes).sum();
        let points = self.points.iter().flat_map(|points| &points.files);
        (rows, points.map(|file| file.bytes).sum())
    }

    /// Memories in the pair.
    #[must_use]
    pub fn memories(&self) -> u64 {
        self.rows.iter().map(|rows| rows.count.total).sum()
    }

    /// Every file of the pair but the manifest.
    pub fn files(&self) -> impl Iterator<Item = &CopiedFile> {
        let rows = self.rows.iter().map(|rows| &rows.file);
        rows.chain(self.points.iter().flat_map(|points| &points.files))
    }

    /// Seals the manifest and writes it into the folder of the pair, synced.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or is there already.
    pub fn write(&mut self, folder: &Path) -> Result<(), SnapshotError> {
        self.seal = self.hash()?;
        durable::write_new(&folder.join(FILE), &self.text()?, durable::PRIVATE)
            .map_err(SnapshotError::io("write the manifest"))
    }

    /// Reads the manifest of a pair and checks its seal.
    ///
    /// # Errors
    ///
    /// When it is missing, of another version, or not as it was written.
    pub fn read(folder: &Path) -> Result<Self, SnapshotError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let path = folder.join(FILE);
        let mut text = Vec::new();
        durable::open_plain(&path)
            .and_then(|mut file| file.read_to_end(&mut text))
            .map_err(SnapshotError::io(format!("read {}", path.display())))?;
        let malformed = |error: serde_json::Error| {
            SnapshotError::Damaged(format!("{} is no manifest: {error}", path.display()))
        };
        let version: Version = serde_json::from_slice(&text).map_err(malformed)?;
        if version.format != FORMAT {
            return Err(SnapshotError::Foreign(format!(
                "{} has format {}, and this hypnos reads format {FORMAT}",
                path.display(),
                version.format
            )));
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(malformed)?;
        if manifest.hash()? != manifest.seal {
            return Err(SnapshotError::Damaged(format!(
                "{} was changed after it was written",
                path.display()
            )));
        }
        manifest.check_names(&path)?;
        Ok(manifest)
    }

    /// No file of a pair is outside its folder, or two things at once.
    fn check_names(&self, path: &Path) -> Result<(), SnapshotError> {
        let mut names: Vec<&str> = self.files().map(|file| file.name.as_str()).collect();
        let is_plain =
            |name: &&str| !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
        let are_plain = names.iter().all(|name| is_plain(name) && *name != FILE);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        if are_plain && names.len() == count {
            return Ok(());
        }
        Err(SnapshotError::Damaged(format!(
            "{} names files that cannot be a pair's",
            path.display()
        )))
    }

    fn hash(&self) -> Result<String, SnapshotError> {
        let unsealed = Self {
            seal: String::new(),
            ..self.clone()
        };
        Ok(hex(&Sha256::digest(unsealed.text()?)))
    }

    fn text(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| SnapshotError::Damaged(format!("write the manifest: {error}")))?;
        text.push(b'\n');
        Ok(text)
    }
}
