//! Which system wrote a database, by the fingerprints of the presets.

use std::path::Path;

use crate::config::fingerprint::{Fit, Shape};
use crate::config::presets::{self, Foreign, Preset};
use crate::error::Failure;
use crate::exit::Exit;

/// What a store turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognised {
    /// Stores of these presets look like this: more than one where a system keeps its points in several ways, which the
    /// rows do not tell. At least one.
    Presets(Vec<&'static Preset>),
    /// A kind that hypnos knows and does not touch.
    Foreign(Box<Foreign>),
    /// No kind that hypnos knows; the preset of which most is there, with what is missing.
    Unknown(Option<Near>),
}

/// A preset that does not fit, but nearly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// The preset.
    pub name: &'static str,
    /// What is missing, or is there and must not be.
    pub amiss: Vec<String>,
}

impl Near {
    /// What a person should know of it.
    #[must_use]
    pub fn note(&self) -> String {
        format!(
            "unknown schema; nearest is {}, but for {}",
            self.name,
            self.amiss.join(", ")
        )
    }
}

/// Most that may be amiss with a preset that is called near.
const NEAR: usize = 2;

/// Recognises a database.
#[must_use]
pub fn database(shape: &Shape) -> Recognised {
    let fits = |foreign: &Foreign| matches!(foreign.fingerprint.fit(shape), Fit::Yes(_));
    if let Some(foreign) = presets::foreign().into_iter().find(fits) {
        return Recognised::Foreign(Box::new(foreign));
    }
    let (mut best, mut found, mut nearest) = (0, Vec::new(), None::<Near>);
    for preset in presets::ALL {
        match preset
            .fingerprint()
            .map(|fingerprint| fingerprint.fit(shape))
        {
            Some(Fit::Yes(weight)) if weight > best => (best, found) = (weight, vec![preset]),
            Some(Fit::Yes(weight)) if weight == best => found.push(preset),
            Some(Fit::No(amiss)) if is_nearer(&amiss, nearest.as_ref()) => {
                nearest = Some(Near {
                    name: preset.name,
                    amiss,
                });
            }
            _ => {}
        }
    }
    if found.is_empty() {
        Recognised::Unknown(nearest)
    } else {
        Recognised::Presets(found)
    }
}

/// The refusal of a store that hypnos knows and does not touch.
pub(super) fn refused(foreign: &Foreign, path: &Path) -> Failure {
    Failure::new(
        Exit::NoStore,
        format!(
            "{}: unknown to the presets: a store of {}, which hypnos does not touch",
            path.display(),
            foreign.name
        ),
    )
    .with_hint(foreign.refuse.clone())
}

/// The refusal of a database in which nothing looks like memories.
pub(super) fn unknown(path: &Path, near: Option<&Near>) -> Failure {
    let hint = near.map_or_else(
        || "hypnos presets lists what is known; any other table can be mapped by hand, see config/hypnos.toml".to_owned(),
        Near::note,
    );
    Failure::new(
        Exit::NoStore,
        format!(
            "{}: unknown, and no table looks like memories",
            path.display()
        ),
    )
    .with_hint(hint)
}

/// The refusal of a preset that was asked for.
pub(super) fn does_not_fit(name: &str, shape: &Shape) -> Failure {
    let Some(preset) = presets::find(name) else {
        return Failure::new(Exit::Usage, format!("no preset named {name:?}"))
            .with_hint("see hypnos presets");
    };
    let amiss = match preset
        .fingerprint()
        .map(|fingerprint| fingerprint.fit(shape))
    {
        Some(Fit::No(amiss)) => amiss.join(", "),
        _ => "anything to know it by".to_owned(),
    };
    Failure::new(
        Exit::NoStore,
        format!("this is no store of {name}: it lacks {amiss}"),
    )
}

fn is_nearer(amiss: &[String], than: Option<&Near>) -> bool {
    let lacks_table = amiss.iter().any(|what| what.starts_with("table"));
    amiss.len() <= NEAR && !lacks_table && than.is_none_or(|near| amiss.len() < near.amiss.len())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::init::shape;

    fn recognised(ddl: &str) -> Recognised {
        crate::store::vec0::register();
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(ddl).unwrap();
        database(&shape::read(&conn).unwrap())
    }

    #[test]
    fn every_preset_is_recognised_by_its_own_schema() {
        let with_rows = presets::ALL
            .iter()
            .filter(|preset| !preset.ddl.trim().is_empty());
        for preset in with_rows {
            match recognised(preset.ddl) {
                Recognised::Presets(found) => {
                    assert!(found.contains(&preset), "{}: {found:?}", preset.name);
                    let same = |other: &&Preset| other.ddl == preset.ddl;
                    assert!(found.iter().all(same), "{}: {found:?}", preset.name);
                }
                other => panic!("{}: {other:?}", preset.name),
            }
        }
    }

    const WEBUI_USER: &str = "CREATE TABLE user(id VARCHAR(255), name VARCHAR, email VARCHAR, role VARCHAR, created_at BIGINT);";

    /// Schemas of other versions than the one that the preset was written for, with what each lacks or adds.
    #[test]
    fn older_and_newer_versions_are_recognised() {
        let memory_v8 = "id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL, content TEXT NOT NULL, tags TEXT,
            memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT";
        let vec0 = "CREATE VIRTUAL TABLE memory_embeddings USING vec0(content_embedding FLOAT[4] distance_metric=cosine)";
        let partitioned = "CREATE VIRTUAL TABLE memory_embeddings USING vec0(store TEXT partition key, content_embedding FLOAT[4])";
        let later = "deleted_at REAL DEFAULT NULL, parent_id TEXT, version INTEGER DEFAULT 1, confidence REAL DEFAULT 1.0,
            last_accessed INTEGER, superseded_by TEXT";
        let cavira = "id text PRIMARY KEY, user_id text, segment integer, content text NOT NULL, simhash text, primary_sector text NOT NULL,
            tags text, meta text, created_at integer, updated_at integer, last_seen_at integer, salience real, decay_lambda real,
            version integer, mean_dim integer, mean_vec blob";
        for (preset, ddl) in [
            ("mcp-memory-service", format!("CREATE TABLE memories({memory_v8}); {vec0}")),
            ("mcp-memory-service", format!("CREATE TABLE memories({memory_v8}, deleted_at REAL); {vec0}")),
            ("mcp-memory-service", format!("CREATE TABLE memories({memory_v8}, {later}); {vec0}")),
            (
                "mcp-memory-service",
                format!("CREATE TABLE memories({memory_v8}, {later}, store TEXT, embedding_pending INTEGER); {partitioned}"),
            ),
            (
                "langgraph-sqlite",
                "CREATE TABLE store_migrations(v INTEGER PRIMARY KEY);
                 CREATE TABLE store(prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP,
                   updated_at TIMESTAMP, PRIMARY KEY(prefix, key))"
                    .to_owned(),
            ),
            (
                "openmemory-cavira",
                format!(
                    "CREATE TABLE memories({cavira});
                     CREATE TABLE vectors(id text, sector text, user_id text, v blob, dim integer, PRIMARY KEY(id, sector))"
                ),
            ),
            (
                "openmemory-cavira",
                format!(
                    "CREATE TABLE memories({cavira}, project_id text, compressed_vec blob, feedback_score real);
                     CREATE TABLE openmemory_vectors(id text, sector text, user_id text, project_id text, v blob, dim integer,
                       PRIMARY KEY(id, sector))"
                ),
            ),
            (
                "open-webui",
                format!("{WEBUI_USER} CREATE TABLE memory(id VARCHAR(255), user_id VARCHAR(255), content TEXT, updated_at BIGINT, created_at BIGINT)"),
            ),
            (
                "open-webui",
                format!(
                    "{WEBUI_USER} CREATE TABLE memory(id VARCHAR PRIMARY KEY, user_id VARCHAR, type VARCHAR NOT NULL DEFAULT 'context',
                       path TEXT, content TEXT, meta JSON, updated_at BIGINT, created_at BIGINT)"
                ),
            ),
            (
                "mem0-openmemory",
                "CREATE TABLE users(id UUID PRIMARY KEY, user_id VARCHAR);
                 CREATE TABLE memory_access_logs(id UUID PRIMARY KEY, memory_id UUID, app_id UUID, accessed_at DATETIME);
                 CREATE TABLE memories(id UUID PRIMARY KEY, user_id UUID, app_id UUID, content VARCHAR NOT NULL, state VARCHAR(8),
                   created_at DATETIME, updated_at DATETIME, archived_at DATETIME, deleted_at DATETIME)"
                    .to_owned(),
            ),
            (
                "mem0-qdrant",
                "CREATE TABLE history(id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
                   created_at DATETIME, updated_at DATETIME, is_deleted INTEGER)"
                    .to_owned(),
            ),
            (
                "mem0-qdrant",
                "CREATE TABLE memory_history(id INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT NOT NULL, previous_value TEXT,
                   new_value TEXT, action TEXT NOT NULL, created_at TEXT, updated_at TEXT, is_deleted INTEGER)"
                    .to_owned(),
            ),
        ] {
            match recognised(&ddl) {
                Recognised::Presets(found) => {
                    let names: Vec<_> = found.iter().map(|preset| preset.name).collect();
                    // The ways in which a system keeps its points are not told by its rows.
                    assert!(names.iter().all(|name| name.starts_with(preset)), "{names:?} of {ddl}");
                    assert!(names.contains(&preset));
                }
                other => panic!("{preset}: {other:?} of {ddl}"),
            }
        }
    }

    #[test]
    fn every_foreign_kind_is_read() {
        let names: Vec<String> = presets::foreign()
            .into_iter()
            .map(|foreign| foreign.name)
            .collect();
        assert_eq!(names.len(), 10, "{names:?}");
    }

    #[test]
    fn foreign_and_derived_stores_are_named() {
        for (name, ddl) in [
            (
                "Chroma",
                "CREATE TABLE collections(id TEXT PRIMARY KEY, name TEXT, dimension INTEGER, database_id TEXT);
                 CREATE TABLE segments(id TEXT PRIMARY KEY, type TEXT, scope TEXT, collection TEXT);
                 CREATE TABLE embeddings(id INTEGER PRIMARY KEY, segment_id TEXT, embedding_id TEXT, seq_id BLOB, created_at TIMESTAMP);
                 CREATE TABLE embedding_metadata(id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL,
                   bool_value INTEGER, PRIMARY KEY(id, key));",
            ),
            (
                "Mnemosyne",
                "CREATE TABLE working_memory(id TEXT PRIMARY KEY, content TEXT, source TEXT, timestamp TEXT, session_id TEXT, importance REAL);
                 CREATE TABLE episodic_memory(rowid INTEGER PRIMARY KEY, id TEXT UNIQUE, content TEXT);
                 CREATE TABLE memories(id TEXT PRIMARY KEY, content TEXT, created_at TEXT);
                 CREATE TABLE memory_embeddings(memory_id TEXT PRIMARY KEY, embedding_json TEXT, model TEXT);",
            ),
            (
                "OpenClaw",
                "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
                 CREATE TABLE files(path TEXT PRIMARY KEY, source TEXT, hash TEXT, mtime INTEGER, size INTEGER);
                 CREATE TABLE chunks(id TEXT PRIMARY KEY, path TEXT, source TEXT, start_line INTEGER, end_line INTEGER, hash TEXT,
                   model TEXT, text TEXT, embedding TEXT, updated_at INTEGER);",
            ),
            (
                "engram",
                "CREATE TABLE sessions(id TEXT PRIMARY KEY);
                 CREATE TABLE observations(id INTEGER PRIMARY KEY AUTOINCREMENT, sync_id TEXT, session_id TEXT, type TEXT, title TEXT,
                   content TEXT, tool_name TEXT, project TEXT, scope TEXT, topic_key TEXT, normalized_hash TEXT,
                   revision_count INTEGER, duplicate_count INTEGER, last_seen_at TEXT, created_at TEXT, deleted_at TEXT);",
            ),
            (
                "claude-mem",
                "CREATE TABLE sdk_sessions(id INTEGER PRIMARY KEY); CREATE TABLE session_summaries(id INTEGER PRIMARY KEY);
                 CREATE TABLE observations(id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT,
                   title TEXT, narrative TEXT, created_at TEXT, created_at_epoch INTEGER);",
            ),
            (
                "Letta",
                "CREATE TABLE block(id TEXT PRIMARY KEY, label TEXT, value TEXT);
                 CREATE TABLE archival_passages(id TEXT PRIMARY KEY, text TEXT, embedding BINARY, embedding_config JSON,
                   organization_id TEXT, archive_id TEXT);",
            ),
            (
                "basic-memory",
                "CREATE TABLE entity(id INTEGER PRIMARY KEY, title TEXT, permalink TEXT, file_path TEXT, checksum TEXT);
                 CREATE TABLE observation(id INTEGER PRIMARY KEY, entity_id INTEGER, content TEXT, category TEXT);
                 CREATE VIRTUAL TABLE search_index USING fts5(title, content);",
            ),
            ("qdrant-client in local mode", "CREATE TABLE points(id TEXT PRIMARY KEY, point BLOB)"),
        ] {
            match recognised(ddl) {
                Recognised::Foreign(foreign) => assert_eq!(foreign.name, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_index_that_only_libsql_can_keep_is_known_by_its_statement() {
        let shape = Shape {
            statements: vec!["create index i on memories(libsql_vector_idx(embedding))".to_owned()],
            ..Shape::default()
        };
        assert!(
            matches!(database(&shape), Recognised::Foreign(foreign) if foreign.name == "Cherry Studio")
        );
    }

    #[test]
    fn unrelated_databases_are_unknown() {
        for ddl in [
            "",
            "CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, visit_count INTEGER);
             CREATE TABLE moz_historyvisits(id INTEGER PRIMARY KEY, place_id INTEGER, visit_date INTEGER);",
            "CREATE TABLE responses(key TEXT PRIMARY KEY, value BLOB, expires INTEGER);",
            "CREATE TABLE memories(id TEXT PRIMARY KEY, content TEXT, created_at TEXT);
             CREATE TABLE memory_embeddings(memory_id TEXT PRIMARY KEY, embedding_json TEXT, model TEXT);",
            "CREATE TABLE store(id INTEGER PRIMARY KEY, name TEXT, city TEXT);",
            "CREATE TABLE memory(id INTEGER PRIMARY KEY, slot INTEGER, size_gb INTEGER);",
        ] {
            assert!(matches!(recognised(ddl), Recognised::Unknown(None)), "{ddl}: {:?}", recognised(ddl));
        }
    }

    #[test]
    fn a_preset_that_nearly_fits_is_named_with_what_is_missing() {
        let ddl = presets::find("ttl-days")
            .unwrap()
            .ddl
            .replace("ttl_days", "ttl");
        let near = Near {
            name: "ttl-days",
            amiss: vec!["column memories.ttl_days".to_owned()],
        };
        assert_eq!(recognised(&ddl), Recognised::Unknown(Some(near)));
    }
}
