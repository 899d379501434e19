CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    content_hash TEXT UNIQUE NOT NULL,
    content TEXT NOT NULL,
    tags TEXT,
    memory_type TEXT,
    metadata TEXT,
    created_at REAL,
    updated_at REAL,
    created_at_iso TEXT,
    updated_at_iso TEXT,
    deleted_at REAL DEFAULT NULL,
    store TEXT NOT NULL DEFAULT 'default',
    parent_id TEXT,
    version INTEGER DEFAULT 1,
    confidence REAL DEFAULT 1.0,
    last_accessed INTEGER,
    superseded_by TEXT,
    embedding_pending INTEGER NOT NULL DEFAULT 0
);
CREATE VIRTUAL TABLE memory_embeddings USING vec0(
    store TEXT PARTITION KEY,
    content_embedding FLOAT[32] distance_metric=cosine
);
CREATE INDEX idx_content_hash ON memories(content_hash);
CREATE INDEX idx_created_at ON memories(created_at);
CREATE INDEX idx_memory_type ON memories(memory_type);
CREATE INDEX idx_deleted_at ON memories(deleted_at);
CREATE TABLE memory_graph (
    source_hash TEXT, target_hash TEXT, similarity REAL, connection_types TEXT, metadata TEXT, created_at REAL,
    relationship_type TEXT, PRIMARY KEY (source_hash, target_hash)
);
CREATE VIRTUAL TABLE memory_content_fts USING fts5(
    content, content='memories', content_rowid='id', tokenize='trigram'
);
CREATE TRIGGER memories_fts_ai AFTER INSERT ON memories BEGIN
    INSERT INTO memory_content_fts(rowid, content) VALUES (new.id, new.content);
END;
CREATE TRIGGER memories_fts_ad AFTER DELETE ON memories BEGIN
    DELETE FROM memory_content_fts WHERE rowid = old.id;
END;
CREATE TRIGGER memories_fts_au AFTER UPDATE ON memories BEGIN
    DELETE FROM memory_content_fts WHERE rowid = old.id;
    INSERT INTO memory_content_fts(rowid, content) VALUES (new.id, new.content);
END;
