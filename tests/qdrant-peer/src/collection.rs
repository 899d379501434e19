//! One collection: an engine shard, its config, and the writes it has acknowledged but not made.
//!
//! The engine logs a write ahead but replays nothing when it is loaded, so every write is flushed before it is answered.
//! Its flush must not meet a write: one writer at a time, readers never wait.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::{fs, io};

use prost::Message as _;
use qdrant_client::qdrant::{CollectionConfig, StrictModeConfig};
use qdrant_edge::{EdgeShard, ShardInfo, UpdateOperation};

use crate::convert::config::engine_config;
use crate::durable;
use crate::error::{Answer, from_engine, internal};

const CONFIG_FILE: &str = "config.pb";
const SHARD_DIR: &str = "shard";

#[derive(Debug)]
pub(crate) struct Collection {
    dir: PathBuf,
    shard: EdgeShard,
    config: RwLock<CollectionConfig>,
    held: Mutex<Vec<UpdateOperation>>,
    writer: Mutex<()>,
    operations: AtomicU64,
}

impl Collection {
    /// Makes a new collection in the empty or missing directory `dir`. Its config is written last and makes it exist.
    pub(crate) fn create(dir: &Path, config: CollectionConfig) -> Answer<Self> {
        let engine = engine_config(&config)?;
        let shard_dir = dir.join(SHARD_DIR);
        fs::create_dir_all(&shard_dir).map_err(internal)?;
        let shard = EdgeShard::new(&shard_dir, engine).map_err(from_engine)?;
        shard.flush();
        save_config(dir, &config).map_err(internal)?;
        Ok(Self::new(dir, shard, config))
    }

    /// Opens what [`Collection::create`] made, `None` if it never finished.
    pub(crate) fn open(dir: &Path) -> Answer<Option<Self>> {
        let bytes = match fs::read(dir.join(CONFIG_FILE)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(internal(error)),
        };
        let config = CollectionConfig::decode(bytes.as_slice()).map_err(internal)?;
        let shard = EdgeShard::load(&dir.join(SHARD_DIR), None).map_err(from_engine)?;
        Ok(Some(Self::new(dir, shard, config)))
    }

    fn new(dir: &Path, shard: EdgeShard, config: CollectionConfig) -> Self {
        Self {
            dir: dir.to_owned(),
            shard,
            config: RwLock::new(config),
            held: Mutex::default(),
            writer: Mutex::default(),
            operations: AtomicU64::new(0),
        }
    }

    /// Writes the config and the engine's files to a tar archive, all as of one moment. Readers go on.
    pub(crate) fn archive<W: Write>(&self, out: W) -> io::Result<W> {
        let _writer = lock(&self.writer);
        self.make_held();
        self.shard.flush();
        let mut tar = tar::Builder::new(out);
        tar.append_path_with_name(self.dir.join(CONFIG_FILE), CONFIG_FILE)?;
        tar.append_dir_all(SHARD_DIR, self.dir.join(SHARD_DIR))?;
        tar.into_inner()
    }

    /// Unpacks what [`Collection::archive`] wrote into the empty directory `dir`, and returns the config.
    pub(crate) fn unpack(archive: &Path, dir: &Path) -> Answer<CollectionConfig> {
        let file = fs::File::open(archive).map_err(internal)?;
        tar::Archive::new(file)
            .unpack(dir)
            .map_err(|error| internal(format!("File IO error: {error}")))?;
        let bytes = fs::read(dir.join(CONFIG_FILE)).map_err(internal)?;
        CollectionConfig::decode(bytes.as_slice()).map_err(internal)
    }

    /// Closes the engine and removes the files.
    pub(crate) fn remove(self) -> io::Result<()> {
        let dir = self.dir.clone();
        fs::remove_file(dir.join(CONFIG_FILE))?;
        drop(self);
        fs::remove_dir_all(dir)
    }

    /// The engine, for reading.
    pub(crate) fn shard(&self) -> &EdgeShard {
        &self.shard
    }

    pub(crate) fn info(&self) -> ShardInfo {
        self.shard.info()
    }

    pub(crate) fn config(&self) -> CollectionConfig {
        self.config
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The strict mode, if it is enabled.
    pub(crate) fn strict_mode(&self) -> Option<StrictModeConfig> {
        self.config()
            .strict_mode_config
            .filter(|mode| mode.enabled == Some(true))
    }

    /// Changes the config as it is reported, and saves it.
    pub(crate) fn change_config(
        &self,
        change: impl FnOnce(&mut CollectionConfig),
    ) -> io::Result<()> {
        let mut config = self.config.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut config);
        save_config(&self.dir, &config)
    }

    /// Makes a change, after those that are held, and returns its number.
    pub(crate) fn apply(&self, operation: UpdateOperation) -> Answer<u64> {
        let writer = lock(&self.writer);
        self.make_held();
        let result = self.shard.update(operation).map_err(from_engine);
        self.shard.flush();
        drop(writer);
        result.map(|()| self.next_number())
    }

    /// Takes note of a change, and returns its number.
    pub(crate) fn hold(&self, operation: UpdateOperation) -> u64 {
        lock(&self.held).push(operation);
        self.next_number()
    }

    /// Makes every held change.
    pub(crate) fn settle(&self) {
        let _writer = lock(&self.writer);
        if self.make_held() {
            self.shard.flush();
        }
    }

    /// Whoever was told `Acknowledged` hears of no error.
    fn make_held(&self) -> bool {
        let held = std::mem::take(&mut *lock(&self.held));
        let any = !held.is_empty();
        for operation in held {
            drop(self.shard.update(operation));
        }
        any
    }

    fn next_number(&self) -> u64 {
        self.operations.fetch_add(1, Ordering::Relaxed)
    }
}

fn save_config(dir: &Path, config: &CollectionConfig) -> io::Result<()> {
    durable::write(&dir.join(CONFIG_FILE), &config.encode_to_vec())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
