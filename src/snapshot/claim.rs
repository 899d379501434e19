//! Whose a folder is that is no whole pair: one that is being built, or being dropped, or was left so by a killed run.
//!
//! Mechanics: as long as there is no manifest, a small file says for which store the folder was begun; what is dropped
//! loses the manifest last. A folder with nothing in it holds nothing, and is nobody's.
//!
//! Policy: several configurations may share a folder of pairs. What another one began may be at work in it: it is left.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::manifest::{self, Manifest};
use super::{Shelf, SnapshotError};
use crate::durable;
use crate::store::identity::Identity;

/// The name of the file.
const FILE: &str = ".begun.json";

/// For which store a pair was begun.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    store: String,
    identity: Identity,
}

/// Whose a folder is.
#[derive(Debug)]
pub(super) enum Whose {
    /// It was begun for this store.
    Ours,
    /// It is empty.
    Nobodys,
    /// It was begun for another store, or nothing says for which.
    Others(SnapshotError),
}

impl Shelf {
    /// Writes into a new folder that it is begun for this store.
    pub(super) fn claim(&self, folder: &Path) -> io::Result<()> {
        let claim = Claim {
            store: self.store.clone(),
            identity: self.identity.clone(),
        };
        let path = folder.join(FILE);
        durable::write_new(&path, &serde_json::to_vec(&claim)?, durable::PRIVATE)
    }

    /// Whose a folder is that is no whole pair.
    pub(super) fn whose(&self, folder: &Path) -> Whose {
        match self.is_ours(folder) {
            Ok(()) => Whose::Ours,
            Err(_) if fs::read_dir(folder).is_ok_and(|mut it| it.next().is_none()) => {
                Whose::Nobodys
            }
            Err(error) => Whose::Others(error),
        }
    }

    fn is_ours(&self, folder: &Path) -> Result<(), SnapshotError> {
        let path = folder.join(FILE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.require_own(&Manifest::read(folder)?);
            }
            text => text.map_err(SnapshotError::io(format!("read {}", path.display())))?,
        };
        let claim: Claim = serde_json::from_slice(&text)
            .map_err(|error| SnapshotError::Damaged(format!("{}: {error}", path.display())))?;
        self.require_same(&claim.store, &claim.identity, "it was begun")
    }
}

/// Takes out of a folder with a manifest what says for whom it was begun.
pub(super) fn settle(folder: &Path) -> io::Result<()> {
    durable::remove_if_there(&folder.join(FILE))
}

/// Removes a folder with all that is in it; that which says whose it is goes last, so that the rest of it can still be told.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name == FILE || name == manifest::FILE {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    durable::remove_if_there(&folder.join(FILE))?;
    durable::remove_if_there(&folder.join(manifest::FILE))?;
    fs::remove_dir(folder)
}
