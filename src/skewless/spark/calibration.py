"""Measure what rows, fragments and stages cost on a Spark, with small jobs."""

from __future__ import annotations

import itertools
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.calibration import Calibration, Job, fit
from skewless.errors import ParameterError
from skewless.parameters import Count, Range, check
from skewless.routing import Routing
from skewless.spark.aggregator import Aggregator
from skewless.spark.expressions import routing_column
from skewless.spark.grouping import group_by
from skewless.spark.java import java_home
from skewless.spark.keys import resolve_keys
from skewless.spark.versions import slots_of

__all__ = ["calibrate", "open_session"]

#: How many times the rows and keys of the larger jobs are those of the smaller ones.
_MORE = 4
#: Hot keys in the table that routing is timed with.
_HOT = 64


class _Counting(Aggregator):
    """The rows of a key, counted group by group in one call: what is left is what Spark takes."""

    inputs = ("v",)
    state = "n long"
    result = "n long"
    merges: ClassVar = {"n": "sum"}

    def create(self) -> dict[str, Any]:
        return {"n": 0}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        return {"n": state["n"] + rows.num_rows}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        return pa.table({"n": np.diff(starts)})

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        return state

    def finish_groups(self, states: pa.Table) -> pa.Table:
        return states


class _Planned(NamedTuple):
    """A job, before it is run."""

    routed: bool
    rows: int
    keys: int


def calibrate(
    spark: SparkSession,
    *,
    rows: Annotated[int, Range(1_000)] = 400_000,
    rounds: Annotated[int, Range(1)] = 3,
    slots: Count | None = None,
    progress: Callable[[float, str], None] = lambda _part, _what: None,
) -> Calibration:
    """Run small jobs on a Spark, and return the costs that tell their times best.

    Parameters
    ----------
    spark
        A session, classic or Connect.
    rows : int of at least 1,000
        Rows of the smaller jobs; the larger ones have four times as many.
    rounds : int of at least 1
        How often each job runs; its median counts. One more run of each comes before.
    slots
        Tasks that run side by side; asked of Spark if left out, which a Connect session does not say:
        there it must be given.
    progress
        Called with the part that is done and what is run next.

    Returns
    -------
    Calibration
        ``costs`` for `skewless.inspect` and the simulator, ``errors()`` of the fit; ``save`` it where
        ``skewless.calibration.default_path()`` says and everything uses it.

    Raises
    ------
    ParameterError
        A value is out of range, or `slots` is left out on Connect.

    Notes
    -----
    Eight jobs count the rows of even keys in Arrow batches: combined where they are or sent to their
    workers by hash, with few and many rows, with few and many keys; with as many workers as slots.
    Finding the worker is timed apart, natively and without an exchange.
    """
    check("calibrate", calibrate, rows=rows, rounds=rounds, slots=slots)
    found_slots = slots or _slots(spark)
    plans = [
        _Planned(*each)
        for each in itertools.product(
            (False, True), (rows, _MORE * rows), (64 * found_slots, max(rows // 8, 64))
        )
    ]
    seconds: dict[_Planned, list[float]] = {plan: [] for plan in plans}
    for turn in range(rounds + 1):
        for i, plan in enumerate(plans):
            progress((turn * len(plans) + i) / ((rounds + 1) * len(plans)), _told(plan))
            spent = _seconds(_job(spark, plan, found_slots))
            if turn:
                seconds[plan].append(spent)
    jobs = [
        Job(plan.routed, plan.rows, _fragments(plan, found_slots), statistics.median(spent))
        for plan, spent in seconds.items()
    ]
    progress(1.0, "finding workers")
    route_us = _route_us(spark, _MORE * rows, found_slots, rounds)
    return fit(jobs, found_slots, route_us, _setting(spark))


def open_session(master: str | None, remote: str | None, settings: dict[str, str]) -> SparkSession:
    """Return a session as Spark is set up, or on another master or server."""
    builder = SparkSession.builder.appName("skewless calibrate")
    if remote is None:
        os.environ["JAVA_HOME"] = str(java_home())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.remote(remote) if remote else builder.master(master) if master else builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _slots(spark: SparkSession) -> int:
    slots = slots_of(spark)
    if slots is None:
        raise ParameterError(
            "calibrate: a Connect session does not say how many tasks run side by side; give slots=."
        )
    return slots


def _frame(spark: SparkSession, rows: int, keys: int, slots: int) -> DataFrame:
    """Return rows whose keys take turns, so that none is hot and every task has as many."""
    turn = F.pmod(F.col("id"), F.lit(keys))
    return spark.range(0, rows, 1, slots).select(turn.alias("k"), F.col("id").alias("v"))


def _job(spark: SparkSession, plan: _Planned, slots: int) -> DataFrame:
    frame = _frame(spark, plan.rows, plan.keys, slots)
    policy = "hash" if plan.routed else "local"
    return group_by(frame, "k", policy=policy, workers=slots).aggregate(_Counting())


def _fragments(plan: _Planned, slots: int) -> int:
    return plan.keys if plan.routed else min(plan.keys * slots, plan.rows)


def _seconds(df: DataFrame) -> float:
    begun = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def _route_us(spark: SparkSession, rows: int, slots: int, rounds: int) -> float:
    """Return the microseconds of a task that finding a row's worker takes."""
    frame = _frame(spark, rows, max(rows // 8, 1), slots)
    keys = resolve_keys("calibrate", frame, ["k"])
    routing = Routing(slots, {key: {key % slots: 1.0} for key in range(_HOT)})
    column = routing_column(routing, keys.hash_sql, None)
    plain, routed = frame.select(F.sum("v")), frame.select(F.sum(F.col("v") + column))
    pairs = [(_seconds(plain), _seconds(routed)) for _ in range(rounds + 1)][1:]
    spent = statistics.median(after - before for before, after in pairs)
    return max(0.0, spent) / rows * slots * 1e6


def _told(plan: _Planned) -> str:
    how = "sent to workers" if plan.routed else "combined in place"
    return f"{plan.rows:,} rows of {plan.keys:,} keys, {how}"


def _setting(spark: SparkSession) -> dict[str, str]:
    return {
        "spark": str(spark.version),
        "master": str(spark.conf.get("spark.master", "unknown")),
        "processors": str(os.cpu_count()),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
