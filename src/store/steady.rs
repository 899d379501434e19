//! Whether an expression says the same each time it is asked, as long as nothing is written: what a plan is made of must
//! not change by the clock or by chance, or a memory would look edited at every look.
//!
//! Mechanics: the program that `SQLite` compiles names every function that it calls, also those that stand in a view, and
//! the list of functions says which of them are deterministic. Those of dates and times are called so, and read the clock
//! all the same where they are given no time, or `'now'`. (A text that says so itself is refused before: see
//! [`crate::config`].)

use rusqlite::Connection;

/// Functions that read the clock where they are given no time.
const CLOCKS: [&str; 7] = [
    "date",
    "datetime",
    "julianday",
    "strftime",
    "time",
    "timediff",
    "unixepoch",
];

/// What makes a query say something else at the next look, such as `random()`; `None` when nothing does.
///
/// # Errors
///
/// When the query cannot be compiled.
pub(super) fn unsteady(conn: &Connection, sql: &str) -> rusqlite::Result<Option<String>> {
    let program = program(conn, sql)?;
    let says_now = program.iter().any(|step| {
        let is_text = matches!(step.opcode.as_str(), "String" | "String8");
        is_text && step.operand.trim().eq_ignore_ascii_case("now")
    });
    for step in &program {
        let Some(name) = step.function() else {
            continue;
        };
        let is_clock = CLOCKS.contains(&name) && (says_now || step.has_no_argument);
        if is_clock {
            return Ok(Some(format!("{name}() of the current time")));
        }
        if !is_deterministic(conn, name)? {
            return Ok(Some(format!("{name}()")));
        }
    }
    Ok(None)
}

/// One instruction of a compiled statement.
struct Step {
    opcode: String,
    operand: String,
    /// For a function: whether it is called without any.
    has_no_argument: bool,
}

impl Step {
    /// The function that it calls.
    fn function(&self) -> Option<&str> {
        let calls = matches!(self.opcode.as_str(), "Function" | "PureFunc");
        let (name, _) = self.operand.rsplit_once('(').filter(|_| calls)?;
        Some(name)
    }
}

fn program(conn: &Connection, sql: &str) -> rusqlite::Result<Vec<Step>> {
    conn.prepare(&format!("EXPLAIN {sql}"))?
        .query_map([], |row| {
            Ok(Step {
                opcode: row.get("opcode")?,
                operand: row.get::<_, Option<String>>("p4")?.unwrap_or_default(),
                has_no_argument: row.get::<_, i64>("p2")? == 0,
            })
        })?
        .collect()
}

/// Whether a function of `SQLite` itself is deterministic. Those of others (text search, vectors) do not say, and are taken
/// to be.
fn is_deterministic(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    const DETERMINISTIC: i32 = rusqlite::ffi::SQLITE_DETERMINISTIC;
    conn.prepare_cached(
        "SELECT count(*) = 0 FROM pragma_function_list
         WHERE name = ?1 COLLATE NOCASE AND builtin AND type = 's' AND flags & ?2 = 0",
    )?
    .query_row((name, DETERMINISTIC), |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_and_chance_are_found_wherever_they_stand() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "CREATE TABLE t(a, b TEXT, c AS (length(b))); CREATE VIRTUAL TABLE words USING fts5(w);
             CREATE VIEW luck AS SELECT random() AS r, a FROM t;
             CREATE VIEW today AS SELECT date('Now') AS day, datetime() AS at FROM t;
             CREATE VIEW past AS SELECT datetime(b, '+1 day') AS at FROM t",
        )
        .unwrap();
        let found = |expression: &str| {
            unsteady(&conn, &format!("SELECT 1 FROM t AS m WHERE ({expression})"))
        };
        for steady in [
            "m.a",
            "m.c + abs(m.a) || upper(m.b)",
            "max(m.a, 1)",
            "(SELECT max(x.a) FROM t x)",
            "(SELECT count(*) FROM t x WHERE x.a = m.a)",
            "datetime(m.b, '+1 day')",
            "strftime('%s', m.b)",
            "m.b = 'now'",
            "m.b = 'random()'",
            "(SELECT at FROM past)",
            "m.b ->> '$.x'",
            "(SELECT highlight(words, 0, '[', ']') FROM words)",
        ] {
            assert_eq!(found(steady).unwrap(), None, "{steady}");
        }
        for (unsteady, name) in [
            ("random()", "random()"),
            ("\"random\"()", "random()"),
            ("abs(RANDOM ( ))", "random()"),
            ("coalesce(m.a, randomblob(4))", "randomblob()"),
            ("changes() > 1 OR m.a", "changes()"),
            ("m.a < current_timestamp", "current_timestamp()"),
            ("(SELECT r FROM luck l WHERE l.a = m.a)", "random()"),
            ("EXISTS (SELECT 1 FROM luck l WHERE l.r > 0)", "random()"),
            ("date()", "date() of the current time"),
            ("m.a > julianday('now')", "julianday() of the current time"),
            ("(SELECT day FROM today)", "date() of the current time"),
            ("(SELECT at FROM today)", "datetime() of the current time"),
        ] {
            assert_eq!(
                found(unsteady).unwrap().as_deref(),
                Some(name),
                "{unsteady}"
            );
        }
        found("nonesuch(m.a)").unwrap_err();
    }
}
