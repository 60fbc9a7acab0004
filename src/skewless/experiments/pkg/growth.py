"""pkg.greedyd: how imbalance grows with the workers, for d choices.

M. A. U. Nasir et al., The Power of Both Choices, ICDE 2015, section IV, Theorems 4.1 and 4.2.
"""

from __future__ import annotations

import functools
import math

from skewless.chunk import Chunk
from skewless.datasets import uniform
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
    ordering,
    pivot,
)
from skewless.metrics import imbalance, loads
from skewless.partitioners import PKG
from skewless.report.plot import Line, Panel, Plot

__all__ = ["GREEDYD"]

CHOICES = (1, 2, 3, 4)
WORKERS = (8, 16, 32, 64, 128, 256, 512, 1024)


def _measure(n: int, per_worker: int, seeds: int, seed: int) -> list[Row]:
    found = dict.fromkeys(CHOICES, 0.0)
    for each in range(seed, seed + seeds):
        chunk = Chunk(None, uniform(per_worker * n, 5 * n, seed=each))
        for d in CHOICES:
            workers = PKG(n, d=d, estimates="global", seed=each).route(chunk)
            found[d] += imbalance(loads(workers, n)) / per_worker / seeds
    return [
        {"workers": n, "d": d, "over_mean": found[d], "messages": per_worker * n} for d in CHOICES
    ]


def _cells(setting: Setting) -> list[Cell]:
    per_worker, seeds = (10_000, 10) if setting.full else (2_000, 5)
    return [
        Cell(
            f"n = {n}, {per_worker} messages a worker, {seeds} seeds",
            functools.partial(_measure, n, per_worker, seeds, setting.seed),
            n,
        )
        for n in WORKERS
    ]


def _law(n: int) -> float:
    return math.log(n) / math.log(math.log(n))


def _judge(result: Result) -> Verdict:
    def at(d: int, n: int) -> float:
        return float(result.one("over_mean", d=d, workers=n))

    constant = [at(1, n) / _law(n) for n in WORKERS if n >= 32]
    two = [at(2, n) for n in WORKERS]
    flat = max(two) / max(min(two), 1e-9)
    return judged(
        (
            ordering(
                all(at(1, n) > 3 * at(2, n) for n in WORKERS),
                f"one choice is {at(1, 8):.2f} of the mean over it with 8 workers and "
                f"{at(1, 1024):.2f} with 1,024; two are {at(2, 8):.4f} and {at(2, 1024):.4f}",
            ),
            number(
                max(constant) < 1.5 * min(constant),
                f"with one choice imbalance over (m/n) ln n / ln ln n is {min(constant):.3f} to "
                f"{max(constant):.3f} from 32 workers on",
            ),
            number(
                max(two) < 1,
                f"with two it stays below {max(two):.3f} m/n ({flat:.1f} times the least)",
            ),
            number(
                max(at(d, n) for d in (3, 4) for n in WORKERS) <= max(two) + 0.01,
                f"three and four choices stay below "
                f"{max(at(d, n) for d in (3, 4) for n in WORKERS):.4f} m/n",
            ),
        )
    )


def _tabulate(result: Result) -> Table:
    table = pivot(result.rows, ["workers"], "d", "over_mean", "{:.4f}".format)
    heads = [f"d = {head}, imbalance over m/n" for head in table.headings[1:]]
    return Table(["workers", *heads], table.rows)


def _draw(result: Result) -> Plot:
    lines = [
        Line(
            f"d = {d}",
            list(WORKERS),
            [max(float(result.one("over_mean", d=d, workers=n)), 1e-5) for n in WORKERS],
        )
        for d in CHOICES
    ]
    law = [_law(n) * float(result.one("over_mean", d=1, workers=128)) / _law(128) for n in WORKERS]
    lines.append(Line("ln n / ln ln n", list(WORKERS), law, ":", "#999999"))
    return Plot([Panel("", lines, "workers", "imbalance over m/n", log_x=True, log_y=True)])


GREEDYD = Experiment(
    id="pkg.greedyd",
    setup=(
        "Uniform keys, five a worker, 10,000 messages a worker (fast: 2,000), 8 to 1,024 workers; "
        "max - mean over m/n, the mean of ten seeds (fast: five)."
    ),
    claim=(
        "Section IV: with keys uniform over 5 n, imbalance is O(m/n ln n / ln ln n) for one choice "
        "and O(m/n) for two or more."
    ),
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
