CREATE TABLE memory(
  id TEXT PRIMARY KEY,
  subject TEXT NOT NULL,
  fact TEXT NOT NULL,
  source TEXT NOT NULL,
  created_at TEXT NOT NULL DEFAULT (datetime('now')),
  confirmed_at TEXT NOT NULL DEFAULT (datetime('now')),
  expires_at TEXT,
  superseded_by TEXT REFERENCES memory(id) ON DELETE CASCADE
);
CREATE VIEW live_memory AS
  SELECT id, subject, fact, source, confirmed_at, expires_at
  FROM memory
  WHERE superseded_by IS NULL
    AND (expires_at IS NULL OR expires_at > datetime('now'));
