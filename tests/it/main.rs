//! Integration tests: the hypnos binary on real stores, one module a subject.

#![allow(let_underscore_drop, reason = "an answer that a test does not look at")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test may fail loudly, say what it did, and write files that need no durability"
)]

#[path = "../support/mod.rs"]
mod support;

mod chains;
mod check;
mod config;
mod contradictions;
mod dashboards;
mod decay;
mod demo;
mod dry_run;
mod duplicates;
mod entities;
mod evaluate;
mod forget;
mod forget_server;
mod frameworks;
mod guard;
mod init;
mod interrupt;
mod links;
mod lock;
mod mem0;
mod metrics;
mod moved;
mod night;
mod odd_schemas;
mod open_webui;
mod openmemory;
mod output;
mod owners;
mod pairs;
mod points;
mod points_only;
mod presets;
mod qdrant;
mod qdrant_snapshot;
mod real_stores;
mod replay;
mod restore;
mod review;
mod row_stores;
mod rows;
mod schema_versions;
mod scopes;
mod serve;
mod shared_collection;
mod sightings;
mod snapshot;
mod status;
mod tenants;
mod times;
mod undo;
mod units;
mod vacuum;
mod why;

/// A file in this folder that no `mod` line names would never run.
#[test]
fn no_test_file_is_forgotten() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            module == "main" || main.contains(&format!("mod {module};")),
            "{name} is not in main.rs"
        );
    }
}
