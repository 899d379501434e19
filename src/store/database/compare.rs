//! Whether a copy is what the original is now.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{failed, open_copy, quoted, schema, table_names, tables};
use crate::clock::Timestamp;
use crate::stop::Stop;
use crate::store::anew::is_of_the_application;
use crate::store::copies::CopyError;
use crate::store::sqlite::{self, Access};

/// A file that was written this shortly before it was looked at may be written once more without another time of
/// change: its stamp proves nothing. In nanoseconds.
const RACY: i64 = 2_000_000_000;

/// Whether a live database holds exactly what a copy of it holds: the same schema, and the same rows in the same order.
///
/// # Errors
///
/// When one of the two cannot be read to the end, or a stop was requested.
pub fn same(live: &Path, copy: &Path, stop: &Stop) -> Result<bool, CopyError> {
    let live = sqlite::open(live, Access::Read)?;
    let copy = open_copy(copy)?;
    let transaction = live
        .unchecked_transaction()
        .map_err(failed("begin to read"))?;
    if schema(&live)? != schema(&copy)? || tables(&live)? != tables(&copy)? {
        return Ok(false);
    }
    let names = table_names(&live).map_err(failed("list the tables"))?;
    for name in names {
        if !same_rows(&live, &copy, &name, stop)? {
            return Ok(false);
        }
    }
    drop(transaction);
    Ok(true)
}

fn same_rows(
    live: &Connection,
    copy: &Connection,
    table: &str,
    stop: &Stop,
) -> Result<bool, CopyError> {
    let sql = format!("SELECT * FROM {}", quoted(table));
    let doing = || failed("compare the tables");
    let (mut ours, mut theirs) = match (live.prepare(&sql), copy.prepare(&sql)) {
        // Nobody but the application can tell.
        (Err(error), _) | (_, Err(error)) if is_of_the_application(&error) => return Ok(false),
        (ours, theirs) => (ours.map_err(doing())?, theirs.map_err(doing())?),
    };
    let columns = ours.column_count();
    let (mut ours, mut theirs) = (
        ours.query([]).map_err(doing())?,
        theirs.query([]).map_err(doing())?,
    );
    loop {
        if stop.is_requested() {
            return Err(CopyError::Interrupted);
        }
        match (
            ours.next().map_err(doing())?,
            theirs.next().map_err(doing())?,
        ) {
            (None, None) => return Ok(true),
            (Some(ours), Some(theirs)) => {
                for column in 0..columns {
                    let (a, b) = (ours.get_ref(column), theirs.get_ref(column));
                    if a.map_err(doing())? != b.map_err(doing())? {
                        return Ok(false);
                    }
                }
            }
            _ => return Ok(false),
        }
    }
}

/// What tells without opening it that nobody has written to a database since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    pub(super) changed_ns: i64,
    /// Size of the write-ahead log, and when it was written; zero when it is empty or there is none.
    pub(super) log_bytes: u64,
    pub(super) log_changed_ns: i64,
}

impl Stamp {
    /// Looks at a database and its log. Neither is opened, see [`crate::store::sqlite`].
    ///
    /// # Errors
    ///
    /// When there is no database.
    pub fn of(path: &Path) -> Result<Self, CopyError> {
        let doing = || CopyError::io(format!("look at {}", path.display()));
        let file = path.metadata().map_err(doing())?;
        let log = match sqlite::beside(path, "-wal").metadata() {
            Ok(log) => Some(log).filter(|log| log.len() > 0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(doing()(error)),
        };
        let time = |file: &std::fs::Metadata| {
            file.mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(file.mtime_nsec())
        };
        Ok(Self {
            inode: file.ino(),
            bytes: file.len(),
            changed_ns: time(&file),
            log_bytes: log.as_ref().map_or(0, std::fs::Metadata::len),
            log_changed_ns: log.as_ref().map_or(0, time),
        })
    }

    /// Whether what was stamped is sure to be what `now` is a stamp of, when it was stamped at `at`.
    #[must_use]
    pub fn proves(&self, now: &Self, at: Timestamp) -> bool {
        let latest = self.changed_ns.max(self.log_changed_ns);
        let at = i64::try_from(at.as_nanosecond()).unwrap_or(i64::MIN);
        self == now && latest.saturating_add(RACY) < at
    }
}
