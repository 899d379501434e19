//! A vector store that writes namespaces in its own way: `user-memory-6a2f`, where hypnos says `user:6a2f`.
//!
//! Policy: a point whose value does not fit the template is of another kind, such as a file or a document in the same
//! collection. It is in no listing and no count, and nobody gets it by its id.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::config::Spelling;
use crate::memory::PointId;
use crate::store::image::PointImage;
use crate::store::traces::Trace;

use super::{Captured, Description, PointHead, Selector, VectorError, VectorReader, VectorStore};

/// Puts a spelling around a store, where there is one.
pub(super) fn wrap<S: VectorStore + 'static>(
    store: S,
    spelling: Option<&Spelling>,
) -> Box<dyn VectorStore> {
    match spelling {
        None => Box::new(store),
        Some(spelling) => Box::new(Spelled {
            store,
            spelling: spelling.clone(),
        }),
    }
}

struct Spelled<S> {
    store: S,
    spelling: Spelling,
}

impl<S> Spelled<S> {
    /// Says whose something is in the words of hypnos. Whether it is of a memory's kind: what names nobody may be.
    fn is_read(&self, namespace: &mut Option<String>) -> bool {
        match namespace.as_deref() {
            None | Some("") => true,
            Some(value) => {
                *namespace = self.spelling.read(value);
                namespace.is_some()
            }
        }
    }
}

impl<S: VectorStore> VectorReader for Spelled<S> {
    fn describe(&self) -> Result<Description, VectorError> {
        Ok(Description {
            points: self.count(Selector::All)?,
            ..self.store.describe()?
        })
    }

    fn namespaces(&self) -> Result<Vec<(String, u64)>, VectorError> {
        let listed = self.store.namespaces()?.into_iter();
        let mut read: Vec<_> = listed
            .filter_map(|(value, points)| Some((self.spelling.read(&value)?, points)))
            .collect();
        read.sort_unstable();
        Ok(read)
    }

    fn count(&self, of: Selector<'_>) -> Result<u64, VectorError> {
        match of {
            Selector::All => {
                let named: u64 = self.namespaces()?.iter().map(|(_, points)| points).sum();
                Ok(named + self.store.count(Selector::WithoutNamespace)?)
            }
            Selector::Namespace(namespace) => match self.spelling.write(namespace) {
                Some(value) => self.store.count(Selector::Namespace(&value)),
                None => Ok(0),
            },
            Selector::WithoutNamespace => self.store.count(of),
        }
    }

    fn scroll(
        &self,
        of: Selector<'_>,
        keys: &[&str],
        visit: &mut dyn FnMut(Vec<PointHead>) -> ControlFlow<()>,
    ) -> Result<u64, VectorError> {
        let value = match of {
            Selector::Namespace(namespace) => match self.spelling.write(namespace) {
                Some(value) => Some(value),
                None => return Ok(0),
            },
            Selector::All | Selector::WithoutNamespace => None,
        };
        let of = value.as_deref().map_or(of, Selector::Namespace);
        self.store.scroll(of, keys, &mut |mut heads| {
            heads.retain_mut(|head| self.is_read(&mut head.namespace));
            if heads.is_empty() {
                ControlFlow::Continue(())
            } else {
                visit(heads)
            }
        })
    }

    fn find(
        &self,
        namespace: &str,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, Option<PointId>)>, VectorError> {
        match self.spelling.write(namespace) {
            Some(namespace) => self.store.find(&namespace, key, values),
            None => Ok(Vec::new()),
        }
    }

    fn heads(&self, ids: &[PointId], keys: &[&str]) -> Result<Vec<PointHead>, VectorError> {
        let mut heads = self.store.heads(ids, keys)?;
        heads.retain_mut(|head| self.is_read(&mut head.namespace));
        Ok(heads)
    }

    fn vectors(&self, ids: &[PointId]) -> Result<Vec<(PointId, Vec<f32>)>, VectorError> {
        self.store.vectors(ids)
    }

    fn capture(&self, ids: &[PointId]) -> Result<Captured, VectorError> {
        let mut captured = self.store.capture(ids)?;
        captured
            .images
            .retain_mut(|image| self.is_read(&mut image.namespace));
        Ok(captured)
    }

    fn changed(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        self.store.changed(images)
    }
}

impl<S: VectorStore> VectorStore for Spelled<S> {
    fn remove(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        self.store.remove(images)
    }

    fn put_back(&self, images: &[PointImage]) -> Result<(), VectorError> {
        self.store.put_back(images)
    }

    fn scrub(&self) -> Result<Vec<Trace>, VectorError> {
        self.store.scrub()
    }
}
