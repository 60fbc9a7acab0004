"""Milliseconds that every planner takes for one plan, from nothing and from the plan before.

The histogram is that of a drawn stream, every key that occurs listed; the previous plan is that of
another draw. The figure is the median over the repetitions, in CPU time of the thread that plans.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skewless import planners
from skewless.datasets.generators import zipf
from skewless.histogram import Histogram
from skewless.policy import policy_name

__all__ = ["run"]

#: Keys and workers of each case.
SIZES = ((100_000, 64), (1_000_000, 1024))
EXPONENTS = {"uniform": 0.0, "zipf 1.0": 1.0, "zipf 1.5": 1.5}


def run(repetitions: int = 7) -> dict[str, Any]:
    """Measure every planner, size and distribution; print a table."""
    found: list[dict[str, Any]] = []
    for n_keys, n_workers in SIZES:
        for name, exponent in EXPONENTS.items():
            now, before = (_histogram(n_keys, exponent, seed) for seed in (1, 2))
            for planner in planners.ALL:
                policy = planner(n_workers)  # type: ignore[call-arg] # every planner takes it first
                previous = policy.plan(before)
                row = {
                    "keys": n_keys,
                    "n_workers": n_workers,
                    "distribution": name,
                    "policy": policy_name(planner),
                    "first_ms": _median_ms(partial(policy.plan, now), repetitions),
                    "next_ms": _median_ms(partial(policy.plan, now, previous), repetitions),
                }
                found.append(row)
                print(
                    f"{n_keys:>9,} keys n={n_workers:<5} {name:9} {row['policy']:12} "
                    f"first {row['first_ms']:8.2f} ms  next {row['next_ms']:8.2f} ms",
                    flush=True,
                )
    return {"benchmark": "kernels/planners", "repetitions": repetitions, "rows": found}


def _histogram(n_keys: int, exponent: float, seed: int) -> Histogram:
    """Return the counts of ten tuples a key, drawn."""
    drawn = zipf(10 * n_keys, n_keys, exponent, seed=seed)
    keys, counts = np.unique(drawn, return_counts=True)
    return Histogram(keys, counts)


def _median_ms(plan: Callable[[], object], repetitions: int) -> float:
    plan()
    spent = []
    for _ in range(repetitions):
        begun = time.thread_time_ns()
        plan()
        spent.append((time.thread_time_ns() - begun) / 1e6)
    return statistics.median(spent)


if __name__ == "__main__":
    run()
