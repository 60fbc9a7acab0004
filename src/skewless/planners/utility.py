"""What Gedik's three planners weigh against each other: imbalance and migration.

B. Gedik: Partitioning functions for stateful data parallelism in stream processing, VLDB Journal
23(4), 2014. Memory, processing and communication of a key of weight f are taken as f, f * f and f.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram, bucket_of
from skewless.kernel import kernel
from skewless.planners.reading import comparable, items_of, owners
from skewless.routing import Routing

__all__ = ["Tracked", "imbalance", "lowest_two", "track"]


class Tracked(NamedTuple):
    """The keys that are placed one by one, and what moving them costs."""

    keys: NDArray[np.uint64]
    """uint64, (B,): hash of each key, heaviest first."""
    weight: NDArray[np.float64]
    """float64, (B,): weight of each key (f)."""
    worker: NDArray[np.int64]
    """int64, (B,): the key's worker at present (p)."""
    dropped: float
    """Weight of the keys that are no longer tracked and must go back to their hash (m0)."""
    mean: float
    """Mean weight per worker of all keys that are or were tracked (the unit of migration)."""


def track(
    histogram: Histogram, previous: Routing | None, n_hot: int, n_workers: int, seed: int
) -> Tracked:
    """Return the `n_hot` heaviest keys, their present workers, and the migration that is due anyway.

    Examples
    --------
    >>> tracked = track(Histogram([5, 7, 9], [10, 60, 30]), None, 2, 4, 0)
    >>> tracked.weight.tolist(), tracked.dropped, tracked.mean
    ([60.0, 30.0], 0.0, 22.5)
    """
    hashing = Routing.hashing(n_workers, seed=seed)
    routing = comparable(previous, n_workers, seed) or hashing
    items = items_of(histogram, n_hot, n_workers, seed)
    weight = items.weight.astype(np.float64)
    gone = np.setdiff1d(routing.keys, items.keys, assume_unique=True)
    bucket = bucket_of(gone, len(routing.buckets), seed)
    leaves = owners(gone, bucket, routing) != hashing.buckets[bucket]
    place = np.searchsorted(gone, histogram.keys)
    known = place < len(gone)
    known[known] = gone[place[known]] == histogram.keys[known]
    old = np.zeros(len(gone))
    old[place[known]] = histogram.counts[known]
    return Tracked(
        items.keys,
        weight,
        owners(items.keys, items.bucket, routing),
        float(old[leaves].sum()),
        float(weight.sum() + old.sum()) / n_workers,
    )


@kernel
def lowest_two(load: NDArray[np.float64]) -> tuple[int, float, float]:
    """Return the first worker with the lowest load, that load, and the lowest of all others."""
    at = 0
    second = np.inf
    for w in range(1, len(load)):
        if load[w] < load[at]:
            second = load[at]
            at = w
        elif load[w] < second:
            second = load[w]
    return at, load[at], second


@kernel
def imbalance(
    size_range: float, cost_range: float, size_mean: float, cost_mean: float, theta: float
) -> float:
    """Return rho: the geometric mean of the relative ranges, each over its allowance theta.

    Memory and communication have the same loads, the sizes; processing has its own, the costs.
    """
    size = size_range / (theta * size_mean)
    cost = cost_range / (theta * cost_mean)
    product: float = size * cost * size
    return product ** (1.0 / 3.0)
