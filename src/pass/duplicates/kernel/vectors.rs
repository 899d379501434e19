//! The vectors to compare, borrowed.

use super::KernelError;
use super::cpu::portable;

/// A matrix of `f32`, one vector a row, row after row.
#[derive(Debug, Clone, Copy)]
pub struct Vectors<'a> {
    numbers: &'a [f32],
    dim: usize,
}

impl<'a> Vectors<'a> {
    /// The most dimensions a vector may have: the sum of as many products of two bytes fits an `i32`.
    pub const MAX_DIM: usize = 65_536;

    /// Reads `numbers` as vectors of `dim` dimensions.
    ///
    /// # Errors
    ///
    /// [`KernelError::Shape`], [`KernelError::Dimension`] or [`KernelError::Rows`].
    pub fn new(numbers: &'a [f32], dim: usize) -> Result<Self, KernelError> {
        if !(1..=Self::MAX_DIM).contains(&dim) {
            return Err(KernelError::Dimension { dim });
        }
        if !numbers.len().is_multiple_of(dim) {
            return Err(KernelError::Shape {
                len: numbers.len(),
                dim,
            });
        }
        let rows = numbers.len() / dim;
        if u32::try_from(rows).is_err() {
            return Err(KernelError::Rows { rows });
        }
        Ok(Self { numbers, dim })
    }

    /// How many vectors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len() / self.dim
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Dimensions of a vector.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// One vector.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    #[must_use]
    pub fn row(&self, row: u32) -> &'a [f32] {
        let start = row as usize * self.dim;
        &self.numbers[start..start + self.dim]
    }

    /// The cosine of two vectors, in `f64`; `None` when one of them has no direction.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    #[must_use]
    pub fn cosine(&self, a: u32, b: u32) -> Option<f64> {
        let (a, b) = (self.row(a), self.row(b));
        let squares = portable::dot(a, a) * portable::dot(b, b);
        let cosine = portable::dot(a, b) / squares.sqrt();
        cosine.is_finite().then_some(cosine)
    }
}
