//! Hypnos: the night shift of an AI agent's memory.

pub mod clock;
pub mod config;
pub mod demo;
pub mod memory;
pub mod pass;
pub mod plan;
pub mod stop;
pub mod store;
