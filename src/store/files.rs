//! The SQLite files of a store as files: what passes over whole databases work on.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::Backend;
use crate::store::rows::{Partition, RowError};
use crate::store::{MAIN, Stores};

/// Which half of a store something is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// The rows.
    Rows,
    /// The points.
    Vectors,
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "rows",
            Self::Vectors => "vectors",
        })
    }
}

/// One SQLite file of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// What it holds; a file that holds both halves is one of rows.
    pub half: Half,
    /// `main`, or the tenant.
    pub partition: Arc<str>,
    /// Where it is.
    pub path: PathBuf,
}

impl Stores {
    /// Every SQLite file of the store, each once: the row databases, then that of the points. None where points are the
    /// rows: their mirror is hypnos' own.
    ///
    /// # Errors
    ///
    /// When the folder of the tenants cannot be listed, or their owners cannot be read.
    pub fn files(&self) -> Result<Vec<StoreFile>, RowError> {
        let of_rows = |partition: Partition| StoreFile {
            half: Half::Rows,
            partition: partition.name,
            path: partition.path,
        };
        if self.config.rows.are_points() {
            return Ok(Vec::new());
        }
        let mut files: Vec<StoreFile> = self.listing()?.files.into_iter().map(of_rows).collect();
        if let Some(path) = self.points_file() {
            let is_listed = files.iter().any(|file| same_file(&file.path, &path));
            if !is_listed {
                files.push(StoreFile {
                    half: Half::Vectors,
                    partition: MAIN.into(),
                    path,
                });
            }
        }
        Ok(files)
    }

    /// The SQLite file that holds the points, if one does.
    #[must_use]
    pub fn points_file(&self) -> Option<PathBuf> {
        match &self.config.vectors.as_ref()?.backend {
            Backend::Sqlite(table) => Some(table.path.clone()),
            Backend::Qdrant(_) => None,
        }
    }
}

/// Whether two paths lead to one file. The files are looked at and not opened.
#[must_use]
pub fn same_file(a: &std::path::Path, b: &std::path::Path) -> bool {
    let id = |path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    a == b || matches!((id(a), id(b)), (Ok(a), Ok(b)) if a == b)
}
