//! The vectors as integers: in an order that suits them, rounded, and packed in blocks.

use std::num::NonZeroUsize;

use super::Vectors;
use super::angle::{Extent, Part, Rounded, Slack};
use super::buffer::Buffer;
use super::cpu::{BLOCK, Instructions};
use super::projection::{Projection, Shadows};
use super::quantise::{self, Grid};
use crate::pass::crew::{self, Handout};

/// Which vectors are compared, and with what.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) vectors: Vectors<'a>,
    pub(super) threads: NonZeroUsize,
    pub(super) cpu: &'static dyn Instructions,
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
    pub(super) largest: f32,
    /// One over the length of the vector.
    pub(super) inverse: f64,
    /// One over the length of its integers.
    pub(super) integers: f64,
    pub(super) slack: Slack,
}

impl Entry {
    pub(super) fn is_new(&self) -> bool {
        self.old < self.weight
    }
}

/// The integers of vectors.
pub(super) struct Table<'a> {
    pub(super) ground: Ground<'a>,
    /// The vectors that differ, those to compare with all others first, then by length of the integers in blocks.
    pub(super) entries: Vec<Entry>,
    /// How many of the entries are to be compared with all others.
    pub(super) leading: usize,
    /// Blocks of 32 entries.
    pub(super) blocks: Blocks,
    /// The integers of the whole vectors, where those of the blocks stand for less.
    pub(super) whole: Option<Whole>,
}

/// What is compared with each other, 32 entries with 32.
pub(super) struct Blocks {
    /// Bytes of an entry.
    pub(super) depth: usize,
    /// Integers, see [`quantise::pack`].
    pub(super) packed: Buffer,
    /// What is common to the entries of each block.
    pub(super) extents: Vec<Extent>,
    /// By how much the inner product of what two entries stand for may be off.
    pub(super) error: f64,
}

/// The integers of whole vectors, one after the other.
pub(super) struct Whole {
    depth: usize,
    integers: Buffer,
}

impl Whole {
    /// Those of the `at`-th entry.
    pub(super) fn row(&self, at: usize) -> &[u8] {
        &self.integers.bytes()[at * self.depth..][..self.depth]
    }
}

impl Blocks {
    fn new(entries: usize, depth: usize, error: f64) -> Self {
        Self {
            depth,
            packed: Buffer::zeroed(entries.next_multiple_of(BLOCK) * depth),
            extents: vec![Extent::EMPTY; entries.div_ceil(BLOCK)],
            error,
        }
    }

    /// Each block, and what is common to its entries.
    fn each(&mut self) -> impl Iterator<Item = (&mut [u8], &mut Extent)> {
        let packed = self.packed.bytes_mut().chunks_exact_mut(BLOCK * self.depth);
        packed.zip(&mut self.extents)
    }
}

impl<'a> Table<'a> {
    /// A table of entries, the new ones of which come first, each part ordered by length in multiples of the largest
    /// number; the integers of the blocks stand for what the projection keeps, if there is one.
    pub(super) fn new(
        ground: Ground<'a>,
        entries: Vec<Entry>,
        projection: Option<&Projection>,
    ) -> Self {
        let leading = entries.partition_point(Entry::is_new);
        let mut table = Self {
            ground,
            leading,
            blocks: Blocks::new(0, 0, 0.0),
            whole: None,
            entries,
        };
        match projection {
            Some(projection) => {
                table.project(projection);
                table.round_rows();
            }
            None => table.round_blocks(),
        }
        table
    }

    /// Rounds the vectors into blocks.
    fn round_blocks(&mut self) {
        let ground = self.ground;
        let depth = quantise::depth(ground.vectors.dim());
        self.blocks = Blocks::new(self.entries.len(), depth, 0.0);
        let work = Handout::new(self.entries.chunks_mut(BLOCK).zip(self.blocks.each()));
        crew::run(ground.threads, || {
            let mut integers = vec![0; depth];
            while let Some((entries, (block, extent))) = work.next() {
                ground.fetch(entries);
                for (place, entry) in entries.iter_mut().enumerate() {
                    let rounded = ground.round(entry, &mut integers);
                    extent.take(Part::WHOLE, &rounded);
                    quantise::pack(&integers, place, ground.cpu.grid(), block);
                }
                clear(entries.len(), ground.cpu.grid(), &mut integers, block);
            }
        });
    }

    /// Rounds the vectors, one after the other.
    fn round_rows(&mut self) {
        let ground = self.ground;
        let depth = quantise::depth(ground.vectors.dim());
        let mut integers = Buffer::zeroed(self.entries.len() * depth);
        let rows = integers.bytes_mut().chunks_mut(BLOCK * depth);
        let work = Handout::new(self.entries.chunks_mut(BLOCK).zip(rows));
        crew::run(ground.threads, || {
            while let Some((entries, rows)) = work.next() {
                ground.fetch(entries);
                for (entry, integers) in entries.iter_mut().zip(rows.chunks_exact_mut(depth)) {
                    ground.round(entry, integers);
                }
            }
        });
        self.whole = Some(Whole { depth, integers });
    }

    /// Rounds what a projection keeps into blocks, and orders the entries by how much that is. All are scaled alike, so
    /// that the integers of a block are of like length.
    fn project(&mut self, projection: &Projection) {
        let Ground { cpu, threads, .. } = self.ground;
        let shadows = projection.shadows(&self.ground, &self.entries);
        let order = self.order_by(&shadows);
        let depth = projection.depth();
        self.blocks = Blocks::new(order.len(), depth, projection.error());
        let scale = f64::from(cpu.grid().limit) / f64::from(shadows.largest());
        let work = Handout::new(order.chunks(BLOCK).zip(self.blocks.each()));
        crew::run(threads, || {
            let mut integers = vec![0; depth];
            while let Some((entries, (block, extent))) = work.next() {
                for (place, &at) in entries.iter().enumerate() {
                    let part = shadows.part(at);
                    let rounding = cpu.round(shadows.row(at), scale, &mut integers);
                    extent.take(part, &Rounded::new(&rounding, part.kept));
                    quantise::pack(&integers, place, cpu.grid(), block);
                }
                clear(entries.len(), cpu.grid(), &mut integers, block);
            }
        });
    }

    /// Orders the entries by what is kept of them, and returns where each was.
    fn order_by(&mut self, shadows: &Shadows) -> Vec<u32> {
        let mut order: Vec<u32> = (0..).take(self.entries.len()).collect();
        let (new, old) = order.split_at_mut(self.leading);
        for part in [new, old] {
            // Positive floats are ordered as their bits.
            part.sort_by_cached_key(|&at| shadows.part(at).kept.to_bits());
        }
        self.entries = order.iter().map(|at| self.entries[*at as usize]).collect();
        order
    }
}

impl Ground<'_> {
    /// Rounds the vector of an entry, scaled so that its largest number becomes the largest integer.
    fn round(&self, entry: &mut Entry, integers: &mut [u8]) -> Rounded {
        let scale = f64::from(self.cpu.grid().limit) / f64::from(entry.largest);
        let rounding = self.cpu.round(self.vectors.row(entry.row), scale, integers);
        let rounded = Rounded::new(&rounding, 1.0 / entry.inverse);
        entry.integers = 1.0 / rounded.length;
        entry.slack = rounded.slack;
        rounded
    }

    /// Says that the vectors of entries will be read soon.
    fn fetch(&self, entries: &[Entry]) {
        for entry in entries {
            self.cpu.fetch(self.vectors.row(entry.row));
        }
    }
}

/// Leaves the places of a block from the `from`-th on empty.
fn clear(from: usize, grid: Grid, integers: &mut [u8], block: &mut [u8]) {
    integers.fill(0);
    for place in from..BLOCK {
        quantise::pack(integers, place, grid, block);
    }
}
