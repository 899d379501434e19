//! The inner loops on the wide registers of `x86_64`.
//!
//! Unsafe for two reasons only. *Calling*: a function compiled for instructions that the CPU lacks must not be called;
//! each path is a type whose one value exists only where the CPU was asked and has them. *Addresses*: registers are
//! loaded through pointers, always to the start of an array of the register's size. AMX has no stable intrinsics, so
//! its ten instructions are written as assembly.

#![expect(
    unsafe_code,
    reason = "vector instructions are reached through pointers and need a CPU that has them"
)]

use std::arch::asm;
#[allow(
    clippy::wildcard_imports,
    reason = "intrinsics carry their module in their names"
)]
use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::{BLOCK, DEPTH_UNIT, Hits, Instructions, LANES, Strip, portable};
use crate::pass::duplicates::kernel::quantise::{Grid, Measure, Rounding};

/// Bytes of a register of 16 lanes, four bytes each.
const LINE: usize = 64;

pub(super) fn avx2() -> Option<&'static dyn Instructions> {
    is_x86_feature_detected!("avx2").then_some(&Avx2(()) as _)
}

pub(super) fn avx512() -> Option<&'static dyn Instructions> {
    has_avx512().then_some(&Avx512(()) as _)
}

pub(super) fn amx() -> Option<&'static dyn Instructions> {
    static HAS_AMX: OnceLock<bool> = OnceLock::new();
    let has_amx = *HAS_AMX.get_or_init(|| has_avx512() && has_tiles() && may_use_tiles());
    has_amx.then_some(&Amx(Avx512(())) as _)
}

fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

/// Whether the CPU has tile registers and multiplies bytes in them.
fn has_tiles() -> bool {
    const FEATURES: u32 = 7;
    const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    __cpuid(0).eax >= FEATURES && __cpuid_count(FEATURES, 0).edx & TILE_AND_INT8 == TILE_AND_INT8
}

/// Asks the kernel for the tile registers, which it gives a process only on request.
fn may_use_tiles() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: the call reads and writes no memory of the process; a kernel that does not know it returns an error.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// The methods that are those of [`portable`], compiled for other instructions.
macro_rules! recompiled {
    ($features:literal) => {
        fn dot(&self, a: &[f32], b: &[f32]) -> f64 {
            #[target_feature(enable = $features)]
            fn dot(a: &[f32], b: &[f32]) -> f64 {
                portable::dot(a, b)
            }
            // SAFETY: a value of this type exists only where the CPU has the instructions.
            unsafe { dot(a, b) }
        }

        fn fetch(&self, vector: &[f32]) {
            for line in vector.chunks(LINE / size_of::<f32>()) {
                // SAFETY: a hint; nothing is read.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
            }
        }

        fn measure(&self, vector: &[f32]) -> Measure {
            #[target_feature(enable = $features)]
            fn measure(vector: &[f32]) -> Measure {
                portable::measure(vector)
            }
            // SAFETY: a value of this type exists only where the CPU has the instructions.
            unsafe { measure(vector) }
        }

        fn round(&self, vector: &[f32], scale: f64, integers: &mut [u8]) -> Rounding {
            #[target_feature(enable = $features)]
            fn round(vector: &[f32], scale: f64, integers: &mut [u8]) -> Rounding {
                portable::round(vector, scale, integers)
            }
            // SAFETY: a value of this type exists only where the CPU has the instructions.
            unsafe { round(vector, scale, integers) }
        }
    };
}

/// AVX2.
struct Avx2(());

impl Instructions for Avx2 {
    recompiled!("avx2");

    fn grid(&self) -> Grid {
        Grid::HALVED
    }

    fn product(&self, a: &[u8], b: &[u8]) -> i32 {
        // SAFETY: a value of this type exists only where the CPU has the instructions.
        unsafe { product_avx2(a, b) }
    }

    fn strip(&self, strip: &Strip<'_>, hits: &mut Hits) {
        // SAFETY: a value of this type exists only where the CPU has the instructions.
        unsafe { strip_avx2(strip, hits) }
    }
}

/// AVX-512 with VNNI.
struct Avx512(());

impl Instructions for Avx512 {
    recompiled!("avx512f,avx512bw,avx512dq,avx512vl");

    fn grid(&self) -> Grid {
        Grid::OFFSET
    }

    fn product(&self, a: &[u8], b: &[u8]) -> i32 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn product(a: &[u8], b: &[u8]) -> i32 {
            portable::product(a, b)
        }
        // SAFETY: a value of this type exists only where the CPU has the instructions.
        unsafe { product(a, b) }
    }

    fn strip(&self, strip: &Strip<'_>, hits: &mut Hits) {
        // SAFETY: a value of this type exists only where the CPU has the instructions.
        unsafe { strip_avx512(strip, hits) }
    }
}

/// AMX, on a CPU with AVX-512.
struct Amx(Avx512);

impl Instructions for Amx {
    fn grid(&self) -> Grid {
        Grid::SIGNED
    }

    fn strip(&self, strip: &Strip<'_>, hits: &mut Hits) {
        // SAFETY: a value of this type exists only where the CPU has the instructions and the kernel allows them.
        unsafe { strip_amx(strip, hits) }
    }

    fn dot(&self, a: &[f32], b: &[f32]) -> f64 {
        self.0.dot(a, b)
    }

    fn product(&self, a: &[u8], b: &[u8]) -> i32 {
        self.0.product(a, b)
    }

    fn fetch(&self, vector: &[f32]) {
        self.0.fetch(vector);
    }

    fn measure(&self, vector: &[f32]) -> Measure {
        self.0.measure(vector)
    }

    fn round(&self, vector: &[f32], scale: f64, integers: &mut [u8]) -> Rounding {
        self.0.round(vector, scale, integers)
    }
}

/// For each row, what the offset of the columns adds to its products, negated: where its sums begin.
#[inline]
fn corrections(strip: &Strip<'_>, offset: u8) -> [i32; BLOCK] {
    let mut rows = strip.rows.chunks_exact(strip.depth());
    std::array::from_fn(|_| {
        let row = rows.next().unwrap_or_default();
        let sum: i32 = row.iter().map(|&byte| i32::from(byte.cast_signed())).sum();
        -i32::from(offset) * sum
    })
}

/// So many rows from the `first` on, four bytes at a time.
fn quads<'a, const ROWS: usize>(strip: &Strip<'a>, first: usize) -> [&'a [[u8; 4]]; ROWS] {
    let depth = strip.depth();
    std::array::from_fn(|r| strip.rows[(first + r) * depth..][..depth].as_chunks().0)
}

#[target_feature(enable = "avx512f")]
fn load512(line: &[u8; LINE]) -> __m512i {
    // SAFETY: the pointer is to 64 bytes.
    unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn load_sums512(sums: &[i32; LANES]) -> __m512i {
    // SAFETY: the pointer is to 64 bytes.
    unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn store512(sums: __m512i, place: &mut [i32; LANES]) {
    // SAFETY: the pointer is to 64 bytes.
    unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), sums) }
}

/// Which of the sums of a row are not under the least one, as bits.
#[target_feature(enable = "avx512f")]
fn reached512(left: __m512i, right: __m512i, least: __m512i) -> u32 {
    let left = _mm512_cmpge_epi32_mask(left, least);
    let right = _mm512_cmpge_epi32_mask(right, least);
    u32::from(left) | u32::from(right) << LANES
}

/// Eight rows by 32 columns at a time: sixteen registers of sums hide the latency of the additions.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn strip_avx512(strip: &Strip<'_>, hits: &mut Hits) {
    const ROWS: usize = 8;
    hits.clear();
    let corrections = corrections(strip, Grid::OFFSET.offset);
    for (block, (columns, floor)) in strip.blocks().enumerate() {
        let slot = hits.slot();
        let least = _mm512_set1_epi32(floor);
        let (left, right) = columns.split_at(columns.len() / 2);
        let (left, right) = (left.as_chunks::<LINE>().0, right.as_chunks::<LINE>().0);
        for first in (0..BLOCK).step_by(ROWS) {
            let rows: [_; ROWS] = quads(strip, first);
            let mut sums: [[__m512i; 2]; ROWS] =
                std::array::from_fn(|r| [_mm512_set1_epi32(corrections[first + r]); 2]);
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                let (left, right) = (load512(left), load512(right));
                for r in 0..ROWS {
                    let quad = _mm512_set1_epi32(i32::from_le_bytes(rows[r][at]));
                    sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], left, quad);
                    sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], right, quad);
                }
            }
            for (r, &[left, right]) in sums.iter().enumerate() {
                let places = slot.products[first + r].as_chunks_mut::<LANES>().0;
                store512(left, &mut places[0]);
                store512(right, &mut places[1]);
                slot.masks[first + r] = reached512(left, right, least);
            }
        }
        hits.keep_if_any(block);
    }
}

#[target_feature(enable = "avx")]
fn load256(half: &[u8; LINE / 2]) -> __m256i {
    // SAFETY: the pointer is to 32 bytes.
    unsafe { _mm256_loadu_si256(half.as_ptr().cast()) }
}

#[target_feature(enable = "avx")]
fn broadcast256(quad: [u8; 4]) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes(quad))
}

#[target_feature(enable = "avx")]
fn store256(sums: __m256i, place: &mut [i32; LANES / 2]) {
    // SAFETY: the pointer is to 32 bytes.
    unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), sums) }
}

/// Four rows by eight columns at a time. Four products are summed in 16 bits, which the halved grid leaves room for.
#[target_feature(enable = "avx2")]
fn strip_avx2(strip: &Strip<'_>, hits: &mut Hits) {
    const ROWS: usize = 4;
    const EIGHT: usize = LANES / 2;
    hits.clear();
    let corrections = corrections(strip, Grid::HALVED.offset);
    let ones = _mm256_set1_epi16(1);
    for (block, (columns, floor)) in strip.blocks().enumerate() {
        let slot = hits.slot();
        slot.masks = [0; BLOCK];
        for eighth in 0..BLOCK / EIGHT {
            let group = columns.chunks_exact(columns.len() / 2).nth(eighth / 2);
            let halves = group.unwrap_or_default().as_chunks::<{ LINE / 2 }>().0;
            // Two lines, each of which has eight columns on its left and eight on its right.
            let halves = halves.as_chunks::<4>().0;
            for first in (0..BLOCK).step_by(ROWS) {
                let rows: [_; ROWS] = quads(strip, first);
                let mut sums: [__m256i; ROWS] =
                    std::array::from_fn(|r| _mm256_set1_epi32(corrections[first + r]));
                for (at, halves) in halves.iter().enumerate() {
                    let near = load256(&halves[eighth % 2]);
                    let far = load256(&halves[eighth % 2 + 2]);
                    for r in 0..ROWS {
                        let products = _mm256_add_epi16(
                            _mm256_maddubs_epi16(near, broadcast256(rows[r][at * 2])),
                            _mm256_maddubs_epi16(far, broadcast256(rows[r][at * 2 + 1])),
                        );
                        let products = _mm256_madd_epi16(products, ones);
                        sums[r] = _mm256_add_epi32(sums[r], products);
                    }
                }
                for (r, &sums) in sums.iter().enumerate() {
                    let places = slot.products[first + r].as_chunks_mut::<EIGHT>().0;
                    store256(sums, &mut places[eighth]);
                    slot.masks[first + r] |= reached256(sums, floor) << (eighth * EIGHT);
                }
            }
        }
        hits.keep_if_any(block);
    }
}

/// Unsigned by signed bytes, the sign of one moved to the other: four products of the halved grid are summed in 16 bits.
#[target_feature(enable = "avx2")]
fn product_avx2(a: &[u8], b: &[u8]) -> i32 {
    let ones = _mm256_set1_epi16(1);
    let mut sums = _mm256_setzero_si256();
    let (a, b) = (a.as_chunks::<LINE>().0, b.as_chunks::<LINE>().0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (a.as_chunks().0, b.as_chunks().0);
        let [near, far] = [0, 1].map(|half| {
            let (a, b) = (load256(&a[half]), load256(&b[half]));
            _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a))
        });
        let products = _mm256_madd_epi16(_mm256_add_epi16(near, far), ones);
        sums = _mm256_add_epi32(sums, products);
    }
    let mut lanes = [0; LANES / 2];
    store256(sums, &mut lanes);
    lanes.iter().sum()
}

/// Which of eight sums are not under the floor, as bits.
#[target_feature(enable = "avx2")]
fn reached256(sums: __m256i, floor: i32) -> u32 {
    let under = _mm256_cmpgt_epi32(_mm256_set1_epi32(floor), sums);
    !_mm256_movemask_ps(_mm256_castsi256_ps(under)).cast_unsigned() & 0xFF
}

/// The shape of the tile registers: palette 1, eight registers of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Tiles {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static TILES: Tiles = Tiles {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// A block at a time: four tiles of sums, two of rows, two of columns.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn strip_amx(strip: &Strip<'_>, hits: &mut Hits) {
    hits.clear();
    // SAFETY: the configuration is 64 bytes, and valid.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const TILES, options(nostack, readonly)) };
    for (block, (columns, floor)) in strip.blocks().enumerate() {
        let slot = hits.slot();
        multiply_tiles(strip, columns, &mut slot.products);
        let least = _mm512_set1_epi32(floor);
        for (products, mask) in slot.products.iter().zip(&mut slot.masks) {
            let halves = products.as_chunks::<LANES>().0;
            *mask = reached512(load_sums512(&halves[0]), load_sums512(&halves[1]), least);
        }
        hits.keep_if_any(block);
    }
    // SAFETY: nothing is kept in the tile registers.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

/// Multiplies the rows of a strip with a block of its columns. The tile registers must be configured.
#[inline]
fn multiply_tiles(strip: &Strip<'_>, columns: &[u8], products: &mut [[i32; BLOCK]; BLOCK]) {
    assert_eq!(columns.len(), strip.rows.len());
    let (rows, half) = (strip.rows.as_ptr(), strip.rows.len() / 2);
    let columns = columns.as_ptr();
    // SAFETY: rows and columns are `depth / 64` tiles deep, two tiles wide, the second one half of the bytes behind the
    // first; the loop reads each tile once. The products are four tiles, two by two, with rows of 128 bytes.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{upper} + {depth}]",
            "tileloadd tmm6, [{left} + {line}]",
            "tdpbssd tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{right} + {line}]",
            "tdpbssd tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{lower} + {depth}]",
            "tdpbssd tmm2, tmm5, tmm6",
            "tdpbssd tmm3, tmm5, tmm7",
            "add {upper}, 64",
            "add {lower}, 64",
            "add {left}, 1024",
            "add {right}, 1024",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{products} + {row}], tmm0",
            "tilestored [{products} + {row} + 64], tmm1",
            "tilestored [{products} + {row} + 2048], tmm2",
            "tilestored [{products} + {row} + 2112], tmm3",
            upper = inout(reg) rows => _,
            lower = inout(reg) rows.add(half) => _,
            left = inout(reg) columns => _,
            right = inout(reg) columns.add(half) => _,
            steps = inout(reg) strip.depth() / DEPTH_UNIT => _,
            depth = in(reg) strip.depth(),
            line = in(reg) LINE,
            products = in(reg) products.as_mut_ptr(),
            row = in(reg) BLOCK * size_of::<i32>(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
