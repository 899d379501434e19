//! The live schema of a row database: its tables, how their rows are told apart, and copies of those rows.

use std::hash::{Hash, Hasher};

use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::RowError;
use super::value::Affinity;
use crate::store::image::{RowImage, SqlValue};

/// The names by which a rowid can be had, unless a column takes them.
const ROWID_NAMES: [&str; 3] = ["rowid", "_rowid_", "oid"];

/// Quotes an identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// One ordinary table.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// Its name, as the schema spells it.
    pub(super) name: String,
    /// Its columns, generated ones included, in table order.
    pub(super) columns: Vec<Column>,
    /// How its rows are told apart.
    key: Key,
    fetch_sql: String,
    delete_sql: String,
    insert_sql: String,
}

/// One column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// Its name, as the schema spells it.
    pub(super) name: String,
    /// What it makes of values.
    pub(super) affinity: Affinity,
    /// Whether it refuses NULL.
    pub(super) not_null: bool,
    /// The expression of its default.
    pub(super) default: Option<String>,
    /// Whether it is computed from others: read, never written, in no image.
    pub(super) generated: bool,
    /// Its place in the primary key, from 1; 0 outside it.
    primary: u32,
}

/// How the rows of a table are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    /// By a column that is the rowid.
    Column(String),
    /// By a rowid that is no column, under this name.
    Rowid(&'static str),
    /// By the primary key of a table WITHOUT ROWID.
    Primary(Vec<String>),
}

/// The key of one row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RowKey {
    /// The rowid.
    Rowid(i64),
    /// The primary key of a table WITHOUT ROWID.
    Primary(Box<[SqlValue]>),
}

// A key holds no NaN: SQLite stores NaN as NULL.
impl Eq for RowKey {}

impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Rowid(rowid) => rowid.hash(state),
            Self::Primary(values) => values.iter().for_each(|value| hash_value(value, state)),
        }
    }
}

/// Hashes a value so that equal ones hash alike.
pub(super) fn hash_value<H: Hasher>(value: &SqlValue, state: &mut H) {
    match value {
        SqlValue::Null => 0_u8.hash(state),
        SqlValue::Integer(i) => (1_u8, i).hash(state),
        // Adding zero makes the two zeros one.
        SqlValue::Real(r) => (2_u8, (r + 0.0).to_bits()).hash(state),
        SqlValue::Text(t) => (3_u8, t).hash(state),
        SqlValue::Blob(b) => (4_u8, b).hash(state),
    }
}

impl RowKey {
    /// Its values, to be bound in the order of the key's columns.
    pub(super) fn values(&self) -> Vec<SqlValue> {
        match self {
            Self::Rowid(rowid) => vec![SqlValue::Integer(*rowid)],
            Self::Primary(values) => values.to_vec(),
        }
    }
}

/// Every ordinary table of a database, in order of name.
pub(super) fn tables(conn: &Connection) -> Result<Vec<Table>, RowError> {
    let list = || -> rusqlite::Result<Vec<(String, bool)>> {
        let mut statement = conn.prepare(
            "SELECT name, wr FROM pragma_table_list
             WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
             ORDER BY name",
        )?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    let names = list().map_err(RowError::sqlite("list the tables"))?;
    let read = |(name, without_rowid): (String, bool)| Table::read(conn, name, without_rowid);
    names.into_iter().map(read).collect()
}

/// What else than an ordinary table has this name: `view`, `virtual table`.
pub(super) fn other_kind(conn: &Connection, name: &str) -> Result<Option<String>, RowError> {
    conn.query_row(
        "SELECT type FROM pragma_table_list
         WHERE schema = 'main' AND name = ?1 COLLATE NOCASE AND type <> 'table'",
        [name],
        |row| row.get::<_, String>(0),
    )
    .optional()
    .map(|kind| {
        kind.map(|kind| {
            if kind == "view" {
                kind
            } else {
                format!("{kind} table")
            }
        })
    })
    .map_err(RowError::sqlite("list the tables"))
}

impl Table {
    fn read(conn: &Connection, name: String, without_rowid: bool) -> Result<Self, RowError> {
        let read = || -> rusqlite::Result<(Vec<Column>, bool)> {
            let mut statement = conn.prepare(
                "SELECT name, type, \"notnull\", dflt_value, pk, hidden IN (2, 3) FROM pragma_table_xinfo(?1)",
            )?;
            let columns = statement.query_map([&name], Column::read)?;
            let columns = columns.collect::<rusqlite::Result<_>>()?;
            let primary_index = conn.query_row(
                "SELECT EXISTS (SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk')",
                [&name],
                |row| row.get(0),
            )?;
            Ok((columns, primary_index))
        };
        let (columns, primary_index) = read().map_err(RowError::sqlite("read the columns"))?;
        let mut primary: Vec<&Column> = columns.iter().filter(|c| c.primary > 0).collect();
        primary.sort_by_key(|column| column.primary);
        let key = match primary[..] {
            _ if without_rowid => Key::Primary(primary.iter().map(|c| c.name.clone()).collect()),
            // A primary key of one column without an index of its own is the rowid.
            [column] if !primary_index => Key::Column(column.name.clone()),
            _ => Key::Rowid(free_rowid_name(&name, &columns)?),
        };
        let mut table = Self {
            name,
            columns,
            key,
            fetch_sql: String::new(),
            delete_sql: String::new(),
            insert_sql: String::new(),
        };
        table.write_statements();
        Ok(table)
    }

    /// The column of this name, in any case.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        let same = |column: &&Column| column.name.eq_ignore_ascii_case(name);
        self.columns.iter().find(same)
    }

    /// The columns that are stored, in table order.
    pub(super) fn stored(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.generated)
    }

    /// The columns of the primary key, in its order; none for a table without one.
    pub(super) fn primary(&self) -> Vec<&Column> {
        let mut primary: Vec<&Column> = self.columns.iter().filter(|c| c.primary > 0).collect();
        primary.sort_by_key(|column| column.primary);
        primary
    }

    /// Whether the rows of the table have a rowid, so that new ones have a higher one.
    pub(super) fn has_rowid(&self) -> bool {
        !matches!(self.key, Key::Primary(_))
    }

    /// The columns of the key, quoted and separated by commas.
    pub(super) fn key_list(&self) -> String {
        self.key_columns().join(", ")
    }

    fn key_columns(&self) -> Vec<String> {
        match &self.key {
            Key::Column(name) => vec![quoted(name)],
            Key::Rowid(name) => vec![(*name).to_owned()],
            Key::Primary(names) => names.iter().map(|name| quoted(name)).collect(),
        }
    }

    /// The condition that selects one row by its key, with parameters numbered after `bound` others.
    pub(super) fn key_condition(&self, bound: usize) -> String {
        conditions(&self.key_columns(), bound)
    }

    /// What an image is read from: the rowid where it is no column, then every stored column.
    pub(super) fn image_list(&self) -> String {
        let mut list = String::new();
        if let Key::Rowid(name) = self.key {
            list.push_str(name);
            list.push_str(", ");
        }
        let stored: Vec<String> = self.stored().map(|c| quoted(&c.name)).collect();
        list + &stored.join(", ")
    }

    /// Reads an image from a result whose columns from `first` on are those of [`Self::image_list`].
    pub(super) fn image(&self, row: &Row<'_>, first: usize) -> rusqlite::Result<RowImage> {
        let mut next = first;
        let mut rowid = None;
        if matches!(self.key, Key::Rowid(_)) {
            rowid = Some(row.get(next)?);
            next += 1;
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for (index, column) in self.stored().enumerate() {
            columns.push((column.name.clone(), row.get_ref(next + index)?.into()));
        }
        Ok(RowImage {
            table: self.name.clone(),
            rowid,
            columns,
        })
    }

    /// Whether an image has the columns that rows of this table have now.
    pub(super) fn fits(&self, image: &RowImage) -> bool {
        let names = image.columns.iter().map(|(name, _)| name);
        self.stored().map(|column| &column.name).eq(names)
            && image.rowid.is_some() == matches!(self.key, Key::Rowid(_))
    }

    /// The key of a row of this table. `None` for an image of another schema.
    pub(super) fn key_of(&self, image: &RowImage) -> Option<RowKey> {
        match &self.key {
            Key::Rowid(_) => image.rowid.map(RowKey::Rowid),
            Key::Column(name) => match image.get(name)? {
                SqlValue::Integer(rowid) => Some(RowKey::Rowid(*rowid)),
                _ => None,
            },
            Key::Primary(names) => {
                let values = names.iter().map(|name| image.get(name).cloned());
                Some(RowKey::Primary(values.collect::<Option<_>>()?))
            }
        }
    }

    /// Reads a key from a result whose columns from `first` on are those of [`Self::key_list`].
    pub(super) fn key(&self, row: &Row<'_>, first: usize) -> rusqlite::Result<RowKey> {
        match &self.key {
            Key::Primary(names) => {
                let values = (first..first + names.len()).map(|i| Ok(row.get_ref(i)?.into()));
                Ok(RowKey::Primary(values.collect::<rusqlite::Result<_>>()?))
            }
            Key::Column(_) | Key::Rowid(_) => Ok(RowKey::Rowid(row.get(first)?)),
        }
    }

    /// How many columns [`Self::key_list`] has.
    pub(super) fn key_len(&self) -> usize {
        match &self.key {
            Key::Primary(names) => names.len(),
            Key::Column(_) | Key::Rowid(_) => 1,
        }
    }

    /// Reads the row with a key.
    pub(super) fn fetch(
        &self,
        conn: &Connection,
        key: &RowKey,
    ) -> rusqlite::Result<Option<RowImage>> {
        conn.prepare_cached(&self.fetch_sql)?
            .query_row(params_from_iter(key.values()), |row| self.image(row, 0))
            .optional()
    }

    /// `SELECT` of one row by its key.
    pub(super) fn fetch_sql(&self) -> &str {
        &self.fetch_sql
    }

    /// `DELETE` of one row by its key.
    pub(super) fn delete_sql(&self) -> &str {
        &self.delete_sql
    }

    /// `INSERT` of one whole row: the columns of [`Self::image_list`], in order.
    pub(super) fn insert_sql(&self) -> &str {
        &self.insert_sql
    }

    /// `UPDATE` of some columns of one row: first their values are bound, then the key.
    pub(super) fn update_sql<'a>(&self, columns: impl IntoIterator<Item = &'a str>) -> String {
        let set: Vec<String> = columns.into_iter().map(quoted).collect();
        let assignments: Vec<String> = (1..)
            .zip(&set)
            .map(|(number, column)| format!("{column} = ?{number}"))
            .collect();
        format!(
            "UPDATE {} SET {} WHERE {}",
            quoted(&self.name),
            assignments.join(", "),
            self.key_condition(set.len())
        )
    }

    /// Writes the statements that are run once a row.
    fn write_statements(&mut self) {
        let (name, images, key) = (quoted(&self.name), self.image_list(), self.key_condition(0));
        let extra = usize::from(matches!(self.key, Key::Rowid(_)));
        let marks = vec!["?"; self.stored().count() + extra].join(", ");
        self.fetch_sql = format!("SELECT {images} FROM {name} WHERE {key}");
        self.delete_sql = format!("DELETE FROM {name} WHERE {key}");
        self.insert_sql = format!("INSERT INTO {name} ({images}) VALUES ({marks})");
    }
}

impl Column {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            name: row.get(0)?,
            affinity: Affinity::of(&row.get::<_, Option<String>>(1)?.unwrap_or_default()),
            not_null: row.get(2)?,
            default: row.get(3)?,
            primary: row.get(4)?,
            generated: row.get(5)?,
        })
    }
}

fn free_rowid_name(table: &str, columns: &[Column]) -> Result<&'static str, RowError> {
    let taken = |name: &str| columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
    let free = ROWID_NAMES.into_iter().find(|name| !taken(name));
    free.ok_or_else(|| {
        RowError::schema(format!(
            "table {table:?} has columns named rowid, _rowid_ and oid, and its rows cannot be told apart"
        ))
    })
}

/// `a = ?1 AND b = ?2`, of quoted columns, with parameters numbered after `bound` others.
pub(super) fn conditions(columns: &[String], bound: usize) -> String {
    let conditions: Vec<String> = (bound + 1..)
        .zip(columns)
        .map(|(number, column)| format!("{column} = ?{number}"))
        .collect();
    conditions.join(" AND ")
}

/// The schema cookie: it changes with every change of the schema, and with VACUUM.
pub(super) fn cookie(conn: &Connection) -> Result<i64, RowError> {
    conn.pragma_query_value(None, "schema_version", |row| row.get(0))
        .map_err(RowError::sqlite("read the schema version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sql: &str) -> (Connection, Table) {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(sql).unwrap();
        let table = tables(&conn).unwrap().remove(0);
        (conn, table)
    }

    #[test]
    fn how_rows_are_told_apart() {
        let column = |name: &str| Key::Column(name.into());
        for (sql, key) in [
            ("CREATE TABLE t(id INTEGER PRIMARY KEY, a)", column("id")),
            (
                "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a ANY) STRICT",
                column("id"),
            ),
            ("CREATE TABLE t(id INT PRIMARY KEY, a)", Key::Rowid("rowid")),
            (
                "CREATE TABLE t(id INTEGER PRIMARY KEY DESC, a)",
                Key::Rowid("rowid"),
            ),
            (
                "CREATE TABLE t(id TEXT PRIMARY KEY, rowid TEXT)",
                Key::Rowid("_rowid_"),
            ),
            ("CREATE TABLE t(a, b)", Key::Rowid("rowid")),
            (
                "CREATE TABLE t(a, b, PRIMARY KEY(b, a)) WITHOUT ROWID",
                Key::Primary(vec!["b".into(), "a".into()]),
            ),
            (
                "CREATE TABLE t(a, b, PRIMARY KEY(b, a))",
                Key::Rowid("rowid"),
            ),
        ] {
            assert_eq!(table(sql).1.key, key, "{sql}");
        }
    }

    #[test]
    fn a_table_that_hides_its_rowid_is_refused() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t(rowid, _rowid_, oid)")
            .unwrap();
        assert!(
            tables(&conn)
                .unwrap_err()
                .to_string()
                .contains("told apart")
        );
    }

    #[test]
    fn an_image_can_be_put_back_whole() {
        for sql in [
            "CREATE TABLE t(id TEXT PRIMARY KEY, \"we\"\"ird\" BLOB, twice AS (id || id), n INT)",
            "CREATE TABLE t(id TEXT PRIMARY KEY, \"we\"\"ird\" BLOB, twice AS (id || id) STORED, n INT) WITHOUT ROWID",
        ] {
            let (conn, table) = table(sql);
            conn.execute_batch("INSERT INTO t VALUES ('x', x'00ff', 3), ('a', x'00ff', '12abc')")
                .unwrap();
            let read = |sql: &str| conn.query_row(sql, [], |row| table.image(row, 0)).unwrap();
            let image = read(&format!(
                "SELECT {} FROM t WHERE id = 'a'",
                table.image_list()
            ));
            assert_eq!(image.get("twice"), None);
            let key = table.key_of(&image).unwrap();
            assert_eq!(table.fetch(&conn, &key).unwrap().as_ref(), Some(&image));
            assert_eq!(
                conn.execute(table.delete_sql(), params_from_iter(key.values()))
                    .unwrap(),
                1
            );
            assert_eq!(table.fetch(&conn, &key).unwrap(), None);
            let rowid = image.rowid.map(SqlValue::Integer);
            let values = rowid
                .iter()
                .chain(image.columns.iter().map(|(_, value)| value));
            conn.execute(table.insert_sql(), params_from_iter(values))
                .unwrap();
            assert_eq!(table.fetch(&conn, &key).unwrap().as_ref(), Some(&image));
        }
    }
}
