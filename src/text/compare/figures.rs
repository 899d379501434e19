//! Numbers and times that differ.
//!
//! Policy: two numbers disagree when they count or measure the same: their dimension is one, the words around them are,
//! and neither text has the number of the other as well ("from 70 to 90" does not disagree with "90").

use super::super::align::carries;
use super::super::analysis::{Analysis, Class};
use super::super::quantity::{Dimension, Quantity};
use super::{Comparison, Cover, Side};

/// Words behind and before a number that say what it counts.
const BEHIND: usize = 3;
const BEFORE: usize = 4;
/// Shared weight around two numbers at which they count the same for sure.
const SURE: f32 = 4.0;
/// What a cosine is above the agreement that it stands for.
const COSINE_EXCESS: f32 = 0.15;

/// How far two numbers that differ count the same, at best.
pub(super) fn numeric(comparison: &Comparison<'_>, cover: Cover) -> Option<f32> {
    let mut best = None::<f32>;
    for one in &comparison.a.quantities {
        for other in &comparison.b.quantities {
            if one.dimension != other.dimension
                || is_one(one, other)
                || has(comparison, Side::A, one)
                || has(comparison, Side::B, other)
            {
                continue;
            }
            if let Some(agreement) = same_count(comparison, one, other, cover) {
                best = Some(best.map_or(agreement, |best| best.max(agreement)));
            }
        }
    }
    best
}

/// Whether the texts give two numbers that could count the same, and differ.
pub(super) fn may_differ(a: &Analysis, b: &Analysis) -> bool {
    let differ =
        |one: &Quantity, other: &Quantity| one.dimension == other.dimension && !is_one(one, other);
    let others = &b.quantities;
    a.quantities
        .iter()
        .any(|one| others.iter().any(|other| differ(one, other)))
}

/// Whether a text gives the same number of the same things as the other text does.
fn has(comparison: &Comparison<'_>, side: Side, quantity: &Quantity) -> bool {
    let (own, other) = (comparison.text(side), comparison.text(side.other()));
    other.quantities.iter().any(|known| {
        let is_same = is_one(known, quantity);
        is_same
            && (quantity.dimension != Dimension::Count || {
                let near = around(other, known);
                let around = around(own, quantity);
                let is_shared = |at: &usize| {
                    comparison.links(side)[*at].is_some_and(|link| near.contains(&link.to))
                };
                around.iter().any(is_shared) || around.is_empty() || near.is_empty()
            })
    })
}

#[expect(
    clippy::float_cmp,
    reason = "both come from the same reading of digits"
)]
fn is_one(one: &Quantity, other: &Quantity) -> bool {
    one.dimension == other.dimension && one.value == other.value
}

fn same_count(
    comparison: &Comparison<'_>,
    one: &Quantity,
    other: &Quantity,
    cover: Cover,
) -> Option<f32> {
    let (near_one, near_other) = (around(comparison.a, one), around(comparison.b, other));
    let shared: f32 = near_one
        .iter()
        .filter(|at| comparison.alignment.a[**at].is_some_and(|link| near_other.contains(&link.to)))
        .map(|at| weight(comparison, Side::A, *at))
        .sum();
    let is_bare = matches!(one.dimension, Dimension::Count | Dimension::Rank);
    let found =
        |side: Side, near: &[usize]| near.iter().any(|at| comparison.links(side)[*at].is_some());
    let is_near =
        shared > 0.0 || (!is_bare && (found(Side::A, &near_one) || found(Side::B, &near_other)));
    if !is_near {
        return None;
    }
    let by_cosine = match comparison.context.cosine {
        Some(cosine) if shared >= 1.0 => cosine - COSINE_EXCESS,
        _ => 0.0,
    };
    Some(cover.most().max(shared / SURE).max(by_cosine))
}

/// A shared name says whose number it is, not what it counts.
fn weight(comparison: &Comparison<'_>, side: Side, at: usize) -> f32 {
    let word = &comparison.text(side).words[at];
    if word.class == Class::Name {
        super::SHARED_NAME
    } else {
        comparison.weight(word)
    }
}

/// The words of the clause next to a number.
fn around(text: &Analysis, quantity: &Quantity) -> Vec<usize> {
    let at = quantity.at as usize;
    let clause = text.words[at].clause;
    let in_clause = |at: &usize| carries(&text.words[*at]) && text.words[*at].clause == clause;
    let behind = (at + 1..text.words.len()).filter(in_clause).take(BEHIND);
    let before = (0..at).rev().filter(in_clause).take(BEFORE);
    behind.chain(before).collect()
}

/// Whether the texts give different times of one grain, and no common one.
pub(super) fn temporal(a: &Analysis, b: &Analysis) -> bool {
    let (a, b) = (&a.moments, &b.moments);
    a.iter().any(|one| {
        let mut of_grain = b.iter().filter(|other| other.grain == one.grain).peekable();
        let has_grain = of_grain.peek().is_some();
        let is_shared = of_grain.any(|other| {
            a.iter()
                .any(|one| one.grain == other.grain && one.value == other.value)
        });
        has_grain && !is_shared
    })
}
