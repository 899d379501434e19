//! Which points of a collection are a store's: `where = { target_type = "graph_node", lang = ["pt", "en"] }`.

use std::fmt;

use toml::Value;

/// What the payload of a point has to say for the point to be one of the store's; an empty filter asks for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PayloadFilter {
    /// Payload keys in order, each with the values of which it must have one.
    pub keys: Vec<(String, Vec<Scalar>)>,
}

/// A value that a payload key can be asked to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A truth value.
    Bool(bool),
}

impl PayloadFilter {
    /// What a value must look like.
    pub(super) const ALLOWED: &str = "a table of payload keys, each with a text, a whole number, true or false, or a list of those";

    /// Reads the table; `None` when a value is not one that can be compared.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let key = |(key, value): (&String, &Value)| {
            let values = match value {
                Value::Array(values) if values.is_empty() => None,
                Value::Array(values) => values.iter().map(Scalar::parse).collect(),
                value => Some(vec![Scalar::parse(value)?]),
            };
            let is_key = !key.is_empty() && !key.contains(char::is_control);
            Some((key.clone(), values.filter(|_| is_key)?))
        };
        let mut keys: Vec<_> = value.as_table()?.iter().map(key).collect::<Option<_>>()?;
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Self { keys })
    }

    /// Whether every point is one of the store's.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether no point can be of this filter and of another one.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        self.keys.iter().any(|(key, values)| {
            let theirs = other.keys.iter().find(|(theirs, _)| theirs == key);
            theirs.is_some_and(|(_, theirs)| !values.iter().any(|value| theirs.contains(value)))
        })
    }
}

impl fmt::Display for PayloadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, values)) in self.keys.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{key} = {values:?}")?;
        }
        Ok(())
    }
}

impl Scalar {
    fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Integer(number) => Some(Self::Integer(*number)),
            Value::Boolean(is_so) => Some(Self::Bool(*is_so)),
            _ => None,
        }
    }

    /// Whether a payload has this value.
    #[must_use]
    pub fn is(&self, value: &serde_json::Value) -> bool {
        match self {
            Self::Text(text) => value.as_str() == Some(text),
            Self::Integer(number) => value.as_i64() == Some(*number),
            Self::Bool(is_so) => value.as_bool() == Some(*is_so),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Option<PayloadFilter> {
        PayloadFilter::parse(text.parse::<toml::Table>().ok()?.get("where")?)
    }

    #[test]
    fn a_filter_is_a_table_of_keys_and_what_they_may_have() {
        let read = filter("where = { b = [1, true], \"m.a\" = 'x' }").unwrap();
        assert_eq!(
            read.keys,
            [
                ("b".into(), vec![Scalar::Integer(1), Scalar::Bool(true)]),
                ("m.a".into(), vec![Scalar::Text("x".into())]),
            ]
        );
        assert!(filter("where = {}").unwrap().is_empty());
        for bad in [
            "'kind = 1'",
            "{ a = [] }",
            "{ a = 1.5 }",
            "{ a = { b = 1 } }",
            "{ a = [['x']] }",
            "{ '' = 'x' }",
            "{ a = 2026-01-01 }",
            "[{ a = 1 }]",
        ] {
            assert_eq!(filter(&format!("where = {bad}")), None, "{bad}");
        }
    }

    #[test]
    fn filters_exclude_each_other_by_one_key_without_a_common_value() {
        for (a, b, excluded) in [
            ("{ k = 'a' }", "{ k = 'b' }", true),
            ("{ k = ['a', 'b'] }", "{ k = ['b', 'c'] }", false),
            ("{ k = 'a' }", "{ j = 'b' }", false),
            ("{ k = 'a', j = 1 }", "{ k = 'a', j = 2 }", true),
            ("{ k = '1' }", "{ k = 1 }", true),
            ("{}", "{ k = 1 }", false),
        ] {
            let [a, b] = [a, b].map(|text| filter(&format!("where = {text}")).unwrap());
            assert_eq!(a.excludes(&b), excluded, "{a} against {b}");
            assert_eq!(b.excludes(&a), excluded, "{b} against {a}");
        }
    }
}
