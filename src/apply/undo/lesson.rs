//! What a night learns from being taken back: without it the next one would do the same again.
//!
//! | taken back | remembered as |
//! | --- | --- |
//! | a duplicate that was folded into another memory | a question about the two that was answered `kept`: they stay apart as long as both say what they say |
//! | a faded memory | a question about it that was answered `kept`, which counts as a use |
//! | the answer to a question | the question, open again |
//!
//! What has expired, or belongs to nobody, is taken again for the reason that still stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::failpoint::{Failpoint, hit};
use crate::memory::MemoryId;
use crate::pass::member;
use crate::plan::{Member, Question, QuestionKind, Reason};
use crate::state::{Answer, IntentRecord};
use crate::store::rows::Writer;

use super::super::{ApplyError, Job};

/// Remembers it, in the main state file; gives the questions that are open again.
pub(super) fn remember(
    job: &Job<'_>,
    writer: Option<&Writer>,
    back: &[&IntentRecord],
) -> Result<Vec<i64>, ApplyError> {
    let main = job.states.main();
    let mut reopened = Vec::new();
    let mut decided: BTreeMap<&str, Vec<(Question, Reason)>> = BTreeMap::new();
    for record in back {
        if let Reason::Answered { entry } = record.intent.reason {
            reopened.extend(main.reopen(&record.run, Some(entry))?);
        }
        let question = writer.map(|writer| question(writer, record)).transpose()?;
        if let Some(question) = question.flatten() {
            let by = record.undo.as_deref().unwrap_or(job.run);
            decided.entry(by).or_default().push(question);
        }
    }
    for (run, questions) in decided {
        hit(Failpoint::QueueBefore)?;
        main.decide(run, &questions, Answer::Kept, job.now)?;
        hit(Failpoint::QueueWritten)?;
    }
    Ok(reopened)
}

/// The question that is answered by taking an action back; `None` where there is none to remember.
fn question(
    writer: &Writer,
    record: &IntentRecord,
) -> Result<Option<(Question, Reason)>, ApplyError> {
    let intent = &record.intent;
    let (Some(memory), Some(namespace)) = (&intent.memory, &intent.namespace) else {
        return Ok(None);
    };
    let (kind, reason, ids) = match (intent.reason, &intent.survivor) {
        (Reason::Duplicate { .. }, Some(survivor)) => {
            let pair = vec![memory.clone(), survivor.id.clone()];
            (QuestionKind::Similar, Reason::Similar { members: 2 }, pair)
        }
        (Reason::Faded { since }, _) => (
            QuestionKind::Unused,
            Reason::Unused { since },
            vec![memory.clone()],
        ),
        _ => return Ok(None),
    };
    let members = members(writer, &ids)?;
    // A memory that is not there any more can neither be folded into nor fade.
    if members.len() < ids.len() {
        return Ok(None);
    }
    let question = Question {
        kind,
        partition: Arc::clone(&intent.partition),
        namespace: namespace.clone(),
        members: members.into(),
    };
    Ok(Some((question, reason)))
}

fn members(writer: &Writer, ids: &[MemoryId]) -> Result<Vec<Member>, ApplyError> {
    let memories = writer.memories(&member::ROLES, ids)?;
    let mut members: Vec<Member> = memories.iter().filter_map(member::member).collect();
    members.sort();
    Ok(members)
}
