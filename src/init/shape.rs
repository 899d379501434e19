//! What a database holds, as far as fingerprints ask.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::config::fingerprint::{Shape, normal_sql};

/// Reads the tables, their columns, and the statements of the schema.
///
/// # Errors
///
/// When the schema cannot be read.
pub fn read(conn: &Connection) -> rusqlite::Result<Shape> {
    let mut shape = Shape::default();
    let mut objects = conn.prepare("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")?;
    let objects = objects.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
        ))
    })?;
    for object in objects {
        let (kind, name, sql) = object?;
        if kind == "table" {
            shape
                .tables
                .insert(name.to_lowercase(), columns(conn, &name));
        }
        shape.statements.push(normal_sql(&sql));
    }
    Ok(shape)
}

/// The columns of a table; none for a virtual table whose module is not there.
fn columns(conn: &Connection, table: &str) -> BTreeMap<String, String> {
    let read = || -> rusqlite::Result<BTreeMap<String, String>> {
        let mut statement =
            conn.prepare("SELECT lower(name), lower(type) FROM pragma_table_xinfo(?1)")?;
        let columns = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
        columns.collect()
    };
    read().unwrap_or_default()
}
