//! How the key of a vector table is spelt.
//!
//! One point may be kept as `6ba7b810-9dad-...`, without the hyphens, in capitals, in braces, as a URN or in sixteen
//! bytes; a number as an INTEGER or as its decimal text. [`point_id`] reads any of them, and [`spellings`] lists those
//! that are looked up in the index. The rest ([`irregular`]) can only be found by looking at every key.

use rusqlite::types::ValueRef;
use uuid::Uuid;

use crate::memory::PointId;
use crate::store::image::SqlValue;

/// Reads a key; `None` for what no point id can name (NULL, a negative or fractional number, bytes that are no UUID,
/// text that is no text).
pub(super) fn point_id(key: ValueRef<'_>) -> Option<PointId> {
    match key {
        ValueRef::Integer(id) => u64::try_from(id).ok().map(PointId::Number),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(PointId::from_text),
        ValueRef::Blob(bytes) => Uuid::from_slice(bytes).ok().map(PointId::Uuid),
        ValueRef::Null | ValueRef::Real(_) => None,
    }
}

/// The keys under which a point is usually kept.
pub(super) fn spellings(id: &PointId) -> Vec<SqlValue> {
    let text = |text: String| SqlValue::Text(text.into_bytes());
    match id {
        PointId::Number(id) => i64::try_from(*id)
            .map(SqlValue::Integer)
            .into_iter()
            .chain([text(id.to_string())])
            .collect(),
        PointId::Uuid(id) => spellings_in(id, &[true; FORMS.len()]),
        PointId::Text(id) => vec![text(id.to_string())],
    }
}

/// The forms of a UUID that are looked up.
const FORMS: [fn(&Uuid) -> SqlValue; 5] = [
    |id| SqlValue::Text(format!("{:x}", id.hyphenated()).into_bytes()),
    |id| SqlValue::Text(format!("{:x}", id.simple()).into_bytes()),
    |id| SqlValue::Text(format!("{:X}", id.hyphenated()).into_bytes()),
    |id| SqlValue::Text(format!("{:X}", id.simple()).into_bytes()),
    |id| SqlValue::Blob(id.as_bytes().to_vec()),
];

/// The same for a UUID, in those of its forms only that are in use, see [`forms`].
pub(super) fn spellings_in(id: &Uuid, in_use: &[bool]) -> Vec<SqlValue> {
    let forms = FORMS.iter().zip(in_use).filter(|(_, in_use)| **in_use);
    forms.map(|(spelling, _)| spelling(id)).collect()
}

/// The forms of a UUID that [`spellings`] lists, as aggregates over the quoted column of the key: whether the table has
/// a key that may be of it, in the same order.
pub(super) fn forms(column: &str) -> String {
    let text = |length: u32, letters: &str| {
        format!(
            "max(typeof({column}) = 'text' AND length({column}) = {length} AND NOT {column} GLOB '*[{letters}]*')"
        )
    };
    [
        text(36, "A-F"),
        text(32, "A-F"),
        text(36, "a-f"),
        text(32, "a-f"),
        format!("max(typeof({column}) = 'blob')"),
    ]
    .join(", ")
}

/// A condition, on the quoted column of the key, that every other spelling of a UUID meets: in braces, as a URN, in
/// letters of both cases.
pub(super) fn irregular(column: &str) -> String {
    format!(
        "typeof({column}) = 'text' AND (length({column}) IN (38, 45) \
         OR length({column}) IN (32, 36) AND {column} GLOB '*[A-F]*' AND {column} GLOB '*[a-f]*')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read_as_the_point_it_names() {
        for id in [
            PointId::Number(0),
            PointId::Number(42),
            PointId::Number(u64::MAX),
            PointId::Text("заметка".into()),
            PointId::Text("007".into()),
            PointId::from_text("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ] {
            let spellings = spellings(&id);
            assert!(!spellings.is_empty());
            for key in spellings {
                let read = match &key {
                    SqlValue::Integer(i) => point_id(ValueRef::Integer(*i)),
                    SqlValue::Text(t) => point_id(ValueRef::Text(t)),
                    SqlValue::Blob(b) => point_id(ValueRef::Blob(b)),
                    SqlValue::Null | SqlValue::Real(_) => None,
                };
                assert_eq!(read.as_ref(), Some(&id), "{key:?}");
            }
        }
    }

    #[test]
    fn what_names_no_point_is_not_read() {
        for key in [
            ValueRef::Null,
            ValueRef::Integer(-1),
            ValueRef::Real(1.0),
            ValueRef::Blob(b"15 bytes are no"),
            ValueRef::Text(&[0xff]),
        ] {
            assert_eq!(point_id(key), None, "{key:?}");
        }
    }
}
