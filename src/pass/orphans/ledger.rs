//! The ledger: which points the rows call for, so that the points can be held against it.
//!
//! It is built from the row databases before the first point is read, and takes some fifty bytes a memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::clock::Timestamp;
use crate::config::{self, PointRule};
use crate::memory::{Memory, Namespace, PointId, Role};
use crate::pass::live::letters_of;
use crate::store::rows::{RowError, Snapshot};
use crate::store::vectors::PointHead;
use crate::store::vectors::point_id::{Derived, Rule};
use crate::text;

/// The roles that tell whether a memory should have a point, and which.
pub const ROLES: [Role; 4] = [
    Role::SupersededBy,
    Role::DeletedAt,
    Role::ValidTo,
    Role::Point,
];

/// What the rows of one or more databases call for.
#[derive(Debug, Default)]
pub struct Ledger {
    by_id: Vec<(PointId, Entry)>,
    by_payload: Vec<((Namespace, Box<str>), Entry)>,
    /// Rows read, hidden ones too.
    pub rows: u64,
    /// Rows whose tenant is NULL or empty.
    pub without_namespace: u64,
    /// Live rows of which no point can be told.
    without_rule: u64,
    /// Namespaces with a row whose point exists, maybe, but cannot be told: its key does not fit the rule. A point of
    /// such a namespace that no row calls for may be that row's.
    unclear: BTreeSet<Namespace>,
    /// Whether a row names no owner while its point can only be told by the owner.
    unclear_everywhere: bool,
    /// Live rows by namespace, in one spelling.
    live: BTreeMap<String, u64>,
    /// The payload key of the text of a point, where it is held against that of its row.
    text: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// A hidden memory needs no point.
    needs_point: bool,
    seen: bool,
    /// The letters of the text, of a row that needs a point; `None` where they are not asked for.
    letters: Option<u64>,
}

/// Whether the rows call for a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A row stands behind it.
    Called,
    /// A row does, whose text is not the point's.
    Stale,
    /// No row does.
    Uncalled,
    /// It names none, where points are to name theirs.
    Unlinked,
}

impl Ledger {
    /// Reads what the rows of one database call for, calling `each` for every row that has a namespace. Where the payload
    /// key `text` says what the vector of a point was made of, the texts are read, too.
    ///
    /// # Errors
    ///
    /// When the rows cannot be read to the end.
    pub fn read(
        rule: &Rule<'_>,
        text: Option<&str>,
        snapshot: &Snapshot,
        now: Timestamp,
        mut each: impl FnMut(&Memory, &Namespace),
    ) -> Result<Self, RowError> {
        let mut ledger = Self {
            text: text.map(str::to_owned),
            ..Self::default()
        };
        let mut roles = ROLES.to_vec();
        roles.extend(text.map(|_| Role::Content));
        snapshot.scan_rows(&roles, &mut |memory| {
            if memory.is_other {
                ledger.enter_other(rule, &memory);
                return ControlFlow::Continue(());
            }
            ledger.rows += 1;
            ledger.enter(rule, &memory, now);
            if let Some(namespace) = &memory.namespace {
                each(&memory, namespace);
            }
            ControlFlow::Continue(())
        })?;
        Ok(ledger)
    }

    fn enter(&mut self, rule: &Rule<'_>, memory: &Memory, now: Timestamp) {
        let is_live = !memory.is_hidden(now);
        let needs_point = is_live && memory.needs_point;
        match (&memory.namespace, is_live) {
            (None, _) => self.without_namespace += 1,
            (Some(namespace), true) => *self.live.entry(namespace.normal()).or_default() += 1,
            (Some(_), false) => {}
        }
        self.call(rule, memory, needs_point);
    }

    /// Enters a row that is no memory: nobody misses its point, and nobody takes it.
    fn enter_other(&mut self, rule: &Rule<'_>, memory: &Memory) {
        self.call(rule, memory, false);
    }

    fn call(&mut self, rule: &Rule<'_>, memory: &Memory, needs_point: bool) {
        let text = memory.content.as_deref().filter(|_| needs_point);
        let entry = Entry {
            needs_point: needs_point && memory.namespace.is_some(),
            seen: false,
            letters: text.and_then(text::letters),
        };
        match (rule.derive(memory), &memory.namespace) {
            (Derived::Id(point), _) => self.by_id.push((point, entry)),
            (Derived::ByPayload { value, .. }, Some(namespace)) => {
                self.by_payload
                    .push(((namespace.clone(), value.into()), entry));
            }
            (Derived::ByPayload { .. } | Derived::None { .. }, None) => {
                self.unclear_everywhere |= !rule.is_column();
            }
            (Derived::None { .. }, Some(namespace)) => {
                self.without_rule += u64::from(needs_point);
                // A column that is empty says that there is no point; a rule that does not fit says nothing.
                if memory.id.is_none() || !rule.is_column() {
                    self.unclear.insert(namespace.clone());
                }
            }
        }
    }

    /// Whether a point of the namespace that no row calls for may still be a row's: of one whose key does not fit the
    /// rule, or of one that names no owner.
    #[must_use]
    pub fn is_unclear(&self, namespace: &Namespace) -> bool {
        self.unclear_everywhere || self.unclear.contains(namespace)
    }

    /// Live rows of a namespace, in whatever spelling.
    #[must_use]
    pub fn live(&self, namespace: &Namespace) -> u64 {
        self.live
            .get(&namespace.normal())
            .copied()
            .unwrap_or_default()
    }

    /// Adds what another database calls for.
    pub fn append(&mut self, other: Self) {
        let Self {
            by_id,
            by_payload,
            rows,
            without_namespace,
            without_rule,
            unclear,
            unclear_everywhere,
            live,
            text,
        } = other;
        self.text = self.text.take().or(text);
        self.by_id.extend(by_id);
        self.by_payload.extend(by_payload);
        self.rows += rows;
        self.without_namespace += without_namespace;
        self.without_rule += without_rule;
        self.unclear.extend(unclear);
        self.unclear_everywhere |= unclear_everywhere;
        for (namespace, rows) in live {
            *self.live.entry(namespace).or_default() += rows;
        }
    }

    /// Makes the ledger ready to be looked up.
    pub fn close(&mut self) {
        self.by_id.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.by_payload.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    }

    /// Looks a point up, and remembers that it was seen.
    pub fn check(&mut self, rule: &PointRule, namespace: &Namespace, head: &PointHead) -> Standing {
        let made_of = self.text.as_deref();
        let made_of = made_of.and_then(|key| letters_of(head, key));
        if let PointRule::Payload { key, .. } = rule {
            let Some(value) = payload_text(&head.payload, key) else {
                return Standing::Unlinked;
            };
            let wanted = (namespace.clone(), value.into_boxed_str());
            mark(&mut self.by_payload, &wanted, made_of)
        } else {
            mark(&mut self.by_id, &head.id, made_of)
        }
    }

    /// Whether a row calls for a point of this id.
    #[must_use]
    pub fn has(&self, point: &PointId) -> bool {
        self.by_id
            .binary_search_by(|(known, _)| known.cmp(point))
            .is_ok()
    }

    /// Live rows that should have a point, and of which none was seen.
    #[must_use]
    pub fn rows_without_point(&self) -> u64 {
        let entries = self
            .by_id
            .iter()
            .map(|(_, entry)| entry)
            .chain(self.by_payload.iter().map(|(_, entry)| entry));
        entries
            .filter(|entry| entry.needs_point && !entry.seen)
            .count() as u64
            + self.without_rule
    }
}

/// Marks the entries of a key as seen, by a point whose vector was made of a text with these letters.
fn mark<K: Ord>(entries: &mut [(K, Entry)], key: &K, made_of: Option<u64>) -> Standing {
    let from = entries.partition_point(|(known, _)| known < key);
    let mut standing = Standing::Uncalled;
    for (_, entry) in entries[from..]
        .iter_mut()
        .take_while(|(known, _)| known == key)
    {
        entry.seen = true;
        let is_other = made_of.is_some_and(|text| entry.letters.is_some_and(|own| own != text));
        standing = match (standing, is_other) {
            (Standing::Called, _) | (_, false) => Standing::Called,
            (_, true) => Standing::Stale,
        };
    }
    standing
}

/// The value of a payload key as text; `a.b` reaches into nested objects.
#[must_use]
pub fn payload_text(
    payload: &serde_json::Map<String, serde_json::Value>,
    key: &str,
) -> Option<String> {
    let value = payload.get(key).or_else(|| {
        let (head, rest) = key.split_once('.')?;
        let pointer = format!("/{}", rest.replace('.', "/"));
        payload.get(head)?.pointer(&pointer)
    })?;
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The payload keys that a scroll must bring for the ledger to look points up.
#[must_use]
pub fn keys(vectors: &config::Vectors) -> Vec<&str> {
    let mut keys = CREATED_AT.to_vec();
    if let PointRule::Payload { key, .. } = &vectors.point_id {
        keys.push(key);
    }
    keys.extend(vectors.text.as_deref());
    keys
}

/// The payload keys that may tell how old a point is.
pub const CREATED_AT: [&str; 2] = ["created_at", "metadata.created_at"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryId;
    use serde_json::json;

    fn head(id: u64, payload: serde_json::Value) -> PointHead {
        let serde_json::Value::Object(payload) = payload else {
            panic!("an object")
        };
        PointHead {
            id: PointId::Number(id),
            namespace: Some("user:ana".into()),
            payload,
        }
    }

    fn namespace() -> Namespace {
        Namespace::parse("user:ana").unwrap()
    }

    fn ledger(point_id: &PointRule, memories: &[Memory]) -> Ledger {
        let rows = config::Rows::sample();
        let rule = Rule {
            point_id,
            rows: &rows,
        };
        let mut ledger = Ledger::default();
        for memory in memories {
            let memory = Memory {
                namespace: Some(namespace()),
                ..memory.clone()
            };
            ledger.enter(&rule, &memory, Timestamp::UNIX_EPOCH);
        }
        ledger.close();
        ledger
    }

    #[test]
    fn a_row_without_its_point_counts_and_a_hidden_one_does_not() {
        let rule = PointRule::Integer;
        let hidden = Memory {
            superseded_by: Some(MemoryId::Integer(1)),
            ..Memory::new(Some(MemoryId::Integer(3)))
        };
        let live = |id| Memory::new(Some(MemoryId::Integer(id)));
        let mut ledger = ledger(&rule, &[live(1), live(2), hidden, live(-1)]);
        assert_eq!(
            ledger.check(&rule, &namespace(), &head(1, json!({}))),
            Standing::Called
        );
        assert_eq!(
            ledger.check(&rule, &namespace(), &head(3, json!({}))),
            Standing::Called
        );
        assert_eq!(
            ledger.check(&rule, &namespace(), &head(4, json!({}))),
            Standing::Uncalled
        );
        assert_eq!(
            ledger.rows_without_point(),
            2,
            "2 was not seen, -1 can have no point"
        );
    }

    #[test]
    fn a_point_of_another_text_than_its_row_is_stale() {
        let rule = PointRule::Integer;
        let says = |id, text: &str| Memory {
            content: Some(text.into()),
            ..Memory::new(Some(MemoryId::Integer(id)))
        };
        let hidden = Memory {
            superseded_by: Some(MemoryId::Integer(1)),
            ..says(3, "Ana has a cat")
        };
        let silent = Memory::new(Some(MemoryId::Integer(4)));
        let rows = [says(1, "Ana has a cat"), says(2, "..."), hidden, silent];
        let mut ledger = ledger(&rule, &rows);
        ledger.text = Some("data".into());
        let dog = json!({"data": "Ana has a dog"});
        for (id, payload, standing) in [
            (1, dog.clone(), Standing::Stale),
            (1, json!({"data": " ana HAS a cat. "}), Standing::Called),
            (1, json!({"data": 7}), Standing::Called),
            (1, json!({"data": ""}), Standing::Called),
            (1, json!({"text": "Ana has a dog"}), Standing::Called),
            (2, dog.clone(), Standing::Called),
            (3, dog.clone(), Standing::Called),
            (4, dog.clone(), Standing::Called),
            (5, dog, Standing::Uncalled),
        ] {
            let found = ledger.check(&rule, &namespace(), &head(id, payload.clone()));
            assert_eq!(found, standing, "{id} {payload}");
        }
    }

    #[test]
    fn a_payload_link_holds_only_inside_its_namespace() {
        let rule = PointRule::Payload {
            key: "meta.doc".into(),
            template: "{id}".into(),
        };
        let mut ledger = ledger(&rule, &[Memory::new(Some(MemoryId::Integer(7)))]);
        let bruno = Namespace::parse("user:bruno").unwrap();
        let linked = head(900, json!({"meta": {"doc": 7}}));
        assert_eq!(ledger.check(&rule, &bruno, &linked), Standing::Uncalled);
        assert_eq!(ledger.check(&rule, &namespace(), &linked), Standing::Called);
        assert_eq!(
            ledger.check(
                &rule,
                &namespace(),
                &head(901, json!({"meta": {"doc": "8"}}))
            ),
            Standing::Uncalled
        );
        assert_eq!(
            ledger.check(&rule, &namespace(), &head(902, json!({}))),
            Standing::Unlinked
        );
    }
}
