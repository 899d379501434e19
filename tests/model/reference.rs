//! What a night must leave, in as few lines as it takes: written from the design, sharing no code with the passes.

use std::collections::{BTreeMap, BTreeSet};

use crate::NOW;
use crate::store::{Expiry, Row, State, Time, User};

const DAY: i64 = 86_400;
const RETENTION: i64 = 180 * DAY;
/// The age at which exp(-age / 2160 h) falls under 0.05: 2160 h * ln 20, in seconds.
const FADED: i64 = 23_294_614;

/// What has faded in each user's namespace lately.
pub(crate) type Spent = BTreeMap<String, usize>;

/// The store after one night: `ttl`, then `orphans` with nothing to settle.
pub(crate) fn night(before: &State) -> State {
    let mut after = before.clone();
    remove(&mut after, &expired(before));
    let leaving = after.rows.iter().filter(|(_, row)| is_deleted(&row.user));
    let leaving = leaving.map(|(id, _)| *id).collect();
    let rows_before = after.rows.clone();
    remove(&mut after, &leaving);
    sweep(&mut after, &rows_before);
    after
}

/// Memories whose deadline is past, and old history of chains that end in a memory which stands for them.
fn expired(state: &State) -> BTreeSet<i64> {
    let goes = |(id, row): (&i64, &Row)| {
        let goes = match deadline(row) {
            Deadline::At(at) if at <= NOW => true,
            Deadline::Unreadable => false,
            Deadline::Never | Deadline::At(_) => is_old_history(state, row),
        };
        goes.then_some(*id)
    };
    state.rows.iter().filter_map(goes).collect()
}

enum Deadline {
    Never,
    At(i64),
    Unreadable,
}

fn deadline(row: &Row) -> Deadline {
    match (row.expires_at, row.ttl_days, row.created_at) {
        (Expiry::At(at), ..) => Deadline::At(at),
        (Expiry::Never, None | Some(0), _) => Deadline::Never,
        (Expiry::Never, Some(days), Time::At(created)) if days > 0 => {
            Deadline::At(created + days * DAY)
        }
        (Expiry::Garbage, ..) | (Expiry::Never, Some(_), _) => Deadline::Unreadable,
    }
}

/// A memory became history when its successor was written.
fn is_old_history(state: &State, row: &Row) -> bool {
    let (Some(next), Time::At(own)) = (row.superseded_by, row.created_at) else {
        return false;
    };
    let Some(successor) = state.rows.get(&next) else {
        return false;
    };
    let since = match successor.created_at {
        Time::At(at) => own.max(at),
        Time::Absent => own,
        Time::Garbage => return false,
    };
    let mut at = next;
    for _ in 0..=state.rows.len() {
        match state.rows.get(&at).map(|row| row.superseded_by) {
            None => return false,
            Some(None) => return since + RETENTION <= NOW,
            Some(Some(next)) => at = next,
        }
    }
    false
}

/// Takes memories out with everything hidden behind them; one that a foreign key of another user's memory holds, or
/// that would leave such a one behind, stays.
fn remove(state: &mut State, wanted: &BTreeSet<i64>) {
    let mut gone = BTreeSet::new();
    for id in wanted {
        let user = &state.rows[id].user;
        let mut unit = BTreeSet::from([*id]);
        let mut is_held = false;
        loop {
            let hidden: Vec<(&i64, &Row)> = state
                .rows
                .iter()
                .filter(|(id, row)| {
                    !unit.contains(id) && row.superseded_by.is_some_and(|by| unit.contains(&by))
                })
                .collect();
            is_held |= hidden.iter().any(|(_, row)| row.user != *user);
            let own = hidden.iter().filter(|(_, row)| row.user == *user);
            let own: Vec<i64> = own.map(|(id, _)| **id).collect();
            if own.is_empty() {
                break;
            }
            unit.extend(own);
        }
        if !is_held {
            gone.extend(unit);
        }
    }
    for id in gone {
        if let Some(row) = state.rows.remove(&id) {
            state.points.remove(&(format!("user:{}", row.user), id));
        }
    }
}

/// Takes out what has faded, oldest first, up to half of what a namespace had.
pub(crate) fn fade(state: &mut State, spent: &mut Spent) {
    let mut gone = BTreeSet::new();
    let users: BTreeSet<String> = state.rows.values().map(|row| row.user.clone()).collect();
    for user in users {
        let live = || {
            let all = state.rows.iter();
            all.filter(|(_, row)| row.user == user && row.superseded_by.is_none())
        };
        let mut faded: Vec<(i64, i64)> = live()
            .filter_map(|(id, row)| match row.created_at {
                Time::At(at) if NOW - at > FADED => Some((at, *id)),
                _ => None,
            })
            .collect();
        faded.sort_unstable();
        let spent = spent.get(&user).copied().unwrap_or_default();
        let allowed = usize::midpoint(live().count(), spent).saturating_sub(spent);
        gone.extend(faded.into_iter().take(allowed).map(|(_, id)| id));
    }
    let before = state.rows.clone();
    remove(state, &gone);
    // The history that goes along counts, too.
    for (_, row) in before.iter().filter(|(id, _)| !state.rows.contains_key(id)) {
        *spent.entry(row.user.clone()).or_default() += 1;
    }
}

/// Drops the points that no row calls for, in namespaces of users.
fn sweep(state: &mut State, rows: &BTreeMap<i64, Row>) {
    let calls = |(namespace, id): &(String, i64)| {
        rows.get(id)
            .is_some_and(|row| *namespace == format!("user:{}", row.user))
    };
    let known = |namespace: &str| -> Option<User> {
        let owner = namespace.strip_prefix("user:")?;
        Some(match owner {
            "ana" | "bob" => User::Living,
            _ if is_deleted(owner) => User::Deleted,
            _ => User::Unknown,
        })
    };
    let of_living = |(namespace, _): &&(String, i64)| known(namespace) == Some(User::Living);
    if rows.is_empty() && state.points.iter().any(|point| of_living(&point)) {
        return;
    }
    // A namespace with live rows, of which not one has its point, tells of a wrong rule.
    let matched: BTreeSet<String> = state
        .points
        .iter()
        .filter(|point| calls(point))
        .map(|(namespace, _)| namespace.clone())
        .collect();
    let has_live = |namespace: &str| {
        rows.values()
            .any(|row| namespace == format!("user:{}", row.user) && row.superseded_by.is_none())
    };
    state.points.retain(|point| {
        let (namespace, _) = point;
        match known(namespace) {
            None => true,
            Some(_) if calls(point) => true,
            Some(User::Deleted) => false,
            Some(User::Living | User::Unknown) => {
                has_live(namespace) && !matched.contains(namespace)
            }
        }
    });
}

fn is_deleted(user: &str) -> bool {
    user == "zoe"
}
