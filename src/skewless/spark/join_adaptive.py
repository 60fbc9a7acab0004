"""What Spark's adaptive execution (AQE) does about the hot keys of a join: split them, perhaps, or not.

AQE splits a partition of a shuffled join if its compressed bytes exceed a threshold and a multiple of the
median, at the ends of map tasks, on a side that the type of join lets it cut. It drops the split again
where what follows needs the join's partitioning, unless it is told to keep it
(``spark.sql.adaptive.forceOptimizeSkewedJoin``). Bytes are not known before, so only what is beyond doubt
is left to it: it was told to, and an eighth of the bytes that the rows have in memory is over the
threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from skewless.spark.join_sample import Estimate

__all__ = ["Adaptive", "adaptive"]

#: Types of join -> whether AQE may split the left, and the right side.
_SPLITS = {
    "inner": (True, True),
    "left": (True, False),
    "right": (False, True),
    "semi": (True, False),
    "anti": (True, False),
    "full": (False, False),
}
#: Rows in memory take at most this many times the bytes that they take in a shuffle.
_COMPRESSED = 8
_PREFIX = "spark.sql.adaptive."
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Adaptive(NamedTuple):
    """What AQE does about the heaviest key."""

    splits: bool
    """Whether it is sure to split every key of more than a fair share."""
    words: str


def adaptive(
    left: DataFrame, right: DataFrame, how: str, found: Estimate, n_workers: int
) -> Adaptive:
    """Say what AQE would do about the keys that exceed a fair share of the work.

    Parameters
    ----------
    left, right
        The sides.
    how
        Type of the join.
    found
        Its keys.
    n_workers
        Number of partitions that Spark would make.
    """
    conf = left.sparkSession.conf

    def setting(name: str, default: str) -> str:
        return str(conf.get(_PREFIX + name, default)).lower()

    if setting("enabled", "true") != "true" or setting("skewJoin.enabled", "true") != "true":
        return Adaptive(False, "adaptive execution, or its skew join, is off")
    limit = _bytes(setting("skewJoin.skewedPartitionThresholdInBytes", "256MB"))
    factor = float(setting("skewJoin.skewedPartitionFactor", "5.0"))
    forced = setting("forceOptimizeSkewedJoin", "false") == "true"
    counts = found.counts
    whole = float(counts.work.sum() + counts.tail.sum())
    hot = np.flatnonzero(counts.work > whole / n_workers)
    most, sure = 0.0, len(hot) > 0
    for h in hot.tolist():
        seen = False
        for side, df in enumerate((left, right)):
            rows = int((counts.left, counts.right)[side][h])
            size = float(rows) * _row_bytes(df.schema)
            most = max(most, size)
            listed = int((counts.left, counts.right)[side].sum())
            median = max(found.rows[side] - listed, 0) / n_workers
            seen |= (
                _SPLITS[how][side]
                and size / _COMPRESSED > limit
                and rows / _COMPRESSED > factor * median
                and int(found.tasks[side][h]) * whole >= counts.work[h] * n_workers
            )
        sure &= seen
    about = f"{most / 2**20:,.0f} MB in memory, its threshold is {limit / 2**20:,.0f} MB compressed"
    if sure and forced:
        return Adaptive(True, f"adaptive execution splits it, as it is told to ({about})")
    if most <= limit:
        return Adaptive(False, f"adaptive execution would not split it ({about})")
    return Adaptive(False, f"adaptive execution might split it as well ({about})")


def _row_bytes(schema: StructType) -> int:
    return 8 + sum(_value_bytes(field.dataType) for field in schema.fields)


def _value_bytes(kind: DataType) -> int:
    if isinstance(kind, StructType):
        return 8 + _row_bytes(kind)
    return 16 if isinstance(kind, (StringType, BinaryType)) else 8


def _bytes(text: str) -> float:
    """Return a size as Spark writes it, in bytes.

    Examples
    --------
    >>> _bytes("256mb"), _bytes("1024"), _bytes("1g")
    (268435456.0, 1024.0, 1073741824.0)
    """
    number = text.strip().rstrip("bkmgti")
    return float(number) * _UNITS[text.strip()[len(number) :].rstrip("b").rstrip("i")]
