//! The erasure itself: removals until a look finds nothing, the state, what is left in the files, the pairs.

use std::collections::BTreeSet;

use crate::apply::{self, Job, States};
use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::engine::{self, Options, by_hand};
use crate::error::Failure;
use crate::exit::Exit;
use crate::failpoint::{Failpoint, hit};
use crate::guard::{Census, Consent, approve};
use crate::memory::Namespace;
use crate::pass::erasure::{self, Extent};
use crate::pass::{Cx, PassName};
use crate::plan::{ActionKind, Tally};
use crate::report::count;
use crate::state::{Forgotten, State, StateError};
use crate::store::Stores;
use crate::store::rows;
use crate::store::traces::Trace;
use crate::store::vectors::VectorStore as _;
use crate::view::{Sightings, View};

use super::places::{entities_place, kept_aside, places, points_place, rows_place};
use super::{Erased, Target, earlier, failed};

/// How often it is looked again for what an agent wrote meanwhile: rows and points in turn.
const ROUNDS: u32 = 8;

/// Where removed text still is in a collection that no other store or application uses.
const SEGMENTS_OF_ITS_OWN: &str = "segments and log of the server: until its optimizer rewrites them, or until, with the agent stopped, \
     `hypnos snapshot restore` puts back a pair that `forget --snapshots` took; and in its own snapshots";

/// The erasure of namespaces from one store, under its lock.
pub(super) struct Erasing<'a> {
    pub(super) config: &'a Config,
    pub(super) stores: &'a Stores,
    pub(super) states: &'a States,
    pub(super) options: &'a Options,
    pub(super) cx: Cx<'a>,
}

impl Erasing<'_> {
    pub(super) fn job(&self) -> Job<'_> {
        Job {
            stores: self.stores,
            states: self.states,
            run: &self.options.run,
            pass: PassName::Review,
            now: self.options.now,
            cx: self.cx,
        }
    }

    /// Erases a namespace from the stores and from the state, and then from the pairs, if that is wanted now or was when
    /// it was begun.
    pub(super) fn erase(&self, target: Target<'_>) -> Result<Erased, Failure> {
        let namespace = target.namespace;
        let main = self.states.main();
        let mut erased = Erased::new(&self.stores.name);
        let sightings = Sightings::new();
        let view = View::new(self.options.now, self.stores, &sightings);
        hit(Failpoint::ForgetBefore).map_err(engine::injected)?;
        let begun = main
            .begin_forgetting(namespace, target.from_pairs, self.options.now)
            .map_err(engine::state_failure)?;
        hit(Failpoint::ForgetBegun).map_err(engine::injected)?;
        erased.begun_at = begun.cut_off;
        self.stores(&view, namespace, &mut erased)?;
        if erased.interrupted {
            return Ok(erased);
        }
        hit(Failpoint::ForgetStateBefore).map_err(engine::injected)?;
        let mut first_removal = None;
        for place in places(self.stores, &view, namespace)? {
            let first = self
                .states
                .at(place.as_partition(), |state| {
                    self.state(state, namespace, &mut erased)?;
                    state.first_removal(namespace)
                })
                .map_err(engine::state_failure)?;
            first_removal = earlier(first_removal, first);
        }
        hit(Failpoint::ForgetStateDone).map_err(engine::injected)?;
        self.overwrite(&view, namespace, &mut erased)?;
        hit(Failpoint::ForgetOverwritten).map_err(engine::injected)?;
        self.pairs(namespace, first_removal, begun.from_pairs, &mut erased)?;
        if erased.interrupted {
            return Ok(erased);
        }
        if !erased.is_in_stores() && !erased.is_to_leave_pairs() {
            main.finish_forgetting(namespace)
                .map_err(engine::state_failure)?;
        }
        tidy(main, &mut erased)?;
        Ok(erased)
    }

    /// Removes rows and points until a look finds none.
    fn stores(
        &self,
        view: &View<'_>,
        namespace: &Namespace,
        erased: &mut Erased,
    ) -> Result<(), Failure> {
        let mut removed: Tally<ActionKind> = Tally::new();
        let mut refused = BTreeSet::new();
        for _ in 0..ROUNDS {
            let plan = match erasure::plan(view, namespace, &self.cx) {
                Ok(plan) => plan,
                Err(error) if error.is_interruption() => {
                    erased.interrupted = true;
                    break;
                }
                Err(error) => return Err(failed(&error)),
            };
            if plan.actions.is_empty() {
                break;
            }
            let before = erasure::extent(view, namespace).map_err(|error| failed(&error))?;
            let bounds = self.config.guard;
            let approved = approve(plan, &Census::default(), bounds, Consent::Accepted)
                .map_err(|refused| Failure::new(Exit::LeftOver, refused.1.to_string()))?;
            let (done, result) = apply::apply(approved, &self.job());
            by_hand::count(&self.job(), &done)?;
            result.map_err(|error| failed(&error))?;
            if let Some(unread) = done.unread.first() {
                let message = format!("change {}: {}", unread.partition, unread.problem);
                return Err(Failure::new(Exit::Failed, message));
            }
            refused.extend(done.refused);
            let after = erasure::extent(view, namespace).map_err(|error| failed(&error))?;
            let gone = |before: u64, after: u64| {
                usize::try_from(before.saturating_sub(after)).unwrap_or(usize::MAX)
            };
            count(
                &mut removed,
                ActionKind::Delete,
                gone(before.rows, after.rows),
            );
            count(
                &mut removed,
                ActionKind::DropPoint,
                gone(before.points, after.points),
            );
            count(
                &mut removed,
                ActionKind::DropEntity,
                gone(before.entities, after.entities),
            );
            if done.interrupted {
                erased.interrupted = true;
                break;
            }
            if before == after {
                break;
            }
        }
        let before = match erased.begun_at {
            Some(since) => self.removed_before(view, namespace, since)?,
            None => Extent::default(),
        };
        let of = |kind| removed.get(&kind).copied().unwrap_or_default();
        let (rows, points, entities) = (
            rows_place(view, namespace)?,
            points_place(&self.stores.config),
            entities_place(&self.stores.config),
        );
        erased.removed("rows", &rows, before.rows + of(ActionKind::Delete));
        erased.removed("points", &points, before.points + of(ActionKind::DropPoint));
        erased.removed("entities", &entities, of(ActionKind::DropEntity));
        let left = erasure::extent(view, namespace).map_err(|error| failed(&error))?;
        if left.rows > 0 {
            let why = match refused.first() {
                Some(why) => format!(
                    "{} rows: the database refuses to change some: {why}",
                    left.rows
                ),
                None => format!(
                    "{} rows: other rows forbid that they go, or the agent is writing them",
                    left.rows
                ),
            };
            erased.remains("rows", &rows, why, true);
        }
        if left.points > 0 {
            let why = format!(
                "{} points, of rows that remain or written since",
                left.points
            );
            erased.remains("points", &points, why, true);
        }
        if left.entities > 0 {
            let why = format!("{} points that list memories, written since", left.entities);
            erased.remains("entities", &entities, why, true);
        }
        Ok(())
    }

    /// What runs that were cut off had removed since it was begun. What lists memories is in no such count.
    fn removed_before(
        &self,
        view: &View<'_>,
        namespace: &Namespace,
        since: Timestamp,
    ) -> Result<Extent, Failure> {
        let mut extent = Extent::default();
        for place in places(self.stores, view, namespace)? {
            let Forgotten { memories, points } = self
                .states
                .at(place.as_partition(), |state| {
                    state.forgotten_since(namespace, since, &self.options.run)
                })
                .map_err(engine::state_failure)?;
            if self.stores.config.rows.are_points() {
                extent.points += memories;
            } else {
                extent.rows += memories;
                extent.points += points;
            }
        }
        Ok(extent)
    }

    fn state(
        &self,
        state: &State,
        namespace: &Namespace,
        erased: &mut Erased,
    ) -> Result<(), StateError> {
        let held = state.forget(namespace, self.options.now)?;
        erased.held(state.path(), held);
        let place = state.path().display().to_string();
        let open = state.held(namespace)?.actions;
        if open > 0 {
            let why = format!("{open} actions that are not finished: the next run finishes them");
            erased.remains("actions", &place, why, true);
        }
        if !state.tidy()? {
            let why = "the write-ahead log, which somebody is reading: the next run empties it";
            erased.remains("log", &place, why, true);
        }
        Ok(())
    }

    /// Overwrites what the removals left behind.
    fn overwrite(
        &self,
        view: &View<'_>,
        namespace: &Namespace,
        erased: &mut Erased,
    ) -> Result<(), Failure> {
        for file in erasure::files(view, namespace).map_err(|error| failed(&error))? {
            let place = file.path.display().to_string();
            let traces = self.scrub(&file).map_err(|error| failed(&error))?;
            // A mirror of points goes with this process.
            if !self.stores.config.rows.are_points() {
                erased.traces(&place, &traces);
            }
        }
        if let Some(vectors) = &self.stores.vectors {
            let traces = vectors.scrub().map_err(|error| failed(&error))?;
            let place = points_place(&self.stores.config);
            match &traces[..] {
                // A collection that others share is not replaced by a restore.
                [Trace::Segments] if !self.is_collection_shared() => {
                    erased.remains("segments", &place, SEGMENTS_OF_ITS_OWN, false);
                }
                traces => erased.traces(&place, traces),
            }
        }
        let lists = self.stores.lists(self.cx.stop);
        if let Some(lists) = lists.map_err(|error| failed(&error))? {
            let traces = lists.scrub().map_err(|error| failed(&error))?;
            erased.traces(&entities_place(&self.stores.config), &traces);
        }
        erased.beyond_reach(&self.stores.config);
        kept_aside(&self.stores.config, view, namespace, erased)
    }

    fn is_collection_shared(&self) -> bool {
        let vectors = self.stores.config.vectors.as_ref();
        vectors.is_some_and(config::Vectors::is_collection_shared)
    }

    fn scrub(&self, file: &rows::Partition) -> Result<Vec<Trace>, rows::RowError> {
        self.stores.rows.writer(file)?.scrub()
    }
}

fn tidy(main: &State, erased: &mut Erased) -> Result<(), Failure> {
    if !main.tidy().map_err(engine::state_failure)? {
        let why = "the write-ahead log, which somebody is reading: the next run empties it";
        erased.remains("log", &main.path().display().to_string(), why, true);
    }
    Ok(())
}
