//! Older and newer versions of other people's schemas: `init` knows each of them under any file name, and the nights over
//! what it has configured are the same.

use rusqlite::{Connection, params};
use serde_json::json;

use crate::support::row_stores::{RowStore, blob};
use crate::support::{DAY, now, vector};

/// What the schema of mcp-memory-service had, version by version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Service {
    Plain,
    Tombstones,
    TextIndex,
    Graph,
    /// Migration 011: versions, confidence, last access, what a memory was superseded by.
    Versions,
    Stores,
    Pending,
}

const SERVICES: [Service; 7] = [
    Service::Plain,
    Service::Tombstones,
    Service::TextIndex,
    Service::Graph,
    Service::Versions,
    Service::Stores,
    Service::Pending,
];

impl Service {
    fn ddl(self) -> String {
        let since = |version: Self, sql: &'static str| if self >= version { sql } else { "" };
        let partition = since(Self::Stores, "store TEXT PARTITION KEY,");
        [
            "CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL, content TEXT NOT NULL,
               tags TEXT, memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT",
            since(Self::Tombstones, ", deleted_at REAL DEFAULT NULL"),
            since(
                Self::Versions,
                ", parent_id TEXT, version INTEGER DEFAULT 1, confidence REAL DEFAULT 1.0, last_accessed INTEGER, superseded_by TEXT",
            ),
            since(Self::Stores, ", store TEXT NOT NULL DEFAULT 'default'"),
            since(Self::Pending, ", embedding_pending INTEGER NOT NULL DEFAULT 0"),
            "); CREATE VIRTUAL TABLE memory_embeddings USING vec0(",
            partition,
            "content_embedding FLOAT[32] distance_metric=cosine);",
            since(
                Self::TextIndex,
                "CREATE VIRTUAL TABLE memory_content_fts USING fts5(content, content='memories', content_rowid='id', tokenize='trigram');
                 CREATE TRIGGER memories_fts_ai AFTER INSERT ON memories BEGIN
                   INSERT INTO memory_content_fts(rowid, content) VALUES (new.id, new.content); END;
                 CREATE TRIGGER memories_fts_ad AFTER DELETE ON memories BEGIN
                   DELETE FROM memory_content_fts WHERE rowid = old.id; END;
                 CREATE TRIGGER memories_fts_au AFTER UPDATE ON memories BEGIN
                   DELETE FROM memory_content_fts WHERE rowid = old.id;
                   INSERT INTO memory_content_fts(rowid, content) VALUES (new.id, new.content); END;",
            ),
            since(
                Self::Graph,
                "CREATE TABLE memory_graph (source_hash TEXT, target_hash TEXT, similarity REAL, connection_types TEXT,
                   metadata TEXT, created_at REAL, relationship_type TEXT, PRIMARY KEY (source_hash, target_hash));",
            ),
        ]
        .concat()
    }

    fn embed(self, db: &Connection, id: i64, seed: i64) {
        let sql = if self >= Self::Stores {
            "INSERT INTO memory_embeddings(rowid, store, content_embedding) VALUES (?1, 'default', ?2)"
        } else {
            "INSERT INTO memory_embeddings(rowid, content_embedding) VALUES (?1, ?2)"
        };
        db.execute(sql, params![id, blob(&vector(seed))]).unwrap();
    }

    /// Sixty memories that say different things, two that say again what two others say, four that wait for their vector
    /// or have lost it, two old tombstones and two young ones where there are any, and three vectors without a memory.
    fn fill(self, db: &Connection) {
        for id in 1..=70_i64 {
            let says = if id > 62 { id } else { (id - 1) % 60 };
            #[expect(clippy::cast_precision_loss, reason = "seconds of a test")]
            let at = (now() - (50 - id % 7) * DAY) as f64 + 0.5;
            db.execute(
                "INSERT INTO memories(id, content_hash, content, memory_type, metadata, created_at, updated_at, created_at_iso)
                 VALUES (?1, 'h-' || ?1, ?2, 'note', '{}', ?3, ?3, strftime('%Y-%m-%dT%H:%M:%fZ', ?3, 'unixepoch'))",
                params![id, format!("the service number {says} listens on its own port"), at],
            )
            .unwrap();
            let change = match id {
                63..=66 if self >= Self::Pending => "embedding_pending = 1".to_owned(),
                67 | 68 if self >= Self::Tombstones => {
                    format!("deleted_at = {}.5", now() - 40 * DAY)
                }
                69 | 70 if self >= Self::Tombstones => {
                    format!("deleted_at = {}.5", now() - 10 * DAY)
                }
                _ => String::new(),
            };
            if !change.is_empty() {
                db.execute_batch(&format!("UPDATE memories SET {change} WHERE id = {id}"))
                    .unwrap();
            }
            if id <= 62 {
                self.embed(db, id, says + 1);
            }
        }
        for id in 101..=103 {
            self.embed(db, id, id);
        }
        if self >= Self::Graph {
            let sql = "INSERT INTO memory_graph(source_hash, target_hash) VALUES ('h-3', 'h-67'), ('h-3', 'h-4'), ('h-68', 'h-5')";
            db.execute_batch(sql).unwrap();
        }
    }
}

#[test]
fn each_version_of_mcp_memory_service() {
    for version in SERVICES {
        let store = RowStore::with_schema("mcp-memory-service", &version.ddl());
        let db = store.db();
        db.execute_batch("BEGIN").unwrap();
        version.fill(&db);
        db.execute_batch("COMMIT").unwrap();
        drop(db);
        assert_eq!(store.init(), "mcp-memory-service", "{version:?}");
        let before = store.whole();
        let check = store.run(&["check", "--json"]);
        let drift = &check.objects("check")[0]["drift"];
        let unembedded = match version {
            Service::Plain => 8,
            Service::Pending => 0,
            _ => 4,
        };
        assert_eq!(
            drift["row_without_point"], unembedded,
            "{version:?}: {check:#?}"
        );
        assert_eq!(drift["point_without_row"], 3, "{version:?}: {check:#?}");
        let runs = store.nights();
        let vectors = store.number("SELECT count(*) FROM memory_embeddings");
        assert_eq!(vectors, 60, "{version:?}");
        let (rows, tombstones) = match version {
            Service::Plain => (68, 0),
            // Of two that say the same, one is a tombstone now, or hidden behind the other.
            Service::Tombstones | Service::TextIndex | Service::Graph => (68, 4),
            _ => (68, 2),
        };
        assert_eq!(
            store.number("SELECT count(*) FROM memories"),
            rows,
            "{version:?}"
        );
        // Where the two times of a memory differ by a day, the service takes it for new.
        let differs =
            "SELECT count(*) FROM memories WHERE abs(created_at - unixepoch(created_at_iso)) > 1";
        assert_eq!(store.number(differs), 0, "{version:?}");
        if version >= Service::Tombstones {
            let dead = "SELECT count(*) FROM memories WHERE deleted_at IS NOT NULL";
            assert_eq!(store.number(dead), tombstones, "{version:?}");
        }
        if version >= Service::Graph {
            let edges = store.strings("SELECT source_hash || target_hash FROM memory_graph");
            assert_eq!(edges, ["h-3h-4".to_owned()].into(), "{version:?}");
        }
        let whole = "INSERT INTO memory_content_fts(memory_content_fts, rank) VALUES ('integrity-check', 1)";
        if version >= Service::TextIndex {
            store.db().execute_batch(whole).unwrap();
        }
        store.undo(&runs);
        assert_eq!(store.whole(), before, "{version:?}");
        if version >= Service::TextIndex {
            store.db().execute_batch(whole).unwrap();
        }
    }
}

const CAVIRA: &str = "id text PRIMARY KEY, user_id text, segment integer DEFAULT 0, content text NOT NULL, simhash text,
    primary_sector text NOT NULL, tags text, meta text, created_at integer, updated_at integer, last_seen_at integer,
    salience real, decay_lambda real, version integer DEFAULT 1, mean_dim integer, mean_vec blob, compressed_vec blob";

#[test]
fn each_version_of_openmemory_of_cavira() {
    for (table, project) in [
        ("vectors", ""),
        ("vectors", ", project_id text"),
        ("openmemory_vectors", ""),
        ("openmemory_vectors", ", project_id text"),
    ] {
        let what = format!("{table}{project}");
        let ddl = format!(
            "CREATE TABLE memories({CAVIRA}{project});
             CREATE TABLE {table}(id text NOT NULL, sector text NOT NULL, user_id text, v blob NOT NULL, dim integer NOT NULL{project},
               PRIMARY KEY(id, sector));
             CREATE TABLE waypoints(src_id text, dst_id text NOT NULL, user_id text, weight real NOT NULL, created_at integer,
               updated_at integer{project}, PRIMARY KEY(src_id, user_id));"
        );
        let store = RowStore::with_schema("openmemory-cavira", &ddl);
        let db = store.db();
        db.execute_batch("BEGIN").unwrap();
        for id in 0..64_i64 {
            let user = [None, Some("ana")][usize::try_from(id % 2).unwrap()];
            // The last two say again what two others say.
            let like = if id >= 62 { id - 40 } else { id };
            if !(60..62).contains(&id) {
                let sql = "INSERT INTO memories(id, user_id, content, primary_sector, created_at, updated_at, last_seen_at, salience)
                           VALUES ('m-' || ?1, ?2, ?3, 'semantic', ?4, ?4, ?4, 0.5)";
                let text = format!("the build number {like} runs on its own machine");
                db.execute(sql, params![id, user, text, (now() - DAY) * 1000])
                    .unwrap();
            }
            for sector in ["semantic", "episodic"] {
                let sql = format!(
                    "INSERT INTO {table}(id, sector, user_id, v, dim) VALUES ('m-' || ?1, ?2, ?3, ?4, 32)"
                );
                db.execute(&sql, params![id, sector, user, blob(&vector(1 + like))])
                    .unwrap();
            }
        }
        db.execute_batch("COMMIT").unwrap();
        drop(db);
        assert_eq!(store.init(), "openmemory-cavira", "{what}");
        let before = store.whole();
        let check = store.run(&["check", "--json"]);
        let drift = &check.objects("check")[0]["drift"];
        assert_eq!(drift["point_without_row"], 4, "{what}: {check:#?}");
        let runs = store.nights();
        assert_eq!(store.number("SELECT count(*) FROM memories"), 60, "{what}");
        let vectors = format!("SELECT count(*) FROM {table} WHERE id IN (SELECT id FROM memories)");
        assert_eq!(store.number(&vectors), 120, "{what}");
        assert_eq!(
            store.number(&format!("SELECT count(*) FROM {table}")),
            120,
            "{what}"
        );
        store.undo(&runs);
        assert_eq!(store.whole(), before, "{what}");
    }
}

/// Before there were times to live, and with a second migration of the vectors.
#[test]
fn langgraph_without_times_to_live() {
    let ddl = "CREATE TABLE store_migrations (v INTEGER PRIMARY KEY);
        CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
          created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key));
        CREATE TABLE store_vectors (prefix text NOT NULL, key text NOT NULL, field_name text NOT NULL, embedding BLOB,
          created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
          PRIMARY KEY (prefix, key, field_name), FOREIGN KEY (prefix, key) REFERENCES store(prefix, key) ON DELETE CASCADE);";
    let store = RowStore::with_schema("langgraph-sqlite", ddl);
    let db = store.db();
    for id in 1..=40_i64 {
        let value = json!({"text": format!("it is said {id} times")}).to_string();
        if id <= 37 {
            let sql =
                "INSERT INTO store(prefix, key, value) VALUES ('memories.ana', 'k-' || ?1, ?2)";
            db.execute(sql, params![id, value]).unwrap();
        }
        let sql = "INSERT INTO store_vectors(prefix, key, field_name, embedding) VALUES ('memories.ana', 'k-' || ?1, '$', ?2)";
        db.execute(sql, params![id, blob(&vector(id))]).unwrap();
    }
    drop(db);
    assert_eq!(store.init(), "langgraph-sqlite");
    let before = store.whole();
    let runs = store.nights();
    assert_eq!(store.number("SELECT count(*) FROM store_vectors"), 37);
    assert_eq!(store.number("SELECT count(*) FROM store"), 37);
    store.undo(&runs);
    assert_eq!(store.whole(), before);
}
