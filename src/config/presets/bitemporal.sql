CREATE TABLE memories(
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  kind TEXT NOT NULL,
  content TEXT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT,
  ingested_at TEXT NOT NULL,
  use_count INTEGER NOT NULL DEFAULT 0,
  last_used TEXT,
  supersedes TEXT REFERENCES memories(id)
);
