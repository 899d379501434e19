//! `ttl`: every memory whose deadline is past, and history older than it is kept.
//!
//! A deadline is `expires_at` where the row has one, else creation plus time to live. History is what another memory
//! superseded, what ceased to be true, or what was soft-deleted (a tombstone, which sync may need for a while). A time
//! that cannot be read, or is absurd, is no deadline: the memory stays and is counted. What a coarse time may mean is
//! always read as the latest instant.

use std::collections::HashMap;
use std::ops::ControlFlow;

use jiff::SignedDuration;

use crate::clock::Timestamp;
use crate::memory::{Memory, MemoryId, Moment, Role, TimeToLive};
use crate::plan::{Action, Finding, Mark, Plan, Reason, Tally};
use crate::store::rows::{Partition, RowError, Snapshot};
use crate::view::View;

use super::removal::{self, Candidate};
use super::{Cx, Pass, PassError, PassName};

const ROLES: [Role; 8] = [
    Role::CreatedAt,
    Role::UpdatedAt,
    Role::ConfirmedAt,
    Role::ExpiresAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::Ttl,
    Role::SupersededBy,
];

/// The pass.
#[derive(Debug)]
pub struct Ttl;

impl Pass for Ttl {
    fn name(&self) -> PassName {
        PassName::Ttl
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = Plan::new(view.name(), PassName::Ttl);
        let bitemporal = view.config().rows.is_bitemporal();
        let rule = Rule {
            now: view.now(),
            // History is the point of a schema that has a `valid_to`: it is kept for ever.
            retention: view
                .config()
                .passes
                .ttl
                .superseded_retention
                .filter(|_| !bitemporal)
                .and_then(|age| age.try_into().ok()),
            bitemporal,
        };
        view.each_reader(cx, &mut plan, |plan, partition, reader| {
            let hidden = match rule.oldest_kept() {
                Some(since) => view.hidden_since(partition, since)?,
                None => Hidden::new(),
            };
            let (actions, findings) =
                reader.snapshot(|snapshot| rule.plan(partition, snapshot, &hidden))?;
            plan.actions.extend(actions);
            for (finding, count) in findings {
                plan.found(finding, count);
            }
            Ok(())
        })?;
        Ok(plan)
    }
}

/// When hypnos hid a memory, by its own records.
type Hidden = HashMap<MemoryId, Timestamp>;

/// What decides, apart from the memory.
struct Rule {
    now: Timestamp,
    /// Age at which history goes; `None` for never.
    retention: Option<SignedDuration>,
    bitemporal: bool,
}

/// What the times of one memory say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Unreadable,
    /// Its deadline is past.
    Expired(Timestamp),
    /// It has been history since then, as far as its own row tells.
    History(Timestamp),
}

impl Rule {
    fn plan(
        &self,
        partition: &Partition,
        snapshot: &Snapshot,
        hidden: &Hidden,
    ) -> Result<(Vec<Action>, Tally<Finding>), RowError> {
        let mut findings = Tally::new();
        let (mut candidates, mut history) = (Vec::new(), Vec::new());
        snapshot.scan(&ROLES, &mut |memory| {
            let mut found = |finding| *findings.entry(finding).or_default() += 1;
            let Some(namespace) = memory.namespace.clone() else {
                found(Finding::WithoutNamespace);
                return ControlFlow::Continue(());
            };
            let Some(id) = memory.id.clone() else {
                found(Finding::WithoutKey);
                return ControlFlow::Continue(());
            };
            let candidate = |reason| Candidate {
                id,
                namespace,
                reason,
            };
            match self.judge(&memory) {
                Verdict::Keep => {}
                Verdict::Unreadable => found(Finding::Unreadable),
                Verdict::Expired(at) => candidates.push(candidate(Reason::Expired { at })),
                Verdict::History(since) => {
                    history.push((candidate(Reason::History { since }), memory.superseded_by));
                }
            }
            ControlFlow::Continue(())
        })?;
        candidates.extend(self.old_history(snapshot, history, hidden)?);
        let (endings, removals): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| {
            self.bitemporal && matches!(candidate.reason, Reason::Expired { .. })
        });
        let endings = if snapshot.marks().ended || endings.is_empty() {
            endings
        } else {
            *findings.entry(Finding::Blocked).or_default() += endings.len() as u64;
            Vec::new()
        };
        let mut actions = Vec::with_capacity(endings.len() + removals.len());
        for (target, reason) in removal::alone(snapshot, partition, endings)? {
            if let Reason::Expired { at } = reason {
                actions.push(Action::Hide {
                    target,
                    mark: Mark::Ended { at },
                    reason,
                });
            }
        }
        for (target, reason) in removal::with_history(snapshot, partition, removals, &mut findings)?
        {
            actions.push(Action::Delete { target, reason });
        }
        Ok((actions, findings))
    }

    /// Of memories that are history by their own row, those whose successor is as old as the retention asks, too: a
    /// memory became history when its successor was written, which no column of its own may tell; or, where both were
    /// there before, when hypnos hid the one behind the other. A chain that leads nowhere, or in a ring, has no memory
    /// that stands for it: nothing of it goes.
    fn old_history(
        &self,
        snapshot: &Snapshot,
        history: Vec<(Candidate, Option<MemoryId>)>,
        hidden: &Hidden,
    ) -> Result<Vec<Candidate>, RowError> {
        let successors = successors(
            snapshot,
            history
                .iter()
                .filter_map(|(_, successor)| successor.clone()),
        )?;
        let old = history
            .into_iter()
            .filter_map(|(mut candidate, successor)| {
                let Reason::History { since } = candidate.reason else {
                    return None;
                };
                let since = match successor {
                    None => since,
                    Some(id) if !ends(&successors, &id) => return None,
                    Some(id) => match successors.get(&id)?.0 {
                        Moment::Absent => since,
                        Moment::At { latest, .. } => since.max(latest),
                        Moment::Unreadable => return None,
                    },
                };
                let since = hidden.get(&candidate.id).map_or(since, |at| since.max(*at));
                candidate.reason = Reason::History { since };
                self.is_past_retention(since).then_some(candidate)
            });
        Ok(old.collect())
    }

    fn judge(&self, memory: &Memory) -> Verdict {
        let ended = memory.valid_to.latest().is_some_and(|at| at <= self.now);
        match deadline(memory) {
            // An ended memory of a bitemporal schema is ended already.
            Deadline::At(at) if at <= self.now && !(self.bitemporal && ended) => {
                return Verdict::Expired(at);
            }
            Deadline::Unreadable => return Verdict::Unreadable,
            Deadline::At(_) | Deadline::Never => {}
        }
        let superseded = memory.superseded_by.is_some();
        let deleted = memory.deleted_at != Moment::Absent;
        if self.retention.is_none() || !(superseded || ended || deleted) {
            return Verdict::Keep;
        }
        let times = [
            memory.created_at,
            memory.updated_at,
            memory.confirmed_at,
            memory.valid_to,
            memory.deleted_at,
        ];
        if times.iter().any(|time| time.is_unreadable()) {
            return Verdict::Unreadable;
        }
        match times.iter().filter_map(|time| time.latest()).max() {
            Some(since) if self.is_past_retention(since) => Verdict::History(since),
            _ => Verdict::Keep,
        }
    }

    /// History from after then stays.
    fn oldest_kept(&self) -> Option<Timestamp> {
        self.now.checked_sub(self.retention?).ok()
    }

    fn is_past_retention(&self, since: Timestamp) -> bool {
        self.retention
            .and_then(|retention| since.checked_add(retention).ok())
            .is_some_and(|until| until <= self.now)
    }
}

/// When a memory was created, and what superseded it in turn.
type Successors = HashMap<MemoryId, (Moment, Option<MemoryId>)>;

/// Everything that superseded `first`, and those, and so on.
fn successors(
    snapshot: &Snapshot,
    first: impl Iterator<Item = MemoryId>,
) -> Result<Successors, RowError> {
    let mut found = Successors::new();
    let mut next: Vec<MemoryId> = first.collect();
    while !next.is_empty() {
        next.sort();
        next.dedup();
        let mut further = Vec::new();
        for memory in snapshot.memories(&[Role::CreatedAt, Role::SupersededBy], &next)? {
            let Some(id) = memory.id else { continue };
            further.extend(memory.superseded_by.clone());
            found.insert(id, (memory.created_at, memory.superseded_by));
        }
        next = further
            .into_iter()
            .filter(|id| !found.contains_key(id))
            .collect();
    }
    Ok(found)
}

/// Whether the chain from `id` on ends in a memory that nothing superseded.
fn ends(successors: &Successors, id: &MemoryId) -> bool {
    let mut at = id;
    // A chain longer than there are memories in it is a ring.
    for _ in 0..=successors.len() {
        match successors.get(at) {
            Some((_, None)) => return true,
            Some((_, Some(next))) => at = next,
            None => return false,
        }
    }
    false
}

/// When a memory ceases to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// It has no deadline.
    Never,
    /// Then.
    At(Timestamp),
    /// What would say so cannot be read.
    Unreadable,
}

impl Deadline {
    /// Whether a memory with this deadline is there for at least as long as one with another; not, when either cannot
    /// be read.
    #[must_use]
    pub fn outlives(self, other: Self) -> bool {
        match (self, other) {
            (Self::Unreadable, _) | (_, Self::Unreadable) | (Self::At(_), Self::Never) => false,
            (Self::Never, _) => true,
            (Self::At(ours), Self::At(theirs)) => ours >= theirs,
        }
    }
}

/// The deadline of a memory: `expires_at` speaks for itself; without one, the time to live counts from the creation.
#[must_use]
pub fn deadline(memory: &Memory) -> Deadline {
    match memory.expires_at {
        Moment::At { latest, .. } => return Deadline::At(latest),
        Moment::Unreadable => return Deadline::Unreadable,
        Moment::Absent => {}
    }
    match (memory.ttl, memory.created_at) {
        (TimeToLive::Forever, _) => Deadline::Never,
        (TimeToLive::For(life), Moment::At { latest, .. }) => latest
            .checked_add(life)
            .map_or(Deadline::Unreadable, Deadline::At),
        (TimeToLive::Unreadable, _) | (TimeToLive::For(_), Moment::Absent | Moment::Unreadable) => {
            Deadline::Unreadable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        Moment::exact(text.parse().unwrap())
    }

    fn rule(now: &str) -> Rule {
        Rule {
            now: now.parse().unwrap(),
            retention: Some(SignedDuration::from_hours(180 * 24)),
            bitemporal: false,
        }
    }

    fn days(days: i64) -> TimeToLive {
        TimeToLive::For(SignedDuration::from_hours(24 * days))
    }

    #[test]
    fn a_deadline_is_past_at_its_very_instant_and_not_a_nanosecond_before() {
        let memory = Memory {
            created_at: at("2026-01-01T00:00:00Z"),
            ttl: days(7),
            ..Memory::new(Some(MemoryId::Integer(1)))
        };
        assert_eq!(
            rule("2026-01-07T23:59:59.999999999Z").judge(&memory),
            Verdict::Keep
        );
        let deadline = "2026-01-08T00:00:00Z".parse().unwrap();
        assert_eq!(
            rule("2026-01-08T00:00:00Z").judge(&memory),
            Verdict::Expired(deadline)
        );
        let memory = Memory {
            expires_at: at("2026-01-08T00:00:00Z"),
            ..Memory::new(Some(MemoryId::Integer(1)))
        };
        assert_eq!(
            rule("2026-01-07T23:59:59.999999999Z").judge(&memory),
            Verdict::Keep
        );
        assert_eq!(
            rule("2026-01-08T00:00:00Z").judge(&memory),
            Verdict::Expired(deadline)
        );
    }

    #[test]
    fn an_explicit_expiry_overrides_the_time_to_live() {
        let memory = Memory {
            created_at: at("2026-01-01T00:00:00Z"),
            ttl: days(1),
            expires_at: at("2026-03-01T00:00:00Z"),
            ..Memory::new(Some(MemoryId::Integer(1)))
        };
        assert_eq!(rule("2026-02-01T00:00:00Z").judge(&memory), Verdict::Keep);
    }

    #[test]
    fn what_cannot_be_read_is_kept() {
        let now = rule("2030-01-01T00:00:00Z");
        let created = at("2026-01-01T00:00:00Z");
        let unreadable = [
            Memory {
                expires_at: Moment::Unreadable,
                ttl: days(1),
                created_at: created,
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
            Memory {
                ttl: days(1),
                created_at: Moment::Absent,
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
            Memory {
                ttl: days(1),
                created_at: Moment::Unreadable,
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
            Memory {
                ttl: TimeToLive::Unreadable,
                created_at: created,
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
            Memory {
                ttl: TimeToLive::For(SignedDuration::from_secs(i64::MAX)),
                created_at: created,
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
            Memory {
                superseded_by: Some(MemoryId::Integer(1)),
                created_at: created,
                updated_at: Moment::Unreadable,
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
        ];
        for memory in unreadable {
            assert_eq!(now.judge(&memory), Verdict::Unreadable, "{memory:?}");
        }
        let keep = [
            Memory::new(Some(MemoryId::Integer(1))),
            Memory {
                created_at: created,
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
            Memory {
                superseded_by: Some(MemoryId::Integer(1)),
                ..Memory::new(Some(MemoryId::Integer(1)))
            },
        ];
        for memory in keep {
            assert_eq!(now.judge(&memory), Verdict::Keep, "{memory:?}");
        }
    }

    #[test]
    fn history_counts_from_the_latest_time_the_row_knows() {
        let memory = Memory {
            superseded_by: Some(MemoryId::Integer(1)),
            created_at: at("2026-01-01T00:00:00Z"),
            confirmed_at: at("2026-02-01T00:00:00Z"),
            ..Memory::new(Some(MemoryId::Integer(1)))
        };
        // 180 days after the first of February.
        assert_eq!(rule("2026-07-30T23:59:59Z").judge(&memory), Verdict::Keep);
        let since = "2026-02-01T00:00:00Z".parse().unwrap();
        assert_eq!(
            rule("2026-07-31T00:00:00Z").judge(&memory),
            Verdict::History(since)
        );
        let never = Rule {
            retention: None,
            ..rule("2036-01-01T00:00:00Z")
        };
        assert_eq!(never.judge(&memory), Verdict::Keep);
    }

    #[test]
    fn a_bitemporal_memory_is_ended_once() {
        let now = Rule {
            bitemporal: true,
            retention: None,
            ..rule("2026-07-01T00:00:00Z")
        };
        let expired = Memory {
            expires_at: at("2026-06-01T00:00:00Z"),
            ..Memory::new(Some(MemoryId::Integer(1)))
        };
        assert!(matches!(now.judge(&expired), Verdict::Expired(_)));
        let ended = Memory {
            valid_to: at("2026-06-01T00:00:00Z"),
            ..expired
        };
        assert_eq!(now.judge(&ended), Verdict::Keep);
    }
}
