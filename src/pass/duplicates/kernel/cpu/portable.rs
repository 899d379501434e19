//! The inner loops in plain Rust: what every other path must equal.
//!
//! Each is a loop over 16 independent sums, the shape that compilers turn into vector code. The functions are inlined,
//! so that [`x86`](super::x86) can have them compiled once more for wider registers.

#![expect(
    clippy::inline_always,
    reason = "inlined into callers that are compiled for other instructions"
)]

use super::{BLOCK, Hits, Instructions, LANES, Strip};
use crate::pass::duplicates::kernel::quantise::{Grid, Measure, Rounding, unpack};

/// Plain Rust.
pub(in super::super) struct Portable;

impl Instructions for Portable {
    fn grid(&self) -> Grid {
        Grid::SIGNED
    }

    fn strip(&self, strip: &Strip<'_>, hits: &mut Hits) {
        strip_of(strip, hits);
    }

    fn dot(&self, a: &[f32], b: &[f32]) -> f64 {
        dot(a, b)
    }

    fn product(&self, a: &[u8], b: &[u8]) -> i32 {
        product(a, b)
    }

    /// The CPU will find out.
    fn fetch(&self, _: &[f32]) {}

    fn measure(&self, vector: &[f32]) -> Measure {
        measure(vector)
    }

    fn round(&self, vector: &[f32], scale: f64, integers: &mut [u8]) -> Rounding {
        round(vector, scale, integers)
    }
}

/// A product of two `f32` is exact in `f64`; the order of the sums is fixed by the lanes.
#[inline(always)]
pub(in super::super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    for (lane, (&a, &b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += f64::from(a) * f64::from(b);
    }
    sums.iter().sum()
}

/// The product of two vectors of signed bytes.
#[inline(always)]
pub(super) fn product(a: &[u8], b: &[u8]) -> i32 {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(&a, &b)| i32::from(widen(a)) * i32::from(widen(b)))
        .sum()
}

#[inline(always)]
pub(super) fn measure(vector: &[f32]) -> Measure {
    let mut prints = [0_u32; LANES];
    let mut largest = [0.0_f32; LANES];
    let mut take = |lane: usize, number: f32| {
        // Odd multiplications lose nothing; the rotation lets every bit reach every other.
        prints[lane] = (prints[lane] ^ number.to_bits())
            .wrapping_mul(0x9E37_79B1)
            .rotate_left(15);
        let size = number.abs();
        if size > largest[lane] {
            largest[lane] = size;
        }
    };
    let (chunks, rest) = vector.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &number) in chunk.iter().enumerate() {
            take(lane, number);
        }
    }
    for (lane, &number) in rest.iter().enumerate() {
        take(lane, number);
    }
    Measure {
        square: dot(vector, vector),
        largest: largest.into_iter().fold(0.0, f32::max),
        print: prints.into_iter().fold(0, |print: u64, lane| {
            (print ^ u64::from(lane)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        }),
    }
}

/// Adding and subtracting this rounds a small `f64` to an integer, which then stands in the low bits of the sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
pub(super) fn round(vector: &[f32], scale: f64, integers: &mut [u8]) -> Rounding {
    let mut squares = [0.0; LANES];
    let mut products = [0.0; LANES];
    let mut take = |lane: usize, number: f32, integer: &mut u8| {
        let number = f64::from(number);
        let sum = number * scale + ROUNDER;
        let rounded = sum - ROUNDER;
        squares[lane] += rounded * rounded;
        products[lane] += rounded * number;
        *integer = sum.to_bits().to_le_bytes()[0];
    };
    let (chunks, rest) = vector.as_chunks::<LANES>();
    let (places, places_rest) = integers.as_chunks_mut::<LANES>();
    for (chunk, places) in chunks.iter().zip(places.iter_mut()) {
        for lane in 0..LANES {
            take(lane, chunk[lane], &mut places[lane]);
        }
    }
    let places_rest = match places.get_mut(chunks.len()) {
        Some(place) => &mut place[..],
        None => places_rest,
    };
    for (lane, (&number, place)) in rest.iter().zip(places_rest).enumerate() {
        take(lane, number, place);
    }
    Rounding {
        square: squares.iter().sum(),
        product: products.iter().sum(),
    }
}

/// Unpacks each block of columns to 16 bits, and multiplies vector by vector.
fn strip_of(strip: &Strip<'_>, hits: &mut Hits) {
    hits.clear();
    let depth = strip.depth();
    let rows: Vec<i16> = strip.rows.iter().map(|&byte| widen(byte)).collect();
    let mut bytes = vec![0; strip.rows.len()];
    let mut columns = vec![0; strip.rows.len()];
    for (block, (packed, floor)) in strip.blocks().enumerate() {
        unpack(packed, Grid::SIGNED, &mut bytes);
        for (column, &byte) in columns.iter_mut().zip(&bytes) {
            *column = widen(byte);
        }
        let slot = hits.slot();
        slot.masks = [0; BLOCK];
        for (r, row) in rows.chunks_exact(depth).enumerate() {
            for (c, column) in columns.chunks_exact(depth).enumerate() {
                let product = row.iter().zip(column);
                let product = product.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
                slot.products[r][c] = product;
                slot.masks[r] |= u32::from(product >= floor) << c;
            }
        }
        hits.keep_if_any(block);
    }
}

#[inline(always)]
fn widen(byte: u8) -> i16 {
    i16::from(byte.cast_signed())
}
