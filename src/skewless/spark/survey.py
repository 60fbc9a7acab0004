"""One query over a frame's keys: the heaviest with their values, totals by bucket, nulls, distinct."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.advisor import Survey
from skewless.errors import DataError
from skewless.histogram import bucket_count
from skewless.parameters import Count, Range, check
from skewless.spark.batch import check_frame, default_workers
from skewless.spark.expressions import bucket_column
from skewless.spark.keys import quoted, resolve_keys
from skewless.spark.statistics import unit_of, without_listed
from skewless.spark.weights import weight_column

__all__ = ["spark_says", "survey"]


def survey(
    df: DataFrame,
    *keys: str,
    workers: Count | None = None,
    weight: str | Column | None = None,
    sample: Annotated[float, Range(0, 1, low_open=True)] | None = None,
) -> Survey:
    """Count the keys of a batch frame in one query.

    Parameters
    ----------
    df
        A batch frame.
    *keys
        Names of the key columns.
    workers
        Number of workers; ``spark.sql.shuffle.partitions`` if left out.
    weight
        As in `group_by`.
    sample
        Part of the rows to count, in (0, 1]; all if left out.

    Raises
    ------
    ParameterError
        `workers` or `sample` is out of range.
    DataError
        A column is missing or cannot be grouped by; the frame is streaming.
    """
    check("inspect", survey, workers=workers, sample=sample)
    check_frame("inspect", df)
    if df.isStreaming:
        raise DataError(
            "inspect: a streaming frame has no end to count to; inspect a batch frame of the same "
            "source, or look at group_by(...).window(...).batches while the query runs."
        )
    columns = resolve_keys("inspect", df, keys)
    heavy = weight_column("inspect", df, weight)
    if sample is not None:
        df = df.sample(fraction=float(sample), seed=0)
    n_workers = default_workers(df, workers)
    n_buckets = bucket_count(n_workers)
    n_listed = max(2 * n_workers, 100)
    missing = F.lit(False)
    for column in columns.columns:
        missing = missing | column.isNull()
    value = F.struct(*[F.col(quoted(name)) for name in columns.names])
    one = F.lit(1) if heavy is None else F.coalesce(heavy, F.lit(0))
    # Sums of ones, and not counts: the optimizer would fold them, and read the frame twice.
    counts = df.groupBy(columns.hash.alias("key")).agg(
        F.sum(one).alias("n"),
        F.sum(F.lit(1)).alias("rows"),
        F.first(value).alias("value"),
        F.max(missing).alias("missing"),
    )
    top = (
        counts.orderBy(F.desc("n"), F.col("key") < 0, F.asc("key"))
        .limit(n_listed)
        .select(F.lit(-1).alias("bucket"), "key", "n", "rows", "value", F.lit(1), F.lit(0))
    )
    bucket = bucket_column(F.col("key"), n_buckets, 0)
    empty = F.lit(None).cast(df.select(value.alias("v")).schema["v"].dataType)
    totals = (
        counts.groupBy(bucket.alias("bucket"))
        .agg(
            F.sum("n").alias("n"),
            F.sum("rows").alias("rows"),
            F.sum(F.lit(1)).alias("distinct"),
            F.sum(F.when(F.col("missing"), F.col("rows")).otherwise(0)).alias("nulls"),
        )
        .select("bucket", F.lit(0).cast("bigint"), "n", "rows", empty, "distinct", "nulls")
    )
    found = top.union(totals).collect()
    return _read(found, columns.names, n_workers, n_buckets, sample, weighted=heavy is not None)


def _read(
    found: list[Any],
    names: tuple[str, ...],
    n_workers: int,
    n_buckets: int,
    sample: float | None,
    *,
    weighted: bool,
) -> Survey:
    heavy = [row for row in found if row[0] < 0]
    rest = [row for row in found if row[0] >= 0]
    scale = unit_of([row[2] for row in heavy], [row[2] for row in rest])
    hashes = np.array([row[1] for row in heavy], np.int64).view(np.uint64)
    exact = np.array([round(row[2] * scale) for row in heavy], np.int64)
    every = np.zeros(n_buckets, np.int64)
    for row in rest:
        every[row[0]] = round(row[2] * scale)
    return Survey(
        names,
        n_workers,
        without_listed(hashes, exact, every, seed=0),
        {key: tuple(row[4]) for key, row in zip(hashes.tolist(), heavy, strict=True)},
        sum(row[3] for row in rest),
        sum(row[5] for row in rest),
        sum(row[6] for row in rest),
        sample,
        weighted,
    )


def spark_says(df: DataFrame, found: Survey) -> list[str]:
    """Return what Spark does by itself about the skew of these keys, one sentence per mechanism."""
    conf = df.sparkSession.conf
    says = [
        (
            "Map-side combining: Spark's own aggregates (sum, count, max, approx_count_distinct ...) "
            "reach the reduce stage as one row per key and map task, so a hot key does not hurt them. "
            "Python functions and aggregators are not combined."
        )
    ]
    if str(conf.get("spark.sql.adaptive.enabled", "true")).lower() != "true":
        says.append("Adaptive execution (AQE) is off (spark.sql.adaptive.enabled).")
    elif str(conf.get("spark.sql.adaptive.skewJoin.enabled", "true")).lower() != "true":
        says.append("AQE is on, but its skew join is off (spark.sql.adaptive.skewJoin.enabled).")
    else:
        size = conf.get("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "256MB")
        says.append(
            "Adaptive execution (AQE) splits skewed partitions of sort-merge joins only, of more than "
            f"{size} of compressed shuffle data, and only where one map task's part ends. It does "
            "nothing for group-by, for functions over groups, or for windows."
        )
    limit = conf.get("spark.sql.autoBroadcastJoinThreshold", "10485760b")
    says.append(
        f"Broadcast: a join with a side of at most {limit} shuffles nothing, so these keys' skew does "
        "not matter there."
    )
    if found.null_rows:
        says.append(
            f"Null keys: {found.null_rows:,} rows have one; they form a group, and match nothing in a "
            "join (spark.sql.shuffle.spreadNullJoinKeys.enabled spreads them from Spark 4.3 on)."
        )
    return says
