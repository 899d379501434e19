//! The view: what a pass may see. It has no method that writes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::config::{self, Backend};
use crate::guard::Census;
use crate::memory::{MemoryId, Namespace, PointId, Version};
use crate::pass::{Cx, PassError, PassName};
use crate::plan::{Plan, Sighting, Unread};
use crate::snapshot::{Pair, Shelf, SnapshotError, current};
use crate::state::{self, Compared, Gone, NamespaceHash, StateError, StateReader};
use crate::stop::Stop;
use crate::store::files::{StoreFile, same_file};
use crate::store::linked::{self, Entity};
use crate::store::rows::log::Logged;
use crate::store::rows::{self, OwnerBook, Partition, Reader, RowError, Snapshot, Standing};
use crate::store::space::{self, Space, SpaceError};
use crate::store::vectors::{VectorError, VectorReader};
use crate::store::{Listing, Stores};

/// When each absent thing was first seen.
pub type Sightings = BTreeMap<Sighting, Timestamp>;

/// The state of one row database file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Rows of the table of memories.
    pub memories: u64,
    /// Its journal mode, in lower case.
    pub journal_mode: String,
    /// The first damage that was found.
    pub damage: Option<String>,
    /// Rows of any table but that of the points that violate a foreign key; `None` when a key does not fit its parent
    /// table.
    pub foreign_key_violations: Option<u64>,
}

/// What the state file knows of the last hours.
#[derive(Debug, Default)]
pub struct Recent {
    /// How many memories a pass has removed, by namespace.
    pub removed: BTreeMap<NamespaceHash, u64>,
    /// Memories that others were folded into.
    pub survivors: BTreeSet<MemoryId>,
}

/// One store, read-only, at one instant.
pub struct View<'a> {
    now: Timestamp,
    stores: &'a Stores,
    sightings: &'a Sightings,
    gone: Option<&'a Going>,
    /// Whether an earlier pass of the same dry run would change something.
    is_changing: bool,
    /// Whether an earlier pass of the same dry run would have had the first pair of the store taken.
    has_first_pair: bool,
}

/// Memories by row database and id.
pub type Going = HashSet<(Arc<str>, MemoryId)>;

impl<'a> View<'a> {
    /// Looks at a store as of `now`, knowing what earlier runs saw to be absent.
    #[must_use]
    pub fn new(now: Timestamp, stores: &'a Stores, sightings: &'a Sightings) -> Self {
        Self {
            now,
            stores,
            sightings,
            gone: None,
            is_changing: false,
            has_first_pair: false,
        }
    }

    /// The same view as it will be once `gone` has gone: what earlier passes of a dry run would have taken.
    #[must_use]
    pub fn without(self, gone: &'a Going) -> Self {
        Self {
            gone: Some(gone),
            ..self
        }
    }

    /// The same view once an earlier pass of a dry run would have changed something, or not.
    #[must_use]
    pub fn changing(self, is_changing: bool) -> Self {
        Self {
            is_changing,
            ..self
        }
    }

    /// The same view once an earlier pass of a dry run would have had the first pair of the store taken, or not.
    #[must_use]
    pub fn paired(self, has_first_pair: bool) -> Self {
        Self {
            has_first_pair,
            ..self
        }
    }

    /// Whether an earlier pass of the same dry run would have had the first pair of the store taken.
    #[must_use]
    pub fn has_first_pair(&self) -> bool {
        self.has_first_pair
    }

    /// Whether an earlier pass of the same dry run would have taken a memory.
    #[must_use]
    pub fn is_gone(&self, partition: &Arc<str>, id: &MemoryId) -> bool {
        self.gone.is_some_and(|gone| {
            !gone.is_empty() && gone.contains(&(Arc::clone(partition), id.clone()))
        })
    }

    /// The instant that the plan is made for.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The name of the store.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.stores.name)
    }

    /// The configuration of the store.
    #[must_use]
    pub fn config(&self) -> &'a config::Store {
        &self.stores.config
    }

    /// When an earlier run first saw that a point is without its row or owner, every run since seeing the same.
    #[must_use]
    pub fn first_seen(&self, namespace: &Namespace, point: &PointId) -> Option<Timestamp> {
        let sighting = Sighting {
            namespace: namespace.clone(),
            point: point.clone(),
        };
        self.seen_since(&sighting)
    }

    /// When an earlier run first saw what is absent, every run since seeing the same.
    #[must_use]
    pub fn seen_since(&self, sighting: &Sighting) -> Option<Timestamp> {
        self.sightings.get(sighting).copied()
    }

    /// The vector store, if there is one.
    #[must_use]
    pub fn vectors(&self) -> Option<&'a dyn VectorReader> {
        self.stores
            .vectors
            .as_deref()
            .map(|vectors| vectors as &dyn VectorReader)
    }

    /// How alike two random memories look, as `measure` finds it; measured once in a run, so that all its passes judge by
    /// the same. `None` for a store without vectors, or with too few to tell.
    ///
    /// # Errors
    ///
    /// When the vector store cannot be read.
    pub fn background(
        &self,
        measure: impl FnOnce(&dyn VectorReader) -> Result<Option<f64>, VectorError>,
    ) -> Result<Option<f64>, VectorError> {
        match self.vectors() {
            Some(store) => self.stores.background(|| measure(store)),
            None => Ok(None),
        }
    }

    /// The points that list memories; `None` where the store has none, or not yet.
    ///
    /// # Errors
    ///
    /// When they cannot be read to the end.
    pub fn entities(&self) -> Result<Option<Vec<Entity>>, RowError> {
        self.stores.entities()
    }

    /// Those of some ids of which there is a point in the collection of the memories, be it one of another kind.
    ///
    /// # Errors
    ///
    /// When the vector store does not answer.
    pub fn any_points(
        &self,
        ids: BTreeSet<PointId>,
        stop: &Stop,
    ) -> Result<HashSet<PointId>, VectorError> {
        self.stores.any_points(ids, stop)
    }

    /// The memories that hypnos removed, as lists name them, with the hash of whose each was.
    ///
    /// # Errors
    ///
    /// When the state file cannot be read.
    pub fn removed(&self) -> Result<HashSet<(PointId, NamespaceHash)>, StateError> {
        let Some(state) = self.state()? else {
            return Ok(HashSet::new());
        };
        let removed = state.tombstones(Timestamp::MIN)?.into_iter();
        let of_memory = removed.filter_map(|stone| match stone.gone {
            Gone::Memory(memory) => Some((linked::point_of(&memory), stone.namespace?)),
            Gone::Point(_) => None,
        });
        Ok(of_memory.collect())
    }

    /// Visits what the application's log says last of each memory; nothing where there is no log.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn scan_log(&self, visit: &mut dyn FnMut(Logged)) -> Result<(), RowError> {
        match &self.config().log {
            Some(log) => rows::log::scan(log, visit),
            None => Ok(()),
        }
    }

    /// Who still exists; `None` when the store has no owners table.
    ///
    /// # Errors
    ///
    /// When the table cannot be read, or is empty.
    pub fn owners(&self) -> Result<Option<OwnerBook>, RowError> {
        self.stores.owners()
    }

    /// The row databases.
    ///
    /// # Errors
    ///
    /// When the folder of the tenants cannot be listed, or their owners cannot be read.
    pub fn partitions(&self) -> Result<Vec<Partition>, RowError> {
        Ok(self.stores.listing()?.files)
    }

    /// Every row database, those whose tenant the owners table does not know included.
    ///
    /// # Errors
    ///
    /// When the folder of the tenants cannot be listed.
    pub fn files(&self) -> Result<Vec<Partition>, RowError> {
        self.stores.rows.partitions()
    }

    /// Whether something is where the file of a tenant would be.
    #[must_use]
    pub fn has_file(&self, tenant: &str) -> bool {
        self.stores.rows.has_file(tenant)
    }

    /// What a pass has removed from one row database after an instant, by namespace, and which memories took over from
    /// others since then.
    ///
    /// # Errors
    ///
    /// When the state file cannot be read.
    pub fn recent(
        &self,
        partition: &Partition,
        pass: PassName,
        since: Timestamp,
    ) -> Result<Recent, StateError> {
        let Some(state) = self.stores.state.read(state_of(partition))? else {
            return Ok(Recent::default());
        };
        Ok(Recent {
            removed: state.removed_since(pass, since)?,
            survivors: state.survivors_since(since)?,
        })
    }

    /// The memories of one row database that hypnos hid after an instant, and when.
    ///
    /// # Errors
    ///
    /// When the state file cannot be read.
    pub fn hidden_since(
        &self,
        partition: &Partition,
        since: Timestamp,
    ) -> Result<HashMap<MemoryId, Timestamp>, StateError> {
        match self.stores.state.read(state_of(partition))? {
            Some(state) => state.hidden_since(since),
            None => Ok(HashMap::new()),
        }
    }

    /// The main state file, where the queue is; `None` when nothing was ever written down about the store.
    ///
    /// # Errors
    ///
    /// When it is damaged, or cannot be read.
    pub fn state(&self) -> Result<Option<StateReader>, StateError> {
        self.stores.state.read(state::Partition::Main)
    }

    /// Every SQLite file of the store, each once.
    ///
    /// # Errors
    ///
    /// When the folder of the tenants cannot be listed, or their owners cannot be read.
    pub fn store_files(&self) -> Result<Vec<StoreFile>, RowError> {
        self.stores.files()
    }

    /// Measures one SQLite file of the store, and the disk that it is on: its space, and the free bytes beside it.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn space(&self, file: &StoreFile) -> Result<(Space, u64), SpaceError> {
        let mut mapped = vec![self.config().rows.table.as_str()];
        if let Some(config::Backend::Sqlite(points)) = self
            .config()
            .vectors
            .as_ref()
            .map(|vectors| &vectors.backend)
        {
            mapped.push(&points.table);
        }
        Ok((
            space::measure(&file.path, &mapped)?,
            space::disk_free(&file.path)?,
        ))
    }

    /// Whether the stores are still as a pair describes them. What earlier passes of a dry run would change counts as
    /// changed.
    ///
    /// # Errors
    ///
    /// When they cannot be compared.
    pub fn is_current(
        &self,
        folder: &Shelf,
        pair: &Pair,
        cx: &Cx<'_>,
    ) -> Result<bool, SnapshotError> {
        Ok(!self.is_changing && current::is_current(self.stores, folder, pair, cx.stop)?)
    }

    /// Reads one row database.
    ///
    /// # Errors
    ///
    /// When it cannot be read to the end.
    pub fn read<T>(
        &self,
        partition: &Partition,
        read: impl FnOnce(&Snapshot) -> Result<T, RowError>,
    ) -> Result<T, RowError> {
        self.stores.rows.reader(partition)?.snapshot(read)
    }

    /// Looks at the file of one row database as a whole.
    ///
    /// # Errors
    ///
    /// When it cannot be read to the end.
    pub fn health(&self, partition: &Partition) -> Result<Health, RowError> {
        let reader = self.stores.rows.reader(partition)?;
        let census = reader.snapshot(Snapshot::census)?;
        Ok(Health {
            memories: census.by_namespace.values().sum::<u64>() + census.without_namespace,
            journal_mode: reader.journal_mode()?,
            damage: reader.integrity()?,
            foreign_key_violations: reader.foreign_key_check(self.points_in(partition))?,
        })
    }

    /// The table of the points, where it is in the file of the rows.
    fn points_in(&self, partition: &Partition) -> Option<&str> {
        match &self.config().vectors.as_ref()?.backend {
            Backend::Sqlite(table) if same_file(&table.path, &partition.path) => Some(&table.table),
            _ => None,
        }
    }

    /// Plans over one snapshot of each row database in turn, one open at a time.
    ///
    /// A tenant's file that cannot be read is named in `plan.unread`, and nothing of it is planned; when there is only
    /// one file, that is an error.
    ///
    /// # Errors
    ///
    /// When the files cannot be listed, the only one cannot be read, or a stop was requested.
    pub fn each_partition(
        &self,
        cx: &Cx<'_>,
        plan: &mut Plan,
        mut read: impl FnMut(&mut Plan, &Partition, &Snapshot) -> Result<(), RowError>,
    ) -> Result<(), PassError> {
        self.each_reader(cx, plan, |plan, partition, reader| {
            Ok(reader.snapshot(|snapshot| read(plan, partition, snapshot))?)
        })
    }

    /// The same, for passes that look at the vector store, or think for long, between two snapshots of a file: while one
    /// is open, a writer in the rollback journal modes waits.
    ///
    /// # Errors
    ///
    /// As [`Self::each_partition`]; also what `read` returns that is not about the files of one tenant.
    pub fn each_reader(
        &self,
        cx: &Cx<'_>,
        plan: &mut Plan,
        mut read: impl FnMut(&mut Plan, &Partition, &Reader) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        let Listing {
            files: partitions,
            strangers,
        } = self.stores.listing()?;
        plan.unread.extend(strangers);
        cx.progress.begin(
            &plan.store,
            plan.pass,
            "plan",
            Some(partitions.len() as u64),
        );
        for partition in &partitions {
            cx.check_stop()?;
            let reader = self.stores.rows.reader(partition).map_err(PassError::from);
            match reader.and_then(|reader| read(plan, partition, &reader)) {
                Ok(()) => {}
                Err(PassError::Rows(error)) if partition.tenant.is_some() => {
                    plan.unread.push(Unread::of_error(&partition.name, &error));
                }
                Err(PassError::State(error)) if partition.tenant.is_some() => {
                    plan.unread.push(Unread::of_error(&partition.name, &error));
                }
                Err(error) => return Err(error),
            }
            cx.progress.advance(1);
        }
        cx.progress.end();
        plan.unread.extend(self.missing(&partitions));
        Ok(())
    }

    /// What a pass has compared in one row database at these settings.
    ///
    /// # Errors
    ///
    /// When the state file cannot be read.
    pub fn compared(
        &self,
        partition: &Partition,
        pass: PassName,
        settings: Version,
    ) -> Result<Compared, StateError> {
        match self.stores.state.read(state_of(partition))? {
            Some(state) => state.compared(pass, settings),
            None => Ok(Compared::new()),
        }
    }

    /// Tenants whose file is not there, although something says that it was: their folder, or their state file.
    fn missing(&self, partitions: &[Partition]) -> Vec<Unread> {
        self.stores.missing_tenants(partitions)
    }

    /// Counts the store, for the guard.
    ///
    /// # Errors
    ///
    /// When a count cannot be had, or a stop was requested; tenants' files that cannot be read count nothing.
    pub fn census(&self, cx: &Cx<'_>, with_points: bool) -> Result<Census, PassError> {
        let mut census = Census::default();
        for partition in self.partitions()? {
            cx.check_stop()?;
            match self.read(&partition, Snapshot::census) {
                Ok(rows) => {
                    rows.by_namespace
                        .into_iter()
                        .for_each(|(ns, n)| *census.rows.entry(ns).or_default() += n);
                }
                Err(error) if partition.tenant.is_none() => return Err(error.into()),
                Err(_) => {}
            }
        }
        if with_points && self.config().rows.are_points() {
            // The points are counted as rows; beside them are those that list them.
            let entities = self.entities()?.unwrap_or_default();
            let lists = entities.iter().filter_map(|entity| entity.lists.as_ref());
            census.listed = lists.map(|list| list.len() as u64).sum();
        } else if let Some(vectors) = self.vectors().filter(|_| with_points) {
            let points = vectors.namespaces()?;
            census.points = points
                .iter()
                .filter_map(|(raw, n)| Some((Namespace::parse(raw)?, *n)))
                .collect();
        }
        census.gone = self.gone(census.rows.keys().chain(census.points.keys()));
        Ok(census)
    }

    /// Namespaces whose owner is known to be gone; none when the owners cannot be read, so that each is measured.
    fn gone<'n>(&self, namespaces: impl Iterator<Item = &'n Namespace>) -> BTreeSet<Namespace> {
        let Ok(Some(owners)) = self.owners() else {
            return BTreeSet::new();
        };
        let gone = |ns: &&Namespace| {
            matches!(
                owners.standing(ns),
                Standing::Deleted { .. } | Standing::Unknown
            )
        };
        namespaces.filter(gone).cloned().collect()
    }
}

/// The state that belongs to a row database.
fn state_of(partition: &Partition) -> state::Partition<'_> {
    match &partition.tenant {
        Some(tenant) => state::Partition::Tenant(tenant),
        None => state::Partition::Main,
    }
}
