//! The systemd units and what a package ships beside the program.

use std::collections::BTreeSet;
use std::process::{Command, Output as ProcessOutput};

use crate::dashboards::{file, have};
use crate::support::{Backend, DAY, Output, World, hypnos, now, write};

const UNITS: [&str; 3] = ["hypnos.service", "hypnos-run.service", "hypnos-run.timer"];

/// The worst exposure that is allowed, in tenths.
const EXPOSURE: &str = "15";

fn unit(name: &str) -> String {
    std::fs::read_to_string(file("systemd").join(name)).expect(name)
}

/// A folder with the units, starting this build of hypnos.
fn units() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in UNITS {
        let text = unit(name).replace("/usr/bin/hypnos", env!("CARGO_BIN_EXE_hypnos"));
        write(&dir.path().join(name), &text);
    }
    dir
}

fn systemd_analyze(args: &[&str], dir: &tempfile::TempDir) -> ProcessOutput {
    Command::new("systemd-analyze")
        .args(args)
        .current_dir(dir.path())
        .output()
        .unwrap()
}

#[test]
fn systemd_accepts_the_units() {
    if !have("systemd-analyze") {
        return;
    }
    let dir = units();
    let paths = UNITS.map(|name| format!("./{name}"));
    let mut args = vec!["verify", "--man=no"];
    args.extend(paths.iter().map(String::as_str));
    let verified = systemd_analyze(&args, &dir);
    assert!(
        verified.status.success() && verified.stderr.is_empty(),
        "{verified:?}"
    );
}

#[test]
fn the_services_are_as_little_exposed_as_they_say() {
    if !have("systemd-analyze") {
        return;
    }
    let dir = units();
    for service in &UNITS[..2] {
        let path = format!("./{service}");
        let threshold = format!("--threshold={EXPOSURE}");
        let judged = systemd_analyze(&["security", "--offline=true", &threshold, &path], &dir);
        assert!(
            judged.status.success(),
            "{service}: {}",
            String::from_utf8_lossy(&judged.stdout)
        );
    }
}

#[test]
fn both_services_are_restrained_alike() {
    let restraints = |name| {
        let text = unit(name);
        let (_, rest) = text.split_once("UMask=").expect("UMask");
        rest.split("[Install]").next().unwrap().trim().to_owned()
    };
    assert_eq!(restraints(UNITS[0]), restraints(UNITS[1]));
}

/// The system calls of a group of systemd, those of the groups in it too.
fn system_calls(group: &str) -> BTreeSet<String> {
    let output = Command::new("systemd-analyze")
        .args(["syscall-filter", group])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut calls = BTreeSet::new();
    for word in text
        .lines()
        .skip(1)
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
    {
        if word.starts_with('@') {
            calls.extend(system_calls(word));
        } else if !word.is_empty() {
            calls.insert(word.to_owned());
        }
    }
    calls
}

/// Without systemd as the first process the filter itself cannot be set, but what hypnos calls can be held against it.
#[test]
fn a_run_makes_no_system_call_that_the_units_forbid() {
    if !have("systemd-analyze") || !have("strace") {
        return;
    }
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    for _ in 0..30 {
        world.memory("ana", now() - DAY, None);
    }
    world.memory("ana", now() - 40 * DAY, Some(7));
    let trace = world.path("trace");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&trace);
    strace
        .arg(env!("CARGO_BIN_EXE_hypnos"))
        .arg("--config")
        .arg(world.path("hypnos.toml"))
        .arg("--run-now");
    let ran = Output::of(&mut strace);
    if ran.stderr.contains("ptrace") {
        println!("tracing is not permitted here: not tested");
        return;
    }
    let _ = ran.expect(0);
    let trace = std::fs::read_to_string(&trace).unwrap();
    let made: BTreeSet<String> = trace
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1)?.split_once('('))
        .map(|(call, _)| call.to_owned())
        .collect();
    assert!(made.contains("openat") && made.len() > 20, "{made:?}");
    // As root, and only as root, SQLite gives its log to the owner of the database.
    let mut allowed = system_calls("@system-service");
    let made = &made - &BTreeSet::from(["fchown".to_owned()]);
    for forbidden in ["@privileged", "@resources"] {
        allowed = &allowed - &system_calls(forbidden);
    }
    let refused: Vec<&String> = made.difference(&allowed).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// No new privileges, no capability, and files for their owner alone: what can be had without systemd.
#[test]
fn a_run_needs_no_privilege() {
    if !have("setpriv") {
        return;
    }
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    let expired = world.memory("ana", now() - 40 * DAY, Some(7));
    let mut command = Command::new("setpriv");
    command
        .args(["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"])
        .args(["sh", "-c", "umask 0077; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_hypnos"))
        .arg("--config")
        .arg(world.path("hypnos.toml"))
        .arg("--run-now");
    let ran = Output::of(&mut command);
    if ran.stderr.contains("setpriv:") {
        println!("capabilities cannot be dropped here: not tested");
        return;
    }
    let _ = ran.expect(0);
    assert!(!world.ids().contains(&expired));
}

#[test]
fn man_pages_and_completions_are_of_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Output::of(hypnos().args(args).current_dir(dir.path())).expect(0);
    let _ = run(&["generate", "man", "."]);
    let pages: BTreeSet<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in ["hypnos.1", "hypnos-check.1", "hypnos-review-confirm.1"] {
        assert!(pages.contains(page), "{page} is not among {pages:?}");
    }
    assert!(
        pages.iter().all(|page| !page.contains("generate")),
        "{pages:?}"
    );
    let main = std::fs::read_to_string(dir.path().join("hypnos.1")).unwrap();
    assert!(main.contains("run\\-now") && main.contains("78"), "{main}");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["generate", "completions", shell]).stdout;
        assert!(
            script.contains("run-now") && script.contains("review"),
            "{shell}"
        );
    }
    let nowhere = Output::of(hypnos().args(["generate", "man", "/nowhere"])).expect(1);
    assert!(nowhere.stderr.contains("/nowhere"), "{nowhere:#?}");
    assert!(
        !Output::of(hypnos().arg("--help"))
            .expect(0)
            .stdout
            .contains("generate")
    );
}
