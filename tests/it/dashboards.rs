//! The dashboard, the alerts, the README and the page of the metrics against the metrics of the program, and all of them
//! against the real Prometheus where it is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hypnos::metrics::names::{Drift, Label, Metric, Part, State};
use hypnos::pass::PassName;
use hypnos::plan::{ActionKind, QuestionKind};
use hypnos::report::Outcome;
use serde_json::Value;

use crate::support::page::Page;
use crate::support::{Backend, DAY, World, now, write};

mod prometheus;

use prometheus::{Prometheus, serve};

pub(super) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).expect(name)
}

/// Every word of a text that is spelled like the name of a metric.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_word(c));
    words
        .filter(|word| word.starts_with("hypnos_") && !word.ends_with('_'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_metric_is_in_the_code_the_readme_the_dashboard_and_the_alerts() {
    let code: BTreeSet<String> = Metric::ALL.iter().map(ToString::to_string).collect();
    for place in [
        "README.md",
        "docs/metrics.md",
        "dashboards/hypnos.json",
        "dashboards/alerts.yml",
        "dashboards/alerts_test.yml",
    ] {
        assert_eq!(names_in(&text(place)), code, "{place}");
    }
}

#[test]
fn the_page_of_the_metrics_says_of_each_what_its_help_says() {
    let page = text("docs/metrics.md");
    for metric in Metric::ALL {
        let labels: Vec<&str> = metric.labels().iter().map(|label| label.name()).collect();
        let labels = match labels.as_slice() {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(",")),
        };
        let row = format!("| `{metric}{labels}` | {} |\n", metric.help());
        assert!(page.contains(&row), "{row}");
    }
}

/// The panels of the dashboard that show something, those in collapsed rows too.
fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&text("dashboards/hypnos.json")).unwrap();
    let mut panels = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        panels.push(panel.clone());
        panels.extend(panel["panels"].as_array().into_iter().flatten().cloned());
    }
    panels.retain(|panel| panel["type"] != "row");
    panels
}

/// The queries of a panel.
fn queries(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().unwrap();
    targets
        .iter()
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_dashboard_can_be_provisioned() {
    let raw = text("dashboards/hypnos.json");
    let dashboard: Value = serde_json::from_str(&raw).unwrap();
    assert_eq!(dashboard["uid"], "hypnos-night-shift");
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    assert!(dashboard["id"].is_null());
    assert!(!raw.contains("__inputs") && !raw.contains("${DS_"));
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let types: Vec<_> = variables.iter().map(|v| (&v["name"], &v["type"])).collect();
    assert_eq!(
        types,
        [
            (&"datasource".into(), &"datasource".into()),
            (&"store".into(), &"query".into())
        ]
    );
    let mut ids = BTreeSet::new();
    for panel in panels() {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(
            panel["description"].as_str().unwrap().ends_with('.'),
            "{title}"
        );
        let defaults = &panel["fieldConfig"]["defaults"];
        assert!(!defaults["unit"].as_str().unwrap().is_empty(), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        for query in queries(&panel) {
            let is_of_a_store = names_in(&query).iter().any(|name| {
                let metric = Metric::ALL.into_iter().find(|metric| metric.name() == name);
                metric.unwrap().labels().contains(&Label::Store)
            });
            assert_eq!(
                query.contains("store=~\"$store\""),
                is_of_a_store,
                "{title}: {query}"
            );
        }
    }
    assert!(panels().len() >= 20);
}

#[test]
fn no_two_panels_lie_on_the_same_place() {
    let mut taken = BTreeMap::new();
    for panel in panels() {
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            assert!(x < 24, "{}", panel["title"]);
            for y in at("y")..at("y") + at("h") {
                let other = taken.insert((x, y), panel["title"].clone());
                assert_eq!(other, None, "{}", panel["title"]);
            }
        }
    }
}

/// An alert as its file has it: one line for each key, the expression perhaps folded.
struct Alert {
    name: String,
    expr: String,
    rest: String,
}

fn alerts() -> Vec<Alert> {
    let text = text("dashboards/alerts.yml");
    let rules = text.split("- alert: ").skip(1);
    rules
        .map(|rule| {
            let (name, rest) = rule.split_once('\n').unwrap();
            let (_, expr) = rest.split_once("expr: ").unwrap();
            let is_key = |line: &str| {
                ["for:", "labels:"]
                    .iter()
                    .any(|key| line.trim_start().starts_with(key))
            };
            let lines: Vec<&str> = expr.lines().take_while(|line| !is_key(line)).collect();
            Alert {
                name: name.to_owned(),
                expr: lines
                    .join(" ")
                    .trim_start_matches('>')
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" "),
                rest: rest.to_owned(),
            }
        })
        .collect()
}

#[test]
fn every_alert_says_what_to_do_and_is_tested() {
    let alerts = alerts();
    assert!(alerts.len() >= 20);
    let tests = text("dashboards/alerts_test.yml");
    for Alert { name, rest, .. } in &alerts {
        let runbook = rest
            .lines()
            .find_map(|line| line.trim().strip_prefix("runbook: "));
        assert!(runbook.is_some_and(|runbook| runbook.len() > 40), "{name}");
        assert!(
            rest.contains("summary: ") && rest.contains("severity: "),
            "{name}"
        );
        let fires = format!("exp_samples: [{{ labels: '{{alertname=\"{name}\"}}'");
        assert!(tests.contains(&fires), "{name} is never seen to fire");
    }
    let told = format!("has {} alerts", alerts.len());
    assert!(
        text("docs/metrics.md").contains(&told),
        "the page counts other than {}",
        alerts.len()
    );
}

/// The values that a label can have.
fn values(label: &str) -> Vec<&'static str> {
    match label {
        "pass" => PassName::ALL.map(PassName::as_str).to_vec(),
        "outcome" => Outcome::ALL.map(Outcome::as_str).to_vec(),
        "action" => ActionKind::ALL.map(ActionKind::as_str).to_vec(),
        "result" => vec!["applied", "skipped", "failed"],
        "state" => State::ALL.map(State::as_str).to_vec(),
        "part" => Part::ALL.map(Part::as_str).to_vec(),
        "kind" => {
            let drift = Drift::ALL.map(Drift::as_str).into_iter();
            drift
                .chain(QuestionKind::ALL.map(QuestionKind::as_str))
                .collect()
        }
        other => panic!("no label {other}"),
    }
}

#[test]
fn dashboard_and_alerts_ask_only_for_labels_that_exist() {
    let mut expressions: Vec<String> = panels().iter().flat_map(queries).collect();
    expressions.extend(alerts().into_iter().map(|alert| alert.expr));
    let mut seen = 0;
    for expression in expressions {
        for selector in expression.split('{').skip(1) {
            let selector = selector.split('}').next().unwrap();
            for matcher in selector.split("\",") {
                let at = matcher.find(['=', '!']).unwrap();
                let value = matcher[at..]
                    .trim_start_matches(['=', '!', '~'])
                    .trim_matches('"');
                if &matcher[..at] == "store" {
                    continue;
                }
                for word in value.split('|') {
                    assert!(
                        values(&matcher[..at]).contains(&word),
                        "{expression}: {matcher}"
                    );
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 10);
}

/// Whether an outside program is there; says so when it is not.
pub(super) fn have(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        println!("{program} is not installed: not tested with it");
    }
    found
}

fn promtool(args: &[&str], input: Option<&Path>) {
    let mut command = Command::new("promtool");
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(input) = input {
        command.stdin(std::fs::File::open(input).unwrap());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "promtool {args:?}: {output:?}");
}

#[test]
fn promtool_accepts_the_rules_their_tests_and_the_configuration() {
    if !have("promtool") {
        return;
    }
    promtool(&["check", "rules", "dashboards/alerts.yml"], None);
    promtool(&["test", "rules", "dashboards/alerts_test.yml"], None);
    promtool(
        &["check", "config", "dashboards/provisioning/prometheus.yml"],
        None,
    );
}

#[test]
fn prometheus_answers_every_query_about_three_nights_of_one_shot_runs() {
    if !have("prometheus") || !have("promtool") {
        return;
    }
    let mut world = World::new(Backend::Sqlite);
    world.configure(
        "[pass.orphans]",
        "[metrics]\ntextfile = \"hypnos.prom\"\n[pass.orphans]",
    );
    let page = fill(&mut world).path("hypnos.prom");
    world.night().expect(0);
    promtool(&["check", "metrics"], Some(&page));
    let prometheus = Prometheus::scraping(&world, serve(page.clone()));
    for _ in 0..2 {
        prometheus.wait_for_scrapes(2);
        world.memory("ana", now() - 40 * DAY, Some(7));
        world.night().expect(0);
    }
    prometheus.wait_for_scrapes(3);
    assert!(Page::of_file(&page).labels().len() > 100);
    every_query_is_answered(&prometheus);
}

#[test]
fn prometheus_answers_every_query_about_three_nights_of_the_daemon() {
    if !have("prometheus") || !have("promtool") {
        return;
    }
    let mut world = World::new(Backend::Sqlite);
    fill(&mut world).schedule("cron = \"0 3 * * *\"");
    world.set_clock(-3600);
    let mut daemon = world.daemon();
    let prometheus = Prometheus::scraping(&world, daemon.address);
    for night in 0..3 {
        prometheus.wait_for_scrapes(2);
        world.memory("ana", now() - 40 * DAY, Some(7));
        world.set_clock(60 + i64::from(night) * DAY);
        daemon.wait("the count of the run", |daemon| {
            let runs = "hypnos_pass_runs_total{store=\"agent\",pass=\"ttl\",outcome=\"applied\"}";
            daemon.figure(runs) == Some(f64::from(night + 1))
        });
    }
    prometheus.wait_for_scrapes(3);
    let page = world.path("page.prom");
    write(&page, &daemon.get("/metrics").1);
    promtool(&["check", "metrics"], Some(&page));
    every_query_is_answered(&prometheus);
}

/// A store with memories to ask about.
fn fill(world: &mut World) -> &mut World {
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nper_week = 5",
    );
    world.user("ana", None);
    for _ in 0..20 {
        world.memory("ana", now() - 100 * DAY, None);
    }
    world
}

/// Two nights were seen, each of which removed a memory.
fn every_query_is_answered(prometheus: &Prometheus) {
    for panel in panels() {
        for query in queries(&panel) {
            let query = query.replace("$store", ".+");
            assert!(prometheus.series(&query) > 0, "{}: {query}", panel["title"]);
        }
    }
    for Alert { name, expr, .. } in alerts() {
        let _ = prometheus.series(&expr);
        let watched = watched(&expr);
        assert!(prometheus.series(&watched) > 0, "{name}: {watched}");
    }
    let done = "sum(increase(hypnos_actions_total{pass=\"ttl\",result=\"applied\"}[1h]))";
    assert!(prometheus.value(done) > 1.0);
    assert_eq!(prometheus.series("ALERTS{alertstate=\"firing\"}"), 0);
}

/// What an alert watches: its expression without the conditions, which leave no series while all is well.
fn watched(expr: &str) -> String {
    let expr = expr.replace(" > 0)", ")");
    let expr = expr
        .strip_prefix("absent(")
        .map_or(expr.clone(), |of| of.trim_end_matches(')').to_owned());
    let mut depth = 0;
    for (at, c) in expr.char_indices() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            '<' | '>' | '=' | '!' if depth == 0 => return expr[..at].trim().to_owned(),
            _ => {}
        }
    }
    expr
}
