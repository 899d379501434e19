//! Every check, by the line that an operator would read; what is shipped; what is meant where nothing is said.

use super::*;
use crate::config::{Backend, Problem, Qdrant, Store};

mod cases;
mod messages;
mod presets;
mod secrets;
mod shipped;
mod stores;

const REFERENCE: &str = include_str!("../../../../config/hypnos.toml");
const MINIMAL: &str = include_str!("../../../../config/minimal.toml");

/// A store of one file with nothing else said.
const PLAIN: &str = "[[store]]\nname = 'a'\n[store.rows]\npath = 'm.db'\n";

/// The same with points in Qdrant; keys of `[store.vectors]` can follow.
const QDRANT: &str =
    "[[store]]\nname = 'a'\n[store.rows]\npath = 'm.db'\n[store.vectors]\nkind = 'qdrant'\n";

/// One file per tenant.
const TENANTS: &str = "[[store]]\nname = 'a'\n[store.rows]\npath = 'users/{tenant}/m.db'\n";

fn read(text: &str) -> Result<Config, ConfigError> {
    read_in(text, &Env::default())
}

fn read_in(text: &str, env: &Env) -> Result<Config, ConfigError> {
    parse(text, Path::new("/etc/hypnos/hypnos.toml"), env)
}

fn valid(text: &str) -> Config {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn only_store(text: &str) -> Store {
    let [store] = <[Store; 1]>::try_from(valid(text).stores).unwrap();
    store
}

fn problems(result: Result<Config, ConfigError>) -> Vec<Problem> {
    match result {
        Err(ConfigError::Invalid { problems, .. }) => problems,
        other => panic!("no problems: {other:?}"),
    }
}

fn lines(text: &str) -> Vec<String> {
    let problems = problems(read(text));
    problems.iter().map(Problem::to_string).collect()
}

fn with(base: &str, more: &str) -> String {
    format!("{base}{more}\n")
}

fn qdrant_of(store: &Store) -> Qdrant {
    match store.vectors.as_ref().map(|vectors| &vectors.backend) {
        Some(Backend::Qdrant(qdrant)) => qdrant.clone(),
        other => panic!("{other:?}"),
    }
}
