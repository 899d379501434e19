//! How alike two random memories look.
//!
//! Cosines mean different things under different embedding models: under some, two random facts sit near 0.2, under
//! others near 0.8, where a threshold of 0.7 would make one cluster of everything. So a threshold is not taken at its
//! word when the *background*, the median cosine of random pairs, is high: it is moved so that it lies as far between
//! the background and 1 as the configured one lies between [`USUAL`] and 1.

use super::kernel::Vectors;

/// The background up to which thresholds stand as configured.
pub const USUAL: f64 = 0.45;

/// Pairs that are sampled: the median is then right to about 1.5 percentiles.
const PAIRS: usize = 4096;

/// The median cosine of random pairs of vectors; `None` when there is no pair of vectors with a direction.
///
/// The sample depends on how many vectors there are and on nothing else, so that the same vectors in the same order
/// have the same background. All pairs are taken where there are few.
#[must_use]
pub fn background(vectors: Vectors<'_>) -> Option<f64> {
    let rows = u32::try_from(vectors.len()).ok()?;
    let all = u64::from(rows) * u64::from(rows.saturating_sub(1)) / 2;
    let mut cosines: Vec<f64> = if all <= PAIRS as u64 {
        (0..rows)
            .flat_map(|b| (0..b).map(move |a| (a, b)))
            .filter_map(|(a, b)| vectors.cosine(a, b))
            .collect()
    } else {
        let mut random = Random(0);
        std::iter::repeat_with(|| (random.below(rows), random.below(rows)))
            .filter(|(a, b)| a != b)
            .take(PAIRS)
            .filter_map(|(a, b)| vectors.cosine(a, b))
            .collect()
    };
    let middle = cosines.len().checked_sub(1)? / 2;
    let (_, median, _) = cosines.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

/// The threshold to use for a configured one over a background.
#[must_use]
pub fn effective(threshold: f64, background: f64) -> f64 {
    if background > USUAL {
        1.0 - (1.0 - threshold) * (1.0 - background) / (1.0 - USUAL)
    } else {
        threshold
    }
}

/// The generator `SplitMix64`.
struct Random(u64);

impl Random {
    /// A number below `limit`, each about equally likely.
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let scaled = (mixed >> 32) * u64::from(limit);
        (scaled >> 32) as u32
    }
}
