//! The kernel alone, on every path that this machine has: `cargo bench --package hypnos-benches`.
//!
//! For a comparison with other programs see `compare.py` beside this file.

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hypnos::pass::duplicates::kernel::{Index, Path, Query, Setup, Vectors};
use hypnos::stop::Stop;
use hypnos_benches::vectors;

const ROWS: usize = 8_192;
const DIM: usize = 384;

fn cluster(criterion: &mut Criterion) {
    let numbers = vectors(ROWS, DIM);
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
                least: 0.7,
            };
            let query = Query {
                threshold: setup.least,
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
