//! The kernel alone, on every path that this machine has: `cargo bench --bench cluster`.
//!
//! For a comparison with other programs see `compare.py` beside this file.

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hypnos::pass::duplicates::kernel::{Index, Path, Query, Setup, Vectors};
use hypnos::stop::Stop;

const ROWS: usize = 8_192;
const DIM: usize = 384;
const TOPICS: usize = 500;

/// Vectors around so many topics, near their own and far from the others, as embeddings of one store are.
fn vectors() -> Vec<f32> {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let high = u16::try_from(state >> 48).expect("16 bits are left");
        f32::from(high) / 32_768.0 - 1.0
    };
    let topics: Vec<f32> = (0..TOPICS * DIM).map(|_| random()).collect();
    (0..ROWS)
        .flat_map(|row| &topics[row % TOPICS * DIM..][..DIM])
        .map(|number| number + random())
        .collect()
}

fn cluster(criterion: &mut Criterion) {
    let numbers = vectors();
    let vectors = Vectors::new(&numbers, DIM).expect("whole vectors");
    let mut group = criterion.benchmark_group("pairs");
    group.sample_size(10);
    group.throughput(Throughput::Elements((ROWS * (ROWS - 1) / 2) as u64));
    for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
        group.bench_function(BenchmarkId::from_parameter(path), |bencher| {
            let setup = Setup {
                threads: NonZeroUsize::MIN,
                path,
                new: None,
            };
            let query = Query {
                threshold: 0.7,
                stop: &Stop::default(),
            };
            bencher.iter(|| {
                let index = Index::build(black_box(vectors), &setup).expect("an available path");
                index.pairs(&query, || ()).expect("a cosine").pairs
            });
        });
    }
    group.finish();
}

criterion_group!(benches, cluster);
criterion_main!(benches);
