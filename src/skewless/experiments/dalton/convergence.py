"""dalton.fig15: whether many partitioners that learn together come to rest, and where.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton, PVLDB 16(3), 2022, section 5.4, Figure 15.
"""

from __future__ import annotations

import functools

import numpy as np

from skewless.chunk import Chunk
from skewless.experiments.dalton.setup import SIZE, workers_of
from skewless.experiments.dalton.sources import JOB
from skewless.experiments.dalton.syncs import mixed
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
)
from skewless.partitioners import CooperativeDalton, Dalton
from skewless.report.plot import Line, Panel, Plot

__all__ = ["FIG15"]

PARTITIONERS = (1, 2, 4, 8, 16)


def _converging(sources: int, slides: int, seed: int) -> list[Row]:
    """Route uniform and Zipf keys; return imbalance and the hottest key's fragments through time."""
    n, keys = workers_of("dalton", JOB), mixed(slides * JOB.slide, seed)
    if sources == 1:
        policy: CooperativeDalton | Dalton = Dalton(
            n, window=SIZE, slide=JOB.slide, stats_window=JOB.slide, seed=seed
        )
    else:
        policy = CooperativeDalton(
            n, sources=sources, window=SIZE, slide=JOB.slide, sync=JOB.slide, seed=seed
        )
    workers = policy.route(Chunk(None, keys))
    names, counts = np.unique(keys, return_counts=True)
    hottest = keys == names[counts.argmax()]
    imbalance, fragments = [], []
    for end in range(SIZE, len(keys) + 1, JOB.slide):
        which = slice(end - SIZE, end)
        loads = np.bincount(workers[which], minlength=n)
        imbalance.append(float(loads.max() / loads.mean() - 1))
        fragments.append(len(np.unique(workers[which][hottest[which]])))
    return [{"partitioners": sources, "imbalance": imbalance, "fragments": fragments}]


def _cells_15(setting: Setting) -> list[Cell]:
    slides = 300 if setting.full else 90
    return [
        Cell(
            f"{sources} partitioners, {slides} slides",
            functools.partial(_converging, sources, slides, setting.seed),
        )
        for sources in PARTITIONERS
    ]


def _parts(row: Row, what: str) -> tuple[float, float, float]:
    """Return the mean of the first slides, of the third quarter and of the last."""
    values = np.array(row[what], np.float64)
    quarter = len(values) // 4
    return (
        float(values[:3].mean()),
        float(values[2 * quarter : 3 * quarter].mean()),
        float(values[3 * quarter :].mean()),
    )


def _settled_after(row: Row) -> float:
    """Return how many tuples a partitioner had routed when the imbalance was within half of its last."""
    values = np.array(row["imbalance"], np.float64)
    last = float(values[-len(values) // 4 :].mean())
    slide = int(np.flatnonzero(values <= 1.5 * last)[0])
    return (SIZE + slide * JOB.slide) / float(row["partitioners"])


def judge_fig15(result: Result) -> Verdict:
    """Judge whether all converge, and whether more partitioners do worse."""
    parts = {int(r["partitioners"]): _parts(r, "imbalance") for r in result.rows}
    cost = {int(r["partitioners"]): _parts(r, "fragments") for r in result.rows}
    drift = max(abs(last / third - 1) for _, third, last in parts.values())
    several = {n: last for n, (_, _, last) in parts.items() if n > 1}
    after = {int(r["partitioners"]): _settled_after(r) for r in result.rows}
    slowest = max(tuples for n, tuples in after.items() if n > 1)
    soonest = min(tuples for n, tuples in after.items() if n > 1)
    return judged(
        [
            ordering(
                all(last < 0.7 * first for first, _, last in parts.values()),
                "max/mean - 1 from the first slides to the last quarter: "
                + ", ".join(
                    f"{n}: {first:.2f} to {last:.2f}" for n, (first, _, last) in parts.items()
                ),
            ),
            number(
                drift <= 0.2,
                f"from the third quarter to the last it changes by {drift:.0%} at most",
            ),
            ordering(
                max(several.values()) <= 1.5 * several[2],
                f"among 2 to 16 partitioners the worst has {max(several.values()) / several[2]:.2f} "
                "times the imbalance of 2",
            ),
            number(
                0.9 <= several[2] / parts[1][2] <= 2,
                f"2 have {several[2] / parts[1][2]:.2f} times that of 1 (paper: slightly more)",
            ),
            number(
                slowest <= 2 * soonest,
                "to come within half of that it takes "
                + ", ".join(f"{tuples / 1e3:,.0f} ({n})" for n, tuples in after.items())
                + " thousand tuples of each partitioner",
            ),
            ordering(
                max(last for n, (_, _, last) in cost.items() if n > 1) <= 1.1 * cost[2][2],
                "the hottest key ends with "
                + ", ".join(f"{last:.1f} ({n})" for n, (_, _, last) in cost.items())
                + f" fragments of {workers_of('dalton', JOB)}, as exploring tries all",
            ),
        ]
    )


def _table_15(result: Result) -> Table:
    rows = []
    for r in result.rows:
        load, cost = _parts(r, "imbalance"), _parts(r, "fragments")
        rows.append(
            [
                str(r["partitioners"]),
                *(f"{one:.2f}" for one in load),
                *(f"{one:.1f}" for one in (cost[0], cost[2])),
            ]
        )
    return Table(
        [
            "partitioners",
            "max/mean - 1, first slides",
            "third quarter",
            "last",
            "fragments of the hottest key, first",
            "last",
        ],
        rows,
    )


def _draw_15(result: Result) -> Plot:
    panels = []
    for what, title in (
        ("imbalance", "max/mean - 1 of the loads"),
        ("fragments", "fragments of the hottest key"),
    ):
        lines = [
            Line(str(r["partitioners"]), list(range(3, 3 + len(r[what]))), r[what], "-")
            for r in result.rows
        ]
        panels.append(Panel(title, lines, "slides of 20,000 tuples so far", from_zero=True))
    return Plot(panels)


FIG15 = Experiment(
    id="dalton.fig15",
    setup=(
        "1, 2, 4, 8 and 16 partitioners for 56 combiners; half of them have uniform keys, half Zipf 1.5 "
        "(one has both in turn); windows of 60,000 tuples, slides and syncs of 20,000; 300 slides (fast: "
        "90). Max over mean, less 1, of the loads in a window, and the hottest key's fragments."
    ),
    claim=(
        "Figure 15: all come to a stable cost; two partitioners are slightly less balanced than one, and "
        "more are no worse than two; how fast they converge does not depend on their number either."
    ),
    stand_in=(
        "The paper's imbalance is in tuples; here it is relative to the mean. Windows and syncs are in "
        "tuples of all partitioners together, so that each of 16 has an eighth of what each of 2 "
        "has, and "
        "comes to rest as much later: what does not change is the tuples of one."
    ),
    cells=_cells_15,
    judge=judge_fig15,
    tabulate=_table_15,
    draw=_draw_15,
)
