//! A sample of the points of a store, to see how alike two of them look.

use std::ops::ControlFlow;

use crate::memory::PointId;
use crate::store::vectors::{Selector, VectorError, VectorReader};

use super::super::live::usual_length;
use super::background::background;
use super::kernel::{Vectors, has_direction};

/// Points of the sample, at the most: they make 130,000 pairs, many more than are looked at.
const POINTS: usize = 512;
/// Points from which on their pairs tell something: of two that say the same, the pair is no random one.
const FEWEST: usize = 10;
/// Namespaces that are looked into, at the most.
const NAMESPACES: usize = 64;

/// The background of a store: the median cosine of pairs of its points, taken from namespaces spread evenly over all of
/// them, alike many of each. `None` when there are too few points to tell.
///
/// # Errors
///
/// When the vector store cannot be read.
pub(in crate::pass) fn background_of(store: &dyn VectorReader) -> Result<Option<f64>, VectorError> {
    let namespaces: Vec<String> = store
        .namespaces()?
        .into_iter()
        .map(|(namespace, _)| namespace)
        .collect();
    // Where no point names a namespace by itself, the sample is of all.
    let selectors: Vec<Selector<'_>> = match &namespaces[..] {
        [] => vec![Selector::All],
        some => some.iter().map(|name| Selector::Namespace(name)).collect(),
    };
    let step = selectors.len().div_ceil(NAMESPACES).max(1);
    let chosen: Vec<Selector<'_>> = selectors.into_iter().step_by(step).collect();
    let each = POINTS / chosen.len().max(1);
    let mut ids: Vec<PointId> = Vec::with_capacity(POINTS);
    for selector in chosen {
        let enough = ids.len() + each;
        store.scroll(selector, &[], &mut |page| {
            let wanted = enough - ids.len();
            ids.extend(page.into_iter().take(wanted).map(|head| head.id));
            if ids.len() < enough {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
    }
    ids.sort();
    let mut found = store.vectors(&ids)?;
    found.retain(|(_, vector)| has_direction(vector));
    let dim = usual_length(found.iter().map(|(_, vector)| vector.len()));
    found.retain(|(_, vector)| vector.len() == dim);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    if found.len() < FEWEST {
        return Ok(None);
    }
    let numbers: Vec<f32> = found.into_iter().flat_map(|(_, vector)| vector).collect();
    Ok(Vectors::new(&numbers, dim).ok().and_then(background))
}
