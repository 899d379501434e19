//! Killed or failed at every durable step while duplicates are folded: the next night finishes; each cluster keeps
//! exactly one memory, and what is carried over to it is carried over once.

use std::collections::BTreeSet;

use hypnos::failpoint::Failpoint;
use rusqlite::params;

use crate::support::{BACKENDS, Backend, DAY, World, now, vector};

const STEPS: [Failpoint; 8] = [
    Failpoint::IntentBefore,
    Failpoint::IntentWritten,
    Failpoint::PointsBefore,
    Failpoint::PointsRemoved,
    Failpoint::RowsBefore,
    Failpoint::RowsCommitted,
    Failpoint::SettleBefore,
    Failpoint::SettleWritten,
];

const FACTS: [&str; 3] = ["tea", "rain", "jazz"];
const COPIES: usize = 4;
const OTHERS: usize = 40;

/// Three facts, each remembered four times and used as often as its number says, among others.
fn store(backend: Backend, has_column: bool) -> World {
    let mut world = World::new(backend);
    world
        .rows()
        .execute_batch("ALTER TABLE memories ADD COLUMN uses INTEGER")
        .unwrap();
    if !has_column {
        world.configure("superseded_by = \"superseded_by\"\n", "");
        world
            .rows()
            .execute_batch("ALTER TABLE memories DROP COLUMN superseded_by")
            .unwrap();
    }
    world.configure(
        "preset = \"ttl-days\"",
        "preset = \"ttl-days\"\nuses = \"uses\"",
    );
    world.user("ana", None);
    for (n, fact) in (1..).zip(FACTS.iter().cycle().take(FACTS.len() * COPIES)) {
        let id = world.row("ana", now() - n * DAY, None);
        world
            .rows()
            .execute(
                "UPDATE memories SET content = ?1, uses = ?2 WHERE id = ?2",
                params![format!("Ana likes {fact}"), id],
            )
            .unwrap();
        world.put_vectors(&[("user:ana".to_owned(), id, vector(n % 3))]);
    }
    for _ in 0..OTHERS {
        world.memory("ana", now(), None);
    }
    world
}

/// Text and uses of each memory that is to be seen, of those that were copied.
fn visible(world: &World, seen: &str) -> Vec<(String, i64)> {
    let db = world.rows();
    let mut read = db
        .prepare(&format!(
            "SELECT content, uses FROM memories WHERE {seen} AND uses IS NOT NULL ORDER BY content"
        ))
        .unwrap();
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

fn live(world: &World, seen: &str) -> BTreeSet<i64> {
    let db = world.rows();
    let mut read = db
        .prepare(&format!("SELECT id FROM memories WHERE {seen}"))
        .unwrap();
    let ids = read.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

#[test]
fn every_cluster_keeps_one_memory_and_all_of_its_uses() {
    // The ids of a cluster are 1, 4, 7, 10, and so on, and so are their uses.
    let expected = [
        ("Ana likes jazz".to_owned(), 3 + 6 + 9 + 12),
        ("Ana likes rain".to_owned(), 2 + 5 + 8 + 11),
        ("Ana likes tea".to_owned(), 1 + 4 + 7 + 10),
    ];
    for backend in BACKENDS {
        let schemas: &[bool] = match backend {
            Backend::Sqlite => &[false, true],
            Backend::Qdrant => &[true],
        };
        for &has_column in schemas {
            let seen = if has_column {
                "superseded_by IS NULL"
            } else {
                "true"
            };
            for (step, action) in STEPS
                .into_iter()
                .flat_map(|step| ["kill", "error"].map(|action| (step, action)))
            {
                let story = format!("{backend:?}, column {has_column}, {action} at {step}");
                let world = store(backend, has_column);
                let failpoint = format!("{step}=1*return({action})");
                let night = world.night_with(&failpoint);
                assert_ne!(night.code, Some(0), "{story}");
                let next = world.night();
                assert_eq!(next.code, Some(0), "{story}: {next:#?}");
                assert_eq!(visible(&world, seen), expected, "{story}: {next:#?}");
                let live = live(&world, seen);
                assert_eq!(
                    world.point_rows(),
                    live,
                    "{story}: whoever is seen has a point, and nobody else"
                );
                assert_eq!(
                    live.len(),
                    FACTS.len() + OTHERS,
                    "{story}: nobody else went"
                );
                let rows = if has_column {
                    FACTS.len() * COPIES
                } else {
                    FACTS.len()
                } + OTHERS;
                assert_eq!(world.ids().len(), rows, "{story}");
                world.night().expect(0).all_passes("idle");
                assert_eq!(visible(&world, seen), expected, "{story}");
            }
        }
    }
}
