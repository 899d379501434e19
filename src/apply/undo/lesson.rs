//! What a night learns from being taken back: without it the next one would do the same again.
//!
//! | taken back | remembered as |
//! | --- | --- |
//! | duplicates that were folded into another memory | a question about all of them, answered `kept`: apart as long as they say so |
//! | a faded memory | a question about it that was answered `kept`, which counts as a use |
//! | the answer to a question | the question, open again |
//!
//! What has expired, or belongs to nobody, is taken again for the reason that still stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::failpoint::{Failpoint, hit};
use crate::memory::{MemoryId, Namespace};
use crate::pass::member;
use crate::plan::{Member, Question, QuestionKind, Reason};
use crate::state::{Answer, IntentRecord};
use crate::store::rows::Writer;

use super::super::{ApplyError, Job};

/// A question that is answered by taking something back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject<'a> {
    /// The run that takes it back.
    by: &'a str,
    partition: &'a Arc<str>,
    namespace: &'a Namespace,
    /// The memory that the others had been folded into; `None` for one that had faded.
    survivor: Option<&'a MemoryId>,
    /// Since when it had faded.
    since: Option<Timestamp>,
    /// That one.
    faded: Option<&'a MemoryId>,
}

/// Remembers it, in the main state file; gives the questions that are open again.
pub(super) fn remember(
    job: &Job<'_>,
    writer: Option<&Writer>,
    back: &[&IntentRecord],
) -> Result<Vec<i64>, ApplyError> {
    let main = job.states.main();
    let mut reopened = Vec::new();
    for record in back {
        if let Reason::Answered { entry } = record.intent.reason {
            reopened.extend(main.reopen(&record.run, Some(entry))?);
        }
    }
    let mut decided: BTreeMap<&str, Vec<(Question, Reason)>> = BTreeMap::new();
    for (subject, ids) in subjects(job, back) {
        let question = writer.map(|writer| question(writer, &subject, &ids));
        if let Some(question) = question.transpose()?.flatten() {
            decided.entry(subject.by).or_default().push(question);
        }
    }
    for (run, questions) in decided {
        hit(Failpoint::QueueBefore)?;
        main.decide(run, &questions, Answer::Kept, job.now)?;
        hit(Failpoint::QueueWritten)?;
    }
    Ok(reopened)
}

/// What there is to remember, each with the memories that it is about. All that return from one memory stay apart from
/// each other, too.
fn subjects<'a>(
    job: &'a Job<'_>,
    back: &[&'a IntentRecord],
) -> BTreeMap<Subject<'a>, Vec<&'a MemoryId>> {
    let mut subjects: BTreeMap<Subject<'a>, Vec<&'a MemoryId>> = BTreeMap::new();
    for record in back {
        let intent = &record.intent;
        let (Some(memory), Some(namespace)) = (&intent.memory, &intent.namespace) else {
            continue;
        };
        let mut subject = Subject {
            by: record.undo.as_deref().unwrap_or(job.run),
            partition: &intent.partition,
            namespace,
            survivor: None,
            since: None,
            faded: None,
        };
        match (intent.reason, &intent.survivor) {
            (Reason::Duplicate { .. }, Some(survivor)) => subject.survivor = Some(&survivor.id),
            (Reason::Faded { since }, _) => {
                (subject.since, subject.faded) = (Some(since), Some(memory));
            }
            _ => continue,
        }
        let survivor = subject.survivor;
        let ids = subjects
            .entry(subject)
            .or_insert_with(|| survivor.into_iter().collect());
        ids.push(memory);
    }
    subjects
}

/// The question about memories as they are now; `None` where too few of them are there.
fn question(
    writer: &Writer,
    subject: &Subject<'_>,
    ids: &[&MemoryId],
) -> Result<Option<(Question, Reason)>, ApplyError> {
    let ids: Vec<MemoryId> = ids.iter().map(|id| (*id).clone()).collect();
    let memories = writer.memories(&member::ROLES, &ids)?;
    let mut members: Vec<Member> = memories.iter().filter_map(member::member).collect();
    members.sort();
    let (kind, reason, enough) = if let Some(since) = subject.since {
        (QuestionKind::Unused, Reason::Unused { since }, 1)
    } else {
        let members = u32::try_from(members.len()).unwrap_or(u32::MAX);
        (QuestionKind::Similar, Reason::Similar { members }, 2)
    };
    let question = Question {
        kind,
        partition: Arc::clone(subject.partition),
        namespace: subject.namespace.clone(),
        members: members.into(),
    };
    Ok((question.members.len() >= enough).then_some((question, reason)))
}
