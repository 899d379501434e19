//! The tables of a state file, and the steps that lead from one version to the next.
//!
//! `user_version` is the number of steps taken. A step is never edited once released: a change is a new step.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Marks a SQLite file as a state file; the letters `HypS`.
pub(super) const APPLICATION_ID: i64 = 0x4879_7053;

/// The steps, oldest first.
pub(super) const STEPS: &[&str] = &[
    VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6, VERSION_7, VERSION_8,
    VERSION_9,
];

const VERSION_1: &str = "
-- One row: whose state this is. NULL: the store's own.
CREATE TABLE identity(tenant TEXT) STRICT;

CREATE TABLE runs(
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  command TEXT NOT NULL,
  version TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  -- NULL, all three: still running, or killed.
  finished_at INTEGER,
  outcome TEXT,
  exit INTEGER
) STRICT;

CREATE TABLE passes(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs(id),
  pass TEXT NOT NULL,
  outcome TEXT NOT NULL,
  succeeded INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  seconds REAL NOT NULL,
  planned TEXT NOT NULL,
  applied TEXT NOT NULL,
  skipped TEXT NOT NULL,
  failed TEXT NOT NULL,
  residue TEXT NOT NULL,
  findings TEXT NOT NULL,
  refusal TEXT,
  plan_hash TEXT,
  UNIQUE(run, pass)
) STRICT;

-- The run and pass that an intent is of, once instead of in each intent.
CREATE TABLE origins(
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL,
  pass TEXT NOT NULL,
  UNIQUE(run, pass)
) STRICT;

-- AUTOINCREMENT: tombstones outlive their intent, so its id is never given again.
CREATE TABLE intents(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  origin INTEGER NOT NULL REFERENCES origins(id),
  kind TEXT NOT NULL,
  namespace TEXT,
  memory ANY,
  expect BLOB,
  behind BLOB,
  points BLOB,
  reason TEXT NOT NULL,
  mark TEXT,
  survivor TEXT,
  erase INTEGER NOT NULL,
  -- NULL, both: open.
  outcome TEXT,
  settled_at INTEGER,
  undone_at INTEGER
) STRICT;
CREATE INDEX intents_open ON intents(id) WHERE outcome IS NULL;

-- Apart from their intent, so that dropping them is a delete.
CREATE TABLE pre_images(
  intent INTEGER PRIMARY KEY REFERENCES intents(id),
  unit BLOB,
  -- The row of the memory that takes over.
  survivor BLOB,
  points BLOB
) STRICT;

CREATE TABLE tombstones(
  intent INTEGER NOT NULL,
  part INTEGER NOT NULL,
  kind TEXT NOT NULL,
  pass TEXT NOT NULL,
  memory ANY,
  point ANY,
  namespace BLOB,
  erased INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(intent, part)
) STRICT, WITHOUT ROWID;

-- By SHA-256: the name itself may be what was to be erased.
CREATE TABLE erasures(
  namespace BLOB PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sightings(
  namespace TEXT NOT NULL,
  point ANY NOT NULL,
  first_seen INTEGER NOT NULL,
  PRIMARY KEY(namespace, point)
) STRICT, WITHOUT ROWID;

-- A key is NULL once the question is void: it may be put again.
CREATE TABLE queue(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key BLOB UNIQUE,
  kind TEXT NOT NULL,
  partition TEXT NOT NULL,
  namespace TEXT NOT NULL,
  members BLOB NOT NULL,
  reason TEXT NOT NULL,
  run TEXT NOT NULL,
  queued_at INTEGER NOT NULL,
  snoozed_until INTEGER,
  -- NULL, all three: open.
  answer TEXT,
  answered_at INTEGER,
  -- The run that answered it.
  answered_by TEXT
) STRICT;
CREATE INDEX queue_open ON queue(id) WHERE answer IS NULL;
CREATE INDEX queue_by_time ON queue(kind, queued_at);

-- The settings at which a pass has compared.
CREATE TABLE comparisons(
  pass TEXT PRIMARY KEY,
  settings BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE compared(
  pass TEXT NOT NULL,
  memory ANY NOT NULL,
  fingerprint BLOB NOT NULL,
  PRIMARY KEY(pass, memory)
) STRICT, WITHOUT ROWID;

CREATE TABLE acceptances(
  pass TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE totals(
  pass TEXT NOT NULL,
  action TEXT NOT NULL,
  result TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY(pass, action, result)
) STRICT, WITHOUT ROWID;
";

const VERSION_2: &str = "
-- JSON: which stores the intents of the run were written for. Nothing is known of those of before.
ALTER TABLE origins ADD COLUMN stores TEXT NOT NULL DEFAULT '{}';
";

const VERSION_3: &str = "
-- The run that takes it back, from before either store is touched; NULL again when it had to leave it.
ALTER TABLE intents ADD COLUMN undo TEXT;
CREATE INDEX intents_undo ON intents(id) WHERE undo IS NOT NULL AND undone_at IS NULL;

-- Namespaces that are being erased: what a killed run left of one is erased by the next.
CREATE TABLE forgetting(
  namespace TEXT PRIMARY KEY,
  begun_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

const VERSION_4: &str = "
-- Whether the pairs of snapshots that hold it are to go, too.
ALTER TABLE forgetting ADD COLUMN from_pairs INTEGER NOT NULL DEFAULT 0;
";

const VERSION_5: &str = "
-- Why a run, or a pass of it, failed or was refused.
ALTER TABLE runs ADD COLUMN error TEXT;
ALTER TABLE passes ADD COLUMN error TEXT;
";

const VERSION_6: &str = "
-- One row: which file this is, and how many erasures it has seen. A pair of snapshots says where it stood.
CREATE TABLE lineage(id BLOB NOT NULL, erasures INTEGER NOT NULL) STRICT;
INSERT INTO lineage VALUES (randomblob(16), 0);
-- Which erasure it was, the last one; 0: one before the first that was counted.
ALTER TABLE erasures ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
";

const VERSION_7: &str = "
-- JSON, one row from the first run on: where the rows and points are that all of this is about.
CREATE TABLE place(stores TEXT NOT NULL) STRICT;
-- They did not say for which store they were given.
DELETE FROM acceptances;
";

const VERSION_8: &str = "
-- Whether all that the run did is in the totals, as far as intents tell of it.
ALTER TABLE runs ADD COLUMN accounted INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET accounted = 1;

-- What of runs and passes that may not be accounted for is in the totals all the same.
CREATE TABLE counted(
  run TEXT NOT NULL,
  pass TEXT NOT NULL,
  action TEXT NOT NULL,
  result TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY(run, pass, action, result)
) STRICT, WITHOUT ROWID;
";

const VERSION_9: &str = "
-- Who put a question off, so that it can be taken back. Nothing is known of those of before.
CREATE TABLE snoozes(
  id INTEGER PRIMARY KEY,
  entry INTEGER NOT NULL REFERENCES queue(id) ON DELETE CASCADE,
  run TEXT NOT NULL,
  -- Until when it had been put off before.
  before INTEGER
) STRICT;
CREATE INDEX snoozes_by_entry ON snoozes(entry);
";

/// What a file says it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Its application id.
    pub(super) application: i64,
    /// Its number of steps.
    pub(super) version: i64,
}

impl Stamp {
    pub(super) fn of(conn: &Connection) -> rusqlite::Result<Self> {
        let pragma = |name| conn.pragma_query_value(None, name, |row| row.get(0));
        Ok(Self {
            application: pragma("application_id")?,
            version: pragma("user_version")?,
        })
    }
}

/// Fills an empty database: every step, the identity and the stamp.
pub(super) fn create(
    conn: &Connection,
    tenant: Option<&str>,
    steps: &[&str],
) -> rusqlite::Result<()> {
    // Stands in the header, and can be chosen only before the first table.
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    take(&tx, steps)?;
    tx.execute("INSERT INTO identity(tenant) VALUES (?1)", [tenant])?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    stamp_version(&tx, steps.len())?;
    tx.commit()
}

/// Brings a database from whatever version it has by now to the newest, in one transaction: all steps or none.
pub(super) fn migrate(conn: &Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    let taken = usize::try_from(Stamp::of(&tx)?.version).unwrap_or_default();
    take(&tx, steps.get(taken..).unwrap_or_default())?;
    stamp_version(&tx, steps.len().max(taken))?;
    tx.commit()
}

fn stamp_version(tx: &Transaction<'_>, version: usize) -> rusqlite::Result<()> {
    let version = i64::try_from(version).unwrap_or(i64::MAX);
    tx.pragma_update(None, "user_version", version)
}

fn take(tx: &Transaction<'_>, steps: &[&str]) -> rusqlite::Result<()> {
    steps.iter().try_for_each(|step| tx.execute_batch(step))
}
