//! From vectors to small integers, and where these stand in memory.
//!
//! A vector is scaled so that its largest number becomes the largest integer of the [`Grid`], and rounded. Sixteen
//! vectors stand side by side, four bytes of each in turn: one register holds the next four bytes of sixteen vectors.

use super::cpu::{BLOCK, DEPTH_UNIT, LANES, portable};

/// Bytes of a vector that stand together: what integer dot products add up at once.
const QUAD: usize = 4;

/// The integers of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// The largest integer; the smallest is its negative.
    pub(super) limit: i8,
    /// What is added to the integers of packed vectors, for instructions that multiply unsigned by signed bytes.
    pub(super) offset: u8,
}

impl Grid {
    /// Signed by signed bytes.
    pub(super) const SIGNED: Self = Self {
        limit: 127,
        offset: 0,
    };
    /// Unsigned by signed bytes.
    pub(super) const OFFSET: Self = Self {
        limit: 127,
        offset: 128,
    };
    /// Unsigned by signed bytes, where four products must fit 16 bits: 4 x 127 x 63 < 32,768.
    pub(super) const HALVED: Self = Self {
        limit: 63,
        offset: 64,
    };
}

/// What is known of a vector before it is rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measure {
    /// Its inner product with itself; not finite when one of its numbers is not.
    pub(super) square: f64,
    /// The absolute value of its largest number.
    pub(super) largest: f32,
    /// A hash of its bits.
    pub(super) print: u64,
}

impl Measure {
    /// Whether the vector points anywhere.
    pub(super) fn has_direction(&self) -> bool {
        is_length(self.square)
    }
}

/// Whether an inner product with itself is that of a vector with a direction.
fn is_length(square: f64) -> bool {
    square.is_finite() && square > 0.0
}

/// Whether a vector points anywhere: it is not empty or all zero, and none of its numbers is NaN or infinite.
#[must_use]
pub fn has_direction(vector: &[f32]) -> bool {
    is_length(portable::dot(vector, vector))
}

/// What became of a vector when it was rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rounding {
    /// The inner product of its integers with themselves.
    pub(super) square: f64,
    /// The inner product of its numbers with its integers.
    pub(super) product: f64,
}

/// Bytes of a vector of `dim` dimensions.
pub(super) fn depth(dim: usize) -> usize {
    dim.next_multiple_of(DEPTH_UNIT)
}

/// Puts the integers of one vector in their places in a block.
pub(super) fn pack(integers: &[u8], place: usize, grid: Grid, block: &mut [u8]) {
    let (group, lane) = (place / LANES, place % LANES);
    let group_bytes = integers.len() * LANES;
    let group = &mut block[group * group_bytes..][..group_bytes];
    let (quads, _) = integers.as_chunks::<QUAD>();
    for (line, quad) in group.chunks_exact_mut(LANES * QUAD).zip(quads) {
        line[lane * QUAD..][..QUAD]
            .copy_from_slice(&quad.map(|byte| byte.wrapping_add(grid.offset)));
    }
}

/// Writes the vectors of a block one after the other.
pub(super) fn unpack(block: &[u8], grid: Grid, rows: &mut [u8]) {
    let depth = block.len() / BLOCK;
    for (place, row) in rows.chunks_exact_mut(depth).enumerate() {
        let (group, lane) = (place / LANES, place % LANES);
        let group = &block[group * depth * LANES..][..depth * LANES];
        let (quads, _) = row.as_chunks_mut::<QUAD>();
        for (line, quad) in group.chunks_exact(LANES * QUAD).zip(quads) {
            quad.copy_from_slice(&line[lane * QUAD..][..QUAD]);
            *quad = quad.map(|byte| byte.wrapping_sub(grid.offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_as_it_was() {
        for grid in [Grid::SIGNED, Grid::OFFSET, Grid::HALVED] {
            let depth = depth(70);
            assert_eq!(depth, 128);
            let rows: Vec<u8> = (0..=250).cycle().step_by(7).take(BLOCK * depth).collect();
            let mut block = vec![0; rows.len()];
            for (place, row) in rows.chunks(depth).enumerate() {
                pack(row, place, grid, &mut block);
            }
            // The second line of the second sixteen begins with bytes 4 to 8 of vector 16.
            let at = depth * LANES + LANES * QUAD;
            let expected =
                [0, 1, 2, 3].map(|byte| rows[16 * depth + 4 + byte].wrapping_add(grid.offset));
            assert_eq!(block[at..at + 4], expected);
            let mut back = vec![0; rows.len()];
            unpack(&block, grid, &mut back);
            assert_eq!(back, rows);
        }
    }
}
