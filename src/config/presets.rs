//! Presets: what is known of a schema, so that the operator need only say where the store is.
//!
//! A preset is a configuration file of its own (`presets/<name>.toml`) with the tables that a store may have. A store
//! overrides it key by key; an empty string switches off what the preset sets. Beside it stands the schema that it is
//! for, which tests build stores from.

/// A preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What `preset = "..."` names.
    pub name: &'static str,
    /// One line about the schema.
    pub description: &'static str,
    /// The tables `[rows]`, `[owners]`, `[vectors]` and `[pass]`, as a store has them.
    pub toml: &'static str,
    /// The statements that create an empty store of this schema.
    pub ddl: &'static str,
}

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
