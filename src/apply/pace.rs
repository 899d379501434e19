//! The pace of row transactions: short, and with room for the agent between them.
//!
//! A writer that waits for the lock polls it, with waits that grow; so between two transactions the lock is left free
//! for at least as long as it was held.

use std::time::Duration;

use crate::clock::{self, Stopwatch};

/// How long one transaction should hold the write lock.
const AIM: Duration = Duration::from_millis(6);
/// The shortest pause between two transactions.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const SMALLEST: usize = 16;
const LARGEST: usize = 1000;

/// Sizes the next transaction by how long the last one took.
#[derive(Debug)]
pub(super) struct Pace {
    size: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { size: 128 }
    }
}

impl Pace {
    /// How many rows the next transaction should change.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Runs one transaction of that size, learns from its time, and lets others in.
    pub(super) fn run<T>(&mut self, transaction: impl FnOnce() -> T) -> T {
        let watch = Stopwatch::start();
        let result = transaction();
        let held = watch.elapsed();
        self.learn(held);
        clock::pause(held.max(SHORTEST_PAUSE));
        result
    }

    fn learn(&mut self, held: Duration) {
        if held > AIM {
            self.size = (self.size / 2).max(SMALLEST);
        } else if held < AIM / 3 {
            self.size = (self.size * 2).min(LARGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_transactions_shrink_and_fast_ones_grow_within_bounds() {
        let mut pace = Pace::default();
        (0..20).for_each(|_| pace.learn(Duration::from_millis(1)));
        assert_eq!(pace.size(), LARGEST);
        pace.learn(AIM - Duration::from_millis(1));
        assert_eq!(pace.size(), LARGEST, "within the aim it stays");
        (0..20).for_each(|_| pace.learn(Duration::from_secs(1)));
        assert_eq!(pace.size(), SMALLEST);
    }
}
