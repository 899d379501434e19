//! All pairs of vectors with a cosine at or above a threshold, and the clusters they make.
//!
//! `cargo run --release --example cluster -- VECTORS.npy [--threshold 0.70] [--threads N] [--path PATH] [--new N]`
//!
//! VECTORS.npy is a matrix of little-endian `float32` in C order, one vector a row. PATH is `auto` (the fastest that the
//! machine has) or one of `portable`, `avx2`, `avx512`, `amx`. With `--new`, only pairs with one of the last N rows are
//! looked for. Prints one JSON line; `seconds` is everything after the file has been read.

#![allow(clippy::print_stdout, reason = "an example prints its figures")]

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::num::NonZeroUsize;

use clap::Parser;
use hypnos::clock::Stopwatch;
use hypnos::pass::duplicates::cluster::Components;
use hypnos::pass::duplicates::kernel::{Index, Path, Query, Setup, Vectors};
use hypnos::stop::Stop;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Parser)]
struct Args {
    /// A matrix of float32 in C order
    vectors: std::path::PathBuf,
    /// The least cosine of a pair
    #[arg(long, default_value_t = 0.70)]
    threshold: f64,
    /// Threads to use; all there are by default
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Instructions to use
    #[arg(long, default_value = "auto")]
    path: String,
    /// Look only for pairs with one of the last N rows
    #[arg(long)]
    new: Option<usize>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (numbers, dim) = read_npy(&args.vectors)?;
    let vectors = Vectors::new(&numbers, dim)?;
    let n = vectors.len();
    let watch = Stopwatch::start();
    let new: Option<Vec<bool>> = args
        .new
        .map(|new| (0..n).map(|row| row + new >= n).collect());
    let setup = Setup {
        threads: match args.threads {
            Some(threads) => threads,
            None => std::thread::available_parallelism()?,
        },
        path: match args.path.as_str() {
            "auto" => Path::fastest(),
            name => name.parse()?,
        },
        new: new.as_deref(),
        least: args.threshold,
    };
    let index = Index::build(vectors, &setup)?;
    let query = Query {
        threshold: args.threshold,
        stop: &Stop::default(),
    };
    let found = index.pairs(&query, || Components::new(n))?;
    let clusters = Components::merge(found.sinks).map_or(0, |all| all.clusters().len());
    let seconds = watch.elapsed().as_secs_f64();
    let line = serde_json::json!({
        "n": n, "dim": dim, "pairs": found.pairs, "clusters": clusters, "seconds": seconds,
        "peak_rss_bytes": peak_rss()?, "skipped": index.skipped(), "close": found.close,
        "threshold": args.threshold, "threads": setup.threads, "path": setup.path.as_str(),
    });
    println!("{line}");
    Ok(())
}

/// The numbers of a matrix, and how many a row has.
fn read_npy(path: &std::path::Path) -> Result<(Vec<f32>, usize)> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let mut start = [0; 8];
    file.read_exact(&mut start)?;
    let mut length = [0; 4];
    match start {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _] => file.read_exact(&mut length[..2])?,
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _] => file.read_exact(&mut length)?,
        _ => return Err("not a .npy file".into()),
    }
    let mut header = vec![0; usize::try_from(u32::from_le_bytes(length))?];
    file.read_exact(&mut header)?;
    let header = String::from_utf8(header)?;
    if !(header.contains("'descr': '<f4'") && header.contains("'fortran_order': False")) {
        return Err(format!("not a C-ordered matrix of <f4: {}", header.trim()).into());
    }
    let shape = header
        .split_once("'shape': (")
        .and_then(|(_, rest)| rest.split_once(')'))
        .ok_or("a header without a shape")?;
    let sizes: Vec<usize> = shape
        .0
        .split(',')
        .map(|size| size.trim().parse())
        .collect::<std::result::Result<_, _>>()?;
    let [rows, dim] = sizes[..] else {
        return Err(format!("not a matrix: {sizes:?}").into());
    };
    let mut numbers = Vec::with_capacity(rows * dim);
    let mut batch = vec![0; 1 << 16];
    while numbers.len() < rows * dim {
        let bytes = ((rows * dim - numbers.len()) * 4).min(batch.len());
        file.read_exact(&mut batch[..bytes])?;
        let (quads, _) = batch[..bytes].as_chunks();
        numbers.extend(quads.iter().map(|&quad| f32::from_le_bytes(quad)));
    }
    Ok((numbers, dim))
}

/// The most memory that this process had, in bytes.
fn peak_rss() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no peak")?.trim().parse::<u64>()? * 1024)
}
