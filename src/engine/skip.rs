//! Giving a store up for this time: nothing is opened but its state file, where every pass is written down as skipped.

use std::sync::Arc;

use super::journal::{lock, pass_row, run_row, state_failure, totals_of};
use super::{Observer, Options, each_store};
use crate::config::{self, Config};
use crate::error::Failure;
use crate::pass::{Cx, PassName};
use crate::report::{Outcome, PassReport, RunReport};
use crate::state::{Partition, RunEnd, StateDir, StateError};

/// Writes down that the passes of the stores were skipped, as a run of its own: a night that did not happen must not
/// look like one on which there was nothing to do.
pub fn skip(
    config: &Config,
    options: &Options,
    cx: &Cx<'_>,
    observer: &mut dyn Observer,
) -> RunReport {
    each_store(config, options, cx, observer, |store, report, observer| {
        let own = skip_store(config, store, options)?;
        for pass in &own.passes {
            observer.passed(pass);
        }
        report.absorb(own);
        Ok(())
    })
}

fn skip_store(
    config: &Config,
    store: &config::Store,
    options: &Options,
) -> Result<RunReport, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let mut own = RunReport::new(&options.run, options.now);
    own.passes = skipped_passes(store);
    // A store that was never there gets no state file: its path or mapping is probably wrong.
    if dir.exists(Partition::Main).map_err(state_failure)? {
        let _lock = lock(&dir, options)?;
        write(&dir, options, &own).map_err(state_failure)?;
    }
    Ok(own)
}

fn skipped_passes(store: &config::Store) -> Vec<PassReport> {
    let name: Arc<str> = store.name.as_str().into();
    let enabled = PassName::ALL
        .into_iter()
        .filter(|pass| pass.is_enabled(&store.passes));
    enabled
        .map(|pass| PassReport::new(Arc::clone(&name), pass, Outcome::Skipped))
        .collect()
}

fn write(dir: &StateDir, options: &Options, own: &RunReport) -> Result<(), StateError> {
    let main = dir.open(Partition::Main)?;
    main.begin_run(&run_row(options))?;
    for pass in &own.passes {
        main.record_pass(&options.run, &pass_row(pass, options.now), &totals_of(pass))?;
    }
    main.finish_run(
        &options.run,
        &RunEnd {
            outcome: own.outcome().to_owned(),
            exit: own.exit().code(),
            finished_at: options.now,
            error: Some("given up for this time: the store stayed away".to_owned()),
        },
    )
}
