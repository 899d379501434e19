-- Open WebUI 0.12, as far as its memories go.
CREATE TABLE user (
  id VARCHAR NOT NULL PRIMARY KEY, email VARCHAR, username VARCHAR, role VARCHAR, name VARCHAR,
  profile_image_url TEXT, settings JSON, info JSON, last_active_at BIGINT, updated_at BIGINT, created_at BIGINT);
CREATE TABLE memory (
  id VARCHAR NOT NULL PRIMARY KEY, user_id VARCHAR, type VARCHAR NOT NULL DEFAULT 'context', path TEXT, content TEXT,
  meta JSON, updated_at BIGINT, created_at BIGINT);
