//! A state folder to try things in, and the values that the tests of this module share.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use super::{Holder, Intent, IntentId, Partition, State, StateDir};
use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId, Version};
use crate::pass::PassName;
use crate::plan::{ActionKind, Reason};
use crate::store::image::{PointImage, RowImage, SqlValue, Unit};

/// Text that must not be found where it was erased.
pub(super) const SECRET: &str = "the blue door code is 4477";

/// A folder of its own, removed in the end.
pub(super) struct World {
    temp: TempDir,
    pub(super) dir: StateDir,
}

impl World {
    pub(super) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(temp.path(), "agent");
        dir.create().unwrap();
        Self { temp, dir }
    }

    pub(super) fn main(&self) -> State {
        self.dir.open(Partition::Main).unwrap()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.temp.path().join("agent").join(name)
    }
}

/// So many seconds after an arbitrary night.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_322_800 + seconds).unwrap()
}

pub(super) fn holder(run: &str) -> Holder {
    Holder {
        pid: 4711,
        run: run.into(),
        host: "night".into(),
        since: at(0),
        command: "run".into(),
    }
}

pub(super) fn ana() -> Namespace {
    Namespace::parse("user:ana").unwrap()
}

/// The row of a memory that says `SECRET`.
fn row(id: i64) -> RowImage {
    RowImage {
        table: "memories".into(),
        rowid: None,
        columns: vec![
            ("id".into(), SqlValue::Integer(id)),
            ("content".into(), SqlValue::Text(SECRET.into())),
        ],
    }
}

/// The deletion of an expired memory with a point, and with one memory hidden behind it.
pub(super) fn deletion(id: i64) -> Intent {
    let point = PointId::Number(id.unsigned_abs());
    let unit = Unit {
        root: row(id),
        behind: vec![row(id + 1_000_000)],
        children: vec![],
        detached: vec![],
    };
    Intent {
        kind: ActionKind::Delete,
        partition: Arc::from("main"),
        namespace: Some(ana()),
        memory: Some(MemoryId::Integer(id)),
        behind: vec![MemoryId::Integer(id + 1_000_000)],
        expect: Some(Version([7; 16])),
        reason: Reason::Expired {
            at: "2026-01-01T00:00:00.123456789Z".parse().unwrap(),
        },
        erase: false,
        mark: None,
        survivor: None,
        points: vec![point.clone()],
        images: vec![PointImage {
            id: point,
            namespace: None,
            body: format!("payload: {SECRET}").into_bytes(),
        }],
        unit: Some(unit),
        stays: None,
    }
}

/// The same, for an owner who was deleted.
pub(super) fn erasure(id: i64) -> Intent {
    Intent {
        reason: Reason::OwnerDeleted { at: at(-9) },
        erase: true,
        ..deletion(id)
    }
}

/// A point without a row.
pub(super) fn drop_point(number: u64) -> Intent {
    Intent {
        kind: ActionKind::DropPoint,
        memory: None,
        behind: vec![],
        expect: None,
        reason: Reason::RowGone,
        points: vec![PointId::Number(number)],
        unit: None,
        ..deletion(1)
    }
}

impl State {
    pub(super) fn intend_one(&self, intent: Intent) -> IntentId {
        self.intend("run-1", PassName::Ttl, &[intent]).unwrap()[0]
    }
}
