//! One group of memories that may be duplicates of each other: one namespace, one type.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use sha2::{Digest as _, Sha256};

use crate::context::Context;
use crate::memory::{MemoryId, Namespace, Role, Version};
use crate::plan::{Action, Finding, Levels, Plan, Reason};
use crate::state::Compared;
use crate::store::rows::{Partition, Reader};
use crate::text::{self, Analysis, Comparison, Verdict, verdict};

use super::super::crew;
use super::super::live::{Live, Matrix};
use super::super::member;
use super::super::ttl::Deadline;
use super::super::{Cx, PassError};
use super::cluster::Components;
use super::kernel::{Found, Index, KernelError, Limited, Query, Setup, Vectors};
use super::similar::{Asked, Kept};
use super::stars::{Fold, Join, Judge, Near, stars};

/// Pairs near enough to be merged that are kept in memory, at the most: eight bytes each.
const MOST_PAIRS: usize = 4_000_000;
/// What tells whether a member is what it was when it was first read.
const ROLES: [Role; 3] = [Role::Content, Role::Type, Role::Context];
/// How often two memories are compared as texts, at the most.
const MOST_COMPARISONS: usize = 2_000_000;

/// A group, and where it is from.
pub(super) struct Group<'a> {
    pub(super) partition: &'a Partition,
    pub(super) namespace: &'a Namespace,
    /// In order of their ids.
    pub(super) members: &'a [Live],
    pub(super) matrix: &'a Matrix,
}

/// What decides who is one memory with whom.
struct Judging<'a> {
    group: &'a Group<'a>,
    texts: HashMap<u32, Analysis>,
    kept: &'a Kept,
    merge_at: f64,
    /// Pairs near enough to be one that something else keeps apart.
    kept_apart: u64,
}

impl Judging<'_> {
    /// What the guard says of two members with this cosine; `None` when one of them has no text.
    fn verdict(&self, a: u32, b: u32, cosine: Option<f64>) -> Option<Verdict> {
        let context = text::Context {
            #[expect(clippy::cast_possible_truncation, reason = "a cosine")]
            cosine: cosine.map(|cosine| cosine as f32),
            frequencies: None,
        };
        let (a, b) = (self.texts.get(&a)?, self.texts.get(&b)?);
        Some(verdict(&Comparison::of(a, b, context)))
    }

    /// Whether one member says what another one does, and more.
    fn goes_on(&self, member: u32, other: u32) -> bool {
        match (self.texts.get(&member), self.texts.get(&other)) {
            (Some(text), Some(other)) => text::goes_on(text, other),
            _ => false,
        }
    }
}

impl Judge for Judging<'_> {
    fn join(&mut self, survivor: u32, member: u32) -> Join {
        let members = self.group.members;
        let (stays, goes) = (&members[survivor as usize], &members[member as usize]);
        if goes.pinned
            || !stays.context.covers(&goes.context)
            || self.kept.apart(survivor, member)
            || stays.rank.is_trusted_less(&goes.rank)
            || !stays.deadline.outlives(goes.deadline)
        {
            return Join::No;
        }
        let cosine = self.group.cosine(survivor, member);
        let Some(verdict) = self.verdict(survivor, member, cosine) else {
            return Join::No;
        };
        let is_near = cosine.is_some_and(|cosine| cosine >= self.merge_at);
        let join = match verdict {
            Verdict::Same => Join::Same,
            Verdict::Alike if is_near && !self.goes_on(member, survivor) => Join::Alike,
            Verdict::Alike | Verdict::Apart(_) => Join::No,
        };
        self.kept_apart += u64::from(is_near && join == Join::No);
        join
    }

    fn are_apart(&mut self, a: u32, b: u32) -> bool {
        let verdict = self.verdict(a, b, self.group.cosine(a, b));
        matches!(verdict, None | Some(Verdict::Apart(_)))
    }
}

/// Two memories that are one.
pub(super) struct Merge {
    pub(super) gone: MemoryId,
    pub(super) into: MemoryId,
    pub(super) reason: Reason,
}

/// What was found in a group.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) merges: Vec<Merge>,
    pub(super) questions: Vec<Action>,
    /// What need not be compared again.
    pub(super) compared: Compared,
}

/// Pairs of rows of the matrix.
struct Pairs {
    /// Near enough to be merged, if the texts allow it; `None` when there are too many to tell apart.
    near: Option<Vec<(u32, u32)>>,
    copies: Vec<(u32, u32)>,
    clusters: Components,
}

impl Group<'_> {
    /// Looks for duplicates among the members that were not compared yet, and between them and the others.
    pub(super) fn look(
        &self,
        plan: &mut Plan,
        reader: &Reader,
        levels: &Levels,
        known: &Compared,
        asked: &Asked,
        cx: &Cx<'_>,
    ) -> Result<Outcome, PassError> {
        let prints = self.fingerprints();
        let is_new: Vec<bool> = (0..self.members.len())
            .map(|at| {
                prints[at].is_none_or(|print| known.get(&self.members[at].id) != Some(&print))
            })
            .collect();
        let mut outcome = Outcome::default();
        if !is_new.contains(&true) {
            outcome.remember(self.members, &prints, &[]);
            return Ok(outcome);
        }
        let pairs = self.pairs(levels, &is_new, cx)?;
        let kept = asked.kept(&self.partition.name, self.namespace, self.members);
        let folds = self.folds(plan, reader, levels, pairs.as_ref(), &kept)?;
        outcome.merges = folds.iter().map(|fold| self.merge(*fold)).collect();
        if let Some(pairs) = pairs {
            outcome.questions = self.questions(levels, pairs.clusters, &folds, asked);
        }
        outcome.remember(self.members, &prints, &folds);
        Ok(outcome)
    }

    /// What each member is to a comparison; `None` for those without a vector, which are always looked at: equal texts
    /// cost nothing to find.
    fn fingerprints(&self) -> Vec<Option<Version>> {
        let mut prints = vec![None; self.members.len()];
        for (row, &at) in self.matrix.members.iter().enumerate() {
            let vector = &self.matrix.numbers[row * self.matrix.dim..][..self.matrix.dim];
            prints[at] = Some(print(&self.members[at], vector));
        }
        prints
    }

    /// Compares the vectors; `None` when there are none.
    fn pairs(
        &self,
        levels: &Levels,
        is_new: &[bool],
        cx: &Cx<'_>,
    ) -> Result<Option<Pairs>, PassError> {
        let rows = self.matrix.members.len();
        if rows < 2 {
            return Ok(None);
        }
        let vectors = Vectors::new(&self.matrix.numbers, self.matrix.dim)?;
        let new: Vec<bool> = self.matrix.members.iter().map(|at| is_new[*at]).collect();
        let setup = Setup {
            new: Some(&new),
            ..Setup::new(crew::worth(rows), levels.cluster_at.min(levels.merge_at))
        };
        let index = Index::build(vectors, &setup)?;
        let query = |threshold| Query {
            threshold,
            stop: cx.stop,
        };
        let near: Found<Limited> =
            index.pairs(&query(levels.merge_at), || Limited::new(MOST_PAIRS))?;
        let found = index.pairs(&query(levels.cluster_at), || Components::new(rows))?;
        Ok(Some(Pairs {
            near: Limited::merge(near.sinks),
            copies: index.copies().to_vec(),
            clusters: Components::merge(found.sinks).unwrap_or_else(|| Components::new(rows)),
        }))
    }

    /// Decides who joins whom.
    fn folds(
        &self,
        plan: &mut Plan,
        reader: &Reader,
        levels: &Levels,
        pairs: Option<&Pairs>,
        kept: &Kept,
    ) -> Result<Vec<Fold>, PassError> {
        let alike = self.same_letters();
        let near = self.near(plan, pairs);
        let mut judge = Judging {
            group: self,
            texts: self.texts(reader, &alike, &near)?,
            kept,
            merge_at: levels.merge_at,
            kept_apart: 0,
        };
        let found = stars(
            &self.order(),
            &[&alike, &near],
            MOST_COMPARISONS,
            &mut judge,
        );
        let kept_apart = judge.kept_apart;
        let Some(folds) = found else {
            plan.degraded.push(format!(
                "{} has too many memories near each other to compare their texts: none of them is merged",
                self.namespace
            ));
            return Ok(Vec::new());
        };
        plan.found(Finding::KeptApart, kept_apart);
        Ok(folds)
    }

    /// Members by merit, best first: among the equally trusted those that more is asked by, for only they can stand for
    /// the others.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..).take(self.members.len()).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&self.members[*a as usize], &self.members[*b as usize]);
            let by_trust = b.rank.trust_cmp(&a.rank);
            by_trust
                .then_with(|| b.context.size().cmp(&a.context.size()))
                .then_with(|| b.rank.total_cmp(&a.rank))
                .then_with(|| a.id.cmp(&b.id))
        });
        order
    }

    fn same_letters(&self) -> Near {
        let mut alike = Near::default();
        let mut first: HashMap<u64, u32> = HashMap::new();
        for (at, member) in (0..).zip(self.members) {
            let Some(letters) = member.letters else {
                continue;
            };
            match first.entry(letters) {
                Entry::Occupied(first) => alike.equal(*first.get(), at),
                Entry::Vacant(first) => drop(first.insert(at)),
            }
        }
        alike
    }

    fn near(&self, plan: &mut Plan, pairs: Option<&Pairs>) -> Near {
        let mut near = Near::default();
        let Some(pairs) = pairs else {
            return near;
        };
        let Some(found) = &pairs.near else {
            plan.degraded.push(format!(
                "{} has more than {MOST_PAIRS} pairs of memories near each other: only equal texts are merged there",
                self.namespace
            ));
            return near;
        };
        for &(first, copy) in &pairs.copies {
            near.equal(self.member(first), self.member(copy));
        }
        for &(a, b) in found {
            near.pair(self.member(a), self.member(b));
        }
        near
    }

    /// The member that a row of the matrix is of.
    fn member(&self, row: u32) -> u32 {
        u32::try_from(self.matrix.members[row as usize]).unwrap_or(u32::MAX)
    }

    /// Reads the texts of members that are near others. One that was edited since the first look has none.
    fn texts(
        &self,
        reader: &Reader,
        alike: &Near,
        near: &Near,
    ) -> Result<HashMap<u32, Analysis>, PassError> {
        let mut members: Vec<u32> = alike.members().chain(near.members()).collect();
        members.sort_unstable();
        members.dedup();
        let ids: Vec<MemoryId> = members
            .iter()
            .map(|at| self.members[*at as usize].id.clone())
            .collect();
        let places: HashMap<&MemoryId, u32> = ids.iter().zip(members.iter().copied()).collect();
        let read = reader.snapshot(|snapshot| snapshot.memories(&ROLES, &ids))?;
        let texts = crew::map(&read, |memory| {
            let at = *places.get(memory.id.as_ref()?)?;
            let member = &self.members[at as usize];
            let text = memory.content.as_deref().unwrap_or_default();
            let is_unchanged = member::fingerprint(memory) == member.fingerprint
                && memory.context == member.context;
            is_unchanged.then(|| (at, Analysis::of(text)))
        });
        Ok(texts.into_iter().flatten().collect())
    }

    fn merge(&self, fold: Fold) -> Merge {
        let (gone, into) = (
            &self.members[fold.gone as usize],
            &self.members[fold.into as usize],
        );
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cosine, cut to what four digits hold"
        )]
        let e4 = |cosine: f64| (cosine.clamp(0.0, 0.9999) * 10_000.0) as u16;
        let is_same = gone.letters.is_some() && gone.letters == into.letters;
        let cosine = self.cosine(fold.gone, fold.into).filter(|_| !is_same);
        Merge {
            gone: gone.id.clone(),
            into: into.id.clone(),
            reason: Reason::Duplicate {
                cosine_e4: cosine.map(e4),
            },
        }
    }

    /// The cosine of two members; `None` when one has no vector.
    fn cosine(&self, a: u32, b: u32) -> Option<f64> {
        let vectors = Vectors::new(&self.matrix.numbers, self.matrix.dim).ok()?;
        vectors.cosine(self.row(a as usize)?, self.row(b as usize)?)
    }

    /// The row of the matrix that a member's vector is.
    fn row(&self, member: usize) -> Option<u32> {
        let row = self.matrix.members.binary_search(&member).ok()?;
        u32::try_from(row).ok()
    }

    /// One question for each cluster of which more than one memory is left. Only what is asked by alike is in one.
    fn questions(
        &self,
        levels: &Levels,
        mut clusters: Components,
        folds: &[Fold],
        asked: &Asked,
    ) -> Vec<Action> {
        let name = &self.partition.name;
        for (intact, is_all) in asked.groups(name, self.namespace, self.members) {
            let rows: Vec<u32> = intact.into_iter().filter_map(|at| self.row(at)).collect();
            for (at, &a) in rows.iter().enumerate() {
                for &b in &rows[at + 1..] {
                    // What was asked about whole was one cluster; of a part it has to be seen anew.
                    if is_all || self.is_near(a, b, levels.cluster_at) {
                        clusters.join(a, b);
                    }
                }
            }
        }
        let mut gone = vec![false; self.members.len()];
        for fold in folds {
            gone[fold.gone as usize] = true;
        }
        let mut actions = Vec::new();
        for cluster in clusters.clusters() {
            let mut left: BTreeMap<&Context, Vec<&Live>> = BTreeMap::new();
            let members = cluster.iter().map(|row| self.matrix.members[*row as usize]);
            for at in members.filter(|at| !gone[*at]) {
                let member = &self.members[at];
                left.entry(&member.context).or_default().push(member);
            }
            left.remove(&Context::Unreadable);
            for alike in left.into_values().filter(|alike| alike.len() > 1) {
                actions.extend(asked.plan(name, self.namespace, &alike));
            }
        }
        actions
    }

    fn is_near(&self, a: u32, b: u32, threshold: f64) -> bool {
        let vectors = Vectors::new(&self.matrix.numbers, self.matrix.dim);
        let cosine = vectors.ok().and_then(|vectors| vectors.cosine(a, b));
        cosine.is_some_and(|cosine| cosine >= threshold)
    }
}

impl Outcome {
    /// Remembers everything that was compared and about which nothing is left to do.
    fn remember(&mut self, members: &[Live], prints: &[Option<Version>], folds: &[Fold]) {
        let mut is_involved = vec![false; members.len()];
        for fold in folds {
            is_involved[fold.gone as usize] = true;
            is_involved[fold.into as usize] = true;
        }
        for ((member, print), is_involved) in members.iter().zip(prints).zip(is_involved) {
            if let (Some(print), false) = (print, is_involved) {
                self.compared.insert(member.id.clone(), *print);
            }
        }
    }
}

/// Everything about a member that a comparison rests on.
fn print(member: &Live, vector: &[f32]) -> Version {
    let mut hash = Sha256::new();
    hash.update(member.fingerprint.0);
    hash.update(member.context.bytes());
    hash.update([u8::from(member.pinned)]);
    hash.update(member.rank.trust_bits());
    match member.deadline {
        Deadline::Never => hash.update([0]),
        Deadline::Unreadable => hash.update([1]),
        Deadline::At(at) => hash.update(at.as_nanosecond().to_le_bytes()),
    }
    for number in vector {
        hash.update(number.to_le_bytes());
    }
    let mut print = [0; 16];
    print.copy_from_slice(&hash.finalize()[..16]);
    Version(print)
}

impl From<KernelError> for PassError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Interrupted => Self::Interrupted,
            error => Self::Compare(error),
        }
    }
}
