//! The connections of the row store.

use std::path::Path;

use rusqlite::Connection;

use super::RowError;
use crate::store::sqlite::{self, Access};

/// Prepared statements kept by a connection: a few for every table that hangs on the memories.
const STATEMENTS: usize = 256;

/// Opens a database for reading only.
pub(super) fn reader(path: &Path) -> Result<Connection, RowError> {
    open(path, Access::Read)
}

/// Opens a database for writing, [`Access::Write`] or [`Access::Erase`].
pub(super) fn writer(path: &Path, access: Access) -> Result<Connection, RowError> {
    open(path, access)
}

fn open(path: &Path, access: Access) -> Result<Connection, RowError> {
    let conn = sqlite::open(path, access)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}
