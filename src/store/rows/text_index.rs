//! Text indexes that leave their rows in another table (FTS5 with `content = 'memories'`), and who keeps them.
//!
//! A row that goes has to be taken out of such an index with the words that it had. An application does so by a trigger
//! that says `'delete'`, or by one that runs before the row goes. Two other shapes are common: a plain `DELETE` from the
//! index after the row has gone, which finds no words any more and leaves them all, and no trigger at all. There hypnos
//! takes the row out itself, just before it goes, and where nothing would bring it back with its row, puts it in again.
//!
//! An index without a table of sizes (`columnsize = 0`) does not tell whether a row is in it, and is left to the
//! application.

use rusqlite::{Connection, params_from_iter};

use super::RowError;
use super::schema::{RowKey, Table, quoted};

/// A text index over one table that somebody has to keep.
#[derive(Debug)]
pub(super) struct TextIndex {
    /// The table that it is over.
    pub(super) table: String,
    /// Takes a row out, by its key.
    remove_sql: String,
    /// Puts a row in, by its key, where no trigger does.
    add_sql: Option<String>,
}

/// What a database says of one index.
struct Found {
    name: String,
    ddl: String,
}

impl TextIndex {
    /// The indexes over these tables that no trigger keeps.
    pub(super) fn read(conn: &Connection, tables: &[Table]) -> Result<Vec<Self>, RowError> {
        let read = || -> rusqlite::Result<Vec<Self>> {
            let mut kept = Vec::new();
            for found in found(conn)? {
                let Some(over) = option(&found.ddl, "content") else {
                    continue;
                };
                let table = tables
                    .iter()
                    .find(|table| table.name.eq_ignore_ascii_case(&over));
                if let Some(table) = table
                    && has_sizes(conn, &found.name)?
                {
                    kept.extend(Self::of(conn, &found, table)?);
                }
            }
            Ok(kept)
        };
        read().map_err(RowError::sqlite("read the text indexes"))
    }

    /// The index, if one of its two sides is without a trigger.
    fn of(conn: &Connection, found: &Found, table: &Table) -> rusqlite::Result<Option<Self>> {
        let (removes, adds) = triggers(conn, &found.name, &table.name)?;
        if removes {
            return Ok(None);
        }
        let mut columns = columns(conn, &found.name)?;
        columns.retain(|column| table.column(column).is_some());
        let list: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let list = list.join(", ");
        let index = quoted(&found.name);
        let rowid = option(&found.ddl, "content_rowid");
        let rowid = rowid.map_or_else(
            || "c.rowid".to_owned(),
            |column| format!("c.{}", quoted(&column)),
        );
        let from = format!(
            "FROM {} AS c WHERE {}",
            quoted(&table.name),
            table.key_condition(0)
        );
        let is_in = format!(
            "EXISTS (SELECT 1 FROM {} AS d WHERE d.id = {rowid})",
            quoted(&format!("{}_docsize", found.name))
        );
        let remove = format!(
            "INSERT INTO {index}({index}, rowid, {list}) SELECT 'delete', {rowid}, {list} {from} AND {is_in}"
        );
        let add = format!(
            "INSERT INTO {index}(rowid, {list}) SELECT {rowid}, {list} {from} AND NOT {is_in}"
        );
        Ok(Some(Self {
            table: table.name.clone(),
            remove_sql: remove,
            add_sql: (!adds).then_some(add),
        }))
    }

    /// Takes a row out that is about to go.
    pub(super) fn remove(&self, conn: &Connection, key: &RowKey) -> rusqlite::Result<()> {
        run(conn, &self.remove_sql, key)
    }

    /// Puts a row in that has come back.
    pub(super) fn add(&self, conn: &Connection, key: &RowKey) -> rusqlite::Result<()> {
        match &self.add_sql {
            Some(sql) => run(conn, sql, key),
            None => Ok(()),
        }
    }
}

fn run(conn: &Connection, sql: &str, key: &RowKey) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?
        .execute(params_from_iter(key.values()))
        .map(drop)
}

fn found(conn: &Connection) -> rusqlite::Result<Vec<Found>> {
    let mut read = conn.prepare(
        "SELECT name, sql FROM sqlite_schema
         WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%USING%fts5%' ORDER BY name",
    )?;
    let rows = read.query_map([], |row| {
        Ok(Found {
            name: row.get(0)?,
            ddl: row.get(1)?,
        })
    })?;
    rows.collect()
}

/// The value of an option of a virtual table: `content = 'memories'`.
fn option(ddl: &str, name: &str) -> Option<String> {
    let (_, arguments) = ddl.split_once('(')?;
    let arguments = arguments.rsplit_once(')')?.0;
    let value = arguments.split(',').find_map(|argument| {
        let (key, value) = argument.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then_some(value)
    })?;
    let value = value.trim().trim_matches(['\'', '"', '`', '[', ']']);
    (!value.is_empty()).then(|| value.to_owned())
}

fn has_sizes(conn: &Connection, index: &str) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)",
        [format!("{index}_docsize")],
        |row| row.get(0),
    )
}

fn columns(conn: &Connection, index: &str) -> rusqlite::Result<Vec<String>> {
    let mut read = conn.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let rows = read.query_map([index], |row| row.get(0))?;
    rows.collect()
}

/// Whether triggers of a table take a row that goes out of an index, and put a new one in.
fn triggers(conn: &Connection, index: &str, table: &str) -> rusqlite::Result<(bool, bool)> {
    let mut read = conn.prepare(
        "SELECT lower(sql) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
    )?;
    let mut rows = read.query([table])?;
    let (mut removes, mut adds) = (false, false);
    while let Some(row) = rows.next()? {
        let sql: String = row.get(0)?;
        let Some((head, body)) = split_trigger(&sql) else {
            continue;
        };
        if !names(body, &index.to_lowercase()) {
            continue;
        }
        let words: Vec<&str> = head.split_whitespace().collect();
        if words.contains(&"delete") {
            removes |= words.contains(&"before") || body.contains("'delete'");
        }
        adds |= words.contains(&"insert");
    }
    Ok((removes, adds))
}

/// A trigger in lower case, up to the table that it is on, and after that.
fn split_trigger(sql: &str) -> Option<(&str, &str)> {
    let begin = sql.match_indices("begin").find(|(at, word)| {
        let around = [
            sql[..*at].chars().next_back(),
            sql[at + word.len()..].chars().next(),
        ];
        around
            .into_iter()
            .flatten()
            .all(|c| !c.is_alphanumeric() && c != '_')
    });
    begin.map(|(at, _)| sql.split_at(at))
}

/// Whether a statement names something, as a word of its own.
fn names(body: &str, name: &str) -> bool {
    body.match_indices(name).any(|(at, _)| {
        let around = [
            body[..at].chars().next_back(),
            body[at + name.len()..].chars().next(),
        ];
        around
            .into_iter()
            .flatten()
            .all(|c| !c.is_alphanumeric() && c != '_')
    })
}
