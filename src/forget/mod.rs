//! Forgetting an owner: every row, point and record of a namespace, and a certificate of each copy.
//!
//! ```text
//! lock -> run id -> replay -> [plan -> apply]* until nothing is left -> state -> overwrite -> pairs -> Certificate
//! ```
//!
//! The removals are intents like those of a night, with copies that are dropped as soon as each is done; the connections
//! overwrite what they delete. A run that is killed leaves the namespace written down as being forgotten: the next run
//! goes on with it. What stays is a hash, the ids and the time, so that no snapshot brings the memories back.
//!
//! Pairs of snapshots that hold memories of it are named, and dropped when that is wanted. They hold memories of others,
//! too: they go only once there is a newer pair without the owner, taken and verified if need be.
//!
//! | module | holds |
//! | --- | --- |
//! | [`certificate`] | what became of each copy |
//! | `erasing` | the erasure of one store |
//! | `pairs` | what of it is in pairs of snapshots |
//! | `places` | where something of it can be |

use crate::apply::States;
use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::engine::{self, Options, by_hand};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::memory::Namespace;
use crate::pass::Cx;
use crate::pass::erasure;
use crate::plan::Unread;
use crate::state::{Partition, StateDir};
use crate::store::Stores;
use crate::store::sqlite::Access;
use crate::view::{Sightings, View};

pub mod certificate;
mod erasing;
mod pairs;
mod places;

pub use certificate::{Certificate, Copy, Erased, Remaining};

use erasing::Erasing;
use places::{entities_place, kept_aside, places, points_place, rows_place};

/// What is to be forgotten.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Whose memories.
    pub namespace: &'a Namespace,
    /// Whether pairs of snapshots that hold some of them are dropped.
    pub from_pairs: bool,
}

/// Counts what a store holds of a namespace. Writes nothing.
///
/// # Errors
///
/// When the store cannot be opened or read.
pub fn foresee(
    config: &Config,
    store: &config::Store,
    target: Target<'_>,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Erased, Failure> {
    let stores = Stores::open(store, &config.state_dir, Access::Read, cx.stop)?;
    let namespace = target.namespace;
    let sightings = Sightings::new();
    let view = View::new(options.now, &stores, &sightings);
    let mut erased = Erased::new(&stores.name);
    let extent = erasure::extent(&view, namespace).map_err(|error| failed(&error))?;
    erased.removed("rows", &rows_place(&view, namespace)?, extent.rows);
    erased.removed("points", &points_place(store), extent.points);
    erased.removed("entities", &entities_place(store), extent.entities);
    erased.beyond_reach(store);
    kept_aside(store, &view, namespace, &mut erased)?;
    let mut first_removal = None;
    for place in places(&stores, &view, namespace)? {
        let state = stores.state.read(place.as_partition());
        if let Some(state) = state.map_err(engine::state_failure)? {
            let held = state.held(namespace).map_err(engine::state_failure)?;
            erased.held(state.path(), held);
            let first = state.first_removal(namespace);
            first_removal = earlier(first_removal, first.map_err(engine::state_failure)?);
        }
    }
    pairs::foresee(
        &stores.config,
        target,
        first_removal,
        options.now,
        &mut erased,
    );
    Ok(erased)
}

/// Erases a namespace from a store.
///
/// # Errors
///
/// When another run holds the lock, or the store cannot be opened or changed: the next run goes on with it.
pub fn forget(
    config: &Config,
    store: &config::Store,
    target: Target<'_>,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Erased, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let stores = Stores::open(store, &config.state_dir, Access::Erase, cx.stop)?;
    by_hand::in_a_run(dir, store, options, Erased::outcome, |states| {
        let erasing = Erasing {
            config,
            stores: &stores,
            states,
            options,
            cx: *cx,
        };
        by_hand::finish_earlier(&erasing.job())?;
        erasing.erase(target)
    })
}

/// What came of going on with what killed runs had begun to forget.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// Namespaces that were gone on with.
    pub(crate) namespaces: u64,
    /// What of them could not be erased, by place.
    pub(crate) unread: Vec<Unread>,
    /// Whether it was stopped before its end.
    pub(crate) interrupted: bool,
}

/// How a run opens a store: where an erasure was begun, its removals are finished by the replay, and overwrite.
pub(crate) fn access(dir: &StateDir) -> Access {
    // What cannot be read here is an error soon enough.
    let begun = dir
        .read(Partition::Main)
        .and_then(|main| main.map_or(Ok(Vec::new()), |main| main.forgetting()));
    match begun {
        Ok(begun) if !begun.is_empty() => Access::Erase,
        _ => Access::Write,
    }
}

/// Goes on with what killed runs had begun to forget.
///
/// # Errors
///
/// As [`forget`].
pub(crate) fn finish_earlier(
    config: &Config,
    store: &config::Store,
    states: &States,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Finished, Failure> {
    let mut finished = Finished::default();
    let begun = states.main().forgetting().map_err(engine::state_failure)?;
    if begun.is_empty() {
        return Ok(finished);
    }
    let stores = Stores::open(store, &config.state_dir, Access::Erase, cx.stop)?;
    let erasing = Erasing {
        config,
        stores: &stores,
        states,
        options,
        cx: *cx,
    };
    for begun in &begun {
        let erased = erasing.erase(Target {
            namespace: &begun.namespace,
            from_pairs: begun.from_pairs,
        })?;
        finished.namespaces += 1;
        finished.interrupted |= erased.interrupted;
        let left = erased.remaining.into_iter().filter(|it| it.unfinished);
        finished.unread.extend(left.map(|remaining| {
            let problem = format!("of an owner who is to be forgotten: {}", remaining.why);
            Unread::new(remaining.place.as_str(), problem)
        }));
    }
    Ok(finished)
}

/// The earlier of two instants that are known or not.
fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Failed, chain(error)).with_hint("the next run goes on with it")
}
