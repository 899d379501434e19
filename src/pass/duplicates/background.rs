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

/// The cosine that two vectors would have over a usual background: what [`effective`] makes of it is `cosine`.
#[must_use]
pub fn usual(cosine: f64, background: f64) -> f64 {
    if background > USUAL && background < 1.0 {
        (1.0 - (1.0 - cosine) * (1.0 - USUAL) / (1.0 - background)).max(-1.0)
    } else {
        cosine
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f32], dim: usize) -> Option<f64> {
        background(Vectors::new(numbers, dim).unwrap())
    }

    #[test]
    fn few_vectors_are_all_compared() {
        assert_eq!(of(&[], 2), None);
        assert_eq!(of(&[1.0, 0.0], 2), None);
        assert_eq!(of(&[1.0, 0.0, 0.0, 0.0, f32::NAN, 1.0], 2), None);
        // Cosines 0, 0.6 and 0.8; the vector without a direction has none.
        let median = of(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 3.0, 4.0], 2).unwrap();
        assert!((median - 0.6).abs() < 1e-12, "{median}");
    }

    /// Vectors that point evenly around a circle: the median cosine of two is 0, and with a vector added to all it is
    /// as large as is wanted.
    fn around(rows: u16, added: f32) -> Vec<f32> {
        let angles = (0..rows).map(|row| f32::from(row) * std::f32::consts::TAU / f32::from(rows));
        angles
            .flat_map(|angle| [angle.sin(), angle.cos(), added])
            .collect()
    }

    #[test]
    fn many_vectors_are_sampled() {
        // With 1 + added^2 the square of their length, the median cosine is added^2 / (1 + added^2).
        for (added, expected) in [(0.0, 0.0), (1.0, 0.5), (2.0, 0.8)] {
            let numbers = around(3000, added);
            let median = of(&numbers, 3).unwrap();
            assert!((median - expected).abs() < 0.05, "{median} for {expected}");
            assert_eq!(of(&numbers, 3), Some(median));
        }
    }

    #[test]
    fn a_sample_has_every_row_and_no_other() {
        let mut random = Random(0);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(
            seen.iter().all(|times| (800..1200).contains(times)),
            "{seen:?}"
        );
    }

    #[test]
    fn thresholds_move_with_a_high_background_only() {
        for (threshold, background, expected) in [
            (0.70, 0.17, 0.70),
            (0.70, 0.45, 0.70),
            (0.70, -1.0, 0.70),
            (0.70, 0.8, 1.0 - 0.3 * 0.2 / 0.55),
            (0.92, 0.8, 1.0 - 0.08 * 0.2 / 0.55),
            (0.92, 1.0, 1.0),
            (1.0, 0.9, 1.0),
        ] {
            let effective = effective(threshold, background);
            assert!(
                (effective - expected).abs() < 1e-12,
                "{threshold} over {background}: {effective}"
            );
            if background < 1.0 {
                let usual = usual(effective, background);
                assert!((usual - threshold).abs() < 1e-9, "{effective}: {usual}");
            }
        }
    }
}
