//! Killed, failed or held up at every durable step of `ttl` and `orphans`, on both backends; then one more night, and
//! the promises are checked by code that knows nothing of the passes.
//!
//! Promises, by their numbers in the README: no live memory lost and no removed one back (1), complete in both stores
//! or visible as an open intent (2), owners who exist keep everything (5), a dry run writes nothing (7).

#![allow(let_underscore_drop, reason = "an answer that a test does not look at")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test may fail loudly, say what it did, and write files that need no durability"
)]

#[path = "../support/mod.rs"]
mod support;

mod by_hand;
mod fading;
mod folding;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};

use hypnos::failpoint::Failpoint;
use support::{BACKENDS, Backend, DAY, Point, World, files, now};
use uuid::Uuid;

/// A store, and what must be true of it whatever happens.
struct Case {
    world: World,
    /// Rows (and points) that must be there at all times, as they are.
    alive: BTreeSet<i64>,
    alive_points: BTreeMap<Uuid, Point>,
    /// Rows of the finished store; the points are theirs.
    finished: BTreeSet<i64>,
}

impl Case {
    fn new(backend: Backend) -> Self {
        let mut world = World::new(backend);
        world.user("ana", None);
        world.user("zoe", Some(now() - 30 * DAY));
        let mut alive = BTreeSet::new();
        for _ in 0..12 {
            alive.insert(world.memory("ana", now() - 5 * DAY, None));
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
        let mut case = Self {
            alive_points: BTreeMap::new(),
            finished: alive.clone(),
            alive,
            world,
        };
        case.alive_points = case.points_of_the_living();
        assert_eq!(case.alive_points.len(), 12);
        case
    }

    fn points_of_the_living(&self) -> BTreeMap<Uuid, Point> {
        let points = self.world.all_points().into_iter();
        points
            .filter(|(_, point)| self.alive.contains(&point.payload["row"].as_i64().unwrap()))
            .collect()
    }

    /// What must hold even in the middle.
    fn check_always(&self, story: &str) {
        let ids = self.world.ids();
        assert!(
            ids.is_superset(&self.alive),
            "{story}: a live memory is gone"
        );
        assert_eq!(
            self.points_of_the_living(),
            self.alive_points,
            "{story}: a live memory's point is gone or changed"
        );
        let open = self.world.run(&["status", "--json"]);
        let open = open.objects("status")[0]["open_intents"].as_u64().unwrap();
        let points = self.world.point_rows();
        let half = ids.iter().filter(|id| !points.contains(id)).count();
        assert!(
            half == 0 || open > 0,
            "{story}: {half} memories are half removed and no intent says so"
        );
    }

    /// What must hold after one more night.
    fn check_finished(&self, story: &str) {
        assert_eq!(self.world.ids(), self.finished, "{story}");
        assert_eq!(self.world.all_points(), self.alive_points, "{story}");
        let dangling: i64 = self
            .world
            .rows()
            .query_row(
                "SELECT count(*) FROM memory_tags WHERE memory_id NOT IN (SELECT id FROM memories)",
                [],
                |r| r.get(0),
            )
            .unwrap();
        assert_eq!(dangling, 0, "{story}: children without their memory");
        let status = self.world.run(&["status", "--json"]).expect(0);
        assert_eq!(
            status.objects("status")[0]["open_intents"],
            0,
            "{story}: {status:#?}"
        );
        let again = self.world.night();
        assert_eq!(again.code, Some(0), "{story}: {again:#?}");
        let _ = again.all_passes("idle");
    }
}

/// How often each failpoint is passed in an undisturbed night: the first number of passes to let go by after which the
/// night is no longer killed.
fn passes_of(backend: Backend, point: Failpoint) -> usize {
    let survives = |passes: usize| {
        let failpoint = match passes {
            0 => format!("{}=return(kill)", point.as_str()),
            n => format!("{}={n}*off->return(kill)", point.as_str()),
        };
        Case::new(backend)
            .world
            .night_with(&failpoint)
            .code
            .is_some()
    };
    (0..50)
        .find(|passes| survives(*passes))
        .expect("a night that ends")
}

fn story(backend: Backend, failpoint: &str) -> String {
    format!("{backend:?}, FAILPOINTS='{failpoint}'")
}

/// The failpoints that `ttl` and `orphans` pass in a night without a memory that changed meanwhile, on a store that is
/// one file.
fn reached() -> impl Iterator<Item = Failpoint> {
    use Failpoint::{
        ForgetBefore, ForgetBegun, ForgetOverwritten, ForgetStateBefore, ForgetStateDone,
        PruneTenant, PutBackBefore, PutBackDone, QueueBefore, QueueWritten, ReplayTenant,
        UndoBefore, UndoBegun, UndoSettleBefore, UndoSettled,
    };
    let elsewhere = [
        PutBackBefore,
        PutBackDone,
        ReplayTenant,
        PruneTenant,
        QueueBefore,
        QueueWritten,
        UndoBefore,
        UndoBegun,
        UndoSettleBefore,
        UndoSettled,
        ForgetBefore,
        ForgetBegun,
        ForgetStateBefore,
        ForgetStateDone,
        ForgetOverwritten,
    ];
    let elsewhere = elsewhere
        .into_iter()
        .chain(snapshot::POINTS)
        .collect::<Vec<_>>();
    Failpoint::ALL
        .into_iter()
        .filter(move |point| !elsewhere.contains(point))
}

fn disturbed_at_every_step(backend: Backend, action: &str) {
    let mut disturbed = 0;
    for point in reached() {
        let passes = passes_of(backend, point);
        assert!(passes > 0, "{point:?} is never reached");
        for nth in 0..passes {
            let failpoint = match nth {
                0 => format!("{}=1*return({action})", point.as_str()),
                n => format!("{}={n}*off->1*return({action})", point.as_str()),
            };
            let story = story(backend, &failpoint);
            let case = Case::new(backend);
            let night = case.world.night_with(&failpoint);
            match action {
                "kill" => assert_eq!(night.code, None, "{story}: it was not killed"),
                "error" => assert!(
                    night.code.is_some_and(|code| code != 0),
                    "{story}: {night:#?}"
                ),
                _ => assert_eq!(night.code, Some(0), "{story}: {night:#?}"),
            }
            case.check_always(&story);
            let (before, points) = (files(case.world.dir.path()), case.world.all_points());
            let dry = case.world.run(&["--dry-run"]);
            assert_eq!(dry.code, Some(0), "{story}: {dry:#?}");
            assert!(
                files(case.world.dir.path()) == before,
                "{story}: the dry run wrote"
            );
            assert_eq!(
                case.world.all_points(),
                points,
                "{story}: the dry run wrote"
            );
            let next = case.world.night();
            assert_eq!(next.code, Some(0), "{story}: {next:#?}");
            case.check_finished(&story);
            disturbed += 1;
        }
    }
    println!("{backend:?}: {action} at {disturbed} steps");
}

#[test]
fn killed_at_every_durable_step_sqlite() {
    disturbed_at_every_step(Backend::Sqlite, "kill");
}

#[test]
fn killed_at_every_durable_step_qdrant() {
    disturbed_at_every_step(Backend::Qdrant, "kill");
}

#[test]
fn failed_at_every_durable_step_sqlite() {
    disturbed_at_every_step(Backend::Sqlite, "error");
}

#[test]
fn failed_at_every_durable_step_qdrant() {
    disturbed_at_every_step(Backend::Qdrant, "error");
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
    let failpoints = format!("points.removed=1*sleep(1500);{failpoint}");
    let mut child = case
        .world
        .command(&["--run-now"])
        .env("FAILPOINTS", failpoints)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..500 {
        if !case.world.all_points().contains_key(&point.0) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let edit = "UPDATE memories SET ttl_days = NULL, last_used_at = 1 WHERE id = ?1";
    assert_eq!(
        case.world.rows().execute(edit, [doomed]).unwrap(),
        1,
        "it was still there"
    );
    let _ = child.wait().unwrap();
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
        let point = case.world.all_points()[&support::point_id("user:ana", edited)].clone();
        let night = case.world.night();
        assert_eq!(night.code, Some(0), "{night:#?}");
        assert!(case.world.ids().contains(&edited));
        let now = &case.world.all_points()[&support::point_id("user:ana", edited)];
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
            .filter(|id| {
                zoe(case.world.all_points()).contains_key(&support::point_id("user:zoe", *id))
            })
            .collect();
        assert_eq!(rows.len(), 3);
        let before: BTreeMap<Uuid, Point> = zoe(case.world.all_points())
            .into_iter()
            .filter(|(_, point)| rows.contains(&point.payload["row"].as_i64().unwrap()))
            .collect();
        // ttl passes first: the second batch of points is that of the rows of orphans.
        let mut child = case
            .world
            .command(&["--run-now"])
            .env("FAILPOINTS", "points.removed=1*off->1*sleep(2500)")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        for _ in 0..500 {
            let points = case.world.all_points();
            if before.keys().all(|id| !points.contains_key(id)) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let revive = "UPDATE users SET deleted_at = NULL WHERE id = 'zoe'";
        assert_eq!(case.world.rows().execute(revive, []).unwrap(), 1);
        assert_eq!(
            child.wait().unwrap().code(),
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
