//! `hypnos demo`: build a small real store, show it, run over it, and say where to look next.

use std::path::Path;

use crate::cli::Global;
use crate::clock;
use crate::demo;
use crate::engine;
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::output::Out;

/// Builds the store unless it is there already, and runs over it.
pub(super) fn demo(dir: &Path, global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let now = clock::now();
    let shown = dir.display();
    if demo::is_demo(dir) {
        say(
            out,
            &format!("The store in {shown} is there already; this is one more night over it."),
        );
    } else {
        let built =
            demo::build(dir, now, &super::shell_word(&super::program())).map_err(|error| {
                Failure::new(Exit::Failed, chain(&error))
                    .while_doing(&format!("build a store in {shown}"))
            })?;
        say(
            out,
            &format!(
                "Built a store in {shown}: {} memories and {} points of {} users and {} teams, after half a year.",
                built.rows, built.points, built.users, built.teams
            ),
        );
    }
    let config = super::load_file(&dir.join("hypnos.toml"))?;
    let exit = super::run::run_with(
        &config,
        &engine::Options::new(now, engine::DEMO),
        false,
        global,
        out,
    )?;
    if exit == Exit::Done {
        say(out, &where_to_look(dir));
    }
    Ok(exit)
}

/// Text for people; a program that asked for JSON gets objects only.
fn say(out: &mut Out, text: &str) {
    if !out.json {
        out.lines(text);
    }
}

fn where_to_look(dir: &Path) -> String {
    let config = dir.join("hypnos.toml");
    let (call, config) = (super::call(&config), config.display());
    format!(
        "\nLook next:\n  {call} status      what each night did\n  \
         {call} check       how the two halves agree\n  \
         {call} --dry-run --at +30d   what a month from now would go\n  \
         {config}   the configuration, to start your own from"
    )
}
