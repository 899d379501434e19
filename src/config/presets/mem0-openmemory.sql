-- OpenMemory of mem0, as SQLAlchemy makes it: UUID is a type of numeric affinity.
CREATE TABLE users (id UUID NOT NULL PRIMARY KEY, user_id VARCHAR NOT NULL UNIQUE, name VARCHAR, email VARCHAR UNIQUE, metadata JSON, created_at DATETIME, updated_at DATETIME);
CREATE TABLE apps (id UUID NOT NULL PRIMARY KEY, owner_id UUID NOT NULL REFERENCES users (id), name VARCHAR NOT NULL, description VARCHAR, metadata JSON, is_active BOOLEAN, created_at DATETIME, updated_at DATETIME);
CREATE TABLE memories (
  id UUID NOT NULL PRIMARY KEY, user_id UUID NOT NULL REFERENCES users (id), app_id UUID NOT NULL REFERENCES apps (id),
  content VARCHAR NOT NULL, vector VARCHAR, metadata JSON, state VARCHAR(8), created_at DATETIME, updated_at DATETIME,
  archived_at DATETIME, deleted_at DATETIME);
CREATE TABLE categories (id UUID NOT NULL PRIMARY KEY, name VARCHAR NOT NULL UNIQUE, description VARCHAR, created_at DATETIME, updated_at DATETIME);
CREATE TABLE memory_categories (memory_id UUID NOT NULL REFERENCES memories (id), category_id UUID NOT NULL REFERENCES categories (id), PRIMARY KEY (memory_id, category_id));
CREATE TABLE memory_status_history (id UUID NOT NULL PRIMARY KEY, memory_id UUID NOT NULL REFERENCES memories (id), changed_by UUID NOT NULL REFERENCES users (id), old_state VARCHAR(8) NOT NULL, new_state VARCHAR(8) NOT NULL, changed_at DATETIME);
CREATE TABLE memory_access_logs (id UUID NOT NULL PRIMARY KEY, memory_id UUID NOT NULL REFERENCES memories (id), app_id UUID NOT NULL REFERENCES apps (id), accessed_at DATETIME, access_type VARCHAR NOT NULL, metadata JSON);
