//! The `hypnos` command.

fn main() {}
