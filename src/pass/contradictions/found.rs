//! What is to be asked about in one namespace.
//!
//! Policy: of a flood only the best are kept, so that memory stays bounded; that something is left to ask about a memory
//! is remembered of all.

use super::super::live::Live;
use super::OPEN;

/// Two members of a timeline that disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) score: u32,
}

/// The pairs to ask about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// In order of their scores, highest first, once they are ranked; no more than there can be open questions.
    pub(super) best: Vec<Pair>,
    /// Whether there were more.
    pub(super) is_cut: bool,
    /// Of each member, whether anything about it is to be asked.
    pub(super) is_open: Vec<bool>,
}

impl Found {
    /// Nothing about so many members.
    pub(super) fn new(members: usize) -> Self {
        Self {
            is_open: vec![false; members],
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, pair: Pair, members: &[Live]) {
        self.is_open[pair.a] = true;
        self.is_open[pair.b] = true;
        self.best.push(pair);
        if self.best.len() >= 4 * OPEN {
            self.rank(members);
        }
    }

    /// Puts the pairs in order, and drops all but the best.
    pub(super) fn rank(&mut self, members: &[Live]) {
        self.best.sort_by(|one, other| {
            let ids = |pair: &Pair| {
                let (a, b) = (&members[pair.a].id, &members[pair.b].id);
                if a <= b { (a, b) } else { (b, a) }
            };
            let by_score = other.score.cmp(&one.score);
            by_score.then_with(|| ids(one).cmp(&ids(other)))
        });
        self.is_cut |= self.best.len() > OPEN;
        self.best.truncate(OPEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, MemoryId};

    #[test]
    fn of_a_flood_the_best_are_kept_whatever_their_order() {
        let ids = (0..100).map(MemoryId::Integer);
        let members: Vec<Live> = ids.map(|id| Live::sample(Memory::new(Some(id)))).collect();
        let mut pairs: Vec<Pair> = Vec::new();
        for b in 0..90 {
            for a in 0..b {
                let score = 40 + u32::try_from((a + b) % 7).unwrap();
                pairs.push(Pair { a, b, score });
            }
        }
        let found = |pairs: &[Pair]| {
            let mut found = Found::new(members.len());
            for pair in pairs {
                found.add(*pair, &members);
            }
            found.rank(&members);
            found
        };
        let forth = found(&pairs);
        pairs.reverse();
        assert_eq!(found(&pairs), forth);
        assert_eq!(forth.best.len(), OPEN);
        assert!(forth.is_cut && forth.best.iter().all(|pair| pair.score == 46));
        assert_eq!(
            forth.best[0],
            Pair {
                a: 0,
                b: 6,
                score: 46
            }
        );
        assert!(forth.is_open[..90].iter().all(|is_open| *is_open));
        assert!(!forth.is_open[90..].contains(&true));
        assert!(!found(&pairs[..OPEN]).is_cut);
    }
}
