//! From what the operator wrote to a configuration that is valid by construction.
//!
//! Mechanics: every part reads its keys through [`Checks`], which collects problems and hands out placeholders, so that
//! one wrong key hides no other. Where there is a problem there is no configuration, so no placeholder gets out.
//!
//! Policy: refuse what cannot be meant. A misspelt key, a column without a meaning, two stores that would take each
//! other's points for orphans: each of them stops hypnos before it has opened anything.

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;

use super::checks::Checks;
use super::raw;
use super::units::Ratio;
use super::{Config, ConfigError, Cron, Env, Guard, Metrics, Schedule, source};

mod beside;
mod passes;
mod rows;
mod stores;
mod vectors;

pub use passes::default_passes;

/// Days of 24 hours.
const fn days(days: u64) -> Duration {
    Duration::from_hours(days * 24)
}

/// Reads the configuration at `path`, and takes secrets from the environment of the process.
///
/// # Errors
///
/// When the file cannot be read, or is no valid configuration; then all problems are in the error.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(&text, path, &Env::from_process())
}

/// Reads the configuration in `text`, as if it stood in the file at `path`: relative paths in it are relative to the
/// folder of that file. Nothing but credentials is opened.
///
/// # Errors
///
/// When `path` is empty, or when the text is no valid configuration; then all problems are in the error.
pub fn parse(text: &str, path: &Path, env: &Env) -> Result<Config, ConfigError> {
    let absolute = std::path::absolute(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    let (file, problems) = raw::File::parse(text).map_err(|errors| ConfigError::Syntax {
        path: path.to_owned(),
        errors,
    })?;
    let base = absolute.parent().unwrap_or(&absolute).to_owned();
    let mut checks = Checks::new(base, problems);
    let config = config(file, env, &mut checks);
    match checks.into_problems() {
        problems if problems.is_empty() => Ok(config),
        problems => Err(ConfigError::Invalid {
            path: path.to_owned(),
            problems,
        }),
    }
}

fn config(file: raw::File, env: &Env, checks: &mut Checks) -> Config {
    let state_dir = checks.path(&file.state_dir, "/var/lib/hypnos");
    let snapshot_dir = checks.path(&file.snapshot_dir, "/var/backups/hypnos");
    if checks.are_sound(&[&file.state_dir, &file.snapshot_dir])
        && overlap(&state_dir, &snapshot_dir)
    {
        let other = snapshot_dir.display();
        checks.refuse_value(
            &file.state_dir.field,
            format!("{:?}", state_dir.display().to_string()),
            format!("a folder apart from snapshot_dir ({other}): not the same one, and neither inside the other"),
        );
    }
    Config {
        schedule: schedule(&file.schedule, checks),
        metrics: metrics(&file.metrics, checks),
        guard: guard(&file.guard, checks),
        undo_keep: checks.positive_duration(&file.undo.keep, days(30)),
        stores: stores::stores(
            file.store,
            &file.pass,
            stores::Folders {
                state: &state_dir,
                pairs: &snapshot_dir,
            },
            env,
            checks,
        ),
        state_dir,
        snapshot_dir,
    }
}

fn schedule(raw: &raw::Schedule, checks: &mut Checks) -> Schedule {
    let nightly = Cron::nightly();
    let zone = "an IANA zone such as \"UTC\" or \"America/Sao_Paulo\"";
    Schedule {
        cron: checks.value(&raw.cron, nightly, Cron::ALLOWED, |value| {
            Cron::parse(value.as_str()?)
        }),
        timezone: checks.value(&raw.timezone, TimeZone::UTC, zone, |value| {
            source::zone_of(value.as_str()?)
        }),
        catch_up: checks.flag(&raw.catch_up, true),
        max_run: checks.positive_duration(&raw.max_run, Duration::from_hours(6)),
        retry_for: checks.duration(&raw.retry_for, Duration::from_hours(1)),
    }
}

fn metrics(raw: &raw::Metrics, checks: &mut Checks) -> Metrics {
    let address = "an IP address with a port, such as \"127.0.0.1:9750\" or \"[::1]:9750\"";
    let textfile = checks.optional_path(&raw.textfile);
    let is_prom = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "prom")
    };
    if textfile.as_ref().is_some_and(|path| !is_prom(path)) {
        checks.refuse(
            &raw.textfile,
            "a path that ends in .prom (the textfile collector reads no other), or \"\"",
        );
    }
    Metrics {
        listen: checks.value(
            &raw.listen,
            SocketAddr::from(([127, 0, 0, 1], 9750)),
            address,
            |value| value.as_str()?.parse().ok(),
        ),
        textfile,
    }
}

fn guard(raw: &raw::Guard, checks: &mut Checks) -> Guard {
    Guard {
        max_fraction: checks.ratio(&raw.max_fraction, const { Ratio::new(0.2).unwrap() }),
        min_count: checks.value(&raw.min_count, 50, "a whole number, 0 or more", |value| {
            u64::try_from(value.as_integer()?).ok()
        }),
    }
}

/// Whether one folder is, or lies in, the other, going by their names alone.
fn overlap(a: &Path, b: &Path) -> bool {
    let (a, b) = (lexical(a), lexical(b));
    a.starts_with(&b) || b.starts_with(&a)
}

/// A path without `..`, going by names alone: for comparing, not for opening.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests;
