//! Which memories are folded into which: stars, each a survivor and those near *it*.
//!
//! Members are taken in order, best first. Each that is still there becomes a survivor, and takes in every later one that
//! is near enough to it and may join it, except those that another one of them may not be one with: a survivor that is
//! vague enough for two memories that contradict each other would hide both. These stay that night, so that the next one
//! finds them as they are. So nobody joins by way of a third (no chains), and the outcome depends on the order of the
//! members' merits and on nothing else.

use std::collections::HashMap;

/// What is near what. Members are numbers; of those that are equal in what makes them near, one stands for all.
#[derive(Debug, Default)]
pub(super) struct Near {
    /// Members that are equal, by the one that stands for them; those alone of their kind are left out.
    equal: HashMap<u32, Vec<u32>>,
    /// Who stands for a member; itself where nobody does.
    stands_for: HashMap<u32, u32>,
    /// Those near one that stands, each itself one that stands.
    beside: HashMap<u32, Vec<u32>>,
}

impl Near {
    /// Makes the copies of a member equal to it.
    pub(super) fn equal(&mut self, first: u32, copy: u32) {
        self.equal
            .entry(first)
            .or_insert_with(|| vec![first])
            .push(copy);
        self.stands_for.insert(copy, first);
    }

    /// Makes two members, and all that equal either, near each other.
    pub(super) fn pair(&mut self, a: u32, b: u32) {
        self.beside.entry(a).or_default().push(b);
        self.beside.entry(b).or_default().push(a);
    }

    /// Every member that is near or equal to another one.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> + '_ {
        let equal = self.equal.values().flatten();
        equal.chain(self.beside.keys()).copied()
    }

    /// Everything near a member, those equal to it included, itself too.
    fn of(&self, member: u32) -> impl Iterator<Item = u32> + '_ {
        let stands = self.stands_for.get(&member).copied().unwrap_or(member);
        let others = self.beside.get(&stands).into_iter().flatten().copied();
        std::iter::once(stands).chain(others).flat_map(|stands| {
            let equal = self.equal.get(&stands).map_or(&[][..], Vec::as_slice);
            let alone = equal.is_empty().then_some(stands);
            equal.iter().copied().chain(alone)
        })
    }
}

/// One memory that is folded into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fold {
    /// What goes.
    pub(super) gone: u32,
    /// What stays.
    pub(super) into: u32,
}

/// How a member may join a survivor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// Not at all.
    No,
    /// It is one text with it: whatever is not one with the member is not one with the survivor.
    Same,
    /// It says the same in other words.
    Alike,
}

/// What decides about joining.
pub(super) trait Judge {
    /// How `member` may join `survivor`.
    fn join(&mut self, survivor: u32, member: u32) -> Join;

    /// Whether two that are both alike to a survivor are not one memory.
    fn are_apart(&mut self, a: u32, b: u32) -> bool;
}

/// Looks for the stars. `order` has every member, best first; `judge` decides, and is asked about members that are near by
/// one of `sides` only. Gives up, with `None`, when it was asked more than `most` times.
pub(super) fn stars(
    order: &[u32],
    sides: &[&Near],
    most: usize,
    judge: &mut impl Judge,
) -> Option<Vec<Fold>> {
    let place: HashMap<u32, usize> = order.iter().enumerate().map(|(at, m)| (*m, at)).collect();
    let mut is_gone = vec![false; order.len()];
    let mut is_kept = vec![false; order.len()];
    let mut folds = Vec::new();
    let mut left = most;
    for (at, &survivor) in order.iter().enumerate() {
        if is_gone[at] {
            continue;
        }
        let mut nearby: Vec<usize> = sides
            .iter()
            .flat_map(|near| near.of(survivor))
            .filter_map(|member| place.get(&member).copied())
            .filter(|other| *other > at && !is_gone[*other] && !is_kept[*other])
            .collect();
        nearby.sort_unstable();
        nearby.dedup();
        let (mut joining, mut alike) = (Vec::new(), Vec::new());
        for other in nearby {
            left = left.checked_sub(1)?;
            match judge.join(survivor, order[other]) {
                Join::No => {}
                Join::Same => joining.push(other),
                Join::Alike => alike.push(other),
            }
        }
        let is_out = contested(&alike, &mut left, |a, b| {
            judge.are_apart(order[a], order[b])
        })?;
        for (other, is_out) in alike.into_iter().zip(is_out) {
            if is_out {
                is_kept[other] = true;
            } else {
                joining.push(other);
            }
        }
        for other in joining {
            is_gone[other] = true;
            folds.push(Fold {
                gone: order[other],
                into: survivor,
            });
        }
    }
    folds.sort_unstable();
    Some(folds)
}

/// Which of `all` are apart from another one of them; `None` when that takes more than `left` questions.
fn contested(
    all: &[usize],
    left: &mut usize,
    mut are_apart: impl FnMut(usize, usize) -> bool,
) -> Option<Vec<bool>> {
    let mut is_out = vec![false; all.len()];
    for (b, &other) in all.iter().enumerate() {
        for (a, &one) in all[..b].iter().enumerate() {
            *left = left.checked_sub(1)?;
            if are_apart(one, other) {
                is_out[a] = true;
                is_out[b] = true;
            }
        }
    }
    Some(is_out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(pairs: &[(u32, u32)]) -> Near {
        let mut near = Near::default();
        for &(a, b) in pairs {
            near.pair(a, b);
        }
        near
    }

    /// Everybody may join but those, and those are apart.
    struct But<'a> {
        join: Join,
        refused: &'a [(u32, u32)],
        apart: &'a [(u32, u32)],
    }

    fn has(pairs: &[(u32, u32)], a: u32, b: u32) -> bool {
        pairs.contains(&(a, b)) || pairs.contains(&(b, a))
    }

    impl Judge for But<'_> {
        fn join(&mut self, survivor: u32, member: u32) -> Join {
            if has(self.refused, survivor, member) {
                Join::No
            } else {
                self.join
            }
        }

        fn are_apart(&mut self, a: u32, b: u32) -> bool {
            has(self.apart, a, b)
        }
    }

    fn all(join: Join) -> But<'static> {
        But {
            join,
            refused: &[],
            apart: &[],
        }
    }

    fn folds(order: &[u32], pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let found = stars(order, &[&near(pairs)], usize::MAX, &mut all(Join::Alike)).unwrap();
        found.iter().map(|fold| (fold.gone, fold.into)).collect()
    }

    #[test]
    fn nobody_joins_by_way_of_a_third() {
        assert_eq!(folds(&[0, 1, 2], &[(0, 1), (1, 2)]), [(1, 0)]);
        assert_eq!(folds(&[1, 0, 2], &[(0, 1), (1, 2)]), [(0, 1), (2, 1)]);
        assert_eq!(
            folds(&[0, 2, 1, 3], &[(0, 1), (1, 2), (2, 3)]),
            [(1, 0), (3, 2)]
        );
    }

    #[test]
    fn equal_members_are_near_each_other_and_whatever_one_of_them_is_near() {
        let mut near = Near::default();
        near.equal(0, 5);
        near.equal(0, 6);
        near.pair(0, 3);
        let found = stars(&[6, 5, 3, 0], &[&near], usize::MAX, &mut all(Join::Same)).unwrap();
        let found: Vec<_> = found.iter().map(|fold| (fold.gone, fold.into)).collect();
        assert_eq!(found, [(0, 6), (3, 6), (5, 6)]);
    }

    #[test]
    fn it_gives_up_rather_than_ask_without_end() {
        let mut near = Near::default();
        (1..100).for_each(|copy| near.equal(0, copy));
        let order: Vec<u32> = (0..100).collect();
        let stars = |most, join| stars(&order, &[&near], most, &mut all(join));
        assert_eq!(stars(200, Join::No), None);
        assert_eq!(stars(4950, Join::No), Some(vec![]));
        assert_eq!(stars(99, Join::Same).unwrap().len(), 99);
        assert_eq!(stars(4949, Join::Alike), None);
        assert_eq!(stars(4950, Join::Alike).unwrap().len(), 99);
    }

    /// A vague memory takes in neither of two that contradict each other, whoever is first; others it does.
    #[test]
    fn two_that_are_apart_join_nobody_together() {
        let pairs = [(0, 1), (0, 2), (0, 3)];
        for order in [[0, 1, 2, 3], [0, 3, 2, 1], [0, 2, 1, 3]] {
            let mut judge = But {
                apart: &[(1, 2)],
                ..all(Join::Alike)
            };
            let found = stars(&order, &[&near(&pairs)], usize::MAX, &mut judge).unwrap();
            assert_eq!(found, [Fold { gone: 3, into: 0 }], "{order:?}");
        }
    }

    proptest! {
        #[test]
        fn stars_are_stars(
            pairs in prop::collection::vec((0u32..20, 0u32..20), 0..60),
            refused in prop::collection::vec((0u32..20, 0u32..20), 0..10),
            apart in prop::collection::vec((0u32..20, 0u32..20), 0..10),
            order in Just((0..20).collect::<Vec<u32>>()).prop_shuffle(),
        ) {
            let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| a != b).collect();
            let mut judge = But { join: Join::Alike, refused: &refused, apart: &apart };
            let found = stars(&order, &[&near(&pairs)], usize::MAX, &mut judge).unwrap();
            let gone: Vec<u32> = found.iter().map(|fold| fold.gone).collect();
            for fold in &found {
                prop_assert!(has(&pairs, fold.gone, fold.into) && !has(&refused, fold.into, fold.gone));
                prop_assert!(!gone.contains(&fold.into), "a survivor stays");
                prop_assert_eq!(gone.iter().filter(|member| **member == fold.gone).count(), 1);
                let mut together = found.iter().filter(|other| other.into == fold.into);
                prop_assert!(together.all(|other| !has(&apart, fold.gone, other.gone) || fold == other));
            }
            let left: Vec<u32> = order.iter().copied().filter(|m| !gone.contains(m)).collect();
            let again = stars(&left, &[&near(&pairs)], usize::MAX, &mut judge);
            prop_assert_eq!(again, Some(vec![]), "done once");
        }
    }
}
