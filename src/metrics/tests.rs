//! Pages of figures that no store had.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::SignedDuration;
use serde_json::json;

use super::journal::Waiting;
use super::names::{Drift, Kind, Metric, State};
use super::*;
use crate::plan::{ActionKind, QuestionKind};
use crate::state::{ActionResult, Partition, PassRow, Total};

fn now() -> Timestamp {
    "2026-11-30T03:00:00Z".parse().unwrap()
}

fn before(hours: i64) -> Timestamp {
    now() - SignedDuration::from_hours(hours)
}

fn config(stores: &[&str]) -> Config {
    let store = |name: &&str| {
        format!(
            "[[store]]\nname = '{name}'\n[store.rows]\npath = '/nowhere/{name}.db'\npreset = 'ttl-days'\n"
        )
    };
    let text = format!(
        "state_dir = '/nowhere/state'\nsnapshot_dir = '/nowhere/pairs'\n{}",
        stores.iter().map(store).collect::<String>()
    );
    config::parse(
        &text,
        Path::new("/nowhere/hypnos.toml"),
        &config::Env::default(),
    )
    .unwrap()
}

fn one(change: impl FnOnce(&mut StoreFigures)) -> String {
    let metrics = Metrics::new(&config(&["agent"]), now());
    change(metrics.lock().stores.get_mut("agent").unwrap());
    metrics.render(now())
}

fn value<'a>(page: &'a str, series: &str) -> &'a str {
    let mut lines = page.lines().filter_map(|line| line.strip_prefix(series));
    let value = lines
        .next()
        .unwrap_or_else(|| panic!("{series} is not in\n{page}"));
    assert_eq!(lines.next(), None, "{series} is there twice");
    value.trim()
}

fn seconds(at: Timestamp) -> String {
    at.as_second().to_string()
}

fn look(pass: PassName) -> PassRow {
    PassRow {
        pass,
        outcome: "partial".into(),
        succeeded: false,
        finished_at: before(1),
        seconds: 2.5,
        planned: json!({"drop_point": 5, "delete": 2}),
        applied: json!({"drop_point": 3, "delete": 2}),
        skipped: json!({}),
        failed: json!({"drop_point": 2}),
        residue: json!({"drop_point": 2, "delete": 1}),
        findings: json!({"point_without_row": 4, "unlinked_point": 3, "unlinked_to_drop": 1, "unreadable": 7}),
        refusal: None,
        plan_hash: None,
        error: None,
    }
}

#[test]
fn every_metric_and_every_series_is_there_at_zero_from_the_start() {
    let page = Metrics::new(&config(&["agent", "other"]), now()).render(now());
    for metric in Metric::ALL {
        let name = metric.name();
        let kind = match metric.kind() {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        assert!(page.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
        assert!(
            page.contains(&format!("# HELP {name} {}\n", metric.help())),
            "{name}"
        );
    }
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let mut series = BTreeSet::new();
    for sample in samples {
        let (name, value) = sample.rsplit_once(' ').unwrap();
        assert!(series.insert(name), "{name} is there twice");
        let expected = if name.starts_with("hypnos_build_info") {
            "1"
        } else {
            "0"
        };
        assert_eq!(value, expected, "{name}");
    }
    let passes = PassName::ALL.len();
    let per_store = [
        passes * 6,                         // pass_runs
        passes * 5,                         // by pass alone
        passes * ActionKind::ALL.len() * 4, // planned, and three results
        3 + Drift::ALL.len() + 2 * 4 + 2,   // memories, drift, queue, pair
        7,                                  // by store alone
    ];
    assert_eq!(series.len(), 2 + 2 * per_store.iter().sum::<usize>());
}

#[test]
fn figures_of_the_journal_are_told_as_they_are() {
    let page = one(|figures| {
        let mut journal = Journal {
            last_success: Some(before(24)),
            ..Journal::default()
        };
        journal.successes.insert(PassName::Ttl, before(2));
        journal.outcomes.insert((PassName::Ttl, "failed".into()), 3);
        journal.refusals.insert(PassName::Decay, 1);
        for (count, result) in (1..).zip(ActionResult::ALL) {
            let key = (PassName::Orphans, ActionKind::DropPoint, result);
            journal.actions.insert(key, count);
        }
        journal
            .looks
            .insert(PassName::Orphans, look(PassName::Orphans));
        journal.looks.insert(
            PassName::Ttl,
            PassRow {
                findings: json!({"unreadable": 9}),
                ..look(PassName::Ttl)
            },
        );
        figures.journal = Known::Is(journal);
        figures.open_intents = Known::Is(8);
    });
    for (series, expected) in [
        (
            r#"hypnos_run_last_success_timestamp_seconds{store="agent"}"#,
            seconds(before(24)).as_str(),
        ),
        (
            r#"hypnos_pass_last_success_timestamp_seconds{store="agent",pass="ttl"}"#,
            seconds(before(2)).as_str(),
        ),
        (
            r#"hypnos_pass_last_success_timestamp_seconds{store="agent",pass="decay"}"#,
            "0",
        ),
        (
            r#"hypnos_pass_runs_total{store="agent",pass="ttl",outcome="failed"}"#,
            "3",
        ),
        (
            r#"hypnos_guard_refusals_total{store="agent",pass="decay"}"#,
            "1",
        ),
        (
            r#"hypnos_actions_total{store="agent",pass="orphans",action="drop_point",result="applied"}"#,
            "1",
        ),
        (
            r#"hypnos_actions_total{store="agent",pass="orphans",action="drop_point",result="skipped"}"#,
            "2",
        ),
        (
            r#"hypnos_actions_total{store="agent",pass="orphans",action="drop_point",result="failed"}"#,
            "3",
        ),
        (r#"hypnos_undo_total{store="agent",pass="orphans"}"#, "4"),
        (
            r#"hypnos_planned_actions{store="agent",pass="orphans",action="delete"}"#,
            "2",
        ),
        (
            r#"hypnos_residual_actions{store="agent",pass="orphans"}"#,
            "3",
        ),
        (
            r#"hypnos_pass_duration_seconds{store="agent",pass="orphans"}"#,
            "2.5",
        ),
        (r#"hypnos_open_intents{store="agent"}"#, "8"),
        // Seen and left, and planned and not done; what several passes see is one.
        (
            r#"hypnos_drift{store="agent",kind="point_without_row"}"#,
            "5",
        ),
        (r#"hypnos_drift{store="agent",kind="unlinked_point"}"#, "4"),
        (r#"hypnos_drift{store="agent",kind="unreadable_time"}"#, "9"),
    ] {
        assert_eq!(value(&page, series), expected, "{series}");
    }
    assert!(!page.contains("undone"));
}

#[test]
fn what_was_put_off_does_not_wait_and_ages_move_with_the_clock() {
    let waiting = |hours, snoozed_until| Waiting {
        kind: QuestionKind::Stale,
        since: before(hours),
        snoozed_until,
    };
    let metrics = Metrics::new(&config(&["agent"]), now());
    let journal = Journal {
        questions: vec![
            waiting(100, Some(before(-1))),
            waiting(50, Some(before(1))),
            waiting(10, None),
        ],
        ..Journal::default()
    };
    metrics.lock().stores.get_mut("agent").unwrap().journal = Known::Is(journal);
    let figures = |now| {
        let page = metrics.render(now);
        let of = |name: &str| {
            value(&page, &format!("{name}{{store=\"agent\",kind=\"stale\"}}")).to_owned()
        };
        (
            of("hypnos_queue_entries"),
            of("hypnos_queue_oldest_age_seconds"),
        )
    };
    assert_eq!(figures(now()), ("2".to_owned(), "180000".to_owned()));
    assert_eq!(figures(before(-1)), ("3".to_owned(), "363600".to_owned()));
    assert_eq!(figures(before(60)).1, "0", "a clock that was set back");
}

#[test]
fn what_could_never_be_read_is_no_number_and_what_was_read_stays() {
    let memories = r#"hypnos_memories{store="agent",state="live"}"#;
    let unknown = one(|figures| {
        figures.rows.learn(None);
        figures.points.learn(None);
    });
    assert_eq!(value(&unknown, memories), "NaN");
    assert_eq!(value(&unknown, r#"hypnos_points{store="agent"}"#), "NaN");
    let known = one(|figures| {
        figures.rows.learn(None);
        figures.rows.learn(Some(survey::Rows {
            memories: [(State::Live, 12)].into(),
            ..survey::Rows::default()
        }));
        figures.rows.learn(None);
    });
    assert_eq!(value(&known, memories), "12");
    assert_eq!(
        value(&known, r#"hypnos_memories{store="agent",state="expired"}"#),
        "0"
    );
}

#[test]
fn a_store_that_cannot_be_read_fails_nothing() {
    let config = config(&["agent"]);
    let metrics = Metrics::new(&config, now());
    metrics.survey(&config, now(), &Stop::default());
    let page = metrics.render(now());
    assert_eq!(
        value(&page, r#"hypnos_rows_size_bytes{store="agent"}"#),
        "NaN"
    );
    assert_eq!(
        value(&page, r#"hypnos_points{store="agent"}"#),
        "0",
        "it has no vector store"
    );
}

#[test]
fn a_new_configuration_keeps_what_is_known_of_the_stores_that_stay() {
    let metrics = Metrics::new(&config(&["agent", "old"]), now());
    for own in metrics.lock().stores.values_mut() {
        own.rows = Known::Is(survey::Rows {
            size: 5,
            ..survey::Rows::default()
        });
    }
    metrics.set_next_run(Some(now()));
    metrics.reconfigure(&config(&["agent", "new"]), now());
    let page = metrics.render(now());
    let size = |store| {
        value(
            &page,
            &format!("hypnos_rows_size_bytes{{store=\"{store}\"}}"),
        )
        .to_owned()
    };
    assert_eq!((size("agent"), size("new")), ("5".into(), "0".into()));
    assert!(!page.contains("\"old\""));
    let next = value(&page, "hypnos_next_run_timestamp_seconds");
    assert_eq!(next, seconds(now()));
}

/// A process that starts must not show 0 where the one before it showed a total: that is a counter that was reset.
#[test]
fn totals_are_there_from_the_first_page_and_a_damaged_state_file_is_no_number() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&["agent"]);
    dir.path().join("state").clone_into(&mut config.state_dir);
    let state_dir = StateDir::new(&config.state_dir, "agent");
    let state = state_dir.open(Partition::Main).unwrap();
    let total = Total {
        pass: PassName::Ttl,
        action: ActionKind::Delete,
        result: ActionResult::Applied,
        count: 7,
    };
    state.count("by hand", &[total]).unwrap();
    drop(state);
    let series =
        r#"hypnos_actions_total{store="agent",pass="ttl",action="delete",result="applied"}"#;
    let page = Metrics::new(&config, now()).render(now());
    assert_eq!(value(&page, series), "7");

    let file = config.state_dir.join("agent/main.db");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[..16].fill(b'x');
    crate::durable::replace(&file, &bytes, 0o600).unwrap();
    let page = Metrics::new(&config, now()).render(now());
    for series in [
        series,
        r#"hypnos_run_last_success_timestamp_seconds{store="agent"}"#,
        r#"hypnos_open_intents{store="agent"}"#,
        r#"hypnos_queue_entries{store="agent",kind="stale"}"#,
        r#"hypnos_drift{store="agent",kind="unreadable_time"}"#,
    ] {
        assert_eq!(value(&page, series), "NaN", "{series}");
    }
}
