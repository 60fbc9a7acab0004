"""Work that sleeps: many task slots on few cores, for experiments on a real Spark.

A task that waits needs no core, so `local[32]` on two cores runs as 32 slots do, as long as what Spark
does around the work is small beside it. Where no function of Python's is looked at the JVM sleeps, as a
Python per slot takes longer to start than the work lasts. Needs Spark 4.1 or newer.
"""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.policy import Policy
from skewless.replay import Replay
from skewless.routing import Routing
from skewless.spark.aggregator import Aggregator
from skewless.spark.batch import place_by, worker_of
from skewless.spark.keys import resolve_keys
from skewless.spark.replaying import replan
from skewless.spark.whole import with_worker

__all__ = [
    "Run",
    "Totals",
    "plan_replay",
    "run_sorted",
    "running_master",
    "task_seconds",
    "written",
]


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
    """Wall time: reading, routing, sorting, working."""
    loads: NDArray[np.int64]
    """int64, (n_workers,): rows of each task."""
    keys: int
    """Keys of all tasks, added up: the number of keys if each is whole."""
    pauses: int
    """The longest pauses of all keys, added up."""


def run_sorted(frame: DataFrame, routing: Routing, cost_us: float) -> Run:
    """Route events, sort those of each key by time, and work on them, asleep.

    Parameters
    ----------
    frame
        Events: a key ``k``, bigint, and a time ``ts``, bigint.
    routing
        Where keys go; whole.
    cost_us
        Microseconds a row; a key's milliseconds are rounded down.
    """
    begun = time.perf_counter()
    worker, _ = worker_of(frame, resolve_keys("work", frame, ["k"]), routing)
    placed, at = with_worker(frame.select("k", "ts"), worker, routing.n_workers)
    sorted_events = placed.groupBy(at, "k").agg(F.sort_array(F.collect_list("ts")).alias("times"))
    later, sooner = (f"slice(times, {first}, size(times) - 1)" for first in (2, 1))
    worked = sorted_events.selectExpr(
        at,
        "size(times) AS n",
        f"coalesce(array_max(zip_with({later}, {sooner}, (b, a) -> b - a)), 0) AS pause",
        _asleep(f"size(times) * {cost_us / 1e3!r}"),
    )
    tasks = (
        worked.groupBy(at)
        .agg(F.sum("n"), F.count("asleep"), F.sum("pause"))  # counts what slept, so that all do
        .collect()
    )
    seconds = time.perf_counter() - begun
    loads = np.zeros(routing.n_workers, np.int64)
    for task, n, _, _ in tasks:
        loads[task] = n
    return Run(seconds, loads, sum(row[2] for row in tasks), sum(row[3] for row in tasks))


def _asleep(ms: str) -> str:
    """Return SQL that sleeps so many milliseconds, a bigint when rounded down, for each row."""
    return f"reflect('java.lang.Thread', 'sleep', cast({ms} AS bigint)) AS asleep"


def plan_replay(frame: DataFrame, policy: Policy, replay: Replay) -> tuple[Routing, float]:
    """Return what batch replay takes for a policy, and the seconds of counting and planning."""
    found = replan(frame, resolve_keys("replay", frame, ["k"]), policy, replay)
    return found.plan.routing, found.plan.gather_s + found.plan.learn_s


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
        float64, (n_tasks,): seconds of the work, by the task's own clock.
    """
    rows = spark.createDataFrame(pd.DataFrame({"task": tasks}), "task int")
    counted = place_by(rows, n_tasks, "task").groupBy("task").agg(F.count(F.lit(1)).alias("n"))
    clock = "cast(reflect('java.lang.System', 'nanoTime') AS bigint)"
    work = _asleep(f"n * {cost_us / 1e3!r}")
    timed = counted.selectExpr("task", f"{clock} AS begun", work, f"{clock} AS ended")
    seconds = np.zeros(n_tasks)
    for row in timed.collect():
        seconds[row.task] = (row.ended - row.begun) / 1e9
    return seconds


def running_master() -> str | None:
    """Return the master of the Spark that this process has; ``None`` if it has none."""
    context = SparkContext._active_spark_context
    return None if context is None else str(context.master)


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
