//! Who is compared with whom: the memories of one namespace in the order in which they were written.
//!
//! Mechanics: in that order everything within the window of a memory stands around it. New memories are taken a block
//! at a time, with what stands around the block, so that the texts and vectors of a namespace are never all in memory.
//!
//! Policy: two memories are in one window when no more than the window lies between the first instants at which they can
//! have been written. One whose time is absent or cannot be read is in no window.

use std::ops::Range;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::memory::Moment;
use crate::plan::{Finding, Plan};

use super::super::live::Live;

/// Memories of a block, from the first new one to the last, at the most.
const BLOCK: usize = 8_192;
/// Memories before a block and behind it that it is compared with, at the most.
const REACH: usize = 16_384;

/// The memories of one namespace that say when they were written.
pub(super) struct Timeline {
    /// In the order of their times, those of one time in order of their ids.
    pub(super) members: Vec<Live>,
    times: Vec<Timestamp>,
    window: Duration,
}

/// New memories, and what they are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// The new memories are among these.
    pub(super) core: Range<usize>,
    /// All that may be in the window of one of them.
    pub(super) reach: Range<usize>,
    /// Whether there was more than [`REACH`].
    pub(super) is_cut: bool,
}

impl Timeline {
    /// Puts memories in order; what has no readable time is counted and left out.
    pub(super) fn of(plan: &mut Plan, members: Vec<Live>, window: Duration) -> Self {
        let mut dated = Vec::with_capacity(members.len());
        for member in members {
            match member.created_at {
                Moment::At { earliest, .. } => dated.push((earliest, member)),
                Moment::Absent => plan.found(Finding::Undated, 1),
                Moment::Unreadable => plan.found(Finding::Unreadable, 1),
            }
        }
        dated.sort_by(|(at, a), (bt, b)| at.cmp(bt).then_with(|| a.id.cmp(&b.id)));
        let (times, members) = dated.into_iter().unzip();
        Self {
            members,
            times,
            window,
        }
    }

    /// The first place that is in the window of another one.
    fn begin(&self, at: usize) -> usize {
        let oldest = self.times[at].checked_sub(self.window);
        oldest.map_or(0, |oldest| self.times.partition_point(|at| *at < oldest))
    }

    /// One past the last place that is in the window of another one.
    fn end(&self, at: usize) -> usize {
        let newest = self.times[at].checked_add(self.window);
        newest.map_or(self.times.len(), |newest| {
            self.times.partition_point(|at| *at <= newest)
        })
    }

    /// Whether two memories are in one window.
    pub(super) fn is_within(&self, a: usize, b: usize) -> bool {
        let (a, b) = (a.min(b), a.max(b));
        let newest = self.times[a].checked_add(self.window);
        newest.is_ok_and(|newest| self.times[b] <= newest)
    }

    /// The new memories in blocks, in order.
    pub(super) fn blocks(&self, is_new: &[bool]) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        for at in (0..is_new.len()).filter(|at| is_new[*at]) {
            match blocks.last_mut() {
                // Where nothing stands between two reaches, they are two blocks.
                Some(block)
                    if at < block.core.start + BLOCK && self.begin(at) <= block.reach.end =>
                {
                    block.core.end = at + 1;
                    block.reach.end = self.end(at);
                }
                _ => blocks.push(Block {
                    core: at..at + 1,
                    reach: self.begin(at)..self.end(at),
                    is_cut: false,
                }),
            }
        }
        for block in &mut blocks {
            let near = block.core.start.saturating_sub(REACH)..block.core.end + REACH;
            let within = block.reach.start.max(near.start)..block.reach.end.min(near.end);
            block.is_cut = within != block.reach;
            block.reach = within;
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, MemoryId};
    use crate::pass::PassName;

    const HOUR: i64 = 3_600;

    fn at(hour: i64) -> Moment {
        Moment::exact(Timestamp::from_second(1_700_000_000 + hour * HOUR).unwrap())
    }

    fn member(id: i64, created_at: Moment) -> Live {
        let mut memory = Memory::new(Some(MemoryId::Integer(id)));
        memory.created_at = created_at;
        Live::sample(memory)
    }

    fn timeline(hours: &[i64], window: i64) -> Timeline {
        let mut plan = Plan::new("agent".into(), PassName::Contradictions);
        let members = (0..).zip(hours).map(|(id, hour)| member(id, at(*hour)));
        let window = Duration::from_secs((window * HOUR).unsigned_abs());
        Timeline::of(&mut plan, members.collect(), window)
    }

    fn block(core: Range<usize>, reach: Range<usize>) -> Block {
        Block {
            core,
            reach,
            is_cut: false,
        }
    }

    #[test]
    fn a_time_that_is_absent_or_unreadable_is_in_no_window() {
        let mut plan = Plan::new("agent".into(), PassName::Contradictions);
        let moments = [
            at(5),
            Moment::Absent,
            Moment::Unreadable,
            at(1),
            at(5),
            Moment::Absent,
        ];
        let in_turn = (0..).zip(moments).map(|(id, at)| member(id, at));
        let mut members: Vec<Live> = in_turn.collect();
        members.reverse();
        let timeline = Timeline::of(&mut plan, members, Duration::from_secs(1));
        let ids: Vec<&MemoryId> = timeline.members.iter().map(|live| &live.id).collect();
        assert_eq!(
            ids,
            [
                &MemoryId::Integer(3),
                &MemoryId::Integer(0),
                &MemoryId::Integer(4)
            ]
        );
        assert_eq!(plan.findings[&Finding::Undated], 2);
        assert_eq!(plan.findings[&Finding::Unreadable], 1);
    }

    #[test]
    fn the_edge_belongs_to_the_window() {
        let timeline = timeline(&[0, 10, 20, 21], 10);
        for (a, b, is_within) in [
            (0, 1, true),
            (0, 2, false),
            (1, 2, true),
            (1, 3, false),
            (2, 3, true),
        ] {
            assert_eq!(timeline.is_within(a, b), is_within, "{a} {b}");
            assert_eq!(timeline.is_within(b, a), is_within, "{b} {a}");
        }
    }

    #[test]
    fn a_block_reaches_as_far_as_the_windows_of_its_new_members() {
        let hours = [0, 5, 10, 11, 30, 31, 60];
        for (new, expected) in [
            (vec![], vec![]),
            (vec![0], vec![block(0..1, 0..3)]),
            (vec![3], vec![block(3..4, 1..4)]),
            // Their reaches meet: one block, and nothing between them is missing.
            (vec![1, 3], vec![block(1..4, 0..4)]),
            (vec![0, 4], vec![block(0..1, 0..3), block(4..5, 4..6)]),
            (vec![6], vec![block(6..7, 6..7)]),
        ] {
            let is_new: Vec<bool> = (0..hours.len()).map(|at| new.contains(&at)).collect();
            assert_eq!(timeline(&hours, 10).blocks(&is_new), expected, "{new:?}");
        }
    }

    #[test]
    fn a_flood_is_taken_in_blocks_with_bounded_reach() {
        let rows = 2 * REACH + 2 * BLOCK;
        let timeline = timeline(&vec![0; rows], 1);
        let blocks = timeline.blocks(&vec![true; rows]);
        assert_eq!(blocks.len(), rows / BLOCK);
        assert!(
            blocks
                .iter()
                .all(|block| block.is_cut && block.reach.len() <= BLOCK + 2 * REACH)
        );
        assert!(
            blocks
                .windows(2)
                .all(|pair| pair[0].core.end == pair[1].core.start)
        );
        let fits = blocks.iter().all(|block| {
            block.reach.start <= block.core.start && block.core.end <= block.reach.end
        });
        assert!(fits);
    }
}
