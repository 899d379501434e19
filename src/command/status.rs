//! `hypnos status`: the last runs and what waits, from the state files alone. Opens no store and writes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::cli::Global;
use crate::clock::Timestamp;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Out;
use crate::pass::PassName;
use crate::plan::{ActionKind, Unread};
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
        let status = Status::read(&store.name, &dir)
            .map_err(|error| super::state_failure(&store.name, &error))?;
        status.print(out);
        if !status.damaged.is_empty() {
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
    /// Namespaces that are being erased.
    #[serde(skip_serializing_if = "is_none")]
    forgetting: u64,
    /// How much of what each pass did was taken back, ever.
    reversals: Vec<Reversal>,
    /// State files of tenants that cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Unread>,
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
    fn read(store: &str, dir: &StateDir) -> Result<Self, StateError> {
        let running = dir.holder()?.map(|holder| holder.to_string());
        let mut status = Self {
            store: store.to_owned(),
            running,
            runs: Vec::new(),
            open_intents: 0,
            settling: 0,
            forgetting: 0,
            reversals: Vec::new(),
            damaged: Vec::new(),
        };
        if let Some(main) = dir.read(Partition::Main)? {
            status.open_intents = main.count_open_intents()?;
            status.forgetting = main.forgetting()?.len() as u64;
            status.reversals = Reversal::of_all(&main.totals()?);
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
        for Unread { partition, problem } in &self.damaged {
            out.line(&format!("  {partition}: {problem}"));
        }
        if self.forgetting > 0 {
            out.line(&format!(
                "  {} owners are being forgotten: the next run goes on with it",
                self.forgetting
            ));
        }
        for reversal in self.reversals.iter().filter(|it| it.undone > 0) {
            out.line(&format!(
                "  {}: {} of {} actions were undone ({:.1} %)",
                reversal.pass,
                reversal.undone,
                reversal.applied,
                reversal.rate * 100.0
            ));
        }
        if self.settling > 0 {
            out.line(&format!(
                "  {} absences wait to be seen again",
                self.settling
            ));
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

fn open_intents(dir: &StateDir, tenant: &str) -> Result<u64, StateError> {
    let state = dir.read(Partition::Tenant(tenant))?;
    state.map_or(Ok(0), |state| state.count_open_intents())
}
