//! The agent: it keeps writing while hypnos works, and every write must succeed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::params;

use crate::checker::AGENTS;
use crate::seed::Case;
use crate::support::{now, open};

/// Writes memories of bob's until it is stopped.
pub(crate) struct Agent {
    stop: Arc<AtomicBool>,
    work: JoinHandle<i64>,
}

impl Agent {
    /// Begins to write rows into a case's row database.
    pub(crate) fn start(case: &Case) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (watched, path) = (Arc::clone(&stop), case.world.path("memory.db"));
        let work = std::thread::spawn(move || {
            let db = open(&path);
            let insert =
                "INSERT INTO memories(id, user_id, content, content_hash, memory_type, created_at)
                          VALUES(?1, 'bob', 'written meanwhile ' || ?1, ?1, 'kind-' || ?1, ?2)";
            let mut id = AGENTS;
            while !watched.load(Ordering::Relaxed) {
                let written = db.execute(insert, params![id, now()]);
                assert_eq!(written, Ok(1), "promise 10: the agent could not write");
                id += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            id
        });
        Self { stop, work }
    }

    /// Stops, and looks whether all that was written is there.
    pub(crate) fn stop(self, case: &Case) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        let next = self
            .work
            .join()
            .map_err(|_| "promise 10: the agent could not write")?;
        let written = next - AGENTS;
        let count = "SELECT count(*) FROM memories WHERE id >= ?1";
        let found: i64 = case
            .world
            .rows()
            .query_row(count, [AGENTS], |row| row.get(0))
            .unwrap();
        match found == written {
            true => Ok(()),
            false => Err(format!(
                "promise 1: the agent wrote {written} memories, {found} are there"
            )),
        }
    }
}
