//! Random kills: SIGKILL at any moment, again and again, and after each the promises.
//!
//! `HYPNOS_KILLS=1000 cargo test --test crash kills -- --nocapture` kills a thousand times on each backend. The seed is
//! printed; `HYPNOS_SEED` takes it again: the same stores, killed after the same times. (Where exactly a run is by then
//! is up to the machine.)

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use crate::census::on_threads;
use crate::checker::{after_one_more_run, at_any_time, the_journal_is_honest};
use crate::counted::each_is_counted_once;
use crate::seed::{self, Case};
use crate::setting;
use crate::support::{Backend, send};

/// Kills without `HYPNOS_KILLS`.
const FEW: u64 = 24;
/// A run is killed at the latest after this part of the time that one takes when it is left alone.
const LONGER: f64 = 1.1;

const SEEDS: [fn(Backend) -> Case; 3] = [seed::full, seed::marking, seed::tenants];

/// A small generator whose numbers follow from the seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `[0, 1)`.
    #[expect(clippy::cast_precision_loss, reason = "24 bits are exact")]
    fn fraction(&mut self) -> f64 {
        (self.next() >> 40) as f64 / (1_u64 << 24) as f64
    }
}

/// How one round went.
struct Killed {
    /// Runs that were under way when the signal came.
    times: u64,
}

fn number(name: &str) -> Option<u64> {
    setting(name).map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// How long a run takes on this machine at this time.
fn calm(prepare: fn(Backend) -> Case, backend: Backend) -> Duration {
    let case = prepare(backend);
    let watch = Instant::now();
    let _ = case.world.night().expect(0);
    watch.elapsed()
}

fn start(case: &Case) -> Child {
    let mut command = case.world.command(&["--run-now", "--json"]);
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

fn killed_after(case: &Case, wait: Duration) -> ExitStatus {
    let mut child = start(case);
    std::thread::sleep(wait);
    send(&child, rustix::process::Signal::KILL);
    child.wait().unwrap()
}

/// Kills a run, and in every third round the next one too, which replays; then one comes to its end.
fn round(random: &mut Random, backend: Backend, times: &[Duration]) -> Result<Killed, String> {
    let which = usize::try_from(random.next() % SEEDS.len() as u64).unwrap();
    let case = SEEDS[which](backend);
    let mut killed = Killed { times: 0 };
    let runs = if random.next().is_multiple_of(3) {
        2
    } else {
        1
    };
    let mut seen = at_any_time(&case)?;
    for _ in 0..runs {
        let status = killed_after(&case, times[which].mul_f64(random.fraction() * LONGER));
        killed.times += u64::from(status.code().is_none());
        let now = at_any_time(&case)?;
        the_journal_is_honest(&case, status.code())?;
        let back: Vec<_> = now
            .visible()
            .difference(&seen.visible())
            .copied()
            .cloned()
            .collect();
        if !back.is_empty() {
            return Err(format!("promise 1: {back:?} are back"));
        }
        seen = now;
    }
    let next = case.world.night();
    if next.code != Some(0) {
        return Err(format!("the next run: {next:#?}"));
    }
    each_is_counted_once(&case.world)?;
    after_one_more_run(&case, &seen)?;
    Ok(killed)
}

fn kills(backend: Backend) {
    let seed = number("HYPNOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let rounds: Vec<u64> = (0..number("HYPNOS_KILLS").unwrap_or(FEW)).collect();
    println!(
        "{backend:?}: HYPNOS_SEED={seed} HYPNOS_KILLS={}",
        rounds.len()
    );
    let times = SEEDS.map(|prepare| calm(prepare, backend));
    let watch = Instant::now();
    let hit = std::sync::atomic::AtomicU64::new(0);
    on_threads(&rounds, |nth| {
        // Each round has its own numbers, whichever thread takes it.
        let mut random = Random(seed ^ nth.wrapping_mul(0xd134_2543_de82_ef95));
        let killed = round(&mut random, backend, &times)
            .map_err(|why| format!("{backend:?}, HYPNOS_SEED={seed}, round {nth}: {why}"))?;
        let _ = hit.fetch_add(killed.times, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    });
    println!(
        "{backend:?}: HYPNOS_SEED={seed}: {} rounds, {} runs killed under way, in {:.0?}: 0 lost, 0 back, 0 half removed",
        rounds.len(),
        hit.into_inner(),
        watch.elapsed()
    );
}

#[test]
fn kills_at_random_lose_nothing_sqlite() {
    kills(Backend::Sqlite);
}

#[test]
fn kills_at_random_lose_nothing_qdrant() {
    kills(Backend::Qdrant);
}
