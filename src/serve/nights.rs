//! What the journals know of the last runs: what was missed while the daemon was away, and how long ago all was well.

use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::exit::Exit;
use crate::pass::PassName;
use crate::report::Outcome;
use crate::schedule::Schedule;
use crate::state::{Partition, RunRecord, StateDir, StateError, StateReader};

/// Runs looked at: the answers to questions are runs as well.
const RUNS: u32 = 200;
/// After so many runs in a row that took the daemon with them, the next one waits for its time.
const CRASHES: usize = 3;

/// The last runs over one store.
#[derive(Debug, Default, PartialEq, Eq)]
struct Nights {
    /// When the last one began that came by every pass.
    whole: Option<Timestamp>,
    /// When the last of those began in which none failed.
    good: Option<Timestamp>,
    /// Whether there was any.
    any: bool,
    /// How many of the latest were cut off without a word, as by a crash of the process.
    cut_off: usize,
}

/// The stores whose last run was missed, or cut off, at `now`. One that never had a run waits for its time.
pub(super) fn missed(config: &Config, schedule: &Schedule, now: Timestamp) -> Vec<String> {
    let is_missed = |store: &&config::Store| {
        let Some(nights) = read_or_warn(config, store) else {
            return false;
        };
        if nights.cut_off >= CRASHES {
            tracing::error!(
                store = %store.name,
                runs = nights.cut_off,
                "the last runs were all cut off: the next one waits for its time"
            );
            return false;
        }
        nights
            .whole
            .map_or(nights.any, |last| schedule.is_missed(last, now))
    };
    let missed = config.stores.iter().filter(is_missed);
    missed.map(|store| store.name.clone()).collect()
}

/// When the last run began in which no pass failed, in the store where that is longest ago; `None` when one never had
/// such a run.
pub(super) fn last_good(config: &Config) -> Option<Timestamp> {
    let last = |store| read_or_warn(config, store)?.good;
    let lasts: Option<Vec<Timestamp>> = config.stores.iter().map(last).collect();
    lasts?.into_iter().min()
}

fn read_or_warn(config: &Config, store: &config::Store) -> Option<Nights> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    match Nights::read(&dir, store) {
        Ok(nights) => Some(nights),
        Err(error) => {
            let error = crate::error::chain(&error);
            tracing::warn!(store = %store.name, error, "cannot read the journal");
            None
        }
    }
}

impl Nights {
    fn read(dir: &StateDir, store: &config::Store) -> Result<Self, StateError> {
        let Some(main) = dir.read(Partition::Main)? else {
            return Ok(Self::default());
        };
        let runs = main.runs(RUNS)?;
        let mut nights = Self {
            any: !runs.is_empty(),
            cut_off: runs.iter().take_while(|run| run.end.is_none()).count(),
            ..Self::default()
        };
        for run in runs {
            if nights.good.is_some() {
                break;
            }
            nights.look(&main, &run, store)?;
        }
        Ok(nights)
    }

    fn look(
        &mut self,
        main: &StateReader,
        run: &RunRecord,
        store: &config::Store,
    ) -> Result<(), StateError> {
        let Some(end) = &run.end else { return Ok(()) };
        let passes = main.passes_of(&run.row.run)?;
        let ran = |name| {
            let mut passes = passes.iter();
            passes.any(|pass| pass.pass == name && pass.outcome != Outcome::Skipped.as_str())
        };
        let mut enabled = PassName::ALL
            .into_iter()
            .filter(|name| name.is_enabled(&store.passes));
        if passes.is_empty() || !enabled.all(ran) {
            return Ok(());
        }
        self.whole.get_or_insert(run.row.started_at);
        if [Exit::Done, Exit::LeftOver]
            .map(Exit::code)
            .contains(&end.exit)
        {
            self.good.get_or_insert(run.row.started_at);
        }
        Ok(())
    }
}
