//! The presets of Open WebUI on stores with everything that goes wrong there.

use std::collections::BTreeSet;

use hypnos::config::presets;
use rusqlite::params;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::site::{Everything, Site, id};
use crate::support::{DAY, holds, now};

mod many;

/// Users who are there.
const LIVING: usize = 12;
/// Memories of each.
const EACH: usize = 45;
const SHARED: &str = "open-webui_memories";

/// What a store should be like at the end.
struct Expected {
    rows: BTreeSet<String>,
    points: Everything,
}

fn user(number: usize) -> String {
    id("user", number).to_string()
}

fn add_user(site: &Site, number: usize) {
    let sql = "INSERT INTO user(id, email, name, role, created_at, updated_at) VALUES(?1, ?1 || '@example.org', 'n', 'user', 1, 1)";
    site.rows().execute(sql, [user(number)]).unwrap();
}

/// The payload of a memory's point: older ones carry nothing but the time of their creation.
fn payload(text: &str, path: Option<&str>, tenant: Option<&str>, is_old: bool) -> Value {
    let at = now() - 30 * DAY;
    let embedded = path.map_or(text.to_owned(), |path| format!("{path}\n{text}"));
    let mut payload = match (is_old, path) {
        (true, _) => json!({"text": embedded, "metadata": {"created_at": at}}),
        (false, None) => {
            json!({"text": embedded, "metadata": {"created_at": at, "updated_at": at, "type": "context"}})
        }
        (false, Some(path)) => json!({
            "text": embedded,
            "metadata": {"created_at": at, "updated_at": at, "type": "context", "path": path},
        }),
    };
    if let Some(tenant) = tenant {
        payload["tenant_id"] = json!(tenant);
    }
    payload
}

/// Writes the rows of some memories, and returns their points.
fn memories(
    site: &Site,
    of: usize,
    count: usize,
    tenant: Option<&str>,
    is_legacy: bool,
) -> Vec<(Uuid, Value)> {
    let mut db = site.rows();
    let tx = db.transaction().unwrap();
    let mut points = Vec::new();
    for number in 0..count {
        let memory = id(&format!("memory/{of}"), number);
        let text = format!("fact {memory} of {of}");
        let path = (number % 5 == 0 && !is_legacy).then_some("people/notes.md");
        let at = now() - 30 * DAY;
        if is_legacy {
            let sql = "INSERT INTO memory(id, user_id, content, updated_at, created_at) VALUES(?1, ?2, ?3, ?4, ?4)";
            tx.execute(sql, params![memory.to_string(), user(of), text, at])
        } else {
            let sql = "INSERT INTO memory(id, user_id, path, content, meta, updated_at, created_at) VALUES(?1, ?2, ?3, ?4, '{}', ?5, ?5)";
            tx.execute(sql, params![memory.to_string(), user(of), path, text, at])
        }
        .unwrap();
        points.push((memory, payload(&text, path, tenant, number % 3 == 0)));
    }
    tx.commit().unwrap();
    points
}

/// Points whose row was deleted, and whose point was not.
fn leftovers(of: usize, count: usize, tenant: Option<&str>) -> Vec<(Uuid, Value)> {
    let one = |number| {
        let text = format!("deleted {number} of {of}");
        (
            id(&format!("leftover/{of}"), number),
            payload(&text, None, tenant, true),
        )
    };
    (0..count).map(one).collect()
}

fn ids(points: &[(Uuid, Value)]) -> BTreeSet<Uuid> {
    points.iter().map(|(id, _)| *id).collect()
}

/// Fills a store with every drift that is known of Open WebUI, and with much that is none of a memory worker's business.
fn fill(
    site: &Site,
    is_legacy: bool,
    collection_of: impl Fn(usize) -> String,
    in_payload: bool,
) -> Expected {
    let mut doomed: BTreeSet<Uuid> = BTreeSet::new();
    let mut rows = BTreeSet::new();
    for of in 0..LIVING + 3 {
        let tenant = in_payload.then(|| format!("user-memory-{}", user(of)));
        let tenant = tenant.as_deref();
        let collection = collection_of(of);
        if !in_payload {
            site.collection(&collection, &[]);
        }
        let points = match of {
            _ if of < LIVING => {
                add_user(site, of);
                let points = memories(site, of, EACH, tenant, is_legacy);
                rows.extend(points.iter().map(|(id, _)| id.to_string()));
                points
            }
            // Removed, with rows and points; the last one with points alone.
            _ if of < LIVING + 2 => memories(site, of, 15, tenant, is_legacy),
            _ => Vec::new(),
        };
        if of >= LIVING {
            doomed.extend(ids(&points));
        }
        site.put(&collection, &points);
        let left = leftovers(of, if of < LIVING { of % 4 } else { 5 }, tenant);
        doomed.extend(ids(&left));
        site.put(&collection, &left);
    }
    strangers(site);
    let mut points = site.points();
    for of in points.values_mut() {
        of.retain(|id, _| !doomed.contains(id));
    }
    Expected { rows, points }
}

/// Files and knowledge, in their own collections and among the memories: of the same form, and of other kinds.
fn strangers(site: &Site) {
    for sibling in [
        "open-webui_files",
        "open-webui_knowledge",
        "open-webui_web-search",
    ] {
        site.collection(sibling, &["tenant_id"]);
        let points: Vec<_> = (0..10)
            .map(|number| {
                let tenant = match number % 3 {
                    0 => format!("user-memory-{}", user(99)),
                    1 => format!("file-{}", id("file", number)),
                    _ => id("knowledge", number).to_string(),
                };
                let payload = json!({"text": "a page", "metadata": {"file_id": id("file", number).to_string(), "hash": "h"}, "tenant_id": tenant});
                (id(sibling, number), payload)
            })
            .collect();
        site.put(sibling, &points);
    }
}

fn row_ids(site: &Site) -> BTreeSet<String> {
    let db = site.rows();
    let mut read = db.prepare("SELECT id FROM memory").unwrap();
    let ids = read.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

/// Two nights to no drift, a third one idle, and back again.
fn nights(site: &Site, expected: &Expected) {
    let before = site.everything();
    let first = site.night().expect(0);
    assert_eq!(first.pass("orphans")["outcome"], "idle", "{first:#?}");
    assert!(
        site.everything() == before,
        "what is absent is believed on its second sighting"
    );
    let second = site.at(21).night().expect(0);
    assert_eq!(row_ids(site), expected.rows, "{second:#?}");
    assert!(site.points() == expected.points, "{second:#?}");
    let left = site.everything();
    let _ = site.at(42).night().expect(0).all_passes("idle");
    assert!(site.everything() == left);
    let drift = site.drift(0);
    for kind in ["row_without_point", "point_without_row"] {
        assert_eq!(drift[kind], 0, "{drift}");
    }
    let undo = site.run(&[
        "undo",
        second.objects("run")[0]["run"].as_str().unwrap(),
        "--json",
    ]);
    assert!(site.everything() == before, "{undo:#?}");
}

fn shared(is_legacy: bool) -> (Site, Expected) {
    let ddl = presets::find("open-webui").unwrap().ddl;
    let ddl = if is_legacy {
        ddl.replace("type VARCHAR NOT NULL DEFAULT 'context', path TEXT, ", "")
            .replace(
                "meta JSON, updated_at BIGINT, created_at BIGINT);",
                "updated_at BIGINT, created_at BIGINT);",
            )
    } else {
        ddl.to_owned()
    };
    let site = Site::new("webui.db", &ddl, "open-webui", "");
    site.collection(SHARED, &["tenant_id"]);
    // In the same collection, too.
    let foreign: Vec<_> = (0..30)
        .map(|number| {
            let tenant = match number % 5 {
                0 => json!(format!("file-{}", id("file", number))),
                1 => json!(id("knowledge", number).to_string()),
                2 => json!("user-memory-"),
                3 => json!(format!("user:{}", user(0))),
                _ => json!([format!("user-memory-{}", user(0)), "file-1"]),
            };
            (
                id("foreign", number),
                json!({"text": "a page", "metadata": {"hash": "h"}, "tenant_id": tenant}),
            )
        })
        .collect();
    site.put(SHARED, &foreign);
    let expected = fill(&site, is_legacy, |_| SHARED.to_owned(), true);
    (site, expected)
}

#[test]
fn one_collection_for_all() {
    for is_legacy in [false, true] {
        let (site, expected) = shared(is_legacy);
        let check = site.run(&["check", "--json"]).expect(3);
        let check = &check.objects("check")[0];
        // Of the twelve users and the three removed ones, two of whom have their rows still.
        assert_eq!(check["drift"]["point_without_row"], 18 + 15, "{check}");
        assert_eq!(check["settling"], 18 + 15 + 2 * 15, "{check}");
        nights(&site, &expected);
    }
}

/// Open WebUI itself takes the same words under another path, or of another type, for another memory; the text of a point
/// begins with the path.
#[test]
fn the_same_words_under_two_paths_are_two_memories() {
    for preset in ["open-webui", "open-webui-collections"] {
        let site = Site::new("webui.db", presets::find(preset).unwrap().ddl, preset, "");
        let collection = if preset == "open-webui" {
            SHARED.to_owned()
        } else {
            own(1)
        };
        site.collection(&collection, &["tenant_id"]);
        add_user(&site, 1);
        let tenant = format!("user-memory-{}", user(1));
        let at = now() - DAY;
        let db = site.rows();
        let put = |number: usize, kind: &str, path: Option<&str>, embedded: &str| {
            let memory = id("memory", number);
            let sql = "INSERT INTO memory(id, user_id, type, path, content, updated_at, created_at) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?6)";
            let text = "see the list in the drawer";
            db.execute(
                sql,
                params![memory.to_string(), user(1), kind, path, text, at],
            )
            .unwrap();
            let mut payload = payload(text, path, Some(&tenant), false);
            payload["text"] = json!(embedded);
            site.put(&collection, &[(memory, payload)]);
            memory.to_string()
        };
        let plain = "see the list in the drawer";
        let below = |path: &str| format!("{path}\n{plain}");
        let apart = [
            put(1, "context", Some("work/taxes"), &below("work/taxes")),
            put(2, "context", Some("home/garden"), &below("home/garden")),
            put(3, "user", Some("home/garden"), &below("home/garden")),
            put(4, "context", None, plain),
            // Moved, and not embedded again: its point still says where it was.
            put(5, "context", Some("home/attic"), &below("home/cellar")),
        ];
        let copy = put(6, "context", Some(""), plain);
        let drift = site.drift(3);
        assert_eq!(drift["stale_point"], 1, "{preset}: {drift}");
        let night = site.night().expect(0);
        assert_eq!(
            night.pass("duplicates")["applied"],
            json!({"delete": 1}),
            "{preset}: {night:#?}"
        );
        let left = row_ids(&site);
        let one_of_two = left.contains(&apart[3]) != left.contains(&copy);
        assert!(one_of_two && left.len() == 5, "{preset}: {left:?}");
    }
}

/// Tables of the first versions have no primary key: nobody could say which row is which.
#[test]
fn a_table_without_a_key_is_refused() {
    let ddl = presets::find("open-webui").unwrap().ddl;
    let site = Site::new(
        "webui.db",
        &ddl.replace("NOT NULL PRIMARY KEY, user_id", "NOT NULL, user_id"),
        "open-webui",
        "",
    );
    site.collection(SHARED, &["tenant_id"]);
    add_user(&site, 1);
    let points = memories(&site, 1, 5, Some("x"), false);
    site.put(SHARED, &points);
    let before = site.everything();
    let night = site.night().expect(10);
    assert!(night.stdout.contains("cannot be the id"), "{night:#?}");
    assert!(site.everything() == before);
}

/// A user who is back before the second sighting keeps everything, and so does everybody when nobody is in the table.
#[test]
fn users_who_come_back_or_are_all_gone_keep_their_memories() {
    let (site, _) = shared(false);
    let before = site.everything();
    site.night().expect(0);
    site.rows()
        .execute("CREATE TABLE aside AS SELECT * FROM user", [])
        .unwrap();
    site.rows().execute("DELETE FROM user", []).unwrap();
    let night = site.at(21).night();
    assert_eq!(night.pass("orphans")["outcome"], "refused", "{night:#?}");
    site.rows()
        .execute_batch("INSERT INTO user SELECT * FROM aside; DROP TABLE aside")
        .unwrap();
    assert!(site.everything() == before);
    add_user(&site, LIVING);
    site.at(42).night().expect(0);
    let kept = row_ids(&site);
    assert!(kept.contains(&id(&format!("memory/{LIVING}"), 3).to_string()));
    assert!(!kept.contains(&id(&format!("memory/{}", LIVING + 1), 3).to_string()));
}

/// The name of a user's own collection.
fn own(number: usize) -> String {
    format!("open-webui_user-memory-{}", user(number))
}

fn apart() -> (Site, Expected) {
    let ddl = presets::find("open-webui-collections").unwrap().ddl;
    let site = Site::new("webui.db", ddl, "open-webui-collections", "");
    let expected = fill(&site, false, own, false);
    (site, expected)
}

#[test]
fn a_collection_for_each_user() {
    let (site, expected) = apart();
    let files = format!("open-webui_file-{}", id("file", 1));
    site.collection(&files, &[]);
    site.put(&files, &leftovers(70, 9, None));
    let before = site.points();
    let drift = site.drift(3);
    assert_eq!(drift["point_without_row"], 18 + 15, "{drift}");
    let mut expected = expected;
    expected
        .points
        .insert(files.clone(), before[&files].clone());
    nights(&site, &expected);
}

/// Users who are in no table: one with a collection alone, one with rows, too. Beside them, collections that only resemble
/// those of a user.
#[test]
fn the_collection_of_an_unknown_user_is_swept_and_none_that_resembles_it() {
    let ddl = presets::find("open-webui-collections").unwrap().ddl;
    let site = Site::new("webui.db", ddl, "open-webui-collections", "");
    let put = |name: &str, points: &[(Uuid, Value)]| {
        site.collection(name, &[]);
        site.put(name, points);
    };
    for of in 0..2 {
        add_user(&site, of);
        put(&own(of), &memories(&site, of, 10, None, false));
    }
    put(&own(7), &leftovers(7, 4, None));
    put(&own(8), &memories(&site, 8, 3, None, false));
    let resembling = [
        format!("{}-old", own(0)),
        format!("copy-of-{}", own(7)),
        format!("open-webui_user-memories-{}", user(7)),
        format!("open-webui-user-memory-{}", user(7)),
        format!("Open-WebUI_user-memory-{}", user(7)),
        "open-webui_user-memory".to_owned(),
        "open-webui_user-memory-".to_owned(),
    ];
    for (number, name) in resembling.iter().enumerate() {
        put(name, &leftovers(100 + number, 2, None));
    }
    let before = site.everything();
    let first = site.night().expect(3);
    assert!(site.everything() == before, "seen once: {first:#?}");
    let unread = &first.pass("orphans")["unread"];
    assert_eq!(unread.as_array().unwrap().len(), 1, "{first:#?}");
    assert_eq!(unread[0]["partition"], format!("{}-old", user(0)));

    // Nobody is proven to be gone while the table of users cannot be read, or names nobody.
    let users = |sql: &str| site.rows().execute_batch(sql).unwrap();
    for (away, back) in [
        (
            "ALTER TABLE user RENAME TO away",
            "ALTER TABLE away RENAME TO user",
        ),
        (
            "CREATE TABLE away AS SELECT * FROM user; DELETE FROM user",
            "INSERT INTO user SELECT * FROM away; DROP TABLE away",
        ),
    ] {
        users(away);
        let night = site.at(21).night();
        assert!(
            [Some(1), Some(3), Some(10)].contains(&night.code),
            "{night:#?}"
        );
        users(back);
        assert!(site.everything() == before, "{away}: {night:#?}");
    }

    let night = site.at(22).night().expect(3);
    let mut expected = before.1.clone();
    for of in [7, 8] {
        expected.get_mut(&own(of)).unwrap().clear();
    }
    assert!(site.points() == expected, "{night:#?}");
    assert_eq!(row_ids(&site).len(), 20, "{night:#?}");
    let run = night.objects("run")[0]["run"].as_str().unwrap().to_owned();
    let undo = site.run(&["undo", &run, "--json"]).expect(0);
    assert!(site.everything() == before, "{undo:#?}");
}

/// A collection that is missing is a user who is away: nothing of theirs goes, whatever the passes think of it.
#[test]
fn a_user_whose_collection_is_missing_keeps_everything() {
    let (site, _) = apart();
    site.night().expect(0);
    let away = [own(3), own(LIVING)];
    for name in &away {
        site.drop_collection(name);
    }
    let before = row_ids(&site);
    // Of the third user every memory has a copy of itself, so that there is something to be merged.
    let double = "INSERT INTO memory(id, user_id, content, updated_at, created_at)
                  SELECT 'x' || substr(id, 2), user_id, content, updated_at, created_at + 1 FROM memory WHERE user_id = ?1";
    site.rows().execute(double, [user(3)]).unwrap();
    let night = site.at(21).night().expect(3);
    let unread = &night.pass("orphans")["unread"];
    assert_eq!(
        unread[0]["problem"], "its collection of points is missing",
        "{night:#?}"
    );
    assert_eq!(unread.as_array().unwrap().len(), 1, "{night:#?}");
    let after = row_ids(&site);
    for of in [3, LIVING] {
        for number in 0..15 {
            let memory = id(&format!("memory/{of}"), number).to_string();
            assert!(
                before.contains(&memory) && after.contains(&memory),
                "{of} {night:#?}"
            );
        }
    }
    assert!(
        !after.contains(&id(&format!("memory/{}", LIVING + 1), 3).to_string()),
        "the others are swept"
    );
}

/// Without any collection of a user the server is not the one that the configuration means.
#[test]
fn a_server_without_a_collection_of_a_user_is_another_one() {
    let (site, _) = apart();
    for of in 0..LIVING + 3 {
        site.drop_collection(&own(of));
    }
    let before = site.everything();
    let night = site.night().expect(10);
    assert!(
        night.stdout.contains("not found in the vector store"),
        "{night:#?}"
    );
    assert!(site.everything() == before);
}

#[test]
fn pairs_hold_every_collection() {
    let ddl = presets::find("open-webui-collections").unwrap().ddl;
    let site = Site::new("webui.db", ddl, "open-webui-collections", "");
    strangers(&site);
    for of in 0..3 {
        add_user(&site, of);
        site.collection(&own(of), &[]);
        site.put(&own(of), &memories(&site, of, 6, None, false));
    }
    let before = site.everything();
    let taken = site.run(&["snapshot", "now", "--json"]).expect(0);
    let pair = taken.objects("pair")[0]["pair"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(site.everything() == before);
    site.run(&["snapshot", "verify", &pair]).expect(0);

    // One user is erased, one loses a point, and one has come since.
    site.run(&["forget", &format!("user:{}", user(0)), "--yes", "--json"])
        .expect(0);
    let mut erased = site.everything();
    assert!(erased.1[&own(0)].is_empty() && erased.1[&own(1)] == before.1[&own(1)]);
    add_user(&site, 9);
    site.collection(&own(9), &[]);
    site.put(&own(9), &memories(&site, 9, 2, None, false));
    site.put(&own(1), &leftovers(1, 3, None));
    let late = site.points()[&own(9)].clone();

    let restored = site.run(&["snapshot", "restore", &pair, "--json"]);
    let now = site.points();
    // What was erased does not come back; what came later stays, although the pair has no rows for it.
    assert_eq!(restored.code, Some(3), "{restored:#?}");
    let drift = &restored.objects("check")[0]["drift"];
    assert_eq!(drift["point_without_row"], 2, "{restored:#?}");
    assert!(now[&own(0)].is_empty(), "{restored:#?}");
    erased.1.insert(own(9), late);
    assert!(now == erased.1, "{restored:#?}");
}

/// What a user said is in no file of the pair that is taken once he is forgotten, and the others' collections are.
#[test]
fn a_pair_of_every_collection_is_without_the_words_of_who_is_forgotten() {
    let ddl = presets::find("open-webui-collections").unwrap().ddl;
    let site = Site::new("webui.db", ddl, "open-webui-collections", "");
    for of in 0..3 {
        add_user(&site, of);
        site.collection(&own(of), &[]);
        let mut points = memories(&site, of, 6, None, false);
        for (_, payload) in &mut points {
            payload["word"] = json!(format!("zanzibar{of}"));
        }
        site.put(&own(of), &points);
    }
    let shelf = |text: &str| {
        let files = crate::support::files(&site.path("snapshots")).into_values();
        files.filter(|bytes| holds(bytes, text)).count()
    };
    let before = site.points();
    let _ = site.run(&["snapshot", "now"]).expect(0);
    assert_eq!(shelf("zanzibar0"), 1);
    let owner = format!("user:{}", user(0));
    let done = site.run(&["forget", &owner, "--snapshots", "--yes", "--json"]);
    let store = &done.objects("certificate")[0]["stores"][0];
    assert_eq!(done.code, Some(0), "{store:#}");
    let count = |of: usize| shelf(&format!("zanzibar{of}"));
    assert_eq!([0, 1, 2].map(count), [0, 1, 1], "{store:#}");
    let new = store["new_pair"].as_str().unwrap();
    site.run(&["snapshot", "verify", new]).expect(0);
    assert_eq!(site.points().len(), before.len(), "a collection was left");
    site.run(&["snapshot", "restore", new]).expect(0);
    let mut expected = before;
    expected.get_mut(&own(0)).unwrap().clear();
    assert!(site.points() == expected);
    let on_server = crate::support::files(site.peer.dir()).into_values();
    assert_eq!(
        on_server.filter(|bytes| holds(bytes, "zanzibar0")).count(),
        0
    );
}
