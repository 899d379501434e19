//! The demo: one command, a real store, and a second night that finds nothing.

use crate::support::{Output, hypnos};

#[test]
fn the_demo_does_its_work_once_and_is_idle_after_that() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Output::of(hypnos().current_dir(dir.path()).args(args));
    let first = run(&["demo"]).expect(0);
    for word in ["8 users", "2 teams", "Look next", "ttl", "orphans"] {
        assert!(first.stdout.contains(word), "{word} is not in {first:#?}");
    }
    let second = run(&["demo", "--json"]).expect(0).all_passes("idle");
    assert_eq!(second.objects("pass").len(), hypnos::pass::registry().len());
    let config = dir.path().join("hypnos-demo/hypnos.toml");
    let config = config.to_str().unwrap();
    let check = run(&["--config", config, "check", "--json"]);
    let drift = &check.objects("check")[0]["drift"];
    assert!(
        drift.as_object().unwrap().values().all(|count| count == 0),
        "{check:#?}"
    );
    let _ = run(&["--config", config, "status"]).expect(0);
}

#[test]
fn the_demo_does_not_build_over_somebody_elses_folder() {
    let dir = tempfile::tempdir().unwrap();
    crate::support::write(&dir.path().join("thesis.txt"), "two years of work");
    let refused = Output::of(hypnos().arg("demo").arg(dir.path())).expect(1);
    assert!(
        refused.stderr.contains("demo") || refused.stderr.contains("empty"),
        "{refused:#?}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
