//! `contradictions`: which memories disagree. It asks, and never removes.
//!
//! | module | concern |
//! | --- | --- |
//! | [`score`] | how far two texts disagree |
//! | `timeline` | who is compared with whom: memories of one namespace, written within the window of each other |
//! | `candidates` | which of these pairs are worth comparing |
//! | `scale` | what a cosine means under the store's embedding model |
//! | `look` | one namespace: reads, compares, scores |
//! | `found` | what is to be asked about, the highest scores first |
//!
//! Policy: a pair that scores enough is asked about once, ever, unless one side changes; of which type the memories are
//! makes no difference, nor does their [context](crate::context): who asks by the owner alone finds both. A person who has [`OPEN`] such questions of a namespace before them gets no more of it; the rest
//! waits until some are answered, the highest scores first.
//!
//! What a pair scores depends on its two memories and on nothing else in the store. So what was compared is remembered
//! in the state file, and only what is new or has changed is compared with what was written around it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::config;
use crate::memory::{Namespace, Role, Version};
use crate::plan::{Action, Comparison, Plan, QuestionKind};
use crate::state::{Compared, StateError, StateReader};
use crate::store::rows::{Partition, Reader};
use crate::text;
use crate::view::View;

use super::live::{self, Live};
use super::{Cx, Pass, PassError, PassName};
use found::Found;
use look::Look;
use scale::Scale;
use timeline::Timeline;

mod candidates;
mod found;
mod look;
mod scale;
pub mod score;
mod timeline;

pub use score::{Score, Signals};

/// Changes whenever the same memories would be judged otherwise: what was compared before is compared again.
const RULES: u8 = 1;
/// Open questions about contradictions of one namespace, at the most.
pub const OPEN: usize = 200;

/// The pass.
#[derive(Debug)]
pub struct Contradictions;

impl Pass for Contradictions {
    fn name(&self) -> PassName {
        PassName::Contradictions
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = Plan::new(view.name(), PassName::Contradictions);
        if view.vectors().is_none() {
            let why =
                "the store has no vectors: memories that share only common words are not compared";
            plan.degraded.push(why.to_owned());
        }
        let mut queue = Queue::read(view.state()?.as_ref())?;
        let scale = Scale::of(view);
        view.each_reader(cx, &mut plan, |plan, partition, reader| {
            let search = Search {
                view,
                cx,
                partition,
                reader,
                scale: &scale,
                settings: &view.config().passes.contradictions,
            };
            search.plan(plan, &mut queue)
        })?;
        Ok(plan)
    }
}

/// What the queue knows of contradictions.
#[derive(Debug, Default)]
struct Queue {
    /// The questions that were put and did not become void.
    asked: HashSet<Version>,
    /// How many wait for an answer.
    open: BTreeMap<Namespace, usize>,
}

impl Queue {
    /// Reads it; without a state file nothing was ever asked.
    fn read(state: Option<&StateReader>) -> Result<Self, StateError> {
        let Some(state) = state else {
            return Ok(Self::default());
        };
        let mut open = BTreeMap::new();
        for entry in state.open_entries()? {
            if entry.question.kind == QuestionKind::Contradiction {
                *open.entry(entry.question.namespace).or_default() += 1;
            }
        }
        Ok(Self {
            asked: state.asked()?,
            open,
        })
    }
}

/// The search through one row database.
struct Search<'a> {
    view: &'a View<'a>,
    cx: &'a Cx<'a>,
    partition: &'a Partition,
    reader: &'a Reader,
    scale: &'a Scale<'a>,
    settings: &'a config::Contradictions,
}

impl Search<'_> {
    fn plan(&self, plan: &mut Plan, queue: &mut Queue) -> Result<(), PassError> {
        let (is_dated, namespaces) = self.reader.snapshot(|snapshot| {
            let members = live::read(plan, self.view, self.partition, snapshot)?;
            Ok::<_, PassError>((snapshot.knows(Role::CreatedAt), members))
        })?;
        if !is_dated {
            let why =
                "the rows do not say when they were written: no two of them are in one window";
            plan.degraded.push(why.to_owned());
            return Ok(());
        }
        let Queue { asked, open } = queue;
        let settings = fingerprint(self.settings);
        let known = self
            .view
            .compared(self.partition, PassName::Contradictions, settings)?;
        let mut compared = Compared::new();
        for (namespace, members) in namespaces {
            self.cx.check_stop()?;
            let timeline = Timeline::of(plan, members, self.settings.window);
            let look = Look {
                partition: self.partition,
                namespace: &namespace,
                reader: self.reader,
                vectors: live::Vectors::of(self.view),
                scale: self.scale,
                settings: self.settings,
                known: &known,
                asked,
                cx: self.cx,
            };
            let seen = look.look(plan, &timeline)?;
            let open = open.entry(namespace.clone()).or_default();
            ask(plan, open, &look, &seen.found, &timeline.members);
            compared.extend(seen.settled(timeline.members));
        }
        plan.compared.push(Comparison {
            partition: Arc::clone(&self.partition.name),
            settings,
            memories: compared,
        });
        Ok(())
    }
}

/// Puts the questions that were found, as many as there is room for among those that are open.
fn ask(plan: &mut Plan, open: &mut usize, look: &Look<'_>, found: &Found, members: &[Live]) {
    let room = OPEN.saturating_sub(*open);
    for pair in found.best.iter().take(room) {
        *open += 1;
        let (question, reason) = look.question(&members[pair.a], &members[pair.b], pair.score);
        plan.actions.push(Action::Queue { question, reason });
    }
    if found.is_cut || found.best.len() > room {
        plan.degraded.push(format!(
            "{} has {OPEN} contradictions to be answered: no more are asked about until some are",
            look.namespace
        ));
    }
}

/// The name of all that decides what a pair scores, and which pairs are compared.
fn fingerprint(settings: &config::Contradictions) -> Version {
    let config::Contradictions {
        enabled: _,
        window,
        threshold,
        weights,
        topic_weight,
        scoring,
    } = settings;
    let text = format!("{RULES} {window:?} {threshold} {weights:?} {topic_weight} {scoring:?}");
    let mut hash = Sha256::new();
    hash.update(text::edition());
    hash.update(text);
    let mut name = [0; 16];
    name.copy_from_slice(&hash.finalize()[..16]);
    Version(name)
}

#[cfg(test)]
mod tests;
