//! Which memories are folded into which: stars, each a survivor and those near *it*.
//!
//! Members are taken in order, best first. Each that is still there becomes a survivor, and takes in every later one that
//! is near enough to it and may join it. So nobody joins by way of a third (no chains), nobody that stays could have
//! joined somebody that stays, and the outcome depends on the order of the members' merits and on nothing else.

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

/// Looks for the stars. `order` has every member, best first; `may_join(survivor, member)` decides, and is asked about
/// members that are near by one of `sides` only. Gives up, with `None`, when it was asked `most` times.
pub(super) fn stars(
    order: &[u32],
    sides: &[&Near],
    most: usize,
    mut may_join: impl FnMut(u32, u32) -> bool,
) -> Option<Vec<Fold>> {
    let place: HashMap<u32, usize> = order.iter().enumerate().map(|(at, m)| (*m, at)).collect();
    let mut is_gone = vec![false; order.len()];
    let mut folds = Vec::new();
    let mut asked = 0;
    for (at, &survivor) in order.iter().enumerate() {
        if is_gone[at] {
            continue;
        }
        let mut nearby: Vec<usize> = sides
            .iter()
            .flat_map(|near| near.of(survivor))
            .filter_map(|member| place.get(&member).copied())
            .filter(|other| *other > at && !is_gone[*other])
            .collect();
        nearby.sort_unstable();
        nearby.dedup();
        for other in nearby {
            asked += 1;
            if asked > most {
                return None;
            }
            if may_join(survivor, order[other]) {
                is_gone[other] = true;
                folds.push(Fold {
                    gone: order[other],
                    into: survivor,
                });
            }
        }
    }
    folds.sort_unstable();
    Some(folds)
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

    fn folds(order: &[u32], pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let found = stars(order, &[&near(pairs)], usize::MAX, |_, _| true).unwrap();
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
        let found = stars(&[6, 5, 3, 0], &[&near], usize::MAX, |_, _| true).unwrap();
        let found: Vec<_> = found.iter().map(|fold| (fold.gone, fold.into)).collect();
        assert_eq!(found, [(0, 6), (3, 6), (5, 6)]);
    }

    #[test]
    fn it_gives_up_rather_than_ask_without_end() {
        let mut near = Near::default();
        (1..100).for_each(|copy| near.equal(0, copy));
        let order: Vec<u32> = (0..100).collect();
        assert_eq!(stars(&order, &[&near], 200, |_, _| false), None);
        assert_eq!(stars(&order, &[&near], 4950, |_, _| false), Some(vec![]));
        assert_eq!(stars(&order, &[&near], 99, |_, _| true).unwrap().len(), 99);
    }

    proptest! {
        #[test]
        fn stars_are_stars(
            pairs in prop::collection::vec((0u32..20, 0u32..20), 0..60),
            refused in prop::collection::vec((0u32..20, 0u32..20), 0..10),
            order in Just((0..20).collect::<Vec<u32>>()).prop_shuffle(),
        ) {
            let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| a != b).collect();
            let is_near = |a, b| pairs.contains(&(a, b)) || pairs.contains(&(b, a));
            let may = |a, b| !refused.contains(&(a, b)) && !refused.contains(&(b, a));
            let found = stars(&order, &[&near(&pairs)], usize::MAX, may).unwrap();
            let gone: Vec<u32> = found.iter().map(|fold| fold.gone).collect();
            for fold in &found {
                prop_assert!(is_near(fold.gone, fold.into) && may(fold.into, fold.gone));
                prop_assert!(!gone.contains(&fold.into), "a survivor stays");
                prop_assert_eq!(gone.iter().filter(|member| **member == fold.gone).count(), 1);
            }
            let left: Vec<u32> = order.iter().copied().filter(|m| !gone.contains(m)).collect();
            prop_assert_eq!(stars(&left, &[&near(&pairs)], usize::MAX, may), Some(vec![]), "done once");
        }
    }
}
