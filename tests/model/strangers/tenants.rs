//! Schemas of one's own: every owner in one database or each in a file, some of which nobody can read, and points that
//! share their collection or table with those of others.

use hypnos::config::presets;
use proptest::prelude::*;
use rusqlite::{Connection, params};
use serde_json::json;
use uuid::Uuid;

use super::{Case, Recipe, recipe, vector};
use crate::support::row_stores::blob;
use crate::support::{DAY, open};
use crate::{NOW, alone, check};

const TENANTS: [&str; 4] = ["ana", "bob", "eve", "kim"];

/// What is the matter with the file of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Whole,
    /// Of no bytes.
    Empty,
    /// No database.
    Garbage,
    /// Without the table of memories.
    Tableless,
    /// Held by its application.
    Locked,
    Missing,
}

/// Any but a locked one, for which every pass waits a while.
fn file() -> impl Strategy<Value = File> {
    prop_oneof![
        4 => Just(File::Whole),
        1 => Just(File::Empty),
        1 => Just(File::Garbage),
        1 => Just(File::Tableless),
        1 => Just(File::Missing),
    ]
}

/// A store of one of the four schemas on its way.
struct Own<'a> {
    case: &'a mut Case,
    preset: &'static str,
    is_in_qdrant: bool,
    /// Those whose file can be read.
    readable: Vec<&'static str>,
}

/// `YYYY-MM-DD HH:MM:SS`.
fn datetime(seconds: i64) -> String {
    let at = jiff::Timestamp::from_second(seconds).unwrap();
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn name(of: &str) -> String {
    format!("users/{of}/memory.db")
}

impl Own<'_> {
    fn row_id(&self, number: usize) -> String {
        match self.preset {
            "ttl-days" | "salience" => number.to_string(),
            _ => format!("k-{number}-"),
        }
    }

    /// A row; an expired one where the schema knows of that. Whether it is to go.
    fn row(&self, db: &Connection, of: &str, number: usize, is_expired: bool) -> bool {
        let (id, text) = (self.row_id(number), format!("{of} keeps {number} of them"));
        let (at, long_ago) = (NOW - 20 * DAY, NOW - 19 * DAY);
        match self.preset {
            "ttl-days" => {
                let sql = "INSERT INTO memories(id, user_id, content, content_hash, created_at, ttl_days) VALUES(?1, ?2, ?3, ?1, ?4, ?5)";
                db.execute(sql, params![id, of, text, at, is_expired.then_some(7)])
            }
            "salience" => {
                let sql = "INSERT INTO memories(id, tenant_id, content, memory_type, created_at, accessed_at) VALUES(?1, ?2, ?3, 'fact', ?4, ?4)";
                db.execute(sql, params![id, of, text, at])
            }
            "confirmed" => {
                let sql = "INSERT INTO memory(id, subject, fact, source, created_at, confirmed_at, expires_at) VALUES(?1, 's', ?2, 'c', ?3, ?3, ?4)";
                let expires = is_expired.then(|| datetime(long_ago));
                db.execute(sql, params![id, text, datetime(at), expires])
            }
            _ => {
                let sql = "INSERT INTO memories(id, tenant, kind, content, valid_from, valid_to, ingested_at) VALUES(?1, ?2, 'fact', ?3, ?4, ?5, ?4)";
                let ended = is_expired.then(|| datetime(long_ago));
                db.execute(sql, params![id, of, text, datetime(at), ended])
            }
        }
        .unwrap();
        is_expired && matches!(self.preset, "ttl-days" | "confirmed")
    }

    fn point(&self, namespace: &str, number: usize) -> String {
        let id = self.row_id(number);
        let key = if self.preset == "bitemporal" {
            format!("{namespace}/{id}")
        } else {
            format!("{namespace}::{id}")
        };
        let point = Uuid::new_v5(&Uuid::NAMESPACE_DNS, key.as_bytes()).to_string();
        self.put("memories", &point, &json!(namespace), number);
        point
    }

    fn put(&self, place: &str, point: &str, namespace: &serde_json::Value, seed: usize) {
        if self.is_in_qdrant {
            let payload = json!({"namespace": namespace, "more": {"a": [1, null]}});
            return self.case.put(place, point, payload, seed);
        }
        let sql = format!("INSERT INTO \"{place}\" VALUES(?1, ?2, ?3, '{{}}')");
        let (db, vector) = (open(&self.case.path("vectors.db")), blob(&vector(seed)));
        db.execute(&sql, params![point, namespace.as_str(), vector])
            .unwrap();
    }

    /// Where the points are.
    fn place(&self) -> &'static str {
        if self.is_in_qdrant {
            "memories/"
        } else {
            "vectors.db:memories:"
        }
    }

    fn thing(&mut self, number: usize, kind: u8, of: u8) {
        let of = TENANTS[usize::from(of)];
        let namespace = format!("user:{of}");
        let is_readable = self.readable.contains(&of);
        let row = self.row_id(number);
        match kind % 6 {
            kind @ 0..3 => {
                let point = self.point(&namespace, number);
                if !is_readable {
                    return;
                }
                let db = open(&self.case.path(&name(of)));
                let goes = self.row(&db, of, number, kind == 2);
                if goes {
                    let mark = if self.preset == "ttl-days" {
                        format!("{}:memories: Integer({row}) ", name(of))
                    } else {
                        format!("{}:memory: \"{row}\" ", name(of))
                    };
                    self.case.doom(&mark, "");
                    self.case.doom(self.place(), &point);
                }
            }
            3 => {
                let point = self.point(&namespace, number);
                // Without an owners table nothing is swept.
                if is_readable && self.preset == "ttl-days" {
                    self.case.doom(self.place(), &point);
                }
            }
            4 => {
                let others = ["team:acme", "world:all", "user", "", ":x", "agent:ana"];
                let point = Uuid::from_u64_pair(number as u64, 7).to_string();
                let other = match (number % 7, self.is_in_qdrant) {
                    (6, _) => serde_json::Value::Null,
                    (5, true) => json!([namespace, "user:zoe"]),
                    (other, _) => json!(others[other]),
                };
                self.put("memories", &point, &other, number);
            }
            _ => {
                let point = Uuid::from_u64_pair(number as u64, 9).to_string();
                let sibling = ["memories_old", "memories2"][number % 2];
                self.put(sibling, &point, &json!(namespace), number);
            }
        }
    }
}

fn build(
    case: &mut Case,
    preset: &'static str,
    files: [File; 4],
    things: &Recipe,
    is_in_qdrant: bool,
) -> Vec<Connection> {
    let ddl = presets::find(preset).unwrap().ddl;
    let vectors = "namespace = \"user:{tenant}\"\ncollection = \"memories\"\npoint_id = \"uuid5(dns, {namespace}::{id})\"";
    let places = ["memories", "memories_old", "memories2"];
    for place in places {
        if is_in_qdrant {
            case.collection(place, &["namespace"]);
        }
    }
    if !is_in_qdrant {
        let tables = places.map(|place| {
            format!("CREATE TABLE {place}(id TEXT PRIMARY KEY, namespace TEXT, vector BLOB NOT NULL, payload TEXT);")
        });
        case.database("vectors.db", &tables.concat());
    }
    let vectors = match (is_in_qdrant, preset) {
        (true, "bitemporal") => vectors.replace("::", "/"),
        (true, _) => vectors.to_owned(),
        (false, _) => {
            let separator = if preset == "bitemporal" { "/" } else { "::" };
            format!(
                "path = \"vectors.db\"\ntable = \"memories\"\nnamespace = \"user:{{tenant}}\"\npoint_id = \"uuid5(dns, {{namespace}}{separator}{{id}})\""
            )
        }
    };
    let has_owners = preset == "ttl-days";
    let owners = if has_owners {
        let users = case.database(
            "users.db",
            "CREATE TABLE users(id TEXT PRIMARY KEY, deleted_at INTEGER)",
        );
        for tenant in TENANTS {
            users
                .execute("INSERT INTO users VALUES(?1, NULL)", [tenant])
                .unwrap();
        }
        "[store.owners]\npath = \"users.db\"\n"
    } else {
        ""
    };
    case.configure(
        preset,
        "path = \"users/{tenant}/memory.db\"",
        &vectors,
        owners,
    );
    let mut locks = Vec::new();
    let mut readable = Vec::new();
    for (tenant, file) in TENANTS.into_iter().zip(files) {
        let path = case.path(&name(tenant));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match file {
            File::Whole => {
                let _ = case.database(&name(tenant), ddl);
                readable.push(tenant);
            }
            File::Empty => case.opaque(&name(tenant), ""),
            File::Garbage => case.opaque(&name(tenant), &"this is no database ".repeat(300)),
            File::Tableless => {
                let _ = case.database(
                    &name(tenant),
                    "CREATE TABLE notes(id INTEGER PRIMARY KEY); INSERT INTO notes VALUES(1)",
                );
            }
            File::Locked => locks.push(case.locked(&name(tenant), ddl)),
            File::Missing => {}
        }
    }
    let mut own = Own {
        case,
        preset,
        is_in_qdrant,
        readable,
    };
    for number in 0..8 {
        own.thing(1000 + number, 0, u8::try_from(number % 4).unwrap());
    }
    for (number, (kind, of)) in things.iter().enumerate() {
        own.thing(number + 1, *kind, *of);
    }
    locks
}

fn nights(
    preset: &'static str,
    files: [File; 4],
    things: &Recipe,
    is_in_qdrant: bool,
) -> Result<(), TestCaseError> {
    let mut case = Case::new(is_in_qdrant);
    let _locks = build(&mut case, preset, files, things, is_in_qdrant);
    case.nights()
}

fn holds(preset: &'static str) {
    let _alone = alone();
    // Nobody lets go of a file here.
    hypnos::failpoint::shorten_patience(std::time::Duration::from_millis(100));
    let files = [file(), file(), file(), file()];
    check(
        4,
        &(recipe(), files, prop::bool::ANY),
        |(things, files, is_in_qdrant)| nights(preset, files, &things, is_in_qdrant),
    );
    // Half of the tenants cannot be read.
    let files = [File::Whole, File::Locked, File::Empty, File::Whole];
    let things: Vec<_> = (0..24).map(|n| (n, n % 4)).collect();
    nights(preset, files, &things, true).unwrap();
}

#[test]
fn of_ttl_days() {
    holds("ttl-days");
}

#[test]
fn of_salience() {
    holds("salience");
}

#[test]
fn of_confirmed() {
    holds("confirmed");
}

#[test]
fn of_bitemporal() {
    holds("bitemporal");
}
