//! `orphans`: what belongs to nobody.
//!
//! Mechanics: read who exists, then the rows, then the points, and hold the points against the rows ([`ledger`]).
//!
//! Policy, from certain to doubtful:
//! - An owner *marked deleted* for `grace`: rows and points go at once.
//! - The rows of an owner who is *absent* stay, unless the owners table says otherwise (`absent = "remove"`): then they
//!   go, with their points, when two runs at least `settle` apart saw the owner absent.
//! - A point whose owner or whose row is merely *absent*, or that names no row where points are to name theirs, goes
//!   when two runs at least `settle` apart saw the same, and it is at least `min_age` old: an agent writes its point
//!   before or after its row, and files come back from backups.
//! - A namespace of another scope than the owners table speaks for, or whose rows could not be read, is never touched.
//! - A row store without a single row beside points in its scope is taken for a wrong file, not for an empty one.
//!
//! Rows without a point, points of another text than their row, points without a namespace and broken chains are counted
//! and never removed. Where the points are the rows, none of them can lack its row, and only the owners decide; what lists
//! them is mended, see [`beside`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::SignedDuration;

use crate::clock::Timestamp;
use crate::config;
use crate::memory::{Namespace, PointId};
use crate::plan::{Action, Finding, Plan, Reason, Sighting, Unread};
use crate::store::rows::{OwnerBook, Standing};
use crate::store::vectors::{PointHead, Selector, VectorReader};
use crate::store::{MAIN, NO_FILE};
use crate::view::View;

use super::{Cx, Pass, PassError, PassName};
use ledger::Ledger;
use rows::RowsRead;

mod beside;
pub mod ledger;
mod logged;
mod rows;

/// Points that are read in the time that a call takes, about.
const POINTS_A_CALL: u64 = 100;

/// The pass.
#[derive(Debug)]
pub struct Orphans;

impl Pass for Orphans {
    fn name(&self) -> PassName {
        PassName::Orphans
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let owners = view.owners().map_err(PassError::Owners)?;
        let settings = &view.config().passes.orphans;
        let sweep = Sweep {
            view,
            owners,
            grace: signed(settings.grace),
            settings,
        };
        let mut plan = Plan::new(view.name(), PassName::Orphans);
        let rows = sweep.read_rows(cx, &mut plan)?;
        beside::mend(&sweep, cx, &rows.ledger, &mut plan)?;
        logged::compare(&sweep, &rows.ledger, &mut plan)?;
        let of_rows = rows.sightings.clone();
        // A point that is its own row lacks none.
        if let (Some(vectors), Some(config), false) = (
            view.vectors(),
            &view.config().vectors,
            view.config().rows.are_points(),
        ) {
            sweep.read_points(cx, &mut plan, rows, vectors, config)?;
        }
        if sweep.removes_absent() {
            plan.sightings.get_or_insert_default().extend(of_rows);
        }
        Ok(plan)
    }
}

fn signed(duration: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

struct Sweep<'a> {
    view: &'a View<'a>,
    owners: Option<OwnerBook>,
    grace: SignedDuration,
    settings: &'a config::Orphans,
}

/// What is known of the owner of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Exists: only what has no row can go.
    Living,
    /// Exists or is unknown, and has a row of which nobody can tell the point: nothing can go.
    Unclear,
    /// Was marked deleted long enough ago.
    Deleted(Timestamp),
    /// Was marked deleted, or absent, and is to be left alone for now.
    Leaving,
    /// Is not in the owners table.
    Unknown,
    /// Nobody speaks for this scope, or its rows could not be read.
    Untouchable,
}

impl Sweep<'_> {
    fn owner(&self, namespace: &Namespace) -> Owner {
        match self
            .owners
            .as_ref()
            .map(|owners| owners.standing(namespace))
        {
            None | Some(Standing::NoTable) => Owner::Untouchable,
            Some(Standing::Living) => Owner::Living,
            Some(Standing::Unknown) => Owner::Unknown,
            Some(Standing::Deleted { at }) if is_past(at, self.grace, self.view.now()) => {
                Owner::Deleted(at)
            }
            Some(Standing::Deleted { .. }) => Owner::Leaving,
        }
    }

    fn read_points(
        &self,
        cx: &Cx<'_>,
        plan: &mut Plan,
        mut rows: RowsRead,
        vectors: &dyn VectorReader,
        config: &config::Vectors,
    ) -> Result<(), PassError> {
        let counted = vectors.namespaces()?;
        name_away(plan, vectors, &rows.living, &counted)?;
        let swept = self.swept(plan, &rows, &counted);
        Self::check_rows_exist(&rows, &swept)?;

        let mut absent = Absent {
            sweep: self,
            sightings: Vec::new(),
            drops: Vec::new(),
            settling: 0,
            uncalled: 0,
            unlinked: 0,
            matched: BTreeSet::new(),
        };
        let mut stale = 0;
        let total = swept.iter().map(|namespace| namespace.points).sum();
        cx.progress
            .begin(&plan.store, plan.pass, "points", Some(total));
        let by_namespace: BTreeMap<&str, &Swept> = swept
            .iter()
            .map(|namespace| (namespace.namespace.as_str(), namespace))
            .collect();
        let mut visit = |heads: Vec<PointHead>| {
            cx.progress.advance(heads.len() as u64);
            for head in heads {
                let raw = head.namespace.as_deref().unwrap_or_default();
                let Some(swept) = by_namespace.get(raw) else {
                    continue;
                };
                let standing = rows.ledger.check(&config.point_id, &swept.namespace, &head);
                stale += u64::from(standing == ledger::Standing::Stale);
                match standing {
                    ledger::Standing::Called | ledger::Standing::Stale => {
                        if !absent.matched.contains(&swept.namespace) {
                            absent.matched.insert(swept.namespace.clone());
                        }
                    }
                    ledger::Standing::Uncalled => absent.see(swept, head, Reason::RowGone),
                    ledger::Standing::Unlinked => absent.see(swept, head, Reason::Unlinked),
                }
            }
            if cx.stop.is_requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let keys = ledger::keys(config);
        let mut unnamed = 0;
        let described = vectors.describe()?;
        if described.namespace_indexed && !is_cheaper_whole(described.points, &swept) {
            for namespace in &swept {
                cx.check_stop()?;
                unnamed += vectors.scroll(
                    Selector::Namespace(namespace.namespace.as_str()),
                    &keys,
                    &mut visit,
                )?;
            }
        } else {
            unnamed += vectors.scroll(Selector::All, &keys, &mut visit)?;
        }
        cx.check_stop()?;
        cx.progress.end();

        let Absent {
            sightings,
            mut drops,
            settling,
            uncalled,
            unlinked,
            matched,
            ..
        } = absent;
        plan.found(Finding::PointWithoutKey, unnamed + keep_doubled(&mut drops));
        plan.found(
            Finding::RuleMismatch,
            keep_mismatched(&mut drops, &rows.ledger, &matched, &leaving(plan)),
        );
        let is_unlinked = |drop: &&Action| drop.reason() == Reason::Unlinked;
        let drops_unlinked = drops.iter().filter(is_unlinked).count() as u64;
        let drops_uncalled = drops.len() as u64 - drops_unlinked;
        plan.found(Finding::PointWithoutRow, uncalled - drops_uncalled);
        plan.found(Finding::UnlinkedPoint, unlinked - drops_unlinked);
        plan.found(Finding::UnlinkedToDrop, drops_unlinked);
        plan.found(Finding::Settling, settling);
        plan.found(Finding::RowWithoutPoint, rows.ledger.rows_without_point());
        plan.found(Finding::StalePoint, stale);
        plan.found(
            Finding::PointWithoutNamespace,
            vectors.count(Selector::WithoutNamespace)?,
        );
        plan.actions.extend(drops);
        plan.sightings = Some(sightings);
        Ok(())
    }

    /// The namespaces whose points are held against the rows, in order; the others are not looked at.
    fn swept(&self, plan: &mut Plan, rows: &RowsRead, counted: &[(String, u64)]) -> Vec<Swept> {
        let mut swept = Vec::new();
        let mut unread_points = 0;
        for (raw, points) in counted {
            let Some(namespace) = Namespace::parse(raw) else {
                continue;
            };
            let mut owner = self.owner(&namespace);
            if matches!(owner, Owner::Living | Owner::Unknown) && rows.ledger.is_unclear(&namespace)
            {
                owner = Owner::Unclear;
            }
            // Without an owners table nothing is swept, but what is missing in the store's own scope is still counted.
            let counted_only =
                self.owners.is_none() && namespace.scope() == self.view.config().rows.scope();
            if owner == Owner::Untouchable && !counted_only {
                continue;
            }
            if owner == Owner::Unknown && self.is_copy(&namespace) {
                unread_points += points;
                name_unread(
                    plan,
                    &namespace,
                    "its collection is named after an owner, with more behind the name, so it is left alone: is it a copy?",
                );
                continue;
            }
            let Some(partition) = self.partition_of(&namespace, owner, rows) else {
                unread_points += points;
                name_missing(plan, &namespace);
                continue;
            };
            swept.push(Swept {
                namespace,
                owner,
                partition,
                points: *points,
            });
        }
        plan.found(Finding::UnreadNamespace, unread_points);
        swept
    }

    /// Whether the collection of a tenant whom nobody knows is more likely the copy of one that somebody made by hand.
    fn is_copy(&self, namespace: &Namespace) -> bool {
        let vectors = self.view.config().vectors.as_ref();
        let has_collection = vectors.is_some_and(|vectors| vectors.spelling.is_some());
        let owners = self.owners.as_ref().filter(|_| has_collection);
        owners.is_some_and(|owners| owners.is_named_after_one(namespace.owner()))
    }

    /// The row database that would hold the rows of a namespace; `None` when it exists and was not read, or should
    /// exist and does not.
    fn partition_of(
        &self,
        namespace: &Namespace,
        owner: Owner,
        rows: &RowsRead,
    ) -> Option<Arc<str>> {
        let config = &self.view.config().rows;
        if !config.is_per_tenant() {
            return Some(MAIN.into());
        }
        let tenant = config.tenant_of(namespace)?;
        if let Some(read) = rows.read.get(tenant) {
            return Some(Arc::clone(read));
        }
        let on_disk = self.view.has_file(tenant);
        (!on_disk && matches!(owner, Owner::Deleted(_) | Owner::Unknown)).then(|| NO_FILE.into())
    }

    fn check_rows_exist(rows: &RowsRead, swept: &[Swept]) -> Result<(), PassError> {
        let living = swept
            .iter()
            .filter(|namespace| matches!(namespace.owner, Owner::Living | Owner::Unclear));
        let points = living.map(|namespace| namespace.points).sum();
        if rows.ledger.rows == 0 && points > 0 {
            return Err(PassError::NoRows { points });
        }
        Ok(())
    }
}

/// Whether going through all points costs less than a call for each namespace: where there are many small ones, or
/// hardly any points of others.
fn is_cheaper_whole(points: u64, swept: &[Swept]) -> bool {
    let wanted: u64 = swept.iter().map(|namespace| namespace.points).sum();
    points.saturating_sub(wanted) < POINTS_A_CALL * swept.len() as u64
}

/// Whether `at` is at least `age` ago.
fn is_past(at: Timestamp, age: SignedDuration, now: Timestamp) -> bool {
    at.checked_add(age).is_ok_and(|until| until <= now)
}

/// A living or unknown owner's points whose rows nobody could read: named once, as the tenant.
fn name_missing(plan: &mut Plan, namespace: &Namespace) {
    name_unread(plan, namespace, "its file is missing, while it has points");
}

/// Names the living owners who have rows, and whose points are away.
fn name_away(
    plan: &mut Plan,
    vectors: &dyn VectorReader,
    living: &BTreeSet<Namespace>,
    counted: &[(String, u64)],
) -> Result<(), PassError> {
    let counted: BTreeSet<&str> = counted.iter().map(|(raw, _)| raw.as_str()).collect();
    for namespace in living {
        if !counted.contains(namespace.as_str()) && vectors.is_away(namespace.as_str())? {
            name_unread(plan, namespace, "its collection of points is missing");
        }
    }
    Ok(())
}

fn name_unread(plan: &mut Plan, namespace: &Namespace, problem: &str) {
    let partition: Arc<str> = namespace.owner().into();
    if !plan
        .unread
        .iter()
        .any(|unread| unread.partition == partition)
    {
        plan.unread.push(Unread::new(partition, problem));
    }
}

/// A namespace whose points are held against the rows.
struct Swept {
    namespace: Namespace,
    owner: Owner,
    partition: Arc<str>,
    points: u64,
}

/// A namespace that has live rows, of which not one calls for any of its points, tells of a wrong rule or of another
/// spelling, and not of orphans: nothing of it goes but what an owner's deletion takes, or goes with its rows. Returns
/// how many points stay.
fn keep_mismatched(
    drops: &mut Vec<Action>,
    ledger: &Ledger,
    matched: &BTreeSet<Namespace>,
    leaving: &BTreeSet<Namespace>,
) -> u64 {
    let before = drops.len();
    drops.retain(|drop| {
        let namespace = drop.namespace();
        drop.reason().erases()
            || matched.contains(namespace)
            || leaving.contains(namespace)
            || ledger.live(namespace) == 0
    });
    (before - drops.len()) as u64
}

/// The namespaces whose rows go because their owner is absent.
fn leaving(plan: &Plan) -> BTreeSet<Namespace> {
    let rows = plan.actions.iter();
    rows.filter(|action| {
        matches!(action, Action::Delete { .. }) && action.reason() == Reason::OwnerUnknown
    })
    .map(|action| action.namespace().clone())
    .collect()
}

/// Points that share an id, in whatever spellings, stay: nobody could tell which is meant. Returns how many they are.
fn keep_doubled(drops: &mut Vec<Action>) -> u64 {
    let mut times: HashMap<PointId, u64> = HashMap::new();
    for drop in &*drops {
        if let Action::DropPoint { point, .. } = drop {
            *times.entry(point.clone()).or_default() += 1;
        }
    }
    times.retain(|_, times| *times > 1);
    drops.retain(
        |drop| !matches!(drop, Action::DropPoint { point, .. } if times.contains_key(point)),
    );
    times.into_values().sum()
}

/// Collects the points that no row calls for.
struct Absent<'a> {
    sweep: &'a Sweep<'a>,
    sightings: Vec<Sighting>,
    drops: Vec<Action>,
    settling: u64,
    uncalled: u64,
    /// Those of living owners that name no row.
    unlinked: u64,
    /// Namespaces with a point that a row calls for.
    matched: BTreeSet<Namespace>,
}

impl Absent<'_> {
    /// Takes note of a point that no row calls for: `of_living` is why, if its owner lives.
    fn see(&mut self, swept: &Swept, head: PointHead, of_living: Reason) {
        let reason = match swept.owner {
            Owner::Deleted(at) => Some(Reason::OwnerDeleted { at }),
            Owner::Unknown => Some(Reason::OwnerUnknown),
            Owner::Living => Some(of_living),
            Owner::Unclear | Owner::Leaving | Owner::Untouchable => None,
        };
        if reason == Some(Reason::Unlinked) {
            self.unlinked += 1;
        } else {
            self.uncalled += 1;
        }
        let Some(reason) = reason else { return };
        let certain = reason.erases();
        if !certain {
            self.sightings.push(Sighting {
                namespace: swept.namespace.clone(),
                point: head.id.clone(),
            });
        }
        if certain || self.has_settled(&swept.namespace, &head) {
            self.drops.push(Action::DropPoint {
                partition: Arc::clone(&swept.partition),
                namespace: swept.namespace.clone(),
                point: head.id,
                reason,
            });
        } else {
            self.settling += 1;
        }
    }

    /// Whether it was seen absent long enough ago, and is old enough: as old as its payload says, or as its first
    /// sighting proves.
    fn has_settled(&self, namespace: &Namespace, head: &PointHead) -> bool {
        let now = self.sweep.view.now();
        let first_seen = self.first_seen(namespace, &head.id);
        let born = ledger::CREATED_AT
            .iter()
            .find_map(|key| payload_time(head.payload.get(*key)?))
            .unwrap_or(first_seen)
            .min(first_seen);
        is_past(first_seen, signed(self.sweep.settings.settle), now)
            && is_past(born, signed(self.sweep.settings.min_age), now)
    }

    fn first_seen(&self, namespace: &Namespace, point: &PointId) -> Timestamp {
        let view = self.sweep.view;
        view.first_seen(namespace, point)
            .unwrap_or(view.now())
            .min(view.now())
    }
}

/// When a point says that it was created.
fn payload_time(value: &serde_json::Value) -> Option<Timestamp> {
    use rusqlite::types::ValueRef;
    let format = config::TimeFormat {
        encoding: config::Encoding::Auto,
        zone: jiff::tz::TimeZone::UTC,
    };
    let value = match value {
        serde_json::Value::String(text) => ValueRef::Text(text.as_bytes()),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(integer) => ValueRef::Integer(integer),
            None => ValueRef::Real(number.as_f64()?),
        },
        _ => return None,
    };
    crate::store::rows::time::decode(value, &format).latest()
}
