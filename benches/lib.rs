//! What to measure with.
//!
//! A package of its own, so that measuring builds the product alone, and testing the product does not build what only
//! measuring needs.

const TOPICS: usize = 500;

/// Vectors around so many topics, near their own and far from the others, as embeddings of one store are.
#[must_use]
pub fn vectors(rows: usize, dim: usize) -> Vec<f32> {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let [.., low, high] = state.to_le_bytes();
        f32::from(u16::from_le_bytes([low, high])) / 32_768.0 - 1.0
    };
    let topics: Vec<f32> = (0..TOPICS * dim).map(|_| random()).collect();
    (0..rows)
        .flat_map(|row| &topics[row % TOPICS * dim..][..dim])
        .map(|number| number + random())
        .collect()
}
