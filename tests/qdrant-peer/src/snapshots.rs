//! Snapshot files: how they are made, named, found and removed.
//!
//! As on the server: a file per snapshot in the folder of its collection, its SHA-256 in a file beside it; what was
//! uploaded to be recovered from stays there too, without one; and removing a collection leaves them all.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::{fs, path::Path};

use sha2::{Digest as _, Sha256};
use tonic::Status;

use crate::durable;
use crate::error::{Answer, internal};
use crate::store::Store;

const EXTENSION: &str = "snapshot";
const CHECKSUM_EXTENSION: &str = "checksum";

/// A snapshot, as the server describes it. It knows no creation time.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) checksum: Option<String>,
}

impl Store {
    /// Makes a snapshot of a collection, of the name or the alias.
    pub(crate) fn create_snapshot(&self, collection: &str) -> Answer<Snapshot> {
        let archived = self.collection(collection)?;
        let real = self.real_name(collection);
        let dir = self.snapshots_dir(&real);
        fs::create_dir_all(&dir).map_err(internal)?;
        let mut file = tempfile::NamedTempFile::new_in(&dir).map_err(internal)?;
        let written = archived
            .archive(BufWriter::new(file.as_file_mut()))
            .map_err(internal)?;
        written
            .into_inner()
            .map_err(internal)?
            .sync_all()
            .map_err(internal)?;
        let checksum = sha256(file.path()).map_err(internal)?;
        let path = unused_name(&dir, &real, self.peer_id())?;
        durable::write(&beside(&path), checksum.as_bytes()).map_err(internal)?;
        file.persist(&path).map_err(internal)?;
        self.describe(&path).map_err(internal)
    }

    /// Every snapshot of a collection, in order of the name.
    pub(crate) fn list_snapshots(&self, collection: &str) -> Answer<Vec<Snapshot>> {
        drop(self.collection(collection)?);
        let dir = self.snapshots_dir(&self.real_name(collection));
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(internal(error)),
        };
        let mut snapshots = Vec::new();
        for entry in entries {
            let path = entry.map_err(internal)?.path();
            if path.extension() == Some(OsStr::new(EXTENSION)) {
                snapshots.push(self.describe(&path).map_err(internal)?);
            }
        }
        snapshots.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(snapshots)
    }

    /// Where the file of a snapshot is.
    pub(crate) fn snapshot_path(&self, collection: &str, name: &str) -> Answer<PathBuf> {
        drop(self.collection(collection)?);
        let path = self.snapshots_dir(&self.real_name(collection)).join(name);
        let is_plain = Path::new(name).file_name() == Some(OsStr::new(name));
        if is_plain && path.is_file() {
            return Ok(path);
        }
        Err(Status::not_found(format!(
            "Not found: Snapshot {name} not found"
        )))
    }

    pub(crate) fn delete_snapshot(&self, collection: &str, name: &str) -> Answer<()> {
        let path = self.snapshot_path(collection, name)?;
        fs::remove_file(&path).map_err(internal)?;
        match fs::remove_file(beside(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(internal(error)),
            _ => Ok(()),
        }
    }

    /// The id of this node.
    pub(crate) fn peer_id(&self) -> u64 {
        self.settings
            .cluster
            .as_ref()
            .map_or(1, |cluster| cluster.peer_id)
    }

    fn describe(&self, path: &Path) -> io::Result<Snapshot> {
        let checksum = match fs::read_to_string(beside(path)) {
            Ok(_) if self.faults.wrong_checksum() => Some(hex(&Sha256::digest(b"something else"))),
            Ok(checksum) => Some(checksum),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Snapshot {
            name: name.into_owned(),
            size: fs::metadata(path)?.len(),
            checksum,
        })
    }
}

/// The SHA-256 of a file, in hex.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| hex(&Sha256::digest(bytes)))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn beside(snapshot: &Path) -> PathBuf {
    snapshot.with_added_extension(CHECKSUM_EXTENSION)
}

fn unused_name(dir: &Path, collection: &str, peer: u64) -> Answer<PathBuf> {
    (1..10_000)
        .map(|number| dir.join(format!("{collection}-{peer}-{number:04}.{EXTENSION}")))
        .find(|path| !path.exists())
        .ok_or_else(|| internal("there are too many snapshots"))
}
