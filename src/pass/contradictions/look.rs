//! One namespace: who is new in it, which pairs are compared, and what they score.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::config::Contradictions;
use crate::memory::{MemoryId, Moment, Namespace, Version};
use crate::plan::{Member, Plan, Question, QuestionKind, Reason};
use crate::state::{Compared, key_of};
use crate::store::rows::{Partition, Reader};
use crate::text::{Analysis, Comparison, Context};

use super::super::crew;
use super::super::duplicates::background::usual;
use super::super::duplicates::kernel::{Index, Query, Setup, Vectors};
use super::super::live::{self, Live, Matrix};
use super::super::member;
use super::super::{Cx, PassError};
use super::Score;
use super::candidates::{Near, Texts};
use super::found::{Found, Pair};
use super::scale::Scale;
use super::timeline::Timeline;

/// From which cosine on two memories are neighbours, under a model whose background is usual.
const NEIGHBOURS_AT: f64 = 0.6;
/// Pairs compared between two looks at whether to stop.
const BATCH: usize = 1_000;

/// Where memories are compared, and how.
pub(super) struct Look<'a> {
    pub(super) partition: &'a Partition,
    pub(super) namespace: &'a Namespace,
    pub(super) reader: &'a Reader,
    pub(super) vectors: Option<live::Vectors<'a>>,
    pub(super) scale: &'a Scale<'a>,
    pub(super) settings: &'a Contradictions,
    /// What was compared before.
    pub(super) known: &'a Compared,
    /// The questions that were put and did not become void.
    pub(super) asked: &'a HashSet<Version>,
    pub(super) cx: &'a Cx<'a>,
}

/// What was seen in a namespace.
pub(super) struct Seen {
    pub(super) found: Found,
    /// What each member is to a comparison; `None` for one that could not be compared.
    prints: Vec<Option<Version>>,
}

impl Seen {
    /// The members that were compared and about which there is nothing to ask: what is asked about is looked at once
    /// more, when the question stands in the queue.
    pub(super) fn settled(self, members: Vec<Live>) -> Compared {
        let settled = members
            .into_iter()
            .zip(self.prints)
            .zip(self.found.is_open)
            .filter(|(_, is_open)| !is_open);
        settled
            .filter_map(|((live, print), _)| Some((live.id, print?)))
            .collect()
    }
}

/// What is known about the members of a timeline before anything is compared.
struct Standing {
    is_new: Vec<bool>,
    has_vector: Vec<bool>,
}

impl Look<'_> {
    /// Compares what is new in a namespace with what was written around it.
    pub(super) fn look(&self, plan: &mut Plan, timeline: &Timeline) -> Result<Seen, PassError> {
        let mut standing = self.standing(timeline)?;
        let mut is_lost = vec![false; timeline.members.len()];
        let mut found = Found::new(timeline.members.len());
        for block in timeline.blocks(&standing.is_new) {
            self.cx.check_stop()?;
            if block.is_cut {
                let why = "has more memories in one window than are compared at once: each is compared with those \
                           written nearest to it";
                self.degraded(plan, why);
            }
            let members = &timeline.members[block.reach.clone()];
            let matrix = self.matrix(members)?;
            for at in &matrix.members {
                standing.has_vector[block.reach.start + at] = true;
            }
            let texts = self.texts(members)?;
            for (at, text) in block.reach.clone().zip(&texts) {
                is_lost[at] |= text.is_none();
            }
            let texts = Texts {
                timeline,
                block: &block,
                is_new: &standing.is_new,
                said: &texts,
                settings: self.settings,
            };
            let pairs = self.candidates(plan, &texts, &matrix)?;
            self.compare(&texts, &matrix, &pairs, &mut found)?;
        }
        found.rank(&timeline.members);
        let prints = timeline.members.iter().zip(standing.has_vector);
        let prints = prints
            .zip(is_lost)
            .map(|((live, has_vector), is_lost)| (!is_lost).then(|| print(live, has_vector)))
            .collect();
        Ok(Seen { found, prints })
    }

    /// Says once why less is compared in the namespace than could be.
    fn degraded(&self, plan: &mut Plan, why: &str) {
        let why = format!("{} {why}", self.namespace);
        if !plan.degraded.contains(&why) {
            plan.degraded.push(why);
        }
    }

    /// Who is new: not compared yet, changed since, or without a vector then and with one now.
    fn standing(&self, timeline: &Timeline) -> Result<Standing, PassError> {
        let members = &timeline.members;
        let mut standing = Standing {
            is_new: vec![false; members.len()],
            has_vector: vec![false; members.len()],
        };
        let mut waiting = Vec::new();
        for (at, live) in members.iter().enumerate() {
            let known = self.known.get(&live.id);
            if known == Some(&print(live, true)) {
                standing.has_vector[at] = true;
            } else if known == Some(&print(live, false)) {
                waiting.push(at);
            } else {
                standing.is_new[at] = true;
            }
        }
        if let Some(vectors) = self.vectors.filter(|_| !waiting.is_empty()) {
            let asked: Vec<Live> = waiting.iter().map(|at| members[*at].clone()).collect();
            for found in vectors.read(self.namespace, &asked)?.members {
                standing.is_new[waiting[found]] = true;
            }
        }
        Ok(standing)
    }

    fn matrix(&self, members: &[Live]) -> Result<Matrix, PassError> {
        match self.vectors {
            Some(vectors) => vectors.read(self.namespace, members),
            None => Ok(Matrix::default()),
        }
    }

    /// Reads what members say. One that was edited or removed since the first look has no text.
    fn texts(&self, members: &[Live]) -> Result<Vec<Option<Analysis>>, PassError> {
        let ids: Vec<MemoryId> = members.iter().map(|live| live.id.clone()).collect();
        let places: HashMap<&MemoryId, usize> = ids.iter().zip(0..).collect();
        let read = self
            .reader
            .snapshot(|snapshot| snapshot.memories(&member::ROLES, &ids))?;
        let said = crew::map(&read, |memory| {
            let place = *places.get(memory.id.as_ref()?)?;
            let is_unchanged = member::fingerprint(memory) == members[place].fingerprint;
            let text = memory.content.as_deref().unwrap_or_default();
            is_unchanged.then(|| (place, Analysis::of(text)))
        });
        let mut texts = vec![None; members.len()];
        for (place, text) in said.into_iter().flatten() {
            texts[place] = Some(text);
        }
        Ok(texts)
    }

    /// The pairs that are worth comparing, in order.
    fn candidates(
        &self,
        plan: &mut Plan,
        texts: &Texts<'_>,
        matrix: &Matrix,
    ) -> Result<Vec<(u32, u32)>, PassError> {
        let mut pairs = texts.sharing();
        match self.neighbours(texts, matrix)? {
            Some(near) => pairs.extend(near),
            None => self.degraded(
                plan,
                "has too many memories near each other: of those that share only common words, none is compared",
            ),
        }
        pairs.sort_unstable();
        pairs.dedup();
        Ok(pairs)
    }

    /// The pairs whose vectors are near; `None` when there are too many.
    fn neighbours(
        &self,
        texts: &Texts<'_>,
        matrix: &Matrix,
    ) -> Result<Option<Vec<(u32, u32)>>, PassError> {
        if matrix.members.len() < 2 {
            return Ok(Some(Vec::new()));
        }
        let places: Vec<u32> = matrix
            .members
            .iter()
            .map(|place| u32::try_from(*place).unwrap_or(u32::MAX))
            .collect();
        let new: Vec<bool> = places.iter().map(|at| texts.is_own(*at)).collect();
        let query = Query {
            threshold: self.scale.effective(NEIGHBOURS_AT)?,
            stop: self.cx.stop,
        };
        let setup = Setup {
            new: Some(&new),
            ..Setup::new(crew::worth(places.len()), query.threshold)
        };
        let index = Index::build(Vectors::new(&matrix.numbers, matrix.dim)?, &setup)?;
        let mut copies: HashMap<u32, Vec<u32>> = HashMap::new();
        for (first, copy) in index.copies() {
            copies.entry(*first).or_default().push(*copy);
        }
        let found = index.pairs(&query, || Near::new(texts, &places, &copies))?;
        Ok(Near::merge(found.sinks))
    }

    /// Compares pairs, and keeps those that disagree and that nobody was asked about.
    fn compare(
        &self,
        texts: &Texts<'_>,
        matrix: &Matrix,
        pairs: &[(u32, u32)],
        found: &mut Found,
    ) -> Result<(), PassError> {
        let members = &texts.timeline.members;
        let judge = Judge {
            texts,
            matrix,
            background: self.scale.background()?,
            settings: self.settings,
        };
        for batch in pairs.chunks(BATCH) {
            self.cx.check_stop()?;
            let scores = crew::map(batch, |&(a, b)| judge.score(a, b));
            for (&(a, b), score) in batch.iter().zip(scores) {
                if !score.is_contradiction(self.settings) {
                    continue;
                }
                let (a, b) = (texts.member(a), texts.member(b));
                let (question, reason) = self.question(&members[a], &members[b], score.total);
                if !self.asked.contains(&key_of(&question, reason)) {
                    let score = score.total;
                    found.add(Pair { a, b, score }, members);
                }
            }
        }
        Ok(())
    }

    /// What a person would be asked about two memories.
    pub(super) fn question(&self, a: &Live, b: &Live, score: u32) -> (Question, Reason) {
        let member = |live: &Live| Member {
            id: live.id.clone(),
            fingerprint: live.fingerprint,
        };
        let mut members = [member(a), member(b)];
        members.sort();
        let question = Question {
            kind: QuestionKind::Contradiction,
            partition: Arc::clone(&self.partition.name),
            namespace: self.namespace.clone(),
            members: members.into(),
        };
        (question, Reason::Contradiction { score })
    }
}

/// What two memories of a block score. It reads nothing, so that all cores can ask it at once.
struct Judge<'a> {
    texts: &'a Texts<'a>,
    matrix: &'a Matrix,
    background: f64,
    settings: &'a Contradictions,
}

impl Judge<'_> {
    /// What two places score; nothing where one has no text.
    fn score(&self, a: u32, b: u32) -> Score {
        let text = |place: u32| self.texts.said[place as usize].as_ref();
        let (Some(one), Some(other)) = (text(a), text(b)) else {
            return Score::default();
        };
        let context = Context {
            #[expect(clippy::cast_possible_truncation, reason = "a cosine")]
            cosine: self
                .cosine(a, b)
                .map(|cosine| usual(cosine, self.background) as f32),
            frequencies: None,
        };
        Score::of(&Comparison::of(one, other, context), self.settings)
    }

    /// The cosine of two places; `None` when one has no vector.
    fn cosine(&self, a: u32, b: u32) -> Option<f64> {
        let row = |place: u32| {
            let row = self.matrix.members.binary_search(&(place as usize)).ok()?;
            u32::try_from(row).ok()
        };
        let vectors = Vectors::new(&self.matrix.numbers, self.matrix.dim).ok()?;
        vectors.cosine(row(a)?, row(b)?)
    }
}

/// Everything about a member that decides what it is compared with, and how.
///
/// The numbers of its vector are not in it: they only help to find and to weigh what the texts say, and reading them all
/// every night would cost more than they bring. That there is one at all is.
fn print(member: &Live, has_vector: bool) -> Version {
    let mut hash = Sha256::new();
    hash.update(member.fingerprint.0);
    hash.update([u8::from(has_vector)]);
    if let Moment::At { earliest, .. } = member.created_at {
        hash.update(earliest.as_nanosecond().to_le_bytes());
    }
    let mut print = [0; 16];
    print.copy_from_slice(&hash.finalize()[..16]);
    Version(print)
}
