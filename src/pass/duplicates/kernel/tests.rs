use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index as Pick, select};

use super::cpu::{
    BLOCK, DEPTH_UNIT, Hits, Instructions, LANES, STRIP, Strip, instructions, portable,
};
use super::projection::Projection;
use super::quantise::{self, Grid};
use super::*;
use crate::stop::Stop;

type Pairs = BTreeSet<(u32, u32)>;
type Find = fn(Vectors<'_>, f64, &Setup<'_>) -> (Pairs, u64);

fn threads(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn available() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|path| path.is_available())
}

/// The cosine by definition, in `f64`, one product after the other.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let cosine = dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt());
    cosine.is_finite().then_some(cosine)
}

/// The pairs that are surely at or above the threshold, and those within 1e-6 of it.
fn brute_force(vectors: Vectors<'_>, threshold: f64) -> (Pairs, Pairs) {
    let (mut pairs, mut near) = (Pairs::new(), Pairs::new());
    for b in 0..u32::try_from(vectors.len()).unwrap() {
        for a in 0..b {
            match cosine(vectors.row(a), vectors.row(b)) {
                Some(cosine) if (cosine - threshold).abs() < 1e-6 => near.insert((a, b)),
                Some(cosine) if cosine > threshold => pairs.insert((a, b)),
                _ => continue,
            };
        }
    }
    (pairs, near)
}

/// All pairs that an index finds, copies unfolded, and how many it counted.
fn find(vectors: Vectors<'_>, threshold: f64, setup: &Setup<'_>) -> (Pairs, u64) {
    find_in(&Index::build(vectors, setup).unwrap(), threshold, setup)
}

/// The same by what a projection keeps, however little or much that is.
fn find_projected(vectors: Vectors<'_>, threshold: f64, setup: &Setup<'_>) -> (Pairs, u64) {
    let index = Index::build_with(vectors, setup, |ground, entries| {
        let sample = &entries[..entries.len().div_ceil(2)];
        Some(Projection::of(ground.vectors, sample, DEPTH_UNIT))
    });
    find_in(&index.unwrap(), threshold, setup)
}

fn find_in(index: &Index<'_>, threshold: f64, setup: &Setup<'_>) -> (Pairs, u64) {
    let query = Query {
        threshold,
        stop: &Stop::default(),
    };
    let found = index.pairs(&query, || Limited::new(usize::MAX)).unwrap();
    let folded = Limited::merge(found.sinks).unwrap();
    let distinct: Pairs = folded.iter().copied().collect();
    assert_eq!(distinct.len(), folded.len(), "a pair was given twice");
    let rows_of = |first: u32| {
        let copies = index.copies().iter().filter(move |(row, _)| *row == first);
        std::iter::once(first).chain(copies.map(|(_, copy)| *copy))
    };
    let mut pairs = Pairs::new();
    for (a, b) in folded {
        if index.copies().contains(&(a, b)) {
            let rows: Vec<u32> = rows_of(a).collect();
            pairs.extend(rows.iter().filter(|row| **row < b).map(|row| (*row, b)));
        } else {
            for a in rows_of(a) {
                pairs.extend(rows_of(b).map(|b| (a.min(b), a.max(b))));
            }
        }
    }
    if let Some(new) = setup.new {
        pairs.retain(|(a, b)| new[*a as usize] || new[*b as usize]);
    }
    (pairs, found.pairs)
}

fn setup(path: Path, n: usize) -> Setup<'static> {
    Setup {
        threads: threads(n),
        path,
        new: None,
        least: 0.7,
    }
}

/// Vectors as they come, and as they should not.
fn matrix() -> impl Strategy<Value = (Vec<f32>, usize)> {
    let dim = select(vec![1_usize, 2, 3, 15, 16, 17, 64, 65, 100]);
    dim.prop_flat_map(|dim| {
        let number = prop_oneof![8 => -1.0_f32..1.0, 1 => Just(0.0), 1 => Just(-0.0)];
        let vector = (vec(number, dim), 0..30_u32);
        (vec(vector, 0..90), vec(any::<Pick>(), 1..90)).prop_map(move |(vectors, picks)| {
            let mut rows: Vec<Vec<f32>> = Vec::new();
            for (at, (vector, kind)) in vectors.into_iter().enumerate() {
                let earlier = picks[at % picks.len()].index(at.max(1));
                let mut row = match (kind, rows.get(earlier)) {
                    // A copy, a near copy, a longer one, an opposite one, one too long and one too short to square.
                    (0..4, Some(row)) => row.clone(),
                    (4..12, Some(row)) => {
                        row.iter().zip(&vector).map(|(a, b)| a + b * 0.1).collect()
                    }
                    (12, Some(row)) => row.iter().map(|number| number * 3.0).collect(),
                    (13, Some(row)) => row.iter().map(|number| -number).collect(),
                    (14, _) => vector.iter().map(|number| number * 1e38).collect(),
                    (15, _) => vector.iter().map(|number| number * 1e-40).collect(),
                    (16, _) => vec![0.0; dim],
                    _ => vector,
                };
                match kind {
                    17 => row[dim / 2] = f32::NAN,
                    18 => row[dim - 1] = f32::INFINITY,
                    // One number that dwarfs the rest: the coarsest integers.
                    19 => row[0] = 50.0,
                    _ => {}
                }
                rows.push(row);
            }
            (rows.concat(), dim)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// On every path, with one thread and several, at round thresholds and just beside the cosine of a pair.
    #[test]
    fn the_pairs_are_those_of_brute_force(
        (numbers, dim) in matrix(),
        round in select(vec![-1.0, -0.5, 0.0, 0.3, 0.7, 0.85, 0.92, 1.0]),
        beside in select(vec![None, Some(-2e-6), Some(2e-6)]),
        (a, b) in any::<(Pick, Pick)>(),
        marks in vec(any::<bool>(), 90),
    ) {
        let vectors = Vectors::new(&numbers, dim).unwrap();
        let mut threshold = round;
        if let Some(beside) = beside && !vectors.is_empty() {
            let [a, b] = [a, b].map(|pick| u32::try_from(pick.index(vectors.len())).unwrap());
            threshold = cosine(vectors.row(a), vectors.row(b)).map_or(round, |cosine| (cosine + beside).clamp(-1.0, 1.0));
        }
        let (sure, near) = brute_force(vectors, threshold);
        let with_new = |pairs: &Pairs| -> Pairs {
            pairs.iter().copied().filter(|(a, b)| marks[*a as usize] || marks[*b as usize]).collect()
        };
        for path in available() {
            for (n, find) in [(1, find as Find), (3, find), (1, find_projected), (3, find_projected)] {
                let (pairs, count) = find(vectors, threshold, &setup(path, n));
                prop_assert_eq!(&pairs - &near, sure.clone(), "{} {}", path, n);
                prop_assert_eq!(pairs.len() as u64, count);
                let setup = Setup { new: Some(&marks[..vectors.len()]), ..setup(path, n) };
                let (pairs, count) = find(vectors, threshold, &setup);
                prop_assert_eq!(&pairs - &near, with_new(&sure), "{} {} new", path, n);
                prop_assert_eq!(pairs.len() as u64, count);
            }
        }
    }

    /// Products, masks and which blocks are kept, over the whole range of bytes that a path computes with.
    #[test]
    fn strips_equal_the_portable_ones(
        depth in 1_usize..4,
        blocks in 0..=STRIP,
        seed in any::<u64>(),
        extreme in any::<bool>(),
        floor in select(vec![i32::MIN, -20_000, 0, 1, 20_000, 500_000, i32::MAX]),
    ) {
        let depth = depth * 64;
        let floors: Vec<i32> = (0..blocks).map(|block| if block % 3 == 0 { floor } else { floor / 2 }).collect();
        for path in available() {
            let cpu = instructions(path).unwrap();
            let mut bytes = Bytes { seed, limit: cpu.grid().limit, extreme };
            let rows = bytes.take(BLOCK * depth);
            let columns: Vec<Vec<u8>> = (0..blocks).map(|_| bytes.take(BLOCK * depth)).collect();
            prop_assert_eq!(
                multiply(cpu, &rows, &columns, &floors),
                multiply(&portable::Portable, &rows, &columns, &floors),
                "{}", path,
            );
            let (a, b) = (&rows[..depth], &rows[depth..2 * depth]);
            prop_assert_eq!(cpu.product(a, b), portable::Portable.product(a, b), "{}", path);
            prop_assert_eq!(cpu.product(a, a), portable::Portable.product(a, a), "{}", path);
        }
    }

    /// Bit for bit: what is skipped, folded and close must not depend on the path.
    #[test]
    fn measures_equal_the_portable_ones(
        a in vec(any::<f32>(), 0..200),
        b in vec(-1.0_f32..1.0, 200),
    ) {
        let b = &b[..a.len()];
        for path in available() {
            let cpu = instructions(path).unwrap();
            prop_assert_eq!(cpu.dot(&a, b).to_bits(), portable::dot(&a, b).to_bits());
            prop_assert_eq!(cpu.dot(b, b).to_bits(), portable::dot(b, b).to_bits());
            let (measure, expected) = (cpu.measure(&a), portable::Portable.measure(&a));
            prop_assert_eq!(measure.square.to_bits(), expected.square.to_bits());
            prop_assert_eq!((measure.largest, measure.print), (expected.largest, expected.print));
            let (mut integers, mut others) = (vec![0; 256], vec![0; 256]);
            let rounding = cpu.round(b, 127.0, &mut integers);
            prop_assert_eq!(rounding, portable::Portable.round(b, 127.0, &mut others));
            prop_assert_eq!(&integers, &others);
            for (integer, number) in integers.iter().zip(b) {
                let distance = (f64::from(*number) * 127.0 - f64::from(integer.cast_signed())).abs();
                prop_assert!(distance <= 0.5, "{} is {} away", number, distance);
            }
        }
    }
}

/// Signed bytes between `-limit` and `limit`, or only these two.
struct Bytes {
    seed: u64,
    limit: i8,
    extreme: bool,
}

impl Bytes {
    fn take(&mut self, len: usize) -> Vec<u8> {
        let next = || {
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let random = i64::try_from(self.seed >> 33).unwrap();
            let limit = i64::from(self.limit);
            let byte = match self.extreme {
                true if random % 9 == 0 => -limit,
                true => limit,
                false => random % (2 * limit + 1) - limit,
            };
            i8::try_from(byte).unwrap().cast_unsigned()
        };
        std::iter::repeat_with(next).take(len).collect()
    }
}

/// The blocks kept, each with its products and masks.
fn multiply(
    cpu: &dyn Instructions,
    rows: &[u8],
    columns: &[Vec<u8>],
    floors: &[i32],
) -> Vec<(usize, [[i32; BLOCK]; BLOCK], [u32; BLOCK])> {
    let depth = rows.len() / BLOCK;
    let mut packed = vec![0; columns.len() * rows.len()];
    for (block, columns) in packed.chunks_mut(rows.len()).zip(columns) {
        for (place, column) in columns.chunks(depth).enumerate() {
            quantise::pack(column, place, cpu.grid(), block);
        }
    }
    let mut hits = Hits::new();
    cpu.strip(&Strip::new(rows, &packed, floors), &mut hits);
    let hits = hits.as_slice().iter();
    hits.map(|hit| (hit.block, hit.products, hit.masks))
        .collect()
}

#[test]
fn a_portable_product_is_the_sum_of_products() {
    let depth = 64;
    let mut bytes = Bytes {
        seed: 1,
        limit: 127,
        extreme: false,
    };
    let (rows, columns) = (bytes.take(BLOCK * depth), bytes.take(BLOCK * depth));
    let hits = multiply(
        &portable::Portable,
        &rows,
        std::slice::from_ref(&columns),
        &[0],
    );
    let (_, products, masks) = hits[0];
    for r in 0..BLOCK {
        for c in 0..BLOCK {
            let (row, column) = (&rows[r * depth..][..depth], &columns[c * depth..][..depth]);
            let product = row.iter().zip(column);
            let product =
                product.map(|(a, b)| i32::from(a.cast_signed()) * i32::from(b.cast_signed()));
            assert_eq!(products[r][c], product.sum::<i32>());
            assert_eq!(masks[r] >> c & 1 == 1, products[r][c] >= 0);
        }
    }
}

/// Sums at the end of their range, on every path.
#[test]
fn the_most_dimensions_fit_the_sums() {
    let dim = Vectors::MAX_DIM;
    let mut numbers = vec![1.0; 2 * dim];
    numbers.extend(vec![-1.0; dim]);
    numbers[0] = 0.99;
    let vectors = Vectors::new(&numbers, dim).unwrap();
    for path in available() {
        assert_eq!(
            find(vectors, 0.9, &setup(path, 1)).0,
            Pairs::from([(0, 1)]),
            "{path}"
        );
        assert_eq!(find(vectors, -1.0, &setup(path, 1)).1, 3, "{path}");
    }
}

#[test]
fn fifty_thousand_equal_vectors_are_one() {
    let (rows, dim) = (50_000, 8);
    let mut numbers = [0.5, -1.0, 2.0, 0.1, 0.0, 3.0, 1.0, -2.0].repeat(rows);
    numbers[dim..2 * dim].fill(0.0);
    numbers[2 * dim..3 * dim].fill(1.0);
    let vectors = Vectors::new(&numbers, dim).unwrap();
    let index = Index::build(vectors, &setup(Path::fastest(), 2)).unwrap();
    let query = Query {
        threshold: 0.7,
        stop: &Stop::default(),
    };
    let found = index.pairs(&query, || Limited::new(rows)).unwrap();
    let equal = rows as u64 - 2;
    assert_eq!(found.pairs, equal * (equal - 1) / 2);
    assert_eq!(found.compared, (BLOCK * BLOCK) as u64);
    assert_eq!(Limited::merge(found.sinks).unwrap(), index.copies());
    assert_eq!(index.copies().len() as u64, equal - 1);
    assert_eq!(index.skipped(), 1);
}

/// Vectors of which no two are near.
fn scattered(rows: usize, dim: usize) -> Vec<f32> {
    let mut bytes = Bytes {
        seed: 9,
        limit: 127,
        extreme: false,
    };
    let bytes = bytes.take(rows * dim);
    bytes
        .iter()
        .map(|byte| f32::from(byte.cast_signed()))
        .collect()
}

#[test]
fn a_night_with_one_new_memory_in_a_hundred_compares_two_pairs_in_a_hundred() {
    let (rows, dim) = (6_400, 16);
    let numbers = scattered(rows, dim);
    let vectors = Vectors::new(&numbers, dim).unwrap();
    let marks: Vec<bool> = (0..rows).map(|row| row % 100 == 7).collect();
    let query = Query {
        threshold: 0.9,
        stop: &Stop::default(),
    };
    let compared = |new: &[bool]| {
        let setup = Setup {
            new: Some(new),
            ..setup(Path::fastest(), 2)
        };
        let index = Index::build(vectors, &setup).unwrap();
        index.pairs(&query, || ()).unwrap().compared
    };
    assert_eq!(compared(&marks), 64 * 6_400 - 32 * 32);
    assert_eq!(compared(&vec![true; rows]), 6_400 * 6_432 / 2);
    assert_eq!(compared(&vec![false; rows]), 0);
}

#[test]
fn a_sink_that_is_full_says_so() {
    let numbers: Vec<f32> = (0_u8..8)
        .map(|row| 1.0 + f32::from(row) / 100.0)
        .flat_map(|x| [x, 1.0])
        .collect();
    let vectors = Vectors::new(&numbers, 2).unwrap();
    let index = Index::build(vectors, &setup(Path::Portable, 1)).unwrap();
    let query = Query {
        threshold: 0.9,
        stop: &Stop::default(),
    };
    let kept = |limit| Limited::merge(index.pairs(&query, || Limited::new(limit)).unwrap().sinks);
    assert_eq!(kept(28).map(|pairs| pairs.len()), Some(28));
    assert_eq!(kept(27), None);
}

#[test]
fn a_stop_ends_the_scan() {
    let numbers = scattered(100, 4);
    let index = Index::build(
        Vectors::new(&numbers, 4).unwrap(),
        &setup(Path::Portable, 2),
    )
    .unwrap();
    let stop = Stop::default();
    stop.request();
    let query = Query {
        threshold: 0.9,
        stop: &stop,
    };
    assert_eq!(
        index.pairs(&query, || ()).unwrap_err(),
        KernelError::Interrupted
    );
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let numbers = [1.0; 12];
    assert_eq!(
        Vectors::new(&numbers, 5).unwrap_err(),
        KernelError::Shape { len: 12, dim: 5 }
    );
    for dim in [0, Vectors::MAX_DIM + 1] {
        let refused = Vectors::new(&numbers, dim).unwrap_err();
        assert_eq!(refused, KernelError::Dimension { dim });
    }
    let vectors = Vectors::new(&numbers, 4).unwrap();
    let marked = Setup {
        new: Some(&[true; 2]),
        ..setup(Path::Portable, 1)
    };
    assert_eq!(
        Index::build(vectors, &marked).err(),
        Some(KernelError::Marks { marks: 2, rows: 3 })
    );
    let index = Index::build(vectors, &setup(Path::Portable, 1)).unwrap();
    for threshold in [1.0 + f64::EPSILON, -1.1, f64::INFINITY, f64::NAN] {
        let query = Query {
            threshold,
            stop: &Stop::default(),
        };
        let refused = index.pairs(&query, || ()).unwrap_err();
        assert!(matches!(refused, KernelError::Threshold(_)), "{threshold}");
    }
}

#[test]
fn no_vector_and_one_vector_have_no_pairs() {
    for numbers in [&[][..], &[1.0, 2.0], &[0.0, 0.0]] {
        let vectors = Vectors::new(numbers, 2).unwrap();
        for path in available() {
            assert_eq!(find(vectors, -1.0, &setup(path, 4)), (Pairs::new(), 0));
        }
    }
}

#[test]
fn paths_have_names() {
    for path in Path::ALL {
        assert_eq!(path.to_string().parse(), Ok(path));
    }
    let unknown = "mmx".parse::<Path>().unwrap_err();
    assert!(unknown.contains("portable, avx2, avx512, amx"), "{unknown}");
    assert!(Path::fastest().is_available());
    assert!(available().all(|path| path <= Path::fastest()));
}

#[test]
fn a_cosine_is_right_and_missing_without_a_direction() {
    let numbers = [3.0, 4.0, 4.0, 3.0, 0.0, 0.0, f32::NAN, 1.0, 1e30, 0.0];
    let vectors = Vectors::new(&numbers, 2).unwrap();
    assert!((vectors.cosine(0, 1).unwrap() - 0.96).abs() < 1e-15);
    assert!((vectors.cosine(0, 4).unwrap() - 0.6).abs() < 1e-15);
    assert_eq!(vectors.cosine(0, 2), None);
    assert_eq!(vectors.cosine(3, 0), None);
}

#[test]
fn the_grids_leave_room_for_what_their_instructions_add_up() {
    let largest = |grid: Grid| i32::from(grid.limit) + i32::from(grid.offset);
    assert!(4 * largest(Grid::HALVED) * i32::from(Grid::HALVED.limit) <= i32::from(i16::MAX));
    assert!(largest(Grid::OFFSET) <= i32::from(u8::MAX));
    let most = i32::try_from(Vectors::MAX_DIM).unwrap() * i32::from(Grid::OFFSET.limit);
    assert!(most.checked_mul(largest(Grid::OFFSET)).is_some());
    assert_eq!(BLOCK, 2 * LANES);
}
