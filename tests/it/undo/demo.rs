//! The night of the demo.

use super::*;

/// Every row of a table as SQL literals, but those of some owners.
fn literals(path: &Path, table: &str, owner: &str, without: &[String]) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let columns: Vec<String> = db
        .prepare("SELECT 'quote(\"' || name || '\")' FROM pragma_table_info(?1)")
        .unwrap()
        .query_map([table], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let sql = format!(
        "SELECT {owner}, rowid || {} FROM {table}",
        columns.join(" || ")
    );
    let mut read = db.prepare(&sql).unwrap();
    let rows = read.query_map([], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get(1)?))
    });
    let mut rows: Vec<String> = rows
        .unwrap()
        .map(Result::unwrap)
        .filter(|(owner, _)| !owner.as_ref().is_some_and(|owner| without.contains(owner)))
        .map(|(_, row)| row)
        .collect();
    rows.sort();
    rows
}

#[test]
fn the_demos_night_comes_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let demo = dir.path().join("demo");
    let at = jiff::Timestamp::from_second(now()).unwrap();
    hypnos::demo::build(&demo, at, "hypnos").unwrap();
    let config = demo.join("hypnos.toml");
    let run = |args: &[&str]| Output::of(hypnos().arg("--config").arg(&config).args(args));
    let closed: Vec<String> = {
        let db = open(&demo.join("memory.db"));
        let mut read = db
            .prepare("SELECT id FROM users WHERE deleted_at IS NOT NULL")
            .unwrap();
        let ids = read.query_map([], |row| row.get(0)).unwrap();
        ids.map(Result::unwrap).collect()
    };
    assert_eq!(closed.len(), 2);
    let theirs: Vec<String> = closed.iter().map(|id| format!("user:{id}")).collect();
    let content = || {
        (
            literals(&demo.join("memory.db"), "memories", "user_id", &closed),
            literals(&demo.join("vectors.db"), "points", "namespace", &theirs),
        )
    };
    let before = content();
    assert!(before.0.len() > 50 && before.1.len() > 50);
    let night = run(&["--run-now", "--json"]).expect(0);
    let after = content();
    assert!(after.0 != before.0 && after.1 != before.1);
    let undone = report(&run(&["undo", &run_of(&night), "--json"]).expect(3));
    assert_eq!(undone["left"], json!([]), "{undone:#}");
    assert_eq!(undone["incomplete"], json!([]), "{undone:#}");
    assert!(!undone["erased"].as_object().unwrap().is_empty());
    assert!(content() == before, "{undone:#}");
}
