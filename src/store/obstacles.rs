//! What would keep a run from working on a store that can be read: files it may not write, an interface it cannot reach.
//!
//! Asked without writing anything, so that a check finds it and not the first night.

use std::io;
use std::path::Path;

use rustix::fs::Access;

use super::Stores;
use super::vectors::qdrant;
use crate::config::Backend;
use crate::durable;
use crate::error::chain;
use crate::stop::Stop;

/// Something in the way of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub advice: &'static str,
}

const APPLICATION: &str = "run hypnos as the user of the application, or let its user write there, and always as the same one";
const OWN_FOLDER: &str =
    "give it to the user that hypnos runs as, and run every command as that user";

/// What is in the way of a run over these stores, as this user.
#[must_use]
pub fn obstacles(stores: &Stores, stop: &Stop) -> Vec<Obstacle> {
    let config = &stores.config;
    let mut found = Vec::new();
    for file in stores.files().unwrap_or_default() {
        found.extend(may_not(&file.path, Access::WRITE_OK, "write", APPLICATION));
        // SQLite makes its journal beside the file.
        let folder = durable::folder_of(&file.path);
        let enter = Access::WRITE_OK | Access::EXEC_OK;
        found.extend(may_not(folder, enter, "write in", APPLICATION));
    }
    found.dedup();
    found.extend(cannot_use(stores.state.path()));
    if config.passes.snapshot.enabled {
        found.extend(cannot_use(&config.pairs));
        if let Some(Backend::Qdrant(server)) = config.vectors.as_ref().map(|own| &own.backend)
            && let Err(error) = qdrant::snapshot::reach(server, stop)
        {
            found.push(Obstacle {
                problem: chain(&error),
                advice: "rest_url is the REST port of the server (6333 where gRPC is 6334): without it no pair is taken, and nothing removed",
            });
        }
    }
    found
}

/// Says so when this user may not do something with a file or folder.
fn may_not(path: &Path, what: Access, verb: &str, advice: &'static str) -> Option<Obstacle> {
    let refused = io::Error::from(rustix::fs::access(path, what).err()?);
    Some(Obstacle {
        problem: format!("hypnos may not {verb} {}: {refused}", path.display()),
        advice,
    })
}

/// Says so when a folder of hypnos' own is neither there to be written in, nor can be made.
fn cannot_use(folder: &Path) -> Option<Obstacle> {
    let there = folder.ancestors().find(|path| path.exists())?;
    may_not(
        there,
        Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK,
        "read and write in",
        OWN_FOLDER,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_made_in_the_first_one_above_it_that_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(cannot_use(&dir.path().join("a/b/c")), None);
        let file = tempfile::NamedTempFile::new_in(dir.path()).unwrap();
        let found = cannot_use(&file.path().join("state"));
        assert!(found.is_some(), "a file is no folder: {found:?}");
    }
}
