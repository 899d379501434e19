//! SIGINT and SIGTERM: the batch at hand is finished, the rest is left to the next run.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Backend, DAY, World, now, point_id, send};

#[test]
fn a_signal_ends_the_run_within_five_seconds_and_the_next_one_finishes() {
    for (signal, held_at) in [
        (Signal::INT, "points.removed"),
        (Signal::TERM, "points.before"),
    ] {
        let mut world = World::new(Backend::Sqlite);
        world.user("ana", None);
        let mut rows = world.rows();
        let tx = rows.transaction().unwrap();
        for id in 1..=12_000 {
            let (created, ttl) = if id <= 3000 {
                (now() - 40 * DAY, Some(7))
            } else {
                (now(), None)
            };
            tx.prepare_cached("INSERT INTO memories(id, user_id, content, content_hash, created_at, ttl_days) VALUES(?1, 'ana', 'text ' || ?1, ?1, ?2, ?3)")
                .unwrap()
                .execute(rusqlite::params![id, created, ttl])
                .unwrap();
        }
        tx.commit().unwrap();
        world.put(
            &(1..=12_000)
                .map(|id| ("user:ana".to_owned(), id))
                .collect::<Vec<_>>(),
        );
        world.configure(
            "[pass.orphans]",
            "[guard]\nmax_fraction = 0.5\n[pass.orphans]",
        );

        // The signal arrives in the first batch.
        let night = world.held(
            &["--run-now", "--json"],
            &format!("{held_at}=1*return(hold)"),
        );
        let first = point_id("user:ana", 1);
        let is_gone = !world.all_points().contains_key(&first);
        assert_eq!(is_gone, held_at == "points.removed");
        send(night.child(), signal);
        #[expect(clippy::disallowed_methods, reason = "the exit must come in time")]
        let sent = Instant::now();
        let _ = night.let_go().expect(130);
        assert!(sent.elapsed() < Duration::from_secs(5));
        let left = world.ids();
        assert!(
            left.len() > 9000 && left.len() < 12_000,
            "one batch was finished: {}",
            left.len()
        );
        assert_eq!(left, world.point_rows(), "and finished in both stores");

        let next = world.night().expect(0);
        assert_eq!(
            next.objects("run")[0]["replayed"],
            0,
            "nothing was left open"
        );
        assert_eq!(world.ids().len(), 9000);
    }
}
