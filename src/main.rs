//! The `hypnos` command.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use hypnos::cli::{Cli, Color};
use hypnos::error::Failure;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::prelude::*;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let _failpoints = hypnos::failpoint::setup();
    log_to_stderr(&cli);
    match hypnos::command::dispatch(&cli) {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure, cli.global.json).into(),
    }
}

/// Says on stderr what went wrong and what to do about it; with `--json` on stdout too, as an object.
#[expect(clippy::print_stderr, reason = "the last words of the process")]
fn report(failure: &Failure, json: bool) -> hypnos::exit::Exit {
    eprintln!("hypnos: {}", hypnos::output::safe(&failure.message));
    if let Some(hint) = &failure.hint {
        eprintln!("  hint: {}", hypnos::output::safe(hint));
    }
    if json {
        hypnos::output::failure(failure);
    }
    failure.exit
}

fn log_to_stderr(cli: &Cli) {
    let level = match (cli.global.quiet, cli.global.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    let colour = match cli.global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::io::stderr().is_terminal(),
    };
    // Only hypnos' own targets: a library at debug level may print what it sends.
    let own = tracing_subscriber::filter::Targets::new().with_target("hypnos", level);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_filter(own);
    tracing_subscriber::registry().with(layer).init();
}
