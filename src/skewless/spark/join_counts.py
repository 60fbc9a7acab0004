"""The rows of both sides of a join per key, counted by Spark: of all keys, or of some."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.histogram import bucket_count, bucket_of
from skewless.join_plan import JoinCounts
from skewless.spark.expressions import bucket_column
from skewless.spark.join_keys import JoinKeys, unmatchable, with_keys
from skewless.spark.keys import quoted

__all__ = ["PairCounts", "count_keys", "count_pairs", "key_hashes", "key_values", "listed"]

#: Bucket numbers of the rows that list a key, and of the row of the null keys.
_LISTED, _NULL = -1, -2


class PairCounts(NamedTuple):
    """What one pass over the keys of both sides tells."""

    counts: JoinCounts
    """The keys with the most work, and totals by bucket."""
    rows: tuple[int, int]
    """Rows of the left and of the right side, estimated if a part was counted; so are the others."""
    null_rows: tuple[int, int]
    """Those whose key matches nothing, because it is null."""
    output: float
    """Rows of the result, if there is no condition but the equalities."""


def count_pairs(
    left: DataFrame,
    right: DataFrame,
    keys: JoinKeys,
    how: str,
    n_workers: int,
    sample: float | None,
) -> PairCounts:
    """Count the rows of both sides per key in one query; of a part of them, times one over the part."""
    part = sample if sample is not None and sample < 1 else None
    if part is not None:
        left, right = (df.sample(fraction=part, seed=0) for df in (left, right))
    n_buckets, n_listed = bucket_count(n_workers), listed(n_workers)
    counts = _per_key(*(key_hashes(df, side, keys) for df, side in _sides(left, right, keys)))
    if part is not None:
        scaled = {name: F.round(F.col(name) / part).cast("bigint") for name in ("l", "r")}
        counts = counts.withColumns(scaled)
    exists = how in ("semi", "anti")
    # Of a semi join's right side a key is taken once: see `join_rows`.
    dealt = F.least("r", F.lit(1)) if exists and not keys.residual else F.col("r")
    pairs = F.lit(0) if exists else F.col("l").cast("double") * F.col("r")
    counts = counts.withColumns(
        {"d": dealt, "work": F.col("l") + dealt + pairs, "out": _output(how)}
    )
    columns = ("key", "l", "r", "d", "work", "out")
    known = counts.where("key is not null")
    top = known.where("one").orderBy(F.desc("work"), "key").limit(n_listed)
    totals = known.groupBy(bucket_column(F.col("key"), n_buckets, 0).alias("bucket")).agg(
        F.lit(0).cast("bigint").alias("key"), *[F.sum(name).alias(name) for name in columns[1:]]
    )
    found = (
        top.select(F.lit(_LISTED).alias("bucket"), *columns)
        .union(totals)
        .union(counts.where("key is null").select(F.lit(_NULL).alias("bucket"), *columns))
    )
    return _read(found.collect(), n_buckets, pairs=not exists)


def listed(n_workers: int) -> int:
    """Return how many keys are looked at one by one."""
    return max(2 * n_workers, 64)


def count_keys(
    left: DataFrame, right: DataFrame, keys: JoinKeys, hashes: list[int]
) -> dict[int, tuple[int, int, bool]]:
    """Count the rows of some keys on both sides exactly.

    Parameters
    ----------
    hashes
        Of the keys, signed.

    Returns
    -------
    dict
        By hash: left and right rows, and whether all of them are of one key.
    """
    some = F.col("key").isin(hashes)
    sides = (key_hashes(df, side, keys).where(some) for df, side in _sides(left, right, keys))
    return {row["key"]: (row["l"], row["r"], row["one"]) for row in _per_key(*sides).collect()}


def _sides(
    left: DataFrame, right: DataFrame, keys: JoinKeys
) -> tuple[tuple[DataFrame, list[Column]], tuple[DataFrame, list[Column]]]:
    return (left, keys.left), (right, keys.right)


def _per_key(left: DataFrame, right: DataFrame) -> DataFrame:
    # Sums of ones, and not counts: see `statistics`. The second hash tells two keys of one hash apart.
    one, none = F.lit(1), F.lit(0)
    return (
        left.withColumns({"l": one, "r": none})
        .union(right.withColumns({"l": none, "r": one}))
        .groupBy("key")
        .agg(
            F.sum("l").alias("l"),
            F.sum("r").alias("r"),
            (F.min("check") == F.max("check")).alias("one"),
        )
    )


def _output(how: str) -> Column:
    """Return the rows that a key adds to the result; a null key meets no other."""
    left, right = F.col("l").cast("double"), F.col("r").cast("double")
    known = F.col("key").isNotNull()
    pairs = F.when(known, left * right).otherwise(0.0)
    alone_left = F.when(known & (right > 0), 0.0).otherwise(left)
    alone_right = F.when(known & (left > 0), 0.0).otherwise(right)
    return {
        "inner": pairs,
        "left": pairs + alone_left,
        "right": pairs + alone_right,
        "full": pairs + alone_left + alone_right,
        "semi": left - alone_left,
        "anti": alone_left,
    }[how]


def _read(found: list[Any], n_buckets: int, *, pairs: bool) -> PairCounts:
    heavy = [row for row in found if row["bucket"] == _LISTED]
    every = [row for row in found if row["bucket"] != _LISTED]
    tail = np.zeros(n_buckets)
    for row in every:
        if row["bucket"] != _NULL:
            tail[row["bucket"]] = row["work"]
    keys = np.array([row["key"] for row in heavy], np.int64).view(np.uint64)
    left, dealt = (np.array([row[c] for row in heavy], np.int64) for c in ("l", "d"))
    counts = JoinCounts(keys, left, dealt, tail, pairs)
    listed = np.bincount(bucket_of(keys, n_buckets), counts.work, minlength=n_buckets)
    return PairCounts(
        counts._replace(tail=np.maximum(tail - listed, 0.0)),
        (sum(row["l"] for row in every), sum(row["r"] for row in every)),
        next(((row["l"], row["r"]) for row in every if row["bucket"] == _NULL), (0, 0)),
        sum(row["out"] for row in every),
    )


def key_values(
    left: DataFrame, right: DataFrame, keys: JoinKeys, hashes: list[int]
) -> dict[int, tuple[Any, ...]]:
    """Return the key values of some hashes (unsigned), from whichever side has them."""
    if not hashes:
        return {}
    signed = [h - 2**64 if h >= 2**63 else h for h in hashes]
    sides = []
    for df, columns in ((left, keys.left), (right, keys.right)):
        named, names = with_keys(df, columns)
        hashed = F.expr(f"xxhash64({', '.join(map(quoted, names))})")
        values = [F.col(quoted(name)).alias(f"value{i}") for i, name in enumerate(names)]
        sides.append(named.select(hashed.alias("hash"), *values).where(F.col("hash").isin(signed)))
    both = sides[0].union(sides[1])
    first = [F.first(f"value{i}", ignorenulls=True) for i in range(len(keys.left))]
    rows = both.groupBy("hash").agg(*first).collect()
    return {int(row[0]) % 2**64: tuple(row[1:]) for row in rows}


def key_hashes(df: DataFrame, columns: list[Column], keys: JoinKeys, *more: Column) -> DataFrame:
    """Return ``key``, the hash of a row's keys, and ``check``, a second one; and more.

    The first is null where a null matches nothing.
    """
    named, names = with_keys(df, columns)
    hashed = F.expr(f"xxhash64({', '.join(map(quoted, names))})")
    return named.select(
        F.when(~unmatchable(names, keys.null_safe), hashed).alias("key"),
        F.hash(*[F.col(quoted(name)) for name in names]).alias("check"),
        *more,
    )
