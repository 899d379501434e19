//! What the configuration names, found in the schema that is really there: tables, columns, and the expressions that
//! read a source.
//!
//! A misspelt name stops before any write and says what there is instead. Views and virtual tables are refused: their
//! rows are not their own.

use rusqlite::Connection;

use super::RowError;
use super::bound::message_of;
use super::schema::{self, Table, quoted};
use crate::config::{Origin, Source, TimeFormat};
use crate::memory::Role;
use crate::store::steady::unsteady;

/// A role and where it is read from.
#[derive(Debug)]
pub(super) struct BoundRole {
    pub(super) role: Role,
    /// The SQL expression.
    pub(super) expression: String,
    /// The column, when the role is a column of its own that can be written.
    pub(super) column: Option<String>,
    /// How a time is written there.
    pub(super) time: TimeFormat,
}

/// Finds an ordinary table.
pub(super) fn find_table<'a>(
    conn: &Connection,
    tables: &'a [Table],
    name: &str,
) -> Result<&'a Table, RowError> {
    if let Some(table) = tables.iter().find(|t| t.name.eq_ignore_ascii_case(name)) {
        return Ok(table);
    }
    if let Some(kind) = schema::other_kind(conn, name)? {
        return Err(RowError::schema(format!(
            "{name:?} is a {kind}: the mapping needs the table behind it"
        )));
    }
    Err(RowError::NoTable {
        table: name.to_owned(),
        has: tables.iter().map(|table| table.name.clone()).collect(),
    })
}

/// Finds a column.
pub(super) fn find_column<'a>(
    table: &'a Table,
    name: &str,
) -> Result<&'a schema::Column, RowError> {
    table.column(name).ok_or_else(|| RowError::NoColumn {
        table: table.name.clone(),
        column: name.to_owned(),
        has: table.columns.iter().map(|c| c.name.clone()).collect(),
    })
}

/// Checks that a table has these columns, and names all that it lacks at once.
///
/// # Errors
///
/// When it lacks one.
pub(super) fn require_columns<'a>(
    table: &Table,
    columns: impl Iterator<Item = &'a str>,
) -> Result<(), RowError> {
    let mut missing: Vec<&str> = columns
        .filter(|name| table.column(name).is_none())
        .collect();
    missing.sort_unstable();
    missing.dedup();
    match missing[..] {
        [] => Ok(()),
        [name] => find_column(table, name).map(drop),
        _ => Err(RowError::NoColumns {
            table: table.name.clone(),
            columns: missing.into_iter().map(str::to_owned).collect(),
            has: table.columns.iter().map(|c| c.name.clone()).collect(),
        }),
    }
}

/// Binds the source of a key. `None` when it is optional and the schema lacks it. The role is filled in by the caller.
pub(super) fn bind_source(
    conn: &Connection,
    table: &Table,
    key: &str,
    source: &Source,
) -> Result<Option<BoundRole>, RowError> {
    let bound = |expression, column| BoundRole {
        role: Role::Content,
        expression,
        column,
        time: source.time.clone(),
    };
    let Some(column) = source.column() else {
        return Ok(bind_sql(conn, table, key, source)?.map(|expression| bound(expression, None)));
    };
    if source.optional && table.column(column).is_none() {
        return Ok(None);
    }
    let column = find_column(table, column)?;
    let name = quoted(&column.name);
    if let Origin::Json { path, .. } = &source.origin {
        return Ok(Some(bound(json_expression(conn, &name, path)?, None)));
    }
    let own = (!column.generated).then(|| column.name.clone());
    Ok(Some(bound(name, own)))
}

/// The condition that a source says, in the words of SQL: what is not true, NULL too, is not met. `None` where there is
/// none, or where it is optional and the schema lacks it: then every row meets it.
pub(super) fn bind_condition(
    conn: &Connection,
    table: &Table,
    key: &str,
    source: Option<&Source>,
) -> Result<Option<String>, RowError> {
    let Some(source) = source else {
        return Ok(None);
    };
    let bound = bind_source(conn, table, key, source)?;
    Ok(bound.map(|bound| format!("(({}) IS TRUE)", bound.expression)))
}

/// The expression of a source that is one; `None` when it is none, or is optional and names what the schema lacks.
fn bind_sql(
    conn: &Connection,
    table: &Table,
    key: &str,
    source: &Source,
) -> Result<Option<String>, RowError> {
    let Origin::Sql(expression) = &source.origin else {
        return Ok(None);
    };
    let does_not_fit = |why: &str| {
        RowError::schema(format!(
            "{key} = sql({expression}) does not fit table {:?}: {why}",
            table.name
        ))
    };
    match look_at(conn, table, expression) {
        Ok(Looks::Plain) => Ok(Some(format!("({expression})"))),
        Ok(Looks::Odd) => Err(does_not_fit("it is not read-only or has parameters")),
        Ok(Looks::Unsteady(what)) => Err(does_not_fit(&format!(
            "{what} says something else at the next look, and every memory would look edited"
        ))),
        Err(error) if source.optional && is_missing(&error) => Ok(None),
        Err(error) => Err(does_not_fit(&message_of(&error))),
    }
}

/// What an expression is.
enum Looks {
    /// One value, the same at every look.
    Plain,
    /// It writes, or has parameters.
    Odd,
    /// It says something else at the next look, because of this.
    Unsteady(String),
}

/// Compiles an expression over one row, called `m`. It is one value, and that of the row itself: in a condition nothing
/// can stand that would make one row of many, such as a bare `max(m.a)`.
fn look_at(conn: &Connection, table: &Table, expression: &str) -> rusqlite::Result<Looks> {
    let sql = format!(
        "SELECT 1 FROM {} AS m WHERE ({expression})",
        quoted(&table.name)
    );
    let statement = conn.prepare(&sql)?;
    if statement.parameter_count() > 0 || !statement.readonly() {
        return Ok(Looks::Odd);
    }
    Ok(unsteady(conn, &sql)?.map_or(Looks::Plain, Looks::Unsteady))
}

/// Whether a statement names a table or a column that is not there.
fn is_missing(error: &rusqlite::Error) -> bool {
    let message = message_of(error);
    message.contains("no such column") || message.contains("no such table")
}

impl BoundRole {
    /// The SQL expression that reads it.
    pub(super) fn expression(&self) -> &str {
        &self.expression
    }
}

/// A value inside the JSON of a column: JSON text, JSON text stored as a BLOB, or JSONB. What is not JSON reads as
/// NULL, and fails no scan.
fn json_expression(conn: &Connection, column: &str, path: &str) -> Result<String, RowError> {
    conn.query_row("SELECT json_extract('{}', ?1)", [path], |_| Ok(()))
        .map_err(|_| RowError::schema(format!("{path:?} is not a JSON path")))?;
    let path = path.replace('\'', "''");
    Ok(format!(
        "CASE WHEN json_valid({column}, 9) THEN json_extract({column}, '{path}') END"
    ))
}
