"""Copies of the rows next to a part of a key, for functions that look a fixed number of rows away."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from skewless.spark.keys import KeyColumns, fresh_name
from skewless.spark.ranges import Cuts
from skewless.spark.sort_order import SortKey

__all__ = ["with_neighbours"]


def with_neighbours(
    df: DataFrame,
    keys: KeyColumns,
    order: Sequence[SortKey],
    cuts: Cuts,
    index: str,
    worker: str,
    reach: tuple[int, int],
) -> tuple[DataFrame, str]:
    """Return the rows, then copies of those next to each part, and the name of the column that tells.

    Parameters
    ----------
    df
        Rows with their worker (column `worker`) and place among the cut keys (column `index`).
    keys, order, cuts
        The key columns, an order without ties, and the cut keys.
    index, worker
        Names of the two columns.
    reach
        Rows before a part, and rows after it, that the part must see.

    Notes
    -----
    The last rows of a part go to every later part, where only the last of all that came are kept: parts
    with fewer rows than the reach are thereby passed over. Spark limits such a query to a few rows
    per key and task before it shuffles.
    """
    copied = fresh_name(df, "copied")
    rows = df.withColumn(copied, F.lit(False))
    cut = df.where(F.col(index) >= 0)
    before, after = reach
    for n, backwards in ((before, True), (after, False)):
        if n > 0:
            near = _near(cut, keys, order, cuts, index, worker, n, backwards=backwards)
            rows = rows.unionAll(near.withColumn(copied, F.lit(True)))
    return rows, copied


def _near(
    cut: DataFrame,
    keys: KeyColumns,
    order: Sequence[SortKey],
    cuts: Cuts,
    index: str,
    worker: str,
    n: int,
    *,
    backwards: bool,
) -> DataFrame:
    """Return the `n` rows next to each part, on one side of it, located at that part."""
    by = [_reversed(key).column if backwards else key.column for key in order]
    number, target = fresh_name(cut, "number"), fresh_name(cut, "target")

    def nearest(rows: DataFrame, at: str) -> DataFrame:
        window = Window.partitionBy(*keys.columns, F.col(at)).orderBy(*by)
        numbered = rows.withColumn(number, F.row_number().over(window))
        return numbered.where(F.col(number) <= n).drop(number)

    workers = F.from_json(F.lit(json.dumps(cuts.workers)), "array<array<int>>")

    def beyond(other: Column) -> Column:
        return other > F.col(worker) if backwards else other < F.col(worker)

    targets = F.explode(F.filter(F.get(workers, F.col(index)), beyond))
    offered = nearest(cut, worker).withColumn(target, targets)
    return nearest(offered, target).withColumn(worker, F.col(target)).drop(target)


def _reversed(key: SortKey) -> SortKey:
    return SortKey(key.name, not key.ascending, not key.nulls_first)
