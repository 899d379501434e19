//! Threads that share one piece of work.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::panics::joined;

/// Vectors from which on one core takes longer to compare them than another one to join in.
const WORTH: usize = 1024;
/// Items that a thread takes at a time.
const SHARE: usize = 16;

/// Runs `work` on so many threads, this one among them, and returns what each brought.
pub(super) fn run<R: Send>(threads: NonZeroUsize, work: impl Fn() -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.get()).map(|_| scope.spawn(&work)).collect();
        let mut results = vec![work()];
        results.extend(others.into_iter().map(joined));
        results
    })
}

/// As many threads as there are cores.
fn everyone() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The threads that comparing so many vectors with each other is worth: a few are done before a second one has begun.
pub(super) fn worth(vectors: usize) -> NonZeroUsize {
    if vectors < WORTH {
        NonZeroUsize::MIN
    } else {
        everyone()
    }
}

/// `work` on every item, on all cores, in the order of the items.
pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = if items.len() > SHARE {
        everyone()
    } else {
        NonZeroUsize::MIN
    };
    let shares = Handout::new(items.chunks(SHARE).enumerate());
    let mut done: Vec<(usize, Vec<R>)> = run(threads, || {
        let mut mine = Vec::new();
        while let Some((at, share)) = shares.next() {
            mine.push((at, share.iter().map(&work).collect()));
        }
        mine
    })
    .into_iter()
    .flatten()
    .collect();
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().flat_map(|(_, results)| results).collect()
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
    fn results_come_in_the_order_of_their_items() {
        for count in [0, 1, SHARE, SHARE + 1, 10 * SHARE - 1] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = (0..count).map(|item| 2 * item).collect();
            assert_eq!(map(&items, |item| 2 * item), doubled);
        }
    }

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
