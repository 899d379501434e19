//! What taking a run back would come to, for a command that only looks.

use crate::memory::PointId;
use crate::pass::Cx;
use crate::state::{self, Intent, IntentRecord, StateReader};
use crate::store::Stores;
use crate::store::image::PointImage;
use crate::store::rows::{Foreseen, Return};

use super::super::entities::{self, Lists};
use super::super::files::{Files, Home};
use super::super::{ApplyError, damaged, unfinished};
use super::judge::{Erased, Judge};
use super::taking::missing;
use super::{Fate, PAGE, Returned, Scope, Undone, Why};

/// Says what [`super::undo`] would do, as far as a look at rows and points tells: a constraint or a trigger shows only
/// when it is tried. Writes nothing.
///
/// # Errors
///
/// When a store cannot be read; a tenant's file fails alone.
pub fn foresee(stores: &Stores, cx: &Cx<'_>, scope: &Scope<'_>) -> Result<Undone, ApplyError> {
    let mut undone = Undone::default();
    let tenants = stores.state.tenants()?;
    undone.unread.extend(damaged(&tenants.damaged));
    let Some(main) = stores.state.read(state::Partition::Main)? else {
        return Ok(undone);
    };
    let files = Files::list(stores)?;
    let looking = Looking {
        stores,
        scope,
        judge: Judge::new(stores, &main)?,
        lists: Lists::open(stores, cx.stop)?,
    };
    let names = tenants.names.iter();
    let names = names.map(|name| state::Partition::Tenant(name));
    for partition in std::iter::once(state::Partition::Main).chain(names) {
        if cx.stop.is_requested() {
            undone.interrupted = true;
            break;
        }
        let Some(state) = stores.state.read(partition)? else {
            continue;
        };
        match looking.look(&state, &files.home(partition), &mut undone) {
            Err(error) if error.is_of_one_file() && partition.tenant().is_some() => {
                undone.unread.push(unfinished(partition, error.advice()));
            }
            other => other?,
        }
    }
    if scope.is_whole() && !undone.interrupted {
        undone.reopened.extend(main.reopened_without(scope.run)?);
    }
    Ok(undone)
}

struct Looking<'a> {
    stores: &'a Stores,
    scope: &'a Scope<'a>,
    judge: Judge<'a>,
    /// The points that list memories.
    lists: Option<Lists<'a>>,
}

impl Looking<'_> {
    fn look(
        &self,
        state: &StateReader,
        home: &Home<'_>,
        undone: &mut Undone,
    ) -> Result<(), ApplyError> {
        let erased = state.erased_namespaces()?;
        let mut before = None;
        loop {
            let page = state.deeds_of_run(self.scope.run, before, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            before = Some(last.id);
            let wanted = page.into_iter().filter(|record| self.scope.wants(record));
            undone
                .actions
                .extend(self.page(wanted.collect(), home, &erased)?);
        }
    }

    fn page(
        &self,
        records: Vec<IntentRecord>,
        home: &Home<'_>,
        erased: &Erased,
    ) -> Result<Vec<Returned>, ApplyError> {
        let mut returned = Vec::with_capacity(records.len());
        let (mut memories, mut items, mut lists) = (Vec::new(), Vec::new(), Vec::new());
        for (place, record) in records.into_iter().enumerate() {
            let forbidden = self.judge.forbids(&record, home, erased);
            let mut action = Returned::of(&record, forbidden.unwrap_or(Fate::Back));
            let intent = record.intent;
            if forbidden.is_none() && intent.kind.is_of_entity() {
                lists.push((place, intent));
                returned.push(action);
                continue;
            }
            match (forbidden, intent.unit) {
                (None, Some(unit)) => {
                    let points = intent.images.iter().map(|image| image.id.clone());
                    memories.push((place, points.collect::<Vec<_>>()));
                    items.push(Return {
                        unit,
                        mark: intent.mark,
                        takeover: None,
                    });
                }
                (None, None) => action.fate = self.of_points(&intent.images)?,
                (Some(_), _) => {}
            }
            returned.push(action);
        }
        if let (Home::File(file), false) = (home, items.is_empty()) {
            let reader = self.stores.rows.reader(file)?;
            let seen = reader.snapshot(|snapshot| snapshot.foresee(&items))?;
            for ((place, points), foreseen) in memories.into_iter().zip(seen) {
                returned[place].fate = match foreseen {
                    Foreseen::Left(reason) => Fate::Left(reason.into()),
                    Foreseen::There if self.has(points)? => Fate::There,
                    Foreseen::There | Foreseen::Back => Fate::Back,
                };
            }
        }
        let intents: Vec<&Intent> = lists.iter().map(|(_, intent)| intent).collect();
        let fates = entities::fates(self.lists.as_ref(), &intents, entities::foresee)?;
        for ((place, _), fate) in lists.iter().zip(fates) {
            returned[*place].fate = fate;
        }
        Ok(returned)
    }

    /// What becomes of points that no row stands behind.
    fn of_points(&self, images: &[PointImage]) -> Result<Fate, ApplyError> {
        let ids = || images.iter().map(|image| image.id.clone()).collect();
        Ok(match &self.stores.vectors {
            Some(vectors) if !vectors.changed(images)?.is_empty() => {
                Fate::Left(Why::PointRewritten)
            }
            Some(_) if self.has(ids())? => Fate::There,
            _ => Fate::Back,
        })
    }

    /// Whether all of these points exist.
    fn has(&self, points: Vec<PointId>) -> Result<bool, ApplyError> {
        Ok(match &self.stores.vectors {
            Some(vectors) => missing(vectors.as_ref(), points)?.is_empty(),
            None => true,
        })
    }
}
