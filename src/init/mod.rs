//! Recognising a store that is there, and configuring it.
//!
//! ```text
//! ROWS -> shape -> fingerprints -> presets -+-> drafts of a configuration -> rows and points laid side by side -> the one
//! VECTORS -> collections, payloads ---------+                                                                     that fits
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`shape`], [`recognise`] | what a database holds, and which system wrote it |
//! | `place` | what the two arguments name |
//! | `guess` | a mapping proposed for a schema that nobody knows |
//! | `draft` | a configuration in the making, and its text |
//! | `server` | which collection of a Qdrant server it may be |
//! | `alone` | the same where the points are the rows |
//! | `tables` | which table of vectors it may be |
//! | `proof` | whether the rows of a draft have their points where it says |
//!
//! Policy: nothing is written here, and the stores are only read. A collection is the one in which rows have their points:
//! a name alone proves nothing. A store that hypnos knows and must not touch is refused with the reason; one that it does
//! not know gets a proposal which stays a proposal (`confirmed = false`) until a person has set it right.

use std::path::{Path, PathBuf};

use crate::config::{self, Config, Env};
use crate::engine;
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::state::{Partition, StateDir};
use crate::stop::Stop;

mod alone;
mod draft;
mod guess;
mod place;
mod proof;
pub mod recognise;
mod server;
pub mod shape;
mod tables;

use alone::Log;
use draft::{Draft, Folders, Points};
use place::{Rows, Where};
pub use proof::Proof;
use recognise::Recognised;

use crate::config::fingerprint::Shape;
use crate::config::presets::{self, Preset};

/// What `init` is asked.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The database, the path of one per tenant, or the address of a server on which the points are the rows.
    pub rows: &'a str,
    /// The address of a Qdrant server, a database with vectors, `none`, or with a server for rows the collection.
    pub vectors: Option<&'a str>,
    /// The collection, where it is not to be looked for.
    pub collection: Option<&'a str>,
    /// The REST address of the server; else it is looked for.
    pub rest_url: Option<&'a str>,
    /// The preset, where several fit.
    pub preset: Option<&'a str>,
    /// Where the configuration will be.
    pub output: &'a Path,
}

/// A configuration for a store that was found.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The name of the store.
    pub store: String,
    /// The preset whose store it is; `None` when nobody knows the schema.
    pub preset: Option<&'static Preset>,
    /// Where its points are, in words; `None` for a store without.
    pub points: Option<String>,
    /// How many of the rows that were looked at have their points there; `None` where there was nothing to compare.
    pub proof: Option<Proof>,
    /// Whether it may be acted on; else a person has to look at it first.
    pub confirmed: bool,
    /// Whether pairs can be taken of it, as far as that is known now: the REST interface of its server answers.
    pub pairs: bool,
    /// What a person should know of it.
    pub notes: Vec<String>,
    /// The configuration.
    pub text: String,
}

/// Finds out what a store is, and writes the text of a configuration for it.
///
/// # Errors
///
/// When it is a store that hypnos must not touch, or nothing that could be one ([`Exit::NoStore`]); when it cannot be
/// told which of several collections is meant ([`Exit::Usage`]); when something cannot be read.
pub fn look(request: &Request<'_>, env: &Env, stop: &Stop) -> Result<Proposal, Failure> {
    let scene = Scene {
        output: std::path::absolute(request.output).map_err(|error| {
            Failure::new(
                Exit::Usage,
                format!("--output {}: {error}", request.output.display()),
            )
        })?,
        rest_url: request.rest_url,
        env,
        stop,
    };
    let place = Where::of(request)?;
    match &place.rows {
        Rows::Points => scene.points_alone(&place, request.preset, None),
        Rows::File { path, first } => scene.database(request, &place, path, first),
    }
}

/// What every step needs.
struct Scene<'a> {
    /// Where the configuration will be, absolute.
    output: PathBuf,
    /// The REST address that was named.
    rest_url: Option<&'a str>,
    env: &'a Env,
    stop: &'a Stop,
}

impl Scene<'_> {
    /// Reads a draft as if it stood where the configuration will be.
    fn parse(&self, draft: &Draft) -> Result<config::Store, Failure> {
        self.config(draft)?
            .stores
            .into_iter()
            .next()
            .ok_or_else(|| Failure::new(Exit::Config, "propose a configuration: it has no store"))
    }

    fn config(&self, draft: &Draft) -> Result<Config, Failure> {
        let text = draft.text(Folders::of(&self.output));
        config::parse(&text, &self.output, self.env).map_err(|error| {
            Failure::new(Exit::Config, chain(&error)).while_doing("propose a configuration")
        })
    }

    fn database(
        &self,
        request: &Request<'_>,
        place: &Where,
        path: &str,
        first: &Path,
    ) -> Result<Proposal, Failure> {
        let shape = shape::of(first)?;
        match recognise::database(&shape) {
            Recognised::Foreign(foreign) => Err(recognise::refused(&foreign, first)),
            Recognised::Presets(found) => {
                let found = wanted(&found, request.preset)?;
                if found.iter().all(|preset| preset.points_are_rows()) {
                    // The log tells whose points they are.
                    let log = found.first().map(|preset| Log {
                        path: first,
                        preset,
                    });
                    return self.points_alone(place, request.preset, log.as_ref());
                }
                let drafts = found
                    .into_iter()
                    .map(|preset| preset_draft(preset, path, &shape))
                    .collect();
                self.with_points(drafts, place)
            }
            Recognised::Unknown(near) => {
                if let Some(name) = request.preset {
                    return Err(recognise::does_not_fit(name, &shape));
                }
                let mapping = guess::mapping(&shape::open(first)?).map_err(|error| {
                    Failure::new(
                        Exit::Failed,
                        format!("look at {}: {error}", first.display()),
                    )
                })?;
                let Some(mapping) = mapping else {
                    return Err(recognise::unknown(first, near.as_ref()));
                };
                let mut draft = Draft::of_guess(mapping, path);
                draft.notes.extend(near.as_ref().map(recognise::Near::note));
                self.with_points(vec![draft], place)
            }
        }
    }

    /// Finds the points of a store with rows.
    fn with_points(&self, drafts: Vec<Draft>, place: &Where) -> Result<Proposal, Failure> {
        let own = drafts.iter().find(|draft| draft.points == Points::OfPreset);
        match &place.points {
            place::Points::Nowhere => self.without_points(first(drafts)?),
            _ if own.is_some() => self.with_own_points(first(drafts)?, &place.points),
            place::Points::Qdrant(url) => {
                let candidates = self.collections(drafts, url, place.collection.as_deref())?;
                self.best(candidates, url)
            }
            place::Points::File(path) => {
                let candidates = tables::candidates(drafts, path)?;
                self.best(candidates, path)
            }
            place::Points::Unsaid => self.unsaid(first(drafts)?),
        }
    }

    /// A store of which somebody says that it has no points.
    fn without_points(&self, draft: Draft) -> Result<Proposal, Failure> {
        let mut draft = draft.without_points();
        if let Some(preset) = draft.preset.filter(|preset| preset.needs_server()) {
            draft.doubt(&format!(
                "{} has its points on a Qdrant server: with none they stay when their rows go",
                preset.name
            ));
        }
        self.settled(draft, None)
    }

    /// A store whose points are in the database of its rows, whatever else was named.
    fn with_own_points(
        &self,
        mut draft: Draft,
        named: &place::Points,
    ) -> Result<Proposal, Failure> {
        if let place::Points::Qdrant(place) | place::Points::File(place) = named
            && Some(place) != draft.path.as_ref()
        {
            let note = format!("its points are in the same database: {place} was not looked at");
            draft.notes.push(note);
        }
        let proof = proof::of(&self.parse(&draft)?, self.stop)?;
        self.settled(draft, Some(proof))
    }

    /// The points of a store that nobody said where they are.
    fn unsaid(&self, draft: Draft) -> Result<Proposal, Failure> {
        match draft.preset {
            Some(preset) if preset.needs_server() => Err(Failure::new(
                Exit::Usage,
                format!(
                    "the points of {} are on a Qdrant server: where?",
                    preset.name
                ),
            )
            .with_hint("name its gRPC address behind the database, such as http://127.0.0.1:6334")),
            _ => {
                let mut draft = draft.without_points();
                draft.notes.push(
                    "no vectors were named: if this store has any, name them, or its rows go and their points stay"
                        .to_owned(),
                );
                self.settled(draft, None)
            }
        }
    }

    /// The draft of which most rows have their points where it says.
    fn best(&self, candidates: Vec<Draft>, looked_at: &str) -> Result<Proposal, Failure> {
        let guess = candidates
            .iter()
            .find(|draft| draft.mapping.is_some())
            .cloned();
        let needs_server = |draft: &Draft| draft.preset.is_some_and(Preset::needs_server);
        let is_on_a_server = candidates.iter().any(needs_server);
        let mut proofs = Vec::new();
        for draft in candidates {
            let proof = proof::of(&self.parse(&draft)?, self.stop)?;
            proofs.push((draft, proof));
        }
        let most = proofs
            .iter()
            .map(|(_, proof)| proof.found)
            .max()
            .unwrap_or_default();
        let is_empty = proofs.iter().all(|(_, proof)| proof.of == 0);
        let is_only = proofs.len() == 1;
        let mut best: Vec<_> = proofs
            .into_iter()
            .filter(|(draft, proof)| {
                if most > 0 {
                    proof.found == most
                } else {
                    is_only && (is_empty || draft.is_asked_for)
                }
            })
            .collect();
        match (best.pop(), best.is_empty()) {
            (Some((mut draft, proof)), true) => {
                if most == 0 && !is_empty {
                    draft.doubt("not one of the rows that were looked at has its point there");
                }
                self.settled(draft, Some(proof))
            }
            (Some(last), false) => {
                best.push(last);
                Err(ambiguous(&best))
            }
            (None, _) => match guess {
                Some(mut draft) => {
                    draft.notes.push(format!(
                        "no row has its point at {looked_at}: write [store.vectors] by hand"
                    ));
                    self.settled(draft.without_points(), None)
                }
                None => Err(no_points(looked_at, is_on_a_server)),
            },
        }
    }

    /// Gives a store another name, where there is a state of this one that is of another store.
    fn with_free_name(&self, mut draft: Draft) -> Result<Draft, Failure> {
        let plain = draft.name.clone();
        let mut taken = None;
        for number in 2.. {
            let Some(dir) = self.foreign_state(&draft)? else {
                break;
            };
            taken.get_or_insert(dir);
            draft.name = format!("{plain}-{number}");
        }
        if let Some(dir) = taken {
            draft.notes.push(format!(
                "{} is the state of another store: this one is called {}",
                dir.path().display(),
                draft.name
            ));
        }
        Ok(draft)
    }

    /// The state under the name of a draft, when it is of another store. One that cannot be read is for the run to judge.
    fn foreign_state(&self, draft: &Draft) -> Result<Option<StateDir>, Failure> {
        let config = self.config(draft)?;
        let Some(store) = config.stores.first() else {
            return Ok(None);
        };
        let dir = StateDir::new(&config.state_dir, &store.name);
        let is_foreign = dir
            .read(Partition::Main)
            .ok()
            .flatten()
            .is_some_and(|state| engine::place::require_own(&state, store).is_err());
        Ok(is_foreign.then_some(dir))
    }

    fn settled(&self, draft: Draft, proof: Option<Proof>) -> Result<Proposal, Failure> {
        let draft = self.with_free_name(self.with_rest(draft)?)?;
        Ok(Proposal {
            store: draft.name.clone(),
            preset: draft.preset,
            points: draft.points_in_words(),
            proof: proof.filter(|proof| proof.of > 0),
            confirmed: draft.confirmed,
            pairs: draft.has_rest,
            text: draft.text(Folders::of(&self.output)),
            notes: draft.notes,
        })
    }
}

fn ambiguous(drafts: &[(Draft, Proof)]) -> Failure {
    let places: Vec<_> = drafts
        .iter()
        .filter_map(|(draft, _)| draft.points_in_words())
        .collect();
    Failure::new(
        Exit::Usage,
        format!("the points may be in {}", places.join(", or in ")),
    )
    .with_hint("say which with --collection or --preset")
}

fn no_points(looked_at: &str, is_on_a_server: bool) -> Failure {
    let hint = if is_on_a_server {
        "is it what this store uses? name the collection with --collection"
    } else {
        "is it what this store uses? name the collection with --collection, or none for a store without points"
    };
    let problem = format!("no row of the store has its point at {looked_at}");
    Failure::new(Exit::NoStore, problem).with_hint(hint)
}

/// A draft of a preset, with what this database calls otherwise, and its own points if it has their table.
fn preset_draft(preset: &'static Preset, path: &str, shape: &Shape) -> Draft {
    let mut draft = Draft::of_preset(preset, path);
    let mut vectors = preset.vector_table();
    let renamed = preset
        .fingerprint()
        .map(|fingerprint| fingerprint.renamed(shape));
    for (name, there) in renamed.unwrap_or_default() {
        draft.overrides.extend(preset.with_table(&name, &there));
        vectors = vectors.map(|table| if table == name { there.clone() } else { table });
    }
    match vectors {
        Some(table) if shape.tables.contains_key(&table.to_lowercase()) => Draft {
            points: Points::OfPreset,
            ..draft
        },
        _ => draft,
    }
}

fn first(drafts: Vec<Draft>) -> Result<Draft, Failure> {
    let none = || Failure::new(Exit::NoStore, "no preset fits");
    drafts.into_iter().next().ok_or_else(none)
}

/// The presets that fit, or the one of them that was asked for.
fn wanted(found: &[&'static Preset], asked: Option<&str>) -> Result<Vec<&'static Preset>, Failure> {
    let Some(name) = asked else {
        return Ok(found.to_vec());
    };
    if presets::find(name).is_none() {
        return Err(
            Failure::new(Exit::Usage, format!("no preset named {name:?}"))
                .with_hint("see hypnos presets"),
        );
    }
    let wanted = found.iter().find(|preset| preset.name == name);
    wanted.map(|preset| vec![*preset]).ok_or_else(|| {
        let names: Vec<_> = found.iter().map(|preset| preset.name).collect();
        Failure::new(
            Exit::NoStore,
            format!("this is no store of {name}, but of {}", names.join(" or ")),
        )
    })
}
