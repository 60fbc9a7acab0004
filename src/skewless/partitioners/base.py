"""The shape of a partitioner, and how its decisions are condensed to a routing."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.histogram import Histogram, bucket_count, bucket_of, representatives
from skewless.policy import Policy
from skewless.routing import Routing

__all__ = ["Partitioner"]


class Partitioner(Policy):
    """Decides tuple by tuple; remembers what it needs in `state`, a NamedTuple of arrays."""

    state: NamedTuple
    _clock: int = 0

    @abc.abstractmethod
    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32 in ``[0, n_workers)``, one per tuple."""

    @property
    def state_bytes(self) -> int:
        """Bytes that the state holds now."""
        return _bytes(self.state)

    @abc.abstractmethod
    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the bytes that the state can hold after tuples of `n_keys` distinct keys."""

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Condense: route an even interleaving of the counts, and keep each key's shares.

        The partitioner goes on from where it was: what it learned from earlier histograms stays. The
        ``max(2 n_workers, 64)`` heaviest keys get shares of their own; every bucket of the tail goes
        where the key that represents it went most often.
        """
        n_hot = max(2 * self.n_workers, 64)
        condensed = histogram.top(n_hot, bucket_count(self.n_workers), seed=self.seed)
        keys = condensed.interleaved(100_000 + 1_000 * self.n_workers)
        workers = self._settled(keys)
        return _condense(self.n_workers, self.seed, condensed, keys, workers)

    def _settled(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Route the sample and return the decisions that count for the shares."""
        return self.route(self._next(keys))

    def _next(self, keys: NDArray[np.uint64]) -> Chunk:
        chunk = Chunk(np.arange(self._clock, self._clock + len(keys), dtype=np.int64), keys)
        self._clock += len(keys)
        return chunk


def _bytes(part: tuple[Any, ...]) -> int:
    return sum(_bytes(each) if isinstance(each, tuple) else each.nbytes for each in part)


def _condense(
    n_workers: int,
    seed: int,
    histogram: Histogram,
    keys: NDArray[np.uint64],
    workers: NDArray[np.int32],
) -> Routing:
    plain = Routing.hashing(n_workers, seed=seed)
    owners = plain.buckets.astype(np.int64)
    players = representatives(len(owners), seed)
    ids = np.concatenate((histogram.keys, players))
    order = np.argsort(ids, kind="stable")
    who = order[np.searchsorted(ids, keys, sorter=order)]
    pairs, counts = np.unique(who * np.int64(n_workers) + workers, return_counts=True)
    key_of, worker_of = np.divmod(pairs, n_workers)
    hot: dict[int, dict[int, float]] = {}
    best = np.zeros(len(owners), np.int64)
    for row, worker, count in zip(
        key_of.tolist(), worker_of.tolist(), counts.tolist(), strict=True
    ):
        if row < len(histogram):
            hot.setdefault(int(ids[row]), {})[worker] = count
        elif count > best[row - len(histogram)]:
            best[row - len(histogram)] = count
            owners[row - len(histogram)] = worker
    at_home = owners[bucket_of(histogram.keys, len(owners), seed)]
    for key, home in zip(histogram.keys.tolist(), at_home.tolist(), strict=True):
        if list(hot.get(key, ())) == [home]:
            del hot[key]
    return Routing(n_workers, hot, owners, seed=seed)
