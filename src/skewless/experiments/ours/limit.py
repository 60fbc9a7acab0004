"""ours.limit: every policy against what no policy can beat.

Load: the fullest worker has at least the mean, rounded up. Fragments: each key has one, and a key with
c tuples in a window has at least ceil(c / fair share) if no worker may exceed the fair share.
"""

from __future__ import annotations

import functools
import statistics

import numpy as np
from numpy.typing import NDArray

from skewless.datasets.generators import zipf
from skewless.experiments.contestants import contestants
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
from skewless.report.plot import COLOURS, Line, Panel, Plot
from skewless.simulator import simulate

__all__ = ["LIMIT", "SHOWN", "forced_fragments"]

N_KEYS = 100_000
WARM_UP = 2
#: What is drawn in colour, in the order of the legend; all else is grey.
SHOWN = ("hash", "shuffle", "pkg", "w_choices", "dalton", "kip", "wrap_around")


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


def _measure(n: int, exponent: float, n_windows: int, seed: int) -> list[Row]:
    window = max(100_000, 2_000 * n)
    keys = zipf((WARM_UP + n_windows) * window, N_KEYS, exponent, seed=seed)
    windows = [keys[at : at + window] for at in range(WARM_UP * window, len(keys), window)]
    forced = statistics.fmean(forced_fragments(one, n) for one in windows)
    bound = -(-window // n) / (window / n)
    found: list[Row] = []
    for name, policy in contestants(n, window, window // 10).items():
        seen = simulate(
            keys,
            policy,
            window=window,
            reducers=max(1, n // 16),
            partitioners=getattr(policy, "sources", 1),
        ).windows
        balance = seen.max_over_mean[WARM_UP:]
        found.append(
            {
                "policy": name,
                "workers": n,
                "exponent": exponent,
                "over_bound": float(balance.mean()) / bound,
                "worst_over_bound": float(balance.max()) / bound,
                "extra": float((seen.fragments - seen.keys)[WARM_UP:].mean()),
                "forced": forced,
                "keys": float(seen.keys[WARM_UP:].mean()),
            }
        )
    return found


def _cells(setting: Setting) -> list[Cell]:
    workers = (8, 64, 256, 1024) if setting.full else (8, 64)
    exponents = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0) if setting.full else (0.0, 1.0, 1.5, 2.0)
    n_windows = 4 if setting.full else 2
    return [
        Cell(
            f"n = {n}, Zipf {exponent}, {n_windows} windows",
            functools.partial(_measure, n, exponent, n_windows, setting.seed + 1),
            float(max(100_000, 2_000 * n)),
        )
        for n in workers
        for exponent in exponents
    ]


def _judge(result: Result) -> Verdict:
    met = result.where(policy="wrap_around")
    over = max(met, key=lambda row: row["over_bound"])
    extra = max(met, key=lambda row: row["extra"] / row["workers"])
    return judged(
        (
            number(
                over["over_bound"] <= 1.1,
                f"on {len(met)} streams WrapAround's load is at most {over['over_bound']:.3f} of the "
                f"bound (n = {over['workers']}, Zipf {over['exponent']:g})",
            ),
            number(
                extra["extra"] <= extra["workers"],
                f"with at most {extra['extra']:.0f} fragments above one a key (n = {extra['workers']}, "
                f"Zipf {extra['exponent']:g}, where balance forces {extra['forced']:.0f})",
            ),
        )
    )


def _tabulate(result: Result) -> Table:
    n = max(result.values("workers"))
    exponents = result.values("exponent")
    rows = []
    for policy in result.values("policy"):
        found = [
            result.where(policy=policy, workers=n, exponent=exponent)[0] for exponent in exponents
        ]
        rows.append([policy, *(f"{row['over_bound']:.3g}, {row['extra']:,.0f}" for row in found)])
    heads = [f"Zipf {exponent:g}: load / bound, extra fragments" for exponent in exponents]
    return Table([f"policy, {n} workers", *heads], rows)


def _draw(result: Result) -> Plot:
    n = max(result.values("workers"))
    panels: list[Panel] = []
    for exponent in result.values("exponent"):
        lines = []
        for grey in (True, False):
            for row in result.where(workers=n, exponent=exponent):
                shown = row["policy"] in SHOWN
                if shown == grey:
                    continue
                label = row["policy"] if shown else "_others"
                colour = COLOURS[row["policy"]] if shown else "#cccccc"
                lines.append(Line(label, [row["extra"] + 1], [row["over_bound"]], "o", colour))
        panels.append(
            Panel(
                f"Zipf {exponent:g}, n = {n}",
                lines,
                "1 + extra fragments",
                "" if panels else "load over its bound",
                log_x=True,
                log_y=True,
                level=1.0,
            )
        )
    return Plot(panels, share_y=True)


LIMIT = Experiment(
    id="ours.limit",
    setup=(
        "Every policy on Zipf keys, 100,000 of them, exponents 0 to 2, 8 to 1024 workers (fast: 8 "
        "and 64), in tumbling windows of 100,000 tuples or 2,000 a worker; the first two are left "
        "out, as planners plan from one window and route the next. Means over the others."
    ),
    claim=(
        "Our goal: WrapAround within 10 % of the load that no policy can be below, with at most as "
        "many fragments above one a key as there are workers."
    ),
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
