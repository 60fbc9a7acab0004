"""How often each key occurs: exact for the heavy keys, by bucket for all the others."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.kernel import kernel, mix, spread

__all__ = ["Histogram", "bucket_count", "bucket_of", "rebucketed", "representatives"]


class Histogram:
    """Counts of a key distribution, heaviest key first.

    Parameters
    ----------
    keys
        Key hashes, uint64, distinct.
    counts
        Tuples (or any non-negative integer weight, such as bytes) of each key, int64.
    tail
        Weight of all the keys that are not in `keys`, per bucket of `bucket_of`; ``None`` if the
        list of keys is complete.
    seed
        Seed of the bucket hash; must be the seed of the policy that uses the histogram.

    Notes
    -----
    Keys of equal weight are ordered by hash, so that a histogram is a function of the data alone.

    Examples
    --------
    >>> h = Histogram([5, 7, 9], [10, 60, 30])
    >>> h.keys.tolist(), h.counts.tolist(), h.total
    ([7, 9, 5], [60, 30, 10], 100)
    >>> h.top(1, n_buckets=4).tail.sum()
    np.int64(40)
    """

    __slots__ = ("counts", "keys", "seed", "tail", "total")

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    tail: NDArray[np.int64] | None
    seed: int
    total: int

    def __init__(
        self, keys: ArrayLike, counts: ArrayLike, tail: ArrayLike | None = None, *, seed: int = 0
    ) -> None:
        hashes = Chunk(None, keys).key
        weights = np.asarray(counts)
        if weights.size == 0:
            weights = np.empty(0, np.int64)
        if weights.dtype.kind not in "iu" or len(weights) != len(hashes):
            raise DataError(
                f"Histogram: counts must hold one integer per key, got {weights.dtype} of length "
                f"{len(weights)} for {len(hashes)} keys."
            )
        weights = weights.astype(np.int64)
        if len(weights) and int(weights.min()) < 0:
            raise DataError(f"Histogram: counts must not be negative, got {int(weights.min())}.")
        order = np.lexsort((hashes, -weights))
        self.keys, self.counts = hashes[order], weights[order]
        if len(np.unique(hashes)) != len(hashes):
            raise DataError("Histogram: a key is listed twice; add its counts up first.")
        self.tail = None if tail is None else np.asarray(tail, np.int64)
        self.seed = seed
        self.total = int(weights.sum()) + (0 if self.tail is None else int(self.tail.sum()))

    @classmethod
    def of(cls, source: Histogram | Mapping[int, int] | Chunk | ArrayLike) -> Histogram:
        """Count a chunk or an array of key hashes; take a mapping ``{hash: count}`` as it is.

        Examples
        --------
        >>> Histogram.of([3, 3, 8]).counts.tolist()
        [2, 1]
        """
        if isinstance(source, Histogram):
            return source
        if isinstance(source, Mapping):
            keys = np.fromiter(source.keys(), np.uint64, len(source))
            return cls(keys, np.fromiter(source.values(), np.int64, len(source)))
        key = source.key if isinstance(source, Chunk) else Chunk(None, source).key
        keys, counts = np.unique(key, return_counts=True)
        return cls(keys, counts)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        tail = 0 if self.tail is None else int(self.tail.sum())
        return f"Histogram({len(self)} keys, {self.total - tail} + {tail} in the tail)"

    def top(self, n_keys: int, n_buckets: int, *, seed: int | None = None) -> Histogram:
        """Keep the `n_keys` heaviest keys and fold all others into `n_buckets` bucket totals."""
        seed = self.seed if seed is None else seed
        if self.tail is not None and (len(self.tail) != n_buckets or self.seed != seed):
            raise DataError(
                f"Histogram: its tail has {len(self.tail)} buckets with seed {self.seed} and cannot "
                f"be read as {n_buckets} buckets with seed {seed}; gather it anew."
            )
        rest = bucket_of(self.keys[n_keys:], n_buckets, seed)
        tail = np.bincount(rest, self.counts[n_keys:], n_buckets).astype(np.int64)
        if self.tail is not None:
            tail += self.tail
        top = Histogram.__new__(Histogram)  # what is sorted and distinct needs no second look
        top.keys, top.counts = self.keys[:n_keys].copy(), self.counts[:n_keys].copy()
        top.tail, top.seed, top.total = tail, seed, self.total
        return top

    def plus(self, other: Histogram, scale: float = 1.0) -> Histogram:
        """Return the counts of both, those of `other` times `scale`, rounded to the same total.

        A key that only one of them lists keeps in the tail what the other counted there.

        Raises
        ------
        DataError
            The tails are not of the same buckets.

        Examples
        --------
        >>> both = Histogram([5, 7], [1, 9]).plus(Histogram([7, 8], [20, 2]), 0.5)
        >>> both.keys.tolist(), both.counts.tolist()
        ([7, 5, 8], [19, 1, 1])
        """
        tail = self.tail
        if other.tail is not None:
            added = _scaled(other.tail, scale)
            if tail is not None and (len(tail) != len(added) or self.seed != other.seed):
                raise DataError(
                    f"Histogram: a tail of {len(tail)} buckets with seed {self.seed} cannot be added "
                    f"to one of {len(added)} with seed {other.seed}; gather them alike."
                )
            tail = added if tail is None else tail + added
        keys, place = np.unique(np.concatenate((self.keys, other.keys)), return_inverse=True)
        counts = np.zeros(len(keys), np.int64)
        counts[place[: len(self)]] = self.counts
        counts[place[len(self) :]] += _scaled(other.counts, scale)
        seed = self.seed if self.tail is not None else other.seed
        return Histogram(keys, counts, tail, seed=seed)

    def interleaved(self, n_tuples: int) -> NDArray[np.uint64]:
        """Return about `n_tuples` keys in the proportions of the histogram, evenly interleaved.

        Each bucket of the tail is played by one key that falls into it (`representatives`). A key's
        occurrences are equally spaced, starting at a phase of its own; keys lighter than half a
        tuple take part with a probability-free rounding of the running total, so that the tail
        keeps its weight.
        """
        keys, counts = self.keys, self.counts
        if self.tail is not None:
            keys = np.concatenate((keys, representatives(len(self.tail), self.seed)))
            counts = np.concatenate((counts, self.tail))
        if self.total == 0:
            return np.empty(0, np.uint64)
        edges = np.floor(np.cumsum(counts) * (min(n_tuples, self.total) / self.total) + 0.5)
        copies = np.diff(edges, prepend=0.0).astype(np.int64)
        who = np.repeat(np.arange(len(keys)), copies)
        nth = np.arange(len(who)) - np.repeat(np.cumsum(copies) - copies, copies)
        phase = (np.arange(len(keys)) * 0.6180339887498949 + 0.5) % 1.0
        order = np.argsort((nth + phase[who]) / copies[who], kind="stable")
        return keys[who[order]]


def _scaled(counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Return whole counts whose running total is that of ``counts * scale`` to the nearest one."""
    edges = np.floor(np.cumsum(counts) * scale + 0.5)
    return np.diff(edges, prepend=0.0).astype(np.int64)


def bucket_count(n_workers: int) -> int:
    """Return the number of buckets of the tail: a multiple of `n_workers`, at least 16 for each.

    A multiple makes plain hashing the special case in which every worker owns a run of buckets.

    Examples
    --------
    >>> bucket_count(8), bucket_count(60), bucket_count(1024)
    (2048, 2100, 16384)
    """
    return n_workers * max(16, -(-2048 // n_workers))


def bucket_of(keys: ArrayLike, n_buckets: int, seed: int = 0) -> NDArray[np.int32]:
    """Return the bucket of each key hash, int32 in ``[0, n_buckets)``."""
    hashes = Chunk(None, keys).key
    out = np.empty(len(hashes), np.int32)
    _bucket_of(hashes, np.uint64(n_buckets), np.uint64(seed), out)
    return out


def rebucketed(histogram: Histogram, n_buckets: int, seed: int) -> Histogram:
    """Return the histogram with its tail in other buckets, each spread evenly over its hashes.

    Under another seed the buckets have nothing in common, and the tail is spread over all of them.

    Examples
    --------
    >>> rebucketed(Histogram([7], [5], [4, 0, 0, 2]), 2, 0).tail.tolist()
    [4, 2]
    """
    tail = histogram.tail
    if tail is None or (len(tail) == n_buckets and histogram.seed == seed):
        return histogram
    upto = np.concatenate(([0.0], np.cumsum(tail)))
    old = np.arange(len(tail) + 1) / len(tail)
    if histogram.seed != seed:
        upto, old = np.array([0.0, upto[-1]]), np.array([0.0, 1.0])
    edges = np.interp(np.arange(n_buckets + 1) / n_buckets, old, upto)
    fresh = np.diff(np.floor(edges + 0.5)).astype(np.int64)
    return Histogram(histogram.keys, histogram.counts, fresh, seed=seed)


@functools.lru_cache(maxsize=16)
def representatives(n_buckets: int, seed: int = 0) -> NDArray[np.uint64]:
    """Return one key hash for each bucket, the smallest positive integer that falls into it."""
    found = np.zeros(n_buckets, np.uint64)
    start, step = 1, max(1024, 16 * n_buckets)
    while not found.all():
        keys = np.arange(start, start + step, dtype=np.uint64)
        buckets, first = np.unique(bucket_of(keys, n_buckets, seed), return_index=True)
        fresh = found[buckets] == 0
        found[buckets[fresh]] = keys[first[fresh]]
        start += step
    found.flags.writeable = False
    return found


@kernel
def _bucket_of(
    keys: NDArray[np.uint64], n_buckets: np.uint64, seed: np.uint64, out: NDArray[np.int32]
) -> None:
    for i in range(len(keys)):
        out[i] = spread(mix(keys[i], seed), n_buckets)
