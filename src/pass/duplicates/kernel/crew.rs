//! Threads that share one piece of work.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `work` on so many threads, this one among them, and returns what each brought.
pub(super) fn run<R: Send>(threads: NonZeroUsize, work: impl Fn() -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(&work)).collect();
        let mut results = vec![work()];
        for other in others {
            results.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    })
}

/// Hands the items of an iterator out to threads, one at a time.
pub(super) struct Handout<I>(Mutex<I>);

impl<I: Iterator> Handout<I> {
    pub(super) fn new(items: impl IntoIterator<IntoIter = I>) -> Self {
        Self(Mutex::new(items.into_iter()))
    }

    pub(super) fn next(&self) -> Option<I::Item> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_handed_out_once() {
        for threads in [1, 2, 5] {
            let items = Handout::new(0..1000_u32);
            let taken = run(NonZeroUsize::new(threads).unwrap(), || {
                let mut mine = Vec::new();
                while let Some(item) = items.next() {
                    mine.push(item);
                }
                mine
            });
            assert_eq!(taken.len(), threads);
            let mut all: Vec<u32> = taken.into_iter().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, (0..1000).collect::<Vec<_>>());
        }
    }
}
