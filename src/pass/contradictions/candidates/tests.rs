use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::clock::Timestamp;
use crate::config::default_passes;
use crate::memory::{Memory, MemoryId, Moment};
use crate::pass::PassName;
use crate::pass::live::Live;
use crate::plan::Plan;

const HOUR: i64 = 3_600;

/// Memories of one namespace, each written some hours after the first.
struct World {
    timeline: Timeline,
    texts: Vec<Option<Analysis>>,
    settings: Contradictions,
}

impl World {
    /// The window is a day.
    fn new(memories: &[(i64, &str)]) -> Self {
        let mut plan = Plan::new("agent".into(), PassName::Contradictions);
        let member = |(id, (hour, text)): (i64, &(i64, &str))| {
            let mut memory = Memory::new(Some(MemoryId::Integer(id)));
            let at = Timestamp::from_second(1_700_000_000 + hour * HOUR).unwrap();
            memory.created_at = Moment::exact(at);
            memory.content = Some((*text).to_owned());
            Live::sample(memory)
        };
        let members = (0..).zip(memories).map(member).collect();
        let timeline = Timeline::of(&mut plan, members, Duration::from_hours(24));
        let text = |live: &Live| match live.id {
            MemoryId::Integer(id) => memories[usize::try_from(id).unwrap()].1,
            _ => unreachable!(),
        };
        let texts = timeline.members.iter();
        let texts = texts.map(|live| Some(Analysis::of(text(live)))).collect();
        Self {
            timeline,
            texts,
            settings: default_passes().contradictions,
        }
    }

    /// The pairs that sharing a term finds, by the places of the members, over all blocks.
    fn sharing(&self, is_new: &[bool]) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for block in self.timeline.blocks(is_new) {
            let texts = Texts {
                timeline: &self.timeline,
                block: &block,
                is_new,
                said: &self.texts[block.reach.clone()],
                settings: &self.settings,
            };
            let found = texts.sharing();
            pairs.extend(
                found
                    .iter()
                    .map(|(a, b)| (texts.member(*a), texts.member(*b))),
            );
        }
        pairs
    }
}

const MEMORIES: [(i64, &str); 9] = [
    (0, "Ana eats meat"),
    (1, "Ana does not eat meat"),
    (2, "Ana never eats meat at lunch"),
    (3, "Bruno plays the harp"),
    (20, "The harp is sold"),
    (25, "Ana has two cats"),
    (26, "Ana has three cats"),
    (60, "Ana does not eat meat any more"),
    (61, "Ana bought a harp"),
];

#[test]
fn pairs_of_one_window_that_share_a_term_and_could_disagree_are_found() {
    let world = World::new(&MEMORIES);
    let all = world.sharing(&[true; MEMORIES.len()]);
    for (pair, is_found) in [
        ((0, 1), true),
        ((0, 2), true),
        ((5, 6), true),
        // Neither denies anything, and no words are opposites.
        ((0, 3), false),
        // More than a day apart.
        ((0, 7), false),
    ] {
        assert_eq!(all.contains(&pair), is_found, "{pair:?} in {all:?}");
    }
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "each once: {all:?}");
}

#[test]
fn only_pairs_with_a_new_memory_are_found_and_all_of_them() {
    let world = World::new(&MEMORIES);
    let all: BTreeSet<_> = world.sharing(&[true; MEMORIES.len()]).into_iter().collect();
    for new in 0..1_u32 << MEMORIES.len() {
        let is_new: Vec<bool> = (0..MEMORIES.len()).map(|at| (new >> at) & 1 == 1).collect();
        let found = world.sharing(&is_new);
        let expected: BTreeSet<_> = all
            .iter()
            .filter(|(a, b)| is_new[*a] || is_new[*b])
            .copied()
            .collect();
        assert_eq!(found.len(), expected.len(), "each once: {found:?}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

#[test]
fn a_text_that_could_not_be_read_is_in_no_pair() {
    let mut world = World::new(&MEMORIES);
    world.texts[1] = None;
    let pairs = world.sharing(&[true; MEMORIES.len()]);
    assert!(!pairs.is_empty() && pairs.iter().all(|(a, b)| *a != 1 && *b != 1));
}

#[test]
fn words_that_too_many_have_find_nothing() {
    let texts: Vec<Option<Analysis>> = (0..100)
        .map(|at| format!("the project uses tool{}", at / 2))
        .map(|text| Some(Analysis::of(&text)))
        .collect();
    let index = Index::of(&texts);
    let places = |terms: Vec<usize>| -> Vec<Vec<u32>> {
        terms
            .iter()
            .map(|term| index.places(*term).collect())
            .collect()
    };
    let is_own = [true; 100];
    let rare = places(index.affordable(&is_own, 1_000));
    assert_eq!(rare.len(), 50, "one for each tool: {rare:?}");
    assert!(rare.iter().all(|places| places.len() == 2));
    let all = places(index.affordable(&is_own, 1_000_000));
    assert!(all.iter().any(|places| places.len() == 100));
    // Of terms as rare as each other all are taken, or none.
    assert!(index.affordable(&is_own, 199).is_empty());
    assert_eq!(index.affordable(&is_own, 200).len(), 50);
}

#[test]
fn near_vectors_find_what_shares_only_common_words_up_to_a_limit() {
    let world = World::new(&MEMORIES);
    let is_new = [true; MEMORIES.len()];
    let block = &world.timeline.blocks(&is_new)[0];
    let texts = Texts {
        timeline: &world.timeline,
        block,
        is_new: &is_new,
        said: &world.texts[block.reach.clone()],
        settings: &world.settings,
    };
    // The first vector is missing; the second and the third are one.
    let places = [1, 2, 3, 5, 6];
    let copies = HashMap::from([(0, vec![1])]);
    let near = |limit| Near {
        limit,
        ..Near::new(&texts, &places, &copies)
    };
    let mut one = near(10);
    one.pair(0, 2);
    one.pair(3, 4);
    one.pair(2, 3);
    let other = near(10);
    let pairs = Near::merge(vec![one, other]).unwrap();
    assert!(pairs.contains(&(1, 3)) && pairs.contains(&(2, 3)) && pairs.contains(&(5, 6)));
    assert!(!pairs.contains(&(3, 5)), "they cannot disagree: {pairs:?}");
    let mut full = near(1);
    full.pair(0, 2);
    assert_eq!(Near::merge(vec![full]), None);
}
