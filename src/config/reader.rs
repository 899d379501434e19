//! Reading TOML without believing it: values stay untyped, and nothing that is wrong stops the reading.
//!
//! Mechanics: the text is parsed with the place of every key. Unknown keys, tables that are no tables and numbers that
//! fit nowhere become problems; the keys around them are read all the same.

use std::borrow::Cow;

use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::problem::{Found, Place, Problem, SyntaxError, is_secret};

/// A key of the file: where it stands, and what was written there. No `Debug`: it may be a secret.
#[derive(Clone, Default)]
pub(super) struct Key {
    /// Dotted path, known also when nothing was written.
    pub(super) field: String,
    /// What was written.
    pub(super) value: Option<Value>,
}

impl Key {
    pub(super) fn new(section: &str, key: &str) -> Self {
        Self {
            field: join(section, key),
            value: None,
        }
    }

    /// Whether something was written, be it an empty string.
    pub(super) fn is_given(&self) -> bool {
        self.value.is_some()
    }

    /// The value, when it is text.
    pub(super) fn text(&self) -> Option<&str> {
        self.value.as_ref().and_then(Value::as_str)
    }

    /// Whether something other than an empty string (which switches a role off) was written.
    pub(super) fn is_on(&self) -> bool {
        self.is_given() && self.text() != Some("")
    }

    /// This value, or that of `base` where nothing was written here.
    pub(super) fn over(self, base: Self) -> Self {
        if self.is_given() { self } else { base }
    }
}

/// The path of a key of the table at `section`.
pub(super) fn join(section: &str, key: &str) -> String {
    if section.is_empty() {
        key.to_owned()
    } else {
        format!("{section}.{key}")
    }
}

/// Reads a document with `read`, as the table at `at`; what is wrong with its form is in the list of problems, unknown
/// keys in order of the text.
///
/// # Errors
///
/// Every place where the text is not TOML.
pub(super) fn parse<T>(
    text: &str,
    at: &str,
    read: impl FnOnce(&DeTable<'_>, &str, &mut Reader<'_>) -> T,
) -> Result<(T, Vec<Problem>), Vec<SyntaxError>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let mut errors: Vec<_> = errors.iter().map(|error| syntax(text, error)).collect();
        errors.sort_by_key(|error| error.place);
        return Err(errors);
    }
    let mut reader = Reader {
        text,
        problems: Vec::new(),
    };
    let section = read(document.get_ref(), at, &mut reader);
    reader.problems.sort_by_key(|problem| match problem.value {
        Found::UnknownKey(place) => Some(place),
        Found::Value(_) | Found::Nothing => None,
    });
    Ok((section, reader.problems))
}

fn syntax(text: &str, error: &toml::de::Error) -> SyntaxError {
    SyntaxError {
        place: Place::of(text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    }
}

/// Reads tables, and collects what is wrong with their form.
pub(super) struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// The value of a key.
    pub(super) fn value(&mut self, field: &str, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        let read = Value::deserialize(value.clone().into_deserializer());
        if read.is_err() {
            self.refuse(field, "a number that fits in 64 bits", value.get_ref());
        }
        read.ok()
    }

    /// The table at a key.
    pub(super) fn table<'v>(
        &mut self,
        field: &str,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Option<&'v DeTable<'v>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.refuse(field, "a table", value.get_ref());
        }
        table
    }

    /// The tables of a list, each with its path: by its name where it has one, else by its index.
    pub(super) fn tables<'v>(
        &mut self,
        field: &str,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Vec<(String, &'v DeTable<'v>)> {
        let Some(items) = value.get_ref().as_array() else {
            let allowed = format!("a list of tables, each under [[{field}]]");
            self.refuse(field, &allowed, value.get_ref());
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let by_index = format!("{field}[{index}]");
            if let Some(table) = self.table(&by_index, item) {
                let name = table.get("name").and_then(|name| name.get_ref().as_str());
                let at = match name {
                    Some(name) if is_plain(name) => join(field, name),
                    _ => by_index,
                };
                tables.push((at, table));
            }
        }
        tables
    }

    /// Refuses a key that the table at `section` does not know.
    pub(super) fn unknown(&mut self, section: &str, key: &Spanned<Cow<'_, str>>, known: &[&str]) {
        self.problems.push(Problem {
            field: join(section, &printable(key.get_ref())),
            value: Found::UnknownKey(Place::of(self.text, key.span().start)),
            allowed: nearest(key.get_ref(), known).join(", "),
        });
    }

    fn refuse(&mut self, field: &str, allowed: &str, value: &DeValue<'_>) {
        let kind = match value {
            _ if is_secret(field) => "***".to_owned(),
            DeValue::Array(_) => "an array".to_owned(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            other => format!("a {}", other.type_str()),
        };
        self.problems.push(Problem {
            field: field.to_owned(),
            value: Found::Value(kind),
            allowed: allowed.to_owned(),
        });
    }
}

/// Whether a name can stand for its store in a path.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// A key as it may be shown: quoted, where it is not a bare one.
fn printable(key: &str) -> String {
    if is_plain(key) {
        key.to_owned()
    } else {
        format!("{key:?}")
    }
}

/// The three known keys nearest to `key`, nearest first.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Vec<&'k str> {
    let mut known = known.to_vec();
    known.sort_by_key(|candidate| distance(key, candidate));
    known.truncate(3);
    known
}

/// The number of characters to insert, remove or replace to turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("shedule", "schedule", 1),
            ("ação", "acao", 2),
            ("same", "same", 0),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
