//! What a run would first finish, for a run that only looks.

use crate::pass::Cx;
use crate::plan::Unread;
use crate::state::{IntentRecord, Partition, StateError};
use crate::store::Stores;
use crate::store::identity::Identity;

use super::files::{Files, Home};
use super::foreign::Foreign;
use super::{AT_ONCE, damaged, is_missing, unfinished};

/// What was found besides the actions themselves.
#[derive(Debug, Default)]
pub struct Listed {
    /// Row databases of which nothing could be finished, and why.
    pub unread: Vec<Unread>,
    /// Whether some of it was begun on other stores: then no pass may run.
    pub foreign: bool,
    /// Whether a stop was requested before the end.
    pub interrupted: bool,
}

/// Hands the open intents of every row database of a store to `sink`, with its name. Writes nothing.
///
/// # Errors
///
/// When the main state file or the files of the store cannot be read; a tenant's state file fails alone.
pub fn list(
    stores: &Stores,
    cx: &Cx<'_>,
    sink: &mut dyn FnMut(&str, &[IntentRecord]),
) -> Result<Listed, StateError> {
    let mut listed = Listed::default();
    let tenants = stores.state.tenants()?;
    listed.unread.extend(damaged(&tenants.damaged));
    // A folder that cannot be listed is what every pass will fail on.
    let files = Files::list(stores).ok();
    let names = tenants.names.iter().map(|name| Partition::Tenant(name));
    for partition in std::iter::once(Partition::Main).chain(names) {
        if cx.stop.is_requested() {
            listed.interrupted = true;
            return Ok(listed);
        }
        let is_missing = files
            .as_ref()
            .is_none_or(|files| matches!(files.home(partition), Home::Missing));
        match list_one(stores, partition, is_missing, sink) {
            Ok(One { problem, foreign }) => {
                listed.foreign |= foreign;
                let problem = problem.map(|problem| unfinished(partition, problem));
                listed.unread.extend(problem);
            }
            Err(error) if partition.tenant().is_some() => {
                listed.unread.push(unfinished(partition, error.advice()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

/// What keeps the intents of one state file from being finished.
struct One {
    problem: Option<String>,
    foreign: bool,
}

fn list_one(
    stores: &Stores,
    partition: Partition<'_>,
    is_file_missing: bool,
    sink: &mut dyn FnMut(&str, &[IntentRecord]),
) -> Result<One, StateError> {
    let mut one = One {
        problem: None,
        foreign: false,
    };
    let Some(state) = stores.state.read(partition)? else {
        return Ok(one);
    };
    let (now, mut foreign, mut after) = (Identity::of(&stores.config), Foreign::default(), None);
    loop {
        let open = state.open_intents(after, AT_ONCE)?;
        let Some(last) = open.last() else {
            break;
        };
        after = Some(last.id);
        let own = foreign.take(&now, open);
        if is_file_missing && !own.is_empty() {
            one.problem = Some(is_missing());
        } else if !own.is_empty() {
            sink(partition.name(), &own);
        }
    }
    let mut after = None;
    loop {
        let open = state.open_undos(after, AT_ONCE)?;
        let Some(last) = open.last() else {
            break;
        };
        after = Some(last.id);
        let own = foreign.take(&now, open);
        if !own.is_empty() {
            sink(partition.name(), &own);
        }
    }
    if let Some(problem) = foreign.problem(state.path()) {
        one.problem = Some(problem);
        one.foreign = true;
    }
    Ok(one)
}
