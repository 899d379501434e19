//! Answering a question of the queue: one plan of one entry, under the same lock, journal and machinery as a night.
//!
//! ```text
//! lock -> run id -> replay open intents -> View(now) -> plan -> apply -> the entry is answered
//! ```
//!
//! A person named the entry, so the guard is not asked. A crash after the store was changed leaves the entry open: the
//! next night finds the change made, and takes the question back.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::apply::{self, Job, States};
use crate::clock::Timestamp;
use crate::config::{self, Config};
use crate::engine::{self, Options, by_hand};
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::failpoint::{Failpoint, hit};
use crate::forget;
use crate::guard::{Census, Consent, approve};
use crate::pass::review::answers::{self, AnswerError, Verb};
use crate::pass::{Cx, PassName, entities};
use crate::plan::{ActionKind, Plan, Tally};
use crate::state::{Answer, Entry, Partition, StateDir, StateReader};
use crate::store::Stores;
use crate::view::{Sightings, View};

/// An answer that was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// The store.
    pub store: Arc<str>,
    /// The entry.
    pub entry: i64,
    /// The answer; `None` when the question was only put off.
    pub answer: Option<Answer>,
    /// Until when it is put off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snoozed_until: Option<Timestamp>,
    /// The run that gave it.
    pub run: String,
    /// What it changed.
    pub applied: Tally<ActionKind>,
}

/// Answers an open entry of a store's queue, and does what the answer says.
///
/// # Errors
///
/// When there is no such open entry or the answer does not fit it ([`Exit::Usage`]); when its memories have changed since
/// it was put ([`Exit::LeftOver`]); when another run holds the lock, or a store cannot be opened or changed.
pub fn answer(
    config: &Config,
    store: &config::Store,
    entry: i64,
    verb: &Verb,
    options: &Options,
    cx: &Cx<'_>,
) -> Result<Answered, Failure> {
    // Before anything is made, opened or locked.
    let dir = StateDir::new(&config.state_dir, &store.name);
    look_up(&dir, store, entry)?;
    let mut needed = store.clone();
    if verb.leaves_all() {
        // The vectors may be away: nothing of them is touched, and so nothing of an earlier run is finished.
        needed.vectors = None;
    }
    let stores = Stores::open(&needed, &config.state_dir, forget::access(&dir), cx.stop)?;
    by_hand::in_a_run(dir, store, options, is_done, |states| {
        let entry = open_entry(states.main(), store, entry)?;
        let answering = Answering {
            config,
            stores: &stores,
            states,
            options,
            cx: *cx,
        };
        if !verb.leaves_all() {
            // It may be about the very memory.
            by_hand::finish_earlier(&answering.job())?;
        }
        let plan = answering.plan(&entry, verb)?;
        let applied = answering.apply(plan)?;
        let answer = verb.answer();
        hit(Failpoint::AnswerBefore).map_err(engine::injected)?;
        states
            .main()
            .answer(&options.run, &[entry.id], answer, options.now)
            .map_err(engine::state_failure)?;
        hit(Failpoint::AnswerWritten).map_err(engine::injected)?;
        Ok(Answered {
            store: Arc::clone(&stores.name),
            entry: entry.id,
            answer: Some(answer),
            snoozed_until: None,
            run: options.run.clone(),
            applied,
        })
    })
}

/// Puts an open entry off for a time; for none, shows it again.
///
/// # Errors
///
/// When there is no such open entry ([`Exit::Usage`]), another run holds the lock, or the state cannot be written.
pub fn snooze(
    config: &Config,
    store: &config::Store,
    entry: i64,
    time: Duration,
    options: &Options,
) -> Result<Answered, Failure> {
    let dir = StateDir::new(&config.state_dir, &store.name);
    look_up(&dir, store, entry)?;
    let until = options.now.checked_add(time).ok();
    let until = until.filter(|until| *until > options.now);
    by_hand::in_a_run(dir, store, options, is_done, |states| {
        open_entry(states.main(), store, entry)?;
        hit(Failpoint::SnoozeBefore).map_err(engine::injected)?;
        states
            .main()
            .snooze(&options.run, entry, until)
            .map_err(engine::state_failure)?;
        hit(Failpoint::SnoozeWritten).map_err(engine::injected)?;
        Ok(Answered {
            store: store.name.as_str().into(),
            entry,
            answer: None,
            snoozed_until: until,
            run: options.run.clone(),
            applied: Tally::new(),
        })
    })
}

/// Finds an open entry, and creates nothing.
fn look_up(dir: &StateDir, store: &config::Store, entry: i64) -> Result<Entry, Failure> {
    match dir.read(Partition::Main).map_err(engine::state_failure)? {
        Some(state) => open_entry(&state, store, entry),
        None => Err(no_entry(store, entry)),
    }
}

fn open_entry(state: &StateReader, store: &config::Store, id: i64) -> Result<Entry, Failure> {
    engine::place::require_own(state, store)?;
    let entry = state.entry(id).map_err(engine::state_failure)?;
    let entry = entry.ok_or_else(|| no_entry(store, id))?;
    match entry.answered {
        None => Ok(entry),
        Some((answer, at)) => Err(Failure::new(
            Exit::Usage,
            format!(
                "entry #{id} of {} is not open: {answer} at {at}",
                store.name
            ),
        )),
    }
}

/// How a run ends that did what it was asked.
fn is_done(_: &Answered) -> (&'static str, Exit) {
    ("applied", Exit::Done)
}

fn no_entry(store: &config::Store, entry: i64) -> Failure {
    Failure::new(
        Exit::Usage,
        format!("no entry #{entry} in the queue of {}", store.name),
    )
    .with_hint("hypnos review lists them")
}

struct Answering<'a> {
    config: &'a Config,
    stores: &'a Stores,
    states: &'a States,
    options: &'a Options,
    cx: Cx<'a>,
}

impl Answering<'_> {
    fn job(&self) -> Job<'_> {
        Job {
            stores: self.stores,
            states: self.states,
            run: &self.options.run,
            pass: PassName::Review,
            now: self.options.now,
            cx: self.cx,
        }
    }

    fn plan(&self, entry: &Entry, verb: &Verb) -> Result<Plan, Failure> {
        let sightings = Sightings::new();
        let view = View::new(self.options.now, self.stores, &sightings);
        let failed = |error: AnswerError| refused(entry, verb, &error);
        let mut plan = answers::plan(&view, entry, verb).map_err(failed)?;
        entities::follow(&view, &mut plan).map_err(|error| failed(error.into()))?;
        Ok(plan)
    }

    fn apply(&self, plan: Plan) -> Result<Tally<ActionKind>, Failure> {
        if plan.actions.is_empty() {
            return Ok(Tally::new());
        }
        let bounds = self.config.guard;
        let approved = approve(plan, &Census::default(), bounds, Consent::Accepted)
            .map_err(|refused| Failure::new(Exit::LeftOver, refused.1.to_string()))?;
        let (done, result) = apply::apply(approved, &self.job());
        by_hand::count(&self.job(), &done)?;
        result.map_err(|error| Failure::new(Exit::Failed, chain(&error)))?;
        if done.interrupted {
            return Err(Failure::new(Exit::Interrupted, "interrupted"));
        }
        if let Some(unread) = done.unread.first() {
            let message = format!("change {}: {}", unread.partition, unread.problem);
            return Err(Failure::new(Exit::Failed, message));
        }
        if let Some(why) = done.refused.first() {
            let message = format!("the database refuses to change the memory: {why}");
            return Err(Failure::new(Exit::LeftOver, message)
                .with_hint("nothing was answered; the application's schema says what it allows"));
        }
        if done.skipped.values().any(|count| *count > 0) {
            return Err(moved_on("a memory changed while it was being answered for"));
        }
        Ok(done.applied)
    }
}

fn refused(entry: &Entry, verb: &Verb, error: &AnswerError) -> Failure {
    let message = format!("{} entry #{}: {}", verb.as_str(), entry.id, chain(error));
    if error.is_usage() {
        return Failure::new(Exit::Usage, message).with_hint(match verb {
            Verb::Replace { .. } => "name the memory that stays with --keep ID",
            Verb::Forget { .. } => "name the memory that goes with --id ID",
            Verb::Confirm | Verb::Keep => "keep both with `keep`, or one with `replace`",
        });
    }
    match error {
        AnswerError::Pass(_) => Failure::new(Exit::Failed, message),
        _ => moved_on(message),
    }
}

fn moved_on(message: impl Into<String>) -> Failure {
    Failure::new(Exit::LeftOver, message)
        .with_hint("nothing was answered; the next night takes back what is void")
}
