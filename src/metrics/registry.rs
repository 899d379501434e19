//! Figures as a page of Prometheus' text format: the one place that writes metrics.
//!
//! A page is made anew from the figures each time it is asked for, and the figures of a store's state files change at once:
//! no scrape sees the totals of this night beside the ages of the last. Every series of every store is on it from the start.

use std::collections::BTreeMap;

use prometheus::proto::{Counter, Gauge, LabelPair, Metric as Sample, MetricFamily, MetricType};
use prometheus::{TEXT_FORMAT, TextEncoder};

use super::journal::{Journal, count, sum};
use super::names::{Drift, Kind, Metric, Part, State};
use super::{Figures, Known, Pair, StoreFigures, survey};
use crate::clock::Timestamp;
use crate::pass::PassName;
use crate::plan::{ActionKind, QuestionKind};
use crate::report::Outcome;
use crate::state::{ActionResult, PassRow};

/// The `Content-Type` of a page.
pub const CONTENT_TYPE: &str = TEXT_FORMAT;

/// The results that an action can have in a run; what was taken back later is a metric of its own.
pub(super) const RESULTS: [ActionResult; 3] = [
    ActionResult::Applied,
    ActionResult::Skipped,
    ActionResult::Failed,
];

/// Writes the page for an instant.
pub(super) fn page(figures: &Figures, now: Timestamp) -> String {
    let mut page = Page::default();
    page.put(Metric::BuildInfo, &[env!("CARGO_PKG_VERSION")], 1.0);
    page.put(Metric::NextRun, &[], seconds(figures.next_run));
    for (store, figures) in &figures.stores {
        let mut of_store = Writer {
            page: &mut page,
            store,
        };
        of_store.journal(figures, now);
        of_store.stores(figures);
    }
    page.text()
}

/// The samples of each metric.
#[derive(Default)]
struct Page(BTreeMap<Metric, Vec<Sample>>);

impl Page {
    fn put(&mut self, metric: Metric, labels: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), metric.labels().len(), "{metric}");
        let pairs = metric.labels().iter().zip(labels).map(|(label, value)| {
            let mut pair = LabelPair::default();
            pair.set_name(label.name().to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        let mut sample = Sample::from_label(pairs.collect());
        match metric.kind() {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                sample.set_counter(counter);
            }
            Kind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                sample.set_gauge(gauge);
            }
        }
        self.0.entry(metric).or_default().push(sample);
    }

    fn text(self) -> String {
        let families: Vec<MetricFamily> = self.0.into_iter().map(family).collect();
        // It refuses families without a name or a sample, and these have both.
        TextEncoder::new()
            .encode_to_string(&families)
            .unwrap_or_else(|error| {
                tracing::error!(%error, "write the metrics");
                String::new()
            })
    }
}

fn family((metric, samples): (Metric, Vec<Sample>)) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(metric.name().to_owned());
    family.set_help(metric.help().to_owned());
    family.set_field_type(match metric.kind() {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
    });
    family.set_metric(samples);
    family
}

/// Puts the samples of one store.
struct Writer<'a> {
    page: &'a mut Page,
    store: &'a str,
}

impl Writer<'_> {
    fn put(&mut self, metric: Metric, labels: &[&str], value: f64) {
        let mut all = Vec::with_capacity(1 + labels.len());
        all.push(self.store);
        all.extend(labels);
        self.page.put(metric, &all, value);
    }

    fn journal(&mut self, figures: &StoreFigures, now: Timestamp) {
        let journal = &figures.journal;
        let last = journal.figure(|journal| seconds(journal.last_success));
        self.put(Metric::RunLastSuccess, &[], last);
        let open = figures.open_intents.value(|open| *open);
        self.put(Metric::OpenIntents, &[], open);
        for pass in PassName::ALL {
            self.pass(journal, pass);
        }
        for drift in Drift::ALL {
            let count = journal.value(|journal| journal.drift(drift));
            self.put(Metric::Drift, &[drift.as_str()], count);
        }
        for kind in QuestionKind::ALL {
            let count = journal.value(|journal| journal.waiting(kind, now).0);
            let age = journal.figure(|journal| {
                let (_, since) = journal.waiting(kind, now);
                since.map_or(0.0, |since| {
                    now.duration_since(since).as_secs_f64().max(0.0)
                })
            });
            self.put(Metric::QueueEntries, &[kind.as_str()], count);
            self.put(Metric::QueueOldestAge, &[kind.as_str()], age);
        }
    }

    fn pass(&mut self, journal: &Known<Journal>, pass: PassName) {
        let name = pass.as_str();
        for outcome in Outcome::ALL {
            let key = (pass, outcome.as_str().to_owned());
            let count = journal.value(|journal| known(journal.outcomes.get(&key)));
            self.put(Metric::PassRuns, &[name, outcome.as_str()], count);
        }
        let success = journal.figure(|journal| seconds(journal.successes.get(&pass).copied()));
        self.put(Metric::PassLastSuccess, &[name], success);
        let refusals = journal.value(|journal| known(journal.refusals.get(&pass)));
        self.put(Metric::GuardRefusals, &[name], refusals);
        let undone = journal.value(|journal| journal.results(pass, ActionResult::Undone));
        self.put(Metric::Undo, &[name], undone);
        let took = journal.figure(|journal| look(journal, pass).map_or(0.0, |look| look.seconds));
        self.put(Metric::PassDuration, &[name], took);
        let residual = |journal: &Journal| look(journal, pass).map_or(0, |look| sum(&look.residue));
        self.put(Metric::ResidualActions, &[name], journal.value(residual));
        for action in ActionKind::ALL {
            let planned = |journal: &Journal| {
                look(journal, pass).map_or(0, |look| count(&look.planned, action.as_str()))
            };
            let labels = [name, action.as_str()];
            self.put(Metric::PlannedActions, &labels, journal.value(planned));
            for result in RESULTS {
                let key = (pass, action, result);
                let done = journal.value(|journal| known(journal.actions.get(&key)));
                let labels = [name, action.as_str(), result.as_str()];
                self.put(Metric::Actions, &labels, done);
            }
        }
    }

    fn stores(&mut self, figures: &StoreFigures) {
        let rows = |of: &dyn Fn(&survey::Rows) -> u64| figures.rows.value(of);
        for state in State::ALL {
            let count = rows(&|rows| rows.memories.get(&state).copied().unwrap_or_default());
            self.put(Metric::Memories, &[state.as_str()], count);
        }
        self.put(Metric::RowsSize, &[], rows(&|rows| rows.size));
        self.put(Metric::RowsFree, &[], rows(&|rows| rows.free));
        self.put(Metric::WalSize, &[], rows(&|rows| rows.wal));
        self.put(Metric::Points, &[], figures.points.value(|points| *points));
        let pair = &figures.pair;
        // A night that finds the newest pair still true takes no other.
        let confirmed = figures
            .journal()
            .and_then(|journal| journal.successes.get(&PassName::Snapshot).copied());
        let described = pair.map(|pair| pair.taken_at.max(confirmed.unwrap_or_default()));
        self.put(Metric::SnapshotLastSuccess, &[], seconds(described));
        for part in Part::ALL {
            let size = |pair: &Pair| match part {
                Part::Rows => pair.rows_bytes,
                Part::Vectors => pair.vectors_bytes,
            };
            let bytes = number(pair.as_ref().map_or(0, size));
            self.put(Metric::SnapshotSize, &[part.as_str()], bytes);
        }
    }
}

impl<T> Known<T> {
    /// A figure of it: 0 before anybody asked, and no number when it was asked for and could never be read.
    fn figure(&self, of: impl FnOnce(&T) -> f64) -> f64 {
        match self {
            Self::NotAsked => 0.0,
            Self::Unknown => f64::NAN,
            Self::Is(value) => of(value),
        }
    }

    /// The same, of a count.
    fn value(&self, of: impl FnOnce(&T) -> u64) -> f64 {
        self.figure(|value| number(of(value)))
    }
}

/// What a pass did when it last looked at the stores.
fn look(journal: &Journal, pass: PassName) -> Option<&PassRow> {
    journal.looks.get(&pass)
}

/// A count; what was never counted is 0.
fn known(count: Option<&u64>) -> u64 {
    count.copied().unwrap_or_default()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus has no other numbers; whole ones are exact up to 2^53"
)]
fn number(count: u64) -> f64 {
    count as f64
}

/// An instant in seconds since 1970; 0 for never.
fn seconds(at: Option<Timestamp>) -> f64 {
    at.map_or(0.0, |at| at.as_duration().as_secs_f64())
}
