//! Stores of other people's systems whose rows and points are in one SQLite file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hypnos::config::presets;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Output, hypnos, open, write};

/// A database of a preset's schema in a folder of its own, with the configuration that `init` would write.
pub struct RowStore {
    dir: TempDir,
}

impl RowStore {
    /// An empty one.
    pub fn new(preset: &str) -> Self {
        Self::with_schema(preset, presets::find(preset).unwrap().ddl)
    }

    /// An empty one of another version of the schema.
    pub fn with_schema(preset: &str, ddl: &str) -> Self {
        let store = Self::configured(preset);
        let db = store.db();
        db.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        db.execute_batch(ddl).unwrap();
        store
    }

    /// A copy of a file.
    pub fn copy(preset: &str, file: &Path) -> Self {
        let store = Self::configured(preset);
        std::fs::copy(file, store.path()).unwrap();
        store
    }

    fn configured(preset: &str) -> Self {
        hypnos::store::vec0::register();
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "state_dir = \"state\"\nsnapshot_dir = \"snapshots\"\n\
             [pass.orphans]\nsettle = \"1s\"\nmin_age = \"0s\"\n\
             [pass.review]\nenabled = false\n[pass.contradictions]\nenabled = false\n[pass.snapshot]\nenabled = false\n\
             [[store]]\nname = \"agent\"\n[store.rows]\npath = \"memory.db\"\npreset = \"{preset}\"\n\
             [store.vectors]\nkind = \"sqlite\"\n[store.pass.decay]\nenabled = false\n"
        );
        write(&dir.path().join("hypnos.toml"), &config);
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("memory.db")
    }

    /// What `init` makes of the file under another name: the preset. Its configuration takes the place of the other one,
    /// but for what the tests are in a hurry about.
    pub fn init(&self) -> String {
        let renamed = self.dir.path().join("a copy.bin");
        std::fs::copy(self.path(), &renamed).unwrap();
        let mut command = hypnos();
        command.current_dir(self.dir.path());
        command.args(["init", "a copy.bin", "--json", "-o", "copy.toml"]);
        let found = Output::of(&mut command).expect(0);
        let config = std::fs::read_to_string(self.dir.path().join("copy.toml")).unwrap();
        let at = config.find("[[store]]").unwrap();
        let config = config[at..]
            .replace("a copy.bin", "memory.db")
            .replace("first_run = \"report\"", "first_run = \"apply\"");
        let own = std::fs::read_to_string(self.dir.path().join("hypnos.toml")).unwrap();
        let own = &own[..own.find("[[store]]").unwrap()];
        write(
            &self.dir.path().join("hypnos.toml"),
            &format!("{own}{config}"),
        );
        found.objects("init")[0]["preset"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    }

    /// A connection as the application has one.
    pub fn db(&self) -> Connection {
        open(&self.path())
    }

    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = hypnos();
        command
            .arg("--config")
            .arg(self.dir.path().join("hypnos.toml"))
            .args(args)
            .current_dir(self.dir.path());
        Output::of(&mut command)
    }

    /// One night; a plan that the guard wants to be looked at is accepted.
    pub fn night(&self) -> Output {
        let night = self.run(&["--run-now", "--json"]);
        let refused = night
            .objects("pass")
            .into_iter()
            .find(|pass| pass["outcome"] == "refused");
        let Some(plan) =
            refused.and_then(|pass| pass["refusal"]["accept"].as_str().map(str::to_owned))
        else {
            return night;
        };
        self.run(&["--run-now", "--json", "--accept", &plan])
    }

    /// Every row of every table, points of sqlite-vec among them; not how sqlite-vec and FTS5 keep them.
    pub fn whole(&self) -> BTreeSet<String> {
        let db = self.db();
        let tables = strings(
            &db,
            "SELECT name FROM pragma_table_list AS t WHERE schema = 'main' AND type IN ('table', 'virtual')
             AND name NOT LIKE 'sqlite%' AND NOT EXISTS (
               SELECT 1 FROM sqlite_schema AS v WHERE v.sql LIKE 'CREATE VIRTUAL%'
               AND (v.name = t.name AND v.sql LIKE '%fts5%' OR t.name GLOB v.name || '_*'))",
        );
        let mut whole = BTreeSet::new();
        for table in tables {
            let mut read = db.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
            let columns = read.column_count();
            let rows = read.query_map([], |row| {
                let values: Vec<String> = (0..columns)
                    .map(|i| format!("{:?}", row.get_ref(i).unwrap()))
                    .collect();
                Ok(format!("{table}: {}", values.join(" | ")))
            });
            whole.extend(rows.unwrap().map(Result::unwrap));
        }
        whole
    }

    /// What a query gives, as text.
    pub fn strings(&self, sql: &str) -> BTreeSet<String> {
        strings(&self.db(), sql)
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.db().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Three nights, longer apart than it takes to believe that something is absent: the last is idle and changes nothing.
    /// Returns the runs that changed something.
    pub fn nights(&self) -> Vec<String> {
        let mut runs = Vec::new();
        for _ in 0..2 {
            let night = self.night();
            assert_eq!(night.code, Some(0), "{night:#?}");
            runs.push(night.objects("run")[0]["run"].as_str().unwrap().to_owned());
            std::thread::sleep(std::time::Duration::from_millis(1_100));
        }
        let after = self.whole();
        let _ = self.night().expect(0).all_passes("idle");
        assert_eq!(self.whole(), after);
        runs
    }

    /// Takes runs back, the newest first.
    pub fn undo(&self, runs: &[String]) {
        for run in runs.iter().rev() {
            let _ = self.run(&["undo", run, "--json"]).expect(0);
        }
    }
}

fn strings(db: &Connection, sql: &str) -> BTreeSet<String> {
    let mut read = db.prepare(sql).unwrap();
    let rows = read.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// A vector as these systems store it.
pub fn blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}
