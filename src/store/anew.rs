//! What of a database nobody but its application can write anew: a table or an index with a function or a collation of the
//! application's own.
//!
//! Mechanics: VACUUM makes every table and index of the schema in an empty database and copies the rows of each table over.
//! The same tables and indexes are made here in a database in memory, without a row: a statement that would write one is
//! compiled, and not run.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ffi};

use super::database::quoted;

/// What `SQLite` says of the first table or index that it could not write anew, such as `no such function: embed`; `None`
/// when it could write all of them.
///
/// # Errors
///
/// When the schema cannot be read.
pub(super) fn obstacle(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let tables = statements(conn, "table")?;
    let indexes = statements(conn, "index")?;
    let empty = Connection::open_in_memory()?;
    // As VACUUM does: text in double quotes is read again.
    empty.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, true)?;
    empty.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, true)?;
    let fill = |name: &str| {
        let sql = format!("INSERT INTO {} DEFAULT VALUES", quoted(name));
        empty.prepare(&sql).map(drop)
    };
    let all = tables.iter().chain(&indexes);
    let created = all.map(|(_, sql)| empty.execute_batch(sql));
    let filled = tables.iter().map(|(name, _)| fill(name));
    for result in created.chain(filled) {
        match result {
            Err(error) if is_of_the_application(&error) => return Ok(Some(message_of(error))),
            result => result?,
        }
    }
    Ok(None)
}

/// Names and statements of what has pages of its own, and is not made by `SQLite` itself.
fn statements(conn: &Connection, kind: &str) -> rusqlite::Result<Vec<(String, String)>> {
    conn.prepare(
        "SELECT name, sql FROM sqlite_schema
         WHERE type = ?1 AND sql IS NOT NULL AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         ORDER BY rowid",
    )?
    .query_map([kind], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// Whether `SQLite` refused a statement as such, and nothing was wrong with a file, a lock or a value: it wants a function or
/// a collation that only the application has.
pub(super) fn is_of_the_application(error: &rusqlite::Error) -> bool {
    let error = match error {
        rusqlite::Error::SqlInputError { error, .. } => Some(error),
        other => other.sqlite_error(),
    };
    error.is_some_and(|error| error.extended_code & 0xff == ffi::SQLITE_ERROR)
}

fn message_of(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_the_application_is_found_and_nothing_else() {
        let own = |name: &str| Some(format!("no such {name}: mine"));
        for (schema, expected) in [
            ("CREATE TABLE own(x TEXT)", None),
            ("CREATE TABLE own(x TEXT); CREATE INDEX i ON own(x COLLATE binary)", own("collation sequence")),
            ("CREATE TABLE own(x TEXT COLLATE binary PRIMARY KEY)", own("collation sequence")),
            ("CREATE TABLE own(x TEXT); CREATE INDEX i ON own(upper(x))", own("function")),
            ("CREATE TABLE own(x TEXT); CREATE INDEX i ON own(x) WHERE upper(x) = 'A'", own("function")),
            ("CREATE TABLE own(x TEXT CHECK (upper(x) = x))", own("function")),
            ("CREATE TABLE own(x TEXT, y TEXT AS (upper(x)) STORED)", own("function")),
            // These are not written anew, but copied as text.
            ("CREATE TABLE own(x TEXT); CREATE VIEW v AS SELECT upper(x) FROM own", None),
            (
                "CREATE TABLE own(x TEXT); CREATE TRIGGER t AFTER INSERT ON own BEGIN SELECT upper(new.x); END",
                None,
            ),
            // Odd, and sound.
            (
                "CREATE TABLE \"odd \"\"name\"(id INTEGER PRIMARY KEY AUTOINCREMENT, x DEFAULT \"text\");
                 CREATE TABLE small(a INT, b TEXT, PRIMARY KEY(a, b)) WITHOUT ROWID, STRICT;
                 CREATE VIRTUAL TABLE words USING fts5(x);
                 CREATE TABLE own(a, b AS (a * 2), c AS (length(a)) STORED); CREATE INDEX i ON own(lower(b)); ANALYZE",
                None,
            ),
        ] {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(schema).unwrap();
            conn.execute_batch(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = replace(replace(sql, 'binary', 'mine'), 'upper', 'mine')",
            )
            .unwrap();
            assert_eq!(obstacle(&conn).unwrap(), expected, "{schema}");
        }
    }
}
