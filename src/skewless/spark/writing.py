"""Rows laid out for a writer: files of one size though a partition value is hot, ranges that are even."""

from __future__ import annotations

import heapq
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.errors import ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.parameters import Count, Range, check
from skewless.routing import Routing
from skewless.spark.batch import default_workers, place
from skewless.spark.expressions import sql_array
from skewless.spark.keys import KeyColumns, fresh_name, resolve_keys
from skewless.spark.salt import salt_column
from skewless.spark.sort_order import OrderLike, resolve_order
from skewless.spark.split_keys import index_of, part_worker
from skewless.spark.statistics import gather
from skewless.spark.top_n import batch_only
from skewless.spark.weights import row_bytes

__all__ = [
    "deal_slots",
    "pieces_of",
    "place_pieces",
    "repartition_by_range",
    "repartition_for_write",
]

#: A file may be this much larger than the target before one more is written.
_ROOM = 1.25
#: Heavy values are listed this many at first, and more if all of them turn out to be cut.
_LISTED = 4_096
#: Salts are counted in this many slots per file, as long as all slots together stay few.
_SLOTS_PER_PIECE, _MOST_SLOTS = 64, 65_536


def repartition_for_write(
    df: DataFrame,
    *partition_columns: str,
    target_rows: Annotated[int, Range(1)] | None = None,
    target_bytes: Annotated[int, Range(1)] | None = None,
    workers: Count | None = None,
) -> DataFrame:
    """Return the same rows, laid out so that ``.write.partitionBy(...)`` makes files of one size.

    A partition value above the target is shared out among several writers, a file each; every other
    value has one writer and one file. Use it before a partitioned write that would make either one
    huge file for the hot value or a small file per value and task.

    Parameters
    ----------
    df
        A batch frame.
    *partition_columns
        The columns that ``partitionBy`` will be given.
    target_rows
        Rows of a file. Give this or `target_bytes`.
    target_bytes
        Bytes of a file, as ``weight="bytes"`` estimates rows: data without encoding or compression.
        If your format packs rows to a quarter, ask for four times the size of the file you want.
    workers
        Number of write tasks. Left out, it is ``spark.sql.shuffle.partitions``, or as many as the
        hottest value needs.

    Returns
    -------
    DataFrame
        Columns, types and nullability of `df`; partition i holds the rows of write task i.

    Raises
    ------
    ParameterError
        Neither or both targets are given, one is out of range, or a value needs more files than
        there are `workers` (a task writes one file per value).
    DataError
        The frame is streaming, or a column is missing or cannot be grouped by.

    Notes
    -----
    A value of N rows makes ``ceil(N / (1.25 target))`` files of equal size: between 0.62 and 1.25
    targets where there are several, and at most 1.25 targets where there is one. Pieces of one value
    go to different tasks, heaviest first, each to the emptiest; so tasks are even too.

    Rows of a value are dealt by the salt of `skewless.repartition`: the same on a rerun of the task.
    The salts are counted in slots first, and slots are put together to equal pieces, so files are
    even even if they are small. Where the salt is the hash of the row (behind a shuffle), identical
    rows stay together and can make a file larger. Two small queries run when this is called, the
    second only if a value is cut; the write itself makes one exchange.

    ``maxRecordsPerFile`` and table formats that shuffle rows once more before they write
    (``write.distribution-mode`` of Iceberg, for one) undo this; set them off.

    Examples
    --------
    >>> laid = skewless.repartition_for_write(df, "day", target_rows=1_000_000)  # doctest: +SKIP
    >>> laid.write.partitionBy("day").parquet("events")  # doctest: +SKIP
    """
    verb = "repartition_for_write"
    batch_only(verb, df)
    targets = {"target_rows": target_rows, "target_bytes": target_bytes}
    check(verb, repartition_for_write, workers=workers, **targets)
    if (target_rows is None) == (target_bytes is None):
        raise ParameterError(
            f"{verb}: give one of target_rows and target_bytes, got target_rows={target_rows!r} and "
            f"target_bytes={target_bytes!r}."
        )
    keys = resolve_keys(verb, df, partition_columns)
    target = target_rows if target_bytes is None else target_bytes
    assert target is not None  # noqa: S101 - one of the two is given
    weight = None if target_bytes is None else row_bytes(df)
    n_workers = default_workers(df, workers)
    n_buckets = bucket_count(n_workers)
    counted = _count(df, keys, weight, n_buckets, target)
    pieces = pieces_of(counted.counts, target)
    most = int(pieces.max(initial=1))
    if workers is not None and most > workers:
        raise ParameterError(
            f"{verb}: workers={workers}, but the heaviest value ({counted.counts[0]} of "
            f"{'rows' if weight is None else 'bytes'}) makes {most} files of the target {target}, and "
            f"a task writes one file per value; give workers={most} or more, or a larger target."
        )
    n_cut = int((pieces > 1).sum())
    n_listed = max(n_cut, min(len(counted), max(2 * n_workers, 64)))
    kept = counted.top(n_listed, n_buckets)
    assert kept.tail is not None  # noqa: S101 - top() always folds one
    n_workers = max(n_workers, most)
    owners, buckets = place_pieces(kept.counts, pieces[:n_listed], kept.tail, n_workers)
    hot = {int(kept.keys[i]): {owners[i][0]: 1.0} for i in range(n_cut, n_listed)}
    routing = Routing(n_workers, hot, buckets)
    worker = _worker(df, keys, routing, kept.keys[:n_cut], owners[:n_cut], weight)
    return place(df, n_workers, worker)


def repartition_by_range(
    df: DataFrame,
    n: Count,
    *columns: str | Column,
    tie_break: OrderLike | None = None,
) -> DataFrame:
    """Return the rows in `n` ranges of the order, even where one value has most of the rows.

    As ``df.repartitionByRange``, which puts all rows of a value into one range. Use it before
    ``sortWithinPartitions`` and a write, or any work on ranges.

    Parameters
    ----------
    df
        A batch frame.
    n
        Number of partitions, at least 1.
    *columns
        What the ranges are of: names, or columns with a direction.
    tie_break
        Columns that order the rows of equal `columns`, so that the parts of a hot value are ranges
        too. Left out, a hot value is dealt to its parts by a salt.

    Returns
    -------
    DataFrame
        Columns, types and nullability of `df`. No row of a partition comes, by `columns` and then
        `tie_break`, after a row of a later partition.

    Raises
    ------
    ParameterError
        `n` is out of range.
    DataError
        The frame is streaming, a column is missing, or cannot be ordered by.

    Notes
    -----
    It is Spark's own range exchange over `columns`, `tie_break` and, last, the salt of
    `skewless.repartition`: a seeded position above a scan, else a hash of the row, by which identical
    rows stay together. Spark samples the frame once to find the bounds, when the result is used.
    Rows of one value of `columns` may lie in several neighbouring partitions: to keep them together is
    what this gives up.

    Examples
    --------
    >>> even = skewless.repartition_by_range(df, 64, "country", tie_break="ts")  # doctest: +SKIP
    """
    verb = "repartition_by_range"
    batch_only(verb, df)
    check(verb, repartition_by_range, n=n)
    order = resolve_order(verb, df, columns)
    if tie_break is not None:
        ties = resolve_order(f"{verb}: tie_break", df, tie_break)
        order += [key for key in ties if key.name not in {known.name for known in order}]
    salt, _ = salt_column(df, 0)
    return df.repartitionByRange(n, *[key.column for key in order], salt.asc())


def pieces_of(weights: NDArray[np.int64], target: int) -> NDArray[np.int64]:
    """Return the number of files of each value, int64.

    Examples
    --------
    >>> pieces_of(np.array([0, 99, 125, 126, 900]), 100).tolist()
    [1, 1, 1, 2, 8]
    """
    return np.maximum(np.ceil(weights / (_ROOM * target)).astype(np.int64), 1)


def place_pieces(
    weights: NDArray[np.int64],
    pieces: NDArray[np.int64],
    tail: NDArray[np.int64],
    n_workers: int,
) -> tuple[list[list[int]], NDArray[np.int64]]:
    """Place every piece, and every bucket of the tail, on the emptiest worker, the heaviest first.

    Parameters
    ----------
    weights
        Weight of each listed value, heaviest first.
    pieces
        Number of pieces of each, at most `n_workers`; pieces of a value go to different workers.
    tail
        Weight of each bucket.
    n_workers
        Number of workers.

    Returns
    -------
    owners : list of list of int
        The workers of each listed value.
    buckets : array of int64
        The worker of each bucket.

    Examples
    --------
    >>> owners, buckets = place_pieces(np.array([90, 10]), np.array([3, 1]), np.array([5, 0, 4]), 4)
    >>> owners, buckets.tolist()
    ([[0, 1, 2], [3]], [3, 3, 3])
    """
    loads = np.zeros(n_workers)
    filled = np.zeros(n_workers, np.int64)  # of equally loaded workers, the one with fewer values
    size = weights / pieces
    owners: list[list[int]] = [[] for _ in weights]
    for i in np.argsort(-size, kind="stable").tolist():
        emptiest = np.lexsort((filled, loads))[: int(pieces[i])]
        owners[i] = emptiest.tolist()
        loads[emptiest] += size[i]
        filled[emptiest] += 1
    buckets = np.zeros(len(tail), np.int64)
    heap = [(load, 0, worker) for worker, load in enumerate(loads.tolist())]
    heapq.heapify(heap)
    for bucket in np.argsort(-tail, kind="stable").tolist():
        load, held, worker = heap[0]
        buckets[bucket] = worker
        heapq.heapreplace(heap, (load + int(tail[bucket]), held + 1, worker))
    return owners, buckets


def deal_slots(weights: NDArray[np.int64], n_pieces: int) -> NDArray[np.int64]:
    """Return the piece of each slot, so that pieces are as even as the slots allow.

    Examples
    --------
    >>> deal_slots(np.array([5, 4, 3, 2, 0, 0]), 2).tolist()
    [0, 1, 1, 0, 0, 1]
    """
    found = np.zeros(len(weights), np.int64)
    heap = [(0, 0, piece) for piece in range(n_pieces)]
    for slot in np.argsort(-weights, kind="stable").tolist():
        load, held, piece = heap[0]
        found[slot] = piece
        heapq.heapreplace(heap, (load + int(weights[slot]), held + 1, piece))
    return found


def _count(
    df: DataFrame, keys: KeyColumns, weight: Column | None, n_buckets: int, target: int
) -> Histogram:
    """Return the weights of the heavy values, every value that is cut among them."""
    n_listed = _LISTED
    while True:
        found = gather(df, keys, n_listed, n_buckets, weight=weight).histogram
        if len(found) < n_listed or found.counts[-1] <= _ROOM * target:
            return found
        n_listed *= 8


def _worker(
    df: DataFrame,
    keys: KeyColumns,
    routing: Routing,
    cut: NDArray[np.uint64],
    owners: list[list[int]],
    weight: Column | None,
) -> Column:
    """Return the write task of each row."""
    if len(cut) == 0:
        return part_worker(keys, routing, F.lit(-1), F.lit(0), [])
    salt, _ = salt_column(df, 0)
    per_piece = max(1, min(_SLOTS_PER_PIECE, _MOST_SLOTS // sum(map(len, owners))))
    sizes = [per_piece * len(of_key) for of_key in owners]
    starts = [0, *np.cumsum(sizes).tolist()]
    index = index_of(keys, cut)

    def slot(index: Column, salt: Column) -> Column:
        size = F.get(F.expr(sql_array(sizes, "int")), index)
        return F.get(F.expr(sql_array(starts, "int")), index) + F.pmod(salt, size).cast("int")

    name, dealt, placed = (fresh_name(df, wanted) for wanted in ("key", "salt", "slot"))
    # A salt that is a position counts all rows in the exchange, so it must do so here: it is a column
    # of its own, since within a condition it would count only the rows that meet it.
    every = df.withColumn(name, index).withColumn(dealt, salt)
    slots = every.where(F.col(name) >= 0).withColumn(placed, slot(F.col(name), F.col(dealt)))
    counts = slots.groupBy(placed).agg(F.sum(F.lit(1) if weight is None else weight).alias("n"))
    weights = np.zeros(starts[-1], np.int64)
    for row in counts.collect():
        weights[row[0]] = row[1]
    pieces = [
        deal_slots(weights[start : start + size], len(of_key))
        for start, size, of_key in zip(starts[:-1], sizes, owners, strict=True)
    ]
    part = F.get(F.expr(sql_array(np.concatenate(pieces).tolist(), "int")), slot(index, salt))
    return part_worker(keys, routing, index, part, owners)
