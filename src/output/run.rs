//! How a run and a dry run are shown: JSON objects, or lines and a table.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use crate::engine::Observer;
use crate::guard::Refusal;
use crate::plan::{Action, ActionKind, Plan, Question, Tally};
use crate::report::{Outcome, PassReport, RunReport, Unopened};
use crate::state::{Intent, IntentRecord};

use super::Out;
use super::findings::explain;
use super::words::counted;
use lines::{BegunLine, PlanLine, ReplayLine, RunLine};

mod lines;

pub(crate) use lines::ActionLine;

/// Prints each pass as it ends, and the whole at the end.
pub struct Printer<'a> {
    out: &'a mut Out,
    quiet: bool,
}

impl<'a> Printer<'a> {
    /// Prints to `out`; `quiet` leaves out passes that had nothing to do.
    pub fn new(out: &'a mut Out, quiet: bool) -> Self {
        Self { out, quiet }
    }

    /// Prints the end of a run.
    pub fn finish(&mut self, report: &RunReport, dry_run: bool) {
        if self.out.json {
            self.out.object("run", &RunLine::of(report, dry_run));
        } else {
            if self.out.terminal && !report.passes.is_empty() {
                let table = table(report, dry_run);
                self.out.lines(&table.to_string());
            }
            for resumed in &report.restores {
                self.out.line(&resumed.to_string());
            }
            for unread in &report.unfinished {
                self.out.line(&format!(
                    "unfinished: {}: {}",
                    unread.partition, unread.problem
                ));
            }
            if !self.quiet {
                self.out.line(&closing(report, dry_run));
            }
        }
        self.out.flush();
    }

    fn notes(&mut self, report: &PassReport, refusal: fn(&Refusal) -> String) {
        for line in notes(report, refusal) {
            self.out.line(&format!("  {line}"));
        }
    }
}

impl Observer for Printer<'_> {
    fn begun(&mut self, store: &str, partition: &str, intents: &[IntentRecord]) {
        if self.out.json {
            let line = ReplayLine {
                store,
                partition,
                actions: intents.iter().map(BegunLine::of).collect(),
            };
            self.out.object("replay", &line);
            return;
        }
        for record in intents {
            self.out.line(&describe_begun(store, record));
        }
    }

    fn planned(&mut self, plan: &Plan, report: &PassReport) {
        if self.out.json {
            self.out.object("plan", &PlanLine::of(plan, report));
            return;
        }
        for action in &plan.actions {
            self.out.line(&describe(plan, action));
        }
        let hash = report
            .hash
            .as_ref()
            .map(|hash| format!("  plan {hash}"))
            .unwrap_or_default();
        for upkeep in &plan.upkeep {
            self.out
                .line(&format!("{}  {}  {upkeep}", plan.store, plan.pass));
        }
        let planned = counts(&report.planned).unwrap_or_else(|| "nothing to do".into());
        self.out.line(&format!(
            "{}  {}  would: {planned}{hash}",
            plan.store, plan.pass
        ));
        self.notes(report, would_be_refused);
    }

    fn passed(&mut self, report: &PassReport) {
        if self.out.json {
            self.out.object("pass", report);
            return;
        }
        if self.quiet && report.outcome == Outcome::Idle && report.findings.is_empty() {
            return;
        }
        // On a terminal the table at the end has the counts.
        if !self.out.terminal {
            self.out.line(&summary(report));
        }
        if !self.out.terminal || notes(report, refused).next().is_some() {
            if self.out.terminal {
                self.out.line(&format!("{}  {}", report.store, report.pass));
            }
            self.notes(report, refused);
        }
    }

    fn unopened(&mut self, store: &Unopened) {
        if self.out.json {
            self.out.object("error", store);
        } else {
            self.out
                .line(&format!("{}  not opened: {}", store.store, store.error));
            if let Some(hint) = &store.hint {
                self.out.line(&format!("  hint: {hint}"));
            }
        }
    }
}

/// One pass in one line.
fn summary(report: &PassReport) -> String {
    let PassReport {
        store,
        pass,
        outcome,
        freed_bytes,
        seconds,
        ..
    } = report;
    let mut line = format!("{store}  {pass}  {outcome}");
    let parts = [
        ("", &report.applied),
        ("skipped ", &report.skipped),
        ("failed ", &report.failed),
        ("left over ", &report.residue),
    ];
    for (name, tally) in parts {
        if let Some(counts) = counts(tally) {
            let _ = write!(line, "  {name}{counts}");
        }
    }
    if *freed_bytes > 0 {
        let _ = write!(line, "  {freed_bytes} bytes given back");
    }
    let _ = write!(line, "  {seconds:.2} s");
    line
}

fn refused(refusal: &Refusal) -> String {
    format!("refused: {refusal}")
}

fn would_be_refused(refusal: &Refusal) -> String {
    let (bound, accept) = (refusal.bound(), &refusal.accept);
    format!("would be refused: {bound}; accept it with --run-now --accept {accept}")
}

/// What a person should know beside the counts; `refusal` words one.
fn notes(report: &PassReport, refusal: fn(&Refusal) -> String) -> impl Iterator<Item = String> {
    let refusal = report.refusal.iter().map(refusal);
    let error = report.error.iter().map(|error| format!("error: {error}"));
    let hint = report.hint.iter().map(|hint| format!("hint: {hint}"));
    let findings = report
        .findings
        .iter()
        .map(|(finding, count)| explain(*finding, *count));
    let unread = report
        .unread
        .iter()
        .map(|unread| format!("{}: {}", unread.partition, unread.problem));
    let degraded = report.degraded.iter().map(|why| format!("degraded: {why}"));
    refusal
        .chain(error)
        .chain(hint)
        .chain(degraded)
        .chain(findings)
        .chain(unread)
}

/// `120 delete, 3 drop_point`; `None` when there is nothing.
#[must_use]
pub fn counts(tally: &Tally<ActionKind>) -> Option<String> {
    let parts: Vec<String> = tally
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn describe(plan: &Plan, action: &Action) -> String {
    let mut line = format!(
        "{}  {}  {}  {}",
        plan.store,
        plan.pass,
        action.kind(),
        action.namespace()
    );
    if let Some(target) = action.target() {
        let _ = write!(line, "  {}", target.memory.id);
        for hidden in &target.behind {
            let _ = write!(line, " and {}", hidden.id);
        }
    }
    let _ = match action {
        Action::Merge { survivor, .. } => write!(line, " into {}", survivor.id),
        Action::DropPoint { point, .. } => write!(line, "  {point}"),
        Action::Unlink { point, ids, .. } => {
            let without = if ids.is_empty() { "" } else { " without" };
            let _ = write!(line, "  {point}{without}");
            ids.iter().try_for_each(|id| write!(line, " {id}"))
        }
        Action::Queue { question, .. } => write!(line, "  {}", ids(question).join(" ")),
        Action::Close { entry, .. } => write!(line, "  entry #{entry}"),
        Action::Delete { .. } | Action::Hide { .. } | Action::Confirm { .. } => Ok(()),
    };
    let _ = write!(line, "  {}", action.reason());
    line
}

fn ids(question: &Question) -> Vec<String> {
    question
        .members
        .iter()
        .map(|member| member.id.to_string())
        .collect()
}

fn describe_begun(store: &str, record: &IntentRecord) -> String {
    let IntentRecord {
        run,
        pass,
        intent,
        undo,
        ..
    } = record;
    let verb = if undo.is_some() {
        "would first take back"
    } else {
        "would first finish"
    };
    let namespace = intent.namespace.as_ref().map_or("-", |ns| ns.as_str());
    let mut line = format!("{store}  {pass}  {verb}  {}  {namespace}", intent.kind);
    for id in memories_of(intent).into_iter().chain(points_of(intent)) {
        let _ = write!(line, "  {id}");
    }
    let _ = write!(line, "  {}, of run {run}", intent.reason);
    line
}

/// The memory of an intent, and those hidden behind it.
fn memories_of(intent: &Intent) -> Vec<String> {
    let memories = intent.memory.iter().chain(&intent.behind);
    memories.map(ToString::to_string).collect()
}

/// The points of an intent that is about no memory.
fn points_of(intent: &Intent) -> Vec<String> {
    let points = intent.points.iter().filter(|_| intent.memory.is_none());
    points.map(ToString::to_string).collect()
}

fn table(report: &RunReport, dry_run: bool) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let header = if dry_run {
        vec!["store", "pass", "outcome", "planned"]
    } else {
        vec![
            "store", "pass", "outcome", "planned", "applied", "skipped", "failed", "left",
            "seconds",
        ]
    };
    table.set_header(header);
    let cell = |tally| counts(tally).unwrap_or_else(|| "-".into());
    for pass in &report.passes {
        let mut row = vec![pass.store.to_string(), pass.pass.to_string()];
        if dry_run {
            row.push(if pass.outcome == Outcome::Refused {
                "would be refused".into()
            } else {
                "planned".into()
            });
            row.push(cell(&pass.planned));
        } else {
            row.push(pass.outcome.to_string());
            row.extend(
                [
                    &pass.planned,
                    &pass.applied,
                    &pass.skipped,
                    &pass.failed,
                    &pass.residue,
                ]
                .map(cell),
            );
            row.push(format!("{:.2}", pass.seconds));
        }
        table.add_row(row);
    }
    if let Some(seconds) = table.column_mut(8) {
        seconds.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn closing(report: &RunReport, dry_run: bool) -> String {
    let outcome = if dry_run {
        "dry run: nothing was changed"
    } else {
        report.outcome()
    };
    let replayed = match report.replayed {
        0 => String::new(),
        n => format!(
            ", after finishing {} of an earlier run",
            counted(n, "action", "actions")
        ),
    };
    format!(
        "run {}: {outcome}{replayed}  {:.2} s",
        report.run, report.seconds
    )
}
