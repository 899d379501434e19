//! `hypnos --run-now` and `hypnos --dry-run`.

use std::path::Path;

use jiff::SignedDuration;

use crate::cli::{Cli, Global, RunArgs};
use crate::clock::{self, Timestamp};
use crate::config::Config;
use crate::config::units::HumanDuration;
use crate::engine::{self, Options};
use crate::error::Failure;
use crate::exit::Exit;
use crate::guard::Acceptances;
use crate::metrics::{Metrics, textfile};
use crate::output::Out;
use crate::output::progress::Bars;
use crate::output::run::Printer;
use crate::pass::{Cx, Progress, Silent};
use crate::plan::PlanHash;
use crate::report::RunReport;
use crate::stop::Stop;

/// Runs, or prints what a run would do.
pub(super) fn run(cli: &Cli, out: &mut Out) -> Result<Exit, Failure> {
    let args = &cli.run;
    check_passes(args)?;
    check_accept(args)?;
    check_hashes(args)?;
    let config = super::load(&cli.global)?;
    super::check_store_names(&config, &args.store)?;
    let options = options(args)?;
    run_with(&config, &options, args.dry_run, &cli.global, out)
}

/// Runs with everything decided.
pub(super) fn run_with(
    config: &Config,
    options: &Options,
    dry_run: bool,
    global: &Global,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let stop = stop_on_signals()?;
    let bars = Bars::default();
    let progress: &dyn Progress = if out.terminal && !global.quiet {
        &bars
    } else {
        &Silent
    };
    let cx = Cx {
        stop: &stop,
        progress,
    };
    let mut printer = Printer::new(out, global.quiet);
    let report = if dry_run {
        engine::dry_run(config, options, &cx, &mut printer)
    } else {
        engine::run(config, options, &cx, &mut printer)
    };
    printer.finish(&report, dry_run);
    if let Some(path) = &config.metrics.textfile
        && !dry_run
        && !report.interrupted
    {
        write_textfile(config, path, &stop)?;
    }
    let exit = report.exit();
    if name_unknown_hashes(options, &report) && exit.gravity() < Exit::LeftOver.gravity() {
        return Ok(Exit::LeftOver);
    }
    Ok(exit)
}

/// Warns about accepted hashes that no plan of the run had. Whether there are any.
fn name_unknown_hashes(options: &Options, report: &RunReport) -> bool {
    let is_of = |hash: &str, known: &PlanHash| known.0.eq_ignore_ascii_case(hash);
    let plans = report.passes.iter().filter_map(|pass| pass.hash.as_ref());
    let plans = plans.chain(&report.moved);
    let unknown = options
        .accept
        .0
        .iter()
        .filter(|hash| !plans.clone().any(|known| is_of(hash, known)));
    let mut is_any = false;
    for hash in unknown {
        is_any = true;
        tracing::warn!(
            hash,
            "no plan of this run has the accepted hash: the stores have changed since; look again with --dry-run"
        );
    }
    is_any
}

/// Writes the figures after a run. One that was interrupted ends at once and leaves the page of the last.
fn write_textfile(config: &Config, path: &Path, stop: &Stop) -> Result<(), Failure> {
    let now = clock::now();
    let metrics = Metrics::new(config, now);
    metrics.survey(config, now, stop);
    textfile::write(&metrics, path, now).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("write the metrics to {}: {error}", path.display()),
        )
        .with_hint(
            "the run itself is done; see [metrics] textfile: may this user write to its folder?",
        )
    })
}

fn options(args: &RunArgs) -> Result<Options, Failure> {
    let now = clock::now();
    let now = match &args.at {
        Some(at) => instant(at, now).ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                format!("--at {at}: allowed is 2026-12-24T03:00:00Z or +30d"),
            )
        })?,
        None => now,
    };
    Ok(Options {
        only: args.only.clone(),
        skip: args.skip.clone(),
        stores: args.store.clone(),
        accept: Acceptances(args.accept.clone()),
        ..Options::new(now, &command(args))
    })
}

/// What the journal says of the run: one of some passes is told from one of all.
fn command(args: &RunArgs) -> String {
    let mut command = if args.dry_run {
        "--dry-run"
    } else {
        engine::RUN_NOW
    }
    .to_owned();
    for (flag, passes) in [(" --only ", &args.only), (" --skip ", &args.skip)] {
        if !passes.is_empty() {
            let names: Vec<&str> = passes.iter().map(|pass| pass.as_str()).collect();
            command.push_str(flag);
            command.push_str(&names.join(","));
        }
    }
    command
}

/// Refuses a pass that is asked for and left out: a run without it would look like one that found nothing to do.
fn check_passes(args: &RunArgs) -> Result<(), Failure> {
    match args.only.iter().find(|pass| args.skip.contains(pass)) {
        None => Ok(()),
        Some(pass) => Err(Failure::new(
            Exit::Usage,
            format!("--only and --skip both name {pass}"),
        )),
    }
}

/// Refuses to accept a plan in a run that changes nothing.
fn check_accept(args: &RunArgs) -> Result<(), Failure> {
    match args.accept.first() {
        Some(hash) if args.dry_run => Err(Failure::new(
            Exit::Usage,
            "--dry-run changes nothing, so there is nothing to --accept",
        )
        .with_hint(format!(
            "look at the plans with --dry-run alone, then have this one done with --run-now --accept {hash}"
        ))),
        _ => Ok(()),
    }
}

/// Refuses what cannot be the hash of a plan, before anything is done.
fn check_hashes(args: &RunArgs) -> Result<(), Failure> {
    let is_hash = |text: &&String| {
        text.len() == PlanHash::DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match args.accept.iter().find(|text| !is_hash(text)) {
        None => Ok(()),
        Some(text) => Err(Failure::new(
            Exit::Usage,
            format!(
                "--accept {text}: allowed are the {} hexadecimal digits that a dry run, or a refusal, names",
                PlanHash::DIGITS
            ),
        )),
    }
}

/// `2026-12-24T03:00:00Z`, or a time from now: `+30d`.
fn instant(text: &str, now: Timestamp) -> Option<Timestamp> {
    let Some(after) = text.strip_prefix('+') else {
        return text.parse().ok();
    };
    let after: HumanDuration = after.parse().ok()?;
    now.checked_add(SignedDuration::try_from(after.get()).ok()?)
        .ok()
}

/// The first SIGINT or SIGTERM asks the run to stop after the batch at hand; a second one ends the process at once,
/// which loses nothing either.
pub(super) fn stop_on_signals() -> Result<Stop, Failure> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            Exit::Interrupted.code().into(),
            stop.flag(),
        )
        .and_then(|_| signal_hook::flag::register(signal, stop.flag()))
        .map_err(|error| Failure::new(Exit::Failed, format!("listen to signals: {error}")))?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_takes_an_instant_or_a_time_from_now() {
        let now: Timestamp = "2026-11-29T03:00:00Z".parse().unwrap();
        let at = |text| instant(text, now).map(|at| at.to_string());
        assert_eq!(
            at("2026-12-24T03:00:00Z").as_deref(),
            Some("2026-12-24T03:00:00Z")
        );
        assert_eq!(at("+30d").as_deref(), Some("2026-12-29T03:00:00Z"));
        for nonsense in [
            "",
            "+",
            "30d",
            "+-1d",
            "tomorrow",
            "2026-12-24",
            "+99999999999999w",
        ] {
            assert_eq!(at(nonsense), None, "{nonsense}");
        }
    }
}
