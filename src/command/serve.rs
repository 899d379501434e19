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
    let lists = [
        ("--only", args.only.is_empty()),
        ("--skip", args.skip.is_empty()),
        ("--store", args.store.is_empty()),
        ("--accept", args.accept.is_empty()),
    ];
    match lists.iter().find(|(_, is_empty)| !is_empty) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::new(
            Exit::Usage,
            format!("{name} goes with --run-now or --dry-run"),
        )),
    }
}
