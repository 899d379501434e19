//! Stores that the systems themselves wrote, where there is a folder of them: `HYPNOS_TEST_STORES=FOLDER`. Beside each
//! store stands what is wrong with it, `truth.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use qdrant_peer::Peer;
use serde_json::Value;

use crate::support::Output;
use crate::support::points_only::{NewPoint, PointStore, Whole};

/// The folder of a store; `None`, and a line, where nobody named one.
fn folder(name: &str) -> Option<PathBuf> {
    let Some(stores) = std::env::var_os("HYPNOS_TEST_STORES") else {
        println!("{name}: skipped, HYPNOS_TEST_STORES names no folder");
        return None;
    };
    Some(Path::new(&stores).join(name))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The bytes behind base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for c in text.trim_end_matches('=').chars() {
        bits = bits << 6 | u32::try_from(DIGITS.find(c).unwrap()).unwrap();
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).unwrap());
        }
    }
    bytes
}

fn floats(vector: &Value) -> Vec<f32> {
    let bytes = decoded(vector["f32"].as_str().unwrap());
    let floats = bytes.chunks_exact(4);
    floats
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

/// Puts a collection as it was written.
fn load(store: &mut PointStore, folder: &Path, file: &str, collection: &str) {
    let lines = std::fs::read_to_string(folder.join(format!("{file}.jsonl"))).unwrap();
    let points: Vec<NewPoint> = lines
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let vector = &line["vector"];
            let dense = if vector["f32"].is_string() {
                floats(vector)
            } else {
                floats(&vector[""])
            };
            let sparse = vector.get("bm25").map(|sparse| {
                let indices = sparse["indices"].as_array().unwrap().iter();
                let indices = indices.map(|index| u32::try_from(index.as_u64().unwrap()).unwrap());
                (indices.collect(), floats(sparse))
            });
            NewPoint {
                sparse,
                ..NewPoint::new(line["id"].as_str().unwrap(), line["payload"].clone(), dense)
            }
        })
        .collect();
    let config = json(&folder.join(format!("{file}.config.json")));
    let params = &config["config"]["params"];
    let vectors = &params["vectors"];
    let dim = vectors["size"].as_u64().or(vectors[""]["size"].as_u64());
    let dim = dim.unwrap();
    let sparse = params["sparse_vectors"]
        .as_object()
        .and_then(|sparse| sparse.keys().next().cloned());
    store.create(collection, dim, sparse.as_deref());
    for key in config["payload_schema"].as_object().into_iter().flatten() {
        store.index(collection, key.0);
    }
    store.put(collection, &points);
    assert_eq!(store.whole(collection).len(), points.len());
}

fn strings(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// What is gone; everything else is as it was.
#[track_caller]
fn gone(before: &Whole, after: &Whole) -> BTreeSet<String> {
    for (id, whole) in after {
        assert_eq!(before.get(id), Some(whole), "{id}");
    }
    let gone = before.keys().filter(|id| !after.contains_key(*id));
    gone.cloned().collect()
}

/// What a run would do, by pass and action.
fn backlog(check: &Output) -> Value {
    check.objects("check")[0]["backlog"].clone()
}

/// Two nights bring a store to no drift; answers what went, after it was put back.
fn two_nights_and_undo(store: &PointStore) -> BTreeSet<String> {
    let before = store.memories();
    let night = store.night().expect(0);
    let after = store.memories();
    let gone = gone(&before, &after);
    let _ = store.night().expect(0).all_passes("idle");
    assert_eq!(store.memories(), after);
    let run = night.objects("run")[0]["run"].as_str().unwrap().to_owned();
    let _ = store.run(&["undo", &run, "--json"]).expect(0);
    assert_eq!(store.memories(), before);
    gone
}

#[test]
fn mem0_legacy() {
    let Some(folder) = folder("mem0-legacy") else {
        return;
    };
    let truth = json(&folder.join("truth.json"));
    let peer = Peer::start();
    let mut store = PointStore::at(&peer.url(), &peer.rest_url());
    load(
        &mut store,
        &folder,
        "assistant_memories",
        "assistant_memories",
    );
    load(&mut store, &folder, "mem0migrations", "mem0migrations");
    let log = format!(
        "[store.log]\npath = \"{}\"\n",
        folder.join("history.db").display()
    );
    store.configure("preset = \"mem0-qdrant\"", &log);
    let migrations = store.whole("mem0migrations");

    let has_expiry = |whole: &String| whole.contains("\"expiration_date\"");
    let expiring = store.memories().into_iter();
    let expired: BTreeSet<String> = expiring
        .filter(|(_, whole)| has_expiry(whole))
        .map(|(id, _)| id)
        .collect();
    let groups = truth["exact_hash_groups"].as_array().unwrap().iter();
    let groups: Vec<BTreeSet<String>> = groups.map(|group| strings(&group["ids"])).collect();
    let counts = &truth["counts"];
    assert_eq!(counts["expired_as_of_2026-11-29"], expired.len());
    assert_eq!(counts["exact_hash_groups"], groups.len());

    // A copy that has expired is one of those.
    let live_copies = |ids: &BTreeSet<String>| ids.difference(&expired).count() - 1;
    let check = store.run(&["check", "--json"]);
    assert_eq!(
        backlog(&check)["ttl"]["delete"],
        expired.len(),
        "{check:#?}"
    );
    assert_eq!(
        backlog(&check)["duplicates"]["delete"],
        groups.iter().map(live_copies).sum::<usize>(),
        "{check:#?}"
    );
    for (kind, count) in [
        ("logged_without_point", "history_alive_but_point_gone"),
        ("point_without_log", "points_without_history"),
        ("logged_deleted", "point_back_after_delete_event"),
        ("logged_otherwise", "point_text_differs_from_last_history"),
    ] {
        let found = &check.objects("check")[0][kind];
        assert_eq!(*found, counts[count], "{kind}: {check:#?}");
    }
    let dead_links = &check.objects("check")[0]["drift"]["dead_link"];
    assert_eq!(*dead_links, counts["entities_with_dead_links"]);
    let mut gone = two_nights_and_undo(&store);
    for ids in groups {
        assert_eq!(ids.difference(&gone).count(), 1, "{ids:?}");
        gone.retain(|id| !ids.contains(id));
    }
    assert!(gone.is_subset(&expired), "{gone:?}");
    assert_eq!(store.whole("mem0migrations"), migrations);
}

/// The text of a memory, and whose it is.
fn said(kind: &str, payload: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    match kind {
        "langchain" => (
            text(&payload["metadata"]["user_id"]),
            text(&payload["page_content"]),
        ),
        "llamaindex" => {
            let node = payload["_node_content"].as_str().unwrap();
            let node: Value = serde_json::from_str(node).unwrap();
            (text(&payload["user_id"]), text(&node["text"]))
        }
        _ => (text(&payload["meta"]["user_id"]), text(&payload["content"])),
    }
}

#[test]
fn frameworks() {
    let Some(folder) = folder("qdrant-frameworks") else {
        return;
    };
    let truth = json(&folder.join("truth.json"));
    let peer = Peer::start();
    for kind in ["langchain", "llamaindex", "haystack"] {
        let mut store = PointStore::at(&peer.url(), &peer.rest_url());
        let collection = truth[kind]["collection"].as_str().unwrap();
        load(&mut store, &folder, kind, collection);
        store.configure(&format!("preset = \"{kind}\""), "");
        let copies = truth[kind]["exact_duplicates"].as_array().unwrap().len();
        let check = store.run(&["check", "--json"]);
        assert_eq!(
            backlog(&check)["duplicates"]["delete"],
            copies,
            "{kind}: {check:#?}"
        );
        let mut same = BTreeMap::<_, BTreeSet<String>>::new();
        let lines = std::fs::read_to_string(folder.join(format!("{kind}.jsonl"))).unwrap();
        for line in lines.lines() {
            let point: Value = serde_json::from_str(line).unwrap();
            let ids = same.entry(said(kind, &point["payload"])).or_default();
            ids.insert(point["id"].as_str().unwrap().to_owned());
        }
        let gone = two_nights_and_undo(&store);
        assert_eq!(gone.len(), copies, "{kind}");
        for ids in same.values() {
            assert_eq!(ids.difference(&gone).count(), 1, "{kind}: {ids:?}");
        }
    }
}

/// What `hypnos init` makes of them, from the address of the server alone.
#[test]
fn init_knows_each_collection() {
    for (name, file, collection, preset) in [
        (
            "mem0-legacy",
            "assistant_memories",
            "assistant_memories",
            Some("mem0-qdrant"),
        ),
        ("mem0-legacy", "mem0migrations", "mem0migrations", None),
        (
            "qdrant-frameworks",
            "langchain",
            "langchain_memories",
            Some("langchain"),
        ),
        (
            "qdrant-frameworks",
            "llamaindex",
            "llamaindex_memories",
            Some("llamaindex"),
        ),
        (
            "qdrant-frameworks",
            "haystack",
            "haystack_memories",
            Some("haystack"),
        ),
        ("decoys", "open-webui_files", "open-webui_files", None),
    ] {
        let Some(folder) = folder(name) else { return };
        let peer = Peer::start();
        let mut store = PointStore::at(&peer.url(), &peer.rest_url());
        load(&mut store, &folder, file, collection);
        let found = store.run(&["init", &store.url, "--rest-url", &store.rest_url, "--json"]);
        match preset {
            Some(preset) => {
                let found = found.expect(0);
                assert_eq!(found.objects("init")[0]["preset"], preset, "{found:#?}");
            }
            None => assert_eq!(found.code, Some(10), "{found:#?}"),
        }
    }
}

/// What it makes of databases, copied under another name; the decoys are none of ours.
#[test]
fn init_knows_each_database() {
    for (name, file, preset) in [
        ("decoys", "beets-library.db", None),
        ("decoys", "coverage.sqlite", None),
        ("decoys", "requests-cache.sqlite", None),
        ("langgraph", "store.db", Some("langgraph-sqlite")),
        (
            "mcp-memory-service-9",
            "sqlite_vec.db",
            Some("mcp-memory-service"),
        ),
    ] {
        let Some(folder) = folder(name) else { return };
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(folder.join(file), dir.path().join("copy.bin")).unwrap();
        let mut command = crate::support::hypnos();
        let found = Output::of(
            command
                .current_dir(dir.path())
                .args(["init", "copy.bin", "--json"]),
        );
        if let Some(preset) = preset {
            let found = found.expect(0);
            let line = &found.objects("init")[0];
            assert_eq!(line["preset"], preset, "{found:#?}");
            assert!(line["rows_with_point"].as_u64() > Some(0), "{found:#?}");
        } else {
            let said_so = found.stderr.contains("unknown");
            assert!(found.code == Some(10) && said_so, "{found:#?}");
            assert!(!dir.path().join("hypnos.toml").exists());
        }
    }
}
