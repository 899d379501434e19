//! Reads the figures in the background, one reading at a time: what is asked for meanwhile is read once more after it,
//! however often it was asked for.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};

use crate::clock::{self, Stopwatch};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::panics;
use crate::stop::Stop;

/// How often the figures are read again that change without a run, such as the queue.
const REFRESH: Duration = Duration::from_mins(1);

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reading {
    /// The main state files: milliseconds.
    State,
    /// Those and the stores: seconds, where there are millions of memories.
    All,
}

/// The reading at work, and the one that is to follow.
#[derive(Debug)]
pub(super) struct Surveyor {
    at_work: Option<JoinHandle<()>>,
    wanted: Option<Reading>,
    refreshed: Stopwatch,
}

impl Surveyor {
    /// Nothing was read yet, and all is wanted.
    pub(super) fn new() -> Self {
        Self {
            at_work: None,
            wanted: Some(Reading::All),
            refreshed: Stopwatch::start(),
        }
    }

    /// Asks for a reading; it starts with the next look.
    pub(super) fn ask(&mut self, reading: Reading) {
        self.wanted = self.wanted.max(Some(reading));
    }

    /// Starts what is wanted, unless a reading is at work.
    pub(super) fn look(&mut self, config: &Arc<Config>, metrics: &Arc<Metrics>) {
        if self.refreshed.elapsed() >= REFRESH {
            self.ask(Reading::State);
        }
        self.look_with(|reading| {
            let (config, metrics) = (Arc::clone(config), Arc::clone(metrics));
            spawn_blocking(move || read(reading, &config, &metrics))
        });
    }

    fn look_with(&mut self, start: impl FnOnce(Reading) -> JoinHandle<()>) {
        self.at_work.take_if(|reading| reading.is_finished());
        if self.at_work.is_none()
            && let Some(reading) = self.wanted.take()
        {
            self.refreshed = Stopwatch::start();
            self.at_work = Some(start(reading));
        }
    }
}

fn read(reading: Reading, config: &Config, metrics: &Metrics) {
    let read = panics::catch(|| match reading {
        Reading::State => metrics.refresh(config, clock::now()),
        Reading::All => metrics.survey(config, clock::now(), &Stop::default()),
    });
    if let Err(panicked) = read {
        tracing::error!(error = %panicked, "cannot count the stores");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_storm_of_questions_makes_one_reading_more() {
        let (open, gate) = mpsc::channel::<()>();
        let mut gates = vec![gate];
        let mut surveyor = Surveyor::new();
        let mut readings = Vec::new();
        for _ in 0..300 {
            surveyor.ask(Reading::All);
            surveyor.ask(Reading::State);
            surveyor.look_with(|reading| {
                readings.push(reading);
                let gate = gates.pop();
                spawn_blocking(move || {
                    if let Some(gate) = gate {
                        let _ = gate.recv();
                    }
                })
            });
        }
        assert_eq!(readings, [Reading::All]);
        drop(open);
        while !surveyor.at_work.as_ref().unwrap().is_finished() {
            tokio::task::yield_now().await;
        }
        surveyor.look_with(|reading| {
            readings.push(reading);
            spawn_blocking(|| ())
        });
        assert_eq!(readings, [Reading::All; 2]);
        assert_eq!(surveyor.wanted, None);
    }
}
