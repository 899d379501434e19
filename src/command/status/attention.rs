//! What somebody should look at: how the last night ended, how long ago one was good, and what is left open.
//!
//! A night is a run of all passes. An answer to a question, a pair that somebody takes and a run of some passes are runs,
//! too, and say nothing of the nights.

use jiff::SignedDuration;

use super::Status;
use super::runs::Run;
use crate::clock::Timestamp;
use crate::output::memory;
use crate::output::words::counted;
use crate::report::Outcome;
use crate::schedule::Schedule;

/// In a few words each; nothing when all is well.
pub(super) fn attention(status: &Status, night: Option<&Run>, schedule: &Schedule) -> Vec<String> {
    let ended = night.filter(|_| status.running.is_none() || night.is_some_and(Run::has_ended));
    let mut attention: Vec<String> = status.restore.iter().cloned().collect();
    attention.extend(ended.and_then(how_it_ended));
    let last_began = night.map(|night| night.started_at);
    attention.extend(last_good(
        status.last_success,
        last_began,
        status.now,
        schedule,
    ));
    let open = status.open_intents;
    if open > 0 && status.running.is_none() {
        let open = counted(open, "action is begun", "actions are begun");
        attention.push(format!("{open} and not finished: the next run does it"));
    }
    if !status.damaged.is_empty() {
        let damaged = status.damaged.len() as u64;
        attention.push(format!(
            "{} cannot be read",
            counted(damaged, "state file", "state files")
        ));
    }
    attention
}

/// How a night ended that did not end well.
fn how_it_ended(night: &Run) -> Option<String> {
    if night.exit == Some(0) {
        return None;
    }
    let how = match night.outcome.as_str() {
        _ if !night.has_ended() => {
            return Some(
                "the last run was cut off: the next one finishes what it had begun".into(),
            );
        }
        "failed" => "failed".to_owned(),
        other => format!("was {other}"),
    };
    let why = night.why().map(|why| format!(": {why}"));
    Some(format!("the last run {how}{}", why.unwrap_or_default()))
}

/// Whether the last good night is too long ago, by the schedule of the configuration; `began` is the last night at all.
fn last_good(
    last: Option<Timestamp>,
    began: Option<Timestamp>,
    now: Timestamp,
    schedule: &Schedule,
) -> Option<String> {
    let is_overdue = |last| schedule.is_overdue(last, now);
    let Some(last) = last else {
        let none = match began {
            None => "no run of all passes yet",
            Some(_) => "no run of all passes has left nothing over yet",
        };
        return Some(none.to_owned());
    };
    if !is_overdue(last) {
        return None;
    }
    let silence: SignedDuration = now.duration_since(last);
    let hint = match began {
        Some(began) if !is_overdue(began) => "",
        _ => ": is the daemon or the timer on?",
    };
    Some(format!("no good run for {}{hint}", memory::age(silence)))
}

/// Whether a pass did all that it should.
pub(super) fn is_good(outcome: &str) -> bool {
    [Outcome::Idle, Outcome::Applied]
        .map(Outcome::as_str)
        .contains(&outcome)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{self, Env};

    fn schedule(cron: &str) -> Schedule {
        let text =
            format!("schedule.cron = '{cron}'\n[[store]]\nname = 'agent'\nrows.path = 'm.db'\n");
        let path = Path::new("/etc/hypnos/hypnos.toml");
        let config = config::parse(&text, path, &Env::default()).unwrap();
        Schedule::new(&config.schedule)
    }

    #[test]
    fn silence_is_measured_by_the_schedule() {
        let at = |day: i64, hour: i64| {
            Timestamp::from_second(1_790_000_000 + day * 86_400 + hour * 3600).unwrap()
        };
        let (nightly, weekly) = (schedule("0 3 * * *"), schedule("0 3 * * 1"));
        for (schedule, last, began, told) in [
            (&nightly, None, None, Some("no run of all passes yet")),
            (
                &nightly,
                None,
                Some(at(59, 0)),
                Some("no run of all passes has left nothing over yet"),
            ),
            (&nightly, Some(at(59, 0)), Some(at(59, 0)), None),
            (
                &nightly,
                Some(at(0, 0)),
                Some(at(0, 0)),
                Some("no good run for 60 d: is the daemon or the timer on?"),
            ),
            (
                &nightly,
                Some(at(57, 0)),
                Some(at(59, 12)),
                Some("no good run for 3 d"),
            ),
            (&weekly, Some(at(53, 0)), Some(at(53, 0)), None),
            (
                &weekly,
                Some(at(40, 0)),
                None,
                Some("no good run for 20 d: is the daemon or the timer on?"),
            ),
        ] {
            assert_eq!(
                last_good(last, began, at(60, 0), schedule).as_deref(),
                told,
                "{last:?} {began:?}"
            );
        }
    }
}
