"""The histogram of a frame's keys, counted exactly by Spark itself in one query."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.errors import DataError
from skewless.histogram import Histogram
from skewless.spark.expressions import bucket_column
from skewless.spark.keys import KeyColumns, fresh_name, quoted

__all__ = ["Counted", "gather", "unit_of", "without_listed"]

#: Bucket number of the rows that list a heavy key.
_LISTED = -1

#: Weights that are no integers are scaled so that their total is about this.
_SCALED_TOTAL = 2.0**40


class Counted(NamedTuple):
    """What one pass over the keys of a frame tells."""

    histogram: Histogram
    """The heaviest keys and totals by bucket."""
    rows: int
    """Number of rows, whatever they weigh."""
    distinct: int
    """Number of distinct keys."""
    tasks: int
    """Number of tasks that the rows were read in."""
    sampled: int = 0
    """Rows of the sample that all this was estimated from; 0 if all rows were counted."""
    by_spark: NDArray[np.float64] | None = None
    """Rows of each partition, were they placed by Spark's own hash; ``None`` if that was not asked."""


def gather(
    df: DataFrame,
    keys: KeyColumns,
    n_hot: int,
    n_buckets: int,
    seed: int = 0,
    *,
    weight: Column | None = None,
) -> Counted:
    """Return the exact counts of the heaviest keys, and of all the others by bucket.

    Parameters
    ----------
    df
        A batch frame.
    keys
        Its key columns.
    n_hot
        Number of keys to list, heaviest first; equal counts are listed by ascending hash.
    n_buckets, seed
        How the tail is folded (`skewless.histogram.bucket_of`).
    weight
        Numeric column that rows count with instead of 1; null counts 0. Totals are then in its unit if
        it is of an integer type, and else in equal parts of the whole.

    Raises
    ------
    DataError
        The weights of a key add up to a negative number, or to none at all.

    Returns
    -------
    Counted
        The same for the same rows, in whatever order they lie; but for `tasks`.

    Notes
    -----
    One query: rows are counted per key hash (combined on the map side, so only distinct keys are
    shuffled), and two small results are read from those counts: the `n_hot` heaviest keys and
    `n_buckets` totals. Both branches read the one shuffle, which Spark reuses. No row, key value or
    Python function takes part, and at most ``n_hot + n_buckets`` rows reach the driver.
    """
    rows = _query(df, keys, n_hot, n_buckets, seed, weight).collect()
    heavy = [row for row in rows if row[0] == _LISTED]
    rest = [row for row in rows if row[0] != _LISTED]
    scale = unit_of([row[2] for row in heavy], [row[2] for row in rest])
    hashes = np.array([row[1] for row in heavy], np.int64).view(np.uint64)
    exact = np.array([round(row[2] * scale) for row in heavy], np.int64)
    every = np.zeros(n_buckets, np.int64)
    for row in rest:
        every[row[0]] = round(row[2] * scale)
    return Counted(
        without_listed(hashes, exact, every, seed),
        sum(row[3] for row in rest),
        sum(row[4] for row in rest),
        1 + max((row[5] for row in rest), default=0),
    )


def unit_of(heaviest: list[Any], totals: list[Any]) -> float:
    """Return what a sum of weights is multiplied with before it is rounded; 1 for integers.

    Raises
    ------
    DataError
        A sum is negative, or no number.
    """
    for n in (*heaviest, *totals):
        if not 0 <= n < float("inf"):
            raise DataError(
                f"weight: the weights of a key must add up to a number of at least 0, got {n}."
            )
    whole = sum(totals)
    return _SCALED_TOTAL / whole if isinstance(whole, float) and whole > 0 else 1.0


def without_listed(
    hashes: NDArray[np.uint64], exact: NDArray[np.int64], every: NDArray[np.int64], seed: int
) -> Histogram:
    """Return a histogram from the listed keys and the totals by bucket that count them too."""
    listed = Histogram(hashes, exact, seed=seed).top(0, len(every)).tail
    tail = every if listed is None else every - listed
    # A frame that computes other rows each time it is read could have counted fewer in one branch.
    return Histogram(hashes, exact, np.maximum(tail, 0), seed=seed)


def _query(
    df: DataFrame,
    keys: KeyColumns,
    n_hot: int,
    n_buckets: int,
    seed: int,
    weight: Column | None = None,
) -> DataFrame:
    # A sum of ones, and not a count: Spark would fold a sum of counts into one level, and then both
    # branches would read the frame.
    one = F.lit(1) if weight is None else F.coalesce(weight, F.lit(0))
    task = fresh_name(df, "task")
    counts = (
        df.withColumn(task, F.spark_partition_id())
        .groupBy(keys.hash.alias("key"))
        .agg(
            F.sum(one).alias("n"),
            F.sum(F.lit(1)).alias("rows"),
            F.max(F.col(quoted(task))).alias("task"),
        )
    )
    none = F.lit(0).cast("bigint")
    # Both branches name every column: pruned differently they would be two exchanges, not one.
    heavy = (
        counts.orderBy(F.desc("n"), F.col("key") < 0, F.asc("key"))  # by the hash as unsigned
        .limit(n_hot)
        .select(F.lit(_LISTED).alias("bucket"), "key", "n", "rows", none, "task")
    )
    bucket = bucket_column(F.col("key"), n_buckets, seed)
    totals = counts.groupBy(bucket.alias("bucket")).agg(
        none.alias("key"),
        F.sum("n").alias("n"),
        F.sum("rows").alias("rows"),
        F.sum(F.lit(1)).alias("distinct"),
        F.max("task").alias("task"),
    )
    return heavy.union(totals)
