//! A mapping proposed for a schema that nobody knows.
//!
//! Mechanics: the table whose name and columns most look like memories, and for each role the column of a usual name.
//! How times are written is told from the values.
//!
//! Policy: this is a proposal for a person to read. A wrong column would expire the wrong memories, so nothing that is
//! written from here is acted on before somebody has said that it is right.

use std::collections::BTreeSet;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value};

use super::draft::Keys;
use super::shape;

/// The mapping of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    /// What is proposed for `[store.rows]`.
    pub(super) guesses: Vec<Guess>,
    /// The namespace of all rows, where no column names an owner.
    pub(super) namespace: Option<&'static str>,
}

/// One key of `[store.rows]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) key: &'static str,
    pub(super) value: String,
    /// What speaks for it.
    pub(super) why: &'static str,
}

/// Ways in which the id of a point may follow from its row.
pub(super) const RULES: &[&str] = &[
    "uuid(id)",
    "integer(id)",
    "uuid5(dns, {namespace}::{id})",
    "uuid5(dns, {id})",
];

/// Payload keys that may name the owner of a point.
const NAMESPACE_KEYS: [&str; 5] = ["namespace", "user_id", "tenant_id", "tenant", "owner"];

const CONTENTS: &[&str] = &[
    "content",
    "text",
    "memory",
    "fact",
    "body",
    "note",
    "observation",
    "value",
    "summary",
    "message",
    "data",
];
const TENANTS: &[&str] = &[
    "user_id",
    "tenant_id",
    "tenant",
    "owner_id",
    "owner",
    "account_id",
    "user",
    "agent_id",
];
const TEXT_ROLES: [(&str, &[&str]); 4] = [
    ("type", &["memory_type", "type", "kind", "category"]),
    ("superseded_by", &["superseded_by", "replaced_by"]),
    (
        "uses",
        &["access_count", "use_count", "uses", "recall_count"],
    ),
    ("source", &["source", "origin"]),
];
const TIME_ROLES: [(&str, &[&str]); 6] = [
    (
        "created_at",
        &[
            "created_at",
            "created",
            "createdat",
            "inserted_at",
            "created_time",
            "timestamp",
        ],
    ),
    (
        "updated_at",
        &["updated_at", "updated", "updatedat", "modified_at"],
    ),
    (
        "last_used_at",
        &[
            "last_used_at",
            "last_accessed_at",
            "last_accessed",
            "accessed_at",
            "last_used",
            "last_seen_at",
        ],
    ),
    ("confirmed_at", &["confirmed_at", "verified_at"]),
    (
        "expires_at",
        &["expires_at", "expires", "expiry", "expiration", "expire_at"],
    ),
    ("deleted_at", &["deleted_at", "removed_at"]),
];
/// Parts of the names of tables that hold memories.
const TABLES: [&str; 5] = ["memor", "fact", "observation", "knowledge", "note"];

/// From how much on a table is taken for memories.
const ENOUGH: u32 = 5;

/// Proposes a mapping; `None` when no table looks like memories.
pub(super) fn mapping(database: &Connection) -> rusqlite::Result<Option<Mapping>> {
    let shape = shape::read(database)?;
    let mut best = None::<(u32, Mapping)>;
    for table in shape.tables.keys() {
        let Some(table) = Table::read(database, table)? else {
            continue;
        };
        let weight = table.weight();
        if weight >= ENOUGH && best.as_ref().is_none_or(|(before, _)| weight > *before) {
            best = Some((weight, table.mapping(database)?));
        }
    }
    Ok(best.map(|(_, mapping)| mapping))
}

/// A table with a key and a text.
struct Table {
    name: String,
    id: String,
    content: String,
    columns: Vec<(String, String)>,
}

impl Table {
    /// `None` for a table without a key of one column, or without a text.
    fn read(database: &Connection, name: &str) -> rusqlite::Result<Option<Self>> {
        let mut statement =
            database.prepare("SELECT name, lower(type), pk FROM pragma_table_info(?1)")?;
        let rows =
            statement.query_map([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        // A virtual table whose module is not there has no columns to read.
        let Ok(columns) = rows.collect::<rusqlite::Result<Vec<(String, String, i64)>>>() else {
            return Ok(None);
        };
        let mut keys = columns
            .iter()
            .filter(|(.., pk)| *pk > 0)
            .map(|(name, ..)| name.clone());
        let (Some(id), None) = (keys.next(), keys.next()) else {
            return Ok(None);
        };
        let columns: Vec<(String, String)> = columns
            .into_iter()
            .map(|(name, declared, _)| (name, declared))
            .collect();
        let is_text = |declared: &str| {
            declared.is_empty()
                || ["char", "text", "clob", "json", "string"]
                    .iter()
                    .any(|kind| declared.contains(kind))
        };
        let content = CONTENTS.iter().find_map(|wanted| {
            columns
                .iter()
                .find(|(name, declared)| name.eq_ignore_ascii_case(wanted) && is_text(declared))
        });
        let content = content
            .map(|(name, _)| name.clone())
            .filter(|content| *content != id);
        Ok(content.map(|content| Self {
            name: name.to_owned(),
            id,
            content,
            columns,
        }))
    }

    fn column(&self, names: &[&str]) -> Option<&str> {
        let column_of = |wanted: &&str| {
            let mut columns = self.columns.iter();
            columns.find(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        let found = names.iter().find_map(column_of);
        found.map(|(name, _)| name.as_str())
    }

    fn weight(&self) -> u32 {
        let has_name = TABLES.iter().any(|part| self.name.contains(part));
        let roles = [TENANTS, TIME_ROLES[0].1];
        let found = roles
            .iter()
            .filter(|names| self.column(names).is_some())
            .count();
        3 + 3 * u32::from(has_name) + u32::try_from(found).unwrap_or_default()
    }

    fn mapping(&self, database: &Connection) -> rusqlite::Result<Mapping> {
        let guess = |key, value: &str, why| Guess {
            key,
            value: value.to_owned(),
            why,
        };
        let mut guesses = vec![
            guess(
                "table",
                &self.name,
                "its name and columns look like memories",
            ),
            guess("id", &self.id, "the primary key"),
            guess("content", &self.content, "named like a text"),
        ];
        let tenant = self.column(TENANTS);
        guesses.extend(tenant.map(|column| guess("tenant", column, "named like an owner")));
        for (key, names) in TEXT_ROLES {
            guesses.extend(
                self.column(names)
                    .map(|column| guess(key, column, "by its name")),
            );
        }
        for (key, names) in TIME_ROLES {
            if let Some(column) = self.column(names) {
                let encoding = encoding(database, &self.name, column)?;
                guesses.push(guess(
                    key,
                    &format!("{column}:{encoding}"),
                    "by its name and some values",
                ));
            }
        }
        Ok(Mapping {
            guesses,
            namespace: tenant.is_none().then_some("user:default"),
        })
    }
}

/// How the times of a column are written, by some of them.
fn encoding(database: &Connection, table: &str, column: &str) -> rusqlite::Result<&'static str> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let sql = format!(
        "SELECT {0} FROM {1} WHERE {0} IS NOT NULL LIMIT 50",
        quoted(column),
        quoted(table)
    );
    let mut statement = database.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut seen = BTreeSet::new();
    while let Some(row) = rows.next()? {
        seen.insert(match row.get_ref(0)? {
            ValueRef::Integer(value) if value.unsigned_abs() > 100_000_000_000 => "epoch_ms",
            ValueRef::Integer(_) => "epoch_s",
            ValueRef::Real(_) => "epoch_f",
            ValueRef::Text(_) => "text",
            ValueRef::Null | ValueRef::Blob(_) => "auto",
        });
    }
    let mut seen = seen.into_iter();
    Ok(match (seen.next(), seen.next()) {
        (Some(only), None) => only,
        _ => "auto",
    })
}

/// What may be said of a collection whose points have these payloads: each way to tell the id, with the key of the owner.
pub(super) fn point_keys(payloads: &[Map<String, Value>]) -> Vec<Keys> {
    let has = |key: &&&str| payloads.iter().any(|payload| payload.contains_key(**key));
    let owner = NAMESPACE_KEYS
        .iter()
        .find(has)
        .copied()
        .unwrap_or("namespace");
    let keys = |rule: &&str| {
        vec![
            ("namespace_key", owner.to_owned()),
            ("point_id", (*rule).to_owned()),
        ]
    };
    RULES.iter().map(keys).collect()
}
