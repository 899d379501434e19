//! Answers that were cut off.

use super::*;

/// The durable steps of an answer.
const STEPS: [Failpoint; 12] = [
    Failpoint::RunBegun,
    Failpoint::IntentBefore,
    Failpoint::IntentWritten,
    Failpoint::PointsBefore,
    Failpoint::PointsRemoved,
    Failpoint::RowsBefore,
    Failpoint::RowsCommitted,
    Failpoint::MarksBefore,
    Failpoint::MarksCommitted,
    Failpoint::SettleWritten,
    Failpoint::AnswerBefore,
    Failpoint::AnswerWritten,
];

/// Killed at every durable step of an answer, the next night leaves the memory either as it was and asked about, or as
/// the answer says in both stores.
#[test]
fn an_answer_that_was_killed_is_given_whole_or_not_at_all() {
    for backend in BACKENDS {
        for verb in ["confirm", "forget"] {
            for point in STEPS {
                let story = format!("{backend:?} {verb} {point}");
                let mut world = world(backend);
                let old = world.memory("ana", now() - 200 * DAY, None);
                let stays = world.memory("ana", now(), None);
                world.night().expect(0);
                let answer = Output::of(
                    world
                        .command(&["review", verb, "1"])
                        .env("FAILPOINTS", format!("{point}=return(kill)")),
                );
                assert!(
                    matches!(answer.code, None | Some(0)),
                    "{story}: {answer:#?}"
                );
                world.night().expect(0);
                let _ = world.night().expect(0).all_passes("idle");
                let is_asked = waiting(&world) == [old];
                let ids = world.ids();
                assert_eq!(ids, world.point_rows(), "{story}");
                if verb == "forget" {
                    let expected: BTreeSet<i64> = if is_asked {
                        [old, stays].into()
                    } else {
                        [stays].into()
                    };
                    assert_eq!(ids, expected, "{story}");
                } else {
                    let confirmed: Option<i64> = column(&world, "confirmed_at", old);
                    assert_eq!(confirmed.is_none(), is_asked, "{story}");
                    assert_eq!(ids.len(), 2, "{story}");
                }
            }
        }
    }
}

/// What stands for another memory must still stand when that one goes, also when an earlier run is finished.
#[test]
fn a_memory_is_not_hidden_behind_one_that_has_gone() {
    for backend in BACKENDS {
        let mut world = world(backend);
        let old = world.memory("ana", now() - 3 * DAY, None);
        let new = world.memory("ana", now() - DAY, None);
        put(&world, QuestionKind::Contradiction, &[old, new]);
        let points = world.all_points();
        let killed = world
            .command(&["review", "replace", "1"])
            .env("FAILPOINTS", "points.removed=1*return(kill)")
            .output()
            .unwrap();
        assert_eq!(killed.status.code(), None, "{killed:?}");
        assert!(world.all_points().len() < points.len(), "the point went");
        world
            .rows()
            .execute("DELETE FROM memories WHERE id = ?1", [new])
            .unwrap();
        world.night().expect(0);
        let hidden: i64 = world
            .rows()
            .query_row(
                "SELECT count(*) FROM memories WHERE superseded_by IS NOT NULL",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!((world.ids(), hidden), ([old].into(), 0));
        let point = crate::support::point_id("user:ana", old);
        assert!(world.all_points().contains_key(&point), "its point is back");
    }
}
