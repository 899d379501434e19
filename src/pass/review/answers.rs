//! What the answer to a question changes, as a plan like any other.
//!
//! A person answers what the queue asked: so an answer holds only for memories that still say what they said when the
//! question was put, and is refused for any other.

use crate::clock::Timestamp;
use crate::memory::{Memory, MemoryId, Role};
use crate::plan::{Action, Finding, Mark, Plan, Question, QuestionKind, Reason, Survivor, Tally};
use crate::state::{Answer, Entry};
use crate::store::rows::{Partition, RowError, Snapshot};
use crate::view::View;

use super::super::member::fingerprint;
use super::super::removal::{self, Candidate};
use super::super::{PassError, PassName};

/// What is read of the memories of a question.
const ROLES: [Role; 6] = [
    Role::Content,
    Role::Type,
    Role::CreatedAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::SupersededBy,
];

/// An answer, with the memories that it names as a person spells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verb {
    /// The memory still holds.
    Confirm,
    /// One memory stands for the others.
    Replace {
        /// The one that stays; `None` for the newest.
        keep: Option<String>,
    },
    /// All of them stay as they are.
    Keep,
    /// A memory is to go.
    Forget {
        /// Which; `None` when there is only one.
        id: Option<String>,
    },
}

impl Verb {
    /// Its name on the command line.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Replace { .. } => "replace",
            Self::Keep => "keep",
            Self::Forget { .. } => "forget",
        }
    }

    /// What the queue writes down.
    #[must_use]
    pub fn answer(&self) -> Answer {
        match self {
            Self::Confirm => Answer::Confirmed,
            Self::Replace { .. } => Answer::Replaced,
            Self::Keep => Answer::Kept,
            Self::Forget { .. } => Answer::Forgotten,
        }
    }

    /// Whether nothing goes from the store, so that its vectors are not needed.
    #[must_use]
    pub fn leaves_all(&self) -> bool {
        matches!(self, Self::Confirm | Self::Keep)
    }
}

/// Why an answer cannot be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The question is about several memories, and the answer is for one.
    #[error("the question is about {ids}: say which")]
    Which {
        /// The memories.
        ids: String,
    },
    /// The answer is not one to this kind of question.
    #[error(
        "a question about one memory is confirmed; here both stay, or one stands for the others"
    )]
    NotOne,
    /// Nothing says which memory stands for the one that is asked about.
    #[error("the question is about one memory: name the one that stands for it")]
    NoOther,
    /// A memory that was named has no part in the question, or does not exist.
    #[error("memory {id} is not one that can be named here")]
    NotThere {
        /// As it was named.
        id: String,
    },
    /// Which memory is the newest cannot be told.
    #[error("which memory is the newest cannot be told: name the one that stays")]
    NoNewest,
    /// A memory is not what it was when the question was put.
    #[error("memory {id} {how} since the question was put")]
    Changed {
        /// The memory.
        id: MemoryId,
        /// What happened to it.
        how: &'static str,
    },
    /// The schema forbids that the memory goes.
    #[error("other rows forbid that the memory goes")]
    Blocked,
    /// The store could not be read.
    #[error(transparent)]
    Pass(#[from] PassError),
}

impl AnswerError {
    /// Whether asking otherwise would help: then it is the command line that is wrong, else the store has moved on.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Which { .. }
            | Self::NotOne
            | Self::NoOther
            | Self::NotThere { .. }
            | Self::NoNewest => true,
            Self::Changed { .. } | Self::Blocked | Self::Pass(_) => false,
        }
    }
}

impl From<RowError> for AnswerError {
    fn from(error: RowError) -> Self {
        Self::Pass(error.into())
    }
}

/// Plans what the answer to an entry changes; nothing, where it changes no row.
///
/// # Errors
///
/// When the answer does not fit the question, its memories have changed, or the store cannot be read.
pub fn plan(view: &View<'_>, entry: &Entry, verb: &Verb) -> Result<Plan, AnswerError> {
    fits(&entry.question, verb)?;
    let partition = view
        .partitions()
        .map_err(PassError::from)?
        .into_iter()
        .find(|partition| partition.name == entry.question.partition)
        .ok_or_else(|| AnswerError::Changed {
            id: entry.question.members[0].id.clone(),
            how: "has gone with its whole file",
        })?;
    let mut plan = Plan::new(view.name(), PassName::Review);
    let reading = Reading {
        view,
        partition: &partition,
        entry,
    };
    // What an answer refuses is no error of the row store: it comes out of the snapshot as a value.
    let actions = view.read(&partition, |snapshot| Ok(reading.actions(snapshot, verb)));
    plan.actions = actions??;
    Ok(plan)
}

/// Whether an answer fits a question, as far as the question alone can tell.
fn fits(question: &Question, verb: &Verb) -> Result<(), AnswerError> {
    let is_one = question.members.len() == 1;
    match verb {
        Verb::Confirm if !is_one => Err(AnswerError::NotOne),
        Verb::Replace { keep: None } if is_one => Err(AnswerError::NoOther),
        Verb::Forget { id: None } if !is_one => {
            let ids: Vec<String> = question.members.iter().map(|m| m.id.to_string()).collect();
            Err(AnswerError::Which {
                ids: ids.join(" and "),
            })
        }
        _ => Ok(()),
    }
}

/// One entry, beside the row database that it is about.
struct Reading<'a> {
    view: &'a View<'a>,
    partition: &'a Partition,
    entry: &'a Entry,
}

impl Reading<'_> {
    fn actions(&self, snapshot: &Snapshot, verb: &Verb) -> Result<Vec<Action>, AnswerError> {
        let memories = self.memories(snapshot)?;
        match verb {
            Verb::Keep => Ok(Vec::new()),
            Verb::Confirm => self.confirm(snapshot, &memories),
            Verb::Forget { id } => self.forget(snapshot, &memories, id.as_deref()),
            Verb::Replace { keep } => self.replace(snapshot, &memories, keep.as_deref()),
        }
    }

    /// The memories of the question, each still what it was.
    fn memories(&self, snapshot: &Snapshot) -> Result<Vec<Memory>, AnswerError> {
        let question = &self.entry.question;
        let mut memories = Vec::with_capacity(question.members.len());
        for member in &question.members {
            let changed = |how| AnswerError::Changed {
                id: member.id.clone(),
                how,
            };
            let memory = snapshot
                .memories(&ROLES, std::slice::from_ref(&member.id))?
                .pop()
                .ok_or_else(|| changed("is gone"))?;
            if memory.is_hidden(self.view.now()) {
                return Err(changed("was hidden"));
            }
            if memory.namespace.as_ref() != Some(&question.namespace)
                || fingerprint(&memory) != member.fingerprint
            {
                return Err(changed("has changed"));
            }
            memories.push(memory);
        }
        Ok(memories)
    }

    fn reason(&self) -> Reason {
        Reason::Answered {
            entry: self.entry.id,
        }
    }

    fn candidates<'m>(&self, memories: impl IntoIterator<Item = &'m Memory>) -> Vec<Candidate> {
        let candidate = |memory: &Memory| {
            Some(Candidate {
                id: memory.id.clone()?,
                namespace: self.entry.question.namespace.clone(),
                reason: self.reason(),
            })
        };
        memories.into_iter().filter_map(candidate).collect()
    }

    fn confirm(
        &self,
        snapshot: &Snapshot,
        memories: &[Memory],
    ) -> Result<Vec<Action>, AnswerError> {
        if !snapshot.marks().confirmed {
            return Ok(Vec::new());
        }
        let at = self.view.now();
        let mark = Mark::Confirmed {
            at: Timestamp::from_second(at.as_second()).unwrap_or(at),
        };
        let targets = removal::alone(snapshot, self.partition, self.candidates(memories))?;
        let confirm = |(target, reason)| Action::Confirm {
            target,
            mark: mark.clone(),
            reason,
        };
        Ok(targets.into_iter().map(confirm).collect())
    }

    fn forget(
        &self,
        snapshot: &Snapshot,
        memories: &[Memory],
        id: Option<&str>,
    ) -> Result<Vec<Action>, AnswerError> {
        let going = match id {
            None => memories.first(),
            Some(id) => Some(named(memories, id)?),
        };
        self.put_away(snapshot, going)
    }

    /// Hides or deletes memories as decay would.
    fn put_away<'m>(
        &self,
        snapshot: &Snapshot,
        memories: impl IntoIterator<Item = &'m Memory>,
    ) -> Result<Vec<Action>, AnswerError> {
        let mut findings = Tally::new();
        let actions = removal::put_away(
            snapshot,
            self.partition,
            self.view,
            self.candidates(memories),
            &mut findings,
        )?;
        if findings.contains_key(&Finding::Blocked) {
            return Err(AnswerError::Blocked);
        }
        Ok(actions)
    }

    fn replace(
        &self,
        snapshot: &Snapshot,
        memories: &[Memory],
        keep: Option<&str>,
    ) -> Result<Vec<Action>, AnswerError> {
        let kept = match keep {
            None => newest(memories)?.clone(),
            Some(id) if memories.len() > 1 => named(memories, id)?.clone(),
            Some(id) => self.other(snapshot, memories, id)?,
        };
        let Some(by) = kept.id else {
            return Err(AnswerError::NoNewest);
        };
        let others = memories
            .iter()
            .filter(|memory| memory.id.as_ref() != Some(&by));
        let is_bitemporal = self.view.config().rows.is_bitemporal();
        if is_bitemporal || !snapshot.marks().superseded {
            // What stands for the others must still stand when they go.
            let stays = survivor(snapshot, &by)?.ok_or(AnswerError::NoNewest)?;
            let actions = self.put_away(snapshot, others)?;
            return Ok(actions
                .into_iter()
                .map(|action| into(action, &stays))
                .collect());
        }
        let targets = removal::alone(snapshot, self.partition, self.candidates(others))?;
        let mark = Mark::Superseded { by: by.clone() };
        // Who says the same takes over how often it was used; who says otherwise does not.
        let survivor = match self.entry.question.kind {
            QuestionKind::Similar => survivor(snapshot, &by)?,
            _ => None,
        };
        let hide = |(target, reason)| match &survivor {
            Some(survivor) => Action::Merge {
                target,
                survivor: survivor.clone(),
                mark: Some(mark.clone()),
                reason,
            },
            None => Action::Hide {
                target,
                mark: mark.clone(),
                reason,
            },
        };
        Ok(targets.into_iter().map(hide).collect())
    }

    /// A live memory of the same namespace that is not part of the question.
    fn other(
        &self,
        snapshot: &Snapshot,
        memories: &[Memory],
        id: &str,
    ) -> Result<Memory, AnswerError> {
        let found = snapshot.memories(&ROLES, &MemoryId::spelled(id))?;
        let fits = |memory: &Memory| {
            memory.namespace.as_ref() == Some(&self.entry.question.namespace)
                && !memory.is_hidden(self.view.now())
                && memories.iter().all(|asked| asked.id != memory.id)
        };
        found
            .into_iter()
            .find(fits)
            .ok_or_else(|| AnswerError::NotThere { id: id.to_owned() })
    }
}

/// The same removal, on the condition that another memory is still what it was.
fn into(action: Action, stays: &Survivor) -> Action {
    let survivor = stays.clone();
    match action {
        Action::Delete { target, reason } => Action::Merge {
            target,
            survivor,
            mark: None,
            reason,
        },
        Action::Hide {
            target,
            mark,
            reason,
        } => Action::Merge {
            target,
            survivor,
            mark: Some(mark),
            reason,
        },
        other => other,
    }
}

fn survivor(snapshot: &Snapshot, id: &MemoryId) -> Result<Option<Survivor>, RowError> {
    let essence = snapshot.essences(std::slice::from_ref(id))?.pop().flatten();
    Ok(essence.map(|essence| Survivor {
        id: id.clone(),
        essence,
    }))
}

/// The memory that a person named.
fn named<'m>(memories: &'m [Memory], id: &str) -> Result<&'m Memory, AnswerError> {
    let is_it = |memory: &&Memory| {
        let known = memory.id.as_ref().map(ToString::to_string);
        known.as_deref() == Some(id)
    };
    memories
        .iter()
        .find(is_it)
        .ok_or_else(|| AnswerError::NotThere { id: id.to_owned() })
}

/// The memory that was written last.
fn newest(memories: &[Memory]) -> Result<&Memory, AnswerError> {
    let written = |memory: &&Memory| memory.created_at.latest();
    if memories.iter().any(|memory| written(&memory).is_none()) {
        return Err(AnswerError::NoNewest);
    }
    let mut by_time: Vec<&Memory> = memories.iter().collect();
    by_time.sort_by_key(written);
    match by_time[..] {
        [.., second, last] if written(&second) < written(&last) => Ok(last),
        _ => Err(AnswerError::NoNewest),
    }
}
