//! What tells one pair of stores from another, so that what was begun on one is never finished on another.
//!
//! Written beside every intent. A part that an older hypnos did not record is not compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::config::{self, Backend, Origin, PointRule, Source};
use crate::memory::Role;
use crate::plan::PlanHash;

/// The parts that say where rows and points are.
const PLACE: [&str; 7] = [
    "rows.path",
    "rows.table",
    "vectors.kind",
    "vectors.url",
    "vectors.path",
    "vectors.table",
    "vectors.collection",
];

/// Where the rows and points of a store are, and how one leads to the other: the parts of its configuration that name
/// them, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Identity(BTreeMap<String, String>);

impl Identity {
    /// The identity of a store as it is configured now.
    #[must_use]
    pub fn of(store: &config::Store) -> Self {
        let mut identity = Self::default();
        let rows = &store.rows;
        // Where points are the rows, what the vectors are says it all.
        if !rows.are_points() {
            identity.set("rows.path", &rows.path);
        }
        identity.set("rows.table", &rows.table);
        identity.set("rows.id", &rows.id.join(", "));
        identity.set("rows.namespace", &rows.namespace);
        identity.set(
            "rows.tenant",
            &rows.tenant.as_ref().map_or_else(String::new, spelled),
        );
        for (name, condition) in [("rows.where", &rows.filter), ("rows.live", &rows.live)] {
            if let Some(condition) = condition {
                identity.set(name, &spelled(condition));
            }
        }
        // What marks are written to.
        for (name, role) in [
            ("rows.valid_to", Role::ValidTo),
            ("rows.deleted_at", Role::DeletedAt),
            ("rows.superseded_by", Role::SupersededBy),
            ("rows.confirmed_at", Role::ConfirmedAt),
        ] {
            identity.set(name, &rows.source(role).map_or_else(String::new, spelled));
        }
        match &store.vectors {
            None => identity.set("vectors.kind", "none"),
            Some(vectors) => identity.set_vectors(vectors),
        }
        identity
    }

    fn set_vectors(&mut self, vectors: &config::Vectors) {
        match &vectors.backend {
            Backend::Qdrant(qdrant) => {
                self.set("vectors.kind", "qdrant");
                self.set("vectors.url", &qdrant.url);
                self.set("vectors.collection", &qdrant.collection);
                if !qdrant.filter.is_empty() {
                    self.set("vectors.where", &qdrant.filter.to_string());
                }
            }
            Backend::Sqlite(table) => {
                self.set("vectors.kind", "sqlite");
                self.set("vectors.path", &table.path.display().to_string());
                self.set("vectors.table", &table.table);
                self.set("vectors.id", &table.id.join(", "));
            }
        }
        self.set("vectors.namespace_key", &vectors.namespace_key);
        if let Some(spelling) = &vectors.spelling {
            self.set("vectors.namespace_value", &spelling.value);
        }
        self.set("vectors.point_id", &rule(&vectors.point_id));
    }

    /// Where the rows and points are, and no more: the parts that a correction of the mapping leaves as they are.
    #[must_use]
    pub fn place(&self) -> Self {
        let parts = self.0.iter();
        let parts = parts.filter(|(part, _)| PLACE.contains(&part.as_str()));
        Self(parts.map(|(part, is)| (part.clone(), is.clone())).collect())
    }

    /// What has moved since a place was recorded. Points that a store of rows has got, or has no more, have not.
    #[must_use]
    pub fn moves_since(&self, then: &Self) -> Vec<String> {
        let has_rows = |place: &Self| place.0.contains_key("rows.path");
        let has_points = |place: &Self| {
            place
                .0
                .get("vectors.kind")
                .is_none_or(|kind| kind != "none")
        };
        if !has_rows(self) || !has_rows(then) || (has_points(self) && has_points(then)) {
            return self.changes_since(then);
        }
        let mut rows = then.clone();
        rows.0.retain(|part, _| part.starts_with("rows."));
        self.changes_since(&rows)
    }

    /// The name of the step from where a store was to where it is now, for a person to accept.
    #[must_use]
    pub fn move_hash(&self, then: &Self, store: &str) -> PlanHash {
        PlanHash::of(Sha256::new_with_prefix(format!(
            "move {store:?} {:?} {:?}",
            then.0, self.0
        )))
    }

    fn set(&mut self, part: &str, value: &str) {
        self.0.insert(part.to_owned(), value.to_owned());
    }

    /// What is not as it was when `then` was recorded: `rows.table was "memories" and is "notes"`.
    #[must_use]
    pub fn changes_since(&self, then: &Self) -> Vec<String> {
        let changed = then.0.iter().filter_map(|(part, was)| {
            let is = self.0.get(part);
            (is != Some(was)).then(|| match is {
                Some(is) => format!("{part} was {was:?} and is {is:?}"),
                None => format!("{part} was {was:?} and is not set"),
            })
        });
        changed.collect()
    }
}

/// A source as far as it says what a value is read from, and written to.
fn spelled(source: &Source) -> String {
    match &source.origin {
        Origin::Column(column) => column.clone(),
        Origin::Json { column, path } => format!("{column}:json({path})"),
        Origin::Sql(expression) => format!("sql({expression})"),
    }
}

fn rule(rule: &PointRule) -> String {
    match rule {
        PointRule::Integer => "integer(id)".into(),
        PointRule::Uuid => "uuid(id)".into(),
        PointRule::Uuid5 {
            namespace,
            template,
        } => format!("uuid5({namespace}, {template})"),
        PointRule::Column(column) => format!("column({column})"),
        PointRule::Payload { key, template } => format!("payload({key}, {template})"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Env, parse};

    const STORE: &str = r#"
        [[store]]
        name = "agent"
        [store.rows]
        path = "/data/memory.db"
        preset = "ttl-days"
        [store.vectors]
        kind = "sqlite"
        path = "/data/vectors.db"
        point_id = "uuid5(dns, {namespace}::{id})"
    "#;

    fn identity(text: &str) -> Identity {
        let config = parse(text, Path::new("/etc/hypnos.toml"), &Env::default()).unwrap();
        Identity::of(&config.stores[0])
    }

    #[test]
    fn what_changed_is_named_with_what_it_was() {
        let then = identity(STORE);
        assert_eq!(identity(STORE).changes_since(&then), [""; 0]);
        for (from, to, change) in [
            (
                "/memory.db",
                "/other.db",
                "rows.path was \"/data/memory.db\" and is \"/data/other.db\"",
            ),
            (
                "\"ttl-days\"",
                "\"ttl-days\"\ntable = \"t\"",
                "rows.table was \"memories\" and is \"t\"",
            ),
            (
                "\"ttl-days\"",
                "\"ttl-days\"\nid = \"k\"",
                "rows.id was \"id\" and is \"k\"",
            ),
            (
                "/vectors.db",
                "/v.db",
                "vectors.path was \"/data/vectors.db\" and is \"/data/v.db\"",
            ),
            (
                "uuid5(dns, {namespace}::{id})",
                "integer(id)",
                "and is \"integer(id)\"",
            ),
        ] {
            let changes = identity(&STORE.replace(from, to)).changes_since(&then);
            assert_eq!(changes.len(), 1, "{changes:?}");
            assert!(changes[0].contains(change), "{changes:?}");
        }
        // How long a run keeps what, and what else a column means, makes no other store of it.
        let other = format!("{STORE}\n[store.pass.ttl]\nenabled = false\n");
        assert_eq!(identity(&other).changes_since(&then), [""; 0]);
    }

    #[test]
    fn another_file_or_table_is_another_place_and_a_corrected_mapping_is_not() {
        let then = identity(STORE).place();
        for (from, to, is_moved) in [
            ("/memory.db", "/other.db", true),
            ("\"ttl-days\"", "\"ttl-days\"\ntable = \"t\"", true),
            ("/vectors.db", "/v.db", true),
            ("\"ttl-days\"", "\"ttl-days\"\nid = \"k\"", false),
            ("\"ttl-days\"", "\"ttl-days\"\nwhere = \"live\"", false),
            ("uuid5(dns, {namespace}::{id})", "integer(id)", false),
        ] {
            let changes = identity(&STORE.replace(from, to)).place();
            let changes = changes.changes_since(&then);
            assert_eq!(!changes.is_empty(), is_moved, "{to}: {changes:?}");
        }
    }

    #[test]
    fn a_part_that_was_not_recorded_is_not_compared() {
        assert_eq!(identity(STORE).changes_since(&Identity::default()), [""; 0]);
    }

    #[test]
    fn a_store_that_gets_points_or_loses_them_has_not_moved() {
        let with = identity(STORE).place();
        let table = STORE.find("[store.vectors]").unwrap();
        let without = identity(&format!(
            "{}[store.vectors]\nkind = \"none\"",
            &STORE[..table]
        ))
        .place();
        assert_eq!(with.moves_since(&without), [""; 0]);
        assert_eq!(without.moves_since(&with), [""; 0]);
        let elsewhere =
            |text: &str, from: &str| identity(&text.replace(from, "/data/other.db")).place();
        for moved in [
            elsewhere(STORE, "/data/memory.db"),
            elsewhere(STORE, "/data/vectors.db"),
            elsewhere(&STORE[..table], "/data/memory.db"),
        ] {
            assert_eq!(moved.moves_since(&with).len(), 1, "{moved:?}");
        }
    }
}
