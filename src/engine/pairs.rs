//! Pairs that a person asks for.

use super::{Options, by_hand};
use crate::apply::Job;
use crate::config::{self, Config};
use crate::error::Failure;
use crate::exit::Exit;
use crate::pass::{Cx, PassName};
use crate::snapshot::manifest::Purpose;
use crate::snapshot::{Manifest, Order, take};
use crate::state::StateDir;
use crate::store::Stores;
use crate::store::sqlite::Access;

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
            cx: *cx,
        })
        .map_err(|error| Failure::from(&error).while_doing("take a pair"))
    })
}
