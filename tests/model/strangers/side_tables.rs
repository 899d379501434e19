//! Rows and vectors in one file: `LangGraph`, mcp-memory-service, `OpenMemory` of `CaviraOSS`.

use hypnos::config::presets;
use rusqlite::{Connection, params};
use serde_json::json;

use super::{Case, Recipe, holds, vector};
use crate::NOW;
use crate::support::DAY;
use crate::support::row_stores::blob;

/// `YYYY-MM-DD HH:MM:SS`, as `CURRENT_TIMESTAMP` writes it.
fn datetime(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap();
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn item(db: &Connection, prefix: &str, key: &str, text: &str, expires_at: Option<&str>) {
    let value = json!({"content": text}).to_string();
    let sql = "INSERT INTO store VALUES (?1, ?2, CAST(?3 AS BLOB), ?4, ?4, ?5, NULL)";
    db.execute(
        sql,
        params![prefix, key, value, datetime(NOW - DAY), expires_at],
    )
    .unwrap();
}

fn item_vector(db: &Connection, prefix: &str, key: &str, field: &str, age: i64, seed: usize) {
    let sql = "INSERT INTO store_vectors VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
    let at = datetime(NOW - age);
    db.execute(sql, params![prefix, key, field, blob(&vector(seed)), at])
        .unwrap();
}

const ITEM: &str = "store.db:store:";
const ITEM_VECTOR: &str = "store.db:store_vectors:";

fn langgraph_thing(case: &mut Case, db: &Connection, number: usize, kind: u8, of: u8) {
    let (prefix, key) = (format!("memories.u{of}"), format!("k-{number}-"));
    let text = format!("u{of} said {number} things");
    match kind % 9 {
        0 => {
            item(db, &prefix, &key, &text, Some(&datetime(NOW + 9 * DAY)));
            item_vector(db, &prefix, &key, "content", DAY, number);
        }
        1 => item(db, &prefix, &key, &text, None),
        2 => {
            let forms = [
                datetime(NOW - 60),
                format!("{}.5+00:00", datetime(NOW - DAY)),
            ];
            item(db, &prefix, &key, &text, Some(&forms[number % 2]));
            item_vector(db, &prefix, &key, "$", DAY, number);
            case.doom(ITEM, &key);
            case.doom(ITEM_VECTOR, &key);
        }
        3 => {
            item_vector(db, &prefix, &key, "$", DAY, number);
            case.doom(ITEM_VECTOR, &key);
        }
        4 => {
            // Of a list that became shorter: one vector is of the text that is there.
            item(db, &prefix, &key, &text, None);
            item_vector(db, &prefix, &key, "facts[*].0", DAY, number);
            item_vector(db, &prefix, &key, "facts[*].1", 2 * DAY, number + 500);
            case.doom(ITEM_VECTOR, &format!("{key}\" | \"facts[*].1"));
        }
        5 => {
            let twin = format!("t-{number}-");
            for key in [&key, &twin] {
                item(db, &prefix, key, &text, None);
                item_vector(db, &prefix, key, "$", DAY, number);
            }
            case.twins(ITEM, [&key, &twin], &[ITEM_VECTOR]);
        }
        // Whatever else people keep there.
        6 => {
            let sql = "INSERT INTO store(prefix, key, value, created_at, updated_at) VALUES(?1, ?2, ?3, ?4, ?4)";
            let value = ["{broken", "7", "[1]", "{\"step\": 1}"][number % 4];
            let at = datetime(NOW - DAY);
            db.execute(sql, params![format!("threads.t{of}"), key, value, at])
                .unwrap();
        }
        7 => {
            let sql = "INSERT INTO checkpoints VALUES(?1, ?2, x'00ff')";
            db.execute(sql, [&prefix, &key]).unwrap();
        }
        _ => {
            item(db, &prefix, &key, &text, None);
            let sql = "INSERT INTO store_vectors VALUES (?1, ?2, '$', zeroblob(64), ?3, ?3)";
            let at = datetime(NOW - DAY);
            db.execute(sql, [&prefix, &key, &at]).unwrap();
        }
    }
}

fn langgraph(case: &mut Case, recipe: &Recipe) {
    let db = case.database("store.db", presets::find("langgraph-sqlite").unwrap().ddl);
    db.execute_batch(
        "CREATE TABLE checkpoints(thread_id TEXT, id TEXT PRIMARY KEY, checkpoint BLOB);
         CREATE TABLE store_vectors_old AS SELECT * FROM store_vectors;
         INSERT INTO store_vectors_old VALUES('memories.u0', 'k-1-', '$', x'00', '2020-01-01', '2020-01-01');",
    )
    .unwrap();
    case.configure("langgraph-sqlite", "path = \"store.db\"", "", "");
    for (number, of) in (0..4).chain(0..4).enumerate() {
        langgraph_thing(case, &db, 1000 + number, 0, of);
    }
    for (number, (kind, of)) in recipe.iter().enumerate() {
        langgraph_thing(case, &db, number, *kind, *of);
    }
}

#[test]
fn of_langgraph() {
    holds(8, langgraph, false);
}

const SERVICE: &str = "mcp.db:memories:";
const EMBEDDING: &str = "mcp.db:memory_embeddings:";

/// Writes a row of the service, with a vector of a number if it has one.
fn note(db: &Connection, id: usize, store: &str, text: &str, more: &str, seed: Option<usize>) {
    #[expect(clippy::cast_precision_loss, reason = "seconds of a test")]
    let at = (NOW - 50 * DAY) as f64 + 0.25;
    let sql = "INSERT INTO memories(id, content_hash, content, tags, memory_type, metadata, created_at, updated_at, store)
               VALUES (?1, ?2, ?3, 'a,b', 'note', '{}', ?4, ?4, ?5)";
    db.execute(
        sql,
        params![id.to_string(), format!("h-{id}-"), text, at, store],
    )
    .unwrap();
    if !more.is_empty() {
        db.execute_batch(&format!("UPDATE memories SET {more} WHERE id = {id}"))
            .unwrap();
    }
    if let Some(seed) = seed {
        embedding(db, id, store, seed);
    }
}

fn embedding(db: &Connection, id: usize, store: &str, seed: usize) {
    let sql = "INSERT INTO memory_embeddings(rowid, store, content_embedding) VALUES (?1, ?2, ?3)";
    let id = i64::try_from(id).unwrap();
    db.execute(sql, params![id, store, blob(&vector(seed))])
        .unwrap();
}

/// How the line of a vector begins.
fn embedded(id: usize) -> String {
    format!("{EMBEDDING} Integer({id}) ")
}

fn service_thing(case: &mut Case, db: &Connection, number: usize, kind: u8, of: u8) {
    let (id, store) = (number + 1, ["default", "work"][usize::from(of % 2)]);
    let text = format!("the {store} service {id} listens on a port of its own");
    let dead = |days: i64| format!("deleted_at = {}.5", NOW - days * DAY);
    match kind % 8 {
        0 => note(db, id, store, &text, "", Some(number)),
        1 => note(db, id, store, &text, "embedding_pending = 1", None),
        2 => note(db, id, store, &text, "", None),
        3 => note(db, id, store, &text, &dead(10), None),
        4 => {
            note(db, id, store, &text, &dead(40), None);
            case.doom(SERVICE, &format!("\"h-{id}-\""));
            let sql = "INSERT INTO memory_graph(source_hash, target_hash) VALUES(?1, 'h-1001-'), ('h-1002-', ?1)";
            db.execute(sql, [format!("h-{id}-")]).unwrap();
            case.doom("mcp.db:memory_graph:", &format!("\"h-{id}-\""));
        }
        5 => {
            embedding(db, id, store, number);
            case.doom(&embedded(id), "");
        }
        6 => {
            let twin = id + 500;
            for id in [id, twin] {
                note(db, id, store, &text, "", Some(number));
            }
            // One is hidden behind the other, and has no vector any more.
            case.twins(
                EMBEDDING,
                [&format!(" Integer({id}) "), &format!(" Integer({twin}) ")],
                &[],
            );
            for id in [id, twin] {
                case.may_change(SERVICE, &format!("\"h-{id}-\""));
            }
        }
        _ => {
            let sql = "INSERT INTO memory_graph(source_hash, target_hash) VALUES(?1, 'h-1001-')";
            db.execute(sql, [format!("of-another-{id}")]).unwrap();
        }
    }
}

fn service(case: &mut Case, recipe: &Recipe) {
    let db = case.database("mcp.db", presets::find("mcp-memory-service").unwrap().ddl);
    db.execute_batch(
        "INSERT INTO metadata VALUES('distance_metric', 'cosine');
         CREATE VIRTUAL TABLE other_embeddings USING vec0(e FLOAT[4]);
         INSERT INTO other_embeddings(rowid, e) VALUES(1, '[1, 2, 3, 4]'), (77, '[1, 2, 3, 4]');",
    )
    .unwrap();
    case.configure("mcp-memory-service", "path = \"mcp.db\"", "", "");
    for (number, of) in (0..4).enumerate() {
        service_thing(case, &db, 1000 + number, 0, of);
    }
    for (number, (kind, of)) in recipe.iter().enumerate() {
        service_thing(case, &db, number, *kind, *of);
    }
}

#[test]
fn of_mcp_memory_service() {
    holds(8, service, false);
}

fn sector(
    db: &Connection,
    id: &str,
    sector: &str,
    owner: (Option<&str>, Option<&str>),
    seed: usize,
) {
    db.execute(
        "INSERT INTO openmemory_vectors VALUES (?1, ?2, ?3, ?4, ?5, 32)",
        params![id, sector, owner.0, owner.1, blob(&vector(seed))],
    )
    .unwrap();
}

fn cavira_row(db: &Connection, id: &str, owner: (Option<&str>, Option<&str>), text: &str) {
    let at = (NOW - DAY) * 1000;
    db.execute(
        "INSERT INTO memories(id, user_id, project_id, content, primary_sector, created_at, updated_at, last_seen_at, salience)
         VALUES (?1, ?2, ?3, ?4, 'semantic', ?5, ?5, ?5, 0.5)",
        params![id, owner.0, owner.1, text, at],
    )
    .unwrap();
}

fn cavira_thing(case: &mut Case, db: &Connection, number: usize, kind: u8, of: u8) {
    let owners = [
        (None, None),
        (Some("ana"), None),
        (Some("ana"), Some("p")),
        (Some("bea"), Some("p")),
    ];
    let (id, owner) = (format!("m-{number}-"), owners[usize::from(of)]);
    let text = format!("the build runs on machine {number}");
    match kind % 6 {
        0 => {
            cavira_row(db, &id, owner, &text);
            sector(db, &id, "semantic", owner, number);
            sector(db, &id, "episodic", owner, number + 700);
        }
        1 => cavira_row(db, &id, owner, &text),
        2 => {
            for name in ["semantic", "emotional"] {
                sector(db, &id, name, owner, number);
            }
            case.doom("om.db:openmemory_vectors:", &id);
        }
        3 => {
            let twin = format!("t-{number}-");
            for (id, other) in [(&id, "m-1000-"), (&twin, "m-1001-")] {
                cavira_row(db, id, owner, &text);
                sector(db, id, "semantic", owner, number);
                let sql = "INSERT INTO waypoints(src_id, dst_id, user_id, weight) VALUES (?1, ?2, 'ana', 0.5)";
                db.execute(sql, [id.as_str(), other]).unwrap();
            }
            case.twins(
                "om.db:memories:",
                [&id, &twin],
                &["om.db:openmemory_vectors:", "om.db:waypoints:"],
            );
        }
        4 => {
            let sql = "INSERT INTO temporal_facts VALUES (?1, 'ana', NULL, ?1, 'is', 'old', 1, 2, 0.5, 3, NULL)";
            db.execute(sql, [&id]).unwrap();
        }
        _ => {
            let sql =
                "INSERT INTO vectors_of_another_tool VALUES (?1, 'semantic', 'ana', x'00', 1)";
            db.execute(sql, [&id]).unwrap();
        }
    }
}

fn cavira(case: &mut Case, recipe: &Recipe) {
    let db = case.database("om.db", presets::find("openmemory-cavira").unwrap().ddl);
    db.execute_batch("CREATE TABLE vectors_of_another_tool(id text, sector text, user_id text, v blob, dim integer)")
        .unwrap();
    case.configure("openmemory-cavira", "path = \"om.db\"", "", "");
    for (number, of) in (0..4).chain(0..4).enumerate() {
        cavira_thing(case, &db, 1000 + number, 0, of);
    }
    for (number, (kind, of)) in recipe.iter().enumerate() {
        cavira_thing(case, &db, number, *kind, *of);
    }
}

#[test]
fn of_openmemory_of_cavira() {
    holds(8, cavira, false);
}
