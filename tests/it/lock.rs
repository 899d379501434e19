//! One run at a time: the second says who holds the lock, and a killed holder leaves none behind.

use crate::support::held::Held;
use crate::support::{Backend, DAY, Output, World, now};

fn store() -> World {
    let mut world = World::new(Backend::Sqlite);
    world.user("ana", None);
    world.memory("ana", now() - 40 * DAY, Some(7));
    world.memory("ana", now(), None);
    world
}

/// A run that stands still before its first removal.
fn slow(world: &World) -> Held {
    world.held(&["--run-now", "--json"], "points.before=1*return(hold)")
}

#[test]
fn of_two_runs_one_works_and_the_other_says_who() {
    let world = store();
    let first = slow(&world);
    let pid = first.child().id();
    let second = world.run(&["--run-now", "--json"]).expect(11);
    assert!(second.stdout.contains(&pid.to_string()), "{second:#?}");
    assert_eq!(second.objects("error").len(), 1);
    // What only reads needs no lock.
    world.run(&["--dry-run"]).expect(0);
    let status = world.run(&["status"]).expect(0);
    assert!(status.stdout.contains(&format!("pid {pid}")), "{status:#?}");

    // Killed, as the holder of a lock may be.
    drop(first);
    assert!(
        !world.run(&["status"]).expect(0).stdout.contains("running"),
        "nobody runs any more"
    );
    let third = Output::of(&mut world.command(&["--run-now", "--json"])).expect(0);
    assert_eq!(third.objects("run")[0]["replayed"], 1, "{third:#?}");
    assert_eq!(world.ids(), [2].into());
}

#[test]
fn what_a_killed_run_left_half_made_is_gone_after_the_next_one() {
    let world = store();
    let killed = world.night_with("state.filled=return(kill)");
    assert_eq!(killed.code, None, "{killed:#?}");
    let temporary = |world: &World| -> Vec<String> {
        let entries = std::fs::read_dir(world.path("state/agent")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".tmp")).collect()
    };
    assert_eq!(temporary(&world).len(), 1);
    let _ = world.night().expect(0);
    assert_eq!(temporary(&world), [""; 0]);
}
