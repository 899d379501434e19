//! Why a database refuses a change, in words that quote no memory.
//!
//! What SQLite itself says of a constraint names tables, columns and conditions. What a trigger says may be put together from
//! the row: it is repeated only where it stands word for word in the schema.

use rusqlite::{Connection, ErrorCode, ffi};

use super::RowError;
use crate::error::chain;
use crate::memory::printable;

/// Reasons that are remembered at once; there are few, or as many as rows.
const REMEMBERED: usize = 3;
/// Characters of a reason.
const LONGEST: usize = 200;

/// The constraints of which SQLite says only what the schema has.
const OF_THE_SCHEMA: [i32; 7] = [
    ffi::SQLITE_CONSTRAINT_CHECK,
    ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
    ffi::SQLITE_CONSTRAINT_NOTNULL,
    ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
    ffi::SQLITE_CONSTRAINT_ROWID,
    ffi::SQLITE_CONSTRAINT_UNIQUE,
    ffi::SQLITE_CONSTRAINT_DATATYPE,
];

/// What SQLite says where `ON DELETE RESTRICT` refuses, with the code of a trigger.
const RESTRICTED: &str = "FOREIGN KEY constraint failed";

/// Why changes were refused, each reason once.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<String>);

impl Refusals {
    pub(super) fn add(&mut self, reason: String) {
        if self.0.len() < REMEMBERED && !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }

    /// Adds what is known of an error that lost a whole transaction, where nothing is known yet.
    pub(super) fn add_if_none(&mut self, error: &RowError) {
        if self.0.is_empty() {
            self.0.push(chain(error));
        }
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

/// Whether an error is one of the statement on this row (a constraint, a trigger, a function in it, a damaged text
/// index), rather than one of the file or of the connection, which would meet every other row, too.
pub(super) fn refused(error: &rusqlite::Error) -> bool {
    let Some(failure) = error.sqlite_error() else {
        return false;
    };
    let is_of_the_file = matches!(
        failure.code,
        ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::SchemaChanged
    );
    // A virtual table says so of its own tables, not of the file.
    !is_of_the_file || failure.extended_code == ffi::SQLITE_CORRUPT_VTAB
}

/// Why a statement was refused.
pub(super) fn reason(conn: &Connection, error: &rusqlite::Error) -> String {
    let rusqlite::Error::SqliteFailure(failure, message) = error else {
        return "a value of the row cannot be written".to_owned();
    };
    let code = failure.extended_code;
    let message = message.as_deref().unwrap_or_default();
    if code == ffi::SQLITE_CONSTRAINT_TRIGGER && message != RESTRICTED {
        return if is_in_a_trigger(conn, message) {
            format!("a trigger says: {}", bounded(message))
        } else {
            "a trigger, in words that are not repeated, as they can be those of a memory".to_owned()
        };
    }
    if message == RESTRICTED || OF_THE_SCHEMA.contains(&code) && !message.is_empty() {
        return bounded(message);
    }
    ffi::code_to_str(code).to_owned()
}

/// Whether a text stands in a trigger as it is.
fn is_in_a_trigger(conn: &Connection, text: &str) -> bool {
    let literal = format!("'{}'", text.replace('\'', "''"));
    conn.query_row(
        "SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND instr(sql, ?1) > 0)",
        [literal],
        |row| row.get(0),
    )
    .unwrap_or(false)
}

fn bounded(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(&format!(
            "CREATE TABLE t(a TEXT NOT NULL UNIQUE CHECK (a <> 'bad'), b);
             INSERT INTO t VALUES ('my secret', 1), ('other', 2);
             CREATE TRIGGER keep BEFORE DELETE ON t BEGIN {body}; END"
        ))
        .unwrap();
        let error = conn.execute("DELETE FROM t WHERE a = 'my secret'", []);
        reason(&conn, &error.unwrap_err())
    }

    #[test]
    fn what_stands_in_the_schema_is_repeated_and_what_may_be_of_a_row_is_not() {
        for (body, expected) in [
            (
                "SELECT RAISE(ABORT, 'it''s pinned')",
                "a trigger says: it's pinned",
            ),
            ("SELECT RAISE(FAIL, 'no')", "a trigger says: no"),
            ("UPDATE t SET a = NULL", "NOT NULL constraint failed: t.a"),
            (
                "UPDATE t SET a = 'other' WHERE b = 1",
                "UNIQUE constraint failed: t.a",
            ),
            (
                "UPDATE t SET a = 'bad'",
                "CHECK constraint failed: a <> 'bad'",
            ),
        ] {
            assert_eq!(refusal(body), expected, "{body}");
        }
        for body in [
            "SELECT RAISE(ABORT, 'kept: ' || old.a)",
            "SELECT json_extract('{' || old.a, '$.a')",
        ] {
            let said = refusal(body);
            assert!(
                !said.is_empty() && !said.contains("secret"),
                "{body}: {said}"
            );
        }
    }

    #[test]
    fn a_reason_is_short_and_few_are_kept() {
        let long = "\u{1b}é".repeat(500);
        let said = refusal(&format!("SELECT RAISE(ABORT, '{long}')"));
        assert!(
            said.chars().count() < 230 && !said.contains('\u{1b}'),
            "{said}"
        );
        let mut refusals = Refusals::default();
        for n in [1, 1, 2, 3, 4] {
            refusals.add(n.to_string());
        }
        assert_eq!(refusals.take(), ["1", "2", "3"]);
        assert_eq!(refusals.take(), [""; 0]);
    }

    #[test]
    fn an_error_is_of_a_row_or_of_the_file() {
        for (code, of_a_row) in [
            (ffi::SQLITE_ERROR, true),
            (ffi::SQLITE_CONSTRAINT_TRIGGER, true),
            (ffi::SQLITE_CONSTRAINT_PRIMARYKEY, true),
            (ffi::SQLITE_MISMATCH, true),
            (ffi::SQLITE_TOOBIG, true),
            (ffi::SQLITE_CORRUPT_VTAB, true),
            (ffi::SQLITE_CORRUPT, false),
            (ffi::SQLITE_CORRUPT_INDEX, false),
            (ffi::SQLITE_NOTADB, false),
            (ffi::SQLITE_BUSY_SNAPSHOT, false),
            (ffi::SQLITE_LOCKED, false),
            (ffi::SQLITE_FULL, false),
            (ffi::SQLITE_IOERR_WRITE, false),
            (ffi::SQLITE_READONLY, false),
            (ffi::SQLITE_CANTOPEN, false),
            (ffi::SQLITE_NOMEM, false),
            (ffi::SQLITE_INTERRUPT, false),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(refused(&error), of_a_row, "{error}");
        }
    }
}
