//! Which pairs hold memories of a namespace, as far as can be told without opening them: every manifest counts the
//! memories and points of each namespace in its copies.
//!
//! A count says nothing of words that a copy has beside its memories: a copy of the rows is made of live pages only where
//! it can be, but an index of words keeps deleted ones until it is folded, and a Qdrant server copies its segments as they
//! are, unless the points were written anew for it.

use std::collections::BTreeMap;

use super::manifest::CopiedRows;
use super::shelf::Listing;
use super::{Manifest, Pair};
use crate::clock::Timestamp;
use crate::memory::Namespace;
use crate::store::copies::{CopiedPoints, Count};

/// What a pair counts of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holding {
    /// Rows, hidden ones included.
    pub rows: u64,
    /// Points.
    pub points: u64,
}

impl Holding {
    /// What a pair counts of a namespace, however its halves spell it.
    #[must_use]
    pub fn of(manifest: &Manifest, namespace: &Namespace) -> Self {
        let rows = manifest.rows.iter();
        let points = manifest.points.iter();
        Self {
            rows: rows.map(|it| theirs(&it.count, namespace)).sum(),
            points: points.map(|it| theirs(&it.count, namespace)).sum(),
        }
    }

    /// Whether it counts nothing.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// What a count has of a namespace, however it spells it.
fn theirs(count: &Count, namespace: &Namespace) -> u64 {
    let normal = namespace.normal();
    let is_same = |raw: &str| Namespace::parse(raw).is_some_and(|known| known.normal() == normal);
    let counts = count.namespaces.iter();
    counts
        .filter(|(raw, _)| is_same(raw))
        .map(|(_, count)| count)
        .sum()
}

/// The pairs of a shelf, by what they hold of a namespace.
#[derive(Debug, Default)]
pub struct Holders<'a> {
    /// Pairs that hold memories or points of it, oldest first.
    pub sure: Vec<(&'a Pair, Holding)>,
    /// Pairs that count nothing of it, and were taken after something of it had been removed, or after one that holds it,
    /// from a server that keeps what was removed: they are likely to have words of it.
    pub tainted: Vec<&'a Pair>,
    /// Other pairs that count nothing of it, and may have words of what had been removed before they were taken.
    pub perhaps: Vec<&'a Pair>,
}

impl<'a> Holders<'a> {
    /// Sorts the pairs of a shelf; `removed` is when something of the namespace was first removed, where it is known.
    #[must_use]
    pub fn among(listing: &'a Listing, namespace: &Namespace, removed: Option<Timestamp>) -> Self {
        let mut holders = Self::default();
        for pair in &listing.pairs {
            let holding = Holding::of(&pair.manifest, namespace);
            if !holding.is_nothing() {
                holders.sure.push((pair, holding));
                continue;
            }
            let is_later = removed.is_some_and(|removed| pair.manifest.taken_at >= removed);
            if (is_later || !holders.sure.is_empty()) && only_points_keep_deleted(&pair.manifest) {
                holders.tainted.push(pair);
            } else if keeps_words(&pair.manifest) {
                holders.perhaps.push(pair);
            }
        }
        holders
    }

    /// How many pairs can have words of it, those that are likely to have them aside, where one was `taken` after text
    /// indexes had been folded: segments of a server, and pages, were copied as they are.
    #[must_use]
    pub fn unsure(&self, taken: Option<&str>) -> usize {
        let is_folded = |pair: &Pair| taken == Some(&pair.name) && !keeps_deleted(&pair.manifest);
        self.perhaps.iter().filter(|pair| !is_folded(pair)).count()
    }

    /// Whether a pair holds memories of it.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.sure.iter().any(|(pair, _)| pair.name == name)
    }
}

/// Whether a pair can have words of memories that it does not have.
fn keeps_words(manifest: &Manifest) -> bool {
    let has_index = |rows: &CopiedRows| has_text_index(&rows.tables);
    keeps_deleted(manifest) || manifest.rows.iter().any(has_index)
}

/// Whether something was copied with what had been deleted from it.
fn keeps_deleted(manifest: &Manifest) -> bool {
    manifest.files().any(|file| file.keeps_deleted) || has_old_segments(manifest)
}

/// Whether a server copied its segments as they were.
#[must_use]
pub fn has_old_segments(manifest: &Manifest) -> bool {
    let is_old = |points: &CopiedPoints| points.backend == "qdrant" && !points.written_anew;
    manifest.points.as_ref().is_some_and(is_old)
}

/// Whether a new pair, for which the points are written anew, has not what this one has.
fn only_points_keep_deleted(manifest: &Manifest) -> bool {
    has_old_segments(manifest) && !manifest.files().any(|file| file.keeps_deleted)
}

/// Whether two of the tables are those that FTS5, or FTS3 and FTS4, keep words in.
fn has_text_index(tables: &BTreeMap<String, u64>) -> bool {
    [("_idx", "_data"), ("_segdir", "_segments")]
        .iter()
        .any(|(one, other)| {
            let mut stems = tables.keys().filter_map(|name| name.strip_suffix(one));
            stems.any(|stem| tables.contains_key(&format!("{stem}{other}")))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_namespace_counts_and_no_namesake() {
        let uuid = "6a2f0000-0000-4000-8000-00000000000a";
        let mut count = Count::default();
        let spellings = [uuid.to_owned(), uuid.to_uppercase(), uuid.replace('-', "")];
        for (id, spelling) in ["1", "2", "3"].iter().zip(&spellings) {
            count.add(id, Some(&format!("user:{spelling}")));
        }
        for (id, other) in [("4", "user:6a2f"), ("5", "user:"), ("6", "no namespace")] {
            count.add(id, Some(other));
        }
        count.add("7", Some(&format!("team:{uuid}")));
        count.add_nameless(None);
        for spelling in spellings {
            let namespace = Namespace::parse(&format!("user:{spelling}")).unwrap();
            assert_eq!(theirs(&count, &namespace), 3, "{spelling}");
        }
        let nobody = Namespace::parse("user:6a2").unwrap();
        assert_eq!(theirs(&count, &nobody), 0);
    }

    #[test]
    fn a_text_index_is_told_by_its_tables() {
        for (tables, expected) in [
            (&["memories"][..], false),
            (
                &["memories", "words_data", "words_idx", "words_config"],
                true,
            ),
            (&["memories", "words_segments", "words_segdir"], true),
            (&["words_data", "other_idx"], false),
            (&["_idx", "_data"], true),
            (&[], false),
        ] {
            let counted = tables.iter().map(|name| ((*name).to_owned(), 1)).collect();
            assert_eq!(has_text_index(&counted), expected, "{tables:?}");
        }
    }
}
