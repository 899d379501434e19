//! Whole copies of a half of a store: what a snapshot pair is made of.
//!
//! Mechanics: a copy is one or more files in a folder that the caller made, and a count that was taken from those files,
//! never from the live store. Counts carry a fingerprint of the set of ids, in which the order does not matter.
//!
//! Policy: what cannot be counted again from its own files is no copy.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::clock::Timestamp;
use crate::config;
use crate::durable;
use crate::failpoint::Injected;
use crate::store::rows::RowError;
use crate::store::sqlite::OpenError;
use crate::store::vectors::{Selector, VectorError, VectorReader};

/// The name of the copy of the first row database.
pub const FIRST_ROWS: &str = "rows-1.db";
/// Bytes read at once when a file is hashed.
const CHUNK: usize = 1 << 20;

/// One file of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiedFile {
    /// Its name in the folder of the copy, without a slash.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in lower-case hexadecimal.
    pub sha256: String,
    /// The node of a cluster that it was taken from; `None` where there is one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether it is a copy of pages, in which what had been deleted can still be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_deleted: bool,
}

impl CopiedFile {
    /// Reads a file of a copy and says what it is.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn of(folder: &Path, name: &str) -> io::Result<Self> {
        let (bytes, sha256) = hash_file(&folder.join(name))?;
        Ok(Self {
            name: name.to_owned(),
            bytes,
            sha256,
            node: None,
            keeps_deleted: false,
        })
    }
}

/// The size of a file and the SHA-256 of its bytes.
fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = durable::open_plain(path)?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        hash.update(&chunk[..read]);
        bytes += read as u64;
    }
}

/// Bytes in lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What was counted in a copy, or in a live half.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Memories or points.
    pub total: u64,
    /// The fingerprint of their ids.
    pub ids: IdSet,
    /// How many there are of each namespace, as the half spells it; what names none is under `""`.
    pub namespaces: BTreeMap<String, u64>,
}

impl Count {
    /// Counts one more.
    pub fn add(&mut self, id: &str, namespace: Option<&str>) {
        self.ids.add(id);
        self.add_nameless(namespace);
    }

    /// Counts one more that has no usable id.
    pub fn add_nameless(&mut self, namespace: Option<&str>) {
        self.total += 1;
        let namespace = namespace.unwrap_or_default();
        if let Some(count) = self.namespaces.get_mut(namespace) {
            *count += 1;
        } else {
            self.namespaces.insert(namespace.to_owned(), 1);
        }
    }

    /// Counts all that another one did, as of this namespace.
    pub fn add_all(&mut self, of: &Self, namespace: &str) {
        self.total += of.total;
        self.ids.join(of.ids);
        if of.total > 0 {
            *self.namespaces.entry(namespace.to_owned()).or_default() += of.total;
        }
    }
}

/// A fingerprint of a set of ids: the sum of their SHA-256, lane by lane, so that the order in which a store lists them
/// does not matter. It finds what was lost or added; it is no proof against somebody who forges ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdSet([u64; 4]);

impl IdSet {
    /// Adds the ids of another set.
    fn join(&mut self, other: Self) {
        for (lane, more) in self.0.iter_mut().zip(other.0) {
            *lane = lane.wrapping_add(more);
        }
    }

    /// Adds an id.
    pub fn add(&mut self, id: &str) {
        let digest = Sha256::digest(id);
        for (lane, bytes) in self.0.iter_mut().zip(digest.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            *lane = lane.wrapping_add(u64::from_be_bytes(word));
        }
    }
}

impl Serialize for IdSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [a, b, c, d] = self.0;
        serializer.serialize_str(&format!("{a:016x}{b:016x}{c:016x}{d:016x}"))
    }
}

impl<'de> Deserialize<'de> for IdSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let lane = |n: usize| {
            let digits = text.get(n * 16..(n + 1) * 16)?;
            u64::from_str_radix(digits, 16).ok()
        };
        let lanes = || Some(Self([lane(0)?, lane(1)?, lane(2)?, lane(3)?]));
        lanes()
            .filter(|_| text.len() == 64)
            .ok_or_else(|| serde::de::Error::custom("not 64 hexadecimal digits"))
    }
}

/// Counts the points of a vector store, live or staged.
///
/// # Errors
///
/// When it cannot be read to the end.
pub fn count_points(points: &dyn VectorReader) -> Result<Count, VectorError> {
    let mut count = Count::default();
    let unnamed = points.scroll(Selector::All, &[], &mut |page| {
        for point in page {
            count.add(&point.id.to_string(), point.namespace.as_deref());
        }
        ControlFlow::Continue(())
    })?;
    // Rows whose key is no id are in the copy all the same.
    count.total += unnamed;
    Ok(count)
}

/// The points of a pair: what the manifest says of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiedPoints {
    /// `qdrant` or `sqlite`.
    pub backend: String,
    /// Version of the server or library that wrote the copy.
    pub version: String,
    /// The files; none when the points are in the file of the rows.
    pub files: Vec<CopiedFile>,
    /// What was counted in the copy.
    pub count: Count,
    /// Whether a server had written the points to a new collection first: then nothing is in the files that had been
    /// removed before. A server's snapshot of the collection itself has that, too, as long as the server keeps it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub written_anew: bool,
    /// What the backend needs to make the place anew, and a person may want to know: the configuration of the
    /// collection, its aliases, the nodes. Never compared byte by byte.
    pub place: serde_json::Value,
}

/// The vector half of a store, as whole copies: how a backend copies itself out, and is put back.
///
/// Restoring goes in steps, each of which may be cut off and is then done again from its beginning: [`stage`] puts the
/// copy into a new place beside the live one, the caller opens that place ([`staged`]), counts it and takes out what
/// must not come back, [`switch`] makes it the live one, [`discard`] removes what is left. `tag` is a short lower-case
/// hexadecimal word, unique to one restore, from which the names of the new places are made.
///
/// [`stage`]: PointCopies::stage
/// [`staged`]: PointCopies::staged
/// [`switch`]: PointCopies::switch
/// [`discard`]: PointCopies::discard
pub trait PointCopies: Send {
    /// Copies every point into new files of `folder` (mode 0600, synced; the caller syncs the folder), and counts them
    /// *in the copy*: a Qdrant snapshot is recovered into a temporary collection for that. Nothing else is left behind,
    /// on this machine or on the server, whether it works or not.
    ///
    /// # Errors
    ///
    /// When the copy is not whole, or a stop was requested.
    fn copy_to(&self, folder: &Path) -> Result<CopiedPoints, CopyError>;

    /// The same without what had been removed before, where the backend would copy that, too, and can write the points anew:
    /// [`CopiedPoints::written_anew`] says whether it did.
    ///
    /// # Errors
    ///
    /// As [`PointCopies::copy_to`].
    fn copy_anew_to(&self, folder: &Path) -> Result<CopiedPoints, CopyError> {
        self.copy_to(folder)
    }

    /// Whether the points are in the copy of the rows, which has to be whole before they are counted.
    fn is_in_rows(&self) -> bool {
        false
    }

    /// Counts a copy anew, trusting nothing but its files, whose hashes the caller has compared.
    ///
    /// # Errors
    ///
    /// When the files are not what `copy` says, or cannot be opened.
    fn recount(&self, folder: &Path, copy: &CopiedPoints) -> Result<Count, CopyError>;

    /// Whether the live place holds what a copy of it holds, which was begun `at` that instant. Points are derived from
    /// rows, so that their ids and namespaces are enough.
    ///
    /// # Errors
    ///
    /// When one of the two cannot be read to the end.
    fn is_current(
        &self,
        folder: &Path,
        copy: &CopiedPoints,
        at: Timestamp,
    ) -> Result<bool, CopyError>;

    /// Makes sure that nothing else has the live place open, as far as that can be told; a server has many clients, and
    /// answers that nobody has.
    ///
    /// # Errors
    ///
    /// [`CopyError::InUse`].
    fn require_idle(&self) -> Result<(), CopyError>;

    /// Puts a copy into a new place. Something of the same tag that an earlier attempt left is discarded first.
    ///
    /// # Errors
    ///
    /// When it cannot be put there in full. The live place was not touched.
    fn stage(&self, folder: &Path, copy: &CopiedPoints, tag: &str) -> Result<(), CopyError>;

    /// The new place, as a vector store that can be opened.
    fn staged(&self, tag: &str) -> config::Vectors;

    /// What tells whether the live place has been changed: the stamp of its file, or a hash of what is in it. Null when
    /// there is no live place, or when it is in the file of the rows.
    ///
    /// # Errors
    ///
    /// When it cannot be read to the end.
    fn mark(&self) -> Result<serde_json::Value, CopyError>;

    /// Makes the new place the live one. Doing it again, after it was cut off or was done, ends in the same state. `was`
    /// is the mark of the live place from before the restore.
    ///
    /// # Errors
    ///
    /// [`CopyError::InUse`] and [`CopyError::Changed`] when nothing was switched, and it can be left at that. Otherwise
    /// it was not confirmed, and must be done again.
    fn switch(&self, tag: &str, was: &serde_json::Value, keep: Keep)
    -> Result<Switched, CopyError>;

    /// Removes whatever places of this tag are left, and never the live one. What is not there is no error.
    ///
    /// # Errors
    ///
    /// When something is there and cannot be removed.
    fn discard(&self, tag: &str) -> Result<(), CopyError>;
}

/// When the old place stays beside the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Whatever it is, where the backend can keep it.
    Always,
    /// When it was changed since it was looked at: the other half is switched already.
    Changed,
    /// Never: one that was changed is not replaced.
    Never,
}

impl Keep {
    /// Whether the old place `what` has to stay.
    ///
    /// # Errors
    ///
    /// [`CopyError::Changed`] when it is not to be replaced.
    pub fn decide(self, is_changed: bool, what: impl Display) -> Result<bool, CopyError> {
        match self {
            Self::Never if is_changed => Err(CopyError::Changed(what.to_string())),
            Self::Never => Ok(false),
            Self::Changed => Ok(is_changed),
            Self::Always => Ok(true),
        }
    }

    /// What holds for the next place, once one was replaced: from there on there is no way back.
    #[must_use]
    pub fn further(self) -> Self {
        match self {
            Self::Always => Self::Always,
            Self::Changed | Self::Never => Self::Changed,
        }
    }
}

/// What a switch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switched {
    /// Nothing: it had been done before, or there is nothing to switch.
    Before,
    /// It was done.
    Now,
    /// It was done, and the old place, which had been changed, is here.
    Kept(String),
}

/// Why a copy could not be made, read or put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A database could not be opened.
    #[error("open the database")]
    Open(#[from] OpenError),
    /// The row store.
    #[error("read rows")]
    Rows(#[from] RowError),
    /// Something else has the database open.
    #[error("{} is in use{by}", path.display())]
    InUse {
        /// The database.
        path: PathBuf,
        /// By whom, where that is known: `, by pid 7`.
        by: String,
    },
    /// What is to be replaced was written to since it was looked at: nothing else has that.
    #[error("{0} was written to since the restore began")]
    Changed(String),
    /// The vector store.
    #[error("copy points")]
    Vectors(#[from] VectorError),
    /// `SQLite`.
    #[error("{doing}")]
    Sqlite {
        /// Verb and object.
        doing: String,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The file system.
    #[error("{doing}")]
    Io {
        /// Verb and object.
        doing: String,
        /// The cause.
        source: io::Error,
    },
    /// The copy is not what it should be.
    #[error("{0}")]
    Damaged(String),
    /// The copy is of something else than what is configured.
    #[error("{0}")]
    Foreign(String),
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
}

impl CopyError {
    /// An error of the file system while `doing` something.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// Whether it says something of a copy that was looked at: all but a server that could not be asked, or would not
    /// answer.
    #[must_use]
    pub fn is_verdict(&self) -> bool {
        match self {
            Self::Vectors(error) => matches!(
                error,
                VectorError::Malformed(_) | VectorError::Open(_) | VectorError::Sqlite { .. }
            ),
            Self::Interrupted | Self::Injected(_) | Self::Io { .. } | Self::InUse { .. } => false,
            _ => true,
        }
    }

    /// Whether a stop was the cause.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Interrupted | Self::Vectors(VectorError::Interrupted)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(ids: &[(&str, &str)]) -> Count {
        let mut count = Count::default();
        for (id, namespace) in ids {
            count.add(id, Some(namespace));
        }
        count
    }

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        let count = counted(&[("1", "user:a"), ("2", "user:b")]);
        assert_eq!(count, counted(&[("2", "user:b"), ("1", "user:a")]));
        for other in [
            &[("1", "user:a")][..],
            &[("1", "user:a"), ("3", "user:b")],
            &[("1", "user:a"), ("1", "user:b")],
            &[("1", "user:a"), ("2", "user:a")],
            &[("12", "user:a"), ("", "user:b")],
        ] {
            assert_ne!(count, counted(other), "{other:?}");
        }
        let mut nameless = Count::default();
        nameless.add_nameless(None);
        assert_eq!((nameless.total, nameless.namespaces[""]), (1, 1));
        assert_eq!(nameless.ids, IdSet::default());
    }

    #[test]
    fn a_fingerprint_is_written_and_read() {
        let ids = counted(&[("1", "user:a"), ("2", "user:b")]).ids;
        let text = serde_json::to_string(&ids).unwrap();
        assert_eq!(text.len(), 66);
        assert_eq!(serde_json::from_str::<IdSet>(&text).unwrap(), ids);
        for wrong in [
            "\"\"",
            "\"12\"",
            "7",
            &text.replace('"', "\"0"),
            &text.to_uppercase().replace('0', "é"),
        ] {
            assert!(serde_json::from_str::<IdSet>(wrong).is_err(), "{wrong}");
        }
    }
}
