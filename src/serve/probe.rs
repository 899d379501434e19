//! A question whose answer takes a while, such as whether the stores can be reached: asked once at a time, and no more often
//! than every few seconds, however many want to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::clock::{self, Stopwatch, Timestamp};
use crate::config::Config;
use crate::panics;
use crate::stop::Stop;
use crate::store::Stores;
use crate::store::sqlite::Access;

/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(5);
/// How long an asker waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers a question.
type Answer<T> = fn(&Config, Timestamp) -> T;

/// A question, its last answer, and whether it is out.
pub(super) struct Probe<T> {
    question: Answer<T>,
    /// Counts the events that made what was known old.
    events: AtomicU64,
    asked: Mutex<Asked<T>>,
}

struct Asked<T> {
    last: Option<Last<T>>,
    out: Option<(u64, JoinHandle<T>)>,
}

struct Last<T> {
    since: Stopwatch,
    events: u64,
    /// `None`: there was none in time.
    answer: Option<T>,
}

impl<T: Clone + Send + 'static> Probe<T> {
    pub(super) fn new(question: Answer<T>) -> Self {
        Self {
            question,
            events: AtomicU64::new(0),
            asked: Mutex::new(Asked {
                last: None,
                out: None,
            }),
        }
    }

    /// Something has happened: the last answer is no longer good.
    pub(super) fn outdate(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// The answer; `None` when there is none in time, or the program is wrong.
    pub(super) async fn answer(&self, config: Arc<Config>) -> Option<T> {
        let mut asked = self.asked.lock().await;
        let events = self.events.load(Ordering::Relaxed);
        if let Some(last) = &asked.last
            && last.events == events
            && last.since.elapsed() < FRESH
        {
            return last.answer.clone();
        }
        let question = self.question;
        let (events, out) = asked.out.get_or_insert_with(|| {
            let ask = move || question(&config, clock::now());
            (events, spawn_blocking(ask))
        });
        let events = *events;
        let answer = match timeout(PATIENCE, out).await {
            Ok(answer) => {
                asked.out = None;
                answer.ok()
            }
            // The question stays out: one more would wait as long.
            Err(_) => None,
        };
        asked.last = Some(Last {
            since: Stopwatch::start(),
            events,
            answer: answer.clone(),
        });
        answer
    }
}

/// Which stores cannot be reached, in words.
pub(super) fn unreachable(config: &Config, _: Timestamp) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::testing::nightly;

    #[tokio::test]
    async fn it_is_asked_again_when_something_has_happened() {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let probe = Probe::new(|_, _| ASKED.fetch_add(1, Ordering::Relaxed));
        let config = nightly();
        for (events, answer) in [(0, 0), (0, 0), (1, 1), (0, 1), (3, 2)] {
            for _ in 0..events {
                probe.outdate();
            }
            assert_eq!(probe.answer(Arc::clone(&config)).await, Some(answer));
        }
    }

    #[tokio::test]
    async fn a_panic_is_no_answer() {
        let probe: Probe<u64> = Probe::new(|_, _| panic!("wrong"));
        assert_eq!(probe.answer(nightly()).await, None);
    }
}
