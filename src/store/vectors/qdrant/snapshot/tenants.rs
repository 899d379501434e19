//! Copies of a collection for each tenant: each is copied, staged and switched on its own, as [`QdrantCopies`] does.
//!
//! Policy: a collection that came after the copy was taken is none of its business, and a restore leaves it as it is:
//! what its points have no rows for is then a matter of `orphans`.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{BACKEND, QdrantCopies, copy_name, remove_files};
use crate::clock::Timestamp;
use crate::config;
use crate::stop::Stop;
use crate::store::copies::{
    CopiedFile, CopiedPoints, CopyError, Count, Keep, PointCopies, Switched, count_points,
};
use crate::store::sqlite::Access;
use crate::store::vectors::qdrant::tenants::TenantVectors;
use crate::store::vectors::{self, VectorError};

/// Copies of the collections of the tenants.
pub struct TenantCopies {
    vectors: config::Vectors,
    server: config::Qdrant,
    stop: Stop,
}

/// How one collection is copied.
type How = fn(&QdrantCopies, &Path) -> Result<CopiedPoints, CopyError>;

/// What is recorded of one collection.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    collection: String,
    namespace: String,
    files: Vec<CopiedFile>,
    count: Count,
    place: Value,
}

impl TenantCopies {
    /// Prepares the copies; nothing is sent yet.
    #[must_use]
    pub fn new(vectors: &config::Vectors, server: &config::Qdrant, stop: &Stop) -> Self {
        Self {
            vectors: vectors.clone(),
            server: server.clone(),
            stop: stop.clone(),
        }
    }

    /// The copies of one collection.
    fn of(&self, collection: &str) -> Result<QdrantCopies, VectorError> {
        let server = config::Qdrant {
            collection: collection.to_owned(),
            ..self.server.clone()
        };
        let vectors = config::Vectors {
            backend: config::Backend::Qdrant(server),
            spelling: None,
            ..self.vectors.clone()
        };
        QdrantCopies::new(&vectors, &self.stop)
    }

    /// The tenants' collections under a template, with the namespace of each.
    fn collections(&self, vectors: &config::Vectors) -> Result<Vec<(String, String)>, VectorError> {
        let config::Backend::Qdrant(server) = &vectors.backend else {
            return Ok(Vec::new());
        };
        let listed = TenantVectors::connect(vectors, server, self.stop.clone())?.collections()?;
        Ok(listed
            .into_iter()
            .map(|(namespace, name)| (namespace, name.to_string()))
            .collect())
    }

    /// The live names of the collections that are staged under a tag.
    fn staged_names(&self, tag: &str) -> Result<Vec<String>, CopyError> {
        let staged = match self.collections(&self.staged(tag)) {
            Ok(staged) => staged,
            Err(VectorError::Missing { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let spelling = self.vectors.spelling.as_ref();
        Ok(staged
            .into_iter()
            .filter_map(|(namespace, _)| spelling?.write(&namespace))
            .collect())
    }

    /// Copies one collection; its files are numbered by it.
    fn copy_one(
        &self,
        index: usize,
        namespace: &str,
        collection: &str,
        folder: &Path,
        how: How,
    ) -> Result<(bool, String, Part), CopyError> {
        let mut copied = how(&self.of(collection)?, folder)?;
        for (number, file) in copied.files.iter_mut().enumerate() {
            let name = format!("points-{}-{number}.snapshot", index + 1);
            fs::rename(folder.join(&file.name), folder.join(&name))
                .map_err(CopyError::io("name the file of a copy"))?;
            file.name = name;
        }
        let mut count = Count::default();
        count.add_all(&copied.count, namespace);
        let part = Part {
            collection: collection.to_owned(),
            namespace: namespace.to_owned(),
            files: copied.files,
            count,
            place: copied.place,
        };
        Ok((copied.written_anew, copied.version, part))
    }

    /// Copies each collection.
    fn copy_all(&self, folder: &Path, how: How) -> Result<CopiedPoints, CopyError> {
        let mut copy = CopiedPoints {
            backend: BACKEND.to_owned(),
            version: String::new(),
            files: Vec::new(),
            count: Count::default(),
            written_anew: true,
            place: Value::Null,
        };
        let mut parts = Vec::new();
        for (index, (namespace, name)) in self.collections(&self.vectors)?.iter().enumerate() {
            match self.copy_one(index, namespace, name, folder, how) {
                Ok((written_anew, version, part)) => {
                    copy.written_anew &= written_anew;
                    copy.version = version;
                    copy.files.extend(part.files.iter().cloned());
                    copy.count.add_all(&part.count, namespace);
                    parts.push(part);
                }
                Err(error) => {
                    remove_files(folder, &copy.files)?;
                    return Err(error);
                }
            }
        }
        copy.place = json!(parts);
        Ok(copy)
    }
}

impl PointCopies for TenantCopies {
    fn copy_to(&self, folder: &Path) -> Result<CopiedPoints, CopyError> {
        self.copy_all(folder, PointCopies::copy_to)
    }

    fn copy_anew_to(&self, folder: &Path) -> Result<CopiedPoints, CopyError> {
        self.copy_all(folder, PointCopies::copy_anew_to)
    }

    fn recount(&self, folder: &Path, copy: &CopiedPoints) -> Result<Count, CopyError> {
        let mut count = Count::default();
        for part in parts_of(copy)? {
            let of_one = self
                .of(&part.collection)?
                .recount(folder, &part.copy(copy))?;
            count.add_all(&of_one, &part.namespace);
        }
        Ok(count)
    }

    fn is_current(
        &self,
        _folder: &Path,
        copy: &CopiedPoints,
        _at: Timestamp,
    ) -> Result<bool, CopyError> {
        let live = vectors::open(&self.vectors, Access::Read, &self.stop)?;
        Ok(count_points(&*live)? == copy.count)
    }

    fn require_idle(&self) -> Result<(), CopyError> {
        Ok(())
    }

    fn stage(&self, folder: &Path, copy: &CopiedPoints, tag: &str) -> Result<(), CopyError> {
        for part in parts_of(copy)? {
            self.of(&part.collection)?
                .stage(folder, &part.copy(copy), tag)?;
        }
        Ok(())
    }

    fn staged(&self, tag: &str) -> config::Vectors {
        let mut staged = self.vectors.clone();
        if let config::Backend::Qdrant(server) = &mut staged.backend {
            server.collection = copy_name(&server.collection, tag);
        }
        if let Some(spelling) = &mut staged.spelling {
            spelling.value = copy_name(&spelling.value, tag);
        }
        staged
    }

    /// The marks of the collections, by their names.
    fn mark(&self) -> Result<Value, CopyError> {
        let mut marks = serde_json::Map::new();
        for (_, name) in self.collections(&self.vectors)? {
            let mark = self.of(&name)?.mark()?;
            marks.insert(name, mark);
        }
        Ok(marks.into())
    }

    fn switch(&self, tag: &str, was: &Value, keep: Keep) -> Result<Switched, CopyError> {
        let (mut keep, mut kept) = (keep, Vec::new());
        let names = self.staged_names(tag)?;
        for name in &names {
            match self.of(name)?.switch(tag, &was[name], keep)? {
                Switched::Kept(place) => kept.push(place),
                Switched::Before | Switched::Now => {}
            }
            keep = keep.further();
        }
        Ok(match (names.is_empty(), kept.is_empty()) {
            (_, false) => Switched::Kept(kept.join(", ")),
            (true, true) => Switched::Before,
            (false, true) => Switched::Now,
        })
    }

    fn discard(&self, tag: &str) -> Result<(), CopyError> {
        for name in self.staged_names(tag)? {
            self.of(&name)?.discard(tag)?;
        }
        Ok(())
    }
}

impl Part {
    /// The copy of this collection, as [`QdrantCopies`] made it.
    fn copy(&self, of: &CopiedPoints) -> CopiedPoints {
        CopiedPoints {
            backend: of.backend.clone(),
            version: of.version.clone(),
            files: self.files.clone(),
            count: self.count.clone(),
            written_anew: of.written_anew,
            place: self.place.clone(),
        }
    }
}

fn parts_of(copy: &CopiedPoints) -> Result<Vec<Part>, CopyError> {
    Vec::deserialize(&copy.place)
        .map_err(|_| CopyError::Foreign("the copy is not of a collection for each tenant".into()))
}
