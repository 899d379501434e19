//! A run and its actions as JSON has them.

use serde::Serialize;

use super::{ids, points_of};
use crate::clock::Timestamp;
use crate::pass::PassName;
use crate::plan::{Action, ActionKind, Mark, Plan, QuestionKind, Reason, Unread, Upkeep};
use crate::report::{PassReport, RunReport};
use crate::snapshot::restore::Resumed;
use crate::state::IntentRecord;

#[derive(Serialize)]
pub(super) struct RunLine<'a> {
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
    pub(super) fn of(report: &'a RunReport, dry_run: bool) -> Self {
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
pub(super) struct ReplayLine<'a> {
    pub(super) store: &'a str,
    pub(super) partition: &'a str,
    pub(super) actions: Vec<BegunLine<'a>>,
}

#[derive(Serialize)]
pub(super) struct BegunLine<'a> {
    run: &'a str,
    pass: PassName,
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<&'a str>,
    #[serde(flatten)]
    action: ActionLine<'a>,
}

impl<'a> BegunLine<'a> {
    pub(super) fn of(record: &'a IntentRecord) -> Self {
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
pub(super) struct PlanLine<'a> {
    #[serde(flatten)]
    report: &'a PassReport,
    actions: Vec<ActionLine<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    upkeep: &'a [Upkeep],
}

impl<'a> PlanLine<'a> {
    pub(super) fn of(plan: &'a Plan, report: &'a PassReport) -> Self {
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
