"""Count the keys of a stream in bounded memory: exactly at first, the lightest by bucket in the end."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram, bucket_of
from skewless.parameters import Count, Range, check
from skewless.sketches import HyperLogLog

__all__ = ["KeyCounter", "Part"]

Weights = NDArray[np.int64] | NDArray[np.float64]

_PENDING = 1_000_000
#: Weights that are no integers are scaled so that their total is about this.
_SCALED_TOTAL = 2.0**40


class Part(NamedTuple):
    """The keys of one batch."""

    keys: NDArray[np.uint64]
    weights: Weights
    first: NDArray[np.int64]
    """Row of the batch that each key occurs in first."""


class KeyCounter:
    """Adds up rows, or weights, by key.

    Parameters
    ----------
    n_buckets : int of at least 1
        Buckets of the histogram's tail.
    max_keys : int of at least 2
        Keys that are counted one by one. When there are more, the lighter half is added to the tail.

    Attributes
    ----------
    rows
        Rows that were added.
    error
        A listed key may weigh more than its count by at most this; 0 while `exact`.
    exact
        Whether every key still has a count of its own.

    Notes
    -----
    16 bytes a key and 8 a bucket, and about as much again while counts are merged. Dropping the lighter
    half forgets at most as much of any key as the heaviest dropped one weighed; `error` adds that up.
    The number of distinct keys is exact while `exact`, and then HyperLogLog's (standard error 1.6 %).

    Examples
    --------
    >>> counter = KeyCounter(16)
    >>> _ = counter.add(np.array([5, 7, 5], np.uint64))
    >>> counter.histogram().counts.tolist(), counter.distinct
    ([2, 1], 2)
    """

    def __init__(self, n_buckets: Count, *, max_keys: Annotated[int, Range(2)] = 4_000_000) -> None:
        check("KeyCounter", KeyCounter.__init__, n_buckets=n_buckets, max_keys=max_keys)
        self._n_buckets, self._max_keys = n_buckets, max_keys
        self._keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._weights: Weights = np.empty(0, np.int64)
        self._pending: list[tuple[NDArray[np.uint64], Weights]] = []
        self._n_pending = 0
        self._tail = np.zeros(n_buckets)
        self._sketch = HyperLogLog()
        self._seen: list[tuple[int, float]] = []
        self.rows = 0
        self.error = 0.0
        self.exact = True

    def add(self, keys: NDArray[np.uint64], weights: Weights | None = None) -> Part:
        """Add a batch of key hashes with their weights, 1 if left out; return it counted."""
        self.rows += len(keys)
        heavy = np.ones(len(keys), np.int64) if weights is None else weights
        part = Part(*_added_up(keys, heavy))
        self._sketch.update(part.keys)
        self._seen.append((self.rows, self._sketch.estimate()))
        self._pending.append(part[:2])
        self._n_pending += len(part.keys)
        if self._n_pending > max(_PENDING, len(self._keys)):
            self._merge()
        return part

    @property
    def distinct(self) -> int:
        """Return the number of distinct keys."""
        self._merge()
        return (
            len(self._keys) if self.exact else max(len(self._keys), round(self._sketch.estimate()))
        )

    @property
    def growth(self) -> float:
        """Return the part by which distinct keys grew in the second half of the rows, estimated."""
        if not self._seen:
            return 0.0
        half = min(self._seen, key=lambda one: abs(one[0] - self.rows / 2))
        return self._seen[-1][1] / half[1] - 1.0 if half[1] > 0 else 0.0

    def histogram(self) -> Histogram:
        """Return the counts; weights that are no integers in equal parts of the whole."""
        self._merge()
        total = float(self._weights.sum()) + float(self._tail.sum())
        scale = _SCALED_TOTAL / total if self._weights.dtype.kind == "f" and total > 0 else 1.0
        counts = self._weights if scale == 1.0 else np.rint(self._weights * scale)
        tail = None if self.exact else np.rint(self._tail * scale).astype(np.int64)
        return Histogram(self._keys, counts.astype(np.int64), tail)

    def _merge(self) -> None:
        if not self._pending:
            return
        keys = np.concatenate([self._keys, *[one[0] for one in self._pending]])
        weights = np.concatenate([self._weights, *[one[1] for one in self._pending]])
        self._pending, self._n_pending = [], 0
        self._keys, self._weights, _ = _added_up(keys, weights)
        if len(self._keys) > self._max_keys:
            self._fold()

    def _fold(self) -> None:
        self.exact = False
        order = np.lexsort((self._keys, -self._weights))
        kept, dropped = np.split(order, [self._max_keys // 2])
        bucket = bucket_of(self._keys[dropped], self._n_buckets)
        self._tail += np.bincount(bucket, self._weights[dropped], self._n_buckets)
        self.error += float(self._weights[dropped].max())
        self._keys, self._weights = self._keys[kept], self._weights[kept]


def _added_up(
    keys: NDArray[np.uint64], weights: Weights
) -> tuple[NDArray[np.uint64], Weights, NDArray[np.int64]]:
    """Return the distinct keys in order, the weight of each, and the row where it comes first."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] ^ np.uint64(1)))
    if not len(starts):
        return keys[:0], weights[:0], order[:0]
    return ordered[starts], np.add.reduceat(weights[order], starts), order[starts]
