//! Hypnos: the night shift of an AI agent's memory.
//!
//! ```text
//! config -> stores -> lock -> run id -> replay open intents
//!   per store, per pass:  View(now) -> plan -> [a dry run stops here] -> guard -> apply -> re-plan -> PassReport
//! RunReport -> journal, output, exit code
//! ```
//!
//! # Layout
//!
//! | module | concern |
//! | --- | --- |
//! | [`memory`], [`context`], [`clock`], [`stop`] | domain types and time, no I/O |
//! | [`config`] | what the operator wrote, valid by construction |
//! | [`store`] | the two halves of a store: [`store::rows`] (the truth) and [`store::vectors`] (derived) |
//! | [`state`] | hypnos' own files: lock, journal, intents, pre-images, tombstones, sightings, the queue, what was compared |
//! | [`view`] | what a pass may see |
//! | [`pass`] | one module a pass: decides, never writes |
//! | [`text`] | what two texts say, compared: the merge guard and the signals of a contradiction |
//! | [`evaluation`] | those judgements, measured on labelled pairs |
//! | [`plan`], [`guard`], [`apply`] | a plan as a value, its approval, and the only code that changes a store |
//! | [`snapshot`] | pairs of rows and points: taking, verifying, keeping and putting back |
//! | [`engine`], [`report`], [`exit`] | one run over the stores, and what came of it |
//! | [`schedule`], [`serve`] | when the next run is due, and the daemon that runs it |
//! | [`answer`] | what a person answers to a question of the queue |
//! | [`metrics`] | figures of the nights and the stores, for Prometheus |
//! | [`undo`], [`forget`] | a run that is taken back, an owner that is erased |
//! | [`cli`], [`command`], [`output`] | the command line: the only code that prints |
//! | [`log`] | what is logged, and how |
//! | [`init`] | recognising a store that is there, and configuring it |
//! | [`demo`] | the store that `hypnos demo` builds |
//! | [`panics`] | what happens when the program itself is wrong |
//! | [`pace`] | writing beside an agent that must not notice |
//! | [`durable`], [`failpoint`] | files that survive a power cut, and tests that cut it |
//!
//! Dependencies point one way: `command -> engine -> {pass, guard, apply} -> {plan, view, store, state} -> memory`.
//! A pass imports neither `apply` nor a store that can be written.

#![warn(
    clippy::expect_used,
    clippy::panic,
    clippy::todo,
    clippy::unimplemented,
    reason = "a night does not end in the middle because of what it met"
)]

pub mod answer;
pub mod apply;
pub mod cli;
pub mod clock;
pub mod command;
pub mod config;
pub mod context;
pub mod demo;
pub mod durable;
pub mod engine;
pub mod error;
pub mod evaluation;
pub mod exit;
pub mod failpoint;
pub mod forget;
pub mod guard;
pub mod init;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod output;
pub mod pace;
pub mod panics;
pub mod pass;
pub mod plan;
pub mod report;
pub mod schedule;
pub mod serve;
pub mod snapshot;
pub mod state;
pub mod stop;
pub mod store;
pub mod text;
pub mod undo;
pub mod view;
