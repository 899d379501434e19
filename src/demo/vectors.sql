CREATE TABLE points(
  id TEXT PRIMARY KEY,               -- uuid5(dns, "{namespace}::{id}")
  namespace TEXT NOT NULL,           -- scope:owner
  vector BLOB NOT NULL,              -- little-endian f32, unit length
  payload TEXT NOT NULL              -- JSON
);
CREATE INDEX points_namespace ON points(namespace);
