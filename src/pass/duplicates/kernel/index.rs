//! The vectors made ready to be compared: folded, ordered, rounded and packed.

use std::num::NonZeroUsize;

use super::angle::{Extent, Slack};
use super::buffer::Buffer;
use super::cpu::{BLOCK, Instructions, Path, instructions};
use super::quantise::{self, Grid, Measure};
use super::scan::{self, Found, Query};
use super::sink::Sink;
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
}

impl Setup<'_> {
    /// All pairs, on the fastest path.
    #[must_use]
    pub fn new(threads: NonZeroUsize) -> Self {
        Self {
            threads,
            path: Path::fastest(),
            new: None,
        }
    }
}

/// Vectors made ready to be compared.
pub struct Index<'a> {
    pub(super) vectors: Vectors<'a>,
    pub(super) threads: NonZeroUsize,
    pub(super) cpu: &'static dyn Instructions,
    /// The vectors that differ, those to compare with all others first, then by length of their integers.
    pub(super) entries: Vec<Entry>,
    /// How many of the entries are to be compared with all others.
    pub(super) leading: usize,
    /// The integers of the entries: blocks of 32 vectors.
    pub(super) packed: Buffer,
    /// What is common to the entries of each block.
    pub(super) extents: Vec<Extent>,
    /// Rows that equal another one, behind the first of their kind.
    copies: Vec<(u32, u32)>,
    skipped: usize,
}

/// One vector, or several that are equal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The first row with this vector.
    pub(super) row: u32,
    /// How many rows have it.
    pub(super) weight: u32,
    /// How many of them are not new.
    pub(super) old: u32,
    /// The absolute value of the vector's largest number.
    largest: f32,
    /// One over the length of the vector.
    pub(super) inverse: f64,
    /// One over the length of its integers.
    pub(super) integers: f64,
    pub(super) slack: Slack,
}

impl<'a> Index<'a> {
    /// Makes vectors ready. Those without a direction are skipped and counted.
    ///
    /// # Errors
    ///
    /// [`KernelError::Marks`] when there is not one mark for each vector, [`KernelError::Path`].
    pub fn build(vectors: Vectors<'a>, setup: &Setup<'_>) -> Result<Self, KernelError> {
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
        let leading = entries.partition_point(Entry::is_new);
        let mut index = Self {
            vectors,
            threads: setup.threads,
            cpu,
            packed: Buffer::zeroed(
                entries.len().next_multiple_of(BLOCK) * quantise::depth(vectors.dim()),
            ),
            extents: vec![Extent::EMPTY; entries.len().div_ceil(BLOCK)],
            entries,
            leading,
            copies,
            skipped,
        };
        index.round();
        Ok(index)
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
        scan::pairs(self, query, sink)
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

    /// Rounds and packs the entries.
    fn round(&mut self) {
        let depth = quantise::depth(self.vectors.dim());
        let (vectors, cpu) = (self.vectors, self.cpu);
        let work = Handout::new(
            self.entries
                .chunks_mut(BLOCK)
                .zip(self.packed.bytes_mut().chunks_exact_mut(BLOCK * depth))
                .zip(&mut self.extents),
        );
        crew::run(self.threads, || {
            let mut integers = vec![0; depth];
            while let Some(((entries, block), extent)) = work.next() {
                for entry in entries.iter() {
                    cpu.fetch(vectors.row(entry.row));
                }
                for (place, entry) in entries.iter_mut().enumerate() {
                    entry.round(vectors.row(entry.row), cpu, &mut integers);
                    extent.take(entry.slack, 1.0 / entry.integers);
                    quantise::pack(&integers, place, cpu.grid(), block);
                }
                for place in entries.len()..BLOCK {
                    integers.fill(0);
                    quantise::pack(&integers, place, cpu.grid(), block);
                }
            }
        });
    }
}

impl Entry {
    fn is_new(&self) -> bool {
        self.old < self.weight
    }

    fn round(&mut self, vector: &[f32], cpu: &dyn Instructions, integers: &mut [u8]) {
        let Grid { limit, .. } = cpu.grid();
        let scale = f64::from(limit) / f64::from(self.largest);
        let rounding = cpu.round(vector, scale, integers);
        self.integers = 1.0 / rounding.square.sqrt();
        self.slack = Slack::from_cosine(rounding.product * self.inverse * self.integers);
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
