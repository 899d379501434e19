//! The row store: SQLite files of any schema, read through a mapping from columns to roles.
//!
//! A [`RowStore`] is one database file, or one per tenant; each file is a [`Partition`]. A [`Reader`] reads it without
//! leaving a trace, and every decision inside one [`Snapshot`]. A [`Writer`] changes only rows that are still exactly
//! as they were copied. Where the points are the rows, the file is a [`mirror`] of them. What a schema cascades, hypnos
//! removes itself: see `open` for why, `dependents` for how.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use crate::config;
use crate::stop::Stop;
use crate::store::MAIN;
use crate::store::sqlite::Access;

mod bound;
mod carry;
mod chains;
mod dependents;
mod edges;
mod error;
mod key;
pub mod log;
mod loose;
mod mapping;
mod marks;
pub mod mirror;
mod open;
mod owners;
mod reader;
mod refusal;
mod restore;
mod schema;
mod scrub;
mod snapshot;
mod source;
mod strays;
mod text_index;
pub mod time;
mod value;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{RowError, RowErrorKind};
pub use marks::{Change, Marks};
pub use owners::{OwnerBook, OwnerWatch, Standing};
pub use reader::Reader;
pub use restore::{Foreseen, LeftReason, LeftRow, Restored, Return, Takeover};
pub use snapshot::{Blocker, Census, Removals, Snapshot, Told};
pub use writer::{Fate, StillSo, Wanted, Writer};

use mapping::TENANT;
use mirror::Mirror;

/// Where the rows of a store are.
#[derive(Debug, Clone)]
pub struct RowStore {
    rows: Arc<config::Rows>,
    /// What stands for the one file where the points are the rows.
    mirror: Option<Arc<Mirror>>,
    /// Whether writers overwrite what they delete.
    erases: bool,
}

/// One row database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// `main`, or the tenant.
    pub name: Arc<str>,
    /// The file.
    pub path: PathBuf,
    /// Whose it is, in a store with one file per tenant.
    pub tenant: Option<Arc<str>>,
    /// Another tenant whose file is the same one, if [`RowStore::partitions`] found one: it is opened for neither.
    pub twin: Option<Arc<str>>,
}

impl RowStore {
    /// A store as it is configured.
    #[must_use]
    pub fn new(rows: &config::Rows) -> Self {
        Self {
            rows: Arc::new(rows.clone()),
            mirror: Mirror::new(rows, &Stop::default()).map(Arc::new),
            erases: false,
        }
    }

    /// The same store, whose points are read until a stop is requested.
    #[must_use]
    pub(in crate::store) fn until(self, stop: &Stop) -> Self {
        Self {
            mirror: Mirror::new(&self.rows, stop).map(Arc::new),
            ..self
        }
    }

    /// Where the points are the rows: lets them be read anew before anything else is decided on them.
    pub fn expire(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.expire();
        }
    }

    /// Checks that the mapping fits what points are mirrored into, without a look at the points; `None` where they are
    /// not the rows.
    pub(in crate::store) fn check_points(&self) -> Option<Result<(), RowError>> {
        self.mirror.as_ref()?;
        let empty = || {
            let conn = mirror::empty().map_err(RowError::sqlite("make an empty mirror"))?;
            // Not the partition of the mirror: where that is is not decided before there is a state.
            let partition = main_at(PathBuf::from(&self.rows.path));
            self.reader_of_copy(conn, &partition)?.explain()
        };
        Some(empty())
    }

    /// Reads the points, where they are the rows of this partition and were not read yet.
    fn read_mirror(&self, partition: &Partition) -> Result<(), RowError> {
        match &self.mirror {
            Some(mirror) if partition.path == mirror.path() => mirror.read(),
            _ => Ok(()),
        }
    }

    /// The same store, whose writers overwrite what they delete if `access` says so.
    #[must_use]
    pub(crate) fn written_with(self, access: Access) -> Self {
        Self {
            erases: access == Access::Erase,
            ..self
        }
    }

    /// Every row database, in order of name: the one file, or whatever stands where a tenant's file would, readable or
    /// not, so that one that cannot be opened is named and not forgotten.
    ///
    /// Names that are not UTF-8 are passed over: no namespace can spell them. Tenants that share one file (by a link)
    /// are all listed, each with another one as its twin.
    ///
    /// # Errors
    ///
    /// When the folder of the tenants is missing or cannot be listed; never an empty list instead.
    pub fn partitions(&self) -> Result<Vec<Partition>, RowError> {
        if !self.rows.is_per_tenant() {
            let main = self.main();
            self.read_mirror(&main)?;
            return Ok(vec![main]);
        }
        let Template {
            folder,
            prefix,
            suffix,
            ..
        } = Template::of(&self.rows.path);
        let doing = || RowError::io(format!("list the tenants in {}", folder.display()));
        let mut tenants = Vec::new();
        for entry in fs::read_dir(&folder).map_err(doing())? {
            let name = entry.map_err(doing())?.file_name();
            let tenant = name
                .to_str()
                .and_then(|name| name.strip_prefix(prefix))
                .and_then(|name| name.strip_suffix(suffix));
            tenants.extend(tenant.map(str::to_owned));
        }
        tenants.sort_unstable();
        let partitions = tenants.iter().filter_map(|tenant| self.partition(tenant));
        let mut partitions: Vec<Partition> = partitions.filter(|p| is_there(&p.path)).collect();
        find_twins(&mut partitions);
        Ok(partitions)
    }

    /// The row database of a tenant, whether it exists or not; the one file in a store without tenants. `None` for a
    /// name that no folder or file can have, such as `../x`.
    #[must_use]
    pub fn partition(&self, tenant: &str) -> Option<Partition> {
        if !self.rows.is_per_tenant() {
            return Some(self.main());
        }
        let is_name = !tenant.is_empty() && !tenant.contains(['/', '\0']);
        let template = Template::of(&self.rows.path);
        let component = format!("{}{tenant}{}", template.prefix, template.suffix);
        let is_special = component == "." || component == "..";
        let is_side_file = template.is_file
            && ["-wal", "-shm", "-journal"]
                .iter()
                .any(|side| component.ends_with(side));
        if !is_name || is_special || is_side_file {
            return None;
        }
        Some(Partition {
            name: tenant.into(),
            path: self.rows.path.replace(TENANT, tenant).into(),
            tenant: Some(tenant.into()),
            twin: None,
        })
    }

    /// Whether there is one file per tenant.
    #[must_use]
    pub fn is_per_tenant(&self) -> bool {
        self.rows.is_per_tenant()
    }

    /// Whether something is where the file of a tenant would be, or might be: only a clear no is a no.
    #[must_use]
    pub fn has_file(&self, tenant: &str) -> bool {
        self.partition(tenant)
            .is_some_and(|partition| is_there(&partition.path))
    }

    /// Opens a partition for reading.
    ///
    /// # Errors
    ///
    /// When it is missing, no database, locked, the file of two tenants, or its schema does not fit the mapping.
    pub fn reader(&self, partition: &Partition) -> Result<Reader, RowError> {
        require_own_file(partition)?;
        self.read_mirror(partition)?;
        Reader::open(partition, Arc::clone(&self.rows))
    }

    /// Reads a copy of a partition, which `conn` is connected to.
    ///
    /// # Errors
    ///
    /// When its schema does not fit the mapping.
    pub fn reader_of_copy(
        &self,
        conn: Connection,
        partition: &Partition,
    ) -> Result<Reader, RowError> {
        Reader::over(conn, partition, Arc::clone(&self.rows))
    }

    /// Opens a partition for writing.
    ///
    /// # Errors
    ///
    /// As [`Self::reader`]; also when a statement that would write cannot be compiled.
    pub fn writer(&self, partition: &Partition) -> Result<Writer, RowError> {
        require_own_file(partition)?;
        self.read_mirror(partition)?;
        let access = if self.erases {
            Access::Erase
        } else {
            Access::Write
        };
        Writer::open(partition, Arc::clone(&self.rows), access)
    }

    /// The one row database of a store without tenants.
    #[must_use]
    pub fn main(&self) -> Partition {
        let mirror = self.mirror.as_ref().map(|mirror| mirror.path());
        main_at(mirror.unwrap_or_else(|| PathBuf::from(&self.rows.path)))
    }
}

fn main_at(path: PathBuf) -> Partition {
    Partition {
        name: MAIN.into(),
        path,
        tenant: None,
        twin: None,
    }
}

/// A path with a tenant in it, taken apart at the component that names the tenant.
struct Template<'a> {
    folder: PathBuf,
    prefix: &'a str,
    suffix: &'a str,
    /// Whether the component is the database file itself, and no folder.
    is_file: bool,
}

impl<'a> Template<'a> {
    fn of(path: &'a str) -> Self {
        let (before, after) = path.split_once(TENANT).unwrap_or((path, ""));
        let (folder, prefix) = before.rsplit_once('/').unwrap_or((".", before));
        Self {
            folder: PathBuf::from(if folder.is_empty() { "/" } else { folder }),
            prefix,
            suffix: after.split_once('/').map_or(after, |(suffix, _)| suffix),
            is_file: !after.contains('/'),
        }
    }
}

/// Names the twin of each partition whose file is that of another one, too: through a linked folder, a linked file or
/// a mount. The files are not opened, see [`crate::store::sqlite`].
fn find_twins(partitions: &mut [Partition]) {
    let mut by_file: HashMap<(u64, u64), usize> = HashMap::new();
    for index in 0..partitions.len() {
        let Ok(file) = fs::metadata(&partitions[index].path) else {
            continue;
        };
        let first = *by_file.entry((file.dev(), file.ino())).or_insert(index);
        if first != index {
            partitions[index].twin = Some(Arc::clone(&partitions[first].name));
            partitions[first].twin = Some(Arc::clone(&partitions[index].name));
        }
    }
}

fn require_own_file(partition: &Partition) -> Result<(), RowError> {
    match &partition.twin {
        Some(tenant) => Err(RowError::Shared {
            tenant: Arc::clone(tenant),
        }),
        None => Ok(()),
    }
}

/// Whether something is at the path, or might be: only a clear no is a no.
fn is_there(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    }
}
