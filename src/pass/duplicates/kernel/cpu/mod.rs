//! The inner loops, on whichever instructions the CPU has.
//!
//! [`portable`] is the definition: plain Rust, for every CPU. [`x86`] does the same on wider registers, and is the only
//! module with unsafe code. Results are equal bit for bit on every path (the sums in `f64` are taken in one fixed order
//! of products that are exact); only the range of the integers differs ([`Grid`]).

use std::fmt;
use std::str::FromStr;

use super::quantise::{Grid, Measure, Rounding};

pub(super) mod portable;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86;

/// Rows, and columns, of a block: the unit of comparison.
pub(super) const BLOCK: usize = 32;
/// Columns side by side in memory: a register of 16 sums.
pub(super) const LANES: usize = 16;
/// Bytes in which every vector is padded to a multiple of: a register of bytes.
pub(super) const DEPTH_UNIT: usize = 64;
/// The most blocks in a strip.
pub(super) const STRIP: usize = 16;

/// A set of instructions to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Whatever the compiler makes of plain Rust.
    Portable,
    /// AVX2: sums of two products in 16 bits, for which the integers are halved.
    Avx2,
    /// AVX-512 with VNNI: 64 products an instruction.
    Avx512,
    /// AMX: 16,384 products an instruction.
    Amx,
}

impl Path {
    /// Every path, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Amx];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        }
    }

    /// Whether this machine can take it.
    #[must_use]
    pub fn is_available(self) -> bool {
        instructions(self).is_some()
    }

    /// The fastest one that this machine can take.
    #[must_use]
    pub fn fastest() -> Self {
        Self::ALL
            .into_iter()
            .rev()
            .find(|path| path.is_available())
            .unwrap_or(Self::Portable)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|path| path.as_str() == name)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                format!("no such path; the paths are {known}")
            })
    }
}

/// 32 vectors to compare with up to [`STRIP`] blocks of 32 others.
pub(super) struct Strip<'a> {
    rows: &'a [u8],
    columns: &'a [u8],
    floors: &'a [i32],
}

impl<'a> Strip<'a> {
    /// `rows` are the 32 vectors, one after the other, as signed bytes; `columns` the blocks of the others, packed as
    /// [`quantise::pack`](super::quantise::pack) does; `floors` says for each block from which product on a pair is of
    /// interest.
    ///
    /// # Panics
    ///
    /// When the lengths do not fit each other, or the vectors are not padded to whole registers.
    pub(super) fn new(rows: &'a [u8], columns: &'a [u8], floors: &'a [i32]) -> Self {
        assert!(floors.len() <= STRIP);
        assert!(rows.len().is_multiple_of(BLOCK * DEPTH_UNIT));
        assert_eq!(columns.len(), floors.len() * rows.len());
        Self {
            rows,
            columns,
            floors,
        }
    }

    /// Bytes of one vector.
    fn depth(&self) -> usize {
        self.rows.len() / BLOCK
    }

    /// The blocks of columns, each with its floor.
    fn blocks(&self) -> impl Iterator<Item = (&'a [u8], i32)> {
        // A block has as many bytes as the rows; without a block there is nothing to divide.
        let blocks = self.columns.chunks_exact(self.rows.len().max(1));
        blocks.zip(self.floors.iter().copied())
    }
}

/// A block in which a product reached its floor.
#[repr(C, align(64))]
pub(super) struct Hit {
    /// The products, by row and column.
    pub(super) products: [[i32; BLOCK]; BLOCK],
    /// For each row, the columns whose product reached the floor, as bits.
    pub(super) masks: [u32; BLOCK],
    /// Which block of the strip it is.
    pub(super) block: usize,
}

/// The hits of a strip. Kept between strips for its memory.
pub(super) struct Hits {
    /// One more than a strip can have: the last is where a block is computed before it is known to be a hit.
    slots: Vec<Hit>,
    len: usize,
}

impl Hits {
    pub(super) fn new() -> Self {
        let slot = || Hit {
            products: [[0; BLOCK]; BLOCK],
            masks: [0; BLOCK],
            block: 0,
        };
        Self {
            slots: std::iter::repeat_with(slot).take(STRIP + 1).collect(),
            len: 0,
        }
    }

    pub(super) fn as_slice(&self) -> &[Hit] {
        &self.slots[..self.len]
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    /// Where to compute the next block.
    fn slot(&mut self) -> &mut Hit {
        &mut self.slots[self.len]
    }

    /// Keeps the block just computed if any of its products reached the floor.
    fn keep_if_any(&mut self, block: usize) {
        let slot = &mut self.slots[self.len];
        if slot.masks != [0; BLOCK] {
            slot.block = block;
            self.len += 1;
        }
    }
}

/// The inner loops of one path.
pub(super) trait Instructions: Sync {
    /// Which integers the path computes with.
    fn grid(&self) -> Grid;

    /// Multiplies a strip, and keeps the blocks with a product at or above their floor.
    fn strip(&self, strip: &Strip<'_>, hits: &mut Hits);

    /// The inner product of two vectors of equal length, summed in `f64`.
    fn dot(&self, a: &[f32], b: &[f32]) -> f64;

    /// The product of two vectors of signed bytes of the grid, equally long and padded to whole registers.
    fn product(&self, a: &[u8], b: &[u8]) -> i32;

    /// Says that a vector will be read soon.
    fn fetch(&self, vector: &[f32]);

    /// Measures a vector.
    fn measure(&self, vector: &[f32]) -> Measure;

    /// Rounds each number times `scale` to an integer, which must fit a signed byte.
    fn round(&self, vector: &[f32], scale: f64, integers: &mut [u8]) -> Rounding;
}

/// The instructions of a path, if this machine has them.
pub(super) fn instructions(path: Path) -> Option<&'static dyn Instructions> {
    match path {
        Path::Portable => Some(&portable::Portable),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Path::Avx2 => x86::avx2(),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Path::Avx512 => x86::avx512(),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Path::Amx => x86::amx(),
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        Path::Avx2 | Path::Avx512 | Path::Amx => None,
    }
}
