//! Pace: how hypnos writes beside an agent that must not notice.
//!
//! Two things make another writer wait: the write lock, and a disk that is busy with somebody else's sync. So each step
//! is short, and before the next one both are left alone for at least half as long as the step took. A writer that waits
//! for the lock polls it, with waits that grow; a third of the time is what lets it in soon.
//!
//! The sizes are adaptive, since a commit costs a tenth of a millisecond on one disk and ten on another.

use std::time::Duration;

use crate::clock::{self, Stopwatch};

/// How long one step should take.
const AIM: Duration = Duration::from_millis(10);
/// The longest pause after a step that took too long all the same (a disk that stood still).
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Fewer rows than this would cost more in commits than they leave to others.
const SMALLEST: usize = 32;

/// Sizes the next transaction by how long the last ones took, and keeps the pauses between them.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    size: usize,
    largest: usize,
    /// The shortest step so far: what a commit costs on this disk, however few the rows.
    shortest: Duration,
    /// When the last step ended, and how long it had taken.
    last: Option<(Stopwatch, Duration)>,
}

impl Pace {
    /// Starts small; a transaction never takes more than `largest` rows.
    #[must_use]
    pub fn up_to(largest: usize) -> Self {
        Self {
            size: largest.min(64),
            largest,
            shortest: Duration::MAX,
            last: None,
        }
    }

    /// How many rows the next transaction should take.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Runs a transaction of [`Self::size`] rows once the pause is over, and learns from its time.
    pub fn run<T>(&mut self, transaction: impl FnOnce() -> T) -> T {
        let (result, held) = self.timed(transaction);
        self.learn(held);
        result
    }

    /// Runs a step of another kind once the pause is over.
    pub fn calmly<T>(&mut self, step: impl FnOnce() -> T) -> T {
        self.timed(step).0
    }

    fn timed<T>(&mut self, step: impl FnOnce() -> T) -> (T, Duration) {
        clock::pause(self.pause());
        let watch = Stopwatch::start();
        let result = step();
        let held = watch.elapsed();
        self.last = Some((Stopwatch::start(), held));
        (result, held)
    }

    /// The time that is still to be left to others.
    fn pause(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |(since, held)| {
            (held / 2)
                .min(LONGEST_PAUSE)
                .saturating_sub(since.elapsed())
        })
    }

    /// Where the commit alone takes longer than [`AIM`], smaller transactions would only make more of them: the rows
    /// get half of that time on top.
    fn learn(&mut self, held: Duration) {
        self.shortest = self.shortest.min(held);
        let allowed = AIM.max(self.shortest + AIM / 2);
        if held > allowed {
            self.size = (self.size * 3 / 4).max(SMALLEST);
        } else if held < allowed * 3 / 4 {
            self.size = (self.size * 5 / 4 + 1).min(self.largest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_after(holds: &[u64]) -> usize {
        let mut pace = Pace::up_to(400);
        for millis in holds {
            pace.learn(Duration::from_millis(*millis));
        }
        pace.size()
    }

    #[test]
    fn sizes_follow_the_time_that_a_step_takes() {
        assert_eq!(size_after(&[]), 64);
        assert_eq!(size_after(&[1; 20]), 400, "never beyond the largest");
        assert_eq!(
            size_after(&[1, 1, 1, 9, 9]),
            size_after(&[1, 1, 1]),
            "within the aim it stays"
        );
        assert_eq!(size_after(&[&[1][..], &[50; 20]].concat()), SMALLEST);
        assert_eq!(
            size_after(&[30; 20]),
            64,
            "a slow disk is not made slower by tiny transactions"
        );
    }

    #[test]
    fn others_get_half_the_time_that_a_step_took() {
        let mut pace = Pace::up_to(400);
        pace.calmly(|| clock::pause(Duration::from_millis(30)));
        assert!(pace.pause() > Duration::from_millis(5));
        let watch = Stopwatch::start();
        pace.run(|| ());
        assert!(
            watch.elapsed() >= Duration::from_millis(5),
            "the next step waited"
        );
    }
}
