//! One run, on a thread of its own, within its budget of time.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

use super::{COMMAND, nights};
use crate::clock::{self, Stopwatch, Timestamp};
use crate::config::Config;
use crate::engine::{self, Observer, Options};
use crate::metrics::Metrics;
use crate::output::run::counts;
use crate::panics::{self, Panicked};
use crate::pass::{Cx, Silent};
use crate::plan::Plan;
use crate::report::{Outcome, PassReport, RunReport, Unopened};
use crate::state::IntentRecord;
use crate::stop::Stop;

/// A run that was asked to end has so much time for its batch, and no more than its budget once again.
const LONGEST_BATCH: Duration = Duration::from_mins(5);

/// What is to be done with the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// The enabled passes.
    Run,
    /// Writing down that they were skipped.
    Skip,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) task: Task,
    pub(super) report: Result<RunReport, Panicked>,
    /// See [`nights::last_good`].
    pub(super) last_good: Option<Timestamp>,
}

/// How a run stands to its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Within it, or asked to end already.
    Fine,
    /// Over it since now, and asked to end.
    OverBudget,
    /// Asked to end long ago.
    Hangs,
}

/// A run at work.
pub(super) struct Work {
    pub(super) since: Timestamp,
    thread: JoinHandle<Ended>,
    stop: Stop,
    watch: Stopwatch,
    budget: Duration,
}

impl Work {
    /// Starts on the stores of these names; on all of them when there is none.
    pub(super) fn start(
        task: Task,
        stores: Vec<String>,
        config: Arc<Config>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let since = clock::now();
        let budget = config.schedule.max_run;
        let stop = Stop::default();
        let options = Options {
            stores,
            ..Options::new(since, COMMAND)
        };
        let asked = stop.clone();
        let thread = spawn_blocking(move || {
            let report = panics::catch(|| work(task, &config, &options, &asked));
            // It counts what the run has left, so it must not keep a daemon that is to end.
            let surveyed = panics::catch(|| metrics.survey(&config, clock::now(), &asked));
            if let Err(panicked) = surveyed {
                tracing::error!(error = %panicked, "cannot count the stores");
            }
            Ended {
                task,
                report,
                last_good: nights::last_good(&config),
            }
        });
        Self {
            since,
            thread,
            stop,
            watch: Stopwatch::start(),
            budget,
        }
    }

    /// Asks it to end with the batch at hand.
    pub(super) fn ask_to_end(&self) {
        self.stop.request();
    }

    /// Looks at its budget, and asks it to end when that is spent.
    pub(super) fn look(&self) -> Standing {
        let spent = self.watch.elapsed();
        if spent <= self.budget {
            Standing::Fine
        } else if spent > self.budget + self.budget.min(LONGEST_BATCH) {
            Standing::Hangs
        } else if self.stop.is_requested() {
            Standing::Fine
        } else {
            self.stop.request();
            Standing::OverBudget
        }
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> Ended {
        (&mut self.thread).await.unwrap_or_else(|error| Ended {
            task: Task::Run,
            report: Err(Panicked {
                place: error.to_string(),
            }),
            last_good: None,
        })
    }

    /// Whether it has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

fn work(task: Task, config: &Config, options: &Options, stop: &Stop) -> RunReport {
    let cx = Cx {
        stop,
        progress: &Silent,
    };
    match task {
        Task::Run => engine::run(config, options, &cx, &mut Log),
        Task::Skip => engine::skip(config, options, &cx, &mut Log),
    }
}

/// Says what happens in the log.
struct Log;

impl Observer for Log {
    fn begun(&mut self, _: &str, _: &str, _: &[IntentRecord]) {}

    fn planned(&mut self, _: &Plan, _: &PassReport) {}

    fn passed(&mut self, report: &PassReport) {
        let PassReport {
            store,
            pass,
            outcome,
            seconds,
            ..
        } = report;
        let applied = counts(&report.applied).unwrap_or_else(|| "nothing".to_owned());
        match outcome {
            Outcome::Idle | Outcome::Applied => {
                tracing::info!(%store, %pass, %outcome, applied, seconds, "pass ended");
            }
            Outcome::Partial | Outcome::Refused | Outcome::Skipped => {
                let refusal = report.refusal.as_ref().map(ToString::to_string);
                tracing::warn!(%store, %pass, %outcome, applied, seconds, refusal, error = report.error, "pass ended");
            }
            Outcome::Failed => {
                tracing::error!(%store, %pass, %outcome, applied, seconds, error = report.error, "pass ended");
            }
        }
    }

    fn unopened(&mut self, store: &Unopened) {
        let Unopened {
            store, error, hint, ..
        } = store;
        tracing::error!(%store, error, hint, "store not done");
    }
}
