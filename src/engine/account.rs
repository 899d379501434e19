//! Counting what runs did that were killed, once what they had begun is finished.

use std::collections::BTreeMap;

use super::journal::{injected, json, state_failure};
use crate::apply::States;
use crate::clock::Timestamp;
use crate::error::Failure;
use crate::failpoint::{Failpoint, hit};
use crate::pass::PassName;
use crate::plan::{ActionKind, Tally};
use crate::state::{ActionResult, Deeds, PassRow, StateError, Unaccounted};

/// How a pass is called that was cut off with its run; no outcome of a report.
const CUT_OFF: &str = "cut_off";

/// Adds to the totals what runs but this one did and nobody has counted, and writes the passes down in which they were killed.
pub(super) fn settle(states: &States, run: &str, now: Timestamp) -> Result<(), Failure> {
    hit(Failpoint::ReplayCountBefore).map_err(injected)?;
    account(states, run, now).map_err(state_failure)?;
    hit(Failpoint::ReplayCounted).map_err(injected)
}

fn account(states: &States, run: &str, now: Timestamp) -> Result<(), StateError> {
    let main = states.main();
    for past in main.unaccounted(run)? {
        let (deeds, is_whole) = states.deeds(&past)?;
        let is_all = is_whole && deeds.open == 0;
        let passes = if past.is_cut_off {
            cut_off(&past, &deeds, run, now)
        } else {
            Vec::new()
        };
        main.account(&past.run, &deeds, &passes, is_all)?;
    }
    Ok(())
}

/// The passes of a run that was killed before it wrote them down, as far as they did something.
fn cut_off(past: &Unaccounted, deeds: &Deeds, by: &str, now: Timestamp) -> Vec<PassRow> {
    let mut passes: BTreeMap<PassName, [Tally<ActionKind>; 2]> = BTreeMap::new();
    for (&(pass, action, result), count) in &deeds.ended {
        let place = match result {
            ActionResult::Applied => 0,
            ActionResult::Skipped => 1,
            ActionResult::Failed | ActionResult::Undone => continue,
        };
        if !past.recorded.contains(&pass) {
            passes.entry(pass).or_default()[place].insert(action, *count);
        }
    }
    let none = || serde_json::json!({});
    let row = |(pass, [applied, skipped]): (PassName, [Tally<ActionKind>; 2])| PassRow {
        pass,
        outcome: CUT_OFF.to_owned(),
        succeeded: false,
        finished_at: now,
        seconds: 0.0,
        planned: none(),
        applied: json(&applied),
        skipped: json(&skipped),
        failed: none(),
        residue: none(),
        findings: none(),
        refusal: None,
        error: Some(format!(
            "it was killed; run {by} has finished what it had begun"
        )),
        plan_hash: None,
    };
    passes.into_iter().map(row).collect()
}
