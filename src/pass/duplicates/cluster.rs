//! From pairs to clusters: what is connected, directly or through others, is one cluster.
//!
//! A cluster says only that its members are worth looking at together; it is the pass that decides which of them say
//! the same. The clusters depend on the set of pairs alone, not on the order in which they come or on who finds them.

use super::kernel::Sink;

/// Rows joined by the pairs seen so far.
#[derive(Debug, Clone)]
pub struct Components {
    /// For each row, a lower row of its component, or itself.
    parents: Vec<u32>,
}

impl Components {
    /// So many rows, none joined.
    ///
    /// # Panics
    ///
    /// When there are more rows than `u32` numbers.
    #[must_use]
    #[expect(clippy::expect_used, reason = "an index takes no more rows than that")]
    pub fn new(rows: usize) -> Self {
        let rows = u32::try_from(rows).expect("rows are numbered in u32");
        Self {
            parents: (0..rows).collect(),
        }
    }

    /// Joins the components of two rows.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    pub fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        // The lower root stays: then a component's root is its first row.
        self.parents[a.max(b) as usize] = a.min(b);
    }

    /// Joins what each of several threads has joined; `None` for no thread.
    ///
    /// # Panics
    ///
    /// When they do not have the same rows.
    #[must_use]
    pub fn merge(all: Vec<Self>) -> Option<Self> {
        all.into_iter().reduce(|mut merged, other| {
            assert_eq!(merged.parents.len(), other.parents.len());
            for (row, parent) in (0..).zip(other.parents) {
                merged.join(row, parent);
            }
            merged
        })
    }

    /// The components of two rows and more: the rows of each in order, the clusters in the order of their first rows.
    #[must_use]
    pub fn clusters(mut self) -> Vec<Vec<u32>> {
        const NONE: usize = usize::MAX;
        let mut place_of_root = vec![NONE; self.parents.len()];
        let mut clusters: Vec<Vec<u32>> = Vec::new();
        for row in (0..).take(self.parents.len()) {
            let root = self.root(row);
            if root == row {
                continue;
            }
            // A root is its component's first row, so that clusters are met in the order of their second rows.
            let place = &mut place_of_root[root as usize];
            if *place == NONE {
                *place = clusters.len();
                clusters.push(vec![root]);
            }
            clusters[*place].push(row);
        }
        clusters.sort_unstable();
        clusters
    }

    /// The first row of the component.
    fn root(&mut self, mut row: u32) -> u32 {
        loop {
            let parent = self.parents[row as usize];
            if parent == row {
                return row;
            }
            let grandparent = self.parents[parent as usize];
            self.parents[row as usize] = grandparent;
            row = grandparent;
        }
    }
}

impl Sink for Components {
    fn pair(&mut self, a: u32, b: u32) {
        self.join(a, b);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// How many rows there are, which are paired, and the clusters they make.
    type Case = (usize, &'static [(u32, u32)], &'static [&'static [u32]]);

    fn clusters(rows: usize, pairs: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let mut components = Components::new(rows);
        for &(a, b) in pairs {
            components.join(a, b);
        }
        components.clusters()
    }

    #[test]
    fn what_is_connected_is_one_cluster() {
        let cases: [Case; 6] = [
            (0, &[], &[]),
            (3, &[], &[]),
            (3, &[(1, 1)], &[]),
            (6, &[(4, 5), (1, 3)], &[&[1, 3], &[4, 5]]),
            (
                6,
                &[(5, 4), (4, 2), (2, 0), (1, 3)],
                &[&[0, 2, 4, 5], &[1, 3]],
            ),
            (4, &[(0, 3), (1, 2)], &[&[0, 3], &[1, 2]]),
        ];
        for (rows, pairs, expected) in cases {
            assert_eq!(clusters(rows, pairs), expected, "{pairs:?}");
        }
    }

    #[test]
    fn no_thread_has_no_components() {
        assert!(Components::merge(Vec::new()).is_none());
    }

    proptest! {
        /// Whatever order the pairs come in, whichever way round, and however they are shared among threads.
        #[test]
        fn clusters_depend_on_the_set_of_pairs_alone(
            pairs in vec((0..40_u32, 0..40_u32), 0..40),
            shuffled in any::<prop::sample::Index>(),
            threads in 1_usize..4,
        ) {
            let expected = clusters(40, &pairs);
            let mut others: Vec<(u32, u32)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            if !others.is_empty() {
                let middle = shuffled.index(others.len());
                others.rotate_left(middle);
                others[..middle].reverse();
            }
            let mut parts = vec![Components::new(40); threads];
            for (at, (a, b)) in others.into_iter().enumerate() {
                parts[at % threads].pair(a, b);
            }
            prop_assert_eq!(Components::merge(parts).unwrap().clusters(), expected.clone());
            // Each row is in one cluster at most, and both sides of a pair in the same.
            let place = |row: u32| expected.iter().position(|cluster| cluster.contains(&row));
            for (a, b) in pairs {
                prop_assert!(a == b || place(a).is_some(), "{} {}", a, b);
                prop_assert_eq!(place(a), place(b));
            }
            let mut rows = expected.concat();
            rows.sort_unstable();
            rows.dedup();
            prop_assert_eq!(rows.len(), expected.concat().len());
        }
    }
}
