//! What the application's log says otherwise than the points that are the rows. Counted, and never acted on: a log is
//! written beside the points, not before them, and nobody can tell which of the two is right.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::Sweep;
use super::ledger::Ledger;
use crate::memory::{Memory, PointId, Role};
use crate::pass::PassError;
use crate::plan::{Finding, Plan};
use crate::store::linked;
use crate::text;

/// What the log says last of a memory.
struct Said {
    is_deleted: bool,
    /// A hash.
    text: Option<u64>,
}

/// Counts where the two differ.
pub(super) fn compare(
    sweep: &Sweep<'_>,
    ledger: &Ledger,
    plan: &mut Plan,
) -> Result<(), PassError> {
    let view = sweep.view;
    if view.config().log.is_none() {
        return Ok(());
    }
    let mut left: HashMap<PointId, Said> = HashMap::new();
    view.scan_log(&mut |logged| {
        let said = Said {
            is_deleted: logged.is_deleted,
            text: logged.text.as_deref().map(text::hash),
        };
        left.insert(PointId::from_text(&logged.id), said);
    })?;
    for partition in view.partitions()? {
        view.read(&partition, |snapshot| {
            snapshot.scan(&[Role::Content], &mut |memory| {
                if let Some(id) = &memory.id {
                    let said = left.remove(&linked::point_of(id));
                    if let Some(finding) = difference(&memory, said.as_ref()) {
                        plan.found(finding, 1);
                    }
                }
                ControlFlow::Continue(())
            })
        })?;
    }
    // It does not hear of what hypnos removes.
    let removed: HashSet<PointId> = view.removed()?.into_iter().map(|(id, _)| id).collect();
    let is_missed = |(id, said): &(&PointId, &Said)| {
        !said.is_deleted && !removed.contains(id) && !ledger.has(id)
    };
    let missed = left.iter().filter(is_missed).count();
    plan.found(Finding::LoggedWithoutPoint, missed as u64);
    Ok(())
}

/// What the log says otherwise of a memory that is there.
fn difference(memory: &Memory, said: Option<&Said>) -> Option<Finding> {
    let Some(said) = said else {
        return Some(Finding::PointWithoutLog);
    };
    if said.is_deleted {
        return Some(Finding::LoggedDeleted);
    }
    let text = memory.content.as_deref().map(text::hash);
    (said.text.is_some() && said.text != text).then_some(Finding::LoggedOtherwise)
}
