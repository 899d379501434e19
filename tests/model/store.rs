//! Small stores of every kind: as values, in the world, and read back.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rusqlite::params;
use rusqlite::types::Value;

use crate::NOW;
use crate::support::{Backend, DAY, World};

/// What is known of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Living,
    Deleted,
    Unknown,
}

/// A stored time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    Absent,
    At(i64),
    Garbage,
}

/// A stored deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    At(i64),
    Garbage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) user: String,
    pub(crate) created_at: Time,
    pub(crate) ttl_days: Option<i64>,
    pub(crate) expires_at: Expiry,
    pub(crate) superseded_by: Option<i64>,
}

/// A store: its rows, and its points by namespace and the id of the row they were made for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) rows: BTreeMap<i64, Row>,
    pub(crate) points: BTreeSet<(String, i64)>,
}

/// ana and bob live, zoe was deleted, and nobody knows max.
const USERS: [&str; 4] = ["ana", "bob", "zoe", "max"];
const NAMESPACES: [&str; 6] = [
    "user:ana",
    "user:bob",
    "user:zoe",
    "user:max",
    "team:acme",
    "world:all",
];

fn time() -> impl Strategy<Value = Time> {
    let days = prop_oneof![Just(0), Just(7), Just(8), Just(179), Just(180), Just(400)];
    prop_oneof![
        8 => (days, -1..=1_i64).prop_map(|(days, second)| Time::At(NOW - days * DAY + second)),
        1 => Just(Time::Absent),
        1 => Just(Time::Garbage),
    ]
}

fn row(rows: i64) -> impl Strategy<Value = (Row, bool)> {
    let user = prop_oneof![4 => Just(0_usize), 2 => Just(1), 2 => Just(2), 1 => Just(3)];
    let ttl =
        prop_oneof![4 => Just(None), 3 => Just(Some(7)), 1 => Just(Some(0)), 1 => Just(Some(-7))];
    let expiry = prop_oneof![
        6 => Just(Expiry::Never),
        1 => Just(Expiry::At(NOW)),
        1 => Just(Expiry::At(NOW + 1)),
        1 => Just(Expiry::At(NOW - 90 * DAY)),
        1 => Just(Expiry::Garbage),
    ];
    // Also itself, rings, and one that does not exist.
    let by = prop_oneof![3 => Just(None), 3 => (1..=rows + 1).prop_map(Some)];
    (user, time(), ttl, expiry, by, prop::bool::weighted(0.8)).prop_map(
        |(user, created_at, ttl_days, expires_at, superseded_by, has_point)| {
            let row = Row {
                user: USERS[user].to_owned(),
                created_at,
                ttl_days,
                expires_at,
                superseded_by,
            };
            (row, has_point)
        },
    )
}

/// Any small store.
pub(crate) fn any() -> impl Strategy<Value = State> {
    let ghosts = prop::collection::vec((0..NAMESPACES.len(), 90..99_i64), 0..5);
    let rows = (0..10_i64).prop_flat_map(|n| {
        let length = usize::try_from(n).expect("small");
        prop::collection::vec(row(n), length)
    });
    (rows, ghosts).prop_map(|(rows, ghosts)| {
        let mut state = State::default();
        for (id, (row, has_point)) in (1..).zip(rows) {
            if has_point {
                state.points.insert((format!("user:{}", row.user), id));
            }
            state.rows.insert(id, row);
        }
        let ghost = |(namespace, id): (usize, i64)| (NAMESPACES[namespace].to_owned(), id);
        state.points.extend(ghosts.into_iter().map(ghost));
        state
    })
}

/// Builds the store.
pub(crate) fn build(state: &State, backend: Backend) -> World {
    let mut world = World::new(backend);
    world.configure(
        "type = \"memory_type\"",
        "type = \"memory_type\"\nexpires_at = \"expires_at:epoch_s\"",
    );
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nenabled = true\n[pass.decay]\nmax_fraction = 0.5",
    );
    let mut db = world.rows();
    let tx = db.transaction().expect("begin");
    tx.execute_batch("ALTER TABLE memories ADD COLUMN expires_at")
        .expect("column");
    for (user, deleted_at) in [("ana", None), ("bob", None), ("zoe", Some(NOW - DAY))] {
        tx.execute(
            "INSERT INTO users VALUES(?1, ?1 || '@example.org', ?2)",
            params![user, deleted_at],
        )
        .expect("user");
    }
    let garbage = || Value::Text("yesterday".into());
    for (id, row) in &state.rows {
        let created_at = match row.created_at {
            Time::Absent => Value::Integer(0),
            Time::At(at) => Value::Integer(at),
            Time::Garbage => garbage(),
        };
        let expires_at = match row.expires_at {
            Expiry::Never => Value::Null,
            Expiry::At(at) => Value::Integer(at),
            Expiry::Garbage => garbage(),
        };
        tx.execute(
            "INSERT INTO memories(id, user_id, content, content_hash, created_at, ttl_days, superseded_by, expires_at)
             VALUES(?1, ?2, 'canary', ?1, ?3, ?4, ?5, ?6)",
            params![id, row.user, created_at, row.ttl_days, row.superseded_by, expires_at],
        )
        .expect("row");
        tx.execute("INSERT INTO memory_tags VALUES(?1, 'tag')", [id])
            .expect("tag");
    }
    tx.commit().expect("commit");
    let points: Vec<(String, i64)> = state.points.iter().cloned().collect();
    world.put(&points);
    world
}

/// The store as it is now.
pub(crate) fn read(world: &World) -> State {
    let db = world.rows();
    let mut read = db
        .prepare(
            "SELECT id, user_id, created_at, ttl_days, superseded_by, expires_at FROM memories",
        )
        .expect("memories");
    let rows = read.query_map([], |row| {
        let created_at = match row.get(2)? {
            Value::Integer(0) => Time::Absent,
            Value::Integer(at) => Time::At(at),
            _ => Time::Garbage,
        };
        let expires_at = match row.get(5)? {
            Value::Null => Expiry::Never,
            Value::Integer(at) => Expiry::At(at),
            _ => Expiry::Garbage,
        };
        let memory = Row {
            user: row.get(1)?,
            created_at,
            ttl_days: row.get(3)?,
            superseded_by: row.get(4)?,
            expires_at,
        };
        Ok((row.get(0)?, memory))
    });
    let rows = rows.expect("rows").map(|row| row.expect("row")).collect();
    let points = world.all_points().into_values().map(|point| {
        let id = point.payload["row"].as_i64().expect("row");
        assert_eq!(point.vector, crate::support::vector(id), "its own vector");
        (point.namespace.expect("namespace"), id)
    });
    State {
        rows,
        points: points.collect(),
    }
}

/// The memories that have tags.
pub(crate) fn tagged(world: &World) -> BTreeSet<i64> {
    let db = world.rows();
    let mut read = db
        .prepare("SELECT memory_id FROM memory_tags")
        .expect("tags");
    let ids = read.query_map([], |row| row.get(0)).expect("ids");
    ids.map(|id| id.expect("id")).collect()
}
