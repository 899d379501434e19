//! `hypnos status`: the last runs and what waits, from the state files alone. Opens no store and writes nothing.

use serde::Serialize;

use crate::cli::Global;
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::output::Out;
use crate::state::{PassRow, RunRow, StateDir, StateError};
use crate::store::MAIN;

/// Runs shown per store.
const RUNS: usize = 5;

/// Shows the state of each store.
pub(super) fn status(names: &[String], global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, names)?;
    for store in config.stores.iter().filter(|store| names.is_empty() || names.contains(&store.name)) {
        let dir = StateDir::new(&config.state_dir, &store.name);
        let status = Status::read(&store.name, &dir).map_err(|error| Failure {
            exit: Exit::Failed,
            message: format!("read the state of {}: {}", store.name, chain(&error)),
            hint: error.hint().map(str::to_owned),
        })?;
        status.print(out);
    }
    Ok(Exit::Done)
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
}

#[derive(Debug, Serialize)]
struct Run {
    #[serde(flatten)]
    run: RunRow,
    passes: Vec<PassRow>,
}

impl Status {
    fn read(store: &str, dir: &StateDir) -> Result<Self, StateError> {
        let running = dir.holder()?.map(|holder| holder.to_string());
        let mut status = Self { store: store.to_owned(), running, runs: Vec::new(), open_intents: 0, settling: 0 };
        for partition in dir.partitions()? {
            let Some(state) = dir.read(&partition)? else { continue };
            status.open_intents += state.count_open_intents()?;
            if partition == MAIN {
                status.settling = state.sightings()?.len() as u64;
                for run in state.runs(RUNS)? {
                    let passes = state.passes_of(&run.run)?;
                    status.runs.push(Run { run, passes });
                }
            }
        }
        Ok(status)
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
        for Run { run, passes } in &self.runs {
            let outcome = run.outcome.as_deref().unwrap_or("unfinished");
            out.line(&format!("  {}  {outcome}  {}", run.started_at, run.run));
            for pass in passes {
                out.line(&format!("    {}", pass.summary()));
            }
        }
        if self.open_intents > 0 {
            out.line(&format!("  {} open intents: the next run finishes them", self.open_intents));
        }
        if self.settling > 0 {
            out.line(&format!("  {} absences wait to be seen again", self.settling));
        }
    }
}
