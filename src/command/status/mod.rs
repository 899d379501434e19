//! `hypnos status`: whether all is well, what waits, the last runs and the newest pair, from the state files and manifests
//! alone. Opens no store and writes nothing.
//!
//! | module | holds |
//! | --- | --- |
//! | `attention` | what somebody should look at |
//! | `runs` | the runs, as they are listed |
//! | `print` | the whole, for people |

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::Global;
use crate::clock::{self, Timestamp};
use crate::config;
use crate::engine::{self, NIGHTS};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::metrics::journal::{self, Journal};
use crate::metrics::names::Drift;
use crate::output::Out;
use crate::output::words::counted;
use crate::pass::PassName;
use crate::plan::{ActionKind, Finding, QuestionKind, Unread};
use crate::schedule::Schedule;
use crate::snapshot::Shelf;
use crate::snapshot::restore::{self, CutOff};
use crate::state::{
    ActionResult, Partition, PassRow, RunRecord, StateDir, StateError, StateReader, Total,
};

use runs::Run;

mod attention;
mod print;
mod runs;

/// Shows the state of each store, with its last `runs` runs.
pub(super) fn status(
    names: &[String],
    runs: u32,
    global: &Global,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, names)?;
    let schedule = Schedule::new(&config.schedule);
    let mut exit = Exit::Done;
    for store in config
        .stores
        .iter()
        .filter(|store| names.is_empty() || names.contains(&store.name))
    {
        let dir = StateDir::new(&config.state_dir, &store.name);
        let failed = |error| super::state_failure(&store.name, &error);
        let mut status = Status::read(store, &dir, clock::now()).map_err(failed)?;
        status.read_runs(&dir, runs, &schedule).map_err(failed)?;
        status.read_pairs(&Shelf::of(store), clock::now())?;
        status.print(out);
        let is_damaged = !status.damaged.is_empty() || !status.damaged_pairs.is_empty();
        if is_damaged || status.restore.is_some() {
            exit = Exit::LeftOver;
        }
    }
    Ok(exit)
}

#[derive(Debug, Serialize)]
struct Status {
    store: String,
    /// The run that holds the lock, if one does.
    running: Option<String>,
    /// When a run of all enabled passes last left nothing over.
    last_success: Option<Timestamp>,
    /// What somebody should look at, in a few words each.
    attention: Vec<String>,
    /// Questions that wait for a person, by kind; those that were put off are left out.
    queue: BTreeMap<QuestionKind, u64>,
    /// The age of the oldest of them.
    queue_oldest_seconds: Option<i64>,
    /// Disagreements that the passes last saw, by kind.
    drift: BTreeMap<&'static str, u64>,
    /// Newest first; the last night is always there.
    runs: Vec<Run>,
    /// Which of them is the last night that is not on any more.
    #[serde(skip)]
    night: Option<usize>,
    open_intents: u64,
    /// A restore that is not finished, or whose journal cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    restore: Option<String>,
    /// Absences that wait to be believed.
    settling: u64,
    newest_pair: Option<NewestPair>,
    pairs: usize,
    /// Pairs of other stores in the same folder.
    foreign_pairs: usize,
    /// Pairs that cannot be believed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged_pairs: Vec<Unread>,
    /// Namespaces that are being erased.
    #[serde(skip_serializing_if = "is_none")]
    forgetting: u64,
    /// How much of what each pass did was taken back, ever.
    reversals: Vec<Reversal>,
    /// State files of tenants that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Unread>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
struct NewestPair {
    pair: String,
    taken_at: Timestamp,
    age_seconds: i64,
    memories: u64,
    points: Option<u64>,
    rows_bytes: u64,
    vectors_bytes: u64,
}

/// What became of everything that a pass ever did to the stores.
#[derive(Debug, Serialize)]
struct Reversal {
    pass: PassName,
    applied: u64,
    undone: u64,
    /// The share that was taken back.
    rate: f64,
}

impl Reversal {
    fn of_all(totals: &[Total]) -> Vec<Self> {
        let mut counts: BTreeMap<PassName, (u64, u64)> = BTreeMap::new();
        for total in totals {
            if matches!(total.action, ActionKind::Queue | ActionKind::Close) {
                continue;
            }
            let (applied, undone) = counts.entry(total.pass).or_default();
            match total.result {
                ActionResult::Applied => *applied += total.count,
                ActionResult::Undone => *undone += total.count,
                ActionResult::Skipped | ActionResult::Failed => {}
            }
        }
        let reversal = |(pass, (applied, undone)): (PassName, (u64, u64))| {
            #[expect(clippy::cast_precision_loss, reason = "a share is shown")]
            let rate = undone as f64 / applied.max(undone) as f64;
            Self {
                pass,
                applied,
                undone,
                rate,
            }
        };
        let done = counts.into_iter();
        done.filter(|(_, (applied, undone))| applied + undone > 0)
            .map(reversal)
            .collect()
    }
}

impl Status {
    fn read(store: &config::Store, dir: &StateDir, now: Timestamp) -> Result<Self, StateError> {
        let journal = Journal::read(dir, &crate::metrics::enabled(store), now)?;
        let (open_intents, damaged) = journal::open_intents(dir)?;
        let mut status = Self {
            store: store.name.clone(),
            running: dir.holder()?.map(|holder| holder.to_string()),
            last_success: journal.last_success,
            attention: Vec::new(),
            queue: BTreeMap::new(),
            queue_oldest_seconds: None,
            drift: BTreeMap::new(),
            runs: Vec::new(),
            night: None,
            open_intents,
            restore: None,
            settling: 0,
            forgetting: 0,
            reversals: Vec::new(),
            newest_pair: None,
            pairs: 0,
            foreign_pairs: 0,
            damaged_pairs: Vec::new(),
            damaged: damaged.iter().map(unread).collect(),
            now,
        };
        status.take(&journal);
        status.restore = pending_restore(dir, status.running.is_some());
        if let Some(main) = dir.read(Partition::Main)? {
            engine::place::mention(&main, store);
            status.forgetting = main.forgetting()?.len() as u64;
            status.reversals = Reversal::of_all(&main.totals()?);
        }
        Ok(status)
    }

    /// Reads the last `limit` runs and the last night, and what there is to say about it.
    fn read_runs(
        &mut self,
        dir: &StateDir,
        limit: u32,
        schedule: &Schedule,
    ) -> Result<(), StateError> {
        if let Some(main) = dir.read(Partition::Main)? {
            let mut records = main.runs(limit)?;
            let night = self.last_night(&main)?;
            let is_night =
                |record: &RunRecord| Some(&record.row) == night.as_ref().map(|it| &it.row);
            self.night = records.iter().position(is_night);
            if self.night.is_none() && night.is_some() {
                self.night = Some(records.len());
                records.extend(night);
            }
            for record in records {
                let passes = main.passes_of(&record.row.run)?;
                self.runs.push(Run::new(record, passes));
            }
        }
        let night = self.night.map(|index| &self.runs[index]);
        self.attention = attention::attention(self, night, schedule);
        Ok(())
    }

    /// The last night, but for the one that is on.
    fn last_night(&self, main: &StateReader) -> Result<Option<RunRecord>, StateError> {
        let nights = main.runs_of(&NIGHTS, 2)?;
        let mut nights = nights.into_iter();
        Ok(nights.find(|night| night.end.is_some() || self.running.is_none()))
    }

    fn take(&mut self, journal: &Journal) {
        let drift = Drift::ALL.map(|kind| (kind.as_str(), journal.drift(kind)));
        self.drift = drift.into_iter().filter(|(_, count)| *count > 0).collect();
        // What was seen so long ago that it went is known to the state file until the next look, and waits no more.
        let orphans = journal.looks.get(&PassName::Orphans);
        let settling = |look: &PassRow| journal::count(&look.findings, Finding::Settling.as_str());
        self.settling = orphans.map(settling).unwrap_or_default();
        let mut oldest: Option<Timestamp> = None;
        for kind in QuestionKind::ALL {
            let (count, since) = journal.waiting(kind, self.now);
            if let Some(since) = since {
                self.queue.insert(kind, count);
                oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
            }
        }
        self.queue_oldest_seconds = oldest.map(|since| self.now.duration_since(since).as_secs());
    }

    /// Looks at the manifests of the pairs; their files are not read but for the first pages of the newest.
    fn read_pairs(&mut self, folder: &Shelf, now: Timestamp) -> Result<(), Failure> {
        let listing = folder.list(now).map_err(|error| Failure::from(&error))?;
        self.pairs = listing.pairs.len();
        self.foreign_pairs = listing.foreign.len();
        self.newest_pair = listing.newest().map(|pair| {
            let manifest = &pair.manifest;
            let (rows_bytes, vectors_bytes) = manifest.bytes();
            NewestPair {
                pair: pair.name.clone(),
                taken_at: manifest.taken_at,
                age_seconds: now.duration_since(manifest.taken_at).as_secs(),
                memories: manifest.memories(),
                points: manifest.points.as_ref().map(|points| points.count.total),
                rows_bytes,
                vectors_bytes,
            }
        });
        let damaged = listing
            .damaged
            .iter()
            .map(|(name, error)| Unread::new(name.as_str(), chain(error)));
        self.damaged_pairs = damaged.collect();
        if !self.damaged_pairs.is_empty() {
            let damaged = counted(self.damaged_pairs.len() as u64, "pair", "pairs");
            self.attention.push(format!("{damaged} cannot be believed"));
        }
        Ok(())
    }
}

/// What there is to say about a restore that was cut off, unless it is on, or about to be dealt with.
fn pending_restore(dir: &StateDir, is_running: bool) -> Option<String> {
    match restore::cut_off(dir) {
        Ok(None) => None,
        Ok(Some(_)) if is_running => None,
        Ok(Some(CutOff { pair, is_decided })) => Some(if is_decided {
            format!(
                "the restore of pair {pair} is not finished: keep the agent stopped, the next run finishes it or takes \
                 it back; hypnos snapshot cancel gives it up where nothing was replaced yet"
            )
        } else {
            format!(
                "the restore of pair {pair} was cut off and changed nothing: the next run discards it"
            )
        }),
        Err(error) => Some(format!(
            "a restore is not finished, and its journal cannot be read: {}",
            chain(&error)
        )),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

fn unread((partition, error): &(String, StateError)) -> Unread {
    Unread::new(partition.as_str(), error.advice())
}
