//! Whether the stores can be reached, asked no more often than every few seconds however many ask.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::clock::Stopwatch;
use crate::config::Config;
use crate::panics;
use crate::stop::Stop;
use crate::store::Stores;
use crate::store::sqlite::Access;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(5);
/// How long an asker waits for the stores.
const PATIENCE: Duration = Duration::from_secs(5);

/// The last answer, and the question that is out.
#[derive(Default)]
pub(super) struct Probe(Mutex<State>);

#[derive(Default)]
struct State {
    answer: Option<(Stopwatch, Vec<String>)>,
    asking: Option<JoinHandle<Vec<String>>>,
}

impl Probe {
    /// Which stores cannot be reached, each with a word why.
    pub(super) async fn complaints(&self, config: Arc<Config>) -> Vec<String> {
        let mut state = self.0.lock().await;
        if let Some((since, answer)) = &state.answer
            && since.elapsed() < FRESH
        {
            return answer.clone();
        }
        let asking = state
            .asking
            .get_or_insert_with(|| spawn_blocking(move || unreachable(&config)));
        let answered = timeout(PATIENCE, asking).await;
        let answer = match answered {
            Ok(answer) => {
                state.asking = None;
                answer.unwrap_or_else(|_| vec!["stores: the probe failed".to_owned()])
            }
            // The question stays out: one more would wait as long.
            Err(_) => vec!["stores: no answer".to_owned()],
        };
        state.answer = Some((Stopwatch::start(), answer.clone()));
        answer
    }
}

fn unreachable(config: &Config) -> Vec<String> {
    let stop = Stop::default();
    let reach = |store| {
        panics::catch(|| Stores::open(store, &config.state_dir, Access::Read, &stop).map(drop))
    };
    let mut complaints = Vec::new();
    for store in &config.stores {
        let message = match reach(store) {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => failure.message,
            Err(panicked) => panicked.to_string(),
        };
        tracing::warn!(store = %store.name, error = message, "store not reachable");
        complaints.push(format!("store {}: not reachable", store.name));
    }
    complaints
}
