//! What the live schema says about the configured table: checked once, before anything else is asked of it.

use std::fmt::Write as _;

use rusqlite::{Connection, OptionalExtension};

use crate::config::VectorTable;
use crate::store::composite;
use crate::store::steady::unsteady;
use crate::store::vectors::VectorError;

use super::failed;

/// The name under which the payload column is looked for when nobody named another; a table may do without it.
const DEFAULT_PAYLOAD: &str = "payload";

/// A vector table as it is, with every name quoted and ready for a statement.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the schema, independent of the others"
)]
pub(super) struct Table {
    /// The table's own name, unquoted.
    pub(super) plain_name: String,
    /// The table, quoted and called `v`.
    pub(super) name: String,
    /// The column of the point id, or an expression for several as one JSON array.
    pub(super) id: String,
    /// Those several columns; none where it is one.
    pub(super) id_parts: Vec<String>,
    /// The column of the vector.
    pub(super) vector: String,
    /// An expression that gives the payload as JSON, or NULL.
    pub(super) payload: Option<String>,
    /// An expression that gives the namespace.
    pub(super) namespace: String,
    /// Whether that is a column, and not read from the payload.
    pub(super) namespace_is_column: bool,
    /// What identifies a row: the rowid, or the primary key of a table without one.
    pub(super) key: Vec<String>,
    /// Whether the rowid is no column of the table, and has to be kept apart.
    pub(super) has_hidden_rowid: bool,
    /// Whether the id is another name of the rowid.
    pub(super) id_is_rowid: bool,
    /// Whether an index leads to an id.
    pub(super) id_indexed: bool,
    /// Whether pages can be cut by the id alone: it is unique, and its index holds all of it.
    pub(super) id_unique: bool,
    /// Whether an index leads to a namespace.
    pub(super) namespace_indexed: bool,
    /// The stored columns, unquoted, in table order.
    pub(super) columns: Vec<String>,
}

struct Column {
    name: String,
    declared: String,
    /// Position in the primary key, from 1; 0 outside of it.
    in_key: i64,
    is_stored: bool,
}

struct Index {
    first: String,
    columns: i64,
    is_unique: bool,
    is_key: bool,
}

/// Quotes an identifier.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Table {
    /// Reads the schema and finds every configured name in it.
    pub(super) fn read(
        connection: &Connection,
        config: &VectorTable,
        namespace_column: &str,
    ) -> Result<Self, VectorError> {
        let (plain_name, kind) = find_table(connection, &config.table)?;
        let (is_virtual, without_rowid) = (kind == Kind::Vec0, kind == Kind::WithoutRowid);
        let columns = read_columns(connection, &plain_name)?;
        let indexes = read_indexes(connection, &plain_name)?;
        let find = |wanted: &str| {
            find_name(columns.iter().map(|column| column.name.as_str()), wanted)
                .map(ToOwned::to_owned)
        };
        let require = |wanted: &str| find(wanted).ok_or_else(|| missing_column(config, wanted));

        let ids: Vec<String> = config
            .id
            .iter()
            .map(|name| require(name))
            .collect::<Result<_, _>>()?;
        let vector = require(&config.vector)?;
        if is_virtual {
            require_floats(connection, &plain_name, &vector)?;
        }
        let payload = match config.payload.as_deref() {
            Some(text) if expression_of(text).is_some() => None,
            Some(DEFAULT_PAYLOAD) => find(DEFAULT_PAYLOAD),
            Some(other) => Some(require(other)?),
            None => None,
        };
        let payload = match config.payload.as_deref().and_then(expression_of) {
            Some(expression) => Some(checked(connection, &plain_name, expression)?),
            None => payload.map(|column| quote(&column)),
        };
        let payload = payload.map(|column| {
            // 9: JSON text, or JSON in the binary form of SQLite.
            format!("CASE WHEN json_valid({column}, 9) THEN {column} END")
        });
        let namespace = match (find(namespace_column), &payload) {
            _ if let Some(expression) = expression_of(namespace_column) => {
                checked(connection, &plain_name, expression)?
            }
            (Some(column), _) => quote(&column),
            (None, Some(payload)) => {
                format!("json_extract({payload}, {})", path(namespace_column)?)
            }
            (None, None) => return Err(missing_column(config, namespace_column)),
        };

        let key = if is_virtual {
            Key::Alias("rowid".to_owned())
        } else {
            key_columns(&columns, &indexes, without_rowid)
        };
        let id_parts: Vec<String> = match &ids[..] {
            [_] => Vec::new(),
            several => several.iter().map(|column| quote(column)).collect(),
        };
        let only = ids.first().filter(|_| id_parts.is_empty());
        let id_is_rowid = matches!((&key, only), (Key::Alias(alias), Some(id)) if alias == id);
        let leads_to = |name: &str| {
            indexes
                .iter()
                .any(|index| index.first.eq_ignore_ascii_case(name))
        };
        let namespace_is_column =
            find(namespace_column).is_some() && expression_of(namespace_column).is_none();
        Ok(Self {
            id_indexed: id_is_rowid || ids.iter().any(|id| leads_to(id)),
            id_unique: !id_is_rowid
                && only.is_some_and(|id| {
                    indexes.iter().any(|index| {
                        index.is_unique
                            && index.columns == 1
                            && index.first.eq_ignore_ascii_case(id)
                    })
                }),
            namespace_indexed: namespace_is_column && leads_to(namespace_column),
            namespace_is_column,
            has_hidden_rowid: matches!(key, Key::Hidden(_)),
            id_is_rowid,
            key: key.quoted(),
            name: format!("{} AS v", quote(&plain_name)),
            plain_name,
            id: only.map_or_else(|| composite::array(&id_parts), |id| quote(id)),
            id_parts,
            vector: quote(&vector),
            payload,
            namespace,
            columns: columns
                .into_iter()
                .filter(|column| column.is_stored)
                .map(|column| column.name)
                .collect(),
        })
    }

    /// The key columns as a list for a SELECT.
    pub(super) fn key_list(&self) -> String {
        self.key.join(", ")
    }

    /// A condition that one row meets: its key, from parameter `first` on.
    pub(super) fn key_is(&self, first: usize) -> String {
        let conditions: Vec<_> = self
            .key
            .iter()
            .enumerate()
            .map(|(i, column)| format!("{column} = ?{}", first + i))
            .collect();
        conditions.join(" AND ")
    }
}

/// A JSON path as an SQL string: `'$."metadata"."doc_id"'`.
pub(super) fn path(key: &str) -> Result<String, VectorError> {
    if key.contains(['"', '\\']) || key.contains(char::is_control) {
        return Err(VectorError::Malformed(format!(
            "payload key {key:?} cannot be looked up in JSON"
        )));
    }
    let mut path = String::from("'$");
    for step in key.split('.') {
        let _ = write!(path, ".\"{}\"", step.replace('\'', "''"));
    }
    path.push('\'');
    Ok(path)
}

/// What identifies a row.
enum Key {
    /// An INTEGER PRIMARY KEY column, which is the rowid.
    Alias(String),
    /// The rowid under whichever of its names no column has taken.
    Hidden(&'static str),
    /// The primary key of a table WITHOUT ROWID.
    Columns(Vec<String>),
}

impl Key {
    fn quoted(&self) -> Vec<String> {
        match self {
            Self::Alias(column) => vec![quote(column)],
            Self::Hidden(name) => vec![(*name).to_owned()],
            Self::Columns(columns) => columns.iter().map(|column| quote(column)).collect(),
        }
    }
}

fn key_columns(columns: &[Column], indexes: &[Index], without_rowid: bool) -> Key {
    let mut primary: Vec<_> = columns.iter().filter(|column| column.in_key > 0).collect();
    primary.sort_by_key(|column| column.in_key);
    if without_rowid {
        return Key::Columns(primary.iter().map(|column| column.name.clone()).collect());
    }
    if let [only] = primary[..]
        && only.declared.eq_ignore_ascii_case("INTEGER")
        && !indexes.iter().any(|index| index.is_key)
    {
        return Key::Alias(only.name.clone());
    }
    let is_free = |name: &&str| find_name(columns.iter().map(|c| c.name.as_str()), name).is_none();
    let free = ["rowid", "_rowid_", "oid"].into_iter().find(is_free);
    Key::Hidden(free.unwrap_or("rowid"))
}

/// Finds a name as SQLite does: letters of either case are the same.
fn find_name<'a>(mut names: impl Iterator<Item = &'a str>, wanted: &str) -> Option<&'a str> {
    names.find(|name| name.eq_ignore_ascii_case(wanted))
}

fn missing_column(config: &VectorTable, column: &str) -> VectorError {
    VectorError::Missing {
        what: format!("column {column:?} of table {:?}", config.table),
    }
}

/// What kind of table it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    WithoutRowid,
    /// A virtual table of sqlite-vec.
    Vec0,
}

/// The expression of `sql(EXPR)`.
fn expression_of(text: &str) -> Option<&str> {
    text.strip_prefix("sql(")?.strip_suffix(')')
}

/// Compiles an expression over one row, called `v`: one value, of the row itself.
fn checked(connection: &Connection, table: &str, expression: &str) -> Result<String, VectorError> {
    let sql = format!("SELECT 1 FROM {} AS v WHERE ({expression})", quote(table));
    let is_plain = connection
        .prepare(&sql)
        .map(|statement| statement.parameter_count() == 0 && statement.readonly());
    let why = match is_plain {
        Ok(true) => match unsteady(connection, &sql) {
            Ok(None) => return Ok(format!("({expression})")),
            Ok(Some(what)) => format!("{what} says something else at the next look"),
            Err(error) => error.to_string(),
        },
        Ok(false) => "it is not read-only or has parameters".to_owned(),
        Err(rusqlite::Error::SqlInputError { msg, .. }) => msg,
        Err(error) => error.to_string(),
    };
    Err(VectorError::Malformed(format!(
        "sql({expression}) does not fit table {table:?}: {why}"
    )))
}

/// Refuses vectors of sqlite-vec that are no `f32`: their bytes would be read as other numbers.
fn require_floats(connection: &Connection, table: &str, vector: &str) -> Result<(), VectorError> {
    let ddl: String = connection
        .query_row(
            "SELECT lower(sql) FROM sqlite_schema WHERE name = ?1",
            [table],
            |row| row.get(0),
        )
        .map_err(failed("read the schema of the vector database"))?;
    let vector = vector.to_lowercase();
    let definition = ddl
        .split(['(', ','])
        .filter_map(|part| part.trim().strip_prefix(vector.as_str()))
        .find(|rest| rest.starts_with(char::is_whitespace));
    let is_float = definition.is_some_and(|rest| {
        let declared = rest.trim_start();
        ["float[", "float32[", "f32["]
            .iter()
            .any(|float| declared.starts_with(float))
    });
    if is_float {
        return Ok(());
    }
    Err(VectorError::Malformed(format!(
        "column {vector:?} of table {table:?} is no vector of float32"
    )))
}

fn find_table(connection: &Connection, wanted: &str) -> Result<(String, Kind), VectorError> {
    let found = connection
        .query_row(
            "SELECT name, type, wr FROM pragma_table_list \
             WHERE schema = 'main' AND name = ?1 COLLATE NOCASE",
            [wanted],
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, bool>(2)?,
                ))
            },
        )
        .optional()
        .map_err(failed("read the schema of the vector database"))?;
    match found {
        Some((name, kind, without_rowid)) if kind == "table" => Ok((
            name,
            if without_rowid {
                Kind::WithoutRowid
            } else {
                Kind::Plain
            },
        )),
        Some((name, kind, _)) if kind == "virtual" && is_vec0(connection, &name)? => {
            Ok((name, Kind::Vec0))
        }
        Some((_, kind, _)) => Err(VectorError::Malformed(format!(
            "{wanted:?} is a {kind}, not a plain table of vectors"
        ))),
        None => Err(VectorError::Missing {
            what: format!("table {wanted:?}"),
        }),
    }
}

/// Whether a virtual table is one of sqlite-vec.
fn is_vec0(connection: &Connection, table: &str) -> Result<bool, VectorError> {
    connection
        .query_row(
            "SELECT replace(replace(lower(sql), char(10), ' '), ' ', '') LIKE '%usingvec0(%'
             FROM sqlite_schema WHERE name = ?1",
            [table],
            |row| row.get(0),
        )
        .map_err(failed("read the schema of the vector database"))
}

fn read_columns(connection: &Connection, table: &str) -> Result<Vec<Column>, VectorError> {
    let read = || {
        connection
            .prepare("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?1) ORDER BY cid")?
            .query_map([table], |row| {
                Ok(Column {
                    name: row.get(0)?,
                    declared: row.get(1)?,
                    in_key: row.get(2)?,
                    is_stored: row.get::<_, i64>(3)? == 0,
                })
            })?
            .collect::<rusqlite::Result<_>>()
    };
    read().map_err(failed("read the columns of the vector table"))
}

/// The indexes over every row that begin with a column; those on an expression or on some rows only lead nowhere.
fn read_indexes(connection: &Connection, table: &str) -> Result<Vec<Index>, VectorError> {
    let read = || {
        connection
            .prepare(
                "SELECT i.name, (SELECT count(*) FROM pragma_index_info(l.name)), l.\"unique\", l.origin = 'pk' \
                 FROM pragma_index_list(?1) l, pragma_index_info(l.name) i \
                 WHERE NOT l.partial AND i.seqno = 0 AND i.name IS NOT NULL",
            )?
            .query_map([table], |row| {
                Ok(Index {
                    first: row.get(0)?,
                    columns: row.get(1)?,
                    is_unique: row.get(2)?,
                    is_key: row.get(3)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()
    };
    read().map_err(failed("read the indexes of the vector table"))
}
