//! What a memory that another one is folded into takes over, and what it hands back.
//!
//! It takes over how often and when the other one was used, and since when that has been known: a sum, a maximum and a
//! minimum. A sum is handed back by subtracting, so that what was used since stays counted; a time only where it still
//! is the one that was taken over.

use super::mapping::Mapping;
use super::marks::moment;
use super::source::BoundRole;
use super::value;
use crate::clock::Timestamp;
use crate::memory::{Moment, Role, TimeToLive};
use crate::store::image::{RowImage, SqlValue};

/// Columns, and what they are set to.
pub(super) type Set = Vec<(String, SqlValue)>;

/// Whether the time of the one that goes (first) is taken over in the place of that of the one that stays.
type IsBetter = fn(Moment, Moment) -> bool;

/// What a memory hands back.
#[derive(Debug, PartialEq)]
pub(super) struct HandedBack {
    /// What to set.
    pub(super) set: Set,
    /// Whether a counter is lower than it can be by what was added to it: somebody has set it anew, and it stays.
    pub(super) is_kept: bool,
}

impl Mapping {
    /// What the survivor takes over from a memory that is folded into it, as the columns to set: the sum of the uses,
    /// the later last use, the earlier creation. Values are copied as they stand. A creation that a time to live counts
    /// from stays, and so does every time of a schema that overwrites nothing.
    pub(super) fn carried(&self, survivor: &RowImage, gone: &RowImage) -> Set {
        let mut set = Set::new();
        if let Some((_, name)) = self.plain(Role::Uses)
            && let (Some(ours), Some(theirs)) = (survivor.get(name), gone.get(name))
            && let Some(sum) = added(ours, theirs)
        {
            set.push((name.to_owned(), sum));
        }
        for (role, name, is_better) in self.times(survivor) {
            if let (Some(ours), Some(theirs)) = (survivor.get(name), gone.get(name))
                && is_better(moment(role, theirs), moment(role, ours))
            {
                set.push((name.to_owned(), theirs.clone()));
            }
        }
        set
    }

    /// What the survivor, as it is `now`, hands back to a memory that is no longer folded into it: `stays` is the
    /// survivor as it was before, `others` the memories that stay folded into it.
    pub(super) fn handed_back(
        &self,
        now: &RowImage,
        stays: &RowImage,
        gone: &RowImage,
        others: &[RowImage],
    ) -> HandedBack {
        let mut back = HandedBack {
            set: Set::new(),
            is_kept: false,
        };
        if let Some((_, name)) = self.plain(Role::Uses)
            && let (Some(is), Some(was), Some(theirs)) =
                (now.get(name), stays.get(name), gone.get(name))
            && added(was, theirs).is_some()
        {
            match subtracted(is, was, theirs) {
                Some(rest) => back.set.push((name.to_owned(), rest)),
                None => back.is_kept = true,
            }
        }
        for (role, name, is_better) in self.times(stays) {
            let (Some(was), Some(theirs)) = (stays.get(name), gone.get(name)) else {
                continue;
            };
            // A later use, or another memory that was folded in, stands there by now.
            if now.get(name) != Some(theirs) || !is_better(moment(role, theirs), moment(role, was))
            {
                continue;
            }
            let best = others
                .iter()
                .filter_map(|row| row.get(name))
                .fold(was, |best, other| {
                    if is_better(moment(role, other), moment(role, best)) {
                        other
                    } else {
                        best
                    }
                });
            back.set.push((name.to_owned(), best.clone()));
        }
        back
    }

    /// A role with a column of its own.
    fn plain(&self, role: Role) -> Option<(&BoundRole, &str)> {
        let role = self.role(role)?;
        Some((role, role.column.as_deref()?))
    }

    /// The times that are taken over.
    fn times(&self, survivor: &RowImage) -> impl Iterator<Item = (&BoundRole, &str, IsBetter)> {
        let created_at = !self.marks().ended && self.lives_for_ever(survivor);
        let later: IsBetter = |theirs, ours| match (theirs, ours) {
            (Moment::At { latest, .. }, Moment::Absent) => latest > Timestamp::UNIX_EPOCH,
            (Moment::At { latest, .. }, Moment::At { latest: ours, .. }) => latest > ours,
            _ => false,
        };
        let earlier: IsBetter = |theirs, ours| match (theirs, ours) {
            (Moment::At { latest, .. }, Moment::At { latest: ours, .. }) => latest < ours,
            _ => false,
        };
        let all = [
            Some((Role::LastUsedAt, later)),
            created_at.then_some((Role::CreatedAt, earlier)),
        ];
        all.into_iter().flatten().filter_map(|(role, is_better)| {
            let (role, name) = self.plain(role)?;
            Some((role, name, is_better))
        })
    }

    fn lives_for_ever(&self, row: &RowImage) -> bool {
        let Some(role) = self.role(Role::Ttl) else {
            return true;
        };
        let life = role.column.as_deref().and_then(|name| row.get(name));
        life.is_some_and(|life| self.ttl_of(life) == TimeToLive::Forever)
    }
}

/// The sum of two counters, in the storage class of the first; `None` when there is nothing to add.
fn added(ours: &SqlValue, theirs: &SqlValue) -> Option<SqlValue> {
    let theirs = count(theirs).filter(|uses| *uses > 0)?;
    let sum = count(ours)?.checked_add(theirs)?;
    like(ours, sum)
}

/// A sum without what was added to `was`; `was` itself where nothing else was added since. `None` when that would be
/// less than it was.
fn subtracted(is: &SqlValue, was: &SqlValue, theirs: &SqlValue) -> Option<SqlValue> {
    let rest = count(is)?.checked_sub(count(theirs)?)?;
    match rest.cmp(&count(was)?) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(was.clone()),
        std::cmp::Ordering::Greater => like(is, rest),
    }
}

fn count(value: &SqlValue) -> Option<u64> {
    match value {
        SqlValue::Null => Some(0),
        value => value::count_of(value::as_ref(value)),
    }
}

fn like(other: &SqlValue, count: u64) -> Option<SqlValue> {
    let count = i64::try_from(count).ok()?;
    Some(match other {
        SqlValue::Text(_) => SqlValue::Text(count.to_string().into_bytes()),
        _ => SqlValue::Integer(count),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_handed_back_without_what_was_used_since() {
        let n = SqlValue::Integer;
        let text = |s: &str| SqlValue::Text(s.into());
        for (is, was, theirs, rest) in [
            (n(5), n(2), n(3), Some(n(2))),
            (n(9), n(2), n(3), Some(n(6))),
            (n(3), SqlValue::Null, n(3), Some(SqlValue::Null)),
            (n(4), SqlValue::Null, n(3), Some(n(1))),
            (text("12"), text("7"), n(5), Some(text("7"))),
            (text("13"), text("7"), n(5), Some(text("8"))),
            (n(3), SqlValue::Real(0.5), n(3), Some(SqlValue::Real(0.5))),
            // Set anew since.
            (n(0), n(2), n(3), None),
            (n(4), n(2), n(3), None),
            (text("many"), n(2), n(3), None),
        ] {
            assert_eq!(subtracted(&is, &was, &theirs), rest, "{is:?} {was:?}");
        }
    }
}
