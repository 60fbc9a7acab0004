"""The split keys of a routing in a frame: which of them a row belongs to, and which worker has a part.

A verb that cuts a key by something else than a salt (the order of its rows, counted slots) asks these
expressions for the worker of a part, and leaves all other keys to the routing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from skewless.routing import Routing
from skewless.spark.expressions import routing_column, sql_array
from skewless.spark.keys import KeyColumns
from skewless.spark.whole import whole_of

__all__ = ["hash_in", "index_of", "part_worker"]


def hash_in(keys: KeyColumns, hashes: NDArray[np.uint64]) -> Column:
    """Say of each row whether its key is among those with these hashes."""
    if len(hashes) == 0:
        return F.lit(False)
    return F.expr(f"array_contains({sql_array(_signed(hashes), 'bigint')}, {keys.hash_sql})")


def index_of(keys: KeyColumns, hashes: NDArray[np.uint64]) -> Column:
    """Return the place of each row's key among these hashes, int; -1 for all other keys."""
    if len(hashes) == 0:
        return F.lit(-1)
    return F.expr(
        f"cast(array_position({sql_array(_signed(hashes), 'bigint')}, {keys.hash_sql}) as int) - 1"
    )


def part_worker(
    keys: KeyColumns,
    routing: Routing,
    index: Column,
    part: Column,
    workers: Sequence[Sequence[int]],
) -> Column:
    """Return the worker of each row, int: of its part if its key is split, else where the key is whole.

    Parameters
    ----------
    keys
        The key columns.
    routing
        Where all other keys go; its split keys count as whole here.
    index
        Place of the row's key in `workers`, int; -1 for other keys.
    part
        Part of the key, int, from 0.
    workers
        The worker of each part, by key.
    """
    whole = routing_column(whole_of(routing), keys.hash_sql, None)
    if not workers:
        return whole
    starts = [0, *accumulate(len(of_key) for of_key in workers)][:-1]
    start = F.get(F.expr(sql_array(starts, "int")), index)
    every = F.expr(sql_array([worker for of_key in workers for worker in of_key], "int"))
    return F.when(index >= 0, F.get(every, start + part)).otherwise(whole)


def _signed(hashes: NDArray[np.uint64]) -> list[int]:
    listed: list[int] = hashes.view(np.int64).tolist()
    return listed
