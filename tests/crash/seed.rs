//! The stores that are disturbed, each with the truth about it: who must live, who must go, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rusqlite::params;
use uuid::Uuid;

use crate::checker::{Key, Rows, rows};
use crate::support::{Backend, DAY, Point, World, now, open, point_id};

/// What must become of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays as it is, at all times, and so does its point.
    Lives,
    /// Its deadline is past, or its owner is gone: after a finished run neither store has it.
    Goes,
    /// It has faded: the weakest go, as many as the share of a night allows.
    Fades,
    /// It says the same as the others of this cluster: one of them stays.
    Merges(usize),
    /// A person was told to let it go, or not: either it is whole, or it is gone in both stores.
    Asked,
}

/// A memory of the seed.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pub(crate) fate: Fate,
    pub(crate) point: Option<Uuid>,
}

/// What is known of a store before anything happens to it.
pub(crate) struct Truth {
    /// The row databases, and the tenant of each.
    pub(crate) files: Vec<(PathBuf, Option<String>)>,
    pub(crate) memories: BTreeMap<Key, Memory>,
    /// The rows as they were written, every column.
    pub(crate) rows: Rows,
    /// The points as they were written.
    pub(crate) points: BTreeMap<Uuid, Point>,
    /// Points of scopes that nobody speaks for: they stay, although they have no row.
    pub(crate) others: BTreeSet<Uuid>,
    /// The faded, weakest first, and how many of them one night may take.
    pub(crate) fading: Vec<Key>,
    pub(crate) share: usize,
    /// How many questions a finished run has put.
    pub(crate) questions: usize,
}

/// A store with its truth.
pub(crate) struct Case {
    pub(crate) world: World,
    pub(crate) truth: Truth,
}

/// What a seed is made of, before it is written.
#[derive(Default)]
struct Seed {
    rows: Vec<Row>,
    ghosts: Vec<(String, i64)>,
    others: Vec<(String, i64)>,
}

struct Row {
    user: &'static str,
    id: i64,
    content: String,
    kind: String,
    created_at: rusqlite::types::Value,
    ttl_days: Option<i64>,
    superseded_by: Option<i64>,
    fate: Fate,
    has_point: bool,
}

impl Seed {
    /// A memory that is like no other.
    fn add(&mut self, user: &'static str, age: i64, ttl_days: Option<i64>, fate: Fate) -> &mut Row {
        let id = i64::try_from(self.rows.len()).unwrap() + 1;
        self.rows.push(Row {
            user,
            id,
            content: format!("canary {user} number {id}"),
            // No two are of one kind: none is compared with another.
            kind: format!("kind-{id}"),
            created_at: (now() - age * DAY).into(),
            ttl_days,
            superseded_by: None,
            fate,
            has_point: true,
        });
        self.rows.last_mut().unwrap()
    }

    fn write(&self, world: &World) {
        let mut db = world.rows();
        let tx = db.transaction().unwrap();
        for row in &self.rows {
            tx.execute(
                "INSERT INTO memories(id, user_id, content, content_hash, memory_type, created_at, ttl_days, superseded_by)
                 VALUES(?1, ?2, ?3, 'hash ' || ?1, ?4, ?5, ?6, ?7)",
                params![row.id, row.user, row.content, row.kind, row.created_at, row.ttl_days, row.superseded_by],
            )
            .unwrap();
            tx.execute("INSERT INTO memory_tags VALUES(?1, 'tag')", [row.id])
                .unwrap();
        }
        tx.commit().unwrap();
        let own = self.rows.iter().filter(|row| row.has_point);
        let own = own.map(|row| (format!("user:{}", row.user), row.id));
        let points: Vec<_> = own
            .chain(self.ghosts.iter().cloned())
            .chain(self.others.iter().cloned())
            .collect();
        world.put(&points);
    }

    fn truth(&self, world: &World) -> Truth {
        let files = vec![(world.path("memory.db"), None)];
        let memories = self.rows.iter().map(|row| {
            let point = point_id(&format!("user:{}", row.user), row.id);
            let point = row.has_point.then_some(point);
            let memory = Memory {
                fate: row.fate,
                point,
            };
            ((row.user.to_owned(), row.id), memory)
        });
        let fading = self.rows.iter().filter(|row| row.fate == Fate::Fades);
        Truth {
            rows: rows(&files),
            files,
            memories: memories.collect(),
            points: world.all_points(),
            others: self
                .others
                .iter()
                .map(|(ns, id)| point_id(ns, *id))
                .collect(),
            // The oldest was seeded first.
            fading: fading.map(|row| (row.user.to_owned(), row.id)).collect(),
            share: 0,
            questions: 0,
        }
    }
}

/// A folder for a world, in memory where the machine has such a place: what is tested is what a killed process leaves,
/// and that does not depend on the disk.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match tempfile::tempdir_in(memory) {
        Ok(folder) if memory.is_dir() => folder,
        _ => tempfile::tempdir().unwrap(),
    }
}

/// Work for every pass: ana has expired notes, faded and doubled ones, bob has twins of hers, zoe is gone, nobody knows
/// max, and teams are nobody's to sweep.
pub(crate) fn full(backend: Backend) -> Case {
    full_with(backend, |_| {})
}

/// The same, in that folder.
pub(crate) fn full_on(backend: Backend, folder: tempfile::TempDir) -> Case {
    full_in(World::in_folder(backend, folder))
}

/// The same, on that server.
pub(crate) fn full_at(url: &str) -> Case {
    let world = World::at(Backend::Qdrant, folder(), || url.to_owned());
    full_in(world)
}

fn full_with(backend: Backend, prepare: impl FnOnce(&mut World)) -> Case {
    let mut world = World::in_folder(backend, folder());
    prepare(&mut world);
    full_in(world)
}

fn full_in(mut world: World) -> Case {
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nenabled = true",
    );
    world.user("ana", None);
    world.user("bob", None);
    world.user("zoe", Some(now() - 30 * DAY));
    let mut seed = Seed::default();
    fill(&mut seed);
    seed.write(&world);
    let mut truth = seed.truth(&world);
    // ana has between 40 and 59 memories that are to be seen: a twentieth is two.
    truth.share = 2;
    // What is faded and stays is asked about.
    truth.questions = truth.fading.len() - truth.share;
    Case { world, truth }
}

fn fill(seed: &mut Seed) {
    for _ in 0..38 {
        seed.add("ana", 5, None, Fate::Lives);
    }
    for _ in 0..4 {
        seed.add("bob", 5, None, Fate::Lives);
    }
    // Unknown is not gone; what cannot be read is not past; what has no point is no orphan.
    seed.add("max", 5, None, Fate::Lives);
    seed.add("bob", 5, Some(7), Fate::Lives).created_at = "yesterday".to_owned().into();
    seed.add("bob", 5, None, Fate::Lives).has_point = false;
    for _ in 0..3 {
        seed.add("ana", 40, Some(7), Fate::Goes);
    }
    let newest = seed.add("ana", 40, Some(7), Fate::Goes).id;
    let hidden = seed.add("ana", 50, None, Fate::Goes);
    (hidden.superseded_by, hidden.has_point) = (Some(newest), false);
    let current = seed.add("ana", 5, None, Fate::Lives).id;
    let history = seed.add("ana", 50, None, Fate::Lives);
    (history.superseded_by, history.has_point) = (Some(current), false);
    for _ in 0..3 {
        seed.add("zoe", 40, None, Fate::Goes);
    }
    for age in [430, 420, 410, 400] {
        seed.add("ana", age, None, Fate::Fades);
    }
    clusters(seed);
    for (id, namespace) in (900..).zip(["user:ana", "user:zoe", "user:ghost", "user:ghost"]) {
        seed.ghosts.push((namespace.to_owned(), id));
    }
    for (id, namespace) in (910..).zip(["team:acme", "world:public"]) {
        seed.others.push((namespace.to_owned(), id));
    }
}

/// Two clusters of equal texts of ana's, of which each keeps one; bob's twins of one of them, alone in his namespace;
/// and a text that differs by its number.
fn clusters(seed: &mut Seed) {
    let texts = ["the build runs on port 8080", "the kettle is blue"];
    for (cluster, text) in texts.iter().enumerate() {
        for _ in 0..3 {
            alike(seed, "ana", text, Fate::Merges(cluster));
        }
    }
    alike(seed, "bob", texts[0], Fate::Lives);
    alike(seed, "ana", "the build runs on port 9090", Fate::Lives);
}

fn alike(seed: &mut Seed, user: &'static str, text: &str, fate: Fate) {
    let row = seed.add(user, 5, None, fate);
    (row.content, row.kind) = (text.to_owned(), "fact".to_owned());
}

/// The same in a schema that marks what is deleted.
pub(crate) fn marking(backend: Backend) -> Case {
    full_with(backend, |world| {
        world.configure(
            "preset = \"ttl-days\"",
            "preset = \"ttl-days\"\ndeleted_at = \"deleted_at:epoch_s\"",
        );
        let column = "ALTER TABLE memories ADD COLUMN deleted_at INTEGER";
        world.rows().execute_batch(column).unwrap();
    })
}

/// One row database for each of two tenants.
pub(crate) fn tenants(backend: Backend) -> Case {
    let mut world = World::in_folder(backend, folder());
    let from = world.config.find("[store.rows]").unwrap();
    let to = world.config.find("[store.owners]").unwrap();
    let mapping = "[store.rows]\npath = \"users/{tenant}/memory.db\"\ntable = \"memories\"\nid = \"id\"\n\
                   content = \"content\"\ntype = \"kind\"\ncreated_at = \"created_at:epoch_s\"\n\
                   last_used_at = \"last_used_at:epoch_s\"\nttl_days = \"ttl_days\"\n";
    world.config.replace_range(from..to, mapping);
    world.configure("scope = \"user\"", "scope = \"user\"\npath = \"memory.db\"");
    let (mut files, mut memories, mut points) = (Vec::new(), BTreeMap::new(), Vec::new());
    for name in ["ana", "bob"] {
        world.user(name, None);
        let file = world.path(&format!("users/{name}/memory.db"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let db = open(&file);
        db.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE memories(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, content TEXT NOT NULL,
               created_at INTEGER NOT NULL, last_used_at INTEGER, ttl_days INTEGER);",
        )
        .unwrap();
        for id in 1..=5 {
            let (age, ttl) = if id > 3 { (40, Some(7)) } else { (5, None) };
            let insert = "INSERT INTO memories(id, kind, content, created_at, ttl_days) VALUES(?1, 'kind ' || ?1, 'canary ' || ?1, ?2, ?3)";
            db.execute(insert, params![id, now() - age * DAY, ttl])
                .unwrap();
            let memory = Memory {
                fate: if id > 3 { Fate::Goes } else { Fate::Lives },
                point: Some(point_id(&format!("user:{name}"), id)),
            };
            memories.insert((name.to_owned(), id), memory);
        }
        points.extend((1..=6).map(|id| (format!("user:{name}"), id)));
        files.push((file, Some(name.to_owned())));
    }
    world.put(&points);
    let truth = Truth {
        rows: rows(&files),
        files,
        memories,
        points: world.all_points(),
        others: BTreeSet::new(),
        fading: Vec::new(),
        share: 0,
        questions: 0,
    };
    Case { world, truth }
}

/// A guard that lets nothing through: whatever happens, everything stays.
pub(crate) fn guarded(backend: Backend) -> Case {
    let mut case = full(backend);
    case.world.configure(
        "[pass.orphans]",
        "[guard]\nmin_count = 0\nmax_fraction = 0.000001\n[pass.orphans]",
    );
    case.keeps_everything();
    case
}

/// A question about each of two old memories has been put, and both are there.
pub(crate) fn asked(backend: Backend) -> Case {
    let mut world = World::in_folder(backend, folder());
    world.configure(
        "[pass.review]\nenabled = false",
        "[pass.review]\nenabled = true",
    );
    world.user("ana", None);
    let mut seed = Seed::default();
    seed.add("ana", 95, None, Fate::Asked);
    for _ in 0..5 {
        seed.add("ana", 5, None, Fate::Lives);
    }
    seed.write(&world);
    let mut truth = seed.truth(&world);
    truth.questions = 1;
    let case = Case { world, truth };
    let _ = case.world.night().expect(0);
    case
}

/// Two memories that disagree: both stay, and a person is asked once.
pub(crate) fn contradicting(backend: Backend) -> Case {
    let mut world = World::in_folder(backend, folder());
    world.configure(
        "[pass.contradictions]\nenabled = false",
        "[pass.contradictions]\nenabled = true",
    );
    world.user("ana", None);
    let mut seed = Seed::default();
    for port in [8080, 9090] {
        let text = format!("the build server listens on port {port}");
        alike(&mut seed, "ana", &text, Fate::Lives);
    }
    seed.write(&world);
    let mut truth = seed.truth(&world);
    truth.questions = 1;
    Case { world, truth }
}

/// The memory that was asked about has been written anew since: the question is void.
pub(crate) fn void(backend: Backend) -> Case {
    let mut case = asked(backend);
    let sql = "UPDATE memories SET content = 'canary anew', created_at = ?1 WHERE id = 1";
    assert_eq!(case.world.rows().execute(sql, [now()]).unwrap(), 1);
    case.truth.rows = rows(&case.truth.files);
    case.keeps_everything();
    case
}

impl Case {
    /// Nothing of this store may change.
    pub(crate) fn keeps_everything(&mut self) {
        for memory in self.truth.memories.values_mut() {
            memory.fate = Fate::Lives;
        }
        self.truth.others = self.truth.points.keys().copied().collect();
        self.truth.questions = self.truth.fading.len();
        self.truth.fading.clear();
    }

    /// Somebody edits a memory that was to go: it stays, with its point.
    pub(crate) fn edit(&mut self, user: &str, id: i64) {
        let sql = "UPDATE memories SET ttl_days = NULL, last_used_at = ?2 WHERE id = ?1";
        let edited = self.world.rows().execute(sql, [id, now()]).unwrap();
        assert_eq!(edited, 1, "it was still there");
        let key = (user.to_owned(), id);
        self.truth.rows = rows(&self.truth.files);
        self.truth.memories.get_mut(&key).unwrap().fate = Fate::Lives;
    }

    /// A memory of that fate.
    pub(crate) fn one(&self, fate: Fate) -> Key {
        let mut all = self.truth.memories.iter();
        let found = all.find(|(_, memory)| memory.fate == fate && memory.point.is_some());
        found.expect("one of that fate").0.clone()
    }
}
