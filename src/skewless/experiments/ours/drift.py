"""ours.drift: how long a policy is out of balance after the hot keys are replaced.

The two windows before a change tell what a policy's balance is when it knows the keys; it has recovered
in the first window that is within 10 % of that again. The first change is left out: not all have learned
yet.
"""

from __future__ import annotations

import functools
import statistics

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.generators import drifting
from skewless.experiments.contestants import CLASSES, contestants
from skewless.experiments.description import (
    Cell,
    Experiment,
    Result,
    Row,
    Setting,
    Table,
    Verdict,
    judged,
    number,
)
from skewless.experiments.ours.limit import SHOWN
from skewless.report.plot import Line, Panel, Plot
from skewless.simulator import simulate

__all__ = ["DRIFT", "recoveries"]

N_KEYS = 100_000
EVERY = 10


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


def _measure(name: str, n: int, window: int, changes: int, seed: int) -> list[Row]:
    keys = _stream(window, changes, seed)
    policy = contestants(n, window, window // 10, (name,))[name]
    balance = simulate(
        keys,
        policy,
        window=window,
        reducers=max(1, n // 16),
        partitioners=getattr(policy, "sources", 1),
    ).windows.max_over_mean
    took = recoveries(balance, EVERY)
    return [
        {
            "policy": name,
            "workers": n,
            "windows_to_recover": statistics.fmean(took),
            "worst": max(took),
            "settled": _mean_at(balance, (-2, -1)),
            "after_change": _mean_at(balance, (0,)),
            "series": balance.round(3) if name in SHOWN else [],
        }
    ]


@functools.lru_cache(maxsize=1)
def _stream(window: int, changes: int, seed: int) -> NDArray[np.uint64]:
    return drifting(
        EVERY * changes * window, N_KEYS, 1.5, period=EVERY * window, n_hot=100, seed=seed
    )


def _mean_at(balance: NDArray[np.float64], offsets: tuple[int, ...]) -> float:
    changes = range(2 * EVERY, len(balance), EVERY)
    return statistics.fmean(float(balance[change + at]) for change in changes for at in offsets)


def _cells(setting: Setting) -> list[Cell]:
    window, changes = (100_000, 8) if setting.full else (20_000, 4)
    return [
        Cell(
            f"{name}, n = {n}, {changes} changes, windows of {window}",
            functools.partial(_measure, name, n, window, changes, setting.seed + 1),
        )
        for n in ((16, 64) if setting.full else (16,))
        for name in CLASSES
    ]


def _judge(result: Result) -> Verdict:
    return judged(
        number(
            row["worst"] <= 2,
            f"n = {row['workers']}: WrapAround is balanced again after "
            f"{row['windows_to_recover']:.1f} windows, {row['worst']} at worst (settled at "
            f"{row['settled']:.2f} of the mean, {row['after_change']:.1f} right after)",
        )
        for row in result.where(policy="wrap_around")
    )


def _tabulate(result: Result) -> Table:
    return Table(
        [
            "policy",
            "workers",
            "settled, max/mean",
            "right after, max/mean",
            "windows to recover",
            "at worst",
        ],
        [
            [
                row["policy"],
                str(row["workers"]),
                f"{row['settled']:.3f}",
                f"{row['after_change']:.3f}",
                f"{row['windows_to_recover']:.1f}",
                str(row["worst"]),
            ]
            for row in result.where(workers=max(result.values("workers")))
        ],
    )


def _draw(result: Result) -> Plot:
    n = max(result.values("workers"))
    lines = [
        Line(row["policy"], list(range(len(row["series"]))), row["series"], "-")
        for row in result.where(workers=n)
        if row["series"]
    ]
    label = f"fullest of {n} workers over the mean"
    return Plot([Panel("", lines, "window; hot keys replaced every ten", label, log_y=True)])


DRIFT = Experiment(
    id="ours.drift",
    setup=(
        "Zipf 1.5 over 100,000 keys whose 100 hottest become others every ten windows; 16 workers, "
        "four changes, windows of 20,000 tuples (full: also 64 workers, eight changes, 100,000)."
    ),
    claim="Our goal: WrapAround is balanced again within 2 windows after the hot keys are replaced.",
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
