//! What became of each copy of a namespace.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::config;
use crate::durable;
use crate::error::{Failure, chain};
use crate::exit::Exit;
use crate::memory::Namespace;
use crate::snapshot::SnapshotError;
use crate::state::{Held, NamespaceHash};
use crate::store::swap;
use crate::store::traces::Trace;

/// What became of each copy of a namespace, in every store.
#[derive(Debug, Serialize)]
pub struct Certificate {
    /// The namespace.
    pub namespace: String,
    /// Its SHA-256, all that is kept of the name.
    pub namespace_hash: String,
    /// The run that erased it; `None` when it would only have been erased.
    pub run: Option<String>,
    /// When it began.
    pub at: Timestamp,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The stores.
    pub stores: Vec<Erased>,
    /// What no store of the configuration reaches.
    pub beyond: Vec<String>,
}

/// What became of each copy in one store.
#[derive(Debug, Serialize)]
pub struct Erased {
    /// The store.
    pub store: Arc<str>,
    /// When a run that was cut off had begun it: the rows and points that it removed are counted here, what it removed of
    /// the rest is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Timestamp>,
    /// What was removed, or would be.
    pub removed: Vec<Copy>,
    /// The pair of snapshots that was taken and verified once all was erased, since the newest one held something of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_pair: Option<String>,
    /// What remains, or can.
    pub remaining: Vec<Remaining>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Why the pairs of snapshots could not be dealt with: no room, no server, no permission.
    #[serde(skip)]
    pub failure: Option<Failure>,
}

/// Copies of one kind in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// `rows`, `points`, `entities`, `actions`, `pre_images`, `questions`, `sightings`, `compared`, `pair`.
    pub what: &'static str,
    /// The file, or the collection.
    pub place: String,
    /// How many.
    pub count: u64,
}

/// A place where something remains, or can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// `rows`, `points`, `entities`, `history`, `log`, `free_pages`, `pair` and so on.
    pub what: &'static str,
    /// The file, or the collection.
    pub place: String,
    /// What it is, and until when.
    pub why: String,
    /// Whether hypnos could still remove it: then the erasure is not complete.
    pub unfinished: bool,
}

impl Certificate {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let exits = self.stores.iter().map(|store| match store.outcome().1 {
            // Nothing was to be finished.
            Exit::LeftOver if self.dry_run => Exit::Done,
            exit => exit,
        });
        exits
            .max_by_key(|exit| exit.gravity())
            .unwrap_or(Exit::Done)
    }

    /// Why it is not complete, where something failed.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let failures = self.stores.iter().filter_map(|store| store.failure.clone());
        Failure::of_all(&failures.collect::<Vec<_>>())
    }

    /// A certificate without a store.
    #[must_use]
    pub fn new(namespace: &Namespace, run: Option<&str>, at: Timestamp) -> Self {
        let beyond = [
            "the row of the owner itself, and what other tables hold of it without a foreign key to a memory",
            "backups and replicas of the databases, copies that were sent elsewhere, and files that a restore kept aside",
            "blocks that the file system or the disk has freed and not overwritten",
            "logs of the agent and of its model, and what the application logs of its memories where store.log.path does not \
             say so (mem0: history.db)",
        ];
        Self {
            namespace: namespace.to_string(),
            namespace_hash: NamespaceHash::of(namespace).to_string(),
            run: run.map(str::to_owned),
            at,
            dry_run: run.is_none(),
            stores: Vec::new(),
            beyond: beyond.map(str::to_owned).to_vec(),
        }
    }
}

impl Erased {
    pub(super) fn new(store: &Arc<str>) -> Self {
        Self {
            store: Arc::clone(store),
            begun_at: None,
            removed: Vec::new(),
            new_pair: None,
            remaining: Vec::new(),
            interrupted: false,
            failure: None,
        }
    }

    /// Whether there is nothing to remove.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
    }

    /// Whether a row or point of it, or one that lists its memories, is still there.
    pub(super) fn is_in_stores(&self) -> bool {
        let is_there =
            |remaining: &Remaining| matches!(remaining.what, "rows" | "points" | "entities");
        self.remaining.iter().any(is_there)
    }

    /// Whether a pair that is to be dropped is still there.
    pub(super) fn is_to_leave_pairs(&self) -> bool {
        let is_to_go = |remaining: &Remaining| remaining.what == "pair" && remaining.unfinished;
        self.remaining.iter().any(is_to_go)
    }

    pub(super) fn removed(&mut self, what: &'static str, place: &str, count: u64) {
        if count > 0 {
            self.removed.push(Copy {
                what,
                place: place.to_owned(),
                count,
            });
        }
    }

    pub(super) fn held(&mut self, place: &Path, held: Held) {
        let Held {
            actions,
            pre_images,
            questions,
            sightings,
            compared,
        } = held;
        let place = place.display().to_string();
        self.removed("actions", &place, actions);
        self.removed("pre_images", &place, pre_images);
        self.removed("questions", &place, questions);
        self.removed("sightings", &place, sightings);
        self.removed("compared", &place, compared);
    }

    pub(super) fn remains(
        &mut self,
        what: &'static str,
        place: &str,
        why: impl Into<String>,
        unfinished: bool,
    ) {
        let remaining = Remaining {
            what,
            place: place.to_owned(),
            why: why.into(),
            unfinished,
        };
        if !self.remaining.contains(&remaining) {
            self.remaining.push(remaining);
        }
    }

    /// Names what the application logs of its memories: hypnos reads it, and never writes it.
    pub(super) fn beyond_reach(&mut self, store: &config::Store) {
        if let Some(log) = &store.log {
            let why = "the application's log, which can hold what its memories said: hypnos does not write it, so that the \
                       application has to erase it";
            self.remains("history", &log.path.display().to_string(), why, false);
        }
    }

    /// Names what restores have kept aside of a file.
    pub(super) fn kept_aside(&mut self, live: &Path) {
        let why = "what a restore kept aside, which can have its text: hypnos does not look into it; take out what is needed, \
                   and remove it";
        match swap::kept_aside(live) {
            Ok(kept) => {
                for file in kept {
                    self.remains("kept", &file.display().to_string(), why, false);
                }
            }
            Err(error) => {
                let folder = durable::folder_of(live).display().to_string();
                let why = format!("whether a restore kept something aside is not known: {error}");
                self.remains("kept", &folder, why, false);
            }
        }
    }

    pub(super) fn traces(&mut self, place: &str, traces: &[Trace]) {
        for trace in traces {
            let what = match trace {
                Trace::Log => "log",
                Trace::FreePages { .. } => "free_pages",
                Trace::Gaps => "gaps",
                Trace::Journal => "journal",
                Trace::TextIndex { .. } => "text_index",
                Trace::Segments => "segments",
            };
            self.remains(what, place, trace.to_string(), trace.is_unfinished());
        }
    }

    /// Writes down why the pairs could not be dealt with, and answers it in words.
    pub(super) fn fail(&mut self, error: &SnapshotError) -> String {
        let doing = "forget it in the pairs of snapshots";
        self.failure = Some(Failure::from(error).while_doing(doing));
        chain(error)
    }

    pub(super) fn outcome(&self) -> (&'static str, Exit) {
        if self.interrupted {
            return ("interrupted", Exit::Interrupted);
        }
        if let Some(failure) = self.failure.as_ref().filter(|it| it.exit != Exit::LeftOver) {
            return ("failed", failure.exit);
        }
        let is_left = self.remaining.iter().any(|remaining| remaining.unfinished);
        match (is_left, self.removed.is_empty()) {
            (true, _) => ("partial", Exit::LeftOver),
            (_, true) => ("idle", Exit::Done),
            _ => ("applied", Exit::Done),
        }
    }
}
