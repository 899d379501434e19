//! The two halves of a store: [`rows`] are the truth, [`vectors`] are derived from them.
//!
//! Removal order, everywhere: the points first (what is gone there cannot be retrieved any more), then the row, with
//! the pre-images of both in the state file before either is touched.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::config;
use crate::error::Failure;
use crate::exit::Exit;
use crate::memory::{Namespace, PointId};
use crate::plan::Unread;
use crate::snapshot::restore::{self, CutOff};
use crate::state::{self, StateDir};
use crate::stop::Stop;

mod anew;
pub mod apart;
mod composite;
pub mod copies;
pub mod database;
pub mod files;
pub mod identity;
pub mod image;
pub mod linked;
pub mod obstacles;
pub mod rows;
pub mod space;
pub mod sqlite;
mod steady;
pub mod swap;
pub mod traces;
pub mod vec0;
pub mod vectors;

use linked::{Entity, Linked};
use rows::{OwnerBook, OwnerWatch, Partition, RowError, RowErrorKind, RowStore, Standing};
use sqlite::Access;
use vectors::qdrant::QdrantVectors;
use vectors::{VectorError, VectorStore};

/// The name of the only row database of a store.
pub const MAIN: &str = "main";
/// What stands for a row database where a tenant has none; no tenant can be called that.
pub const NO_FILE: &str = "";

/// The state file that belongs to the row database which a plan calls `name`.
#[must_use]
pub fn place(name: &str, per_tenant: bool) -> state::Partition<'_> {
    state::Partition::of(name, per_tenant && name != NO_FILE)
}

/// The row databases of a store.
#[derive(Debug)]
pub struct Listing {
    /// Those to work on.
    pub files: Vec<Partition>,
    /// What stands where a tenant's would, and is named after nobody whom the owners table knows: a copy, most likely.
    /// Left alone.
    pub strangers: Vec<Unread>,
}

/// One configured store, opened.
pub struct Stores {
    /// Its name.
    pub name: Arc<str>,
    /// Its configuration.
    pub config: config::Store,
    /// The rows.
    pub rows: RowStore,
    /// The points; `None` for a store without vectors.
    pub vectors: Option<Box<dyn VectorStore>>,
    /// The points that list the memories; `None` for a store without.
    linked: Option<Linked>,
    /// How alike two random memories look, once that was measured.
    background: OnceLock<Option<f64>>,
    /// Where hypnos keeps its own files about it.
    pub state: StateDir,
}

impl Stores {
    /// Opens both halves and checks them against the configuration. Nothing is written.
    ///
    /// # Errors
    ///
    /// When a half is away, or is not what the configuration says; to be written, when its mapping is not confirmed. A
    /// tenant's file among many is not opened here: it fails alone, in each pass that reads it.
    pub fn open(
        config: &config::Store,
        state_dir: &Path,
        access: Access,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        if access != Access::Read {
            refuse_guess(config)?;
        }
        let state = StateDir::new(state_dir, &config.name);
        refuse_half_restored(&state)?;
        let rows = RowStore::new(&config.rows).written_with(access).until(stop);
        // What does not fit is named at once, in all three.
        let mut problems: Vec<Failure> = Vec::new();
        problems.extend(check_rows(&rows, config, access).err());
        problems.extend(check_owners(config).err());
        let vectors = match config
            .vectors
            .as_ref()
            .map(|vectors| open_vectors(vectors, access, stop))
        {
            None => None,
            Some(Ok(vectors)) => Some(vectors),
            Some(Err(problem)) => {
                problems.push(problem);
                None
            }
        };
        if let Some(problem) = Failure::of_all(&problems) {
            return Err(problem);
        }
        Ok(Self {
            name: config.name.as_str().into(),
            config: config.clone(),
            rows,
            vectors,
            linked: Linked::new(config, stop),
            background: OnceLock::new(),
            state,
        })
    }

    /// The rows alone, whether the vector store answers or not, and nothing checked: what does not fit is found when a
    /// row database is opened.
    #[must_use]
    pub fn rows_alone(config: &config::Store, state_dir: &Path) -> Self {
        Self {
            name: config.name.as_str().into(),
            config: config.clone(),
            rows: RowStore::new(&config.rows),
            vectors: None,
            linked: None,
            background: OnceLock::new(),
            state: StateDir::new(state_dir, &config.name),
        }
    }

    /// Lets everything that was mirrored be read anew before anything else is decided on it.
    pub fn expire(&self) {
        self.rows.expire();
        self.expire_entities();
    }

    /// Lets the points that list memories be read anew.
    pub fn expire_entities(&self) {
        if let Some(linked) = &self.linked {
            linked.expire();
        }
    }

    /// How alike two random memories look, as it is measured first: whoever judges by it while the stores are open judges
    /// by the same, whatever goes meanwhile.
    ///
    /// # Errors
    ///
    /// When it cannot be measured; then it is measured when it is asked for again.
    pub fn background(
        &self,
        measure: impl FnOnce() -> Result<Option<f64>, VectorError>,
    ) -> Result<Option<f64>, VectorError> {
        if let Some(background) = self.background.get() {
            return Ok(*background);
        }
        let background = measure()?;
        Ok(*self.background.get_or_init(|| background))
    }

    /// The points that list memories; `None` where the store has none, or not yet.
    ///
    /// # Errors
    ///
    /// When they cannot be read to the end.
    pub fn entities(&self) -> Result<Option<Vec<Entity>>, RowError> {
        self.linked.as_ref().map_or(Ok(None), Linked::read)
    }

    /// Those of some ids of which there is a point in the collection of the memories, where the points are the rows: one
    /// of another kind counts, and so does one of several.
    ///
    /// # Errors
    ///
    /// When the vector store does not answer.
    pub fn any_points(
        &self,
        ids: BTreeSet<PointId>,
        stop: &Stop,
    ) -> Result<HashSet<PointId>, VectorError> {
        let points = self.config.rows.points.as_deref();
        let Some(points) = points.filter(|_| !ids.is_empty()) else {
            return Ok(HashSet::new());
        };
        let ids: Vec<PointId> = ids.into_iter().collect();
        QdrantVectors::connect(points, "", stop.clone())?.present(&ids)
    }

    /// The collection of the points that list memories, to be written; `None` where the store has none, or not yet.
    ///
    /// # Errors
    ///
    /// When the vector store does not answer.
    pub fn lists(&self, stop: &Stop) -> Result<Option<QdrantVectors>, VectorError> {
        let Some(links) = &self.config.links else {
            return Ok(None);
        };
        match QdrantVectors::connect(&links.points, links.key.usual(), stop.clone()) {
            Ok(lists) => Ok(Some(lists)),
            // The application makes it with the first of them.
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Who still exists; `None` when the store has no owners table.
    ///
    /// # Errors
    ///
    /// When the table cannot be read, or is empty.
    pub fn owners(&self) -> Result<Option<OwnerBook>, RowError> {
        let Some(owners) = &self.config.owners else {
            return Ok(None);
        };
        OwnerBook::read(owners, Path::new(&self.config.rows.path)).map(Some)
    }

    /// The same, to be looked at again and again.
    ///
    /// # Errors
    ///
    /// As [`Self::owners`].
    pub fn watch_owners(&self) -> Result<Option<OwnerWatch>, RowError> {
        let Some(owners) = &self.config.owners else {
            return Ok(None);
        };
        OwnerWatch::begin(owners, Path::new(&self.config.rows.path)).map(Some)
    }

    /// The row databases. Where an owners table speaks for the tenants, only those that it knows are tenants: a folder
    /// such as `ana.bak` is a backup that nobody wants expired.
    ///
    /// # Errors
    ///
    /// When the folder of the tenants cannot be listed, or their owners cannot be read.
    pub fn listing(&self) -> Result<Listing, RowError> {
        let rows = &self.config.rows;
        let (mut files, mut strangers) = (self.rows.partitions()?, Vec::new());
        let speaks = |owners: &config::Owners| owners.scope == rows.scope();
        if rows.is_per_tenant() && self.config.owners.as_ref().is_some_and(speaks) {
            let owners = self.owners()?;
            files.retain(|file| {
                let namespace = Namespace::parse(&rows.namespace.replace("{tenant}", &file.name));
                let is_known = namespace.is_none_or(|namespace| {
                    owners
                        .as_ref()
                        .is_none_or(|owners| owners.standing(&namespace) != Standing::Unknown)
                });
                if !is_known {
                    strangers.push(Unread::new(
                        Arc::clone(&file.name),
                        "the owners table knows nobody of that name, so it is left alone: is it a copy? move it out of \
                         the folder of the tenants",
                    ));
                }
                is_known
            });
        }
        Ok(Listing { files, strangers })
    }

    /// Living owners whose file is not there, although something says that it was: its folder, or its state file.
    #[must_use]
    pub fn missing_tenants(&self, partitions: &[Partition]) -> Vec<Unread> {
        if !self.config.rows.is_per_tenant() {
            return Vec::new();
        }
        let Ok(Some(owners)) = self.owners() else {
            return Vec::new();
        };
        let known: HashSet<&str> = partitions
            .iter()
            .filter_map(|partition| partition.tenant.as_deref())
            .collect();
        let had_state = self.state.tenants().unwrap_or_default().names;
        let had_state: HashSet<&str> = had_state.iter().map(String::as_str).collect();
        let was_there = |tenant: &str| {
            let Some(partition) = self.rows.partition(tenant) else {
                return false;
            };
            let has_folder = partition.path.parent().is_some_and(Path::exists);
            self.config.rows.folder_is_per_tenant() && has_folder || had_state.contains(tenant)
        };
        owners
            .living()
            .into_iter()
            .filter(|owner| !known.contains(owner) && was_there(owner))
            .map(|owner| Unread::new(owner, "its file is missing"))
            .collect()
    }
}

/// Refuses a mapping that was proposed and that nobody has looked at: what it calls an owner may be anything.
fn refuse_guess(config: &config::Store) -> Result<(), Failure> {
    if config.confirmed {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Config,
        format!("open store {}: its mapping is a guess that nobody has confirmed", config.name),
    )
    .with_hint(
        "compare [store.rows] with the database, see what hypnos check and --dry-run make of it, and then set \
         confirmed = true",
    ))
}

/// Refuses stores of which one half may be restored and the other not.
fn refuse_half_restored(state: &StateDir) -> Result<(), Failure> {
    match restore::cut_off(state) {
        Ok(None) => Ok(()),
        Ok(Some(CutOff { pair, .. })) => Err(Failure::new(
            Exit::LeftOver,
            format!("open the stores: the restore of pair {pair} was cut off"),
        )
        .with_hint(
            "hypnos --run-now finishes it, or takes it back; hypnos snapshot cancel gives it up where nothing was replaced yet",
        )),
        Err(error) => Err(Failure::from(&error).while_doing("look for a restore that was cut off")),
    }
}

/// Checks the row databases, as far as there is one for all.
fn check_rows(rows: &RowStore, config: &config::Store, access: Access) -> Result<(), Failure> {
    if let Some(checked) = rows.check_points() {
        return checked
            .map_err(|error| Failure::from(&error).while_doing("check the mapping of the points"));
    }
    let partitions = rows
        .partitions()
        .map_err(|error| Failure::from(&error).while_doing("open the row store"))?;
    if config.rows.is_per_tenant() {
        return Ok(());
    }
    for partition in &partitions {
        check(rows, partition, access).map_err(|error| {
            Failure::from(&error).while_doing(&format!("open {}", partition.path.display()))
        })?;
    }
    Ok(())
}

/// Checks that the owners table is the one that the configuration names. Whether it can be read, and names anybody, is
/// asked again by every pass that rests on it.
fn check_owners(config: &config::Store) -> Result<(), Failure> {
    let Some(owners) = &config.owners else {
        return Ok(());
    };
    match OwnerBook::read(owners, Path::new(&config.rows.path)) {
        Err(error) if error.kind() == RowErrorKind::Schema => {
            Err(Failure::from(&error).while_doing("read the owners"))
        }
        _ => Ok(()),
    }
}

fn open_vectors(
    config: &config::Vectors,
    access: Access,
    stop: &Stop,
) -> Result<Box<dyn VectorStore>, Failure> {
    vectors::open(config, access, stop)
        .and_then(|store| store.describe().map(|_| store))
        .map_err(|error| Failure::from(&error).while_doing("open the vector store"))
}

/// Opens one row database and checks every statement that will run on it.
fn check(rows: &RowStore, partition: &Partition, access: Access) -> Result<(), RowError> {
    match access {
        // A dry run must find what would keep the run from writing.
        Access::Read => rows.reader(partition)?.explain(),
        Access::Write | Access::Erase => rows.writer(partition).map(drop),
    }
}
