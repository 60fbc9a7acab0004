"""prompt.fig13: how long the reduce tasks of a batch take, cut by time and by Prompt.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, section 7, Figure 13.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
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
from skewless.experiments.prompt.setup import COSTS, EXACT, policy_of, tweets
from skewless.histogram import Histogram
from skewless.planners import Prompt
from skewless.planners.reduce_buckets import reduce_buckets
from skewless.report.plot import Line, Panel, Plot
from skewless.routing import Routing

__all__ = ["FIG13", "partial_results"]

TASKS = 16
WAYS = ("time_based", "prompt")


def partial_results(way: str, keys: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
    """Return the reduce task of each partial result of a batch: one for each key and block.

    Examples
    --------
    >>> keys = np.array([7] * 40 + [8, 9], np.uint64)
    >>> len(partial_results("time_based", keys, 0)) >= 16
    True
    """
    n = len(keys)
    policy = policy_of(way, TASKS, n, seed, hot_keys=EXACT)
    if not isinstance(policy, Prompt):
        blocks = policy.route(Chunk(np.arange(n), keys))  # type: ignore[attr-defined]
        pairs = np.unique(np.stack((blocks.astype(np.uint64), keys)), axis=1)
        return Routing.hashing(TASKS, seed=seed).route(pairs[1]).astype(np.int64)
    routing = policy.plan(Histogram.of(keys))
    blocks, split = routing.route(keys), set(routing.split_keys.tolist())
    found = []
    for block in range(TASKS):
        clusters, sizes = np.unique(keys[blocks == block], return_counts=True)
        parted = [key in split for key in clusters.tolist()]
        found.append(reduce_buckets(clusters, sizes, parted, TASKS, seed=seed))
    return np.concatenate(found).astype(np.int64)


def _measured(way: str, batches: int, n: int, seed: int) -> list[Row]:
    from skewless.experiments.on_spark import slots_asleep
    from skewless.spark.emulated import task_seconds

    spark: Any = slots_asleep(TASKS)
    keys = tweets(n * batches, seed)
    rows: list[Row] = []
    for batch in range(batches):
        tasks = partial_results(way, keys[batch * n : (batch + 1) * n], seed)
        seconds = task_seconds(spark, tasks, TASKS, COSTS.merge_us)
        rows.append(
            {
                "way": way,
                "batch": batch,
                "mean_s": float(seconds.mean()),
                "least_s": float(seconds.min()),
                "most_s": float(seconds.max()),
                "deviation_s": float(seconds.std()),
                "partial_results": len(tasks),
            }
        )
    return rows


def _cells(setting: Setting) -> list[Cell]:
    batches, n = (200, 20_000) if setting.full else (12, 20_000)
    return [
        Cell(
            f"{way}, {batches} batches of {n} tuples, seed {setting.seed}",
            functools.partial(_measured, way, batches, n, setting.seed),
        )
        for way in WAYS
    ]


def _spread(result: Result, way: str) -> float:
    """Return the mean, over the batches, of the tasks' standard deviation over their mean."""
    rows = result.where(way=way)
    return float(np.mean([row["deviation_s"] / row["mean_s"] for row in rows]))


def _slowest(result: Result, way: str) -> float:
    return float(np.mean([row["most_s"] / row["mean_s"] for row in result.where(way=way)]))


def _judge(result: Result) -> Verdict:
    by_time, prompt = (_spread(result, way) for way in WAYS)
    slow = [_slowest(result, way) for way in WAYS]
    return judged(
        [
            ordering(
                prompt < by_time,
                f"the times of a batch's reduce tasks deviate by {by_time:.1%} of their mean if it is "
                f"cut by time, by {prompt:.1%} if by Prompt",
            ),
            ordering(
                slow[1] < slow[0],
                f"the slowest takes {slow[0]:.2f} and {slow[1]:.2f} times the mean",
            ),
            number(prompt <= by_time / 2, f"Prompt's band is {prompt / by_time:.2f} times as wide"),
        ]
    )


def _tabulate(result: Result) -> Table:
    def mean(way: str, column: str) -> float:
        return float(np.mean([row[column] for row in result.where(way=way)]))

    return Table(
        [
            "partitioner",
            "partial results a batch",
            "mean, s",
            "least, s",
            "most, s",
            "deviation / mean",
            "most / mean",
        ],
        [
            [
                way,
                f"{mean(way, 'partial_results'):,.0f}",
                *(f"{mean(way, column):.3f}" for column in ("mean_s", "least_s", "most_s")),
                f"{_spread(result, way):.3f}",
                f"{_slowest(result, way):.2f}",
            ]
            for way in WAYS
        ],
    )


def _draw(result: Result) -> Plot:
    panels = []
    for way in WAYS:
        rows = result.where(way=way)
        across = [row["batch"] for row in rows]
        lines = [
            Line(what, across, [row[f"{what}_s"] for row in rows])
            for what in ("least", "mean", "most")
        ]
        panels.append(Panel(way, lines, "batch", "seconds of a reduce task"))
    return Plot(panels)


FIG13 = Experiment(
    id="prompt.fig13",
    setup=(
        "Batches of 20,000 words of tweets, 12 of them (full: 200), in 16 blocks; 16 reduce "
        " tasks on 16 slots, 2 ms a partial result. Blocks by time with hashed reduce tasks, as "
        "Spark Streaming does it, against Prompt's blocks and reduce buckets."
    ),
    claim=(
        "Figure 13: the reduce tasks of a batch take about as long as each other with Prompt, and times "
        "scatter widely if batches are cut by time."
    ),
    stand_in=(
        "The reduce tasks run on a local Spark with 16 slots and two cores, their work is a sleep; which "
        "partial result goes to which task is computed beforehand. The figure has no numbers that can "
        "be read: half the deviation is our reading of a narrow band."
    ),
    cells=_cells,
    judge=_judge,
    tabulate=_tabulate,
    draw=_draw,
)
