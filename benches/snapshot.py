#!/usr/bin/env python3
"""Times `hypnos snapshot now` beside bare copies: `VACUUM INTO` of the rows, and of the points either `cp` or `VACUUM INTO`
as well, then a sync of both files.

    cargo build --release --bin hypnos
    benches/snapshot.py target/release/hypnos --memories 26000 260000

Builds a store of rows and a table of vectors (384 dimensions, some 2.2 kB a point) in a temporary folder under --in. Each
contender runs in a process of its own, the two in turn, --rounds times; what counts is the best time, since other work on
the machine makes a run slower, never faster. With a cold cache the two databases are dropped from memory before each
run. The bare copies are neither counted, hashed nor opened again; the points that `cp` took are not of one state when
somebody writes meanwhile, and hold what was deleted from them. Prints a JSON line for each size, warm and cold: seconds, processor seconds, ratios.
"""

import argparse
import json
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
import uuid

CONFIG = """state_dir = "state"
snapshot_dir = "snapshots"
[[store]]
name = "agent"
[store.rows]
path = "memory.db"
preset = "ttl-days"
[store.owners]
scope = "user"
table = "users"
id = "id"
deleted_at = "deleted_at"
[store.vectors]
kind = "sqlite"
path = "vectors.db"
table = "points"
id = "id"
vector = "vector"
namespace_key = "namespace"
"""
ROWS = """PRAGMA journal_mode = WAL;
CREATE TABLE users(id TEXT PRIMARY KEY, email TEXT UNIQUE NOT NULL, deleted_at INTEGER);
CREATE TABLE memories(id INTEGER PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  content TEXT NOT NULL, content_hash TEXT NOT NULL, memory_type TEXT NOT NULL, source TEXT NOT NULL,
  created_at INTEGER NOT NULL, confirmed_at INTEGER, last_used_at INTEGER, uses INTEGER NOT NULL DEFAULT 0,
  ttl_days INTEGER, superseded_by INTEGER REFERENCES memories(id) ON DELETE CASCADE);
CREATE INDEX memories_user ON memories(user_id);"""
POINTS = """PRAGMA journal_mode = WAL;
CREATE TABLE points(id TEXT PRIMARY KEY, namespace TEXT NOT NULL, vector BLOB NOT NULL, payload TEXT NOT NULL);
CREATE INDEX points_namespace ON points(namespace);"""
ROWS_ANEW = "sqlite3 memory.db \"VACUUM INTO 'bare-rows.db'\""
POINTS_ANEW = "sqlite3 vectors.db \"VACUUM INTO 'bare-vectors.db'\""
SYNC = "sync bare-rows.db bare-vectors.db"
BARE = {
    "points_copied": f"{ROWS_ANEW} && cp vectors.db bare-vectors.db && {SYNC}",
    "points_anew": f"{ROWS_ANEW} && {POINTS_ANEW} && {SYNC}",
}


def build(folder, memories):
    rng = random.Random(7)
    with open(os.path.join(folder, "hypnos.toml"), "w") as out:
        out.write(CONFIG)
    users = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(50)]
    rows = sqlite3.connect(os.path.join(folder, "memory.db"))
    points = sqlite3.connect(os.path.join(folder, "vectors.db"))
    rows.executescript(ROWS)
    points.executescript(POINTS)
    rows.executemany("INSERT INTO users VALUES(?, ?, NULL)", ((user, user + "@example.org") for user in users))
    for number in range(1, memories + 1):
        user, text = users[number % len(users)], rng.randbytes(45).hex()
        rows.execute("INSERT INTO memories VALUES(?, ?, ?, ?, 'fact', 'chat', 1774430055, NULL, NULL, 1, NULL, NULL)",
                     (number, user, text, rng.randbytes(32).hex()))
        namespace = "user:" + user
        point = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{namespace}::{number}"))
        payload = json.dumps({"namespace": namespace, "doc_id": f"{namespace}::{number}"})
        points.execute("INSERT INTO points VALUES(?, ?, ?, ?)", (point, namespace, rng.randbytes(1536), payload))
    for db in (rows, points):
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()


def drop_from_memory(folder):
    for name in ("memory.db", "vectors.db"):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def timed(command, folder, shell=False):
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, cwd=folder, shell=shell, check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - start, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, processor


def best(runs):
    return {"seconds": round(min(run[0] for run in runs), 4), "processor_seconds": round(min(run[1] for run in runs), 4)}


def clear(folder):
    for name in ("bare-rows.db", "bare-vectors.db", "snapshots"):
        path = os.path.join(folder, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)


def measure(hypnos, folder, rounds, is_cold):
    commands = {name: (command, True) for name, command in BARE.items()}
    commands["hypnos"] = ([hypnos, "--config", "hypnos.toml", "snapshot", "now", "-q"], False)
    runs = {name: [] for name in commands}
    for _ in range(rounds):
        for name, (command, is_shell) in commands.items():
            clear(folder)
            os.sync()
            if is_cold:
                drop_from_memory(folder)
            runs[name].append(timed(command, folder, is_shell))
    return {name: best(times) for name, times in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hypnos")
    parser.add_argument("--memories", type=int, nargs="+", default=[26000])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--in", dest="parent", default=None, help="a folder on the disk to measure")
    options = parser.parse_args()
    hypnos = os.path.abspath(options.hypnos)
    for memories in options.memories:
        with tempfile.TemporaryDirectory(dir=options.parent) as folder:
            build(folder, memories)
            sizes = {name: os.path.getsize(os.path.join(folder, name + ".db")) for name in ("memory", "vectors")}
            for is_cold in (False, True):
                best_of = measure(hypnos, folder, options.rounds, is_cold)
                ratios = {name: round(best_of["hypnos"]["seconds"] / best_of[name]["seconds"], 2) for name in BARE}
                print(json.dumps({
                    "memories": memories, "rows_bytes": sizes["memory"], "vectors_bytes": sizes["vectors"],
                    "cache": "cold" if is_cold else "warm", **best_of, "ratios": ratios,
                }), flush=True)


if __name__ == "__main__":
    main()
