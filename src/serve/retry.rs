//! When a store that is away is tried again: after a while, then less and less often, until the window is over.

use std::time::Duration;

use crate::clock::Stopwatch;

/// The first wait, where the window is long enough for it.
const FIRST: Duration = Duration::from_secs(30);
/// The longest wait.
const LONGEST: Duration = Duration::from_mins(10);
/// The first wait is a small part of the window.
const PART: u32 = 10;

/// Stores that were away, and when they are tried again.
#[derive(Debug, Clone)]
pub(super) struct Retry {
    pub(super) stores: Vec<String>,
    since: Stopwatch,
    window: Duration,
    wait: Duration,
    next: Duration,
}

impl Retry {
    /// Of stores that were found to be away just now; `None` when the window is none.
    pub(super) fn new(stores: Vec<String>, window: Duration) -> Option<Self> {
        let wait = FIRST.min(window / PART);
        (!window.is_zero()).then(|| Self {
            stores,
            since: Stopwatch::start(),
            window,
            wait,
            next: wait,
        })
    }

    /// Whether it is time.
    pub(super) fn is_due(&self) -> bool {
        self.since.elapsed() >= self.next
    }

    /// The next try, where these are still away; `None` when the window is over.
    pub(super) fn again(self, stores: Vec<String>) -> Option<Self> {
        let now = self.since.elapsed();
        let wait = (self.wait * 2).min(LONGEST);
        // The last try is at the end of the window, however late the one before it was.
        let next = (now + wait).min(self.window);
        (now < self.window).then_some(Self {
            stores,
            wait,
            next,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_double_up_to_ten_minutes_and_end_with_the_window() {
        let hour = Duration::from_hours(1);
        let mut retry = Retry::new(vec!["a".into()], hour);
        let mut waits = Vec::new();
        while let Some(now) = retry {
            assert!(!now.is_due());
            waits.push(now.wait.as_secs());
            if waits.len() == 7 {
                break;
            }
            retry = now.again(vec!["a".into()]);
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
    }

    #[test]
    fn a_window_that_is_over_has_no_next_try() {
        assert!(Retry::new(vec!["a".into()], Duration::ZERO).is_none());
        let short = Retry::new(vec!["a".into()], Duration::from_nanos(10)).unwrap();
        assert!(short.is_due());
        assert!(short.again(vec!["a".into()]).is_none());
    }
}
