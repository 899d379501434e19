//! Vectors made shorter: what a few directions keep of them.
//!
//! Embeddings of one kind of text differ much in some directions and hardly in most. The inner product with the `depth`
//! directions in which a sample is longest keeps most of a vector's length; what is left out is bounded by its length, so
//! that a comparison of what was kept settles nearly every pair. The directions are the leading singular vectors of the
//! sample, by orthogonal iteration (Golub and Van Loan, *Matrix Computations*, 8.2.4). How well they were found costs
//! time, never a pair: they are measured, see [`Projection::error`].

use ndarray::{Array2, ArrayViewMut2, Axis, s};

use super::Vectors;
use super::angle::Part;
use super::table::{Entry, Ground};
use crate::pass::crew::{self, Handout};

/// Rounds of the iteration. More hardly find better directions on sentence embeddings.
const ROUNDS: usize = 2;
/// Vectors that one thread projects at a time.
const BATCH: usize = 256;
/// The unit roundoff of `f32`.
const ROUNDOFF: f64 = 1.0 / 16_777_216.0;
/// A direction of which orthogonalising leaves less than this is none.
const VANISHED: f64 = 1e-6;

/// Directions at right angles to each other.
pub(super) struct Projection {
    /// One direction a column, `dim` x `depth`; those that were not found are zero.
    axes: Array2<f32>,
    /// By how much a projected vector of length 1 may be off, as a length.
    off: f64,
}

impl Projection {
    /// The directions in which a sample of vectors is longest, `depth` of them.
    pub(super) fn of(vectors: Vectors<'_>, sample: &[Entry], depth: usize) -> Self {
        let mut matrix = Array2::zeros((sample.len(), vectors.dim()));
        directions_of(vectors, sample, matrix.view_mut());
        // Any start that is not at right angles to what is looked for.
        let mut axes = Array2::zeros((vectors.dim(), depth));
        let found = depth.min(sample.len());
        axes.slice_mut(s![.., ..found])
            .assign(&matrix.slice(s![..found, ..]).t());
        for _ in 0..ROUNDS {
            axes = orthonormal(&matrix.t().dot(&matrix.dot(&axes)));
        }
        let off = bound(&axes);
        Self { axes, off }
    }

    /// How many numbers are kept of a vector.
    pub(super) fn depth(&self) -> usize {
        self.axes.ncols()
    }

    /// By how much the inner product of two projected vectors of length 1 may be off: `2 off + off^2`, with room.
    pub(super) fn error(&self) -> f64 {
        self.off * (2.1 + self.off)
    }

    /// Projects entries.
    pub(super) fn shadows(&self, ground: &Ground<'_>, entries: &[Entry]) -> Shadows {
        let Ground {
            vectors, threads, ..
        } = *ground;
        let depth = self.depth();
        let mut numbers = vec![0.0; entries.len() * depth];
        let batches = numbers.chunks_mut(BATCH * depth).zip(entries.chunks(BATCH));
        let work = Handout::new(batches);
        crew::run(threads, || {
            let mut matrix = Array2::zeros((BATCH, vectors.dim()));
            while let Some((place, entries)) = work.next() {
                let mut matrix = matrix.slice_mut(s![..entries.len(), ..]);
                directions_of(vectors, entries, matrix.view_mut());
                let shadows = matrix.dot(&self.axes);
                for (place, shadow) in place.iter_mut().zip(&shadows) {
                    *place = *shadow;
                }
            }
        });
        Shadows {
            numbers,
            depth,
            error: self.error(),
        }
    }
}

/// What is kept of vectors of length 1.
pub(super) struct Shadows {
    numbers: Vec<f32>,
    depth: usize,
    error: f64,
}

impl Shadows {
    /// The numbers of the `at`-th.
    pub(super) fn row(&self, at: u32) -> &[f32] {
        &self.numbers[at as usize * self.depth..][..self.depth]
    }

    /// How much of the `at`-th vector its numbers are.
    pub(super) fn part(&self, at: u32) -> Part {
        let numbers = self.row(at);
        let kept: f64 = numbers
            .iter()
            .map(|&number| f64::from(number).powi(2))
            .sum();
        Part {
            kept: kept.sqrt(),
            rest: (1.0 - kept + self.error).max(0.0).sqrt(),
        }
    }

    /// The absolute value of the largest number.
    pub(super) fn largest(&self) -> f32 {
        self.numbers
            .iter()
            .fold(f32::MIN_POSITIVE, |most, number| most.max(number.abs()))
    }
}

/// Writes vectors, made as long as 1, one a row.
fn directions_of(vectors: Vectors<'_>, entries: &[Entry], mut matrix: ArrayViewMut2<'_, f32>) {
    for (mut row, entry) in matrix.axis_iter_mut(Axis(0)).zip(entries) {
        for (place, &number) in row.iter_mut().zip(vectors.row(entry.row)) {
            #[expect(clippy::cast_possible_truncation, reason = "the error is in the bound")]
            let number = (f64::from(number) * entry.inverse) as f32;
            *place = number;
        }
    }
}

/// The columns made orthogonal, one after the other, and as long as 1: Gram and Schmidt, twice.
fn orthonormal(columns: &Array2<f32>) -> Array2<f32> {
    let mut found: Vec<Vec<f64>> = Vec::with_capacity(columns.ncols());
    for column in columns.columns() {
        let mut column: Vec<f64> = column.iter().copied().map(f64::from).collect();
        let length = dot(&column, &column).sqrt();
        for _ in 0..2 {
            for axis in &found {
                let along = dot(&column, axis);
                for (number, part) in column.iter_mut().zip(axis) {
                    *number -= along * part;
                }
            }
        }
        let left = dot(&column, &column).sqrt();
        if left > length * VANISHED {
            for number in &mut column {
                *number /= left;
            }
            found.push(column);
        }
    }
    let mut axes = Array2::zeros(columns.dim());
    for (mut place, axis) in axes.columns_mut().into_iter().zip(&found) {
        for (place, &number) in place.iter_mut().zip(axis) {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "what that costs is measured"
            )]
            let number = number as f32;
            *place = number;
        }
    }
    axes
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// By how much a vector of length 1 that was projected in `f32` on such axes may be off from what it is on axes that are
/// orthonormal, as a length.
///
/// With `A = QH` the polar decomposition, `|A - Q| = |H - 1| <= |H^2 - 1| = |A'A - 1|`, which is measured. A sum of `dim`
/// products in `f32`, in whatever order, is off by at most `dim` roundoffs of the sum of their absolute values (Higham,
/// *Accuracy and Stability of Numerical Algorithms*, 3.1), which is at most 1 here, and the vector itself by one.
fn bound(axes: &Array2<f32>) -> f64 {
    let columns: Vec<Vec<f64>> = axes
        .columns()
        .into_iter()
        .map(|column| column.iter().copied().map(f64::from).collect::<Vec<f64>>())
        .filter(|column| column.iter().any(|number| *number != 0.0))
        .collect();
    let mut square = 0.0;
    for (i, a) in columns.iter().enumerate() {
        for (j, b) in columns.iter().enumerate().skip(i) {
            let (expected, times) = if i == j { (1.0, 1.0) } else { (0.0, 2.0) };
            square += times * (dot(a, b) - expected).powi(2);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let (dim, depth) = (axes.nrows() as f64, columns.len() as f64);
    square.sqrt() + depth.sqrt() * (dim + 4.0) * ROUNDOFF
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::pass::duplicates::kernel::angle::Slack;
    use crate::pass::duplicates::kernel::cpu::portable;

    const DIM: usize = 100;

    /// Vectors that are long in `rank` directions, and a little in all.
    fn vectors(rows: usize, rank: usize) -> Vec<f32> {
        let mut seed = 1_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from((seed >> 16) as u16) / 32_768.0 - 1.0
        };
        let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| next()).collect() };
        let axes = Array2::from_shape_vec((rank, DIM), numbers(rank * DIM)).unwrap();
        let along = Array2::from_shape_vec((rows, rank), numbers(rows * rank)).unwrap();
        let little = Array2::from_shape_vec((rows, DIM), numbers(rows * DIM)).unwrap();
        let all = along.dot(&axes) + little * 0.05;
        all.iter().copied().collect()
    }

    fn entries(vectors: Vectors<'_>) -> Vec<Entry> {
        let entry = |row| {
            let numbers = vectors.row(row);
            Entry {
                row,
                weight: 1,
                old: 0,
                largest: 1.0,
                inverse: 1.0 / portable::dot(numbers, numbers).sqrt(),
                integers: 0.0,
                slack: Slack::NONE,
            }
        };
        (0..).take(vectors.len()).map(entry).collect()
    }

    fn shadows(projection: &Projection, vectors: Vectors<'_>) -> Shadows {
        let ground = Ground {
            vectors,
            threads: NonZeroUsize::MIN,
            cpu: &portable::Portable,
        };
        projection.shadows(&ground, &entries(vectors))
    }

    #[test]
    fn a_few_directions_keep_nearly_all_of_what_has_few() {
        let numbers = vectors(300, 5);
        let vectors = Vectors::new(&numbers, DIM).unwrap();
        let of = |depth| Projection::of(vectors, &entries(vectors)[..100], depth);
        let kept = [1, 5, 64].map(|depth| {
            let shadows = shadows(&of(depth), vectors);
            (0..300).map(|at| shadows.part(at).kept).sum::<f64>() / 300.0
        });
        assert!(kept[0] < 0.8 && kept[1] > 0.9 && kept[2] > 0.99, "{kept:?}");
        assert!(of(64).error() < 1e-3);
    }

    #[test]
    fn a_sample_with_fewer_directions_than_wanted_gives_those() {
        let mut numbers = vectors(10, 1);
        let one = numbers[..DIM].to_vec();
        for row in numbers.chunks_exact_mut(DIM) {
            row.copy_from_slice(&one);
        }
        let vectors = Vectors::new(&numbers, DIM).unwrap();
        let projection = Projection::of(vectors, &entries(vectors), 64);
        let found = projection.axes.columns().into_iter();
        let found = found.filter(|axis| axis.iter().any(|number| *number != 0.0));
        assert_eq!(found.count(), 1);
        assert!((shadows(&projection, vectors).part(0).kept - 1.0).abs() < 1e-6);
    }

    /// The inner product of two vectors is that of what was kept, give or take what was left out and the error; with
    /// axes that are not quite orthonormal, too, whose error is larger.
    #[test]
    fn what_was_left_out_is_no_longer_than_said() {
        let numbers = vectors(60, 40);
        let vectors = Vectors::new(&numbers, DIM).unwrap();
        for bend in [0.0, 0.01] {
            let mut projection = Projection::of(vectors, &entries(vectors), 16);
            let first = projection.axes.column(0).to_owned();
            projection.axes.column_mut(1).scaled_add(bend, &first);
            projection.off = bound(&projection.axes);
            assert!(projection.off >= f64::from(bend) * 0.9);
            let shadows = shadows(&projection, vectors);
            let mut is_needed = false;
            for a in 0..60 {
                for b in 0..a {
                    let kept = portable::dot(shadows.row(a), shadows.row(b));
                    let rest = shadows.part(a).rest * shadows.part(b).rest;
                    let off = (vectors.cosine(a, b).unwrap() - kept).abs();
                    assert!(off <= rest + projection.error(), "{off} {rest}");
                    is_needed |= off > rest * 0.5;
                }
            }
            assert!(is_needed, "what was left out matters");
        }
    }
}
