//! How values stand in the state file, each with one wrapper that writes and reads it.
//!
//! Times are microseconds since 1970. Ids keep their storage class, so that `5` and `'5'` stay two. Images are a byte
//! for the format and then postcard. Names of closed sets are text.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::memory::{MemoryId, Namespace, PointId, Version};
use crate::pass::PassName;
use crate::plan::ActionKind;

/// The first byte of a packed value; a change of what is packed gets the next one.
const FORMAT: u8 = 1;

fn unreadable(what: impl Into<String>) -> FromSqlError {
    FromSqlError::Other(what.into().into())
}

/// An instant, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct At(pub(super) Timestamp);

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(Value::Integer(self.0.as_microsecond())))
    }
}

impl FromSql for At {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let micros = value.as_i64()?;
        Timestamp::from_microsecond(micros)
            .map(Self)
            .map_err(|_| FromSqlError::OutOfRange(micros))
    }
}

/// A number of things.
pub(super) struct Count(pub(super) u64);

impl ToSql for Count {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        i64::try_from(self.0)
            .map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl FromSql for Count {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let count = value.as_i64()?;
        u64::try_from(count)
            .map(Self)
            .map_err(|_| FromSqlError::OutOfRange(count))
    }
}

/// The id of a memory, by storage class.
pub(super) struct Id(pub(super) MemoryId);

/// The same, to bind.
pub(super) struct IdRef<'a>(pub(super) &'a MemoryId);

impl ToSql for IdRef<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            MemoryId::Integer(id) => ValueRef::Integer(*id),
            MemoryId::Text(id) => ValueRef::Text(id.as_bytes()),
            MemoryId::Bytes(id) => ValueRef::Blob(id),
        }))
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value {
            ValueRef::Integer(id) => MemoryId::Integer(id),
            ValueRef::Text(_) => MemoryId::Text(value.as_str()?.into()),
            ValueRef::Blob(id) => MemoryId::Bytes(id.into()),
            ValueRef::Null | ValueRef::Real(_) => return Err(FromSqlError::InvalidType),
        }))
    }
}

/// The id of a point: a number (as eight bytes when it is beyond SQLite's), sixteen bytes, or text.
pub(super) struct Point(pub(super) PointId);

/// The same, to bind.
pub(super) struct PointRef<'a>(pub(super) &'a PointId);

impl ToSql for PointRef<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            PointId::Number(id) => ToSqlOutput::Owned(
                i64::try_from(*id)
                    .map_or_else(|_| Value::Blob(id.to_be_bytes().to_vec()), Value::Integer),
            ),
            PointId::Uuid(id) => ToSqlOutput::Borrowed(ValueRef::Blob(id.as_bytes())),
            PointId::Text(id) => ToSqlOutput::Borrowed(ValueRef::Text(id.as_bytes())),
        })
    }
}

impl FromSql for Point {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value {
            ValueRef::Integer(id) => {
                PointId::Number(u64::try_from(id).map_err(|_| FromSqlError::OutOfRange(id))?)
            }
            ValueRef::Text(_) => PointId::Text(value.as_str()?.into()),
            ValueRef::Blob(bytes) => match (Uuid::from_slice(bytes), <[u8; 8]>::try_from(bytes)) {
                (Ok(uuid), _) => PointId::Uuid(uuid),
                (_, Ok(number)) => PointId::Number(u64::from_be_bytes(number)),
                _ => return Err(unreadable("a point id of an unknown length")),
            },
            ValueRef::Null | ValueRef::Real(_) => return Err(FromSqlError::InvalidType),
        }))
    }
}

/// A namespace, whole.
pub(super) struct Owned(pub(super) Namespace);

impl FromSql for Owned {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Namespace::parse(value.as_str()?)
            .map(Self)
            .ok_or_else(|| unreadable("a namespace without a scope"))
    }
}

/// The version of a row.
pub(super) struct RowVersion(pub(super) Version);

impl FromSql for RowVersion {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 16]>::column_result(value).map(|bytes| Self(Version(bytes)))
    }
}

/// A value as JSON text.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        // The parser's own message may quote what it read.
        serde_json::from_str(value.as_str()?)
            .map(Self)
            .map_err(|_| unreadable("JSON of an unknown shape"))
    }
}

/// A value as a format byte and postcard.
pub(super) struct Packed<T>(pub(super) T);

impl<T: Serialize> ToSql for Packed<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        postcard::to_extend(&self.0, vec![FORMAT])
            .map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Packed<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_blob()? {
            [FORMAT, body @ ..] => match postcard::take_from_bytes(body) {
                Ok((unpacked, [])) => Ok(Self(unpacked)),
                _ => Err(unreadable("a packed value that is damaged")),
            },
            [format, ..] => Err(unreadable(format!("a packed value of format {format}"))),
            [] => Err(unreadable("a packed value that is empty")),
        }
    }
}

/// A closed set whose members have stable names.
pub(super) trait Named: Copy + 'static {
    /// What a member is called in a message.
    const WHAT: &'static str;
    /// Every member.
    fn all() -> &'static [Self];
    /// The stable name.
    fn name(self) -> &'static str;
}

/// A member of a closed set, by name.
pub(super) struct Name<T>(pub(super) T);

impl<T: Named> ToSql for Name<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(
            self.0.name().as_bytes(),
        )))
    }
}

impl<T: Named> FromSql for Name<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let name = value.as_str()?;
        T::all()
            .iter()
            .find(|member| member.name() == name)
            .map(|member| Self(*member))
            .ok_or_else(|| unreadable(format!("unknown {} {name:?}", T::WHAT)))
    }
}

impl Named for ActionKind {
    const WHAT: &'static str = "action";
    fn all() -> &'static [Self] {
        &Self::ALL
    }
    fn name(self) -> &'static str {
        self.as_str()
    }
}

impl Named for PassName {
    const WHAT: &'static str = "pass";
    fn all() -> &'static [Self] {
        &Self::ALL
    }
    fn name(self) -> &'static str {
        self.as_str()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use rusqlite::Connection;

    use super::*;

    fn column() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t(v ANY) STRICT").unwrap();
        conn
    }

    fn store(conn: &Connection, value: impl ToSql) {
        conn.execute("DELETE FROM t", []).unwrap();
        conn.execute("INSERT INTO t VALUES (?1)", [value]).unwrap();
    }

    fn load<T: FromSql>(conn: &Connection) -> rusqlite::Result<T> {
        conn.query_row("SELECT v FROM t", [], |row| row.get(0))
    }

    #[track_caller]
    fn survives<T: Debug + PartialEq, W: FromSql>(write: impl ToSql, read: fn(W) -> T, value: &T) {
        let conn = column();
        store(&conn, write);
        assert_eq!(&read(load::<W>(&conn).unwrap()), value);
    }

    #[test]
    fn every_value_is_read_as_it_was_written() {
        for id in [
            MemoryId::Integer(5),
            MemoryId::Integer(i64::MIN),
            MemoryId::Text("5".into()),
            MemoryId::Text("".into()),
            MemoryId::Text("a\0b".into()),
            MemoryId::Bytes((*b"5").into()),
            MemoryId::Bytes([].into()),
        ] {
            survives(IdRef(&id), |Id(id)| id, &id);
        }
        for id in [
            PointId::Number(0),
            PointId::Number(i64::MAX as u64),
            PointId::Number(i64::MAX as u64 + 1),
            PointId::Number(u64::MAX),
            PointId::Uuid(Uuid::nil()),
            PointId::Uuid(Uuid::max()),
            PointId::Text("0".into()),
            PointId::Text("eight ch".into()),
            PointId::Text("sixteen chars...".into()),
        ] {
            survives(PointRef(&id), |Point(id)| id, &id);
        }
        for at in [
            "1969-12-31T23:59:59.999999Z",
            "9999-12-30T22:00:00Z",
            "-009999-01-02T02:00:00Z",
        ] {
            let at: Timestamp = at.parse().unwrap();
            survives(At(at), |At(at)| at, &at);
        }
        for kind in ActionKind::ALL {
            survives(Name(kind), |Name(kind)| kind, &kind);
        }
        let packed = vec![MemoryId::Text("x".into()), MemoryId::Integer(-1)];
        survives(Packed(&packed), |Packed(packed)| packed, &packed);
    }

    type Ids = Packed<Vec<MemoryId>>;

    fn failure<T: FromSql>(conn: &Connection) -> Option<String> {
        load::<T>(conn).err().map(|error| error.to_string())
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_not_a_default() {
        let conn = column();
        let refuse = |value: Value, read: fn(&Connection) -> Option<String>, why: &str| {
            store(&conn, value);
            let error = read(&conn).unwrap_or_default();
            assert!(error.contains(why), "{error:?} {why:?}");
        };
        refuse(
            Value::Text("melt".into()),
            failure::<Name<ActionKind>>,
            "unknown action \"melt\"",
        );
        refuse(
            Value::Text("melt".into()),
            failure::<Name<PassName>>,
            "unknown pass \"melt\"",
        );
        refuse(Value::Integer(i64::MAX), failure::<At>, "out of range");
        refuse(Value::Integer(-1), failure::<Point>, "out of range");
        refuse(Value::Blob(vec![0; 9]), failure::<Point>, "unknown length");
        refuse(Value::Real(1.0), failure::<Id>, "Invalid column type");
        refuse(
            Value::Text("nobody".into()),
            failure::<Owned>,
            "without a scope",
        );
        refuse(Value::Blob(vec![]), failure::<Ids>, "empty");
        refuse(Value::Blob(vec![2, 0]), failure::<Ids>, "format 2");
        refuse(Value::Blob(vec![1, 1]), failure::<Ids>, "damaged");
        refuse(Value::Blob(vec![1, 0, 0]), failure::<Ids>, "damaged");
        store(&conn, "{\"secret\": 1}");
        let message = failure::<Json<Vec<u8>>>(&conn).unwrap();
        assert!(!message.contains("secret"), "{message}");
    }
}
