//! The one way from the name of a row database to its file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::state;
use crate::store::Stores;
use crate::store::rows::{Partition, RowError};

/// The row databases of a store, as they were listed: those that are one file of two tenants know it.
pub(super) struct Files {
    by_tenant: Option<BTreeMap<Arc<str>, Partition>>,
    main: Partition,
}

/// Where the rows of a partition are.
pub(super) enum Home<'a> {
    /// In this file.
    File(&'a Partition),
    /// Nowhere: what a store with one file per tenant keeps for tenants without one.
    None,
    /// In a file that is not there.
    Missing,
}

impl Files {
    /// Lists the files of a store.
    pub(super) fn list(stores: &Stores) -> Result<Self, RowError> {
        let by_tenant = if stores.config.rows.is_per_tenant() {
            let listed = stores.rows.partitions()?.into_iter();
            Some(listed.map(|file| (Arc::clone(&file.name), file)).collect())
        } else {
            None
        };
        Ok(Self {
            by_tenant,
            main: stores.rows.main(),
        })
    }

    /// The file of a partition.
    pub(super) fn home(&self, partition: state::Partition<'_>) -> Home<'_> {
        match (&self.by_tenant, partition) {
            (None, state::Partition::Main) => Home::File(&self.main),
            (None, state::Partition::Tenant(_)) => Home::Missing,
            (Some(_), state::Partition::Main) => Home::None,
            (Some(files), state::Partition::Tenant(tenant)) => {
                files.get(tenant).map_or(Home::Missing, Home::File)
            }
        }
    }
}
