#!/usr/bin/env python3
"""Times examples/cluster beside faiss.IndexFlatIP + range_search and blocked numpy GEMM over the upper triangle.

    pip install faiss-cpu numpy
    cargo build --release --example cluster
    benches/compare.py target/release/examples/cluster VECTORS.npy --rows 21500

The vectors are repeated with a small jitter until there are --rows of them. Each contender runs in a process of its
own, one after the other, --rounds times in turn, and counts with its best time: other work on the machine makes a run
slower, never faster. Reading the file is not timed, nor normalising the vectors for the other two. OpenBLAS picks a slow
kernel on some virtual machines, so both others run as it chooses and with each OPENBLAS_CORETYPE of CORES that the
processor can run. Prints a JSON line a contender, then the ratios. With --brute-force, the pairs of float64 arithmetic
are counted too, and those so near the threshold that float32 may see them on its other side.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

BLOCK = 1024
CORES = ["SKYLAKEX", "HASWELL"]


def load(path):
    import numpy as np

    x = np.load(path)
    return np.ascontiguousarray(x / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True), dtype=np.float32)


def with_faiss(x, threshold):
    import faiss

    start = time.perf_counter()
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(x)
    ends, _, _ = index.range_search(x, threshold)
    return int(ends[-1] - len(x)) // 2, time.perf_counter() - start


def with_numpy(x, threshold):
    import numpy as np

    start = time.perf_counter()
    pairs = 0
    for i in range(0, len(x), BLOCK):
        # The block on the diagonal has each pair twice, and every vector with itself.
        a = x[i : i + BLOCK]
        square = np.flatnonzero(a @ a.T >= threshold).size
        pairs += (square - len(a)) // 2
        pairs += np.flatnonzero(a @ x[i + BLOCK :].T >= threshold).size
    return pairs, time.perf_counter() - start


def brute_force(path, threshold):
    """Pairs at or above the threshold, and how many are within 1e-6 of it, in float64."""
    import numpy as np

    x = np.load(path).astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    pairs = near = 0
    for i in range(0, len(x), BLOCK):
        a = x[i : i + BLOCK]
        cosines = a @ x[i:].T
        cosines[np.tril_indices(len(a))] = -2
        pairs += int((cosines >= threshold).sum())
        near += int((np.abs(cosines - threshold) < 1e-6).sum())
    return pairs, near


def repeated(path, rows, jitter, into):
    import numpy as np

    x = np.load(path).astype(np.float32)
    copies = -(-rows // len(x))
    noise = np.random.default_rng(7).normal(0, jitter, (rows, x.shape[1])).astype(np.float32)
    noise[: len(x)] = 0
    np.save(into, np.tile(x, (copies, 1))[:rows] + noise)


def run(command, environment):
    done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cluster")
    parser.add_argument("vectors")
    parser.add_argument("--rows", type=int, default=21_500)
    parser.add_argument("--jitter", type=float, default=0.004)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--threshold", type=float, default=0.70)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--paths", default="auto", help="paths of the kernel, separated by commas")
    parser.add_argument("--brute-force", action="store_true")
    parser.add_argument("--worker", choices=["faiss", "numpy"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work = with_faiss if args.worker == "faiss" else with_numpy
        pairs, seconds = work(load(args.vectors), args.threshold)
        print(json.dumps({"pairs": pairs, "seconds": seconds}))
        return

    folder = tempfile.TemporaryDirectory()
    vectors = os.path.join(folder.name, "vectors.npy")
    repeated(args.vectors, args.rows, args.jitter, vectors)
    best = contend(args, vectors)
    for name, result in best.items():
        print(json.dumps({"contender": name} | result))
    if args.brute_force:
        pairs, near = brute_force(vectors, args.threshold)
        print(json.dumps({"contender": "float64", "pairs": pairs, "within_1e-6": near}))
    for path in args.paths.split(","):
        print(json.dumps({"path": path, "rows": args.rows, "threads": args.threads, "threshold": args.threshold} | ratios(best, path)))


def contend(args, vectors):
    """The best result of each contender."""
    threads, threshold = str(args.threads), str(args.threshold)
    contenders = {}
    for path in args.paths.split(","):
        command = [args.cluster, vectors, "--threads", threads, "--threshold", threshold, "--path", path]
        contenders[f"hypnos {path}"] = command, {}
    for worker in ["numpy", "faiss"]:
        command = [sys.executable, __file__, args.cluster, vectors, "--threshold", threshold, "--worker", worker]
        blas = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        for core in ["", *CORES]:
            chosen = blas | ({"OPENBLAS_CORETYPE": core} if core else {})
            contenders[f"{worker} {core or 'default'}"] = command, chosen

    best = {}
    for _ in range(args.rounds):
        for name, (command, environment) in list(contenders.items()):
            try:
                result = run(command, environment)
            except subprocess.CalledProcessError as error:
                if error.returncode != -signal.SIGILL:
                    raise
                print(f"{name}: this processor lacks its instructions", file=sys.stderr)
                del contenders[name]
                continue
            if name not in best or result["seconds"] < best[name]["seconds"]:
                best[name] = result
    return best


def ratios(best, path):
    """How many times as long the others take as the kernel on a path, and its memory in multiples of the vectors."""
    ours = best[f"hypnos {path}"]

    def ratio(worker):
        return round(min(r["seconds"] for name, r in best.items() if name.startswith(worker)) / ours["seconds"], 2)

    vectors_bytes = 4 * ours["n"] * ours["dim"]
    return {
        "numpy_ratio": ratio("numpy"),
        "faiss_ratio": ratio("faiss"),
        "memory_ratio": round(ours["peak_rss_bytes"] / vectors_bytes, 2),
    }


if __name__ == "__main__":
    main()
