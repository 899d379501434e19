//! What is wrong with a configuration, all of it at once.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Value;

/// Longest part of a written value that a message repeats, in characters.
const SHOWN: usize = 80;

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Dotted path of the key, with a store called by its name: `store.agent.rows.created_at`.
    pub field: String,
    /// What stands there.
    pub value: Found,
    /// What may stand there; for an unknown key, the known keys nearest to it.
    pub allowed: String,
}

/// What stands where a problem is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A value, as it may be shown (a secret is not).
    Value(String),
    /// Nothing, where something is needed.
    Nothing,
    /// A key that hypnos does not know.
    UnknownKey(Place),
}

/// A place in a file; both count from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

impl Place {
    /// The place of a byte of `text`.
    #[must_use]
    pub(super) fn of(text: &str, byte: usize) -> Self {
        let before = &text[..text.floor_char_boundary(byte)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        match value {
            Found::Value(value) => write!(f, "{field} = {value}: allowed is {allowed}"),
            Found::Nothing => write!(f, "{field} is missing: allowed is {allowed}"),
            Found::UnknownKey(place) => {
                write!(f, "{field} is not a key ({place}): nearest is {allowed}")
            }
        }
    }
}

/// Whether what stands at `field` is never shown.
#[must_use]
pub(super) fn is_secret(field: &str) -> bool {
    field.ends_with("api_key")
}

/// A value as a message may repeat it: on one line, short, and only the kind of an array or a table (which may hold a
/// secret).
#[must_use]
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(_) => "an array".into(),
        Value::Table(_) => "a table".into(),
        other => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// One place where a file is not TOML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where.
    pub place: Place,
    /// What the parser says; it repeats nothing of the file, which may hold a secret.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not there or cannot be read.
    #[error("read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}", listed("syntax error", path, errors))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Every place that is not TOML.
        errors: Vec<SyntaxError>,
    },
    /// The file is TOML, but not a configuration.
    #[error("{}", listed("problem", path, problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong with it.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// What an operator can do about it, where there is something to say beyond the message.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        let Self::Read { source, .. } = self else {
            return None;
        };
        match source.kind() {
            ErrorKind::NotFound => {
                Some("is the path right? hypnos init DATABASE writes a configuration for a store")
            }
            ErrorKind::IsADirectory => Some("name the file in it, not the folder"),
            ErrorKind::PermissionDenied => Some(
                "the user that hypnos runs as must be able to read the file and enter its folder",
            ),
            ErrorKind::InvalidData => Some("write it as UTF-8"),
            _ => None,
        }
    }
}

/// `3 problems in /etc/hypnos/hypnos.toml:`, and one line for each.
fn listed(what: &str, path: &Path, items: &[impl fmt::Display]) -> String {
    let plural = if items.len() == 1 { "" } else { "s" };
    let mut text = format!("{} {what}{plural} in {}:", items.len(), path.display());
    for item in items {
        text.push_str("\n  ");
        text.push_str(&item.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let text = "a = 1\nção = 2\n";
        assert_eq!(Place::of(text, 0), Place { line: 1, column: 1 });
        assert_eq!(Place::of(text, 6), Place { line: 2, column: 1 });
        // Inside a character, at its start; past the end, after the last line.
        assert_eq!(Place::of(text, 7), Place { line: 2, column: 1 });
        assert_eq!(Place::of(text, 9), Place { line: 2, column: 2 });
        assert_eq!(Place::of(text, 999), Place { line: 3, column: 1 });
    }

    #[test]
    fn shown_values_are_one_short_line_without_what_tables_hold() {
        assert_eq!(shown(&Value::String("a\nb\x1b".into())), r#""a\nb\u{1b}""#);
        assert_eq!(shown(&Value::Float(f64::NAN)), "nan");
        let table: toml::Table = "api_key = 'secret'".parse().unwrap();
        assert_eq!(shown(&Value::Table(table)), "a table");
        let long = shown(&Value::String("é".repeat(500)));
        assert_eq!(long.chars().count(), SHOWN + 3);
    }
}
