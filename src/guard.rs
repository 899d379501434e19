//! The guard: how much one pass may remove before a person has to agree.
//!
//! Every system that cleaned up memories automatically has at some time planned to remove far too many, for a reason
//! that nobody had thought of. So the share is measured whatever the reason, and a plan over it changes nothing: it
//! is printed with its hash, and only that very plan can be accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::config::Guard;
use crate::memory::Namespace;
use crate::plan::{Action, Plan, PlanHash};

/// A living owner's namespace with fewer memories than this is not measured on its own: a share of few says little.
const SMALLEST_NAMESPACE: u64 = 20;

/// How much a store holds, for the shares to be measured against.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Rows by namespace.
    pub rows: BTreeMap<Namespace, u64>,
    /// Points by namespace.
    pub points: BTreeMap<Namespace, u64>,
    /// Ids in the lists of the points that name memories.
    pub listed: u64,
    /// Namespaces whose owner is known to be gone: losing all of them is what is wanted.
    pub gone: BTreeSet<Namespace>,
}

/// A plan that the guard let pass. Nothing else makes one, and only [`crate::apply`] takes one.
#[derive(Debug)]
pub struct Approved(Plan);

impl Approved {
    /// The plan, to be read.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.0
    }

    /// The plan, to be applied once.
    #[must_use]
    pub fn into_plan(self) -> Plan {
        self.0
    }
}

/// Why a plan was refused, and how to take it all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Which bound.
    pub limit: Limit,
    /// Memories, points, or ids in lists that would go.
    pub removing: u64,
    /// Out of how many.
    pub of: u64,
    /// The namespace that the bound was measured in; `None` for the whole store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// The plan that `--accept` would take.
    pub accept: PlanHash,
}

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `first_run = "report"`: nothing is removed until a plan of the pass was accepted.
    FirstRun,
    /// Too large a share of the store's rows or points.
    Store,
    /// Too large a share of a living owner's namespace.
    Namespace,
    /// Ids would go from lists of which not one is a memory's.
    Unproven,
}

impl Refusal {
    /// What the plan is over.
    #[must_use]
    pub fn bound(&self) -> String {
        let Self {
            limit,
            removing,
            of,
            namespace,
            accept: _,
        } = self;
        match (limit, namespace) {
            (Limit::FirstRun, _) => {
                format!("first run on this store: would remove {removing} of {of}")
            }
            (Limit::Unproven, _) => {
                format!("not one of the {of} ids in lists is a memory's: would take {removing} out")
            }
            (_, Some(namespace)) => {
                format!("would remove {removing} of the {of} in {namespace}")
            }
            (_, None) => format!("would remove {removing} of {of} in the store"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; look at it with --dry-run, and take exactly this plan with --run-now --accept {}",
            self.bound(),
            self.accept
        )
    }
}

/// Whose agreement a plan has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Nobody was asked: the bounds decide.
    Bounds,
    /// Nobody was asked, and this store's first run only reports.
    FirstRun,
    /// A person gave the hash of this plan.
    Accepted,
}

/// Measures a plan against the bounds.
///
/// # Errors
///
/// The plan, and the first bound that it is over; nothing was changed.
pub fn approve(
    plan: Plan,
    census: &Census,
    bounds: Guard,
    consent: Consent,
) -> Result<Approved, Box<(Plan, Refusal)>> {
    match measure(&plan, census, bounds, consent) {
        None => Ok(Approved(plan)),
        Some(refusal) => Err(Box::new((plan, refusal))),
    }
}

fn measure(plan: &Plan, census: &Census, bounds: Guard, consent: Consent) -> Option<Refusal> {
    let weight = Weight::of(plan, census);
    let refusal = |limit, share: &Share, namespace| {
        let (removing, of) = share.worst();
        Some(Refusal {
            limit,
            removing,
            of,
            namespace,
            accept: plan.hash(),
        })
    };
    match consent {
        Consent::Accepted => return None,
        Consent::FirstRun if plan.removes() => {
            return refusal(Limit::FirstRun, &weight.store, None);
        }
        Consent::FirstRun | Consent::Bounds => {}
    }
    if plan.unproven {
        return refusal(Limit::Unproven, &weight.store, None);
    }
    let Share { rows, points, ids } = weight.store;
    let total = rows.0.max(points.0).max(ids.0);
    if total >= bounds.min_count {
        if weight.store.exceeds(bounds) {
            return refusal(Limit::Store, &weight.store, None);
        }
        for (namespace, share) in &weight.namespaces {
            let living = !census.gone.contains(namespace);
            if living && share.size() >= SMALLEST_NAMESPACE && share.exceeds(bounds) {
                return refusal(Limit::Namespace, share, Some(namespace.clone()));
            }
        }
    }
    None
}

/// What a plan removes, of how much: (removed, present), for rows, points and the ids in lists apart. Those count over the
/// whole store alone: who deletes all memories of an owner leaves only dead ids of that owner.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    rows: (u64, u64),
    points: (u64, u64),
    ids: (u64, u64),
}

impl Share {
    fn exceeds(&self, bounds: Guard) -> bool {
        [self.rows, self.points, self.ids]
            .into_iter()
            .any(|share| over(share, bounds))
    }

    fn size(&self) -> u64 {
        self.rows.1.max(self.points.1)
    }

    /// The part of which the largest share would go.
    fn worst(&self) -> (u64, u64) {
        let share = |(removed, of)| {
            if removed == 0 {
                0.0
            } else {
                fraction(removed, of)
            }
        };
        let mut worst = self.rows;
        for other in [self.points, self.ids] {
            if share(other) > share(worst) {
                worst = other;
            }
        }
        worst
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share needs no more than 53 bits"
)]
fn fraction(removed: u64, of: u64) -> f64 {
    removed as f64 / of as f64
}

fn over((removed, of): (u64, u64), bounds: Guard) -> bool {
    // Removing anything out of nothing (0 counted) is over every bound: the count cannot be right.
    removed > 0 && (of == 0 || fraction(removed, of) > bounds.max_fraction.get())
}

#[derive(Debug, Default)]
struct Weight {
    store: Share,
    namespaces: BTreeMap<Namespace, Share>,
}

impl Weight {
    fn of(plan: &Plan, census: &Census) -> Self {
        let mut weight = Self::default();
        for action in &plan.actions {
            if !action.removes() {
                continue;
            }
            if let Action::Unlink { ids, .. } = action {
                weight.store.ids.0 += ids.len() as u64;
                continue;
            }
            let share = weight
                .namespaces
                .entry(action.namespace().clone())
                .or_default();
            match action.target() {
                Some(target) => share.rows.0 += 1 + target.behind.len() as u64,
                None => share.points.0 += 1,
            }
        }
        for (namespace, share) in &mut weight.namespaces {
            share.rows.1 = census.rows.get(namespace).copied().unwrap_or_default();
            share.points.1 = census.points.get(namespace).copied().unwrap_or_default();
            weight.store.rows.0 += share.rows.0;
            weight.store.points.0 += share.points.0;
        }
        weight.store.rows.1 = census.rows.values().sum();
        weight.store.points.1 = census.points.values().sum();
        weight.store.ids.1 = census.listed;
        weight
    }
}

/// The plan hashes that a person accepted on the command line.
#[derive(Debug, Clone, Default)]
pub struct Acceptances(pub Vec<String>);

impl Acceptances {
    /// Whether this very plan was accepted.
    #[must_use]
    pub fn cover(&self, hash: &PlanHash) -> bool {
        self.0
            .iter()
            .any(|accepted| accepted.eq_ignore_ascii_case(&hash.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Ratio;
    use crate::memory::{MemoryId, PointId, Version};
    use crate::pass::PassName;
    use crate::plan::{Expected, Reason, Target};

    const BOUNDS: (f64, u64) = (0.2, 50);

    fn bounds() -> Guard {
        Guard {
            max_fraction: Ratio::new(BOUNDS.0).unwrap(),
            min_count: BOUNDS.1,
        }
    }

    fn namespace(owner: &str) -> Namespace {
        Namespace::parse(&format!("user:{owner}")).unwrap()
    }

    fn delete(owner: &str, id: i64, behind: usize) -> Action {
        let expected = |id| Expected {
            id: MemoryId::Integer(id),
            version: Version([0; 16]),
        };
        let target = Target {
            partition: "main".into(),
            namespace: namespace(owner),
            memory: expected(id),
            behind: (0..behind)
                .map(|i| expected(1000 + i64::try_from(i).unwrap()))
                .collect(),
        };
        Action::Delete {
            target,
            reason: Reason::Expired {
                at: jiff::Timestamp::UNIX_EPOCH,
            },
        }
    }

    fn plan(actions: Vec<Action>) -> Plan {
        Plan {
            actions,
            ..Plan::new("s".into(), PassName::Ttl)
        }
    }

    fn deletes(owner: &str, count: i64) -> Vec<Action> {
        (0..count).map(|id| delete(owner, id, 0)).collect()
    }

    fn census(rows: &[(&str, u64)]) -> Census {
        let rows = rows
            .iter()
            .map(|(owner, n)| (namespace(owner), *n))
            .collect();
        Census {
            rows,
            ..Census::default()
        }
    }

    fn limit(actions: Vec<Action>, census: &Census) -> Option<Limit> {
        approve(plan(actions), census, bounds(), Consent::Bounds)
            .err()
            .map(|refused| refused.1.limit)
    }

    #[test]
    fn a_plan_is_refused_from_min_count_on_and_only_over_the_share() {
        let store = census(&[("ana", 1000), ("bruno", 1000)]);
        assert_eq!(
            limit(deletes("ana", 49), &census(&[("ana", 49)])),
            None,
            "fewer than min_count"
        );
        assert_eq!(
            limit(deletes("ana", 50), &census(&[("ana", 249)])),
            Some(Limit::Store)
        );
        assert_eq!(
            limit(deletes("ana", 50), &census(&[("ana", 250)])),
            None,
            "exactly the share"
        );
        assert_eq!(limit(deletes("ana", 201), &store), Some(Limit::Namespace));
        assert_eq!(limit(deletes("ana", 200), &store), None);
    }

    #[test]
    fn a_small_namespace_and_a_gone_owner_are_not_measured_alone() {
        let mut store = census(&[("ana", 1000), ("bruno", 19), ("carla", 20)]);
        let with = |owner, n| {
            deletes("ana", 50)
                .into_iter()
                .chain(deletes(owner, n))
                .collect::<Vec<_>>()
        };
        assert_eq!(limit(with("bruno", 19), &store), None);
        assert_eq!(limit(with("carla", 20), &store), Some(Limit::Namespace));
        store.gone.insert(namespace("carla"));
        assert_eq!(limit(with("carla", 20), &store), None);
    }

    #[test]
    fn what_hides_behind_a_memory_counts_too() {
        assert_eq!(
            limit(vec![delete("ana", 1, 49)], &census(&[("ana", 249)])),
            Some(Limit::Store)
        );
        assert_eq!(
            limit(vec![delete("ana", 1, 48)], &census(&[("ana", 249)])),
            None
        );
    }

    #[test]
    fn points_are_measured_against_points_and_a_census_of_nothing_refuses() {
        let drops: Vec<_> = (0..60)
            .map(|id| Action::DropPoint {
                partition: "main".into(),
                namespace: namespace("ana"),
                point: PointId::Number(id),
                reason: Reason::RowGone,
            })
            .collect();
        let mut store = census(&[("ana", 10_000)]);
        assert_eq!(
            limit(drops.clone(), &store),
            Some(Limit::Store),
            "no points were counted"
        );
        store.points.insert(namespace("ana"), 100);
        assert_eq!(limit(drops.clone(), &store), Some(Limit::Store));
        store.points.insert(namespace("ana"), 1000);
        assert_eq!(limit(drops, &store), None);
    }

    #[test]
    fn lists_are_measured_by_their_ids_and_only_where_nobody_removed_the_memories() {
        let unlinks = |owner: &str, reason| -> Vec<Action> {
            let unlink = |id| Action::Unlink {
                partition: "main".into(),
                namespace: namespace(owner),
                point: PointId::Number(id),
                expect: Version([0; 16]),
                ids: [MemoryId::Text("a".into()), MemoryId::Text("b".into())].into(),
                is_last: id % 2 == 0,
                reason,
            };
            (0..30).map(unlink).collect()
        };
        let mut store = census(&[("ana", 10_000)]);
        for (listed, reason, refused) in [
            (0, Reason::MemoryGone, Some(Limit::Store)),
            (299, Reason::MemoryGone, Some(Limit::Store)),
            (300, Reason::MemoryGone, None),
            (0, Reason::MemoryRemoved, None),
        ] {
            store.listed = listed;
            // All that an owner has listed may be dead, when the owner has left.
            assert_eq!(
                limit(unlinks("zoe", reason), &store),
                refused,
                "{listed} {reason}"
            );
        }
    }

    #[test]
    fn what_nothing_proves_is_refused_however_little_it_is() {
        let unproven = |consent| {
            let plan = Plan {
                unproven: true,
                ..plan(deletes("ana", 1))
            };
            approve(plan, &census(&[("ana", 1000)]), bounds(), consent)
        };
        let refused = unproven(Consent::Bounds).unwrap_err().1;
        assert_eq!(refused.limit, Limit::Unproven);
        assert!(unproven(Consent::Accepted).is_ok());
    }

    #[test]
    fn only_the_named_plan_is_accepted_and_a_first_run_reports() {
        let (store, actions) = (census(&[("ana", 60)]), deletes("ana", 60));
        let hash = plan(actions.clone()).hash();
        assert!(Acceptances(vec![hash.0.to_uppercase()]).cover(&hash));
        assert!(!Acceptances(vec![plan(deletes("ana", 59)).hash().0]).cover(&hash));
        let with = |consent| approve(plan(actions.clone()), &store, bounds(), consent);
        assert!(with(Consent::Accepted).is_ok());
        assert_eq!(
            with(Consent::FirstRun).unwrap_err().1.limit,
            Limit::FirstRun
        );
        assert!(
            approve(plan(vec![]), &store, bounds(), Consent::FirstRun).is_ok(),
            "nothing to refuse"
        );
    }
}
