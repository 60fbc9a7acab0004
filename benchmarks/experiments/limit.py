"""ours.limit: every policy against what no policy can beat.

Load: the fullest worker has at least the mean, rounded up. Fragments: each key has one, and a key with
c tuples in a window has at least ceil(c / fair share) if no worker may exceed the fair share. Tumbling
windows over 100,000 Zipf keys; planners plan from one window and route the next, so the first windows
are left out. Means over the others.

Goal: WrapAround within 10 % of the load bound with at most n fragments above one a key.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments.contestants import contestants
from benchmarks.experiments.plots import draw_limit
from skewless.datasets.generators import zipf
from skewless.simulator import simulate

__all__ = ["forced_fragments", "run"]

N_KEYS = 100_000
WARM_UP = 2


def run(quick: bool) -> dict[str, Any]:
    """Measure, draw, print a table."""
    workers = (8, 64) if quick else (8, 64, 256, 1024)
    exponents = (0.0, 1.0, 1.5, 2.0) if quick else (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0)
    rows: list[dict[str, Any]] = []
    for n in workers:
        window = max(100_000, 2_000 * n)
        for exponent in exponents:
            keys = zipf((WARM_UP + (2 if quick else 4)) * window, N_KEYS, exponent, seed=1)
            rows += _rows(n, window, exponent, keys)
    met = [row for row in rows if row["policy"] == "wrap_around"]
    goal = all(row["over_bound"] <= 1.1 and row["extra"] <= row["n_workers"] for row in met)
    print(f"goal {'met' if goal else 'missed'} by wrap_around on {len(met)} streams")
    print(f"-> {draw_limit(rows)}")
    return {"experiment": "ours.limit", "goal_met": goal, "rows": rows}


def forced_fragments(keys: NDArray[np.uint64], n_workers: int) -> int:
    """Return the fragments above one a key that a window needs if no worker may exceed its share.

    Examples
    --------
    >>> forced_fragments(np.array([7] * 6 + [8, 9], np.uint64), 4)
    2
    """
    share = -(-len(keys) // n_workers)
    counts = np.unique(keys, return_counts=True)[1]
    return int((-(-counts // share) - 1).sum())


def _rows(n: int, window: int, exponent: float, keys: NDArray[np.uint64]) -> list[dict[str, Any]]:
    windows = [keys[at : at + window] for at in range(WARM_UP * window, len(keys), window)]
    forced = statistics.fmean(forced_fragments(one, n) for one in windows)
    bound = -(-window // n) / (window / n)
    found = []
    for name, policy in contestants(n, window, window // 10).items():
        seen = simulate(
            keys,
            policy,
            window=window,
            reducers=max(1, n // 16),
            partitioners=getattr(policy, "sources", 1),
        ).windows
        balance = seen.max_over_mean[WARM_UP:]
        extra = (seen.fragments - seen.keys)[WARM_UP:]
        row = {
            "policy": name,
            "n_workers": n,
            "window": window,
            "exponent": exponent,
            "over_bound": float(balance.mean()) / bound,
            "worst_over_bound": float(balance.max()) / bound,
            "extra": float(extra.mean()),
            "forced": forced,
            "keys": float(seen.keys[WARM_UP:].mean()),
        }
        found.append(row)
        print(
            f"n={n:<5} zipf {exponent:<4} {name:18} load over bound {row['over_bound']:8.3f}  "
            f"extra fragments {row['extra']:10.0f}  forced {forced:6.0f}",
            flush=True,
        )
    return found
