//! Putting back what was taken out of lists, and the lists that went: for an undo, and for what a killed run had begun and
//! may not go any more.

use std::collections::{HashMap, HashSet};

use crate::apply::ApplyError;
use crate::apply::undo::{Fate, Why};
use crate::failpoint::{Failpoint, hit};
use crate::memory::PointId;
use crate::plan::ActionKind;
use crate::state::Intent;
use crate::store::image::PointImage;
use crate::store::linked;
use crate::store::vectors::VectorStore as _;
use crate::store::vectors::qdrant::{Relist, Relisted};

use super::Lists;

/// How an entity is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::apply) enum Back {
    /// As it was: its list, or the point.
    Whole,
    /// As it was before: nothing had to be done.
    There,
    /// It has gone since.
    Gone,
    /// It was written anew since.
    Rewritten,
}

/// Puts back what intents took, in their order: points as they were, or memories into the lists that are there now.
pub(in crate::apply) fn put_back(
    lists: &Lists<'_>,
    intents: &[&Intent],
) -> Result<Vec<Back>, ApplyError> {
    let mut backs = vec![Back::Gone; intents.len()];
    for places in rounds(intents) {
        let round: Vec<&Intent> = places.iter().map(|place| intents[*place]).collect();
        for (place, back) in places.into_iter().zip(put_round_back(lists, &round)?) {
            backs[place] = back;
        }
    }
    Ok(backs)
}

/// The places of intents in rounds that have each point once: several may have taken from the same list.
fn rounds(intents: &[&Intent]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut of: HashMap<&[PointId], usize> = HashMap::new();
    for (place, intent) in intents.iter().enumerate() {
        let round = of.entry(&intent.points).or_default();
        if rounds.len() == *round {
            rounds.push(Vec::new());
        }
        rounds[*round].push(place);
        *round += 1;
    }
    rounds
}

fn put_round_back(lists: &Lists<'_>, intents: &[&Intent]) -> Result<Vec<Back>, ApplyError> {
    let now = lists.look(intents)?;
    let (mut images, mut changes, mut there) = (Vec::new(), Vec::new(), HashSet::new());
    for intent in intents {
        let Some(image) = intent.images.first() else {
            continue;
        };
        match (intent.kind, now.get(&image.id)) {
            (ActionKind::DropEntity, None) => images.push(image.clone()),
            (ActionKind::DropEntity, Some(_)) | (_, None) => {}
            (_, Some(now)) => {
                let was = linked::list_of(image, lists.key)?;
                let listed = linked::list_of(now, lists.key)?;
                let list = linked::with_again(&listed, &was, &intent.behind);
                if list == listed {
                    there.insert(&image.id);
                } else {
                    let now = now.clone();
                    changes.push(Relist { now, list });
                }
            }
        }
    }
    if !images.is_empty() {
        hit(Failpoint::PutBackBefore)?;
        lists.points.put_back(&images)?;
        hit(Failpoint::PutBackDone)?;
    }
    let relisted = lists.points.relist(lists.key, &changes)?;
    how_back(lists, intents, &now, |_, image| {
        Ok(match relisted.get(&image.id) {
            Some(Relisted::Done) => Back::Whole,
            Some(Relisted::Changed) => Back::Rewritten,
            None if there.contains(&image.id) => Back::There,
            Some(Relisted::Gone) | None => Back::Gone,
        })
    })
}

/// Says how [`put_back`] would end, as far as a look tells.
pub(in crate::apply) fn foresee(
    lists: &Lists<'_>,
    intents: &[&Intent],
) -> Result<Vec<Back>, ApplyError> {
    let now = lists.look(intents)?;
    // What went as a whole after it had lost a part of its list is back by then.
    let drops = intents
        .iter()
        .filter(|it| it.kind == ActionKind::DropEntity);
    let drops: HashSet<&PointId> = drops.flat_map(|intent| &intent.points).collect();
    how_back(lists, intents, &now, |intent, image| {
        let Some(now) = now.get(&image.id) else {
            let is_back_by_then = drops.contains(&image.id);
            return Ok(if is_back_by_then {
                Back::Whole
            } else {
                Back::Gone
            });
        };
        let listed = linked::list_of(now, lists.key)?;
        let was = linked::list_of(image, lists.key)?;
        let is_there = linked::with_again(&listed, &was, &intent.behind) == listed;
        Ok(if is_there { Back::There } else { Back::Whole })
    })
}

/// How entities are back, `now` being what was there before, and `of_list` saying it of those that lost only a part of
/// their list. One that went as a whole, and is there all the same, counts as back where it lists what it listed: a killed
/// run had put it back, and then more into its list.
fn how_back(
    lists: &Lists<'_>,
    intents: &[&Intent],
    now: &HashMap<PointId, PointImage>,
    of_list: impl Fn(&Intent, &PointImage) -> Result<Back, ApplyError>,
) -> Result<Vec<Back>, ApplyError> {
    let how = |intent: &&Intent| {
        let Some(image) = intent.images.first() else {
            return Ok(Back::Gone);
        };
        Ok(match (intent.kind, now.get(&image.id)) {
            (ActionKind::DropEntity, None) => Back::Whole,
            (ActionKind::DropEntity, Some(now)) => {
                let listed = linked::list_of(now, lists.key)?;
                let was = linked::list_of(image, lists.key)?;
                if was.iter().all(|id| listed.contains(id)) {
                    Back::There
                } else {
                    Back::Rewritten
                }
            }
            _ => of_list(intent, image)?,
        })
    };
    intents.iter().map(how).collect()
}

/// What becomes of intents that are taken back by `back`, of which some may be of another collection than that of now.
pub(in crate::apply) fn fates(
    lists: Option<&Lists<'_>>,
    intents: &[&Intent],
    back: fn(&Lists<'_>, &[&Intent]) -> Result<Vec<Back>, ApplyError>,
) -> Result<Vec<Fate>, ApplyError> {
    let is_own = |intent: &Intent| lists.is_some_and(|lists| lists.is_of(intent));
    let own: Vec<&Intent> = intents.iter().copied().filter(|it| is_own(it)).collect();
    let mut backs = match lists {
        Some(lists) => back(lists, &own)?.into_iter(),
        None => Vec::new().into_iter(),
    };
    let fate = |intent: &&Intent| match is_own(intent).then(|| backs.next()).flatten() {
        Some(Back::Whole) => Fate::Back,
        Some(Back::There) => Fate::There,
        Some(Back::Gone) => Fate::Left(Why::Gone),
        Some(Back::Rewritten) => Fate::Left(Why::PointRewritten),
        None => Fate::Left(Why::OtherStores),
    };
    Ok(intents.iter().map(fate).collect())
}
