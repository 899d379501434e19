//! What `orphans` learns from the rows: which points they call for, and whose memories go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::PointRule;
use crate::memory::Namespace;
use crate::pass::removal::{self, Candidate};
use crate::pass::{Cx, PassError};
use crate::plan::{Action, Finding, Plan, Reason, Sighting};
use crate::store::rows::{RowError, Snapshot};
use crate::store::vectors::point_id::Rule;

use super::ledger::Ledger;
use super::{Owner, Sweep, is_past, signed};

/// What was learnt from the rows.
pub(super) struct RowsRead {
    pub(super) ledger: Ledger,
    /// Tenants whose own file was read.
    pub(super) read: BTreeSet<Arc<str>>,
    /// Absent owners who have rows.
    pub(super) sightings: BTreeSet<Sighting>,
    /// Living owners who have rows.
    pub(super) living: BTreeSet<Namespace>,
}

/// What one row database holds.
struct PartitionRead {
    ledger: Ledger,
    candidates: Vec<Candidate>,
    /// Absent owners who have rows here.
    sightings: BTreeSet<Sighting>,
    /// Their rows that stay for now.
    settling: u64,
    /// Living owners who have rows here.
    living: BTreeSet<Namespace>,
}

impl Sweep<'_> {
    /// Plans the memories of deleted owners, and enters every row in the ledger.
    pub(super) fn read_rows(&self, cx: &Cx<'_>, plan: &mut Plan) -> Result<RowsRead, PassError> {
        let mut rows = RowsRead {
            ledger: Ledger::default(),
            read: BTreeSet::new(),
            sightings: BTreeSet::new(),
            living: BTreeSet::new(),
        };
        self.view
            .each_partition(cx, plan, |plan, partition, snapshot| {
                let PartitionRead {
                    ledger,
                    mut candidates,
                    sightings,
                    settling,
                    living,
                } = self.read_partition(snapshot)?;
                candidates.retain(|candidate| !self.view.is_gone(&partition.name, &candidate.id));
                let broken = snapshot.broken_chains()?;
                let strays = snapshot.strays()?;
                let targets =
                    removal::with_history(snapshot, partition, candidates, &mut plan.findings)?;
                plan.actions.extend(
                    targets
                        .into_iter()
                        .map(|(target, reason)| Action::Delete { target, reason }),
                );
                plan.found(Finding::WithoutNamespace, ledger.without_namespace);
                plan.found(Finding::BrokenChain, broken);
                plan.found(Finding::StrayChild, strays);
                plan.found(Finding::Settling, settling);
                rows.sightings.extend(sightings);
                rows.living.extend(living);
                rows.ledger.append(ledger);
                rows.read.extend(partition.tenant.clone());
                Ok(())
            })?;
        rows.ledger.close();
        Ok(rows)
    }

    fn read_partition(&self, snapshot: &Snapshot) -> Result<PartitionRead, RowError> {
        // Without vectors there is no rule and no point to miss; the rows of deleted owners still go.
        let config = self.view.config();
        let vectors = config.vectors.as_ref();
        let point_id = vectors.map_or(&PointRule::Integer, |vectors| &vectors.point_id);
        let text = vectors.and_then(|vectors| vectors.text.as_deref());
        let rule = Rule {
            point_id,
            rows: &config.rows,
        };
        let mut known: BTreeMap<Namespace, Owner> = BTreeMap::new();
        let mut candidates = Vec::new();
        let mut sightings = BTreeSet::new();
        let mut settling = 0;
        let ledger = Ledger::read(
            &rule,
            text,
            snapshot,
            self.view.now(),
            |memory, namespace| {
                let owner = *known
                    .entry(namespace.clone())
                    .or_insert_with(|| self.owner(namespace));
                let reason = match owner {
                    Owner::Deleted(at) => Reason::OwnerDeleted { at },
                    Owner::Unknown if self.removes_absent() => {
                        let sighting = Sighting::of_owner(namespace);
                        let is_settled = self.is_settled(&sighting);
                        sightings.insert(sighting);
                        if !is_settled {
                            settling += 1;
                            return;
                        }
                        Reason::OwnerUnknown
                    }
                    _ => return,
                };
                if let Some(id) = memory.id.clone() {
                    candidates.push(Candidate {
                        id,
                        namespace: namespace.clone(),
                        reason,
                    });
                }
            },
        )?;
        known.retain(|_, owner| *owner == Owner::Living);
        Ok(PartitionRead {
            ledger,
            candidates,
            sightings,
            settling,
            living: known.into_keys().collect(),
        })
    }

    /// Whether the rows of absent owners go.
    pub(super) fn removes_absent(&self) -> bool {
        let owners = self.view.config().owners.as_ref();
        owners.is_some_and(|owners| owners.removes_absent)
    }

    /// Whether what is absent was seen so long enough ago.
    fn is_settled(&self, sighting: &Sighting) -> bool {
        let now = self.view.now();
        let first_seen = self.view.seen_since(sighting).unwrap_or(now).min(now);
        is_past(first_seen, signed(self.settings.settle), now)
    }
}
