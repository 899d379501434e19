//! The scan over the upper triangle.
//!
//! A task is a few blocks of rows against all columns from there on, taken a strip at a time: the rows, unpacked, and
//! the strip both stay in the second-level cache, one block of rows in the first. Tasks get shorter towards the end,
//! so that threads which take the next one when they are done finish together.

use std::mem;
use std::ops::Range;

use super::angle::{Threshold, Verdict};
use super::buffer::Buffer;
use super::cpu::{BLOCK, Hit, Hits, STRIP, Strip};
use super::quantise::unpack;
use super::table::{Entry, Ground, Table};
use super::{KernelError, Sink};
use crate::pass::crew::{self, Handout};
use crate::stop::Stop;

/// The most blocks of rows in a task.
const TASK: usize = 16;
/// Bytes of a strip, and of the rows of a task: a quarter of a common second-level cache.
const CACHED: usize = 512 * 1024;
/// Tasks that each thread should get, where there are blocks enough.
const TASKS_PER_THREAD: usize = 16;

/// What to look for.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The least cosine of a pair.
    pub threshold: f64,
    /// Whether to end early; polled about once a millisecond.
    pub stop: &'a Stop,
}

/// What was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found<S> {
    /// Unordered pairs of rows with a cosine at or above the threshold, copies counted one by one.
    pub pairs: u64,
    /// Pairs of vectors whose integers were multiplied.
    pub compared: u64,
    /// Those among them that their integers could not decide.
    pub close: u64,
    /// What each thread was given.
    pub sinks: Vec<S>,
}

/// See [`Index::pairs`](super::Index::pairs).
pub(super) fn pairs<S: Sink>(
    table: &Table<'_>,
    query: &Query<'_>,
    sink: impl Fn() -> S + Sync,
) -> Result<Found<S>, KernelError> {
    let threshold = Threshold::new(query.threshold, table.blocks.error)
        .ok_or(KernelError::Threshold(query.threshold))?;
    let tasks = Handout::new(tasks(table));
    let workers = crew::run(table.ground.threads, || {
        let mut worker = Worker::new(table, threshold, sink());
        while let Some(task) = tasks.next() {
            worker.run(task, query.stop)?;
        }
        Ok(worker)
    });
    let mut found = Found {
        pairs: table.entries.iter().map(Entry::pairs_within).sum(),
        compared: 0,
        close: 0,
        sinks: Vec::with_capacity(workers.len()),
    };
    for worker in workers {
        let worker = worker?;
        found.pairs += worker.pairs;
        found.compared += worker.compared;
        found.close += worker.close;
        found.sinks.push(worker.sink);
    }
    Ok(found)
}

/// The blocks of rows, divided among tasks.
fn tasks(table: &Table<'_>) -> impl Iterator<Item = Range<usize>> {
    let blocks = table.leading.div_ceil(BLOCK);
    let share = blocks / table.ground.threads.get() / TASKS_PER_THREAD;
    let size = share.clamp(1, cached_blocks(table, TASK));
    (0..blocks)
        .step_by(size)
        .map(move |start| start..blocks.min(start + size))
}

/// How many blocks stay in the cache, up to `most`.
fn cached_blocks(table: &Table<'_>, most: usize) -> usize {
    (CACHED / block_bytes(table)).clamp(1, most)
}

fn block_bytes(table: &Table<'_>) -> usize {
    BLOCK * table.blocks.depth
}

impl Entry {
    /// Pairs among the rows that have this vector, one of them new.
    fn pairs_within(&self) -> u64 {
        let pairs = |rows: u32| u64::from(rows) * u64::from(rows.saturating_sub(1)) / 2;
        pairs(self.weight) - pairs(self.old)
    }

    /// Pairs of a row that has this vector with one that has another, one of them new.
    fn pairs_with(&self, other: &Self) -> u64 {
        let pairs = |a: u32, b: u32| u64::from(a) * u64::from(b);
        pairs(self.weight, other.weight) - pairs(self.old, other.old)
    }
}

/// One thread of a scan.
struct Worker<'a, S> {
    table: &'a Table<'a>,
    threshold: Threshold,
    /// Bytes of a block.
    block_bytes: usize,
    /// The rows of a task, unpacked.
    rows: Buffer,
    sink: S,
    pairs: u64,
    compared: u64,
    close: u64,
    /// Pairs of entries that their integers cannot decide, to be computed while their vectors are on the way.
    undecided: Vec<(usize, usize)>,
}

impl<'a, S: Sink> Worker<'a, S> {
    fn new(table: &'a Table<'a>, threshold: Threshold, sink: S) -> Self {
        let block_bytes = block_bytes(table);
        Self {
            table,
            threshold,
            block_bytes,
            rows: Buffer::zeroed(cached_blocks(table, TASK) * block_bytes),
            sink,
            pairs: 0,
            compared: 0,
            close: 0,
            undecided: Vec::new(),
        }
    }

    /// Compares blocks of rows with every block from there on.
    fn run(&mut self, task: Range<usize>, stop: &Stop) -> Result<(), KernelError> {
        let table = self.table;
        let packed = table.blocks.packed.bytes();
        let unpacked = self.rows.bytes_mut().chunks_exact_mut(self.block_bytes);
        for (block, rows) in task.clone().zip(unpacked) {
            let packed = &packed[block * self.block_bytes..][..self.block_bytes];
            unpack(packed, table.ground.cpu.grid(), rows);
        }
        let mut hits = Hits::new();
        let blocks = cached_blocks(table, STRIP);
        for start in (task.start..table.blocks.extents.len()).step_by(blocks) {
            if stop.is_requested() {
                return Err(KernelError::Interrupted);
            }
            let strip = start..table.blocks.extents.len().min(start + blocks);
            for (at, block) in task.clone().enumerate() {
                let columns = strip.start.max(block)..strip.end;
                if !columns.is_empty() {
                    self.compare(at, block, columns, &mut hits);
                }
            }
        }
        self.decide();
        Ok(())
    }

    /// Compares one block of rows, the `at`-th of the task, with a strip.
    fn compare(&mut self, at: usize, block: usize, columns: Range<usize>, hits: &mut Hits) {
        let table = self.table;
        let mut floors = [0; STRIP];
        let extent = &table.blocks.extents[block];
        for (floor, column) in floors.iter_mut().zip(columns.clone()) {
            *floor = self.threshold.floor(extent, &table.blocks.extents[column]);
        }
        let bytes = columns.start * self.block_bytes..columns.end * self.block_bytes;
        let strip = Strip::new(
            &self.rows.bytes()[at * self.block_bytes..][..self.block_bytes],
            &table.blocks.packed.bytes()[bytes],
            &floors[..columns.len()],
        );
        table.ground.cpu.strip(&strip, hits);
        self.compared += (columns.len() * BLOCK * BLOCK) as u64;
        self.decide();
        for hit in hits.as_slice() {
            self.judge(block, columns.start + hit.block, hit);
        }
    }

    /// Decides the pairs of a block that its products leave open.
    fn judge(&mut self, block: usize, column: usize, hit: &Hit) {
        let table = self.table;
        let ceiling = self
            .threshold
            .ceiling(&table.blocks.extents[block], &table.blocks.extents[column]);
        let (first_row, first_column) = (block * BLOCK, column * BLOCK);
        let rows = BLOCK.min(table.leading - first_row);
        let columns = table.entries.len() - first_column;
        for (r, (products, &mask)) in hit.products.iter().zip(&hit.masks).take(rows).enumerate() {
            // Within one block, only the columns behind the row; in the last block, only those that exist.
            let behind = if block == column { r + 1 } else { 0 };
            let mut mask = mask & bits_from(behind) & !bits_from(columns);
            while mask != 0 {
                let c = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let pair = (first_row + r, first_column + c);
                if products[c] >= ceiling {
                    self.take(pair);
                    continue;
                }
                let product = match &table.whole {
                    Some(whole) => table
                        .ground
                        .cpu
                        .product(whole.row(pair.0), whole.row(pair.1)),
                    None => products[c],
                };
                self.judge_pair(pair, product);
            }
        }
    }

    fn judge_pair(&mut self, pair: (usize, usize), product: i32) {
        let table = self.table;
        let (a, b) = (&table.entries[pair.0], &table.entries[pair.1]);
        let slack = a.slack.plus(b.slack);
        match self
            .threshold
            .judge(product, a.integers * b.integers, slack)
        {
            Verdict::Below => {}
            Verdict::AtOrAbove => self.take(pair),
            Verdict::Close => {
                let Ground { vectors, cpu, .. } = table.ground;
                cpu.fetch(vectors.row(a.row));
                cpu.fetch(vectors.row(b.row));
                self.undecided.push(pair);
            }
        }
    }

    /// Computes the pairs that their integers could not decide.
    fn decide(&mut self) {
        let table = self.table;
        let Ground { vectors, cpu, .. } = table.ground;
        self.close += self.undecided.len() as u64;
        let mut undecided = mem::take(&mut self.undecided);
        for pair in undecided.drain(..) {
            let (a, b) = (&table.entries[pair.0], &table.entries[pair.1]);
            let product = cpu.dot(vectors.row(a.row), vectors.row(b.row));
            if product * a.inverse * b.inverse >= self.threshold.cosine() {
                self.take(pair);
            }
        }
        self.undecided = undecided;
    }

    fn take(&mut self, pair: (usize, usize)) {
        let (a, b) = (&self.table.entries[pair.0], &self.table.entries[pair.1]);
        self.pairs += a.pairs_with(b);
        self.sink.pair(a.row.min(b.row), a.row.max(b.row));
    }
}

/// All bits from the `n`-th on.
fn bits_from(n: usize) -> u32 {
    match u32::try_from(n) {
        Ok(n) => u32::MAX.checked_shl(n).unwrap_or(0),
        Err(_) => 0,
    }
}
