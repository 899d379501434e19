//! Copies of the whole database of points.
//!
//! Points that are in the database of the rows are copied and put back with it: they have no file of their own.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::config::{self, Backend, VectorTable};
use crate::stop::Stop;
use crate::store::copies::{
    CopiedPoints, CopyError, Count, FIRST_ROWS, Keep, PointCopies, Switched,
};
use crate::store::database::{self, Fixed, Stamp};
use crate::store::files::same_file;
use crate::store::sqlite::Access;
use crate::store::swap::{self, Old, staged_path};
use crate::store::vectors::VectorError;

use super::SqliteVectors;

/// The name of the copy.
const FILE: &str = "vectors.db";

/// Copies of a database of points.
pub struct SqliteCopies {
    vectors: config::Vectors,
    table: VectorTable,
    /// Whether the points are in the one database of the rows.
    is_with_rows: bool,
    stop: Stop,
}

impl SqliteCopies {
    /// Copies of the database that a store keeps its points in. Nothing is opened yet.
    ///
    /// # Errors
    ///
    /// When the store keeps its points elsewhere.
    pub fn new(store: &config::Store, stop: &Stop) -> Result<Self, VectorError> {
        let backend = store
            .vectors
            .as_ref()
            .map(|vectors| (vectors, &vectors.backend));
        let Some((vectors, Backend::Sqlite(table))) = backend else {
            return Err(VectorError::Malformed(
                "the points are in no SQLite database".into(),
            ));
        };
        let is_with_rows =
            !store.rows.is_per_tenant() && same_file(&table.path, Path::new(&store.rows.path));
        Ok(Self {
            vectors: vectors.clone(),
            table: table.clone(),
            is_with_rows,
            stop: stop.clone(),
        })
    }

    /// The file of a copy.
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(if self.is_with_rows { FIRST_ROWS } else { FILE })
    }

    fn count(&self, conn: Connection) -> Result<Count, CopyError> {
        let (key, stop) = (&self.vectors.namespace_key, self.stop.clone());
        let points = SqliteVectors::over(conn, &self.table, key, Access::Read, stop)?;
        Ok(points.count_rows()?)
    }

    fn staged_file(&self, tag: &str) -> PathBuf {
        staged_path(&self.table.path, tag)
    }
}

impl PointCopies for SqliteCopies {
    fn copy_to(&self, folder: &Path) -> Result<CopiedPoints, CopyError> {
        let mut place = serde_json::Map::new();
        let read = |copy: Connection| Ok((database::schema(&copy)?, self.count(copy)?));
        let (files, (schema, count)) = if self.is_with_rows {
            (Vec::new(), read(database::open_copy(&self.file(folder))?)?)
        } else {
            let stamp = Stamp::of(&self.table.path)?;
            place.insert(
                "stamp".into(),
                serde_json::to_value(stamp).unwrap_or_default(),
            );
            let journal_mode = database::journal_mode(&self.table.path)?;
            place.insert("journal_mode".into(), journal_mode.into());
            let path = self.file(folder);
            let made = database::copy(&self.table.path, &path, &self.stop, &Fixed::default())?;
            let (file, read) = database::settle(folder, FILE, made, read)?;
            (vec![file], read)
        };
        place.insert("schema".into(), schema.into());
        Ok(CopiedPoints {
            backend: "sqlite".into(),
            version: rusqlite::version().into(),
            files,
            count,
            written_anew: false,
            place: place.into(),
        })
    }

    fn is_in_rows(&self) -> bool {
        self.is_with_rows
    }

    fn recount(&self, folder: &Path, copy: &CopiedPoints) -> Result<Count, CopyError> {
        if copy.files.iter().any(|file| file.name != FILE)
            || copy.files.is_empty() != self.is_with_rows
        {
            return Err(CopyError::Foreign(
                "the copy of the points is not where this store would keep it".into(),
            ));
        }
        let conn = database::open_copy(&self.file(folder))?;
        if let Some(damage) = database::damage(&conn)? {
            return Err(CopyError::Damaged(format!(
                "the copy of the points: {damage}"
            )));
        }
        if copy.place["schema"] != database::schema(&conn)?.as_str() {
            return Err(CopyError::Damaged(
                "the copy of the points has another schema than its manifest says".into(),
            ));
        }
        self.count(conn)
    }

    fn is_current(
        &self,
        folder: &Path,
        copy: &CopiedPoints,
        at: Timestamp,
    ) -> Result<bool, CopyError> {
        if self.is_with_rows {
            return Ok(true);
        }
        let stamp = serde_json::from_value::<Stamp>(copy.place["stamp"].clone());
        if let Ok(stamp) = stamp
            && stamp.proves(&Stamp::of(&self.table.path)?, at)
        {
            return Ok(true);
        }
        database::same(&self.table.path, &self.file(folder), &self.stop)
    }

    fn stage(&self, folder: &Path, copy: &CopiedPoints, tag: &str) -> Result<(), CopyError> {
        if self.is_with_rows {
            return Ok(());
        }
        let staged = self.staged_file(tag);
        database::stage(
            &self.file(folder),
            &staged,
            copy.place["journal_mode"] == "wal",
        )
    }

    fn staged(&self, tag: &str) -> config::Vectors {
        config::Vectors {
            backend: Backend::Sqlite(VectorTable {
                path: self.staged_file(tag),
                ..self.table.clone()
            }),
            ..self.vectors.clone()
        }
    }

    fn require_idle(&self) -> Result<(), CopyError> {
        swap::require_idle(&self.table.path)
    }

    fn mark(&self) -> Result<Value, CopyError> {
        let stamp = if self.is_with_rows {
            None
        } else {
            swap::stamp(&self.table.path)?
        };
        Ok(json!(stamp))
    }

    fn switch(&self, tag: &str, was: &Value, keep: Keep) -> Result<Switched, CopyError> {
        if self.is_with_rows {
            return Ok(Switched::Before);
        }
        // What is no stamp is none of this file: then it has been changed.
        let was = Stamp::deserialize(was).ok();
        let old = Old {
            was: was.as_ref(),
            aside: &swap::aside_path(&self.table.path, tag),
            keep,
        };
        swap::swap(&self.staged_file(tag), &self.table.path, old)
    }

    fn discard(&self, tag: &str) -> Result<(), CopyError> {
        swap::discard(&self.staged_file(tag))
    }
}
