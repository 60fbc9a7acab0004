"""Work that sleeps: many task slots on few cores, for experiments on a real Spark.

A task that waits needs no core, so `local[32]` on two cores runs as 32 slots do, as long as what Spark
and Python do around the work is small beside it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark import SparkContext, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.routing import Routing
from skewless.spark.aggregator import Aggregator
from skewless.spark.batch import place
from skewless.spark.batch_groups import BatchGroups
from skewless.spark.keys import resolve_keys
from skewless.spark.versions import to_arrow

__all__ = [
    "Run",
    "SortedWork",
    "Totals",
    "run_job",
    "running_master",
    "task_seconds",
    "warm",
    "written",
]


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


class Totals(Aggregator):
    """Count and add up the values of each key, and take so long for each row, asleep or at work.

    Parameters
    ----------
    cost_us
        Microseconds a row, asleep.
    sines
        Sines to take of each value: work that takes a core.

    Examples
    --------
    >>> rows = pa.table({"v": [1, 2, 4]})
    >>> Totals(0.0).update_groups(rows, np.array([0, 2, 3])).to_pylist()
    [{'n': 2, 'total': 3}, {'n': 1, 'total': 4}]
    """

    inputs: ClassVar = ("v",)
    state: ClassVar = "n long, total long"
    result: ClassVar = "n long, total long"
    merges: ClassVar = {"n": "sum", "total": "sum"}

    def __init__(self, cost_us: float, sines: int = 0) -> None:
        self.cost_us, self.sines = cost_us, sines

    def create(self) -> dict[str, Any]:
        """Return the state of no rows."""
        return {"n": 0, "total": 0}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Return the state after some rows."""
        found = self.update_groups(rows, np.array([0, rows.num_rows])).to_pylist()[0]
        return {name: state[name] + found[name] for name in state}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the totals of each group."""
        values = rows["v"].to_numpy()
        time.sleep(self.cost_us * 1e-6 * len(values))
        angle = values.astype(np.float64)
        for _ in range(self.sines):
            angle = np.sin(angle)
        return pa.table({"n": np.diff(starts), "total": np.add.reduceat(values, starts[:-1])})

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state."""
        return state

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the states."""
        return states

    def plain(self, frame: DataFrame) -> DataFrame:
        """Return the same by Spark's own function over whole groups, of a frame with keys ``k``."""
        work = copy.copy(self)

        def whole(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
            found = work.update_groups(rows, np.array([0, rows.num_rows]))
            return found.add_column(0, "k", [[key[0].as_py()]])

        return frame.groupBy("k").applyInArrow(whole, "k long, n long, total long")


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


def task_seconds(
    spark: SparkSession, tasks: NDArray[np.int64], n_tasks: int, cost_us: float
) -> NDArray[np.float64]:
    """Run as many tasks, each asleep for its rows, and return how long each took.

    Parameters
    ----------
    spark
        A session.
    tasks
        int64: the task of each row, in ``[0, n_tasks)``.
    n_tasks
        Number of tasks.
    cost_us
        Microseconds a row.

    Returns
    -------
    numpy.ndarray
        float64, (n_tasks,): seconds, from a task's start to its end as its Python sees them.
    """

    def timed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun = time.perf_counter()
        n = sum(batch.num_rows for batch in batches)
        time.sleep(cost_us * 1e-6 * n)
        context = TaskContext.get()
        task = -1 if context is None else context.partitionId()
        spent = time.perf_counter() - begun
        yield pa.RecordBatch.from_pydict({"task": [task], "seconds": [spent]})

    rows = spark.createDataFrame(pd.DataFrame({"task": tasks}), "task int")
    found = place(rows, n_tasks, F.col("task")).mapInArrow(timed, "task long, seconds double")
    seconds = np.zeros(n_tasks)
    for row in found.collect():
        seconds[row.task] = row.seconds
    return seconds


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
