CREATE TABLE memories (
    id text PRIMARY KEY, user_id text, project_id text, segment integer DEFAULT 0, content text NOT NULL, simhash text,
    primary_sector text NOT NULL, tags text, meta text, created_at integer, updated_at integer, last_seen_at integer,
    salience real, decay_lambda real, version integer DEFAULT 1, mean_dim integer, mean_vec blob, compressed_vec blob,
    feedback_score real DEFAULT 0
);
CREATE TABLE openmemory_vectors (
    id text NOT NULL, sector text NOT NULL, user_id text, project_id text, v blob NOT NULL, dim integer NOT NULL,
    PRIMARY KEY (id, sector)
);
CREATE TABLE waypoints (
    src_id text, dst_id text NOT NULL, user_id text, project_id text, weight real NOT NULL, created_at integer,
    updated_at integer, PRIMARY KEY (src_id, user_id)
);
CREATE TABLE users (
    user_id text PRIMARY KEY, summary text, reflection_count integer DEFAULT 0, created_at integer, updated_at integer
);
CREATE TABLE temporal_facts (
    id text PRIMARY KEY, user_id text, project_id text, subject text NOT NULL, predicate text NOT NULL,
    object text NOT NULL, valid_from integer NOT NULL, valid_to integer, confidence real NOT NULL,
    last_updated integer NOT NULL, metadata text, UNIQUE (subject, predicate, object, valid_from)
);
