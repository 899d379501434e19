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

    /// Whether the vectors are in a table that the preset knows.
    #[must_use]
    pub fn has_own_points(&self) -> bool {
        self.text("vectors", "table").is_some()
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

/// Every preset, by name.
pub const ALL: &[Preset] = &[
    Preset {
        name: "bitemporal",
        description: "memories with a time of validity; ending one keeps it as history",
        toml: include_str!("presets/bitemporal.toml"),
        ddl: include_str!("presets/bitemporal.sql"),
    },
    Preset {
        name: "confirmed",
        description: "facts of one person, confirmed by review, superseded by newer ones",
        toml: include_str!("presets/confirmed.toml"),
        ddl: include_str!("presets/confirmed.sql"),
    },
    Preset {
        name: "salience",
        description: "memories of many tenants, with salience and a count of accesses",
        toml: include_str!("presets/salience.toml"),
        ddl: include_str!("presets/salience.sql"),
    },
    Preset {
        name: "ttl-days",
        description: "memories of many users with a life in days, and a table of users",
        toml: include_str!("presets/ttl-days.toml"),
        ddl: include_str!("presets/ttl-days.sql"),
    },
];

/// The preset of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}
