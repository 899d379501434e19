//! The vectors made ready to be compared: folded, and in a table of integers.

use std::num::NonZeroUsize;

use super::angle::Slack;
use super::cpu::{Instructions, Path, instructions};
use super::plan;
use super::projection::Projection;
use super::quantise::Measure;
use super::scan::{self, Found, Query};
use super::sink::Sink;
use super::table::{Entry, Ground, Table};
use super::{KernelError, Vectors};
use crate::pass::crew::{self, Handout};

/// Vectors measured by one thread at a time.
const BATCH: usize = 1024;

/// How to make vectors ready.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// Threads to use.
    pub threads: NonZeroUsize,
    /// Instructions to use.
    pub path: Path,
    /// For each vector, whether it is new: then only pairs with a new one are looked for.
    pub new: Option<&'a [bool]>,
    /// The least threshold that pairs will be asked for. What is fastest depends on it; what is found does not.
    pub least: f64,
}

impl Setup<'_> {
    /// All pairs, on the fastest path.
    #[must_use]
    pub fn new(threads: NonZeroUsize, least: f64) -> Self {
        Self {
            threads,
            path: Path::fastest(),
            new: None,
            least,
        }
    }
}

/// Vectors made ready to be compared.
pub struct Index<'a> {
    table: Table<'a>,
    /// Rows that equal another one, behind the first of their kind.
    copies: Vec<(u32, u32)>,
    skipped: usize,
}

impl<'a> Index<'a> {
    /// Makes vectors ready. Those without a direction are skipped and counted.
    ///
    /// # Errors
    ///
    /// [`KernelError::Marks`] when there is not one mark for each vector, [`KernelError::Path`].
    pub fn build(vectors: Vectors<'a>, setup: &Setup<'_>) -> Result<Self, KernelError> {
        Self::build_with(vectors, setup, |ground, entries| {
            plan::projection(ground, entries, setup.least)
        })
    }

    /// Makes vectors ready, with the projection that `choose` takes for the entries.
    pub(super) fn build_with(
        vectors: Vectors<'a>,
        setup: &Setup<'_>,
        choose: impl Fn(&Ground<'_>, &[Entry]) -> Option<Projection>,
    ) -> Result<Self, KernelError> {
        let cpu = instructions(setup.path).ok_or(KernelError::Path(setup.path))?;
        if let Some(marks) = setup.new.map(<[bool]>::len)
            && marks != vectors.len()
        {
            return Err(KernelError::Marks {
                marks,
                rows: vectors.len(),
            });
        }
        let keys = sorted_keys(vectors, cpu, setup.threads);
        let skipped = vectors.len() - keys.len();
        let (mut entries, copies) = fold(vectors, &keys, setup.new);
        drop(keys);
        // Stable, so that each part stays ordered by length.
        entries.sort_by_key(|entry| !entry.is_new());
        let ground = Ground {
            vectors,
            threads: setup.threads,
            cpu,
        };
        let projection = choose(&ground, &entries);
        Ok(Self {
            table: Table::new(ground, entries, projection.as_ref()),
            copies,
            skipped,
        })
    }

    /// Finds every pair of vectors with a cosine at or above the threshold, exactly, and gives each to the sink of the
    /// thread that finds it; `sink` makes one for each.
    ///
    /// # Errors
    ///
    /// [`KernelError::Threshold`], or [`KernelError::Interrupted`].
    pub fn pairs<S: Sink>(
        &self,
        query: &Query<'_>,
        sink: impl Fn() -> S + Sync,
    ) -> Result<Found<S>, KernelError> {
        let mut found = scan::pairs(&self.table, query, sink)?;
        if let Some(sink) = found.sinks.first_mut() {
            for &(row, copy) in &self.copies {
                sink.pair(row, copy);
            }
        }
        Ok(found)
    }

    /// Rows that were left out: all zero, or with a number that is NaN or infinite.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Rows that equal an earlier one bit for bit, each as `(first, copy)`, in order.
    #[must_use]
    pub fn copies(&self) -> &[(u32, u32)] {
        &self.copies
    }
}

/// What vectors are ordered by: equal ones stand together, and those whose integers are of like length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// The bits of the vector's length in multiples of its largest number; positive floats are ordered as their bits.
    ratio: u32,
    print: u64,
    row: u32,
    /// The bits of the vector's inner product with itself.
    square: u64,
    /// The bits of the absolute value of its largest number.
    largest: u32,
}

impl Key {
    fn new(row: u32, measure: &Measure) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "an order needs few digits")]
        let ratio = (measure.square.sqrt() / f64::from(measure.largest)) as f32;
        Self {
            ratio: ratio.to_bits(),
            print: measure.print,
            row,
            square: measure.square.to_bits(),
            largest: measure.largest.to_bits(),
        }
    }
}

/// The keys of the vectors that have a direction, in order.
fn sorted_keys(vectors: Vectors<'_>, cpu: &dyn Instructions, threads: NonZeroUsize) -> Vec<Key> {
    let batches = Handout::new((0..vectors.len()).step_by(BATCH));
    let mut keys = Vec::with_capacity(vectors.len());
    for part in crew::run(threads, || {
        let mut part = Vec::new();
        while let Some(start) = batches.next() {
            for row in start..vectors.len().min(start + BATCH) {
                #[expect(clippy::cast_possible_truncation, reason = "`Vectors` counts in u32")]
                let row = row as u32;
                let measure = cpu.measure(vectors.row(row));
                if measure.has_direction() {
                    part.push(Key::new(row, &measure));
                }
            }
        }
        part
    }) {
        keys.extend(part);
    }
    keys.sort_unstable();
    keys
}

/// One entry for each vector, however many rows have it, and the rows that equal an earlier one.
fn fold(vectors: Vectors<'_>, keys: &[Key], new: Option<&[bool]>) -> (Vec<Entry>, Vec<(u32, u32)>) {
    let mut entries: Vec<Entry> = Vec::with_capacity(keys.len());
    let mut copies = Vec::new();
    let mut last = None;
    for key in keys {
        let old = u32::from(new.is_some_and(|new| !new[key.row as usize]));
        let like = (key.ratio, key.print);
        if let Some(entry) = entries.last_mut()
            && last == Some(like)
            && is_equal(vectors.row(entry.row), vectors.row(key.row))
        {
            entry.weight += 1;
            entry.old += old;
            copies.push((entry.row, key.row));
            continue;
        }
        last = Some(like);
        entries.push(Entry {
            row: key.row,
            weight: 1,
            old,
            largest: f32::from_bits(key.largest),
            inverse: 1.0 / f64::from_bits(key.square).sqrt(),
            integers: 0.0,
            slack: Slack::NONE,
        });
    }
    copies.sort_unstable();
    (entries, copies)
}

/// Equal bit for bit: a zero and a negative zero differ.
fn is_equal(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
