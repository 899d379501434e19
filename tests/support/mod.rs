//! A world for a test: a store in a temporary folder, with either vector backend, and the hypnos binary to run on it.
//!
//! Nothing here shares code with the passes: what a store should hold is computed by the tests themselves.
#![allow(dead_code, reason = "each test binary uses its part of the world")]
#![allow(missing_docs, unreachable_pub, reason = "test support")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::missing_panics_doc,
    reason = "test support"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rusqlite::{Connection, params};
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

pub mod daemon;
pub mod held;
pub mod page;
pub mod points_only;
pub mod qdrant;
pub mod row_stores;
pub mod site;

pub const DAY: i64 = 86_400;
/// Every world's present: `--at` is only for dry runs, so real runs happen at the real time and the stores are built
/// around it.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests build their stores around the present"
)]
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Which vector store a world has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Qdrant,
}

pub const BACKENDS: [Backend; 2] = [Backend::Sqlite, Backend::Qdrant];

pub enum Points {
    Sqlite(PathBuf),
    Qdrant(qdrant::Collection),
}

/// A point as a test sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub namespace: Option<String>,
    pub payload: Value,
    pub vector: Vec<f32>,
}

pub struct World {
    pub dir: TempDir,
    pub points: Points,
    pub config: String,
    /// Three in the morning, UTC, of the night that lies before it.
    pub three: i64,
    next: i64,
}

/// Whether a text stands anywhere in a file.
pub fn holds(bytes: &[u8], text: &str) -> bool {
    memchr::memmem::find(bytes, text.as_bytes()).is_some()
}

pub const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE users(id TEXT PRIMARY KEY, email TEXT UNIQUE NOT NULL, deleted_at INTEGER);
    CREATE TABLE memories(
      id INTEGER PRIMARY KEY,
      user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
      content TEXT NOT NULL, content_hash TEXT NOT NULL, memory_type TEXT NOT NULL DEFAULT 'fact',
      created_at INTEGER NOT NULL, last_used_at INTEGER, ttl_days INTEGER,
      superseded_by INTEGER REFERENCES memories(id) ON DELETE CASCADE);
    CREATE INDEX memories_user ON memories(user_id);
    CREATE TABLE memory_tags(memory_id INTEGER NOT NULL REFERENCES memories(id) ON DELETE CASCADE, tag TEXT NOT NULL);
    CREATE INDEX memory_tags_memory ON memory_tags(memory_id);";

impl World {
    /// An empty store of the ttl-days schema, with users, tags and a supersede link.
    pub fn new(backend: Backend) -> Self {
        Self::in_folder(backend, tempfile::tempdir().expect("temporary folder"))
    }

    /// The same, in this folder.
    pub fn in_folder(backend: Backend, dir: TempDir) -> Self {
        Self::at(backend, dir, qdrant::url)
    }

    /// The same, in this folder, and on that server if it is on one.
    pub fn at(backend: Backend, dir: TempDir, url: impl FnOnce() -> String) -> Self {
        let points = match backend {
            Backend::Sqlite => {
                let path = dir.path().join("vectors.db");
                let db = Connection::open(&path).expect("vectors.db");
                db.execute_batch(
                    "PRAGMA journal_mode = WAL;
                     CREATE TABLE points(id TEXT PRIMARY KEY, namespace TEXT, vector BLOB NOT NULL, payload TEXT);
                     CREATE INDEX points_namespace ON points(namespace);",
                )
                .expect("points table");
                Points::Sqlite(path)
            }
            Backend::Qdrant => Points::Qdrant(qdrant::Collection::create_at(&url())),
        };
        let world = Self {
            dir,
            points,
            config: String::new(),
            three: now() + (3 * 3600 - now()).rem_euclid(DAY),
            next: 1,
        };
        world.rows().execute_batch(SCHEMA).expect("schema");
        let config = world.default_config();
        let mut world = Self { config, ..world };
        world.write_config();
        world
    }

    fn default_config(&self) -> String {
        format!(
            r#"
state_dir = "state"
snapshot_dir = "snapshots"
[pass.orphans]
settle = "0s"
min_age = "0s"
[pass.review]
enabled = false
[pass.contradictions]
enabled = false
[pass.snapshot]
enabled = false
[[store]]
name = "agent"
[store.rows]
path = "memory.db"
preset = "ttl-days"
type = "memory_type"
superseded_by = "superseded_by"
[store.owners]
scope = "user"
table = "users"
id = "id"
deleted_at = "deleted_at"
{}"#,
            self.vectors_config()
        )
    }

    /// The `[store.vectors]` table of this world.
    pub fn vectors_config(&self) -> String {
        let rule = r#"point_id = "uuid5(dns, {namespace}::{id})""#;
        match &self.points {
            Points::Sqlite(_) => {
                format!("[store.vectors]\nkind = \"sqlite\"\npath = \"vectors.db\"\n{rule}\n")
            }
            Points::Qdrant(collection) => format!(
                "[store.vectors]\nkind = \"qdrant\"\nurl = \"{}\"\nrest_url = \"{}\"\ncollection = \"{}\"\n{rule}\n",
                collection.url,
                qdrant::rest_url(),
                collection.name
            ),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn rows(&self) -> Connection {
        open(&self.path("memory.db"))
    }

    /// Writes the configuration file.
    pub fn write_config(&mut self) -> &mut Self {
        write(&self.path("hypnos.toml"), &self.config);
        self
    }

    /// Replaces a part of the configuration, which must be there.
    pub fn configure(&mut self, from: &str, to: &str) -> &mut Self {
        assert!(
            self.config.contains(from),
            "{from:?} is not in\n{}",
            self.config
        );
        self.config = self.config.replace(from, to);
        self.write_config()
    }

    pub fn user(&self, id: &str, deleted_at: Option<i64>) {
        self.rows()
            .execute(
                "INSERT INTO users VALUES(?1, ?1 || '@example.org', ?2)",
                params![id, deleted_at],
            )
            .expect("user");
    }

    /// A memory with its point; the id is returned.
    pub fn memory(&mut self, user: &str, created_at: i64, ttl_days: Option<i64>) -> i64 {
        let id = self.row(user, created_at, ttl_days);
        self.point(&format!("user:{user}"), id);
        id
    }

    /// A memory without its point.
    pub fn row(&mut self, user: &str, created_at: i64, ttl_days: Option<i64>) -> i64 {
        let id = self.next;
        self.next += 1;
        self.rows()
            .execute(
                "INSERT INTO memories(id, user_id, content, content_hash, created_at, ttl_days)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    id,
                    user,
                    format!("canary {user} {id}"),
                    format!("hash {id}"),
                    created_at,
                    ttl_days
                ],
            )
            .expect("memory");
        id
    }

    /// A point without its row; the row's id that it is made for is returned.
    pub fn ghost(&mut self, namespace: &str) -> i64 {
        let id = self.next;
        self.next += 1;
        self.point(namespace, id);
        id
    }

    pub fn point(&self, namespace: &str, id: i64) {
        self.put(&[(namespace.to_owned(), id)]);
    }

    /// Puts the points of rows.
    pub fn put(&self, points: &[(String, i64)]) {
        let points: Vec<_> = points
            .iter()
            .map(|(namespace, id)| (namespace.clone(), *id, vector(*id)))
            .collect();
        self.put_vectors(&points);
    }

    /// Puts the point of a row with the vector of another.
    pub fn put_as(&self, namespace: &str, id: i64, like: i64) {
        self.put_vectors(&[(namespace.to_owned(), id, vector(like))]);
    }

    /// Puts the points of rows with vectors of their own.
    pub fn put_vectors(&self, points: &[(String, i64, Vec<f32>)]) {
        let path = match &self.points {
            Points::Sqlite(path) => path,
            Points::Qdrant(collection) => return collection.put(points),
        };
        let mut db = open(path);
        let tx = db.transaction().expect("begin");
        for (namespace, id, vector) in points {
            let vector: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            tx.execute(
                "INSERT OR REPLACE INTO points VALUES(?1, ?2, ?3, ?4)",
                params![
                    point_id(namespace, *id).to_string(),
                    namespace,
                    vector,
                    payload(namespace, *id).to_string()
                ],
            )
            .expect("point");
        }
        tx.commit().expect("commit");
    }

    /// Every point of the vector store.
    pub fn all_points(&self) -> BTreeMap<Uuid, Point> {
        match &self.points {
            Points::Sqlite(path) => {
                let db = open(path);
                let mut read = db
                    .prepare("SELECT id, namespace, vector, payload FROM points")
                    .expect("points");
                let rows = read.query_map([], |row| {
                    let id: String = row.get(0)?;
                    let vector: Vec<u8> = row.get(2)?;
                    let payload: Option<String> = row.get(3)?;
                    let vector = vector
                        .chunks_exact(4)
                        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                        .collect();
                    let payload =
                        payload.map_or(Value::Null, |p| serde_json::from_str(&p).unwrap());
                    Ok((
                        id.parse().unwrap(),
                        Point {
                            namespace: row.get(1)?,
                            payload,
                            vector,
                        },
                    ))
                });
                rows.expect("points")
                    .map(|row| row.expect("point"))
                    .collect()
            }
            Points::Qdrant(collection) => collection.all(),
        }
    }

    /// The ids of the memories that are there.
    pub fn ids(&self) -> BTreeSet<i64> {
        let db = self.rows();
        let mut read = db.prepare("SELECT id FROM memories").expect("memories");
        let ids = read.query_map([], |row| row.get(0)).expect("ids");
        ids.map(|id| id.expect("id")).collect()
    }

    /// The row ids behind the points that are there, by the `row` that each payload names.
    pub fn point_rows(&self) -> BTreeSet<i64> {
        self.all_points()
            .values()
            .map(|point| point.payload["row"].as_i64().expect("row"))
            .collect()
    }

    /// Copies both databases to a new folder beside them, and answers the configuration for those.
    pub fn copied_to(&self, folder: &str) -> String {
        std::fs::create_dir(self.path(folder)).expect("folder");
        let files = ["memory.db", "vectors.db"];
        for file in files {
            let copy = self.path(folder).join(file).display().to_string();
            let made = open(&self.path(file)).execute("VACUUM INTO ?1", [copy]);
            made.expect("copy");
        }
        files.iter().fold(self.config.clone(), |config, file| {
            config.replace(&format!("\"{file}\""), &format!("\"{folder}/{file}\""))
        })
    }

    /// Every table of the row database, as text, for comparing.
    pub fn dump(&self) -> String {
        dump(&self.path("memory.db"))
    }

    /// A hypnos command on this world's configuration.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = hypnos();
        command
            .arg("--config")
            .arg(self.path("hypnos.toml"))
            .args(args)
            // Where the test has set it: else there is no such file, and the time is the real one.
            .env("HYPNOS_TEST_CLOCK", self.path("clock"))
            .current_dir(self.dir.path());
        held::hold_by(&mut command, &self.hold());
        command
    }

    /// Runs hypnos to its end.
    #[must_use = "say which exit code it should have"]
    pub fn run(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }

    /// `--run-now --json`.
    #[must_use = "say which exit code it should have"]
    pub fn night(&self) -> Output {
        self.run(&["--run-now", "--json"])
    }

    /// `--run-now --json` with failpoints of the `fail` crate.
    #[must_use = "say which exit code it should have"]
    pub fn night_with(&self, failpoints: &str) -> Output {
        Output::of(
            self.command(&["--run-now", "--json"])
                .env("FAILPOINTS", failpoints),
        )
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("hypnos")
    }
}

/// Sends a signal to a child, without the program `kill`, which slim machines lack.
pub fn send(child: &Child, signal: rustix::process::Signal) {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.unwrap(), signal).unwrap();
}

/// The binary, with an environment of its own.
pub fn hypnos() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hypnos"));
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    command
}

/// Runs what was printed for somebody to paste into a shell.
pub fn shell(folder: &Path, line: &str) -> Output {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(line).env_clear();
    Output::of(shell.current_dir(folder).stdin(Stdio::null()))
}

/// Runs a command under a limit of its shell (`ulimit -n 64`): set before it is there, unlike what is seen of its files
/// from outside, where those of its parent show for a moment.
pub fn limited(command: &Command, limit: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(format!("{limit} && exec \"$0\" \"$@\""))
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(key, value)| Some((key, value?))),
        )
        .stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

pub fn open(path: &Path) -> Connection {
    let db = Connection::open(path).expect("database");
    db.busy_timeout(std::time::Duration::from_secs(10))
        .expect("busy timeout");
    // As in most applications; the bundled library would have them on.
    db.pragma_update(None, "foreign_keys", false)
        .expect("foreign keys");
    db
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own files need no durability"
)]
pub fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write");
}

/// The id of a memory's point.
pub fn point_id(namespace: &str, id: i64) -> Uuid {
    Uuid::new_v5(
        &Uuid::NAMESPACE_DNS,
        format!("{namespace}::{id}").as_bytes(),
    )
}

pub fn payload(namespace: &str, id: i64) -> Value {
    serde_json::json!({"namespace": namespace, "doc_id": format!("{namespace}::{id}"), "row": id, "nested": {"a": [1, 2.5, null, true]}})
}

/// Dimensions of the vectors of a world: two of random direction are far from each other.
pub const DIM: u8 = 32;

/// A vector of unit length that is different for every id.
pub fn vector(id: i64) -> Vec<f32> {
    let mut state = id.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let raw: Vec<f32> = (0..DIM)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 2000) as f32 / 1000.0 - 1.0
        })
        .collect();
    let norm = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
    raw.iter().map(|x| x / norm).collect()
}

/// Every table of a database, as text: every column of every row, storage classes told apart.
pub fn dump(path: &Path) -> String {
    let db = open(path);
    let mut text = String::new();
    let mut tables = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
        .expect("schema");
    let tables: Vec<String> = tables
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for table in tables {
        text.push_str("== ");
        text.push_str(&table);
        text.push('\n');
        let mut read = db
            .prepare(&format!("SELECT * FROM \"{table}\""))
            .expect("table");
        let columns = read.column_count();
        let rows = read.query_map([], |row| {
            let values: Vec<String> = (0..columns)
                .map(|i| format!("{:?}", row.get_ref(i).unwrap()))
                .collect();
            Ok(values.join(" | "))
        });
        let mut rows: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
        rows.sort();
        text.push_str(&rows.join("\n"));
        text.push('\n');
    }
    text
}

/// Every file below a folder with its bytes, for byte-for-byte comparisons.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(
                    path.strip_prefix(dir).unwrap().to_owned(),
                    std::fs::read(&path).expect("file"),
                );
            }
        }
    }
    found
}

/// What hypnos answered. Its `Debug` tells the whole story.
#[derive(Debug)]
pub struct Output {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Every memory of a [`World`] has a word in it that nothing but `review` and `why` may print.
#[track_caller]
pub fn tells_no_memory(text: &str) {
    assert!(!text.contains("canary"), "a memory was told: {text}");
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        let output = Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        };
        tells_no_memory(&output.stderr);
        output
    }
}

impl Output {
    #[must_use = "say which exit code it should have"]
    pub fn of(command: &mut Command) -> Self {
        let output = Self::from(command.output().expect("hypnos"));
        let shows_memories = |arg: &std::ffi::OsStr| arg == "review" || arg == "why";
        if !command.get_args().any(shows_memories) {
            tells_no_memory(&output.stdout);
        }
        output
    }

    /// The exit code must be this one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The JSON objects of a type.
    pub fn objects(&self, kind: &str) -> Vec<Value> {
        let lines = self
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:#?}")));
        lines
            .filter(|object: &Value| object["type"] == kind)
            .collect()
    }

    /// The object of a pass.
    #[track_caller]
    pub fn pass(&self, name: &str) -> Value {
        let pass = self
            .objects("pass")
            .into_iter()
            .find(|pass| pass["pass"] == name);
        pass.unwrap_or_else(|| panic!("no pass {name} in {self:#?}"))
    }

    /// The object of a pass's plan.
    #[track_caller]
    pub fn plan(&self, name: &str) -> Value {
        let plan = self
            .objects("plan")
            .into_iter()
            .find(|plan| plan["pass"] == name);
        plan.unwrap_or_else(|| panic!("no plan {name} in {self:#?}"))
    }

    /// Every pass had this outcome.
    #[track_caller]
    pub fn all_passes(self, outcome: &str) -> Self {
        let passes = self.objects("pass");
        assert!(
            !passes.is_empty() && passes.iter().all(|pass| pass["outcome"] == outcome),
            "{self:#?}"
        );
        self
    }
}
