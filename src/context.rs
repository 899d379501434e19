//! What else than its owner an application asks for a memory by: an agent, a document, tags, metadata of its own.
//!
//! Mechanics: a context is a set of facts, each a key with a value. Of a JSON object every leaf is one, of a JSON list every
//! element, so that `{"tags": ["a", "b"]}` has two; any other value is one fact without a key. NULL, `null` and blank text
//! say nothing. Facts are kept as fingerprints: they are compared, and never shown.
//!
//! Policy: a memory stands for another one only where every question for some of the other's facts finds it, too: where it
//! has them all. What is no text is a context of its own, and nothing stands for anything there.

use rusqlite::types::ValueRef;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The context of a memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// Its facts, in order, each once.
    Facts(Box<[Fact]>),
    /// There is one, and it is no text.
    Unreadable,
}

/// The fingerprint of one fact: the first 16 bytes of a SHA-256 over its key and its value.
pub type Fact = [u8; 16];

impl Default for Context {
    /// One that says nothing.
    fn default() -> Self {
        Self::Facts([].into())
    }
}

impl Context {
    /// Reads the value of a row.
    #[must_use]
    pub fn read(value: ValueRef<'_>) -> Self {
        let number;
        let bytes = match value {
            ValueRef::Null => return Self::default(),
            ValueRef::Integer(integer) => {
                number = integer.to_string();
                number.as_bytes()
            }
            ValueRef::Real(real) => {
                number = format!("{real:?}");
                number.as_bytes()
            }
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::of(text),
            Err(_) => Self::Unreadable,
        }
    }

    /// The context that a text says.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let text = text.trim();
        let mut facts = Vec::new();
        match serde_json::from_str(text) {
            Ok(said @ (Value::Object(_) | Value::Array(_) | Value::Null)) => {
                gather(&mut Vec::new(), &said, &mut facts);
            }
            _ if text.is_empty() => {}
            _ => facts.push(fact(&[], text)),
        }
        facts.sort_unstable();
        facts.dedup();
        Self::Facts(facts.into())
    }

    /// Whether every question that finds a memory of the other context finds one of this, too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Facts(all), Self::Facts(some)) => {
                some.iter().all(|fact| all.binary_search(fact).is_ok())
            }
            _ => false,
        }
    }

    /// How many facts there are.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Facts(facts) => facts.len(),
            Self::Unreadable => 0,
        }
    }

    /// Its bytes, for a fingerprint: none where it says nothing.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Facts(facts) => facts.concat(),
            Self::Unreadable => vec![0],
        }
    }
}

/// Adds the facts below a key. An element of a list is found whatever its place, and an empty list or object says nothing.
fn gather<'a>(key: &mut Vec<&'a str>, value: &'a Value, facts: &mut Vec<Fact>) {
    match value {
        Value::Null => {}
        Value::String(text) if text.trim().is_empty() => {}
        Value::Object(values) => {
            for (name, value) in values {
                key.push(name);
                gather(key, value, facts);
                key.pop();
            }
        }
        Value::Array(elements) => {
            for element in elements {
                gather(key, element, facts);
            }
        }
        leaf => facts.push(fact(key, &leaf.to_string())),
    }
}

fn fact(key: &[&str], value: &str) -> Fact {
    let mut hash = Sha256::new();
    for part in key.iter().chain([&value]) {
        // No part runs into the next.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut fact = [0; 16];
    fact.copy_from_slice(&hash.finalize()[..16]);
    fact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_all_facts_of_another_stands_for_it() {
        for (all, some) in [
            ("", ""),
            ("a", ""),
            ("", "[\"\", null]"),
            ("a", " a "),
            ("{\"agent\": \"a\"}", "{}"),
            ("{\"agent\": \"a\"}", "null"),
            ("{\"agent\": \"a\"}", "{\"agent\": null, \"tags\": []}"),
            ("{\"agent\": \"a\", \"run\": 1}", "{\"run\": 1}"),
            (
                "{\"run\": 1, \"agent\": \"a\"}",
                "{\"agent\": \"a\", \"run\": 1}",
            ),
            ("[\"b\", \"a\"]", "[\"a\", \"b\"]"),
            ("{\"tags\": [\"a\", \"b\"]}", "{\"tags\": [\"b\"]}"),
            ("{\"of\": {\"a\": 1, \"b\": 2}}", "{\"of\": {\"b\": 2}}"),
        ] {
            assert!(Context::of(all).covers(&Context::of(some)), "{all} {some}");
        }
    }

    #[test]
    fn who_lacks_a_fact_of_another_does_not() {
        for (all, some) in [
            ("", "a"),
            ("a", "b"),
            ("a", "A"),
            ("{}", "{\"agent\": \"a\"}"),
            ("{\"agent\": \"b\"}", "{\"agent\": \"a\"}"),
            ("{\"run\": \"a\"}", "{\"agent\": \"a\"}"),
            ("{\"run\": 1}", "{\"run\": \"1\"}"),
            ("{\"run\": \"true\"}", "{\"run\": true}"),
            ("{\"ab\": {\"c\": 1}}", "{\"a\": {\"bc\": 1}}"),
            ("{\"of\": {\"a\": 1}}", "{\"a\": 1}"),
            ("[\"a\"]", "[\"a\", \"b\"]"),
            ("no { json", "no json"),
        ] {
            assert!(!Context::of(all).covers(&Context::of(some)), "{all} {some}");
        }
    }

    #[test]
    fn what_is_no_text_stands_for_nothing_and_nothing_for_it() {
        let odd = Context::read(ValueRef::Blob(&[0xff, 0xfe]));
        assert_eq!(odd, Context::Unreadable);
        for other in [Context::default(), Context::of("a"), odd.clone()] {
            assert!(!odd.covers(&other) && !other.covers(&odd), "{other:?}");
        }
    }

    #[test]
    fn a_value_is_read_by_what_it_is() {
        assert_eq!(Context::read(ValueRef::Null), Context::default());
        assert_eq!(Context::read(ValueRef::Integer(5)), Context::of("5"));
        assert_eq!(Context::read(ValueRef::Real(0.5)), Context::of("0.5"));
        let list = b"[\"a\"]";
        assert_eq!(
            Context::read(ValueRef::Blob(list)),
            Context::read(ValueRef::Text(list))
        );
        assert_eq!(Context::of("[\"a\"]").size(), 1);
    }
}
