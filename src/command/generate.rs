//! `hypnos generate`: the man pages and the completions, made from the definition of the command line, for packages.

use std::path::Path;

use clap::CommandFactory as _;

use crate::cli::{Cli, Generate};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Out;

/// Makes what is asked for.
pub(super) fn generate(what: &Generate, out: &mut Out) -> Result<Exit, Failure> {
    match what {
        Generate::Man { dir } => man_pages(dir)?,
        Generate::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "hypnos", &mut script);
            out.verbatim(&String::from_utf8_lossy(&script));
        }
    }
    Ok(Exit::Done)
}

fn man_pages(dir: &Path) -> Result<(), Failure> {
    clap_mangen::generate_to(Cli::command(), dir).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("write the man pages to {}: {error}", dir.display()),
        )
    })
}
