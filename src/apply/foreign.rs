//! Open intents that were written for other stores than those of the configuration: never acted on, always named.

use std::collections::BTreeSet;
use std::path::Path;

use crate::state::IntentRecord;
use crate::store::identity::Identity;

/// Ids that a message names.
const NAMED: usize = 20;

/// What of a state file is not for the stores of now.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    actions: usize,
    ids: Vec<String>,
    changes: BTreeSet<String>,
}

impl Foreign {
    /// Takes out of `records` what was written for other stores than `now`.
    pub(super) fn take(&mut self, now: &Identity, records: Vec<IntentRecord>) -> Vec<IntentRecord> {
        let mut own = Vec::with_capacity(records.len());
        for record in records {
            let changes = now.changes_since(&record.stores);
            if changes.is_empty() {
                own.push(record);
            } else {
                self.changes.extend(changes);
                self.add(&record);
            }
        }
        own
    }

    fn add(&mut self, record: &IntentRecord) {
        self.actions += 1;
        if self.ids.len() < NAMED {
            let intent = &record.intent;
            let points = || intent.points.iter().map(ToString::to_string).collect();
            let ids: Vec<String> = intent
                .memory
                .as_ref()
                .map_or_else(points, |memory| vec![memory.to_string()]);
            self.ids.extend(ids);
        }
    }

    /// What a person should know of it, when there is something; `file` is the state file.
    pub(super) fn problem(&self, file: &Path) -> Option<String> {
        if self.actions == 0 {
            return None;
        }
        let more = match self.actions.saturating_sub(self.ids.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let changes: Vec<&str> = self.changes.iter().map(String::as_str).collect();
        Some(format!(
            "{} actions that an earlier run began stay open ({}{more}), since they are for other stores: {}; undo that \
             change for one run, which finishes them, or move {} away with its -wal and -shm: undo and the rest of \
             those actions are lost, memories are not",
            self.actions,
            self.ids.join(", "),
            changes.join("; "),
            file.display()
        ))
    }
}
