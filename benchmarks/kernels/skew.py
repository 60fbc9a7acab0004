"""Balance and fragments of every policy against the skew of the stream; draws the plots of the docs.

Zipf streams over 100,000 keys with exponents from 0 to 2, windows of 100,000 tuples. Partitioners go
on from window to window; planners plan from one window and route the next. The first two windows are
left out. Load is that of the fullest worker over the mean, fragments are (key, worker) pairs per
different key of a window; means over windows, and the range over the seeds of the stream.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kernels.policies import policies
from benchmarks.plots import draw
from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.metrics import loads, max_over_mean, replication
from skewless.partitioners import Partitioner

__all__ = ["run"]

WINDOW = 100_000
N_KEYS = 100_000
WARM_UP = 2
EXPONENTS = tuple(round(0.25 * step, 2) for step in range(9))
WORKERS = (8, 64)
PLOTS = Path(__file__).parents[2] / "docs" / "policies" / "plots"


def run(windows: int = 4, seeds: int = 3) -> dict[str, Any]:
    """Measure every policy, write the plots, print a table."""
    found: list[dict[str, Any]] = []
    for n_workers in WORKERS:
        for exponent in EXPONENTS:
            rows = list(_rows(n_workers, exponent, windows, seeds))
            found += rows
            for row in rows:
                print(
                    f"n={n_workers:<3} zipf {exponent:<4} {row['policy']:18} "
                    f"max/mean {row['max_over_mean']:7.3f}  "
                    f"fragments a key {row['fragments_per_key']:6.3f}",
                    flush=True,
                )
    for path in draw(found, PLOTS):
        print(f"-> {path}")
    return {"benchmark": "kernels/skew", "windows": windows, "seeds": seeds, "rows": found}


def _rows(n_workers: int, exponent: float, windows: int, seeds: int) -> Iterator[dict[str, Any]]:
    streams = [
        zipf((windows + WARM_UP) * WINDOW, N_KEYS, exponent, seed=1 + s) for s in range(seeds)
    ]
    for policy in policies(n_workers):
        runs = [_measure(policies(n_workers)[policy], keys) for keys in streams]
        balance, spread = [r[0] for r in runs], [r[1] for r in runs]
        yield {
            "policy": policy,
            "n_workers": n_workers,
            "exponent": exponent,
            "max_over_mean": statistics.fmean(balance),
            "max_over_mean_range": [min(balance), max(balance)],
            "fragments_per_key": statistics.fmean(spread),
            "fragments_per_key_range": [min(spread), max(spread)],
        }


def _measure(partitioner: Partitioner, keys: np.ndarray[Any, Any]) -> tuple[float, float]:
    balance, spread = [], []
    for number, start in enumerate(range(0, len(keys), WINDOW)):
        window = keys[start : start + WINDOW]
        workers = partitioner.route(Chunk(np.arange(start, start + len(window)), window))
        if number >= WARM_UP:
            balance.append(max_over_mean(loads(workers, partitioner.n_workers)))
            spread.append(replication(window, workers))
    return statistics.fmean(balance), statistics.fmean(spread)


if __name__ == "__main__":
    run()
