"""The histogram of a frame's keys, counted exactly by Spark itself in one query."""

from __future__ import annotations

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.histogram import Histogram
from skewless.spark.expressions import bucket_column
from skewless.spark.keys import KeyColumns

__all__ = ["gather"]

#: Bucket number of the rows that list a heavy key.
_LISTED = -1


def gather(df: DataFrame, keys: KeyColumns, n_hot: int, n_buckets: int, seed: int = 0) -> Histogram:
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

    Returns
    -------
    Histogram
        The same for the same rows, in whatever order they lie.

    Notes
    -----
    One query: rows are counted per key hash (combined on the map side, so only distinct keys are
    shuffled), and two small results are read from those counts: the `n_hot` heaviest keys and
    `n_buckets` totals. Both branches read the one shuffle, which Spark reuses. No row, key value or
    Python function takes part, and at most ``n_hot + n_buckets`` rows reach the driver.
    """
    rows = _query(df, keys, n_hot, n_buckets, seed).collect()
    listed = [(row[1], row[2]) for row in rows if row[0] == _LISTED]
    hashes = np.array([key for key, _ in listed], np.int64).view(np.uint64)
    exact = np.array([n for _, n in listed], np.int64)
    every = np.zeros(n_buckets, np.int64)
    for row in rows:
        if row[0] != _LISTED:
            every[row[0]] = row[2]
    # The heavy keys are in the totals too: fold them with the opposite sign.
    listed_by_bucket = Histogram(hashes, exact, seed=seed).top(0, n_buckets).tail
    tail = every if listed_by_bucket is None else every - listed_by_bucket
    # A frame that computes other rows each time it is read could have counted fewer in one branch.
    return Histogram(hashes, exact, np.maximum(tail, 0), seed=seed)


def _query(df: DataFrame, keys: KeyColumns, n_hot: int, n_buckets: int, seed: int) -> DataFrame:
    # A sum of ones, and not a count: Spark would fold a sum of counts into one level, and then both
    # branches would read the frame.
    counts = df.groupBy(keys.hash.alias("key")).agg(F.sum(F.lit(1)).alias("n"))
    heavy = (
        counts.orderBy(F.desc("n"), F.col("key") < 0, F.asc("key"))  # by the hash as unsigned
        .limit(n_hot)
        .select(F.lit(_LISTED).alias("bucket"), "key", "n")
    )
    bucket = bucket_column(F.col("key"), n_buckets, seed)
    totals = counts.groupBy(bucket.alias("bucket")).agg(
        F.lit(0).cast("bigint").alias("key"), F.sum("n").alias("n")
    )
    return heavy.union(totals)
