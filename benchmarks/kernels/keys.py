"""How many key values a second `skewless.keys.hash64` hashes, on one core, by type of key.

    python benchmarks/kernels/keys.py

CPU time of the calling thread, as other work may share the machine: median, and best, of the runs.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.keys import hash64

N_ROWS = 1_000_000
N_RUNS = 15


def columns(n_rows: int = N_ROWS, seed: int = 0) -> dict[str, tuple[Any, ...]]:
    """Return what to hash by name; each entry is the columns of one call."""
    rng = np.random.default_rng(seed)
    longs = rng.integers(0, 2**62, n_rows)
    codes = rng.integers(0, 1000, n_rows, dtype=np.int32)
    entries = pa.array([f"word {i}" for i in range(1000)])
    return {
        "long": (longs,),
        "long, 10 % null": (pa.array(longs, mask=rng.random(n_rows) < 0.1),),
        "int": (longs.astype(np.int32),),
        "double": (rng.random(n_rows),),
        "string of 8 bytes": (_strings(np.full(n_rows, 8), rng),),
        "string of 4 to 12 bytes": (_strings(rng.integers(4, 13, n_rows), rng),),
        "string of 36 bytes": (_strings(np.full(n_rows, 36), rng),),
        "dictionary of 1000": (pa.DictionaryArray.from_arrays(pa.array(codes), entries),),
        "decimal(38,0)": (pa.array(longs).cast(pa.decimal128(38, 0)),),
        "long and string of 8": (longs, _strings(np.full(n_rows, 8), rng)),
        "list of 3 ints": (_lists(rng, n_rows),),
    }


def _strings(lengths: np.ndarray[Any, Any], rng: np.random.Generator) -> pa.Array[Any]:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    letters = rng.integers(97, 123, int(offsets[-1]), dtype=np.uint8)
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(letters.data)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


def _lists(rng: np.random.Generator, n_rows: int) -> pa.Array[Any]:
    offsets = pa.array(np.arange(0, 3 * n_rows + 1, 3, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 99, 3 * n_rows)))


def run(n_rows: int = N_ROWS, n_runs: int = N_RUNS) -> dict[str, dict[str, float]]:
    """Return million rows per CPU second, by kind of key: the median and the best run."""
    seconds: dict[str, list[float]] = {}
    calls = columns(n_rows)
    for given in calls.values():
        hash64(*given)  # compiles
    for _ in range(n_runs):  # in turns, so that a busy spell meets all kinds alike
        for name, given in calls.items():
            start = time.thread_time()
            hash64(*given)
            seconds.setdefault(name, []).append(time.thread_time() - start)
    return {
        name: {
            "median": n_rows / statistics.median(spent) / 1e6,
            "best": n_rows / min(spent) / 1e6,
        }
        for name, spent in seconds.items()
    }


if __name__ == "__main__":
    print(f"{'million rows per CPU second':28} {'median':>8} {'best':>8}")
    for kind, rates in run().items():
        print(f"{kind:28} {rates['median']:8.0f} {rates['best']:8.0f}")
