//! That no work grows with the table where it must not.

use super::*;
use crate::clock::Stopwatch;

fn big(rows: u32, index: &str) -> World {
    World::new(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE memories(id INTEGER PRIMARY KEY, user_id TEXT, content TEXT, created_at INTEGER, expires_at INTEGER,
           superseded_by INTEGER REFERENCES memories(id) ON DELETE CASCADE);
         CREATE TABLE tags(memory INTEGER REFERENCES memories(id) ON DELETE CASCADE, tag TEXT);
         {index}
         INSERT INTO memories WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
           SELECT i, 'user-' || (i / 10 % 500), hex(zeroblob(80)), 1700000000 + i, 1750000000 + i,
             CASE WHEN i % 10 = 1 THEN i + 1 END FROM n;
         INSERT INTO tags SELECT id, 'tag' FROM memories WHERE id % 5 = 0;"
    ))
    .tenant("user_id")
    .role(Role::CreatedAt, "created_at:epoch_s")
    .role(Role::ExpiresAt, "expires_at:epoch_s")
    .role(Role::SupersededBy, "superseded_by")
}

#[test]
fn removing_reads_no_whole_table_in_its_transaction() {
    let world = big(2_000, "");
    let mut writer = world.writer();
    let targets: Vec<Wanted> = (1..=100).map(|i| wanted(n(i * 10), &[])).collect();
    let units: Vec<Unit> = writer
        .units(&targets, usize::MAX)
        .unwrap()
        .into_iter()
        .map(Option::unwrap)
        .collect();
    let app = world.app();
    for (verb, table, sql) in writer.bound.dependents.statements() {
        if verb == "insert into" {
            continue;
        }
        let mut plan = app.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nulls = vec![SqlValue::Null; plan.parameter_count()];
        let steps = plan.query_map(rusqlite::params_from_iter(nulls), |row| {
            row.get::<_, String>(3)
        });
        for step in steps.unwrap() {
            let step = step.unwrap();
            assert!(step.starts_with("SEARCH"), "{verb} {table}: {step}");
        }
    }
    let fates = writer.delete_units(&units).unwrap();
    assert!(fates.iter().all(|fate| *fate == Fate::Removed));
    assert_eq!(world.query("SELECT count(*) FROM memories"), ["1900"]);
    assert_eq!(world.query("SELECT count(*) FROM tags"), ["300"]);
}

#[test]
fn many_rows_that_lose_one_reference_are_copied_in_linear_time() {
    let links = 100_000;
    let world = World::new(&format!(
        "CREATE TABLE memories(id INTEGER PRIMARY KEY);
         CREATE TABLE links(id INTEGER PRIMARY KEY, memory INTEGER REFERENCES memories(id) ON DELETE SET NULL);
         CREATE INDEX i ON links(memory);
         INSERT INTO memories VALUES (1);
         INSERT INTO links WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {links}) SELECT i, 1 FROM n;"
    ));
    let mut writer = world.writer();
    let watch = Stopwatch::start();
    let unit = unit(&mut writer, n(1), &[]);
    assert_eq!(unit.detached.len(), links);
    // Compared pair by pair, it takes minutes.
    assert!(watch.elapsed() < Duration::from_secs(20));
}
