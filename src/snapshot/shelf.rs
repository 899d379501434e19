//! The folder of a store's pairs.
//!
//! A pair is named after the second it was taken in, `2026-11-30T03-00-00Z`, with `-2` and so on after it when there were
//! more. One that is being built, or being dropped, has a dot in front and `.partial` behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::SignedDuration;

use super::{Manifest, SnapshotError};
use crate::clock::Timestamp;
use crate::durable;
use crate::failpoint::{Failpoint, hit};

/// What follows the name of a pair that is not whole.
const PARTIAL: &str = ".partial";
/// How the second of a pair is written in its name.
const SECOND: &str = "%Y-%m-%dT%H-%M-%SZ";
/// How far ahead of the clock a pair may be.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);
/// Pairs of one second.
const MOST_A_SECOND: u32 = 1000;

/// The folder of a store's pairs.
#[derive(Debug, Clone)]
pub struct Shelf {
    folder: PathBuf,
}

/// A pair whose manifest could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub manifest: Manifest,
}

/// What is on the shelf.
#[derive(Debug, Default)]
pub struct Listing {
    /// The pairs, oldest first.
    pub pairs: Vec<Pair>,
    /// Folders with a pair's name whose manifest cannot be believed, and why: left alone.
    pub damaged: Vec<(String, SnapshotError)>,
    /// What was never finished, or not dropped to the end.
    pub partial: Vec<String>,
}

impl Listing {
    /// The newest pair, as of `now`. One that was taken under a clock that ran ahead is not: it would be the newest until
    /// the true time has come there, whatever the store has become since.
    #[must_use]
    pub fn newest(&self, now: Timestamp) -> Option<&Pair> {
        self.pairs.iter().rfind(|pair| !is_ahead(pair, now))
    }

    /// The pairs that say they were taken in the future.
    pub fn ahead(&self, now: Timestamp) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| is_ahead(pair, now))
    }
}

/// Whether a pair says it was taken in the future: by more than a run may last that took it, and clocks may differ.
fn is_ahead(pair: &Pair, now: Timestamp) -> bool {
    pair.manifest.taken_at.duration_since(now) > AHEAD
}

impl Shelf {
    /// The shelf of a store; nothing is created yet.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a pair, or of a partial one.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Lists what is there. Files and folders of other names are nobody's business.
    ///
    /// # Errors
    ///
    /// When the folder is there and cannot be listed.
    pub fn list(&self) -> Result<Listing, SnapshotError> {
        let doing = || SnapshotError::io(format!("list {}", self.folder.display()));
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
            entries => entries.map_err(doing())?,
        };
        let mut listing = Listing::default();
        for entry in entries {
            let name = entry.map_err(doing())?.file_name();
            let Some(name) = name.to_str() else { continue };
            if is_partial(name) {
                listing.partial.push(name.to_owned());
            } else if is_pair(name) {
                match self.read(name) {
                    Ok(manifest) => listing.pairs.push(Pair {
                        name: name.to_owned(),
                        manifest,
                    }),
                    Err(error) => listing.damaged.push((name.to_owned(), error)),
                }
            }
        }
        listing
            .pairs
            .sort_by(|a, b| (a.manifest.taken_at, &a.name).cmp(&(b.manifest.taken_at, &b.name)));
        listing.damaged.sort_by(|(a, _), (b, _)| a.cmp(b));
        listing.partial.sort();
        Ok(listing)
    }

    /// The pair of a name.
    ///
    /// # Errors
    ///
    /// When there is none, or its manifest cannot be believed.
    pub fn find(&self, name: &str) -> Result<Pair, SnapshotError> {
        if !is_pair(name) || !self.path(name).is_dir() {
            return Err(SnapshotError::NoPair {
                name: name.to_owned(),
                folder: self.folder.clone(),
            });
        }
        Ok(Pair {
            name: name.to_owned(),
            manifest: self.read(name)?,
        })
    }

    fn read(&self, name: &str) -> Result<Manifest, SnapshotError> {
        let manifest = Manifest::read(&self.path(name))?;
        if manifest.pair != name {
            return Err(SnapshotError::Damaged(format!(
                "the manifest in {name} is that of pair {}",
                manifest.pair
            )));
        }
        Ok(manifest)
    }

    /// Makes the folder of a new pair, under its hidden name. Answers the name that it will have.
    pub(super) fn begin(&self, now: Timestamp) -> Result<String, SnapshotError> {
        durable::create_dir(&self.folder).map_err(SnapshotError::io(format!(
            "create {}",
            self.folder.display()
        )))?;
        let second = now.strftime(SECOND).to_string();
        let names = (1..=MOST_A_SECOND).map(|n| match n {
            1 => second.clone(),
            n => format!("{second}-{n}"),
        });
        let is_free =
            |name: &String| !self.path(name).exists() && !self.path(&partial(name)).exists();
        let name = names.into_iter().find(is_free).ok_or_else(|| {
            SnapshotError::Damaged(format!("there are {MOST_A_SECOND} pairs of {second}"))
        })?;
        let folder = self.path(&partial(&name));
        durable::create_dir(&folder)
            .map_err(SnapshotError::io(format!("create {}", folder.display())))?;
        Ok(name)
    }

    /// Gives a pair that is whole its name.
    pub(super) fn publish(&self, name: &str) -> Result<(), SnapshotError> {
        let (hidden, folder) = (self.path(&partial(name)), self.path(name));
        durable::sync_dir(&hidden)
            .and_then(|()| fs::rename(&hidden, &folder))
            .and_then(|()| durable::sync_dir(&self.folder))
            .map_err(SnapshotError::io(format!("publish {}", folder.display())))
    }

    /// The hidden folder of a pair that is being built.
    pub(super) fn hidden(&self, name: &str) -> PathBuf {
        self.path(&partial(name))
    }

    /// Drops a pair, or what is left of one: hidden first, so that no half of it is ever taken for a pair.
    ///
    /// # Errors
    ///
    /// When it cannot be removed; then it is hidden, or as it was.
    pub fn drop_pair(&self, name: &str) -> Result<(), SnapshotError> {
        let doing = || SnapshotError::io(format!("drop {}", self.path(name).display()));
        hit(Failpoint::PairDropBefore)?;
        let hidden = if is_partial(name) {
            self.path(name)
        } else {
            let hidden = self.hidden(name);
            remove_folder(&hidden).map_err(doing())?;
            fs::rename(self.path(name), &hidden)
                .and_then(|()| durable::sync_dir(&self.folder))
                .map_err(doing())?;
            hidden
        };
        hit(Failpoint::PairDropped)?;
        remove_folder(&hidden)
            .and_then(|()| durable::sync_dir(&self.folder))
            .map_err(doing())
    }
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn partial(name: &str) -> String {
    format!(".{name}{PARTIAL}")
}

fn is_partial(name: &str) -> bool {
    let inner = name.strip_prefix('.');
    inner
        .and_then(|name| name.strip_suffix(PARTIAL))
        .is_some_and(is_pair)
}

/// Whether a name is a pair's.
fn is_pair(name: &str) -> bool {
    let Some((second, rest)) = name.split_once('Z') else {
        return false;
    };
    let is_number = |n: &str| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit());
    let is_second = jiff::civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S", second)
        .is_ok_and(|read| read.strftime("%Y-%m-%dT%H-%M-%S").to_string() == second);
    is_second && (rest.is_empty() || rest.strip_prefix('-').is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pairs_are_told_from_others() {
        for name in ["2026-11-30T03-00-00Z", "2026-11-30T03-00-00Z-2"] {
            assert!(is_pair(name), "{name}");
            assert!(is_partial(&partial(name)), "{name}");
            assert!(!is_pair(&partial(name)) && !is_partial(name), "{name}");
        }
        for name in [
            "",
            "2026-11-30",
            "2026-11-30T03-00-00",
            "2026-13-30T03-00-00Z",
            "2026-11-30T03-00-00Z-",
            "2026-11-30T03-00-00Z-x",
            "2026-11-30T03-00-00Z.old",
            "+2026-11-30T03-00-00Z",
            "../2026-11-30T03-00-00Z",
            ".2026-11-30T03-00-00Z",
        ] {
            assert!(!is_pair(name) && !is_partial(name), "{name}");
        }
    }

    #[test]
    fn pairs_of_one_second_have_names_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(&dir.path().join("agent"));
        let now = "2026-11-30T03:00:00.5Z".parse().unwrap();
        let names = [(); 3].map(|()| shelf.begin(now).unwrap());
        assert_eq!(
            names,
            [
                "2026-11-30T03-00-00Z",
                "2026-11-30T03-00-00Z-2",
                "2026-11-30T03-00-00Z-3"
            ]
        );
        let listing = shelf.list().unwrap();
        assert_eq!((listing.pairs.len(), listing.partial.len()), (0, 3));
        for name in &listing.partial {
            shelf.drop_pair(name).unwrap();
        }
        assert_eq!(fs::read_dir(shelf.folder()).unwrap().count(), 0);
    }
}
