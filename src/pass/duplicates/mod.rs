//! `duplicates`: which memories say the same thing.
//!
//! | module | concern |
//! | --- | --- |
//! | [`kernel`] | all pairs of vectors with a cosine at or above a threshold, exactly |
//! | [`cluster`] | from pairs to clusters |
//! | [`background`] | how alike two random memories look under the store's embedding model |
//! | `sample` | the points that the background is taken from |
//! | `stars` | which memories are folded into which |
//! | `group` | one namespace and type: compares, decides, asks |
//! | `similar` | the question that is left of a cluster |
//!
//! Policy: a memory joins a survivor of its own namespace and type that every question finds which finds it (its
//! [context](crate::context) has all of the other's), that is at least as trusted, lives at least as long, and is near
//! enough *to it*, when the two texts do not speak against it; or whose text is the same but for case, accents,
//! punctuation and spacing. A pinned memory joins nobody. What is left of a cluster is one question for each context.
//!
//! Only what is new or has changed is compared with the rest: what was compared is remembered in the state file, at the
//! settings it was compared at.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::memory::{MemoryId, Namespace, Version};
use crate::plan::{
    Action, Comparison, Finding, Levels, Mark, Plan, QuestionKind, Reason, Survivor, Target,
};
use crate::state::Compared;
use crate::store::rows::{Partition, Reader, RowError, Snapshot};
use crate::view::View;

use super::live::{self, Live, Matrix};
use super::removal::{self, Candidate};
use super::{Cx, Pass, PassError, PassName};
use group::{Group, Merge, Outcome};
use similar::Asked;

pub mod background;
pub mod cluster;
mod group;
pub mod kernel;
pub(super) mod sample;
mod similar;
mod stars;

/// Changes whenever the same memories would be judged otherwise: what was compared before is compared again.
const RULES: u8 = 1;

/// The pass.
#[derive(Debug)]
pub struct Duplicates;

impl Pass for Duplicates {
    fn name(&self) -> PassName {
        PassName::Duplicates
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = Plan::new(view.name(), PassName::Duplicates);
        let levels = levels(view, &mut plan)?;
        let asked = match view.state()? {
            Some(state) => Asked::new(state.entries(&[QuestionKind::Similar])?),
            None => Asked::default(),
        };
        view.each_reader(cx, &mut plan, |plan, partition, reader| {
            let search = Search {
                view,
                cx,
                partition,
                reader,
                levels: &levels,
                asked: &asked,
            };
            search.plan(plan)
        })?;
        plan.levels = Some(levels);
        Ok(plan)
    }
}

/// The thresholds to use, raised where random memories of the store look alike.
fn levels(view: &View<'_>, plan: &mut Plan) -> Result<Levels, PassError> {
    let settings = &view.config().passes.duplicates;
    let (cluster_at, merge_at) = (settings.cluster_at.get(), settings.merge_at.get());
    if view.vectors().is_none() {
        plan.degraded
            .push("the store has no vectors: only equal texts are found".to_owned());
        return Ok(Levels {
            background: None,
            cluster_at,
            merge_at,
        });
    }
    let background = view.background(sample::background_of)?;
    let effective = |threshold| match background {
        Some(background) => background::effective(threshold, rounded(background)),
        None => threshold,
    };
    let levels = Levels {
        background,
        cluster_at: effective(cluster_at),
        merge_at: effective(merge_at),
    };
    if levels.cluster_at > cluster_at {
        plan.degraded.push(format!(
            "two random memories of this store have a cosine of {:.2}: cluster_at is raised from {cluster_at} to {:.3}, \
             merge_at from {merge_at} to {:.3}",
            background.unwrap_or_default(),
            levels.cluster_at,
            levels.merge_at,
        ));
    }
    Ok(levels)
}

/// A background to the next fiftieth above: a sample that wavers must not compare a whole store anew every night.
pub(super) fn rounded(background: f64) -> f64 {
    ((background * 50.0).ceil() / 50.0).min(1.0)
}

/// The search through one row database.
struct Search<'a> {
    view: &'a View<'a>,
    cx: &'a Cx<'a>,
    partition: &'a Partition,
    reader: &'a Reader,
    levels: &'a Levels,
    asked: &'a Asked,
}

impl Search<'_> {
    fn plan(&self, plan: &mut Plan) -> Result<(), PassError> {
        let namespaces = self
            .reader
            .snapshot(|snapshot| live::read(plan, self.view, self.partition, snapshot))?;
        let settings = settings(self.levels);
        let known = self
            .view
            .compared(self.partition, PassName::Duplicates, settings)?;
        let mut comparison = Comparison {
            partition: Arc::clone(&self.partition.name),
            settings,
            memories: Compared::new(),
        };
        let mut merges: Vec<(Namespace, Merge)> = Vec::new();
        let by_kind = |(namespace, members): live::Group| {
            by_kind(members).map(move |members| (namespace.clone(), members))
        };
        let groups: Vec<live::Group> = namespaces.into_iter().flat_map(by_kind).collect();
        for batch in live::batches(&groups) {
            let matrices = self.matrices(plan, batch)?;
            for ((namespace, members), matrix) in batch.iter().zip(&matrices) {
                self.cx.check_stop()?;
                let group = Group {
                    partition: self.partition,
                    namespace,
                    members,
                    matrix,
                };
                let outcome =
                    group.look(plan, self.reader, self.levels, &known, self.asked, self.cx)?;
                let Outcome {
                    merges: found,
                    questions,
                    compared,
                } = outcome;
                merges.extend(found.into_iter().map(|merge| (namespace.clone(), merge)));
                plan.actions.extend(questions);
                comparison.memories.extend(compared);
            }
        }
        let actions = self
            .reader
            .snapshot(|snapshot| self.actions(plan, snapshot, merges))?;
        // What goes goes before anything is asked.
        plan.actions.splice(0..0, actions);
        plan.compared.push(comparison);
        Ok(())
    }

    /// The vectors of each group.
    fn matrices(&self, plan: &mut Plan, batch: &[live::Group]) -> Result<Vec<Matrix>, PassError> {
        let Some(vectors) = live::Vectors::of(self.view) else {
            return Ok(batch.iter().map(|_| Matrix::default()).collect());
        };
        let matrices = vectors.read_each(batch)?;
        for ((_, members), matrix) in batch.iter().zip(&matrices) {
            let without = members.len() - matrix.members.len();
            plan.found(Finding::WithoutVector, without as u64);
        }
        Ok(matrices)
    }

    /// Turns merges into actions, with the versions of this moment: what changed since it was compared is left out.
    fn actions(
        &self,
        plan: &mut Plan,
        snapshot: &Snapshot,
        merges: Vec<(Namespace, Merge)>,
    ) -> Result<Vec<Action>, RowError> {
        let survivors: Vec<MemoryId> = merges.iter().map(|(_, merge)| merge.into.clone()).collect();
        let essences = snapshot.essences(&survivors)?;
        let mut into: BTreeMap<MemoryId, Survivor> = BTreeMap::new();
        let mut candidates = Vec::with_capacity(merges.len());
        for ((namespace, merge), essence) in merges.into_iter().zip(essences) {
            let Some(essence) = essence else { continue };
            let survivor = Survivor {
                id: merge.into,
                essence,
            };
            into.insert(merge.gone.clone(), survivor);
            candidates.push(Candidate {
                id: merge.gone,
                namespace,
                reason: merge.reason,
            });
        }
        let marks = snapshot.marks();
        let at = self.view.now();
        let mark = |survivor: &Survivor| {
            if marks.ended {
                Some(Mark::Ended { at })
            } else if marks.superseded {
                let by = survivor.id.clone();
                Some(Mark::Superseded { by })
            } else {
                marks.deleted.then_some(Mark::Deleted { at })
            }
        };
        let targets = if marks.ended || marks.superseded || marks.deleted {
            removal::alone(snapshot, self.partition, candidates)?
        } else {
            removal::with_history(snapshot, self.partition, candidates, &mut plan.findings)?
        };
        let merge = |(target, reason): (Target, Reason)| {
            let survivor = into.remove(&target.memory.id)?;
            Some(Action::Merge {
                mark: mark(&survivor),
                target,
                survivor,
                reason,
            })
        };
        Ok(targets.into_iter().filter_map(merge).collect())
    }
}

/// The members of each type, types in order, members in the order given.
fn by_kind(members: Vec<Live>) -> impl Iterator<Item = Vec<Live>> {
    let mut kinds: BTreeMap<Option<Box<str>>, Vec<Live>> = BTreeMap::new();
    for member in members {
        kinds.entry(member.kind.clone()).or_default().push(member);
    }
    kinds.into_values()
}

/// The name of the settings that were compared at.
fn settings(levels: &Levels) -> Version {
    let text = format!("{RULES} {:.4} {:.4}", levels.cluster_at, levels.merge_at);
    let mut name = [0; 16];
    name.copy_from_slice(&Sha256::digest(text)[..16]);
    Version(name)
}
