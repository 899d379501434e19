//! Whether the state that the name of a store leads to is of this very store.
//!
//! Policy: questions, sightings, copies, tombstones and what was accepted are of one store. Whatever would change a store, or
//! its state, and finds those of another one under its name refuses before it writes anything, be it a night or a command by
//! hand: a second store needs a name of its own. What only tells goes on, and says so. A store that has moved goes on with
//! its state once a person says so; what each of its passes removes is then asked anew.

use std::path::Path;

use super::Options;
use super::journal::state_failure;
use crate::apply::States;
use crate::config;
use crate::error::Failure;
use crate::exit::Exit;
use crate::plan::PlanHash;
use crate::state::{Partition, StateDir, StateError, StateReader};
use crate::store::identity::Identity;

/// That a state is of another store.
struct Elsewhere {
    changes: Vec<String>,
    hash: PlanHash,
}

/// Makes a state that of this store, where it is nobody's yet or a person says that the store has moved; answers by which
/// hash. To be called under the lock of the store.
pub(super) fn claim(
    states: &States,
    store: &config::Store,
    options: &Options,
) -> Result<Option<PlanHash>, Failure> {
    let main = states.main();
    let found = elsewhere(main, store).map_err(state_failure)?;
    let accepted = match found {
        // What was begun there is named first, and says what to do.
        Some(_) if has_begun_elsewhere(main, store).map_err(state_failure)? => return Ok(None),
        Some(found) if !options.accept.cover(&found.hash) => {
            return Err(found.refusal(&store.name, main.path()));
        }
        found => found.map(|found| found.hash),
    };
    main.set_place(&Identity::of(store).place())
        .map_err(state_failure)?;
    Ok(accepted)
}

/// Refuses a state that is of another store; one that is nobody's yet becomes that of this store. To be called under the
/// lock of the store.
pub(super) fn take(states: &States, store: &config::Store) -> Result<(), Failure> {
    let main = states.main();
    match elsewhere(main, store).map_err(state_failure)? {
        Some(_) => require_own(main, store),
        None => main
            .set_place(&Identity::of(store).place())
            .map_err(state_failure),
    }
}

/// Refuses a state that is of another store, before anything is opened or locked. One of an older hypnos is looked at once
/// it is migrated.
pub(crate) fn require_own_in(dir: &StateDir, store: &config::Store) -> Result<(), Failure> {
    match dir.read(Partition::Main) {
        Ok(Some(state)) => require_own(&state, store),
        Ok(None) | Err(StateError::Older { .. }) => Ok(()),
        Err(error) => Err(state_failure(error)),
    }
}

/// Refuses a state that is of another store, whatever was begun there.
pub(super) fn require_here(state: &StateReader, store: &config::Store) -> Result<(), Failure> {
    match elsewhere(state, store).map_err(state_failure)? {
        Some(found) => Err(found.refusal(&store.name, state.path())),
        None => Ok(()),
    }
}

/// Says where a state is of another store, to whoever is told something of it.
pub(crate) fn mention(state: &StateReader, store: &config::Store) {
    // What cannot be read is an error soon enough.
    if let Ok(Some(found)) = elsewhere(state, store) {
        tracing::warn!(
            "{}: what it tells is about that one",
            found.message(&store.name, state.path())
        );
    }
}

/// Refuses a state that is of another store.
pub(crate) fn require_own(state: &StateReader, store: &config::Store) -> Result<(), Failure> {
    match elsewhere(state, store).map_err(state_failure)? {
        Some(found) if !has_begun_elsewhere(state, store).map_err(state_failure)? => {
            Err(found.refusal(&store.name, state.path()))
        }
        _ => Ok(()),
    }
}

fn elsewhere(state: &StateReader, store: &config::Store) -> Result<Option<Elsewhere>, StateError> {
    let Some(then) = state.place()? else {
        return Ok(None);
    };
    let now = Identity::of(store).place();
    let changes = now.moves_since(&then);
    let hash = now.move_hash(&then, &store.name);
    Ok((!changes.is_empty()).then_some(Elsewhere { changes, hash }))
}

/// Whether an intent for other stores is open: replay names it, and then no pass runs.
fn has_begun_elsewhere(state: &StateReader, store: &config::Store) -> Result<bool, StateError> {
    let now = Identity::of(store);
    let open = state.open_intents(None, 1)?;
    Ok(open
        .iter()
        .any(|record| !now.changes_since(&record.stores).is_empty()))
}

impl Elsewhere {
    fn message(&self, store: &str, file: &Path) -> String {
        format!(
            "the state in {} is of another store of the name {store:?}: {}",
            file.display(),
            self.changes.join("; ")
        )
    }

    fn refusal(&self, store: &str, file: &Path) -> Failure {
        Failure::new(Exit::Config, self.message(store, file)).with_hint(format!(
            "give this store another name in the configuration; if it is the same store and has only moved, \
             a run with --run-now --accept {} goes on with its state, and what each pass removes is asked once more",
            self.hash
        ))
    }
}
