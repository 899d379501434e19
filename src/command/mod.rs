//! One file per subcommand: build the inputs, call the engine, print. No decisions.

use std::path::{Path, PathBuf};

use crate::cli::{Cli, Command, Global, RunArgs};
use crate::config::{self, Config};
use crate::engine;
use crate::error::Failure;
use crate::exit::Exit;
use crate::memory::Namespace;
use crate::output::Out;
use crate::state::{StateDir, StateError};
use crate::store;

mod check;
mod demo;
mod evaluate;
mod forget;
mod generate;
mod init;
mod presets;
mod review;
mod run;
mod serve;
mod snapshot;
mod status;
mod undo;
mod why;

/// Does what the command line asks.
///
/// # Errors
///
/// When the command could not do its work at all; what it found is in its exit code.
pub fn dispatch(cli: &Cli) -> Result<Exit, Failure> {
    if cli.command.is_some() {
        refuse_run_options(&cli.run)?;
    }
    let mut out = Out::new(cli.global.json);
    let exit = match &cli.command {
        None if cli.run.run_now || cli.run.dry_run => run::run(cli, &mut out),
        None => serve::serve(cli),
        Some(Command::Demo { dir }) => demo::demo(dir, &cli.global, &mut out),
        Some(Command::Init {
            rows,
            vectors,
            collection,
            rest_url,
            preset,
            output,
            force,
        }) => {
            let what = init::What {
                rows,
                vectors: vectors.as_deref(),
                collection: collection.as_deref(),
                rest_url: rest_url.as_deref(),
                preset: preset.as_deref(),
                output: output.as_deref(),
                force: *force,
            };
            init::init(&what, &cli.global, &mut out)
        }
        Some(Command::Check { store }) => check::check(store, &cli.global, &mut out),
        Some(Command::Status { store, runs }) => {
            status::status(store, *runs, &cli.global, &mut out)
        }
        Some(Command::Review { list, verb: None }) => review::list(list, &cli.global, &mut out),
        Some(Command::Review {
            verb: Some(verb), ..
        }) => review::answer(verb, &cli.global, &mut out),
        Some(Command::Why {
            id,
            store,
            namespace,
        }) => why::why(id, store, namespace.as_deref(), &cli.global, &mut out),
        Some(Command::Undo {
            run,
            id,
            namespace,
            store,
            dry_run,
        }) => {
            let what = undo::What {
                run,
                id: id.as_deref(),
                namespace: namespace.as_deref(),
                dry_run: *dry_run,
            };
            undo::undo(&what, store, &cli.global, &mut out)
        }
        Some(Command::Forget {
            namespace,
            store,
            snapshots,
            dry_run,
            yes,
            certificate,
        }) => {
            let what = forget::What {
                namespace,
                snapshots: *snapshots,
                dry_run: *dry_run,
                yes: *yes,
                certificate: certificate.as_deref(),
            };
            forget::forget(&what, store, &cli.global, &mut out)
        }
        Some(Command::Run) => Err(Failure::new(Exit::Usage, "there is no command run")
            .with_hint("hypnos --run-now runs once; hypnos --dry-run shows what it would do")),
        Some(Command::Evaluate(what)) => evaluate::evaluate(what, &cli.global, &mut out),
        Some(Command::Generate(what)) => generate::generate(what, &mut out),
        Some(Command::Snapshot(verb)) => snapshot::snapshot(verb, &cli.global, &mut out),
        Some(Command::Presets { name }) => presets::presets(name.as_deref(), &mut out),
    };
    match (exit, out.finish()) {
        // What was to be done is done and written down; only nobody can read of it.
        (Ok(_), Err(error)) => Err(Failure::new(
            Exit::Failed,
            format!("write the output: {error}"),
        )),
        (exit, _) => exit,
    }
}

/// Refuses what only a run understands before a command: `hypnos --store a forget user:bob` must not forget in every
/// store.
fn refuse_run_options(run: &RunArgs) -> Result<(), Failure> {
    if run.run_now || run.dry_run {
        let problem = "--run-now and --dry-run go without a command";
        return Err(Failure::new(Exit::Usage, problem));
    }
    match run.narrowed_by() {
        None => Ok(()),
        Some(option) => Err(Failure::new(
            Exit::Usage,
            format!("{option} before a command is for a run, and would mean nothing here"),
        )
        .with_hint("name a store behind the command: hypnos check --store NAME")),
    }
}

/// Where a configuration is looked for when none is named.
const DEFAULT_CONFIGS: [&str; 2] = ["/etc/hypnos/hypnos.toml", "hypnos.toml"];

/// Whether there is a configuration where one is looked for.
fn has_default_config() -> bool {
    DEFAULT_CONFIGS.iter().any(|path| Path::new(path).exists())
}

/// Loads the configuration that the command line names, or the first default that exists.
fn load(global: &Global) -> Result<Config, Failure> {
    load_file(&config_path(global)?)
}

/// Where the configuration is that the command line names, or the first default that exists.
fn config_path(global: &Global) -> Result<PathBuf, Failure> {
    if let Some(path) = &global.config {
        return Ok(path.clone());
    }
    // One that cannot be looked at is not passed over: reading it says why.
    let is_there = |path: &&str| Path::new(path).try_exists().unwrap_or(true);
    let mut found = DEFAULT_CONFIGS.into_iter().filter(is_there);
    let Some(first) = found.next() else {
        return Err(Failure::new(
            Exit::Config,
            format!("no configuration at {}", DEFAULT_CONFIGS.join(" nor ./")),
        )
        .with_hint(
            "name one with --config, have one written by hypnos init DATABASE, or see a small one: hypnos demo",
        ));
    };
    if let Some(second) = found.next() {
        tracing::warn!(
            "the configuration is {first}; ./{second} is there, too, and not read: name it with --config"
        );
    }
    Ok(first.into())
}

fn load_file(path: &Path) -> Result<Config, Failure> {
    let config = config::load(path).map_err(|error| Failure {
        exit: Exit::Config,
        message: crate::error::chain(&error),
        hint: error.hint().map(Into::into),
    })?;
    // What no name tells, and only the file system knows.
    let problems = store::apart::problems(&config);
    if problems.is_empty() {
        return Ok(config);
    }
    let message = format!("{}:\n  {}", path.display(), problems.join("\n  "));
    Err(Failure::new(Exit::Config, message))
}

/// Reads the namespace that a list is narrowed to.
fn parse_namespace(name: Option<&str>) -> Result<Option<Namespace>, Failure> {
    let Some(name) = name else { return Ok(None) };
    let refused = || {
        Failure::new(
            Exit::Usage,
            format!("--namespace {name}: allowed is scope:owner, such as user:ana"),
        )
    };
    Namespace::parse(name).map(Some).ok_or_else(refused)
}

/// Whether a namespace is wanted, in whatever spelling.
fn wants_namespace(wanted: Option<&Namespace>, namespace: &Namespace) -> bool {
    wanted.is_none_or(|wanted| wanted.normal() == namespace.normal())
}

/// What a command that reads a state file fails with.
fn state_failure(store: &str, error: &StateError) -> Failure {
    Failure {
        exit: Exit::Failed,
        message: format!("read the state of {store}: {}", crate::error::chain(error)),
        hint: error.hint().map(str::to_owned),
    }
}

/// Refuses a command that would write to a store by a state that is of another one, before it begins with the first of
/// several; also where it would only foresee.
fn require_own_states(config: &Config, stores: &[&config::Store]) -> Result<(), Failure> {
    stores.iter().try_for_each(|store| {
        let dir = StateDir::new(&config.state_dir, &store.name);
        engine::place::require_own_in(&dir, store)
    })
}

/// Refuses the name of a store that is not configured.
fn check_store_names(config: &Config, names: &[String]) -> Result<(), Failure> {
    let known: Vec<&str> = config
        .stores
        .iter()
        .map(|store| store.name.as_str())
        .collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(
            Failure::new(Exit::Usage, format!("no store named {name:?}"))
                .with_hint(format!("the stores are {}", known.join(", "))),
        ),
    }
}

/// How to call this program with a configuration, as a shell reads it.
fn call(config: &Path) -> String {
    let config = shell_word(&config.display().to_string());
    format!("{} --config {config}", shell_word(&program()))
}

/// A word as a shell reads it: in quotes where it would be taken for several.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// How to call this program: by its name where a shell finds it, else by its path.
fn program() -> String {
    let name = env!("CARGO_PKG_NAME");
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::current_exe() {
        Ok(exe) if !std::env::split_paths(&path).any(|folder| folder.join(name) == exe) => {
            exe.display().to_string()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_for_several() {
        for (text, word) in [
            ("/etc/hypnos/hypnos.toml", "/etc/hypnos/hypnos.toml"),
            ("my memory.toml", "'my memory.toml'"),
            ("it's.toml", r"'it'\''s.toml'"),
            ("$HOME/x", "'$HOME/x'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
