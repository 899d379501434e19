//! What an agent feels while hypnos removes memories beside it, and how fast the removal is.
//!
//! `cargo run --release --example writer_latency -- [DIR] [--rows N] [--expired N] [--dim N]`
//!
//! Builds a store of `--rows` memories (1,000,000) with points of `--dim` dimensions (384) in DIR (a temporary folder),
//! of which `--expired` (100,000) are past their time to live; starts a process that inserts a row every 5 ms (WAL,
//! synchronous = FULL) and measures each insert from the instant at which it was due; runs `hypnos --run-now --only ttl`
//! beside it; and compares the rate with one bare `DELETE` of the same rows in the sqlite3 shell, on a copy.
//! The hypnos binary must have been built with the same profile. Prints one JSON line.

#![allow(clippy::print_stdout, reason = "an example prints its figures")]
#![allow(
    clippy::disallowed_methods,
    reason = "an example measures time and writes files of its own"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, params};
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PERIOD: Duration = Duration::from_millis(5);
const DAY: i64 = 86_400;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "--writer") {
        return write_until_told(Path::new(&args[1]), Path::new(&args[2]));
    }
    let number = |name: &str, default: i64| -> Result<i64> {
        let at = args.iter().position(|arg| arg == name);
        Ok(at
            .and_then(|at| args.get(at + 1))
            .map_or(Ok(default), |value| value.parse())?)
    };
    let (rows, expired, dim) = (
        number("--rows", 1_000_000)?,
        number("--expired", 100_000)?,
        number("--dim", 384)?,
    );
    let temporary = tempfile::tempdir()?;
    let dir = match args.first().filter(|arg| !arg.starts_with("--")) {
        Some(dir) => PathBuf::from(dir),
        None => temporary.path().to_owned(),
    };
    if !program()?.exists() {
        return Err("build hypnos first: cargo build --release".into());
    }
    std::fs::create_dir_all(&dir)?;
    build(&dir, rows, expired, usize::try_from(dim)?)?;

    // What building the store left to be written out is not the agent's to wait for.
    Command::new("sync").status()?;
    let idle = beside_writer(&dir, || {
        std::thread::sleep(Duration::from_secs(5));
        Ok(())
    })?;
    let mut night = None;
    let busy = beside_writer(&dir, || {
        night = Some(hypnos(&dir)?);
        Ok(())
    })?;
    let night = night.ok_or("no night")?;
    if night.2 != expired {
        return Err(format!("{} were removed, not {expired}", night.2).into());
    }
    let bare = bare_delete(&dir)?;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = |seconds: f64| (expired as f64 / seconds).round();
    let line = serde_json::json!({
        "rows": rows, "expired": expired, "dim": dim,
        "idle_p99_ms": idle.0, "idle_max_ms": idle.1,
        "p99_ms": busy.0, "max_ms": busy.1, "inserts": busy.2,
        "ttl_seconds": night.0, "peak_rss_bytes": night.1,
        "removed_per_second": rate(night.0), "bare_delete_per_second": rate(bare), "ratio": bare / night.0,
    });
    println!("{line}");
    if busy.0 > 25.0 || busy.1 > 250.0 || night.1 > 300_000_000 {
        return Err("over the bounds: p99 25 ms, maximum 250 ms, 300 MB".into());
    }
    Ok(())
}

fn build(dir: &Path, rows: i64, expired: i64, dim: usize) -> Result<()> {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let mut db = Connection::open(dir.join("memory.db"))?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE users(id TEXT PRIMARY KEY, email TEXT UNIQUE NOT NULL, deleted_at INTEGER);
         CREATE TABLE memories(id INTEGER PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
           content TEXT NOT NULL, content_hash TEXT NOT NULL, created_at INTEGER NOT NULL, last_used_at INTEGER,
           ttl_days INTEGER, superseded_by INTEGER REFERENCES memories(id) ON DELETE CASCADE);
         CREATE INDEX memories_user ON memories(user_id);",
    )?;
    let mut vectors = Connection::open(dir.join("vectors.db"))?;
    vectors.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE points(id TEXT PRIMARY KEY, namespace TEXT NOT NULL, vector BLOB NOT NULL, payload TEXT NOT NULL);",
    )?;
    let every = rows / expired;
    let (tx, points) = (db.transaction()?, vectors.transaction()?);
    for user in 0..100 {
        tx.execute(
            "INSERT INTO users VALUES(?1, ?1 || '@example.org', NULL)",
            [format!("user-{user}")],
        )?;
    }
    for id in 0..rows {
        let user = format!("user-{}", (id / every) % 100);
        let is_expired = id % every == 0 && id / every < expired;
        tx.prepare_cached("INSERT INTO memories VALUES(?1, ?2, ?3, ?4, ?5, NULL, ?6, NULL)")?.execute(params![
            id,
            user,
            format!("memory {id} of {user}, with a text as long as such texts are: about a hundred characters of prose"),
            format!("{:064x}", id),
            now - 40 * DAY,
            is_expired.then_some(7),
        ])?;
        let namespace = format!("user:{user}");
        let key = format!("{namespace}::{id}");
        #[expect(clippy::cast_precision_loss, reason = "any vector will do")]
        let vector: Vec<u8> = (0..dim)
            .flat_map(|i| ((id as f32) + (i as f32)).sin().to_le_bytes())
            .collect();
        points
            .prepare_cached("INSERT INTO points VALUES(?1, ?2, ?3, ?4)")?
            .execute(params![
                Uuid::new_v5(&Uuid::NAMESPACE_DNS, key.as_bytes()).to_string(),
                namespace,
                vector,
                format!("{{\"namespace\":\"{namespace}\",\"doc_id\":\"{key}\"}}"),
            ])?;
    }
    tx.commit()?;
    points.commit()?;
    vectors.execute_batch(
        "CREATE INDEX points_namespace ON points(namespace); PRAGMA wal_checkpoint(TRUNCATE)",
    )?;
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    std::fs::copy(dir.join("memory.db"), dir.join("bare.db"))?;
    std::fs::write(
        dir.join("hypnos.toml"),
        "state_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n[[store]]\nname = \"agent\"\n[store.rows]\npath = \"memory.db\"\n\
         preset = \"ttl-days\"\nsuperseded_by = \"superseded_by\"\n[store.vectors]\nkind = \"sqlite\"\npath = \"vectors.db\"\n\
         point_id = \"uuid5(dns, {namespace}::{id})\"\n",
    )?;
    Ok(())
}

fn program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("../hypnos"))
}

/// The sibling binary of this example: the seconds that its pass took, its peak memory and what it removed.
fn hypnos(dir: &Path) -> Result<(f64, u64, i64)> {
    let child = Command::new(program()?)
        .args(["--run-now", "--only", "ttl", "--json", "--config"])
        .arg(dir.join("hypnos.toml"))
        .stdout(Stdio::piped())
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        while let Ok(text) = std::fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let Some(kib) =
                line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok())
            else {
                break;
            };
            peak = kib * 1024;
            std::thread::sleep(Duration::from_millis(20));
        }
        peak
    });
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("hypnos: {}", String::from_utf8_lossy(&output.stdout)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let pass: serde_json::Value = serde_json::from_str(text.lines().next().ok_or("no output")?)?;
    let peak = watch.join().map_err(|_| "the watch ended badly")?;
    let removed = pass["applied"]["delete"].as_i64().unwrap_or_default();
    Ok((pass["seconds"].as_f64().ok_or("no seconds")?, peak, removed))
}

/// p99 and maximum, in milliseconds, of the inserts of a process beside `work`, and how many there were.
fn beside_writer(dir: &Path, work: impl FnOnce() -> Result<()>) -> Result<(f64, f64, usize)> {
    let stop = dir.join("stop");
    drop(std::fs::remove_file(&stop));
    let writer: Child = Command::new(std::env::current_exe()?)
        .arg("--writer")
        .args([dir.join("memory.db"), stop.clone()])
        .stdout(Stdio::piped())
        .spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    let result = work();
    std::fs::write(&stop, "")?;
    let output = writer.wait_with_output()?;
    result?;
    let mut waits: Vec<f64> = String::from_utf8(output.stdout)?
        .lines()
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    waits.sort_by(f64::total_cmp);
    let p99 = waits[waits.len() * 99 / 100];
    Ok((p99, waits[waits.len() - 1], waits.len()))
}

/// Inserts a row every 5 ms until a file appears, and prints how late each was done.
fn write_until_told(database: &Path, stop: &Path) -> Result<()> {
    let db = Connection::open(database)?;
    db.busy_timeout(Duration::from_mins(1))?;
    db.execute_batch("PRAGMA synchronous = FULL")?;
    let mut waits = Vec::new();
    let start = Instant::now();
    for n in 0_u32.. {
        let due = PERIOD * n;
        if let Some(wait) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(wait);
        }
        db.prepare_cached(
            "INSERT INTO memories(user_id, content, content_hash, created_at) VALUES('user-1', 'written at night', hex(randomblob(32)), unixepoch())",
        )?
        .execute([])?;
        waits.push(start.elapsed().saturating_sub(due).as_secs_f64() * 1000.0);
        if n % 20 == 0 && stop.exists() {
            break;
        }
    }
    for wait in waits {
        println!("{wait:.3}");
    }
    Ok(())
}

fn bare_delete(dir: &Path) -> Result<f64> {
    let start = Instant::now();
    let status = Command::new("sqlite3")
        .arg(dir.join("bare.db"))
        .arg("PRAGMA synchronous = FULL; DELETE FROM memories WHERE ttl_days IS NOT NULL;")
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err("the sqlite3 shell could not delete".into());
    }
    Ok(start.elapsed().as_secs_f64())
}
