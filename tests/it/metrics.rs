//! The figures of one-shot runs: what the textfile says after each night.

#![expect(
    clippy::float_cmp,
    clippy::cast_precision_loss,
    reason = "counts and seconds are whole, and the same figure is the same"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hypnos::failpoint::Failpoint;

use crate::support::page::Page;
use crate::support::{BACKENDS, Backend, DAY, Output, World, now, open};

/// A store whose runs write their figures to `hypnos.prom`.
fn world(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.configure(
        "[pass.orphans]",
        "[metrics]\ntextfile = \"hypnos.prom\"\n[pass.orphans]",
    );
    world.user("ana", None);
    for _ in 0..30 {
        world.memory("ana", now() - DAY, None);
    }
    world
}

fn page(world: &World) -> Page {
    Page::of_file(&world.path("hypnos.prom"))
}

const LAST_SUCCESS: &str = "hypnos_run_last_success_timestamp_seconds{store=\"agent\"}";

#[test]
fn a_night_is_told_as_it_was() {
    for backend in BACKENDS {
        let mut world = world(backend);
        world.user("gone", Some(now() - DAY));
        for _ in 0..3 {
            world.memory("ana", now() - 40 * DAY, Some(7));
        }
        world.memory("gone", now() - DAY, None);
        world.row("ana", now() - DAY, None);
        let superseded = world.memory("ana", now() - DAY, None);
        world
            .rows()
            .execute(
                "UPDATE memories SET superseded_by = 1 WHERE id = ?1",
                [superseded],
            )
            .unwrap();
        let before = now();
        world.night().expect(0);

        let page = page(&world);
        for (series, value) in [
            (
                "hypnos_actions_total{store=\"agent\",pass=\"ttl\",action=\"delete\",result=\"applied\"}",
                "3",
            ),
            (
                "hypnos_actions_total{store=\"agent\",pass=\"orphans\",action=\"delete\",result=\"applied\"}",
                "1",
            ),
            (
                "hypnos_planned_actions{store=\"agent\",pass=\"ttl\",action=\"delete\"}",
                "3",
            ),
            ("hypnos_residual_actions{store=\"agent\",pass=\"ttl\"}", "0"),
            (
                "hypnos_pass_runs_total{store=\"agent\",pass=\"ttl\",outcome=\"applied\"}",
                "1",
            ),
            (
                "hypnos_pass_runs_total{store=\"agent\",pass=\"decay\",outcome=\"idle\"}",
                "1",
            ),
            ("hypnos_memories{store=\"agent\",state=\"live\"}", "31"),
            ("hypnos_memories{store=\"agent\",state=\"expired\"}", "0"),
            ("hypnos_memories{store=\"agent\",state=\"superseded\"}", "1"),
            ("hypnos_points{store=\"agent\"}", "31"),
            (
                "hypnos_drift{store=\"agent\",kind=\"row_without_point\"}",
                "1",
            ),
            (
                "hypnos_drift{store=\"agent\",kind=\"point_without_row\"}",
                "0",
            ),
            ("hypnos_open_intents{store=\"agent\"}", "0"),
            ("hypnos_undo_total{store=\"agent\",pass=\"ttl\"}", "0"),
        ] {
            assert_eq!(page.get(series), value, "{backend:?} {series}");
        }
        let success = page.number(LAST_SUCCESS);
        assert!(
            success >= before as f64 && success <= now() as f64 + 1.0,
            "{success}"
        );
        let size = fs::metadata(world.path("memory.db")).unwrap().len();
        assert_eq!(
            page.number("hypnos_rows_size_bytes{store=\"agent\"}"),
            size as f64
        );
    }
}

#[test]
fn what_a_run_could_not_take_is_still_there_and_told() {
    let mut world = world(Backend::Sqlite);
    for _ in 0..60 {
        world.memory("ana", now() - 40 * DAY, Some(7));
    }
    world.night().expect(3);
    let page = page(&world);
    for (series, value) in [
        (
            "hypnos_guard_refusals_total{store=\"agent\",pass=\"ttl\"}",
            "1",
        ),
        (
            "hypnos_pass_runs_total{store=\"agent\",pass=\"ttl\",outcome=\"refused\"}",
            "1",
        ),
        ("hypnos_memories{store=\"agent\",state=\"expired\"}", "60"),
        (
            "hypnos_planned_actions{store=\"agent\",pass=\"ttl\",action=\"delete\"}",
            "60",
        ),
        (
            "hypnos_actions_total{store=\"agent\",pass=\"ttl\",action=\"delete\",result=\"applied\"}",
            "0",
        ),
        (LAST_SUCCESS, "0"),
    ] {
        assert_eq!(page.get(series), value, "{series}");
    }
}

#[test]
fn what_names_no_row_counts_as_that_when_its_removal_is_refused() {
    let mut world = world(Backend::Sqlite);
    world.configure(
        r#"point_id = "uuid5(dns, {namespace}::{id})""#,
        r#"point_id = "payload(row)""#,
    );
    world.configure(
        "[metrics]",
        "[guard]\nmin_count = 0\nmax_fraction = 0.01\n[metrics]",
    );
    let ghosts = [(); 5].map(|()| world.ghost("user:ana"));
    let vectors = open(&world.path("vectors.db"));
    for ghost in &ghosts[..3] {
        let sql = "UPDATE points SET payload = '{}' WHERE payload ->> '$.row' = ?1";
        assert_eq!(vectors.execute(sql, [ghost]).unwrap(), 1);
    }
    let night = world.night().expect(3);
    let pass = night.pass("orphans");
    assert_eq!(pass["outcome"], "refused", "{night:#?}");
    assert_eq!(pass["planned"]["drop_point"], 5, "{night:#?}");
    let drift = |page: &Page| {
        ["point_without_row", "unlinked_point"]
            .map(|kind| page.number(&format!("hypnos_drift{{store=\"agent\",kind=\"{kind}\"}}")))
    };
    assert_eq!(drift(&page(&world)), [2.0, 3.0]);
    let hash = pass["hash"].as_str().unwrap();
    world
        .run(&["--run-now", "--json", "--accept", hash])
        .expect(0);
    assert_eq!(drift(&page(&world)), [0.0, 0.0]);
}

#[test]
fn the_file_is_for_everybody_and_replaced_whole() {
    let world = world(Backend::Sqlite);
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "umask 0077; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_hypnos"))
        .arg("--config")
        .arg(world.path("hypnos.toml"))
        .arg("--run-now");
    for _ in 0..2 {
        let _ = Output::of(&mut command).expect(0);
        let mode = fs::metadata(world.path("hypnos.prom"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
    }
    let names = fs::read_dir(world.dir.path()).unwrap();
    let names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_said_after_the_work_was_done() {
    let mut world = world(Backend::Sqlite);
    let expired = world.memory("ana", now() - 40 * DAY, Some(7));
    world.configure("hypnos.prom", "missing/hypnos.prom");
    let night = world.night().expect(1);
    assert!(night.stderr.contains("write the metrics"), "{night:#?}");
    assert_eq!(night.objects("run")[0]["exit"], 0);
    assert!(!world.ids().contains(&expired));
    let _ = world.run(&["--dry-run"]).expect(0);
}

#[test]
fn totals_only_rise_whatever_ends_a_run() {
    let mut world = world(Backend::Sqlite);
    let mut last = BTreeMap::new();
    for (failpoints, code) in [
        ("", Some(0)),
        ("points.removed=return(kill)", None),
        ("", Some(0)),
        ("rows.committed=return(error)", Some(1)),
        ("run.finished=return(kill)", None),
        ("", Some(0)),
    ] {
        for _ in 0..2 {
            world.memory("ana", now() - 40 * DAY, Some(7));
        }
        let night = world.night_with(failpoints);
        assert_eq!(night.code, code, "{failpoints}: {night:#?}");
        let page = page(&world);
        for (series, value) in page.totals() {
            let before = last.insert(series.to_owned(), value).unwrap_or_default();
            assert!(value >= before, "{series} went from {before} to {value}");
        }
    }
    let done =
        "hypnos_actions_total{store=\"agent\",pass=\"ttl\",action=\"delete\",result=\"applied\"}";
    assert_eq!(last[done], 12.0, "each once, whichever run finished it");
}

#[test]
fn a_success_moves_only_with_a_whole_run_that_read_both_halves_again() {
    let mut world = world(Backend::Sqlite);
    world.night().expect(0);
    let first = page(&world).number(LAST_SUCCESS);
    assert!(first > 0.0);
    let ttl = "hypnos_pass_last_success_timestamp_seconds{store=\"agent\",pass=\"ttl\"}";
    let ttl_first = page(&world).number(ttl);

    // Some passes are no night.
    world.run(&["--run-now", "--only", "ttl"]).expect(0);
    assert_eq!(page(&world).number(LAST_SUCCESS), first);
    assert!(page(&world).number(ttl) > ttl_first);

    // A refusal.
    for _ in 0..60 {
        world.memory("ana", now() - 40 * DAY, Some(7));
    }
    world.night().expect(3);
    assert_eq!(page(&world).number(LAST_SUCCESS), first);

    // A store that is away: what only it can tell is not known, and not 0.
    fs::rename(world.path("vectors.db"), world.path("away.db")).unwrap();
    world.night().expect(10);
    assert_eq!(page(&world).number(LAST_SUCCESS), first);
    assert_eq!(page(&world).get("hypnos_points{store=\"agent\"}"), "NaN");
    assert_eq!(
        page(&world).get("hypnos_memories{store=\"agent\",state=\"live\"}"),
        "30"
    );

    fs::rename(world.path("away.db"), world.path("vectors.db")).unwrap();
    world
        .rows()
        .execute("DELETE FROM memories WHERE ttl_days = 7 AND id % 2 = 0", [])
        .unwrap();
    world.night().expect(0);
    assert!(page(&world).number(LAST_SUCCESS) > first);
}

#[test]
fn answers_and_what_was_begun_are_told() {
    let mut world = world(Backend::Sqlite);
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nper_week = 5",
    );
    for _ in 0..8 {
        world.memory("ana", now() - 100 * DAY, None);
    }
    world.night().expect(0);
    let stale = "hypnos_queue_entries{store=\"agent\",kind=\"stale\"}";
    assert_eq!(page(&world).get(stale), "5");
    world.run(&["review", "snooze", "1"]).expect(0);
    world.run(&["review", "keep", "2"]).expect(0);
    world.night().expect(0);
    assert_eq!(page(&world).get(stale), "3");
    let age =
        page(&world).number("hypnos_queue_oldest_age_seconds{store=\"agent\",kind=\"stale\"}");
    assert!((0.0..600.0).contains(&age), "{age}");
    let status = world.run(&["status", "--json"]).expect(0);
    assert_eq!(
        status.objects("status")[0]["queue"],
        serde_json::json!({"stale": 3})
    );
}

/// Whatever goes wrong, and however much is logged: what memories say stays in the store.
#[test]
fn what_a_memory_says_appears_nowhere() {
    let mut world = world(Backend::Sqlite);
    world.user("zoe-secret-tenant", None);
    world.memory("zoe-secret-tenant", now() - 40 * DAY, Some(7));
    world.ghost("user:nobody-known");
    let points = open(&world.path("vectors.db"));
    points
        .execute(
            "UPDATE points SET payload = json_set(payload, '$.text', 'canary')",
            [],
        )
        .unwrap();
    let failpoints = Failpoint::ALL
        .iter()
        .flat_map(|point| ["return(error)", "panic"].map(|action| format!("{point}={action}")));
    let mut outputs = Vec::new();
    for failpoint in std::iter::once(String::new()).chain(failpoints) {
        let output = Output::of(
            world
                .command(&["-vv", "--run-now", "--json"])
                .env("FAILPOINTS", &failpoint),
        );
        outputs.push((failpoint, output));
        world.memory("ana", now() - 40 * DAY, Some(7));
    }
    for args in [
        &["-vv", "--run-now"][..],
        &["-vv", "--dry-run", "--json"],
        &["-vv", "--dry-run"],
        &["-vv", "check", "--json"],
        &["-vv", "check"],
        &["-vv", "status", "--json"],
        &["-vv", "status"],
    ] {
        outputs.push((args.join(" "), world.run(args)));
    }
    // Errors about the very rows.
    world
        .rows()
        .execute_batch(
            "CREATE TRIGGER spoil BEFORE DELETE ON memories BEGIN SELECT raise(ABORT, 'no'); END;
         UPDATE memories SET created_at = 'canary time' WHERE id % 3 = 0;
         UPDATE memories SET superseded_by = 'canary link' WHERE id % 5 = 0;",
        )
        .unwrap();
    for args in [
        &["-vv", "--run-now", "--json"][..],
        &["-vv", "check"],
        &["-vv", "--run-now"],
    ] {
        outputs.push((args.join(" "), world.run(args)));
    }
    assert!(
        outputs.len() > 40
            && outputs
                .iter()
                .any(|(_, output)| output.stderr.contains("panicked"))
    );
    for (what, output) in &outputs {
        for text in [&output.stdout, &output.stderr] {
            assert!(!text.contains("canary"), "{what}: {text}");
        }
    }

    let page = page(&world);
    let allowed = ["agent", env!("CARGO_PKG_VERSION")];
    for (label, value) in page.labels() {
        let is_word = value.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(
            is_word || allowed.contains(&value.as_str()),
            "{label}={value}"
        );
        assert!(
            !value.contains("ana") && !value.contains("zoe"),
            "{label}={value}"
        );
    }
}
