//! One run, on a thread of its own, within its budget of time.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

use super::agenda::Errand;
use crate::clock::{self, Stopwatch, Timestamp};
use crate::config::Config;
use crate::engine::{self, Observer, Options};
use crate::output::run::counts;
use crate::panics::{self, Panicked};
use crate::pass::{Cx, Silent};
use crate::plan::Plan;
use crate::report::{Outcome, PassReport, RunReport, Unopened};
use crate::state::IntentRecord;
use crate::stop::Stop;

/// A run that was asked to end has its budget once again for its batch, within these bounds.
const BATCH: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_mins(5);

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
    /// Since when it is over its budget and asked to end.
    over: Option<Stopwatch>,
}

impl Work {
    /// Starts an errand.
    pub(super) fn start(errand: Errand, config: Arc<Config>) -> Self {
        let Errand { task, stores } = errand;
        let since = clock::now();
        let budget = config.schedule.max_run;
        let stop = Stop::default();
        let options = Options {
            stores,
            ..Options::new(since, engine::BY_SCHEDULE)
        };
        let asked = stop.clone();
        let thread = spawn_blocking(move || {
            let report = panics::catch(|| work(task, &config, &options, &asked));
            Ended { task, report }
        });
        Self {
            since,
            thread,
            stop,
            watch: Stopwatch::start(),
            budget,
            over: None,
        }
    }

    /// Asks it to end with the batch at hand.
    pub(super) fn ask_to_end(&self) {
        self.stop.request();
    }

    /// Looks at its budget, and asks it to end when that is spent.
    pub(super) fn look(&mut self) -> Standing {
        let patience = self.budget.clamp(*BATCH.start(), *BATCH.end());
        match self.over {
            Some(over) if over.elapsed() > patience => Standing::Hangs,
            None if self.watch.elapsed() > self.budget => {
                self.over = Some(Stopwatch::start());
                self.stop.request();
                Standing::OverBudget
            }
            _ => Standing::Fine,
        }
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> Ended {
        (&mut self.thread).await.unwrap_or_else(|error| Ended {
            task: Task::Run,
            report: Err(Panicked {
                place: error.to_string(),
            }),
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
                tracing::warn!(%store, %pass, %outcome, applied, seconds, refusal, error = report.error, hint = report.hint, "pass ended");
            }
            Outcome::Failed => {
                tracing::error!(%store, %pass, %outcome, applied, seconds, error = report.error, hint = report.hint, "pass ended");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_is_asked_to_end_before_it_is_given_up_however_small_its_budget() {
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let mut work = Work {
            since: clock::now(),
            thread: spawn_blocking(move || {
                let _ = gate.recv();
                Ended {
                    task: Task::Run,
                    report: Ok(RunReport::new("run", clock::now())),
                }
            }),
            stop: Stop::default(),
            watch: Stopwatch::start(),
            budget: Duration::ZERO,
            over: None,
        };
        clock::pause(Duration::from_millis(2));
        assert_eq!(work.look(), Standing::OverBudget);
        assert!(work.stop.is_requested());
        assert_eq!(work.look(), Standing::Fine, "it has time for its batch");
        drop(open);
        assert!(work.ended().await.report.is_ok());
    }
}
