//! The key of a memory: one column, or several, whose values then are written as a JSON array.
//!
//! A row with a value in a key of several columns that is neither text nor an integer cannot be addressed.

use rusqlite::Connection;

use super::RowError;
use super::schema::{Table, quoted};
use super::source::find_column;
use super::value::{self, Affinity};
use crate::memory::MemoryId;
use crate::store::composite;
use crate::store::image::{RowImage, SqlValue};

/// The key of the memories of one table.
#[derive(Debug)]
pub(super) struct Key {
    /// Its columns, as the schema spells them; never none.
    pub(super) columns: Vec<String>,
    /// What the first column makes of values.
    pub(super) affinity: Affinity,
}

impl Key {
    /// Finds the columns, and checks that they tell the rows apart.
    pub(super) fn bind(
        conn: &Connection,
        table: &Table,
        names: &[String],
    ) -> Result<Self, RowError> {
        let mut columns = Vec::with_capacity(names.len());
        let mut affinity = Affinity::Text;
        for name in names {
            let column = find_column(table, name)?;
            if column.generated {
                return Err(RowError::schema(format!(
                    "column {:?} of table {:?} is generated, and cannot be the id",
                    column.name, table.name
                )));
            }
            columns.push(column.name.clone());
            affinity = column.affinity;
        }
        require_unique(conn, table, &columns)?;
        if columns.len() > 1 {
            affinity = Affinity::Text;
        }
        Ok(Self { columns, affinity })
    }

    /// The only column; `None` where there are several.
    pub(super) fn only(&self) -> Option<&str> {
        match &self.columns[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    fn quoted(&self) -> Vec<String> {
        self.columns.iter().map(|column| quoted(column)).collect()
    }

    /// An expression that gives it.
    pub(super) fn expression(&self) -> String {
        match self.only() {
            Some(only) => quoted(only),
            None => composite::array(&self.quoted()),
        }
    }

    /// A condition that only the row with the key in this parameter meets, and by an index; a column that ignores case
    /// lets others through.
    pub(super) fn condition(&self, parameter: usize) -> String {
        match self.only() {
            Some(only) => format!("{} = ?{parameter}", quoted(only)),
            None => composite::is_array(&self.quoted(), parameter),
        }
    }

    /// The key of a row.
    pub(super) fn of(&self, row: &RowImage) -> Option<MemoryId> {
        if let Some(only) = self.only() {
            return value::id_of(value::as_ref(row.get(only)?));
        }
        let part = |column: &String| match row.get(column)? {
            SqlValue::Integer(part) => Some(part.to_string()),
            SqlValue::Text(part) => {
                let part = std::str::from_utf8(part).ok()?;
                serde_json::to_string(part).ok()
            }
            SqlValue::Null | SqlValue::Real(_) | SqlValue::Blob(_) => None,
        };
        let parts: Option<Vec<String>> = self.columns.iter().map(part).collect();
        Some(MemoryId::Text(format!("[{}]", parts?.join(",")).into()))
    }
}

/// Whether columns tell the rows of their table apart.
fn require_unique(conn: &Connection, table: &Table, columns: &[String]) -> Result<(), RowError> {
    let same = |names: &[String]| {
        names.len() == columns.len() && columns.iter().all(|column| names.contains(column))
    };
    let primary = table.primary();
    let primary: Vec<String> = primary.iter().map(|column| column.name.clone()).collect();
    if same(&primary) {
        return Ok(());
    }
    let unique = || -> rusqlite::Result<bool> {
        let mut statement = conn.prepare(
            "SELECT i.name FROM pragma_index_list(?1) AS i WHERE i.\"unique\" AND NOT i.partial",
        )?;
        let mut columns_of = conn.prepare("SELECT name FROM pragma_index_info(?1)")?;
        let mut indexes = statement.query([&table.name])?;
        while let Some(index) = indexes.next()? {
            let names = columns_of.query_map([index.get::<_, String>(0)?], |row| {
                Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default())
            })?;
            if same(&names.collect::<rusqlite::Result<Vec<_>>>()?) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    if unique().map_err(RowError::sqlite("list the indexes"))? {
        return Ok(());
    }
    let named = match columns {
        [only] => format!("column {only:?}"),
        several => format!("columns {}", several.join(", ")),
    };
    Err(RowError::schema(format!(
        "{named} of table {:?} is neither its primary key nor unique, and cannot be the id",
        table.name
    )))
}

#[cfg(test)]
mod tests {
    use rusqlite::types::ValueRef;

    use super::*;

    #[test]
    fn a_key_of_several_columns_is_spelt_as_sqlite_spells_it() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE t(a TEXT, b, PRIMARY KEY(a, b));
             INSERT INTO t VALUES ('x', 'y'), ('q\"uo\\te', 5), ('\u{1}\u{7f}\n\t\u{8}\u{c}\r/é\u{1f600}''', 'z'),
               (x'00', 'blob'), ('r', 1.5), ('n', NULL), ('', '');",
        )
        .unwrap();
        let tables = super::super::schema::tables(&conn).unwrap();
        let key = Key::bind(&conn, &tables[0], &["a".into(), "B".into()]).unwrap();
        let mut statement = conn
            .prepare(&format!("SELECT {}, a, b FROM t", key.expression()))
            .unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut found = 0;
        while let Some(row) = rows.next().unwrap() {
            let image = RowImage {
                table: "t".into(),
                rowid: None,
                columns: vec![
                    ("a".into(), row.get_ref(1).unwrap().into()),
                    ("b".into(), row.get_ref(2).unwrap().into()),
                ],
            };
            let stored = value::id_of(row.get_ref(0).unwrap());
            assert_eq!(key.of(&image), stored);
            let Some(id) = stored else {
                assert_eq!(row.get_ref(0).unwrap(), ValueRef::Null);
                continue;
            };
            found += 1;
            let sql = format!("SELECT count(*) FROM t WHERE {}", key.condition(1));
            let plan: String = conn
                .query_row(&format!("EXPLAIN QUERY PLAN {sql}"), [&id], |row| {
                    row.get(3)
                })
                .unwrap();
            assert!(plan.contains("a=? AND b=?"), "{plan}");
            let count: i64 = conn.query_row(&sql, [&id], |row| row.get(0)).unwrap();
            assert_eq!(count, 1, "{id}");
        }
        assert_eq!(found, 4);
        let nobody: i64 = conn
            .query_row(
                &format!("SELECT count(*) FROM t WHERE {}", key.condition(1)),
                ["no json"],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(nobody, 0);
    }
}
