//! The state files of one store, while a run works on it.

use crate::clock::Timestamp;
use crate::config;
use crate::failpoint::{Failpoint, Injected, hit};
use crate::pass::PassName;
use crate::plan::{Comparison, Unread};
use crate::state::{Deeds, Partition, State, StateDir, StateError, Tenants, Unaccounted};
use crate::stop::Stop;
use crate::store::identity::Identity;
use crate::store::place;

use super::{damaged, unfinished};

/// The state files of one store: the main one stays open, a tenant's is opened when it is needed.
pub struct States {
    dir: StateDir,
    main: State,
    stores: Identity,
    per_tenant: bool,
}

/// What pruning came to.
#[derive(Debug, Default)]
pub struct Pruned {
    /// State files of tenants that could not be pruned, and why.
    pub damaged: Vec<Unread>,
    /// Whether a stop was requested before the end.
    pub interrupted: bool,
}

impl States {
    /// Opens the main state file of a store, creating it if need be.
    ///
    /// # Errors
    ///
    /// When it cannot be opened or is not what it should be.
    pub fn open(dir: StateDir, store: &config::Store) -> Result<Self, StateError> {
        let stores = Identity::of(store);
        let main = dir.open(Partition::Main)?.for_stores(stores.clone());
        Ok(Self {
            dir,
            main,
            stores,
            per_tenant: store.rows.is_per_tenant(),
        })
    }

    /// The main state file.
    #[must_use]
    pub fn main(&self) -> &State {
        &self.main
    }

    /// The stores that intents are written for.
    pub(super) fn identity(&self) -> &Identity {
        &self.stores
    }

    /// Works on the state file of the row database that a plan calls `name`.
    pub(super) fn with<T, E: From<StateError>>(
        &self,
        name: &str,
        work: impl FnOnce(&State) -> Result<T, E>,
    ) -> Result<T, E> {
        self.at(place(name, self.per_tenant), work)
    }

    /// Works on the state file of a partition.
    pub(crate) fn at<T, E: From<StateError>>(
        &self,
        partition: Partition<'_>,
        work: impl FnOnce(&State) -> Result<T, E>,
    ) -> Result<T, E> {
        match partition {
            Partition::Main => work(&self.main),
            Partition::Tenant(_) => {
                work(&self.dir.open(partition)?.for_stores(self.stores.clone()))
            }
        }
    }

    /// Remembers what a pass has compared, so that it is not compared again as long as it stays as it was.
    ///
    /// # Errors
    ///
    /// When a state file cannot be read or written; what was known before stays.
    pub fn remember(&self, pass: PassName, compared: &[Comparison]) -> Result<(), StateError> {
        for Comparison {
            partition,
            settings,
            memories,
        } in compared
        {
            hit(Failpoint::ComparedBefore)?;
            self.with(partition, |state| {
                state.record_compared(pass, *settings, memories)
            })?;
            hit(Failpoint::ComparedWritten)?;
        }
        Ok(())
    }

    /// Drops what is too old to be undone from every state file; what could be erased text is overwritten. A tenant's
    /// file that cannot be written fails alone, and a stop leaves the rest to the next run.
    ///
    /// # Errors
    ///
    /// When the main state file cannot be written, or the folder cannot be listed.
    pub fn prune(&self, before: Timestamp, stop: &Stop) -> Result<Pruned, PruneError> {
        hit(Failpoint::PruneBefore)?;
        self.main.prune(before)?;
        let tenants = self.tenants()?;
        let mut pruned = Pruned {
            damaged: damaged(&tenants.damaged).collect(),
            interrupted: false,
        };
        for tenant in &tenants.names {
            if stop.is_requested() {
                pruned.interrupted = true;
                break;
            }
            hit(Failpoint::PruneTenant)?;
            let partition = Partition::Tenant(tenant);
            if let Err(error) = self.prune_tenant(partition, before) {
                pruned.damaged.push(unfinished(partition, error.advice()));
            }
        }
        hit(Failpoint::PruneDone)?;
        Ok(pruned)
    }

    fn prune_tenant(&self, partition: Partition<'_>, before: Timestamp) -> Result<(), StateError> {
        let state = self.dir.open(partition)?;
        state.prune(before)?;
        state.tidy().map(drop)
    }

    /// What the intents of every state file tell of a run, and whether every one could be read.
    ///
    /// # Errors
    ///
    /// When the main state file cannot be read, or the folder cannot be listed.
    pub(crate) fn deeds(&self, of: &Unaccounted) -> Result<(Deeds, bool), StateError> {
        let mut deeds = self.main.deeds(of)?;
        let tenants = self.tenants()?;
        let mut is_whole = tenants.damaged.is_empty();
        for tenant in &tenants.names {
            let state = self.dir.read(Partition::Tenant(tenant));
            match state.and_then(|state| state.map(|state| state.deeds(of)).transpose()) {
                Ok(theirs) => deeds.merge(theirs.unwrap_or_default()),
                // Replay has named it.
                Err(_) => is_whole = false,
            }
        }
        Ok((deeds, is_whole))
    }

    /// The tenants that have a state file.
    ///
    /// # Errors
    ///
    /// When the folder cannot be listed.
    pub fn tenants(&self) -> Result<Tenants, StateError> {
        self.dir.tenants()
    }
}

/// Why pruning stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// The main state file, or the folder.
    #[error(transparent)]
    State(#[from] StateError),
    /// A failpoint of a test.
    #[error(transparent)]
    Injected(#[from] Injected),
}
