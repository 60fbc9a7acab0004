"""The keys of one task, counted where its rows are: the histogram that a worker sends to the driver.

Python workers load this module: it needs numpy and Arrow and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["TaskCounts", "counting"]

#: Rows that are held before they are counted.
_HELD = 131_072


class TaskCounts:
    """Weights by key of the rows of a task.

    Parameters
    ----------
    n_buckets
        Buckets that keys which are not listed are folded into.

    Notes
    -----
    Exact. State: 24 bytes for each distinct key of the task, and the rows held.

    Examples
    --------
    >>> counts = TaskCounts(2)
    >>> columns = [np.array([7, 5, 7]), np.array([0, 1, 0], np.int32), np.array([1, 1, 1])]
    >>> counts.add(*columns)
    >>> counts.listed(1)
    (3, [7], [2], [0, 1])
    """

    def __init__(self, n_buckets: int) -> None:
        self._n_buckets = n_buckets
        self._rows = 0
        self._pending: list[tuple[NDArray[Any], ...]] = []
        self._n_pending = 0
        self._n_counted = 0

    def add(
        self, keys: NDArray[np.int64], buckets: NDArray[np.int32], weights: NDArray[Any]
    ) -> None:
        """Count rows: key hash, bucket and weight of each."""
        self._rows += len(keys)
        self._pending.append((keys, buckets, weights))
        self._n_pending += len(keys)
        if self._n_pending >= _HELD + 2 * self._n_counted:
            self._fold()

    def listed(self, n_keys: int) -> tuple[int, list[Any], list[Any], list[Any]]:
        """Return the rows, the heaviest keys and their weights, and the others' weights by bucket."""
        if not self._pending:
            return 0, [], [], [0] * self._n_buckets
        keys, buckets, weights = self._fold()
        order = np.lexsort((keys.view(np.uint64), -weights))
        top, rest = order[:n_keys], order[n_keys:]
        tail = np.zeros(self._n_buckets, weights.dtype)
        np.add.at(tail, buckets[rest], weights[rest])
        return self._rows, keys[top].tolist(), weights[top].tolist(), tail.tolist()

    def _fold(self) -> tuple[NDArray[Any], ...]:
        keys, buckets, weights = (np.concatenate(c) for c in zip(*self._pending, strict=True))
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))[: len(keys)]
        sums = np.add.reduceat(weights[order], first) if len(keys) else weights
        folded = (keys[first], buckets[order][first], sums)
        self._pending = [folded]
        self._n_pending = self._n_counted = len(first)
        return folded


def counting(
    n_keys: int, n_buckets: int, *, whole: bool = True
) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow``: from a task's batches to its counts, one row.

    Parameters
    ----------
    n_keys
        Keys to list one by one.
    n_buckets
        Buckets of all others.
    whole
        Whether weights are int64; float64 if not.

    Examples
    --------
    >>> batch = pa.RecordBatch.from_pydict({"key": [4, 4], "bucket": [0, 0], "weight": [1, 2]})
    >>> [found] = counting(1, 2)(iter([batch]))
    >>> found.to_pylist()
    [{'rows': 2, 'keys': [4], 'weights': [3], 'tail': [0, 0]}]
    """

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts, kind = TaskCounts(n_buckets), pa.int64() if whole else pa.float64()
        for batch in batches:
            if batch.num_rows:
                counts.add(*(column.to_numpy() for column in batch.columns))
        rows, keys, weights, tail = counts.listed(n_keys)
        columns = [
            pa.array([rows], pa.int64()),
            pa.array([keys], pa.list_(pa.int64())),
            pa.array([weights], pa.list_(kind)),
            pa.array([tail], pa.list_(kind)),
        ]
        yield pa.RecordBatch.from_arrays(columns, ["rows", "keys", "weights", "tail"])

    return counted
