CREATE TABLE users(
  id TEXT PRIMARY KEY,
  email TEXT UNIQUE NOT NULL,
  deleted_at INTEGER                 -- epoch seconds; NULL: still a customer
);

CREATE TABLE memories(
  id INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  content TEXT NOT NULL,
  content_hash TEXT NOT NULL,        -- sha256 of the trimmed, lower-case content
  memory_type TEXT NOT NULL,
  source TEXT NOT NULL,
  created_at INTEGER NOT NULL,       -- epoch seconds, like every time here
  confirmed_at INTEGER,
  last_used_at INTEGER,
  uses INTEGER NOT NULL DEFAULT 0,
  pinned INTEGER NOT NULL DEFAULT 0,
  ttl_days INTEGER,                  -- NULL: never expires
  superseded_by INTEGER REFERENCES memories(id) ON DELETE CASCADE,
  UNIQUE(user_id, content_hash)
);
CREATE INDEX memories_superseded ON memories(superseded_by);

CREATE TABLE memory_tags(
  memory_id INTEGER NOT NULL REFERENCES memories(id) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY(memory_id, tag)
);

-- What a team shares lives in a table of its own: nobody's account decides about it.
CREATE TABLE team_memories(
  id INTEGER PRIMARY KEY,
  team TEXT NOT NULL,
  content TEXT NOT NULL,
  memory_type TEXT NOT NULL,
  source TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  confirmed_at INTEGER,
  last_used_at INTEGER,
  uses INTEGER NOT NULL DEFAULT 0,
  pinned INTEGER NOT NULL DEFAULT 0
);

CREATE VIRTUAL TABLE memories_text USING fts5(
  content, content = 'memories', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER memories_text_insert AFTER INSERT ON memories BEGIN
  INSERT INTO memories_text(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER memories_text_delete AFTER DELETE ON memories BEGIN
  INSERT INTO memories_text(memories_text, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER memories_text_update AFTER UPDATE OF id, content ON memories BEGIN
  INSERT INTO memories_text(memories_text, rowid, content) VALUES ('delete', old.id, old.content);
  INSERT INTO memories_text(rowid, content) VALUES (new.id, new.content);
END;
