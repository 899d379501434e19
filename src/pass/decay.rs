//! `decay`: live memories that nobody has used for so long that they have faded.
//!
//! The strength of a memory is the survival function of a Weibull distribution, S(t) = exp(-(t / scale)^shape), where t
//! is the time since it was last used, confirmed or written, whichever is latest, and every use stretches the scale:
//! scale * (1 + ln(1 + uses)). It is a function of what the row says and of the instant alone, so it never compounds,
//! however often it is computed. A time that cannot be read, or lies in the future, fades nothing.
//!
//! What is under the floor goes weakest first, and in any [`WINDOW`] no more than a share of a namespace: the budget
//! is counted from what the state file says has gone, so that running twice takes no more than running once.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::SignedDuration;
use statrs::distribution::{ContinuousCDF as _, Weibull};

use crate::clock::Timestamp;
use crate::config;
use crate::memory::{Memory, MemoryId, Moment, Namespace, Role};
use crate::plan::{Finding, Plan, QuestionKind, Reason, Unread};
use crate::state::{Answer, NamespaceHash};
use crate::store::rows::{Partition, RowError, Snapshot};
use crate::view::View;

use super::removal::{self, Candidate};
use super::{Cx, Pass, PassError, PassName};

/// The time in which no more than `max_fraction` of a namespace fades.
pub const WINDOW: SignedDuration = SignedDuration::from_hours(20);

const ROLES: [Role; 9] = [
    Role::Type,
    Role::CreatedAt,
    Role::LastUsedAt,
    Role::ConfirmedAt,
    Role::ValidTo,
    Role::DeletedAt,
    Role::SupersededBy,
    Role::Uses,
    Role::Pinned,
];

/// The pass.
#[derive(Debug)]
pub struct Decay;

impl Pass for Decay {
    fn name(&self) -> PassName {
        PassName::Decay
    }

    fn plan(&self, view: &View<'_>, cx: &Cx<'_>) -> Result<Plan, PassError> {
        let mut plan = Plan::new(view.name(), PassName::Decay);
        let rule = Rule {
            now: view.now(),
            curve: Curve::new(&view.config().passes.decay),
            approved: approved(view)?,
        };
        let since = view.now().checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
        view.each_partition(cx, &mut plan, |plan, partition, snapshot| {
            let faded = rule.scan(view, plan, partition, snapshot)?;
            if faded.is_empty() {
                return Ok(());
            }
            match view.recent(partition, PassName::Decay, since) {
                Ok(recent) => {
                    let candidates = rule.within_budget(plan, faded, &recent.removed, |id| {
                        recent.survivors.contains(id)
                    });
                    let findings = &mut plan.findings;
                    let actions =
                        removal::put_away(snapshot, partition, view, candidates, findings)?;
                    plan.actions.extend(actions);
                    Ok(())
                }
                // How much has faded lately is not known, so nothing more may.
                Err(error) => {
                    plan.unread.push(Unread::of_error(&partition.name, &error));
                    Ok(())
                }
            }
        })?;
        Ok(plan)
    }
}

/// How strength follows from age: the settings of the pass.
#[derive(Debug, Clone)]
pub struct Curve {
    settings: config::Decay,
}

/// What the curve says of one memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Strength {
    /// It never fades: its type is exempt, or it is pinned.
    Exempt,
    /// No time from which it could fade can be read.
    Unreadable,
    /// Its strength, in `[0, 1]`, and the instant from which it fades.
    Fading {
        /// S(t).
        strength: f64,
        /// When it was last used, confirmed or written.
        since: Timestamp,
    },
}

impl Curve {
    /// The curve of these settings.
    #[must_use]
    pub fn new(settings: &config::Decay) -> Self {
        Self {
            settings: settings.clone(),
        }
    }

    /// How strong a memory is at `now`. Needs its type, its times, its uses and whether it is pinned.
    #[must_use]
    pub fn of(&self, memory: &Memory, now: Timestamp) -> Strength {
        let is_exempt = |kind: &String| self.settings.is_exempt(kind);
        if memory.pinned || memory.kind.as_ref().is_some_and(is_exempt) {
            return Strength::Exempt;
        }
        let times = [memory.last_used_at, memory.confirmed_at, memory.created_at];
        if times.contains(&Moment::Unreadable) {
            return Strength::Unreadable;
        }
        let Some(since) = times.into_iter().filter_map(Moment::latest).max() else {
            return Strength::Unreadable;
        };
        let age = now.duration_since(since);
        let scale = self.scale_of(memory.kind.as_deref());
        let strength = strength(
            age.as_secs_f64() / 3600.0,
            scale.as_secs_f64() / 3600.0,
            self.settings.shape,
            memory.uses.unwrap_or_default(),
        );
        Strength::Fading { strength, since }
    }

    /// When a memory that fades will have faded, if nobody uses it. `None` when that is beyond what a time can hold.
    #[must_use]
    pub fn fades_at(&self, memory: &Memory, since: Timestamp) -> Option<Timestamp> {
        let scale = self.scale_of(memory.kind.as_deref()).as_secs_f64();
        let stretched = stretched(scale, memory.uses.unwrap_or_default());
        // S(t) = floor, solved for t.
        let floor = self.settings.floor.get();
        let age = stretched * (-floor.ln()).powf(1.0 / self.settings.shape);
        let age = std::time::Duration::try_from_secs_f64(age).ok()?;
        since.checked_add(age).ok()
    }

    /// Whether a strength is so low that the memory has faded.
    #[must_use]
    pub fn has_faded(&self, strength: f64) -> bool {
        strength < self.settings.floor.get()
    }

    fn scale_of(&self, kind: Option<&str>) -> std::time::Duration {
        let kind = kind.unwrap_or_default().trim();
        let own = self.settings.scale.iter();
        own.clone()
            .find(|(name, _)| name.eq_ignore_ascii_case(kind))
            .map_or(self.settings.default_scale, |(_, scale)| *scale)
    }
}

/// S(t) = exp(-(t / s)^shape) with s = scale * (1 + ln(1 + uses)); times in hours. 1 for what is not older than
/// nothing, and wherever the arithmetic has no answer: what cannot be computed does not fade.
///
/// The survival function of a Weibull distribution, see W. Weibull, "A Statistical Distribution Function of Wide
/// Applicability", Journal of Applied Mechanics 18 (1951). Computed at scale 1, so that no power of a scale overflows.
#[must_use]
pub fn strength(age: f64, scale: f64, shape: f64, uses: u64) -> f64 {
    let relative = age / stretched(scale, uses);
    if relative.is_nan() || relative <= 0.0 {
        return 1.0;
    }
    match Weibull::new(shape, 1.0) {
        Ok(weibull) => Some(weibull.sf(relative))
            .filter(|strength| !strength.is_nan())
            .unwrap_or(1.0),
        Err(_) => 1.0,
    }
}

/// The scale of a memory that was used so often.
fn stretched(scale: f64, uses: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a logarithm is taken of it")]
    let uses = uses as f64;
    scale * (1.0 + uses.ln_1p())
}

/// A memory that has faded.
struct Faded {
    id: MemoryId,
    strength: f64,
    since: Timestamp,
}

/// The faded memories of each namespace, beside the number of its live ones.
#[derive(Default)]
struct Fading {
    live: u64,
    faded: Vec<Faded>,
}

struct Rule {
    now: Timestamp,
    curve: Curve,
    /// When a person last said that a memory holds, or stays.
    approved: Approvals,
}

/// The memories of each row database of which a person said that they hold or stay, and when.
type Approvals = HashMap<(Arc<str>, MemoryId), Timestamp>;

/// Reads what was answered: where the schema has no column for a confirmation, only the queue knows of it.
fn approved(view: &View<'_>) -> Result<Approvals, PassError> {
    let mut approved = Approvals::new();
    let Some(state) = view.state()? else {
        return Ok(approved);
    };
    for entry in state.entries(&QuestionKind::ALL)? {
        let Some((Answer::Confirmed | Answer::Kept, at)) = entry.answered else {
            continue;
        };
        let question = entry.question;
        for member in question.members {
            let memory = (Arc::clone(&question.partition), member.id);
            let latest = approved.entry(memory).or_insert(at);
            *latest = at.max(*latest);
        }
    }
    Ok(approved)
}

impl Rule {
    /// Reads every live memory, and keeps those that have faded.
    fn scan(
        &self,
        view: &View<'_>,
        plan: &mut Plan,
        partition: &Partition,
        snapshot: &Snapshot,
    ) -> Result<BTreeMap<Namespace, Fading>, RowError> {
        let mut namespaces: BTreeMap<Namespace, Fading> = BTreeMap::new();
        snapshot.scan(&ROLES, &mut |mut memory| {
            let id = memory.id.as_ref();
            if id.is_some_and(|id| view.is_gone(&partition.name, id)) {
                return ControlFlow::Continue(());
            }
            let approved = id.and_then(|id| {
                let key = (Arc::clone(&partition.name), id.clone());
                self.approved.get(&key)
            });
            if let Some(at) = approved
                && memory.confirmed_at.latest().is_none_or(|known| known < *at)
                && !memory.confirmed_at.is_unreadable()
            {
                memory.confirmed_at = Moment::exact(*at);
            }
            self.visit(plan, &mut namespaces, memory);
            ControlFlow::Continue(())
        })?;
        namespaces.retain(|_, fading| !fading.faded.is_empty());
        Ok(namespaces)
    }

    fn visit(&self, plan: &mut Plan, namespaces: &mut BTreeMap<Namespace, Fading>, memory: Memory) {
        if memory.is_hidden(self.now) {
            return;
        }
        let Some(namespace) = memory.namespace.clone() else {
            return plan.found(Finding::WithoutNamespace, 1);
        };
        let fading = namespaces.entry(namespace).or_default();
        fading.live += 1;
        match self.curve.of(&memory, self.now) {
            Strength::Exempt => {}
            Strength::Unreadable => plan.found(Finding::Unreadable, 1),
            Strength::Fading { strength, since } => {
                if !self.curve.has_faded(strength) {
                    return;
                }
                match memory.id {
                    Some(id) => fading.faded.push(Faded {
                        id,
                        strength,
                        since,
                    }),
                    None => plan.found(Finding::WithoutKey, 1),
                }
            }
        }
    }

    /// Of the faded, weakest first, as many as may still go.
    fn within_budget(
        &self,
        plan: &mut Plan,
        namespaces: BTreeMap<Namespace, Fading>,
        removed: &BTreeMap<NamespaceHash, u64>,
        is_survivor: impl Fn(&MemoryId) -> bool,
    ) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (namespace, mut fading) in namespaces {
            // A memory that others were folded into tonight stays tonight.
            fading.faded.retain(|faded| !is_survivor(&faded.id));
            fading.faded.sort_by(|a, b| {
                a.strength
                    .total_cmp(&b.strength)
                    .then_with(|| a.id.cmp(&b.id))
            });
            let spent = removed.get(&NamespaceHash::of(&namespace)).copied();
            let allowed = self.allowed(fading.live, spent.unwrap_or_default());
            let over = fading.faded.len().saturating_sub(allowed);
            plan.found(Finding::OverBudget, over as u64);
            let going = fading.faded.into_iter().take(allowed);
            candidates.extend(going.map(|faded| Candidate {
                id: faded.id,
                namespace: namespace.clone(),
                reason: Reason::Faded { since: faded.since },
            }));
        }
        candidates
    }

    /// How many more of a namespace may go: the share of what was there when the window began, less what has gone.
    fn allowed(&self, live: u64, spent: u64) -> usize {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count, between nothing and the count"
        )]
        let share = ((live + spent) as f64 * self.curve.settings.max_fraction.get() + 1e-9) as u64;
        usize::try_from(share.saturating_sub(spent)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Ratio;

    fn settings() -> config::Decay {
        config::Decay {
            enabled: true,
            floor: Ratio::new(0.05).unwrap(),
            default_scale: Duration::from_hours(2160),
            scale: vec![("observation".into(), Duration::from_hours(336))],
            shape: 1.0,
            exempt_types: vec!["preference".into()],
            max_fraction: Ratio::new(0.05).unwrap(),
        }
    }

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    fn hours_ago(hours: i64) -> Moment {
        Moment::exact(now() - SignedDuration::from_hours(hours))
    }

    fn memory(kind: Option<&str>, created: i64) -> Memory {
        let mut memory = Memory::new(Some(MemoryId::Integer(1)));
        memory.kind = kind.map(str::to_owned);
        memory.created_at = hours_ago(created);
        memory
    }

    fn is_whole(strength: f64) -> bool {
        (strength - 1.0).abs() < f64::EPSILON
    }

    fn strength_of(memory: &Memory) -> f64 {
        match Curve::new(&settings()).of(memory, now()) {
            Strength::Fading { strength, .. } => strength,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn strength_is_the_weibull_survival_function() {
        for (age, scale, shape, uses) in [
            (0.5, 336.0, 1.0, 0),
            (336.0, 336.0, 1.0, 0),
            (1000.0, 336.0, 1.0, 7),
            (6480.0, 2160.0, 0.7, 0),
            (6480.0, 2160.0, 2.5, 1_000_000),
            (1e-9, 2160.0, 0.3, 3),
            (100.0, 1e-3, 0.1, 0),
        ] {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let stretched: f64 = scale * (1.0 + (1.0 + uses as f64).ln());
            let expected = (-(age / stretched).powf(shape)).exp();
            let found = strength(age, scale, shape, uses);
            assert!(
                (found - expected).abs() <= 1e-12,
                "{age} {scale} {shape} {uses}: {found} {expected}"
            );
        }
    }

    #[test]
    fn what_cannot_be_computed_does_not_fade() {
        for (age, scale, shape) in [
            (-5.0, 336.0, 1.0),
            (0.0, 336.0, 1.0),
            (f64::NAN, 336.0, 1.0),
            (10.0, f64::NAN, 1.0),
            (10.0, 0.0, f64::NAN),
            (10.0, 336.0, f64::NAN),
            (10.0, 336.0, 0.0),
            (10.0, 336.0, -1.0),
            (10.0, f64::INFINITY, 1.0),
        ] {
            let found = strength(age, scale, shape, 0);
            assert!(is_whole(found), "{age} {scale} {shape}: {found}");
        }
        let extreme = strength(1e9, 336.0, 300.0, 0);
        assert!(extreme.abs() < f64::EPSILON, "{extreme}");
        assert!(is_whole(strength(100.0, 336.0, 300.0, 0)));
        assert!((strength(336.0, 336.0, 1.0, u64::MAX) - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_latest_of_its_times_counts_and_use_stretches_the_scale() {
        let mut used = memory(Some("observation"), 2000);
        let faded = strength_of(&used);
        used.last_used_at = hours_ago(336);
        assert!((strength_of(&used) - (-1.0_f64).exp()).abs() < 1e-12);
        used.confirmed_at = hours_ago(0);
        assert!(is_whole(strength_of(&used)));
        used.last_used_at = hours_ago(-100);
        assert!(is_whole(strength_of(&used)), "used in the future");
        let mut often = memory(Some("Observation "), 2000);
        often.uses = Some(50);
        assert!(strength_of(&often) > faded);
        assert!(strength_of(&memory(Some("fact"), 2000)) > faded);
    }

    #[test]
    fn a_memory_has_faded_when_it_was_said_to_and_not_a_minute_before() {
        for (kind, uses, shape, floor) in [
            ("observation", 0, 1.0, 0.05),
            ("fact", 12, 1.0, 0.05),
            ("fact", 0, 0.7, 0.3),
            ("observation", 3, 2.5, 0.01),
        ] {
            let mut used = memory(Some(kind), 0);
            used.uses = Some(uses);
            let curve = Curve::new(&config::Decay {
                shape,
                floor: Ratio::new(floor).unwrap(),
                ..settings()
            });
            let at = curve.fades_at(&used, now()).unwrap();
            let minute = SignedDuration::from_mins(1);
            for (at, faded) in [(at - minute, false), (at + minute, true)] {
                let Strength::Fading { strength, .. } = curve.of(&used, at) else {
                    panic!("{kind} is exempt");
                };
                assert_eq!(curve.has_faded(strength), faded, "{kind} {strength}");
            }
        }
        let for_ever = Curve::new(&config::Decay {
            shape: 0.001,
            ..settings()
        });
        assert_eq!(for_ever.fades_at(&memory(None, 0), now()), None);
    }

    #[test]
    fn exempt_pinned_and_unreadable_memories_do_not_fade() {
        let curve = Curve::new(&settings());
        let of = |memory: &Memory| curve.of(memory, now());
        assert_eq!(of(&memory(Some("Preference"), 99_999)), Strength::Exempt);
        let mut pinned = memory(None, 99_999);
        pinned.pinned = true;
        assert_eq!(of(&pinned), Strength::Exempt);
        let mut garbage = memory(None, 99_999);
        garbage.last_used_at = Moment::Unreadable;
        assert_eq!(of(&garbage), Strength::Unreadable);
        let mut timeless = memory(None, 0);
        timeless.created_at = Moment::Absent;
        assert_eq!(of(&timeless), Strength::Unreadable);
    }

    #[test]
    fn the_budget_is_a_share_of_what_was_there_at_the_beginning() {
        let rule = Rule {
            now: now(),
            curve: Curve::new(&settings()),
            approved: Approvals::new(),
        };
        for (live, spent, allowed) in [
            (19, 0, 0),
            (20, 0, 1),
            (19, 1, 0),
            (100, 0, 5),
            (97, 3, 2),
            (95, 5, 0),
            (90, 10, 0),
        ] {
            assert_eq!(rule.allowed(live, spent), allowed, "{live} {spent}");
        }
    }
}
