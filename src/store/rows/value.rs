//! Reading SQLite values by what they are, not by what their column was declared to hold.
//!
//! A TEXT column may hold BLOBs (`LangGraph` writes JSON so), an INTEGER column text, and a UUID column numbers.

use std::borrow::Cow;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use uuid::Uuid;

use crate::context::Context;
use crate::memory::MemoryId;
use crate::store::image::SqlValue;

impl ToSql for MemoryId {
    /// Binds the id in its own storage class.
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Integer(id) => ToSqlOutput::Owned(Value::Integer(*id)),
            Self::Text(id) => ToSqlOutput::Borrowed(ValueRef::Text(id.as_bytes())),
            Self::Bytes(id) => ToSqlOutput::Borrowed(ValueRef::Blob(id)),
        })
    }
}

/// A value of an image as SQLite hands values out.
pub(super) fn as_ref(value: &SqlValue) -> ValueRef<'_> {
    match value {
        SqlValue::Null => ValueRef::Null,
        SqlValue::Integer(i) => ValueRef::Integer(*i),
        SqlValue::Real(r) => ValueRef::Real(*r),
        SqlValue::Text(t) => ValueRef::Text(t),
        SqlValue::Blob(b) => ValueRef::Blob(b),
    }
}

/// The key of a memory. `None` for NULL, REAL (a UUID that numeric affinity destroyed) and text that is not UTF-8:
/// such a row cannot be addressed, and is left alone.
pub(super) fn id_of(value: ValueRef<'_>) -> Option<MemoryId> {
    match value {
        ValueRef::Integer(id) => Some(MemoryId::Integer(id)),
        ValueRef::Text(id) => Some(MemoryId::Text(std::str::from_utf8(id).ok()?.into())),
        ValueRef::Blob(id) => Some(MemoryId::Bytes(id.into())),
        ValueRef::Null | ValueRef::Real(_) => None,
    }
}

/// A reference to another memory, in the storage class that its id has: `'5'` leads to 5 in a table with an integer
/// key. NULL, blank text and 0 refer to nothing.
pub(super) fn reference_of(value: ValueRef<'_>, ids: Affinity) -> Option<MemoryId> {
    match value {
        ValueRef::Integer(0) => None,
        ValueRef::Text(text) if text.trim_ascii().is_empty() => None,
        _ => match ids.apply(value) {
            SqlValue::Integer(0) => None,
            applied => id_of(as_ref(&applied)),
        },
    }
}

/// Text, also from a BLOB that is UTF-8; numbers as SQLite would write them.
pub(super) fn text_of(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(i) => Some(i.to_string().into()),
        ValueRef::Real(r) => Some(format!("{r:?}").into()),
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
        ValueRef::Blob(bytes) => Some(std::str::from_utf8(bytes).ok()?.into()),
    }
}

/// What a context says, as it is written, for a person: nothing where it has no facts, and `unreadable` where it is no text.
pub(super) fn context_of(value: ValueRef<'_>) -> Option<String> {
    match Context::read(value) {
        Context::Unreadable => Some("unreadable".to_owned()),
        facts if facts.size() == 0 => None,
        Context::Facts(_) => Some(text_of(value)?.into_owned()),
    }
}

/// The spelling of a key: text as it is, an integer in decimal, sixteen bytes as a hyphenated UUID. `None` for
/// anything else, and for blank text.
pub(super) fn spelling_of(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    match value {
        ValueRef::Integer(i) => Some(i.to_string().into()),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes).ok()?;
            (!text.trim().is_empty()).then_some(Cow::Borrowed(text))
        }
        ValueRef::Blob(bytes) => Some(Uuid::from_slice(bytes).ok()?.to_string().into()),
        ValueRef::Null | ValueRef::Real(_) => None,
    }
}

/// Whether there is nothing there: NULL or blank text.
pub(super) fn is_blank(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Null => true,
        ValueRef::Text(bytes) => bytes.trim_ascii().is_empty(),
        ValueRef::Blob(_) | ValueRef::Integer(_) | ValueRef::Real(_) => false,
    }
}

/// A finite number, also from numeric text.
pub(super) fn number_of(value: ValueRef<'_>) -> Option<f64> {
    let number = match value {
        #[expect(
            clippy::cast_precision_loss,
            reason = "scores and counters are far below 2^53"
        )]
        ValueRef::Integer(i) => i as f64,
        ValueRef::Real(r) => r,
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            std::str::from_utf8(text).ok()?.trim().parse().ok()?
        }
        ValueRef::Null => return None,
    };
    number.is_finite().then_some(number)
}

/// A counter: a whole number from zero on.
pub(super) fn count_of(value: ValueRef<'_>) -> Option<u64> {
    let number = number_of(value)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be in range"
    )]
    (0.0..9e15).contains(&number).then_some(number as u64)
}

/// Whether a flag is set. What cannot be understood counts as set: a pinned memory is kept.
pub(super) fn flag_of(value: ValueRef<'_>) -> bool {
    const UNSET: [&str; 9] = ["", "0", "0.0", "false", "f", "no", "n", "off", "none"];
    match value {
        ValueRef::Null => false,
        ValueRef::Integer(i) => i != 0,
        ValueRef::Real(r) => r != 0.0,
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            let text = String::from_utf8_lossy(text.trim_ascii()).to_ascii_lowercase();
            !UNSET.contains(&text.as_str())
        }
    }
}

/// What a column makes of a value that is stored in it or compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Affinity {
    /// Numbers become text.
    Text,
    /// Text that is a number becomes one.
    Numeric,
    /// Nothing changes.
    Blob,
}

impl Affinity {
    /// The affinity of a declared type, by the rules of SQLite (INTEGER, REAL and NUMERIC compare alike).
    pub(super) fn of(declared: &str) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Self::Numeric
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Self::Text
        } else if has("BLOB") || declared.is_empty() {
            Self::Blob
        } else {
            Self::Numeric
        }
    }

    /// The value as the column would compare it: whole numbers always as INTEGER.
    pub(super) fn apply(self, value: ValueRef<'_>) -> SqlValue {
        match (self, value) {
            (Self::Text, ValueRef::Integer(i)) => SqlValue::Text(i.to_string().into_bytes()),
            (Self::Numeric, ValueRef::Text(text)) => match std::str::from_utf8(text.trim_ascii()) {
                Ok(text) => text.parse().map_or_else(
                    |_| text.parse().map_or(SqlValue::from(value), whole),
                    SqlValue::Integer,
                ),
                Err(_) => value.into(),
            },
            (_, ValueRef::Real(real)) => whole(real),
            _ => value.into(),
        }
    }
}

/// A REAL without a fraction as the INTEGER that it equals.
fn whole(real: f64) -> SqlValue {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and in range"
    )]
    if real.fract() == 0.0 && real.abs() < 9e15 {
        SqlValue::Integer(real as i64)
    } else {
        SqlValue::Real(real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ValueRef<'_> {
        ValueRef::Text(text.as_bytes())
    }

    #[test]
    fn keys_keep_their_storage_class() {
        assert_eq!(id_of(ValueRef::Integer(5)), Some(MemoryId::Integer(5)));
        assert_eq!(id_of(text("5")), Some(MemoryId::Text("5".into())));
        assert_eq!(
            id_of(ValueRef::Blob(b"5")),
            Some(MemoryId::Bytes((*b"5").into()))
        );
        for lost in [
            ValueRef::Null,
            ValueRef::Real(1.2e31),
            ValueRef::Text(b"\xff"),
        ] {
            assert_eq!(id_of(lost), None, "{lost:?}");
        }
    }

    #[test]
    fn references_follow_the_class_of_the_ids() {
        let five = Some(MemoryId::Integer(5));
        assert_eq!(reference_of(text(" 5 "), Affinity::Numeric), five);
        assert_eq!(reference_of(ValueRef::Real(5.0), Affinity::Numeric), five);
        assert_eq!(
            reference_of(ValueRef::Integer(5), Affinity::Text),
            Some(MemoryId::Text("5".into()))
        );
        assert_eq!(
            reference_of(text("5"), Affinity::Blob),
            Some(MemoryId::Text("5".into()))
        );
        for nothing in [
            ValueRef::Null,
            text(""),
            text("  "),
            text("0"),
            ValueRef::Integer(0),
        ] {
            assert_eq!(
                reference_of(nothing, Affinity::Numeric),
                None,
                "{nothing:?}"
            );
        }
    }

    #[test]
    fn spellings_of_keys() {
        assert_eq!(spelling_of(ValueRef::Integer(-7)).unwrap(), "-7");
        assert_eq!(spelling_of(text("ana")).unwrap(), "ana");
        assert_eq!(
            spelling_of(ValueRef::Blob(&[0x11; 16])).unwrap(),
            "11111111-1111-1111-1111-111111111111"
        );
        for nobody in [
            ValueRef::Null,
            text(""),
            text(" \t"),
            ValueRef::Real(1.0),
            ValueRef::Blob(b"ana"),
            ValueRef::Text(b"\xfe"),
        ] {
            assert_eq!(spelling_of(nobody), None, "{nobody:?}");
        }
    }

    #[test]
    fn a_flag_that_cannot_be_understood_is_set() {
        for set in [
            ValueRef::Integer(2),
            ValueRef::Real(0.5),
            text("true"),
            text("pinned"),
            ValueRef::Blob(&[0xff]),
        ] {
            assert!(flag_of(set), "{set:?}");
        }
        for unset in [
            ValueRef::Null,
            ValueRef::Integer(0),
            text(" FALSE "),
            text(""),
            ValueRef::Blob(b"0"),
        ] {
            assert!(!flag_of(unset), "{unset:?}");
        }
    }

    #[test]
    fn counters_and_numbers() {
        assert_eq!(count_of(text("12")), Some(12));
        assert_eq!(count_of(ValueRef::Real(3.9)), Some(3));
        for none in [
            ValueRef::Null,
            ValueRef::Integer(-1),
            text("many"),
            text("NaN"),
            text("inf"),
        ] {
            assert_eq!(count_of(none), None, "{none:?}");
        }
    }

    #[test]
    fn affinities_by_declared_type() {
        for (declared, affinity) in [
            ("INTEGER", Affinity::Numeric),
            ("BIGINT", Affinity::Numeric),
            ("varchar(36)", Affinity::Text),
            ("TEXT", Affinity::Text),
            ("", Affinity::Blob),
            ("BLOB", Affinity::Blob),
            ("UUID", Affinity::Numeric),
            ("DATETIME", Affinity::Numeric),
            ("REAL", Affinity::Numeric),
            ("POINT", Affinity::Numeric),
        ] {
            assert_eq!(Affinity::of(declared), affinity, "{declared}");
        }
    }
}
