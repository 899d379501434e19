//! `hypnos status`: whether all is well, what waits, the last runs and the newest pair, from the state files and manifests
//! alone. Opens no store and writes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::cli::Global;
use crate::clock::{self, Timestamp};
use crate::config;
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::metrics::journal::{self, Journal};
use crate::metrics::names::Drift;
use crate::output::{Out, memory};
use crate::pass::PassName;
use crate::plan::{ActionKind, QuestionKind, Unread};
use crate::snapshot::Shelf;
use crate::state::{ActionResult, Partition, PassRow, RunRecord, StateDir, StateError, Total};

/// Runs shown per store.
const RUNS: u32 = 5;

/// Shows the state of each store.
pub(super) fn status(names: &[String], global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, names)?;
    let mut exit = Exit::Done;
    for store in config
        .stores
        .iter()
        .filter(|store| names.is_empty() || names.contains(&store.name))
    {
        let dir = StateDir::new(&config.state_dir, &store.name);
        let mut status = Status::read(store, &dir, clock::now())
            .map_err(|error| super::state_failure(&store.name, &error))?;
        status.read_pairs(&Shelf::new(&store.pairs), clock::now())?;
        status.print(out);
        if !status.damaged.is_empty() || !status.damaged_pairs.is_empty() {
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
    /// Newest first.
    runs: Vec<Run>,
    open_intents: u64,
    /// Absences that wait to be believed.
    settling: u64,
    newest_pair: Option<NewestPair>,
    pairs: usize,
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

#[derive(Debug, Serialize)]
struct Run {
    #[serde(rename = "run")]
    id: String,
    command: String,
    started_at: Timestamp,
    /// `unfinished` while it runs, and for ever when it was killed.
    outcome: String,
    exit: Option<u8>,
    finished_at: Option<Timestamp>,
    passes: Vec<Pass>,
}

#[derive(Debug, Serialize)]
struct Pass {
    #[serde(rename = "pass")]
    name: PassName,
    outcome: String,
    applied: Value,
    skipped: Value,
    failed: Value,
    residue: Value,
    findings: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    seconds: f64,
}

impl Run {
    fn new(RunRecord { row, end }: RunRecord, passes: Vec<PassRow>) -> Self {
        let exit = end.as_ref().map(|end| end.exit);
        let finished_at = end.as_ref().map(|end| end.finished_at);
        Self {
            id: row.run,
            command: row.command,
            started_at: row.started_at,
            outcome: end.map_or_else(|| "unfinished".to_owned(), |end| end.outcome),
            exit,
            finished_at,
            passes: passes.into_iter().map(Pass::new).collect(),
        }
    }
}

impl Pass {
    fn new(row: PassRow) -> Self {
        let PassRow {
            pass,
            outcome,
            seconds,
            applied,
            skipped,
            failed,
            residue,
            findings,
            refusal,
            ..
        } = row;
        Self {
            name: pass,
            outcome,
            applied,
            skipped,
            failed,
            residue,
            findings,
            refusal,
            seconds,
        }
    }

    fn summary(&self) -> String {
        let mut line = format!("{:<8}  {:<8}", self.name.as_str(), self.outcome);
        let parts = [
            ("", &self.applied),
            ("skipped ", &self.skipped),
            ("failed ", &self.failed),
            ("left over ", &self.residue),
        ];
        for (name, counts) in parts {
            for (action, count) in counts.as_object().into_iter().flatten() {
                let _ = write!(line, "  {name}{count} {action}");
            }
        }
        if let Some(refusal) = &self.refusal {
            let _ = write!(line, "  {refusal}");
        }
        line
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
            open_intents,
            settling: 0,
            forgetting: 0,
            reversals: Vec::new(),
            newest_pair: None,
            pairs: 0,
            damaged_pairs: Vec::new(),
            damaged: damaged.iter().map(unread).collect(),
            now,
        };
        status.take(&journal);
        if let Some(main) = dir.read(Partition::Main)? {
            status.forgetting = main.forgetting()?.len() as u64;
            status.reversals = Reversal::of_all(&main.totals()?);
            status.settling = main.sightings()?.len() as u64;
            for record in main.runs(RUNS)? {
                let passes = main.passes_of(&record.row.run)?;
                status.runs.push(Run::new(record, passes));
            }
        }
        status.attention = status.attention();
        Ok(status)
    }

    fn take(&mut self, journal: &Journal) {
        let drift = Drift::ALL.map(|kind| (kind.as_str(), journal.drift(kind)));
        self.drift = drift.into_iter().filter(|(_, count)| *count > 0).collect();
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

    fn attention(&self) -> Vec<String> {
        let mut attention = Vec::new();
        match self.runs.iter().find(|run| !run.passes.is_empty()) {
            None => attention.push("no run yet".to_owned()),
            Some(run) if run.exit != Some(0) && self.running.is_none() => {
                attention.push(format!("the last run is {}", run.outcome));
            }
            Some(_) => {}
        }
        if self.open_intents > 0 && self.running.is_none() {
            let open = self.open_intents;
            attention.push(format!("{open} open intents: the next run finishes them"));
        }
        if !self.damaged.is_empty() {
            let damaged = self.damaged.len();
            attention.push(format!("{damaged} state files cannot be read"));
        }
        attention
    }

    /// Looks at the manifests of the pairs; their files are not read.
    fn read_pairs(&mut self, folder: &Shelf, now: Timestamp) -> Result<(), Failure> {
        let listing = folder.list().map_err(|error| Failure::from(&error))?;
        self.pairs = listing.pairs.len();
        self.newest_pair = listing.newest(now).map(|pair| {
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
        let damaged = listing.damaged.iter().map(|(name, error)| Unread {
            partition: name.as_str().into(),
            problem: chain(error),
        });
        self.damaged_pairs = damaged.collect();
        if !self.damaged_pairs.is_empty() {
            let damaged = self.damaged_pairs.len();
            self.attention
                .push(format!("{damaged} pairs cannot be believed"));
        }
        Ok(())
    }

    fn print(&self, out: &mut Out) {
        if out.json {
            out.object("status", self);
            return;
        }
        out.line(&self.headline());
        for problem in &self.attention {
            out.line(&format!("  !          {problem}"));
        }
        for Unread { partition, problem } in self.damaged.iter().chain(&self.damaged_pairs) {
            out.line(&format!("             {partition}: {problem}"));
        }
        if let Some(running) = &self.running {
            out.line(&format!("  running:   {running}"));
        }
        if let Some(age) = self.queue_oldest_seconds {
            let age = memory::age(jiff::SignedDuration::from_secs(age));
            let queue = listed(&self.queue);
            out.line(&format!(
                "  queue      {queue}; the oldest waits for {age}: hypnos review"
            ));
        }
        if !self.drift.is_empty() {
            out.line(&format!(
                "  drift      {}: hypnos check",
                listed(&self.drift)
            ));
        }
        if self.settling > 0 {
            let settling = self.settling;
            out.line(&format!(
                "  settling   {settling} absences wait to be seen again"
            ));
        }
        if self.forgetting > 0 {
            let owners = self.forgetting;
            out.line(&format!(
                "  forgetting {owners} owners: the next run goes on with it"
            ));
        }
        for reversal in self.reversals.iter().filter(|it| it.undone > 0) {
            out.line(&format!(
                "  undone     {}: {} of {} actions ({:.1} %)",
                reversal.pass,
                reversal.undone,
                reversal.applied,
                reversal.rate * 100.0
            ));
        }
        match &self.newest_pair {
            None => out.line("  pair       none yet"),
            Some(pair) => out.line(&format!(
                "  pair       {}: {} old, {} memories, {} bytes",
                pair.pair,
                memory::age(jiff::SignedDuration::from_secs(pair.age_seconds)),
                pair.memories,
                pair.rows_bytes + pair.vectors_bytes
            )),
        }
        for (index, run) in self.runs.iter().enumerate() {
            run.print(out, index == 0);
        }
    }

    fn headline(&self) -> String {
        let verdict = if self.attention.is_empty() {
            "all is well"
        } else {
            "needs attention"
        };
        let success = match self.last_success {
            Some(at) => format!("{} ago", memory::age(self.now.duration_since(at))),
            None => "never".to_owned(),
        };
        format!("{}  {verdict}; last good run: {success}", self.store)
    }
}

impl Run {
    /// One line; of the newest run, one for each pass, too.
    fn print(&self, out: &mut Out, in_full: bool) {
        let Self {
            id,
            started_at,
            outcome,
            passes,
            ..
        } = self;
        let seconds: f64 = passes.iter().map(|pass| pass.seconds).sum();
        let mut line = format!("  {started_at:.0}  {outcome:<11}  {seconds:>7.2} s  {id}");
        if !in_full {
            for pass in passes {
                for (action, count) in pass.applied.as_object().into_iter().flatten() {
                    let _ = write!(line, "  {} {count} {action}", pass.name);
                }
            }
        }
        out.line(&line);
        for pass in passes.iter().filter(|_| in_full) {
            out.line(&format!("    {}", pass.summary()));
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

fn unread((partition, error): &(String, StateError)) -> Unread {
    Unread {
        partition: partition.as_str().into(),
        problem: error.advice(),
    }
}

/// `3 stale, 1 similar`.
fn listed(counts: &BTreeMap<impl std::fmt::Display, u64>) -> String {
    let parts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    parts.join(", ")
}
