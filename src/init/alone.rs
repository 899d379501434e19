//! A store whose points are its rows: which collection of a server it may be.
//!
//! Policy: a collection is known by the payloads of a sample. Of several the one is meant that has memories which the named
//! log knows; where more than one has, a person says which.

use std::path::Path;

use serde_json::{Map, Value};

use super::draft::{Draft, Keys, Points};
use super::place::{self, Where};
use super::proof::{self, Proof};
use super::server::{keys, most, names, payloads, vectors};
use super::shape;
use super::{Proposal, Scene};
use crate::config::fingerprint::{Fingerprint, Fit};
use crate::config::presets::{self, Preset};
use crate::error::Failure;
use crate::exit::Exit;

/// A log of an application that keeps its memories as points.
pub(super) struct Log<'a> {
    pub(super) path: &'a Path,
    /// The preset of its application.
    pub(super) preset: &'static Preset,
}

impl Scene<'_> {
    /// A store whose points are the rows.
    pub(super) fn points_alone(
        &self,
        place: &Where,
        asked: Option<&str>,
        log: Option<&Log<'_>>,
    ) -> Result<Proposal, Failure> {
        let place::Points::Qdrant(url) = &place.points else {
            let log = log
                .map(|log| format!("{} is only a log: ", log.path.display()))
                .unwrap_or_default();
            return Err(Failure::new(
                Exit::Usage,
                format!("{log}the memories are points on a Qdrant server: where?"),
            )
            .with_hint("name its gRPC address behind it, such as http://127.0.0.1:6334"));
        };
        let catalog = self.catalog(url)?;
        let mut wanted = Wanted {
            asked,
            logged: log.map(|log| log.preset),
            doubted: None,
        };
        let mut drafts = Vec::new();
        for collection in names(&catalog, url, place.collection.as_deref())? {
            let payloads = payloads(&catalog, &collection)?;
            let Some(preset) = wanted.preset_of(&collection, &payloads) else {
                continue;
            };
            let vectors = vectors(&catalog, &collection)?;
            let points = Points::Qdrant {
                url: url.clone(),
                collection,
                keys: Keys::new(),
            };
            let draft = Draft::of_points(preset, points).with_vectors(vectors);
            drafts.push(with_log(draft, preset, log)?);
        }
        let draft = match (drafts.pop(), drafts.is_empty(), log) {
            (None, ..) => return Err(wanted.unknown(url)),
            (Some(only), true, _) => only,
            (Some(last), false, None) => {
                drafts.push(last);
                return Err(several(&drafts));
            }
            (Some(last), false, Some(log)) => {
                drafts.push(last);
                self.logged(drafts, log)?
            }
        };
        self.settled(draft, None)
    }

    /// The only one that has memories which the log knows.
    fn logged(&self, drafts: Vec<Draft>, log: &Log<'_>) -> Result<Draft, Failure> {
        let mut proofs = Vec::new();
        for draft in drafts {
            let proof = proof::of_log(&self.parse(&draft)?, self.stop)?;
            proofs.push((draft, proof));
        }
        let of = proofs.len();
        let known: Vec<usize> = (0..of).filter(|&at| proofs[at].1.found > 0).collect();
        let [only] = known[..] else {
            return Err(several_logged(&proofs, log));
        };
        let (mut draft, proof) = proofs.swap_remove(only);
        draft.notes.push(format!(
            "of {of} collections with memories this is the only one that {} knows: it has {} of the {} looked up",
            log.path.display(),
            proof.found,
            proof.of
        ));
        Ok(draft)
    }
}

/// Whose points are looked for.
struct Wanted<'a> {
    /// The preset that a person named.
    asked: Option<&'a str>,
    /// The preset of the log that was named.
    logged: Option<&'static Preset>,
    /// A collection that would be a store of this preset, but for its digests.
    doubted: Option<(String, &'static Preset)>,
}

impl Wanted<'_> {
    /// The preset whose points these are. What a person names is believed where only digests speak against it.
    fn preset_of(
        &mut self,
        collection: &str,
        payloads: &[Map<String, Value>],
    ) -> Option<&'static Preset> {
        let mut best = None::<(usize, &'static Preset)>;
        for preset in presets::ALL.iter().filter(|one| one.points_are_rows()) {
            if !self.is_wanted(preset) {
                continue;
            }
            let Some(fingerprint) = preset.fingerprint() else {
                continue;
            };
            let weigh = |payload: &Map<String, Value>| match fingerprint.fit_payload(&keys(payload))
            {
                Fit::Yes(weight) => Some(weight),
                Fit::No(_) => None,
            };
            if most(payloads, |payload| weigh(payload).is_some()) != Some(true) {
                continue;
            }
            if self.asked.is_none() && is_digest_of_other(&fingerprint, payloads) {
                self.doubted = Some((collection.to_owned(), preset));
                continue;
            }
            let weight = payloads.iter().filter_map(weigh).max().unwrap_or_default();
            if best.is_none_or(|(before, _)| weight > before) {
                best = Some((weight, preset));
            }
        }
        best.map(|(_, preset)| preset)
    }

    fn is_wanted(&self, preset: &Preset) -> bool {
        self.asked.is_none_or(|asked| asked == preset.name)
            && self.logged.is_none_or(|logged| logged == preset)
    }

    /// The refusal where no collection is one.
    fn unknown(&self, url: &str) -> Failure {
        let hint = match &self.doubted {
            Some((collection, preset)) => format!(
                "{collection} looks like one of {name}, but its hashes are not those of its texts: if it is one all the same, \
                 name it with --collection {collection} --preset {name}",
                name = preset.name
            ),
            None => "where rows in SQLite belong to the points, name their database first; hypnos presets lists what is known"
                .to_owned(),
        };
        Failure::new(
            Exit::NoStore,
            format!("unknown: no collection at {url} holds memories of a system that hypnos knows"),
        )
        .with_hint(hint)
    }
}

/// Whether the digests of these points speak against a preset: of those that have one, more than half are of another text.
fn is_digest_of_other(fingerprint: &Fingerprint, payloads: &[Map<String, Value>]) -> bool {
    let fits = payloads
        .iter()
        .filter_map(|payload| fingerprint.fits_digest(payload));
    let (own, other): (Vec<bool>, Vec<bool>) = fits.partition(|fits| *fits);
    other.len() > own.len()
}

/// The draft with the log that was named, if the preset makes something of it.
fn with_log(draft: Draft, preset: &Preset, log: Option<&Log<'_>>) -> Result<Draft, Failure> {
    let Some(log) = log.filter(|_| preset.has_log()) else {
        return Ok(draft);
    };
    let shape = shape::of(log.path)?;
    let renamed = preset.fingerprint().map(|marks| marks.renamed(&shape));
    let renamed = renamed.unwrap_or_default().into_iter();
    Ok(Draft {
        log: Some(log.path.display().to_string()),
        overrides: renamed
            .flat_map(|(name, there)| preset.with_table(&name, &there))
            .collect(),
        ..draft
    })
}

const SAY_WHICH: &str = "say which with --collection; each gets a [[store]] of its own";

fn several(drafts: &[Draft]) -> Failure {
    let found: Vec<_> = drafts.iter().filter_map(named).collect();
    let problem = format!("several collections hold memories: {}", found.join(", "));
    Failure::new(Exit::Usage, problem).with_hint(SAY_WHICH)
}

/// The refusal where the log knows memories of several collections, or of none.
fn several_logged(proofs: &[(Draft, Proof)], log: &Log<'_>) -> Failure {
    let found: Vec<_> = proofs
        .iter()
        .filter_map(|(draft, proof)| {
            let collection = collection_of(draft)?;
            Some(format!("{collection} has {} of {}", proof.found, proof.of))
        })
        .collect();
    let problem = format!(
        "several collections hold memories, and {} does not tell which is meant: of the memories that it knows, {}",
        log.path.display(),
        found.join(", ")
    );
    Failure::new(Exit::Usage, problem).with_hint(SAY_WHICH)
}

fn collection_of(draft: &Draft) -> Option<&str> {
    match &draft.points {
        Points::Qdrant { collection, .. } => Some(collection),
        _ => None,
    }
}

/// The collection of a draft, with its preset.
fn named(draft: &Draft) -> Option<String> {
    let preset = draft.preset.map_or("unknown", |preset| preset.name);
    Some(format!("{} ({preset})", collection_of(draft)?))
}
