"""ours.drift: how long a policy is out of balance after the hot keys are replaced.

A Zipf 1.5 stream over 100,000 keys whose 100 hottest keys become others every ten windows. The two
windows before a change tell what a policy's balance is when it knows the keys; it has recovered in the
first window that is within 10 % of that again. The first change is left out: not all have learned yet.

Goal: balanced again within 2 windows.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments.contestants import contestants
from benchmarks.experiments.plots import draw_drift
from skewless.datasets.generators import drifting
from skewless.simulator import simulate

__all__ = ["recoveries", "run"]

N_KEYS = 100_000
EVERY = 10


def run(quick: bool) -> dict[str, Any]:
    """Measure, draw, print a table."""
    window = 20_000 if quick else 100_000
    changes = 4 if quick else 8
    rows: list[dict[str, Any]] = []
    for n in (16,) if quick else (16, 64):
        keys = drifting(
            EVERY * changes * window, N_KEYS, 1.5, period=EVERY * window, n_hot=100, seed=1
        )
        for name, policy in contestants(n, window, window // 10).items():
            found = simulate(
                keys,
                policy,
                window=window,
                reducers=max(1, n // 16),
                partitioners=getattr(policy, "sources", 1),
            )
            balance = found.windows.max_over_mean
            took = recoveries(balance, EVERY)
            row = {
                "policy": name,
                "n_workers": n,
                "windows_to_recover": statistics.fmean(took),
                "worst": max(took),
                "settled": _mean_at(balance, (-2, -1)),
                "after_change": _mean_at(balance, (0,)),
                "series": balance.tolist(),
            }
            rows.append(row)
            print(
                f"n={n:<4} {name:18} settled {row['settled']:7.3f}, after a change "
                f"{row['after_change']:7.3f}, recovered after {row['windows_to_recover']:.1f} windows "
                f"(worst {row['worst']})",
                flush=True,
            )
    print(f"-> {draw_drift(rows)}")
    return {"experiment": "ours.drift", "window": window, "every": EVERY, "rows": rows}


def recoveries(balance: NDArray[np.float64], every: int) -> list[int]:
    """Return, for each change but the first, how many windows it took to be as balanced as before.

    Examples
    --------
    >>> recoveries(np.array([9, 9, 1, 1, 1, 1, 5, 1.3, 1, 1], float), 3)
    [2, 0]
    """
    found = []
    for change in range(2 * every, len(balance), every):
        before = float(balance[change - 2 : change].mean())
        after = balance[change : change + every]
        again = np.flatnonzero(after <= 1.1 * before)
        found.append(int(again[0]) if len(again) else every)
    return found


def _mean_at(balance: NDArray[np.float64], offsets: tuple[int, ...]) -> float:
    changes = range(2 * EVERY, len(balance), EVERY)
    return statistics.fmean(float(balance[change + at]) for change in changes for at in offsets)
