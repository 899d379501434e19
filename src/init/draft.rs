//! A configuration in the making, and its text.
//!
//! Policy: what a draft says is written once, here, so that what was tried and what ends up in the file are the same.
//! Only what differs from the preset is written; every guess says that it is one.

use std::fmt::Write as _;
use std::path::Path;

use toml::Value;

use super::guess::Mapping;
use crate::config::presets::Preset;

/// Longest name of a store.
const NAME_LENGTH: usize = 32;

/// Keys of a table of the configuration, with their values.
pub(super) type Keys = Vec<(&'static str, String)>;

/// A configuration of one store.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The name of the store.
    pub(super) name: String,
    /// The preset; `None` where the mapping is a guess.
    pub(super) preset: Option<&'static Preset>,
    /// The mapping of a schema without preset.
    pub(super) mapping: Option<Mapping>,
    /// The absolute path of the rows; `None` where the points are the rows.
    pub(super) path: Option<String>,
    /// The log that an application keeps of points which are its rows.
    pub(super) log: Option<String>,
    /// Keys of the preset that are otherwise here: section, key, value.
    pub(super) overrides: Vec<(&'static str, String, String)>,
    /// Where the points are.
    pub(super) points: Points,
    /// The vectors of the collection, where they have names.
    pub(super) vectors: Vec<String>,
    /// Whether the collection or the table was named by the operator.
    pub(super) is_asked_for: bool,
    /// Whether it may be acted on.
    pub(super) confirmed: bool,
    /// Whether the REST interface of the server answers, where there is a server.
    pub(super) has_rest: bool,
    /// What a person should know.
    pub(super) notes: Vec<String>,
}

/// Where hypnos' own files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folders {
    /// Beside the configuration.
    Beside,
    /// Where a service keeps them.
    OfSystem,
}

impl Folders {
    /// Those that fit a configuration at this path.
    pub(super) fn of(output: &Path) -> Self {
        if output.starts_with("/etc") {
            Self::OfSystem
        } else {
            Self::Beside
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Beside => BESIDE,
            Self::OfSystem => OF_SYSTEM,
        }
    }
}

/// Where the points are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Points {
    /// There are none, or nobody knows where.
    Nowhere,
    /// In the database of the rows, as the preset says.
    OfPreset,
    /// In a table.
    Table {
        /// The database.
        path: String,
        /// `[store.vectors]` keys and values, as far as they differ from the preset.
        keys: Keys,
    },
    /// On a Qdrant server.
    Qdrant {
        /// The gRPC address.
        url: String,
        /// The collection, with `{tenant}` for one per tenant.
        collection: String,
        /// Other keys and values, as far as they differ from the preset.
        keys: Keys,
    },
}

impl Draft {
    pub(super) fn of_preset(preset: &'static Preset, path: &str) -> Self {
        Self {
            name: preset.name.to_owned(),
            preset: Some(preset),
            mapping: None,
            path: Some(path.to_owned()),
            log: None,
            overrides: Vec::new(),
            points: Points::Nowhere,
            vectors: Vec::new(),
            is_asked_for: false,
            confirmed: true,
            has_rest: true,
            notes: Vec::new(),
        }
    }

    pub(super) fn of_guess(mapping: Mapping, path: &str) -> Self {
        Self {
            name: store_name(path),
            preset: None,
            mapping: Some(mapping),
            path: Some(path.to_owned()),
            log: None,
            overrides: Vec::new(),
            points: Points::Nowhere,
            vectors: Vec::new(),
            is_asked_for: false,
            confirmed: false,
            has_rest: true,
            notes: Vec::new(),
        }
    }

    pub(super) fn of_points(preset: &'static Preset, points: Points) -> Self {
        Self {
            path: None,
            points,
            ..Self::of_preset(preset, "")
        }
    }

    pub(super) fn without_points(self) -> Self {
        Self {
            points: Points::Nowhere,
            ..self
        }
    }

    /// The same with one key more in `[store.vectors]`.
    pub(super) fn with_key(mut self, key: &'static str, value: &str) -> Self {
        if let Points::Qdrant { keys, .. } | Points::Table { keys, .. } = &mut self.points {
            keys.push((key, value.to_owned()));
        }
        self
    }

    /// The same with a collection whose vectors have these names: of several the first is a guess.
    pub(super) fn with_vectors(mut self, names: Vec<String>) -> Self {
        let Some(first) = names.first().cloned() else {
            return self;
        };
        if let ([_, _, ..], Points::Qdrant { collection, .. }) = (&names[..], &self.points) {
            let doubt = format!(
                "collection {collection} has several vectors, {}: which of them is of the text?",
                names.join(", ")
            );
            self.doubt(&doubt);
        }
        Self {
            vectors: names,
            ..self.with_key("vector", &first)
        }
    }

    /// Takes away the leave to act on it.
    pub(super) fn doubt(&mut self, why: &str) {
        self.confirmed = false;
        self.notes.push(why.to_owned());
    }

    /// Where its points are, in words.
    pub(super) fn points_in_words(&self) -> Option<String> {
        match &self.points {
            Points::Nowhere => None,
            Points::OfPreset => Some("the same database".to_owned()),
            Points::Table { path, keys } => {
                let table = keys
                    .iter()
                    .find(|(key, _)| *key == "table")
                    .map(|(_, table)| table.as_str());
                Some(format!("table {} of {path}", table.unwrap_or("points")))
            }
            Points::Qdrant {
                url, collection, ..
            } => Some(format!("collection {collection} at {url}")),
        }
    }

    /// The text of the configuration file, where `folders` says where hypnos' own files are.
    pub(super) fn text(&self, folders: Folders) -> String {
        let mut text = format!("{HEAD}{}{SCHEDULE}", folders.text());
        let mut line = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        line("[[store]]");
        line(&format!("name = {}", quoted(&self.name)));
        line(FIRST_RUN);
        if !self.confirmed {
            line(CONFIRMED);
        }
        line("\n[store.rows]");
        if let Some(path) = &self.path {
            line(&format!("path = {}", quoted(path)));
        }
        if let Some(preset) = self.preset {
            line(&format!(
                "# {}. `hypnos presets {}` shows the mapping; a key here overrides it.",
                preset.description, preset.name
            ));
            line(&format!("preset = {}", quoted(preset.name)));
        }
        if let Some(mapping) = &self.mapping {
            for guess in &mapping.guesses {
                line(&format!(
                    "{} = {}    # guess: {}",
                    guess.key,
                    quoted(&guess.value),
                    guess.why
                ));
            }
        }
        text.push_str(&self.overridden("rows"));
        text.push_str(&self.owners());
        text.push('\n');
        text.push_str(&self.vectors());
        if let Some(log) = &self.log {
            let _ = writeln!(
                text,
                "\n# What is counted, and no more: where this log and the points differ.\n[store.log]"
            );
            let _ = writeln!(text, "path = {}", quoted(log));
            text.push_str(&self.overridden("log"));
        }
        text
    }

    /// The keys of a section that are otherwise than in the preset.
    fn overridden(&self, section: &str) -> String {
        let mut text = String::new();
        for (_, key, value) in self.overrides.iter().filter(|(of, ..)| *of == section) {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
        text
    }

    fn owners(&self) -> String {
        let path = self.path.as_deref().unwrap_or_default();
        let overridden = self.overridden("owners");
        if path.contains("{tenant}") && self.preset.is_some_and(Preset::has_owners) {
            OWNERS_APART.to_owned()
        } else if overridden.is_empty() {
            overridden
        } else {
            format!("\n[store.owners]\n{overridden}")
        }
    }

    fn vectors(&self) -> String {
        let namespace = self.mapping.as_ref().and_then(|mapping| mapping.namespace);
        let mut text = String::new();
        match &self.points {
            Points::Nowhere => {
                text.push_str("# This store has no points, as far as hypnos knows.\n[store.vectors]\nkind = \"none\"\n");
            }
            Points::OfPreset => {
                text.push_str("[store.vectors]\nkind = \"sqlite\"\n");
                text.push_str(&self.overridden("vectors"));
            }
            Points::Table { path, keys } => {
                let _ = writeln!(
                    text,
                    "[store.vectors]\nkind = \"sqlite\"\npath = {}",
                    quoted(path)
                );
                push_keys(&mut text, keys);
            }
            Points::Qdrant {
                url,
                collection,
                keys,
            } => {
                let _ = writeln!(
                    text,
                    "[store.vectors]\nkind = \"qdrant\"\nurl = {}    # gRPC; snapshots are fetched from rest_url, port 6333 of the same host\n{API_KEY}\n\
                     collection = {}",
                    quoted(url),
                    quoted(collection)
                );
                push_keys(&mut text, keys);
                if let [_, _, ..] = &self.vectors[..] {
                    let _ = writeln!(
                        text,
                        "# vector: a guess; there are {}",
                        comment(&self.vectors)
                    );
                }
            }
        }
        if let Some(namespace) = namespace {
            let _ = writeln!(
                text,
                "namespace = {}    # guess: all rows belong to somebody called so",
                quoted(namespace)
            );
        }
        text
    }
}

/// Names in a comment, which ends with its line.
fn comment(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    names.join(", ").replace(char::is_control, " ")
}

fn push_keys(text: &mut String, keys: &[(&'static str, String)]) {
    for (key, value) in keys {
        let _ = writeln!(text, "{key} = {}", quoted(value));
    }
}

const HEAD: &str = "\
# Written by `hypnos init`. Every key there is: config/hypnos.toml in hypnos' documentation.

";

const BESIDE: &str = "\
# hypnos' own files: journal, copies for undo, the queue. Relative to this file.
state_dir = \"hypnos-state\"
# A verified pair of rows and points each night.
snapshot_dir = \"hypnos-snapshots\"
";

const OF_SYSTEM: &str = "\
# hypnos' own files: journal, copies for undo, the queue.
state_dir = \"/var/lib/hypnos\"
# A verified pair of rows and points each night.
snapshot_dir = \"/var/backups/hypnos\"
";

const SCHEDULE: &str = "
# Of the daemon; a timer has its own.
[schedule]
cron = \"0 3 * * *\"
timezone = \"UTC\"

";

const FIRST_RUN: &str = "\
# Everything is reported, and what would remove something waits: for a run with --run-now --accept HASH, once for each
# pass, or for first_run = \"apply\" here.
first_run = \"report\"";

const CONFIRMED: &str = "\
# The mapping below is a proposal: until this says true, hypnos only reads the store. Compare each line that is marked as
# a guess with the database, look at `hypnos check` and `hypnos --dry-run`, and correct what is wrong first.
confirmed = false";

const OWNERS_APART: &str = "
# The owners are in a database of their own here: name it (path, table, id), and their orphans are swept.
[store.owners]
table = \"\"
";

const API_KEY: &str = "\
# The API key is no matter for this file: credential qdrant-api-key, or HYPNOS_QDRANT_API_KEY.";

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// A name for a store at this path.
fn store_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    let stem = file
        .split('.')
        .next()
        .unwrap_or_default()
        .replace("{tenant}", "");
    let plain: String = stem
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(NAME_LENGTH)
        .collect();
    let plain = plain.trim_matches('-');
    if plain.is_empty() {
        "agent".to_owned()
    } else {
        plain.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::presets;

    #[test]
    fn a_configuration_of_the_system_keeps_its_files_where_a_service_does() {
        let draft = Draft::of_preset(presets::find("ttl-days").unwrap(), "/srv/m.db");
        for (output, state) in [
            ("/etc/hypnos/hypnos.toml", "/var/lib/hypnos"),
            ("/srv/hypnos.toml", "hypnos-state"),
            ("/etcetera/hypnos.toml", "hypnos-state"),
        ] {
            let text = draft.text(Folders::of(Path::new(output)));
            assert!(text.contains(&format!("state_dir = {state:?}")), "{text}");
        }
    }

    #[test]
    fn a_store_is_called_after_its_file() {
        for (path, name) in [
            ("/srv/Agent Memory.sqlite3", "agent-memory"),
            ("/srv/users/{tenant}.db", "agent"),
            ("/srv/--.db", "agent"),
            ("/srv/m\u{e9}moire.db", "m-moire"),
        ] {
            assert_eq!(store_name(path), name);
        }
    }

    #[test]
    fn what_is_called_otherwise_is_written_over_the_preset() {
        let mut draft = Draft::of_preset(presets::find("ttl-days").unwrap(), "/srv/m \"x\".db");
        draft.overrides = presets::find("ttl-days")
            .unwrap()
            .with_table("users", "people");
        let text = draft.text(Folders::Beside);
        assert!(
            text.contains("[store.owners]\ntable = \"people\"\n"),
            "{text}"
        );
        let path = text.parse::<toml::Table>().unwrap()["store"][0]["rows"]["path"].clone();
        assert_eq!(path.as_str(), Some("/srv/m \"x\".db"));
    }
}
