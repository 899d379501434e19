//! The life of a memory, and how it is shown.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::Past;
use super::point::Point;
use crate::clock::Timestamp;
use crate::memory::{MemoryId, Moment, Namespace, printable};
use crate::output::run::ActionLine;
use crate::output::{Out, memory};
use crate::pass::PassName;
use crate::pass::decay::{Curve, Strength};
use crate::pass::ttl::{Deadline, deadline};
use crate::plan::{Action, ActionKind, Plan, QuestionKind, Reason};
use crate::state::{Answer, Entry, IntentRecord, Tombstone};
use crate::store::Stores;
use crate::store::rows::Told;

/// What is known of one memory.
#[derive(Debug, Serialize)]
pub(super) struct Life {
    store: Arc<str>,
    partition: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Namespace>,
    id: String,
    /// `None` when there is no such row.
    memory: Option<Now>,
    pub(super) point: Option<Point>,
    pub(super) passes: Vec<Opinion>,
    entries: Vec<Asked>,
    history: Vec<Deed>,
}

/// The memory as its row has it.
#[derive(Debug, Serialize)]
struct Now {
    text: Option<String>,
    memory_type: Option<String>,
    /// As it is written; `unreadable` when it is no text.
    context: Option<String>,
    source: Option<String>,
    created_at: Time,
    updated_at: Time,
    last_used_at: Time,
    confirmed_at: Time,
    expires_at: Time,
    valid_to: Time,
    deleted_at: Time,
    uses: Option<u64>,
    salience: Option<f64>,
    trust: Option<f64>,
    pinned: bool,
    superseded_by: Option<String>,
    supersedes: Option<String>,
    hidden: bool,
    /// When it ceases to hold.
    deadline: Time,
    /// Whether its type never fades, or it is pinned.
    exempt: bool,
    /// How strong it is, in `[0, 1]`, if it fades.
    strength: Option<f64>,
    /// When it will have faded, if nobody uses it.
    fades_at: Option<Timestamp>,
}

/// A time as it is stored: nothing, an instant, or noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Time {
    Known(Option<Timestamp>),
    Unreadable(&'static str),
}

impl Time {
    const UNREADABLE: Self = Self::Unreadable("unreadable");

    fn describe(self) -> Option<String> {
        match self {
            Self::Known(at) => at.map(|at| at.to_string()),
            Self::Unreadable(word) => Some(word.to_owned()),
        }
    }
}

impl From<Moment> for Time {
    fn from(moment: Moment) -> Self {
        match moment {
            Moment::Unreadable => Self::UNREADABLE,
            known => Self::Known(known.latest()),
        }
    }
}

impl From<Deadline> for Time {
    fn from(deadline: Deadline) -> Self {
        match deadline {
            Deadline::Never => Self::Known(None),
            Deadline::At(at) => Self::Known(Some(at)),
            Deadline::Unreadable => Self::UNREADABLE,
        }
    }
}

/// What a pass would do about the memory.
#[derive(Debug, Serialize)]
pub(super) struct Opinion {
    pass: PassName,
    /// As in a plan; none when it leaves the memory alone.
    actions: Vec<Value>,
    #[serde(skip)]
    words: Vec<String>,
    /// Why the pass could not plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A question about the memory.
#[derive(Debug, Serialize)]
struct Asked {
    entry: i64,
    kind: QuestionKind,
    reason: Reason,
    queued_at: Timestamp,
    run: String,
    answer: Option<Answer>,
    answered_at: Option<Timestamp>,
}

/// What was done to the memory.
#[derive(Debug, Serialize)]
struct Deed {
    action: ActionKind,
    pass: PassName,
    /// `None` once the journal has forgotten all but that it was done.
    run: Option<String>,
    reason: Option<Reason>,
    /// `open` while it is not finished.
    outcome: &'static str,
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undone_at: Option<Timestamp>,
    /// The run that took it back; without a time it has only begun to.
    #[serde(skip_serializing_if = "Option::is_none")]
    undone_by: Option<String>,
    /// The memory that it went along with, when it was hidden behind another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<String>,
    /// The point that listed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

impl Life {
    /// What the row tells.
    pub(super) fn new(
        stores: &Stores,
        partition: &Arc<str>,
        id: &MemoryId,
        row: Option<&Told>,
        now: Timestamp,
    ) -> Self {
        Self {
            store: Arc::clone(&stores.name),
            partition: Arc::clone(partition),
            namespace: row.and_then(|row| row.memory.namespace.clone()),
            id: id.to_string(),
            memory: row.map(|row| Now::of(row, stores, now)),
            point: None,
            passes: Vec::new(),
            entries: Vec::new(),
            history: Vec::new(),
        }
    }

    /// Adds what the queue and the journal know.
    pub(super) fn remember(&mut self, asked: &[&Entry], past: &Past) {
        let of_entries = asked.first().map(|entry| &entry.question.namespace);
        let of_intents = past
            .intents
            .iter()
            .find_map(|r| r.intent.namespace.as_ref());
        let known = self.namespace.take();
        self.namespace = known.or_else(|| of_entries.or(of_intents).cloned());
        self.entries = asked.iter().map(|entry| Asked::of(entry)).collect();
        let settled: Vec<Timestamp> = past
            .intents
            .iter()
            .filter_map(|record| record.settled.map(|(_, at)| at))
            .collect();
        // A tombstone outlives its intent: while that is there, it says no more.
        let stones = past.tombstones.iter();
        let stones = stones.filter(|stone| !settled.contains(&stone.at));
        self.history = stones.map(Deed::of_tombstone).collect();
        let deeds = past.intents.iter();
        self.history
            .extend(deeds.map(|record| Deed::of(record, &self.id)));
    }

    /// Shows it.
    pub(super) fn print(&self, out: &mut Out) {
        if out.json {
            out.object("why", self);
            return;
        }
        let namespace = self.namespace.as_ref().map_or("", |ns| ns.as_str());
        let partition = match &*self.partition {
            crate::store::MAIN => String::new(),
            tenant => format!("  in the file of {tenant}"),
        };
        let head = format!("{}  {namespace}  {}{partition}", self.store, self.id);
        out.line(&printable(&head));
        let width = memory::width(out);
        for (label, value) in self.lines() {
            out.line(&memory::line(&format!("  {label:<12}  "), &value, width));
        }
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = match &self.memory {
            Some(now) => now.lines(),
            None => vec![("", "there is no such row now".to_owned())],
        };
        lines.extend(self.point.as_ref().map(|point| ("point", point.describe())));
        lines.extend(
            self.passes
                .iter()
                .map(|opinion| (opinion.pass.as_str(), opinion.describe())),
        );
        lines.extend(self.entries.iter().map(|asked| ("asked", asked.describe())));
        lines.extend(self.history.iter().map(|deed| ("done", deed.describe())));
        lines
    }
}

impl Now {
    fn of(row: &Told, stores: &Stores, now: Timestamp) -> Self {
        let memory = &row.memory;
        let curve = Curve::new(&stores.config.passes.decay);
        let strength = curve.of(memory, now);
        let (level, fades_at) = match strength {
            Strength::Fading { strength, since } => (Some(strength), curve.fades_at(memory, since)),
            Strength::Exempt | Strength::Unreadable => (None, None),
        };
        let shown = |text: &Option<String>| Some(printable(text.as_deref()?).into_owned());
        let id = |id: &Option<MemoryId>| id.as_ref().map(ToString::to_string);
        Self {
            text: shown(&memory.content),
            memory_type: shown(&memory.kind),
            context: shown(&row.context),
            source: shown(&memory.source),
            created_at: memory.created_at.into(),
            updated_at: memory.updated_at.into(),
            last_used_at: memory.last_used_at.into(),
            confirmed_at: memory.confirmed_at.into(),
            expires_at: memory.expires_at.into(),
            valid_to: memory.valid_to.into(),
            deleted_at: memory.deleted_at.into(),
            uses: memory.uses,
            salience: memory.salience,
            trust: memory.trust,
            pinned: memory.pinned,
            superseded_by: id(&memory.superseded_by),
            supersedes: id(&memory.supersedes),
            hidden: memory.is_hidden(now),
            deadline: deadline(memory).into(),
            exempt: strength == Strength::Exempt,
            strength: level,
            fades_at,
        }
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let number = |number: Option<f64>| number.map(|number| number.to_string());
        let flag = |is_set: bool| is_set.then(|| "yes".to_owned());
        let strength = match (self.exempt, self.strength, self.fades_at) {
            (true, _, _) => Some("never fades".to_owned()),
            (_, Some(strength), Some(at)) => Some(format!(
                "{strength:.3}, faded from {at:.0} on if nobody uses it"
            )),
            (_, Some(strength), None) => Some(format!("{strength:.3}")),
            (_, None, _) => Some("a time that decides cannot be read: it does not fade".to_owned()),
        };
        let all = [
            ("text", self.text.clone()),
            ("type", self.memory_type.clone()),
            ("context", self.context.clone()),
            ("source", self.source.clone()),
            ("created", self.created_at.describe()),
            ("updated", self.updated_at.describe()),
            ("last used", self.last_used_at.describe()),
            ("confirmed", self.confirmed_at.describe()),
            ("expires", self.expires_at.describe()),
            ("valid to", self.valid_to.describe()),
            ("deleted", self.deleted_at.describe()),
            ("uses", self.uses.map(|uses| uses.to_string())),
            ("salience", number(self.salience)),
            ("trust", number(self.trust)),
            ("pinned", flag(self.pinned)),
            ("superseded by", self.superseded_by.clone()),
            ("supersedes", self.supersedes.clone()),
            ("hidden", flag(self.hidden)),
            ("deadline", self.deadline.describe()),
            ("strength", strength.filter(|_| !self.hidden)),
        ];
        all.into_iter()
            .filter_map(|(label, value)| Some((label, value?)))
            .collect()
    }
}

impl Opinion {
    /// What of a plan is about the memory.
    pub(super) fn of(
        pass: PassName,
        plan: &Result<Plan, String>,
        partition: &Arc<str>,
        id: &MemoryId,
    ) -> Self {
        let mut opinion = Self {
            pass,
            actions: Vec::new(),
            words: Vec::new(),
            error: None,
        };
        match plan {
            Err(error) => opinion.error = Some(error.clone()),
            Ok(plan) => {
                let actions = plan.actions.iter();
                for action in actions.filter(|action| concerns(action, partition, id)) {
                    let line = serde_json::to_value(ActionLine::of(action));
                    opinion.actions.push(line.unwrap_or_default());
                    opinion.words.push(told(action, id));
                }
            }
        }
        opinion
    }

    fn describe(&self) -> String {
        match (&self.error, &self.words[..]) {
            (Some(error), _) => format!("cannot say: {error}"),
            (None, []) => "leaves it alone".to_owned(),
            (None, words) => format!("would: {}", words.join("; ")),
        }
    }
}

fn concerns(action: &Action, partition: &Arc<str>, id: &MemoryId) -> bool {
    let goes = action.target().is_some_and(|target| {
        target.memory.id == *id || target.behind.iter().any(|hidden| hidden.id == *id)
    });
    let stays = action.survivor().is_some_and(|survivor| survivor.id == *id);
    let is_asked = action
        .question()
        .is_some_and(|question| question.members.iter().any(|member| member.id == *id));
    let is_listed = matches!(action, Action::Unlink { ids, .. } if ids.contains(id));
    action.partition() == partition && (goes || stays || is_asked || is_listed)
}

fn told(action: &Action, id: &MemoryId) -> String {
    let kind = action.kind();
    let reason = action.reason();
    if let Action::Unlink { point, .. } = action {
        return format!("{kind} {point}, {reason}");
    }
    match (action.target(), action.survivor()) {
        (Some(target), Some(survivor)) if survivor.id == *id => {
            format!("{kind} {} in its favour, {reason}", target.memory.id)
        }
        (Some(target), _) if target.memory.id != *id => {
            format!("{kind} it with {}, {reason}", target.memory.id)
        }
        _ => format!("{kind}, {reason}"),
    }
}

impl Asked {
    fn of(entry: &Entry) -> Self {
        Self {
            entry: entry.id,
            kind: entry.question.kind,
            reason: entry.reason,
            queued_at: entry.queued_at,
            run: entry.run.clone(),
            answer: entry.answered.map(|(answer, _)| answer),
            answered_at: entry.answered.map(|(_, at)| at),
        }
    }

    fn describe(&self) -> String {
        let Self {
            entry,
            kind,
            reason,
            queued_at,
            answer,
            answered_at,
            ..
        } = self;
        let answer = match (answer, answered_at) {
            (Some(answer), Some(at)) => format!("{answer} at {at:.0}"),
            _ => "open".to_owned(),
        };
        format!("{queued_at:.0}  entry #{entry}  {kind}  {reason}  {answer}")
    }
}

impl Deed {
    fn of(record: &IntentRecord, id: &str) -> Self {
        let main = record.intent.memory.as_ref().map(ToString::to_string);
        let list = record.intent.points.first().filter(|_| main.is_none());
        Self {
            from: list.map(ToString::to_string),
            action: record.intent.kind,
            pass: record.pass,
            run: Some(record.run.clone()),
            reason: Some(record.intent.reason),
            outcome: record.settled.map_or("open", |(how, _)| how.as_str()),
            at: record.settled.map(|(_, at)| at),
            undone_at: record.undone_at,
            undone_by: record.undo.clone(),
            with: main.filter(|main| main != id),
        }
    }

    fn undone(&self) -> Option<String> {
        let by = self.undone_by.as_ref()?;
        Some(match self.undone_at {
            Some(at) => format!("undone at {at:.0} by run {by}"),
            None => format!("being undone by run {by}"),
        })
    }

    fn of_tombstone(stone: &Tombstone) -> Self {
        Self {
            action: stone.kind,
            pass: stone.pass,
            run: None,
            reason: None,
            outcome: if stone.erased { "erased" } else { "done" },
            at: Some(stone.at),
            undone_at: None,
            undone_by: None,
            with: None,
            from: None,
        }
    }

    fn describe(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.at.map(|at| format!("{at:.0}")));
        parts.push(format!("{} {}", self.pass, self.action));
        parts.extend(self.with.as_ref().map(|with| format!("with {with}")));
        parts.extend(self.from.as_ref().map(|from| format!("from {from}")));
        parts.extend(self.reason.map(|reason| reason.to_string()));
        parts.push(self.outcome.to_owned());
        parts.extend(self.run.as_ref().map(|run| format!("run {run}")));
        parts.extend(self.undone());
        parts.join("  ")
    }
}
