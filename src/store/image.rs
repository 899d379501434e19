//! Images: exact copies of a row or a point, taken before it is removed, so that it can be put back as it was.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::memory::{PointId, Version};

/// One SQLite value, storage class included: what is put back is what was there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SqlValue {
    /// NULL.
    Null,
    /// INTEGER.
    Integer(i64),
    /// REAL, bit for bit.
    Real(f64),
    /// TEXT as its bytes: SQLite does not promise that they are UTF-8.
    Text(Vec<u8>),
    /// BLOB.
    Blob(Vec<u8>),
}

impl From<ValueRef<'_>> for SqlValue {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(i) => Self::Integer(i),
            ValueRef::Real(r) => Self::Real(r),
            ValueRef::Text(t) => Self::Text(t.to_vec()),
            ValueRef::Blob(b) => Self::Blob(b.to_vec()),
        }
    }
}

impl rusqlite::ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Integer(i) => ToSqlOutput::Owned(Value::Integer(*i)),
            Self::Real(r) => ToSqlOutput::Owned(Value::Real(*r)),
            Self::Text(t) => ToSqlOutput::Borrowed(ValueRef::Text(t)),
            Self::Blob(b) => ToSqlOutput::Borrowed(ValueRef::Blob(b)),
        })
    }
}

/// One row of any table: every stored column (generated ones are not stored), in table order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowImage {
    /// The table.
    pub table: String,
    /// The rowid, where the table has one that is not also a column: text indexes may be keyed by it.
    pub rowid: Option<i64>,
    /// Column names and values.
    pub columns: Vec<(String, SqlValue)>,
}

impl RowImage {
    /// The value of a column.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<&SqlValue> {
        self.columns
            .iter()
            .find(|(name, _)| name == column)
            .map(|(_, value)| value)
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let column = |(name, value): &(String, SqlValue)| {
            let value = match value {
                SqlValue::Text(bytes) | SqlValue::Blob(bytes) => bytes.len(),
                SqlValue::Null | SqlValue::Integer(_) | SqlValue::Real(_) => 0,
            };
            size_of::<(String, SqlValue)>() + name.len() + value
        };
        size_of::<Self>() + self.columns.iter().map(column).sum::<usize>()
    }

    /// The fingerprint of the row over all its columns: the first 16 bytes of a SHA-256 over each value's storage
    /// class, length and bytes, so that no two different rows are told apart only by where one value ends.
    #[must_use]
    pub fn version(&self) -> Version {
        fingerprint(self.columns.iter().map(|(_, value)| value))
    }

    /// The same over this row and values that were read with it.
    #[must_use]
    pub fn version_with<'a>(&'a self, read: impl IntoIterator<Item = &'a SqlValue>) -> Version {
        fingerprint(self.columns.iter().map(|(_, value)| value).chain(read))
    }

    /// The same over some of its columns, in the order given, and over values that were read with it; columns that it does
    /// not have are left out.
    #[must_use]
    pub fn version_of<'a>(
        &'a self,
        columns: &'a [String],
        read: impl IntoIterator<Item = &'a SqlValue>,
    ) -> Version {
        fingerprint(
            columns
                .iter()
                .filter_map(|column| self.get(column))
                .chain(read),
        )
    }
}

fn fingerprint<'a>(values: impl Iterator<Item = &'a SqlValue>) -> Version {
    let mut hash = Sha256::new();
    for value in values {
        let (class, integer, real);
        let (tag, bytes): (u8, &[u8]) = match value {
            SqlValue::Null => (0, &[]),
            SqlValue::Integer(i) => {
                integer = i.to_le_bytes();
                (1, &integer)
            }
            SqlValue::Real(r) => {
                real = r.to_bits().to_le_bytes();
                (2, &real)
            }
            SqlValue::Text(t) => (3, t),
            SqlValue::Blob(b) => (4, b),
        };
        class = [tag];
        hash.update(class);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let mut version = [0; 16];
    version.copy_from_slice(&hash.finalize()[..16]);
    Version(version)
}

/// One point with its whole payload and every vector it has, in the backend's own form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointImage {
    /// The point.
    pub id: PointId,
    /// Its namespace, as far as it names exactly one.
    pub namespace: Option<String>,
    /// What the backend needs to put it back: opaque to everyone else.
    pub body: Vec<u8>,
}

/// Everything that one removal takes from the row store, and what it takes along.
///
/// `root` is the memory; `behind` the memories hidden behind it (superseded by it, and by those), deepest first;
/// `children` the rows of other tables that the schema would cascade, deepest first; `detached` the rows of other
/// tables whose reference the schema would set to NULL or to its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// The row of the memory itself.
    pub root: RowImage,
    /// Rows of the memories hidden behind it, deepest first.
    pub behind: Vec<RowImage>,
    /// Rows that go with it, deepest first.
    pub children: Vec<RowImage>,
    /// Rows that stay, without their reference to it.
    pub detached: Vec<RowImage>,
}

impl Unit {
    /// About how many bytes of memory its rows take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let others = [&self.behind, &self.children, &self.detached];
        let rows = others.into_iter().flatten().chain([&self.root]);
        rows.map(RowImage::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: Vec<SqlValue>) -> RowImage {
        let columns = values
            .into_iter()
            .enumerate()
            .map(|(i, v)| (format!("c{i}"), v))
            .collect();
        RowImage {
            table: "memories".into(),
            rowid: None,
            columns,
        }
    }

    #[test]
    fn the_version_tells_storage_classes_and_boundaries_apart() {
        let text = |s: &str| SqlValue::Text(s.into());
        let rows = [
            row(vec![text("ab"), text("c")]),
            row(vec![text("a"), text("bc")]),
            row(vec![SqlValue::Blob(b"ab".to_vec()), text("c")]),
            row(vec![SqlValue::Integer(0), SqlValue::Null]),
            row(vec![SqlValue::Real(0.0), SqlValue::Null]),
            row(vec![SqlValue::Real(-0.0), SqlValue::Null]),
        ];
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                assert_eq!(a.version() == b.version(), i == j, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn an_image_survives_its_encoding_bit_for_bit() {
        let image = row(vec![
            SqlValue::Real(f64::INFINITY),
            SqlValue::Real(0.1 + 0.2),
            SqlValue::Text(vec![0xff, 0xfe]),
            SqlValue::Integer(i64::MIN),
        ]);
        let bytes = postcard::to_stdvec(&image).unwrap();
        assert_eq!(postcard::from_bytes::<RowImage>(&bytes).unwrap(), image);
    }
}
