//! Where something of a namespace can be.

use std::sync::Arc;

use crate::config::{self, Backend};
use crate::engine;
use crate::error::Failure;
use crate::memory::Namespace;
use crate::pass::erasure;
use crate::state::Partition;
use crate::store::{MAIN, Stores, place};
use crate::view::View;

use super::{Erased, failed};

/// A state file that may know of a namespace.
pub(super) struct Place {
    name: Arc<str>,
    per_tenant: bool,
}

impl Place {
    pub(super) fn as_partition(&self) -> Partition<'_> {
        place(&self.name, self.per_tenant)
    }
}

/// The main state file, and that of the tenant.
pub(super) fn places(
    stores: &Stores,
    view: &View<'_>,
    namespace: &Namespace,
) -> Result<Vec<Place>, Failure> {
    let mut places = vec![Place {
        name: MAIN.into(),
        per_tenant: false,
    }];
    if !stores.config.rows.is_per_tenant() {
        return Ok(places);
    }
    let files = erasure::files(view, namespace).map_err(|error| failed(&error))?;
    let mut names: Vec<Arc<str>> = files.into_iter().map(|file| file.name).collect();
    // The file may have gone before its state.
    let tenants = stores.state.tenants().map_err(engine::state_failure)?;
    names.extend(tenants.names.into_iter().filter_map(|tenant| {
        let name = stores.config.rows.namespace.replace("{tenant}", &tenant);
        let known = Namespace::parse(&name)?;
        (known.normal() == namespace.normal()).then(|| tenant.into())
    }));
    names.sort();
    names.dedup();
    places.extend(names.into_iter().map(|name| Place {
        name,
        per_tenant: true,
    }));
    Ok(places)
}

/// Names what restores have kept aside of the files of a namespace.
pub(super) fn kept_aside(
    store: &config::Store,
    view: &View<'_>,
    namespace: &Namespace,
    erased: &mut Erased,
) -> Result<(), Failure> {
    if !store.rows.are_points() {
        for file in erasure::files(view, namespace).map_err(|error| failed(&error))? {
            erased.kept_aside(&file.path);
        }
    }
    if let Some(Backend::Sqlite(table)) = store.vectors.as_ref().map(|it| &it.backend) {
        erased.kept_aside(&table.path);
    }
    Ok(())
}

pub(super) fn rows_place(view: &View<'_>, namespace: &Namespace) -> Result<String, Failure> {
    let files = erasure::files(view, namespace).map_err(|error| failed(&error))?;
    let paths: Vec<String> = files
        .iter()
        .map(|file| file.path.display().to_string())
        .collect();
    Ok(paths.join(", "))
}

/// The collection of the points that list memories; empty where there is none.
pub(super) fn entities_place(store: &config::Store) -> String {
    let links = store.links.as_ref();
    links.map_or_else(String::new, |links| {
        format!("collection {}", links.points.collection)
    })
}

pub(super) fn points_place(store: &config::Store) -> String {
    match store.vectors.as_ref().map(|vectors| &vectors.backend) {
        None => String::new(),
        Some(Backend::Sqlite(table)) => table.path.display().to_string(),
        Some(Backend::Qdrant(server)) => format!("collection {}", server.collection),
    }
}
