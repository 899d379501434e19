//! Figures for Prometheus: what a night did, how the stores are, and what waits.
//!
//! ```text
//! run report -> journal ─┐
//! queue, intents ────────┼─> Figures -> page of text -> /metrics or the textfile
//! rows, points, pairs ───┘
//! ```
//!
//! | module | concern |
//! | --- | --- |
//! | [`names`] | the closed set of names and labels |
//! | [`journal`] | what the state files say |
//! | [`survey`] | what the stores say |
//! | `registry` | the only place that turns figures into metrics |
//! | [`textfile`] | a one-shot run's page, as a file |
//!
//! Policy: a figure is true or says that it is not known. What cannot be read keeps its last value; what never could be
//! is `NaN`, not 0. A success moves only with a run whose passes have read the stores again and found nothing left.
//! Totals stand in the state file, so they outlive the process. No label ever holds an id, a path, a tenant or a
//! namespace.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::error::chain;
use crate::pass::PassName;
use crate::state::StateDir;
use crate::stop::Stop;

pub mod journal;
pub mod names;
mod registry;
pub mod survey;
pub mod textfile;

#[cfg(test)]
mod tests;

pub use registry::CONTENT_TYPE;

use journal::Journal;

/// The figures of a process, shared by the run that moves them and the server that shows them.
#[derive(Debug)]
pub struct Metrics(Mutex<Figures>);

#[derive(Debug, Default)]
struct Figures {
    next_run: Option<Timestamp>,
    stores: BTreeMap<String, StoreFigures>,
}

#[derive(Debug, Default)]
struct StoreFigures {
    journal: Known<Journal>,
    open_intents: Known<u64>,
    rows: Known<survey::Rows>,
    points: Known<u64>,
    pair: Option<Pair>,
}

impl StoreFigures {
    /// What the state files say; nothing where they could never be read.
    fn journal(&self) -> Option<&Journal> {
        match &self.journal {
            Known::Is(journal) => Some(journal),
            Known::NotAsked | Known::Unknown => None,
        }
    }
}

/// The newest verified pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// When it was taken.
    pub taken_at: Timestamp,
    /// Size of its rows, in bytes.
    pub rows_bytes: u64,
    /// Size of its points, in bytes.
    pub vectors_bytes: u64,
}

/// Something that only the store can tell.
#[derive(Debug, Default)]
enum Known<T> {
    /// Nobody has asked yet.
    #[default]
    NotAsked,
    /// It was asked for and could not be read, ever.
    Unknown,
    /// As it was last read.
    Is(T),
}

impl<T> Known<T> {
    /// Takes a new reading; one that failed leaves the last.
    fn learn(&mut self, read: Option<T>) {
        match (read, &self) {
            (Some(value), _) => *self = Self::Is(value),
            (None, Self::NotAsked) => *self = Self::Unknown,
            (None, _) => {}
        }
    }
}

impl Metrics {
    /// Every series of every configured store: what stands in the state files as it is, so that no total of a process that
    /// starts goes back, and what only the stores tell at 0. Takes milliseconds.
    #[must_use]
    pub fn new(config: &Config, now: Timestamp) -> Self {
        let metrics = Self(Mutex::default());
        metrics.reconfigure(config, now);
        metrics
    }

    /// Follows a changed configuration: the series of stores that are gone go, those of new ones come.
    pub fn reconfigure(&self, config: &Config, now: Timestamp) {
        self.configure(config);
        self.refresh(config, now);
    }

    fn configure(&self, config: &Config) {
        let mut figures = self.lock();
        let mut known = std::mem::take(&mut figures.stores);
        figures.stores = config
            .stores
            .iter()
            .map(|store| {
                let own = known.remove(&store.name).unwrap_or_default();
                (store.name.clone(), own)
            })
            .collect();
    }

    /// Says when the next run is due, or the one at work was; `None` when none is planned.
    pub fn set_next_run(&self, next: Option<Timestamp>) {
        self.lock().next_run = next;
    }

    /// Reads everything anew: the state files, the row databases, the number of points. To be called when the process
    /// starts and after each run. Takes seconds where there are millions of memories, and waits for a vector store that
    /// is slow; takes no lock, and never fails: what cannot be read is logged.
    pub fn survey(&self, config: &Config, now: Timestamp, stop: &Stop) {
        self.refresh(config, now);
        for store in &config.stores {
            let rows = read(store, survey::rows(store, &config.state_dir, now, stop));
            let points = read(store, survey::points(store, stop));
            self.update(store, |figures| {
                figures.rows.learn(rows);
                figures.points.learn(points);
            });
        }
    }

    /// Reads the state files and the manifests of each store anew, so that answers, undos and runs by hand show. Takes
    /// milliseconds.
    pub fn refresh(&self, config: &Config, now: Timestamp) {
        for store in &config.stores {
            let dir = StateDir::new(&config.state_dir, &store.name);
            let journal = read(store, Journal::read(&dir, &enabled(store), now));
            let open = read(store, journal::open_intents(&dir));
            let pair = read(store, survey::pair(store, now));
            self.update(store, |figures| {
                figures.journal.learn(journal);
                if let Some(pair) = pair {
                    figures.pair = pair;
                }
                figures.open_intents.learn(open.map(|(open, damaged)| {
                    for (_, error) in damaged {
                        warn(store, &error);
                    }
                    open
                }));
            });
        }
    }

    /// The page for an instant, in Prometheus' text format, see [`CONTENT_TYPE`]. Reads nothing.
    #[must_use]
    pub fn render(&self, now: Timestamp) -> String {
        registry::page(&self.lock(), now)
    }

    /// Changes the figures of a store, unless it was configured away meanwhile.
    fn update(&self, store: &config::Store, change: impl FnOnce(&mut StoreFigures)) {
        if let Some(figures) = self.lock().stores.get_mut(&store.name) {
            change(figures);
        }
    }

    /// The figures are valid after every step, so a panic elsewhere does not spoil them.
    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The passes that are switched on for a store.
#[must_use]
pub fn enabled(store: &config::Store) -> Vec<PassName> {
    let is_enabled = |pass: &PassName| pass.is_enabled(&store.passes);
    PassName::ALL.into_iter().filter(is_enabled).collect()
}

fn read<T, E: std::error::Error + 'static>(
    store: &config::Store,
    result: Result<T, E>,
) -> Option<T> {
    result.map_err(|error| warn(store, &error)).ok()
}

fn warn(store: &config::Store, error: &(dyn std::error::Error + 'static)) {
    tracing::warn!(store = %store.name, error = %chain(error), "a figure of the metrics is not known");
}
