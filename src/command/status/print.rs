//! The state of a store, as a person reads it.

use std::collections::BTreeMap;

use super::{Status, runs};
use crate::output::words::counted;
use crate::output::{Out, memory};
use crate::plan::Unread;

impl Status {
    pub(super) fn print(&self, out: &mut Out) {
        if out.json {
            out.object("status", self);
            return;
        }
        out.line(&self.headline());
        for problem in &self.attention {
            out.line(&format!("  !          {problem}"));
        }
        for Unread {
            partition, problem, ..
        } in self.damaged.iter().chain(&self.damaged_pairs)
        {
            out.line(&format!("             {partition}: {problem}"));
        }
        if let Some(running) = &self.running {
            out.line(&format!("  running    {running}"));
        }
        if let Some(age) = self.queue_oldest_seconds {
            let age = memory::age(jiff::SignedDuration::from_secs(age));
            let queue = listed(&self.queue);
            out.line(&format!(
                "  queue      {queue}; the oldest waits for {age}: hypnos review"
            ));
        }
        if !self.drift.is_empty() {
            out.line(&format!(
                "  drift      {}: hypnos check",
                listed(&self.drift)
            ));
        }
        if self.settling > 0 {
            let settling = counted(self.settling, "absence waits", "absences wait");
            out.line(&format!("  settling   {settling} to be seen again"));
        }
        if self.forgetting > 0 {
            let owners = counted(self.forgetting, "owner", "owners");
            out.line(&format!(
                "  forgetting {owners}: the next run goes on with it"
            ));
        }
        for reversal in self.reversals.iter().filter(|it| it.undone > 0) {
            out.line(&format!(
                "  undone     {}: {} of {} actions ({:.1} %)",
                reversal.pass,
                reversal.undone,
                reversal.applied,
                reversal.rate * 100.0
            ));
        }
        match &self.newest_pair {
            None => out.line("  pair       none yet"),
            Some(pair) => out.line(&format!(
                "  pair       {}: {} old, {}, {} bytes",
                pair.pair,
                memory::age(jiff::SignedDuration::from_secs(pair.age_seconds)),
                counted(pair.memories, "memory", "memories"),
                pair.rows_bytes + pair.vectors_bytes
            )),
        }
        if self.foreign_pairs > 0 {
            let foreign = counted(self.foreign_pairs as u64, "pair", "pairs");
            out.line(&format!(
                "             {foreign} of other stores in the same folder: hypnos snapshot list"
            ));
        }
        let in_full = self.night.or((!self.runs.is_empty()).then_some(0));
        for line in runs::lines(&self.runs, in_full) {
            out.line(&line);
        }
    }

    fn headline(&self) -> String {
        let verdict = if self.attention.is_empty() {
            "all is well"
        } else {
            "needs attention"
        };
        let success = match self.last_success {
            Some(at) => format!("{} ago", memory::age(self.now.duration_since(at))),
            None => "never".to_owned(),
        };
        format!("{}  {verdict}; last good run: {success}", self.store)
    }
}

/// `3 stale, 1 similar`.
fn listed(counts: &BTreeMap<impl std::fmt::Display, u64>) -> String {
    let parts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    parts.join(", ")
}
