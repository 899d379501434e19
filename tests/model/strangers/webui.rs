//! Rows in a database of the application's, points in Qdrant: Open WebUI in both layouts, and OpenMemory of mem0.

use hypnos::config::presets;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::{Case, Recipe, holds, id};
use crate::NOW;
use crate::support::DAY;

const ROWS: &str = "webui.db";
/// The place of a memory's row.
const MEMORY: &str = "webui.db:memory:";
/// Owners of this number and beyond are not in the table of users.
const GONE: usize = 2;

fn user(number: usize) -> String {
    id("user", number)
}

/// A store of Open WebUI on its way.
struct WebUi<'a> {
    case: &'a mut Case,
    db: Connection,
    is_shared: bool,
}

impl WebUi<'_> {
    fn own(&self, of: usize) -> String {
        if self.is_shared {
            "open-webui_memories".to_owned()
        } else {
            format!("open-webui_user-memory-{}", user(of))
        }
    }

    fn payload(&self, text: &str, of: usize) -> Value {
        let mut payload = json!({"text": text, "metadata": {"created_at": NOW - DAY}});
        if self.is_shared {
            payload["tenant_id"] = json!(format!("user-memory-{}", user(of)));
        }
        payload
    }

    fn row(&self, memory: &str, of: Option<usize>, text: &str) {
        let sql = "INSERT INTO memory(id, user_id, content, meta, updated_at, created_at) VALUES(?1, ?2, ?3, '{}', ?4, ?4)";
        let of = of.map(user);
        self.db
            .execute(sql, params![memory, of, text, NOW - DAY])
            .unwrap();
    }

    fn point(&self, memory: &str, of: usize, text: &str, seed: usize) {
        self.case
            .put(&self.own(of), memory, self.payload(text, of), seed);
    }

    fn thing(&mut self, number: usize, kind: u8, of: usize) {
        let memory = id("memory", number);
        let text = format!("fact {number} of person {of}");
        match kind % 8 {
            0 => {
                self.row(&memory, Some(of), &text);
                self.point(&memory, of, &text, number);
                if of >= GONE {
                    self.case.doom(MEMORY, &memory);
                    self.case.doom(&self.own(of), &memory);
                }
            }
            1 => {
                self.row(&memory, Some(of), &text);
                if of >= GONE {
                    self.case.doom(MEMORY, &memory);
                }
            }
            2 => {
                self.point(&memory, of, &text, number);
                self.case.doom(&self.own(of), &memory);
            }
            3 if of < GONE => {
                let twin = id("twin", number);
                for (memory, seed) in [(&memory, number), (&twin, number)] {
                    self.row(memory, Some(of), &text);
                    self.point(memory, of, &text, seed);
                }
                let own = self.own(of);
                let both = [memory.as_str(), twin.as_str()];
                self.case.twins(MEMORY, both, &[&own]);
            }
            // Of nobody: neither its row nor its point is anybody's business.
            4 => self.row(&memory, None, &text),
            5 => self.foreign(number, &memory, of),
            6 => {
                // The point of a deleted memory, and its namesake in another collection.
                self.point(&memory, of, &text, number);
                self.case.doom(&self.own(of), &memory);
                let payload = self.payload(&text, of);
                self.case.put("open-webui_files", &memory, payload, number);
            }
            _ => {
                let (sibling, of) = (self.sibling(number), of % GONE);
                let payload = self.payload("of an older deployment", of);
                self.case.put(&sibling, &memory, payload, number);
            }
        }
    }

    /// A collection that is nearly called as one of ours.
    fn sibling(&self, number: usize) -> String {
        let names = if self.is_shared {
            ["open-webui_memories_old", "my-open-webui_memories"].map(str::to_owned)
        } else {
            [
                format!("old-{}", self.own(0)),
                "open-webui_user-memory-".to_owned(),
            ]
        };
        names[number % 2].clone()
    }

    /// A point of another kind among the memories; where users have their own collections, beside them.
    fn foreign(&self, number: usize, memory: &str, of: usize) {
        let tenant = match number % 6 {
            0 => json!(format!("file-{memory}")),
            1 => json!(memory),
            2 => json!("user-memory-"),
            3 => json!(format!("user:{}", user(of))),
            4 => json!(7),
            _ => Value::Null,
        };
        let payload = json!({"text": "a page", "metadata": {"hash": "h"}, "tenant_id": tenant});
        let collection = if self.is_shared {
            "open-webui_memories"
        } else {
            "open-webui_file-1"
        };
        self.case.put(collection, memory, payload, number);
    }
}

fn open_webui(case: &mut Case, recipe: &Recipe, is_shared: bool) {
    let preset = if is_shared {
        "open-webui"
    } else {
        "open-webui-collections"
    };
    let db = case.database(ROWS, presets::find(preset).unwrap().ddl);
    db.execute_batch(
        "CREATE TABLE chat(id TEXT PRIMARY KEY, user_id TEXT); INSERT INTO chat VALUES('c', 'u')",
    )
    .unwrap();
    case.configure(preset, &format!("path = \"{ROWS}\""), "", "");
    let mut site = WebUi {
        case,
        db,
        is_shared,
    };
    for of in 0..4 {
        if of == 0 || !is_shared {
            let own = site.own(of);
            site.case
                .collection(&own, &["tenant_id"][..usize::from(is_shared)]);
        }
        if of < GONE {
            let sql = "INSERT INTO user(id, email, name, role) VALUES(?1, ?1, 'n', 'user')";
            site.db.execute(sql, [user(of)]).unwrap();
        }
    }
    let siblings = [0, 1].map(|number| site.sibling(number));
    for name in siblings.iter().map(String::as_str).chain([
        "open-webui_files",
        "open-webui_file-1",
        "open-webui_knowledge",
    ]) {
        site.case.collection(name, &[]);
    }
    // Whoever lives has something.
    for number in 0..2 * GONE {
        site.thing(1000 + number, 0, number % GONE);
    }
    for (number, (kind, of)) in recipe.iter().enumerate() {
        site.thing(number, *kind, usize::from(*of));
    }
}

#[test]
fn open_webui_with_one_collection() {
    holds(4, |case, recipe| open_webui(case, recipe, true), true);
}

#[test]
fn open_webui_with_a_collection_for_each_user() {
    holds(4, |case, recipe| open_webui(case, recipe, false), true);
}

const OPENMEMORY: &str = "openmemory.db:memories:";

fn hex(id: &str) -> String {
    id.replace('-', "")
}

/// `YYYY-MM-DD HH:MM:SS.ffffff`, as `SQLAlchemy` writes a time without a zone.
fn time(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap();
    at.strftime("%Y-%m-%d %H:%M:%S.000000").to_string()
}

/// A memory of `OpenMemory`, with what refers to it.
fn openmemory_row(db: &Connection, memory: &str, of: usize, state: &str, text: &str) {
    let (key, owner, app) = (hex(memory), hex(&id("user", of)), hex(&id("app", 0)));
    let deleted = (state == "deleted").then(|| time(NOW - 2 * DAY));
    db.execute(
        "INSERT INTO memories(id, user_id, app_id, content, metadata, state, created_at, updated_at, deleted_at)
         VALUES(?1, ?2, ?3, ?4, '{}', ?5, ?6, ?6, ?7)",
        params![key, owner, app, text, state, time(NOW - 3 * DAY), deleted],
    )
    .unwrap();
    db.execute(
        "INSERT INTO memory_access_logs(id, memory_id, app_id, accessed_at, access_type) VALUES(?1, ?2, ?3, ?4, 'search')",
        params![hex(&id(memory, 1)), key, app, time(NOW - DAY)],
    )
    .unwrap();
    db.execute(
        "INSERT INTO memory_status_history VALUES(?1, ?2, ?3, 'active', ?4, ?5)",
        params![hex(&id(memory, 2)), key, owner, state, time(NOW - 2 * DAY)],
    )
    .unwrap();
}

fn openmemory_thing(case: &mut Case, db: &Connection, number: usize, kind: u8, of: usize) {
    let memory = id("memory", number);
    let (text, of) = (format!("fact {number} of person {of}"), of % GONE);
    let payload = |of: &Value| json!({"data": text, "user_id": of, "hash": "h", "created_at": "2026-05-01T10:00:00-07:00"});
    let name = |of: usize| json!(format!("person-{of}"));
    let put = |case: &Case, collection: &str, of: &Value| {
        case.put(collection, &memory, payload(of), number);
    };
    match kind % 9 {
        kind @ 0..3 => {
            openmemory_row(
                db,
                &memory,
                of,
                ["active", "paused", "archived"][usize::from(kind)],
                &text,
            );
            put(case, "openmemory", &name(of));
        }
        3 => openmemory_row(db, &memory, of, "active", &text),
        4 => {
            openmemory_row(db, &memory, of, "deleted", &text);
            put(case, "openmemory", &name(of));
            case.doom("openmemory/", &memory);
        }
        5 => {
            put(case, "openmemory", &name(of));
            case.doom("openmemory/", &memory);
        }
        6 => {
            let twin = id("twin", number);
            for memory in [&memory, &twin] {
                openmemory_row(db, memory, of, "active", &text);
                case.put("openmemory", memory, payload(&name(of)), number);
            }
            let keys = [hex(&memory), hex(&twin)];
            let places = [
                "openmemory.db:memory_access_logs:",
                "openmemory.db:memory_status_history:",
            ];
            case.twins(OPENMEMORY, [&keys[0], &keys[1]], &places);
            case.twins("openmemory/", [&memory, &twin], &[]);
        }
        7 => put(
            case,
            "openmemory",
            &[json!(7), Value::Null, json!([name(of), "x"])][number % 3],
        ),
        _ => put(
            case,
            ["openmemory_entities", "openmemory2", "mem0migrations"][number % 3],
            &name(of),
        ),
    }
}

fn openmemory(case: &mut Case, recipe: &Recipe) {
    let db = case.database(
        "openmemory.db",
        presets::find("mem0-openmemory").unwrap().ddl,
    );
    case.configure("mem0-openmemory", "path = \"openmemory.db\"", "", "");
    for of in 0..GONE {
        let (key, app) = (hex(&id("user", of)), hex(&id("app", of)));
        db.execute(
            "INSERT INTO users(id, user_id) VALUES(?1, ?2)",
            [&key, &format!("person-{of}")],
        )
        .unwrap();
        db.execute(
            "INSERT INTO apps(id, owner_id, name) VALUES(?1, ?2, 'cursor')",
            [&app, &key],
        )
        .unwrap();
    }
    for name in [
        "openmemory",
        "openmemory_entities",
        "openmemory2",
        "mem0migrations",
    ] {
        case.collection(name, &["user_id"]);
    }
    for number in 0..2 * GONE {
        openmemory_thing(case, &db, 1000 + number, 0, number);
    }
    for (number, (kind, of)) in recipe.iter().enumerate() {
        openmemory_thing(case, &db, number, *kind, usize::from(*of));
    }
}

#[test]
fn openmemory_of_mem0() {
    holds(4, openmemory, true);
}
