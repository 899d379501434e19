//! Forgetting an owner: every row, point and record of a namespace, and a certificate of each copy.
//!
//! ```text
//! lock -> run id -> replay -> [plan -> apply]* until nothing is left -> state -> overwrite -> Certificate
//! ```
//!
//! The removals are intents like those of a night, with copies that are dropped as soon as each is done; the connections
//! overwrite what they delete. A run that is killed leaves the namespace written down as being forgotten: the next run
//! goes on with it. What stays is a hash, the ids and the time, so that no snapshot brings the memories back.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::apply::{self, Job, States};
use crate::clock::Timestamp;
use crate::config::{self, Backend, Config};
use crate::engine::{self, Options, by_hand};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::failpoint::{Failpoint, hit};
use crate::guard::{Census, Consent, approve};
use crate::memory::Namespace;
use crate::pass::erasure;
use crate::pass::{Cx, PassName};
use crate::plan::{ActionKind, Tally, Unread};
use crate::report::count;
use crate::state::{Held, NamespaceHash, Partition, State, StateDir};
use crate::store::rows;
use crate::store::sqlite::Access;
use crate::store::traces::Trace;
use crate::store::{Stores, place};
use crate::view::{Sightings, View};

/// How often it is looked again for what an agent wrote meanwhile: rows and points in turn.
const ROUNDS: u32 = 8;

/// What became of each copy of a namespace, in every store.
#[derive(Debug, Serialize)]
pub struct Certificate {
    /// The namespace.
    pub namespace: String,
    /// Its SHA-256, all that is kept of the name.
    pub namespace_hash: String,
    /// The run that erased it; `None` when it would only have been erased.
    pub run: Option<String>,
    /// When it began.
    pub at: Timestamp,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The stores.
    pub stores: Vec<Erased>,
    /// What no store of the configuration reaches.
    pub beyond: Vec<String>,
}

/// What became of each copy in one store.
#[derive(Debug, Serialize)]
pub struct Erased {
    /// The store.
    pub store: Arc<str>,
    /// What was removed, or would be.
    pub removed: Vec<Copy>,
    /// What remains, or can.
    pub remaining: Vec<Remaining>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// Copies of one kind in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// `rows`, `points`, `actions`, `pre_images`, `questions`, `sightings`, `compared`.
    pub what: &'static str,
    /// The file, or the collection.
    pub place: String,
    /// How many.
    pub count: u64,
}

/// A place where something remains, or can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// `rows`, `points`, `log`, `free_pages` and so on.
    pub what: &'static str,
    /// The file, or the collection.
    pub place: String,
    /// What it is, and until when.
    pub why: String,
    /// Whether hypnos could still remove it: then the erasure is not complete.
    pub unfinished: bool,
}

impl Certificate {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let mut remaining = self.stores.iter().flat_map(|store| &store.remaining);
        if self.stores.iter().any(|store| store.interrupted) {
            Exit::Interrupted
        } else if !self.dry_run && remaining.any(|remaining| remaining.unfinished) {
            Exit::LeftOver
        } else {
            Exit::Done
        }
    }

    /// A certificate without a store.
    #[must_use]
    pub fn new(namespace: &Namespace, run: Option<&str>, at: Timestamp) -> Self {
        let beyond = [
            "the row of the owner itself, and what other tables hold of it without a foreign key to a memory",
            "backups and replicas of the databases, and copies that were sent elsewhere",
            "blocks that the file system or the disk has freed and not overwritten",
            "logs of the agent and of its model",
        ];
        Self {
            namespace: namespace.to_string(),
            namespace_hash: NamespaceHash::of(namespace).to_string(),
            run: run.map(str::to_owned),
            at,
            dry_run: run.is_none(),
            stores: Vec::new(),
            beyond: beyond.map(str::to_owned).to_vec(),
        }
    }
}

impl Erased {
    fn new(store: &Arc<str>) -> Self {
        Self {
            store: Arc::clone(store),
            removed: Vec::new(),
            remaining: Vec::new(),
            interrupted: false,
        }
    }

    /// Whether there is nothing to remove.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
    }

    fn removed(&mut self, what: &'static str, place: &str, count: u64) {
        if count > 0 {
            self.removed.push(Copy {
                what,
                place: place.to_owned(),
                count,
            });
        }
    }

    fn held(&mut self, place: &Path, held: Held) {
        let Held {
            actions,
            pre_images,
            questions,
            sightings,
            compared,
        } = held;
        let place = place.display().to_string();
        self.removed("actions", &place, actions);
        self.removed("pre_images", &place, pre_images);
        self.removed("questions", &place, questions);
        self.removed("sightings", &place, sightings);
        self.removed("compared", &place, compared);
    }

    fn remains(
        &mut self,
        what: &'static str,
        place: &str,
        why: impl Into<String>,
        unfinished: bool,
    ) {
        let remaining = Remaining {
            what,
            place: place.to_owned(),
            why: why.into(),
            unfinished,
        };
        if !self.remaining.contains(&remaining) {
            self.remaining.push(remaining);
        }
    }

    fn traces(&mut self, place: &str, traces: &[Trace]) {
        for trace in traces {
            let what = match trace {
                Trace::Log => "log",
                Trace::FreePages { .. } => "free_pages",
                Trace::Gaps => "gaps",
                Trace::Journal => "journal",
                Trace::TextIndex { .. } => "text_index",
                Trace::Segments => "segments",
            };
            self.remains(what, place, trace.to_string(), trace.is_unfinished());
        }
    }

    fn outcome(&self) -> (&'static str, Exit) {
        let is_left = self.remaining.iter().any(|remaining| remaining.unfinished);
        match (self.interrupted, is_left, self.removed.is_empty()) {
            (true, ..) => ("interrupted", Exit::Interrupted),
            (_, true, _) => ("partial", Exit::LeftOver),
            (_, _, true) => ("idle", Exit::Done),
            _ => ("applied", Exit::Done),
        }
    }
}

/// Counts what a store holds of a namespace. Writes nothing.
///
/// # Errors
///
/// When the store cannot be opened or read.
pub fn foresee(
    config: &Config,
    store: &config::Store,
    namespace: &Namespace,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Erased, Failure> {
    let stores = Stores::open(store, &config.state_dir, Access::Read, cx.stop)?;
    let sightings = Sightings::new();
    let view = View::new(options.now, &stores, &sightings);
    let mut erased = Erased::new(&stores.name);
    let extent = erasure::extent(&view, namespace).map_err(|error| failed(&error))?;
    erased.removed("rows", &rows_place(&view, namespace)?, extent.rows);
    erased.removed("points", &points_place(store), extent.points);
    for place in places(&stores, &view, namespace)? {
        let state = stores.state.read(place.as_partition());
        if let Some(state) = state.map_err(engine::state_failure)? {
            let held = state.held(namespace).map_err(engine::state_failure)?;
            erased.held(state.path(), held);
        }
    }
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
    namespace: &Namespace,
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
        erasing.erase(namespace)
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
    for namespace in &begun {
        let erased = erasing.erase(namespace)?;
        finished.namespaces += 1;
        finished.interrupted |= erased.interrupted;
        let left = erased.remaining.into_iter().filter(|it| it.unfinished);
        finished.unread.extend(left.map(|remaining| Unread {
            partition: remaining.place.as_str().into(),
            problem: format!("of an owner who is to be forgotten: {}", remaining.why),
        }));
    }
    Ok(finished)
}

struct Erasing<'a> {
    config: &'a Config,
    stores: &'a Stores,
    states: &'a States,
    options: &'a Options,
    cx: Cx<'a>,
}

impl Erasing<'_> {
    fn job(&self) -> Job<'_> {
        Job {
            stores: self.stores,
            states: self.states,
            run: &self.options.run,
            pass: PassName::Review,
            now: self.options.now,
            cx: self.cx,
        }
    }

    fn erase(&self, namespace: &Namespace) -> Result<Erased, Failure> {
        let main = self.states.main();
        let mut erased = Erased::new(&self.stores.name);
        let sightings = Sightings::new();
        let view = View::new(self.options.now, self.stores, &sightings);
        hit(Failpoint::ForgetBefore).map_err(engine::injected)?;
        main.begin_forgetting(namespace, self.options.now)
            .map_err(engine::state_failure)?;
        hit(Failpoint::ForgetBegun).map_err(engine::injected)?;
        self.stores(&view, namespace, &mut erased)?;
        if erased.interrupted {
            return Ok(erased);
        }
        hit(Failpoint::ForgetStateBefore).map_err(engine::injected)?;
        for place in places(self.stores, &view, namespace)? {
            self.states
                .at(place.as_partition(), |state| {
                    self.state(state, namespace, &mut erased)
                })
                .map_err(engine::state_failure)?;
        }
        hit(Failpoint::ForgetStateDone).map_err(engine::injected)?;
        self.overwrite(&view, namespace, &mut erased)?;
        hit(Failpoint::ForgetOverwritten).map_err(engine::injected)?;
        let is_left = |remaining: &Remaining| matches!(remaining.what, "rows" | "points");
        if !erased.remaining.iter().any(is_left) {
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
            by_hand::count(self.states, PassName::Review, &done)?;
            result.map_err(|error| failed(&error))?;
            if let Some(unread) = done.unread.first() {
                let message = format!("change {}: {}", unread.partition, unread.problem);
                return Err(Failure::new(Exit::Failed, message));
            }
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
            if done.interrupted {
                erased.interrupted = true;
                break;
            }
            if before == after {
                break;
            }
        }
        let of = |kind| removed.get(&kind).copied().unwrap_or_default();
        let (rows, points) = (
            rows_place(view, namespace)?,
            points_place(&self.stores.config),
        );
        erased.removed("rows", &rows, of(ActionKind::Delete));
        erased.removed("points", &points, of(ActionKind::DropPoint));
        let left = erasure::extent(view, namespace).map_err(|error| failed(&error))?;
        if left.rows > 0 {
            let why = format!(
                "{} rows: other rows forbid that they go, or the agent is writing them",
                left.rows
            );
            erased.remains("rows", &rows, why, true);
        }
        if left.points > 0 {
            let why = format!(
                "{} points, of rows that remain or written since",
                left.points
            );
            erased.remains("points", &points, why, true);
        }
        Ok(())
    }

    fn state(
        &self,
        state: &State,
        namespace: &Namespace,
        erased: &mut Erased,
    ) -> Result<(), crate::state::StateError> {
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
            erased.traces(&place, &traces);
        }
        if let Some(vectors) = &self.stores.vectors {
            let traces = vectors.scrub().map_err(|error| failed(&error))?;
            erased.traces(&points_place(&self.stores.config), &traces);
        }
        Ok(())
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

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Failed, chain(error)).with_hint("the next run goes on with it")
}

/// A state file that may know of a namespace.
struct Place {
    name: Arc<str>,
    per_tenant: bool,
}

impl Place {
    fn as_partition(&self) -> Partition<'_> {
        place(&self.name, self.per_tenant)
    }
}

/// The main state file, and that of the tenant.
fn places(stores: &Stores, view: &View<'_>, namespace: &Namespace) -> Result<Vec<Place>, Failure> {
    let mut places = vec![Place {
        name: crate::store::MAIN.into(),
        per_tenant: false,
    }];
    if !stores.config.rows.is_per_tenant() {
        return Ok(places);
    }
    let files = erasure::files(view, namespace).map_err(|error| failed(&error))?;
    let mut names: Vec<Arc<str>> = files.into_iter().map(|file| file.name).collect();
    // The file may have gone before its state.
    let tenants = stores.state.tenants().map_err(engine::state_failure)?;
    names.extend(tenants.names.into_iter().filter_map(|tenant| {
        let name = stores.config.rows.namespace.replace("{tenant}", &tenant);
        let known = Namespace::parse(&name)?;
        (known.normal() == namespace.normal()).then(|| tenant.into())
    }));
    names.sort();
    names.dedup();
    places.extend(names.into_iter().map(|name| Place {
        name,
        per_tenant: true,
    }));
    Ok(places)
}

fn rows_place(view: &View<'_>, namespace: &Namespace) -> Result<String, Failure> {
    let files = erasure::files(view, namespace).map_err(|error| failed(&error))?;
    let paths: Vec<String> = files
        .iter()
        .map(|file| file.path.display().to_string())
        .collect();
    Ok(paths.join(", "))
}

fn points_place(store: &config::Store) -> String {
    match store.vectors.as_ref().map(|vectors| &vectors.backend) {
        None => String::new(),
        Some(Backend::Sqlite(table)) => table.path.display().to_string(),
        Some(Backend::Qdrant(server)) => format!("collection {}", server.collection),
    }
}
