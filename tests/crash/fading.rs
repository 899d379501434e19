//! Killed or failed at every durable step while memories fade, are marked, or are asked about: the next night finishes,
//! takes no more than its share, and asks nothing twice.

use hypnos::failpoint::Failpoint;

use crate::support::{BACKENDS, Backend, DAY, World, now};

/// The durable steps of a night that removes rows, or marks them.
fn steps(marks: bool) -> [Failpoint; 8] {
    let (before, committed) = match marks {
        true => (Failpoint::MarksBefore, Failpoint::MarksCommitted),
        false => (Failpoint::RowsBefore, Failpoint::RowsCommitted),
    };
    [
        Failpoint::IntentBefore,
        Failpoint::IntentWritten,
        Failpoint::PointsBefore,
        Failpoint::PointsRemoved,
        before,
        committed,
        Failpoint::SettleBefore,
        Failpoint::SettleWritten,
    ]
}

/// Ana has 50 young memories, and ten that have faded.
fn store(backend: Backend, marks: bool) -> (World, Vec<i64>) {
    let mut world = World::in_folder(backend, crate::seed::folder());
    if marks {
        world.configure(
            "preset = \"ttl-days\"",
            "preset = \"ttl-days\"\ndeleted_at = \"deleted_at:epoch_s\"",
        );
        world
            .rows()
            .execute_batch("ALTER TABLE memories ADD COLUMN deleted_at INTEGER")
            .unwrap();
    }
    world.user("ana", None);
    for _ in 0..50 {
        world.memory("ana", now(), None);
    }
    let faded = (0..10)
        .map(|n| world.memory("ana", now() - (400 + n) * DAY, None))
        .collect();
    (world, faded)
}

/// The memories that are still to be seen.
fn visible(world: &World, marks: bool) -> Vec<i64> {
    let hidden = if marks { "deleted_at IS NULL" } else { "true" };
    let db = world.rows();
    let mut query = db
        .prepare(&format!(
            "SELECT id FROM memories WHERE {hidden} ORDER BY id"
        ))
        .unwrap();
    let ids = query.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

#[test]
fn what_fades_is_finished_and_no_more_than_its_share() {
    for backend in BACKENDS {
        for marks in [false, true] {
            for (step, action) in steps(marks)
                .into_iter()
                .flat_map(|step| ["kill", "error"].map(|action| (step, action)))
            {
                let story = format!("{backend:?}, marks {marks}, {action} at {step}");
                let (world, faded) = store(backend, marks);
                let rows = world.ids();
                let failpoint = format!("{step}=1*return({action})");
                let night = world.night_with(&failpoint);
                assert_ne!(night.code, Some(0), "{story}");
                let next = world.night();
                assert_eq!(next.code, Some(0), "{story}: {next:#?}");
                let left = visible(&world, marks);
                assert_eq!(left.len(), 57, "{story}: {next:#?}");
                assert!(faded[7..].iter().all(|id| !left.contains(id)), "{story}");
                assert_eq!(
                    world.point_rows().into_iter().collect::<Vec<_>>(),
                    left,
                    "{story}: whoever is seen has a point, and nobody else"
                );
                if marks {
                    assert_eq!(world.ids(), rows, "{story}: no row went");
                }
                world.night().expect(0).all_passes("idle");
                assert_eq!(visible(&world, marks), left, "{story}");
            }
        }
    }
}

#[test]
fn a_question_is_put_once_whatever_cuts_the_night_off() {
    for step in [Failpoint::QueueBefore, Failpoint::QueueWritten] {
        for action in ["kill", "error"] {
            let story = format!("{action} at {step}");
            let mut world = World::in_folder(Backend::Sqlite, crate::seed::folder());
            world.configure(
                "[pass.review]\nenabled = false",
                "[pass.review]\nenabled = true",
            );
            world.user("ana", None);
            for n in 0..5 {
                world.memory("ana", now() - (100 + n) * DAY, None);
            }
            let failpoint = format!("{step}=1*return({action})");
            assert_ne!(world.night_with(&failpoint).code, Some(0), "{story}");
            world.night().expect(0);
            let queue = world.run(&["review", "--json"]).expect(0);
            assert_eq!(queue.objects("entry").len(), 5, "{story}: {queue:#?}");
            world.night().expect(0).all_passes("idle");
            let queue = world.run(&["review", "--json"]).expect(0);
            assert_eq!(queue.objects("entry").len(), 5, "{story}");
        }
    }
}
