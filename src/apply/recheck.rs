//! The last look before a point is dropped: does a row call for it by now, is its owner still gone?

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use crate::config::PointRule;
use crate::memory::{Namespace, PointId, Role};
use crate::plan::Reason;
use crate::store::rows::{OwnerBook, Partition, Reader, Standing};
use crate::store::vectors::point_id::{Derived, Rule};

use super::{ApplyError, Job};

/// A point that is to be dropped.
#[derive(Debug, Clone)]
pub(super) struct Doomed {
    pub(super) namespace: Namespace,
    pub(super) point: PointId,
    pub(super) reason: Reason,
}

/// Looks at the rows of one row database again. What was found is kept as long as nobody writes to it.
pub(super) struct Recheck<'a> {
    job: &'a Job<'a>,
    partition: Option<&'a Partition>,
    reader: Option<Reader>,
    watched: HashSet<PointId>,
    namespaces: HashSet<Namespace>,
    found: Option<(i64, HashSet<PointId>)>,
}

impl<'a> Recheck<'a> {
    /// Prepares to look for the rows behind `doomed`.
    pub(super) fn new(
        job: &'a Job<'a>,
        partition: Option<&'a Partition>,
        doomed: impl Iterator<Item = (Namespace, PointId)>,
    ) -> Result<Self, ApplyError> {
        let reader = partition
            .map(|partition| job.stores.rows.reader(partition))
            .transpose()?;
        let (namespaces, watched) = doomed.unzip();
        Ok(Self {
            job,
            partition,
            reader,
            watched,
            namespaces,
            found: None,
        })
    }

    /// Of the watched points, those that a row calls for now.
    pub(super) fn called(&mut self) -> Result<&HashSet<PointId>, ApplyError> {
        let version = match &self.reader {
            Some(reader) => reader.data_version()?,
            None => 0,
        };
        let stale = self
            .found
            .as_ref()
            .is_none_or(|(known, _)| *known != version);
        if stale {
            let called = self.read()?;
            self.found = Some((version, called));
        }
        Ok(&self.found.get_or_insert_default().1)
    }

    fn read(&self) -> Result<HashSet<PointId>, ApplyError> {
        let (Some(config), Some(vectors)) = (&self.job.stores.config.vectors, self.job.vectors())
        else {
            return Ok(HashSet::new());
        };
        let Some(reader) = &self.reader else {
            return Ok(self.of_files_that_appeared());
        };
        let rule = Rule {
            point_id: &config.point_id,
            rows: &self.job.stores.config.rows,
        };
        let mut called = HashSet::new();
        let mut linked: HashMap<Namespace, Vec<String>> = HashMap::new();
        reader.snapshot(|snapshot| {
            snapshot.scan_rows(&[Role::Point], &mut |memory| {
                match rule.derive(&memory) {
                    // Whose row it is does not matter: it calls for the point.
                    Derived::Id(point) if self.watched.contains(&point) => {
                        called.insert(point);
                    }
                    Derived::ByPayload { value, .. } => {
                        let namespace = memory.namespace.filter(|ns| self.namespaces.contains(ns));
                        if let Some(namespace) = namespace {
                            linked.entry(namespace).or_default().push(value);
                        }
                    }
                    Derived::Id(_) | Derived::None { .. } => {}
                }
                ControlFlow::Continue(())
            })
        })?;
        if let PointRule::Payload { key, .. } = &config.point_id {
            let mut linked: Vec<_> = linked.into_iter().collect();
            linked.sort();
            for (namespace, values) in linked {
                let points = vectors.find(namespace.as_str(), key, &values)?;
                called.extend(
                    points
                        .into_iter()
                        .filter_map(|(_, point)| point)
                        .filter(|point| self.watched.contains(point)),
                );
            }
        }
        Ok(called)
    }

    /// Without a file there is no row; if the file of a tenant has appeared since, everything stays.
    fn of_files_that_appeared(&self) -> HashSet<PointId> {
        debug_assert!(self.partition.is_none(), "a partition has a reader");
        let rows = &self.job.stores.config.rows;
        let appeared = |namespace: &Namespace| {
            rows.tenant_of(namespace)
                .is_none_or(|tenant| self.job.stores.rows.has_file(tenant))
        };
        if self.namespaces.iter().any(appeared) {
            self.watched.clone()
        } else {
            HashSet::new()
        }
    }
}

/// Whether the owner of a namespace is still as the reason for a removal says; reasons that are not about owners hold
/// as long as an owners table speaks for the scope of a point, and always for a memory.
pub(super) fn owner_still_so(
    owners: Option<&OwnerBook>,
    namespace: &Namespace,
    reason: Reason,
) -> bool {
    let standing = owners.map(|owners| owners.standing(namespace));
    match reason {
        Reason::OwnerDeleted { at } => standing == Some(Standing::Deleted { at }),
        Reason::OwnerUnknown => standing == Some(Standing::Unknown),
        Reason::RowGone | Reason::Unlinked => {
            standing.is_some_and(|standing| standing != Standing::NoTable)
        }
        Reason::Expired { .. }
        | Reason::History { .. }
        | Reason::Duplicate { .. }
        | Reason::Faded { .. }
        | Reason::Unconfirmed { .. }
        | Reason::Unused { .. }
        | Reason::Contradiction { .. }
        | Reason::Similar { .. }
        | Reason::MemoryGone
        | Reason::MemoryRemoved
        | Reason::Void
        | Reason::Answered { .. }
        | Reason::Forgotten => true,
    }
}
