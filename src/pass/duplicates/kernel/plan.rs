//! Whether vectors are better compared whole or by what a projection keeps of them: both are tried on a sample.
//!
//! That depends on the vectors (how much of them a few directions keep), on the threshold, and on how fast the processor
//! multiplies integers beside numbers. A wrong choice costs time, never a pair.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::projection::Projection;
use super::scan::{self, Query};
use super::table::{Entry, Ground, Table};
use crate::clock::Stopwatch;
use crate::stop::Stop;

/// Entries that the directions are found in, and as many others that both ways are tried on.
const SAMPLE: usize = 1024;
/// How many numbers may be kept of a vector, if that is no more than a third of them: memory is bounded.
const DEPTHS: [usize; 3] = [64, 128, 256];
/// Finding directions takes about `4 * SAMPLE * depth` products a dimension; a scan must take so many times as many.
const WORTH: usize = 64;
/// How often each way is tried; the best time counts.
const TRIALS: usize = 2;
/// A projection must take so little of the time on the sample, which stays in the cache as all vectors do not.
const AHEAD: f64 = 0.8;
/// With so little of the time, a deeper one is not tried.
const ENOUGH: f64 = 0.5;

/// The projection that makes comparing the entries fastest; `None` when comparing them whole is.
pub(super) fn projection(ground: &Ground<'_>, entries: &[Entry], least: f64) -> Option<Projection> {
    let leading = entries.partition_point(Entry::is_new);
    let mut depths = depths(ground.vectors.dim(), leading, entries.len()).peekable();
    depths.peek()?;
    let (sample, trial) = samples(entries);
    let whole = time(ground, &trial, None, least)?;
    let (mut best, mut chosen) = (whole.mul_f64(AHEAD), None);
    for depth in depths {
        let projection = Projection::of(ground.vectors, &sample, depth);
        let time = time(ground, &trial, Some(&projection), least)?;
        if time >= best {
            break;
        }
        (best, chosen) = (time, Some(projection));
        if time < whole.mul_f64(ENOUGH) {
            break;
        }
    }
    chosen
}

/// The depths that may pay when so many entries are compared with those and all others.
fn depths(dim: usize, leading: usize, entries: usize) -> impl Iterator<Item = usize> {
    let pairs = leading * (entries - leading / 2);
    DEPTHS
        .into_iter()
        .filter(move |depth| depth * 3 <= dim && pairs / SAMPLE >= WORTH * 4 * depth)
}

/// Two samples that have no entry in common, all of it new.
fn samples(entries: &[Entry]) -> (Vec<Entry>, Vec<Entry>) {
    let of = |first: usize| -> Vec<Entry> {
        let sample = (first..2 * SAMPLE).step_by(2);
        sample
            .filter_map(|at| entries.get(at * entries.len() / (2 * SAMPLE)))
            .map(|entry| Entry { old: 0, ..*entry })
            .collect()
    };
    (of(0), of(1))
}

/// How long comparing a sample takes, one thread doing it; `None` when it cannot be done.
fn time(
    ground: &Ground<'_>,
    sample: &[Entry],
    projection: Option<&Projection>,
    least: f64,
) -> Option<Duration> {
    let ground = Ground {
        threads: NonZeroUsize::MIN,
        ..*ground
    };
    let table = Table::new(ground, sample.to_vec(), projection);
    let query = Query {
        threshold: least,
        stop: &Stop::default(),
    };
    let mut best = None;
    for _ in 0..TRIALS {
        let watch = Stopwatch::start();
        scan::pairs(&table, &query, || ()).ok()?;
        let time = watch.elapsed();
        best = Some(best.map_or(time, |best: Duration| best.min(time)));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::duplicates::kernel::angle::Slack;

    fn entries(count: u32) -> Vec<Entry> {
        let entry = |row| Entry {
            row,
            weight: 1,
            old: 1,
            largest: 1.0,
            inverse: 1.0,
            integers: 0.0,
            slack: Slack::NONE,
        };
        (0..count).map(entry).collect()
    }

    #[test]
    fn few_pairs_and_short_vectors_are_compared_whole() {
        let depths = |dim, leading, entries| depths(dim, leading, entries).collect::<Vec<_>>();
        let none: [usize; 0] = [];
        assert_eq!(depths(384, 2_541, 2_541), none);
        assert_eq!(depths(384, 21_500, 21_500), [64, 128]);
        assert_eq!(depths(1536, 21_500, 21_500), [64, 128, 256]);
        assert_eq!(depths(191, 21_500, 21_500), none);
        assert_eq!(depths(384, 215, 21_500), none);
        assert_eq!(depths(384, 0, 21_500), none);
    }

    #[test]
    fn directions_are_not_tried_on_what_they_were_found_in() {
        let (sample, trial) = samples(&entries(5_000));
        assert_eq!((sample.len(), trial.len()), (SAMPLE, SAMPLE));
        for entry in &trial {
            assert!(sample.iter().all(|other| other.row != entry.row));
            assert!(entry.is_new());
        }
        let span = |sample: &[Entry]| (sample[0].row, sample[SAMPLE - 1].row);
        assert_eq!((span(&sample), span(&trial)), ((0, 4_995), (2, 4_997)));
    }
}
