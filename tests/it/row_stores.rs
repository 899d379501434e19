//! Stores of other people's systems in one SQLite file, each with every drift that its system leaves: two nights bring it
//! to none, nothing else is touched, and undo puts everything back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusqlite::params;
use serde_json::{Value, json};

use crate::support::row_stores::{RowStore, blob};
use crate::support::{DAY, now, vector};

/// What was lost and what is new.
fn differences(before: &BTreeSet<String>, after: &BTreeSet<String>) -> (usize, usize) {
    (
        before.difference(after).count(),
        after.difference(before).count(),
    )
}

/// `YYYY-MM-DD HH:MM:SS`, as `CURRENT_TIMESTAMP` writes it.
fn datetime(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap();
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A row of `LangGraph` with vectors that were written with it, or before it where `stale`.
struct Item {
    prefix: String,
    key: String,
    text: String,
    expires_at: Option<String>,
    fields: Vec<(&'static str, bool)>,
}

impl Item {
    fn new(prefix: usize, key: usize) -> Self {
        Self {
            prefix: format!("memories.u{prefix}"),
            key: format!("k-{key}"),
            text: format!("u{prefix} said something about topic {key}"),
            expires_at: None,
            fields: vec![("$", false)],
        }
    }

    fn put(&self, db: &rusqlite::Connection, seed: i64) {
        let at = now() - DAY;
        let value = json!({ "content": self.text, "kind": "semantic" }).to_string();
        db.execute(
            "INSERT INTO store VALUES (?1, ?2, CAST(?3 AS BLOB), ?4, ?4, ?5, NULL)",
            params![self.prefix, self.key, value, datetime(at), self.expires_at],
        )
        .unwrap();
        for (field, is_stale) in &self.fields {
            let written = datetime(if *is_stale { at - 3600 } else { at });
            db.execute(
                "INSERT INTO store_vectors VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
                params![self.prefix, self.key, field, blob(&vector(seed)), written],
            )
            .unwrap();
        }
    }
}

#[test]
fn langgraph() {
    let store = RowStore::new("langgraph-sqlite");
    let db = store.db();
    db.execute_batch(
        "BEGIN; CREATE TABLE checkpoints(thread_id TEXT PRIMARY KEY, checkpoint BLOB); INSERT INTO checkpoints VALUES ('t', x'00');
         INSERT INTO store_migrations VALUES (0), (1);",
    )
    .unwrap();
    let (mut expired, mut stale) = (0, 0);
    for prefix in 0..6 {
        for key in 0..100 {
            let mut item = Item::new(prefix, key);
            match key {
                // Both forms of a time that is past, and of one that is not.
                0 => item.expires_at = Some(datetime(now() - 60)),
                1 => item.expires_at = Some(format!("{}.123456+00:00", datetime(now() - DAY))),
                2 => item.expires_at = Some(datetime(now() + DAY)),
                3 => item.expires_at = Some(format!("{}.123456+00:00", datetime(now() + 3600))),
                // A key that was used again without an index, one that never had one, a list that became shorter.
                4 => item.fields = vec![("$", true)],
                5..=8 => item.fields = Vec::new(),
                9 => {
                    item.fields = vec![
                        ("facts[*].0", false),
                        ("facts[*].1", false),
                        ("facts[*].2", true),
                    ];
                }
                10 => item.text = format!("u{prefix} said something about topic 11"),
                _ => {}
            }
            expired += i64::from(key < 2);
            stale += i64::from(matches!(key, 4 | 9));
            let seed = if key == 10 {
                11
            } else {
                i64::try_from(key).unwrap()
            };
            item.put(&db, 1 + seed + 1000 * i64::try_from(prefix).unwrap());
        }
        // What delete and the sweep left.
        for key in 200..204 {
            db.execute(
                "INSERT INTO store_vectors VALUES (?1, ?2, '$', ?3, ?4, ?4)",
                params![
                    format!("memories.u{prefix}"),
                    format!("k-{key}"),
                    blob(&vector(key)),
                    datetime(now() - DAY)
                ],
            )
            .unwrap();
        }
        // A vector of another model, and a document that is no memory of anybody.
        db.execute(
            "UPDATE store_vectors SET embedding = zeroblob(64) WHERE prefix = ?1 AND key = 'k-50'",
            [format!("memories.u{prefix}")],
        )
        .unwrap();
    }
    db.execute_batch(
        "INSERT INTO store(prefix, key, value) VALUES ('threads.t', 'x', '{broken'); COMMIT",
    )
    .unwrap();
    drop(db);

    let before = store.whole();
    let check = store.run(&["check", "--json"]);
    // Nor does it ask for an index that could not be.
    assert!(!check.stdout.contains("not indexed"), "{check:#?}");
    let drift = &check.objects("check")[0]["drift"];
    assert_eq!(drift["point_without_row"], 6 * 4, "{check:#?}");
    assert_eq!(drift["unlinked_point"], stale, "{check:#?}");
    // A vector whose row is gone breaks a foreign key, too: it is counted once.
    assert_eq!(drift["foreign_key_violation"], 0, "{check:#?}");
    assert_eq!(
        drift["row_without_point"].as_u64().unwrap_or_default(),
        0,
        "{check:#?}"
    );
    let runs = store.nights();
    let check = store.run(&["check", "--json"]);
    let drift = &check.objects("check")[0]["drift"];
    assert_eq!(
        (&drift["point_without_row"], &drift["unlinked_point"]),
        (&json!(0), &json!(0)),
        "{check:#?}"
    );
    assert_eq!(
        store.number("SELECT count(*) FROM store"),
        601 - expired - 6
    );
    // Of two that say the same one is left, with its vector.
    let same = "SELECT prefix FROM store WHERE CAST(value AS TEXT) LIKE '%topic 11\"%'";
    assert_eq!(store.strings(same).len(), 6);
    let left = "SELECT v.prefix || v.key || v.field_name FROM store_vectors v WHERE NOT EXISTS (SELECT 1 FROM store s
         WHERE s.prefix = v.prefix AND s.key = v.key AND s.updated_at <= v.updated_at)";
    assert_eq!(store.strings(left), BTreeSet::new());
    let lost = usize::try_from(expired * 2 + 6 * 2 + 6 * 4 + stale).unwrap();
    assert_eq!(differences(&before, &store.whole()), (lost, 0));

    store.undo(&runs);
    assert_eq!(differences(&before, &store.whole()), (0, 0));
}

#[test]
fn mcp_memory_service() {
    let store = RowStore::new("mcp-memory-service");
    let db = store.db();
    db.execute_batch("BEGIN").unwrap();
    let put = |id: i64, owner: &str, text: &str, change: &str, seed: Option<i64>| {
        #[expect(clippy::cast_precision_loss, reason = "seconds of a test")]
        let at = (now() - 2 * DAY) as f64 + 0.25;
        db.execute(
            "INSERT INTO memories(id, content_hash, content, tags, memory_type, metadata, created_at, updated_at, store)
             VALUES (?1, ?2, ?3, 'a,b', 'note', '{}', ?4, ?4, ?5)",
            params![id, format!("hash-{id}"), text, at, owner],
        )
        .unwrap();
        if let Some(seed) = seed {
            db.execute(
                "INSERT INTO memory_embeddings(rowid, store, content_embedding) VALUES (?1, ?2, ?3)",
                params![id, owner, blob(&vector(seed))],
            )
            .unwrap();
        }
        if !change.is_empty() {
            let sql = format!("UPDATE memories SET {change} WHERE id = {id}");
            db.execute_batch(&sql).unwrap();
        }
    };
    for id in 1..=520 {
        let owner = if id % 2 == 0 { "default" } else { "work" };
        let text = format!("the {owner} service number {id} listens on its own port");
        let ago = |days: i64| {
            let at = now() - days * DAY;
            format!("created_at = {at}.0, updated_at = {at}.0, deleted_at = {at}.5")
        };
        match id {
            1..=6 => put(id, owner, &text, "embedding_pending = 1", None),
            7..=10 => put(id, owner, &text, "", None),
            11..=15 => put(id, owner, &text, &ago(10), None),
            16..=19 => put(id, owner, &text, &ago(40), None),
            20 => put(
                id,
                owner,
                &text,
                "superseded_by = 'hash-21', metadata = 'no json'",
                Some(id),
            ),
            22 => put(id, owner, &text, "superseded_by = ''", Some(id)),
            24 => put(
                id,
                owner,
                &text,
                "metadata = '{\"superseded_by\": \"hash-26\"}'",
                Some(id),
            ),
            _ => put(id, owner, &text, "", Some(id)),
        }
    }
    // The same text twice in one store, and once in each of two.
    for id in 601..=605 {
        let text = format!(
            "the work service number {} listens on its own port",
            id - 500
        );
        put(
            id,
            if id % 2 == 0 { "default" } else { "work" },
            &text,
            "",
            Some(id - 500),
        );
    }
    // Vectors whose row is gone.
    for id in 701..=706 {
        db.execute(
            "INSERT INTO memory_embeddings(rowid, store, content_embedding) VALUES (?1, 'default', ?2)",
            params![id, blob(&vector(id))],
        )
        .unwrap();
    }
    db.execute_batch(
        "INSERT INTO memory_graph(source_hash, target_hash) VALUES ('hash-16', 'hash-30'), ('hash-31', 'hash-17'), ('hash-32', 'hash-33');
         -- What the application left of memories that it deleted; the last of them names two.
         INSERT INTO memory_graph(source_hash, target_hash) VALUES ('hash-34', 'gone-1'), ('gone-1', 'hash-35'), ('gone-2', 'gone-1');
         COMMIT",
    )
    .unwrap();
    drop(db);

    let before = store.whole();
    let check = store.run(&["check", "--json"]);
    let drift = &check.objects("check")[0]["drift"];
    assert_eq!(drift["row_without_point"], 4, "{check:#?}");
    assert_eq!(drift["point_without_row"], 6, "{check:#?}");
    assert_eq!(drift["stray_child"], 3, "{check:#?}");
    let runs = store.nights();
    // Tombstones that are old enough, with what hangs on them; young ones stay.
    assert_eq!(
        store.number("SELECT count(*) FROM memories WHERE id BETWEEN 16 AND 19"),
        0
    );
    assert_eq!(
        store.number("SELECT count(*) FROM memories WHERE deleted_at IS NOT NULL"),
        5
    );
    assert_eq!(
        store.strings("SELECT source_hash FROM memory_graph"),
        ["hash-32", "hash-34", "gone-1", "gone-2"]
            .map(str::to_owned)
            .into()
    );
    assert_eq!(
        store.number("SELECT count(*) FROM memory_embeddings WHERE rowid > 700"),
        0
    );
    // 101, 103 and 105 are twice in one store: one of each pair is hidden behind the other. 602 and 604 are of another.
    let hidden = "SELECT content FROM memories WHERE superseded_by LIKE 'hash-%' AND (id > 600 OR id BETWEEN 101 AND 105)";
    assert_eq!(store.strings(hidden).len(), 3);
    let vectors = "SELECT count(*) FROM memory_embeddings WHERE rowid BETWEEN 601 AND 605 OR rowid BETWEEN 101 AND 105";
    assert_eq!(store.number(vectors), 7);
    let pending = "SELECT count(*) FROM memories WHERE embedding_pending = 1";
    assert_eq!(store.number(pending), 6);
    // The text index has no word of what is gone, and every one of what is there.
    let db = store.db();
    db.execute_batch(
        "INSERT INTO memory_content_fts(memory_content_fts, rank) VALUES ('integrity-check', 1)",
    )
    .unwrap();
    drop(db);

    store.undo(&runs);
    assert_eq!(differences(&before, &store.whole()), (0, 0));
    let db = store.db();
    db.execute_batch(
        "INSERT INTO memory_content_fts(memory_content_fts, rank) VALUES ('integrity-check', 1)",
    )
    .unwrap();
}

#[test]
fn openmemory_cavira() {
    let store = RowStore::new("openmemory-cavira");
    let db = store.db();
    db.execute_batch("BEGIN").unwrap();
    let owners = [
        (None, None),
        (Some("ana"), None),
        (Some("ana"), Some("p1")),
        (Some("bea"), Some("p1")),
    ];
    for id in 0..520_i64 {
        let (user, project) = owners[usize::try_from(id % 4).unwrap()];
        // 500 and later say again what the memories 400 earlier say, under the same owner; 519 and 518 under another.
        let like = if id >= 500 {
            id - 400 - i64::from(id >= 518)
        } else {
            id
        };
        let at = (now() - DAY) * 1000 + id;
        db.execute(
            "INSERT INTO memories(id, user_id, project_id, content, primary_sector, created_at, updated_at, last_seen_at, salience, decay_lambda)
             VALUES (?1, ?2, ?3, ?4, 'semantic', ?5, ?5, ?5, 0.5, 0.02)",
            params![format!("m-{id}"), user, project, format!("the build number {like} runs on its own machine"), at],
        )
        .unwrap();
        for sector in ["semantic", "episodic", "emotional"]
            .iter()
            .take(1 + usize::try_from(id % 3).unwrap())
        {
            db.execute(
                "INSERT INTO openmemory_vectors VALUES (?1, ?2, ?3, ?4, ?5, 32)",
                params![
                    format!("m-{id}"),
                    sector,
                    user,
                    project,
                    blob(&vector(1 + like))
                ],
            )
            .unwrap();
        }
        db.execute(
            "INSERT INTO waypoints(src_id, dst_id, user_id, weight) VALUES (?1, ?2, ?3, 0.5)",
            params![format!("m-{id}"), format!("m-{}", (id + 250) % 520), user],
        )
        .unwrap();
    }
    for id in 900..912 {
        let (user, project) = owners[usize::try_from(id % 4).unwrap()];
        for sector in ["semantic", "procedural"] {
            db.execute(
                "INSERT INTO openmemory_vectors VALUES (?1, ?2, ?3, ?4, ?5, 32)",
                params![format!("m-{id}"), sector, user, project, blob(&vector(id))],
            )
            .unwrap();
        }
    }
    db.execute_batch(
        "INSERT INTO waypoints(src_id, dst_id, user_id, weight) VALUES ('m-900', 'm-1', NULL, 0.5), ('m-901', 'm-900', NULL, 0.5);
         COMMIT",
    )
    .unwrap();
    drop(db);

    let before = store.whole();
    let check = store.run(&["check", "--json"]);
    let drift = &check.objects("check")[0]["drift"];
    assert_eq!(drift["point_without_row"], 24, "{check:#?}");
    assert_eq!(drift["stray_child"], 2, "{check:#?}");
    let runs = store.nights();
    // Twenty say what another one says; two of them are somebody else's.
    assert_eq!(store.number("SELECT count(*) FROM memories"), 520 - 18);
    let orphans =
        "SELECT count(*) FROM openmemory_vectors WHERE id NOT IN (SELECT id FROM memories)";
    assert_eq!(store.number(orphans), 0);
    let dangling = "SELECT count(*) FROM waypoints
         WHERE src_id NOT IN (SELECT id FROM memories) OR dst_id NOT IN (SELECT id FROM memories)";
    assert_eq!(
        store.number(dangling),
        2,
        "those of before are counted and left"
    );
    // No memory that stays lost a sector.
    let vectors =
        "SELECT count(*) FROM memories m WHERE 1 + CAST(substr(m.id, 3) AS INTEGER) % 3 <>
         (SELECT count(*) FROM openmemory_vectors v WHERE v.id = m.id)";
    assert_eq!(store.number(vectors), 0);

    store.undo(&runs);
    assert_eq!(differences(&before, &store.whole()), (0, 0));
}

/// A store that the system itself wrote, where there is a folder of them, and what is wrong with it.
fn written(name: &str, file: &str) -> Option<(PathBuf, Value)> {
    let Some(stores) = std::env::var_os("HYPNOS_TEST_STORES") else {
        println!("{name}: skipped, HYPNOS_TEST_STORES names no folder");
        return None;
    };
    let folder = Path::new(&stores).join(name);
    let truth = std::fs::read(folder.join("truth.json")).unwrap();
    Some((folder.join(file), serde_json::from_slice(&truth).unwrap()))
}

fn keys(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|key| serde_json::to_string(key).unwrap())
        .collect()
}

#[test]
fn langgraph_as_written() {
    let Some((file, truth)) = written("langgraph", "store.db") else {
        return;
    };
    let store = RowStore::copy("langgraph-sqlite", &file);
    let before = store.whole();
    let vectors = "SELECT json_array(prefix, key, field_name) FROM store_vectors";
    let rows = "SELECT json_array(prefix, key) FROM store";
    let (all_vectors, all_rows) = (store.strings(vectors), store.strings(rows));
    let check = store.run(&["check", "--json"]);
    let drift = &check.objects("check")[0]["drift"];
    assert_eq!(
        drift["point_without_row"], truth["counts"]["orphan_vectors"],
        "{check:#?}"
    );
    // Four keys that were used again without an index, and two vectors of each list that shrank.
    let reused = truth["log"]["key_reused_without_index"].as_array().unwrap();
    let shrunk = truth["log"]["shrunk_list"].as_array().unwrap();
    assert_eq!(
        drift["unlinked_point"],
        reused.len() + 2 * shrunk.len(),
        "{check:#?}"
    );
    let runs = store.nights();
    let gone: BTreeSet<_> = all_rows.difference(&store.strings(rows)).cloned().collect();
    let copies = truth["log"]["exact_duplicate"].as_array().unwrap();
    let expired = truth["counts"]["expired_as_of_2026-11-29"]
        .as_u64()
        .unwrap();
    assert_eq!(gone.len() as u64, expired + copies.len() as u64);
    let gone_vectors: BTreeSet<_> = all_vectors
        .difference(&store.strings(vectors))
        .cloned()
        .collect();
    assert!(keys(&truth["orphan_vectors"]).is_subset(&gone_vectors));
    let reused = keys(&truth["log"]["key_reused_without_index"]);
    let of_row = |vector: &str| {
        let parts: Value = serde_json::from_str(vector).unwrap();
        json!([parts[0], parts[1]]).to_string()
    };
    let of_living: BTreeSet<_> = gone_vectors
        .iter()
        .map(|vector| of_row(vector))
        .filter(|row| all_rows.contains(row) && !gone.contains(row))
        .collect();
    // Vectors that stood for a text that is no longer there: of keys that were used again, and of lists that shrank.
    let shrunk = keys(&truth["log"]["shrunk_list"]);
    assert_eq!(of_living, &reused | &shrunk);
    store.undo(&runs);
    assert_eq!(differences(&before, &store.whole()), (0, 0));
}

#[test]
fn mcp_memory_service_as_written() {
    let Some((file, truth)) = written("mcp-memory-service-9", "sqlite_vec.db") else {
        return;
    };
    let store = RowStore::copy("mcp-memory-service", &file);
    let counts = &truth["counts"];
    let before = store.whole();
    let check = store.run(&["check", "--json"]);
    assert_eq!(
        check.objects("check")[0]["drift"]["row_without_point"],
        counts["live_without_embedding"],
        "{check:#?}"
    );
    let live = "SELECT count(*) FROM memories WHERE deleted_at IS NULL";
    let (all, tombstones) = (store.number(live), counts["tombstones"].as_i64().unwrap());
    assert_eq!(all, counts["live"].as_i64().unwrap());
    // They have long done what they were kept for.
    let dead = "SELECT count(*) FROM memories WHERE deleted_at IS NOT NULL";
    let old = format!("{dead} AND deleted_at < {}", now() - 30 * DAY);
    assert_eq!(store.number(&old), tombstones);
    let rows = "SELECT count(*) FROM memories";
    assert_eq!(store.number(rows), all + tombstones);
    let runs = store.nights();
    // Without superseded_by a copy is deleted as the service does it: a tombstone that other devices hear of, and no vector.
    let groups = counts["same_content_groups"].as_i64().unwrap();
    assert_eq!(store.number(live), all - groups);
    assert_eq!((store.number(dead), store.number(rows)), (groups, all));
    let embedded = format!("{dead} AND id IN (SELECT rowid FROM memory_embeddings)");
    assert_eq!(store.number(&embedded), 0);
    let kind = "SELECT DISTINCT typeof(deleted_at) FROM memories WHERE deleted_at IS NOT NULL";
    assert_eq!(store.strings(kind), ["real".to_owned()].into());
    store.undo(&runs);
    let after = store.whole();
    assert_eq!(
        before.difference(&after).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    assert_eq!(differences(&before, &store.whole()), (0, 0));
}
