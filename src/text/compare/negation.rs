//! One text denies what the other claims.
//!
//! Policy: a denial contradicts whatever implies the denied, so what counts is how much of the *denying* text the other
//! one asserts; what else that one says does not matter. "Never" denies every occasion, so that any told in other words
//! contradicts it: less of it has to be found again.

use super::super::align::{Tie, carries};
use super::super::analysis::{Class, Scope};
use super::super::fold::hash;
use super::super::lexicon::Negator;
use super::{APART, Aside, Comparison, Side};

/// What "never" adds to the agreement.
const NEVER: f32 = 0.2;
/// The least share of the negated words that the other text asserts.
const ASSERTED: f32 = 0.1;
/// Words between alternatives.
const OR: [&str; 7] = ["or", "ou", "o", "u", "nor", "nem", "ni"];

/// How far the texts speak of what only one of them denies; `None` when neither does alone.
pub(super) fn agreement(comparison: &Comparison<'_>, aside: &Aside) -> Option<f32> {
    let mut best = None::<f32>;
    for side in Side::BOTH {
        let scopes = comparison.text(side).scopes.iter();
        for scope in scopes.filter(|scope| scope.negator != Negator::Implied) {
            let agreement = of_scope(comparison, side, scope, aside);
            if let Some(agreement) = agreement {
                best = Some(best.map_or(agreement, |best| best.max(agreement)));
            }
        }
    }
    best
}

fn of_scope(comparison: &Comparison<'_>, side: Side, scope: &Scope, aside: &Aside) -> Option<f32> {
    let excused = alternatives(comparison, side, scope);
    let asserted = asserted(comparison, side, scope, &excused)?;
    if asserted < ASSERTED
        || (scope.negator == Negator::Without && !has_head(comparison, side, scope))
    {
        return Some(0.0);
    }
    let mut aside = aside.side(side).to_vec();
    for at in excused {
        aside[at] = true;
    }
    let never = if scope.negator == Negator::Never {
        NEVER
    } else {
        0.0
    };
    let apart = comparison.has_siblings() || comparison.name_apart();
    let agreement = comparison.cover(side, &aside) + never - if apart { APART } else { 0.0 };
    Some(agreement.clamp(0.0, 1.0))
}

/// Whether the other text has the first word that carries a topic: what one text is without.
fn has_head(comparison: &Comparison<'_>, side: Side, scope: &Scope) -> bool {
    let words = &comparison.text(side).words;
    range(scope)
        .find(|at| carries(&words[*at]))
        .is_some_and(|at| comparison.links(side)[at].is_some())
}

/// The share of the negated words that the other text asserts; `None` when it denies them too.
fn asserted(
    comparison: &Comparison<'_>,
    side: Side,
    scope: &Scope,
    excused: &[usize],
) -> Option<f32> {
    let (words, others) = (
        &comparison.text(side).words,
        &comparison.text(side.other()).words,
    );
    let (mut found, mut all) = (0.0, 0.0);
    for at in range(scope).filter(|at| !excused.contains(at)) {
        let weight = comparison.weight(&words[at]);
        all += weight;
        match comparison.links(side)[at] {
            Some(link) if others[link.to].polarity.is_negated() => return None,
            // No dog is denied by a poodle, but a poodle is not claimed by a dog.
            Some(link) if link.tie != Tie::Member => found += weight,
            _ => {}
        }
    }
    Some(if all > 0.0 { found / all } else { 1.0 })
}

/// Of alternatives of which the other text has one, those it lacks: "never any workshops or courses".
fn alternatives(comparison: &Comparison<'_>, side: Side, scope: &Scope) -> Vec<usize> {
    if scope.negator == Negator::Without {
        return Vec::new();
    }
    let words = &comparison.text(side).words;
    let links = comparison.links(side);
    let or = OR.map(hash);
    let mut excused = Vec::new();
    for at in range(scope).filter(|at| or.contains(&words[*at].fold)) {
        let before = (scope.from as usize..at)
            .rev()
            .take_while(|at| carries(&words[*at]));
        let after = (at + 1..scope.to as usize)
            .skip_while(|at| words[*at].class == Class::Function)
            .take_while(|at| carries(&words[*at]));
        let both: Vec<usize> = before.chain(after).collect();
        if both.iter().any(|at| links[*at].is_some()) {
            excused.extend(both.into_iter().filter(|at| links[*at].is_none()));
        }
    }
    excused
}

fn range(scope: &Scope) -> std::ops::Range<usize> {
    scope.from as usize..scope.to as usize
}
