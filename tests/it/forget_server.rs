//! Forgetting an owner of a store on a Qdrant server: what of his words is in pairs afterwards, and on the server.
//!
//! The server is the one of the tests, whose files can be searched. Like a real one it keeps what was removed from it, and
//! copies it.

use std::path::Path;

use qdrant_client::qdrant::{CreateAliasBuilder, DeletePointsBuilder, PointsIdsList};
use qdrant_peer::{Code, Peer};
use rusqlite::params;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::points_only::{NewPoint, PointStore};
use crate::support::qdrant::{block_on, client_of};
use crate::support::site::{Site, id};
use crate::support::{Output, SCHEMA, files, holds, now, point_id, vector};

/// What must not be found in any file.
const MARKER: &str = "zanzibar4477";
/// What has to be found all the same.
const THEIRS: &str = "montevideo8811";

const COLLECTION: &str = "agents";
const MAPPING: &str = r#"collection = "agents"
point_id = "uuid5(dns, {namespace}::{id})"
[store.owners]
scope = "user"
table = "users"
id = "id"
deleted_at = "deleted_at"
"#;

const FORGET: [&str; 4] = ["forget", "user:ana", "--yes", "--json"];
const FORGET_PAIRS: [&str; 5] = ["forget", "user:ana", "--snapshots", "--yes", "--json"];

/// The files of a folder in which a text stands.
fn found(folder: &Path, text: &str) -> Vec<String> {
    let all = files(folder).into_iter();
    all.filter(|(_, bytes)| holds(bytes, text))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

/// Twelve memories of ana and as many of bea, with what they say in rows and points.
fn fill(site: &Site, collection: &str) {
    let db = site.rows();
    let mut points = Vec::new();
    for (first, user, word) in [(1, "ana", MARKER), (100, "bea", THEIRS)] {
        db.execute("INSERT INTO users VALUES (?1, ?1, NULL)", [user])
            .unwrap();
        for row in first..first + 12 {
            let text = format!("{word} is number {row}");
            db.execute(
                "INSERT INTO memories(id, user_id, content, content_hash, created_at) VALUES (?1, ?2, ?3, ?1, ?4)",
                params![row, user, text, now()],
            )
            .unwrap();
            let namespace = format!("user:{user}");
            let payload = json!({"namespace": namespace, "meta": {"kind": "memory"}, "text": text});
            points.push((point_id(&namespace, row), payload));
        }
    }
    site.put(collection, &points);
}

fn certificate(output: &Output) -> Value {
    output.objects("certificate").remove(0)["stores"][0].clone()
}

/// How many pairs were removed.
fn dropped(certificate: &Value) -> usize {
    let removed = certificate["removed"].as_array().unwrap();
    removed.iter().filter(|it| it["what"] == "pair").count()
}

fn remains(certificate: &Value, what: &str) -> Option<String> {
    let remaining = certificate["remaining"].as_array().unwrap();
    let found = remaining.iter().find(|it| it["what"] == what)?;
    Some(found["why"].as_str().unwrap().to_owned())
}

fn pair(site: &Site) -> String {
    let taken = site.run(&["snapshot", "now", "--json"]).expect(0);
    taken.objects("pair")[0]["pair"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The pairs on the shelf, each of which verifies.
fn pairs(site: &Site) -> Vec<String> {
    let verified = site.run(&["snapshot", "verify", "--json"]).expect(0);
    let lines = verified.objects("pair");
    let names = lines.iter().map(|pair| pair["pair"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// The new pair is without the words, and with it, once the agent has been stopped, the server is, too.
#[test]
fn no_pair_has_the_words_and_a_restore_takes_them_from_the_server() {
    for is_alias in [false, true] {
        let site = Site::new("memory.db", SCHEMA, "ttl-days", MAPPING);
        let collection = if is_alias { "agents-2" } else { COLLECTION };
        site.collection(collection, &["namespace"]);
        if is_alias {
            let alias = CreateAliasBuilder::new(collection, COLLECTION);
            block_on(client_of(&site.peer.url()).create_alias(alias)).unwrap();
        }
        fill(&site, collection);
        let old = pair(&site);
        let first = certificate(&site.run(&FORGET).expect(0));
        let why = remains(&first, "segments").unwrap();
        assert!(why.contains("snapshot restore"), "{why}");
        // Of the two, only one counts something of her, and both have the words.
        let since = pair(&site);
        let shelf = site.path("snapshots");
        for name in [&old, &since] {
            let there = found(&shelf, MARKER);
            assert!(there.iter().any(|file| file.contains(name)), "{there:?}");
        }
        let dry = [&FORGET_PAIRS[..], &["--dry-run"]].concat();
        let dry = certificate(&site.run(&dry).expect(0));
        assert_eq!(dropped(&dry), 2, "{dry:#}");

        let done = certificate(&site.run(&FORGET_PAIRS).expect(0));
        assert_eq!(dropped(&done), 2, "{done:#}");
        assert_eq!(remains(&done, "older_pairs"), None, "{done:#}");
        let new = done["new_pair"].as_str().unwrap().to_owned();
        assert_eq!(pairs(&site), [new.as_str()]);
        assert_eq!(found(site.dir.path(), MARKER), [""; 0], "{done:#}");
        assert_eq!(found(site.dir.path(), "user:ana"), [""; 0], "{done:#}");
        assert!(!found(&shelf, THEIRS).is_empty());
        let on_server = site.peer.dir().to_owned();
        assert!(
            !found(&on_server, MARKER).is_empty(),
            "the server does not keep it"
        );
        // All is done: nothing is taken or dropped any more.
        let again = certificate(&site.run(&FORGET_PAIRS).expect(0));
        assert_eq!((dropped(&again), &again["new_pair"]), (0, &Value::Null));
        assert_eq!(pairs(&site), [new.as_str()]);

        let before = site.everything();
        let restored = site.run(&["snapshot", "restore", &new, "--json"]).expect(0);
        let (rows, points) = site.everything();
        assert_eq!(rows, before.0);
        let only = |points: &crate::support::site::Everything| {
            points.values().cloned().collect::<Vec<_>>()
        };
        assert!(only(&points) == only(&before.1), "{restored:#?}");
        assert_eq!(found(&on_server, MARKER), [""; 0], "{restored:#?}");
        assert!(!found(&on_server, THEIRS).is_empty());
        // What the restore replaced is a pair like any other, and goes the same way.
        let safety = restored.objects("restored")[0]["safety_pair"].clone();
        let safety = safety.as_str().unwrap();
        assert!(
            found(&shelf, MARKER)
                .iter()
                .all(|file| file.contains(safety))
        );
        assert!(!found(&shelf, MARKER).is_empty());
        let last = certificate(&site.run(&FORGET_PAIRS).expect(0));
        assert_eq!(dropped(&last), 1, "{last:#}");
        assert!(!pairs(&site).contains(&safety.to_owned()));
        for folder in [site.dir.path(), &on_server] {
            assert_eq!(found(folder, MARKER), [""; 0], "{last:#}");
        }
        assert!(site.everything() == (rows, points));
    }
}

/// Where the points cannot be written anew it is as before: the pair that holds her memories goes, and what others can have
/// is said.
#[test]
fn a_pair_that_could_not_be_written_anew_is_said_to_have_the_words() {
    let site = Site::new("memory.db", SCHEMA, "ttl-days", MAPPING);
    site.collection(COLLECTION, &["namespace"]);
    fill(&site, COLLECTION);
    let old = pair(&site);
    let _ = site.run(&FORGET).expect(0);
    let since = pair(&site);
    site.peer
        .faults()
        .fail_always("Collections/Create", Code::InvalidArgument, "not here");
    let done = site.run(&FORGET_PAIRS).expect(0);
    assert!(done.stderr.contains("not here"), "{done:#?}");
    let done = certificate(&done);
    let new = done["new_pair"].as_str().unwrap().to_owned();
    assert_eq!(pairs(&site), [since, new], "only {old} goes: {done:#}");
    let why = remains(&done, "older_pairs").unwrap();
    assert!(why.starts_with("2 pairs that count nothing of it"), "{why}");
    // It is made good when it is possible.
    site.peer.faults().clear();
    let done = certificate(&site.run(&FORGET_PAIRS).expect(0));
    assert_eq!(dropped(&done), 2, "{done:#}");
    assert_eq!(remains(&done, "older_pairs"), None, "{done:#}");
    assert_eq!(found(site.dir.path(), MARKER), [""; 0]);
    assert_eq!(pairs(&site).len(), 1);
}

/// What she, or the agent, had removed before is in the segments of every pair since.
#[test]
fn what_the_agent_had_removed_itself_goes_from_the_pairs_too() {
    let site = Site::new("memory.db", SCHEMA, "ttl-days", MAPPING);
    site.collection(COLLECTION, &["namespace"]);
    fill(&site, COLLECTION);
    let _ = pair(&site);
    site.rows()
        .execute("DELETE FROM memories WHERE user_id = 'ana'", [])
        .unwrap();
    let ids = (1..13).map(|row| point_id("user:ana", row).to_string().into());
    let delete = DeletePointsBuilder::new(COLLECTION)
        .points(PointsIdsList { ids: ids.collect() })
        .wait(true);
    block_on(client_of(&site.peer.url()).delete_points(delete)).unwrap();
    let since = pair(&site);
    let shelf = site.path("snapshots");
    assert!(
        found(&shelf, MARKER)
            .iter()
            .any(|file| file.contains(&since))
    );
    let done = certificate(&site.run(&FORGET_PAIRS).expect(0));
    assert_eq!(dropped(&done), 2, "{done:#}");
    assert_eq!(found(&shelf, MARKER), [""; 0], "{done:#}");
    assert_eq!(pairs(&site).len(), 1);
}

/// A server that is away for a while is waited for: nothing goes before there is a good pair.
#[test]
fn nothing_goes_while_the_points_cannot_be_read() {
    let site = Site::new("memory.db", SCHEMA, "ttl-days", MAPPING);
    site.collection(COLLECTION, &["namespace"]);
    fill(&site, COLLECTION);
    let old = pair(&site);
    let _ = site.run(&FORGET).expect(0);
    let since = pair(&site);
    site.peer
        .faults()
        .fail_always("Collections/Create", Code::Unavailable, "away");
    let failed = certificate(&site.run(&FORGET_PAIRS).expect(1));
    let left = failed["remaining"].as_array().unwrap().iter();
    let left: Vec<_> = left.filter(|it| it["what"] == "pair").collect();
    assert_eq!(left.len(), 2, "{failed:#}");
    assert!(left.iter().all(|it| it["unfinished"] == true), "{failed:#}");
    assert_eq!(pairs(&site), [old, since]);
    site.peer.faults().clear();
    let _ = site.run(&["--run-now", "--only", "decay"]).expect(0);
    assert_eq!(pairs(&site).len(), 1);
    assert_eq!(found(site.dir.path(), MARKER), [""; 0]);
}

/// Nobody's pairs are dropped for the sake of somebody who never had a memory.
#[test]
fn of_nobody_no_pair_goes() {
    let site = Site::new("memory.db", SCHEMA, "ttl-days", MAPPING);
    site.collection(COLLECTION, &["namespace"]);
    fill(&site, COLLECTION);
    let mut taken = vec![pair(&site)];
    let forget = ["forget", "user:zed", "--snapshots", "--yes", "--json"];
    for _ in 0..2 {
        let done = certificate(&site.run(&forget).expect(0));
        assert_eq!((dropped(&done), &done["new_pair"]), (0, &Value::Null));
        assert!(remains(&done, "older_pairs").is_some(), "{done:#}");
        assert_eq!(pairs(&site), taken);
        taken.push(pair(&site));
    }
    // Nor are those from before she had one.
    let db = site.rows();
    db.execute("INSERT INTO users VALUES ('zed', 'zed', NULL)", [])
        .unwrap();
    db.execute(
        "INSERT INTO memories(id, user_id, content, content_hash, created_at) VALUES (500, 'zed', 'x', 'x', ?1)",
        [now()],
    )
    .unwrap();
    let with = pair(&site);
    let done = certificate(&site.run(&forget).expect(0));
    assert_eq!(dropped(&done), 1, "{done:#}");
    taken.push(done["new_pair"].as_str().unwrap().to_owned());
    assert_eq!(pairs(&site), taken, "{with} alone has gone");
}

/// Points of other kinds are in the pair. The collection is not replaced by a restore, which is not said either.
#[test]
fn in_a_collection_that_others_share_the_pair_is_without_the_words() {
    let mapping = MAPPING.replace(
        "point_id",
        "where = { \"meta.kind\" = [\"memory\"] }\npoint_id",
    );
    let site = Site::new("memory.db", SCHEMA, "ttl-days", &mapping);
    site.collection(COLLECTION, &["namespace", "meta.kind"]);
    fill(&site, COLLECTION);
    let others = "quito3355";
    let other = json!({"namespace": "user:ana", "meta": {"kind": "file"}, "text": others});
    site.put(COLLECTION, &[(id("other", 1), other)]);
    let _ = pair(&site);
    let done = certificate(&site.run(&FORGET_PAIRS).expect(0));
    let shelf = site.path("snapshots");
    assert_eq!(found(&shelf, MARKER), [""; 0], "{done:#}");
    for word in [THEIRS, others] {
        assert!(!found(&shelf, word).is_empty(), "{word}: {done:#}");
    }
    let why = remains(&done, "segments").unwrap();
    assert!(!why.contains("restore"), "{why}");
    assert_eq!(pairs(&site).len(), 1);
}

const ROWS: &str = r#"kind = "points"
tenant = "payload:json($.user_id)"
content = "payload:json($.data)"
created_at = "payload:json($.created_at):text""#;

#[test]
fn where_points_are_the_rows_the_pair_is_without_the_words() {
    let peer = Peer::start();
    let mut store = PointStore::at(&peer.url(), &peer.rest_url());
    store.create_any(Some("bm25"));
    store.configure(ROWS, "namespace = \"user:{tenant}\"\n");
    let points: Vec<_> = (1..=30)
        .map(|number| {
            let (owner, word) = match number % 2 {
                0 => ("ana", MARKER),
                _ => ("ben", THEIRS),
            };
            let text = format!("{word} is number {number}");
            let payload =
                json!({"user_id": owner, "data": text, "created_at": "2026-05-01T10:00:00+00:00"});
            let id = Uuid::from_u64_pair(number, 7).to_string();
            NewPoint {
                sparse: Some((vec![7, 900], vec![0.5, 1.25])),
                ..NewPoint::new(id, payload, vector(number.cast_signed()))
            }
        })
        .collect();
    store.put(store.collection(), &points);
    let _ = store.run(&["snapshot", "now"]).expect(0);
    let shelf = store.dir.path().join("snapshots");
    assert!(!found(&shelf, MARKER).is_empty());
    let done = certificate(&store.run(&FORGET_PAIRS).expect(0));
    assert_eq!(dropped(&done), 1, "{done:#}");
    assert_eq!(found(store.dir.path(), MARKER), [""; 0], "{done:#}");
    assert!(!found(&shelf, THEIRS).is_empty());
    let new = done["new_pair"].as_str().unwrap();
    let before = store.memories();
    assert_eq!(before.len(), 15);
    assert!(!found(peer.dir(), MARKER).is_empty());
    let restored = store.run(&["snapshot", "restore", new]).expect(0);
    assert_eq!(store.memories(), before, "{restored:#?}");
    assert_eq!(found(peer.dir(), MARKER), [""; 0], "{restored:#?}");
}
