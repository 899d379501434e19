//! The proof: runs that are killed, failed, starved and held up, and after each the promises, checked by code that knows
//! nothing of the passes. docs/reliability.md has the promises, the counts and the mutations that these tests catch.
//!
//! | module | concern |
//! | --- | --- |
//! | [`seed`] | stores with the truth about them |
//! | [`checker`] | the promises |
//! | [`agent`] | somebody who writes meanwhile |
//! | [`census`] | every failpoint, as abort, error and delay |
//! | [`kills`] | SIGKILL at random |
//! | [`counted`] | what was removed is counted once |
//! | [`calls`], [`vfs`] | the Nth call of a file or of the server fails |
//! | [`disk`] | full, read-only, somebody else's |
//! | [`edits`], [`fading`], [`folding`] | memories that change while they are removed, fade, are asked about or folded |
//! | [`entities`] | points in a collection beside the memories, which list them |
//! | [`points`] | the census of a store whose points are its rows |
//! | [`snapshot`], [`restoring`], [`by_hand`] | VACUUM and pairs; restores; undo and forget |

#![allow(let_underscore_drop, reason = "an answer that a test does not look at")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::disallowed_methods,
    clippy::match_bool,
    reason = "a test may fail loudly, say what it did, and write files that need no durability"
)]

#[path = "../support/mod.rs"]
mod support;

mod agent;
mod by_hand;
mod calls;
mod census;
mod checker;
mod counted;
mod disk;
mod edits;
mod entities;
mod fading;
mod folding;
mod kills;
mod points;
mod restoring;
mod seed;
mod snapshot;
mod vfs;

/// What the environment sets for these tests.
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
