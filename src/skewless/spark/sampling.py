"""A weighted sample of a frame's rows: one scan, no shuffle, and no size that must be known before."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.histogram import Histogram
from skewless.spark.keys import fresh_name, quoted
from skewless.spark.versions import to_arrow

__all__ = ["Sampled", "chao1", "estimated_histogram", "sample", "sampled", "tasks_of"]

#: Low bits of Spark's ``monotonically_increasing_id`` that number the rows of a task.
_ORDINAL_BITS = 33
#: Rows per worker that are taken for sure: a fair share is then known within 2 to 3 %.
_PER_WORKER = 1_000
#: At least this many in all, and of each task.
_AT_LEAST, _PER_TASK_AT_LEAST = 40_000, 64
#: Part of the rows wanted that is enough.
_ENOUGH = 0.25


class Sampled(NamedTuple):
    """Rows of a sample, and how many rows of the frame each stands for."""

    rows: pa.Table
    """The selected columns."""
    weights: NDArray[np.float64]
    """Of each row, at least 1: one over the chance that it had to be taken."""
    task: NDArray[np.int64]
    """Number of the task that each was read in."""

    @property
    def tasks(self) -> int:
        """Number of tasks, as far as rows of them were taken."""
        return int(self.task.max()) + 1 if len(self.task) else 1

    @property
    def complete(self) -> bool:
        """Say whether every row of the frame was taken."""
        return bool((self.weights == 1.0).all())


def tasks_of(df: DataFrame) -> int | None:
    """Return the number of tasks that a frame is read in, without a job; ``None`` if it is not known.

    Known only where nothing is shuffled or broadcast before: elsewhere to ask would be to run that.
    """
    if not hasattr(df, "_jdf"):
        return None
    planned = df._jdf.queryExecution().executedPlan().toString()
    if any(name in planned for name in ("AdaptiveSparkPlan", "Exchange", "Subquery")):
        return None
    return int(df._jdf.queryExecution().toRdd().getNumPartitions())


def sample(build: Callable[[int], DataFrame], n_workers: int, *frames: DataFrame) -> Sampled:
    """Run a query over samples of frames; once more with more rows of each task if there were few.

    Parameters
    ----------
    build
        Makes the query from the number of rows that are taken of each task for sure; it is made of
        `sampled`, and has the numbers of rows as ``at``.
    n_workers
        Number of workers that a plan is wanted for.
    *frames
        What is sampled.

    Notes
    -----
    Where rows are shuffled before, the number of tasks is not known, and adaptive execution may put all
    rows into few: then few rows are taken, which shows, and the query runs again.
    """
    wanted = max(_AT_LEAST, _PER_WORKER * n_workers)
    tasks = max(_expected_tasks(df) for df in frames)
    n_sure = max(_PER_TASK_AT_LEAST, -(-wanted // tasks))
    found = _take(build(n_sure), n_sure)
    if not found.complete and found.tasks * n_sure < _ENOUGH * wanted:
        n_sure = -(-wanted // found.tasks)
        found = _take(build(n_sure), n_sure)
    return found


def _expected_tasks(df: DataFrame) -> int:
    return tasks_of(df) or int(str(df.sparkSession.conf.get("spark.sql.shuffle.partitions")))


def sampled(df: DataFrame, n_sure: int) -> tuple[DataFrame, Column]:
    """Return a sample of the rows, and a column that numbers the rows of each task, for `sample`.

    Parameters
    ----------
    df
        A batch frame.
    n_sure
        Rows of each task that are taken for sure, k: its row number i (from 1) is taken with the chance
        min(1, k / i).

    Notes
    -----
    Of a task's n rows about k (1 + ln(n / k)) are taken, and weighted by one over their chance they tell
    as much as 2 k rows drawn evenly (D. Horvitz, D. Thompson, JASA 47, 1952). What lies together in a
    task, as in sorted files, is met in proportion all the same. Nothing is shuffled, and no row passes
    Python.
    """
    at = fresh_name(df, "at")
    numbered = df.withColumn(at, F.monotonically_increasing_id())
    ordinal = F.col(quoted(at)).bitwiseAND((1 << _ORDINAL_BITS) - 1)
    return numbered.where(F.rand(0) * (ordinal + 1) < float(n_sure)), F.col(quoted(at))


def _take(frame: DataFrame, n_sure: int) -> Sampled:
    rows = to_arrow(frame)
    at = rows.column("at").to_numpy()
    ordinal = at & ((1 << _ORDINAL_BITS) - 1)
    weights = np.maximum((ordinal + 1) / n_sure, 1.0)
    return Sampled(rows.drop_columns(["at"]), weights, at >> _ORDINAL_BITS)


def estimated_histogram(
    keys: NDArray[np.uint64], weights: NDArray[np.float64], n_hot: int, n_buckets: int
) -> tuple[Histogram, int]:
    """Return the histogram of weighted rows, and the number of distinct keys.

    Both are exact if every row stands for itself alone.

    Examples
    --------
    >>> h, distinct = estimated_histogram(np.array([7, 7, 9], np.uint64), np.array([1, 2.5, 1]), 1, 4)
    >>> h.counts.tolist(), h.total, distinct
    ([4], 5, 2)
    """
    unique, place, met = np.unique(keys, return_inverse=True, return_counts=True)
    counts = np.rint(np.bincount(place, weights, len(unique))).astype(np.int64)
    found = Histogram(unique, counts).top(n_hot, n_buckets)
    complete = bool((weights == 1.0).all())
    return found, len(unique) if complete else min(chao1(met), found.total)


def chao1(met: NDArray[np.int64]) -> int:
    """Estimate the number of distinct keys from how often each key of a sample was met.

    Exact on average for keys of one frequency, and else a lower bound: A. Chao, Nonparametric Estimation
    of the Number of Classes in a Population, Scandinavian Journal of Statistics 11, 1984.

    Examples
    --------
    >>> chao1(np.array([1, 1, 1, 1, 2, 2])), chao1(np.array([3, 3]))
    (10, 2)
    """
    once, twice = int((met == 1).sum()), int((met == 2).sum())
    unseen = once * once // (2 * twice) if twice else once * (once - 1) // 2
    return len(met) + unseen
