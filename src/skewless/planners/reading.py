"""What planners read: the hot keys and buckets of a histogram, and who owns them at present."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.routing import EVERY_WORKER, Routing

__all__ = ["Items", "comparable", "default_hot_keys", "items_of", "owners"]


class Items(NamedTuple):
    """What a planner places: hot keys one by one, all other keys by bucket."""

    keys: NDArray[np.uint64]
    """uint64, (B,): hot keys, heaviest first, none of weight 0."""
    weight: NDArray[np.int64]
    """int64, (B,): weight of each hot key."""
    bucket: NDArray[np.int32]
    """int32, (B,): bucket of each hot key."""
    tail: NDArray[np.int64]
    """int64, (H,): weight of all other keys, by bucket."""


def default_hot_keys(n_workers: int) -> int:
    """Return how many keys are placed one by one if nobody says otherwise.

    Examples
    --------
    >>> default_hot_keys(8), default_hot_keys(64)
    (64, 128)
    """
    return max(2 * n_workers, 64)


def items_of(histogram: Histogram, n_hot: int, n_workers: int, seed: int) -> Items:
    """Return the `n_hot` heaviest keys and the rest by bucket.

    Examples
    --------
    >>> items = items_of(Histogram([5, 7, 9], [10, 60, 30]), 2, 4, 0)
    >>> items.keys.tolist(), items.weight.tolist(), int(items.tail.sum())
    ([7, 9], [60, 30], 10)
    """
    n_buckets = bucket_count(n_workers)
    top = histogram.top(n_hot, n_buckets, seed=seed)
    keys = top.keys[: np.count_nonzero(top.counts)]
    assert top.tail is not None  # noqa: S101 - `top` always gives a tail
    return Items(keys, top.counts[: len(keys)], bucket_of(keys, n_buckets, seed), top.tail)


def comparable(previous: Routing | None, n_workers: int, seed: int) -> Routing | None:
    """Return `previous` if something of it can stay: same workers, same buckets, each with an owner.

    Examples
    --------
    >>> comparable(Routing.hashing(4), 4, 0)
    Routing(4 workers, 0 hot keys in 0 fragments, 2048 buckets)
    >>> comparable(Routing.hashing(4), 5, 0) is None
    True
    """
    if (
        previous is None
        or previous.n_workers != n_workers
        or previous.seed != seed
        or len(previous.buckets) != bucket_count(n_workers)
        or EVERY_WORKER in previous.buckets
    ):
        return None
    return previous


def owners(
    keys: NDArray[np.uint64], bucket: NDArray[np.int32], routing: Routing
) -> NDArray[np.int64]:
    """Return the worker of each key, int64; of a split key, the one with the largest share.

    Examples
    --------
    >>> routing = Routing(4, {7: {0: 0.4, 3: 0.6}})
    >>> owners(np.array([7, 8], np.uint64), np.array([0, 1024], np.int32), routing).tolist()
    [3, 2]
    """
    owner = routing.buckets[bucket].astype(np.int64)
    place = np.searchsorted(routing.keys, keys)
    known = place < len(routing.keys)
    known[known] = routing.keys[place[known]] == keys[known]
    key_of = np.repeat(np.arange(len(routing.keys)), np.diff(routing.offsets))
    order = np.lexsort((routing.workers, -routing.shares, key_of))
    largest = routing.workers[order[routing.offsets[:-1]]]
    owner[known] = largest[place[known]]
    return owner
