//! The only file that reads the clocks of the machine.
//!
//! Everything else is given `now` as a value: a plan is a function of the stores and of one instant, which is
//! what makes dry runs, `--at` and tests exact.

use std::time::{Duration, Instant};

pub use jiff::Timestamp;

use crate::failpoint;

/// The present instant of the wall clock, which tests can move.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that may read the wall clock"
)]
#[must_use]
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    now.checked_add(failpoint::clock_shift()).unwrap_or(now)
}

/// Measures how long something took, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that may read the monotonic clock"
    )]
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits, off the CPU, for `duration`.
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
