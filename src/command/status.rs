//! `hypnos status`: the last runs, what waits and the newest pair, from the state files and manifests alone. Opens no
//! store and writes nothing.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::cli::Global;
use crate::clock::{self, Timestamp};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::output::Out;
use crate::pass::PassName;
use crate::plan::Unread;
use crate::snapshot::Shelf;
use crate::state::{Partition, PassRow, RunRecord, StateDir, StateError};

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
        let mut status = Status::read(&store.name, &dir)
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
    /// State files of tenants that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Unread>,
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
    fn read(store: &str, dir: &StateDir) -> Result<Self, StateError> {
        let running = dir.holder()?.map(|holder| holder.to_string());
        let mut status = Self {
            store: store.to_owned(),
            running,
            runs: Vec::new(),
            open_intents: 0,
            settling: 0,
            newest_pair: None,
            pairs: 0,
            damaged_pairs: Vec::new(),
            damaged: Vec::new(),
        };
        if let Some(main) = dir.read(Partition::Main)? {
            status.open_intents = main.count_open_intents()?;
            status.settling = main.sightings()?.len() as u64;
            for record in main.runs(RUNS)? {
                let passes = main.passes_of(&record.row.run)?;
                status.runs.push(Run::new(record, passes));
            }
        }
        let tenants = dir.tenants()?;
        for (name, error) in tenants.damaged {
            status.damage(&name, &error);
        }
        for tenant in &tenants.names {
            match open_intents(dir, tenant) {
                Ok(open) => status.open_intents += open,
                Err(error) => status.damage(tenant, &error),
            }
        }
        Ok(status)
    }

    /// Looks at the manifests of the pairs; their files are not read.
    fn read_pairs(&mut self, folder: &Shelf, now: Timestamp) -> Result<(), Failure> {
        let listing = folder.list().map_err(|error| Failure::from(&error))?;
        self.pairs = listing.pairs.len();
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
        let damaged = listing.damaged.iter().map(|(name, error)| Unread {
            partition: name.as_str().into(),
            problem: chain(error),
        });
        self.damaged_pairs = damaged.collect();
        Ok(())
    }

    fn damage(&mut self, partition: &str, error: &StateError) {
        self.damaged.push(Unread {
            partition: partition.into(),
            problem: error.advice(),
        });
    }

    fn print(&self, out: &mut Out) {
        if out.json {
            out.object("status", self);
            return;
        }
        out.line(&self.store);
        if let Some(running) = &self.running {
            out.line(&format!("  running: {running}"));
        }
        if self.runs.is_empty() {
            out.line("  no run yet");
        }
        for Run {
            id,
            started_at,
            outcome,
            passes,
            ..
        } in &self.runs
        {
            out.line(&format!("  {started_at:.0}  {outcome}  {id}"));
            for pass in passes {
                out.line(&format!("    {}", pass.summary()));
            }
        }
        if self.open_intents > 0 {
            out.line(&format!(
                "  {} open intents: the next run finishes them",
                self.open_intents
            ));
        }
        match &self.newest_pair {
            None => out.line("  no pair yet"),
            Some(pair) => out.line(&format!(
                "  newest pair: {}, {} memories, {} bytes",
                pair.pair,
                pair.memories,
                pair.rows_bytes + pair.vectors_bytes
            )),
        }
        for Unread { partition, problem } in self.damaged.iter().chain(&self.damaged_pairs) {
            out.line(&format!("  {partition}: {problem}"));
        }
        if self.settling > 0 {
            out.line(&format!(
                "  {} absences wait to be seen again",
                self.settling
            ));
        }
    }
}

fn open_intents(dir: &StateDir, tenant: &str) -> Result<u64, StateError> {
    let state = dir.read(Partition::Tenant(tenant))?;
    state.map_or(Ok(0), |state| state.count_open_intents())
}
