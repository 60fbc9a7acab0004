"""holistic.latency: how long it takes to partition a window.

N. R. Katsipoulakis et al., A Holistic View of Stream Partitioning Costs, PVLDB 10(11), 2017, section
6.3.1, Figure 13.
"""

from __future__ import annotations

import functools
import time

import numpy as np

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
    pivot,
)
from skewless.experiments.holistic.windows import PARTITIONERS
from skewless.report.plot import Line, Panel, Plot

__all__ = ["LATENCY"]

WORKERS = (8, 16, 32)
WINDOW, N_KEYS = 10_000, 8_100_000


def _measure(n: int, windows: int, seed: int) -> list[Row]:
    keys = uniform((windows + 5) * WINDOW, N_KEYS, seed=seed)
    rows: list[Row] = []
    for name, make in PARTITIONERS.items():
        policy, spent = make(n, WINDOW, seed), []
        for start in range(0, len(keys), WINDOW):
            times = np.arange(start, start + WINDOW)
            chunk = Chunk(times, keys[start : start + WINDOW])
            begun = time.thread_time_ns()
            policy.route(chunk)
            spent.append((time.thread_time_ns() - begun) / 1e3)
        us = np.array(spent[5:])
        rows.append(
            {
                "policy": name,
                "workers": n,
                "mean_us": us.mean(),
                "p50_us": np.percentile(us, 50),
                "p90_us": np.percentile(us, 90),
                "p99_us": np.percentile(us, 99),
            }
        )
    return rows


def _cells(setting: Setting) -> list[Cell]:
    windows = 500 if setting.full else 100
    return [
        Cell(
            f"{n} workers, {windows} windows", functools.partial(_measure, n, windows, setting.seed)
        )
        for n in WORKERS
    ]


def _judge(result: Result) -> Verdict:
    def at(policy: str, n: int, column: str = "p50_us") -> float:
        return float(result.one(column, policy=policy, workers=n))

    grows = {p: at(p, 16) / at(p, 8) for p in PARTITIONERS}
    most = max(grows, key=lambda p: grows[p])
    two = {p: at(p, 32) / at(p, 16) for p in ("CM-2", "LM-2", "CM-2-H", "LM-2-H")}
    slowest = max(PARTITIONERS, key=lambda p: at(p, 32))
    return judged(
        (
            number(
                grows[most] < 1.5,
                f"from 8 to 16 workers the median grows by at most {grows[most]:.2f} ({most})",
            ),
            number(
                min(two.values()) > 1.1,
                "from 16 to 32 workers "
                + ", ".join(f"{p} changes by {v:.2f}" for p, v in two.items())
                + " (the paper has them grow, in the 99th percentile)",
            ),
            number(
                at(slowest, 32) < 10_000,
                f"the slowest, {slowest}, takes {at(slowest, 32):,.0f} us for a window of "
                f"{WINDOW:,} tuples with 32 workers",
            ),
        )
    )


def _tabulate(result: Result) -> Table:
    rows = [
        {**r, "shown": f"{r['p50_us']:,.0f}, {r['p90_us']:,.0f}, {r['p99_us']:,.0f}"}
        for r in result.rows
    ]
    table = pivot(rows, ["policy"], "workers", "shown", str)
    heads = [f"{h} workers: median, p90, p99 in us" for h in table.headings[1:]]
    return Table(["policy", *heads], table.rows)


def _draw(result: Result) -> Plot:
    lines = [
        Line(p, list(WORKERS), [r["p50_us"] for r in result.where(policy=p)]) for p in PARTITIONERS
    ]
    return Plot([Panel("", lines, "workers", "us a window of 10,000", log_x=True, log_y=True)])


LATENCY = Experiment(
    id="holistic.latency",
    setup=(
        "CPU time to route windows of 10,000 tuples with keys out of 8.1 M, nearly all different: "
        "500 windows (fast: 100) after five to warm up; 8, 16 and 32 workers, on a machine with "
        "other work running."
    ),
    claim=(
        "Figure 13: no visible difference up to 16 workers; with 32 the 99th percentile of CM and "
        "LM, with sets or HyperLogLog, grows."
    ),
    stand_in=(
        "Generated keys instead of DEBS's routes; one process, and 64-bit hashes for 15 bytes. Our "
        "CM compares a key's candidates alone, and our LM keeps the least and the most of all "
        "workers up to date while counts grow: neither looks at all workers for a tuple."
    ),
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
