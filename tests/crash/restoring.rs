//! A restore that is killed, failed or held up at every step it comes by, of stores of every kind: the store is the old
//! one or the new one, never half of each.
//!
//! Up to [`Failpoint::RestoreDecided`] it is the old one; from there on the next run makes it the new one. What fails is
//! the old one until the first file was replaced, or the points were about to be.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::process::Command;

use hypnos::failpoint::Failpoint;
use serde_json::json;
use uuid::Uuid;

use crate::census::{ACTIONS, disturbance, on_threads, tell_all, told_by};
use crate::checker::{Verdict, rows};
use crate::points;
use crate::seed::{self, Case};
use crate::setting;
use crate::support::points_only::PointStore;
use crate::support::{BACKENDS, Backend, DAY, Output, Point, World, files, now, open};

/// A store as this test sees it.
trait Store {
    fn folder(&self) -> &Path;
    fn command(&self, args: &[&str]) -> Command;
    /// Everything of both halves, as text.
    fn whole(&self) -> String;
    /// The agent writes a memory and changes others.
    fn go_on(&mut self);

    fn run(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }
}

impl Store for World {
    fn folder(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        World::command(self, args)
    }

    fn whole(&self) -> String {
        whole(&self.dump(), self.all_points())
    }

    fn go_on(&mut self) {
        let _new = self.memory("ana", now(), None);
        let edit = "UPDATE memories SET content = 'later'";
        let _edited = self.rows().execute(edit, []).unwrap();
    }
}

impl Store for Case {
    fn folder(&self) -> &Path {
        self.world.dir.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        self.world.command(args)
    }

    fn whole(&self) -> String {
        whole(&rows(&self.truth.files), self.world.all_points())
    }

    fn go_on(&mut self) {
        for (file, tenant) in &self.truth.files {
            let db = open(file);
            let insert =
                "INSERT INTO memories(id, kind, content, created_at) VALUES(77, 'fact', 'new', ?1)";
            let _new = db.execute(insert, [now()]).unwrap();
            let edit = "UPDATE memories SET content = 'later'";
            let _edited = db.execute(edit, []).unwrap();
            let tenant = tenant.as_ref().expect("a tenant");
            self.world.point(&format!("user:{tenant}"), 77);
        }
    }
}

impl Store for PointStore {
    fn folder(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        PointStore::command(self, args)
    }

    fn whole(&self) -> String {
        format!("{:#?}", self.memories())
    }

    fn go_on(&mut self) {
        let written = [1, 61].map(|number| points::memory(number, "ana", "later", &json!({})));
        self.put(self.collection(), &written);
        self.delete(self.collection(), &[&points::id(11)]);
    }
}

/// Rows and points as text; a server gives the keys of a payload in any order.
fn whole(rows: &impl Debug, mut points: BTreeMap<Uuid, Point>) -> String {
    for point in points.values_mut() {
        point.payload.sort_all_objects();
    }
    format!("{rows:#?}\n{points:#?}")
}

/// A row database for everybody: three memories stay, one has expired.
fn plain(backend: Backend) -> World {
    let mut world = World::new(backend);
    world.user("ana", None);
    for _ in 0..3 {
        let _stays = world.memory("ana", now() - 5 * DAY, None);
    }
    let _expired = world.memory("ana", now() - 40 * DAY, Some(7));
    world
}

/// A store of which a pair was taken, from which a night has removed something since, and to which the agent has written.
struct Scene<S> {
    store: S,
    pair: String,
    /// As it is now.
    old: String,
    /// As it is when the pair has been put back: what was removed stays removed.
    new: String,
}

impl<S: Store> Scene<S> {
    fn new(mut store: S) -> Self {
        let taken = store.run(&["snapshot", "now", "--json"]).expect(0);
        let pair = taken.objects("pair")[0]["pair"].clone();
        let pair = pair.as_str().unwrap().to_owned();
        let before = store.whole();
        let _ = store.run(&["--run-now", "--only", "ttl,orphans"]).expect(0);
        let new = store.whole();
        assert_ne!(new, before, "something was removed");
        store.go_on();
        let old = store.whole();
        Self {
            store,
            pair,
            old,
            new,
        }
    }

    fn restore(&self, failpoints: &str) -> Output {
        let mut command = self.store.command(&["snapshot", "restore", &self.pair]);
        Output::of(command.env("FAILPOINTS", failpoints))
    }

    /// Disturbs the restore at a step, and lets the next run deal with it.
    fn disturb(&self, failpoint: &str, action: &str, is_decided: bool) -> Verdict<()> {
        let restore = self.restore(failpoint);
        let expected = match action {
            "kill" => None,
            "error" => Some(1),
            _ => Some(0),
        };
        if restore.code != expected {
            return Err(format!("{restore:#?}"));
        }
        self.dealt_with(is_decided || action == "delay")
    }

    /// What holds once the next run has dealt with what is left of a restore.
    fn dealt_with(&self, is_new: bool) -> Verdict<()> {
        let next = self.store.run(&["--run-now", "--only", "ttl,orphans"]);
        if next.code != Some(0) {
            return Err(format!("the next run: {next:#?}"));
        }
        let now = self.store.whole();
        let (wanted, which) = match is_new {
            true => (&self.new, "new"),
            false => (&self.old, "old"),
        };
        if now != *wanted {
            return Err(format!(
                "it is not the {which} one: {}",
                &now[..now.len().min(500)]
            ));
        }
        let left = files(self.store.folder()).into_keys();
        let mut left = left.filter(|file| file.to_string_lossy().contains(".hypnos-"));
        if let Some(left) = left.next() {
            return Err(format!("{} is left", left.display()));
        }
        for args in [&["check"][..], &["snapshot", "verify"]] {
            let checked = self.store.run(args);
            if checked.code != Some(0) {
                return Err(format!("{checked:#?}"));
            }
        }
        Ok(())
    }
}

/// Where a restore of a pair has steps of its own; others are common to every command.
const OWN: [&str; 3] = ["pair.", "restore.", "swap."];

/// Disturbs the steps of a restore of such a store, each in one of its own: every hit of a point of its own as abort and as
/// error; with `HYPNOS_EVERY_STEP=1` every hit of every point, as delay, too.
fn every_step<S: Store>(kind: &str, store: impl Fn() -> S + Sync) {
    let calm = Scene::new(store());
    let told = told_by(&calm.restore(&tell_all()).expect(0));
    assert_eq!(calm.store.whole(), calm.new);
    let decided = told.iter().position(|it| *it == Failpoint::RestoreDecided);
    // The journal is in its folder before that is synced.
    let decided = decided.and_then(|at| {
        let mut before = told[..at].iter();
        before.rposition(|it| *it == Failpoint::FolderSynced)
    });
    let decided = decided.expect("it is decided");
    // The first file that was replaced is in its folder, or the journal says that the points are the next.
    let mut later = told.iter().enumerate().skip(decided + 1);
    let begun = later.find(|(_, it)| **it == Failpoint::FolderSynced);
    let (begun, _) = begun.expect("something is replaced");
    let is_every = setting("HYPNOS_EVERY_STEP").is_some();
    let is_own = |point: &Failpoint| OWN.iter().any(|own| point.as_str().starts_with(own));
    let actions = if is_every {
        &ACTIONS[..]
    } else {
        &ACTIONS[..2]
    };
    let mut steps = Vec::new();
    for (at, point) in told.iter().enumerate() {
        if is_every || is_own(point) {
            let nth = told[..at].iter().filter(|it| *it == point).count();
            steps.extend(actions.iter().map(|action| {
                let from = if *action == "error" { begun } else { decided };
                (*point, nth, *action, at >= from)
            }));
        }
    }
    on_threads(&steps, |(point, nth, action, is_decided)| {
        let failpoint = disturbance(*point, *nth, action);
        let story = |why| format!("{kind}, FAILPOINTS='{failpoint}': {why}");
        let scene = Scene::new(store());
        scene
            .disturb(&failpoint, action, *is_decided)
            .map_err(story)
    });
    println!("restore of {kind}: disturbed at {} steps", steps.len());
}

#[test]
fn a_restore_leaves_the_old_store_or_the_new_one() {
    for backend in BACKENDS {
        every_step(&format!("rows, {backend:?}"), || plain(backend));
    }
}

#[test]
fn a_restore_of_tenants_leaves_the_old_store_or_the_new_one() {
    for backend in BACKENDS {
        every_step(&format!("tenants, {backend:?}"), || seed::tenants(backend));
    }
}

#[test]
fn a_restore_of_points_that_are_rows_leaves_the_old_store_or_the_new_one() {
    every_step("points that are rows", points::store);
}

/// Disturbs every step of giving up a restore that is decided.
fn every_step_of_giving_up<S: Store>(kind: &str, store: impl Fn() -> S + Sync) {
    let decided = || {
        let scene = Scene::new(store());
        let killed = scene.restore("restore.decided=return(kill)");
        assert_eq!(killed.code, None, "{killed:#?}");
        scene
    };
    let cancel = |scene: &Scene<S>, failpoints: &str| {
        let mut command = scene.store.command(&["snapshot", "cancel"]);
        Output::of(command.env("FAILPOINTS", failpoints))
    };
    let told = told_by(&cancel(&decided(), &tell_all()).expect(0));
    let given_up = told.iter().position(|it| *it == Failpoint::RestoreGivenUp);
    // The journal is in its folder before that is synced.
    let given_up = given_up.and_then(|at| {
        let mut before = told[..at].iter();
        before.rposition(|it| *it == Failpoint::FolderSynced)
    });
    let given_up = given_up.expect("it is given up");
    let mut steps = Vec::new();
    for (at, point) in told.iter().enumerate() {
        let nth = told[..at].iter().filter(|it| *it == point).count();
        steps.extend(ACTIONS.map(|action| (*point, nth, action, at >= given_up)));
    }
    on_threads(&steps, |(point, nth, action, is_given_up)| {
        let failpoint = disturbance(*point, *nth, action);
        let story = |why: String| format!("{kind}, FAILPOINTS='{failpoint}': {why}");
        let scene = decided();
        let cut = cancel(&scene, &failpoint);
        if cut.code.is_none() != (*action == "kill") {
            return Err(story(format!("{cut:#?}")));
        }
        let is_old = *is_given_up || *action == "delay";
        scene.dealt_with(!is_old).map_err(story)
    });
    println!(
        "giving up a restore of {kind}: disturbed at {} steps",
        steps.len()
    );
}

#[test]
fn a_restore_that_is_given_up_leaves_the_old_store_or_is_still_decided() {
    for backend in BACKENDS {
        every_step_of_giving_up(&format!("rows, {backend:?}"), || plain(backend));
    }
    every_step_of_giving_up("points that are rows", points::store);
}
