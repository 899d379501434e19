//! How a run and a dry run are shown: JSON objects, or lines and a table.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use crate::clock::Timestamp;
use crate::engine::Observer;
use crate::guard::Refusal;
use crate::pass::PassName;
use crate::plan::{
    Action, ActionKind, Finding, Mark, Plan, Question, QuestionKind, Reason, Tally, Unread, Upkeep,
};
use crate::report::{Outcome, PassReport, RunReport, Unopened};
use crate::snapshot::restore::Resumed;
use crate::state::{Intent, IntentRecord};

use super::Out;
use super::words::counted;

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

/// How often something was found, and what it means.
#[must_use]
pub fn explain(finding: Finding, count: u64) -> String {
    let (one, many) = meaning(finding);
    counted(count, one, many)
}

/// What a finding means, after the number one and after others.
fn meaning(finding: Finding) -> (&'static str, &'static str) {
    match finding {
        Finding::Unreadable => (
            "time that decides cannot be read: that memory is kept",
            "times that decide cannot be read: those memories are kept",
        ),
        Finding::WithoutNamespace => (
            "row names no owner: left alone",
            "rows name no owner: left alone",
        ),
        Finding::WithoutKey => (
            "row has no usable key: left alone",
            "rows have no usable key: left alone",
        ),
        Finding::Blocked => (
            "memory cannot be removed without breaking or taking along others: left alone",
            "memories cannot be removed without breaking or taking along others: left alone",
        ),
        Finding::RowWithoutPoint => ("live row has no point", "live rows have no point"),
        Finding::PointWithoutRow => (
            "point has no row, and stays for now",
            "points have no row, and stay for now",
        ),
        Finding::UnlinkedPoint => (
            "point names no row, and stays for now",
            "points name no row, and stay for now",
        ),
        Finding::UnlinkedToDrop => (
            "of the points to be dropped names no row",
            "of the points to be dropped name no row",
        ),
        Finding::PointWithoutNamespace => (
            "point names no namespace: left alone",
            "points name no namespace: left alone",
        ),
        Finding::PointWithoutKey => (
            "point has no usable key, or shares one: left alone",
            "points have no usable key, or share one: left alone",
        ),
        Finding::StalePoint => (
            "point has another text than its row: its vector is not compared",
            "points have another text than their rows: their vectors are not compared",
        ),
        Finding::BrokenChain => (
            "superseded memory points at one that is gone",
            "superseded memories point at one that is gone",
        ),
        Finding::UnreadNamespace => (
            "point belongs to rows that could not be read: left alone",
            "points belong to rows that could not be read: left alone",
        ),
        Finding::RuleMismatch => (
            "point is of a namespace where no point fits a row: is point_id right? left alone",
            "points are of namespaces where no point fits a row: is point_id right? left alone",
        ),
        Finding::WithoutVector => (
            "live memory has no vector that can be compared",
            "live memories have no vector that can be compared",
        ),
        Finding::KeptApart => (
            "pair is near enough to be one memory, and differs in a number, a name or a negation: kept apart",
            "pairs are near enough to be one memory, and differ in a number, a name or a negation: kept apart",
        ),
        Finding::Undated => (
            "live memory does not say when it was written: compared with none for contradictions",
            "live memories do not say when they were written: compared with none for contradictions",
        ),
        Finding::OverBudget => (
            "memory has faded, and stays until enough of its namespace may go again",
            "memories have faded, and stay until enough of their namespace may go again",
        ),
        Finding::DeadLink => (
            "point lists memories that are not there, or nothing that can be read, and stays so for now",
            "points list memories that are not there, or nothing that can be read, and stay so for now",
        ),
        Finding::StrayChild => (
            "row of another table belongs to a memory that is not there",
            "rows of other tables belong to memories that are not there",
        ),
        Finding::LoggedWithoutPoint => (
            "memory lives by the application's log, and has no point",
            "memories live by the application's log, and have no point",
        ),
        Finding::PointWithoutLog => (
            "memory is not in the application's log",
            "memories are not in the application's log",
        ),
        Finding::LoggedDeleted => (
            "memory is there, and was deleted by the application's log",
            "memories are there, and were deleted by the application's log",
        ),
        Finding::LoggedOtherwise => (
            "memory has another text than the application's log says last",
            "memories have another text than the application's log says last",
        ),
        Finding::Settling => (
            "absence was seen too recently to be believed",
            "absences were seen too recently to be believed",
        ),
    }
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

#[derive(Serialize)]
struct RunLine<'a> {
    run: &'a str,
    outcome: &'static str,
    exit: u8,
    started_at: Timestamp,
    seconds: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    restores: &'a [Resumed],
    replayed: u64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unfinished: &'a [Unread],
    dry_run: bool,
}

impl<'a> RunLine<'a> {
    fn of(report: &'a RunReport, dry_run: bool) -> Self {
        Self {
            run: &report.run,
            outcome: report.outcome(),
            exit: report.exit().code(),
            started_at: report.started_at,
            seconds: report.seconds,
            restores: &report.restores,
            replayed: report.replayed,
            unfinished: &report.unfinished,
            dry_run,
        }
    }
}

#[derive(Serialize)]
struct ReplayLine<'a> {
    store: &'a str,
    partition: &'a str,
    actions: Vec<BegunLine<'a>>,
}

#[derive(Serialize)]
struct BegunLine<'a> {
    run: &'a str,
    pass: PassName,
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<&'a str>,
    #[serde(flatten)]
    action: ActionLine<'a>,
}

impl<'a> BegunLine<'a> {
    fn of(record: &'a IntentRecord) -> Self {
        let IntentRecord {
            run,
            pass,
            intent,
            undo,
            ..
        } = record;
        let namespace = intent.namespace.as_ref().map_or("", |ns| ns.as_str());
        let listed = |is_so: bool| {
            let ids = intent.behind.iter().filter(|_| is_so);
            ids.map(ToString::to_string).collect()
        };
        let action = ActionLine {
            id: intent.memory.as_ref().map(ToString::to_string),
            point: points_of(intent).pop(),
            behind: listed(intent.memory.is_some()),
            ids: listed(intent.memory.is_none()),
            into: intent
                .survivor
                .as_ref()
                .map(|survivor| survivor.id.to_string()),
            ..ActionLine::new(intent.kind, namespace, &intent.partition, intent.reason)
        }
        .marked(intent.mark.as_ref());
        Self {
            run,
            pass: *pass,
            undo: undo.as_deref(),
            action,
        }
    }
}

#[derive(Serialize)]
struct PlanLine<'a> {
    #[serde(flatten)]
    report: &'a PassReport,
    actions: Vec<ActionLine<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    upkeep: &'a [Upkeep],
}

impl<'a> PlanLine<'a> {
    fn of(plan: &'a Plan, report: &'a PassReport) -> Self {
        Self {
            report,
            actions: plan.actions.iter().map(ActionLine::of).collect(),
            upkeep: &plan.upkeep,
        }
    }
}

/// An action as JSON has it.
#[derive(Serialize)]
pub(crate) struct ActionLine<'a> {
    action: ActionKind,
    namespace: &'a str,
    /// Left out for a point whose tenant has no file.
    #[serde(skip_serializing_if = "str::is_empty")]
    partition: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    point: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    behind: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_to: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    into: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<QuestionKind>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<i64>,
    reason: Reason,
}

impl<'a> ActionLine<'a> {
    fn new(action: ActionKind, namespace: &'a str, partition: &'a str, reason: Reason) -> Self {
        Self {
            action,
            namespace,
            partition,
            id: None,
            point: None,
            behind: Vec::new(),
            valid_to: None,
            deleted_at: None,
            confirmed_at: None,
            into: None,
            kind: None,
            ids: Vec::new(),
            entry: None,
            reason,
        }
    }

    pub(crate) fn of(action: &'a Action) -> Self {
        let mut line = Self {
            into: action.survivor().map(|survivor| survivor.id.to_string()),
            kind: action.question().map(|question| question.kind),
            ids: action.question().map(ids).unwrap_or_default(),
            ..Self::new(
                action.kind(),
                action.namespace().as_str(),
                action.partition(),
                action.reason(),
            )
        };
        if let Some(target) = action.target() {
            line.id = Some(target.memory.id.to_string());
            let hidden = target.behind.iter().map(|hidden| hidden.id.to_string());
            line.behind = hidden.collect();
        }
        match action {
            Action::DropPoint { point, .. } => line.point = Some(point.to_string()),
            Action::Unlink { point, ids, .. } => {
                line.point = Some(point.to_string());
                line.ids = ids.iter().map(ToString::to_string).collect();
            }
            Action::Close { entry, .. } => line.entry = Some(*entry),
            _ => {}
        }
        line.marked(action.mark())
    }

    /// Says which instant a mark writes.
    fn marked(mut self, mark: Option<&Mark>) -> Self {
        match mark {
            Some(Mark::Ended { at }) => self.valid_to = Some(*at),
            Some(Mark::Deleted { at }) => self.deleted_at = Some(*at),
            Some(Mark::Confirmed { at }) => self.confirmed_at = Some(*at),
            Some(Mark::Superseded { .. }) | None => {}
        }
        self
    }
}
