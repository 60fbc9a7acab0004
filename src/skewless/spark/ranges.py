"""Hot keys cut into ranges of their order: where the cuts are, and on which side of them a row is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from skewless.histogram import Histogram
from skewless.routing import Routing
from skewless.spark.expressions import sql_array
from skewless.spark.keys import KeyColumns, fresh_name, quoted
from skewless.spark.salt import salt_column
from skewless.spark.sort_order import SortKey
from skewless.spark.split_keys import index_of

__all__ = ["Cuts", "cut_keys", "find_bounds", "part_of"]

#: Rows that are sampled per part of a key: a part is then within about a tenth of its share.
_SAMPLE = 256
#: Salts are below this.
_SALTS = float(2**31)


class Cuts(NamedTuple):
    """The keys that a routing splits, and into which parts."""

    hashes: NDArray[np.uint64]
    """Hash of each split key."""
    workers: list[list[int]]
    """The worker of each part, by key, in the order of the parts."""
    quantiles: list[list[float]]
    """Where the parts end, as fractions of the key's rows; one fewer than parts."""


def cut_keys(routing: Routing) -> Cuts:
    """Return the keys that a routing splits.

    Examples
    --------
    >>> cut_keys(Routing(4, {7: {0: 0.5, 3: 0.25, 1: 0.25}, 9: {2: 1.0}}))[1:]
    ([[0, 1, 3]], [[0.5, 0.75]])
    """
    shares = [routing.hot[int(key)] for key in routing.split_keys]
    return Cuts(
        routing.split_keys,
        [list(of_key) for of_key in shares],
        [np.cumsum(list(of_key.values()))[:-1].tolist() for of_key in shares],
    )


def find_bounds(
    df: DataFrame,
    keys: KeyColumns,
    cuts: Cuts,
    order: Sequence[SortKey],
    histogram: Histogram | None,
) -> list[list[str]]:
    """Return the last order of each part but the last, by key, each as a JSON text.

    One query over a sample of the split keys' rows. Whatever it returns, parts are ranges: bounds decide
    how even they are, and nothing else.
    """
    index, dealt = fresh_name(df, "key"), fresh_name(df, "salt")
    salt, _ = salt_column(df, 0)
    rows = _rows_of(df, keys, cuts, histogram)
    wanted = [_SAMPLE * len(of_key) for of_key in cuts.workers]
    rates = [min(1.0, w / max(n, 1)) for w, n in zip(wanted, rows, strict=True)]
    fields = [F.col(quoted(key.name)).alias(f"o{i}") for i, key in enumerate(order)]
    rate = F.get(F.expr(sql_array(rates, "double")), F.col(index))
    sample = (
        df.withColumn(index, index_of(keys, cuts.hashes))
        .withColumn(dealt, salt)
        .where((F.col(index) >= 0) & (F.col(dealt) < rate * _SALTS))
        .select(F.col(index).alias("key"), *fields)
    )
    by_order = Window.partitionBy("key").orderBy(
        *[key._replace(name=f"o{i}").column for i, key in enumerate(order)]
    )
    ranked = sample.select(
        "key",
        F.row_number().over(by_order).alias("row"),
        F.count(F.lit(1)).over(Window.partitionBy("key")).alias("rows"),
        F.struct(*[f"o{i}" for i in range(len(order))]).alias("at"),
    )
    flat = [q for of_key in cuts.quantiles for q in of_key]
    starts = np.cumsum([0, *map(len, cuts.quantiles)]).tolist()
    ends = F.slice(
        F.expr(sql_array(flat, "double")),
        F.get(F.expr(sql_array(starts, "int")), F.col("key")) + 1,
        F.get(F.expr(sql_array(list(map(len, cuts.quantiles)), "int")), F.col("key")),
    )
    here = ranked.select("key", "row", "rows", "at", F.posexplode(ends).alias("cut", "quantile"))
    # The JSON of a time has its microseconds, or bounds close to each other would fall together.
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    options = {"timestampFormat": f"{pattern}XXX", "timestampNTZFormat": pattern}
    found = here.where(
        F.col("row") == F.greatest(F.ceil(F.col("quantile") * F.col("rows")), F.lit(1))
    ).select("key", "cut", F.to_json("at", options).alias("bound"))
    bounds: list[list[str]] = [[] for _ in cuts.workers]
    for row in sorted(found.collect(), key=lambda row: (row["key"], row["cut"])):
        bounds[row["key"]].append(row["bound"])
    return bounds


def _rows_of(df: DataFrame, keys: KeyColumns, cuts: Cuts, histogram: Histogram | None) -> list[int]:
    """Return the number of rows of each split key, counted if the policy has not."""
    counts: dict[int, int] = {}
    if histogram is not None:
        counts = dict(zip(histogram.keys.tolist(), histogram.counts.tolist(), strict=True))
    if any(key not in counts for key in cuts.hashes.tolist()):
        name = fresh_name(df, "key")
        index = df.withColumn(name, index_of(keys, cuts.hashes))
        counted = index.where(F.col(name) >= 0).groupBy(name).count().collect()
        counts = {int(cuts.hashes[row[0]]): row[1] for row in counted}
    return [counts.get(key, 0) for key in cuts.hashes.tolist()]


def part_of(
    df: DataFrame, order: Sequence[SortKey], bounds: list[list[str]], index: Column
) -> Column:
    """Return the part of each row, int: the number of its key's bounds that it comes after.

    Parameters
    ----------
    df
        The frame, for the types of the order's columns.
    order
        What the ranges are of.
    bounds
        Of `find_bounds`.
    index
        Place of the row's key in `bounds`, int; -1 for other keys.
    """
    kinds = {field.name: field.dataType for field in df.schema.fields}
    bound = StructType([StructField(f"o{i}", kinds[key.name]) for i, key in enumerate(order)])
    text = "[" + ",".join("[" + ",".join(of_key) + "]" for of_key in bounds) + "]"
    every = F.from_json(F.lit(text), ArrayType(ArrayType(bound)))
    passed = F.filter(F.get(every, index), lambda at: _after(order, at))
    return F.when(index >= 0, F.size(passed)).otherwise(0)


def _after(order: Sequence[SortKey], bound: Column) -> Column:
    """Say whether the row comes strictly after the bound, as a sort would have it."""
    found = F.lit(False)
    for i in reversed(range(len(order))):
        key = order[i]
        row, at = F.col(quoted(key.name)), bound.getField(f"o{i}")
        beyond = row > at if key.ascending else row < at
        if key.nulls_first:
            later = row.isNotNull() & (at.isNull() | beyond)
        else:
            later = at.isNotNull() & (row.isNull() | beyond)
        found = later | (row.eqNullSafe(at) & found)
    return found
