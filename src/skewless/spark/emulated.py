"""Work that sleeps: many task slots on few cores, for experiments on a real Spark.

A task that waits needs no core, so `local[32]` on two cores runs as 32 slots do, as long as what Spark
and Python do around the work is small beside it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark import SparkContext, TaskContext
from pyspark.sql import DataFrame, SparkSession

from skewless.routing import Routing
from skewless.spark.aggregator import Aggregator
from skewless.spark.batch_groups import BatchGroups
from skewless.spark.keys import resolve_keys
from skewless.spark.versions import to_arrow

__all__ = ["Run", "SortedWork", "run_job", "running_master", "warm", "written"]


class SortedWork(Aggregator):
    """Sort the events of each key by time, and work on each for so long, asleep.

    Parameters
    ----------
    cost_us
        Microseconds a row.

    Notes
    -----
    The result says which task had the key, so that loads can be read from it: for policies that keep
    keys whole.

    Examples
    --------
    >>> work = SortedWork(0.0)
    >>> events = pa.table({"ts": [30, 10, 20, 5]})
    >>> work.update_groups(events, np.array([0, 3, 4])).to_pylist()
    [{'n': 3, 'task': -1, 'longest': 10}, {'n': 1, 'task': -1, 'longest': 0}]
    """

    inputs: ClassVar = ("ts",)
    state: ClassVar = "n long, task long, longest long"
    result: ClassVar = "n long, task long, longest long"
    merges: ClassVar = {"n": "sum", "task": "max", "longest": "max"}

    def __init__(self, cost_us: float) -> None:
        self.cost_us = cost_us

    def create(self) -> dict[str, Any]:
        """Return the state of no events."""
        return {"n": 0, "task": -1, "longest": 0}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Return the state after some events."""
        found = self.update_groups(rows, np.array([0, rows.num_rows])).to_pylist()[0]
        return {
            "n": state["n"] + found["n"],
            "task": max(state["task"], found["task"]),
            "longest": max(state["longest"], found["longest"]),
        }

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the events, the task and the longest pause of each group."""
        n = np.diff(starts)
        group = np.repeat(np.arange(len(n)), n)
        ts = rows["ts"].to_numpy()
        ts = ts[np.lexsort((ts, group))]
        pause = np.diff(ts, prepend=ts[:1])
        pause[starts[:-1]] = 0
        longest = np.maximum.reduceat(pause, starts[:-1])
        time.sleep(self.cost_us * 1e-6 * len(ts))
        context = TaskContext.get()
        task = -1 if context is None else context.partitionId()
        return pa.table({"n": n, "task": np.full(len(n), task), "longest": longest})

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state."""
        return state

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the states."""
        return states


class Run(NamedTuple):
    """A job that was run."""

    seconds: float
    """Counting and planning, if the policy does, and the job itself."""
    loads: NDArray[np.int64]
    """int64, (n_workers,): rows of each task."""
    answer: pa.Table
    """Result, sorted by key."""


def run_job(groups: BatchGroups, n_workers: int, cost_us: float) -> Run:
    """Run `SortedWork` on the groups of a frame, by the column ``k``."""
    begun = time.perf_counter()
    answer = to_arrow(groups.aggregate(SortedWork(cost_us)))
    seconds = time.perf_counter() - begun
    loads = np.bincount(answer["task"].to_numpy(), answer["n"].to_numpy(), n_workers)
    return Run(seconds, loads.astype(np.int64), answer.drop_columns("task").sort_by("k"))


def running_master() -> str | None:
    """Return the master of the Spark that this process has; ``None`` if it has none."""
    context = SparkContext._active_spark_context
    return None if context is None else str(context.master)


def warm(spark: SparkSession, slots: int) -> None:
    """Run the job once on even keys, for a second a task, so that every slot has its Python."""
    even = spark.range(0, 20 * slots, 1, slots).selectExpr(f"id % {4 * slots} AS k", "id AS ts")
    hashed = BatchGroups(
        even, resolve_keys("warm", even, ["k"]), Routing.shuffling(slots), slots, ("k",)
    )
    run_job(hashed, slots, 50_000.0)


def written(spark: SparkSession, rows: pa.Table, folder: Path, n_files: int) -> DataFrame:
    """Write rows in their order into so many files, and return them as a frame of a task a file."""
    folder.mkdir(parents=True)
    edges = np.linspace(0, rows.num_rows, n_files + 1).astype(int).tolist()
    for i in range(n_files):
        part = rows.slice(edges[i], edges[i + 1] - edges[i])
        pq.write_table(part, folder / f"{i:04d}.parquet")
    # Otherwise Spark packs small files together, and there are few tasks.
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4194304")
    spark.conf.set("spark.sql.files.openCostInBytes", "4194304")
    return spark.read.parquet(str(folder))
