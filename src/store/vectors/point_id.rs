//! How the id of a point follows from its row.
//!
//! Mechanics: a [`PointRule`] is applied to the key of a memory, its namespace and its tenant. Templates are replaced in
//! one pass from left to right, so that a value which itself looks like a placeholder stays as it is.
//!
//! Policy: a rule that does not fit a key gives no id and says why. It never guesses, since a wrong id names the point
//! of some other memory.

use uuid::Uuid;

use crate::config::{self, PointRule};
use crate::memory::{Memory, MemoryId, Namespace, PointId};

/// What a rule makes of one memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Derived {
    /// The id of its point.
    Id(PointId),
    /// Its points are those of its namespace whose payload has this value under this key.
    ByPayload {
        /// Payload key.
        key: String,
        /// What stands there.
        value: String,
    },
    /// The rule says nothing about it: which point it has is not known.
    None {
        /// Why, for a report.
        why: &'static str,
    },
}

/// The rule of a store, ready to be applied to its memories.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// The rule.
    pub point_id: &'a PointRule,
    /// The rows, whose namespaces tell the tenant.
    pub rows: &'a config::Rows,
}

impl Rule<'_> {
    /// Whether a column of the row holds the id: then an empty one says that there is no point.
    #[must_use]
    pub fn is_column(&self) -> bool {
        matches!(self.point_id, PointRule::Column(_))
    }

    /// Applies the rule to a memory that was read with [`crate::memory::Role::Point`].
    #[must_use]
    pub fn derive(&self, memory: &Memory) -> Derived {
        let Some(id) = &memory.id else {
            return Derived::None {
                why: "the row has no usable key",
            };
        };
        let nobody = Namespace::nobody();
        let namespace = match (&memory.namespace, self.point_id) {
            (Some(namespace), _) => namespace,
            // These do not ask whose the memory is.
            (None, PointRule::Integer | PointRule::Uuid | PointRule::Column(_)) => &nobody,
            (None, PointRule::Uuid5 { .. } | PointRule::Payload { .. }) => {
                return Derived::None {
                    why: "the row names no namespace",
                };
            }
        };
        let tenant = self.rows.tenant_of(namespace).unwrap_or_default();
        derive(
            self.point_id,
            id,
            namespace,
            tenant,
            memory.point.as_deref(),
        )
    }
}

/// Applies `rule` to one memory; `column` is the value of [`crate::memory::Role::Point`].
#[must_use]
pub fn derive(
    rule: &PointRule,
    memory: &MemoryId,
    namespace: &Namespace,
    tenant: &str,
    column: Option<&str>,
) -> Derived {
    match rule {
        PointRule::Integer => integer(memory),
        PointRule::Uuid => uuid(memory),
        PointRule::Uuid5 {
            namespace: space,
            template,
        } => {
            let name = render(template, memory, namespace, tenant);
            Derived::Id(PointId::Uuid(Uuid::new_v5(space, name.as_bytes())))
        }
        PointRule::Column(_) => match column {
            Some(id) if !id.is_empty() => Derived::Id(PointId::from_text(id)),
            _ => Derived::None {
                why: "the column of the point id is empty",
            },
        },
        PointRule::Payload { key, template } => Derived::ByPayload {
            key: key.clone(),
            value: render(template, memory, namespace, tenant),
        },
    }
}

fn integer(memory: &MemoryId) -> Derived {
    match memory {
        MemoryId::Integer(id) => u64::try_from(*id).map_or(
            Derived::None {
                why: "a negative key cannot be the id of a point",
            },
            |id| Derived::Id(PointId::Number(id)),
        ),
        MemoryId::Text(_) | MemoryId::Bytes(_) => Derived::None {
            why: "the key is not an integer",
        },
    }
}

fn uuid(memory: &MemoryId) -> Derived {
    let uuid = match memory {
        MemoryId::Text(text) => Uuid::try_parse(text).ok(),
        MemoryId::Bytes(bytes) => Uuid::from_slice(bytes).ok(),
        MemoryId::Integer(_) => None,
    };
    uuid.map_or(
        Derived::None {
            why: "the key is not a UUID",
        },
        |uuid| Derived::Id(PointId::Uuid(uuid)),
    )
}

/// Replaces `{namespace}`, `{tenant}` and `{id}`; any other brace stands for itself.
fn render(template: &str, memory: &MemoryId, namespace: &Namespace, tenant: &str) -> String {
    let id = memory.to_string();
    let values = [
        ("{namespace}", namespace.as_str()),
        ("{tenant}", tenant),
        ("{id}", id.as_str()),
    ];
    let mut rendered = String::with_capacity(template.len() + id.len());
    let mut rest = template;
    while let Some(brace) = rest.find('{') {
        rendered.push_str(&rest[..brace]);
        rest = &rest[brace..];
        let (taken, value) = values
            .iter()
            .find(|(placeholder, _)| rest.starts_with(placeholder))
            .map_or((1, "{"), |(placeholder, value)| (placeholder.len(), *value));
        rendered.push_str(value);
        rest = &rest[taken..];
    }
    rendered.push_str(rest);
    rendered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(rule: &PointRule, memory: &MemoryId, column: Option<&str>) -> Derived {
        let namespace = Namespace::parse("user:6a2f").unwrap();
        derive(rule, memory, &namespace, "6a2f", column)
    }

    fn text(id: &str) -> MemoryId {
        MemoryId::Text(id.into())
    }

    fn uuid5(space: Uuid, template: &str) -> PointRule {
        PointRule::Uuid5 {
            namespace: space,
            template: template.into(),
        }
    }

    fn point(uuid: &str) -> Derived {
        Derived::Id(PointId::Uuid(Uuid::try_parse(uuid).unwrap()))
    }

    /// The expected ids were computed with Python's `uuid.uuid5`.
    #[test]
    fn uuid5_agrees_with_python() {
        let own = Uuid::try_parse("12345678-1234-5678-1234-567812345678").unwrap();
        for (space, template, id, expected) in [
            (
                Uuid::NAMESPACE_DNS,
                "{id}",
                text("knowledge:42"),
                "03b7dff7-259c-5770-8857-265ab04acb53",
            ),
            (
                Uuid::NAMESPACE_DNS,
                "knowledge:{id}",
                MemoryId::Integer(42),
                "03b7dff7-259c-5770-8857-265ab04acb53",
            ),
            (
                Uuid::NAMESPACE_DNS,
                "{id}",
                text("сессия/2026-04-10/msg-17"),
                "b2ba0821-2f2c-50ff-a926-ac6b4582c334",
            ),
            (
                Uuid::NAMESPACE_DNS,
                "{namespace}::{id}",
                MemoryId::Integer(42),
                "5f4bfe89-9968-535c-93d1-3b9a64d8f10b",
            ),
            (
                Uuid::NAMESPACE_DNS,
                "user:{tenant}::{id}",
                text("42"),
                "5f4bfe89-9968-535c-93d1-3b9a64d8f10b",
            ),
            (
                own,
                "a",
                MemoryId::Integer(1),
                "c42c6218-7394-567a-9c63-de6a41fe226f",
            ),
        ] {
            let derived = apply(&uuid5(space, template), &id, None);
            assert_eq!(derived, point(expected), "{template} of {id}");
        }
    }

    #[test]
    fn a_template_is_replaced_in_one_pass() {
        let namespace = Namespace::parse("user:{id}").unwrap();
        for (template, id, expected) in [
            ("{id}", "{tenant}", "{tenant}"),
            (
                "{tenant}/{id}",
                "{namespace}{id}",
                "{namespace}/{namespace}{id}",
            ),
            ("{namespace}", "x", "user:{id}"),
            ("{{id}}", "7", "{7}"),
            ("{other}{id", "7", "{other}{id"),
            ("ação {id} é", "ü", "ação ü é"),
            ("", "7", ""),
        ] {
            let rendered = render(template, &text(id), &namespace, "{namespace}");
            assert_eq!(rendered, expected, "{template}");
        }
    }

    #[test]
    fn an_integer_rule_takes_only_unsigned_integers() {
        let number = |id| Derived::Id(PointId::Number(id));
        let rule = PointRule::Integer;
        assert_eq!(apply(&rule, &MemoryId::Integer(0), None), number(0));
        assert_eq!(
            apply(&rule, &MemoryId::Integer(i64::MAX), None),
            number(u64::try_from(i64::MAX).unwrap())
        );
        for id in [
            MemoryId::Integer(-1),
            text("42"),
            MemoryId::Bytes((*b"42").into()),
        ] {
            let derived = apply(&rule, &id, None);
            assert!(matches!(derived, Derived::None { .. }), "{id:?}");
        }
    }

    #[test]
    fn a_uuid_rule_takes_every_spelling() {
        let dashed = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        let uuid = Uuid::try_parse(dashed).unwrap();
        for id in [
            text(dashed),
            text("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"),
            text("6ba7b8109dad11d180b400c04fd430c8"),
            text("{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"),
            text("urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            MemoryId::Bytes(uuid.as_bytes().as_slice().into()),
        ] {
            assert_eq!(apply(&PointRule::Uuid, &id, None), point(dashed), "{id:?}");
        }
        for id in [
            text("note-7"),
            text(""),
            MemoryId::Integer(7),
            MemoryId::Bytes(uuid.as_bytes()[..15].into()),
        ] {
            let derived = apply(&PointRule::Uuid, &id, None);
            assert!(matches!(derived, Derived::None { .. }), "{id:?}");
        }
    }

    #[test]
    fn a_column_names_the_point_unless_it_is_empty() {
        let rule = PointRule::Column("point_id".into());
        let id = MemoryId::Integer(1);
        for (column, expected) in [
            ("17", PointId::Number(17)),
            ("note-7", PointId::Text("note-7".into())),
            (
                "6BA7B8109DAD11D180B400C04FD430C8",
                PointId::from_text("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ),
        ] {
            assert_eq!(
                apply(&rule, &id, Some(column)),
                Derived::Id(expected),
                "{column}"
            );
        }
        for column in [None, Some("")] {
            let derived = apply(&rule, &id, column);
            assert!(matches!(derived, Derived::None { .. }), "{column:?}");
        }
    }

    #[test]
    fn a_payload_rule_names_key_and_value() {
        let rule = PointRule::Payload {
            key: "metadata.doc_id".into(),
            template: "{namespace}/{id}".into(),
        };
        assert_eq!(
            apply(&rule, &MemoryId::Integer(7), None),
            Derived::ByPayload {
                key: "metadata.doc_id".into(),
                value: "user:6a2f/7".into()
            }
        );
    }
}
