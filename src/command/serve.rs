//! `hypnos` without a command: the daemon.

use crate::cli::{Cli, RunArgs};
use crate::error::Failure;
use crate::exit::Exit;
use crate::serve;

/// Runs until a signal ends it.
pub(super) fn serve(cli: &Cli) -> Result<Exit, Failure> {
    check(&cli.run)?;
    let path = super::config_path(&cli.global)?;
    serve::serve(Box::new(move || super::load_file(&path)))
}

/// Refuses what only a single run understands: somebody forgot to say `--run-now`.
fn check(args: &RunArgs) -> Result<(), Failure> {
    match args.narrowed_by() {
        None => Ok(()),
        Some(name @ "--accept") => Err(Failure::new(
            Exit::Usage,
            format!("{name} goes with --run-now"),
        )),
        Some(name) => Err(Failure::new(
            Exit::Usage,
            format!("{name} goes with --run-now or --dry-run"),
        )),
    }
}
