//! The folder of a store's pairs.
//!
//! A pair is named after the second it was taken in, `2026-11-30T03-00-00Z`, with `-2` and so on after it when there were
//! more. One that is being built, or being dropped, has a dot in front and `.partial` behind.
//!
//! Two configurations may use one folder, and a store may have moved: a pair is of the store whose rows and points its
//! manifest names, and to every other store it is as good as not there. So is one whose files are not those that its
//! manifest names, as far as their sizes and first bytes tell; of the newest pair the copies are opened as well. To hash
//! them all is for [`verify`](super::verify()).

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::claim::{self, Whose};
use super::{Manifest, SnapshotError};
use crate::clock::Timestamp;
use crate::config;
use crate::durable;
use crate::failpoint::{Failpoint, hit};
use crate::store::database;
use crate::store::identity::Identity;

/// What follows the name of a pair that is not whole.
const PARTIAL: &str = ".partial";
/// How the second of a pair is written in its name.
const SECOND: &str = "%Y-%m-%dT%H-%M-%SZ";
/// What every database begins with.
const DATABASE: &[u8; 16] = b"SQLite format 3\0";
/// How far ahead of the clock a pair may be.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);

/// The folder of a store's pairs.
#[derive(Debug, Clone)]
pub struct Shelf {
    folder: PathBuf,
    pub(super) store: String,
    pub(super) identity: Identity,
}

/// A pair whose manifest could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub manifest: Manifest,
}

/// What is on the shelf at an instant.
#[derive(Debug, Default)]
pub struct Listing {
    now: Timestamp,
    /// The pairs of the store, oldest first.
    pub pairs: Vec<Pair>,
    /// Pairs of other stores, and what tells them apart: left alone.
    pub foreign: Vec<(Pair, SnapshotError)>,
    /// Folders with a pair's name whose manifest or files cannot be believed, and why: left alone.
    pub damaged: Vec<(String, SnapshotError)>,
    /// What was begun for the store and never finished, or not dropped to the end.
    pub partial: Vec<String>,
    /// The same of other stores, or of which it is not known, and why: left alone.
    pub strange: Vec<(String, SnapshotError)>,
}

impl Listing {
    /// The newest pair. One that was taken under a clock that ran ahead is not: it would be the newest until the true time
    /// has come there, whatever the store has become since.
    #[must_use]
    pub fn newest(&self) -> Option<&Pair> {
        self.pairs.iter().rfind(|pair| !self.is_ahead(pair))
    }

    /// The pairs that say they were taken in the future.
    pub fn ahead(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(|pair| self.is_ahead(pair))
    }

    /// Whether a pair says it was taken in the future: by more than a run may last that took it, and clocks may differ.
    #[must_use]
    pub fn is_ahead(&self, pair: &Pair) -> bool {
        pair.manifest.taken_at.duration_since(self.now) > AHEAD
    }

    /// Whether one has to be taken before something is removed: there is none, or a damaged one is newer.
    #[must_use]
    pub fn needs_first(&self) -> bool {
        let latest =
            TimeZone::UTC.to_datetime(self.now.saturating_add(AHEAD).unwrap_or(Timestamp::MAX));
        let newest = self.newest().and_then(|pair| place_of(&pair.name));
        let is_newer = |(name, _): &(String, _)| {
            place_of(name).is_some_and(|place| Some(place) > newest && place.0 <= latest)
        };
        newest.is_none() || self.damaged.iter().any(is_newer)
    }
}

impl Shelf {
    /// The shelf of a store; nothing is created yet.
    #[must_use]
    pub fn of(store: &config::Store) -> Self {
        Self {
            folder: store.pairs.clone(),
            store: store.name.clone(),
            identity: Identity::of(store),
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

    /// Lists what is there at an instant. Files and folders of other names are nobody's business.
    ///
    /// # Errors
    ///
    /// When the folder is there and cannot be listed.
    pub fn list(&self, now: Timestamp) -> Result<Listing, SnapshotError> {
        let mut listing = Listing {
            now,
            ..Listing::default()
        };
        for name in self.names()? {
            if is_partial(&name) {
                match self.whose(&self.path(&name)) {
                    Whose::Ours | Whose::Nobodys => listing.partial.push(name),
                    Whose::Others(error) => listing.strange.push((name, error)),
                }
            } else if is_pair(&name) {
                self.sort_in(name, &mut listing);
            }
        }
        let age = |pair: &Pair| (pair.manifest.taken_at, place_of(&pair.name));
        listing.pairs.sort_by_key(age);
        listing.foreign.sort_by_key(|(pair, _)| age(pair));
        while let Some((name, error)) = self.unreadable(listing.newest()) {
            listing.pairs.retain(|pair| pair.name != name);
            listing.damaged.push((name, error));
        }
        listing.damaged.sort_by(|(a, _), (b, _)| a.cmp(b));
        listing.partial.sort();
        listing.strange.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(listing)
    }

    /// What is in the folder; nothing, where it is not there.
    fn names(&self) -> Result<Vec<String>, SnapshotError> {
        let doing = || SnapshotError::io(format!("list {}", self.folder.display()));
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(doing())?,
        };
        let mut names = Vec::new();
        for entry in entries {
            // What is not UTF-8 is no name of ours.
            names.extend(entry.map_err(doing())?.file_name().into_string());
        }
        Ok(names)
    }

    /// Puts a pair where it belongs in a listing.
    fn sort_in(&self, name: String, listing: &mut Listing) {
        let manifest = match self.read(&name) {
            Ok(manifest) => manifest,
            Err(error) => return listing.damaged.push((name, error)),
        };
        if let Err(error) = self.require_own(&manifest) {
            return listing.foreign.push((Pair { name, manifest }, error));
        }
        match self.require_files(&manifest) {
            Ok(()) => listing.pairs.push(Pair { name, manifest }),
            Err(error) => listing.damaged.push((name, error)),
        }
    }

    /// Refuses a pair of other stores than those that are configured.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::OtherStore`].
    pub fn require_own(&self, manifest: &Manifest) -> Result<(), SnapshotError> {
        let what = format!("{} is a pair", manifest.pair);
        self.require_same(&manifest.store, &manifest.identity, &what)
    }

    /// Refuses what is of another store than this; `what` says of what is so.
    pub(super) fn require_same(
        &self,
        store: &str,
        identity: &Identity,
        what: &str,
    ) -> Result<(), SnapshotError> {
        if store != self.store {
            return Err(SnapshotError::OtherStore(format!(
                "{what} of store {store:?}, not of {:?}",
                self.store
            )));
        }
        let changes = self.identity.changes_since(identity);
        if changes.is_empty() {
            return Ok(());
        }
        Err(SnapshotError::OtherStore(format!(
            "{what} of other stores: {}",
            changes.join("; ")
        )))
    }

    /// Refuses a pair whose files are not there, of another size than its manifest says, or no databases where they should
    /// be. The rest of their bytes is not read.
    fn require_files(&self, manifest: &Manifest) -> Result<(), SnapshotError> {
        for file in manifest.files() {
            let path = self.path(&manifest.pair).join(&file.name);
            let found = durable::open_plain(&path)
                .and_then(|file| file.metadata())
                .map_err(SnapshotError::io(format!("look at {}", path.display())))?;
            if found.len() != file.bytes {
                return Err(SnapshotError::Damaged(format!(
                    "{} has {} bytes, and the manifest says {}",
                    path.display(),
                    found.len(),
                    file.bytes
                )));
            }
        }
        for file in databases(manifest) {
            let path = self.path(&manifest.pair).join(file);
            let mut first = [0; DATABASE.len()];
            durable::open_plain(&path)
                .and_then(|mut file| file.read_exact(&mut first))
                .map_err(SnapshotError::io(format!("read {}", path.display())))?;
            if &first != DATABASE {
                return Err(SnapshotError::Damaged(format!(
                    "{} is no database",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// The name of a pair whose copies cannot be opened as what they are said to be, and why; `None` when they can.
    fn unreadable(&self, pair: Option<&Pair>) -> Option<(String, SnapshotError)> {
        let pair = pair?;
        let error = self.require_readable(&pair.manifest).err()?;
        Some((pair.name.clone(), error))
    }

    fn require_readable(&self, manifest: &Manifest) -> Result<(), SnapshotError> {
        let folder = self.path(&manifest.pair);
        for rows in &manifest.rows {
            let half = || SnapshotError::half(format!("rows of {} in it", rows.partition));
            let copy = database::open_copy(&folder.join(&rows.file.name)).map_err(half())?;
            if database::schema(&copy).map_err(half())? != rows.schema {
                return Err(SnapshotError::Damaged(format!(
                    "the schema of {} is not the one that the manifest says",
                    rows.file.name
                )));
            }
        }
        for file in databases_of_points(manifest) {
            database::open_copy(&folder.join(file)).map_err(SnapshotError::half("points in it"))?;
        }
        Ok(())
    }

    /// The pair of a name.
    ///
    /// # Errors
    ///
    /// When there is none, it cannot be looked at, or its manifest cannot be believed.
    pub fn find(&self, name: &str) -> Result<Pair, SnapshotError> {
        let path = self.path(name);
        let is_there = is_pair(name)
            && match fs::metadata(&path) {
                Ok(found) => found.is_dir(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => {
                    return Err(SnapshotError::io(format!("look at {}", path.display()))(
                        error,
                    ));
                }
            };
        if !is_there {
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

    /// Makes the folder of a new pair, under its hidden name. Answers the name that it will have: after every other of its
    /// second, whole or not, so that names are in the order in which pairs were taken.
    pub(super) fn begin(&self, now: Timestamp) -> Result<String, SnapshotError> {
        durable::create_dir(&self.folder).map_err(SnapshotError::io(format!(
            "create {}",
            self.folder.display()
        )))?;
        let second = now.strftime(SECOND).to_string();
        let first = place_of(&second).map(|(second, _)| second);
        let names = self.names()?;
        let places = names.iter().filter_map(|name| place_of(whole(name)));
        let of_second = places.filter(|(second, _)| Some(*second) == first);
        let mut number = of_second.map(|(_, number)| number).max().unwrap_or(0);
        loop {
            number += 1;
            let name = match number {
                1 => second.clone(),
                number => format!("{second}-{number}"),
            };
            let folder = self.hidden(&name);
            match self.make(&folder) {
                // Another configuration uses the folder, too: it has made this one, or dropped it while it was empty.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                    ) && self.folder.is_dir() => {}
                made => {
                    return made
                        .and_then(|()| durable::sync_dir(&self.folder))
                        .map_err(SnapshotError::io(format!("create {}", folder.display())))
                        .map(|()| name);
                }
            }
        }
    }

    /// Makes a folder that says for whom it is begun.
    fn make(&self, folder: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(folder)?;
        let claimed = self.claim(folder);
        if claimed.is_err() {
            // Nothing is in it that anybody needs.
            claim::remove(folder)?;
        }
        claimed
    }

    /// Gives a pair that is whole its name.
    pub(super) fn publish(&self, name: &str) -> Result<(), SnapshotError> {
        let (hidden, folder) = (self.path(&partial(name)), self.path(name));
        claim::settle(&hidden)
            .and_then(|()| durable::sync_dir(&hidden))
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
            self.remove(&hidden)?;
            fs::rename(self.path(name), &hidden)
                .and_then(|()| durable::sync_dir(&self.folder))
                .map_err(doing())?;
            hidden
        };
        hit(Failpoint::PairDropped)?;
        self.remove(&hidden)?;
        durable::sync_dir(&self.folder).map_err(doing())
    }

    /// Removes a hidden folder, unless another store has begun it.
    fn remove(&self, hidden: &Path) -> Result<(), SnapshotError> {
        let removed = match self.whose(hidden) {
            Whose::Ours => claim::remove(hidden),
            // Not if somebody has put something in it meanwhile.
            Whose::Nobodys => fs::remove_dir(hidden),
            Whose::Others(_) if !hidden.exists() => Ok(()),
            Whose::Others(error) => return Err(error),
        };
        removed.map_err(SnapshotError::io(format!("drop {}", hidden.display())))
    }
}

/// The files of a pair that are databases.
fn databases(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let rows = manifest.rows.iter().map(|rows| rows.file.name.as_str());
    rows.chain(databases_of_points(manifest))
}

fn databases_of_points(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let points = manifest.points.iter();
    points
        .filter(|points| points.backend == "sqlite")
        .flat_map(|points| points.files.iter().map(|file| file.name.as_str()))
}

fn partial(name: &str) -> String {
    format!(".{name}{PARTIAL}")
}

/// The name that a partial pair would have; any other name as it is.
fn whole(name: &str) -> &str {
    let inner = name.strip_prefix('.');
    inner
        .and_then(|name| name.strip_suffix(PARTIAL))
        .unwrap_or(name)
}

fn is_partial(name: &str) -> bool {
    let inner = whole(name);
    inner.len() < name.len() && is_pair(inner)
}

/// Whether a name is a pair's.
fn is_pair(name: &str) -> bool {
    place_of(name).is_some()
}

/// The second in a pair's name, and its number within that; `None` for other names.
fn place_of(name: &str) -> Option<(DateTime, u64)> {
    let (second, rest) = name.split_once('Z')?;
    let number = match rest.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        None if rest.is_empty() => 1,
        _ => return None,
    };
    let read = DateTime::strptime("%Y-%m-%dT%H-%M-%S", second).ok()?;
    (read.strftime("%Y-%m-%dT%H-%M-%S").to_string() == second).then_some((read, number))
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
        let shelf = shelf(dir.path());
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
        let listing = shelf.list(now).unwrap();
        assert_eq!((listing.pairs.len(), listing.partial.len()), (0, 3));
        // Whatever became of those before it, a later one has a later name.
        shelf.drop_pair(&listing.partial[0]).unwrap();
        for n in 4..=11 {
            let name = shelf.begin(now).unwrap();
            assert_eq!(name, format!("2026-11-30T03-00-00Z-{n}"));
        }
        assert!(place_of("2026-11-30T03-00-00Z-11") > place_of("2026-11-30T03-00-00Z-9"));
        for name in &shelf.list(now).unwrap().partial {
            shelf.drop_pair(name).unwrap();
        }
        assert_eq!(fs::read_dir(shelf.folder()).unwrap().count(), 0);
    }

    fn shelf(folder: &Path) -> Shelf {
        Shelf {
            folder: folder.join("agent"),
            store: "agent".into(),
            identity: Identity::default(),
        }
    }
}
