//! Which pairs are worth comparing, of all that are in one window.
//!
//! Mechanics: two sources. An index of terms finds the pairs that have a term in common, the rarest terms first, until a
//! bound is reached; and the kernel finds the pairs whose vectors are near, which have perhaps only common words in
//! common. Of both, those remain that could disagree at all and score enough if they did.
//!
//! Policy: no pair without a common term can disagree ([`Analysis::terms`]), so that what is missed are pairs that share
//! only words which a great part of their neighbours have, too, and are far apart as vectors.

use std::collections::HashMap;
use std::ops::Range;

use crate::config::Contradictions;
use crate::text::{Analysis, Possible};

use super::super::crew;
use super::super::duplicates::kernel::Sink;
use super::Score;
use super::timeline::{Block, Timeline};

/// Pairs that the index looks at, at the most, for each memory of a block on average.
const HITS: usize = 256;
/// The same for a block of few.
const LEAST_HITS: usize = 65_536;
/// Pairs near each other that are kept, at the most, for each memory of a block on average.
const NEAR: usize = 64;
/// Of vectors that are equal bit for bit, those that are looked at for each pair.
const COPIES: usize = 16;

/// A block of memories with what they say, by their places in the block's reach.
pub(super) struct Texts<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) block: &'a Block,
    /// Which members of the timeline are new.
    pub(super) is_new: &'a [bool],
    /// What each says; `None` for one that has no text, or was changed meanwhile.
    pub(super) said: &'a [Option<Analysis>],
    pub(super) settings: &'a Contradictions,
}

impl Texts<'_> {
    /// Whether a pair of places is to be compared in this block: they are in one window, one of them is a new memory of
    /// the block, and no earlier block has compared them.
    fn is_due(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.member(a), self.member(b));
        let core = &self.block.core;
        let leads = |a: usize, b: usize| {
            self.is_new[a] && core.contains(&a) && (!self.is_new[b] || b >= core.start)
        };
        a != b && (leads(a, b) || leads(b, a)) && self.timeline.is_within(a, b)
    }

    /// Whether a pair could score enough, told without comparing it.
    fn could_score(&self, a: u32, b: u32) -> bool {
        let text = |at: u32| self.said[at as usize].as_ref();
        let (Some(a), Some(b)) = (text(a), text(b)) else {
            return false;
        };
        Score::most(Possible::between(a, b), self.settings) >= self.settings.threshold
    }

    /// The member at a place.
    pub(super) fn member(&self, place: u32) -> usize {
        self.block.reach.start + place as usize
    }

    /// Whether a place is that of a new memory of the block.
    pub(super) fn is_own(&self, place: u32) -> bool {
        let member = self.member(place);
        self.is_new[member] && self.block.core.contains(&member)
    }

    /// The places of the new memories of the block.
    fn own(&self) -> impl Iterator<Item = u32> {
        (0..)
            .take(self.said.len())
            .filter(|place| self.is_own(*place))
    }

    /// The pairs of places with a term in common, in order, each once; the lower place first.
    pub(super) fn sharing(&self) -> Vec<(u32, u32)> {
        let index = Index::of(self.said);
        let own: Vec<u32> = self.own().collect();
        let mut is_own = vec![false; self.said.len()];
        for place in &own {
            is_own[*place as usize] = true;
        }
        let terms = index.affordable(&is_own, own.len().saturating_mul(HITS).max(LEAST_HITS));
        let mut of_place: Vec<Vec<usize>> = vec![Vec::new(); self.said.len()];
        for term in terms {
            for place in index.places(term) {
                if is_own[place as usize] {
                    of_place[place as usize].push(term);
                }
            }
        }
        let of_each = crew::map(&own, |place| {
            let terms = &of_place[*place as usize];
            let mut others: Vec<u32> = terms
                .iter()
                .flat_map(|term| index.places(*term))
                .filter(|other| self.is_due(*place, *other))
                .collect();
            others.sort_unstable();
            others.dedup();
            others.retain(|other| self.could_score(*place, *other));
            let pair = |other: u32| (other.min(*place), other.max(*place));
            others.into_iter().map(pair).collect::<Vec<_>>()
        });
        let mut pairs = of_each.concat();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// Which texts have each term.
struct Index {
    /// Terms with their places, in order.
    entries: Vec<(u64, u32)>,
    /// Where the places of each term are among the entries.
    terms: Vec<Range<usize>>,
}

impl Index {
    fn of(texts: &[Option<Analysis>]) -> Self {
        let mut entries: Vec<(u64, u32)> = Vec::new();
        for (place, text) in (0..).zip(texts) {
            let terms = text.iter().flat_map(Analysis::terms);
            entries.extend(terms.map(|term| (term, place)));
        }
        entries.sort_unstable();
        let mut terms = Vec::new();
        let mut start = 0;
        for group in entries.chunk_by(|a, b| a.0 == b.0) {
            terms.push(start..start + group.len());
            start += group.len();
        }
        Self { entries, terms }
    }

    /// The places that have a term, in order.
    fn places(&self, term: usize) -> impl Iterator<Item = u32> {
        self.entries[self.terms[term].clone()]
            .iter()
            .map(|(_, place)| *place)
    }

    /// The terms to look at, rarest first, such that no more than so many pairs are seen. Terms as rare as each other are
    /// all taken or none is, so that the order of the memories makes no difference.
    fn affordable(&self, is_own: &[bool], most: usize) -> Vec<usize> {
        let mut by_places: Vec<usize> = (0..self.terms.len()).collect();
        by_places.sort_by_key(|term| self.terms[*term].len());
        let mut chosen = Vec::new();
        let mut left = most;
        for rank in by_places.chunk_by(|a, b| self.terms[*a].len() == self.terms[*b].len()) {
            let own = |term: &usize| self.places(*term).filter(|at| is_own[*at as usize]).count();
            let pairs = rank.iter().map(|term| own(term) * self.terms[*term].len());
            match left.checked_sub(pairs.sum()) {
                Some(rest) => left = rest,
                None => break,
            }
            chosen.extend_from_slice(rank);
        }
        chosen
    }
}

/// Keeps the pairs of near vectors that are worth comparing, up to a limit.
pub(super) struct Near<'a> {
    texts: &'a Texts<'a>,
    /// The place that each vector is of.
    places: &'a [u32],
    copies: &'a HashMap<u32, Vec<u32>>,
    pairs: Vec<(u32, u32)>,
    limit: usize,
    is_full: bool,
}

impl<'a> Near<'a> {
    /// `copies` names for each vector those that equal it bit for bit.
    pub(super) fn new(
        texts: &'a Texts<'a>,
        places: &'a [u32],
        copies: &'a HashMap<u32, Vec<u32>>,
    ) -> Self {
        Self {
            texts,
            places,
            copies,
            pairs: Vec::new(),
            limit: texts.said.len().saturating_mul(NEAR),
            is_full: false,
        }
    }

    /// The pairs of places that all threads kept; `None` when there were too many, for which of them were kept would be
    /// chance.
    pub(super) fn merge(all: Vec<Self>) -> Option<Vec<(u32, u32)>> {
        let limit = all.first().map_or(0, |one| one.limit);
        let is_full = all.iter().any(|one| one.is_full);
        let pairs: Vec<_> = all.into_iter().flat_map(|one| one.pairs).collect();
        (!is_full && pairs.len() <= limit).then_some(pairs)
    }

    /// The places of a vector and of its copies.
    fn alike(&self, row: u32) -> impl Iterator<Item = u32> + use<'a> {
        let copies = self.copies.get(&row).into_iter().flatten().take(COPIES);
        let places = self.places;
        std::iter::once(row)
            .chain(copies.copied())
            .map(move |row| places[row as usize])
    }

    fn take(&mut self, a: u32, b: u32) {
        if !self.texts.is_due(a, b) || !self.texts.could_score(a, b) {
            return;
        }
        if self.pairs.len() < self.limit {
            self.pairs.push((a.min(b), a.max(b)));
        } else {
            self.is_full = true;
        }
    }
}

impl Sink for Near<'_> {
    fn pair(&mut self, a: u32, b: u32) {
        for one in self.alike(a) {
            for other in self.alike(b) {
                self.take(one, other);
            }
        }
    }
}

#[cfg(test)]
mod tests;
