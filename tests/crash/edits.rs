//! Memories that are edited, taken over, or get their owner back while their removal is under way.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::seed::folder;
use crate::support::{BACKENDS, Backend, DAY, Point, World, now, point_id};

/// A store of which one memory after another expires.
struct Case {
    world: World,
}

impl Case {
    fn new(backend: Backend) -> Self {
        let mut world = World::in_folder(backend, folder());
        world.user("ana", None);
        world.user("zoe", Some(now() - 30 * DAY));
        for _ in 0..12 {
            world.memory("ana", now() - 5 * DAY, None);
        }
        for _ in 0..4 {
            let id = world.memory("ana", now() - 40 * DAY, Some(7));
            world
                .rows()
                .execute("INSERT INTO memory_tags VALUES(?1, 'tag')", [id])
                .unwrap();
        }
        let newest = world.memory("ana", now() - 40 * DAY, Some(7));
        let hidden = world.memory("ana", now() - 50 * DAY, None);
        world
            .rows()
            .execute(
                "UPDATE memories SET superseded_by = ?1 WHERE id = ?2",
                [newest, hidden],
            )
            .unwrap();
        for _ in 0..3 {
            world.memory("zoe", now() - 40 * DAY, None);
        }
        for namespace in ["user:ana", "user:zoe", "user:ghost", "user:ghost"] {
            world.ghost(namespace);
        }
        Self { world }
    }
}

fn story(backend: Backend, failpoint: &str) -> String {
    format!("{backend:?}, FAILPOINTS='{failpoint}'")
}

/// A memory that is edited while its removal is under way stays, and gets its point back; also when the run is killed
/// while it gives the point back.
#[test]
fn a_memory_edited_after_its_point_went_gets_the_point_back() {
    for backend in BACKENDS {
        for failpoint in [
            "",
            "put_back.before=1*return(kill)",
            "put_back.done=1*return(kill)",
        ] {
            let case = Case::new(backend);
            let (edited, point) = edited_while_its_point_is_gone(&case, failpoint);
            let story = story(backend, failpoint);
            if !failpoint.is_empty() {
                let _ = case.world.night();
            }
            assert!(
                case.world.ids().contains(&edited),
                "{story}: an edited memory was removed"
            );
            let points = case.world.all_points();
            let now = points.iter().find(|(_, p)| p.payload["row"] == edited);
            assert_eq!(
                now.map(|(id, p)| (*id, p.clone())),
                Some(point),
                "{story}: its point is not as it was"
            );
        }
    }
}

/// Holds a run between the points and the rows, and meanwhile edits a memory that is about to go: its id and its point.
fn edited_while_its_point_is_gone(case: &Case, failpoint: &str) -> (i64, (Uuid, Point)) {
    let doomed = 13;
    let point = case
        .world
        .all_points()
        .into_iter()
        .find(|(_, p)| p.payload["row"] == doomed)
        .expect("its point");
    let night = case.world.held(
        &["--run-now"],
        &format!("points.removed=1*return(hold);{failpoint}"),
    );
    assert!(!case.world.all_points().contains_key(&point.0));
    let edit = "UPDATE memories SET ttl_days = NULL, last_used_at = 1 WHERE id = ?1";
    assert_eq!(
        case.world.rows().execute(edit, [doomed]).unwrap(),
        1,
        "it was still there"
    );
    let _ = night.let_go();
    (doomed, point)
}

/// A key that a new memory got after the old one went must not inherit the old one's vector.
#[test]
fn a_reused_key_does_not_inherit_the_old_vector() {
    let case = Case::new(Backend::Sqlite);
    let doomed = 13;
    let night = case.world.night_with("points.removed=1*return(kill)");
    assert_eq!(night.code, None, "{night:#?}");
    let db = case.world.rows();
    db.execute("DELETE FROM memory_tags WHERE memory_id = ?1", [doomed])
        .unwrap();
    db.execute("DELETE FROM memories WHERE id = ?1", [doomed])
        .unwrap();
    let insert = "INSERT INTO memories(id, user_id, content, content_hash, created_at) VALUES(?1, 'ana', 'new', 'n', ?2)";
    db.execute(insert, [doomed, now()]).unwrap();
    let night = case.world.night();
    assert_eq!(night.code, Some(0), "{night:#?}");
    assert!(case.world.ids().contains(&doomed));
    assert!(
        !case.world.point_rows().contains(&doomed),
        "the new memory waits for its own vector"
    );
}

/// A memory that was edited and given a new vector after a run was killed keeps the new one: replay looks at the row
/// before it touches a point.
#[test]
fn replay_leaves_the_new_vector_of_an_edited_memory() {
    for backend in BACKENDS {
        let case = Case::new(backend);
        let edited = 13;
        let night = case.world.night_with("points.before=1*return(kill)");
        assert_eq!(night.code, None, "{night:#?}");
        let edit = "UPDATE memories SET content = 'edited', ttl_days = NULL WHERE id = ?1";
        case.world.rows().execute(edit, [edited]).unwrap();
        // Its new vector: that of another number, under the same id.
        case.world.put_as("user:ana", edited, 777);
        let point = case.world.all_points()[&point_id("user:ana", edited)].clone();
        let night = case.world.night();
        assert_eq!(night.code, Some(0), "{night:#?}");
        assert!(case.world.ids().contains(&edited));
        let now = &case.world.all_points()[&point_id("user:ana", edited)];
        assert_eq!(*now, point, "{backend:?}: the new vector is gone");
    }
}

/// An owner who comes back while its points are already gone keeps its rows, and gets the points back.
#[test]
fn an_owner_who_comes_back_between_points_and_rows_keeps_both() {
    for backend in BACKENDS {
        let case = Case::new(backend);
        let zoe = |points: BTreeMap<Uuid, Point>| -> BTreeMap<Uuid, Point> {
            let of_zoe = |point: &Point| point.namespace.as_deref() == Some("user:zoe");
            points
                .into_iter()
                .filter(|(_, point)| of_zoe(point))
                .collect()
        };
        let rows: BTreeSet<i64> = case
            .world
            .ids()
            .into_iter()
            .filter(|id| zoe(case.world.all_points()).contains_key(&point_id("user:zoe", *id)))
            .collect();
        assert_eq!(rows.len(), 3);
        let before: BTreeMap<Uuid, Point> = zoe(case.world.all_points())
            .into_iter()
            .filter(|(_, point)| rows.contains(&point.payload["row"].as_i64().unwrap()))
            .collect();
        // ttl passes first: the second batch of points is that of the rows of orphans.
        let night = case
            .world
            .held(&["--run-now"], "points.removed=1*off->1*return(hold)");
        let points = case.world.all_points();
        assert!(before.keys().all(|id| !points.contains_key(id)));
        let revive = "UPDATE users SET deleted_at = NULL WHERE id = 'zoe'";
        assert_eq!(case.world.rows().execute(revive, []).unwrap(), 1);
        assert_eq!(
            night.let_go().code,
            Some(3),
            "{backend:?}: what was skipped is said"
        );
        assert!(
            case.world.ids().is_superset(&rows),
            "{backend:?}: rows of a living owner are gone"
        );
        let after = zoe(case.world.all_points());
        for (id, point) in &before {
            assert_eq!(
                after.get(id),
                Some(point),
                "{backend:?}: a point did not come back"
            );
        }
    }
}
