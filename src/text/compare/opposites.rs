//! Words of which not both can hold.

use super::super::align::{MAX_WORDS, carries};
use super::super::analysis::{Analysis, Class, Word};
use super::Comparison;

/// Pairs of words, one of each text, that exclude each other and stand alike, negated or not.
pub(super) fn find(comparison: &Comparison<'_>) -> Vec<(usize, usize)> {
    let (a, b) = (&comparison.a.words, &comparison.b.words);
    let mut pairs = Vec::new();
    for (i, one) in a.iter().enumerate().take(MAX_WORDS) {
        if comparison.alignment.a[i].is_some() || one.relations.is_none() {
            continue;
        }
        for (j, other) in b.iter().enumerate().take(MAX_WORDS) {
            let is_free = comparison.alignment.b[j].is_none();
            if is_free && exclude(one, other) && stands_alike(comparison, i, j) {
                pairs.push((i, j));
            }
        }
    }
    pairs
}

/// Whether any word of one text excludes one of the other, wherever they stand.
pub(super) fn may_exclude(a: &Analysis, b: &Analysis) -> bool {
    let can = |word: &&Word| {
        word.relations.is_some_and(|relations| {
            !relations.opposites.is_empty() || !relations.exclusive.is_empty()
        })
    };
    let ours = a.words.iter().take(MAX_WORDS).filter(can);
    ours.into_iter().any(|one| {
        let mut theirs = b.words.iter().take(MAX_WORDS).filter(can);
        theirs.any(|other| exclude(one, other))
    })
}

/// Whether two words cannot both hold of one thing.
fn exclude(one: &Word, other: &Word) -> bool {
    let (Some(a), Some(b)) = (one.relations, other.relations) else {
        return false;
    };
    let is_exclusive = || a.exclusive.iter().any(|group| b.exclusive.contains(group));
    one.key != other.key && (a.opposites.contains(&other.key) || is_exclusive())
}

/// Words with a topic must have the same polarity; particles ("on", "off") must stand beside the same words.
fn stands_alike(comparison: &Comparison<'_>, i: usize, j: usize) -> bool {
    let (one, other) = (&comparison.a.words[i], &comparison.b.words[j]);
    if carries(one) && carries(other) {
        return one.polarity.is_negated() == other.polarity.is_negated();
    }
    let are_particles = one.class == Class::Function && other.class == Class::Function;
    are_particles && beside(comparison, i, j, false) && beside(comparison, i, j, true)
}

/// Whether the nearest words that carry a topic, behind or before, are aligned, or both texts have none there.
fn beside(comparison: &Comparison<'_>, i: usize, j: usize, is_behind: bool) -> bool {
    let near = |words: &[Word], at: usize| {
        if is_behind {
            (at + 1..words.len()).find(|at| carries(&words[*at]))
        } else {
            (0..at).rev().find(|at| carries(&words[*at]))
        }
    };
    let (x, y) = (near(&comparison.a.words, i), near(&comparison.b.words, j));
    match (x, y) {
        (None, None) => true,
        (Some(x), Some(y)) => comparison.alignment.a[x].is_some_and(|link| link.to == y),
        _ => false,
    }
}
