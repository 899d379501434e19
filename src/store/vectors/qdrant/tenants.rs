//! A collection of a Qdrant server for each tenant.
//!
//! Mechanics: the collections are listed anew whenever all are asked for, one connection serves them all, and what is
//! held of each is its schema. Which collection a point is in is learnt from one scroll over all of them, when it is
//! first asked for; an id that was in none is looked for in each, since it may be younger.
//!
//! Policy: a collection is ours when its name fits the template, and none of a restore under way. One that is missing is
//! a tenant who is away, and an error for whoever asks for it, never an empty answer; so is a server without any. An id
//! in two collections is ambiguous, and nobody touches either point.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use prost::Message;
use qdrant_client::qdrant::UpsertPoints;

use crate::config::{self, PayloadFilter, Spelling};
use crate::memory::PointId;
use crate::stop::Stop;
use crate::store::image::PointImage;
use crate::store::traces::Trace;
use crate::store::vectors::{
    Captured, Description, PointHead, Selector, VectorError, VectorReader, VectorStore,
};

use super::QdrantVectors;
use super::calls::Calls;

/// The collections of the tenants.
pub struct TenantVectors {
    calls: Calls,
    namespace_key: String,
    vector: String,
    filter: PayloadFilter,
    spelling: Spelling,
    /// Those that were opened, by name.
    open: RefCell<HashMap<Arc<str>, Arc<QdrantVectors>>>,
    /// Where points are; `None` until that is first asked for.
    places: RefCell<Option<Places>>,
}

/// Which collection a point is in.
type Places = BTreeMap<PointId, Place>;

#[derive(Clone)]
enum Place {
    In(Arc<str>),
    /// In more than one.
    Several,
}

impl TenantVectors {
    /// Reaches the server.
    ///
    /// # Errors
    ///
    /// When the server is away or refuses the key, or has no collection of a tenant.
    pub fn connect(
        vectors: &config::Vectors,
        server: &config::Qdrant,
        stop: Stop,
    ) -> Result<Self, VectorError> {
        let spelling = vectors.spelling.clone().ok_or_else(|| {
            VectorError::Malformed("the collections do not say whose they are".to_owned())
        })?;
        let tenants = Self {
            calls: Calls::new(server, stop)?,
            namespace_key: vectors.namespace_key.clone(),
            vector: server.vector.clone(),
            filter: server.filter.clone(),
            spelling,
            open: RefCell::default(),
            places: RefCell::default(),
        };
        tenants.collections()?;
        Ok(tenants)
    }

    /// The collections of the tenants, with the namespace of each.
    pub(super) fn collections(&self) -> Result<Vec<(String, Arc<str>)>, VectorError> {
        let listed = self.calls.run("listing collections", |client| async move {
            client.list_collections().await
        })?;
        let aliases = self.calls.run("listing aliases", |client| async move {
            client.list_aliases().await
        })?;
        let names = listed.collections.into_iter().map(|found| found.name);
        let aliases = aliases.aliases.into_iter().map(|alias| alias.alias_name);
        let ours: BTreeMap<String, Arc<str>> = names
            .chain(aliases)
            .filter_map(|name| Some((tenant_of(&self.spelling, &name)?, name.into())))
            .collect();
        if ours.is_empty() {
            return Err(VectorError::Missing {
                what: format!("a collection such as {:?}", self.spelling.value),
            });
        }
        Ok(ours.into_iter().collect())
    }

    /// One collection.
    fn collection(&self, name: &Arc<str>) -> Result<Arc<QdrantVectors>, VectorError> {
        if let Some(open) = self.open.borrow().get(name) {
            return Ok(Arc::clone(open));
        }
        let calls = self.calls.to(name);
        let opened = Arc::new(QdrantVectors::on(
            calls,
            &self.namespace_key,
            &self.vector,
            &self.filter,
        )?);
        self.open
            .borrow_mut()
            .insert(Arc::clone(name), Arc::clone(&opened));
        Ok(opened)
    }

    /// The collection of a namespace.
    fn of(&self, namespace: &str) -> Result<Arc<QdrantVectors>, VectorError> {
        let name = self
            .spelling
            .write(namespace)
            .ok_or_else(|| VectorError::Missing {
                what: format!("a collection for the namespace {namespace:?}"),
            })?;
        self.collection(&name.into())
    }
}

impl TenantVectors {
    /// Where points are. Those that are not known are looked for in every collection, if `anew` says so.
    fn places(&self, ids: &[PointId], anew: bool) -> Result<Places, VectorError> {
        if self.places.borrow().is_none() {
            let listed = self.list_places()?;
            self.places.replace(Some(listed));
        }
        let mut known = self.places.borrow_mut();
        let known = known.get_or_insert_default();
        let unknown: Vec<PointId> = ids
            .iter()
            .filter(|id| !known.contains_key(*id))
            .cloned()
            .collect();
        if anew && !unknown.is_empty() {
            for (_, name) in self.collections()? {
                let present = self.collection(&name)?.present(&unknown)?;
                for id in unknown.iter().filter(|id| present.contains(id)) {
                    place(known, id.clone(), &name);
                }
            }
        }
        let of = |id: &PointId| Some((id.clone(), known.get(id)?.clone()));
        Ok(ids.iter().filter_map(of).collect())
    }

    /// Where every point is.
    fn list_places(&self) -> Result<Places, VectorError> {
        let mut places = Places::new();
        for (_, name) in self.collections()? {
            self.collection(&name)?
                .scroll(Selector::All, &[], &mut |heads| {
                    for head in heads {
                        place(&mut places, head.id, &name);
                    }
                    ControlFlow::Continue(())
                })?;
        }
        Ok(places)
    }

    /// The ids that are in one collection each, by collection.
    fn by_collection(places: Places) -> BTreeMap<Arc<str>, Vec<PointId>> {
        let mut by_collection: BTreeMap<Arc<str>, Vec<PointId>> = BTreeMap::new();
        for (id, place) in places {
            if let Place::In(name) = place {
                by_collection.entry(name).or_default().push(id);
            }
        }
        by_collection
    }

    /// Copies by the collection that each says it is of, which must be a tenant's.
    fn images_by_collection(
        &self,
        images: &[PointImage],
    ) -> Result<BTreeMap<Arc<str>, Vec<PointImage>>, VectorError> {
        let mut by_collection: BTreeMap<Arc<str>, Vec<PointImage>> = BTreeMap::new();
        for image in images {
            let name = UpsertPoints::decode(&image.body[..])
                .ok()
                .map(|copy| copy.collection_name)
                .filter(|name| tenant_of(&self.spelling, name).is_some())
                .ok_or_else(|| {
                    let id = &image.id;
                    VectorError::Malformed(format!("the copy of point {id} is of no tenant"))
                })?;
            by_collection
                .entry(name.into())
                .or_default()
                .push(image.clone());
        }
        Ok(by_collection)
    }
}

/// Enters a place.
fn place(places: &mut Places, id: PointId, name: &Arc<str>) {
    places
        .entry(id)
        .and_modify(|known| {
            if !matches!(known, Place::In(before) if before == name) {
                *known = Place::Several;
            }
        })
        .or_insert_with(|| Place::In(Arc::clone(name)));
}

/// The namespace of a collection; `None` when it is not a tenant's, or is the copy of one in a restore.
fn tenant_of(spelling: &Spelling, collection: &str) -> Option<String> {
    let namespace = spelling.read(collection)?;
    let is_copy = super::snapshot::is_copy(&namespace);
    (!is_copy).then_some(namespace)
}

impl VectorReader for TenantVectors {
    fn describe(&self) -> Result<Description, VectorError> {
        let collections = self.collections()?;
        let mut points = 0;
        let mut described = None;
        for (_, name) in &collections {
            let collection = self.collection(name)?;
            match &described {
                None => {
                    let first = collection.describe()?;
                    points += first.points;
                    described = Some(first);
                }
                Some(_) => points += collection.count(Selector::All)?,
            }
        }
        let described = described.ok_or_else(|| VectorError::Missing {
            what: format!("a collection such as {:?}", self.spelling.value),
        })?;
        Ok(Description {
            points,
            namespace_indexed: true,
            ..described
        })
    }

    fn namespaces(&self) -> Result<Vec<(String, u64)>, VectorError> {
        let mut counted = Vec::new();
        for (namespace, name) in self.collections()? {
            let points = self.collection(&name)?.count(Selector::All)?;
            if points > 0 {
                counted.push((namespace, points));
            }
        }
        Ok(counted)
    }

    fn count(&self, of: Selector<'_>) -> Result<u64, VectorError> {
        match of {
            Selector::All => Ok(self.namespaces()?.iter().map(|(_, points)| points).sum()),
            Selector::Namespace(namespace) => self.of(namespace)?.count(Selector::All),
            Selector::WithoutNamespace => Ok(0),
        }
    }

    fn scroll(
        &self,
        of: Selector<'_>,
        keys: &[&str],
        visit: &mut dyn FnMut(Vec<PointHead>) -> ControlFlow<()>,
    ) -> Result<u64, VectorError> {
        let collections = match of {
            Selector::All => self.collections()?,
            Selector::Namespace(namespace) => match self.spelling.write(namespace) {
                Some(name) => vec![(namespace.to_owned(), name.into())],
                None => return Ok(0),
            },
            Selector::WithoutNamespace => Vec::new(),
        };
        let mut unnamed = 0;
        for (namespace, name) in collections {
            let mut is_over = false;
            unnamed += self
                .collection(&name)?
                .scroll(Selector::All, keys, &mut |mut heads| {
                    for head in &mut heads {
                        head.namespace = Some(namespace.clone());
                    }
                    let next = visit(heads);
                    is_over = next.is_break();
                    next
                })?;
            if is_over {
                break;
            }
        }
        Ok(unnamed)
    }

    fn find(
        &self,
        namespace: &str,
        key: &str,
        values: &[String],
    ) -> Result<Vec<(String, Option<PointId>)>, VectorError> {
        self.of(namespace)?.find_in(None, key, values)
    }

    fn heads(&self, ids: &[PointId], keys: &[&str]) -> Result<Vec<PointHead>, VectorError> {
        let mut heads = Vec::with_capacity(ids.len());
        for (name, ids) in Self::by_collection(self.places(ids, false)?) {
            let namespace = self.spelling.read(&name);
            let of_one = self.collection(&name)?.heads(&ids, keys)?;
            heads.extend(of_one.into_iter().map(|head| PointHead {
                namespace: namespace.clone(),
                ..head
            }));
        }
        Ok(heads)
    }

    fn vectors(&self, ids: &[PointId]) -> Result<Vec<(PointId, Vec<f32>)>, VectorError> {
        let mut vectors = Vec::with_capacity(ids.len());
        for (name, ids) in Self::by_collection(self.places(ids, false)?) {
            vectors.extend(self.collection(&name)?.vectors(&ids)?);
        }
        Ok(vectors)
    }

    fn capture(&self, ids: &[PointId]) -> Result<Captured, VectorError> {
        let places = self.places(ids, true)?;
        let mut captured = Captured {
            ambiguous: places
                .iter()
                .filter(|(_, place)| matches!(place, Place::Several))
                .map(|(id, _)| id.clone())
                .collect(),
            ..Captured::default()
        };
        for (name, ids) in Self::by_collection(places) {
            let of_one = self.collection(&name)?.capture(&ids)?;
            captured.ambiguous.extend(of_one.ambiguous);
            let namespace = self.spelling.read(&name);
            captured
                .images
                .extend(of_one.images.into_iter().map(|image| PointImage {
                    namespace: namespace.clone(),
                    ..image
                }));
        }
        Ok(captured)
    }

    fn is_away(&self, namespace: &str) -> Result<bool, VectorError> {
        let Some(name) = self.spelling.write(namespace) else {
            return Ok(false);
        };
        Ok(!self
            .collections()?
            .iter()
            .any(|(_, known)| **known == *name))
    }

    fn changed(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        let mut changed = BTreeSet::new();
        for (name, images) in self.images_by_collection(images)? {
            changed.extend(self.collection(&name)?.changed(&images)?);
        }
        Ok(changed)
    }
}

impl VectorStore for TenantVectors {
    fn remove(&self, images: &[PointImage]) -> Result<BTreeSet<PointId>, VectorError> {
        let mut left = BTreeSet::new();
        for (name, images) in self.images_by_collection(images)? {
            left.extend(self.collection(&name)?.remove(&images)?);
        }
        Ok(left)
    }

    fn put_back(&self, images: &[PointImage]) -> Result<(), VectorError> {
        for (name, images) in self.images_by_collection(images)? {
            self.collection(&name)?.put_back(&images)?;
        }
        Ok(())
    }

    fn scrub(&self) -> Result<Vec<Trace>, VectorError> {
        Ok(vec![Trace::Segments])
    }
}
