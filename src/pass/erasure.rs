//! Everything of one namespace, as a plan: what `hypnos forget` asks for. No pass of the night.
//!
//! First the rows, with all that hangs on them, and their points; once none is left, the points that have no row. Where
//! the points are the rows, the first is all but for the points that list them: those of the namespace go, whatever they
//! list.

use std::ops::ControlFlow;

use crate::memory::{Namespace, PointId};
use crate::plan::{Action, Finding, Plan, Reason};
use crate::store::rows::Partition;
use crate::store::vectors::Selector;
use crate::store::{MAIN, NO_FILE};
use crate::view::View;

use super::removal::{self, Candidate};
use super::{Cx, PassError, PassName, entities};

/// What there is of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Rows of memories, hidden ones included; none where the points are the rows.
    pub rows: u64,
    /// Points.
    pub points: u64,
    /// Points that list memories.
    pub entities: u64,
}

/// The row databases that can hold rows of a namespace: the one file, or that of the tenant.
///
/// # Errors
///
/// When the folder of the tenants cannot be listed.
pub fn files(view: &View<'_>, namespace: &Namespace) -> Result<Vec<Partition>, PassError> {
    let rows = &view.config().rows;
    let mut files = view.files()?;
    if rows.is_per_tenant() {
        let is_theirs = |file: &Partition| {
            let name = rows.namespace.replace("{tenant}", &file.name);
            Namespace::parse(&name).is_some_and(|known| known.normal() == namespace.normal())
        };
        files.retain(is_theirs);
    }
    Ok(files)
}

/// Plans the removal of what is there. A memory that other rows keep is counted [`Finding::Blocked`].
///
/// # Errors
///
/// When a store cannot be read to the end, or a stop was requested.
pub fn plan(view: &View<'_>, namespace: &Namespace, cx: &Cx<'_>) -> Result<Plan, PassError> {
    let mut plan = Plan::new(view.name(), PassName::Review);
    let files = files(view, namespace)?;
    for file in &files {
        cx.check_stop()?;
        let actions = view.read(file, |snapshot| {
            let candidates = candidates(snapshot, namespace)?;
            removal::with_history(snapshot, file, candidates, &mut plan.findings)
        })?;
        let delete = |(target, reason)| Action::Delete { target, reason };
        plan.actions.extend(actions.into_iter().map(delete));
    }
    if plan.actions.is_empty() && !view.config().rows.are_points() {
        plan.actions = drops(view, namespace, &files, cx)?;
    }
    let lists = entities::of_namespace(view, namespace)?;
    let erase = |entity| entities::erase(entity, Reason::Forgotten);
    plan.actions.extend(lists.iter().filter_map(erase));
    Ok(plan)
}

/// Counts what is there.
///
/// # Errors
///
/// When a store cannot be read to the end.
pub fn extent(view: &View<'_>, namespace: &Namespace) -> Result<Extent, PassError> {
    let mut extent = Extent::default();
    for file in files(view, namespace)? {
        let found = view.read(&file, |snapshot| candidates(snapshot, namespace))?;
        extent.rows += found.len() as u64;
    }
    if view.config().rows.are_points() {
        extent.points = std::mem::take(&mut extent.rows);
    } else if let Some(vectors) = view.vectors() {
        for (raw, points) in vectors.namespaces()? {
            extent.points += if is_same(&raw, namespace) { points } else { 0 };
        }
    }
    extent.entities = entities::of_namespace(view, namespace)?.len() as u64;
    Ok(extent)
}

fn is_same(raw: &str, namespace: &Namespace) -> bool {
    Namespace::parse(raw).is_some_and(|known| known.normal() == namespace.normal())
}

fn candidates(
    snapshot: &crate::store::rows::Snapshot,
    namespace: &Namespace,
) -> Result<Vec<Candidate>, crate::store::rows::RowError> {
    let mut candidates = Vec::new();
    let normal = namespace.normal();
    snapshot.scan(&[], &mut |memory| {
        let theirs = memory.namespace.filter(|known| known.normal() == normal);
        if let (Some(namespace), Some(id)) = (theirs, memory.id) {
            candidates.push(Candidate {
                id,
                namespace,
                reason: Reason::Forgotten,
            });
        }
        ControlFlow::Continue(())
    })?;
    Ok(candidates)
}

/// Drops every point of the namespace; apply leaves those that a row still calls for.
fn drops(
    view: &View<'_>,
    namespace: &Namespace,
    files: &[Partition],
    cx: &Cx<'_>,
) -> Result<Vec<Action>, PassError> {
    let Some(vectors) = view.vectors() else {
        return Ok(Vec::new());
    };
    let partition = match files {
        [file] => file.name.clone(),
        _ if view.config().rows.is_per_tenant() => NO_FILE.into(),
        _ => MAIN.into(),
    };
    let mut points: Vec<(Namespace, PointId)> = Vec::new();
    for (raw, _) in vectors.namespaces()? {
        let Some(known) = Namespace::parse(&raw).filter(|_| is_same(&raw, namespace)) else {
            continue;
        };
        vectors.scroll(Selector::Namespace(&raw), &[], &mut |heads| {
            points.extend(heads.into_iter().map(|head| (known.clone(), head.id)));
            if cx.stop.is_requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        cx.check_stop()?;
    }
    let drop = |(namespace, point)| Action::DropPoint {
        partition: std::sync::Arc::clone(&partition),
        namespace,
        point,
        reason: Reason::Forgotten,
    };
    Ok(points.into_iter().map(drop).collect())
}

/// How many memories other rows keep.
#[must_use]
pub fn blocked(plan: &Plan) -> u64 {
    plan.findings
        .get(&Finding::Blocked)
        .copied()
        .unwrap_or_default()
}
