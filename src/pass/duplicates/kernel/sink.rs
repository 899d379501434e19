//! Where pairs go.

/// Takes the pairs that one thread finds.
pub trait Sink: Send {
    /// Takes a pair of rows, `a < b`. Called often: up to once for any two vectors.
    ///
    /// Rows that are equal bit for bit are folded: the first of them stands for all in pairs with other rows, and is
    /// itself paired with each of its copies ([`Index::copies`](super::Index::copies)).
    fn pair(&mut self, a: u32, b: u32);
}

/// Counts nothing, keeps nothing: for when the number of pairs is all that is wanted.
impl Sink for () {
    fn pair(&mut self, _: u32, _: u32) {}
}

/// Keeps pairs, up to a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    pairs: Vec<(u32, u32)>,
    limit: usize,
    is_full: bool,
}

impl Limited {
    /// Keeps the first `limit` pairs that come.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            pairs: Vec::new(),
            limit,
            is_full: false,
        }
    }

    /// The pairs that several threads kept, in order; `None` when there were more than one of them may keep.
    #[must_use]
    pub fn merge(all: Vec<Self>) -> Option<Vec<(u32, u32)>> {
        if all.iter().any(|one| one.is_full) {
            return None;
        }
        let mut pairs: Vec<_> = all.into_iter().flat_map(|one| one.pairs).collect();
        pairs.sort_unstable();
        Some(pairs)
    }
}

impl Sink for Limited {
    fn pair(&mut self, a: u32, b: u32) {
        if self.pairs.len() < self.limit {
            self.pairs.push((a, b));
        } else {
            self.is_full = true;
        }
    }
}
