//! All collections of one peer, in one directory.
//!
//! ```text
//! aliases.json
//! collections/NAME/config.pb   the config as reported, written last
//! collections/NAME/shard/      the engine's files
//! snapshots/NAME/              its snapshots and their checksums
//! unpacking/                   a snapshot on its way back to a collection
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use std::{fs, thread};

use qdrant_client::qdrant::{CollectionConfig, StrictModeConfig, UpdateResult, UpdateStatus};
use qdrant_edge::UpdateOperation;

use crate::Cluster;
use crate::collection::Collection;
use crate::convert::vector::Form;
use crate::durable;
use crate::error::{
    Answer, collection_exists, internal, invalid_field, no_collection, wrong_input,
};
use crate::faults::Faults;

/// How long a delete waits for the readers of a collection.
const READERS_LEAVE: Duration = Duration::from_secs(5);

/// What of the options the handlers need.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) version: String,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) strict_mode: Option<StrictModeConfig>,
    pub(crate) form: Form,
}

#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) faults: Faults,
    collections: RwLock<BTreeMap<String, Arc<Collection>>>,
    aliases: RwLock<BTreeMap<String, String>>,
}

impl Store {
    /// Opens all that is in `dir`. What a crash left half made is removed.
    pub(crate) fn open(dir: &Path, settings: Settings, faults: Faults) -> Answer<Self> {
        let store = Self {
            dir: dir.to_owned(),
            settings,
            faults,
            collections: RwLock::default(),
            aliases: RwLock::default(),
        };
        fs::create_dir_all(store.collections_dir()).map_err(internal)?;
        let left_over = fs::remove_dir_all(store.unpacking_dir());
        drop(left_over);
        for entry in fs::read_dir(store.collections_dir()).map_err(internal)? {
            let path = entry.map_err(internal)?.path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            match Collection::open(&path)? {
                Some(collection) => {
                    store.collections_mut().insert(name, Arc::new(collection));
                }
                None => fs::remove_dir_all(&path).map_err(internal)?,
            }
        }
        if let Ok(bytes) = fs::read(store.aliases_file()) {
            *store.aliases_mut() = serde_json::from_slice(&bytes).map_err(internal)?;
        }
        Ok(store)
    }

    /// The collection of that name or alias.
    pub(crate) fn collection(&self, name: &str) -> Answer<Arc<Collection>> {
        let real = self.real_name(name);
        self.collections()
            .get(&real)
            .cloned()
            .ok_or_else(|| no_collection(&real))
    }

    /// What an alias stands for; any other name stands for itself.
    pub(crate) fn real_name(&self, name: &str) -> String {
        self.aliases()
            .get(name)
            .cloned()
            .unwrap_or_else(|| name.to_owned())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.collections().keys().cloned().collect()
    }

    pub(crate) fn create(&self, name: &str, config: CollectionConfig) -> Answer<()> {
        check_name(name)?;
        if self.aliases().contains_key(name) {
            return Err(wrong_input(format!(
                "Can't create collection with name {name}. Alias with the same name already exists"
            )));
        }
        let mut collections = self.collections_mut();
        if collections.contains_key(name) {
            return Err(collection_exists(name));
        }
        let collection = Collection::create(&self.collections_dir().join(name), config)?;
        collections.insert(name.to_owned(), Arc::new(collection));
        Ok(())
    }

    /// Removes a collection and its aliases. Returns whether there was one.
    pub(crate) fn delete(&self, name: &str) -> Answer<bool> {
        let Some(collection) = self.collections_mut().remove(name) else {
            return Ok(false);
        };
        self.change_aliases(|aliases| aliases.retain(|_, target| target != name))?;
        alone(collection)?.remove().map_err(internal)?;
        Ok(true)
    }

    /// Makes the collection `name`, or the one that the alias stands for, what `archive` holds.
    pub(crate) fn recover(&self, name: &str, archive: &Path) -> Answer<()> {
        check_name(name)?;
        let name = self.real_name(name);
        let unpacking = self.unpacking_dir();
        fs::create_dir_all(&unpacking).map_err(internal)?;
        let unpacked = tempfile::tempdir_in(&unpacking).map_err(internal)?;
        let config = Collection::unpack(archive, unpacked.path())?;
        let mut collections = self.collections_mut();
        if let Some(present) = collections.get(&name) {
            check_same_vectors(&present.config(), &config)?;
        }
        if let Some(present) = collections.remove(&name) {
            alone(present)?.remove().map_err(internal)?;
        }
        let dir = self.collections_dir().join(&name);
        fs::rename(unpacked.keep(), &dir).map_err(internal)?;
        let recovered =
            Collection::open(&dir)?.ok_or_else(|| internal("the snapshot holds no collection"))?;
        collections.insert(name, Arc::new(recovered));
        Ok(())
    }

    /// Every alias with its collection.
    pub(crate) fn all_aliases(&self) -> BTreeMap<String, String> {
        self.aliases().clone()
    }

    /// Changes the aliases and saves them.
    pub(crate) fn change_aliases(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Answer<()> {
        let mut aliases = self.aliases_mut();
        let mut changed = aliases.clone();
        change(&mut changed);
        if changed != *aliases {
            let bytes = serde_json::to_vec(&changed).map_err(internal)?;
            durable::write(&self.aliases_file(), &bytes).map_err(internal)?;
            *aliases = changed;
        }
        Ok(())
    }

    /// Makes a change for `method` and says how far it got.
    pub(crate) fn write(
        &self,
        method: &str,
        collection: &Arc<Collection>,
        wait: Option<bool>,
        operation: UpdateOperation,
    ) -> Answer<UpdateResult> {
        if self.faults.acknowledges_only(method) {
            return Ok(result(
                collection.hold(operation),
                UpdateStatus::Acknowledged,
            ));
        }
        if wait != Some(true) {
            let number = collection.hold(operation);
            let collection = Arc::clone(collection);
            drop(tokio::task::spawn_blocking(move || collection.settle()));
            return Ok(result(number, UpdateStatus::Acknowledged));
        }
        let number = collection.apply(operation)?;
        Ok(result(number, UpdateStatus::Completed))
    }

    /// Makes every change that was acknowledged only.
    pub(crate) fn settle(&self) {
        let all: Vec<_> = self.collections().values().cloned().collect();
        for collection in all {
            collection.settle();
        }
    }

    fn collections_dir(&self) -> PathBuf {
        self.dir.join("collections")
    }

    /// Where the snapshots of a collection of exactly that name are.
    pub(crate) fn snapshots_dir(&self, name: &str) -> PathBuf {
        self.dir.join("snapshots").join(name)
    }

    fn unpacking_dir(&self) -> PathBuf {
        self.dir.join("unpacking")
    }

    fn aliases_file(&self) -> PathBuf {
        self.dir.join("aliases.json")
    }

    fn collections(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Collection>>> {
        self.collections
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn collections_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<Collection>>> {
        self.collections
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn aliases(&self) -> RwLockReadGuard<'_, BTreeMap<String, String>> {
        self.aliases.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn aliases_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, String>> {
        self.aliases.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn result(number: u64, status: UpdateStatus) -> UpdateResult {
    UpdateResult {
        operation_id: Some(number),
        status: status.into(),
    }
}

/// The collection, once its last reader has left.
fn alone(mut collection: Arc<Collection>) -> Answer<Collection> {
    let pause = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        match Arc::try_unwrap(collection) {
            Ok(alone) => return Ok(alone),
            Err(_) if waited >= READERS_LEAVE => {
                return Err(internal("the collection is still being read"));
            }
            Err(shared) => collection = shared,
        }
        thread::sleep(pause);
        waited += pause;
    }
}

/// A snapshot replaces the points of a collection, not what a point is.
fn check_same_vectors(present: &CollectionConfig, snapshot: &CollectionConfig) -> Answer<()> {
    let vectors = |config: &CollectionConfig| {
        let params = config.params.clone().unwrap_or_default();
        (params.vectors_config, params.sparse_vectors_config)
    };
    let (present, snapshot) = (vectors(present), vectors(snapshot));
    if present == snapshot {
        return Ok(());
    }
    Err(wrong_input(format!(
        "Snapshot is not compatible with existing collection: Collection vectors: {present:?} Snapshot Vectors: {snapshot:?}"
    )))
}

/// The names the server takes. Each becomes a directory.
fn check_name(name: &str) -> Answer<()> {
    let field = "collection_name";
    if name.is_empty() || name.len() > 255 {
        let problem = format!("value \"{name}\" invalid, must be from 1 to 255 characters");
        return Err(invalid_field(field, problem));
    }
    if name == "." || name == ".." {
        return Err(invalid_field(
            field,
            "collection name cannot be \".\" or \"..\"",
        ));
    }
    let forbidden = ['<', '>', ':', '"', '/', '\\', '|', '?', '*', '\0', '\u{1f}'];
    match name.chars().find(|char| forbidden.contains(char)) {
        Some(char) => Err(invalid_field(
            field,
            format!("collection name cannot contain \"{char}\" char"),
        )),
        None => Ok(()),
    }
}
