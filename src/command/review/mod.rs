//! `hypnos review`: what waits for a person, the new memories of the day, and the answers.

use crate::answer::{self, Answered};
use crate::cli::{EntryArgs, Global, ReviewArgs, ReviewVerb};
use crate::clock;
use crate::config::{self, Config};
use crate::engine;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Out;
use crate::pass::review::answers::Verb;
use crate::pass::{Cx, Silent};

mod digest;
mod queue;
mod texts;

/// Lists the queue, or the new memories.
pub(super) fn list(args: &ReviewArgs, global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    super::check_store_names(&config, &args.store)?;
    let namespace = super::parse_namespace(args.namespace.as_deref())?;
    let mut exit = Exit::Done;
    for store in config
        .stores
        .iter()
        .filter(|store| args.store.is_empty() || args.store.contains(&store.name))
    {
        let ended = match args.new_since {
            Some(age) => digest::print(store, age, namespace.as_ref(), out)?,
            None => queue::print(&config, store, args, namespace.as_ref(), out)?,
        };
        if ended.gravity() > exit.gravity() {
            exit = ended;
        }
    }
    Ok(exit)
}

/// Answers an entry.
pub(super) fn answer(verb: &ReviewVerb, global: &Global, out: &mut Out) -> Result<Exit, Failure> {
    let config = super::load(global)?;
    let (name, args, verb) = match verb {
        ReviewVerb::Confirm { entry } => ("confirm", entry, Ok(Verb::Confirm)),
        ReviewVerb::Keep { entry } => ("keep", entry, Ok(Verb::Keep)),
        ReviewVerb::Replace { entry, keep } => {
            let keep = keep.clone();
            ("replace", entry, Ok(Verb::Replace { keep }))
        }
        ReviewVerb::Forget { entry, id } => {
            let id = id.clone();
            ("forget", entry, Ok(Verb::Forget { id }))
        }
        ReviewVerb::Snooze { entry, time } => ("snooze", entry, Err(*time)),
    };
    let store = store_of(&config, args)?;
    let command = format!("review {name} {}", args.entry);
    let options = engine::Options::new(clock::now(), &command);
    let answered = match verb {
        Ok(verb) => {
            let stop = super::run::stop_on_signals()?;
            let cx = Cx {
                stop: &stop,
                progress: &Silent,
            };
            answer::answer(&config, store, args.entry, &verb, &options, &cx)?
        }
        Err(time) => answer::snooze(&config, store, args.entry, time.get(), &options)?,
    };
    print(&answered, global, out);
    Ok(Exit::Done)
}

/// The store whose queue is meant: entries of several stores have the same numbers.
fn store_of<'a>(config: &'a Config, args: &EntryArgs) -> Result<&'a config::Store, Failure> {
    match (&args.store, &config.stores[..]) {
        (Some(name), stores) => {
            super::check_store_names(config, std::slice::from_ref(name))?;
            stores.iter().find(|store| store.name == *name)
        }
        (None, [only]) => Some(only),
        (None, _) => None,
    }
    .ok_or_else(|| {
        let names: Vec<&str> = config.stores.iter().map(|s| s.name.as_str()).collect();
        Failure::new(Exit::Usage, "there are several stores: say which")
            .with_hint(format!("--store {}", names.join(" or --store ")))
    })
}

fn print(answered: &Answered, global: &Global, out: &mut Out) {
    if out.json {
        out.object("answer", answered);
        return;
    }
    if global.quiet {
        return;
    }
    let Answered {
        store,
        entry,
        answer,
        snoozed_until,
        run,
        applied,
    } = answered;
    let done = match (answer, snoozed_until) {
        (Some(answer), _) => answer.to_string(),
        (None, Some(until)) => format!("snoozed until {until:.0}"),
        (None, None) => "shown again".to_owned(),
    };
    let changed = crate::output::run::counts(applied).map(|counts| format!("  {counts}"));
    out.line(&format!(
        "{store}  entry #{entry} {done}{}  run {run}",
        changed.unwrap_or_default()
    ));
}
