//! `review`: memories that a person should look at again. It asks, and never removes.
//!
//! Asked about are live memories that nobody has confirmed for `stale_after`, oldest first; then, in what is left of the
//! week's entries, those that nothing but a person ever removes (of exempt types, or pinned) and that nobody has used
//! for `unused_after`. No more than `per_week` are put in any seven days over the whole store, in turns: every namespace
//! gets its oldest before any gets its second, and who was asked least lately comes first.
//!
//! A memory was confirmed when its row says so, else when it was written; where the schema has no column that `hypnos
//! review confirm` could set, the answer to an earlier question counts as well. A time that cannot be read asks nothing.
//!
//! The same pass takes questions back, whoever put them: those whose memories are gone, hidden or say something else by
//! now, and those about time that time has answered.

pub mod answers;
mod queue;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::SignedDuration;

use crate::clock::Timestamp;
use crate::config;
use crate::memory::{Memory, MemoryId, Moment, Role, Version};
use crate::plan::{Action, Finding, Plan, Question, QuestionKind, Reason, Unread};
use crate::state::Entry;
use crate::store::rows::{Partition, RowError, Snapshot, Standing};
use crate::view::View;

use super::member::{fingerprint, member};
use super::{Cx, Pass, PassError, PassName};

use queue::{Asked, Queue};
use turns::{Candidate, Candidates};

/// The time in which no more than `per_week` questions are put.
pub const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What decides whether a memory is asked about.
const ROLES: [Role; 8] = [
    Role::Type,
    Role::CreatedAt,
    Role::LastUsedAt,
    Role::ConfirmedAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::SupersededBy,
    Role::Pinned,
];

/// What tells whether a question still stands.
const STANDING: [Role; 7] = [
    Role::Content,
    Role::Type,
    Role::LastUsedAt,
    Role::ConfirmedAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::SupersededBy,
];

/// From so many questions on, a row database without a single row is taken for a wrong file, and not for one whose
/// memories are all gone: an answer that was put off would be asked anew.
const MANY: usize = 10;

/// The pass.
#[derive(Debug)]
pub struct Review;

impl Pass for Review {
    fn name(&self) -> PassName {
        PassName::Review
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = Plan::new(view.name(), PassName::Review);
        let passes = &view.config().passes;
        let week = view.now().checked_sub(WEEK).unwrap_or(Timestamp::MIN);
        let queue = Queue::read(view.state()?.as_ref(), week)?;
        let rule = Rule {
            now: view.now(),
            settings: &passes.review,
            decay: &passes.decay,
            left: u64::from(passes.review.per_week).saturating_sub(queue.put_this_week),
            queue: &queue,
        };
        let mut candidates = Candidates::default();
        let mut read = BTreeSet::new();
        view.each_partition(cx, &mut plan, |plan, partition, snapshot| {
            let seen = rule.look(view, partition, snapshot)?;
            seen.findings
                .into_iter()
                .for_each(|(finding, count)| plan.found(finding, count));
            if seen.rows == 0 && seen.void.len() >= MANY {
                plan.degraded.push(format!(
                    "{} has not a single row, so none of its {} questions is closed: is it the right file?",
                    partition.name,
                    seen.void.len()
                ));
            } else {
                plan.actions.extend(seen.void);
            }
            candidates.append(seen.candidates, rule.left);
            read.insert(Arc::clone(&partition.name));
            Ok(())
        })?;
        plan.actions.extend(abandoned(view, &queue, &plan, &read));
        let chosen = candidates.choose(rule.left, &queue.last_put);
        ask(view, &mut plan, chosen)?;
        Ok(plan)
    }
}

/// What decides, apart from the memory.
struct Rule<'a> {
    now: Timestamp,
    settings: &'a config::Review,
    decay: &'a config::Decay,
    queue: &'a Queue,
    /// How many questions may still be put this week.
    left: u64,
}

/// What was seen in one row database.
#[derive(Default)]
struct Seen {
    rows: u64,
    findings: BTreeMap<Finding, u64>,
    void: Vec<Action>,
    candidates: Candidates,
}

/// What the schema of a row database can tell.
#[derive(Debug, Clone, Copy)]
struct Schema {
    /// Whether a confirmation can be written to the row.
    confirms: bool,
    /// Whether rows say when they were used.
    tells_use: bool,
}

/// What is to be asked about one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Nothing,
    /// A time that decides cannot be read.
    Unreadable,
    Stale(Timestamp),
    Unused(Timestamp),
}

impl Rule<'_> {
    /// Reads one row database: which questions about it have become void, and which could be put.
    fn look(
        &self,
        view: &View<'_>,
        partition: &Partition,
        snapshot: &Snapshot,
    ) -> Result<Seen, RowError> {
        let mut seen = Seen::default();
        let mut present = self.present(partition, snapshot)?;
        present.retain(|id, _| !view.is_gone(&partition.name, id));
        let open = self.queue.open(&partition.name);
        let (void, valid): (Vec<&Entry>, Vec<&Entry>) =
            open.partition(|entry| is_void(entry, &present, self.now));
        seen.void = void.into_iter().map(close).collect();
        let valid: BTreeSet<i64> = valid.into_iter().map(|entry| entry.id).collect();
        let schema = Schema {
            confirms: snapshot.marks().confirmed,
            tells_use: snapshot.knows(Role::LastUsedAt),
        };
        let prints: HashMap<&MemoryId, Version> = present
            .iter()
            .map(|(id, memory)| (id, fingerprint(memory)))
            .collect();
        snapshot.scan(&ROLES, &mut |memory| {
            seen.rows += 1;
            if memory
                .id
                .as_ref()
                .is_some_and(|id| view.is_gone(&partition.name, id))
            {
                return ControlFlow::Continue(());
            }
            let asked = self.queue.asked(&partition.name, memory.id.as_ref());
            let same = asked.filter(|asked| {
                let is_open = asked.answered.is_none();
                Some(&asked.namespace) == memory.namespace.as_ref()
                    && memory.id.as_ref().and_then(|id| prints.get(id)) == Some(&asked.fingerprint)
                    && (!is_open || valid.contains(&asked.entry))
            });
            let same: Vec<&Asked> = same.collect();
            self.visit(&mut seen, schema, partition, memory, &same);
            ControlFlow::Continue(())
        })?;
        Ok(seen)
    }

    /// The memories that questions were ever about, as they are now.
    fn present(
        &self,
        partition: &Partition,
        snapshot: &Snapshot,
    ) -> Result<HashMap<MemoryId, Memory>, RowError> {
        let ids = self.queue.members(&partition.name);
        let memories = snapshot.memories(&STANDING, &ids)?.into_iter();
        Ok(memories
            .filter_map(|memory| Some((memory.id.clone()?, memory)))
            .collect())
    }

    fn visit(
        &self,
        seen: &mut Seen,
        schema: Schema,
        partition: &Partition,
        memory: Memory,
        asked: &[&Asked],
    ) {
        if memory.is_hidden(self.now) {
            return;
        }
        let mut found = |finding| *seen.findings.entry(finding).or_default() += 1;
        let verdict = self.judge(schema, &memory, asked);
        let (kind, since) = match verdict {
            Verdict::Nothing => return,
            Verdict::Unreadable => return found(Finding::Unreadable),
            Verdict::Stale(since) => (QuestionKind::Stale, since),
            Verdict::Unused(since) => (QuestionKind::Unused, since),
        };
        let Some(namespace) = memory.namespace else {
            return found(Finding::WithoutNamespace);
        };
        let Some(id) = memory.id else {
            return found(Finding::WithoutKey);
        };
        let candidate = Candidate {
            since,
            partition: Arc::clone(&partition.name),
            id,
            namespace,
            kind,
        };
        seen.candidates.push(candidate, self.left);
    }

    /// What to ask about a live memory, given what was asked about it as it is, and did not become void.
    fn judge(&self, schema: Schema, memory: &Memory, asked: &[&Asked]) -> Verdict {
        if asked.iter().any(|asked| asked.answered.is_none()) {
            return Verdict::Nothing;
        }
        let Some(mut confirmed) = confirmed(memory) else {
            return Verdict::Unreadable;
        };
        let approved = asked.iter().filter_map(|asked| asked.approved()).max();
        if !schema.confirms {
            confirmed = approved.map_or(confirmed, |at| at.max(confirmed));
        }
        let was_asked = |kind, since| {
            let mut asked = asked.iter();
            asked.any(|asked| asked.kind == kind && asked.since == Some(since))
        };
        let is_stale = self.is_older(confirmed, self.settings.stale_after);
        if is_stale && !was_asked(QuestionKind::Stale, confirmed) {
            return Verdict::Stale(confirmed);
        }
        let is_kept = memory.pinned
            || memory
                .kind
                .as_ref()
                .is_some_and(|kind| self.decay.is_exempt(kind));
        // Who said not long ago that it stays need not say so again.
        let is_settled = approved.is_some_and(|at| !self.is_older(at, self.settings.unused_after));
        if !is_kept || !schema.tells_use || is_settled {
            return Verdict::Nothing;
        }
        match used(memory) {
            None => Verdict::Unreadable,
            Some(used)
                if self.is_older(used, self.settings.unused_after)
                    && !was_asked(QuestionKind::Unused, used) =>
            {
                Verdict::Unused(used)
            }
            Some(_) => Verdict::Nothing,
        }
    }

    fn is_older(&self, since: Timestamp, age: std::time::Duration) -> bool {
        since.checked_add(age).is_ok_and(|until| until <= self.now)
    }
}

/// When a memory was last confirmed, as its row tells; when it was written, if never. `None` when that cannot be read.
fn confirmed(memory: &Memory) -> Option<Timestamp> {
    match memory.confirmed_at {
        Moment::Absent => memory.created_at.latest(),
        confirmed => confirmed.latest(),
    }
}

/// When a memory was last used; when it was written, if never. `None` when that cannot be read.
fn used(memory: &Memory) -> Option<Timestamp> {
    match memory.last_used_at {
        Moment::Absent => memory.created_at.latest(),
        used => used.latest(),
    }
}

/// Whether a question no longer stands: one of its memories is gone, hidden, somebody else's or says something else, or
/// was confirmed or used since.
fn is_void(entry: &Entry, present: &HashMap<MemoryId, Memory>, now: Timestamp) -> bool {
    entry.question.members.iter().any(|member| {
        let Some(memory) = present.get(&member.id) else {
            return true;
        };
        let later = |moment: Moment, than| moment.latest().is_some_and(|at| at > than);
        let is_answered = match entry.reason {
            Reason::Unconfirmed { since } => later(memory.confirmed_at, since),
            Reason::Unused { since } => later(memory.last_used_at, since),
            _ => false,
        };
        is_answered
            || memory.is_hidden(now)
            || memory.namespace.as_ref() != Some(&entry.question.namespace)
            || fingerprint(memory) != member.fingerprint
    })
}

fn close(entry: &Entry) -> Action {
    Action::Close {
        entry: entry.id,
        question: entry.question.clone(),
        reason: Reason::Void,
    }
}

/// Questions about row databases that are no more, and that nobody misses: not those that could not be read, and not
/// those of owners who exist, or of whom nobody can say.
fn abandoned(
    view: &View<'_>,
    queue: &Queue,
    plan: &Plan,
    read: &BTreeSet<Arc<str>>,
) -> Vec<Action> {
    let mut left = queue.all_open();
    left.retain(|entry| {
        let partition = &entry.question.partition;
        !read.contains(partition) && !plan.unread.iter().any(|u| u.partition == *partition)
    });
    if left.is_empty() {
        return Vec::new();
    }
    let Ok(owners) = view.owners() else {
        return Vec::new();
    };
    let lives = |entry: &Entry| {
        owners
            .as_ref()
            .is_some_and(|owners| owners.standing(&entry.question.namespace) == Standing::Living)
    };
    left.into_iter()
        .filter(|entry| !lives(entry))
        .map(close)
        .collect()
}

/// Puts questions about the chosen memories, as they are now.
fn ask(view: &View<'_>, plan: &mut Plan, chosen: Vec<Candidate>) -> Result<(), PassError> {
    let partitions = if chosen.is_empty() {
        Vec::new()
    } else {
        view.partitions()?
    };
    let mut members = HashMap::new();
    for partition in &partitions {
        let here = chosen.iter().filter(|c| c.partition == partition.name);
        let ids: Vec<MemoryId> = here.map(|candidate| candidate.id.clone()).collect();
        if ids.is_empty() {
            continue;
        }
        match view.read(partition, |snapshot| snapshot.memories(&STANDING, &ids)) {
            Ok(memories) => {
                let live = memories
                    .iter()
                    .filter(|memory| !memory.is_hidden(view.now()));
                for member in live.filter_map(member) {
                    members.insert((Arc::clone(&partition.name), member.id.clone()), member);
                }
            }
            Err(error) if partition.tenant.is_some() => {
                plan.unread.push(Unread::of_error(&partition.name, &error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for candidate in chosen {
        let Candidate {
            since,
            partition,
            id,
            namespace,
            kind,
        } = candidate;
        let Some(member) = members.remove(&(Arc::clone(&partition), id)) else {
            continue;
        };
        let reason = match kind {
            QuestionKind::Stale => Reason::Unconfirmed { since },
            _ => Reason::Unused { since },
        };
        let question = Question {
            kind,
            partition,
            namespace,
            members: [member].into(),
        };
        plan.actions.push(Action::Queue { question, reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
