//! Which collection of a Qdrant server it may be.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Scene;
use super::draft::{Draft, Keys, Points};
use super::guess;
use crate::config::fingerprint::Fit;
use crate::config::presets::{self, Preset};
use crate::config::{Backend, Qdrant};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::store::vectors::VectorError;
use crate::store::vectors::qdrant::catalog::Catalog;
use crate::store::vectors::qdrant::snapshot;

/// Points of a collection that are looked at.
const LOOKED_AT: u32 = 100;
/// Share of them that must have the keys of a preset, in percent: an application may put points of its own beside.
const SHARE: usize = 90;
/// Collections that are looked into, at most.
const COLLECTIONS: usize = 200;

impl Scene<'_> {
    /// Every draft with each collection that could be its own.
    pub(super) fn collections(
        &self,
        drafts: Vec<Draft>,
        url: &str,
        asked: Option<&str>,
    ) -> Result<Vec<Draft>, Failure> {
        let catalog = self.catalog(url)?;
        let names = names(&catalog, url, asked)?;
        let mut candidates = Vec::new();
        for draft in drafts {
            for collection in collections_of(&draft, &catalog, &names)? {
                let is_asked_for = asked.is_some();
                let names = vectors(&catalog, &collection)?;
                for keys in keys_of(&draft, &catalog, &collection)? {
                    let points = Points::Qdrant {
                        url: url.to_owned(),
                        collection: collection.clone(),
                        keys,
                    };
                    let candidate = Draft {
                        points,
                        is_asked_for,
                        ..draft.clone()
                    };
                    candidates.push(candidate.with_vectors(names.clone()));
                }
            }
        }
        if candidates.is_empty() {
            return Err(Failure::new(
                Exit::NoStore,
                format!("no collection at {url} looks like the points of this store"),
            )
            .with_hint(
                "name the collection with --collection, or none for a store without points",
            ));
        }
        Ok(candidates)
    }

    /// Says where the REST interface is, where it is not at its usual port.
    pub(super) fn with_rest(&self, draft: Draft) -> Result<Draft, Failure> {
        let draft = match self.rest_url {
            Some(asked) => draft.with_key("rest_url", asked),
            None => draft,
        };
        let store = self.parse(&draft)?;
        let Some(Backend::Qdrant(server)) = store.vectors.map(|vectors| vectors.backend) else {
            return Ok(draft);
        };
        let Err(error) = snapshot::reach(&server, self.stop) else {
            return Ok(draft);
        };
        if let Some(before) = port_before(&server.url).filter(|_| self.rest_url.is_none()) {
            let moved = draft.clone().with_key("rest_url", &before);
            let server = Qdrant {
                rest_url: before,
                ..server
            };
            if snapshot::reach(&server, self.stop).is_ok() {
                return Ok(moved);
            }
        }
        let mut draft = draft;
        draft.has_rest = false;
        let instead = match error {
            VectorError::Unauthorized { .. } => "give it the key",
            _ => "publish it (port 6333 of the server), or name it with --rest-url",
        };
        draft.notes.push(format!(
            "{}: no pair can be taken so, and nothing is removed without one; {instead}",
            chain(&error)
        ));
        Ok(draft)
    }

    pub(super) fn catalog(&self, url: &str) -> Result<Catalog, Failure> {
        let server = self.server(url)?;
        Catalog::of(&server, self.stop.clone()).map_err(|error| Failure::from(&error))
    }

    /// How to reach a server, with whatever key the environment has.
    fn server(&self, url: &str) -> Result<Qdrant, Failure> {
        let probe = presets::ALL.iter().find(|preset| !preset.points_are_rows());
        let points = Points::Qdrant {
            url: url.to_owned(),
            collection: "unknown".to_owned(),
            keys: Keys::new(),
        };
        let draft = probe.map(|preset| Draft {
            points,
            ..Draft::of_preset(preset, "/unknown")
        });
        let store = draft.map(|draft| self.parse(&draft)).transpose()?;
        match store
            .and_then(|store| store.vectors)
            .map(|vectors| vectors.backend)
        {
            Some(Backend::Qdrant(server)) => Ok(server),
            _ => Err(Failure::new(
                Exit::Usage,
                format!("{url} is no address of a Qdrant server"),
            )),
        }
    }
}

/// What a draft may say of a collection beside its name: for a preset nothing, for a guess each way to tell points.
fn keys_of(draft: &Draft, catalog: &Catalog, collection: &str) -> Result<Vec<Keys>, Failure> {
    if draft.mapping.is_none() {
        return Ok(vec![Keys::new()]);
    }
    Ok(guess::point_keys(&payloads(catalog, collection)?))
}

/// The address with the port before: that of the REST interface, where both are mapped side by side.
fn port_before(url: &str) -> Option<String> {
    let (host, port) = url.trim_end_matches('/').rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    Some(format!("{host}:{}", port.checked_sub(1)?))
}

/// The collections of a server, or the one that was asked for.
pub(super) fn names(
    catalog: &Catalog,
    url: &str,
    asked: Option<&str>,
) -> Result<BTreeSet<String>, Failure> {
    let names = catalog.collections().map_err(|error| {
        let failure = Failure::from(&error);
        if url.trim_end_matches('/').ends_with(":6333") {
            return failure.with_hint("6333 is the port of the REST interface: gRPC is at 6334");
        }
        failure
    })?;
    let Some(asked) = asked else { return Ok(names) };
    if names.contains(asked) || asked.contains("{tenant}") {
        return Ok(BTreeSet::from([asked.to_owned()]));
    }
    let names: Vec<_> = names.into_iter().collect();
    Err(
        Failure::new(Exit::NoStore, format!("no collection {asked:?} at {url}"))
            .with_hint(format!("it has {}", names.join(", "))),
    )
}

/// The collections, or templates of collections, that a draft could have its points in.
fn collections_of(
    draft: &Draft,
    catalog: &Catalog,
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Failure> {
    let fingerprint = draft.preset.and_then(Preset::fingerprint);
    let Some(fingerprint) = fingerprint else {
        return Ok(limited(names.clone()));
    };
    let mut candidates = BTreeSet::new();
    for name in names {
        let template = match fingerprint.collection() {
            Some(pattern) => pattern.template(name),
            None => Some(name.clone()),
        };
        let Some(template) = template else { continue };
        if candidates.contains(&template) {
            continue;
        }
        let fits = |payload: &Map<String, Value>| {
            matches!(fingerprint.fit_payload(&keys(payload)), Fit::Yes(_))
        };
        // A sample of an empty collection says nothing.
        if !fingerprint.has_payload()
            || most(&payloads(catalog, name)?, fits).is_none_or(|most| most)
        {
            candidates.insert(template);
        }
        if candidates.len() >= COLLECTIONS {
            break;
        }
    }
    Ok(candidates)
}

fn limited(names: BTreeSet<String>) -> BTreeSet<String> {
    names.into_iter().take(COLLECTIONS).collect()
}

/// Whether nearly all of them do; `None` when there are none.
pub(super) fn most(
    payloads: &[Map<String, Value>],
    fits: impl Fn(&Map<String, Value>) -> bool,
) -> Option<bool> {
    let fitting = payloads.iter().filter(|payload| fits(payload)).count();
    (!payloads.is_empty()).then(|| fitting * 100 >= payloads.len() * SHARE)
}

pub(super) fn payloads(
    catalog: &Catalog,
    collection: &str,
) -> Result<Vec<Map<String, Value>>, Failure> {
    if collection.contains("{tenant}") {
        return Ok(Vec::new());
    }
    match catalog.payloads(collection, LOOKED_AT) {
        // It was dropped since the server listed it.
        Err(error) if error.is_missing() => Ok(Vec::new()),
        payloads => {
            payloads.map_err(|error| Failure::from(&error).while_doing("look at a collection"))
        }
    }
}

/// The names of the vectors of a collection. One for each tenant is no single collection, and its vectors have none in any
/// system that is known.
pub(super) fn vectors(catalog: &Catalog, collection: &str) -> Result<Vec<String>, Failure> {
    if collection.contains("{tenant}") {
        return Ok(Vec::new());
    }
    match catalog.vectors(collection) {
        // It was dropped since the server listed it.
        Err(error) if error.is_missing() => Ok(Vec::new()),
        names => names.map_err(|error| Failure::from(&error).while_doing("look at a collection")),
    }
}

/// The keys of a payload, and the paths of one level below, in lower case.
pub(super) fn keys(payload: &Map<String, Value>) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for (key, value) in payload {
        if let Value::Object(inner) = value {
            keys.extend(
                inner
                    .keys()
                    .map(|inner| format!("{key}.{inner}").to_lowercase()),
            );
        }
        keys.insert(key.to_lowercase());
    }
    keys
}
