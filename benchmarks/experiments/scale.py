"""ours.scale: nanoseconds a tuple and quality as workers and keys grow.

CPU time of the routing step alone, the median over chunks of 65,536 tuples after a warm-up of a
quarter of the stream; balance and fragments are those that the simulator counts on the same stream, in
tumbling windows of an eighth of it, the first two left out. Zipf 1.0. Planners plan at the end of each
window; their median chunk has no plan in it, so the slowest chunk is given beside it.

Goal: flat in n for the routing step.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments.contestants import contestants
from benchmarks.experiments.plots import draw_scale
from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.partitioners import Partitioner
from skewless.planners import Planner, Replanned
from skewless.policy import Policy
from skewless.simulator import simulate

__all__ = ["run"]

NAMES = ("hash", "shuffle", "pkg", "d_choices", "w_choices", "dalton", "kip", "wrap_around")
CHUNK = 65_536
WARM_UP = 2


def run(quick: bool) -> dict[str, Any]:
    """Measure, draw, print a table."""
    n_tuples = 2_000_000 if quick else 20_000_000
    grid = [(n, 100_000) for n in ((8, 128, 2_048) if quick else (8, 64, 512, 2_048, 10_000))]
    grid += [(64, k) for k in ((1_000, 1_000_000) if quick else (1_000, 1_000_000, 10**8))]
    rows: list[dict[str, Any]] = []
    for n, n_keys in grid:
        keys = zipf(n_tuples, n_keys, 1.0, seed=1)
        window = n_tuples // 8
        for name, policy in contestants(n, window, window // 10, NAMES).items():
            found = simulate(keys, policy, window=window, reducers=max(1, n // 16))
            seen = found.windows
            median, slowest = _time(policy, keys, window)
            row = {
                "policy": name,
                "n_workers": n,
                "n_keys": n_keys,
                "ns_per_tuple": median,
                "slowest_chunk_ms": slowest,
                "max_over_mean": float(seen.max_over_mean[WARM_UP:].mean()),
                "fragments_per_key": float((seen.fragments / seen.keys)[WARM_UP:].mean()),
                "policy_bytes": found.summary().policy_bytes,
            }
            rows.append(row)
            print(
                f"n={n:<6} keys {n_keys:<10} {name:12} {median:7.1f} ns a tuple, slowest chunk "
                f"{slowest:8.1f} ms, max/mean {row['max_over_mean']:8.3f}",
                flush=True,
            )
    print(f"-> {draw_scale(rows)}")
    return {"experiment": "ours.scale", "tuples": n_tuples, "rows": rows}


def _time(policy: Policy, keys: NDArray[np.uint64], window: int) -> tuple[float, float]:
    partitioner = Replanned(policy, every=window) if isinstance(policy, Planner) else policy
    assert isinstance(partitioner, Partitioner)
    spent = []
    for start in range(0, len(keys), CHUNK):
        chunk = Chunk(np.arange(start, min(start + CHUNK, len(keys))), keys[start : start + CHUNK])
        begun = time.thread_time_ns()
        partitioner.route(chunk)
        if start >= len(keys) // 4:
            spent.append((time.thread_time_ns() - begun) / len(chunk))
    return statistics.median(spent), max(spent) * CHUNK / 1e6
