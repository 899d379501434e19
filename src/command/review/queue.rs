//! The queue as a list.

use serde::Serialize;

use super::super::{state_failure, wants_namespace};
use super::texts::{MemoryLine, Texts, contexts};
use crate::cli::ReviewArgs;
use crate::clock::{self, Timestamp};
use crate::config::{self, Config};
use crate::engine;
use crate::error::Failure;
use crate::exit::Exit;
use crate::memory::{Namespace, printable};
use crate::output::words::counted;
use crate::output::{Out, memory};
use crate::plan::{QuestionKind, Reason};
use crate::state::{Answer, Entry, Partition, StateDir, StateError};

/// An entry as JSON has it.
#[derive(Serialize)]
struct EntryLine<'a> {
    store: &'a str,
    entry: i64,
    kind: QuestionKind,
    namespace: &'a Namespace,
    partition: &'a str,
    reason: Reason,
    queued_at: Timestamp,
    age_seconds: i64,
    run: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    snoozed_until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<&'a str>,
    memories: Vec<MemoryLine>,
}

/// Prints the queue of a store.
pub(super) fn print(
    config: &Config,
    store: &config::Store,
    args: &ReviewArgs,
    namespace: Option<&Namespace>,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let now = clock::now();
    let mut entries =
        read(config, store, args.all).map_err(|error| state_failure(&store.name, &error))?;
    entries.retain(|entry| {
        let question = &entry.question;
        (args.kind.is_empty() || args.kind.contains(&question.kind))
            && wants_namespace(namespace, &question.namespace)
    });
    let before = entries.len();
    entries.retain(|entry| args.all || entry.snoozed_until.is_none_or(|until| until <= now));
    let snoozed = before - entries.len();
    let texts = Texts::read(store, entries.iter());
    if !out.json {
        out.line(&title(&store.name, entries.len(), snoozed));
    }
    for entry in &entries {
        let memories = texts.of(entry, now);
        if out.json {
            out.object("entry", &line(store, entry, memories, now));
        } else {
            print_entry(entry, &memories, now, out);
        }
    }
    for (partition, problem) in &texts.unread {
        tracing::warn!(store = store.name, %partition, problem, "memories cannot be read");
    }
    Ok(if texts.unread.is_empty() {
        Exit::Done
    } else {
        Exit::LeftOver
    })
}

fn read(config: &Config, store: &config::Store, all: bool) -> Result<Vec<Entry>, StateError> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    let Some(state) = dir.read(Partition::Main)? else {
        return Ok(Vec::new());
    };
    engine::place::mention(&state, store);
    if all {
        state.entries(&QuestionKind::ALL)
    } else {
        state.open_entries()
    }
}

fn title(store: &str, shown: usize, snoozed: usize) -> String {
    let shown = match shown {
        0 => "nothing waits".to_owned(),
        n => counted(n as u64, "entry", "entries"),
    };
    let snoozed = match snoozed {
        0 => String::new(),
        n => format!(", {n} snoozed (--all shows them)"),
    };
    format!("{store}: {shown}{snoozed}")
}

fn line<'a>(
    store: &'a config::Store,
    entry: &'a Entry,
    memories: Vec<MemoryLine>,
    now: Timestamp,
) -> EntryLine<'a> {
    EntryLine {
        store: &store.name,
        entry: entry.id,
        kind: entry.question.kind,
        namespace: &entry.question.namespace,
        partition: &entry.question.partition,
        reason: entry.reason,
        queued_at: entry.queued_at,
        age_seconds: now.duration_since(entry.queued_at).as_secs(),
        run: &entry.run,
        snoozed_until: entry.snoozed_until,
        answer: entry.answered.map(|(answer, _)| answer),
        answered_at: entry.answered.map(|(_, at)| at),
        answered_by: entry.answered_by.as_deref(),
        memories,
    }
}

fn print_entry(entry: &Entry, memories: &[MemoryLine], now: Timestamp, out: &mut Out) {
    let question = &entry.question;
    let state = match (entry.answered, entry.snoozed_until) {
        (Some((answer, at)), _) => format!("  {answer} at {at:.0}"),
        (None, Some(until)) if until > now => format!("  snoozed until {until:.0}"),
        (None, _) => String::new(),
    };
    let head = format!(
        "{:>6}  {:<13}  {}  {}  {}{state}",
        format!("#{}", entry.id),
        question.kind.as_str(),
        question.namespace,
        memory::age(now.duration_since(entry.queued_at)),
        entry.reason
    );
    out.line(&printable(&head));
    let width = memory::width(out);
    for (shown, context) in memories.iter().zip(contexts(memories)) {
        let before = format!("        {}  ", shown.head());
        let text = shown.text.as_deref().unwrap_or_default();
        out.line(&memory::line(&before, text, width));
        if let Some(context) = context {
            out.line(&memory::line("          context  ", context, width));
        }
    }
}
