//! That no work grows with the table where it must not.

use std::ops::ControlFlow;

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
        .units(&targets)
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

#[test]
#[ignore = "a million rows"]
fn a_million_rows() {
    for index in [
        "",
        "CREATE INDEX i ON memories(superseded_by); CREATE INDEX j ON tags(memory);",
    ] {
        let world = big(1_000_000, index);
        let watch = Stopwatch::start();
        let lap = |what: &str| println!("{:>8.2} s  {what}", watch.elapsed().as_secs_f64());
        let reader = world.reader();
        lap("opened");
        let mut ids = Vec::new();
        let hidden = reader
            .snapshot(|s| {
                let roles = [Role::CreatedAt, Role::ExpiresAt, Role::SupersededBy];
                s.scan(&roles, &mut |memory| {
                    if let Some(MemoryId::Integer(id)) = memory.id
                        && id % 10 == 2
                        && memory.expires_at.latest().is_some()
                    {
                        ids.push(n(id));
                    }
                    ControlFlow::Continue(())
                })?;
                lap("scanned");
                let hidden = s.hidden_behind(&ids)?;
                lap("hidden behind");
                s.versions(&ids)?;
                lap("versions");
                assert!(s.blockers(&ids)?.is_empty());
                s.census()?;
                lap("census");
                Ok::<_, RowError>(hidden)
            })
            .unwrap();
        assert_eq!((ids.len(), hidden.len()), (100_000, 100_000));
        let mut writer = world.writer();
        for batch in ids.chunks(5_000) {
            let targets: Vec<Wanted> = batch
                .iter()
                .map(|id| wanted(id.clone(), &[hidden[id][0].id.clone()]))
                .collect();
            let units = writer.units(&targets).unwrap();
            let units: Vec<Unit> = units.into_iter().map(Option::unwrap).collect();
            let held = Stopwatch::start();
            let fates = writer.delete_units(&units).unwrap();
            assert!(fates.iter().all(|fate| *fate == Fate::Removed));
            println!("{:>8.3} s  batch", held.elapsed().as_secs_f64());
        }
        lap("removed");
        assert_eq!(world.query("SELECT count(*) FROM memories"), ["800000"]);
    }
}
