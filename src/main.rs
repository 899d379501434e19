//! The `hypnos` command.

use std::process::ExitCode;

use clap::Parser as _;
use hypnos::cli::Cli;
use hypnos::error::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let _failpoints = hypnos::failpoint::setup();
    hypnos::log::init(&cli);
    hypnos::panics::install();
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
