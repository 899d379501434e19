//! Presets: what is known of a schema, so that the operator need only say where the store is.
//!
//! A preset is a configuration file of its own (`presets/<name>.toml`) with the tables that a store may have. A store
//! overrides it key by key; an empty string switches off what the preset sets. It says what a store of its schema is
//! recognised by, too. Beside it stands the schema that it is for, which tests build stores from.
//!
//! Stores that hypnos knows and does not touch are files as well (`presets/foreign/<name>.toml`): what they are
//! recognised by, and the reason.

use toml::Table;

use super::fingerprint::Fingerprint;

/// A preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What `preset = "..."` names.
    pub name: &'static str,
    /// One line about the schema.
    pub description: &'static str,
    /// The tables `[rows]`, `[owners]`, `[vectors]` and `[pass]`, as a store has them, and `[fingerprint]`.
    pub toml: &'static str,
    /// The statements that create an empty store of this schema.
    pub ddl: &'static str,
}

impl Preset {
    /// What a store of its schema is recognised by; `None` when it has no fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        fingerprint(&self.table()?)
    }

    /// Whether the points are the rows: there is no other half.
    #[must_use]
    pub fn points_are_rows(&self) -> bool {
        self.text("rows", "kind").as_deref() == Some("points")
    }

    /// The table of the vectors, where they are in the database of the rows.
    #[must_use]
    pub fn vector_table(&self) -> Option<String> {
        self.text("vectors", "table")
    }

    /// The keys of `[rows]`, `[owners]`, `[vectors]` and `[log]` that name a table, as they are when the table is called
    /// otherwise: section, key, value.
    #[must_use]
    pub fn with_table(&self, name: &str, there: &str) -> Vec<(&'static str, String, String)> {
        let mut keys = Vec::new();
        for section in ["rows", "owners", "vectors", "log"] {
            let table = self
                .table()
                .and_then(|preset| preset.get(section)?.as_table().cloned());
            for (key, value) in table.unwrap_or_default() {
                let Some(text) = value.as_str() else { continue };
                let changed = with_word(text, name, there);
                if changed != text {
                    keys.push((section, key, changed));
                }
            }
        }
        keys
    }

    /// Whether the points are on a server.
    #[must_use]
    pub fn needs_server(&self) -> bool {
        let fingerprint = self.fingerprint();
        fingerprint.is_some_and(|marks| marks.has_payload() || marks.collection().is_some())
    }

    /// Whether somebody says who still exists.
    #[must_use]
    pub fn has_owners(&self) -> bool {
        self.table()
            .is_some_and(|preset| preset.contains_key("owners"))
    }

    /// Whether the application keeps a log beside the points.
    #[must_use]
    pub fn has_log(&self) -> bool {
        self.table()
            .is_some_and(|preset| preset.contains_key("log"))
    }

    fn table(&self) -> Option<Table> {
        self.toml.parse().ok()
    }

    fn text(&self, table: &str, key: &str) -> Option<String> {
        self.table()?
            .get(table)?
            .get(key)?
            .as_str()
            .map(str::to_owned)
    }
}

/// A kind of store that is recognised and left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// What it is called.
    pub name: String,
    /// Why hypnos does not touch it, and what to do instead.
    pub refuse: String,
    /// What it is recognised by.
    pub fingerprint: Fingerprint,
}

impl Foreign {
    fn read(toml: &str) -> Option<Self> {
        let table: Table = toml.parse().ok()?;
        let text = |key: &str| table.get(key)?.as_str().map(str::to_owned);
        Some(Self {
            name: text("description")?,
            refuse: text("refuse")?,
            fingerprint: fingerprint(&table)?,
        })
    }
}

/// The text with one identifier in place of another.
fn with_word(text: &str, word: &str, other: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut changed, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (identifier, after) = rest.split_at(end);
        changed.push_str(if identifier == word {
            other
        } else {
            identifier
        });
        let next = after.find(is_part).unwrap_or(after.len());
        changed.push_str(&after[..next]);
        rest = &after[next..];
    }
    changed
}

fn fingerprint(preset: &Table) -> Option<Fingerprint> {
    Fingerprint::read(preset.get("fingerprint")?.as_table()?).ok()
}

/// Every kind of store that is recognised and left alone.
#[must_use]
pub fn foreign() -> Vec<Foreign> {
    FOREIGN
        .iter()
        .filter_map(|toml| Foreign::read(toml))
        .collect()
}

/// Derived stores, and stores of which the truth is elsewhere.
const FOREIGN: &[&str] = &[
    include_str!("presets/foreign/basic-memory.toml"),
    include_str!("presets/foreign/cherry-studio.toml"),
    include_str!("presets/foreign/chroma.toml"),
    include_str!("presets/foreign/claude-mem.toml"),
    include_str!("presets/foreign/engram.toml"),
    include_str!("presets/foreign/letta.toml"),
    include_str!("presets/foreign/mnemosyne.toml"),
    include_str!("presets/foreign/openclaw.toml"),
    include_str!("presets/foreign/qdrant-local.toml"),
    include_str!("presets/foreign/sqlcipher.toml"),
];

/// A preset of `presets/NAME.toml` and, where it has tables, of a file with their schema.
macro_rules! preset {
    ($name:literal, $description:literal) => {
        preset!($name, $description, ddl = "")
    };
    ($name:literal, $description:literal, schema $file:literal) => {
        preset!(
            $name,
            $description,
            ddl = include_str!(concat!("presets/", $file, ".sql"))
        )
    };
    ($name:literal, $description:literal, ddl = $ddl:expr) => {
        Preset {
            name: $name,
            description: $description,
            toml: include_str!(concat!("presets/", $name, ".toml")),
            ddl: $ddl,
        }
    };
}

/// Every preset, by name.
pub const ALL: &[Preset] = &[
    preset!(
        "bitemporal",
        "memories with a time of validity; ending one keeps it as history",
        schema "bitemporal"
    ),
    preset!(
        "confirmed",
        "facts of one person, confirmed by review, superseded by newer ones",
        schema "confirmed"
    ),
    preset!("haystack", "Haystack on Qdrant: the point is the memory"),
    preset!(
        "langchain",
        "LangChain on Qdrant (Python, JavaScript, n8n): the point is the memory"
    ),
    preset!(
        "langgraph-sqlite",
        "the SqliteStore of LangGraph, with its vectors in a side table",
        schema "langgraph-sqlite"
    ),
    preset!(
        "llamaindex",
        "LlamaIndex on Qdrant: the point is the memory"
    ),
    preset!(
        "mcp-memory-service",
        "mcp-memory-service with sqlite-vec, from version 8 on",
        schema "mcp-memory-service"
    ),
    preset!(
        "mem0-openmemory",
        "OpenMemory of mem0 (openmemory.db) with Qdrant",
        schema "mem0-openmemory"
    ),
    preset!(
        "mem0-qdrant",
        "mem0 (Python or TypeScript) on a Qdrant server: the point is the memory",
        schema "mem0-qdrant"
    ),
    preset!(
        "open-webui",
        "Open WebUI with Qdrant: the memories of every user in one collection",
        schema "open-webui"
    ),
    preset!(
        "open-webui-collections",
        "Open WebUI with Qdrant: a collection for each user (ENABLE_QDRANT_MULTITENANCY_MODE=false)",
        schema "open-webui"
    ),
    preset!(
        "openmemory-cavira",
        "OpenMemory of CaviraOSS in its SQLite mode, with a vector for each sector of a memory",
        schema "openmemory-cavira"
    ),
    preset!(
        "salience",
        "memories of many tenants, with salience and a count of accesses",
        schema "salience"
    ),
    preset!(
        "ttl-days",
        "memories of many users with a life in days, and a table of users",
        schema "ttl-days"
    ),
];

/// The preset of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_replaced_as_a_whole() {
        for (text, changed) in [
            ("vectors", "v2"),
            (
                "sql((SELECT x FROM vectors x WHERE vectors_old.id = vectors.id))",
                "sql((SELECT x FROM v2 x WHERE vectors_old.id = v2.id))",
            ),
            ("ação vectors", "ação v2"),
            ("my_vectors", "my_vectors"),
            ("", ""),
        ] {
            assert_eq!(with_word(text, "vectors", "v2"), changed);
        }
    }
}
