//! Fingerprints: what a store is recognised by, as data in the file of its preset.
//!
//! ```toml
//! [fingerprint]
//! absent = ["working_memory"]                  # tables that must not be there
//! ddl = ["memory_embeddings using vec0("]      # what a statement of the schema says
//! payload = "data, created_at | createdAt, hash?, !linked_memory_ids"
//! payload_md5 = { hash = "data" }              # a key that is the MD5 of the text under another one
//! collection = "*_user-memory-{tenant}"        # how its collection is called
//! [fingerprint.tables]
//! memories = "id integer, content_hash, content, version?, !embedding_json"
//! "vectors | openmemory_vectors" = "id, sector, v"
//! ```
//!
//! A list names columns (or keys of a payload) in the way a schema does: `name`, or `name type`; `?` behind it says that
//! it may be there, `!` before it that it must not, `|` that one of several names will do; `""` asks for the table
//! alone. What is not named may be there: newer versions add columns. Names are compared without regard to case; a
//! payload key may be a path, `metadata.source`. `ddl` is looked for in statements without quotes, in lower case and
//! with single spaces.
//!
//! For a store without rows in `SQLite`, `tables` are those of the log that it keeps beside its points.
//!
//! Policy: everything that must be there is there, or it is another store. Two names in common make no fingerprint:
//! many programs have a table `memories`.

use std::collections::{BTreeMap, BTreeSet};

use md5::{Digest as _, Md5};
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

/// Hexadecimal digits of an MD5.
const DIGITS: usize = 32;

/// What a store is recognised by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint {
    tables: Vec<(Names, Vec<Mark>)>,
    absent: Vec<String>,
    ddl: Vec<String>,
    payload: Vec<Mark>,
    /// A payload key, and that of the text of which it is the MD5.
    digest: Option<(String, String)>,
    collection: Option<Pattern>,
    files: Vec<String>,
    is_encrypted: bool,
}

/// One of several names.
type Names = Vec<String>;

/// A column or a key, and whether it must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    names: Names,
    /// The declared type that it must have, in lower case.
    declared: Option<String>,
    presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Must,
    May,
    MustNot,
}

/// What a database holds, as far as fingerprints ask. All names are in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    /// The columns of each table with their declared types. Those of a virtual table whose module is not there are not
    /// known.
    pub tables: BTreeMap<String, BTreeMap<String, String>>,
    /// The statements that made tables, indexes and triggers, as [`normal_sql`] writes them.
    pub statements: Vec<String>,
}

/// How well something fits a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// All that must be there is. The number of marks that were found says how much that means.
    Yes(usize),
    /// This is missing, or is there and must not be: at least one of them.
    No(Vec<String>),
}

impl Fingerprint {
    /// Reads the `[fingerprint]` table of a preset.
    ///
    /// # Errors
    ///
    /// What is wrong with it: a key that is not known, a value that is none, or a fingerprint that everything fits.
    pub fn read(table: &Table) -> Result<Self, String> {
        let mut fingerprint = Self::default();
        for (key, value) in table {
            let wrong = || format!("fingerprint.{key}");
            match key.as_str() {
                "tables" => {
                    for (names, columns) in value.as_table().ok_or_else(wrong)? {
                        let columns =
                            marks(columns).ok_or_else(|| format!("{}.{names}", wrong()))?;
                        fingerprint.tables.push((alternatives(names), columns));
                    }
                }
                "absent" => fingerprint.absent = texts(value).ok_or_else(wrong)?,
                "ddl" => fingerprint.ddl = texts(value).ok_or_else(wrong)?,
                "files" => fingerprint.files = texts(value).ok_or_else(wrong)?,
                "payload" => fingerprint.payload = marks(value).ok_or_else(wrong)?,
                "payload_md5" => fingerprint.digest = Some(pair(value).ok_or_else(wrong)?),
                "collection" => {
                    let pattern = value.as_str().and_then(Pattern::parse);
                    fingerprint.collection = Some(pattern.ok_or_else(wrong)?);
                }
                "encrypted" => fingerprint.is_encrypted = value.as_bool().ok_or_else(wrong)?,
                _ => return Err(wrong()),
            }
        }
        let has_marks = fingerprint.has_tables()
            || must(&fingerprint.payload)
            || !fingerprint.files.is_empty()
            || fingerprint.is_encrypted;
        has_marks
            .then_some(fingerprint)
            .ok_or_else(|| "fingerprint: everything fits it".to_owned())
    }

    /// Whether a database can be recognised by it.
    #[must_use]
    pub fn has_tables(&self) -> bool {
        self.tables.iter().any(|(_, columns)| must(columns)) || !self.ddl.is_empty()
    }

    /// Whether a payload can be recognised by it.
    #[must_use]
    pub fn has_payload(&self) -> bool {
        must(&self.payload)
    }

    /// How the collections of the store are called; `None` where they have any name.
    #[must_use]
    pub fn collection(&self) -> Option<&Pattern> {
        self.collection.as_ref()
    }

    /// The paths that a folder must have, where the store is a folder.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Whether it is a database that nobody can read without a key.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// How well a database fits.
    #[must_use]
    pub fn fit(&self, shape: &Shape) -> Fit {
        let (mut found, mut amiss) = (0, Vec::new());
        if !self.has_tables() {
            amiss.push("tables to know it by".to_owned());
        }
        for (names, columns) in &self.tables {
            let Some((name, there)) = names
                .iter()
                .find_map(|name| shape.tables.get_key_value(name))
            else {
                amiss.push(format!("table {}", names.join(" or ")));
                continue;
            };
            found += 1 + weigh(
                columns,
                |name| there.get(name).map(String::as_str),
                &mut amiss,
                |column| format!("column {name}.{column}"),
            );
        }
        for name in self
            .absent
            .iter()
            .filter(|name| shape.tables.contains_key(*name))
        {
            amiss.push(format!("no table {name}"));
        }
        for text in &self.ddl {
            if shape
                .statements
                .iter()
                .any(|statement| statement.contains(text))
            {
                found += 1;
            } else {
                amiss.push(format!("a statement with {text:?}"));
            }
        }
        verdict(found, amiss)
    }

    /// The tables that this database calls otherwise than the preset does, which uses the first of several names: that
    /// name, and the one that is there.
    #[must_use]
    pub fn renamed(&self, shape: &Shape) -> Vec<(String, String)> {
        let mut renamed = Vec::new();
        for (names, _) in &self.tables {
            let there = names
                .iter()
                .position(|name| shape.tables.contains_key(name));
            if let Some(position) = there.filter(|position| *position > 0) {
                renamed.push((names[0].clone(), names[position].clone()));
            }
        }
        renamed
    }

    /// How well a point fits whose payload has these keys and paths.
    #[must_use]
    pub fn fit_payload(&self, keys: &BTreeSet<String>) -> Fit {
        let mut amiss = Vec::new();
        if !self.has_payload() {
            amiss.push("keys to know it by".to_owned());
        }
        let there = |name: &str| keys.contains(name).then_some("");
        let found = weigh(&self.payload, there, &mut amiss, |key| format!("key {key}"));
        verdict(found, amiss)
    }

    /// Whether the digest in a payload is that of its text; `None` where it has not both, or the fingerprint tells
    /// nothing of it.
    #[must_use]
    pub fn fits_digest(&self, payload: &Map<String, Json>) -> Option<bool> {
        let (key, of) = self.digest.as_ref()?;
        let digest = payload.get(key)?.as_str()?;
        let text = payload.get(of)?.as_str()?;
        let own = u128::from_be_bytes(Md5::digest(text).into());
        Some(digest.len() == DIGITS && u128::from_str_radix(digest, 16) == Ok(own))
    }
}

fn verdict(found: usize, amiss: Vec<String>) -> Fit {
    if amiss.is_empty() {
        Fit::Yes(found)
    } else {
        Fit::No(amiss)
    }
}

/// How many of the marks are there; what speaks against them is added to `amiss`.
fn weigh<'a>(
    marks: &[Mark],
    there: impl Fn(&str) -> Option<&'a str>,
    amiss: &mut Vec<String>,
    call: impl Fn(&str) -> String,
) -> usize {
    let mut found = 0;
    for mark in marks {
        let as_declared = |declared: &&str| {
            mark.declared
                .as_ref()
                .is_none_or(|wanted| wanted == declared)
        };
        let is_there = mark
            .names
            .iter()
            .filter_map(|name| there(name))
            .any(|declared| as_declared(&declared));
        let name = mark.names.join(" or ");
        match (mark.presence, is_there) {
            (Presence::Must | Presence::May, true) => found += 1,
            (Presence::Must, false) => amiss.push(call(&name)),
            (Presence::MustNot, true) => amiss.push(format!("no {}", call(&name))),
            (Presence::May | Presence::MustNot, false) => {}
        }
    }
    found
}

fn must(marks: &[Mark]) -> bool {
    marks.iter().any(|mark| mark.presence == Presence::Must)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter();
    items
        .map(|item| item.as_str().map(str::to_lowercase))
        .collect()
}

/// The only key of a table, and its text.
fn pair(value: &Value) -> Option<(String, String)> {
    let mut entries = value.as_table()?.iter();
    let (key, of) = entries.next()?;
    let is_only = entries.next().is_none();
    is_only.then_some((key.clone(), of.as_str()?.to_owned()))
}

fn marks(value: &Value) -> Option<Vec<Mark>> {
    match value.as_str()?.trim() {
        "" => Some(Vec::new()),
        marks => marks.split(',').map(mark).collect(),
    }
}

/// `name`, `name type`, `a | b`, with `?` behind it or `!` before it.
fn mark(text: &str) -> Option<Mark> {
    let text = text.trim();
    let (presence, text) = match (text.strip_prefix('!'), text.strip_suffix('?')) {
        (Some(_), Some(_)) => return None,
        (Some(text), None) => (Presence::MustNot, text),
        (None, Some(text)) => (Presence::May, text),
        (None, None) => (Presence::Must, text),
    };
    let (names, declared) = match text.trim().split_once(' ') {
        Some((name, declared)) if !text.contains('|') => {
            (alternatives(name), Some(declared.to_lowercase()))
        }
        _ => (alternatives(text), None),
    };
    let is_name = |name: &String| !name.is_empty() && !name.contains([' ', '!', '?']);
    names.iter().all(is_name).then_some(Mark {
        names,
        declared,
        presence,
    })
}

fn alternatives(names: &str) -> Names {
    names
        .split('|')
        .map(|name| name.trim().to_lowercase())
        .collect()
}

/// A statement without quotes, in lower case and with single spaces.
#[must_use]
pub fn normal_sql(sql: &str) -> String {
    let plain: String = sql
        .chars()
        .filter(|c| !matches!(c, '"' | '`' | '[' | ']'))
        .collect();
    plain
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

/// How collections are called: `openmemory`, `*_memories`, `*_user-memory-{tenant}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Whether anything may stand before it.
    is_open: bool,
    rest: String,
    /// What stands after `{tenant}`.
    after_tenant: Option<String>,
}

impl Pattern {
    /// Reads `[*]text[{tenant}[text]]`.
    fn parse(text: &str) -> Option<Self> {
        let (is_open, text) = match text.strip_prefix('*') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (rest, after_tenant) = match text.split_once("{tenant}") {
            Some((rest, after)) => (rest, Some(after.to_owned())),
            None => (text, None),
        };
        let is_plain = |text: &str| !text.contains(['*', '{', '}']);
        let is_sound =
            !rest.is_empty() && is_plain(rest) && after_tenant.as_deref().is_none_or(is_plain);
        is_sound.then(|| Self {
            is_open,
            rest: rest.to_owned(),
            after_tenant,
        })
    }

    /// The name or template that a collection of this name belongs to: the `*` as it is spelt there, `{tenant}` as it
    /// is. `None` for a collection that is called otherwise.
    #[must_use]
    pub fn template(&self, collection: &str) -> Option<String> {
        let at = match (self.is_open, &self.after_tenant) {
            (true, Some(_)) => collection.find(&self.rest)?,
            (true, None) => collection.len().checked_sub(self.rest.len())?,
            (false, _) => 0,
        };
        if !collection.get(at..)?.starts_with(&self.rest) {
            return None;
        }
        let (before, after) = (&collection[..at], &collection[at + self.rest.len()..]);
        match &self.after_tenant {
            None => after.is_empty().then(|| collection.to_owned()),
            Some(end) => {
                let tenant = after.strip_suffix(end.as_str())?;
                (!tenant.is_empty()).then(|| format!("{before}{}{{tenant}}{end}", self.rest))
            }
        }
    }
}

#[cfg(test)]
mod tests;
