#!/usr/bin/env python3
"""Times `hypnos snapshot now` on points in Qdrant beside the bare copies: `VACUUM INTO` of the rows, the server's snapshot of
the collection made, fetched and removed again, then a sync of both files.

    cargo build --release --bin hypnos && cargo build --release --package qdrant-peer
    pip install qdrant-client
    benches/snapshot_qdrant.py target/release/hypnos target/release/qdrant-peer --memories 26000

The server is the stand-in of the tests, which holds the real engine: it is started here and has a folder of its own. The
bare copies are not counted; hypnos has the server recover each copy into a collection, and counts that. Best of --rounds.
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
import urllib.request

import snapshot
from qdrant_client import QdrantClient, models

QDRANT = 'kind = "qdrant"\nurl = "{}"\nrest_url = "{}"\ncollection = "memories"\n'


def fill(folder, grpc, rest):
    """Puts a point for each that was built in SQLite, with a vector of its own; the table goes."""
    client = QdrantClient(host="127.0.0.1", grpc_port=int(grpc.rsplit(":", 1)[1]), port=int(rest.rsplit(":", 1)[1]),
                          prefer_grpc=True, check_compatibility=False, timeout=120)
    params = models.VectorParams(size=384, distance=models.Distance.COSINE)
    client.create_collection("memories", vectors_config=params)
    client.create_payload_index("memories", "namespace", models.PayloadSchemaType.KEYWORD)
    path = os.path.join(folder, "vectors.db")
    table, rng = sqlite3.connect(path), random.Random(3)
    points = [
        models.PointStruct(id=point, vector=[rng.gauss(0, 1) for _ in range(384)], payload=json.loads(payload))
        for point, payload in table.execute("SELECT id, payload FROM points")
    ]
    for start in range(0, len(points), 500):
        client.upsert("memories", points[start:start + 500], wait=True)
    table.close()
    os.remove(path)


def copy_bare(folder, rest):
    subprocess.run(snapshot.ROWS_ANEW, cwd=folder, shell=True, check=True)
    snapshots = rest + "/collections/memories/snapshots"
    with urllib.request.urlopen(urllib.request.Request(snapshots, method="POST")) as answer:
        made = json.load(answer)["result"]
    one = f"{snapshots}/{made['name']}"
    with urllib.request.urlopen(one) as source, open(os.path.join(folder, "bare-vectors.db"), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    urllib.request.urlopen(urllib.request.Request(one, method="DELETE")).close()
    subprocess.run(snapshot.SYNC, cwd=folder, shell=True, check=True)
    return made["size"]


def seconds(copy):
    start = time.perf_counter()
    copy()
    return time.perf_counter() - start


def measure(hypnos, peer, memories, rounds):
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([peer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            grpc, rest = (server.stdout.readline().split()[-1] for _ in range(2))
            snapshot.build(folder, memories)
            with open(os.path.join(folder, "hypnos.toml"), "w") as out:
                out.write(snapshot.CONFIG.split("kind =")[0] + QDRANT.format(grpc, rest))
            fill(folder, grpc, rest)
            command = [hypnos, "--config", "hypnos.toml", "snapshot", "now", "-q"]
            contenders = {
                "bare": lambda: copy_bare(folder, rest),
                "hypnos": lambda: subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL),
            }
            times = {name: [] for name in contenders}
            for _ in range(rounds):
                for name, copy in contenders.items():
                    snapshot.clear(folder)
                    os.sync()
                    times[name].append(seconds(copy))
            best = {name: round(min(runs), 3) for name, runs in times.items()}
            print(json.dumps({"memories": memories, **best, "ratio": round(best["hypnos"] / best["bare"], 2)}))
        finally:
            server.kill()
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hypnos")
    parser.add_argument("peer")
    parser.add_argument("--memories", type=int, default=26000)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    measure(os.path.abspath(options.hypnos), os.path.abspath(options.peer), options.memories, options.rounds)


if __name__ == "__main__":
    main()
