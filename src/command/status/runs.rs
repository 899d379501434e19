//! The last runs, as they are listed.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::attention::is_good;
use crate::clock::Timestamp;
use crate::metrics::journal::count;
use crate::output::words::columns;
use crate::pass::PassName;
use crate::plan::Finding;
use crate::state::{PassRow, RunRecord};

/// A run of the journal.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    #[serde(rename = "run")]
    pub(super) id: String,
    pub(super) command: String,
    pub(super) started_at: Timestamp,
    /// `unfinished` while it runs, and for ever when it was killed.
    pub(super) outcome: String,
    pub(super) exit: Option<u8>,
    pub(super) finished_at: Option<Timestamp>,
    /// Why it could not be done at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) passes: Vec<Pass>,
}

/// What a pass did in it.
#[derive(Debug, Serialize)]
pub(super) struct Pass {
    #[serde(rename = "pass")]
    name: PassName,
    outcome: String,
    applied: Value,
    skipped: Value,
    failed: Value,
    residue: Value,
    findings: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    seconds: f64,
}

impl Run {
    pub(super) fn new(RunRecord { row, end }: RunRecord, passes: Vec<PassRow>) -> Self {
        let (exit, finished_at) = (
            end.as_ref().map(|end| end.exit),
            end.as_ref().map(|end| end.finished_at),
        );
        let (outcome, error) = match end {
            Some(end) => (end.outcome, end.error),
            None => ("unfinished".to_owned(), None),
        };
        Self {
            id: row.run,
            command: row.command,
            started_at: row.started_at,
            outcome,
            exit,
            finished_at,
            error,
            passes: passes.into_iter().map(Pass::new).collect(),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.finished_at.is_some()
    }

    /// Why it did not end well: what kept it from its work, or the first pass that was kept from its own; else which
    /// passes left something.
    pub(super) fn why(&self) -> Option<String> {
        let of_pass = |pass: &Pass| Some(format!("{}: {}", pass.name, pass.why()?));
        let first = || self.passes.iter().find_map(of_pass);
        let left = || {
            let left = self.passes.iter().filter(|pass| !is_good(&pass.outcome));
            let left: Vec<String> = left
                .map(|pass| format!("{} {}", pass.name, pass.outcome))
                .collect();
            (!left.is_empty()).then(|| left.join(", "))
        };
        self.error.clone().or_else(first).or_else(left)
    }

    fn cells(&self, in_short: bool) -> Vec<String> {
        let taken = self
            .finished_at
            .map(|end| end.duration_since(self.started_at).as_secs_f64())
            .filter(|seconds| *seconds > 0.0);
        let mut tail = self.id.clone();
        for pass in self.passes.iter().filter(|_| in_short) {
            for (action, count) in pass.applied.as_object().into_iter().flatten() {
                let _ = write!(tail, "  {} {count} {action}", pass.name);
            }
        }
        if let Some(error) = &self.error {
            let _ = write!(tail, "  {error}");
        }
        vec![
            format!("{:.0}", self.started_at),
            self.command.clone(),
            self.outcome.clone(),
            taken.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2} s")),
            tail,
        ]
    }
}

/// A line for each run; below the one that is `shown_whole`, one for each of its passes, too.
pub(super) fn lines(runs: &[Run], shown_whole: Option<usize>) -> Vec<String> {
    let is_full = |index: usize| Some(index) == shown_whole;
    let of_runs = runs.iter().enumerate();
    let cells: Vec<_> = of_runs
        .map(|(index, run)| run.cells(!is_full(index)))
        .collect();
    let mut lines = Vec::new();
    for (index, line) in columns(&cells).into_iter().enumerate() {
        lines.push(format!("  {line}"));
        if is_full(index) {
            let passes: Vec<_> = runs[index].passes.iter().map(Pass::cells).collect();
            lines.extend(columns(&passes).iter().map(|line| format!("    {line}")));
        }
    }
    lines
}

impl Pass {
    fn new(row: PassRow) -> Self {
        let PassRow {
            pass,
            outcome,
            seconds,
            applied,
            skipped,
            failed,
            residue,
            findings,
            refusal,
            error,
            ..
        } = row;
        Self {
            name: pass,
            outcome,
            applied,
            skipped,
            failed,
            residue,
            findings,
            refusal,
            error,
            seconds,
        }
    }

    /// Why it was refused, or failed.
    fn why(&self) -> Option<&str> {
        self.refusal.as_deref().or(self.error.as_deref())
    }

    fn cells(&self) -> Vec<String> {
        let mut parts = Vec::new();
        for (name, counts) in [
            ("", &self.applied),
            ("skipped ", &self.skipped),
            ("failed ", &self.failed),
            ("left over ", &self.residue),
        ] {
            let counts = counts.as_object().into_iter().flatten();
            parts.extend(counts.map(|(action, count)| format!("{name}{count} {action}")));
        }
        let blocked = count(&self.findings, Finding::Blocked.as_str());
        if blocked > 0 {
            parts.push(format!("blocked {blocked}"));
        }
        parts.extend(self.why().map(str::to_owned));
        vec![
            self.name.to_string(),
            self.outcome.clone(),
            parts.join("  "),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(command: &str, outcome: &str, seconds: i64, passes: Vec<Pass>) -> Run {
        let started_at: Timestamp = "2026-11-30T03:00:00Z".parse().unwrap();
        Run {
            id: "0193-a".into(),
            command: command.into(),
            started_at,
            outcome: outcome.into(),
            exit: Some(0),
            finished_at: Some(started_at + jiff::SignedDuration::from_secs(seconds)),
            error: None,
            passes,
        }
    }

    fn pass(name: PassName, outcome: &str, error: Option<&str>) -> Pass {
        Pass {
            name,
            outcome: outcome.into(),
            applied: json!({"delete": 3}),
            skipped: json!({}),
            failed: json!({}),
            residue: json!({"delete": 1}),
            findings: json!({"blocked": 2, "settling": 9}),
            refusal: None,
            error: error.map(Into::into),
            seconds: 0.5,
        }
    }

    #[test]
    fn names_of_any_length_stand_in_columns_and_no_time_is_no_number() {
        let night = vec![
            pass(PassName::Ttl, "partial", None),
            pass(PassName::Contradictions, "failed", Some("no space left")),
        ];
        let runs = [
            run("review confirm 12", "applied", 0, Vec::new()),
            run("serve", "failed", 61, night),
        ];
        assert_eq!(
            lines(&runs, Some(1)),
            [
                "  2026-11-30T03:00:00Z  review confirm 12  applied  -        0193-a",
                "  2026-11-30T03:00:00Z  serve              failed   61.00 s  0193-a",
                "    ttl             partial  3 delete  left over 1 delete  blocked 2",
                "    contradictions  failed   3 delete  left over 1 delete  blocked 2  no space left",
            ]
        );
        let short = lines(&runs, Some(0));
        assert!(
            short[1].ends_with("0193-a  ttl 3 delete  contradictions 3 delete"),
            "{short:?}"
        );
    }

    #[test]
    fn why_is_what_kept_it_from_its_work_or_who_left_something() {
        let partial = || pass(PassName::Ttl, "partial", None);
        let failed = pass(PassName::Snapshot, "failed", Some("no space left"));
        let mut night = run("serve", "failed", 1, vec![partial(), failed]);
        assert_eq!(night.why().as_deref(), Some("snapshot: no space left"));
        night.error = Some("open the row database".into());
        assert_eq!(night.why().as_deref(), Some("open the row database"));
        let left = run(
            "serve",
            "partial",
            1,
            vec![partial(), pass(PassName::Decay, "idle", None)],
        );
        assert_eq!(left.why().as_deref(), Some("ttl partial"));
        assert_eq!(run("serve", "skipped", 1, Vec::new()).why(), None);
    }
}
