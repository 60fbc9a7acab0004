"""Nanoseconds per tuple of every policy, and the balance that it buys.

Every policy routes the same streams in turns, a warm-up first; the figure is the median over the
chunks of the stream, in CPU time of the one thread that routes, so that a busy machine shows in the
spread and less in the median. Planners run as `Replanned`, planning anew after every window.

Balance is the mean and the worst max/mean load over windows of 100,000 tuples, the first two left out;
extra fragments are the (key, worker) pairs above one a key in such a window.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless import partitioners, planners
from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.metrics import extra_fragments, loads, max_over_mean
from skewless.partitioners import Partitioner
from skewless.planners import Replanned
from skewless.policy import policy_name

__all__ = ["run"]

WINDOW = 100_000
N_KEYS = 100_000
EXPONENTS = {"uniform": 0.0, "zipf 1.0": 1.0, "zipf 1.5": 1.5}
WORKERS = (8, 64, 1024)


def policies(n_workers: int) -> dict[str, Partitioner]:
    """Return a fresh instance of every policy, planners driven as partitioners."""
    made: dict[str, Partitioner] = {policy_name(c): c(n_workers) for c in partitioners.ALL}
    for planner in planners.ALL:
        made[policy_name(planner)] = Replanned(planner(n_workers), every=WINDOW)
    return made


def run(n_tuples: int = 10_000_000) -> dict[str, Any]:
    """Measure every policy, number of workers and distribution; print a table."""
    found: list[dict[str, Any]] = []
    for name, exponent in EXPONENTS.items():
        keys = zipf(n_tuples, N_KEYS, exponent, seed=1)
        for n_workers in WORKERS:
            for policy, partitioner in policies(n_workers).items():
                row = {"stream": name, "n_workers": n_workers, "policy": policy}
                found.append(row | _measure(partitioner, keys, n_workers))
                _print(found[-1])
    return {"benchmark": "kernels/policies", "tuples": n_tuples, "keys": N_KEYS, "rows": found}


def _measure(
    partitioner: Partitioner, keys: NDArray[np.uint64], n_workers: int
) -> dict[str, float | list[float]]:
    spent: list[float] = []
    balance: list[float] = []
    extra: list[int] = []
    for number, start in enumerate(range(0, len(keys), WINDOW)):
        window = keys[start : start + WINDOW]
        chunk = Chunk(np.arange(start, start + len(window)), window)
        begun = time.thread_time_ns()
        workers = partitioner.route(chunk)
        used = time.thread_time_ns() - begun
        if number >= 2:
            spent.append(used / len(window))
            balance.append(max_over_mean(loads(workers, n_workers)))
            extra.append(extra_fragments(window, workers))
    lowest, _, highest = statistics.quantiles(spent, n=4)
    return {
        "ns_per_tuple": statistics.median(spent),
        "ns_quartiles": [lowest, highest],
        "max_over_mean": statistics.fmean(balance),
        "worst_max_over_mean": max(balance),
        "extra_fragments": statistics.fmean(extra),
        "state_bytes": float(partitioner.state_bytes),
    }


def _print(row: dict[str, Any]) -> None:
    low, high = row["ns_quartiles"]
    print(
        f"{row['stream']:9} n={row['n_workers']:<5} {row['policy']:12} "
        f"{row['ns_per_tuple']:7.1f} ns ({low:.1f}-{high:.1f})  max/mean "
        f"{row['max_over_mean']:7.3f} (worst {row['worst_max_over_mean']:.3f})  "
        f"extra fragments {row['extra_fragments']:9.1f}",
        flush=True,
    )


if __name__ == "__main__":
    run()
