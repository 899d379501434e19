//! Pairs that a person asks for.

use super::journal::lock;
use super::{Options, by_hand, place};
use crate::apply::Job;
use crate::config::{self, Backend, Config};
use crate::error::Failure;
use crate::exit::Exit;
use crate::pass::{Cx, PassName};
use crate::snapshot::manifest::Purpose;
use crate::snapshot::restore::{self, GivenUp, Request, Restored};
use crate::snapshot::{Manifest, Order, Pair, SnapshotError, take};
use crate::state::StateDir;
use crate::store::Stores;
use crate::store::sqlite::Access;
use crate::store::vectors::qdrant::snapshot;

/// Takes a pair of a store now, whatever there is already. What an earlier run had begun is finished first.
///
/// # Errors
///
/// When another run holds the lock, a store cannot be opened, or the pair would not be whole; then there is none.
pub fn take_now(
    config: &Config,
    store: &config::Store,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Manifest, Failure> {
    let stores = Stores::open(store, &config.state_dir, Access::Write, cx.stop)?;
    let dir = StateDir::new(&config.state_dir, &store.name);
    let is_done = |_: &Manifest| ("applied", Exit::Done);
    by_hand::in_a_run(dir, store, options, is_done, |states| {
        by_hand::finish_earlier(&Job {
            stores: &stores,
            states,
            run: &options.run,
            pass: PassName::Snapshot,
            now: options.now,
            cx: *cx,
        })?;
        take(Order {
            stores: &stores,
            purpose: Purpose::Asked,
            run: &options.run,
            now: options.now,
            is_anew: false,
            cx: *cx,
        })
        .map_err(|error| Failure::from(&error).while_doing("take a pair"))
    })
}

/// Puts a pair of a store back. What an earlier run had begun is finished first, as far as the present stores can be
/// opened.
///
/// # Errors
///
/// When it is not done: then the store is as it was, or the next run finishes it.
pub fn restore(
    config: &Config,
    store: &config::Store,
    pair: &Pair,
    how: How,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Restored, Failure> {
    let mut is_pending = false;
    put_back(config, store, pair, how, options, cx, &mut is_pending).map_err(|failure| {
        if is_pending {
            return failure;
        }
        let nothing = format!("nothing of pair {} was put back", pair.name);
        let hint = match &failure.hint {
            Some(hint) => format!("{nothing}: {hint}"),
            None => nothing,
        };
        failure.with_hint(hint)
    })
}

/// `is_pending` says of a failure that something may have been replaced.
fn put_back(
    config: &Config,
    store: &config::Store,
    pair: &Pair,
    how: How,
    options: &Options,
    cx: &Cx<'_>,
    is_pending: &mut bool,
) -> Result<Restored, Failure> {
    // Of the same pair, perhaps.
    *is_pending = true;
    let _told = by_hand::finish_restore(config, store, options, cx)?;
    *is_pending = false;
    let dir = StateDir::new(&config.state_dir, &store.name);
    let is_done = |_: &Restored| ("applied", Exit::Done);
    by_hand::in_a_run(dir, store, options, is_done, |states| {
        let present = Stores::open(store, &config.state_dir, Access::Write, cx.stop);
        match present {
            Ok(stores) => by_hand::finish_earlier(&Job {
                stores: &stores,
                states,
                run: &options.run,
                pass: PassName::Snapshot,
                now: options.now,
                cx: *cx,
            })?,
            // Without its server no store is put back, however little of it is left.
            Err(failure) if is_server_away(store, cx) => return Err(failure),
            Err(failure) if !how.keep_old => {
                return Err(failure.with_hint(
                    "--no-safety-pair goes on without a pair of the present state, and keeps its files beside the new ones",
                ));
            }
            // Nothing names what was begun elsewhere.
            Err(_) => place::require_here(states.main(), store)?,
        }
        restore::restore(Request {
            config,
            store,
            pair,
            run: &options.run,
            now: options.now,
            bring_back: how.bring_back,
            keep_old: how.keep_old,
            without_state: how.without_state,
            cx: *cx,
        })
        .map_err(|error| {
            *is_pending = matches!(error, SnapshotError::Pending { .. });
            Failure::from(&error).while_doing("restore the pair")
        })
    })
}

/// Gives up a restore of a store that was cut off, as long as nothing was replaced.
///
/// # Errors
///
/// When another run holds the lock, or a part of the store is replaced already: then the next run finishes it.
pub fn give_up_restore(
    config: &Config,
    store: &config::Store,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<GivenUp, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let _lock = lock(&dir, options)?;
    restore::give_up(config, store, *cx).map_err(|error| Failure::from(&error))
}

/// Whether the points are on a server that does not answer.
fn is_server_away(store: &config::Store, cx: &Cx<'_>) -> bool {
    match store.vectors.as_ref().map(|vectors| &vectors.backend) {
        Some(Backend::Qdrant(server)) => snapshot::reach(server, cx.stop).is_err(),
        _ => false,
    }
}

/// How a pair is put back.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// Also what was removed after the pair was taken, but for owners who were erased.
    pub bring_back: bool,
    /// Without a pair of the present state: its files are kept beside the new ones.
    pub keep_old: bool,
    /// Also where the state that knows what was removed after the pair was taken is lost.
    pub without_state: bool,
}
