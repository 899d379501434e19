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
        const NONE: u32 = u32::MAX;
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
                *place = u32::try_from(clusters.len()).expect("fewer clusters than rows");
                clusters.push(vec![root]);
            }
            clusters[*place as usize].push(row);
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
