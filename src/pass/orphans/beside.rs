//! What stands beside points that are the rows: links that lead nowhere, and memories of which only a log knows.
//!
//! Both are counted. A memory that was written after the points were read makes a link look dead until the next look.

use std::ops::ControlFlow;

use serde_json::Value;

use super::ledger::Ledger;
use crate::memory::PointId;
use crate::plan::{Finding, Plan};
use crate::store::vectors::{Selector, VectorError, VectorReader};
use crate::view::View;

use super::PassError;

/// Counts what names a memory that is not among the points.
pub(super) fn look(view: &View<'_>, ledger: &Ledger, plan: &mut Plan) -> Result<(), PassError> {
    if let Some(links) = &view.config().links
        && let Some(linked) = view.links()?
    {
        plan.found(
            Finding::DeadLink,
            dead(linked.as_ref(), &links.key, ledger)?,
        );
    }
    let logged = view.logged()?;
    let is_gone = |id: &&String| !ledger.has(&PointId::from_text(id));
    let gone = logged.iter().filter(is_gone).count();
    plan.found(Finding::LoggedWithoutPoint, gone as u64);
    Ok(())
}

/// Counts the points whose `key` lists an id that no row has.
fn dead(linked: &dyn VectorReader, key: &str, ledger: &Ledger) -> Result<u64, VectorError> {
    let is_dead = |id: &Value| {
        id.as_str()
            .is_some_and(|id| !ledger.has(&PointId::from_text(id)))
    };
    let mut dead = 0;
    linked.scroll(Selector::All, &[key], &mut |heads| {
        let lists = heads.iter().filter_map(|head| head.payload.get(key));
        let lists = lists.filter_map(Value::as_array);
        dead += lists.filter(|list| list.iter().any(is_dead)).count() as u64;
        ControlFlow::Continue(())
    })?;
    Ok(dead)
}
